"""How the columns of a file are named and typed: by a shipped layout of flights, or by one made of its header and values."""

import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.config import FILE, RANDOM, Dialect, Layout, LayoutColumn
from tfglm.config.base import LONGEST_NAME, is_hidden
from tfglm.data.foreign import labels_in
from tfglm.data.header import conversion_command
from tfglm.data.packing import kind_of_file
from tfglm.data.parquet_files import batches, holds_text, is_bytes, natural_type, read_schema
from tfglm.data.parser import UNREADABLE, Parser
from tfglm.data.sql import parsed
from tfglm.errors import UserError, counted, short
from tfglm.formula.terms import INTERCEPT
from tfglm.survey.types import MARKS, is_code, missing_marks, odd_values, type_of
from tfglm.survey.written_numbers import numerals_of

BLOCK_BYTES, MOST_BLOCKS = 4 << 20, 8
"""Bytes of a block of CSV, and blocks that are looked at: 32 MB, or 524,288 rows of Parquet."""

CODE_IN_LABEL = re.compile(r"(?<![\w.-])(-?[0-9]+)\s*[:=]\s*([^,;:=]+?)\)?(?=\s*[,;]|\s*$|\s+-?[0-9]+\s*[:=])")
"""A value and what it means, in the label of a column."""

BLANKS_TO_COMMAS = "awk '{$1 = $1} 1' OFS=,"


def check_header(path: Path, header: Sequence[str]) -> None:
    """Raise UserError for a file that is no table with a line of names."""
    if kind_of_file(path) == "images":
        raise UserError(
            f"{path}: holds images; docs/config/networks.md (How do I train on images?) says what to write for them"
        )
    if len(header) == 1:
        raise UserError(
            f"{path}: has a single column, `{short(header[0])}`; write commas, semicolons or tabs between columns\n"
            f"  if blanks separate them: {conversion_command(path, BLANKS_TO_COMMAS)}"
        )


def own_layout(
    path: Path, header: Sequence[str], dialect: Dialect, decimal: str = "", sources: Mapping[str, str] | None = None
) -> tuple[Layout, dict[str, str]]:
    """A layout of all columns of a CSV or Parquet file that have a name and values that can be read, and remarks on columns.
    `decimal` is the character before its decimals, if the user names it. `sources` are the columns to describe, by plain
    names; by default all, with names of `names_for`. Raises UserError for a file that cannot be read, or has no such column."""
    sources = names_for(header) if sources is None else sources
    if not sources:
        raise UserError(f"{path}: no column of its header has a name")
    if kind_of_file(path) != "parquet":
        return layout_of_csv(path, header, sources, dialect, decimal)
    columns = columns_of_parquet(path, sources)
    if not columns:
        raise UserError(f"{path}: no column has values that can be read: {', '.join(header)}")
    return Layout(columns=columns), {}


def names_for(header: Sequence[str]) -> dict[str, str]:
    """Names that formulas and SQL can hold -> what the header says, unnamed columns left out."""
    sources: dict[str, str] = {}
    for source in filter(None, header):
        ascii_only = unicodedata.normalize("NFKD", source.replace("ß", "ss")).encode("ascii", "ignore").decode()
        word = re.sub(r"\W+", "_", ascii_only).strip("_")[: LONGEST_NAME - 10]
        word = word if re.match("[A-Za-z]", word) else f"column_{word}".rstrip("_")
        word = word if is_plain_name(word) else f"{word}_column"
        names = itertools.chain([word], (f"{word}_{number}" for number in itertools.count(2)))
        sources[next(name for name in names if name not in sources)] = source
    return sources


def is_plain_name(word: str) -> bool:
    """Whether SQL takes a word for a column, as it does not take `group` and `null`, and no table has a row of that name."""
    try:
        return word not in (FILE, RANDOM, INTERCEPT) and parsed(word, "").meta.root_names() == [word]
    except UserError:
        return False


def columns_of_parquet(path: Path, sources: Mapping[str, str]) -> dict[str, LayoutColumn]:
    """The columns of a Parquet file by the types that it has for them."""
    schema = read_schema(path)
    columns = {}
    for name, source in sources.items():
        of_file = schema.field(source).type
        kind = natural_type(of_file)
        # Whole numbers without the limits of an integer are often codes.
        if pa.types.is_decimal(of_file) or pa.types.is_uint64(of_file):
            first = [
                batch.column(0).cast(pa.string()) for batch in itertools.islice(batches(path, [source]), MOST_BLOCKS)
            ]
            texts = pl.concat([pl.Series([], dtype=pl.String), *map(pl.Series, first)]).drop_nulls().unique()
            kind = type_of(texts).type if len(texts) else kind
        if kind and not (is_bytes(of_file) and not holds_text(path, source)):
            columns[name] = LayoutColumn.model_validate({"type": kind, "source": source})
    timed = {
        name: column for name, column in columns.items() if pa.types.is_timestamp(schema.field(column.source).type)
    }
    return columns | clocks_of(columns, timed)


def clocks_of(
    columns: Mapping[str, LayoutColumn], timed: Mapping[str, LayoutColumn] | None = None
) -> dict[str, LayoutColumn]:
    """The time of day of each date that is written with one, or of those `timed`, as a further column."""
    if timed is None:
        dates = {name: column for name, column in columns.items() if column.type == "date"}
        timed = {name: column for name, column in dates.items() if re.search("%[HI]", "".join(column.formats))}
    clocks = {}
    for name, column in timed.items():
        clock = next(new for new in (f"{name}_time", f"{name}_clock", f"{name}_time_of_day") if new not in columns)
        clocks[clock] = column.model_copy(update={"type": "clock"})
    return clocks


def without_midnights(layout: Layout, rows: pl.DataFrame) -> Layout:
    """A layout without the times of day beside its dates that are the same in all rows."""
    constant = {name for name in clocks_beside_dates(layout).values() if rows[name].n_unique() < 2}
    columns = {name: column for name, column in layout.columns.items() if name not in constant}
    return layout.model_copy(update={"columns": columns})


def clocks_beside_dates(layout: Layout) -> dict[str, str]:
    """The columns with the time of day of a date, by the column of the date."""
    dates = {column.source: name for name, column in layout.columns.items() if column.type == "date"}
    return {
        dates[column.source]: name
        for name, column in layout.columns.items()
        if column.type == "clock" and column.source in dates
    }


def with_labels(layout: Layout, path: Path, rows: pl.DataFrame) -> tuple[Layout, dict[str, str]]:
    """Return a layout with the labels that a Stata or SPSS file has for columns and values, and remarks on columns with some.

    A column whose values all have a label is a factor, and its labels are for the pages. If only some have one, such as codes
    for a refusal, the column stays a number, and the remark names these.
    """
    kind = kind_of_file(path)
    if kind not in ("stata", "spss"):
        return layout, {}
    labels, of_columns = labels_in(path, kind)
    columns, remarks = {}, {}
    for name, column in layout.columns.items():
        label, codes = label_and_codes(one_line(of_columns.get(column.source) or ""))
        of_values = labels.get(column.source, {})
        # Labels that are numbers say nothing, unless the label of the column says what they mean.
        if codes and all(re.fullmatch("-?[0-9]+", str(code)) for code in of_values.values()):
            meant = {value: codes.get(str(code), str(code)) for value, code in of_values.items()}
            of_values = meant or {int(code): meaning for code, meaning in codes.items()}
        update: dict[str, Any] = {"label": label or None}
        if of_values and column.type == "integer":
            values = set(rows[name].drop_nulls())
            if values <= of_values.keys():
                update["labels"] = {str(value): one_line(label) for value, label in sorted(of_values.items())}
            elif found := sorted(values & of_values.keys()):
                shown = ", ".join(f"{value} is {of_values[value]}" for value in found[:5])
                remarks[name] = (
                    f"a number of which some values have labels: {shown}; if they mean no value, add them to missing"
                )
        columns[name] = column.model_copy(update=update)
    return layout.model_copy(update={"columns": columns}), remarks


def one_line(label: str) -> str:
    """A label without characters that cannot be printed, which a layout refuses."""
    return " ".join("".join(each for each in label if each.isspace() or not is_hidden(each)).split())


def label_and_codes(label: str) -> tuple[str, dict[str, str]]:
    """The label of a column without the meanings of its values, and these, if it has two or more: `DEATH, 1:YES, 0:NO`."""
    codes = [(match.start(), match[1], match[2]) for match in CODE_IN_LABEL.finditer(label)]
    if len(codes) < 2 or len({code for _, code, _ in codes}) < len(codes):
        return label, {}
    return label[: codes[0][0]].rstrip(" ,;:("), {code: meaning for _, code, meaning in codes}


def unread_columns(path: Path, header: Sequence[str], layout: Layout) -> dict[str, str]:
    """The columns of a Parquet file that a layout cannot have, by name, with their types."""
    if kind_of_file(path) != "parquet":
        return {}
    sources = {column.source for column in layout.columns.values()}
    schema = read_schema(path)
    return {name: str(schema.field(name).type) for name in header if name and name not in sources}


def layout_of_csv(
    path: Path, header: Sequence[str], sources: Mapping[str, str], dialect: Dialect, decimal: str
) -> tuple[Layout, dict[str, str]]:
    """The layout of a CSV file by its values, and remarks on columns."""
    strings = as_strings(sources)
    as_text = Layout(
        missing=[],
        encoding=dialect.encoding,
        separator=dialect.separator,
        header=dialect.header if isinstance(dialect.header, bool) else list(dialect.header),
        comment=dialect.comment or None,
        sheet=dialect.sheet or None,
        strip_blanks=dialect.strip_blanks,
        columns=strings,
    )
    tables = distinct_texts(path, header, as_text)
    texts = {name: table["text"] for name, table in tables.items()}
    known = {name: table.filter(~pl.col("text").is_in(MARKS)) for name, table in tables.items()}
    decimal = decimal if kind_of_file(path) == "csv" else "."
    of_known = {name: table["text"] for name, table in known.items()}
    numerals, remarks = numerals_of(of_known, dialect.separator, decimal)
    others = as_strings(names_for([source for source in header if source not in sources.values()]))
    if remarks and others and not decimal:
        # What the columns to describe leave open others may tell.
        beside = distinct_texts(path, header, as_text.model_copy(update={"columns": others}))
        of_others = {name: table["text"].filter(~table["text"].is_in(MARKS)) for name, table in beside.items()}
        numerals, remarks = numerals_of(of_others | of_known, dialect.separator)
        remarks = {name: remark for name, remark in remarks.items() if name in sources}
    types = {name: type_of(of_column["text"], numerals) for name, of_column in known.items()}
    strange = {
        name: found
        for name, column in types.items()
        if column.type == "string" and not is_code(known[name]["text"]) and (found := odd_values(known[name], numerals))
    }
    ordinary = set().union(*(texts[name] for name in types if types[name].type == "string" and name not in strange))
    marks: list[str] = []
    for name, (meant, odd, may_be_missing) in strange.items():
        shown = ", ".join(f"`{short(text, 30)}` in {counted(rows, 'row')}" for text, rows in odd.head(3).iter_rows())
        shown += f" and {len(odd) - 3:,} other values" if len(odd) > 3 else ""
        if may_be_missing and ordinary.isdisjoint(odd["text"]):
            types[name] = meant
            marks += odd["text"].to_list()
            remarks[name] = f"{shown} read as missing; all other values are of type {meant.type}"
        else:
            remarks.setdefault(
                name,
                f"read as text, as {shown} stand out from values of type {meant.type}; give it this type and add what means no "
                "value to missing",
            )
    columns = {name: column.model_copy(update={"source": sources[name]}) for name, column in types.items()}
    typed = [texts[name] for name, column in columns.items() if column.type != "string"]
    missing = list(dict.fromkeys([*missing_marks(typed, texts.values()), *marks]))
    columns |= clocks_of(columns)
    update = {"decimal": numerals.decimal, "thousands": numerals.thousands, "missing": missing, "columns": columns}
    return as_text.model_copy(update=update), remarks


def as_strings(sources: Mapping[str, str]) -> dict[str, LayoutColumn]:
    """Columns of text with these names, by what the header calls them."""
    return {name: LayoutColumn(type="string", source=source) for name, source in sources.items()}


def distinct_texts(path: Path, header: Sequence[str], as_text: Layout) -> dict[str, pl.DataFrame]:
    """Return the different texts in each column of the first MOST_BLOCKS blocks of a CSV file, and the `rows` of each."""
    parser = Parser(path, tuple(header), as_text, as_text.columns, whole_records=True, block_bytes=BLOCK_BYTES)
    empty = pl.DataFrame(schema={"text": pl.String, "rows": pl.Int64})
    tables: dict[str, list[pl.DataFrame]] = {name: [empty] for name in as_text.columns}
    for block in itertools.islice(parser.blocks(1, False), MOST_BLOCKS):
        try:
            columns = parser.parse(block.data).columns
        except UNREADABLE:
            columns = parser.examine(block.data)[1].columns
        for name, column in columns.items():
            values = column.compact()
            rows = np.bincount(values.indices, minlength=len(values.values))
            tables[name].append(pl.DataFrame({"text": pl.Series(values.values, dtype=pl.String), "rows": rows}))
    together = {name: pl.concat(parts).group_by("text", maintain_order=True).sum() for name, parts in tables.items()}
    return {name: table.sort("rows", descending=True, maintain_order=True) for name, table in together.items()}
