"""The format of `levels.parquet`: the values of the codes of a file, and the rows with each."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from pyarrow import parquet

from tfglm.config import SPLITS
from tfglm.data.encoding import BITS, CODE, FinishedColumn, PatternGroup

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


def table(column: FinishedColumn, patterns: FinishedColumn, described: list[dict]) -> pl.DataFrame:
    """Make the rows of `levels.parquet` for one column; `patterns` is the column MISSING, and `described` has the moments of all
    shards of a plain column."""
    meaning = "number" if column.stored.kind == "image" else column.stored.kind
    values = pl.concat([pl.Series(meaning, part, dtype=LEVELS_SCHEMA[meaning]) for part in ([None], column.levels)])
    codes = column.final[column.keys & CODE].astype(np.int64)
    counted = pl.DataFrame(
        {
            "code": codes,
            "split": pl.Series(SPLITS).gather(column.keys >> np.uint64(2 * BITS)),
            "pattern": patterns.final[column.keys >> np.uint64(BITS) & CODE].astype(np.int64),
            "rows": column.rows,
            meaning: values.gather(codes),
        }
    )
    both = pl.concat([pl.DataFrame(described, LEVELS_SCHEMA), counted], how="diagonal")
    both = both.with_columns(column=pl.lit(column.stored.name))
    return completed(both).sort("code", "split", "pattern", maintain_order=True)


def completed(table: pl.DataFrame) -> pl.DataFrame:
    """Give a table all columns of LEVELS_SCHEMA, in order."""
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in LEVELS_SCHEMA.items()
    )


def write(path: Path, tables: Iterable[pl.DataFrame]) -> None:
    """Write the tables of the stored columns, in the order of the manifest, each as a row group. Raises OSError."""
    schema = pl.DataFrame(schema=LEVELS_SCHEMA).to_arrow().schema
    repeated = ["column", "split", "text"]
    with parquet.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=repeated, write_page_checksum=True
    ) as writer:
        for table in tables:
            writer.write_table(table.to_arrow(), row_group_size=max(len(table), 1))
