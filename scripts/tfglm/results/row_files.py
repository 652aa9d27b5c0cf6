"""Tables of single rows, of any length, as Parquet or CSV files."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Append = Callable[[pa.Table], None]


@contextmanager
def parquet(path: Path, empty: pa.Table) -> Iterator[Append]:
    with pq.ParquetWriter(path, empty.schema) as writer:
        yield writer.write_table


@contextmanager
def csv(path: Path, empty: pa.Table) -> Iterator[Append]:
    import pandas as pd  # Parquet does without it

    from tfglm.results import csv_files

    def append(table: pa.Table, header: bool = False) -> None:
        # A whole number stays one where others are missing.
        csv_files.write(table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get), file, header)

    with path.open("w", encoding="utf-8", newline="") as file:
        append(empty, header=True)
        yield append


FORMATS: dict[str, Callable[[Path, pa.Table], AbstractContextManager[Append]]] = {".parquet": parquet, ".csv": csv}


def write(path: Path, tables: Iterator[pa.Table]) -> int:
    """Write an empty table and others one after the other into one file, which is renamed into place last. Returns their rows."""
    partial, rows = path.with_name(path.name + ".partial"), 0
    with FORMATS[path.suffix](partial, next(tables)) as append:
        for table in tables:
            append(table)
            rows += table.num_rows
    partial.rename(path)
    return rows
