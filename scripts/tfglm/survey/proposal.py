"""A regression to start from: which column could be the response, and which others could explain it."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
import scipy.stats

from tfglm.errors import UserError
from tfglm.families.gaussian import Gaussian
from tfglm.families.poisson import Poisson
from tfglm.formula.parse import parse, term_of
from tfglm.formula.read import columns_of
from tfglm.formula.response import computed_response, with_response
from tfglm.survey import collinear, screening
from tfglm.survey.calendar import Calendar
from tfglm.survey.columns import ColumnSummary, described
from tfglm.survey.flights import COVARIATES
from tfglm.survey.names import ARMS, CONVERTED, FEW_VALUES, happening, is_category, is_identifier, is_named
from tfglm.survey.responses import (
    FEWEST_ROWS,
    MOST_MISSING,
    ProposedResponse,
    overdispersed,
    rank_of,
    rows_of_the_rarest,
)
from tfglm.survey.units import unit_of

MOST_COVARIATES, MOST_LEVELS, MOST_RANDOM, ROWS_OF_A_LEVEL = 8, 50, 1000, 5
"""Covariates; levels of a factor; levels of random effects, and the fewest rows that each has on average."""
SKEWED = 3.0
"""Skewness from which a number that is never below 0 joins as its logarithm, if this is less than half as skewed."""
FURTHER = f"a further covariate; {MOST_COVARIATES} are enough to begin with"
"""Why a column is left out that could have a term."""
FEWEST_UNITS_OF_A_LEVEL = 10
"""A level of n units leaves about n - 1 degrees of freedom, and a test of one coefficient needs 8."""
OTHER_NUMBER = r"^(?=.*[0-9])(?=.*[.,'%$€£])[-+0-9.,' %$€£]+$"
"""A number that is written otherwise than the layout says, with groups of thousands, a per cent sign or a currency."""

EXPOSURES = (
    "exposure|expos|pyears|pyrs|(person|patient|vehicle|car|policy)_?(years?|days?|time|months?)|pop(ulation)?|at_?risk|n_?at_?risk|"
    "insured|holders|policies"
)
"""Names of what a count could come from."""
ARRIVAL_DELAY, DEPARTURE_DELAY = "(^|_)arr(ival)?_?.*(delay|del15)", "(^|_)dep(arture)?_?.*(delay|del15)"
FEWEST_EFFECTIVE_UNITS = 4.0
"""Units of equal weight among which a number must vary, at least."""
FEWEST_ROWS_OF_A_CLASS = 5

RESPONSE = "the response"
"""A name that no column has."""


@dataclass(frozen=True)
class Proposal:
    """A proposed regression: a response, the columns of the terms that may explain it, and why other columns have no term.

    `derive` are columns that terms need. `cluster` is the column within whose values errors may be correlated, if any.
    `rare` has the fewest rows of a level of some factors, and `why` the reason for the term of a column.
    """

    response: ProposedResponse
    terms: dict[str, str]
    left_out: dict[str, str]
    derive: dict[str, str] = field(default_factory=dict)
    cluster: str = ""
    rare: Mapping[str, int] = field(default_factory=dict)
    requested: str = ""
    """The formula that the user gave."""
    units: int = 0
    """How many units the column of `cluster` has, unless it is the date."""
    offset: str = ""
    """The logarithm of an exposure."""
    penalised: bool = False
    """Whether the covariates tell classes apart, so that only a penalty keeps coefficients finite."""
    frequency: str = ""
    """The column that says how many equal rows a row stands for."""
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def formula(self) -> str:
        return self.requested or f"{self.response.text or self.response.name} ~ {' + '.join(self.terms.values())}"

    @property
    def columns(self) -> list[str]:
        """The columns that the model needs."""
        answer = self.response.columns or [self.response.name]
        others = [*answer, *self.terms, self.cluster, *columns_of(self.offset), self.frequency]
        return list(dict.fromkeys(filter(None, others)))

    @property
    def why_left_out(self) -> dict[str, str]:
        """The reasons by column; all further covariates are one entry, the last."""
        others = {name: reason for name, reason in self.left_out.items() if reason != FURTHER}
        further = [name for name in self.left_out if name not in others]
        words = FURTHER.replace("a further covariate", "further covariates") if further[1:] else FURTHER
        return others | ({", ".join(further): words} if further else {})

    @property
    def std_errors(self) -> str:
        return f"cluster({self.cluster})" if self.cluster else "robust"


def propose(
    rows: pl.DataFrame, columns: Sequence[ColumnSummary], calendar: Calendar, response: ProposedResponse, flights: bool
) -> Proposal:
    """Propose a regression of the response that the columns allow. With `flights` the file has a shipped layout of flights,
    and the covariates are those known before the flight. Raises UserError if there is nothing to explain the response by."""
    by_name = {column.name: column for column in (*columns, *map(described, calendar.parts))}
    unit = None if flights else unit_of([column for column in columns if column.name != response.source], rows)
    cluster = unit.name if unit else calendar.cluster
    exposure = "" if flights or response.family.name != Poisson.name else exposure_in(columns, response.source)
    terms = possible_terms(columns, calendar, response.source, flights)
    terms.pop(exposure, None)
    series_of = rows.with_columns(*calendar.parts)
    complete = series_of.with_columns(response.values.alias(RESPONSE)).drop_nulls(RESPONSE)
    for required in filter(None, [cluster, exposure]):
        complete = complete.drop_nulls(required)
    texts = {name for name, term in terms.items() if term_of(term).has_levels({name: by_name[name].kind})}
    # Those of flights are known, and a level that tells nothing is seen to.
    levelled = [name for name in terms if by_name[name].labels or name == calendar.hour]
    if not flights:
        levelled += [name for name in terms if by_name[name].kind == "text" or is_category(by_name[name])]
    few = {name: count for name in levelled if (count := levels_of_few_rows(series_of[name]))}
    rare, why = dict.fromkeys(few, FEWEST_ROWS), {}
    may_be_random = not (cluster or response.family.of_classes)
    for name in () if flights else [name for name in terms if name in texts and by_name[name].values > MOST_LEVELS]:
        rows_of_levels = series_of[name].drop_nulls().alias("value").value_counts(sort=True)["count"].to_numpy()
        levels, last = len(rows_of_levels), max(int(rows_of_levels[MOST_LEVELS - 1]), FEWEST_ROWS)
        if may_be_random and levels <= MOST_RANDOM and rows_of_levels.sum() >= ROWS_OF_A_LEVEL * levels:
            terms[name] = f"(1 | {name})"
            why[name] = (
                f"random effects, as it has {levels:,} levels; effects of levels with few rows shrink to the mean"
            )
            few.pop(name, None)
            rare.pop(name, None)
        elif rows_of_levels[0] >= last and int((rows_of_levels >= last).sum()) <= 2 * MOST_LEVELS:
            kept = pl.col(name).is_null() | (pl.len().over(name) >= last) | (name == cluster)
            merged = pl.when(kept).then(pl.col(name).cast(pl.String)).otherwise(pl.lit("(rare)"))
            complete = complete.with_columns(merged.alias(name))
            rare[name], few[name] = last, int((rows_of_levels < last).sum())
            why[name] = (
                f"{levels - few[name]:,} levels with {last:,} rows or more; the other {few[name]:,} are merged into (rare)"
            )
    choice = _Choice(len(rows), by_name, calendar, response, flights, unit, dict(terms), texts, few, complete, why)
    by_strength, leaking = (list(terms), {}) if flights else choice.ranked()
    response = choice.response
    left_out: dict[str, str] = {}
    for name in by_strength:
        reason = next(filter(None, choice.objections(name, leaking.get(name))), None)
        if reason:
            left_out[name] = reason
        else:
            choice.add(name)
    # Chosen by strength, and written in the order of the file.
    chosen = {name: choice.terms[name] for name in terms if name in choice.chosen}
    left_out = {name: left_out[name] for name in terms if name in left_out}
    if not chosen:
        reasons = "".join(f"\n  {name}: {reason}" for name, reason in left_out.items())
        raise UserError(f"no column could explain `{response.name}`, so there is no formula to write{reasons}")
    if response.family.name == Poisson.name:
        explaining = list(dict.fromkeys([*chosen, *filter(None, [exposure])]))
        seen = choice.complete.select(*(name for name in explaining if not choice.is_random(name)), RESPONSE)
        response = overdispersed(response, collinear.unexplained(seen, RESPONSE, choice.factors))
    of_chosen = choice.complete.select(*chosen, RESPONSE)
    penalised = response.family.of_classes and screening.separates(of_chosen, choice.factors, RESPONSE)
    return Proposal(
        response,
        chosen,
        left_out,
        {name: sql for name, sql in calendar.derive.items() if name in chosen},
        "" if penalised else cluster,
        {name: rows for name, rows in rare.items() if name in chosen},
        why={name: why[name] for name in chosen if name in why},
        offset=f"log({exposure})" if exposure else "",
        penalised=penalised,
        units=unit.values if unit and not penalised else 0,
    )


def possible_terms(
    columns: Sequence[ColumnSummary], calendar: Calendar, response: str, flights: bool
) -> dict[str, str]:
    """The terms of the columns that may explain a response, by column."""
    names = {column.name: column for column in columns if column.name != response}
    if flights:
        there = [name for name in COVARIATES if name in names]
        return {name: f"C({name})" if name in ("month", "weekday") else name for name in there}
    terms = {name: f"C({name})" if column.labels or is_category(column) else name for name, column in names.items()}
    return terms | {name: f"C({name})" for name in calendar.derive}


@dataclass
class _Choice:
    """The choice of covariates for a response, one after the other."""

    rows: int
    columns: Mapping[str, ColumnSummary]
    calendar: Calendar
    response: ProposedResponse
    flights: bool
    unit: ColumnSummary | None
    """The column by which errors are clustered, unless by date."""
    terms: dict[str, str]
    texts: Collection[str]
    """Those of the columns that are factors."""
    few: Mapping[str, int]
    """The number of levels with few rows, of columns that have such levels."""
    complete: pl.DataFrame
    """The rows that lack none of the values chosen so far: those that will be fitted. Numbers are on the scale of their terms."""
    why: dict[str, str]
    """Reasons for terms."""
    chosen: list[str] = field(default_factory=list)
    factors: set[str] = field(default_factory=set)
    coefficients: int = 0

    def __post_init__(self) -> None:
        of_file = [column for name, column in self.columns.items() if name not in self.calendar.derive]
        self.afterwards = {} if self.flights else happening(of_file)
        arms = (column.name for column in of_file if column.values == 2 and is_named(column, ARMS))
        self.arm = "" if self.flights else next((name for name in arms if name != self.response.source), "")
        names = [column.name for column in of_file]
        self.behind_arm = {
            column.name
            for column in (of_file[names.index(self.arm) + 1 :] if self.arm else [])
            if (column.is_numeric or column.values == 2) and rank_of(column, 1)[0]
        }

    def ranked(self) -> tuple[list[str], dict[str, str]]:
        """Return the columns, the strongest first, and why some give the response away."""
        numbers = [
            name
            for name in self.terms
            if name not in self.texts
            and self.columns[name].is_numeric
            and self.columns[name].missing <= MOST_MISSING * self.rows
        ]
        leaking: dict[str, str] = {}
        if not self.response.family.counts_events and not self.response.family.of_classes:
            leaking = screening.leaks(self.complete, numbers, RESPONSE)
            others = [name for name in numbers if name not in leaking]
            leaking |= screening.near_sums(self.complete, others, RESPONSE)
        if not self.response.family.of_classes:
            others = [name for name in numbers if name not in leaking]
            leaking |= screening.twins(self.complete, others, RESPONSE, self.response.source)
        self.take_logarithms(numbers)
        candidates = [name for name in self.terms if name in self.texts or name in numbers]
        strength = screening.strengths(self.complete, candidates, self.texts, RESPONSE)
        by_strength = sorted(self.terms, key=lambda name: strength.get(name, 0.0), reverse=True)
        suitable = [
            name for name in by_strength if name in strength and not unsuitable(self.columns[name], self.rows, False)
        ]
        suitable = [name for name in suitable if name not in leaking][: screening.MOST_COLUMNS]
        in_file = [name for name in self.terms if name in suitable and name not in self.calendar.derive]
        units = self.unit.values if self.unit else len(self.complete)
        return by_strength, leaking | screening.functions_of_two(self.complete, in_file, units)

    def take_logarithms(self, numbers: Sequence[str]) -> None:
        """Replace skewed numbers, and a skewed response of a linear regression, by their logarithms."""
        for name in numbers:
            if how := skewed(self.complete[name]):
                self.take_logarithm(name, how)
        how = skewed(self.complete[RESPONSE]) if self.response.family.name == Gaussian.name else ""
        if how and not self.response.text:
            text = logarithm(self.response.name, self.complete[RESPONSE])
            computed = computed_response(f"{text} ~ 1")
            name, reason = computed.column if computed else "", f"{self.response.reason}; its logarithm, as it is {how}"
            self.complete = self.complete.with_columns(on_log_scale(self.complete[RESPONSE]))
            self.response = replace(self.response, name=name, text=text, reason=reason, columns=(self.response.name,))

    def take_logarithm(self, name: str, why: str) -> None:
        """Let a number join as its logarithm."""
        self.terms[name], self.why[name] = logarithm(name, self.complete[name]), why
        self.complete = self.complete.with_columns(on_log_scale(self.complete[name]))

    def is_random(self, name: str) -> bool:
        return self.terms.get(name, "").startswith("(1 |")

    def objections(self, name: str, leak: str | None) -> Iterator[str | None]:
        """Yield why a column can have no term, or None, from one check after the other: the first reason counts. If errors by
        unit can test the logarithm of a number alone, this becomes its term."""
        column, calendar, response, is_factor = self.columns[name], self.calendar, self.response, name in self.texts
        binomial = response.family.counts_events
        if self.unit and name == self.unit.name:
            yield "it repeats, so standard errors are clustered by it"
        if name == calendar.date and calendar.derive:
            *others, last = calendar.derive
            yield f"a date; {' and '.join(filter(None, [', '.join(others), last]))} are derived from it"
        if f"{name}_{CONVERTED}" in self.columns:
            yield f"read as {name}_{CONVERTED}"
        yield unsuitable(column, self.rows, any_levels=self.flights or name in self.why)
        # A fifth of these rows is held out, and in the rest some levels might be rare.
        if name in self.few and column.frequent[0][1] < 2 * FEWEST_ROWS:
            yield f"text of which no value has more than {column.frequent[0][1]} rows, too few to be informative"
        yield leak
        if self.unit and is_factor:
            yield untestable(self.complete, name, self.unit.name)
        elif self.unit:
            is_logarithm, reason = testable(self.complete.drop_nulls(name), name, self.unit.name)
            if is_logarithm:
                self.take_logarithm(name, f"few {self.unit.name} have nearly all of its variation")
            yield reason
        if response.family.of_classes and is_factor:
            yield lacking_classes(self.complete.drop_nulls(name), name)
        pairs = self.complete.select(value=name, response=RESPONSE).drop_nulls()
        if not binomial and not response.family.of_classes and is_cut(pairs):
            yield f"a leak: each of its values is a range of {response.name}"
        if response.family.of_classes and not is_factor and is_cut(pairs.select(value="response", response="value")):
            yield f"a leak: each {response.name} is a range of it"
        if name in self.afterwards:
            yield f"known only afterwards, beside {self.afterwards[name]}; add it if it is known before"
        if self.arm and name in self.behind_arm:
            yield f"perhaps an outcome of {self.arm}, as it comes after it in the file; add it if it is known before"
        is_too_late = re.search(ARRIVAL_DELAY, response.source, re.I) and re.search(DEPARTURE_DELAY, name, re.I)
        if not self.flights and is_too_late:
            yield "known only once the flight has left; add it if you predict from there on"
        if binomial and is_informative(pairs, is_factor):
            yield f"a leak: it tells {response.name} by itself"
        if (binomial or response.family.of_classes) and (found := screening.standing_for(pairs, FEWEST_ROWS)):
            yield f"a leak: {found[0]} stands for {response.name if binomial else ''}{' = ' if binomial else ''}{found[1]}"
        # Columns derived from a date are not counted, or a table of many columns would lack them.
        if name not in calendar.derive and len(self.chosen) >= MOST_COVARIATES:
            yield FURTHER
        with_it = self.factors | {name} if is_factor else self.factors
        coefficients = self.coefficients + self._size(name)
        names = [*(each for each in self.chosen if not self.is_random(each)), name]
        yield obstacle(self.complete.drop_nulls(name), names, with_it, coefficients, response, self.is_random(name))

    def add(self, name: str) -> None:
        """Choose a column."""
        self.coefficients += self._size(name)
        self.complete = self.complete.drop_nulls(name)
        self.chosen.append(name)
        if name in self.texts and not self.is_random(name):
            self.factors.add(name)

    def _size(self, name: str) -> int:
        """How many coefficients a column has; levels of few rows share theirs."""
        size = self.columns[name].values - 1 if name in self.texts and not self.is_random(name) else 1
        return size - self.few[name] + 1 if name in self.few else size


def exposure_in(columns: Sequence[ColumnSummary], response: str) -> str:
    """The first column that says by its name how much a count could come from; it is above 0 and never missing. Empty if none."""
    positive = (column for column in columns if column.is_numeric and column.values > 1 and column.least > 0)
    known = (column for column in positive if column.name != response and not column.missing)
    return next((column.name for column in known if is_named(column, EXPOSURES)), "")


def skewed(values: pl.Series) -> str:
    """Words for a number that is so skewed that its logarithm is better; empty if it is not."""
    known = values.drop_nulls().cast(pl.Float64)
    if known.n_unique() <= FEW_VALUES or float(known.to_numpy().min()) < 0:
        return ""
    skewness, of_logarithm = (abs(float(scipy.stats.skew(each.to_numpy()))) for each in (known, on_log_scale(known)))
    if not (skewness > SKEWED and of_logarithm < skewness / 2):
        return ""
    least, median, greatest = (float(np.quantile(known.to_numpy(), share)) for share in (0, 0.5, 1))
    return f"skewed ({least:,.7g} to {greatest:,.7g}, with a median of {median:,.7g})"


def logarithm(name: str, values: pl.Series) -> str:
    """The term of the logarithm of a number; of one more, if it may be 0."""
    return f"log({name})" if bool((values.drop_nulls() > 0).all()) else f"log({name} + 1)"


def on_log_scale(values: pl.Series) -> pl.Series:
    """The values of that term."""
    is_positive = bool((values.drop_nulls() > 0).all())
    return (values.cast(pl.Float64) + (0 if is_positive else 1)).log()


def testable(rows: pl.DataFrame, number: str, unit: str) -> tuple[bool, str | None]:
    """Whether a number is to join as its logarithm, and why errors by unit could not test it.

    Its logarithm joins if few units have nearly all of the number's variation, as China and India do of population.
    """
    effective = screening.effective_units(rows, number, unit)
    if effective >= FEWEST_UNITS_OF_A_LEVEL or not len(rows):
        return False, None
    if bool((rows[number] > 0).all()):
        of_logarithm = screening.effective_units(rows, pl.col(number).log(), unit)
        if of_logarithm >= 2 * effective:
            return True, None
    if effective >= FEWEST_EFFECTIVE_UNITS:
        return False, None
    return (
        False,
        f"nearly all of its variation is between {effective:.1f} {unit}, too few for errors by {unit} to test it",
    )


def lacking_classes(rows: pl.DataFrame, factor: str) -> str | None:
    """Why a factor cannot explain classes: a level with hardly a row of one of them, whose coefficient would be infinite."""
    for (level,), of_level in rows.group_by([factor], maintain_order=True):
        for each in rows[RESPONSE].unique(maintain_order=True):
            if int((of_level[RESPONSE] == each).sum()) < FEWEST_ROWS_OF_A_CLASS:
                return f"{level} has fewer than {FEWEST_ROWS_OF_A_CLASS} rows of {each}, so its effect could not be estimated"
    return None


def untestable(rows: pl.DataFrame, factor: str, unit: str) -> str | None:
    """Why errors by unit could not test a factor: a level that few units have; None if each has enough."""
    counts = rows.drop_nulls(factor).group_by(factor).agg(pl.col(unit).n_unique()).sort(unit, factor)
    if not len(counts) or counts[unit][0] >= FEWEST_UNITS_OF_A_LEVEL:
        return None
    level, units = counts.row(0)
    return f"{level} has {units} different {unit}, too few for errors by {unit} to test it; {FEWEST_UNITS_OF_A_LEVEL} are needed"


def with_formula(
    formula: str, response: ProposedResponse, rows: pl.DataFrame, columns: Sequence[ColumnSummary], calendar: Calendar
) -> Proposal:
    """The regression of a formula that the user gave. A response that is derived takes the place of its column.

    Raises UserError for what is no formula.
    """
    terms: dict[str, str] = {}
    for factor in parse(formula, "formula").factors.values():
        terms |= dict.fromkeys(factor.columns, factor.name)
    derive = {name: sql for name, sql in calendar.derive.items() if name in terms}
    rare = {
        name
        for name in terms
        if name in rows.columns and rows[name].dtype == pl.String and levels_of_few_rows(rows[name])
    }
    response = overdispersed(response, 1.0)
    requested = with_response(formula, response.text or response.name)
    unit = unit_of([column for column in columns if column.name not in (response.source, *terms)], rows)
    cluster = unit.name if unit else calendar.cluster
    return Proposal(
        response, terms, {}, derive, cluster, dict.fromkeys(rare, FEWEST_ROWS), requested, unit.values if unit else 0
    )


def unsuitable(column: ColumnSummary, rows: int, any_levels: bool) -> str | None:
    """Why a column is no covariate, whatever the response and the others; None if it may be one."""
    if not column.values:
        return "has no values"
    if column.missing > MOST_MISSING * rows:
        return f"missing in {column.missing / rows:.0%} of the rows, which would be dropped"
    others = rows - column.missing - column.frequent[0][1]
    if others < FEWEST_ROWS:
        return f"has the same value in all {f'but {others} ' if others else ''}rows"
    if column.kind == "text" and all(re.match(OTHER_NUMBER, value) for value, _ in column.frequent):
        return f"numbers written as {column.frequent[0][0]}, which are read as text"
    if column.kind == "date":
        return f"a date; derive what may matter of it, such as `month: EXTRACT(MONTH FROM {column.name})`"
    if is_identifier(column, rows):
        return "looks like an identifier"
    if column.kind == "text" and not any_levels and column.values > MOST_LEVELS:
        return f"text with {column.values:,} different values; `init` proposes factors of up to {MOST_LEVELS}"
    return None


def obstacle(
    complete: pl.DataFrame,
    names: Sequence[str],
    factors: Collection[str],
    coefficients: int,
    response: ProposedResponse,
    is_random: bool,
) -> str | None:
    """Return why the last of the `names`, the candidate, cannot join the covariates chosen so far; None if it can.
    `complete` are the rows that lack none of the columns. The columns have so many `coefficients` in total. The
    candidate may have random effects."""
    binomial = response.family.counts_events
    if not all(others_than_the_most_frequent(complete[name]) >= FEWEST_ROWS for name in [*names, RESPONSE]):
        return "with it, too few rows would be left that lack no value"
    rarest = " of the rarer outcome" if binomial else " of the rarest class" if response.family.of_classes else ""
    bearing = others_than_the_most_frequent(complete[RESPONSE]) if binomial else len(complete)
    if response.family.of_classes:
        bearing = rows_of_the_rarest(complete[RESPONSE])
    if coefficients > bearing // FEWEST_ROWS:
        return f"{bearing:,} rows{rarest} are too few for {coefficients:,} coefficients"
    if binomial and is_informative(complete.select(value=names[-1], response=RESPONSE), names[-1] in factors):
        return f"in the rows that lack no value, it tells {response.name} by itself"
    return None if is_random else collinear.obstacle(complete.select(names), factors)


def levels_of_few_rows(values: pl.Series) -> int:
    """Return how many values have fewer than FEWEST_ROWS rows each."""
    return int((values.drop_nulls().alias("value").value_counts()["count"] < FEWEST_ROWS).sum())


def others_than_the_most_frequent(values: pl.Series) -> int:
    """Return how many rows have another value than the most frequent value."""
    counts = values.alias("value").value_counts(sort=True)["count"]
    return len(values) - counts[0] if len(values) else 0


def is_cut(frame: pl.DataFrame) -> bool:
    """Return whether a column of few values has the ranges of a response, as the weight below 2,500 g has of the weight."""
    ranges = (
        frame.group_by("value").agg(rows=pl.len(), least=pl.min("response"), greatest=pl.max("response")).sort("least")
    )
    is_apart = (ranges["greatest"][:-1] < ranges["least"][1:]).all()
    return bool(is_apart and len(ranges) > 1 and (ranges["rows"] >= FEWEST_ROWS).all())


def is_informative(frame: pl.DataFrame, is_factor: bool) -> bool:
    """Return whether the column `value` separates a two-valued `response`: each level has one response only, or all numbers
    with one response are beyond all numbers with the other."""
    if is_factor:
        return frame.n_unique() == frame["value"].n_unique()
    ranges = (
        frame.group_by("response").agg(least=pl.min("value"), greatest=pl.max("value")).sort("least", "greatest").rows()
    )
    return len(ranges) == 2 and bool(ranges[0][2] <= ranges[1][1])
