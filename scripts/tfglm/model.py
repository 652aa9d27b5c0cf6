"""A fitted model in Python: `tfglm.load("results/<name>/models/<model>")`, as a notebook wants it."""

import argparse
import tempfile
from collections.abc import Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from tfglm import digests
from tfglm.config import Layout, SelectionConfig
from tfglm.data.ingest import ingest
from tfglm.data.shards import MANIFEST, IngestedFile
from tfglm.design.design import Design
from tfglm.errors import UserError, nearest
from tfglm.report.pages import read_table, render
from tfglm.results import classes, csv_files, predict, read, unseen
from tfglm.results.coefficients import covariance_table
from tfglm.results.compare import family_words
from tfglm.results.paper import errors_of

SHOWN = 20
"""Coefficients that the description of a model names."""


class Model:
    """A fitted regression or network.

    Parameters
    ----------
    folder
        That of the model, `results/<name>/models/<model>`.

    Attributes
    ----------
    fit
        What fit.json says: log-likelihood, AIC, warnings, versions, ...

    Raises
    ------
    UserError
        If there is no fit in the folder, or it has changed since it was written; attributes and methods raise it for their files.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        if not (self.folder / "fit.json").is_file():
            raise UserError(
                f"{folder}: no fitted model is here, as there is no fit.json; its folder is results/<name>/models/<model>"
            )
        names = {"design": "design.json", "checkpoint": "checkpoint", "fit": "fit.json", "reference": "reference.json"}
        self._files = argparse.Namespace(**{key: self.folder / name for key, name in names.items()}, offset=[])
        self.fit: dict[str, Any] = read.fit(self._files)
        offset = self.fit["provenance"]["model"].get("offset_from")
        if offset:
            self._files.offset = [self.folder.parent / offset / names[key] for key in ("design", "checkpoint", "fit")]

    @property
    def name(self) -> str:
        return self.fit["model"]

    @property
    def is_network(self) -> bool:
        return self.fit.get("kind") == "network"

    @cached_property
    def coefficients(self) -> pd.DataFrame:
        """The table of coefficients.csv, by term and level."""
        return read_table(self._result("coefficients.csv"), self._files.fit).set_index(["term", "level"])

    @cached_property
    def terms(self) -> pd.DataFrame:
        """The joint tests of terms.csv, by term."""
        return csv_files.read(self._result("terms.csv"), self._files.fit, ["term", "note"]).set_index("term")

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What metrics.json says of the rows kept back."""
        return digests.read_json(self._result("metrics.json"), fit=self._files.fit)

    def vcov(self) -> pd.DataFrame:
        """The covariance matrix of the coefficients that have a standard error, named `term` or `term[level]`."""
        if self.is_network:
            raise UserError(f"{self.name} is a network, whose weights have no covariance matrix")
        return covariance_table(read.estimates(self._files))

    def predict(
        self,
        frame: pd.DataFrame,
        std_errors: bool = False,
        interval: float | None = None,
        unseen: unseen.Policy = "missing",
    ) -> pd.DataFrame:
        """Predict rows, as the workflow does.

        Parameters
        ----------
        frame
            A row for each prediction, with the columns of the formula (derived ones too), each holding what it held in the data:
            text, such as levels by name, or numbers. NaN or None is a missing value.
        std_errors
            Whether to add the standard errors (posterior standard deviations of a penalised model).
        interval
            The coverage of confidence intervals of the mean to add, such as 0.95.
        unseen
            What stands for a level that no training row has, as the key `unseen` of the config: `missing`, `reference` or
            `error`.

        Returns
        -------
        By the index of the frame: `linear_predictor`; `probability` or `mean` (of a network with classes `predicted` and a
        probability for each); what was asked for; `unseen`, the terms with a level that no training row has; `remark`, why there
        is no prediction.

        Raises
        ------
        UserError
            For a column that is missing or of another kind, for levels that no training row has if `unseen` is `error`, and for
            standard errors of a network or of a model with absorbed factors.
        """
        if (self.is_network or self._design.equations) and (std_errors or interval is not None):
            what = "a network" if self.is_network else "a regression of classes"
            raise UserError(f"{self.name} is {what}, whose predictions have no standard errors")
        if self._design.absorbed and (std_errors or interval is not None):
            raise UserError(f"{self.name} has absorbed factors, so its predictions have no standard errors")
        with tempfile.TemporaryDirectory(prefix="tfglm-") as scratch:
            file = ingested(frame, self._covariates(), Path(scratch))
            predicted = pa.concat_tables(self._predictions(file, unseen, 0.95 if interval is None else interval))
        table = predicted.to_pandas().set_axis(frame.index)
        errors = [name for name in table if name.endswith(("std_error", "posterior_sd"))]
        limits = ["ci_lower", "ci_upper"] if "ci_lower" in table else []
        left_out = [] if std_errors else errors
        left_out = left_out + (limits if interval is None else [])
        return table.drop(columns=["file", "row", *left_out])

    @cached_property
    def _design(self) -> Design:
        return Design.load(self._files.design).as_fitted(self.fit)

    def _covariates(self) -> dict[str, str]:
        """The columns that a prediction needs, with their types in a layout."""
        designs = [self._design, *map(Design.load, self._files.offset[:1])]
        types: dict[str, str] = {}
        for design in (each.to_predict for each in designs):
            kinds = {factor.column: factor.column_kind for factor in design.categorical}
            types |= {
                name: {"text": "string"}.get(kinds.get(name, ""), kinds.get(name, "number")) for name in design.columns
            }
            if any(factor.shape for factor in design.numeric):
                raise UserError(f"{self.name} reads images; predict them with `snakemake score`")
        return types

    def _predictions(self, file: IngestedFile, policy: unseen.Policy, confidence: float) -> Iterator[pa.Table]:
        """The tables that the workflow would write of the file."""
        design = self._design
        if self.is_network:
            from tfglm.networks import stored

            unseen.checked(design.to_predict, [file], "predict", policy, self.name)
            return stored.predictions(self._files, design, self.fit, file, [])
        fitted, reference = read.fitted(self._files, design, self.fit), read.reference(self._files)
        _, substitutes = unseen.resolved(design.to_predict, fitted, [file], "predict", policy, reference)
        if design.equations:
            return classes.predictions(design, fitted, file, substitutes, [])
        return predict.predictions(design, fitted, file, substitutes, [], self.fit["df_residual"], confidence)

    def _result(self, name: str) -> Path:
        """A file that the workflow writes only of some models."""
        path = self.folder / name
        if not path.is_file():
            raise UserError(f"{path} is not there; `snakemake {path}` makes it, if the model has any")
        return path

    def _summary(self) -> list[str]:
        """The model in two lines."""
        fit = self.fit
        words = [family_words(fit), f"{fit['rows']:,} rows"]
        if not self.is_network:
            count = fit["coefficients"]
            words += [f"{count:,} coefficient{'' if count == 1 else 's'}", f"standard errors: {errors_of(fit)}"]
            words += [] if fit["converged"] else ["did NOT converge"]
        return [f"{self.name}: {fit['formula']}", ", ".join(words)]

    def _shown(self) -> pd.DataFrame:
        """The columns of the table of coefficients that a reader looks at first."""
        if not (self.folder / "coefficients.csv").is_file():
            return pd.DataFrame()
        first = ["estimate", "std_error", "posterior_sd", "p_value", "ci_lower", "ci_upper", "status"]
        return self.coefficients[[name for name in first if name in self.coefficients]]

    def __repr__(self) -> str:
        table = self._shown()
        shown = [table.to_string(max_rows=SHOWN)] if len(table) else []
        return "\n".join([*self._summary(), *shown])

    def _repr_html_(self) -> str:
        table = self._shown().reset_index()
        first = table.head(SHOWN).map(
            lambda value: f"{value:.4g}" if isinstance(value, float) and value == value else value
        )
        return render("model", summary=self._summary(), table=first, more=len(table) - len(first))


def ingested(frame: pd.DataFrame, types: dict[str, str], folder: Path) -> IngestedFile:
    """The rows of a frame as an input file of which all are to be predicted. `types` are those of its columns in a layout. Raises
    UserError for a column that is missing or of another type."""
    missing = [name for name in types if name not in frame]
    if missing:
        hints = "".join(nearest(name, [str(column) for column in frame]) for name in missing[:1])
        raise UserError(f"the frame has no column {', '.join(f'`{name}`' for name in missing)}{hints}")
    columns = {name: as_array(frame[name], name, type_) for name, type_ in types.items()} or {
        "row": pa.nulls(len(frame))
    }
    parquet.write_table(pa.table(columns), folder / "frame.parquet")
    layout = Layout.model_validate({"columns": types or {"row": "number"}, "missing": []})
    split = {"train": "FALSE", "predict": "TRUE"}
    settings = SelectionConfig.model_validate({"split": split, "columns": list(columns)})
    try:
        ingest(folder / "frame.parquet", "frame", {"frame": layout}, settings, folder / "frame")
    except UserError as error:
        raise UserError(str(error).replace(str(folder / "frame.parquet"), "the frame")) from error
    return IngestedFile.load(folder / "frame" / MANIFEST)


def as_array(column: pd.Series, name: str, type_: str) -> pa.Array:
    """A column as a Parquet file has it; dates become text, as they are in results."""
    if type_ == "string" and pd.api.types.is_datetime64_any_dtype(column):
        column = column.dt.strftime("%Y-%m-%d")
    try:
        # Without the type categorical, whose values may be anything.
        return pa.array(column.astype(object), pa.string() if type_ == "string" else None, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError(f"column `{name}` is to hold {'text' if type_ == 'string' else 'numbers'}: {error}") from error
