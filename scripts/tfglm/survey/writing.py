"""The config, the layout and the account of a survey, as text."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from tfglm.config import Layout
from tfglm.config.base import is_hidden
from tfglm.config.cluster import LARGEST_FOR_ONE_PROCESS
from tfglm.errors import short
from tfglm.families.multinomial import Multinomial
from tfglm.survey.calendar import Calendar
from tfglm.survey.columns import MEANINGS, ColumnSummary
from tfglm.survey.names import FEW_VALUES
from tfglm.survey.proposal import Proposal
from tfglm.survey.responses import FEWEST_ROWS

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
    """Return the config, with a comment at each key.

    Parameters
    ----------
    source
        The file, as `data.files` names it.
    layout
        Its layout, by name or path.
    looked_at
        The findings of the survey, in words.
    bad_rows
        Whether some lines are unreadable.
    proposal
        The regression.
    calendar
        The date of the rows.
    columns
        The summaries of the columns.
    """
    lines = [
        f"# Written by `snakemake init` after a look at {looked_at}.",
        "# docs/config/reference.md of tfglm explains every key.",
        "#",
        *(f"# {line}".rstrip() for line in account(columns)),
        "",
        "data:",
        "  # More files of the same kind may follow, also as data/*.csv.",
        f"  files: [{quoted(source)}]",
        "  # What the columns are called and hold.",
        f"  layout: {quoted(layout)}",
    ]
    if bad_rows:
        lines += ["  # Some lines cannot be read: they are counted and dropped.", "  bad_rows: drop"]
    lines += [*selection_lines(proposal), "", *model_lines(proposal, calendar, may_be_factors(columns, proposal))]
    lines += [
        "",
        f"# One process fits files of up to {LARGEST_FOR_ONE_PROCESS / 1e9:.0f} GB in all, and parameter servers and workers "
        "fit larger ones, to the same numbers.",
        "cluster:",
        "  strategy: auto",
    ]
    return text_of(lines)


def selection_lines(proposal: Proposal) -> list[str]:
    """The rows and columns that a regression needs, as keys of `data`."""
    response = proposal.response
    lines = []
    if response.derive:
        lines += ["  # New columns, in SQL.", "  derive:", *pairs(response.derive, 4)]
    if response.where:
        lines += ["  # Only rows that meet these conditions take part.", "  where:", *pairs(response.where, 4)]
    if proposal.frequency:
        lines += ["  # All rows are fitted: a row of a table stands for many.", "  split:", "    train: 'TRUE'"]
    else:
        lines += [
            "  # A fifth of the rows, drawn at random, is kept to evaluate the fit.",
            "  split:",
            "    train: random < 0.8",
            "    evaluate: random >= 0.8",
        ]
    lines += [
        "  # What models may use. A row that lacks one of these is dropped, and counted on the page data/rows.html.",
        f"  columns: [{', '.join(map(quoted, proposal.columns))}]",
    ]
    if proposal.rare:
        lines += [
            "  # Levels with fewer training rows than this are merged into one, (rare): by itself each would tell nothing.",
            "  rare:",
            *(f"    {quoted(name)}: {FEWEST_ROWS}" for name in proposal.columns if name in proposal.rare),
        ]
    if proposal.left_out:
        lines += ["  # Left out:", *(f"  #   {name}: {reason}" for name, reason in proposal.why_left_out.items())]
    return lines


def model_lines(proposal: Proposal, calendar: Calendar, may_be_factors: list[str]) -> list[str]:
    """The section `models`. `may_be_factors` are numbers of few values."""
    response = proposal.response
    return [
        "models:",
        f"  # The response: {response.reason}.",
        f"  {quoted(response.name)}:",
        *(f"    # {name} is a number; C({name}) makes a factor of it." for name in may_be_factors),
        f"    formula: {quoted(proposal.formula)}",
        f"    family: {response.family.name} # {response.family.regression} {response.name}",
        *(
            ["    # If the classes have an order: family: ordinal, and class_order: [the lowest, ..., the highest]."]
            if response.family.name == Multinomial.name
            else []
        ),
        *offset_lines(proposal),
        *frequency_lines(proposal),
        *error_lines(proposal, calendar),
    ]


def offset_lines(proposal: Proposal) -> list[str]:
    if not proposal.offset:
        return []
    return [
        "    # The count is proportional to this exposure: coefficients are about rates.",
        f"    offset: {quoted(proposal.offset)}",
    ]


def frequency_lines(proposal: Proposal) -> list[str]:
    if not proposal.frequency:
        return []
    return [
        f"    # {proposal.frequency} says how many equal rows a row stands for. To explain the counts, ask for response="
        f"{proposal.frequency}.",
        f"    frequency: {quoted(proposal.frequency)}",
    ]


def error_lines(proposal: Proposal, calendar: Calendar) -> list[str]:
    """The standard errors, or the penalty of a fit without any."""
    if proposal.penalised:
        return [
            "    # The covariates tell some classes apart without error. Only a penalty keeps their coefficients finite, and a",
            "    # penalised fit has no tests. Without these covariates remove the key.",
            "    l2: 0.001",
        ]
    return [
        *(f"    # {remark}" for remark in remarks_on_errors(proposal, calendar)),
        f"    std_errors: {proposal.std_errors}",
    ]


def remarks_on_errors(proposal: Proposal, calendar: Calendar) -> list[str]:
    """When the standard errors of a config are right."""
    if proposal.units:
        return [
            f"Rows of one {proposal.cluster} may be alike, as it repeats; there are {proposal.units:,} different ones.",
            "Write robust if rows are independent.",
        ]
    if proposal.cluster:
        return [
            f"Rows of one {calendar.date} may be alike, as they share its weather or prices; there are {calendar.dates:,} dates.",
            "Write robust if rows are independent.",
        ]
    if calendar.date:
        return [
            f"Right if rows are independent. If those of one {calendar.date} are not, add it to data.columns and write",
            f"cluster({calendar.date}); there are {calendar.dates:,} dates.",
        ]
    return ["Right if rows are independent; cluster(column) if those that share its value are not."]


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
            f"them, ask again with {how_to_name}"
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
    """Return a layout for this file, as YAML.

    Parameters
    ----------
    source
        The file.
    layout
        The layout.
    doubtful
        Remarks on columns.
    derive
        Further columns that a model needs.
    labels
        Labels that pages show instead of their values.
    """
    lines = [
        f"# How the columns of {source} are called (left), what its header calls them (source), and what they hold.",
        f"missing: {json.dumps(layout.missing, ensure_ascii=False)} # what stands for a missing value",
    ]
    if layout.encoding != "utf-8":
        lines.append(f"encoding: {layout.encoding}")
    if layout.separator != ",":
        lines.append(f"separator: {quoted(layout.separator)} # what stands between columns")
    if layout.decimal != ".":
        lines.append(f"decimal: {quoted(layout.decimal)} # what stands before the decimals of a number")
    if layout.thousands:
        lines.append(f"thousands: {quoted(layout.thousands)} # what stands between groups of three digits")
    if layout.strip_blanks:
        lines.append("strip_blanks: true # blanks around a value are removed, except in quotes")
    if layout.comment:
        lines.append(f"comment: {quoted(layout.comment)} # lines above the header that begin so are skipped")
    if layout.sheet:
        lines.append(f"sheet: {quoted(layout.sheet)} # the sheet of the workbook")
    if layout.header is not True:
        shown = "false" if layout.header is False else f"[{', '.join(map(quoted, layout.header))}]"
        lines.append(
            f"header: {shown} # the file begins with a row: true if with names, [age, sex] to name the columns"
        )
    lines.append(
        "columns: # string, integer, number, date, or clock (741 is 07:41); a column that is not listed is not read"
    )
    for name, column in layout.columns.items():
        entries = {"source": column.source} if column.source != name else {}
        entries |= {"type": column.type} | ({"format": column.formats[0]} if column.formats else {})
        entries |= {key: value for key in ("symbol", "label") if (value := getattr(column, key))}
        shown = ", ".join(f"{key}: {quoted(value)}" for key, value in entries.items())
        if column.labels:
            shown += f", labels: {{{', '.join(f'{value}: {quoted(label)}' for value, label in column.labels.items())}}}"
        remark = f" # {doubtful[name]}" if name in doubtful else ""
        lines.append(
            f"  {quoted(name)}: {column.type if len(entries) == 1 and not column.labels else f'{{{shown}}}'}{remark}"
        )
    if derive:
        lines += ["# Made of the date.", "derive:", *pairs(derive, 2)]
    if labels:
        lines += ["describe: # what pages and pictures show in place of the numbers"]
        for name, called in labels.items():
            shown = ", ".join(f"{value}: {label}" for value, label in called.items())
            lines.append(f"  {quoted(name)}: {{labels: {{{shown}}}}}")
    return text_of(lines)


def text_of(lines: Iterable[str]) -> str:
    return "".join(f"{printed(line)}\n" for line in lines)


def printed(text: str) -> str:
    """A text with the escapes of YAML, in quotes and in comments alike, for what YAML does not print or takes for a line end,
    and for what changes how a text looks."""
    hidden = {ord(each) for each in text if is_hidden(each) or each in "\ufffe\uffff"}
    return text.translate({code: f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}" for code in hidden})


def pairs(entries: Mapping[str, str], indent: int) -> list[str]:
    return [f"{'':{indent}}{quoted(key)}: {quoted(value)}" for key, value in entries.items()]


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
