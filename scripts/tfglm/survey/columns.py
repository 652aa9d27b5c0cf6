"""The content of the columns of a file, as ingest would read them."""

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from tfglm.config import Layout, LayoutColumn, SelectionConfig
from tfglm.data.limits import DEFAULT_LIMITS
from tfglm.data.reader import InputReader
from tfglm.data.selection import selection
from tfglm.errors import UserError
from tfglm.survey.layout import BLOCK_BYTES, MOST_BLOCKS

Kind = Literal["text", "integer", "number", "date"]
MEANINGS = {"text": "text", "integer": "whole numbers", "number": "numbers", "date": "dates"}


@dataclass(frozen=True)
class ColumnSummary:
    """The content of a column: the numbers of rows without a value and of distinct values, the least and the greatest
    value, and the five most frequent values with their rows, most frequent first."""

    name: str
    kind: Kind
    missing: int
    values: int
    least: Any
    greatest: Any
    frequent: tuple[tuple[Any, int], ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of a whole number all of whose values stand for something: what each means."""
    label: str = ""
    """What the file calls the column beside its name."""

    @property
    def is_numeric(self) -> bool:
        return self.kind in ("integer", "number")


@dataclass(frozen=True)
class Sample:
    """The rows of a file that were looked at, how many of its lines among them could not be read, the problems of the first of
    these, and whether that is all."""

    rows: pl.DataFrame
    unreadable: int
    problems: list[str]
    complete: bool


def present(layout: Layout, header: Sequence[str]) -> Layout:
    """The part of a layout whose columns a file has, and what can be derived from them."""
    columns = {name: column for name, column in layout.columns.items() if column.source in header}
    part = layout.model_copy(update={"columns": columns, "derive": {}, "after_departure": []})
    for name, sql in layout.derive.items():
        longer = part.model_copy(update={"derive": {**part.derive, name: sql}})
        try:
            selection(longer, all_columns(longer))
        except UserError:
            continue
        part = longer
    return part


def all_columns(layout: Layout) -> SelectionConfig:
    """All columns of all rows that can be read."""
    columns = list(dict.fromkeys([*layout.columns, *layout.derive]))
    return SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": columns, "bad_rows": "drop"})


def sample(path: Path, header: list[str], layout: Layout) -> Sample:
    """Read the first MOST_BLOCKS blocks of a CSV file, packed or not, or a Parquet file with these names of columns. Raises
    UserError for a file without rows, or whose rows cannot be read."""
    part = present(layout, header)
    settings = all_columns(part)
    limits = replace(DEFAULT_LIMITS, block_bytes=BLOCK_BYTES)
    reader = InputReader.of(path, path.stem, header, part, settings, lambda message: None, limits)
    frames = []
    with ThreadPoolExecutor(2) as executor:
        blocks = reader.kept_rows(executor, 1, compiled=False)
        for kept in itertools.islice(blocks, MOST_BLOCKS):
            columns = zip(settings.columns, kept.columns[1:], strict=True)
            frames.append(pl.DataFrame({name: column.decoded() for name, column in columns}))
        unreadable = reader.unreadable
        complete = next(blocks, None) is None
    rows = pl.concat(frames, how="vertical_relaxed") if frames else pl.DataFrame()
    if not len(rows):
        raise UserError(f"{path}: has a header and no rows that can be read, so there is nothing to look at")
    return Sample(rows, unreadable, reader.shown[:3], complete)


def described(series: pl.Series, words: ColumnSummary | LayoutColumn | None = None) -> ColumnSummary:
    """Return the summary of a column; `words` has the labels of its values, and its own."""
    known = series.drop_nulls().alias("value")
    kind: Kind = "text"
    if series.dtype.is_integer():
        kind = "integer"
    elif series.dtype.is_numeric():
        kind = "number"
    elif series.dtype.is_temporal():
        kind = "date"
    counts = known.value_counts(sort=True)
    # Among equally frequent values, take the first in order, so that a survey of the same file gives the same result.
    frequent = counts.sort("count", "value", descending=[True, False]).head(5).rows()
    least, greatest = (known.min(), known.max()) if len(known) else (None, None)
    labels, label = (words.labels, words.label or "") if words else ({}, "")
    missing = series.null_count()
    return ColumnSummary(series.name, kind, missing, len(counts), least, greatest, tuple(frequent), labels, label)
