"""Fits without a cluster: the whole way from a CSV file to a table in one process."""

from pathlib import Path
from typing import Literal

import pandas as pd

from tfglm import checkpoint, digests, provenance
from tfglm.config import DesignConfig, Layout, ResultsConfig, SelectionConfig, SolverConfig
from tfglm.data.dictionary import Dictionary, merge
from tfglm.data.ingest import ingest
from tfglm.data.limits import DEFAULT_LIMITS, IngestLimits
from tfglm.data.shards import IngestedFile
from tfglm.design.build import build_design
from tfglm.design.design import Design
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.inference.fitted import Fitted
from tfglm.inference.reference import FEWEST, Fewest
from tfglm.results import coefficients, csv_files, joint, predict
from tfglm.results.estimates import Estimates, estimated
from tfglm.results.marginal_tables import Averaged, Margins, marginal_tables
from tfglm.results.margins import LARGEST, Largest
from tfglm.results.margins import average_rows as averages_of_rows
from tfglm.solvers.fit import fit
from tfglm.solvers.run import Limits, Reporter, Run

CR1 = Limits(largest_cr2=0)
"""Standard errors by cluster as statsmodels has them; CR2 is compared in test_clustered."""


class Remembering(LocalExecutor):
    """Has what a journal would have been given, as `remembered`."""

    kept = "memory"

    def __init__(self, workers: int = 1):
        super().__init__(workers)
        self.remembered = []

    def remember(self, question, make):
        self.remembered.append(make())
        return self.remembered[-1]


TYPES = {"i": "integer", "f": "number", "b": "integer"}


def layout_of(frame: pd.DataFrame) -> Layout:
    """A layout for a CSV file written from this frame."""
    columns = {name: TYPES.get(dtype.kind, "string") for name, dtype in frame.dtypes.items()}
    return Layout.model_validate({"columns": columns})


def ingest_frame(
    frame: pd.DataFrame, folder: Path, name: str = "table", limits: IngestLimits = DEFAULT_LIMITS, **selection
) -> IngestedFile:
    """Write the frame as CSV and ingest it; by default all rows train and all columns are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.csv"
    frame.to_csv(source, index=False)
    settings = {"split": {"train": "TRUE"}, "columns": list(frame.columns)} | selection
    layouts, settings = {"frame": layout_of(frame)}, SelectionConfig.model_validate(settings)
    ingest(source, name, layouts, settings, folder / name, limits=limits)
    return IngestedFile.load(folder / name / "manifest.json")


def to_predict(frame: pd.DataFrame, folder: Path, name: str = "table") -> IngestedFile:
    """The frame, ingested as rows to predict."""
    return ingest_frame(frame, folder, name, split={"train": "FALSE", "predict": "TRUE"})


def predicted(design: Design, fitted: Fitted, file: IngestedFile, *more: object) -> pd.DataFrame:
    """The predictions of the rows to predict of a file, in its order; `more` goes to `predict.predictions`."""
    tables = predict.predictions(design, fitted, file, {}, [], 0.95, *more)
    return pd.concat([table.to_pandas() for table in tables]).sort_values("row", ignore_index=True)


def design_of(
    formula: str,
    family: str,
    dictionary: Dictionary,
    files=(),
    known_late: list[str] | None = None,
    section: Literal["models", "networks"] = "models",
    **settings,
) -> Design:
    """The design of a model called m."""
    config = DesignConfig(formula=formula, family=family, **settings)
    return build_design("m", config, dictionary, files, known_late or [], section)


def fit_files(
    files: list[IngestedFile],
    formula: str,
    family: str,
    missing: dict[str, str] | None = None,
    rare: dict[str, int] | None = None,
    order: dict[str, list[str]] | None = None,
    tell=lambda message: None,
    solver: SolverConfig | None = None,
    executor: LocalExecutor | None = None,
    limits: Limits | None = None,
    **settings,
) -> tuple[Design, Fitted, Dictionary]:
    """Fit one model to ingested files in this process; `settings` are other keys of the model."""
    dictionary = merge(files, missing, rare, order)
    design = design_of(formula, family, dictionary, files, **settings)
    return design, fit_design(design, files, tell, solver, executor, limits), dictionary


def fit_design(
    design: Design,
    files: list[IngestedFile],
    tell=lambda message: None,
    solver: SolverConfig | None = None,
    executor: LocalExecutor | None = None,
    limits: Limits | None = None,
) -> Fitted:
    workload, held_out = Workload(design, files, "train"), Workload(design, files, "evaluate")
    run = Run(executor or LocalExecutor(), solver or SolverConfig(), Reporter(tell, tell, tell), limits or Limits())
    return fit(workload, run, held_out)


def fit_frame(frame: pd.DataFrame, formula: str, family: str, folder: Path, **settings) -> tuple[Design, Fitted]:
    design, fitted, _ = fit_files([ingest_frame(frame, folder)], formula, family, **settings)
    return design, fitted


def estimates_of(design: Design, fitted: Fitted, reference: dict[str, str] | None = None) -> Estimates:
    return estimated(design, fitted, reference or {})


def average_rows(
    design: Design,
    fitted: Fitted,
    files: list[IngestedFile],
    balanced: bool = False,
    largest: Largest = LARGEST,
    of_collapsed: IngestedFile | None = None,
    threads: int = 1,
    **keys,
) -> Averaged:
    """The averages of rows with other `keys` of the results."""
    settings = ResultsConfig(adjusted_means="balanced" if balanced else "observed", **keys)
    return averages_of_rows(design, fitted, files, settings, of_collapsed, threads, largest)


def margins(
    design: Design,
    fitted: Fitted,
    files: list[IngestedFile],
    reference: dict[str, str],
    confidence: float,
    fewest: Fewest = FEWEST,
    **settings,
) -> Margins:
    """Average marginal effects and adjusted means, as two jobs of the workflow make them."""
    averaged = average_rows(design, fitted, files, **settings)
    return marginal_tables(design, fitted, averaged, reference, confidence, fewest)


def write_fit(fitted: Fitted, design: Design, folder: Path) -> None:
    """The checkpoint and fit.json of a fit, beside its design.json, as the chief writes them."""
    checkpoint.save(fitted, design, folder / "checkpoint")
    identity = provenance.identity(folder / "design.json", folder / "checkpoint")
    digests.write_json(folder / "fit.json", fitted.summary | identity)


def write_results(fitted: Fitted, design: Design, folder: Path) -> None:
    """The results of a fit that `tfglm.load` reads, as the workflow writes them."""
    design.write(folder / "design.json")
    write_fit(fitted, design, folder)
    checked = {"levels": {}, "design": digests.sha256(folder / "design.json")}
    digests.write_json(folder / "reference.json", checked)
    estimates = estimates_of(design, fitted)
    tables = {
        "coefficients": coefficients.table(estimates, 0.95),
        "terms": joint.joint_tests(estimates, (), fitted.summary.get("smooths", ())),
    }
    for name, table in tables.items():
        csv_files.write(table, folder / f"{name}.csv")
        digests.write_beside(folder / f"{name}.csv", folder / "fit.json")


def table_of(design: Design, fitted: Fitted, reference: dict[str, str] | None = None) -> pd.DataFrame:
    """The coefficient table, indexed by term and level, and by class before these where there are classes."""
    table = coefficients.table(estimates_of(design, fitted, reference), 0.95)
    return table.set_index([*(["class"] if "class" in table else []), "term", "level"])
