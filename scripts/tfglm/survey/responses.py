"""Which column of a file could be the response of a regression."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tfglm.config.base import is_hidden
from tfglm.data.sql import expression
from tfglm.errors import UserError, counted, nearest, short
from tfglm.families.binomial import Binomial
from tfglm.families.family import Family
from tfglm.families.gaussian import Gaussian
from tfglm.families.multinomial import Multinomial
from tfglm.families.negative_binomial import NegativeBinomial
from tfglm.families.poisson import Poisson
from tfglm.formula.response import ComputedResponse
from tfglm.survey.columns import MEANINGS, ColumnSummary
from tfglm.survey.flights import Question
from tfglm.survey.names import FEW_VALUES, TIME_OR_PLACE, is_identifier, is_named, words_of_name
from tfglm.survey.units import unit_of

FEWEST_ROWS = 10
"""For each coefficient; of a two-valued response, rows of the rarer value: the rule of ten events for a variable."""
MOST_MISSING = 0.2
"""Share of the rows: whoever lacks the value of a covariate is dropped."""
OUTCOMES = (
    "target|outcome|response|responded|diagnosis|readmitted|stroke|convert(ed)?|conversion|clicked|subscribed|purchased|bought|"
    "surviv(ed|al)|died|dead|deaths?|deceased|churn(ed)?|attrition|turnover|quit|resigned|exited|retention|retained|renewed|"
    "promoted|default(ed)?|fraud|cancell?ed|approved?|reject(ed)?|deny|denied|admit(ted)?|hired|passed|failed|failure|success|callback|released|"
    "relapsed?|recurrence|takeup|take_up|vote|voting"
)
"""Names of a response, as a pattern, also as the first or the last of several words."""
WHOLE_OUTCOMES, EVENTS = "y|purchase|label|class|result|risk|resp", "case|event|late|returned|won|left|show|no_show"
"""Names of a response that say so only alone, the second only of two values or texts."""
CLASSES = "label|class|status"
"""Those of a few classes: a class of many numbers is one of a school."""
AMOUNTS = (
    "(sale)?prices?|msrp|rent|charges?|fares?|tips?|costs?|expens(es?|iture)|spending|sales|revenue|profit|salary|wages?|earnings|value|"
    "delay|mpg|medv|quality|strength|yield|demand|consumption|emissions?|expectancy|life_?exp"
)
"""Names of numbers that are often explained, less often than OUTCOMES."""
FEW_AMOUNTS = "quality|delay"
"""Those that may have few values, as scores do."""
SCORES = "ratings?|scores?|scr|stars|grade|gpa|points|pts"
"""Names of numbers that are explained where no name of an amount or count is there."""
COUNTS = (
    "visits?|(md|doc)vis(its)?|n?claims?|(claim|n)nb|claim_nb|accidents|crashes|injuries|casualties|rentals|affairs|"
    "satell(ites)?|seizures|deaths|fatal(ities)?|killed|murders|thefts|cases|events|incidents|infections|births|ncases|goals|articles|publications|arrests"
)
"""Names of counts that are often explained."""
WHOLE_COUNTS = "count|cnt|freq|frequency|n"
"""Names of counts that say so only alone."""
DURATIONS, SMALL = "days|nights|hours|minutes|weeks|months|years", 4
"""Names of numbers of days or the like, and the greatest of them in medians, at least, if they count something."""
EXPLAINS = (
    "age|adult|state|city|zip(code)?|postcode|area|work|job|home|housing|civil|temp(erature)?|hum(idity)?|rh|wind|strat(um|a)|"
    "smok(er|ing)|black|white|trt|rx|eth|arm|group|exposure|offset|weights?|pop(ulation)?|holiday|weekend|season|color|type|language|"
    "(sex|gender|(fe)?male|race|ethn|region|countr|county|urban|rural|marri|marit|educ|employ|famil|treat|hispan|nonwhite|minorit|citizen|"
    "religi|disab|born|birth_?(q|y|m|pl|c|or)).*"
)
"""Names of columns that explain, and come before what they explain; some also begin longer names."""
BEFORE = "prior|pri|pre|prev|previous|base(line)?|lag(ged)?|initial|last|hs"
"""Words that tell what was known before."""
DECORATION = frozenset(
    [
        "is",
        "has",
        "was",
        "flag",
        "status",
        "event",
        "indicator",
        "usd",
        "eur",
        "total",
        "column",
        "avg",
        "mean",
        "median",
        "med",
    ]
)
"""Words around the name of a response."""
FEW, HARDLY, LEADING, SCORE, FEELING = -1, 0.7, 1.2, 1.5, 2.5
"""Ranks below and above that of an amount, 2, of a column without a name that tells, 1, and of one that explains, 0: of a number
of few values, of a column that many rows lack, of the first column that R wrote behind identifiers, and of names that tell less
or more."""
PREPOSITIONS = "per|of|in|for"
"""Words behind what a name names: a price_per_room is a price."""
MOST_MISSING_RESPONSES = 0.5
"""The same of a response that its name or label tells: wages are missing for those who do not work."""
MOST_CLASSES = 7
"""Most values of a text that is a response."""
FEWEST_BESIDE_A_PLACE = 6
"""Columns of a file whose columns x and y are a place, or sizes."""
FEWEST_TOGETHER = 5
"""Rows in which two dummies would both be 1 by chance, so that none tells something."""
MEDIAN_OF_COUNTS = 5
"""Greatest median of whole numbers from 0 that are taken for a count without a name that says so."""
OVERDISPERSED = 1.5
"""Variance of a count that the covariates leave, in units of its mean, above which it is no Poisson count."""
KINDS = ("two values", "numbers")
FIRST, NO_NAME = "the first column of a file that R wrote, but for identifiers", "the last column that could be one"
"""Why a column is the response that no name tells."""
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

    @property
    def is_guess(self) -> bool:
        """Whether neither a name nor a user tells that this is the response."""
        return self.reason.startswith((FIRST, NO_NAME))

    @property
    def question(self) -> str:
        """The question that a regression answers, in words."""
        if self.family.of_classes:
            return f"which {self.source} is likelier?"
        if self.family.counts_events:
            return f"when is {self.derive.get(self.name, f'{self.name} = 1')}?"
        return f"{'how many' if self.family.name == Poisson.name else 'how large is'} {self.source}?"


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


def candidates_of(
    columns: Sequence[ColumnSummary], rows: pl.DataFrame, is_table: bool = False, from_r: bool = False
) -> list[ProposedResponse]:
    """Return the columns that could be the response, the likeliest first. Raises UserError if none could be one.

    In a table of counts (`is_table`) the place of a column does not matter, and no column is explained whose name says that it
    explains. Files with the row names of R (`from_r`) often have the response first.
    """
    never = dummies_of_sets(columns, rows) | functions_of_one(columns, rows) | designed(columns, rows)
    if {"x", "y"} <= {column.name.lower() for column in columns} and len(columns) > FEWEST_BESIDE_A_PLACE:
        never |= {"y", "Y"}  # a place or a size, not a response
    telling = (each for each in columns if not (is_identifier(each, len(rows)) or is_named(each, TIME_OR_PLACE)))
    leading = next(telling, None) if from_r else None
    ranked = []
    for place, column in enumerate(columns):
        if column.kind == "date" or is_identifier(column, len(rows)):
            continue
        rank, reason = rank_of(column, 1 if is_table else place)
        if column is leading and not reason and rank_of(column, 1)[0]:
            rank, reason = LEADING, FIRST
        if rank is None and is_duration(column, rows[column.name]):
            rank, reason = 1, "a number of days or the like, most of them small"
        if rank is None or column.name in never or (is_table and not rank):
            continue
        if column.missing > MOST_MISSING * len(rows) and rank == 1:
            rank = HARDLY
        if column.missing > MOST_MISSING_RESPONSES * len(rows):
            continue
        # A whole number of few values may be meant as a factor, unless its name or place says that it is explained.
        is_measured = column.is_numeric and not column.labels and column.values > 2
        is_guess = rank <= 1 or (rank == LEADING and not is_count(column, rows[column.name]))
        if is_measured and column.values <= FEW_VALUES and is_guess:
            rank = FEW
        # A text of few values is one of classes by its name, or as the last column, where such a response often is.
        is_last = place == len(columns) - 1 and rank > 0
        if are_classes(column, rows) and (rank > 2 or ((is_last or rank == LEADING) and column.kind == "text")):
            ranked.append((min(rank, 3), place, column, reason))
        elif (is_measured and (rank > FEW or not is_table)) or (
            column.values == 2 and column.frequent[1][1] >= FEWEST_ROWS
        ):
            ranked.append((rank, place, column, reason))
    if all(rank == FEW for rank, *_ in ranked):
        raise UserError(
            "no column could be a response: none has two values, ten rows of each, or is a number of more than "
            f"{FEW_VALUES} values\n  derive one: docs/config/data.md (How do I derive a column?)"
        )
    ranked = varying(ranked, columns, rows)
    ranked.sort(key=lambda entry: (entry[0], is_table and entry[2].values == 2, entry[1]), reverse=True)
    # Where many columns are 0 or 1, others that no name tells are the likelier ones behind the first.
    ranked[1:] = sorted(ranked[1:], key=lambda entry: (entry[0], entry[2].values > 2), reverse=True)
    if not ranked[0][-1] and not is_table:
        ranked[0] = (*ranked[0][:3], NO_NAME)
    return [as_response(column, rows, reason or KINDS[column.values > 2]) for _, _, column, reason in ranked]


def head_of_name(words: list[str]) -> list[str]:
    """The words of a name up to what it says of them: `price` of price_per_room, and `claims` of number_of_claims."""
    place = next((place for place, word in enumerate(words) if place and re.fullmatch(PREPOSITIONS, word)), len(words))
    return words[place + 1 :] or words if re.fullmatch("num(ber)?|no|n", words[place - 1]) else words[:place]


def rank_of(column: ColumnSummary, place: int) -> tuple[float | None, str]:
    """How likely a column is the response by name, label and place, and why, if name or label says so; None if it never is."""
    words = head_of_name(words_of_name(column))
    plain = [word for word in words if word not in DECORATION] or words
    named, is_many = "named as a response often is", column.is_numeric and column.values > FEW_VALUES
    named_so = OUTCOMES if is_many and re.fullmatch(CLASSES, "_".join(plain)) else f"{OUTCOMES}|{WHOLE_OUTCOMES}"
    named_so += f"|{EVENTS}" if column.values == 2 or not column.is_numeric else ""
    if any(re.fullmatch(BEFORE, word) for word in words):
        return 0, ""
    if re.fullmatch(named_so, "_".join(plain)) or re.fullmatch(OUTCOMES, plain[-1]):
        return 4, named
    is_status = words[-1] == "status" and place > 0 and column.values <= MOST_CLASSES
    if (
        re.fullmatch(OUTCOMES, plain[0])
        or re.match("time_to_", column.name.lower())
        or (is_status and not any(re.fullmatch(EXPLAINS, word) for word in words))
    ):
        return 3, named
    per_time = column.is_numeric and column.values > FEW_VALUES and re.fullmatch(AMOUNTS, words[0])
    if is_named(column, TIME_OR_PLACE):
        return (2, named) if per_time else (None, "")  # Rent_month
    # A wage of few values is a class of wages.
    amounts = AMOUNTS if column.values > FEW_VALUES else FEW_AMOUNTS
    amounts = f"(ln?|log)?_?({amounts})"
    if column.is_numeric and (
        re.fullmatch(f"{amounts}|{COUNTS}", plain[-1])
        or is_named(column, f"{amounts}|{COUNTS}")
        or re.fullmatch(WHOLE_COUNTS, "_".join(words))
    ):
        return 2, named
    if column.is_numeric and {"satisfaction", "happiness"} & {*words}:
        return FEELING, named
    if column.is_numeric and is_named(column, SCORES):
        return SCORE, named
    of_label = re.findall(r"[^\W\d_]+", column.label.lower())
    labelled = "labelled as a response often is"
    if any(re.fullmatch(OUTCOMES, word) for word in of_label):
        return 3, labelled
    if column.is_numeric and any(re.fullmatch(f"{AMOUNTS}|{COUNTS}", word) for word in of_label):
        return (3 if place == 0 else 2), labelled
    if any(re.fullmatch(f"{EXPLAINS}|{TIME_OR_PLACE}", word) for word in of_label):
        return 0, ""
    explains = any(re.fullmatch(EXPLAINS, each) for each in (plain[0], plain[-1], "_".join(plain)))
    return (0 if place == 0 or explains else 1), ""


def are_classes(column: ColumnSummary, rows: pl.DataFrame) -> bool:
    """Whether a column has three to MOST_CLASSES values with enough rows each, and is a text or a number of classes by name or
    labels."""
    is_class = column.kind == "text" or column.labels or is_named(column, CLASSES)
    if not 2 < column.values <= MOST_CLASSES or not is_class:
        return False
    return rows_of_the_rarest(rows[column.name].drop_nulls()) >= FEWEST_ROWS


def rows_of_the_rarest(values: pl.Series) -> int:
    """How many rows have the rarest of some values."""
    return int(values.alias("value").value_counts()["count"].to_numpy().min())


Ranked = tuple[float, int, ColumnSummary, str]
"""How likely a column is the response, its place, and why."""


def varying(ranked: list[Ranked], columns: Sequence[ColumnSummary], rows: pl.DataFrame) -> list[Ranked]:
    """Return the candidates whose values differ between the rows of a unit, if there is one without a name of what explains.

    If rows repeat a unit, such as a patient at each visit, what is the same in all of its rows is no response of a row.
    """
    unit = unit_of(columns, rows, fewest=2)
    others = [entry for entry in ranked if entry[2] is not unit]
    if unit is None or all(rank == FEW for rank, *_ in others):
        return ranked
    ranked, kept = others, []
    for entry in ranked:
        pairs = rows.select(unit.name, entry[2].name).drop_nulls()
        if pairs.n_unique() > pairs[unit.name].n_unique():
            kept.append(entry)
    explained = [column for _, _, column, _ in kept if rank_of(column, 1)[0] != 0]
    return kept if explained else ranked


def designed(columns: Sequence[ColumnSummary], rows: pl.DataFrame) -> set[str]:
    """The factors of an experiment: two or more columns of few values, each combination of which has as many rows."""
    # If the most frequent value has its share of the rows, all have.
    few = [
        column.name
        for column in columns
        if 2 <= column.values <= FEW_VALUES and column.values * column.frequent[0][1] == len(rows)
    ]
    found: set[str] = set()
    for first, second in itertools.combinations(few, 2):
        cells = rows.group_by(first, second).len()["len"]
        whole = rows[first].n_unique() * rows[second].n_unique()
        if len(cells) == whole and cells.min() == cells.max():
            found |= {first, second}
    return found


def functions_of_one(columns: Sequence[ColumnSummary], rows: pl.DataFrame) -> set[str]:
    """The numbers that are squares or logarithms of others by their names, as `agesq` beside `age` and `lwage` beside `wage`, or
    that rise with a likelier number everywhere, as grams do with ounces."""
    names = {column.name for column in columns if column.is_numeric}
    found = {name for name in names if re.sub("^(log|ln?)_?|_?(sq|squared|2)$", "", name) in names - {name}}
    alike: dict[bytes, list[ColumnSummary]] = {}
    for column in columns:
        if column.is_numeric and column.values > FEW_VALUES and column.name not in found:
            alike.setdefault(rows[column.name].rank("dense").fill_null(0).to_numpy().tobytes(), []).append(column)
    for same in alike.values():
        likeliest = max(same, key=lambda column: rank_of(column, 1)[0] or 0)
        found |= {column.name for column in same if column is not likeliest}
    return found


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
    """The response that a user names, as the layout or the header names the column; `header` has the names in the layout by
    those in the header. Raises UserError for a name that no column has, and for a column that no regression of `init` can
    explain."""
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
    family: Family | None = None
    if are_classes(column, rows):
        family, reason = Multinomial(), f"{reason}; one of {column.values} classes"
    elif is_count(column, values):
        family, reason = Poisson(), f"{reason}; a count"
    elif column.values > 2:
        family = Gaussian()
    elif column.is_numeric and (column.least, column.greatest) == (0, 1):
        family = Binomial()
    if family:
        return ProposedResponse(column.name, column.name, family, reason, values)
    # The event: what says yes, or the greater number, or else the rarer text. SQL needs one that can be printed.
    by_rows = [value for value, _ in column.frequent]
    by_rows = [each for each in by_rows if not any(map(is_hidden, str(each)))] or by_rows
    meanings = {each: column.labels.get(str(each), "" if column.is_numeric else str(each)) for each in by_rows}
    yes = (each for each in by_rows if meanings[each].lower() in YES)
    event = next(yes, column.greatest if column.is_numeric else by_rows[-1])
    literal = f"{event}" if column.is_numeric else "'" + event.replace("'", "''") + "'"
    meaning = column.labels.get(str(event), str(event))
    for sign, word in SIGNS.items():
        meaning = meaning.replace(sign, f" {word} ")
    called = f"is_{meaning}" if meaning.lower() == column.name.lower() else f"{column.name}_{meaning.lower()}"
    name = re.sub(r"[\W_]+", "_", called, flags=re.ASCII).rstrip("_")
    while name in rows.columns:
        name += "_is"
    derive = {name: f"{column.name} = {literal}"}
    return ProposedResponse(name, column.name, Binomial(), reason, (values == event).cast(pl.Int64), derive)


def is_duration(column: ColumnSummary, values: pl.Series) -> bool:
    """Whether a column counts days or the like, such as those of absence: whole numbers most of which are small. The days of a
    panel are spread evenly."""
    if column.kind != "integer" or column.values <= FEW_VALUES or column.least < 0 or not is_named(column, DURATIONS):
        return False
    return float(np.median(values.drop_nulls().to_numpy())) <= column.greatest / SMALL


def is_count(column: ColumnSummary, values: pl.Series) -> bool:
    """Whether a column counts: whole numbers from 0 with a name that says so, or mostly small: 0 or 1 is the most frequent, or
    the median is small beside the greatest."""
    if column.kind != "integer" or column.values <= 2 or column.least < 0:
        return False
    if any(re.fullmatch(AMOUNTS, word) for word in words_of_name(column)):
        return False
    if is_named(column, f"{COUNTS}|{WHOLE_COUNTS}") or is_duration(column, values):
        return True
    median = float(np.median(values.drop_nulls().to_numpy()))
    is_small = column.values > FEW_VALUES and median <= min(MEDIAN_OF_COUNTS, column.greatest / 5)
    return column.least == 0 and ((column.frequent[0][0] <= 1 and 2 * median <= column.greatest) or is_small)


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
