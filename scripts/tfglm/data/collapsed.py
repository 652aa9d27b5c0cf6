"""The names of collapsed rows (data.collapse), for their readers."""

import hashlib
from collections.abc import Sequence

NAME = "collapsed"
"""The name of collapsed rows, in the place of the name of an input file."""

ROWS = "collapsed.rows"
"""The column with the number of rows that a row stands for. No column of the data has such a name, nor that of `sum_name`."""


def sum_name(frequency: str) -> str:
    """The column with the sum of a column `frequency`."""
    return f"{frequency}.sum"


def identity(data: Sequence[str]) -> str:
    """Return the identity of the collapsed rows: the digests of the manifests of their files."""
    return hashlib.sha256("".join(data).encode()).hexdigest()
