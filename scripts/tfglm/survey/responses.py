"""Which column of a file could be the response of a regression."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tfglm.config.responses import ComputedResponse
from tfglm.data.sql import expression
from tfglm.errors import UserError, counted, nearest, short
from tfglm.families.binomial import Binomial
from tfglm.families.family import Family
from tfglm.families.gaussian import Gaussian
from tfglm.families.multinomial import Multinomial
from tfglm.families.negative_binomial import NegativeBinomial
from tfglm.families.poisson import Poisson
from tfglm.survey.columns import MEANINGS, ColumnSummary
from tfglm.survey.flights import Question

FEWEST_ROWS = 10
"""For each coefficient; of a two-valued response, rows of the rarer value: the rule of ten events for a variable."""
MOST_MISSING = 0.2
"""Share of the rows: whoever lacks the value of a covariate is dropped."""
FEW_VALUES = 12
"""A whole number with no more values may be meant as a factor."""

OUTCOMES = (
    "target|outcome|response|diagnosis|readmitted|stroke|converted|clicked|subscribed|purchased|bought|surviv(ed|al)|died|dead|"
    "deaths?|deceased|churn(ed)?|attrition|exited|default(ed)?|fraud|cancell?ed|approved?|reject(ed)?|released|vote|voting"
)
"""Names of a response, as a pattern, also as the first or the last of several words."""
WHOLE_OUTCOMES = "y|purchase|label|class|event|success|late|result|risk|returned|won"
"""Names of a response that say so only alone."""
AMOUNTS = (
    "(sale)?prices?|msrp|rent|charges?|fares?|tips?|costs?|expens(es?|iture)|spending|sales|revenue|profit|salary|wages?|value|"
    "delay|mpg|medv|quality|strength|yield|demand|consumption|emissions?|expectancy|life_?exp"
)
"""Names of numbers that are often explained, less often than OUTCOMES."""
FEW_AMOUNTS = "quality|delay"
"""Those that may have few values, as scores do."""
COUNTS = (
    "visits?|(md|doc)vis(its)?|n?claims?|(claim|n)nb|claim_nb|accidents|crashes|injuries|casualties|rentals|affairs|"
    "satell(ites)?|seizures|deaths|cases|events|incidents|infections|births|goals|articles|publications|arrests"
)
"""Names of counts that are often explained."""
WHOLE_COUNTS = "count|cnt"
"""Names of counts that say so only alone."""
EXPLAINS = (
    "age|sex|gender|(fe)?male|adult|race|ethnic(ity)?|region|country|state|city|county|zip(code)?|postcode|area|married|marital|"
    "education|smok(er|ing)|treat(ed|ment)?|arm|group|exposure|offset|weights?|pop(ulation)?|holiday|weekend|season|color|type"
)
"""Names of columns that explain, and come before what they explain."""
DECORATION = frozenset(["is", "has", "was", "flag", "status", "event", "indicator", "usd", "eur", "total", "column"])
"""Words around the name of a response."""
TIME_OR_PLACE = "years?|yr|quarter|month|mnth|week|weekday|day|days|hour|hr|time|lat|latitude|lon|lng|long|longitude"
"""Names of numbers that explain, and are not explained."""
UNITS = "individual|subject|person|patient|client|customer|account|passenger|employee|invoice|participant|respondent"
"""Names of columns that say whom a row is about."""
MOST_MISSING_RESPONSES = 0.5
"""The same of a response that its name or label tells: wages are missing for those who do not work."""
MOST_CLASSES = 7
"""Most values of a text that is a response."""
FEWEST_TOGETHER = 5
"""Rows in which two dummies would both be 1 by chance, so that none tells something."""
MEDIAN_OF_COUNTS = 5
"""Greatest median of whole numbers from 0 that are taken for a count without a name that says so."""
OVERDISPERSED = 1.5
"""Variance of a count that the covariates leave, in units of its mean, above which it is no Poisson count."""
KINDS = ("two values", "numbers")
SIGNS = {">=": "from", "<=": "up to", ">": "over", "<": "under"}
"""Words for what a name cannot hold: `income` = `>50K` is income_over_50k."""
YES = frozenset(["1", "yes", "y", "true", "t", "positive", "ja", "oui", "si", "sí", "sì", "sim"])


@dataclass(frozen=True)
class ProposedResponse:
    """A proposed response of a model, and the reason for it.

    `source` is the column of the response, or the column that it is derived from. `values` are its values in the sample. The
    formula computes a response that has a `text`, from `columns`.
    """

    name: str
    source: str
    family: Family
    reason: str
    values: pl.Series
    derive: dict[str, str] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)
    text: str = ""
    columns: tuple[str, ...] = ()


def late_flights(question: Question, rows: pl.DataFrame) -> ProposedResponse:
    """The answers to a question about flights. Raises UserError if nearly all are the same."""
    late = question.values(rows)
    rarer = min(int((late == value).sum()) for value in (0, 1))
    if rarer < FEWEST_ROWS:
        raise UserError(
            f"of {len(rows):,} flights only {rarer:,} are late, or not late, by {question.source}; name a file with more of both"
        )
    derive, where = {question.name: question.sql}, {question.where: f"{question.source} IS NOT NULL"}
    return ProposedResponse(question.name, question.source, Binomial(), question.reason, late, derive, where)


def candidates_of(columns: Sequence[ColumnSummary], rows: pl.DataFrame) -> list[ProposedResponse]:
    """Return the columns that could be the response, the likeliest first. Raises UserError if none could be one."""
    never = dummies_of_sets(columns, rows) | squares(columns)
    if {"x", "y", "z"} <= {column.name.lower() for column in columns}:
        never |= {"y", "Y"}  # a place or a size, not a response
    ranked = []
    for place, column in enumerate(columns):
        if column.kind == "date" or is_identifier(column, len(rows)):
            continue
        rank, reason = rank_of(column, place)
        if rank is None or column.name in never:
            continue
        if column.missing > (MOST_MISSING_RESPONSES if rank > 1 else MOST_MISSING) * len(rows):
            continue
        # A whole number of few values may be meant as a factor, unless its name says that it is explained.
        is_measured = (
            column.is_numeric and not column.labels and (column.values > FEW_VALUES or (column.values > 2 and rank > 1))
        )
        # A text of few values is one of classes by its name, or as the last column, where such a response often is.
        is_last = place == len(columns) - 1 and rank > 0
        if are_classes(column, rows) and (rank > 2 or is_last):
            ranked.append((min(rank, 3), place, column, reason))
        elif is_measured or (column.values == 2 and column.frequent[1][1] >= FEWEST_ROWS):
            ranked.append((rank, place, column, reason))
    if not ranked:
        raise UserError(
            "no column could be a response: none has two values, ten rows of each, or is a number of more than "
            f"{FEW_VALUES} values\n  derive one: docs/config/data.md (How do I derive a column?)"
        )
    ranked.sort(key=lambda entry: entry[:2], reverse=True)
    # Where many columns are 0 or 1, others that no name tells are the likelier ones behind the first.
    ranked[1:] = sorted(ranked[1:], key=lambda entry: (entry[0], entry[2].values > 2), reverse=True)
    if not ranked[0][-1]:
        ranked[0] = (*ranked[0][:3], "the last column that could be one")
    return [as_response(column, rows, reason or KINDS[column.values > 2]) for _, _, column, reason in ranked]


def rank_of(column: ColumnSummary, place: int) -> tuple[int | None, str]:
    """How likely a column is the response by name, label and place, and why, if name or label says so; None if it never is."""
    words = words_of_name(column)
    plain = [word for word in words if word not in DECORATION] or words
    named = "named as a response often is"
    if re.fullmatch(f"{OUTCOMES}|{WHOLE_OUTCOMES}", "_".join(plain)) or re.fullmatch(OUTCOMES, plain[-1]):
        return 4, named
    if re.fullmatch(OUTCOMES, plain[0]):
        return 3, named
    if is_named(column, TIME_OR_PLACE):
        return None, ""
    # A wage of few values is a class of wages.
    amounts = AMOUNTS if column.values > FEW_VALUES else FEW_AMOUNTS
    amounts = f"(ln?|log)?_?({amounts})"
    if column.is_numeric and (is_named(column, f"{amounts}|{COUNTS}") or re.fullmatch(WHOLE_COUNTS, "_".join(words))):
        return 2, named
    of_label = re.findall(r"[^\W\d_]+", column.label.lower())
    labelled = "labelled as a response often is"
    if any(re.fullmatch(OUTCOMES, word) for word in of_label):
        return 3, labelled
    if column.is_numeric and any(re.fullmatch(f"{AMOUNTS}|{COUNTS}", word) for word in of_label):
        return (3 if place == 0 else 2), labelled
    if any(re.fullmatch(f"{EXPLAINS}|{TIME_OR_PLACE}", word) for word in of_label):
        return 0, ""
    return (0 if place == 0 or re.fullmatch(EXPLAINS, plain[-1]) else 1), ""


def are_classes(column: ColumnSummary, rows: pl.DataFrame) -> bool:
    """Whether a column is a text, or a number with labels, of three to MOST_CLASSES values that have enough rows each."""
    if not 2 < column.values <= MOST_CLASSES or not (column.kind == "text" or column.labels):
        return False
    return rows_of_the_rarest(rows[column.name].drop_nulls()) >= FEWEST_ROWS


def rows_of_the_rarest(values: pl.Series) -> int:
    """How many rows have the rarest of some values."""
    return int(values.alias("value").value_counts()["count"].to_numpy().min())


def squares(columns: Sequence[ColumnSummary]) -> set[str]:
    """The numbers that are the square of another by their name, as `agesq` beside `age`."""
    names = {column.name for column in columns if column.is_numeric}
    return {name for name in names if re.sub("_?(sq|squared|2)$", "", name) in names - {name}}


def dummies_of_sets(columns: Sequence[ColumnSummary], rows: pl.DataFrame) -> set[str]:
    """The columns of 0 and 1 that are levels of one factor: named alike, and never 1 together, though chance would have it so."""
    flags = {
        column.name: rows[column.name].to_numpy() == 1
        for column in columns
        if column.is_numeric and column.values == 2 and (column.least, column.greatest) == (0, 1)
    }
    found: set[str] = set()
    for first, second in itertools.combinations(flags, 2):
        same = itertools.takewhile(lambda letters: letters[0] == letters[1], zip(first, second, strict=False))
        alike = len(list(same)) >= max(3, min(len(first), len(second)) // 2)
        alike |= first.rstrip("0123456789") == second.rstrip("0123456789")
        both = int((flags[first] & flags[second]).sum())
        by_chance = flags[first].mean() * flags[second].mean() * len(rows)
        if alike and both == 0 and by_chance >= FEWEST_TOGETHER:
            found |= {first, second}
    return found


def requested_response(
    name: str, header: Mapping[str, str], columns: Sequence[ColumnSummary], rows: pl.DataFrame
) -> ProposedResponse:
    """The response that a user names.

    Parameters
    ----------
    name
        A column, as the layout or the header names it.
    header
        The names of the columns in the header -> in the layout.
    columns
        The summaries of the columns.
    rows
        The values of the columns.

    Raises
    ------
    UserError
        For a name that no column has, and for a column that no regression of `init` can explain.
    """
    by_name = {column.name: column for column in columns}
    column = by_name.get(name) or by_name.get(header.get(name, ""))
    if column is None:
        columns_there = short(", ".join(by_name))
        raise UserError(f"response: no column `{name}`{nearest(name, by_name)}\n  the columns: {columns_there}")
    if column.values < 2:
        raise UserError(
            f"response: `{column.name}` has {('no values', 'a single value')[column.values]}, so nothing explains it"
        )
    if column.values > 2 and not column.is_numeric and not are_classes(column, rows):
        raise UserError(
            f"response: `{column.name}` holds {MEANINGS[column.kind]} with {column.values:,} different values; `init` takes "
            f"numbers, and texts of up to {MOST_CLASSES} values with {FEWEST_ROWS} rows of each\n"
            "  derive one: docs/config/data.md (How do I derive a column?)"
        )
    if column.values == 2 and column.frequent[1][1] < FEWEST_ROWS:
        raise UserError(
            f"response: `{column.name}` is {column.frequent[1][0]} in {counted(column.frequent[1][1], 'row')} only; "
            f"{FEWEST_ROWS} are needed"
        )
    return as_response(column, rows, "as requested")


def computed(response: ComputedResponse, header: Mapping[str, str], rows: pl.DataFrame) -> ProposedResponse:
    """The response that a formula computes. Raises UserError for columns that are not there, and for what no row has."""
    for name in sorted(response.sources):
        if name not in rows.columns:
            there = f"; the layout calls it `{header[name]}`" if name in header else nearest(name, rows.columns)
            raise UserError(f"formula: no column `{name}`{there}\n  the columns: {short(', '.join(rows.columns))}")
    where = f"formula: `{response.text}`"
    value = expression(response.derive.get(response.column, response.column), where, dict(rows.schema))
    values = rows.select(value.alias(response.column))[response.column].cast(pl.Float64)
    values = values.filter(values.is_finite())
    if values.n_unique() < 2:
        raise UserError(f"{where} has {('no value', 'a single value')[values.n_unique()]}, so nothing explains it")
    family = Binomial() if response.trials or values.is_in([0.0, 1.0]).all() else Gaussian()
    columns = tuple(name for name in rows.columns if name in response.sources)
    reason = "as requested"
    return ProposedResponse(response.column, columns[0], family, reason, values, text=response.text, columns=columns)


def as_response(column: ColumnSummary, rows: pl.DataFrame, reason: str) -> ProposedResponse:
    """The column itself if it holds numbers to explain, or 0 and 1; else a column derived from it that does."""
    values = rows[column.name]
    if are_classes(column, rows):
        reason = f"{reason}; one of {column.values} classes"
        return ProposedResponse(column.name, column.name, Multinomial(), reason, values)
    if is_count(column, values):
        return ProposedResponse(column.name, column.name, Poisson(), f"{reason}; a count", values)
    if column.values > 2:
        return ProposedResponse(column.name, column.name, Gaussian(), reason, values)
    if column.is_numeric and (column.least, column.greatest) == (0, 1):
        return ProposedResponse(column.name, column.name, Binomial(), reason, values)
    # The event: what says yes, or the greater number, or else the rarer text.
    by_rows = [value for value, _ in column.frequent]
    meanings = {each: column.labels.get(str(each), "" if column.is_numeric else str(each)) for each in by_rows}
    yes = (each for each in by_rows if meanings[each].lower() in YES)
    event = next(yes, column.greatest if column.is_numeric else by_rows[1])
    literal = f"{event}" if column.is_numeric else "'" + event.replace("'", "''") + "'"
    meaning = column.labels.get(str(event), str(event))
    for sign, word in SIGNS.items():
        meaning = meaning.replace(sign, f" {word} ")
    name = re.sub(r"[\W_]+", "_", f"{column.name}_{meaning.lower()}", flags=re.ASCII).rstrip("_")
    while name in rows.columns:
        name += "_is"
    derive = {name: f"{column.name} = {literal}"}
    return ProposedResponse(name, column.name, Binomial(), reason, (values == event).cast(pl.Int64), derive)


def is_count(column: ColumnSummary, values: pl.Series) -> bool:
    """Whether a column counts: whole numbers from 0 with a name that says so, or mostly small: 0 or 1 is the most frequent, or
    the median is small beside the greatest."""
    if column.kind != "integer" or column.values <= 2 or column.least < 0:
        return False
    if is_named(column, AMOUNTS):
        return False
    if is_named(column, f"{COUNTS}|{WHOLE_COUNTS}"):
        return True
    is_small = column.values > FEW_VALUES and float(np.median(values.drop_nulls().to_numpy())) <= min(
        MEDIAN_OF_COUNTS, column.greatest / 5
    )
    return column.least == 0 and (column.frequent[0][0] <= 1 or is_small)


def words_of_name(column: ColumnSummary) -> list[str]:
    """The words of a column's name, in lower case and without numbers at the end."""
    words = [word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", column.name) if word]
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    return words or [column.name.lower()]


PARTS_OF_DATES = {
    "(hr|hour)s?|hour_?of_?day": 24,
    "week_?day|wday|dow|day_?of_?week": 7,
    "mon|mnth|month|month_?of_?year": 12,
    "season|quarter|qtr": 4,
}
"""Names of the parts of a date or time, with the largest number of each."""


def is_named(column: ColumnSummary, names: str) -> bool:
    """Whether a column has one of the names, as a pattern, alone or as the last of several words."""
    words = words_of_name(column)
    return bool(re.fullmatch(names, words[-1]) or re.fullmatch(names, "_".join(words)))


WORDS_IN_ID = "(paid|bid|grid|aid|fluid|solid|hybrid|covid)$"
"""Names that end like those of identifiers."""


def is_identifier(column: ColumnSummary, rows: int) -> bool:
    """Whether a column numbers or names the rows, or says by its name that it identifies something."""
    if column.kind not in ("integer", "text"):
        return False
    if re.search(r"(^|_)((?i:id|uuid|identifier)|key|index|rownames)$|[a-z]I[dD]$|^(ID[a-z]|id[_A-Z])", column.name):
        return True
    # CLIENTNUM, Sample_Number, individual
    name = column.name.lower().replace("_", "")
    numbered = rf"({UNITS}|row|record|sample|order|serial)(num|number|nr|no|code)"
    if column.values > FEW_VALUES and re.fullmatch(f"{UNITS}|{numbered}", name):
        return True
    if is_named(column, TIME_OR_PLACE):
        return False
    of_all = column.values == rows - column.missing and rows > FEW_VALUES
    # PID, CUSTID
    is_called_so = name.endswith("id") and not re.search(WORDS_IN_ID, name)
    return of_all and (column.kind == "text" or column.greatest - column.least < 2 * rows or is_called_so)


def is_part_of_date(column: ColumnSummary) -> bool:
    """Whether whole numbers are the hours, weekdays, months or the like that their name says: a factor, as 23 and 0 are near."""
    if column.kind != "integer" or column.values < 3 or column.least < 0:
        return False
    return any(is_named(column, names) and column.greatest <= most for names, most in PARTS_OF_DATES.items())


def overdispersed(response: ProposedResponse, unexplained: float) -> ProposedResponse:
    """A negative binomial response in place of a count whose variance beside covariates is above its mean.

    `unexplained` is the share of the variance that a linear regression on the covariates leaves.
    """
    if response.family.name != Poisson.name:
        return response
    values = response.values.drop_nulls().to_numpy()
    ratio = unexplained * values.var() / values.mean()
    if ratio <= OVERDISPERSED:
        return response
    reason = f"{response.reason}, whose variance is {ratio:.1f} times its mean"
    return replace(response, family=NegativeBinomial(), reason=reason)
