"""What the name of a column says of it."""

import re
from collections.abc import Sequence

from tfglm.survey.columns import ColumnSummary

FEW_VALUES = 12
"""A whole number with no more values may be meant as a factor."""

TIMES = "t|years?|yr|quarter|month|mnth|week|weekday|day|days|hour|hr|time"
TIME_OR_PLACE = f"{TIMES}|lat|latitude|lon|lng|long|longitude"
"""Names of numbers that explain, and are not explained."""
OCCASIONS = f"{TIMES}|visit|wave|period|occasion"
"""Names of what tells the rows of one unit apart."""
POSTAL = "zip(_?code)?|post(al)?_?code|plz"
"""Names of postal codes."""
NUMBERED = "(op_?carrier_?)?(flight|fl|train|route)_?(num|number|nr|no)|flight"
"""Names of numbers of what runs again and again, which are no quantities, and whose rows have no more in common."""
UNITS = "individual|subject|person|patient|client|customer|account|passenger|employee|invoice|participant|respondent"
"""Names of columns that say whom a row is about."""
PARTS_OF_DATES = {
    "(hr|hour)s?|hour_?of_?day": 24,
    "week_?day|wday|dow|day_?of_?week": 7,
    "mon|mnth|month|month_?of_?year": 12,
    "season|quarter|qtr": 4,
}
"""Names of the parts of a date or time, with the largest number of each."""

ARMS = "(ab_?|test_?|exp(eriment)?_?)?(group|variant|variation|version)"
"""Names of the arms of an A/B test."""
PLANNED, ACTUAL = "scheduled|sched|crs|planned|expected|estimated|promised", "actual|real|final"
"""Words that tell what is planned from what happens."""

WORDS_IN_ID = "(paid|bid|grid|aid|fluid|solid|hybrid|covid)$"
"""Names that end like those of identifiers."""


CONVERTED = "number"
"""The last word of the name of a number that is made of a text."""


def words_of_name(column: ColumnSummary) -> list[str]:
    """The words of a column's name, in lower case, without CONVERTED and numbers at the end."""
    words = [word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", column.name) if word]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] == CONVERTED):
        words.pop()
    return words or [column.name.lower()]


def is_named(column: ColumnSummary, names: str) -> bool:
    """Whether a column has one of the names, as a pattern, alone or as the last of several words."""
    words = words_of_name(column)
    return bool(re.fullmatch(names, words[-1]) or re.fullmatch(names, "_".join(words)))


def is_identifier(column: ColumnSummary, rows: int) -> bool:
    """Whether a column numbers or names the rows, or says by its name that it identifies something."""
    if column.kind not in ("integer", "text"):
        return False
    if re.search(r"(^|_)((?i:id|uuid|identifier)|key|index|rownames)$|[a-z]I[dD]$|^(ID[a-z]|id[_A-Z])", column.name):
        return True
    # A flight, as UA 1545, is one each day.
    if re.fullmatch(NUMBERED, column.name.lower()):
        return True
    # CLIENTNUM, Sample_Number, individual
    name = column.name.lower().replace("_", "")
    numbered = rf"({UNITS}|row|record|sample|order|serial)(num|number|nr|no|code)"
    if column.values > FEW_VALUES and re.fullmatch(f"{UNITS}|{numbered}", name):
        return True
    if is_named(column, TIME_OR_PLACE):
        return False
    # villnum, countyid, statefips
    if column.kind == "integer" and column.values > FEW_VALUES and re.search("(id|num|nr|code|fips)$", name):
        return not re.search(WORDS_IN_ID, name)
    of_all = column.values == rows - column.missing and rows > FEW_VALUES
    # PID, CUSTID, distcod
    is_called_so = bool(re.search("(id|num|number|no|nr|code?)$", name)) and not re.search(WORDS_IN_ID, name)
    return of_all and (column.kind == "text" or column.greatest - column.least < 2 * rows or is_called_so)


def is_category(column: ColumnSummary) -> bool:
    """Whether whole numbers are postal codes, hours, weekdays or the like by their name: a factor, as 23 and 0 are near."""
    if column.kind == "integer" and column.values > 1 and is_named(column, POSTAL):
        return True
    if column.kind != "integer" or column.values < 3 or column.least < 0:
        return False
    return any(is_named(column, names) and column.greatest <= most for names, most in PARTS_OF_DATES.items())


def happening(columns: Sequence[ColumnSummary]) -> dict[str, str]:
    """What is known only afterwards -> what was planned, for columns whose names tell such pairs, as `dep_time` and
    `sched_dep_time` do."""
    planned: dict[str, str] = {}
    others: dict[str, str] = {}
    for column in columns:
        words = words_of_name(column)
        rest = "_".join(word for word in words if not re.fullmatch(f"{PLANNED}|{ACTUAL}", word))
        (planned if any(re.fullmatch(PLANNED, word) for word in words) else others)[column.name] = rest
    named = {rest: name for name, rest in planned.items() if rest}
    return {name: named[rest] for name, rest in others.items() if rest in named}
