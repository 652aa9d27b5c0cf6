"""Everything besides the formula that shapes a fit, in words: rows, filters, weights, offsets, merged levels, penalties."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tfglm.data.kinds import NOT_IN_SUBSET
from tfglm.errors import counted
from tfglm.formula.read import covariates_in
from tfglm.formula.response import FINITE_RESPONSE, requested_frequency, response_column
from tfglm.results.digits import four_that_count, percent

MOST_REASONS = 6
"""Reasons for dropped rows that are named; the page of rows has them all."""

PENALTIES = {"l1": "lasso penalty", "l2": "ridge penalty"}


def circumstances(
    fit: Mapping[str, Any], account: Mapping[str, Any], columns: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return what shapes a fit, as names with texts, from the content of fit.json and rows.json and the columns of
    dictionary.json."""
    model, data = fit["provenance"]["model"], fit["provenance"]["data"]
    known = account["splits"]["train"]["used"]
    derived = data.get("derive", {})
    subset, counts = model.get("subset"), model.get("frequency")
    outside = account.get("subsets", {}).get(counts, 0) if subset else 0
    counts = requested_frequency(model, derived)
    facts = [("Rows", rows(fit, account, known - outside, bool(counts), derived, outside))]
    facts += [("Subset", subset)] if subset else []
    filters = {name: sql for name, sql in data.get("where", {}).items() if not name.startswith(FINITE_RESPONSE)}
    facts += [
        ("Only rows with", condition if name == condition else f"{condition} ({name})")
        for name, condition in filters.items()
    ]
    split = data.get("split", {}).get("train", "TRUE")
    facts += [("Fitted to", split)] if split.upper() != "TRUE" else []
    model = {**model, "frequency": counts}
    meanings = {
        "weights": "prior weights: the variance of a row is divided by them",
        "frequency": "each row stands for so many equal rows",
        "trials": "the number of trials of a row",
        "offset": "added to the linear predictor with coefficient 1",
    }
    facts += [(key.capitalize(), f"{model[key]}, {meaning}") for key, meaning in meanings.items() if model.get(key)]
    of_model = list(dict.fromkeys([response_column(model["formula"]), *covariates_in(model["formula"])]))
    facts += [
        ("Derived", f"{name} = {derived[name]}") for name in of_model if name in derived and name in model["formula"]
    ]
    merged = [
        merged_levels(name, columns[name], known + account["splits"]["train"]["dropped"].get(NOT_IN_SUBSET, 0))
        for name in of_model
        if name in columns and columns[name]["rare_levels"]
    ]
    facts += [("Merged levels", "; ".join(merged))] if merged else []
    as_level = [name for name in of_model if data.get("missing", {}).get(name) == "level"]
    facts += [("Missing values", f"a level of their own in {', '.join(as_level)}")] if as_level else []
    penalties = [f"{name} {four_that_count(fit[key])}" for key, name in PENALTIES.items() if fit.get(key)]
    facts += [("Penalty", ", ".join(penalties))] if penalties else []
    collapsed = fit.get("collapsed", {})
    if collapsed.get("distinct_rows"):
        facts.append(("Collapsed", f"{collapsed['rows']:,} rows into {collapsed['distinct_rows']:,} different rows"))
    return facts


def rows(
    fit: Mapping[str, Any],
    account: Mapping[str, Any],
    used: int,
    has_frequency: bool,
    derived: Mapping[str, str],
    outside: int,
) -> str:
    """How many rows the fit has, and why others have no part in it."""
    text = f"{used if has_frequency else fit['rows']:,} of {account['read']:,} read"
    text += f", which stand for {fit['rows']:,}" if has_frequency else ""
    reasons = Counter({reason.removeprefix("where: "): count for reason, count in account["dropped"].items() if count})
    for reason, count in account["splits"]["train"]["dropped"].items():
        reasons.update({lacking(reason, derived): count} if count else {})
    reasons.update({NOT_IN_SUBSET: outside} if outside else {})
    others = {"evaluate": "kept back", "predict": "only predicted"}
    reasons |= {
        words: account["splits"][split]["used"] for split, words in others.items() if account["splits"][split]["used"]
    }
    zero = used - fit["rows"]
    if zero > 0 and not has_frequency:
        reasons["with weight 0"] = zero
    left = fit["rows"] - fit.get("rows_in_likelihood", fit["rows"])
    if left > 0:
        reasons["separated, so not in the likelihood"] = left
    named_reasons = sorted(reasons.items(), key=lambda reason: -reason[1])
    listed = [f"{count:,} {reason}" for reason, count in named_reasons[:MOST_REASONS]]
    more = [f"{len(reasons) - MOST_REASONS} more reasons"] if len(reasons) > MOST_REASONS else []
    return f"{text}; {', '.join([*listed, *more])}" if listed else text


def lacking(reason: str, derived: Mapping[str, str]) -> str:
    """A reason with its columns; a derived column is left out beside a column that it is computed from."""
    if not reason.startswith("missing: "):
        return reason
    names = reason.removeprefix("missing: ").split(",")
    own = [name for name in names if set(names).isdisjoint(re.findall(r"\w+", derived.get(name, "")))]
    return f"missing: {' and '.join(own or names)}"


def merged_levels(name: str, column: Mapping[str, Any], used: int) -> str:
    """What `rare` has merged, of the `used` training rows."""
    return (
        f"{counted(column['rare_levels'], 'level')} of {name} with fewer than {column['fewest']:,} rows each became (rare): "
        f"{counted(column['rare_rows'], 'row')}, {percent(column['rare_rows'] / max(used, 1))}"
    )
