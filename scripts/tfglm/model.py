"""A fitted model in Python: `tfglm.load("results/<name>/models/<model>")`, as a notebook wants it."""

import argparse
import importlib.util
import numbers
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from markupsafe import Markup
from pyarrow import parquet

from tfglm import digests
from tfglm.config import Layout, SelectionConfig, TablesConfig, from_keywords
from tfglm.data.ingest import ingest
from tfglm.data.shards import MANIFEST, IngestedFile
from tfglm.data.sql import parsed
from tfglm.design.design import Design
from tfglm.errors import UserError, counted, nearest, require, writing
from tfglm.families import family_of_fit
from tfglm.formula.names import coefficient_name
from tfglm.formula.parse import term_of
from tfglm.report.pages import read_table, render, with_classes
from tfglm.results import classes, coefficients, csv_files, predict, unseen
from tfglm.results.compare import ComparedModel, family_words, refuse_other_rows, response_of, with_variances
from tfglm.results.compare import table as side_by_side
from tfglm.results.digits import four_digits, statistic
from tfglm.results.geometric import logarithm_of
from tfglm.results.held_out import differences
from tfglm.results.nested import likelihood_ratio_tests
from tfglm.results.paper import PaperTable, absorbed_factors, errors_of, paper_table, written
from tfglm.results.pooled import pooled
from tfglm.results.saved_fit import SavedFit

if TYPE_CHECKING:
    from tfglm.results.estimator import FormulaClassifier, FormulaRegressor

SHOWN = 20
"""Coefficients that the description of a model names."""

TABLES_OF_PAPERS = (".tex", ".md", ".docx", ".xlsx")

MOST_PRINTED = 100
"""Coefficients that a summary prints."""

BROOM = {
    **dict.fromkeys(("t", "z"), "statistic"),
    "std_error": "std.error",
    "p_value": "p.value",
    "ci_lower": "conf.low",
    "ci_upper": "conf.high",
}
"""Columns of the table of coefficients by the names that R's broom gives them."""

GLANCED = {
    **{name: name for name in ("model", "family", "link")},
    "rows": "nobs",
    "r_squared": "r.squared",
    "adj.r.squared": "adj.r.squared",
    "pseudo_r_squared": "pseudo.r.squared",
    **{name: name for name in ("sigma", "dispersion", "theta", "power", "statistic", "p.value", "df")},
    "log_likelihood": "logLik",
    "aic": "AIC",
    "bic": "BIC",
    "deviance": "deviance",
    "df_residual": "df.residual",
    "null_deviance": "null.deviance",
    "df_null": "df.null",
    **{name: name for name in ("coefficients", "converged")},
}
"""Keys of fit.json, and what is computed from them, by the names that R's broom gives them."""

KEYS_OF_MAKETABLES = {
    "nobs": "N",
    "r.squared": "r2",
    "adj.r.squared": "adj_r2",
    "pseudo.r.squared": "pseudo_r2",
    "logLik": "ll",
    "AIC": "aic",
    "BIC": "bic",
    "statistic": "fvalue",
    "p.value": "f_pvalue",
    "std_errors": "se_type",
}
LIMITS_OF_MAKETABLES = {"ci95l": "conf.low", "ci95u": "conf.high"}
"""The names of maketables for names of broom."""


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

    def tidy(self, conf_level: float | None = None, exponentiate: bool = False, conf_int: bool = True) -> pd.DataFrame:
        """Return the estimated coefficients as broom does in R: one row each, without reference levels.

        Random effects have rows for their standard deviations and correlations, with intervals of 95 %; `coefficients` has their
        levels.

        Columns: term, level, estimate, std.error (or posterior_sd), statistic, df, p.value, conf.low, conf.high, as far as the
        fit has them.

        Parameters
        ----------
        conf_level
            The coverage of the intervals, by default the key `confidence` of the fit (0.95).
        exponentiate
            Whether to return the exponentials of estimates and limits: odds ratios, rate ratios, or ratios of geometric means
            for a logarithm. Standard errors stay as they are.
        conf_int
            Whether to return intervals.

        Raises
        ------
        UserError
            If the exponential of a coefficient has no meaning, as with the link probit.

        Examples
        --------
        >>> late = tfglm.load("results/flights/models/late")
        >>> late.tidy(exponentiate=True)[["term", "level", "estimate", "std.error"]].round(4)
                term level  estimate  std.error
        0  Intercept         0.4286     0.6901
        1    carrier    UA   3.5000     0.9449
        """
        table = self.coefficients if conf_level is None else self._coefficients_with(conf_level)
        is_t = "t" in table
        table = table.reset_index().rename(columns=BROOM)
        is_reference = (table["estimate"] == 0) & (table["level"] == table["reference"]) & (table["level"] != "")
        if "df" not in table and "df_residual" in self.fit and is_t:
            table["df"] = float(self.fit["df_residual"])
        limits = ["conf.low", "conf.high"] if conf_int else []
        if exponentiate:
            rate = self._rate_of_exponentials()
            of_scale = [name for name in ("estimate", *limits) if name in table]
            with np.errstate(over="ignore"):
                table[of_scale] = np.exp(rate * table[of_scale])
        names = ["term", "level", "estimate", "std.error", "posterior_sd", "statistic", "df", "p.value", *limits]
        table = table.loc[~is_reference, [name for name in names if name in table]].reset_index(drop=True)
        has_limits = "conf.low" in table and conf_level in (None, 0.95)
        return with_variances(table, self.fit, limits if has_limits else [])

    def _coefficients_with(self, conf_level: float) -> pd.DataFrame:
        """The table of coefficients with intervals of another coverage."""
        check_coverage("conf_level", conf_level)
        table = coefficients.table(self._saved.estimates, conf_level, self.fit["converged"] or not self.fit["exact"])
        return with_classes(table).set_index(["term", "level"])

    def _rate_of_exponentials(self) -> float:
        """The factor of a coefficient before its exponential. Raises UserError if this has no meaning."""
        link = self.fit.get("link")
        if logarithm := logarithm_of(self.fit["formula"], self.fit["family"], link):
            return logarithm.rate
        if self.is_network or not family_of_fit(self.fit).ratio:
            raise UserError(
                f"exponentiate: the exponential of a coefficient of {self.name} is no ratio, as the link is {link}; "
                "leave it out"
            )
        return 1.0

    def glance(self) -> pd.DataFrame:
        """Return the statistics of the fit in one row, as broom does in R.

        Columns: those of broom for `lm`, `glm` and `gam`, as far as the fit has them (nobs, r.squared, logLik, AIC, deviance,
        df.residual, ...); and model, family, link, pseudo.r.squared, theta, power, coefficients, converged, std_errors. With
        classical standard errors statistic, p.value and df are of the F test of all terms of a linear regression.

        >>> tfglm.load("results/flights/models/late").glance()[["nobs", "df.residual", "deviance"]].round(4)
           nobs  df.residual  deviance
        0    20           18   25.6775
        """
        facts = self.fit | self._overall()
        row = {new: facts[name] for name, new in GLANCED.items() if facts.get(name) is not None}
        return pd.DataFrame([row | ({} if self.is_network else {"std_errors": errors_of(self.fit)})])

    def _overall(self) -> dict[str, float]:
        """The adjusted R squared and the F test of a linear regression, as R's `summary.lm` has them."""
        fit = self.fit
        degrees, null = fit.get("df_residual") or 0, fit.get("df_null") or 0
        if "r_squared" not in fit or fit["r_squared"] is None or degrees <= 0 or not null:
            return {}
        facts = {"adj.r.squared": 1 - (1 - fit["r_squared"]) * null / degrees}
        if fit.get("smooths"):
            facts["df"] = fit["effective_coefficients"]
        elif "instruments" in fit or "bounds" in fit:
            return facts  # the residuals are not the least, or F is no F variable on a bound
        elif fit["std_errors"]["kind"] == "classical" and null > degrees and fit["r_squared"] < 1:
            from scipy.special import fdtrc  # takes a tenth of a second

            df = null - degrees
            facts["df"], facts["statistic"] = df, fit["r_squared"] / (1 - fit["r_squared"]) * degrees / df
            facts["p.value"] = float(fdtrc(df, degrees, facts["statistic"]))
        return facts

    def summary(self) -> "ModelSummary":
        """Return the model, its coefficients with tests, and the statistics of its fit, as text that prints.

        >>> tfglm.load("results/flights/models/late").summary().splitlines()[0]
        'late: late ~ carrier'
        """
        table, more = self._written(MOST_PRINTED)
        shown = [table.set_index(["term", "level"]).to_string()] if len(table) else []
        shown += [f"... and {more:,} more coefficients: .tidy() has all"] if more else []
        return ModelSummary("\n".join([*self._summary(), *shown, *self._below()]))

    def _written(self, most: int) -> tuple[pd.DataFrame, int]:
        """The first rows of `tidy` as texts, and the number of others."""
        table = self.tidy() if (self.folder / "coefficients.csv").is_file() else pd.DataFrame()
        written = table.head(most).map(
            lambda value: "" if pd.isna(value) else f"{value:.5g}" if isinstance(value, float) else value
        )
        return written, len(table) - len(written)

    def _below(self) -> list[str]:
        """The statistics of the fit and its warnings, as lines."""
        row = self.glance().drop(columns=["model", "family", "link", "std_errors"], errors="ignore").iloc[0]
        statistics = row.rename({"statistic": "F", "p.value": "p.value of F"})
        listed = (
            f"{name} {value:,.0f}" if 1e6 <= abs(float(value)) < 1e15 else f"{name} {value:,.6g}"
            for name, value in statistics.items()
            if isinstance(value, numbers.Real)
        )
        return [", ".join(listed), *(f"Warning: {text}." for text in self.fit["warnings"])]

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
        return coefficients.covariance_table(self._saved.estimates)

    def predict(
        self,
        frame: Any,
        std_errors: bool = False,
        interval: float | None = None,
        unseen: unseen.Policy = "missing",
        new_response: bool = False,
    ) -> pd.DataFrame:
        """Predict rows, as the workflow does.

        Parameters
        ----------
        frame
            A row for each prediction, with the columns of the formula: a table of pandas, polars or Arrow, or a dict of lists.
            A column that the config or the layout derives may be
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
        new_response
            Whether to add intervals of a new response too, `prediction_lower` and `prediction_upper`, with the coverage of
            `interval`, by default 0.95. The frame needs the columns of `trials` and `weights`, if the model has some.

        Returns
        -------
        A table with the index of the frame. Its columns are `linear_predictor`; `probability` or `mean` (for a network with
        classes, `predicted` and a probability of each class); the requested errors and intervals; `unseen`, the terms with
        a level that no training row has; and `remark`, why there is no prediction.

        Raises
        ------
        UserError
            If a column is missing or of another kind, if `interval` is no number between 0 and 1, if a level has no training
            row and `unseen` is `error`, or if standard errors are requested for a network or a model with absorbed factors.

        Examples
        --------
        >>> rows = pd.DataFrame({"carrier": ["UA", "AA", "ZZ"]})
        >>> tfglm.load("results/flights/models/late").predict(rows)[["probability", "remark"]].round(9)
           probability        remark
        0          0.6           NaN
        1          0.3           NaN
        2          NaN  unseen level
        """
        frame = as_frame(frame)
        if interval is not None:
            check_coverage("interval", interval)
        needs_errors = std_errors or new_response or interval is not None
        if (self.is_network or self._saved.design.equations) and needs_errors:
            what = "a network" if self.is_network else "a regression of classes"
            raise UserError(f"{self.name} is {what}, whose predictions have no standard errors")
        if self._saved.design.absorbed and needs_errors:
            raise UserError(
                f"{self.name} has absorbed factors: the standard error of a single prediction would take equations in all of "
                "their effects\n  `margins_at` has average predictions with standard errors"
            )
        with tempfile.TemporaryDirectory(prefix="tfglm-") as scratch:
            times = self.fit["provenance"].get("times_in_layouts", {})
            file = ingested(frame, self._covariates(new_response), Path(scratch), self._derived(), times)
            kind = "prediction" if new_response else "mean"
            predicted = pa.concat_tables(self._predictions(file, unseen, 0.95 if interval is None else interval, kind))
        table = predicted.to_pandas().set_axis(frame.index)
        errors = [name for name in table if name.endswith(("std_error", "posterior_sd"))]
        limits = ["ci_lower", "ci_upper"] if "ci_lower" in table else []
        left_out = [] if std_errors else errors
        left_out = left_out + (limits if interval is None else [])
        return table.drop(columns=["file", "row", *left_out])

    def estimator(self, unseen: unseen.Policy = "missing") -> "FormulaClassifier | FormulaRegressor":
        """Return the model as an estimator of scikit-learn: `predict`, and `predict_proba` for 0 and 1 or classes.

        `unseen` is as in `predict`; the estimator refuses a row without a prediction. `cross_val_score`, `Pipeline` and
        `GridSearchCV` call `fit(X, y)` of copies, which fits the same formula and keys to other rows by `tfglm.fit`.

        >>> tfglm.load("results/flights/models/late").estimator().predict_proba(pd.DataFrame({"carrier": ["UA"]})).round(9)
        array([[0.4, 0.6]])
        """
        if importlib.util.find_spec("sklearn") is None:
            raise UserError(f"{self.name}: an estimator needs scikit-learn: pip install scikit-learn")
        # Here, as it takes half a second.
        from tfglm.results.estimator import FormulaClassifier, FormulaRegressor

        design, columns = self._saved.design, list(self._covariates())
        labels = list(design.likelihood.class_labels)
        if not labels and (design.roles.trials or not design.distribution.counts_events):
            return FormulaRegressor.fitted(self, unseen, columns)
        made = FormulaClassifier.fitted(self, unseen, columns)
        made.classes_ = np.array(labels) if labels else np.array([0, 1])
        return made

    def compare(self, *others: "Model", names: Sequence[str] = (), **tables: Any) -> "ModelComparison":
        """Set models of the same rows side by side, as the key `compare` of the config does.

        Parameters
        ----------
        others
            One or more models, of `tfglm.fit` or of `tfglm.load`.
        names
            A name for each model, this one first. By default each has its own, or (1), (2), ... if they share one.
        tables
            How the table looks, by the keys of the section `tables` of the config: `digits`, `stars`, `terms`, `labels`,
            `controls` and `below`.

        Raises
        ------
        UserError
            If the models were not fitted on the same rows, or for a wrong keyword.

        Examples
        --------
        >>> late = tfglm.load("results/flights/models/late")
        >>> late.compare(late).tests["problem"].item()
        '(1) and (2) say the same'
        """
        models = [self, *others]
        if wrong := next((type(each).__name__ for each in others if not isinstance(each, Model)), None):
            raise UserError(f"compare: expected models of `tfglm.fit` or `tfglm.load`, and one is a {wrong}")
        if len(models) < 2 or (names and len({*names}) != len(models)):
            raise UserError("compare: give one or more other models, and as `names` a different one for each model")
        own = [model.name for model in models]
        numbered = [f"({number})" for number in range(1, len(models) + 1)]
        chosen = names or (own if len({*own}) == len(own) else numbered)
        compared = [model._compared(name) for model, name in zip(models, chosen, strict=True)]
        self._refuse_other_rows(others, compared)
        settings = from_keywords(TablesConfig, tables, "compare")
        try:
            settings.check_terms([model.fit["formula"] for model in models])
        except ValueError as error:
            raise UserError(f"compare: {error}") from None
        return ModelComparison(compared, settings)

    def _compared(self, name: str) -> ComparedModel:
        """What comparisons need of the model, under this name."""
        return ComparedModel(
            {**self.fit, "model": name},
            self.metrics if (self.folder / "metrics.json").is_file() else {},
            self.coefficients.reset_index() if (self.folder / "coefficients.csv").is_file() else None,
            None if self.is_network else self._saved.design,
        )

    def _refuse_other_rows(self, others: Sequence["Model"], compared: Sequence[ComparedModel]) -> None:
        """Raise UserError if the models were not fitted on the same rows."""
        refuse_other_rows(compared)

    @property
    def __maketables_coef_table__(self) -> pd.DataFrame:
        """The coefficients for maketables: what its `ETable` asks models for, here and below."""
        table = self.tidy(conf_level=0.95) if "ci_lower" in self.coefficients else self.tidy()
        for name in ("std.error", "statistic", "p.value"):
            table[name] = table.get(name, np.nan)
        error = table["posterior_sd"] if "posterior_sd" in table else table["std.error"]
        limits = {name: table[limit] for name, limit in LIMITS_OF_MAKETABLES.items() if limit in table}
        columns = {"b": table["estimate"], "se": error, "t": table["statistic"], "p": table["p.value"], **limits}
        categorical = (
            {} if self.is_network else {term.name: term.categorical for term in self._saved.design.fixed_terms}
        )
        names = map(
            name_with_levels, table["term"], table["level"], [categorical.get(term, ()) for term in table["term"]]
        )
        return pd.DataFrame(columns).set_axis(pd.Index(names, name="Coefficient"))

    def __maketables_stat__(self, key: str) -> Any:
        statistics = {KEYS_OF_MAKETABLES.get(name, name): value for name, value in self.glance().iloc[0].items()}
        return None if statistics.get(key) == "none" else statistics.get(key)

    @property
    def __maketables_depvar__(self) -> str:
        return response_of(self.fit)

    @property
    def __maketables_fixef_string__(self) -> str | None:
        return "+".join(absorbed_factors(self.fit)) or None

    @property
    def __maketables_default_stat_keys__(self) -> list[str]:
        keys = ["N", "r2", "pseudo_r2", "ll", "se_type"]
        return [key for key in keys if self.__maketables_stat__(key) is not None]

    def _covariates(self, new_response: bool = False) -> dict[str, str]:
        """The columns that a prediction needs, with their types in a layout."""
        designs = [self._saved.design, *map(Design.load, self._files.offset[:1])]
        roles = designs[0].roles
        types = {name: "number" for name in (roles.trials, roles.weights) if name} if new_response else {}
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

    def _predictions(
        self, file: IngestedFile, policy: unseen.Policy, confidence: float, interval: str
    ) -> Iterator[pa.Table]:
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
        return predict.predictions(design, fitted, file, substitutes, [], confidence, smooths, interval)

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

    def __repr__(self) -> str:
        first = ["estimate", "std_error", "posterior_sd", "p_value", "ci_lower", "ci_upper", "status"]
        if not (self.folder / "coefficients.csv").is_file():
            return "\n".join(self._summary())
        table = self.coefficients[[name for name in first if name in self.coefficients]]
        return "\n".join([*self._summary(), table.to_string(max_rows=SHOWN)])

    def _repr_html_(self) -> str:
        table, more = self._written(SHOWN)
        picture = self._picture(SHOWN)
        return render("model", summary=self._summary(), table=table, more=more, below=self._below(), picture=picture)

    def _picture(self, most: int) -> list[Markup]:
        """The panels of a picture of the first coefficients with their intervals; none without a picture."""
        return []


class ModelComparison:
    """Models side by side: the tables that the key `compare` of the config writes. It prints, and a notebook shows it, with
    standard errors in parentheses.

    Attributes
    ----------
    coefficients
        The coefficients of all models and the statistics of their fits: compare.csv.
    tests
        Likelihood-ratio tests of nested models, and why others have none: compare_likelihood_ratio.csv.
    held_out
        Which model predicts held-out rows better: compare_held_out.csv.
    """

    def __init__(self, models: Sequence[ComparedModel], settings: TablesConfig) -> None:
        self._models, self._settings = models, settings
        table = side_by_side(models)
        self.coefficients = table.dropna(how="all", subset=table.columns[2:])
        self.tests = likelihood_ratio_tests(models)
        self.held_out = differences(models)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the table as papers have it: .tex, .md, .docx or .xlsx. Raises UserError for another format, and if the
        packages that write it are missing."""
        if Path(path).suffix not in TABLES_OF_PAPERS:
            raise UserError(f"{path}: a table ends with {', '.join(TABLES_OF_PAPERS)}")
        for package in ("openpyxl", "docx", "tabulate"):
            require(package, "workflow", f"{path}: a table")
        from tfglm.report import papers

        with writing(Path(path)):
            papers.write(self._paper(), Path(path))

    def _paper(self) -> PaperTable:
        return paper_table(self._models, self._settings, self.tests)

    def _written(self) -> tuple[pd.DataFrame, tuple[str, ...]]:
        """The table as texts, and its notes."""
        paper = self._paper()
        names = ["", "level", *paper.models]
        lines = [
            [line.term, line.level, *(" ".join(filter(None, written(cell, number))) for cell in line.cells)]
            for part, number in ((paper.coefficients, four_digits), (paper.statistics, statistic))
            for line in part
        ]
        return pd.DataFrame(lines, columns=names), paper.notes

    def __repr__(self) -> str:
        table, notes = self._written()
        return "\n".join([table.to_string(index=False), *notes])

    def _repr_html_(self) -> str:
        table, notes = self._written()
        return render("model", summary=(), table=table, more=0, below=notes, picture=())


def pool(fits: Iterable[Model], confidence: float = 0.95) -> pd.DataFrame:
    """Return the pooled coefficients of fits of multiply imputed rows, by Rubin's rules.

    The columns are those of `coefficients`, with t tests by the degrees of freedom of Barnard and Rubin, and `fmi`, the fraction
    of missing information. Each fit has the rows of one imputation; `confidence` is the coverage of intervals. Raises UserError
    if the fits differ in formula, family, number of rows, levels or kind of errors, or have no standard errors.

    >>> data = {"delay": [1.0, 7, 3, 8, 2, 6, 3, 9], "wind": [1.0, 3, 1, 4, 2, 2, 2, 5]}
    >>> imputed = [pd.DataFrame(data | {"wind": [*data["wind"][:7], value]}) for value in (4.0, 5.0, 6.0)]
    >>> tfglm.pool([tfglm.fit("delay ~ wind", rows) for rows in imputed])[["estimate", "std_error", "df"]].round(3)
                     estimate  std_error     df
    term      level
    Intercept           0.156      1.372  2.750
    wind                1.900      0.581  1.726
    """
    check_coverage("pool: confidence", confidence)
    fits = list(fits) if isinstance(fits, Iterable) else [fits]
    if wrong := next((type(each).__name__ for each in fits if not isinstance(each, Model)), None):
        raise UserError(f"pool: expected models of `tfglm.fit` or `tfglm.load`, and one is a {wrong}")
    return pooled([each._compared(each.name) for each in fits], confidence)


def as_frame(rows: Any) -> pd.DataFrame:
    """Rows to predict as a frame. Raises UserError for what is no table."""
    if isinstance(rows, pd.DataFrame):
        return rows
    if hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, pd.Series):
        return pa.table(rows).to_pandas()
    if isinstance(rows, Mapping):
        try:
            return pd.DataFrame(dict(rows))
        except ValueError as error:
            raise UserError(f"predict: {error}\n  give each column a list, all of the same length") from None
    hint = "pandas.read_csv(file)" if isinstance(rows, str | PathLike) else "pandas.DataFrame(rows)"
    raise UserError(f"predict: a {type(rows).__name__} is no table; give one, such as {hint}")


def check_coverage(key: str, value: Any) -> None:
    """Raise UserError unless the coverage of an interval is a number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < 1:
        raise UserError(f"{key}: expected a number between 0 and 1, such as 0.9, received {value!r}")


def name_with_levels(term: str, level: str, categorical: Sequence[str]) -> str:
    """A coefficient as other packages write it: `carrier[UA]:distance`."""
    levels = level.split(":", len(categorical) - 1) if len(categorical) > 1 else [level]
    if not level or len(levels) != len(categorical):
        return coefficient_name(term, level)
    by_factor = dict(zip(categorical, levels, strict=True))
    factors = [*categorical, *(factor.name for factor in term_of(term).factors if factor.name not in categorical)]
    return ":".join(f"{factor}[{by_factor[factor]}]" if factor in by_factor else factor for factor in factors)


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
