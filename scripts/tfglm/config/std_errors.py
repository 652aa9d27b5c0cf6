"""The key `std_errors` of a model: which covariance its standard errors come from."""

import re
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, StringConstraints

ROBUST = ("robust", "HC0", "HC1", "HC2", "HC3")
"""Robust to a wrong variance of rows that are independent; `robust` is HC1."""

BY_LEVERAGE = ("HC2", "HC3")
"""Kinds of errors that divide by powers of 1 - leverage of a row."""

SERIAL = ("newey_west", "driscoll_kraay")
"""Robust to serial correlation of the dates of a column."""

UNCONDITIONAL = "unconditional"
"""The posterior of smooth terms, plus the variance that estimating their smoothing parameters adds."""

SURVEY = "survey"
"""By the sampling units of a survey, within strata."""

OF_POSTERIOR = ("classical", UNCONDITIONAL)
"""Errors that take the likelihood of a model with smooth terms for true. Its tests of smooth terms do, too."""

MOST_COLUMNS = 3
"""Most columns of clusters: with k columns, rows can be alike in 2^k - 1 ways."""

_NAME = r"[A-Za-z_]\w*"
PATTERN = (
    r"^(classical|quasi|robust|unconditional|HC[0-3]"
    rf"|cluster\(\s*{_NAME}(\s*\+\s*{_NAME})*\s*\)"
    rf"|survey\(\s*{_NAME}(\s*,\s*strata\s*=\s*{_NAME})?(\s*,\s*fpc\s*=\s*{_NAME})?"
    r"(\s*,\s*lonely\s*=\s*(certainty|adjust))?\s*\)"
    rf"|(newey_west|driscoll_kraay)\(\s*{_NAME}\s*(,\s*lags\s*=\s*\d{{1,6}}\s*)?\))$"
)

EXAMPLES = [
    *("classical", "quasi", "robust", "HC3", "cluster(column)", "cluster(date + tailnum)"),
    *("driscoll_kraay(date)", "newey_west(date, lags=5)", "survey(school, strata=region, fpc=schools)", UNCONDITIONAL),
]


class StdErrors(NamedTuple):
    """The kind of standard errors, the columns of the clusters or dates, and how many dates apart rows may be alike; None for as
    many as the number of dates allows. The columns of a survey are that of its sampling units and perhaps that of its strata;
    `population` has the number of units in the population. A unit that is `lonely` in its stratum stops the fit, adds nothing
    (certainty), or adds its distance from the mean of all units (adjust)."""

    kind: str
    columns: tuple[str, ...] = ()
    lags: int | None = None
    population: str | None = None
    lonely: str = ""

    @property
    def all_columns(self) -> tuple[str, ...]:
        return (*self.columns, *filter(None, [self.population]))


def parsed(text: str) -> StdErrors:
    """Parse a value of the key, which matches PATTERN."""
    kind, _, arguments = text.rstrip(") ").partition("(")
    columns, _, lags = arguments.partition(",")
    if kind == SURVEY:
        given = dict(re.findall(r"(\w+)\s*=\s*(\w+)", lags))
        units = (columns.strip(), *([given["strata"]] if "strata" in given else []))
        return StdErrors(kind, units, None, given.get("fpc"), given.get("lonely", ""))
    return StdErrors(kind, tuple(re.findall(r"\w+", columns)), int(lags.partition("=")[2]) if lags else None)


def check_columns(value: Any) -> Any:
    """Raise ValueError for columns of clusters that are separated by commas, the same, or too many."""
    if not isinstance(value, str) or not value.startswith("cluster("):
        return value
    if "," in value:
        raise ValueError(
            f"`{value}`: write `{value.replace(',', ' +')}` for rows that are alike if they agree in either column"
        )
    columns = re.findall(r"\w+", value)[1:]
    if len(set(columns)) < len(columns):
        raise ValueError(f"`{value}` names a column twice")
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"`{value}` has {len(columns)} columns; errors can be clustered by at most {MOST_COLUMNS}")
    return value


WrittenErrors = Annotated[
    str, StringConstraints(pattern=PATTERN), Field(examples=EXAMPLES), BeforeValidator(check_columns)
]
"""A value of the key."""
