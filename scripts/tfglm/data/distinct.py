"""A column as its distinct values, and the position among them of each row's value.

Here and in the other modules of ingest, polars makes and fills Arrow arrays: `pyarrow.array` and `fill_null` would import
pandas, which takes longer than ingesting a small file.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.data import lookups

Result = TypeVar("Result")
MOST_KEPT = 16


class Recent(Generic[Result]):
    """A cache of results for the values of recent blocks, keyed by the identity of their arrays: the same array often
    recurs."""

    def __init__(self) -> None:
        self._results: dict[Hashable, tuple[list[pa.Array], Result]] = {}

    def of(self, arrays: list[pa.Array], compute: Callable[[], Result], key: Hashable = None) -> Result:
        """The result for some arrays, and for one of several things that can be computed of them. Threads may share it."""
        known = (*map(id, arrays), key)
        there = self._results.get(known)
        if there is None:
            # The arrays are kept too, so that no other gets the same identity.
            there = arrays, compute()
            self._results = dict(list(self._results.items())[1 - MOST_KEPT :]) | {known: there}
        return there[1]


@dataclass(frozen=True)
class Distinct:
    """Some rows of a column: which of the `values` each row has, -1 for a missing value.

    Without a `table`, `numbers`, int32 [rows], are positions in `values`. The compiled parser instead gives numbers,
    uint16, of entries, and the `table`, int32 [entries], has the position of the value of each entry. Then computations
    change only the table, and touch the rows once at the end. `rows`, uint32, selects rows, if they are not all in
    `numbers`. Some values may not occur, and a value may occur twice in `values`.
    """

    values: pa.Array
    numbers: np.ndarray
    table: np.ndarray | None = None
    rows: np.ndarray | None = None

    @classmethod
    def of(cls, array: pa.Array) -> "Distinct":
        """An array unchanged; nulls and NaN are missing values."""
        array = array.dictionary_encode()
        values = array.dictionary
        indices = pl.Series(array.indices).fill_null(-1).to_numpy()
        if pa.types.is_floating(values.type) and (nan := np.isnan(pl.Series(values).to_numpy())).any():
            indices = np.append(np.where(nan, -1, np.arange(len(nan))), -1).astype(np.int32).take(indices, mode="wrap")
        return cls(values, indices)

    def __len__(self) -> int:
        return len(self.numbers if self.rows is None else self.rows)

    @property
    def indices(self) -> np.ndarray:
        """The place of the value of each row, int32, -1 for a missing one."""
        return self.through(np.append(np.arange(len(self.values), dtype=np.int32), np.int32(-1)))

    def through(self, table: np.ndarray) -> np.ndarray:
        """For each row what a table has in the place of its value; the last entry is for a missing one."""
        if self.table is None:
            return table.take(self.numbers, mode="wrap")  # -1 takes the last entry
        return lookups.looked_up(table.take(self.table, mode="wrap"), self.numbers, self.rows)

    def mapped(self, column: "Distinct") -> "Distinct":
        """The rows with other values: those that `column` has for each of the values here, and then for a missing one."""
        if self.table is None:
            return column.take(self.numbers)
        return Distinct(column.values, self.numbers, column.indices.take(self.table, mode="wrap"), self.rows)

    def take(self, rows: np.ndarray) -> "Distinct":
        """The rows with these positions; -1 is the last one."""
        if self.table is None:
            return Distinct(self.values, self.numbers.take(rows, mode="wrap"))
        taken = rows.astype(np.uint32) if self.rows is None else self.rows.take(rows, mode="wrap")
        return Distinct(self.values, self.numbers, self.table, taken)

    def compact(self) -> "Distinct":
        """The same rows, with only the values that occur in them."""
        indices = self.indices
        used = np.zeros(len(self.values) + 1, bool)
        used[indices] = True  # -1 is the last
        places = np.flatnonzero(used[:-1])
        if len(places) == len(self.values):
            return self
        table = np.full(len(self.values) + 1, -1, np.int32)
        table[places] = np.arange(len(places))
        return Distinct(self.values.take(pl.Series(places).to_arrow()), table.take(indices, mode="wrap"))

    def decoded(self) -> pl.Series:
        """The values row by row."""
        # The last value is missing; index -1 selects it.
        values = pl.Series(self.values).extend_constant(None, 1)
        indices = self.indices
        return values.gather(np.where(indices < 0, len(self.values), indices))


def joined(columns: list[Distinct], most: int) -> tuple[list[Distinct], np.ndarray, np.ndarray] | None:
    """Return the combinations of values that occur in some columns of the compiled parser.

    They are rows of the same columns; with the number of the combination of each row, uint16, and the sorted numbers of the
    combinations that occur. None if the columns come from elsewhere, or if more than `most` combinations are possible.
    """
    tables = [column.table for column in columns if column.table is not None and column.rows is None]
    sizes = [len(table) for table in tables]
    if len(tables) < len(columns) or np.prod(sizes, dtype=float) > most:
        return None
    numbers, occur = lookups.joined([column.numbers for column in columns], sizes)
    of_column = np.unravel_index(occur, sizes)
    combinations = [
        Distinct(column.values, table.take(numbers_of_column))
        for column, table, numbers_of_column in zip(columns, tables, of_column, strict=True)
    ]
    return combinations, numbers, occur
