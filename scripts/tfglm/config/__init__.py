"""The config and the layouts: the one source of their defaults, their documentation and their JSON schema.

A file a section; beside them `files` (strict YAML), `inputs` (the input files), `schema` and `messages` (what a key must be,
and what is wrong with it, in words).
The Snakefile imports this package at every start: pydantic, PyYAML and the standard library only.
"""

from tfglm.config.base import Section
from tfglm.config.data import FILE, RANDOM, SPLITS, LevelsConfig, SelectionConfig, SourceConfig
from tfglm.config.inputs import InputFile, expand_files, fetched, secret_addresses
from tfglm.config.layouts import Layout, LayoutColumn, columns_from, load_layout, load_layouts, shipped_layouts
from tfglm.config.models import (
    DesignConfig,
    ModelConfig,
    PathConfig,
    PredictionConfig,
    ResultsConfig,
    RowsConfig,
)
from tfglm.config.networks import LayersConfig, NetworkConfig, OptimizerConfig, TrainingConfig
from tfglm.config.root import Config, load, settings_to_score
from tfglm.config.settings import add_settings
from tfglm.config.solvers import OnlineConfig, SolverConfig

__all__ = [
    "FILE",
    "RANDOM",
    "SPLITS",
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
    "TrainingConfig",
    "add_settings",
    "columns_from",
    "expand_files",
    "fetched",
    "load",
    "load_layout",
    "load_layouts",
    "secret_addresses",
    "settings_to_score",
    "shipped_layouts",
]
