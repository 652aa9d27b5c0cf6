"""The key `std_errors` of a model: which covariance its standard errors come from."""

import re
from typing import NamedTuple

ROBUST = ("robust", "HC0", "HC1", "HC2", "HC3")
"""Robust to a wrong variance of rows that are independent; `robust` is HC1."""

BY_LEVERAGE = ("HC2", "HC3")
"""Those of them that divide by powers of 1 less the leverage of a row."""

PATTERN = r"^(classical|quasi|robust|HC[0-3]|cluster\(\s*[A-Za-z_]\w*\s*\))$"

DESCRIPTION = (
    "`classical`; `quasi` (classical ones times the root of the Pearson dispersion); `robust` to a misspecified variance (`HC1`; "
    "or `HC0`, `HC2`, `HC3` by name); or `cluster(column)`, for rows that may be alike if they have the same value of that "
    "column, as flights of one day (CR2). The table shows the classical ones too."
)

EXAMPLES = ["classical", "quasi", "robust", "HC3", "cluster(column)"]


class StdErrors(NamedTuple):
    """The kind of standard errors, and the columns of the clusters."""

    kind: str
    columns: tuple[str, ...] = ()


def parsed(text: str) -> StdErrors:
    """What a value of the key says, which PATTERN has let through."""
    kind, _, columns = text.rstrip(") ").partition("(")
    return StdErrors(kind, tuple(re.findall(r"\w+", columns)))
