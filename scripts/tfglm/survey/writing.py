"""The config, the layout and the account of a survey, as text."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
import yaml

from tfglm.config import Layout, LayoutColumn
from tfglm.config.base import is_hidden
from tfglm.errors import short
from tfglm.survey.calendar import Calendar
from tfglm.survey.columns import MEANINGS, ColumnSummary
from tfglm.survey.names import FEW_VALUES
from tfglm.survey.proposal import Proposal

THOUSANDS = {",": "commas", ".": "points", "'": "apostrophes", "blank": "blanks"}
SEPARATORS = {"tab": "tabs", ";": "semicolons", "|": "vertical bars"}

MOST_SHOWN = 60
"""Columns that get a line each in the account."""


def config_text(
    source: str,
    layout: str,
    looked_at: str,
    bad_rows: bool,
    proposal: Proposal,
    calendar: Calendar,
    columns: list[ColumnSummary],
) -> str:
    """Return the config of a source, with a comment at each key. `layout` is its name or path, `looked_at` the findings of
    the survey in words, and `bad_rows` says whether some lines are unreadable."""
    values: dict[str, Any] = {"source": source, "layout": layout, "looked_at": looked_at, "bad_rows": bad_rows}
    values |= {"proposal": proposal, "response": proposal.response, "calendar": calendar, "account": account(columns)}
    values |= {"may_be_factors": may_be_factors(columns, proposal)}
    return templates().get_template("config.yaml.j2").render(values)


def writing_remarks(layout: Layout, how_to_name: str) -> list[str]:
    """Say what is unusual about the format of a file. `how_to_name` columns without names is an argument of the command."""
    remarks = []
    if layout.separator != ",":
        remarks.append(f"columns are separated by {SEPARATORS[layout.separator]}")
    if layout.decimal != ".":
        remarks.append("decimals are written with a comma")
    if layout.thousands:
        remarks.append(f"thousands are separated by {THOUSANDS[layout.thousands]}")
    if layout.strip_blanks:
        remarks.append("blanks around values are removed, except in quotes")
    if marks := [mark for mark in layout.missing if mark.strip() and mark != "NA"]:
        remarks.append(f"read as missing: {', '.join(marks)}")
    if layout.comment:
        remarks.append(f"lines above the header that begin with {layout.comment} are skipped")
    if layout.header is False:
        remarks.append(
            f"the first line is a row and names no column, so the columns are called V1 to V{len(layout.columns)}; to name "
            f"them, ask again with {how_to_name}; if the line has the names, with {how_to_name.partition('=')[0]}=true"
        )
    elif layout.header is not True:
        remarks.append(f"the first line is a row; the columns are called {short(', '.join(layout.header))}")
    return remarks


def layout_text(
    source: str,
    layout: Layout,
    doubtful: Mapping[str, str],
    derive: Mapping[str, str],
    labels: Mapping[str, Mapping[str, str]],
) -> str:
    """Return a layout for this file, as YAML, with remarks on `doubtful` columns, further columns that a model needs
    (`derive`), and `labels` that pages show instead of values."""
    values = {"source": source, "layout": layout, "doubtful": doubtful, "derive": derive, "labels": labels}
    return templates().get_template("layout.yaml.j2").render(values)


@cache
def templates() -> jinja2.Environment:
    """The YAML that `init` writes: every value in it is `printed`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printed(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "quoted": quoted,
        "pairs": pairs,
        "described": described,
        "json": partial(json.dumps, ensure_ascii=False),
        "count": "{:,}".format,
    }
    return environment


def printed(text: str) -> str:
    """A text with the escapes of YAML, in quotes and in comments alike, for what YAML does not print or takes for a line end,
    and for what changes how a text looks."""
    hidden = {ord(each) for each in text if is_hidden(each) or each in "\ufffe\uffff"}
    return text.translate({code: f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}" for code in hidden})


def described(name: str, column: LayoutColumn) -> str:
    """A column of a layout: its type, and in a mapping what else there is to say."""
    entries = {"source": column.source} if column.source != name else {}
    entries |= {"type": column.type} | ({"format": column.formats[0]} if column.formats else {})
    entries |= {key: value for key in ("symbol", "label") if (value := getattr(column, key))}
    labels = f", labels: {{{pairs(column.labels)}}}" if column.labels else ""
    return column.type if len(entries) == 1 and not labels else f"{{{pairs(entries)}{labels}}}"


def pairs(entries: Mapping[str, str]) -> str:
    """The entries of a mapping in one line. Its keys are words or numbers."""
    return ", ".join(f"{key}: {quoted(value)}" for key, value in entries.items())


def quoted(text: str) -> str:
    """A text as YAML has it, in quotes only where it must be."""
    is_plain = re.fullmatch(r"[A-Za-z][\w ./~+*<>=()'-]*", text) and yaml.safe_load(text) == text
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def account(columns: list[ColumnSummary]) -> list[str]:
    """A line for each column: its type, how many rows lack a value, and its values."""
    shown = columns[:MOST_SHOWN]
    width = max(len("column"), *(len(column.name) for column in shown))
    lines = [f"  {'column':{width}}  {'holds':13}  {'missing':>9}  values"]
    for column in shown:
        lines.append(f"  {column.name:{width}}  {MEANINGS[column.kind]:13}  {column.missing:9,}  {values_of(column)}")
    if len(columns) > len(shown):
        lines.append(f"  and {len(columns) - len(shown):,} more columns")
    return lines


def values_of(column: ColumnSummary) -> str:
    """The range of a column of numbers or dates, or the most frequent texts of another."""
    if not column.values:
        return "none"
    if column.values == 1:
        return f"{shortened(column.least)} only"
    if column.labels:
        meanings = [f"{value} {shortened(label)}" for value, label in column.labels.items()]
        return f"{column.values:,} different: {', '.join(meanings[:5])}{', ...' if len(meanings) > 5 else ''}"
    if column.kind == "text":
        frequent = ", ".join(shortened(value) for value, _ in column.frequent)
        return f"{column.values:,} different: {frequent}{', ...' if column.values > len(column.frequent) else ''}"
    return f"{column.values:,} different, {shortened(column.least)} to {shortened(column.greatest)}"


def shortened(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else printed(str(value))
    return text if len(text) <= 20 else f"{text[:17]}..."


def may_be_factors(columns: Iterable[ColumnSummary], proposal: Proposal) -> list[str]:
    """The covariates that are whole numbers of few values."""
    return [
        column.name
        for column in columns
        if proposal.terms.get(column.name) == column.name
        and column.kind == "integer"
        and 2 < column.values <= FEW_VALUES
    ]
