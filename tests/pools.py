"""Pools for tests that need no cluster, and the whole way from a CSV file to a table in one process."""

from pathlib import Path

import pandas as pd
import tensorflow as tf

from tfglm.config import DesignConfig, Layout, SelectionConfig
from tfglm.data.dictionary import Dictionary, merge
from tfglm.data.ingest import ingest
from tfglm.data.shards import IngestedFile
from tfglm.fit import newton
from tfglm.model.design import Design, design
from tfglm.model.fitted import Fitted
from tfglm.model.workload import Workload
from tfglm.results import coefficients

# As the chief does; see cluster.pool.
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


class InProcessPool:
    """`cluster.pool.Pool` without the cluster: the same sum in the same order."""

    def sum(self, pass_, calls, state):
        total = None
        for call in calls:
            part = pass_(state, *map(tf.constant, call)).numpy()
            total = part if total is None else total + part
        return total


TYPES = {"i": "integer", "f": "number", "b": "integer"}


def layout_of(frame: pd.DataFrame) -> Layout:
    """A layout for a CSV file written from this frame."""
    columns = {name: TYPES.get(dtype.kind, "string") for name, dtype in frame.dtypes.items()}
    return Layout.model_validate({"columns": columns})


def ingest_frame(frame: pd.DataFrame, folder: Path, name: str = "table", **selection) -> IngestedFile:
    """Write the frame as CSV and ingest it; by default all rows train and all columns are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.csv"
    frame.to_csv(source, index=False)
    settings = {"split": {"train": "TRUE"}, "columns": list(frame.columns)} | selection
    ingest(source, name, {"frame": layout_of(frame)}, SelectionConfig.model_validate(settings), folder / name)
    return IngestedFile.load(folder / name / "manifest.json")


def design_of(
    formula: str, family: str, dictionary: Dictionary, files=(), known_late: list[str] | None = None, **settings
) -> Design:
    """The design of a model called m."""
    return design("m", DesignConfig(formula=formula, family=family, **settings), dictionary, files, known_late or [])


def fit_files(
    files: list[IngestedFile],
    formula: str,
    family: str,
    missing: dict[str, str] | None = None,
    rare: dict[str, int] | None = None,
    tell=lambda message: None,
    **settings,
) -> tuple[Design, Fitted, Dictionary]:
    """Fit one model to ingested files in this process; `settings` are other keys of the model."""
    dictionary = merge(files, missing, rare)
    made = design_of(formula, family, dictionary, files, **settings)
    fitted = newton.fit(Workload(made, files, "train"), InProcessPool(), 50, tell)
    return made, fitted, dictionary


def fit_frame(frame: pd.DataFrame, formula: str, family: str, folder: Path, **settings) -> tuple[Design, Fitted]:
    made, fitted, _ = fit_files([ingest_frame(frame, folder)], formula, family, **settings)
    return made, fitted


def estimates_of(made: Design, fitted: Fitted, reference: dict[str, str] | None = None) -> coefficients.Estimates:
    return coefficients.estimates(made, fitted, reference or {}, fitted.summary["df_residual"])


def table_of(made: Design, fitted: Fitted, reference: dict[str, str] | None = None) -> pd.DataFrame:
    """The coefficient table, indexed by term and level."""
    table = coefficients.table(estimates_of(made, fitted, reference), 0.95)
    return table.set_index(["term", "level"])
