"""One parse of one CSV file: rows selected and counted, columns encoded, shards written."""

import csv
import shutil
from pathlib import Path

import numpy as np
import polars as pl

from tfglm.config import Layout, SelectionConfig
from tfglm.data import shards
from tfglm.data.shards import MISSING, Manifest, StoredColumn
from tfglm.errors import UserError, nearest

POLARS_TYPES = {"string": pl.String, "integer": pl.Int64, "number": pl.Float64, "date": pl.String}

_REASON = "__reason__"


def ingest(source: Path, file: str, layout: Layout, data: SelectionConfig, folder: Path) -> Manifest:
    """Write the shards, the levels and the manifest of one input file into `folder`, which appears complete or not at all.

    Raises UserError, which names the file and where it can the line, for a file that cannot be read, a column that is
    not there, an expression that cannot be evaluated, or a value that is not finite.
    """
    table, dropped, read = select_rows(source, layout, data)
    stored, encoded, levels = encode(source, table, data.columns)
    capacity = shards.capacity_for(table.height)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        split = table["__split__"].to_numpy()
        order = np.random.default_rng(data.seed).permutation(table.height)
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


def select_rows(source: Path, layout: Layout, data: SelectionConfig) -> tuple[pl.DataFrame, dict[str, int], int]:
    """The rows that meet every condition, with their split; how many were dropped for which reason; how many were read.

    A row is counted under the first condition that it fails.
    """
    frame = scan(source, layout)
    known = list(frame.collect_schema())
    for where, derived in (("layout", layout.derive), ("data.derive", data.derive)):
        for name, sql in derived.items():
            frame = frame.with_columns(expression(sql, f"{where}.{name}", known).alias(name))
            known.append(name)
    for name in data.columns:
        if name not in known:
            raise UserError(
                f"data.columns: no column `{name}` in {source}{nearest(name, known)}\n"
                f"  it has: {', '.join(known)}\n  choose one of these, or define `{name}` under data.derive"
            )
    reasons = [f"where: {name}" for name in data.where] + ["in no split"]
    reason = pl.when(pl.lit(False)).then(pl.lit(None, dtype=pl.String))
    for name, sql in data.where.items():
        condition = expression(sql, f"data.where.{name}", known)
        reason = reason.when(condition.fill_null(False).not_()).then(pl.lit(f"where: {name}"))
    split = pl.when(pl.lit(False)).then(pl.lit(None, dtype=pl.String))
    for name in shards.SPLITS:
        if sql := getattr(data.split, name):
            split = split.when(expression(sql, f"data.split.{name}", known).fill_null(False)).then(pl.lit(name))
    split = split.otherwise(None)
    reason = reason.when(split.is_null()).then(pl.lit("in no split")).otherwise(None)
    try:
        table = frame.select(*data.columns, reason.alias(_REASON), split.alias("__split__")).collect(engine="streaming")
    except pl.exceptions.PolarsError as error:
        raise unreadable(source, layout, error) from error
    counts = dict(table.group_by(_REASON).len().iter_rows())
    dropped = {name: counts.get(name, 0) for name in reasons}
    return table.filter(pl.col(_REASON).is_null()).drop(_REASON), dropped, table.height


def scan(source: Path, layout: Layout) -> pl.LazyFrame:
    """The layout's columns under their tfglm names, not yet read. Raises UserError if the header lacks one."""
    header = read_header(source)
    absent = {name: column.source for name, column in layout.columns.items() if column.source not in header}
    if absent:
        lines = [f"  `{column}`{nearest(column, header)}" for column in absent.values()]
        raise UserError(
            f"{source}: the header lacks columns of the layout (data.layout):\n"
            + "\n".join(lines)
            + f"\n  the header has: {', '.join(header)}\n  choose the layout that fits the file, or write one of your own"
        )
    types = {column.source: POLARS_TYPES[column.type] for column in layout.columns.values()}
    frame = pl.scan_csv(source, schema_overrides=types, null_values=layout.missing, infer_schema=False)
    columns = []
    for name, column in layout.columns.items():
        value = pl.col(column.source)
        if column.type == "date":
            value = value.str.to_date(column.format or "%Y-%m-%d")
        columns.append(value.alias(name))
    return frame.select(columns)


def read_header(source: Path) -> list[str]:
    """The column names in the first line."""
    try:
        with source.open(encoding="utf-8-sig", newline="") as lines:
            header = next(csv.reader(lines), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{source}: cannot be read as CSV: {error}") from error
    if not header:
        raise UserError(f"{source}: is empty; a CSV file begins with a line of column names")
    if "\0" in "".join(header):
        raise UserError(f"{source}: is not a CSV file (its first line holds binary data)")
    return header


def expression(sql: str, where: str, known: list[str]) -> pl.Expr:
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
    return made


def unreadable(source: Path, layout: Layout, error: Exception) -> UserError:
    """Say which line is wrong: polars only says what is. The file is read once more, line by line, as far as that line."""
    reason = str(error).split("\n", 1)[0]
    numeric = {
        column.source: float if column.type == "number" else int
        for column in layout.columns.values()
        if column.type in ("integer", "number")
    }
    missing = set(layout.missing) | {""}
    with source.open(encoding="utf-8", errors="strict", newline="") as lines:
        rows = csv.reader(lines)
        try:
            header = next(rows)
            for row in rows:
                place = f"{source}, line {rows.line_num}"
                if len(row) > len(header):
                    return UserError(
                        f"{place}: {len(row)} fields where the header has {len(header)}; mend or remove the line"
                    )
                for name, value in zip(header, row, strict=False):
                    if name in numeric and value not in missing:
                        try:
                            numeric[name](value)
                        except ValueError:
                            kind = "a number" if numeric[name] is float else "a whole number"
                            return UserError(
                                f"{place}, column `{name}`: expected {kind}, found `{value}`\n  mend the value, or add "
                                f"it to `missing` in the layout if it marks a missing one, or change the column's type there"
                            )
        except UnicodeDecodeError:
            return UserError(
                f"{source}, after line {rows.line_num}: bytes that are not UTF-8; convert the file with iconv"
            )
        except csv.Error as problem:
            return UserError(f"{source}, line {rows.line_num}: {problem}")
    return UserError(f"{source}: {reason}")


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
    table = table.select(name, pl.col("__split__").alias("split"), "complete")
    distinct = values.drop_nulls().unique().sort()
    if kind != "text" and len(distinct) >= shards.MOST_CODES:
        exact = values.cast(pl.Float64)
        narrow = exact.cast(pl.Float32)
        dtype = "float32" if (narrow.cast(pl.Float64) == exact).all() else "float64"
        number = pl.col(name).cast(pl.Float64)
        moments = (
            table.filter(pl.col(name).is_not_null())
            .group_by(groups)
            .agg(
                pl.len().alias("rows"),
                number.mean().alias("mean"),
                number.var(ddof=0).alias("variance"),
                number.min().alias("minimum"),
                number.max().alias("maximum"),
            )
        )
        described = moments.with_columns(pl.lit(name).alias("column"), pl.lit(0).alias("code"))
        stored = narrow if dtype == "float32" else exact
        return StoredColumn(name, kind, dtype, False), stored.fill_null(float("nan")).to_numpy(), described
    dtype = next(dtype for dtype in ("uint8", "uint16", "uint32") if len(distinct) <= np.iinfo(dtype).max)
    book = pl.DataFrame({name: distinct}).with_row_index("code", offset=1).with_columns(pl.col("code").cast(pl.Int64))
    table = table.join(book, on=name, how="left", maintain_order="left").with_columns(pl.col("code").fill_null(0))
    described = table.group_by("code", *groups).agg(pl.len().alias("rows")).join(book, on="code", how="left")
    described = described.with_columns(pl.lit(name).alias("column"))
    value = pl.col(name).alias("text") if kind == "text" else pl.col(name).cast(pl.Float64).alias("number")
    described = described.select("column", "code", *groups, "rows", value)
    return StoredColumn(name, kind, dtype, True), table["code"].to_numpy(), described
