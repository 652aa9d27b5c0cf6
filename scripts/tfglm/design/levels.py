"""The levels of the rows of a file: what its codes mean, as numbers of the levels of a design."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.data.dictionary import VALUE_TYPES, written
from tfglm.data.kinds import Kind
from tfglm.data.shards import IngestedFile
from tfglm.design.factors import Categorical

MOST_KEPT = 1_000_000
"""Levels of a factor, at most, whose table is kept for further files."""


def levels_by_code(factor: Categorical, files: Sequence[IngestedFile], otherwise: int) -> list[np.ndarray]:
    """Return the level number of each code of a column, for each file, int32; code 0 is a missing value, and values without
    a level get `otherwise`."""
    missing = np.int32(len(factor.levels) - 1 if factor.missing else otherwise)
    table = _table(factor)
    if len(table) > MOST_KEPT:
        _table.cache_clear()
    return [
        np.append(missing, of_file) for of_file in looked_up(factor.column, factor.column_kind, files, table, otherwise)
    ]


def looked_up(
    column: str, kind: Kind, files: Sequence[IngestedFile], table: pl.DataFrame, otherwise: int
) -> list[np.ndarray]:
    """Return what the second column of a table has for the values in its first one, for each code from 1 on of a column of
    each file; `otherwise` for other values. Texts in the table are the `written` values."""
    key, number = table.columns
    if kind == "integer" and table.schema[key] == pl.String:
        table = table.with_columns(pl.col(key).cast(pl.Int64))  # millions of texts would take three times the memory
    values = [file.values(file.codes(column).name).cast(VALUE_TYPES[kind]).alias(key) for file in files]
    joined = pl.concat(values)  # one query for all: each has its price, and there may be many files
    joined = written(joined) if table.schema[key] == pl.String else joined
    pa.default_memory_pool().release_unused()  # what reading the levels left: 0.4 GB for 5 million levels
    found = joined.to_frame().join(table, on=key, how="left", maintain_order="left")[number].fill_null(otherwise)
    return np.split(found.to_numpy(), np.cumsum([len(of_file) for of_file in values[:-1]]))


@lru_cache(maxsize=64)
def _table(factor: Categorical) -> pl.DataFrame:
    """The number of the level that each value has."""
    # Not by `numbers`: a dict of millions of levels takes ten times the memory.
    values = [*factor.values, *factor.rare]
    levels = np.minimum(np.arange(len(values), dtype=np.int32), len(factor.values))
    return pl.DataFrame({"value": values, "level": levels}, {"value": pl.String, "level": pl.Int32})
