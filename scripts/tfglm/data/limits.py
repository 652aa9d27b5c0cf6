"""Sizes that decide how a file is stored and when it is refused, and those of the pieces in which it is read and shuffled."""

from dataclasses import dataclass

MOST_CODES = 2**16
"""A column of numbers with so many distinct values is stored as it is instead of as codes; one of integers as codes too."""

MOST_LEVELS = 2**22
"""Distinct values of a column of one file that can be told apart, 4,194,304: ingest holds them all. A text with more is refused,
an integer with more has no codes, so that no term or cluster can be made of it."""

BLOCK_BYTES = 16 << 20
"""Bytes of CSV that are parsed at once."""

CHUNK_BYTES = 16 << 20
"""Bytes of rows that are shuffled at once: a column of them stays in the processor's cache meanwhile."""

FAR = 1e3
"""Standard deviations from 0 to the mean of a response, of which float64 would lose too many digits."""

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
