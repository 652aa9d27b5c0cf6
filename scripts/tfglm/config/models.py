"""The sections under `models`: formula, family, penalties, and the results of the fit."""

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from tfglm.config import compatibility, families
from tfglm.config.base import (
    FROM_TEXT,
    MOST_COLUMNS,
    MOST_EXPRESSIONS,
    Count,
    Level,
    Name,
    Names,
    Number,
    Section,
    Sweep,
    Text,
    no_duplicates,
)
from tfglm.config.comparisons import ComparisonsConfig, LikelihoodConfig
from tfglm.config.families import FamilyName, LinkConfig
from tfglm.config.solvers import SolverConfig
from tfglm.config.std_errors import StdErrors, WrittenErrors, parsed
from tfglm.formula.parts import absorbed_terms
from tfglm.formula.read import absorbed_too, columns_of, covariates_in
from tfglm.formula.response import response_column
from tfglm.formula.terms import Absorbed


class RowsConfig(Section):
    """The columns that a model reads from the rows: covariates, response, weights and offset."""

    formula: Text
    """R-style formula, such as `late ~ carrier + C(month) + distance + carrier:distance`."""
    family: FamilyName
    """Distribution of the response: `gaussian` any number, `binomial` 0 or 1, `poisson` counts, `multinomial` classes,
    text or whole numbers."""
    subset: Text | None = None
    """SQL condition of the rows of this model, in training and evaluation, such as `region = 'N'`. Other rows are counted.
    A `sweep` over it fits a model for each group."""
    weights: Name | None = None
    """Column of prior weights, as in R's `glm`: the variance of a row is divided by it; with `binomial` and a response
    between 0 and 1, the number of trials."""
    frequency: Name | None = None
    """Column with the number of equal rows that a row represents. It multiplies the number of rows."""
    trials: Name | None = None
    """Column with the number of trials of a row, for `binomial` with a response that counts events."""
    dot: Names = []
    """Columns that `.` in the formula stands for. tfglm writes this key."""
    offset: Text | None = None
    """Column, or a function of one, such as `log(seats)`, that is added with coefficient 1."""

    @property
    def roles(self) -> dict[str, list[str]]:
        """The columns that keys other than the formula name, by key."""
        given = {key: getattr(self, key) for key in ("weights", "frequency", "trials")}
        named = {key: [column] for key, column in given.items() if column}
        return named | ({"offset": columns_of(self.offset)} if self.offset else {})

    @property
    def response(self) -> str:
        """The column of the response."""
        return response_column(self.formula)

    @model_validator(mode="after")
    def _response_has_no_other_role(self) -> "RowsConfig":
        """Covariates, offsets or groups that use the response would know the answer already."""
        response = self.response
        for key, columns in self.roles.items():
            if response in columns:
                raise ValueError(
                    f"{key}: `{response}` is the response, which cannot be its own {key}; name another column"
                )
        if self.trials and self.family != "binomial":
            raise ValueError("trials: only family binomial has trials; remove the key")
        return self


class PathConfig(Section):
    """A fit for each of these penalties: `l1 = l1_ratio * penalty`, `l2 = (1 - l1_ratio) * penalty`."""

    penalties: list[Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False), FROM_TEXT]] | None = Field(
        default=None, min_length=1, max_length=1000
    )
    """The penalties, in any order. Default: `number` of them, evenly spaced on the logarithmic scale, from the smallest
    that leaves only the intercept down to `smallest` times that."""
    number: Count = Field(default=50, le=1000)
    """How many penalties, if they are not listed."""
    smallest: Number = Field(default=1e-3, ge=1e-9, lt=1)
    """The last penalty divided by the first."""
    l1_ratio: Number = Field(default=1.0, ge=0, le=1)
    """The share of the lasso: 1 is the lasso, 0 the ridge, in between the elastic net."""
    select: Literal["held_out", "aic", "cross_validation"] = "held_out"
    """Which fit of the path is reported: with the least deviance on the `evaluate` rows, with the least AIC, or with
    the least deviance in a `cross_validation` of the training rows."""
    folds: Count = Field(default=10, ge=2, le=100)
    """Number of folds of a cross-validation: the parts into which the training rows are divided."""
    by: Name | None = None
    """A column for cross-validation, such as `date`: rows with the same value, which may be alike, stay in the same
    fold. Default: each row is assigned independently."""
    rule: Literal["min", "one_se"] = "min"
    """For cross-validation: the penalty with the least deviance, or the strongest penalty within one standard error of
    it."""

    @model_validator(mode="after")
    def _keys_of_cross_validation(self) -> "PathConfig":
        given = {"folds": self.folds != 10, "by": self.by is not None, "rule": self.rule != "min"}
        key = next((key for key, is_given in given.items() if is_given), None)
        if key and self.select != "cross_validation":
            raise ValueError(f"{key}: is of a cross-validation; add `select: cross_validation`, or remove the key")
        return self


def _bounds(value: Any) -> Any:
    """Two bounds, None for an infinite one. Raises ValueError unless the first is below the second, and one is finite."""
    try:
        lower, upper = (
            end if bound is None else float(str(bound).replace(".inf", "inf"))
            for bound, end in zip(value if isinstance(value, list) else (), (-math.inf, math.inf), strict=True)
        )
    except ValueError:
        raise ValueError("expected the lowest and the highest value, such as [0, inf]") from None
    if not lower < upper or math.inf == -lower == upper:
        raise ValueError(f"{lower:g} is not below {upper:g}, or both are infinite; a fixed coefficient is an `offset`")
    return [None if math.isinf(bound) else bound for bound in (lower, upper)]


Bounds = Annotated[list[float | None], BeforeValidator(_bounds, json_schema_input_type=list[float | str | None])]


class DesignConfig(LikelihoodConfig, LinkConfig, RowsConfig):
    """The settings that a fit depends on with any solver."""

    std_errors: WrittenErrors = "classical"
    """The standard errors of the coefficients. `quasi`: classical errors times the root of the Pearson dispersion;
    `robust`: any variance (`HC1`; or `HC0`, `HC2`, `HC3` by name); `cluster(column)`: rows with the same value may be
    alike (CR2), or with the same value of either column, `cluster(date + tailnum)`; `driscoll_kraay(date)`: rows of
    close dates may be alike; `newey_west(date)`: the same with one row a date; `survey(school, strata=region,
    fpc=schools)`: the design of a survey; `unconditional`: with the error of estimated smoothing parameters."""
    l1: Number = Field(default=0.0, ge=0, le=1e9)
    """Lasso penalty: adds `l1 * sum(|b|)` to the mean loss of a row, on standardised numbers and all levels. Sets
    coefficients to zero; together with `l2` the elastic net."""
    l2: Number = Field(default=0.0, ge=0, le=1e9)
    """Ridge penalty: adds `l2 / 2 * sum(b^2)` to the mean loss of a row, on standardised numbers and all levels."""
    unpenalised: list[Text] = Field(default=[], max_length=MOST_COLUMNS)
    """Terms without a penalty, such as `[C(month), distance]`; the intercept never has one."""
    penalty_factors: dict[Text, Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False), FROM_TEXT]] = Field(
        default={}, max_length=MOST_COLUMNS
    )
    """Factors that multiply the penalties of terms, as glmnet's `penalty.factor`: `dest: 0.5`. Default: 1."""
    bounds: dict[Text, Bounds] = Field(default={}, max_length=MOST_COLUMNS)
    """The lowest and the highest value of coefficients, by term or coefficient, on the scale of the data: `{distance: [0, inf],
    "carrier[UA]": [-1, 1]}`. Those of a factor hold against its reference level."""
    firth: bool = False
    """Firth's penalised likelihood (Jeffreys' prior), for `binomial` and `poisson`: finite estimates where terms
    separate rows, and less bias where there are few events."""
    method: Literal["reml", "ml"] = "reml"
    """The likelihood that estimates the variances of random effects: `reml`, the restricted one, or `ml`, which compares models
    with different terms by likelihood-ratio tests."""
    path: PathConfig | None = None
    """Fit the model for one penalty after the other, and choose one of them."""
    reference_class: Level | None = None
    """For `multinomial`: the class of the response that the others are compared with. Default: the first, in the order
    of `data.order` or else sorted."""
    class_order: list[Level] = Field(default=[], max_length=MOST_COLUMNS)
    """For `ordinal`: all classes of the response, the lowest first, as in `[low, medium, high]`. Default: that of
    `data.order`, or of numbers; text needs one of the keys."""
    absorb: Annotated[
        list[Text],
        Field(max_length=MOST_COLUMNS),
        AfterValidator(no_duplicates),
        AfterValidator(lambda texts: [term.name for term in absorbed_terms(texts)]),
    ] = []
    """Columns whose levels, even millions, each have a coefficient that is fitted exactly but not reported, such as
    `[tailnum, flight]`. With `tailnum[year]` each level has a slope of a number too, and with `tailnum[[year]]` a slope alone."""
    instruments: Text | None = None
    """Endogenous terms of the formula and their instruments, as in `price ~ cost + distance`: two-stage least squares. In the
    formula it is the last part, `y ~ x | price ~ cost`."""

    @property
    def roles(self) -> dict[str, list[str]]:
        clusters = list(self.errors.all_columns)
        folds = {"path.by": [self.path.by]} if self.path and self.path.by else {}
        named = super().roles | ({"std_errors": clusters} if clusters else {}) | folds
        named |= {"instruments": covariates_in(self.instruments)} if self.instruments else {}
        absorbed = dict.fromkeys(name for term in absorbed_terms(self.absorb) for name in term.columns)
        return named | ({"absorb": [*absorbed]} if absorbed else {})

    @property
    def absorbed_factors(self) -> list[str]:
        """The columns with absorbed effects, without those that have slopes alone."""
        return [term.column for term in absorbed_terms(self.absorb) if isinstance(term, Absorbed)]

    @property
    def compared_columns(self) -> list[str]:
        """The columns, except the response, that determine whether a fit can distinguish two rows, with any standard
        errors."""
        roles = {key: columns for key, columns in self.roles.items() if key != "frequency"}
        if not self.absorb:
            roles.pop("std_errors", None)
        return [*covariates_in(self.formula), *(name for columns in roles.values() for name in columns)]

    @property
    def errors(self) -> StdErrors:
        """What `std_errors` says."""
        return parsed(self.std_errors)

    @model_validator(mode="after")
    def _keys_that_go_together(self) -> "DesignConfig":
        families.check(self)
        compatibility.check(self)
        if len(set(self.class_order)) < len(self.class_order):
            raise ValueError("class_order: it has a class twice; name each class once")
        for term in self.unpenalised:
            if term in self.penalty_factors:
                raise ValueError(f"penalty_factors: `{term}` is in `unpenalised` too; remove it from one")
        if self.absorb and not covariates_in(self.formula):
            raise ValueError(
                "absorb: the formula has no term beside the absorbed factors, so nothing would be reported; add one"
            )
        for name in absorbed_too(self.formula, self.absorbed_factors):
            raise ValueError(
                f"absorb: `{name}` is in the formula too; an absorbed factor has no coefficients to show, so "
                f"remove it from one of the two, or write i({name}, x) for the effect of a number x at each level"
            )
        return self


PREDICTION_COLUMNS = (
    *("file", "row", "linear_predictor", "linear_predictor_std_error", "probability", "mean", "std_error"),
    *("posterior_sd", "ci_lower", "ci_upper", "geometric_mean", "geometric_ci_lower", "geometric_ci_upper"),
    *("prediction_lower", "prediction_upper", "geometric_prediction_lower", "geometric_prediction_upper"),
    *("predicted", "expected", "unseen", "remark"),
)
"""Columns of a table of predictions beside those of `identity`."""


class PredictionConfig(Section):
    """Metrics and predictions: no key here is a reason to fit again."""

    threshold: Number = Field(default=0.5, gt=0, lt=1)
    """Predicted probability from which a row is classified as an event in the metrics."""
    by: Names = []
    """Columns, such as `[carrier, month]`, for whose values the metrics are also computed: `metrics_by.csv`."""
    identity: Names = []
    """Columns to copy into the predictions, beside the name of the file and the number of the row in it."""
    unseen: Literal["missing", "reference", "error"] = "missing"
    """What evaluation and prediction do with a level that no training row has: `missing` takes the level `(rare)` if the
    column has it, else `(missing)`, else there is no prediction; `reference` takes the reference level, and `error`
    stops."""
    predictions: Literal["parquet", "csv"] = "parquet"
    """The format of predictions and scores: Parquet alone, or `csv` too."""
    export: bool = False
    """Whether to write `saved_model/`, which TensorFlow loads without tfglm, and `model.json`."""

    @field_validator("identity")
    @classmethod
    def _free_names(cls, identity: list[str]) -> list[str]:
        taken = [name for name in identity if name in PREDICTION_COLUMNS]
        if taken:
            raise ValueError(f"predictions have a column `{taken[0]}` of their own; derive one of another name")
        return identity


class ResultsConfig(ComparisonsConfig, PredictionConfig):
    """Tables, metrics and predictions of a fit: no key here is a reason to fit again."""

    reference: dict[Text, Level] = Field(default={}, max_length=MOST_EXPRESSIONS)
    """Reference level of a term: `carrier: UA`, `C(month): 1`. Default: the first level that is not separated, in the
    order of `data.order` or else sorted."""
    vcov: bool = False
    """Whether to write the covariance matrix of the coefficients, `vcov.csv`."""
    marginal_effects: bool = True
    """Whether to write average marginal effects and adjusted means, on the scale of the response:
    `marginal_effects.csv` and `adjusted_means.csv`."""
    adjusted_means: Literal["observed", "balanced"] = "observed"
    """What adjusted means are averaged over: the `observed` training rows, or a `balanced` grid as in R's emmeans."""
    random_effects: Literal["zero", "integrated"] = "zero"
    """How marginal effects, adjusted means and `margins_at` treat random effects: at `zero`, or `integrated` over their
    normal distributions."""
    offset_at: Number | None = None
    """Value of the column of the offset for adjusted means and marginal effects: with `offset: log(years)`, `offset_at:
    1` gives them for a year. Default: each row's own."""
    diagnostics: bool = False
    """Whether to write the page `diagnostics.html`: residuals of training rows, and the most influential rows."""
    leverage: bool = False
    """Whether the residuals of training rows include the leverage of each row and its standardised Pearson residual."""
    confidence: Number = Field(default=0.95, gt=0, lt=1)
    """Coverage of the confidence intervals."""
    interval: Literal["mean", "prediction"] = "mean"
    """Intervals of predictions: of the `mean` alone, or of a new response too (`prediction`)."""


class ModelConfig(ResultsConfig, DesignConfig, SolverConfig):
    """One regression."""

    family: FamilyName
    """Distribution of the response: `gaussian` any number, `binomial` 0 or 1, `beta` proportions between 0 and 1,
    `poisson` and `negative_binomial` counts, `truncated_poisson` and `truncated_negative_binomial` counts above 0, `gamma`
    and `inverse_gaussian` amounts above 0, `tweedie` amounts that are often 0, `multinomial` classes, `ordinal` classes
    that have an order."""
    sweep: Sweep = {}
    """Several models in one section: other keys, each with a list of values, such as `l2: [0.001, 0.01, 0.1]`. Each
    combination is a model, `<name>_1`, `<name>_2`, ..."""

    @model_validator(mode="after")
    def _keys_of_results(self) -> "ModelConfig":
        if self.offset_at is not None and not self.offset:
            raise ValueError("offset_at: the model has no offset; add the key `offset`, or remove this one")
        if self.comparison == "odds_ratio" and self.family not in ("binomial", "beta", "multinomial", "ordinal"):
            raise ValueError(f"comparison: means of family {self.family} are no probabilities; use `ratio`")
        has_two_factors = 1 < len(self.absorbed_factors) == len(self.absorb)
        if self.leave_out and (self.family != "gaussian" or self.weights or self.instruments or not has_two_factors):
            raise ValueError(
                "leave_out: this needs family gaussian, two factors in `absorb` without slopes, and neither `weights` nor "
                "`instruments`; remove the key"
            )
        if self.diagnostics and self.family in ("multinomial", "ordinal"):
            raise ValueError("diagnostics: a regression of classes has no residuals; remove the key")
        return self

    @model_validator(mode="before")
    @classmethod
    def _no_averages_unasked_where_factors_are_absorbed(cls, raw: Any) -> Any:
        """Their errors take as long as the fit, because they include the errors of all absorbed effects."""
        if not isinstance(raw, dict) or not raw.get("absorb"):
            return raw
        return {"marginal_effects": bool(raw.get("margins_at")), **raw}


def covariates_of(model: RowsConfig) -> list[str]:
    """The columns that a prediction of the model needs."""
    named = [*covariates_in(model.formula), *columns_of(model.offset or ""), *model.roles.get("absorb", [])]
    if getattr(model, "interval", "mean") == "prediction":
        named += [name for name in (model.trials, model.weights) if name]
    return list(dict.fromkeys(named))
