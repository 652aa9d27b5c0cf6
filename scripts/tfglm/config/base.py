"""Types, and bounds of what a config may ask for, far above any use seen and far below what a machine would choke on."""

import argparse
import ast
import functools
import inspect
import itertools
import os
import re
import sys
import unicodedata
from collections import Counter
from typing import Annotated, Any

# Otherwise the first section would look for plugins in the metadata of all installed packages.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
)

from tfglm.formula.text import LONGEST_NAME, LONGEST_TEXT

LONGEST_FILE_NAME = 200
MOST_MODELS, MOST_FILES, MOST_COLUMNS, MOST_EXPRESSIONS, MOST_CONTRASTS = 1_000, 10_000, 10_000, 1_000, 1_000
MOST_ROWS = 2**53
"""The largest number up to which a float64 counts exactly."""
YEAR = 31_536_000
"""Its seconds."""


def is_hidden(letter: str) -> bool:
    """Whether a character cannot be printed, or may hide what a text says; line ends and tabs are such, too."""
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _printed(text: str) -> str:
    """Raise ValueError for a text with a character that no file name, formula or SQL has, and that may hide what it says."""
    for letter in text:
        if letter not in "\n\r\t\u2028\u2029" and is_hidden(letter):
            raise ValueError(f"holds the character U+{ord(letter):04X}, which cannot be printed; remove it")
    return text


Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_TEXT), AfterValidator(_printed)
]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=LONGEST_NAME)]
"""Models and columns have names that a formula, SQL and a file system can all hold without quotes."""


def number_of_text(value: Any) -> Any:
    """`snakemake --config 'cluster={workers: 8}'` hands over the text "8"."""
    is_number = isinstance(value, str) and re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", value[:100])
    if not is_number or len(value) > 100:
        return value
    return int(value) if value.lstrip("+-").isdecimal() else float(value)


FROM_TEXT = BeforeValidator(number_of_text)
"""Comes after the bounds in the type of a number. Otherwise the bounds would be missing from the schema and from the
message about a wrong number."""

Integer = Annotated[int, FROM_TEXT]
Count = Annotated[int, Field(ge=1), FROM_TEXT]
Number = Annotated[float, Field(allow_inf_nan=False), FROM_TEXT]


def _level(value: Any) -> Any:
    """Levels are text, but YAML reads `1` and `true` as a number and a truth value."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


Level = Annotated[Text, BeforeValidator(_level, json_schema_input_type=str | int | bool)]


def _value(value: Any) -> Any:
    """A level, or a number as a label has it: 8.0 is `8`."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return _level(value)


Value = Annotated[Text, BeforeValidator(_value, json_schema_input_type=str | int | float | bool)]


def no_duplicates(names: list[str] | None) -> list[str] | None:
    """Raise ValueError for a name that is listed twice."""
    twice = sorted({name for name, times in Counter(names or []).items() if times > 1})
    if twice:
        raise ValueError(f"{', '.join(f'`{name}`' for name in twice)} is listed more than once; keep one")
    return names


Names = Annotated[list[Name], Field(max_length=MOST_COLUMNS), AfterValidator(no_duplicates)]
"""Columns, each named once."""


Sweep = dict[Text, Annotated[list[Any], Field(min_length=1, max_length=MOST_MODELS)]]
"""Keys of a section, each with a list of values."""


class Section(BaseModel):
    """Strict: `workers: true` is refused instead of read as 1. Frozen: no rule changes it for another.

    The text below a key describes it in the JSON schema. It is read from the source when a schema is made: pydantic's
    `use_attribute_docstrings` reads it at each start.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        keys = handler.resolve_ref_schema(schema).get("properties", {})
        for section in cls.__mro__:
            if issubclass(section, Section):
                for key, text in _descriptions(section.__module__).get(section.__name__, {}).items():
                    if key in keys:
                        keys[key].setdefault("description", text)
        return schema


@functools.cache
def _descriptions(module: str) -> dict[str, dict[str, str]]:
    """The texts below the keys in the classes of a module, by class and key."""
    found: dict[str, dict[str, str]] = {}
    statements = ast.parse(inspect.getsource(sys.modules[module])).body
    for section in (each for each in statements if isinstance(each, ast.ClassDef)):
        for pair in itertools.pairwise(section.body):
            match pair:
                case ast.AnnAssign(ast.Name(key)), ast.Expr(ast.Constant(str(text))):
                    found.setdefault(section.name, {})[key] = " ".join(text.split())
    return found


def add_settings(parser: argparse.ArgumentParser, section: type[Section], option: str = "--settings") -> None:
    """Add the option with the keys of a `section` that a rule uses: as JSON, which the class of the section validates again."""
    parser.add_argument(
        option,
        type=section.model_validate_json,
        required=True,
        help=f"of {', '.join(section.model_fields)}, those that are not at their default, as JSON",
    )


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value
