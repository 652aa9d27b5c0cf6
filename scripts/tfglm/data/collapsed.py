"""What collapsed rows (data.collapse) are called, for those who read them."""

import hashlib
from collections.abc import Sequence

NAME = "collapsed"
"""What collapsed rows are called in place of an input file."""

ROWS = "collapsed.rows"
"""The column with the number of rows that a row stands for. No column of the data has such a name, nor that of `sum_name`."""


def sum_name(frequency: str) -> str:
    """The column with the sum of a column `frequency`."""
    return f"{frequency}.sum"


def identity(data: Sequence[str]) -> str:
    """What rows were collapsed, by the digests of the manifests that they are of."""
    return hashlib.sha256("".join(data).encode()).hexdigest()
