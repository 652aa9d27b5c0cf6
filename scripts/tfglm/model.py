"""A fitted model in Python: `tfglm.load("results/<name>/models/<model>")`, as a notebook wants it."""

import argparse
import importlib.util
import numbers
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from tfglm import digests
from tfglm.config import Layout, SelectionConfig
from tfglm.data.ingest import ingest
from tfglm.data.shards import MANIFEST, IngestedFile
from tfglm.data.sql import parsed
from tfglm.design.design import Design
from tfglm.errors import UserError, counted, nearest, require
from tfglm.report.pages import read_table, render
from tfglm.results import classes, csv_files, predict, unseen
from tfglm.results.coefficients import covariance_table
from tfglm.results.compare import family_words
from tfglm.results.paper import errors_of
from tfglm.results.saved_fit import SavedFit

if TYPE_CHECKING:
    from tfglm.results.estimator import FittedClassifier, FittedRegressor

SHOWN = 20
"""Coefficients that the description of a model names."""


STATISTICS_OF_FIT = (
    *(
        "r_squared",
        "pseudo_r_squared",
        "sigma",
        "dispersion",
        "theta",
        "power",
        "deviance",
        "null_deviance",
        "df_residual",
    ),
    *("df_null", "log_likelihood", "aic", "bic", "coefficients", "converged"),
)
"""Keys of fit.json that `glance` shows, if the fit has them."""


class ModelSummary(str):
    """Text that a notebook shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


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

    Examples
    --------
    Of the carrier AA 3 of 10 flights were late, and of UA 6 of 10.

    >>> model = tfglm.load("results/flights/models/late")
    >>> model.fit["formula"], model.fit["rows"], model.fit["converged"]
    ('late ~ carrier', 20, True)
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        if not (self.folder / "fit.json").is_file():
            raise UserError(
                f"{folder}: no fitted model is here, as there is no fit.json; its folder is results/<name>/models/<model>"
            )
        names = {"design": "design.json", "checkpoint": "checkpoint", "fit": "fit.json", "reference": "reference.json"}
        self._files = argparse.Namespace(**{key: self.folder / name for key, name in names.items()}, offset=[])
        self._saved = SavedFit(self._files)
        self.fit: dict[str, Any] = self._saved.fit
        offset = self.fit["provenance"]["model"].get("offset_from")
        if offset:
            self._files.offset = [self.folder.parent / offset / names[key] for key in ("design", "checkpoint", "fit")]

    @property
    def name(self) -> str:
        return self.fit["model"]

    @property
    def is_network(self) -> bool:
        return self._saved.is_network

    @cached_property
    def coefficients(self) -> pd.DataFrame:
        """The table of coefficients.csv, by term and level.

        >>> tfglm.load("results/flights/models/late").coefficients["odds_ratio"].loc["carrier"].round(9).to_dict()
        {'AA': 1.0, 'UA': 3.5}
        """
        return read_table(self._result("coefficients.csv"), self._files.fit).set_index(["term", "level"])

    @cached_property
    def terms(self) -> pd.DataFrame:
        """The joint tests of terms.csv, by term.

        >>> tfglm.load("results/flights/models/late").terms["df"].to_dict()
        {'carrier': 1}
        """
        return csv_files.read(self._result("terms.csv"), self._files.fit).set_index("term")

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The content of metrics.json: metrics of the held-out rows."""
        return digests.read_json(self._result("metrics.json"), fit=self._files.fit)

    def tidy(self) -> pd.DataFrame:
        """Return the estimated coefficients as broom does in R: one row each, without reference levels.

        Columns: term, level, estimate, std_error (or posterior_sd), statistic, df, p_value, ci_lower, ci_upper, as far as the fit
        has them.

        >>> tfglm.load("results/flights/models/late").tidy()[["term", "level", "estimate"]].round(4)
                term level  estimate
        0  Intercept         -0.8473
        1    carrier    UA    1.2528
        """
        table = self.coefficients.reset_index().rename(columns=dict.fromkeys(("t", "z"), "statistic"))
        is_reference = (table["estimate"] == 0) & (table["level"] == table["reference"]) & (table["level"] != "")
        if "statistic" in table and "df" not in table and "df_residual" in self.fit and "t" in self.coefficients:
            table["df"] = float(self.fit["df_residual"])
        names = [
            "term",
            "level",
            "estimate",
            "std_error",
            "posterior_sd",
            "statistic",
            "df",
            "p_value",
            "ci_lower",
            "ci_upper",
        ]
        return table.loc[~is_reference, [name for name in names if name in table]].reset_index(drop=True)

    def glance(self) -> pd.DataFrame:
        """Return the statistics of the fit in one row, as broom does in R.

        >>> tfglm.load("results/flights/models/late").glance()[["nobs", "df_residual", "deviance"]].round(4)
           nobs  df_residual  deviance
        0    20           18   25.6775
        """
        names = {"model": "model", "family": "family", "link": "link", "rows": "nobs"}
        names |= {name: name for name in STATISTICS_OF_FIT if self.fit.get(name) is not None}
        row = {new: self.fit[name] for name, new in names.items() if name in self.fit}
        return pd.DataFrame([row | ({} if self.is_network else {"std_errors": errors_of(self.fit)})])

    def summary(self) -> "ModelSummary":
        """Return the model, its coefficients with tests, and the statistics of its fit, as text that prints.

        >>> tfglm.load("results/flights/models/late").summary().splitlines()[0]
        'late: late ~ carrier'
        """
        table = (
            self.tidy().set_index(["term", "level"]) if (self.folder / "coefficients.csv").is_file() else pd.DataFrame()
        )
        written = table.map(
            lambda value: "" if pd.isna(value) else f"{value:.5g}" if isinstance(value, float) else value
        )
        shown = [written.to_string()] if len(table) else []
        statistics = self.glance().drop(columns=["model", "family", "link", "std_errors"], errors="ignore").iloc[0]
        listed = ", ".join(
            f"{name} {value:,.6g}" for name, value in statistics.items() if isinstance(value, numbers.Real)
        )
        return ModelSummary(
            "\n".join([*self._summary(), *shown, listed, *(f"Warning: {text}." for text in self.fit["warnings"])])
        )

    def vcov(self) -> pd.DataFrame:
        """The covariance matrix of the coefficients that have a standard error, named `term` or `term[level]`.

        >>> tfglm.load("results/flights/models/late").vcov().round(4)
                     Intercept  carrier[UA]
        Intercept       0.4762      -0.4762
        carrier[UA]    -0.4762       0.8929
        """
        if self.is_network:
            raise UserError(
                f"{self.name} is a network, and only regressions have a covariance matrix; load a regression"
            )
        return covariance_table(self._saved.estimates)

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
            A row for each prediction, with the columns of the formula. A column that the config or the layout derives may be
            there, or the columns that it is derived from. Each has the type that it had in the data: text, such as names
            of levels, or numbers. Dates may be text as in the data, in ISO 8601, or of a type for dates. NaN or None is a missing
            value.
        std_errors
            Whether to add the standard errors (posterior standard deviations of a penalised model).
        interval
            The coverage of confidence intervals of the mean to add, such as 0.95.
        unseen
            What to do with a level that no training row has, as in the key `unseen` of the config: `missing`, `reference`
            or `error`.

        Returns
        -------
        A table with the index of the frame. Its columns are `linear_predictor`; `probability` or `mean` (for a network with
        classes, `predicted` and a probability of each class); the requested errors and intervals; `unseen`, the terms with
        a level that no training row has; and `remark`, why there is no prediction.

        Raises
        ------
        UserError
            If a column is missing or of another kind, if a level has no training row and `unseen` is `error`, or if
            standard errors are requested for a network or a model with absorbed factors.

        Examples
        --------
        >>> rows = pd.DataFrame({"carrier": ["UA", "AA", "ZZ"]})
        >>> tfglm.load("results/flights/models/late").predict(rows)[["probability", "remark"]].round(9)
           probability        remark
        0          0.6           NaN
        1          0.3           NaN
        2          NaN  unseen level
        """
        if (self.is_network or self._saved.design.equations) and (std_errors or interval is not None):
            what = "a network" if self.is_network else "a regression of classes"
            raise UserError(f"{self.name} is {what}, whose predictions have no standard errors")
        if self._saved.design.absorbed and (std_errors or interval is not None):
            raise UserError(f"{self.name} has absorbed factors, so its predictions have no standard errors")
        with tempfile.TemporaryDirectory(prefix="tfglm-") as scratch:
            times = self.fit["provenance"].get("times_in_layouts", {})
            file = ingested(frame, self._covariates(), Path(scratch), self._derived(), times)
            predicted = pa.concat_tables(self._predictions(file, unseen, 0.95 if interval is None else interval))
        table = predicted.to_pandas().set_axis(frame.index)
        errors = [name for name in table if name.endswith(("std_error", "posterior_sd"))]
        limits = ["ci_lower", "ci_upper"] if "ci_lower" in table else []
        left_out = [] if std_errors else errors
        left_out = left_out + (limits if interval is None else [])
        return table.drop(columns=["file", "row", *left_out])

    def estimator(self, unseen: unseen.Policy = "missing") -> "FittedClassifier | FittedRegressor":
        """Return the model as an estimator of scikit-learn, which its tools for fitted models take: `predict`, and
        `predict_proba` for 0 and 1 or classes. `unseen` is that of `predict`. A row without a prediction is refused.

        >>> tfglm.load("results/flights/models/late").estimator().predict_proba(pd.DataFrame({"carrier": ["UA"]})).round(9)
        array([[0.4, 0.6]])
        """
        if importlib.util.find_spec("sklearn") is None:
            raise UserError(f"{self.name}: an estimator needs scikit-learn: pip install scikit-learn")
        # Here, as it takes half a second.
        from tfglm.results.estimator import FittedClassifier, FittedRegressor

        columns, predicting = list(self._covariates()), partial(self.predict, unseen=unseen)
        if classes := self._saved.design.likelihood.class_labels:
            return FittedClassifier(predicting, columns, list(classes))
        if self._saved.design.roles.trials or not self._saved.design.distribution.counts_events:
            return FittedRegressor(predicting, columns)
        return FittedClassifier(predicting, columns, [0, 1])

    def _covariates(self) -> dict[str, str]:
        """The columns that a prediction needs, with their types in a layout."""
        designs = [self._saved.design, *map(Design.load, self._files.offset[:1])]
        types: dict[str, str] = {}
        for design in (each.to_predict for each in designs):
            kinds = {factor.column: factor.column_kind for factor in design.categorical}
            types |= {
                name: {"text": "string"}.get(kinds.get(name, ""), kinds.get(name, "number")) for name in design.columns
            }
            if any(factor.shape for factor in design.numeric):
                raise UserError(f"{self.name} reads images; predict them with `snakemake score`")
        return types

    def _derived(self) -> list[dict[str, str]]:
        """The SQL of derived columns by name, as each layout of the input files has it."""
        provenance = self.fit["provenance"]
        of_config = provenance.get("data", {}).get("derive", {})
        return [{**of_layout, **of_config} for of_layout in provenance.get("derived_in_layouts", {"": {}}).values()]

    def _predictions(self, file: IngestedFile, policy: unseen.Policy, confidence: float) -> Iterator[pa.Table]:
        """The tables that the workflow would write of the file."""
        design = self._saved.design
        if self.is_network:
            require("tensorflow", "tensorflow", f"{self.name}: to predict, a network")
            from tfglm.networks import stored

            unseen.checked(design.to_predict, [file], "predict", policy, self.name)
            return stored.predictions(self._files, design, self.fit, file, [])
        fitted = self._saved.fitted
        _, substitutes = unseen.resolved(design.to_predict, fitted, [file], "predict", policy, self._saved.reference)
        if design.equations:
            return classes.predictions(design, fitted, file, substitutes, [])
        smooths = self.fit.get("smooths", ())
        return predict.predictions(design, fitted, file, substitutes, [], confidence, smooths)

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
            words += [counted(count, "coefficient"), f"standard errors: {errors_of(fit)}"]
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


def ingested(
    frame: pd.DataFrame,
    types: dict[str, str],
    folder: Path,
    derived: Sequence[dict[str, str]] = (),
    times: Mapping[str, dict[str, Any]] | None = None,
) -> IngestedFile:
    """Turn the rows of a frame into an input file in which all rows are predicted.

    `types` are the types of its columns in a layout, and `times` how the files of the model write dates and times of day. A
    column that the frame lacks is computed, if `derived` has its SQL and the frame the columns in it. Raises UserError for a
    column that is missing or of another type.
    """
    missing = [name for name in types if name not in frame]
    derive, sources = (
        next(filter(None, (needed(missing, sql, frame) for sql in derived)), ({}, [])) if missing else ({}, [])
    )
    lacking = [name for name in missing if name not in derive]
    if lacking:
        hints = "".join(nearest(name, [str(column) for column in frame]) for name in lacking[:1])
        raise UserError(f"the frame has no column {', '.join(f'`{name}`' for name in lacking)}{hints}")
    times = times or {}
    given = {name: as_times(frame[name]) for name in dict.fromkeys([*types, *sources]) if name in frame}
    given |= {name: given[name].mask(given[name].isin(times[name]["missing"])) for name in times.keys() & given}
    read = {name: how_read(column, types.get(name), times.get(name)) for name, column in given.items()}
    columns = {name: as_array(column, name, read[name]["type"]) for name, column in given.items()} or {
        "row": pa.nulls(len(frame))
    }
    parquet.write_table(pa.table(columns), folder / "frame.parquet")
    layout = Layout.model_validate({"columns": read or {"row": {"type": "number"}}, "missing": []})
    split = {"train": "FALSE", "predict": "TRUE"}
    settings = SelectionConfig.model_validate({"split": split, "derive": derive, "columns": list(types) or ["row"]})
    try:
        ingest(folder / "frame.parquet", "frame", {"frame": layout}, settings, folder / "frame")
    except UserError as error:
        raise UserError(str(error).replace(str(folder / "frame.parquet"), "the frame")) from error
    return IngestedFile.load(folder / "frame" / MANIFEST)


def needed(
    columns: Sequence[str], sql: Mapping[str, str], frame: pd.DataFrame
) -> tuple[dict[str, str], list[str]] | None:
    """The derived columns that some columns need, in their order, and the columns of a frame that they are computed from; None if
    the frame lacks one."""
    wanted, sources = set(columns), set[str]()
    for name in reversed(list(sql)):
        if name in wanted and name not in frame:
            roots = set(parsed(sql[name], f"derive.{name}").meta.root_names())
            wanted |= roots
            sources |= roots
    derive = {name: text for name, text in sql.items() if name in wanted and name not in frame}
    raw = sorted(sources - set(derive))
    return (derive, raw) if derive and all(name in frame for name in raw) else None


def as_times(column: pd.Series) -> pd.Series:
    """A column of Python's dates as one of pandas'; any other unchanged."""
    is_dates = column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in ("date", "datetime")
    return pd.to_datetime(column) if is_dates else column


def how_read(column: pd.Series, type_: str | None, time: dict[str, Any] | None) -> dict[str, Any]:
    """The column in a layout. `type_` is that of a column of the formula, and `time` how the files write its dates or times."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return {"type": type_ or (time or {}).get("type", "date")}
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_integer_dtype(column):
        return {"type": type_ or "integer"}
    if pd.api.types.is_numeric_dtype(column):
        return {"type": type_ or "number"}
    how = {key: time[key] for key in ("type", "format")} if time else {"type": "string"}
    return how if type_ in (None, "string") else {"type": type_}


def as_array(column: pd.Series, name: str, type_: str) -> pa.Array:
    """Return a column in the form of a Parquet file. Dates become text where the formula has levels, as in results."""
    if pd.api.types.is_datetime64_any_dtype(column):
        if type_ == "clock":
            return pa.array(100 * column.dt.hour + column.dt.minute, from_pandas=True)
        column = column.dt.strftime("%Y-%m-%d") if type_ == "string" else column.dt.date
    is_text = type_ == "string" or (
        type_ in ("date", "clock") and pd.api.types.infer_dtype(column, skipna=True) == "string"
    )
    try:
        # Without the type categorical, whose values may be anything.
        return pa.array(column.astype(object), pa.string() if is_text else None, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError(f"column `{name}` is to hold {'text' if is_text else 'numbers'}: {error}") from error
