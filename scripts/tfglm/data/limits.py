"""Sizes that decide how a file is stored and when it is refused, and the sizes of the pieces to read and shuffle."""

from dataclasses import dataclass

MOST_CODES = 2**16
"""From this number of distinct values on, ingest stores a column of numbers without codes, and a column of integers both
with and without."""

MOST_LEVELS = 2**24
"""Most distinct values of a column of one file that can be distinguished: ingest holds them all in memory, in 0.2 kB
for each integer and 0.3 kB for each text. A text column with more is refused. An integer column with more has no codes, so it
cannot be a term or a cluster."""

BLOCK_BYTES = 16 << 20
"""Bytes of CSV that are parsed together."""

CHUNK_BYTES = 16 << 20
"""Bytes of rows that are shuffled together: one column of them then stays in the processor's cache."""

FAR = 1e3
"""Most standard deviations between 0 and the mean of a response; beyond, float64 would lose too many digits."""

FEW_BAD_ROWS = 100
"""Rows that cannot be read: so many may be dropped of any file. More are no accident, unless the file is large."""


@dataclass(frozen=True)
class IngestLimits:
    """The limits of one ingest; see the constants of the same names."""

    most_codes: int = MOST_CODES
    most_levels: int = MOST_LEVELS
    block_bytes: int = BLOCK_BYTES
    chunk_bytes: int = CHUNK_BYTES
    few_bad_rows: int = FEW_BAD_ROWS


DEFAULT_LIMITS = IngestLimits()
