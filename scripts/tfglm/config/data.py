"""The section `data`: which rows and columns are read, and how."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, field_validator, model_validator

from tfglm.addresses import is_address, is_database, redacted
from tfglm.config.base import (
    MOST_COLUMNS,
    MOST_EXPRESSIONS,
    MOST_FILES,
    MOST_ROWS,
    Count,
    Integer,
    Level,
    Name,
    Names,
    Section,
    Text,
    as_list,
    no_duplicates,
)

SPLITS = ("train", "evaluate", "predict")

FILE, RANDOM = "file", "random"
"""Columns that expressions may use with any layout: the name of the input file, and a random number from [0, 1) for each
row. The random number depends on `data.seed`, the name of the file and the row's place in it."""


class SplitConfig(Section):
    """A row goes to the first split whose condition it meets; a row that meets none is counted and left out."""

    train: Text
    """SQL condition of the rows that the models are fitted to."""
    evaluate: Text | None = None
    """SQL condition of the rows that the metrics are computed on. Default: no evaluation."""
    predict: Text | None = None
    """SQL condition of the rows that are only predicted; they may lack the response. Default: none."""


class FileConfig(Section):
    """One input, or several by a glob. `2006.csv` is short for `path: 2006.csv`."""

    path: Text
    """A path or a glob, relative to the folder that snakemake runs in; an `http(s)://` address; or `package:<python
    package>/<path inside it>`; with `query`, a database `postgresql://host/name`. CSV or JSON lines, also as .gz, .bz2
    or .zip; Parquet, Excel (.xlsx), Stata (.dta) or SPSS (.sav)."""
    layout: Text | None = None
    """The layout of this input. Default: that of `data.layout`."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Checksum of the file at an address: a file with another checksum is refused."""

    query: Text | None = None
    """SQL that selects the rows of a database. Its rows are fetched once, and kept as Parquet."""
    name: Name | None = None
    """The name of the query's rows in results. Default: the name of the database."""

    @model_validator(mode="after")
    def _where_they_apply(self) -> "FileConfig":
        shown = redacted(self.path)
        if is_database(self.path):
            if not self.query:
                raise ValueError(f"`{shown}` is a database; give the `query` that selects the rows")
            if self.sha256:
                raise ValueError("`sha256` is for files at addresses, not for the rows of a query; remove it")
        elif self.query or self.name:
            key = "query" if self.query else "name"
            raise ValueError(f"`{key}` is for databases (postgresql://), not for `{shown}`; remove it")
        elif self.sha256 and not is_address(self.path):
            raise ValueError(f"`sha256` is for addresses (http://, https://), not for `{shown}`; remove it")
        return self


def as_file(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


FileEntry = Annotated[FileConfig, BeforeValidator(as_file, json_schema_input_type=str | FileConfig)]


class SourceConfig(Section):
    """Which files are read."""

    files: list[FileEntry] = Field(min_length=1, max_length=MOST_FILES)
    """Paths, globs, addresses, or files in Python packages, each alone or as a section with `path`, `layout` and
    `sha256`; or queries of databases, with `path`, `query` and `name`."""
    layout: Annotated[list[Text], BeforeValidator(as_list, json_schema_input_type=str | list[str])] | None = Field(
        default=None, min_length=1, max_length=100
    )
    """A layout of `config/layouts/`, the path of your own `.yaml`, or a list of these; the header of each file decides
    which it has. Default: all of `config/layouts/`."""


class SelectionConfig(Section):
    """Which rows and columns of a file are kept: all that its shards depend on besides the file and its layout."""

    derive: dict[Name, Text] = Field(default={}, max_length=MOST_EXPRESSIONS)
    """New columns: name to SQL expression over the columns of the layout. Evaluated in this order; each may use those
    before it."""
    where: dict[Text, Text] = Field(default={}, max_length=MOST_EXPRESSIONS)
    """SQL conditions that every row must meet, each under a name. Rows that fail are dropped and counted under it. A
    single condition needs no name."""
    split: SplitConfig
    """Which rows are fitted and which are kept to evaluate the fit."""
    columns: Names = Field(min_length=1)
    """The columns that are kept; models choose from these. A row with a missing value in any of them is dropped, unless
    `missing` says otherwise."""
    seed: Integer = Field(default=1, ge=0, le=MOST_ROWS)
    """Seed of the order of rows within each file and of the column `random`."""
    bad_rows: Literal["error", "drop"] = "error"
    """What to do with unreadable lines. `error` stops and names the line. `drop` counts such lines and names the first
    ones in the log; it stops if they are more than 100 and more than a tenth of the rows read so far."""

    @field_validator("derive")
    @classmethod
    def _free_names(cls, derive: dict[str, str]) -> dict[str, str]:
        for name in (FILE, RANDOM):
            if name in derive:
                raise ValueError(f"`{name}` is a column that every file has; choose another name")
        return derive

    @field_validator("where", mode="before", json_schema_input_type=str | dict[str, str])
    @classmethod
    def _default_name(cls, where: Any) -> Any:
        return {where: where} if isinstance(where, str) else where


class LevelsConfig(Section):
    """Which values of a column are levels of their own."""

    missing: dict[Name, Literal["drop", "level"]] = {}
    """Missing values of a column: `drop` the row, or make them a `level`, `(missing)`, of a categorical column.
    Default: `drop`."""
    rare: dict[Name, Annotated[Count, Field(le=MOST_ROWS)]] = {}
    """For categorical columns: levels with fewer training rows than this become one level, `(rare)`."""
    order: dict[
        Name, Annotated[list[Level], Field(min_length=2, max_length=MOST_COLUMNS), AfterValidator(no_duplicates)]
    ] = {}
    """For categorical columns: the order of all their levels, as in `education: [low, middle, high]`. Default: numbers
    by size, text by code point."""


class DataConfig(LevelsConfig, SelectionConfig, SourceConfig):
    """Which rows and columns are read, and how."""
