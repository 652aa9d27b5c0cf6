"""The content of the picture of coefficients: its rows, their order and axis, and the text of each row."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tfglm.errors import counted
from tfglm.formula.names import without_class
from tfglm.formula.parse import term_of
from tfglm.formula.terms import INTERCEPT, THRESHOLD
from tfglm.report.conditions import against, conditions, is_number
from tfglm.report.ratios import Scale, scale_of
from tfglm.report.words import NO_WORDS, PERCENT, Words, amount, logged, plain
from tfglm.results.digits import p_value
from tfglm.results.statuses import status_of

MOST_LEVELS, FEW_LEVELS = 400, 10
"""Most levels of a term, and as many as the picture shows of a factor without an order."""

UNSORTED = 24
"""Up to so many levels stay in the order of the table, such as the months; more are sorted by size."""

WITHOUT_ESTIMATE = {
    "separated": "separated: the responses of its rows are all alike, alone or with other terms, so there is no finite estimate",
    "not identified": "not identified: only rows that terms separate together determine it",
    "reference": "the reference level",
}
"""What is said of coefficients with this status."""

NUMBERS = ["estimate", "ci_lower", "ci_upper"]


@dataclass(frozen=True)
class Heading:
    """The heading above the rows of a term; `label` is its name on pages, if it has another one there, and `more` says for
    how much more of a number slopes are, and at which values of other columns."""

    term: str
    remark: str
    label: str = ""
    more: str = ""

    @property
    def shown(self) -> str:
        return self.label or self.term


@dataclass(frozen=True)
class PictureRow:
    """A coefficient: its level and label, how its point is drawn, the few words beside it, the text shown under the
    pointer, and the number of rows that determine it."""

    level: str
    label: str
    kind: str
    estimate: float
    lower: float
    upper: float
    remark: str
    tip: str
    rows: float


def rows_and_scale(
    table: pd.DataFrame,
    ratio: str | None,
    words: Words = NO_WORDS,
    averaged: Collection[str] = (),
    most: int | None = MOST_LEVELS,
    order: str | None = None,
    steps: Mapping[str, float] | None = None,
) -> tuple[list[Heading | PictureRow], Scale]:
    """Return the content of a picture of a table of coefficients with confidence limits: term by term, then the numbers,
    and the axis.

    `ratio` is the name of the exponential of a coefficient, if it has a meaning; `words` has the labels of levels, and the
    ranges of columns: no effect is of more of a number than that. Splines and polynomials are left out. Terms that are
    `averaged` have average effects in place of coefficients. `most` and `order` are `levels` and `order` of the config, and a
    line says what is left out. `steps` are those of a picture with more rows.
    """
    holding = conditions(table, words) | dict.fromkeys(averaged, "on average")
    table = without_curves(table)
    steps = steps_of(table, words) if steps is None else steps
    numeric = table["level"] == ""
    units = table["term"].map(steps).astype(float).fillna(1.0)
    table = table.assign(**{name: table[name] * units for name in NUMBERS}, units=units)
    levels, numbers = table[~numeric], table[numeric]
    logarithms = {place: found for place, term in numbers["term"].items() if (found := logged(term))}
    chosen = {
        str(term): in_order(rows, most or usual(str(term), rows, words), order)
        for term, rows in levels.groupby("term", sort=False)
    }
    drawn = pd.concat([*chosen.values(), numbers])
    scale = scale_of(finite(drawn[["estimate"]]), finite(drawn[["ci_lower", "ci_upper"]]), ratio is not None)
    says = Remarks((ratio or "estimate").replace("_", " "), scale, bool(drawn["ci_lower"].notna().any()))
    items: list[Heading | PictureRow] = []
    for term, rows in levels.groupby("term", sort=False):
        shown = chosen[str(term)]
        labels = [words.level(str(term), level) for level in shown["level"]]
        more = f", for +{amount(steps[term])}" if term in steps else ""
        more += f", {holding[str(term)]}" if term in holding else ""
        label = words.term(str(term))
        about = (remark(rows, shown, against(str(term), rows, words)) + more).removeprefix(", ")
        items.append(Heading(str(term), about, label if label != term else "", more))
        for row, label in zip(shown.to_dict("records"), labels, strict=True):
            items.append(says.row(row, label, f"{term} {label}{more}"))
        if len(shown) < len(rows):
            items.append(says.others(rows.drop(shown.index), str(term)))
    numbers = numbers.assign(holds=[holding.get(str(term), "") for term in numbers["term"]])
    for holds, rows in numbers.groupby("holds", sort=False):
        at = f", {holds}" if holds else ""
        items.append(Heading("numbers", f"for so much more of each{at}", more=at))
        for place, row in rows.to_dict("index").items():
            term, unit = row["term"], words.units.get(plain(row["term"]), "")
            more = f"+{amount(row['units'], unit)}"
            if place in logarithms:
                (term, _), more = logarithms[place], f"+{PERCENT} %"
            label, name = f"{words.term(term)}, {more}", f"{row['term']}, for {more}"
            if plain(term) in words.zero_one:
                label = f"{words.term(term)}: {words.level(term, '1')} vs {words.level(term, '0')}"
                name = label
            items.append(says.row(row, label, name + at))
    return items, scale


def without_curves(table: pd.DataFrame) -> pd.DataFrame:
    """The coefficients that compare something by themselves, unlike those of curves, and random effects."""
    left_out = {
        term
        for term in table["term"].unique()
        if is_constant(term) or term_of(term).is_curve or term_of(term).is_random
    }
    return table[~table["term"].isin(left_out)]


def steps_of(table: pd.DataFrame, words: Words) -> dict[str, float]:
    """For how much more of its number each slope is reported, by term: sentences, pictures and the short table have one scale.

    Parameters
    ----------
    table
        Coefficients with confidence limits.
    words
        The ranges of columns.
    """
    table = without_curves(table)
    numeric = table["level"] == ""
    levels, numbers = table[~numeric], table[numeric]
    own = {without_class(str(term)): rows for term, rows in table.groupby("term")}
    # A term of levels has slopes if one of its factors is a number.
    sloped = [
        term
        for term in levels["term"].unique()
        if any(is_number(factor, own, words) for factor in term_of(term).factors)
    ]
    of_levels = levels[~levels["term"].isin(sloped)]
    slopes = pd.concat([levels[levels["term"].isin(sloped)], numbers])
    extents = slopes[NUMBERS].where(np.isfinite(slopes[NUMBERS])).abs().max(axis=1).groupby(slopes["term"]).max()
    reaches = extents.index.to_series().map(lambda term: reach(term, words)).astype(float)
    steps = units_of(extents, largest(of_levels if len(of_levels) else numbers), reaches).to_dict()
    for term in numbers["term"]:
        if plain(term) in words.zero_one:
            steps[term] = 1.0
        elif found := logged(term):
            steps[term] = found[1]
    return steps


def is_constant(term: str) -> bool:
    """Whether a term is an intercept, of a class too, or a threshold between classes."""
    return without_class(term) in (INTERCEPT, THRESHOLD)


def finite(numbers: pd.DataFrame) -> np.ndarray:
    values = numbers.to_numpy(float).ravel()
    return values[np.isfinite(values)]


def largest(table: pd.DataFrame) -> float:
    """The size that most estimates stay below."""
    sizes = np.abs(finite(table[["estimate"]]))
    sizes = sizes[sizes > 0]
    return float(np.quantile(sizes, 0.9)) if len(sizes) else 1.0


def units_of(extents: pd.Series, size: float, reaches: pd.Series) -> pd.Series:
    """For each number the power of ten of its units whose effect is nearest to this size: that of a mile would be invisible.
    It is at most what the number reaches over. One unit is shown rather than a tenth, if the number reaches over one."""
    ratios = np.where((extents > 0) & np.isfinite(extents), size / extents.where(extents > 0, 1.0), 1.0)
    powers = np.minimum(np.round(np.log10(ratios)), np.floor(np.log10(reaches) + 1e-9))
    powers = np.where((reaches >= 1) & (powers == -1), 0.0, powers)
    return pd.Series(10.0**powers, extents.index)


def reach(term: str, words: Words) -> float:
    """The largest value less the smallest of a number, or of a product of numbers about so much; infinite if not known."""
    extents = [words.extent(factor) for factor in term_of(term).factors]
    return math.prod(filter(None, extents)) if any(extents) else math.inf


def usual(term: str, rows: pd.DataFrame, words: Words) -> int:
    """How many levels of a term the picture shows: a factor with an order has a shape."""
    has_order = (
        plain(without_class(term)) in words.orders or pd.to_numeric(rows["level"], errors="coerce").notna().all()
    )
    return UNSORTED if has_order else FEW_LEVELS


def clearness(lower: Any, upper: Any) -> Any:
    """How clearly an interval differs from 0: by its end nearer to 0, or less than not at all by the length of the interval."""
    nearer = np.minimum(np.abs(lower), np.abs(upper))
    return np.where(np.multiply(lower, upper) > 0, nearer, -np.abs(np.subtract(upper, lower)))


def in_order(rows: pd.DataFrame, most: int, order: str | None = None) -> pd.DataFrame:
    """The levels of a term that are shown: at most so many, those that differ most clearly, beside the reference level. A line
    for one other level would be no shorter than the level."""
    shown = rows
    if len(rows) > most + 1:
        has_intervals = rows["ci_lower"].notna().any()
        clear = clearness(rows["ci_lower"], rows["ci_upper"]) if has_intervals else rows["estimate"].abs()
        clear = pd.Series(clear, rows.index)[rows["level"] != rows["reference"]].replace(np.inf, np.nan)
        first = clear.sort_values(ascending=False, kind="stable").index[:most]
        shown = rows[rows.index.isin(first) | (rows["level"] == rows["reference"])]
    by_size = order == "estimate" or (order is None and (len(shown) < len(rows) or len(rows) > UNSORTED))
    return shown.sort_values("estimate", kind="stable") if by_size else shown


def remark(rows: pd.DataFrame, shown: pd.DataFrame, reference: str) -> str:
    """Return the part of the heading about the levels."""
    words = [f"against {reference}"] if reference else []
    if len(rows) > len(shown):
        words.append(f"the {(shown['level'] != shown['reference']).sum()} most different of {len(rows):,} levels")
    elif len(rows) > UNSORTED:
        words.append(f"{len(rows)} levels by size")
    return ", ".join(words)


@dataclass(frozen=True)
class Remarks:
    """Yield the texts of coefficients. `measure` is the quantity on the axis. If no coefficient has an interval, no text
    says that one is missing."""

    measure: str
    scale: Scale
    has_intervals: bool

    def row(self, row: Mapping[str, Any], label: str, name: str) -> PictureRow:
        kind, remark = self.kind(row)
        estimate, lower, upper = (row[column] for column in NUMBERS)
        tip = f"{name}: {'; '.join(self.facts(row, kind))}"
        return PictureRow(row["level"], label, kind, estimate, lower, upper, remark, tip, row["rows"])

    def others(self, rows: pd.DataFrame, term: str) -> PictureRow:
        """A line for levels that are not shown: from the lowest to the highest estimate."""
        sizes = finite(rows[["estimate"]])
        low, high = (float(sizes.min()), float(sizes.max())) if len(sizes) else (math.nan, math.nan)
        between = f"{self.measure} {self.scale.written(low)} to {self.scale.written(high)}"
        tip = f"{term}, {len(rows):,} levels that are not shown: {between}; {counted(rows['rows'].sum(), 'row')}"
        return PictureRow("", f"{len(rows):,} others", "others", math.nan, low, high, "", tip, rows["rows"].sum())

    def kind(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """How the point is drawn, and the words beside it."""
        estimate, status = row["estimate"], status_of(row)
        if status in ("separated", "aliased", "not identified", "zero", "reference"):
            return status, status
        if not self.scale.low <= estimate <= self.scale.high:
            return "beyond", self.scale.written(estimate)
        if self.has_intervals and pd.isna(row["ci_lower"]):
            return "without interval", "no test"
        return "estimate", ""

    def facts(self, row: Mapping[str, Any], kind: str) -> Iterator[str]:
        """All there is to say of a coefficient."""
        written = self.scale.written
        if kind == "aliased":
            yield f"aliased with {row['aliased_with']}"
        elif kind in WITHOUT_ESTIMATE:
            yield WITHOUT_ESTIMATE[kind]
        else:
            interval = (
                "" if pd.isna(row["ci_lower"]) else f" ({written(row['ci_lower'])} to {written(row['ci_upper'])})"
            )
            yield f"{self.measure} {written(row['estimate'])}{interval}"
        if pd.notna(row.get("p_value")):
            yield f"p {p_value(row['p_value'])}"
        if row.get("note"):
            yield row["note"]
        yield counted(row["rows"], "row")
