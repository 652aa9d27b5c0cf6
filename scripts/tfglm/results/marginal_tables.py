"""The tables of average marginal effects and adjusted means, from averages over rows (results.margins)."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse

from tfglm import digests
from tfglm.design.design import Design
from tfglm.design.factors import Categorical, Numeric
from tfglm.design.parametrisation import NEGLIGIBLE
from tfglm.engine.estimands import AveragesByLevel
from tfglm.inference.classical import Unconditional
from tfglm.inference.covariance import Covariance
from tfglm.inference.fitted import AT_BOUND, EMPTY, SEPARATED, Fitted, choose_references
from tfglm.inference.reference import Fewest, fewest_for
from tfglm.inference.stored import KINDS, restored
from tfglm.inference.stored import arrays as arrays_of
from tfglm.results.accuracy import NO_ROWS
from tfglm.results.balanced import GridMeans, ReferenceGrid, on_response_scale
from tfglm.results.coefficients import tests
from tfglm.results.estimates import NOT_IDENTIFIED, infinities
from tfglm.results.events import few_events, share_outside
from tfglm.results.geometric import RETRANSFORMED, logarithm_of, with_geometric_means

EFFECTS = (
    *("term", "level", "reference", "estimate", "std_error", "df", "statistic", "p_value", "ci_lower", "ci_upper"),
    *("rows", "status"),
)
MEANS = ("term", "level", "rows", "mean", "std_error", "df", "ci_lower", "ci_upper", "status")
"""Columns of the tables."""

Columns = dict[str, Any]
"""Some of them, of some rows; one value stands for all."""

EMPTY_COMBINATION = "not estimable: some of its combinations with levels of other factors have no rows"
NO_MEAN = "not finite: the linear predictor of some rows is out of the range of the link"

NO_SLOPE = "not finite: a function of the formula has no derivative at some rows"
ON_BOUND = "at bound"
NO_ERRORS = "estimate only: the fit has no standard errors"
PENALISED = "estimate only: the fit is penalised"


@dataclass(frozen=True)
class Margins:
    """Two tables. `effects` has a row for each level of a factor except the reference level, and for each column of numbers:
    EFFECTS. The degrees of freedom are infinite if the normal distribution is used. `means` has a row for each level of a
    factor: MEANS; of a logarithm also RETRANSFORMED.

    A multinomial regression has these rows for each class, which the first column names. Beside random effects the last
    column, `about`, says what the averages are about (results.population).
    """

    effects: pd.DataFrame
    means: pd.DataFrame


Averages = dict[str, list[AveragesByLevel]]
"""Averages by the term of a factor or the column of numbers, for each class; in a scenario those of the response under ''."""


@dataclass(frozen=True)
class InScenario:
    """The averages over the training rows in a scenario, without the factors that it sets; and the numbers of the levels that it
    sets, by factor."""

    averages: Averages
    set_levels: dict[str, int]


@dataclass(frozen=True)
class Averaged:
    """The averages over so many training rows that the tables are made of. They depend neither on reference levels nor on
    the confidence of intervals.

    `left_out` says why a term has no effect, for each term in the order of the tables; '' if it has one. `grid` has the
    values of a balanced grid, as `ReferenceGrid` takes them; None if means are those of the rows. `about` says what the
    averages are about beside random effects; '' without these. Beside absorbed factors derivatives are by the reported
    coefficients and further ones, which have this `covariance` (solvers.absorbed_averages).
    """

    rows: float
    left_out: dict[str, str]
    averages: Averages = field(default_factory=dict)
    grid: dict[str, np.ndarray] | None = None
    scenarios: dict[str, InScenario] = field(default_factory=dict)
    about: str = ""
    covariance: Covariance | None = None

    def write(self, path: Path, fit: Path) -> None:
        """Write the averages as .npz, with a digest beside it that names their fit.json."""
        nested = {"": self.averages} | {name: each.averages for name, each in self.scenarios.items()}
        errors = arrays_of(self.covariance) if self.covariance else {}
        about = {
            "rows": self.rows,
            "left_out": self.left_out,
            "grid": self.grid and list(self.grid),
            "scenarios": {name: each.set_levels for name, each in self.scenarios.items()},
            "about": self.about,
            "classes": [(name, term, len(nested[name][term])) for name in nested for term in nested[name]],
            "covariance": [self.covariance.kind, *errors] if self.covariance else [],
        }
        by_class = chain.from_iterable(each for averages in nested.values() for each in averages.values())
        arrays = map(np.asarray, chain.from_iterable(by_class))
        np.savez(path, np.array(json.dumps(about)), *arrays, *(self.grid or {}).values(), *errors.values())
        digests.write_beside(path, fit)

    @staticmethod
    def read(path: Path, fit: Path) -> "Averaged":
        """Return what `write` has written. Raises UserError if it has changed since, or is of another fit."""
        with np.load(io.BytesIO(digests.read_beside(path, fit))) as stored:
            text, *arrays = stored.values()
        about, left = json.loads(str(text)), iter(arrays)
        nested: dict[str, Averages] = {name: {} for name in ("", *about["scenarios"])}
        for name, term, count in about["classes"]:
            nested[name][term] = [AveragesByLevel(*islice(left, len(AveragesByLevel._fields))) for _ in range(count)]
        scenarios = {name: InScenario(nested[name], levels) for name, levels in about["scenarios"].items()}
        grid = dict(zip(about["grid"], left, strict=False)) if about["grid"] is not None else None
        kind, *names = about["covariance"] or [""]
        errors = restored(KINDS[kind], dict(zip(names, left, strict=True))) if kind else None
        return Averaged(about["rows"], about["left_out"], nested[""], grid, scenarios, about["about"], errors)

    def of(self, design: Design, fitted: Fitted) -> Fitted:
        """The fit with the covariance that belongs to the derivatives of the averages."""
        if not self.covariance:
            return fitted
        shown, separation = design.reported_size, fitted.separation
        more = ((0, 0), (0, int(np.count_nonzero(self.covariance.bread.free >= shown))))
        if separation:
            separation = replace(separation, directions=np.pad(separation.directions[:, :shown], more))
        null_vectors = np.pad(fitted.null_vectors, more)
        return replace(fitted, covariance=self.covariance, null_vectors=null_vectors, separation=separation)

    def labelled(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table of averages with what they are about."""
        return table.assign(about=self.about) if self.about else table


def marginal_tables(
    design: Design,
    fitted: Fitted,
    averaged: Averaged,
    reference: Mapping[str, str],
    confidence: float,
    fewest: Fewest | None = None,
    comparison: str = "difference",
) -> Margins:
    """Return the average marginal effect of each column of a model, and the adjusted mean of each level, from the averages
    over its training rows; with a `comparison` other than difference also ratios of adjusted means. Raises UserError if a
    requested reference level has no finite estimate."""
    references, fitted = choose_references(design, fitted.status, reference), averaged.of(design, fitted)
    coefficients = with_limits(design, fitted)
    grid = None if averaged.grid is None else ReferenceGrid(design, fitted, averaged.grid)
    inference = InferenceOfAverages(design, fitted, confidence, fewest or fewest_for(design), comparison)
    logarithm = logarithm_of(design.formula, design.likelihood.family, design.likelihood.link)
    effects: list[Columns] = []
    means: list[Columns] = []
    for number, label in enumerate(design.likelihood.class_labels if design.equations else ("",)):
        of_class: Columns = {"class": label} if design.equations else {}
        for term, left_out in averaged.left_out.items():
            factor = design.categorical_by_name.get(term)
            if left_out:
                nothing: Columns = of_class | {"term": [term], "status": [left_out]}
                effects.append(nothing)
                means += [nothing] if factor else []
            elif factor:
                levels = Levels(inference, factor, averaged.averages[term][number], label)
                effects.append(of_class | levels.effects(references[term]))
                of_levels = balanced_means(inference, factor, grid, coefficients) if grid else levels.means()
                means.append(of_class | with_geometric_means(of_levels, logarithm))
            else:
                slope = inference(inference.slope(term, averaged.averages[term][number]))
                effects.append(of_class | {"term": [term], **slope, "rows": [averaged.rows]})
    of = ("class",) if design.equations else ()
    retransformed = RETRANSFORMED.values() if logarithm else ()
    return Margins(
        averaged.labelled(table(effects, (*of, *EFFECTS, *inference.columns_of_ratios))),
        averaged.labelled(table(means, (*of, *MEANS, *retransformed))),
    )


def with_limits(design: Design, fitted: Fitted) -> np.ndarray:
    """The coefficients, [p]: infinite where separated, NaN without rows."""
    known = np.where(fitted.status == EMPTY, np.nan, fitted.coefficients)
    return np.where(fitted.status == SEPARATED, infinities(design, fitted), known)


def in_two_ways(design: Design, column: str) -> str:
    """Return what is wrong with a column that is in the model by its levels and in another way too, without random effects; '' if
    nothing."""
    by_levels = sum(factor.column == column and not factor.random for factor in design.categorical)
    by_numbers = any(column in number.columns for number in numbers_of(design))
    in_two = by_levels + by_numbers > 1
    return f"left out: `{column}` is in the model by its levels and in another way too" if in_two else ""


def numbers_of(design: Design) -> list[Numeric]:
    """Return the factors of numbers, including the factor of the offset."""
    return [*design.numeric, *([design.roles.offset] if design.roles.offset else [])]


def table(parts: Sequence[Columns], columns: Sequence[str]) -> pd.DataFrame:
    """The rows of all parts; columns that a part lacks are empty there."""
    frames = [pd.DataFrame(part) for part in parts]
    frame = (pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()).reindex(columns=list(columns))
    texts = [name for name in ("term", "level", "reference", "status") if name in columns]
    return frame.assign(**{name: frame[name].astype(object).fillna("") for name in texts}).astype({"rows": "Int64"})


class Estimated(NamedTuple):
    """Averages to make inferences about: `estimate` [averages], its `derivative` by the coefficients [averages, p], `status`, why
    there is no standard error, '' if there is one [averages], and whether they are `rare`, with too few events for a test with
    clusters [averages]."""

    estimate: np.ndarray
    derivative: np.ndarray
    status: np.ndarray
    rare: np.ndarray

    def on(self, comparison: str) -> "Estimated":
        """Means on the scale where a difference is the logarithm of a comparison: log(m), for odds ratios log(m / (1 - m)). They
        stay as they are for differences."""
        if comparison == "difference":
            return self
        with np.errstate(all="ignore"):
            odds = comparison == "odds_ratio"
            scaled = np.log(self.estimate) - (np.log1p(-self.estimate) if odds else 0.0)
            slope = 1.0 / self.estimate / (1.0 - self.estimate if odds else 1.0)
        slope = np.where(np.isfinite(scaled), slope, 0.0)
        return self._replace(estimate=scaled, derivative=slope[:, None] * self.derivative)

    def less(self, other: "Estimated") -> "Estimated":
        """The differences from a mean."""
        with np.errstate(invalid="ignore"):  # of two that are infinite, whose status says so
            difference = self.estimate - other.estimate
        status = np.where(self.status == "", other.status, self.status)
        return Estimated(difference, self.derivative - other.derivative, status, self.rare | other.rare)

    def at(self, places: Any) -> "Estimated":
        return Estimated(*(values[places] for values in self))


@dataclass(frozen=True)
class InferenceOfAverages:
    """What makes standard errors, tests and intervals of averages."""

    design: Design
    fitted: Fitted
    confidence: float
    fewest: Fewest
    comparison: str = "difference"

    @property
    def has_ratios(self) -> bool:
        return self.comparison != "difference"

    @property
    def columns_of_ratios(self) -> list[str]:
        ends = ("", "_std_error", "_p_value", "_ci_lower", "_ci_upper")
        return [f"mean_{self.comparison}{end}" for end in ends] if self.has_ratios else []

    def ratios(self, logarithms: Estimated) -> Columns:
        """Columns of ratios, from their logarithms, which make intervals and p-values; standard errors by the delta method."""
        found = self(logarithms)
        ratio, nothing = np.exp(found["estimate"]), np.full(len(logarithms.estimate), np.nan)
        error, p_value, lower, upper = (
            found.get(name, nothing) for name in ("std_error", "p_value", "ci_lower", "ci_upper")
        )
        values = (ratio, ratio * error, p_value, np.exp(lower), np.exp(upper))
        return dict(zip(self.columns_of_ratios, values, strict=True))

    def slope(self, term: str, average: AveragesByLevel) -> Estimated:
        """That of a column of numbers."""
        design, estimate, derivative = self.design, average.mean, average.derivative
        finite = np.isfinite(estimate) & np.isfinite(derivative).all()
        of_term = [
            part.where
            for part in design.parts
            if any(term in design.numeric_by_name[name].columns for name, _ in part.multiplier)
        ]
        on_bound = any((self.fitted.status[where] == AT_BOUND).any() for where in of_term)
        status = np.where(finite, ON_BOUND if on_bound else "", NO_SLOPE)
        return Estimated(estimate, np.where(finite, derivative, 0.0), status, np.zeros(1, bool))

    def __call__(self, averages: Estimated) -> Columns:
        estimate, derivative, status, rare = averages
        lost = NOT_IDENTIFIED if self.fitted.separation else "aliased"
        status = np.where((status == "") & ~self.fitted.estimable(derivative), lost, status)
        if self.design.bounds:  # what depends on coefficients on bounds alone has no standard error
            free = np.where(self.fitted.status == AT_BOUND, 0.0, abs(derivative))
            on_bound = free.max(axis=1) < NEGLIGIBLE * abs(derivative).max(axis=1)
            status = np.where((status == "") & on_bound, ON_BOUND, status)
        estimate = np.where(np.isin(status, ("", "separated", ON_BOUND)), estimate, np.nan)
        covariance = self.fitted.covariance
        if self.design.penalty.given or not covariance.is_known:
            only = PENALISED if self.design.penalty.given else NO_ERRORS
            return {"estimate": estimate, "status": np.where(status == "", only, status)}
        has_error = status == ""
        by_place = np.where(has_error[:, None], derivative, 0.0)
        # In the place of random effects a derivative is by the logarithm of their standard deviation (results.population).
        first = [part.where.start for part in self.design.random_parts]
        by_spread, by_place[:, first] = by_place[:, first], 0.0
        rows = scipy.sparse.csr_array(by_place)
        reference = covariance.reference(rows, self.fewest)
        if reference.by_cluster:
            reference = replace(reference, rare=rare)
            status = np.where(has_error, reference.notes(), status)
        has_error &= ~np.asarray(reference.unseen)
        variance = covariance.variances(rows).chosen
        if by_spread.any():
            assert isinstance(covariance, Unconditional)  # as the config says
            variance = covariance.with_spreads(rows, by_spread)
        error = np.where(has_error, np.sqrt(np.maximum(variance, 0.0)), np.nan)
        tested = tests("statistic", reference, estimate, error, self.confidence)
        df = np.where(has_error, reference.df, np.nan)
        return {"estimate": estimate, "std_error": error, **tested, "df": df, "status": status}


class Levels:
    """The effects and means of a factor, of a regression of classes on the probability of one class."""

    def __init__(
        self,
        inference: InferenceOfAverages,
        factor: Categorical,
        averages: AveragesByLevel | GridMeans,
        label: str = "",
    ):
        self._inference, self._factor, self._averages = inference, factor, averages
        design, fitted = inference.design, inference.fitted
        self._rows = design.by_level(factor.name, fitted.rows)
        self._rare = few_events(design, self._rows, events_by_level(design, fitted, factor, label))
        present = design.by_level(factor.name, (fitted.status != EMPTY).astype(float)) > 0
        self._status = np.select(
            [~present, averages.unknown, averages.infinite, ~np.isfinite(averages.mean)],
            [NO_ROWS, EMPTY_COMBINATION, "separated", NO_MEAN],
            "",
        )

    @cached_property
    def _means(self) -> Estimated:
        """With the derivative 0 if there is no mean."""
        derivative = np.where((self._status == NO_MEAN)[:, None], 0.0, self._averages.derivative)
        return Estimated(self._averages.mean, derivative, self._status, self._rare)

    def means(self) -> Columns:
        """Columns of the table of adjusted means."""
        columns = self._inference(self._means)
        names = {"term": self._factor.name, "level": list(self._factor.levels), "rows": self._rows}
        return names | columns | {"mean": columns["estimate"]}

    def effects(self, reference: int) -> Columns:
        """Columns of the table of marginal effects, with the number of the reference level."""
        others = self.others(reference)
        names = {
            "term": self._factor.name,
            "level": [self._factor.levels[level] for level in others],
            "reference": self._factor.levels[reference],
            "rows": self._rows[others],
        }
        inference = self._inference
        ratios = inference.ratios(self.differences(reference, inference.comparison)) if inference.has_ratios else {}
        return names | inference(self.differences(reference)) | ratios

    def others(self, reference: int) -> np.ndarray:
        return np.delete(np.arange(len(self._factor.levels)), reference)

    def differences(self, reference: int, comparison: str = "difference") -> Estimated:
        """The means of the other levels less that of the reference level, on the scale of a comparison."""
        means = self._means.on(comparison)
        of_level = self._inference.design.by_level(self._factor.name, self._inference.fitted.status == AT_BOUND)
        means = means._replace(status=np.where((means.status == "") & (of_level > 0), ON_BOUND, means.status))
        return means.at(self.others(reference)).less(means.at([reference]))


def events_by_level(design: Design, fitted: Fitted, factor: Categorical, label: str) -> np.ndarray:
    """The sums of the responses, or the rows of a class, by level of a factor."""
    if design.likelihood.is_ordered:
        return design.by_level(factor.name, fitted.rows) * share_outside(design, fitted)
    if not design.compares_classes:
        return design.by_level(factor.name, fitted.responses)
    # A term without a penalty is in no equation of the reference class, unlike those with one.
    in_equations = dict.fromkeys(part.term.equation for part in design.parts if factor.name in part.grouping)
    by_class = {each: design.by_level(factor.name, fitted.responses, each) for each in in_equations}
    others = sum(by_class.values(), np.zeros(()))
    return by_class[label] if label in by_class else design.by_level(factor.name, fitted.rows) - others


def balanced_means(
    inference: InferenceOfAverages, factor: Categorical, grid: ReferenceGrid, coefficients: np.ndarray
) -> Columns:
    """Columns of the table of adjusted means on a balanced grid."""
    design = inference.design
    twice = filter(None, (in_two_ways(design, each.column) for each in design.categorical))
    if problem := next(twice, ""):
        # Its levels and its numbers are no combinations.
        return {"term": [factor.name], "status": [problem]}
    means = Levels(inference, factor, GridMeans(grid, factor.name, coefficients)).means()
    return on_response_scale(means, design.distribution)
