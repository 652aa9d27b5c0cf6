"""Tables as Parquet files."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write(path: Path, tables: Iterator[pa.Table]) -> int:
    """An empty table and others one after the other into one Parquet file, renamed into place last. Returns their rows."""
    partial, rows = path.with_name(path.name + ".partial"), 0
    empty = next(tables)
    with pq.ParquetWriter(partial, empty.schema) as writer:
        for table in tables:
            writer.write_table(table)
            rows += table.num_rows
    partial.rename(path)
    return rows
