"""The config, the layout and the account of a survey, as text."""

import json
import re
from collections.abc import Iterable
from typing import Any

import yaml

from tfglm.config import Layout
from tfglm.survey.columns import MEANINGS, Column
from tfglm.survey.proposal import FEW_VALUES, Proposal

MOST_SHOWN = 60
"""Columns of which the account has a line each."""


def config_text(
    source: str,
    layout: str,
    looked_at: str,
    bad_rows: bool,
    one_device: bool,
    proposal: Proposal,
    factors: Iterable[str],
) -> str:
    """The config, a comment at each key.

    Parameters
    ----------
    source
        The file, as `data.files` names it.
    layout
        Its layout, by name or path.
    looked_at
        What the survey has seen, in words.
    bad_rows
        Whether some lines cannot be read.
    one_device
        Whether the file is so small that one process is faster than several.
    proposal
        The regression.
    factors
        The terms that are numbers of few values, which may be meant as factors.
    """
    response = proposal.response
    lines = [
        f"# Written by `snakemake init` after a look at {looked_at}.",
        "# config/README.md of tfglm explains every key.",
        "",
        "data:",
        "  # More files of the same kind may follow, also as data/*.csv.",
        f"  files: [{quoted(source)}]",
        "  # What the columns are called and hold.",
        f"  layout: {quoted(layout)}",
    ]
    if bad_rows:
        lines += ["  # Some lines cannot be read: they are counted and dropped.", "  bad_rows: drop"]
    if response.derive:
        lines += ["  # New columns, in SQL.", "  derive:", *pairs(response.derive, 4)]
    if response.where:
        lines += ["  # Only rows that meet these conditions take part.", "  where:", *pairs(response.where, 4)]
    lines += [
        "  # A fifth of the rows, drawn at random, is kept to evaluate the fit.",
        "  split:",
        "    train: random < 0.8",
        "    evaluate: random >= 0.8",
        "  # What models may use. A row that lacks one of these is dropped, and counted in results/data/rows.html.",
        f"  columns: [{', '.join(map(quoted, proposal.columns))}]",
    ]
    if proposal.left_out:
        lines += ["  # Left out:", *(f"  #   {name}: {reason}" for name, reason in proposal.left_out.items())]
    lines += [
        "",
        "models:",
        f"  # The response: {response.reason}.",
        f"  {quoted(response.name)}:",
        *(f"    # {name} is a number; C({name}) makes a factor of it." for name in factors),
        f"    formula: {quoted(proposal.formula)}",
        f"    family: {response.family.name} # {response.family.regression} {response.name}",
        "    # Right if rows are independent; cluster(column) if those that share its value are not.",
        "    std_errors: robust",
    ]
    if one_device:
        lines += [
            "",
            "# The file is small, so one process fits it. Without this section parameter servers and workers do, to the same",
            "# numbers.",
            "cluster:",
            "  strategy: one_device",
        ]
    return "\n".join(lines) + "\n"


def layout_text(source: str, layout: Layout) -> str:
    """A layout of its own, as YAML."""
    lines = [
        f"# How the columns of {source} are called (left), what its header calls them (source), and what they hold.",
        f"missing: {json.dumps(layout.missing, ensure_ascii=False)} # what stands for a missing value",
    ]
    if layout.encoding != "utf-8":
        lines.append(f"encoding: {layout.encoding}")
    lines.append(
        "columns: # string, integer, number, date, or clock (741 is 07:41); a column that is not listed is not read"
    )
    for name, column in layout.columns.items():
        entries = {"source": column.source} if column.source != name else {}
        entries |= {"type": column.type} | ({"format": column.format} if column.format else {})
        shown = ", ".join(f"{key}: {quoted(value)}" for key, value in entries.items())
        remark = " # or is the month first?" if column.format == "%d/%m/%Y" else ""
        lines.append(f"  {quoted(name)}: {column.type if len(entries) == 1 else f'{{{shown}}}'}{remark}")
    return "\n".join(lines) + "\n"


def pairs(entries: dict[str, str], indent: int) -> list[str]:
    return [f"{'':{indent}}{quoted(key)}: {quoted(value)}" for key, value in entries.items()]


def quoted(text: str) -> str:
    """A text as YAML has it, in quotes only where it must be."""
    is_plain = re.fullmatch(r"[A-Za-z][\w ./~+*<>=()'-]*", text) and yaml.safe_load(text) == text
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def account(columns: list[Column]) -> list[str]:
    """A line for each column: its type, how many rows lack a value, and its values."""
    shown = columns[:MOST_SHOWN]
    width = max(len(column.name) for column in shown)
    lines = [f"  {'column':{width}}  {'holds':13}  {'missing':>9}  values"]
    for column in shown:
        lines.append(f"  {column.name:{width}}  {MEANINGS[column.kind]:13}  {column.missing:9,}  {values_of(column)}")
    if len(columns) > len(shown):
        lines.append(f"  and {len(columns) - len(shown):,} more columns")
    return lines


def values_of(column: Column) -> str:
    """The range of a column of numbers or dates, or the most frequent texts of another."""
    if not column.values:
        return "none"
    if column.values == 1:
        return f"{shortened(column.least)} only"
    if column.kind == "text":
        frequent = ", ".join(shortened(value) for value, _ in column.frequent)
        return f"{column.values:,} different: {frequent}{', ...' if column.values > len(column.frequent) else ''}"
    return f"{column.values:,} different, {shortened(column.least)} to {shortened(column.greatest)}"


def shortened(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 20 else f"{text[:17]}..."


def may_be_factors(columns: Iterable[Column], proposal: Proposal) -> list[str]:
    """The covariates that are whole numbers of few values."""
    return [
        column.name
        for column in columns
        if proposal.terms.get(column.name) == column.name
        and column.kind == "integer"
        and 2 < column.values <= FEW_VALUES
    ]
