"""Rows of a column as its distinct values and which of them each row has.

Arrow arrays are made by polars here and in the other modules of ingest: `pyarrow.array` would import pandas, which takes longer
than a small file.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa


@dataclass(frozen=True)
class Distinct:
    """Some rows of a column: `indices`, int32 [rows], into `values`, -1 for a missing value.

    Not every one of the values need occur, and one may be there twice.
    """

    values: pa.Array
    indices: np.ndarray

    @classmethod
    def of(cls, array: pa.Array) -> "Distinct":
        """An array as it is; nulls and NaN are missing values."""
        array = array.dictionary_encode()
        values = array.dictionary
        indices = (array.indices.fill_null(-1) if array.null_count else array.indices).to_numpy()
        if pa.types.is_floating(values.type) and (nan := np.isnan(values.to_numpy())).any():
            indices = np.append(np.where(nan, -1, np.arange(len(nan))), -1).astype(np.int32).take(indices, mode="wrap")
        return cls(values, indices)

    def take(self, rows: np.ndarray) -> "Distinct":
        """The rows with these positions; -1 is the last one."""
        return Distinct(self.values, self.indices.take(rows, mode="wrap"))

    def compact(self) -> "Distinct":
        """The same rows, with the values that occur in them alone."""
        used = np.zeros(len(self.values) + 1, bool)
        used[self.indices] = True  # -1 is the last
        places = np.flatnonzero(used[:-1])
        if len(places) == len(self.values):
            return self
        table = np.full(len(self.values) + 1, -1, np.int32)
        table[places] = np.arange(len(places))
        return Distinct(self.values.take(pl.Series(places).to_arrow()), table.take(self.indices, mode="wrap"))

    def decoded(self) -> pl.Series:
        """The values row by row."""
        # Behind the values stands a missing one, for the index -1.
        values = pl.Series(self.values).extend_constant(None, 1)
        return values.gather(np.where(self.indices < 0, len(self.values), self.indices))
