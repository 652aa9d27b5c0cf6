"""What a reader sees first of a model: its strongest effects in words with their picture, and what limits trust in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from types import MappingProxyType
from typing import Any

import pandas as pd
from markupsafe import Markup

from tfglm.formula.names import without_class
from tfglm.formula.parse import term_of
from tfglm.formula.terms import EventStudy
from tfglm.report.inline import InlineAxis
from tfglm.report.sentences import Effect, TermSentences
from tfglm.results.accuracy import SERIAL, SURVEY

MOST = 3
"""Effects that are shown, and warnings."""

LONGEST_WARNING = 200
"""Letters of a warning here, without its remedy; the section of the model has it whole."""

FEW_CLUSTERS = 30
"""Fewer clusters are named as a limit: intervals from them are wide, and their level is not sure."""


@dataclass(frozen=True)
class LeadEffect:
    """An effect in words, and its interval as a picture."""

    sentence: str
    picture: Markup


def lead_effects(
    effects: Sequence[TermSentences], tests: pd.DataFrame, shapes: Mapping[str, str] = MappingProxyType({})
) -> list[LeadEffect]:
    """The clear effects of the terms with the strongest evidence, in the order of it; further ones of the same terms where there
    are few terms.

    Parameters
    ----------
    effects
        All sentences about a model.
    tests
        The joint tests: term, chi_squared and df.
    shapes
        The shape of the curve of a column in words, which stands for an average slope that is not clear. Its picture is in the
        section of the model.
    """
    told: list[tuple[int, float, Effect | None, bool, str]] = []
    for each in effects:
        of_term = sorted(zip(each.sizes, each.sentences, strict=False), key=lambda one: -evidence(one[0]))
        told += [
            (place, -max(evidence(size), joint_evidence(each.term, tests)), size, each.of_response, sentence)
            for place, (size, sentence) in enumerate(of_term)
            if size.is_clear
        ]
    sloping = {each.term for each in effects if any(size.is_clear for size in each.sizes)}
    told += [
        (0, -joint_evidence(column, tests), None, False, shape)
        for column, shape in shapes.items()
        if column not in sloping
    ]
    chosen = sorted(told, key=lambda one: one[:2])[:MOST]
    axes = {kind: axis([size for _, _, size, of, _ in chosen if size and of is kind]) for kind in (True, False)}
    return [
        LeadEffect(sentence, axes[kind].interval(size.estimate, size.lower, size.upper) if size else Markup())
        for _, _, size, kind, sentence in chosen
    ]


def evidence(effect: Effect) -> float:
    """The square of an estimate over about its standard error."""
    width = effect.upper - effect.lower
    return (4 * effect.estimate / width) ** 2 if width > 0 else 0.0


def joint_evidence(term: str, tests: pd.DataFrame) -> float:
    """The largest Wald statistic, less what it is without an effect, of a term or of those with its column; 0 without any."""
    columns = set(term_of(without_class(term)).columns)
    own = [bool(columns & set(term_of(str(name)).columns)) for name in tests["term"]]
    return float((tests["chi_squared"] - tests["df"])[own].max()) if tests["chi_squared"][own].notna().any() else 0.0


def axis(effects: Sequence[Effect]) -> InlineAxis:
    """An axis for some effects and for none."""
    ends = [0.0, *(end for effect in effects for end in (effect.lower, effect.upper))]
    margin = 0.06 * (max(ends) - min(ends)) or 1.0
    return InlineAxis(min(ends) - margin, max(ends) + margin, [], [], 0.0)


def limits(fit: Mapping[str, Any], tests: pd.DataFrame) -> list[str]:
    """What limits trust in the numbers of a regression, in sentences."""
    kind, found = fit["std_errors"]["kind"], []
    warned = [
        f"Warning: {shorten(warning.split('; ')[0], LONGEST_WARNING, placeholder=' ...')}."
        for warning in fit["warnings"][:MOST]
    ]
    if kind == "cluster":
        clusters, column = fit["std_errors"]["clusters"] or 0, fit["std_errors"]["column"]
        found.append(f"Intervals allow for rows with the same {column} being alike.")
        if clusters < FEW_CLUSTERS:
            found.append(f"There are only {clusters:,} clusters of {column}.")
    elif kind in SERIAL:
        found.append(f"Intervals allow for rows of close {fit['std_errors']['column']} being alike.")
    elif kind == SURVEY:
        found.append(f"Intervals are by {fit['std_errors']['df']:g} degrees of freedom of the survey.")
    elif kind != "none":
        given = " given the random effects" if any(each["is_random"] for each in fit.get("smooths", [])) else ""
        variance = " and vary as the family says" if kind == "classical" else ""
        found.append(f"Intervals are right if rows are independent{given}{variance}.")
    else:
        found.append("There are no standard errors.")
    kinds = {term: term_of(without_class(term)) for term in tests["term"][tests["p_value"].isna()] if kind != "none"}
    # Random effects have a standard deviation instead, and event studies tests of their periods.
    untested = [term for term, each in kinds.items() if not (each.is_random or isinstance(each, EventStudy))]
    if untested:
        more = f" and {len(untested) - MOST} more" if len(untested) > MOST else ""
        found.append(
            f"There is no joint test of {', '.join(untested[:MOST])}{more}: the table of joint tests says why."
        )
    return [*warned, *found]
