"""The table of coefficients as a page shows it: by term, with as many digits as a reader wants; the CSV has them all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tfglm.report.coefficient_rows import CURVED
from tfglm.report.conditions import against, conditions
from tfglm.report.pages import p_value
from tfglm.report.words import Words, decimals_of, fixed, four_that_count, plain


@dataclass(frozen=True)
class TableRow:
    """A coefficient: what its level is called, the value itself where that is another, and the cells beside it."""

    level: str
    value: str
    cells: list[str]
    status: str
    note: str


@dataclass(frozen=True)
class TableTerm:
    """The coefficients of a term. `label` is its name on pages, `against` the reference level, and `holds` says at which values
    of other columns they hold. A curve is looked at, and has no rows."""

    name: str
    label: str
    unit: str
    against: str
    holds: str
    rows: list[TableRow]


@dataclass(frozen=True)
class Sheet:
    """All terms, and the header of their columns of numbers: names in two rows, the upper names with their widths."""

    groups: list[tuple[str, int]]
    names: list[str]
    terms: list[TableTerm]


def sheet(table: pd.DataFrame, ratio: str | None, confidence: float, words: Words) -> Sheet:
    """Return the content of the page.

    Parameters
    ----------
    table
        The table that write_tables.py wrote.
    ratio
        The column with the exponentials of the estimates, if these have a meaning.
    confidence
        The coverage of the intervals.
    words
        Labels and units of the columns.
    """
    errors = "posterior_sd" if "posterior_sd" in table else "std_error"
    has_errors, has_tests = (
        bool(table[errors].notna().any()),
        "p_value" in table and bool(table["p_value"].notna().any()),
    )
    shown = table.assign(error=table[errors], of_ratio=table[ratio] if ratio else np.nan)
    if has_tests:
        # An interval of the coefficient is one of its ratio, end by end.
        with np.errstate(over="ignore"):
            ends = {name: np.exp(table[name]) if ratio else table[name] for name in ("ci_lower", "ci_upper")}
        shown = shown.assign(lower=ends["ci_lower"], upper=ends["ci_upper"])
    interval = (f"{100 * confidence:g} % interval", 2)
    groups: list[tuple[str, int]] = []
    names: list[str] = []
    for is_there, group, own in (
        (bool(ratio), ("", 1), [(ratio or "").replace("_", " ")]),
        (bool(ratio) and has_tests, interval, ["from", "to"]),
        (True, ("", 1), ["estimate"]),
        (has_errors, ("", 1), ["std. deviation" if errors == "posterior_sd" else "std. error"]),
        (not ratio and has_tests, interval, ["from", "to"]),
        (has_tests, ("", 1), ["p"]),
        (True, ("", 1), ["rows"]),
        ("events" in table, ("", 1), ["events"]),
    ):
        if is_there:
            groups.append(group)
            names += own
    holding = conditions(table, words)
    terms = [
        TableTerm(
            str(name),
            words.term(str(name)),
            words.units.get(plain(str(name)), ""),
            against(str(name), rows, words),
            holding.get(str(name), ""),
            [] if CURVED.search(str(name)) else list(rows_of(str(name), rows, bool(ratio), names, words)),
        )
        for name, rows in shown.groupby("term", sort=False)
    ]
    return Sheet(groups, names, terms)


def rows_of(term: str, rows: pd.DataFrame, has_ratio: bool, names: list[str], words: Words) -> list[TableRow]:
    """Return the rows of a term; its numbers have the same decimals, so that they are aligned."""
    sizes = rows["error"] if rows["error"].notna().any() else rows["estimate"].abs()
    decimals = decimals_of(sizes)
    of_ratio = decimals_of((sizes * rows["of_ratio"]).where(sizes < 1)) if has_ratio else decimals

    def end(value: float) -> str:
        # No ratio is 0.
        return fixed(value, of_ratio, no_zeros=has_ratio)

    def cells(row: Any) -> list[str]:
        values = {
            "estimate": fixed(row.estimate, decimals),
            "rows": f"{row.rows:,.0f}",
            "std. error": fixed(row.error, decimals),
            "std. deviation": fixed(row.error, decimals),
        }
        if "p" in names:
            values |= {"p": p_value(row.p_value), "from": end(row.lower), "to": end(row.upper)}
        if "events" in names:
            values["events"] = f"{row.events:,.0f}"
        return [values.get(name, end(row.of_ratio)) for name in names]

    return [
        TableRow(
            level := words.level(term, row.level),
            row.level if row.level != level else "",
            cells(row),
            status(row),
            note(row),
        )
        for row in rows.itertuples()
    ]


def variance_components(fit: Mapping[str, Any], words: Words) -> pd.DataFrame | None:
    """The standard deviations of random effects, with intervals of 95 % if they have some, and of the residuals; None without
    random effects."""
    random = [smooth for smooth in fit.get("smooths", []) if smooth["is_random"]]
    if not random:
        return None
    rows = []
    for smooth in random:
        # A variance that is estimated as 0 has no entry.
        ends = [four_that_count(smooth[end]) for end in ("std_dev_lower", "std_dev_upper") if end in smooth]
        rows.append((words.term(smooth["term"]), four_that_count(smooth.get("std_dev", 0.0)), " to ".join(ends)))
    rows += [("residuals", four_that_count(fit["sigma"]), "")] if "sigma" in fit else []
    return pd.DataFrame(rows, columns=["", "standard deviation", "95 % interval"])


def profiles(fit: Mapping[str, Any], ratio: str | None) -> pd.DataFrame | None:
    """The profile likelihood intervals of combinations of coefficients beside Wald's, and of their exponential `ratio`, if these
    have a meaning; None without any."""
    table = pd.DataFrame(fit.get("profile", []))
    if table.empty:
        return None
    numbers = table.drop(columns=["name", "note"]).astype(float)
    decimals = decimals_of(numbers["std_error"])
    columns: dict[tuple[str, str], Any] = {("", "combination"): table["name"]}
    if ratio:
        with np.errstate(over="ignore"):
            powers = np.exp(numbers)
        places = decimals_of((numbers["std_error"] * powers["estimate"]).where(numbers["std_error"] < 1))
        written = powers.map(lambda value: fixed(value, places, no_zeros=True))
        columns |= {("", ratio.replace("_", " ")): written["estimate"]}
        columns |= {("profile interval", "from"): written["ci_lower"], ("profile interval", "to"): written["ci_upper"]}
    written = numbers.map(lambda value: fixed(value, decimals))
    columns |= {("", "estimate"): written["estimate"]}
    of_profile = "its profile interval" if ratio else "profile interval"
    columns |= {(of_profile, "from"): written["ci_lower"], (of_profile, "to"): written["ci_upper"]}
    columns |= {("by Wald", "from"): written["wald_lower"], ("by Wald", "to"): written["wald_upper"]}
    if table["note"].any():
        columns |= {("", "note"): table["note"]}
    shown = pd.DataFrame(columns)
    return shown.set_axis(pd.MultiIndex.from_tuples(shown.columns), axis=1)


def status(row: Any) -> str:
    """Return what kind of coefficient it is, if it is not an ordinary estimate."""
    is_reference = row.estimate == 0 and row.reference and pd.isna(row.std_error)
    return "reference" if is_reference and not row.status else row.status


def note(row: Any) -> str:
    """Why there is no estimate, no error or no test."""
    return "; ".join(text for text in (getattr(row, "aliased_with", ""), getattr(row, "note", "")) if text)
