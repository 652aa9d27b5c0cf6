"""Layouts: how the columns of a kind of file are named and typed. One YAML file each."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tfglm.config.base import LONGEST_TEXT, MOST_COLUMNS, MOST_EXPRESSIONS, Level, Name, Section, Text
from tfglm.config.data import FILE, RANDOM, SelectionConfig, SourceConfig
from tfglm.config.files import no_such_file, read
from tfglm.config.messages import validated
from tfglm.errors import UserError, nearest, short


class CoordinatesConfig(Section):
    """A CSV file that tells where the values of a column are: a row for each."""

    file: Text = Field(description="The file: its path, or `package:<python package>/<path inside it>`.")
    level: Text = Field(default="level", description="Its column with the values.")
    latitude: Text = Field(
        default="latitude", description="Its column with latitudes in degrees, negative in the south."
    )
    longitude: Text = Field(
        default="longitude", description="Its column with longitudes in degrees, negative in the west."
    )


class ColumnWords(Section):
    """How pages show the values of a column. Nothing that is computed depends on it."""

    labels: dict[Level, Text] = Field(
        default={},
        max_length=MOST_COLUMNS,
        description="What pages show in place of a value: `{1: Mon, 2: Tue}`. Formulas and tables have the value.",
    )
    unit: Text | None = Field(default=None, description="In what it is measured, such as `minutes`, for pages.")
    coordinates: CoordinatesConfig | None = Field(
        default=None, description="Where its values are, for a map of their coefficients."
    )


class LayoutColumn(ColumnWords):
    """One column of the CSV files. `carrier: string` is short for `carrier: {type: string}`."""

    type: Literal["string", "integer", "number", "date", "clock", "image"] = Field(
        description="How its values are read. `integer` may be written with decimals (`15.00`); `clock` is a time of day "
        'as a whole number, hours and minutes: 741 or "0741" is 07:41, 2400 is midnight. '
        "`image` is one of an .npz file."
    )
    source: str = Field(default="", description="Its name in the header of the CSV. Default: the same name.")
    format: Text | None = Field(
        default=None, description="For a date, its format (strptime), such as `%m/%d/%Y`. Default: `%Y-%m-%d`."
    )

    @model_validator(mode="after")
    def _dates_only(self) -> "LayoutColumn":
        if self.format is not None and self.type != "date":
            raise ValueError(f"`format` is for columns of type date, this one is {self.type}; remove it")
        return self


def _tab_by_name(separator: Any) -> Any:
    """A tab is not seen where it stands, so that it has a name."""
    return "tab" if separator == "\t" else separator


class Layout(Section):
    """How the columns of a kind of CSV file are named, typed and completed."""

    description: str = Field(default="", max_length=LONGEST_TEXT, description="What files these are.")
    missing: list[str] = Field(
        default=["NA", ""], max_length=1000, description="What stands for a missing value in the CSV."
    )
    encoding: Text = Field(default="utf-8", description="Encoding of the file, such as `utf-8` or `latin-1`.")
    separator: Annotated[Literal[",", ";", "tab", "|"], BeforeValidator(_tab_by_name)] = Field(
        default=",", description="What stands between the columns of the CSV."
    )
    decimal: Literal[".", ","] = Field(
        default=".",
        description="What stands before the decimals of a number. With `,` the CSV writes 1234,5, and 1234.5 is no number.",
    )
    columns: dict[Name, LayoutColumn] = Field(
        min_length=1,
        max_length=MOST_COLUMNS,
        description="The columns by their name in tfglm; other columns of the CSV are not read.",
    )
    derive: dict[Name, Text] = Field(
        default={},
        max_length=MOST_EXPRESSIONS,
        description="New columns: name to SQL expression, evaluated before the `derive` of the config.",
    )
    describe: dict[Name, ColumnWords] = Field(
        default={},
        max_length=MOST_EXPRESSIONS,
        description="Labels and units of columns under `derive`; those of the other columns stand there.",
    )
    after_departure: list[Name] = Field(
        default=[],
        max_length=MOST_COLUMNS,
        description="Columns that are known only after departure. A model that predicts from them is flagged.",
    )

    @model_validator(mode="after")
    def _known_names(self) -> "Layout":
        known = [*self.columns, *self.derive]
        for name in self.after_departure:
            if name not in known:
                raise ValueError(f"after_departure: no column `{name}`{nearest(name, known)}")
        for name in self.describe:
            if name not in self.derive:
                raise ValueError(f"describe: no column `{name}` under `derive`{nearest(name, self.derive)}")
        for name in (FILE, RANDOM):
            if name in known:
                raise ValueError(f"`{name}` is a column that every file has; choose another name")
        # Lines and fields are told apart before they are decoded.
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
    def separator_bytes(self) -> bytes:
        """The separator as it stands in the file."""
        return b"\t" if self.separator == "tab" else self.separator.encode()

    def of_shards(self) -> dict[str, Any]:
        """What the shards of a file depend on. Keys that came later are left out at their default, or files that were ingested
        before would be ingested again."""
        left_out: dict[str, Any] = dict.fromkeys(("description", "after_departure", "describe"), True)
        later = ("separator", "decimal")
        left_out |= {name: True for name in later if getattr(self, name) == type(self).model_fields[name].default}
        return self.model_dump(exclude=left_out | {"columns": {"__all__": set(ColumnWords.model_fields)}})

    def words(self, column: str) -> ColumnWords:
        """How pages show the values of a column."""
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
"""The layouts that are known by name: config/layouts, to which the package has a link, so that they are installed with it."""


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


def load_layouts(config: SourceConfig) -> dict[str, Layout]:
    """The layouts that some file may have, by the name or path that the config has for them."""
    names = [*(config.layout or shipped_layouts()), *(file.layout for file in config.files if file.layout)]
    return {name: load_layout(name) for name in dict.fromkeys(names)}


def load_layout(name_or_path: str) -> Layout:
    """The shipped layout of that name, or in the .yaml file of that path.

    Raises UserError if there is none, if it is not YAML, or with every problem in it, one a line.
    """
    path = layout_path(name_or_path)
    raw = read(path)
    return validated(Layout, raw, str(path))


def columns_from(layout: Layout, settings: SelectionConfig, names: Iterable[str]) -> set[str]:
    """Some columns of a layout, and all that are derived from them.

    Read off the names in the expressions, as the Snakefile, which asks, has no parser of SQL: a name that stands there for
    something else counts too.
    """
    derived_from = set(names)
    for derive in (layout.derive, settings.derive):
        for name, sql in derive.items():
            uses_them = bool(_names_in(sql) & derived_from)
            derived_from = derived_from | {name} if uses_them else derived_from - {name}
    return derived_from


def words_of_columns(layouts: Iterable[Layout], settings: SelectionConfig) -> dict[str, dict]:
    """Labels, unit and coordinates, if there are any, of each column in use that has some, as plain values.

    All layouts with such a column must say the same. Of a column that the config derives they say nothing.
    """
    words: dict[str, dict] = {}
    for name in sorted(set(settings.columns) - set(settings.derive)):
        of_layouts = [layout.words(name) for layout in layouts if name in {*layout.columns, *layout.derive}]
        if of_layouts and all(each == of_layouts[0] for each in of_layouts) and of_layouts[0] != ColumnWords():
            without = {"coordinates"} if of_layouts[0].coordinates is None else set()
            words[name] = of_layouts[0].model_dump(exclude=without)
    return words


def coordinate_files(words: Mapping[str, Mapping]) -> dict[str, str]:
    """The files with coordinates that are not inside of a Python package, by column; `words` as `words_of_columns` has them."""
    files = {name: of_column["coordinates"]["file"] for name, of_column in words.items() if "coordinates" in of_column}
    return {name: file for name, file in files.items() if not file.startswith("package:")}


def _names_in(sql: str) -> set[str]:
    """The words of an expression that are neither functions nor stand in a text or a comment."""
    bare = re.sub(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)
    return set(re.findall(r"\b[A-Za-z_]\w*\b(?!\s*\()", bare))
