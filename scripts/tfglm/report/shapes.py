"""The shapes of curves in words: where they rise and fall by more than chance explains."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tfglm.families import family_of_fit
from tfglm.report.class_effects import compares_classes
from tfglm.report.curves import Curve, curves_of, surfaces_of
from tfglm.report.words import Words
from tfglm.results.compare import response_of
from tfglm.results.digits import four_that_count, p_in_words, with_error
from tfglm.results.event_study import AVERAGE, BEFORE

MOST_TURNS = 4
"""Parts of a curve that a sentence tells."""


@dataclass(frozen=True)
class Rise:
    """A part of a curve that rises, or falls, up to the value `until`."""

    is_up: bool
    until: float


def rises(points: pd.DataFrame) -> list[Rise]:
    """The parts of a curve that clearly rise or fall, in turn; none if it does neither.

    Parameters
    ----------
    points
        A curve of `results.effects`: value, effect, ci_lower and ci_upper.

    Returns
    -------
    The parts. The ends of each differ by more than their intervals reach together. For ends on either side of the value that
    others are compared with, that is the test of a straight line; elsewhere it is stricter, so it names no small wave.

    Examples
    --------
    >>> curve = pd.DataFrame({"value": [0, 1, 2, 3, 4], "effect": [0.0, 1.0, 3.0, 2.9, 0.5]})
    >>> rises(curve.assign(ci_lower=curve["effect"] - 0.5, ci_upper=curve["effect"] + 0.5))
    [Rise(is_up=True, until=2.0), Rise(is_up=False, until=4.0)]
    """
    value, effect = (points[name].to_numpy(float) for name in ("value", "effect"))
    reach = (points["ci_upper"] - points["ci_lower"]).to_numpy(float) / 2
    found: list[Rise] = []
    low = high = 0  # the extremes of the last part
    for place in range(len(value)):
        low, high = (place if effect[place] < effect[low] else low), (place if effect[place] > effect[high] else high)
        was_up = found[-1].is_up if found else None
        for is_up, turn in ((True, low), (False, high)):
            if was_up is not is_up and abs(effect[place] - effect[turn]) > reach[place] + reach[turn]:
                if found:
                    found[-1] = Rise(not is_up, float(value[turn]))
                found.append(Rise(is_up, float(value[place])))
                low = high = place
                break
    if found:
        found[-1] = Rise(found[-1].is_up, float(value[high if found[-1].is_up else low]))
    return found


def shapes_of(
    fit: Mapping[str, Any], effects: pd.DataFrame, words: Words, studies: pd.DataFrame | None = None
) -> list[str]:
    """The shapes of the curves of a fit, in sentences; none for classes and for a penalised fit. `effects` is the table of
    `results.effects`, and `studies` that of `results.event_study`."""
    if compares_classes(fit) or "std_error" not in effects:
        return []
    family, response = family_of_fit(fit), words.column(response_of(fit))
    response = f"a higher class of {response}" if fit.get("ordered") else response
    of_mean = "mean" if family.quadratic else "linear predictor"
    what = family.ratio.removesuffix("_ratio") if family.ratio else of_mean
    subject = f"the {what} of {response}"
    paths = [] if studies is None else paths_in_words(studies, subject, bool(family.ratio))
    return paths + shapes_in_words(effects, subject, what == "odds", words)


def paths_in_words(studies: pd.DataFrame, subject: str, is_ratio: bool) -> list[str]:
    """The average effect of each event study of `results.event_study`, and the test of the periods before the treatment, in
    sentences."""
    sentences = []
    for term, rows in studies.groupby("term", sort=False):
        (average,) = rows[rows["about"] == AVERAGE].to_dict("records")
        limits = [average[name] for name in ("estimate", "ci_lower", "ci_upper")]
        size, *around = (math.exp(value) if is_ratio else value for value in limits)
        effect, ends = with_error(size, around, 2)
        between = f" ({' to '.join(ends)})" if np.isfinite(limits).all() else ""
        what = f"{subject} times {effect}" if is_ratio else f"effect on {subject} {effect}"
        sentence = f"{term}: average since the treatment, {what}{between}"
        for test in rows[rows["about"] == BEFORE].to_dict("records"):
            known = p_in_words(test["p_value"]) or str(test["note"])
            sentence += f"; joint test that all periods before it have the effect 0: {known}"
        sentences.append(f"{sentence}.")
    return sentences


def shapes_in_words(effects: pd.DataFrame, subject: str, is_plural: bool, words: Words) -> list[str]:
    """A sentence for each curve of `results.effects` with intervals: `hour: the odds of late rise until 19, then fall.` A
    sentence for a surface says where it differs most clearly: `hour and wind: the odds of late are most clearly raised at 19
    and 12, compared with 11 and 4.` A curve that multiplies wind has `hour: the slope of wind falls; it is above 0 until 9,
    and below 0 from 14.` The subject is what rises and falls."""

    def what_changes(curve: Curve) -> tuple[str, bool]:
        """The subject of a curve, and whether it is a plural."""
        return (f"the slope of {words.column(curve.slope_of)}", False) if curve.slope_of else (subject, is_plural)

    sentences = []
    for curve in curves_of(effects):
        points = curve.points.sort_values("value")
        if points["ci_lower"].isna().any() or curve.is_path:
            continue
        column, at = points["column"].iloc[0], points["at"].iloc[0]
        what, is_many = what_changes(curve)
        unit = f" {words.units[column]}" if column in words.units else ""
        parts, last = rises(points), float(points["value"].iloc[-1])
        said = [
            f"{verb(part.is_up, is_many)}{'' if part.until == last else f' until {four_that_count(part.until)}{unit}'}"
            for part in parts[:MOST_TURNS]
        ]
        sentence = f"{what} {', then '.join(said)}" if parts else f"no clear change of {what}"
        if len(parts) > MOST_TURNS:
            sentence += ", and turn again" if is_many else ", and turns again"
        sentence += f"; {sign_in_words(points, unit)}" if curve.slope_of else ""
        sentences.append(f"{words.column(column)}{f' ({at})' if at else ''}: {sentence}.")
    for surface in surfaces_of(effects):
        if surface.points["ci_lower"].notna().all():
            sentences.append(surface_in_words(surface.points, *what_changes(surface), words))
    return sentences


def sign_in_words(points: pd.DataFrame, unit: str) -> str:
    """Where a slope is clearly not 0, with a `unit` after each value.

    Examples
    --------
    >>> curve = pd.DataFrame({"value": [0.0, 1.0, 2.0, 3.0], "ci_lower": [1, 1, -1, -3], "ci_upper": [2, 2, 1, -1]})
    >>> sign_in_words(curve, " h")
    'it is clearly above 0 until 1 h, and below 0 from 3 h'
    """
    signs = np.where(points["ci_lower"] > 0, 1, np.where(points["ci_upper"] < 0, -1, 0))
    values, said = points["value"].to_numpy(float), []
    starts = np.flatnonzero(np.diff(signs, prepend=2))
    for first, last in zip(starts, [*starts[1:] - 1, len(signs) - 1], strict=True):
        begins = f" from {four_that_count(values[first])}{unit}" if first else ""
        ends = f" {'to' if first else 'until'} {four_that_count(values[last])}{unit}" if last < len(signs) - 1 else ""
        if signs[first]:
            said.append(
                f"{'above' if signs[first] > 0 else 'below'} 0{begins}{ends}" + " everywhere" * (not begins + ends)
            )
    more = ", and at other values" if len(said) > MOST_TURNS else ""
    return (
        f"it is clearly {', and '.join(said[:MOST_TURNS])}{more}" if said else "nowhere is it clearly above or below 0"
    )


def surface_in_words(points: pd.DataFrame, subject: str, is_plural: bool, words: Words) -> str:
    """Where a surface is high and low: the points that differ most clearly from the values nearest the means; of a slope, from
    0."""
    names = [str(points[name].iloc[0]) for name in ("column", "column_2")]
    units = [f" {words.units[name]}" if name in words.units else "" for name in names]

    def place(row: pd.Series) -> str:
        values = zip((row["value"], row["value_2"]), units, strict=True)
        return " and ".join(f"{four_that_count(value)}{unit}" for value, unit in values)

    high, low = points.loc[points["ci_lower"].idxmax()], points.loc[points["ci_upper"].idxmin()]
    middle = pd.Series({"value": points["reference"].iloc[0], "value_2": points["reference_2"].iloc[0]})
    is_slope = middle.isna().all()
    raised, lowered = ("above 0", "below 0") if is_slope else ("raised", "lowered")
    said = [f"most clearly {raised} at {place(high)}"] * bool(high["ci_lower"] > 0)
    said += [f"most clearly {lowered} at {place(low)}"] * bool(low["ci_upper"] < 0)
    sentence = f"{subject} {'are' if is_plural else 'is'} {', and '.join(said)}"
    sentence += "" if is_slope else f", compared with {place(middle)}"
    at = points["at"].iloc[0]
    columns = f"{words.column(names[0])} and {words.column(names[1])}{f' ({at})' if at else ''}"
    unclear = subject.removeprefix("the ") if is_slope else f"change of {subject}"
    return f"{columns}: {sentence if said else f'no clear {unclear}'}."


def verb(is_up: bool, is_plural: bool) -> str:
    return ("rise" if is_up else "fall") + ("" if is_plural else "s")
