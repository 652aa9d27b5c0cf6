"""One parse of one CSV file: rows selected and counted, columns encoded, shards written."""

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator
from csv import Error as CsvError
from csv import reader as lines_of_fields
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import csv

from tfglm.config import Layout, SelectionConfig
from tfglm.data import shards
from tfglm.data.shards import MISSING, Manifest, StoredColumn
from tfglm.errors import UserError, nearest

ARROW_TYPES = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "date": pa.string()}
BLOCK_BYTES = 8 << 20

REASON = "__reason__"
SPLIT = "__split__"


def ingest(source: Path, file: str, layout: Layout, settings: SelectionConfig, folder: Path) -> Manifest:
    """Write the shards, the levels and the manifest of one input file into `folder`, which appears complete or not at all.

    Raises UserError, which names the file and where it can the line, for a file that cannot be read, a column that is
    not there, an expression that cannot be evaluated, or a value that is not finite.
    """
    table, dropped, read = select_rows(source, layout, settings)
    stored, encoded, levels = encode(source, table, settings.columns)
    capacity = shards.capacity_for(table.height)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        split = table[SPLIT].to_numpy()
        order = np.random.default_rng(settings.seed).permutation(table.height)
        written = []
        for name in shards.SPLITS:
            rows = order[split[order] == name]
            part = {column.name: encoded[column.name][rows] for column in stored}
            written += shards.write_shards(partial, name, stored, part, capacity)
        (partial / "shards").mkdir(exist_ok=True)
        manifest = Manifest(file, str(source), capacity, stored, tuple(written), read, dropped)
        levels.write_parquet(partial / "levels.parquet")
        manifest.write(partial / "manifest.json")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def select_rows(source: Path, layout: Layout, settings: SelectionConfig) -> tuple[pl.DataFrame, dict[str, int], int]:
    """The rows that meet every condition, with their split; how many were dropped for which reason; how many were read.

    A row is counted under the first condition that it fails.
    """
    header = read_header(source, layout)
    query, needed = selection(layout, settings)
    kept, counts = [], []
    try:
        for batch in read_batches(source, header, layout, needed):
            rows = query(batch)
            counts.append(rows.group_by(REASON).len())
            kept.append(rows.filter(pl.col(REASON).is_null()).drop(REASON))
    except (pa.ArrowInvalid, pl.exceptions.PolarsError) as error:
        raise unreadable(source, layout, error) from error
    by_reason = dict(pl.concat(counts).group_by(REASON).agg(pl.col("len").sum()).iter_rows())
    reasons = [*(f"where: {name}" for name in settings.where), "in no split"]
    return pl.concat(kept), {reason: by_reason.get(reason, 0) for reason in reasons}, sum(by_reason.values())


def selection(layout: Layout, settings: SelectionConfig) -> tuple[Callable[[pl.DataFrame], pl.DataFrame], set[str]]:
    """A function from rows with the layout's columns to the kept columns, SPLIT and REASON (null where a row is kept).

    Also the columns of the layout that it needs. Raises UserError for an expression or a column that is not there.
    """
    derived = {}
    known = dict.fromkeys(layout.columns)
    for where, added in (("layout", layout.derive), ("data.derive", settings.derive)):
        for name, sql in added.items():
            derived[name] = expression(sql, f"{where}.{name}", known).alias(name)
            known[name] = None
    for name in settings.columns:
        if name not in known:
            raise UserError(
                f"data.columns: no column `{name}`{nearest(name, known)}\n"
                f"  the layout and data.derive have: {', '.join(known)}\n"
                f"  choose one of these, or define `{name}` under data.derive"
            )
    nothing = pl.when(pl.lit(False)).then(pl.lit(None, dtype=pl.String))
    reason, split = nothing, nothing
    for name, sql in settings.where.items():
        met = expression(sql, f"data.where.{name}", known).fill_null(False)
        reason = reason.when(~met).then(pl.lit(f"where: {name}"))
    for name in shards.SPLITS:
        if sql := getattr(settings.split, name):
            split = split.when(expression(sql, f"data.split.{name}", known).fill_null(False)).then(pl.lit(name))
    split = split.otherwise(None)
    reason = reason.when(split.is_null()).then(pl.lit("in no split")).otherwise(None)
    chosen = [*map(pl.col, settings.columns), reason.alias(REASON), split.alias(SPLIT)]

    needed = {name for one in chosen for name in one.meta.root_names()}
    for name, one in reversed(derived.items()):
        if name in needed:
            needed |= set(one.meta.root_names())
    used = [one for name, one in derived.items() if name in needed]

    def query(rows: pl.DataFrame) -> pl.DataFrame:
        lazy = rows.lazy()
        for one in used:
            lazy = lazy.with_columns(one)
        return lazy.select(chosen).collect()

    return query, needed & set(layout.columns)


def read_batches(source: Path, header: list[str], layout: Layout, needed: set[str]) -> Iterator[pl.DataFrame]:
    """The needed columns under their tfglm names, block by block.

    Read by pyarrow: unlike polars it refuses a line with too few or too many fields whatever columns are asked for.
    """
    columns = {name: column for name, column in layout.columns.items() if name in needed}
    # A query may need no column at all (`train: TRUE`), but the rows are to be counted.
    sources = [column.source for column in columns.values()] or header[:1]
    convert = csv.ConvertOptions(
        include_columns=list(dict.fromkeys(sources)),
        column_types={column.source: ARROW_TYPES[column.type] for column in layout.columns.values()},
        null_values=layout.missing,
        strings_can_be_null=True,
    )
    reader = csv.open_csv(source, csv.ReadOptions(block_size=BLOCK_BYTES), convert_options=convert)
    selected = [
        pl.col(column.source).str.to_date(column.format or "%Y-%m-%d").alias(name)
        if column.type == "date"
        else pl.col(column.source).alias(name)
        for name, column in columns.items()
    ]
    # The empty table comes first: a file may hold no rows.
    for batch in itertools.chain([reader.schema.empty_table()], reader):
        rows = pl.from_arrow(batch)
        yield rows.select(selected) if selected else rows


def read_header(source: Path, layout: Layout) -> list[str]:
    """The column names in the first line. Raises UserError if it lacks a column of the layout."""
    try:
        with source.open("rb") as lines:
            first = lines.readline()
        header = next(lines_of_fields([first.decode("utf-8-sig")]), [])
    except (OSError, UnicodeDecodeError, CsvError) as error:
        raise UserError(f"{source}: cannot be read as CSV: {error}") from error
    if not header:
        raise UserError(f"{source}: is empty; a CSV file begins with a line of column names")
    if "\0" in "".join(header):
        raise UserError(f"{source}: is not a CSV file (its first line holds binary data)")
    absent = [column.source for column in layout.columns.values() if column.source not in header]
    if absent:
        lines = [f"  `{column}`{nearest(column, header)}" for column in absent]
        raise UserError(
            f"{source}: the header lacks columns of the layout (data.layout):\n" + "\n".join(lines) + "\n"
            f"  the header has: {', '.join(header)}\n"
            f"  choose the layout that fits the file, or write one of your own"
        )
    twice = sorted({column for column in header if column and header.count(column) > 1})
    if twice:
        raise UserError(f"{source}: the header names {', '.join(f'`{column}`' for column in twice)} twice; rename one")
    return header


def expression(sql: str, where: str, known: Iterable[str]) -> pl.Expr:
    """A polars expression for `sql`. Raises UserError naming the config key `where` and the column that is not there."""
    try:
        made = pl.sql_expr(sql)
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{where}: not an SQL expression: `{sql}`: {error}") from error
    for name in made.meta.root_names():
        if name not in known:
            raise UserError(
                f"{where}: no column `{name}` in `{sql}`{nearest(name, known)}\n  there are: {', '.join(known)}"
            )
    # A file is read block by block, so what looks at other rows would silently look at a block.
    if any(f'"{node}"' in made.meta.serialize(format="json") for node in ("Agg", "Over", "Len")):
        raise UserError(
            f"{where}: `{sql}` looks at other rows (an aggregate or a window); use the row's own columns only"
        )
    return made


def unreadable(source: Path, layout: Layout, error: Exception) -> UserError:
    """Say which line is wrong, where polars only says what is: the file is read again, line by line, as far as that line."""
    parsers = {"integer": int, "number": float}
    numeric = {one.source: parsers[one.type] for one in layout.columns.values() if one.type in parsers}
    missing = {*layout.missing, ""}
    with source.open("rb") as raw:
        rows = lines_of_fields(line.decode() for line in raw)
        place = str(source)
        try:
            header = next(rows)
            for row in rows:
                place = f"{source}, line {rows.line_num}"
                if row and len(row) != len(header):
                    fields = f"{len(row)} fields where the header has {len(header)}"
                    return UserError(f"{place}: {fields}; mend or remove the line")
                for name, value in zip(header, row, strict=False):
                    if name in numeric and value not in missing and not parses(value, numeric[name]):
                        kind = "a number" if numeric[name] is float else "a whole number"
                        return UserError(
                            f"{place}, column `{name}`: expected {kind}, found `{value}`\n  mend the value, add it to "
                            f"`missing` in the layout if it marks a missing one, or change the column's type there"
                        )
        except UnicodeDecodeError:
            where = f"{source}, line {rows.line_num + 1}"
            return UserError(f"{where}: bytes that are not UTF-8; convert the file with iconv")
        except CsvError as problem:
            return UserError(f"{place}: {problem}")
    return UserError(f"{source}: {str(error).splitlines()[0]}")


def parses(value: str, parser: Callable[[str], float]) -> bool:
    try:
        parser(value)
    except ValueError:
        return False
    return True


def encode(
    source: Path, table: pl.DataFrame, names: list[str]
) -> tuple[tuple[StoredColumn, ...], dict[str, np.ndarray], pl.DataFrame]:
    """How each column is stored, its stored values (one array of `table.height` each), and the table of levels.

    The table of levels counts rows by column, code, split and `complete` (no kept column lacks a value in the row);
    `text` or `number` is the value that the code stands for. A column that is stored as it is has code 0 there, and
    instead of the value its mean, variance (divisor n), minimum and maximum.
    """
    table = table.with_columns(pl.selectors.float().fill_nan(None), pl.selectors.boolean().cast(pl.Int64))
    table = table.with_columns(pl.selectors.date().dt.to_string("iso"))
    lacking = [pl.when(pl.col(name).is_null()).then(pl.lit(name)) for name in names]
    table = table.with_columns(pl.concat_str(lacking, separator=",", ignore_nulls=True).alias(MISSING))
    table = table.with_columns((pl.col(MISSING) == "").alias("complete"))
    encoded = [encode_column(source, table, name) for name in (MISSING, *names)]
    return (
        tuple(column for column, _, _ in encoded),
        {column.name: values for column, values, _ in encoded},
        pl.concat([levels for _, _, levels in encoded], how="diagonal"),
    )


def encode_column(source: Path, table: pl.DataFrame, name: str) -> tuple[StoredColumn, np.ndarray, pl.DataFrame]:
    """`encode` for one column."""
    values = table[name]
    if values.dtype.is_float() and values.is_infinite().any():
        raise UserError(
            f"{source}: column `{name}` holds infinite values; drop such rows with a condition in data.where"
        )
    kind = "text" if values.dtype == pl.String else "integer" if values.dtype.is_integer() else "number"
    groups = ["split", "complete"]
    table = table.select(name, pl.col(SPLIT).alias("split"), "complete")
    distinct = values.drop_nulls().unique().sort()
    if kind != "text" and len(distinct) >= shards.MOST_CODES:
        exact = values.cast(pl.Float64)
        narrow = exact.cast(pl.Float32)
        dtype = "float32" if (narrow.cast(pl.Float64) == exact).all() else "float64"
        described = pl.DataFrame(
            [
                {"column": name, "code": 0, "split": split, "complete": complete, **moments(part[name])}
                for (split, complete), part in table.drop_nulls(name).partition_by(groups, as_dict=True).items()
            ]
        )
        stored = narrow if dtype == "float32" else exact
        return StoredColumn(name, kind, dtype, False), stored.fill_null(float("nan")).to_numpy(), described
    dtype = next(dtype for dtype in ("uint8", "uint16", "uint32") if len(distinct) <= np.iinfo(dtype).max)
    book = pl.DataFrame({name: distinct}).with_row_index("code", offset=1).with_columns(pl.col("code").cast(pl.Int64))
    table = table.join(book, on=name, how="left", maintain_order="left").with_columns(pl.col("code").fill_null(0))
    described = (
        table.group_by("code", *groups).agg(pl.len().cast(pl.Int64).alias("rows")).join(book, on="code", how="left")
    )
    described = described.with_columns(pl.lit(name).alias("column"))
    value = pl.col(name).alias("text") if kind == "text" else pl.col(name).cast(pl.Float64).alias("number")
    # Sorted, for sums over these rows are to be the same every time.
    described = described.select("column", "code", *groups, "rows", value).sort("code", *groups)
    return StoredColumn(name, kind, dtype, True), table["code"].to_numpy(), described


def moments(values: pl.Series) -> dict[str, float]:
    """Number of values, mean, variance (divisor n), minimum and maximum; by NumPy, whose sums are the same every time."""
    array = values.cast(pl.Float64).to_numpy()
    return {
        "rows": len(array),
        "mean": float(array.mean()),
        "variance": float(array.var()),
        "minimum": float(array.min()),
        "maximum": float(array.max()),
    }
