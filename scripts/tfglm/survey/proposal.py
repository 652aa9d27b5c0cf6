"""A regression to start from: which column could be the response, and which others could explain it."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import polars as pl

from tfglm.errors import UserError
from tfglm.families.binomial import Binomial
from tfglm.families.family import Family
from tfglm.families.gaussian import Gaussian
from tfglm.survey import collinear
from tfglm.survey.calendar import Calendar
from tfglm.survey.columns import Column, described
from tfglm.survey.layout import FLIGHTS

MOST_COVARIATES, MOST_LEVELS = 8, 50
FEWEST_ROWS = 10
"""For each coefficient; of a two-valued response, rows of the rarer value: the rule of ten events for a variable."""
MOST_MISSING = 0.2
"""Share of the rows: whoever lacks the value of a covariate is dropped."""
FEW_VALUES = 12
"""A whole number with no more values may be meant as a factor."""

OUTCOME = (
    "^(y|target|label|response|outcome|class|event|success|late|survived|died|death|churn|default|fraud|price|delay)$"
)
"""Names that a response often has."""
TIME_OR_PLACE = "^(year|quarter|month|week|weekday|day|hour|lat|latitude|lon|lng|longitude)$"
"""Names of numbers that explain, and are not explained."""
YES = frozenset(["1", "yes", "y", "true", "t", "positive", "ja", "oui", "si", "sí", "sì", "sim"])
NO = frozenset(["0", "no", "n", "false", "f", "negative", "nein", "nee", "nej", "non", "não"])
OTHER_NUMBER = r"^(?=.*[0-9])(?=.*[.,'%$€£])[-+0-9.,' %$€£]+$"
"""A number that is written otherwise than the layout says, with groups of thousands, a per cent sign or a currency."""

RESPONSE = "the response"
"""A name that no column has."""


@dataclass(frozen=True)
class Response:
    """What a model is to explain, and why just that.

    `source` is the column that it is or is derived from, and `values` are those in the sample.
    """

    name: str
    source: str
    family: Family
    reason: str
    values: pl.Series
    derive: dict[str, str] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Proposal:
    """A response, the terms of a formula that may explain it, by their columns, and why other columns have none. `derive` are
    columns that terms need, `cluster` is the one within whose values errors may be alike, if any, and `rare` are factors of
    which some levels have too few rows to tell anything."""

    response: Response
    terms: dict[str, str]
    left_out: dict[str, str]
    derive: dict[str, str] = field(default_factory=dict)
    cluster: str = ""
    rare: frozenset[str] = frozenset()

    @property
    def formula(self) -> str:
        return f"{self.response.name} ~ {' + '.join(self.terms.values())}"

    @property
    def columns(self) -> list[str]:
        """Those that the model needs."""
        return list(dict.fromkeys([self.response.name, *self.terms, *filter(None, [self.cluster])]))

    @property
    def std_errors(self) -> str:
        return f"cluster({self.cluster})" if self.cluster else "robust"


def propose(rows: pl.DataFrame, columns: Sequence[Column], calendar: Calendar, flights: bool) -> Proposal:
    """A regression that the columns allow.

    Parameters
    ----------
    rows
        Of the file, read by its layout.
    columns
        What these hold.
    calendar
        The date that rows are of.
    flights
        Whether that is a shipped layout of flights: then the question is which of them arrive late, by what is known before.

    Raises
    ------
    UserError
        If there is no response, or nothing to explain it by.
    """
    by_name = {column.name: column for column in (*columns, *map(described, calendar.parts))}
    if flights:
        response = late_flights(rows)
        terms = {name: f"C({name})" if name in ("month", "weekday") else name for name in FLIGHTS.columns[1:]}
    else:
        response = response_of(columns, rows)
        terms = {column.name: column.name for column in columns if column.name != response.source}
        terms |= {name: f"C({name})" for name in calendar.derive}
    # The rows that lack none of the values chosen so far: those that will be fitted.
    complete = rows.with_columns(*calendar.parts, response.values.alias(RESPONSE)).drop_nulls(RESPONSE)
    if calendar.clustered:
        complete = complete.drop_nulls(calendar.date)
    chosen: dict[str, str] = {}
    factors: set[str] = set()
    left_out: dict[str, str] = {}
    coefficients = 0
    rare: set[str] = set()
    for name, term in terms.items():
        column = by_name[name]
        is_factor = column.kind == "text" or term != name
        size = column.values - 1 if is_factor else 1
        # Those of flights are known, and a level that tells nothing is seen to.
        if column.kind == "text" and not flights and (few := levels_of_few_rows(rows[name])):
            size -= few - 1
            rare.add(name)
        reason = unsuitable(column, len(rows), any_levels=flights)
        # Of these a fifth is kept back, and what is left of all levels might be rare.
        if not reason and name in rare and column.frequent[0][1] < 2 * FEWEST_ROWS:
            reason = f"text of which no value has more than {column.frequent[0][1]} rows, too few to tell anything"
        if column.name == calendar.date and calendar.derive:
            reason = f"a date; {' and '.join(calendar.derive)} are derived from it"
        # What is made of a date is not counted, or it would be left out of a table of many columns.
        if not reason and name not in calendar.derive and len(chosen) >= MOST_COVARIATES:
            reason = f"a further covariate; {MOST_COVARIATES} are enough to begin with"
        if not reason:
            remaining = complete.drop_nulls(name)
            with_it = factors | {name} if is_factor else factors
            reason = obstacle(remaining, [*chosen, name], with_it, coefficients + size, response)
        if reason:
            left_out[name] = reason
        else:
            chosen[name], factors, complete, coefficients = term, with_it, remaining, coefficients + size
    if not chosen:
        reasons = "".join(f"\n  {name}: {reason}" for name, reason in left_out.items())
        raise UserError(f"no column could explain `{response.name}`, so there is no formula to write{reasons}")
    derive = {name: sql for name, sql in calendar.derive.items() if name in chosen}
    cluster = calendar.date if calendar.clustered else ""
    return Proposal(response, chosen, left_out, derive, cluster, frozenset(rare & chosen.keys()))


def unsuitable(column: Column, rows: int, any_levels: bool) -> str | None:
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
        return f"text with {column.values:,} different values; a factor of up to {MOST_LEVELS} is taken by itself"
    return None


def obstacle(
    complete: pl.DataFrame, names: Sequence[str], factors: Collection[str], coefficients: int, response: Response
) -> str | None:
    """Why the last of some columns cannot join the others; None if it can.

    Parameters
    ----------
    complete
        The rows that lack none of the columns.
    names
        The covariates chosen so far, and the one in question.
    factors
        Which of these are factors.
    coefficients
        How many coefficients they have together.
    response
        What they are to explain.
    """
    binomial = response.family.counts_events
    if not all(others_than_the_most_frequent(complete[name]) >= FEWEST_ROWS for name in [*names, RESPONSE]):
        return "with it, too few rows would be left that lack no value"
    bearing = others_than_the_most_frequent(complete[RESPONSE]) if binomial else len(complete)
    if coefficients > bearing // FEWEST_ROWS:
        return f"{bearing:,} rows{' of the rarer outcome' if binomial else ''} are too few for {coefficients:,} coefficients"
    if binomial and tells(complete.select(value=names[-1], response=RESPONSE), names[-1] in factors):
        return f"tells {response.name} by itself"
    return collinear.obstacle(complete.select(names), factors)


def levels_of_few_rows(values: pl.Series) -> int:
    """How many values have fewer than FEWEST_ROWS rows each."""
    return int((values.drop_nulls().alias("value").value_counts()["count"] < FEWEST_ROWS).sum())


def others_than_the_most_frequent(values: pl.Series) -> int:
    """How many rows have another value than the most frequent one."""
    counts = values.alias("value").value_counts(sort=True)["count"]
    return len(values) - counts[0] if len(values) else 0


def tells(frame: pl.DataFrame, is_factor: bool) -> bool:
    """Whether the column `value` separates the values of a two-valued `response`: each level has one of them, or all numbers
    of one are beyond those of the other."""
    if is_factor:
        return frame.n_unique() == frame["value"].n_unique()
    ranges = frame.group_by("response").agg(least=pl.min("value"), greatest=pl.max("value"))
    (_, least, greatest), (_, other_least, other_greatest) = ranges.rows()
    return greatest <= other_least or other_greatest <= least


def late_flights(rows: pl.DataFrame) -> Response:
    """Whether a flight arrives 15 minutes late or more."""
    late = (rows["arr_delay"] >= 15).cast(pl.Int64)
    rarer = min(int((late == value).sum()) for value in (0, 1))
    if rarer < FEWEST_ROWS:
        raise UserError(
            f"of {len(rows):,} flights only {rarer:,} are late, or not late, by arr_delay; name a file with more of both"
        )
    reason = "15 minutes late or more, the official definition, by what is known before departure"
    return Response("late", "arr_delay", Binomial(), reason, late, FLIGHTS.derive, FLIGHTS.where)


def response_of(columns: Sequence[Column], rows: pl.DataFrame) -> Response:
    """The column that looks most like a response. Raises UserError if none could be one."""
    usable = [column for column in columns if column.missing <= MOST_MISSING * len(rows)]
    two_valued = [
        column
        for column in usable
        if column.values == 2 and column.kind != "date" and column.frequent[1][1] >= FEWEST_ROWS
    ]
    measured = [
        column
        for column in usable
        if column.is_numeric
        and column.values > FEW_VALUES
        and not is_identifier(column, len(rows))
        and not is_named(column, TIME_OR_PLACE)
    ]
    flags = [column for column in two_valued if words(column) & YES and words(column) & NO]
    named = [column for column in (*measured, *two_valued) if is_named(column, OUTCOME)]
    # By name first; else the last column of its kind, where a response often stands.
    ranked = [
        (named, "named as a response often is"),
        (flags, "two-valued, yes or no"),
        (two_valued, "two-valued"),
        (measured, "numbers; no column has just two values"),
    ]
    for candidates, reason in ranked:
        if candidates:
            others = f"; the last of {len(candidates)} such columns" if len(candidates) > 1 else ""
            return as_response(candidates[-1], rows, reason + others)
    raise UserError(
        "no column could be a response: none has two values, ten rows of each, or is a number of more than "
        f"{FEW_VALUES} values\n  derive one: docs/config/data.md (How do I derive a column?)"
    )


def as_response(column: Column, rows: pl.DataFrame, reason: str) -> Response:
    """The column itself if it holds numbers to explain, or 0 and 1; else a column derived from it that does."""
    values = rows[column.name]
    if column.values > 2:
        return Response(column.name, column.name, Gaussian(), reason, values)
    if column.is_numeric and (column.least, column.greatest) == (0, 1):
        return Response(column.name, column.name, Binomial(), reason, values)
    # The event: what says yes, or the greater number, or else the rarer text.
    by_rows = [value for value, _ in column.frequent]
    event = (
        column.greatest if column.is_numeric else next((each for each in by_rows if each.lower() in YES), by_rows[1])
    )
    literal = f"{event}" if column.is_numeric else "'" + event.replace("'", "''") + "'"
    name = re.sub(r"\W+", "_", f"{column.name}_{str(event).lower()}", flags=re.ASCII).rstrip("_")
    while name in rows.columns:
        name += "_is"
    derive = {name: f"{column.name} = {literal}"}
    return Response(name, column.name, Binomial(), reason, (values == event).cast(pl.Int64), derive)


def is_named(column: Column, names: str) -> bool:
    """Whether a column has one of the names, as a pattern, alone or as the last of several words."""
    return bool(re.match(names, re.split(r"_|(?<=[a-z])(?=[A-Z])", column.name)[-1].lower()))


def words(column: Column) -> set[str]:
    return {str(value).lower().removesuffix(".0") for value, _ in column.frequent}


def is_identifier(column: Column, rows: int) -> bool:
    """Whether a column numbers or names the rows, or says by its name that it identifies something."""
    if column.kind not in ("integer", "text"):
        return False
    if re.search(r"(^|_)(id|uuid|key|index|rownames|identifier)$|[a-z]I[dD]$", column.name):
        return True
    if is_named(column, TIME_OR_PLACE):
        return False
    of_all = column.values == rows - column.missing and rows > FEW_VALUES
    return of_all and (column.kind == "text" or column.greatest - column.least < 2 * rows)
