"""The rows of a call: files or a table as shards, which further models of this process use again."""

import fcntl
import functools
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import xxhash
from pyarrow import parquet

import tfglm
from tfglm.addresses import is_address
from tfglm.config import Dialect, Layout, SelectionConfig, SourceConfig, expand_files
from tfglm.config.messages import validated
from tfglm.data.editions import FileStatus
from tfglm.data.header import read_header
from tfglm.data.ingest import ingest
from tfglm.data.packages import located
from tfglm.data.packing import packing
from tfglm.data.shards import MANIFEST, IngestedFile
from tfglm.errors import UserError, writing
from tfglm.survey.dialect import dialect_of
from tfglm.survey.layout import own_layout

TABLE = "table.parquet"
"""The file of the rows of a table."""


def remove_own(folder: Path, process: int) -> None:
    """Remove a folder at the end of the process that made it, not of a child."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, eq=False)
class ReadRows:
    """The rows of a call as shards, and the layout and the remarks on columns by which they were read."""

    files: Sequence[IngestedFile]
    layout: Layout
    remarks: Mapping[str, str]
    size: int
    """Bytes in a temporary folder."""


READ: weakref.WeakValueDictionary[str, ReadRows] = weakref.WeakValueDictionary()
"""The rows that models of this process use, by what was read and how, so that a further model does not read them again."""

LATEST: list[ReadRows] = []
"""The rows that were read last, if they are small: they outlive their models."""

MOST_OUTLIVING = 1 << 28
"""Bytes."""

SETTLED = 2_000_000_000
"""Nanoseconds after which each change of a file shows in its times, on all file systems."""


def identity_of(path: Path) -> tuple[str | int, ...]:
    """Return what changes with the content of a file. Two calls for a file that has just been written return different
    identities, as its times may not show a further change."""
    status = FileStatus.of(path)
    is_settled = path.is_file() and time.time_ns() - max(status.modified, status.changed) > SETTLED
    return fspath(path.resolve()), *astuple(status), 0 if is_settled else time.monotonic_ns()


class Checksum(io.RawIOBase):
    """A stream that keeps the XXH3 of 128 bits of what is written to it, and nothing else."""

    def __init__(self) -> None:
        self.checksum = xxhash.xxh3_128()

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> None:
        self.checksum.update(part)


def content_of(table: pa.Table) -> str:
    """The checksum of the names, types and values of a table."""
    stream = Checksum()
    # Metadata has what the model does not read, such as the index of a frame.
    plain = table.replace_schema_metadata()
    with pa.ipc.new_stream(pa.PythonFile(stream, "w"), plain.schema) as writer:
        writer.write_table(plain)
    return stream.checksum.hexdigest()


def read_rows(
    sources: Mapping[str, Path],
    table: pa.Table | None,
    header: Sequence[str],
    dialect: Dialect,
    decimal: str,
    needed: Mapping[str, str],
    selection: SelectionConfig,
    cache: Any,
) -> ReadRows:
    """The rows of files, or of a table, which are read unless this process has them."""
    content = {name: identity_of(path) for name, path in sources.items()} if table is None else content_of(table)
    where = None if cache is None else fspath(Path(cache).resolve())
    key = json.dumps([os.getpid(), content, decimal, needed, selection.model_dump_json(), where])
    read = READ.get(key)
    if read is None or not all((file.folder / MANIFEST).is_file() for file in read.files):
        folder = Path(tempfile.mkdtemp(prefix="tfglm-"))
        try:
            if table is not None:
                sources = {"table": folder / TABLE}
                parquet.write_table(table, folder / TABLE)
            layout, remarks = own_layout(next(iter(sources.values())), header, dialect, decimal, needed)
            if unread := [column for column in needed if column in selection.columns and column not in layout.columns]:
                kind = "" if table is None else f", of type {table.schema.field(needed[unread[0]]).type}"
                raise UserError(
                    f"data: the column `{unread[0]}`{kind}, has no values that can be read\n"
                    "  make numbers, text, dates or booleans of it, as `.astype(str)` does"
                )
            if table is not None:
                layout = layout.model_copy(update={"missing": []})  # a text in a table is what it says
            files = [_ingested(file, path, layout, selection, cache, folder) for file, path in sources.items()]
            (folder / TABLE).unlink(missing_ok=True)
            size = sum(path.stat().st_size for path in folder.rglob("*"))
            read = ReadRows(files, layout, remarks, size)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(read, remove_own, folder, os.getpid())
        READ[key] = read
    LATEST.clear()
    if read.size <= MOST_OUTLIVING:
        LATEST.append(read)
    return read


SOURCE = re.compile(
    r"`([^`]+)`|\bQ\(\s*(?:'([^']+)'|\"([^\"]+)\")\s*\)|(?<![\w.'\"])"
    r"([^\W\d]\w*(?:\.\w+)+|(?=\w*[^\x00-\x7f])[^\W\d]\w*)(?![\w.]*\()|'[^']*'|\"[^\"]*\""
)
"""A column of any name in backticks or in patsy's Q(), and one with dots or letters such as ö in its name; or else a text in
quotes."""


def in_plain_names(text: Any, names: Mapping[str, str]) -> Any:
    """A formula, SQL or the name of a column with the plain names of columns for those that the data have, or that R gives
    them; `names` are the data's by plain name.

    >>> in_plain_names("größe ~ `sq ft` + sq.ft + log(pos.x)", {"sq_ft": "sq ft", "pos_x": "pos.x", "grosse": "größe"})
    'grosse ~ sq_ft + sq_ft + log(pos_x)'
    """
    if isinstance(text, Mapping):
        return {key: in_plain_names(value, names) for key, value in text.items()}
    if isinstance(text, list):
        return [in_plain_names(each, names) for each in text]
    in_r = {re.sub(r"\W", ".", source): name for name, source in names.items()}
    plain = in_r | {source: name for name, source in names.items()}

    def plain_name(match: re.Match[str]) -> str:
        return plain.get(next(filter(None, match.groups()), ""), match[0])

    return plain.get(text) or SOURCE.sub(plain_name, text) if isinstance(text, str) else text


def table_or_paths(data: Any) -> Any:
    """A table of pandas or Arrow from any table; paths as they are."""
    if isinstance(data, pd.DataFrame):
        kinds = {name: kind for name, kind in data.dtypes.items() if isinstance(kind, pd.CategoricalDtype)}
        odd = [
            name for name, kind in kinds.items() if isinstance(kind.categories.dtype, pd.IntervalDtype | pd.PeriodDtype)
        ]
        # Those of pandas.cut become text, in their order.
        return data.assign(**{str(name): data[name].cat.rename_categories(str) for name in odd}) if odd else data
    if not hasattr(data, "__arrow_c_stream__") or isinstance(data, pd.Series):
        return data
    with arrow_errors():
        table = pa.table(data)  # some streams are read once
    if isinstance(data, pa.RecordBatchReader) and not len(table):
        raise UserError("data: the stream has no rows, or was read before; give a table, or a new stream")
    return table


def sources_of(data: Any) -> tuple[dict[str, Path], list[str], Dialect]:
    """The files with the rows, by name, the columns, and how the first file is written. A table becomes a Parquet file."""
    if isinstance(data, str | PathLike):
        data = [data]
    if not isinstance(data, Sequence):
        if not isinstance(data, pd.DataFrame | pa.Table):
            made = "data.collect()" if hasattr(data, "collect") else "pandas.DataFrame(data)"
            raise UserError(
                f"data: a {type(data).__name__} is no table\n"
                f"  give a path, a list of paths, or a table of pandas, polars or Arrow, such as {made}"
            )
        columns = data.columns if isinstance(data, pd.DataFrame) else data.column_names
        return {TABLE: Path(TABLE)}, list(map(str, columns)), Dialect()
    if others := [type(each).__name__ for each in data if not isinstance(each, str | PathLike)]:
        raise UserError(f"data: a list of paths is expected, and this has a {others[0]}; put tables together first")
    named = [fspath(each) for each in data]
    if not named or not all(named):
        raise UserError("data: expected a path, or a list of paths, received none")
    if address := next(filter(is_address, named), None):
        raise UserError(f"data: `{address}` is an address; fetch the file, and give its path")
    files = expand_files(validated(SourceConfig, {"files": named}, "data"), "data")
    sources = {name: located(file.source) for name, file in files.items()}
    first = next(iter(sources.values()))
    return sources, *_form(first, identity_of(first))


@functools.lru_cache(100)
def _form(path: Path, identity: tuple[str | int, ...]) -> tuple[list[str], Dialect]:
    """The columns of a file, and how it is written."""
    dialect = dialect_of(path) if packing(path) != "parquet" else Dialect()
    return read_header(path, dialect), dialect


def as_table(data: pd.DataFrame | pa.Table, columns: Sequence[str]) -> pa.Table:
    """These columns of a table, in Arrow's form. Categoricals become their values.

    Raises UserError for two columns of a name, and for values of different types.
    """
    with arrow_errors():
        if isinstance(data, pd.DataFrame):
            chosen = data.loc[:, [str(column) in columns for column in data.columns]]
            table = pa.Table.from_pandas(chosen, preserve_index=False)
        else:
            table = data.select(columns)
        schema = [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in table.schema
        ]
        return table.cast(pa.schema(schema))


@contextmanager
def arrow_errors() -> Iterator[None]:
    """Say what a table has to be, if Arrow cannot take it."""
    try:
        yield
    except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"data: {'; '.join(map(str, error.args))}\n"
            "  give each column a name of its own, and values of one type: numbers, text, dates or booleans"
        ) from None


def orders_of(data: Any, names: Mapping[str, str]) -> dict[str, list[str]]:
    """The levels of the categoricals of text in a table of pandas, in their order, by the plain `names` of the columns."""
    if not isinstance(data, pd.DataFrame):
        return {}
    kinds = {name: data[source].dtype for name, source in names.items() if source in data}
    return {
        name: list(map(str, kind.categories))
        for name, kind in kinds.items()
        if isinstance(kind, pd.CategoricalDtype) and pd.api.types.is_string_dtype(kind.categories.dtype)
    }


def _ingested(
    name: str, path: Path, layout: Layout, settings: SelectionConfig, cache: Any, folder: Path
) -> IngestedFile:
    """The rows of a file, read once for all fits with the same `cache`."""
    target = folder / "shards" / name
    if cache is not None and folder not in path.parents:
        read = [fspath(path.resolve()), *astuple(FileStatus.of(path)), tfglm.ENGINE]
        asked = json.dumps([read, settings.model_dump_json(), layout.model_dump_json()])
        target = Path(cache) / hashlib.sha256(asked.encode()).hexdigest()[:20] / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cache: {cache} cannot be written ({error.strerror}); name another folder") from None
    with writing(target), target.with_suffix(".lock").open("wb") as lock:
        # Of two processes with the same cache one reads, and the other waits for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / MANIFEST).is_file():
            ingest(path, name, {"layout": layout}, settings, target)
    return IngestedFile.load(target / MANIFEST)
