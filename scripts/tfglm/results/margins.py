"""Average marginal effects and adjusted means, on the scale of the response, with standard errors by the delta method.

The averages are over the rows of the likelihood, each with its weight there; adjusted means may be those of a balanced grid
(results.balanced). Of a regression of classes they are of the probability of each class. An average F has the variance
(dF/db)' V (dF/db) with the covariance matrix V of the coefficients: the covariates are taken as they are, and the response alone
varies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from tfglm.data.shards import IngestedFile
from tfglm.design.derivatives import is_step
from tfglm.design.design import Design
from tfglm.design.factors import Categorical, Numeric
from tfglm.engine import binned_averages, collapsed
from tfglm.engine.averages import AveragesByLevel, AverageSlope, LevelMeans, MeanSlope, with_values
from tfglm.engine.averaging import average
from tfglm.engine.binned_averages import BinnedMeans
from tfglm.engine.class_averages import ClassMeans, ClassSlopes
from tfglm.engine.workload import Workload
from tfglm.results.accuracy import NO_ROWS
from tfglm.results.balanced import GridMeans, ReferenceGrid, on_response_scale
from tfglm.results.coefficients import tests
from tfglm.results.estimates import NOT_IDENTIFIED, choose_references
from tfglm.results.predict import without_separated
from tfglm.results.reference import FEWEST, Fewest, few_events, reference_of
from tfglm.solvers.fitted import EMPTY, SEPARATED, Fitted

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
NO_ERRORS = "estimate only: the fit has no standard errors"
PENALISED = "estimate only: the fit is penalised"


@dataclass(frozen=True)
class Largest:
    """Factors beyond this are left out, as they would take too long or too much memory.

    Attributes
    ----------
    levels
        Levels of a factor: each has two rows of tables.
    predictions
        Levels times training rows, of a family whose mean is not linear in the coefficients. Each takes 10 to 20 ns. Of a factor
        that `BinnedMeans` averages it counts as `binned_averages.LEVELS` levels.
    one_by_one
        Predictions up to which `BinnedMeans` does not pay.
    derivatives
        Levels times coefficients, of 8 bytes.
    """

    levels: int = 500
    predictions: float = 4e9
    one_by_one: float = 2e7
    derivatives: float = 2**24


LARGEST = Largest()


@dataclass(frozen=True)
class Variable:
    """A column that the effect is of: by the levels of a factor, or of numbers. `left_out` says why it has no effect here."""

    column: str
    factor: Categorical | None
    left_out: str = ""

    @property
    def term(self) -> str:
        return self.factor.name if self.factor else self.column


@dataclass(frozen=True)
class Margins:
    """Two tables.

    Attributes
    ----------
    effects
        A row for each level of a factor but the reference level, and for each column of numbers: EFFECTS. The degrees of freedom
        are infinite where the normal distribution is used. Of a regression of classes the same for each class, which the first
        column names.
    means
        A row for each level of a factor: MEANS, with the class likewise.
    """

    effects: pd.DataFrame
    means: pd.DataFrame


def margins(
    design: Design,
    fitted: Fitted,
    files: Sequence[IngestedFile],
    reference: Mapping[str, str],
    df_residual: float,
    confidence: float,
    balanced: bool = False,
    largest: Largest = LARGEST,
    fewest: Fewest = FEWEST,
    of_collapsed: IngestedFile | None = None,
    threads: int = 1,
) -> Margins:
    """The average marginal effect of each column of a model, and the adjusted mean of each level.

    Parameters
    ----------
    design, fitted
        The model.
    files
        Those with the training rows.
    reference
        Reference levels by term, as `estimates.estimated` takes them.
    df_residual
        Of the fit.
    confidence
        Of the intervals.
    balanced
        Whether adjusted means are those of a balanced grid. Effects are averages over the rows in any case.
    largest
        Beyond which factors are left out.
    fewest
        What clusters have to tell at least.
    of_collapsed
        The training rows, collapsed, if the fit has read them.
    threads
        To read the rows with; they change no bit.

    Raises
    ------
    UserError
        If a reference level asked for has no finite estimate.
    """
    references = choose_references(design, fitted, reference)
    coefficients = with_limits(fitted)
    listed = list(variables(design, largest))
    by_levels = {
        variable.term: level_means(design, variable.factor, coefficients, largest)
        for variable in listed
        if variable.factor and not variable.left_out
    }
    by_slope = {
        variable.term: (ClassSlopes if design.equations else MeanSlope)(design, variable.column, coefficients)
        for variable in listed
        if not (variable.factor or variable.left_out)
    }
    grid = ReferenceGrid(design, fitted) if balanced else None
    columns, numbers = (grid.columns, grid.averages) if grid else ((), [])
    read = with_values(replace(design, cluster=None), list(dict.fromkeys([*by_slope, *columns])))
    training = Workload(read, files, "train")
    training = collapsed.over(of_collapsed, training) if of_collapsed else training
    workload = without_separated(training, fitted)
    rows = average(workload, [*by_levels.values(), *by_slope.values(), *numbers], coefficients, threads)
    inference = Inference(design, fitted, df_residual, confidence, fewest)
    effects: list[Columns] = []
    means: list[Columns] = []
    for number, label in enumerate(design.class_labels if design.equations else ("",)):
        of_class: Columns = {"class": label} if design.equations else {}
        for variable in listed:
            if variable.left_out:
                nothing: Columns = of_class | {"term": [variable.term], "status": [variable.left_out]}
                effects.append(nothing)
                means += [nothing] if variable.factor else []
            elif variable.factor:
                levels = Levels(inference, variable.factor, by_levels[variable.term].of_class(number), label)
                effects.append(of_class | levels.effects(references[variable.term]))
                of_levels = balanced_means(inference, variable.factor, grid, coefficients) if grid else levels.means()
                means.append(of_class | of_levels)
            else:
                slope = inference.of_slope(by_slope[variable.term].of_class(number))
                effects.append(of_class | {"term": [variable.term], **slope, "rows": [rows]})
    of = ("class",) if design.equations else ()
    return Margins(table(effects, (*of, *EFFECTS)), table(means, (*of, *MEANS)))


def level_means(design: Design, factor: Categorical, coefficients: np.ndarray, largest: Largest) -> LevelMeans:
    """What is to add the rows of a factor."""
    if design.equations:
        return ClassMeans(design, factor, coefficients)
    return (BinnedMeans if is_binned(design, factor, largest) else LevelMeans)(design, factor, coefficients)


def is_binned(design: Design, factor: Categorical, largest: Largest) -> bool:
    """Whether `BinnedMeans` averages a factor."""
    levels, rows = len(factor.levels), design.rows["train"]
    many = levels > binned_averages.LEVELS and levels * rows > largest.one_by_one
    return many and binned_averages.is_alone(design, factor)


def with_limits(fitted: Fitted) -> np.ndarray:
    """The coefficients, [p]: infinite where separated, NaN without rows."""
    infinite = np.where(fitted.responses > 0, np.inf, -np.inf)
    return np.select([fitted.status == SEPARATED, fitted.status == EMPTY], [infinite, np.nan], fitted.coefficients)


def variables(design: Design, largest: Largest) -> Iterator[Variable]:
    """What the terms of a formula are made of, in its order."""
    seen = set()
    for term in design.terms:
        for name in (*term.categorical, *term.numeric):
            factor = design.categorical_by_name.get(name)
            column = factor.column if factor else design.numeric_by_name[name].column
            variable = Variable(column, factor)
            if variable.term not in seen:
                seen.add(variable.term)
                yield replace(variable, left_out=why_left_out(design, variable, largest))


def why_left_out(design: Design, variable: Variable, largest: Largest) -> str:
    """Why a column has no effect here; '' if it has."""
    column, factor = variable.column, variable.factor
    if twice := in_two_ways(design, column):
        return twice
    if factor is None:
        steps = any(is_step(number.learnt) for number in numbers_of(design) if number.column == column)
        return "left out: a function of the formula changes in steps" if steps else ""
    levels, rows = len(factor.levels), design.rows["train"]
    if levels > largest.levels:
        return f"left out: {levels:,} levels, of {largest.levels:,} at most"
    of_a_row = binned_averages.LEVELS if is_binned(design, factor, largest) else levels
    predictions = of_a_row * rows * max(len(design.equations), 1)
    if predictions > largest.predictions and not design.distribution.quadratic:
        return f"left out: {levels:,} levels of {rows:,} rows, of {largest.predictions:,.0f} in all at most"
    if levels * design.size > largest.derivatives:
        return f"left out: {levels:,} levels by {design.size:,} coefficients, of {largest.derivatives:,.0f} at most"
    return ""


def in_two_ways(design: Design, column: str) -> str:
    """What is wrong with a column that is in the model by its levels and in another way too; '' if it is not."""
    by_levels = sum(factor.column == column for factor in design.categorical)
    by_numbers = any(number.column == column for number in numbers_of(design))
    in_two = by_levels + by_numbers > 1
    return f"left out: `{column}` is in the model by its levels and in another way too" if in_two else ""


def numbers_of(design: Design) -> list[Numeric]:
    """The factors of numbers, that of the offset included."""
    return [*design.numeric, *([design.offset] if design.offset else [])]


def table(parts: Sequence[Columns], columns: Sequence[str]) -> pd.DataFrame:
    """The rows of all parts; columns that a part lacks are empty there."""
    frames = [pd.DataFrame(part) for part in parts]
    frame = (pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()).reindex(columns=list(columns))
    texts = [name for name in ("term", "level", "reference", "status") if name in columns]
    return frame.assign(**{name: frame[name].astype(object).fillna("") for name in texts}).astype({"rows": "Int64"})


@dataclass(frozen=True)
class Inference:
    """What makes standard errors, tests and intervals of averages."""

    design: Design
    fitted: Fitted
    df_residual: float
    confidence: float
    fewest: Fewest

    def __call__(self, estimate: np.ndarray, derivative: np.ndarray, status: np.ndarray, rare: np.ndarray) -> Columns:
        """Columns of a table.

        Parameters
        ----------
        estimate
            [averages].
        derivative
            By the coefficients, [averages, p].
        status
            Why there is no standard error, '' if there is one, [averages].
        rare
            Of which there are too few events for a test by cluster, [averages].
        """
        lost = NOT_IDENTIFIED if len(self.fitted.separating) else "aliased"
        status = np.where((status == "") & ~self.fitted.estimable(derivative), lost, status)
        estimate = np.where((status == "") | (status == "separated"), estimate, np.nan)
        if self.design.penalised or not np.isfinite(self.fitted.dispersion):
            only = PENALISED if self.design.penalised else NO_ERRORS
            return {"estimate": estimate, "status": np.where(status == "", only, status)}
        has_error = status == ""
        rows = scipy.sparse.csr_array(np.where(has_error[:, None], derivative, 0.0))
        reference = reference_of(self.design, self.fitted, rows, self.df_residual, fewest=self.fewest)
        if reference.by_cluster:
            reference = replace(reference, rare=rare)
            status = np.where(has_error, reference.notes(), status)
        has_error &= ~np.asarray(reference.unseen)
        error = np.where(has_error, np.sqrt(np.maximum(self.fitted.variances(rows).chosen, 0.0)), np.nan)
        tested = tests("statistic", reference, estimate, error, self.confidence)
        df = np.where(has_error, reference.df, np.nan)
        return {"estimate": estimate, "std_error": error, **tested, "df": df, "status": status}

    def of_slope(self, average: AverageSlope) -> Columns:
        """Columns of the effect of a column of numbers."""
        estimate, derivative = np.array([average.mean]), average.derivative[None]
        finite = np.isfinite(estimate) & np.isfinite(derivative).all()
        return self(estimate, np.where(finite, derivative, 0.0), np.where(finite, "", NO_SLOPE), np.zeros(1, bool))


class Levels:
    """The effects and means of a factor, of a regression of classes on the probability of one class."""

    def __init__(
        self, inference: Inference, factor: Categorical, averages: AveragesByLevel | GridMeans, label: str = ""
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

    @property
    def _derivative(self) -> np.ndarray:
        """Of the means by the coefficients, 0 where there is no mean."""
        return np.where((self._status == NO_MEAN)[:, None], 0.0, self._averages.derivative)

    def means(self) -> Columns:
        """Columns of the table of adjusted means."""
        columns = self._inference(self._averages.mean, self._derivative, self._status, self._rare)
        names = {"term": self._factor.name, "level": list(self._factor.levels), "rows": self._rows}
        return names | columns | {"mean": columns["estimate"]}

    def effects(self, reference: int) -> Columns:
        """Columns of the table of marginal effects, with the number of the reference level."""
        others = np.delete(np.arange(len(self._factor.levels)), reference)
        mean, derivative = self._averages.mean, self._derivative
        with np.errstate(invalid="ignore"):  # of two that are infinite, whose status says so
            differences = mean[others] - mean[reference]
        columns = self._inference(
            differences,
            derivative[others] - derivative[reference],
            np.where(self._status[others] == "", self._status[reference], self._status[others]),
            self._rare[others] | self._rare[reference],
        )
        names = {
            "term": self._factor.name,
            "level": [self._factor.levels[level] for level in others],
            "reference": self._factor.levels[reference],
            "rows": self._rows[others],
        }
        return names | columns


def events_by_level(design: Design, fitted: Fitted, factor: Categorical, label: str) -> np.ndarray:
    """The sums of the responses, or the rows of a class, by level of a factor."""
    if not design.equations:
        return design.by_level(factor.name, fitted.responses)
    # A term without a penalty is in no equation of the reference class, unlike those with one.
    in_equations = dict.fromkeys(part.term.equation for part in design.parts if factor.name in part.grouping)
    by_class = {each: design.by_level(factor.name, fitted.responses, each) for each in in_equations}
    others = sum(by_class.values(), np.zeros(()))
    return by_class[label] if label in by_class else design.by_level(factor.name, fitted.rows) - others


def balanced_means(inference: Inference, factor: Categorical, grid: ReferenceGrid, coefficients: np.ndarray) -> Columns:
    """Columns of the table of adjusted means on a balanced grid."""
    design = inference.design
    twice = filter(None, (in_two_ways(design, each.column) for each in design.categorical))
    if problem := next(twice, ""):
        # Its levels and its numbers are no combinations.
        return {"term": [factor.name], "status": [problem]}
    means = Levels(inference, factor, GridMeans(grid, factor.name, coefficients)).means()
    return on_response_scale(means, design.distribution)
