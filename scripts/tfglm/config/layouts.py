"""Layouts: how the columns of a kind of file are named and typed. One YAML file each."""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from tfglm.config.base import MOST_COLUMNS, MOST_EXPRESSIONS, Level, Name, Section, Text, no_duplicates
from tfglm.config.data import FILE, RANDOM, SelectionConfig, SourceConfig
from tfglm.config.files import no_such_file, read
from tfglm.config.messages import validated
from tfglm.errors import UserError, nearest, short
from tfglm.formula.text import LONGEST_TEXT


class ColumnWords(Section):
    """The texts and units with which pages show a column and its values. They change no computed number."""

    label: Text | None = None
    """The column's name on pages: `Years of schooling`. Formulas and tables keep the short one."""
    labels: dict[Level, Text] = Field(default={}, max_length=MOST_COLUMNS)
    """Labels of values on pages: `{1: Mon, 2: Tue}`. Formulas and tables keep the value."""
    unit: Text | None = None
    """Unit of the values for pages, such as `minutes`."""


class LayoutColumn(ColumnWords):
    """One column of the CSV files. `carrier: string` is short for `carrier: {type: string}`."""

    type: Literal["string", "integer", "number", "date", "clock", "image"]
    """How its values are read. `integer` may be written `15.00`; `clock` is a time of day, hours and minutes: 741 or
    "0741" is 07:41. `image` is one of an .npz file."""
    source: str = ""
    """Its name in the header of the CSV. Default: the same name."""
    format: Text | Annotated[list[Text], Field(min_length=1, max_length=20)] | None = None
    """For a date, its format (strptime), such as `%m/%d/%Y`, or several of which the first that fits is taken. Default:
    `%Y-%m-%d`. For a clock, the format of its time of day, alone or after a date. Default: hhmm."""

    symbol: Annotated[Text, Field(max_length=20)] | None = None
    """The symbol that each number has before or behind it, such as `$`, `€` or `%`."""

    @model_validator(mode="after")
    def _dates_and_times_only(self) -> "LayoutColumn":
        if self.symbol is not None and self.type not in ("integer", "number"):
            raise ValueError(
                f"`symbol` is for columns of type integer or number, and this column has type {self.type}; remove it"
            )
        if self.format is not None and self.type not in ("date", "clock"):
            raise ValueError(
                f"`format` is for columns of type date or clock, and this column has type {self.type}; remove it"
            )
        return self

    @property
    def formats(self) -> list[str]:
        """The formats of its dates or times; none if they have the default one."""
        return [self.format] if isinstance(self.format, str) else self.format or []


Thousands = Literal[",", ".", "'", "blank"]


@dataclass(frozen=True)
class Numerals:
    """How numbers are written in a text file: the fields of the layout."""

    decimal: Literal[".", ","] = "."
    thousands: Thousands | None = None


Separator = Literal[",", ";", "tab", "|"]


@dataclass(frozen=True)
class Dialect:
    """How a text file is written: what must be known to find its header. The fields are those of the layout."""

    separator: Separator = ","
    encoding: str = "utf-8"
    comment: str = ""
    header: bool | tuple[str, ...] = True
    sheet: str = ""
    strip_blanks: bool = False

    @property
    def separator_bytes(self) -> bytes:
        """The separator as bytes of the file."""
        return b"\t" if self.separator == "tab" else self.separator.encode()


class Layout(Section):
    """The names, types and completion of the columns of a kind of CSV file."""

    description: str = Field(default="", max_length=LONGEST_TEXT)
    """A description of these files."""
    missing: list[str] = Field(default=["NA", ""], max_length=1000)
    """The text of a missing value in the CSV."""
    encoding: Text = "utf-8"
    """Encoding of the file, such as `utf-8` or `latin-1`."""
    # Tabs are invisible in a file, so the separator has the name `tab`.
    separator: Annotated[Separator, BeforeValidator(lambda given: "tab" if given == "\t" else given)] = ","
    """The character between the columns of the CSV."""
    header: (
        bool | Annotated[list[Text], Field(min_length=1, max_length=MOST_COLUMNS), AfterValidator(no_duplicates)]
    ) = True
    """Whether the file begins with a line of column names. With `false` the columns are V1, V2 and so on; a list names
    them."""
    comment: Annotated[Text, Field(max_length=10)] | None = None
    """What lines above the header begin with that are skipped, such as `#`."""
    strip_blanks: bool = False
    """Whether to remove blanks and tabs around the fields of a line, as `strip.white` in R does, before values are
    compared with `missing`. Text in quotes keeps its blanks."""
    decimal: Literal[".", ","] = "."
    """The character before the decimals of a number. With `,` the CSV writes 1234,5, and 1234.5 is no number."""
    thousands: Thousands | None = None
    """The character between groups of three digits: with `,` 1,234,567 is a number, and 1,5 is none. `blank` is any
    kind of blank. Default: none."""
    sheet: Text | None = None
    """The sheet of an Excel file. Default: the only visible one that has values."""
    columns: dict[Name, LayoutColumn] = Field(min_length=1, max_length=MOST_COLUMNS)
    """The columns by their name in tfglm; other columns of the CSV are not read."""
    derive: dict[Name, Text] = Field(default={}, max_length=MOST_EXPRESSIONS)
    """New columns: name to SQL expression, evaluated before the `derive` of the config."""
    describe: dict[Name, ColumnWords] = Field(default={}, max_length=MOST_EXPRESSIONS)
    """Labels and units of columns under `derive`. For other columns, give them in the column itself."""
    after_departure: list[Name] = Field(default=[], max_length=MOST_COLUMNS)
    """Columns that are known only after departure. A model that predicts from them is flagged."""

    @model_validator(mode="after")
    def _known_names(self) -> "Layout":
        known = [*self.columns, *self.derive]
        for name in self.after_departure:
            if name not in known:
                raise ValueError(f"after_departure: no column `{name}`{nearest(name, known)}")
        for name in self.describe:
            if name not in self.derive:
                raise ValueError(f"describe: no column `{name}` under `derive`{nearest(name, self.derive)}")
        if self.thousands == self.decimal:
            raise ValueError(f"thousands: `{self.thousands}` is the `decimal` character, too; they must differ")
        for name in (FILE, RANDOM):
            if name in known:
                raise ValueError(f"`{name}` is a column that every file has; choose another name")
        # Lines and fields are split before they are decoded.
        try:
            usable = bytes(range(128)).decode(self.encoding) == bytes(range(128)).decode("ascii")
            usable = usable and max("é".encode(self.encoding, "ignore"), default=128) > 127
            usable = usable and max("あ中".encode(self.encoding, "ignore"), default=128) > 127
        except (LookupError, ValueError):
            usable = False
        if not usable:
            raise ValueError(f"encoding: CSV cannot be read as `{self.encoding}`; convert the files to utf-8")
        pairs = b" ".join(bytes([first]) + self.separator_bytes for first in range(128, 256))
        if pairs.decode(self.encoding, "ignore").count(self.separator_bytes.decode()) < 128:
            raise ValueError(
                f"separator: `{self.separator}` is a part of other characters in `{self.encoding}`; convert the files to utf-8"
            )
        return self

    @property
    def dialect(self) -> Dialect:
        header = self.header if isinstance(self.header, bool) else tuple(self.header)
        return Dialect(self.separator, self.encoding, self.comment or "", header, self.sheet or "", self.strip_blanks)

    @property
    def numerals(self) -> Numerals:
        return Numerals(self.decimal, self.thousands)

    @property
    def separator_bytes(self) -> bytes:
        """The separator as bytes of the file."""
        return self.dialect.separator_bytes

    def shard_settings(self) -> dict[str, Any]:
        """Return the settings that the shards of a file depend on, without those at their default."""
        words: dict[str, Any] = dict.fromkeys(("description", "after_departure", "describe"), True)
        words["columns"] = {"__all__": set(ColumnWords.model_fields)}
        return self.model_dump(exclude=words, exclude_defaults=True)

    def words(self, column: str) -> ColumnWords:
        """Return the words with which pages show the values of a column."""
        described = self.describe.get(column) or self.columns.get(column) or ColumnWords()
        return ColumnWords(**{name: getattr(described, name) for name in ColumnWords.model_fields})

    @field_validator("columns", mode="before")
    @classmethod
    def _spelt_out(cls, columns: Any) -> Any:
        if not isinstance(columns, dict):
            return columns
        full = {name: {"type": column} if isinstance(column, str) else column for name, column in columns.items()}
        return {
            name: {"source": str(name), **column} if isinstance(column, dict) else column
            for name, column in full.items()
        }


SHIPPED = (Path(__file__).parents[1] / "layouts").resolve()
"""Return the layouts that are known by name: config/layouts. The package has a link to this folder, so that it is installed
too."""


def shipped_layouts() -> list[str]:
    """The names of the layouts in SHIPPED."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def layout_path(name_or_path: str) -> Path:
    """The file of a layout: `name_or_path` itself if it ends in .yaml, else the shipped one of that name.

    Raises UserError if there is no such file.
    """
    if name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        try:
            is_file = path.is_file()
        except (OSError, ValueError):
            is_file = False
        if not is_file:
            raise UserError(f"data.layout: {no_such_file(path)}")
        return path
    known = shipped_layouts()
    if name_or_path not in known:
        raise UserError(
            f"data.layout: no layout is named `{short(name_or_path)}`{nearest(name_or_path, known) or '.'} "
            f"The layouts in {SHIPPED} are {', '.join(known)}; one of your own is given by the path of its .yaml file"
        )
    return SHIPPED / f"{name_or_path}.yaml"


def load_layouts(config: SourceConfig, read: Mapping[str, Layout] | None = None) -> dict[str, Layout]:
    """The layouts that some file may have, by the name or path that the config has for them. Those in `read` are known."""
    names = [*(config.layout or shipped_layouts()), *(file.layout for file in config.files if file.layout)]
    return {name: (read or {}).get(name) or load_layout(name) for name in dict.fromkeys(names)}


def load_layout(name_or_path: str) -> Layout:
    """The shipped layout of that name, or in the .yaml file of that path.

    Raises UserError if there is none, if it is not YAML, or with every problem in it, one a line.
    """
    path = layout_path(name_or_path)
    return _layout_in(path, path.stat().st_mtime_ns)


@functools.lru_cache(100)
def _layout_in(path: Path, _edited: int) -> Layout:
    """The layout in a file as it is since that time. A survey of a file reads all shipped layouts, some milliseconds each."""
    return validated(Layout, read(path), str(path))


def columns_from(layout: Layout, settings: SelectionConfig, names: Iterable[str]) -> set[str]:
    """Return some columns of a layout, and all columns that are derived from them.

    It finds the columns by the names in the expressions, because the Snakefile has no SQL parser. So a name with another
    meaning in an expression counts too.
    """
    derived_from = set(names)
    for derive in (layout.derive, settings.derive):
        for name, sql in derive.items():
            bare = re.sub(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)  # no texts and comments
            words = re.findall(r"\b[A-Za-z_]\w*\b(?!\s*\()", bare)  # no functions
            uses_them = not derived_from.isdisjoint(words)
            derived_from = derived_from | {name} if uses_them else derived_from - {name}
    return derived_from


def words_of_columns(layouts: Iterable[Layout], settings: SelectionConfig) -> dict[str, dict]:
    """Return label, labels and unit of the columns in use that have some, as plain values.

    All layouts with such a column must agree. Columns that the config derives are skipped.
    """
    words: dict[str, dict] = {}
    for name in sorted(set(settings.columns) - set(settings.derive)):
        of_layouts = [layout.words(name) for layout in layouts if name in {*layout.columns, *layout.derive}]
        if of_layouts and all(each == of_layouts[0] for each in of_layouts) and of_layouts[0] != ColumnWords():
            words[name] = of_layouts[0].model_dump(exclude={"label"} if of_layouts[0].label is None else None)
    return words


def times_in(layouts: Iterable[Layout]) -> dict[str, dict[str, Any]]:
    """How the columns with dates, or with times in a format, are written: their type and formats, ISO 8601 last, and what is
    missing."""
    times: dict[str, dict[str, Any]] = {}
    for layout in layouts:
        for name, column in layout.columns.items():
            if column.type == "date" or column.formats:
                time = times.setdefault(name, {"type": column.type, "format": [], "missing": []})
                for key, texts in (("format", column.formats), ("missing", layout.missing)):
                    time[key] += [text for text in texts if text not in time[key]]
    for time in times.values():
        time["format"] += ["%Y-%m-%d"] if time["type"] == "date" and "%Y-%m-%d" not in time["format"] else []
    return times


def how_values_are_read(layouts: Iterable[Layout]) -> str:
    """Say which texts are missing values, and whether blanks around values are removed; nothing if layouts differ."""
    ways = {(tuple(layout.missing), layout.strip_blanks) for layout in layouts}
    if len(ways) != 1:
        return ""
    ((missing, strip_blanks),) = ways
    written = [f'"{text}"' for text in missing if text]
    marks = [*(["empty"] if "" in missing else []), *([f"written {', '.join(written)}"] if written else [])]
    said = [f"Missing values are {' or '.join(marks)}."] if marks else []
    return " ".join(said + ["Blanks around values are removed, except in quotes."] * strip_blanks)
