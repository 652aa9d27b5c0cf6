"""Tables of counts, as R's `as.data.frame(table)` and `dplyr::count` make them: a row for each combination of levels."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from tfglm.survey.columns import ColumnSummary, described
from tfglm.survey.names import words_of_name

FREQUENCIES = frozenset(["freq", "freqs", "frequency", "frequencies"])
"""Names of a column that says how many equal rows there are."""
LAST = "n"
"""The name that it has as the last column."""
MOST_LEVELS = 50
"""Most values of each of the other columns."""
MOST_ROWS = 100_000
"""Rows that a table stands for, at most, in a survey; of more, a row of the table stands for so many fewer."""


def frequency_in(columns: Sequence[ColumnSummary], rows: pl.DataFrame) -> str:
    """The column of a table of counts that has the counts; empty if there is none.

    Its name says so, it is a whole number of each combination of the other columns, and these have few values.
    """
    for place, column in enumerate(columns):
        names = FREQUENCIES | ({LAST} if place == len(columns) - 1 else frozenset())
        others = [other for other in columns if other is not column]
        if (
            words_of_name(column)[-1] in names
            and column.kind == "integer"
            and not column.missing
            and column.least >= 0
            and column.greatest > 1
            and all(2 <= other.values <= MOST_LEVELS and other.kind != "number" for other in others)
            and rows.select(other.name for other in others).n_unique() == len(rows)
        ):
            return column.name
    return ""


def counted_out(
    rows: pl.DataFrame, columns: Sequence[ColumnSummary], frequency: str
) -> tuple[pl.DataFrame, list[ColumnSummary]]:
    """Return the rows that a table of counts stands for, and the summaries of their columns."""
    counts = rows[frequency].to_numpy()
    each = np.ceil(counts / max(1.0, counts.sum() / MOST_ROWS)).astype(np.int64)
    repeated = rows.drop(frequency)[np.repeat(np.arange(len(rows)), each)]
    known = [column for column in columns if column.name != frequency]
    return repeated, [described(repeated[column.name], column) for column in known]
