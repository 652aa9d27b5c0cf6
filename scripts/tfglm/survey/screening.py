"""Which columns give the response away, and how strongly each of the others goes with it."""

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import polars as pl
import scipy.stats

MOST_ROWS = 20_000
"""Drawn at random from more."""

LEFT = 1e-6
"""Share of the variance of a response below which what is left of it is rounding error."""

TWIN, LIKE, ALIKE = 0.999, 0.5, 0.4
"""Correlation from which a number is nearly the response; the same of one with a like name, and the share of letters that such
names begin and end with."""

LACKING, NEAR_ONE, MATTERS = 0.03, 0.1, 1.5
"""Largest share of a total's variance in amounts that the file lacks, largest distance of a part's slope from 1, and smallest
factor on the remaining variance if a part is dropped."""

NEARLY = 0.9
"""Share of a class that the value of a column has, if it stands for the class."""

MOST_VALUES, MOST_COLUMNS = 12, 12
"""Most values of a column that may be a function of two others, and most columns among which these are sought."""

MOST_SEPARATED, SEPARATED = 2000, 1e-6
"""Rows that are drawn to look for separated classes, and the sum of margins above which they are."""

CHANCE = 0.001
"""P-value above which a column may go with the response by chance."""


def leaks(rows: pl.DataFrame, numbers: Sequence[str], response: str) -> dict[str, str]:
    """The numbers that give a numeric response away, with the reason for each. `numbers` may be covariates, or could be but
    for other reasons.

    A number that rises or falls with the response everywhere does, such as its logarithm. So do the parts of a sum: if the
    total, the fare and the tolls give the tip, the total is left out, and the fare may stay.
    """
    found = {}
    for name in numbers:
        pairs = drawn(rows.select(name, response).drop_nulls())
        if len(pairs) and pairs[name].n_unique() > 2:
            correlation = scipy.stats.spearmanr(pairs[name], pairs[response]).statistic
            if abs(correlation) > 1 - LEFT:
                found[name] = f"a leak: it {'rises' if correlation > 0 else 'falls'} with the response everywhere"
    numbers = [name for name in numbers if name not in found]
    complete = drawn(rows.select(*numbers, response).drop_nulls())
    while numbers and len(complete) > 10 * len(numbers):
        parts, slopes = linear_parts(complete, numbers, response)
        if not parts:
            break
        leaking = [name for name, slope in zip(parts, slopes, strict=True) if slope > 0] or parts
        for name in leaking:
            others = [part for part in parts if part != name]
            beside = f"with {', '.join(others)} " if others else ""
            found[name] = f"a leak: {beside}it gives the response exactly"
        numbers = [name for name in numbers if name not in leaking]
    return found


def near_sums(rows: pl.DataFrame, numbers: Sequence[str], response: str) -> dict[str, str]:
    """The numbers that nearly give a response away, with the reason for each: the file lacks small amounts of a sum.

    Either the response is a part of a total, such as a tip beside total = fare + tip + tolls + taxes, or it is the total. In the
    regression of the total each part has a slope near 1, and leaves more variance if it is dropped.
    """
    complete = drawn(rows.select(*numbers, response).drop_nulls())
    if len(numbers) < 2 or len(complete) <= 10 * len(numbers):
        return {}
    found: dict[str, str] = {}
    for total in (response, *numbers):
        parts = [name for name in (response, *numbers) if name != total and name not in found]
        y = complete[total].to_numpy().astype(float)
        left, slopes = share_left(complete, parts, y)
        if left > LACKING:
            continue
        spread = complete.select(pl.col(parts).cast(pl.Float64).std(ddof=0)).row(0)
        units = [
            name
            for name, slope, size in zip(parts, slopes, spread, strict=True)
            if size > 0
            and abs(slope / size - 1) <= NEAR_ONE
            and share_left(complete, [part for part in parts if part != name], y)[0] >= MATTERS * max(left, LEFT)
        ]
        if len(units) < 2:
            continue
        if total == response:
            found |= dict.fromkeys(units, f"a leak: {' + '.join(units)} is nearly the response")
        elif response in units:
            found[total] = f"a leak: nearly the sum {' + '.join(units)}"
    return found


def twins(rows: pl.DataFrame, numbers: Sequence[str], response: str, source: str) -> dict[str, str]:
    """The numbers that may be the response in other words, with the reason for each: nearly the same, or alike by name and value,
    as the scores of two tests are. `source` is the name that the response has in the file."""
    found = {}
    for name in numbers:
        pairs = drawn(rows.select(name, response).drop_nulls())
        if min(pairs[name].n_unique(), pairs[response].n_unique(), len(pairs) - 2) < 2:
            continue
        correlation = abs(float(np.corrcoef(pairs[name].cast(pl.Float64), pairs[response].cast(pl.Float64))[0, 1]))
        if correlation >= TWIN or (are_alike(name, source) and correlation >= LIKE):
            found[name] = (
                f"a leak, if it is measured with {source} (correlation {correlation:.2f}); add it if it is known before"
            )
    return {} if len(found) == len(numbers) else found


def are_alike(name: str, other: str) -> bool:
    """Whether two names are as long and begin and end alike, as `mathscr` and `readscr`."""
    same = [first == second for first, second in zip(name, other, strict=False)]
    same_from_end = [first == second for first, second in zip(name[::-1], other[::-1], strict=False)]
    common = sum(len(list(itertools.takewhile(bool, each))) for each in (same, same_from_end))
    is_word = sum(letter.isalpha() for letter in name) > 2
    return is_word and len(name) == len(other) and common >= ALIKE * len(name)


def standing_for(pairs: pl.DataFrame, fewest: int) -> tuple[Any, Any] | None:
    """A `value` that stands for a class of a `response`, and the class: it has nearly all rows of the class, and hardly a tenth
    of the other rows that chance would give it. Values of `fewest` rows count; None if none does."""
    cells = (
        pairs.group_by("value", "response")
        .agg(rows=pl.len())
        .with_columns(of_value=pl.col("rows").sum().over("value"), of_class=pl.col("rows").sum().over("response"))
    )
    others = (pl.col("of_value") - pl.col("rows")) / pl.col("of_value")
    by_chance = 1 - pl.col("of_class") / len(pairs)
    found = cells.filter(
        pl.col("rows") >= fewest, pl.col("rows") >= NEARLY * pl.col("of_class"), others <= (1 - NEARLY) * by_chance
    ).sort("rows", descending=True)
    return (found["value"][0], found["response"][0]) if len(found) else None


def linear_parts(rows: pl.DataFrame, numbers: Sequence[str], response: str) -> tuple[list[str], list[float]]:
    """The fewest numbers of which a response is a linear function, and their slopes; none if it is no such function."""
    y = rows[response].to_numpy().astype(float)
    parts = list(numbers)
    if share_left(rows, parts, y)[0] > LEFT:
        return [], []
    for name in numbers:
        without = [part for part in parts if part != name]
        if share_left(rows, without, y)[0] <= LEFT:
            parts = without
    return parts, share_left(rows, parts, y)[1]


def share_left(rows: pl.DataFrame, numbers: Sequence[str], y: np.ndarray) -> tuple[float, list[float]]:
    """The share of the variance of `y` that a linear regression leaves, and the slopes, in standard deviations."""
    x = rows.select(pl.col(numbers).cast(pl.Float64)).to_numpy().reshape(len(rows), len(numbers))
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    y = y - y.mean()
    slopes = np.linalg.lstsq(x, y)[0]
    return float(((y - x @ slopes) ** 2).sum() / max((y**2).sum(), 1e-300)), slopes.tolist()


def strengths(rows: pl.DataFrame, names: Sequence[str], factors: Collection[str], response: str) -> dict[str, float]:
    """The share of the variance of a response that each column explains by itself, less what chance would; 0 for one that may
    explain nothing."""
    found = {}
    for name in names:
        pairs = drawn(rows.select(name, response).drop_nulls())
        values = pairs[response]
        # For classes, take the class that the column explains best.
        outcomes = (
            [values] if values.dtype.is_numeric() else [values == each for each in values.unique(maintain_order=True)]
        )
        found[name] = max((strength(pairs[name], name in factors, y.cast(pl.Float64)) for y in outcomes), default=0.0)
    return found


def strength(column: pl.Series, is_factor: bool, response: pl.Series) -> float:
    """The share of the variance of a response that a column explains, less what chance would; 0 if it may explain nothing."""
    y = response.to_numpy()
    total = ((y - y.mean()) ** 2).sum() if len(y) else 0.0
    if not total or column.n_unique() < 2:
        return 0.0
    if is_factor:
        pairs = pl.DataFrame({"level": column, "y": response})
        means = pairs.select(pl.col("y").mean().over("level")).to_series().to_numpy()
        left, size = ((y - means) ** 2).sum(), column.n_unique() - 1
    else:
        left, size = total * (1 - np.corrcoef(column.to_numpy().astype(float), y)[0, 1] ** 2), 1
    free = len(y) - size - 1
    if free <= 0:
        return 0.0
    explained = 1 - left / total
    p_value = scipy.stats.f.sf(explained / size / max((1 - explained) / free, 1e-300), size, free)
    return float(1 - (1 - explained) * (len(y) - 1) / free) if p_value < CHANCE else 0.0


def effective_units(rows: pl.DataFrame, number: str | pl.Expr, unit: str) -> float:
    """The effective number of units of a number: few, if some units have nearly all of its variation."""
    values = (pl.col(number) if isinstance(number, str) else number).cast(pl.Float64)
    squares = rows.select(unit, square=(values - values.mean()) ** 2).group_by(unit).agg(pl.col("square").sum())
    of_units = squares["square"].to_numpy()
    return float(of_units.sum() ** 2 / max((of_units**2).sum(), 1e-300))


def separates(rows: pl.DataFrame, factors: Collection[str], response: str) -> bool:
    """Whether covariates tell some classes of a response apart without error, so that coefficients would be infinite.

    Then a linear programme finds coefficients that are wrong for no row (Albert and Anderson, 1984).
    """
    from scipy.optimize import linprog

    rows = drawn(rows.drop_nulls(), MOST_SEPARATED)
    numbers = [name for name in rows.columns if name not in (*factors, response)]
    x = rows.select(pl.col(numbers).cast(pl.Float64)).to_numpy().reshape(len(rows), len(numbers))
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)
    dummies = rows.select(*factors).to_dummies(drop_first=True).to_numpy() if factors else np.zeros((len(rows), 0))
    x = np.column_stack([np.ones(len(rows)), x, dummies])
    y = (rows[response].rank("dense") - 1).to_numpy().astype(int)
    classes, width = int(y.max()) + 1, x.shape[1]
    # A margin is the linear predictor of a row's own class minus that of another class; the last class has 0.
    blocks = []
    for other in range(classes):
        differs = np.flatnonzero(y != other)
        block = np.zeros((len(differs), classes, width))
        block[np.arange(len(differs)), y[differs]] += x[differs]
        block[np.arange(len(differs)), other] -= x[differs]
        blocks.append(block[:, :-1].reshape(len(differs), -1))
    margins = np.concatenate(blocks)
    best = linprog(-margins.sum(axis=0), A_ub=-margins, b_ub=np.zeros(len(margins)), bounds=(-1, 1), method="highs")
    return bool(best.status == 0 and -best.fun > SEPARATED)


def functions_of_two(rows: pl.DataFrame, names: Sequence[str], units: int) -> dict[str, str]:
    """The columns of few values that two others determine together, with the reason; the later ones of a file first. `names`
    may be covariates, in the order of the file. The rows are about so many `units`: two columns that tell all units apart
    determine whatever is known of a unit."""
    rows = drawn(rows.select(names).drop_nulls())
    most = min(units, len(rows)) // 4
    codes = {name: (rows[name].rank("dense") - 1).to_numpy().astype(np.int64) for name in names} if len(rows) else {}
    values = {name: int(code.max()) + 1 for name, code in codes.items()}
    found: dict[str, str] = {}
    for name in reversed(list(codes)):
        others = [other for other in codes if other != name and other not in found and values[other] <= most]
        if not 2 <= values[name] <= MOST_VALUES:
            continue
        alone = {other for other in others if determines(codes[other], codes[name], values[name])}
        for first, second in itertools.combinations([other for other in others if other not in alone], 2):
            pairs = codes[first] * values[second] + codes[second]
            if len(np.unique(pairs)) <= most and determines(pairs, codes[name], values[name]):
                found[name] = f"determined by {first} and {second}"
                break
    return found


def determines(codes: np.ndarray, others: np.ndarray, values: int) -> bool:
    """Whether each of some codes has one other code only, of so many `values`."""
    return len(np.unique(codes * values + others)) == len(np.unique(codes))


def drawn(rows: pl.DataFrame, most: int = MOST_ROWS) -> pl.DataFrame:
    return rows.sample(most, seed=1) if len(rows) > most else rows
