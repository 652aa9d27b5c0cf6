"""The config and the layouts: the single source of defaults, documentation and JSON schema.

Each section of the config has a file. `files` reads strict YAML, `inputs` finds the input files, `schema` says what a key
must be, and `messages` says in words what is wrong with it. The Snakefile imports this package at every start, so it needs
only pydantic, PyYAML and the standard library. A job uses one or two sections, so a file is imported when one of its names is
first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfglm.config.base import Section, add_settings
    from tfglm.config.cluster import strategy_for
    from tfglm.config.code import check_functions, located_code
    from tfglm.config.collapse import CollapseConfig, collapse_of
    from tfglm.config.columns import column_problems, offered_columns
    from tfglm.config.data import FILE, RANDOM, SPLITS, LevelsConfig, SelectionConfig, SourceConfig
    from tfglm.config.inputs import InputFile, expand_files, fetched, secret_addresses, small_files_together
    from tfglm.config.layouts import (
        Dialect,
        Layout,
        LayoutColumn,
        columns_from,
        how_values_are_read,
        load_layout,
        load_layouts,
        shipped_layouts,
        times_in,
        words_of_columns,
    )
    from tfglm.config.messages import from_keywords, in_file
    from tfglm.config.models import DesignConfig, ModelConfig, PathConfig, PredictionConfig, ResultsConfig, RowsConfig
    from tfglm.config.networks import LayersConfig, NetworkConfig, TrainingConfig
    from tfglm.config.optimizers import OptimizerConfig
    from tfglm.config.root import Config, folder_of_results, load, sections_of, settings_to_score
    from tfglm.config.solvers import OnlineConfig, SolverConfig
    from tfglm.config.tables import TablesConfig

FILES = {
    "base": ("Section", "add_settings"),
    "cluster": ("strategy_for",),
    "code": ("check_functions", "located_code"),
    "collapse": ("CollapseConfig", "collapse_of"),
    "columns": ("column_problems", "offered_columns"),
    "data": ("FILE", "RANDOM", "SPLITS", "LevelsConfig", "SelectionConfig", "SourceConfig"),
    "inputs": ("InputFile", "expand_files", "fetched", "secret_addresses", "small_files_together"),
    "layouts": (
        "Dialect",
        "Layout",
        "LayoutColumn",
        "columns_from",
        "how_values_are_read",
        "load_layout",
        "load_layouts",
        "shipped_layouts",
        "times_in",
        "words_of_columns",
    ),
    "messages": ("from_keywords", "in_file"),
    "models": ("DesignConfig", "ModelConfig", "PathConfig", "PredictionConfig", "ResultsConfig", "RowsConfig"),
    "networks": ("LayersConfig", "NetworkConfig", "TrainingConfig"),
    "optimizers": ("OptimizerConfig",),
    "root": ("Config", "folder_of_results", "load", "sections_of", "settings_to_score"),
    "solvers": ("OnlineConfig", "SolverConfig"),
    "tables": ("TablesConfig",),
}
"""The names that each file defines."""


def __getattr__(name: str) -> Any:
    for file, names in FILES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{file}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
