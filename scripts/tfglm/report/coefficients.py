"""The table of coefficients as a page shows it: by term, with as many digits as a reader wants; the CSV has them all."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tfglm.formula.parse import term_of
from tfglm.report.coefficient_rows import is_constant
from tfglm.report.conditions import against, conditions
from tfglm.report.pages import numbers_as_text
from tfglm.report.words import Words, amount, effects_in_words, plain
from tfglm.results.digits import p_value, percent, significant
from tfglm.results.statuses import status_of


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
    """The coefficients of a term. `label` is its name on pages, `unit` the unit of a number, and of how many where the number of
    one is tiny or huge, `against` the reference level, and `holds` says at which values of other columns they hold. A curve is
    looked at, and has no rows."""

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
    """Return the content of the page from the table that write_tables.py wrote. `ratio` is the column with the exponentials
    of the estimates, if these have a meaning."""
    errors = "posterior_sd" if "posterior_sd" in table else "std_error"
    has_errors = bool(table[errors].notna().any())
    has_tests = "p_value" in table and bool(table["p_value"].notna().any())
    limits = {"ci_lower": "from", "ci_upper": "to"} if has_tests else {}
    interval = [(f"{100 * confidence:g} % interval", 2)] * has_tests
    groups, names = [("", 1)], ["estimate"]
    if has_errors:
        groups, names = [*groups, ("", 1)], [*names, "std. deviation" if errors == "posterior_sd" else "std. error"]
    if ratio:
        groups, names = [("", 1), *interval, *groups], [ratio.replace("_", " "), *limits.values(), *names]
    else:
        groups, names = [*groups, *interval], [*names, *limits.values()]
    others = ["p"] * has_tests + ["rows"] + ["events"] * ("events" in table)
    names, groups = [*names, *others], [*groups, *[("", 1)] * len(others)]

    def rows_of(term: str, rows: pd.DataFrame) -> Iterator[TableRow]:
        """The rows of a term; its numbers have the same decimals, so that they are aligned."""
        sizes = rows[errors] if rows[errors].notna().any() else rows["estimate"].abs()
        texts = numbers_as_text(rows[["estimate", errors, *limits]], sizes)
        written = {"estimate": texts["estimate"], "std. error": texts[errors], "std. deviation": texts[errors]}
        if ratio:
            # An interval of the coefficient is one of its ratio, end by end.
            texts = numbers_as_text(rows[["estimate", *limits]], sizes, rate=1.0)
            written[names[0]] = texts["estimate"]
        written |= {name: texts[limit] for limit, name in limits.items()}
        written |= {name: rows[name].map("{:,.0f}".format) for name in others if name != "p"}
        written |= {"p": rows["p_value"].map(p_value)} if has_tests else {}
        for row, *cells in zip(rows.to_dict("records"), *(written[name] for name in names), strict=True):
            value, level = row["level"], words.level(term, row["level"])
            # Why there is no estimate, no error or no test.
            note = "; ".join(filter(None, [row.get("aliased_with"), row.get("note")]))
            yield TableRow(level, value if value != level else "", cells, status_of(row), note)

    holding = conditions(table, words)
    # A slope that is tiny or huge is for more or less than one unit of its number.
    slopes = table[(table["level"] == "") & ~table["term"].map(is_constant).astype(bool)].dropna(subset=["estimate"])
    amounts = dict(
        zip(slopes["term"], slopes[["estimate", errors]].abs().max(axis=1).map(readable_amount), strict=True)
    )
    factors = table["term"].map(amounts).fillna(1.0)
    numbers = [name for name in ("estimate", errors, *limits) if name in table]
    table = table.assign(**{name: table[name] * factors for name in numbers})
    terms = [
        TableTerm(
            str(name),
            words.term(str(name)),
            unit_of(words.units.get(plain(str(name)), ""), amounts.get(str(name), 1.0)),
            against(str(name), rows, words),
            holding.get(str(name), ""),
            [] if term_of(str(name)).is_curve else list(rows_of(str(name), rows)),
        )
        for name, rows in table.groupby("term", sort=False)
    ]
    return Sheet(groups, names, terms)


def readable_amount(size: float) -> float:
    """For how much more of its number a slope is shown, a power of 1,000; 1 unless its size is tiny or huge.

    >>> readable_amount(5.24e-7), readable_amount(0.02), readable_amount(6.2e9)
    (1000000.0, 1.0, 1e-06)
    """
    if size == 0 or not math.isfinite(size) or 1e-4 <= size < 1e7:
        return 1.0
    thousands = math.floor(math.log10(size) / 3)
    return 1000.0 ** -(thousands + 1 if thousands < 0 else thousands - 1)


def unit_of(unit: str, step: float) -> str:
    """The unit of a number in a heading: `in miles`, or `per 1,000 miles`."""
    return f"per {amount(step, unit)}" if step != 1 else f"in {unit}" if unit else ""


def variance_components(fit: Mapping[str, Any], words: Words) -> pd.DataFrame | None:
    """The standard deviations and correlations of random effects, with intervals of 95 % if they have some, and the standard
    deviation of the residuals; None without random effects."""
    random = [smooth for smooth in fit.get("smooths", []) if smooth["is_random"]]
    if not random:
        return None
    rows = []
    for smooth in random:
        # A variance that is estimated as 0 has no entry.
        ends = [significant(smooth[end], 4) for end in ("std_dev_lower", "std_dev_upper") if end in smooth]
        rows.append((words.term(smooth["term"]), significant(smooth.get("std_dev", 0.0), 4), " to ".join(ends)))
        for each in smooth.get("correlations", ()):
            ends = [
                significant(each[f"correlation_{end}"], 4) for end in ("lower", "upper") if "correlation_lower" in each
            ]
            pair = f"correlation of {words.term(smooth['term'])} and {words.term(each['term'])}"
            rows.append((pair, significant(each["correlation"], 4), " to ".join(ends)))
    rows += [("residuals", significant(fit["sigma"], 4), "")] if "sigma" in fit else []
    return pd.DataFrame(rows, columns=["", "standard deviation", "95 % interval"])


def shares_in_words(fit: Mapping[str, Any]) -> str:
    """What share of the variance lies between levels, and what share terms explain; '' without these in fit.json."""
    groups = fit.get("intraclass_correlations", ())
    if not groups:
        return ""
    shares = [
        f"{percent(group['value'])} belongs to {' and '.join(map(effects_in_words, group['terms']))}"
        for group in groups
    ]
    scale = "" if fit["link"] == "identity" else " on the scale of the linear predictor"
    return (
        f"The terms without random effects explain {percent(fit['r_squared_marginal'])} of the variance{scale} (marginal R²), "
        f"and all terms {percent(fit['r_squared_conditional'])} (conditional R²). Of the variance that the former leave, "
        f"{', and '.join(shares)} (intraclass correlation)."
    )


def absorbed_effects(fit: Mapping[str, Any], words: Words) -> pd.DataFrame | None:
    """How many levels of each absorbed factor have an effect or a slope, which were left out, and how much these vary over the
    rows of the largest connected set; None without absorbed factors."""
    columns = {
        "effects": "levels",
        "left out: a single row": "singletons",
        "left out: one outcome": "separated",
        "connected sets": "connected_sets",
        "rows of the largest": "rows_of_largest_set",
    }
    rows = [
        {"": words.term(each["factor"])}
        | {name: f"{each[key]:,}" if key in each else "" for name, key in columns.items()}
        | {"standard deviation of effects": significant(each["variance_of_effects"] ** 0.5, 4)}
        for each in fit.get("absorbed", {}).get("factors", [])
        if "variance_of_effects" in each  # absent in a fit of an earlier version
    ]
    return pd.DataFrame(rows) if rows else None


def leave_out(fit: Mapping[str, Any], words: Words) -> pd.DataFrame | None:
    """The variances of the effects of two absorbed factors with and without sampling errors; None without any."""
    found = fit.get("absorbed", {}).get("leave_out", {})
    if not found.get("rows"):
        return None
    one, two = map(words.term, found["factors"])
    names = f"variance of effects of {one}", f"variance of effects of {two}", "covariance of both"
    plug_in, corrected = ([significant(value, 4) for value in found[key]] for key in ("plug_in", "corrected"))
    return pd.DataFrame({"": names, "of estimated effects": plug_in, "without sampling errors": corrected})


def profiles(fit: Mapping[str, Any], ratio: str | None) -> pd.DataFrame | None:
    """The profile likelihood intervals of combinations of coefficients beside Wald's, and of their exponential `ratio`, if these
    have a meaning; None without any."""
    table = pd.DataFrame(fit.get("profile", []))
    if table.empty:
        return None
    numbers = table.drop(columns=["name", "note"]).astype(float)
    texts = numbers_as_text(numbers, numbers["std_error"])
    columns: dict[tuple[str, str], Any] = {("", "combination"): table["name"]}
    if ratio:
        ratios = numbers_as_text(numbers, numbers["std_error"], rate=1.0)
        columns |= {("", ratio.replace("_", " ")): ratios["estimate"]}
        columns |= {("profile interval", "from"): ratios["ci_lower"], ("profile interval", "to"): ratios["ci_upper"]}
    columns |= {("", "estimate"): texts["estimate"]}
    of_profile = "its profile interval" if ratio else "profile interval"
    columns |= {(of_profile, "from"): texts["ci_lower"], (of_profile, "to"): texts["ci_upper"]}
    columns |= {("by Wald", "from"): texts["wald_lower"], ("by Wald", "to"): texts["wald_upper"]}
    if table["note"].any():
        columns |= {("", "note"): table["note"]}
    shown = pd.DataFrame(columns)
    return shown.set_axis(pd.MultiIndex.from_tuples(shown.columns), axis=1)
