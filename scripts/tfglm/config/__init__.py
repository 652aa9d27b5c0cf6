"""The config and the layouts: the one source of their defaults, their documentation and their JSON schema.

A file a section; beside them `files` (strict YAML), `inputs` (the input files), `schema` and `messages` (what a key must be,
and what is wrong with it, in words).
The Snakefile imports this package at every start: pydantic, PyYAML and the standard library only.
"""

from tfglm.config.base import Section
from tfglm.config.collapse import CollapseConfig, collapse_of
from tfglm.config.columns import column_problems, offered_columns
from tfglm.config.data import FILE, RANDOM, SPLITS, LevelsConfig, SelectionConfig, SourceConfig
from tfglm.config.inputs import InputFile, expand_files, fetched, secret_addresses
from tfglm.config.layouts import (
    Layout,
    LayoutColumn,
    columns_from,
    coordinate_files,
    load_layout,
    load_layouts,
    shipped_layouts,
    words_of_columns,
)
from tfglm.config.messages import in_file
from tfglm.config.models import (
    DesignConfig,
    ModelConfig,
    PathConfig,
    PredictionConfig,
    ResultsConfig,
    RowsConfig,
)
from tfglm.config.networks import LayersConfig, NetworkConfig, OptimizerConfig, TrainingConfig
from tfglm.config.root import Config, load, sections_of, settings_to_score
from tfglm.config.settings import add_settings
from tfglm.config.solvers import OnlineConfig, SolverConfig
from tfglm.config.tables import TablesConfig

__all__ = [
    "FILE",
    "RANDOM",
    "SPLITS",
    "CollapseConfig",
    "Config",
    "DesignConfig",
    "InputFile",
    "LayersConfig",
    "Layout",
    "LayoutColumn",
    "LevelsConfig",
    "ModelConfig",
    "NetworkConfig",
    "OnlineConfig",
    "OptimizerConfig",
    "PathConfig",
    "PredictionConfig",
    "ResultsConfig",
    "RowsConfig",
    "Section",
    "SelectionConfig",
    "SolverConfig",
    "SourceConfig",
    "TablesConfig",
    "TrainingConfig",
    "add_settings",
    "collapse_of",
    "column_problems",
    "columns_from",
    "coordinate_files",
    "expand_files",
    "fetched",
    "in_file",
    "load",
    "load_layout",
    "load_layouts",
    "offered_columns",
    "secret_addresses",
    "sections_of",
    "settings_to_score",
    "shipped_layouts",
    "words_of_columns",
]
