"""The format of `levels.parquet`: the values of the codes of a file, and the rows with each."""

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import parquet

from tfglm.config import SPLITS
from tfglm.data.encoding import BITS, CODE, FinishedColumn, PatternGroup
from tfglm.data.shards import MOST_TOGETHER

LEVELS_SCHEMA = {
    "column": pl.String,
    "code": pl.Int64,
    "split": pl.String,
    "pattern": pl.Int64,
    "rows": pl.Int64,
    "text": pl.String,
    "integer": pl.Int64,
    "number": pl.Float64,
    "mean": pl.Float64,
    "variance": pl.Float64,
    "minimum": pl.Float64,
    "maximum": pl.Float64,
}
"""Columns of `levels.parquet`, which counts the rows of each column by code, split and pattern of missing values.

`pattern` is the code of the column MISSING. `text`, `integer` or `number`, by the kind of the column, is the value of the code.
A plain column has code 0, and for each shard its mean, variance (divisor n), minimum and maximum; images have those of all
pixels."""

# Written out, because polars starts threads to make it, and a fork server must have none.
ARROW = {pl.String: pa.large_string(), pl.Int64: pa.int64(), pl.Float64: pa.float64()}
SCHEMA = pa.schema([(name, ARROW[kind]) for name, kind in LEVELS_SCHEMA.items()])


def moments(stored: np.ndarray, groups: Sequence[PatternGroup]) -> list[dict]:
    """Describe some rows of a plain column for `levels.parquet`; by NumPy, whose sums are the same every time."""
    described = []
    for group in groups:
        rows = stored[group.rows]
        if stored.dtype.kind == "V":
            known = rows.view(np.uint8)
        else:
            rows = known = rows[~np.isnan(rows)].astype(np.float64)
        if len(known):
            names = {"code": 0, "split": SPLITS[group.split], "pattern": group.pattern, "rows": len(rows)}
            values = {"mean": known.mean(), "variance": known.var(), "minimum": known.min(), "maximum": known.max()}
            described.append(names | {name: float(value) for name, value in values.items()})
    return described


def table(column: FinishedColumn, patterns: FinishedColumn, described: list[dict]) -> pa.Table:
    """Make the rows of `levels.parquet` for one column; `patterns` is the column MISSING, and `described` has the moments of all
    shards of a plain column."""
    if not column.stored.coded:
        of_shards = [{"column": column.stored.name, **each} for each in described]
        in_order = sorted(of_shards, key=itemgetter("code", "split", "pattern"))
        return pl.DataFrame(in_order, LEVELS_SCHEMA).to_arrow()
    # Without polars: many small queries of it take longer than to parse a small file.
    codes = column.final[column.keys & CODE].astype(np.int64)
    splits = (column.keys >> np.uint64(2 * BITS)).astype(np.int64)
    of_rows = patterns.final[column.keys >> np.uint64(BITS) & CODE].astype(np.int64)
    order = np.lexsort((of_rows, np.argsort(np.argsort(SPLITS))[splits], codes))
    codes, meaning = codes[order], column.stored.kind
    values = pl.Series(column.levels, dtype=LEVELS_SCHEMA[meaning]).to_arrow()
    known = {
        "column": pl.Series([column.stored.name]).to_arrow().take(integers(np.zeros_like(codes))),
        "code": integers(codes),
        "split": pl.Series(SPLITS).to_arrow().take(integers(splits[order])),
        "pattern": integers(of_rows[order]),
        "rows": integers(column.rows[order]),
        meaning: values.take(integers(codes - 1, known=codes > 0)),
    }
    absent = {kind: pa.nulls(len(codes), kind) for kind in set(SCHEMA.types)}  # shared, as there may be millions
    arrays = [known.get(kind.name, absent[kind.type]) for kind in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def integers(values: np.ndarray, known: np.ndarray | None = None) -> pa.Array:
    """An int64 array as Arrow has it, without a copy; null where a value is not `known`."""
    bits = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(values), [bits, pa.py_buffer(values)])


def write(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write the tables of the stored columns, in the order of the manifest: each as a row group, or few rows as a single one.
    Raises OSError."""
    repeated = ["column", "split", "text"]
    tables, first = iter(tables), []
    for table in tables:
        first.append(table)
        if sum(map(len, first)) > MOST_TOGETHER:
            break
    else:
        first = [pa.concat_tables(first)] if any(map(len, first)) else first
    with parquet.ParquetWriter(
        path, SCHEMA, compression="zstd", use_dictionary=repeated, write_page_checksum=True
    ) as writer:
        for table in chain(first, tables):
            writer.write_table(table, row_group_size=max(len(table), 1))
