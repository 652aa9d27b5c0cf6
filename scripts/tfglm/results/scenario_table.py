"""The table of means and marginal effects in scenarios, and of differences between scenarios."""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.formula.response import Logarithm
from tfglm.inference.fitted import Fitted, choose_references
from tfglm.inference.reference import Fewest, fewest_for
from tfglm.results.events import few_events
from tfglm.results.geometric import RATIOS, RETRANSFORMED, logarithm_of, powers
from tfglm.results.marginal_tables import (
    EMPTY_COMBINATION,
    NO_MEAN,
    Averaged,
    Estimated,
    InferenceOfAverages,
    InScenario,
    Levels,
    events_by_level,
)

NAMES = ("at", "against", "term", "level", "reference")
MEASURES = ("estimate", "std_error", "df", "statistic", "p_value", "ci_lower", "ci_upper", "status")

NO_DIFFERENCE = "0: the model has no interaction by which these scenarios could differ"

ROUNDED = 1e-10
"""Share of a derivative that is the rounding of a difference of 0."""

Key = tuple[str, str, str]
"""Term, level and reference level of an effect; all '' of the mean response, and the levels '' of a slope."""


def scenario_table(
    design: Design,
    fitted: Fitted,
    averaged: Averaged,
    reference: Mapping[str, str],
    confidence: float,
    contrasts: Mapping[str, Mapping[str, float]] | None = None,
    fewest: Fewest | None = None,
    comparison: str = "difference",
) -> pd.DataFrame:
    """Return the means and effects in each scenario, and their differences between scenarios. `contrasts` has the weights of
    scenarios by the name of a contrast; by default each scenario is compared with all before it. The other arguments are
    those of `marginal_tables`.

    Columns: class (of a regression of classes), at (a scenario or a contrast), against (the scenario that is subtracted),
    term ('' for the mean response), level, reference, estimate, std_error, df, statistic, p_value (not of a mean, which is
    no effect), ci_lower, ci_upper, status. A difference of effects is a second difference: how much an effect depends on the
    scenario. If the response is a logarithm, also the columns of `geometric.RETRANSFORMED` for means and of
    `geometric.RATIOS` for differences and effects. With a `comparison` other than difference the same combinations of logarithms
    of means, or of their odds, as ratios: a difference of effects is a ratio of ratios.
    """
    if not averaged.scenarios:
        raise UserError(f"models.{design.model}: there are no scenarios; name some under `margins_at`")
    references, fitted = choose_references(design, fitted.status, reference), averaged.of(design, fitted)
    inference = InferenceOfAverages(design, fitted, confidence, fewest or fewest_for(design), comparison)
    weights: dict[tuple[str, str], Mapping[str, float]] = {(name, ""): {name: 1.0} for name in averaged.scenarios}
    if contrasts:
        weights |= {(name, ""): row for name, row in contrasts.items()}
    else:
        weights |= {(b, a): {b: 1.0, a: -1.0} for a, b in combinations(averaged.scenarios, 2)}

    def listed(number: int, label: str, comparison: str) -> tuple[list[tuple[str, ...]], Estimated]:
        known = {
            name: dict(effects_in(inference, scenario, references, number, label, comparison))
            for name, scenario in averaged.scenarios.items()
        }
        combinations_of = {
            (*names, *key): combined(row, known, key)
            for names, row in weights.items()
            for key in known[next(iter(row))]
            if all(key in known[name] for name in row)
        }
        return list(combinations_of), Estimated(*map(np.concatenate, zip(*combinations_of.values(), strict=True)))

    tables = []
    for number, label in enumerate(design.likelihood.class_labels if design.equations else ("",)):
        names, estimated = listed(number, label, "difference")
        table = pd.DataFrame(names, columns=list(NAMES))
        table = table.assign(**inference(estimated))
        table.loc[table["status"] == NO_DIFFERENCE, "estimate"] = 0.0
        if inference.has_ratios:
            table = table.assign(**inference.ratios(listed(number, label, comparison)[1]))
        table = table.reindex(columns=[*NAMES, *MEASURES, *inference.columns_of_ratios])
        is_mean = (table["term"] == "") & table["at"].isin(list(averaged.scenarios)) & (table["against"] == "")
        table.loc[is_mean, ["statistic", "p_value", *inference.columns_of_ratios]] = np.nan
        if design.equations:
            table.insert(0, "class", label)
        tables.append(table)
    table = pd.concat(tables, ignore_index=True)
    of_means = [0.0 if row.term else sum(weights[row.at, row.against].values()) for row in table.itertuples()]
    logarithm = logarithm_of(design.formula, design.likelihood.family, design.likelihood.link)
    return averaged.labelled(with_geometric_means_and_ratios(table, logarithm, np.array(of_means)))


def with_geometric_means_and_ratios(
    table: pd.DataFrame, logarithm: Logarithm | None, weights: np.ndarray
) -> pd.DataFrame:
    """Return a table of combinations of means with geometric means or ratios of them beside the estimates. `weights` [rows]
    are the sums of the weights of means: 1 of a mean, 0 of a difference. Others are neither, and stay empty."""
    if logarithm is None:
        return table
    of_means = dict(zip(RATIOS, RETRANSFORMED.values(), strict=True))
    for weight, names in ((1.0, of_means), (0.0, RATIOS)):
        has = np.isclose(weights, weight)
        columns = powers(table, logarithm, names)
        table = table.assign(**{name: np.where(has, column, np.nan) for name, column in columns.items()})
    return table


def combined(weights: Mapping[str, float], known: Mapping[str, Mapping[Key, Estimated]], key: Key) -> Estimated:
    """The sum of an effect over scenarios with these weights."""
    parts = [(weight, known[name][key]) for name, weight in weights.items() if weight]
    derivatives = np.array([weight * each.derivative[0] for weight, each in parts])
    status = next((str(each.status[0]) for _, each in parts if each.status[0]), "")
    if not status and np.abs(derivatives.sum(axis=0)).max() <= ROUNDED * np.abs(derivatives).sum(axis=0).max():
        status = NO_DIFFERENCE
    return Estimated(
        sum((weight * each.estimate for weight, each in parts), np.zeros(1)),
        derivatives.sum(axis=0, keepdims=True),
        np.array([status]),
        np.any([each.rare for _, each in parts], axis=0),
    )


def effects_in(
    inference: InferenceOfAverages,
    scenario: InScenario,
    references: Mapping[str, int],
    number: int,
    label: str,
    comparison: str,
) -> Iterator[tuple[Key, Estimated]]:
    """The mean response and the effects in a scenario, of the class with this number and label, on the scale of a
    comparison, on which slopes are NaN."""
    design, response = inference.design, scenario.averages[""][number]
    has_mean = np.isfinite(response.mean[0]) and np.isfinite(response.derivative).all()
    reasons = {"separated": response.infinite[0], EMPTY_COMBINATION: response.unknown[0], NO_MEAN: not has_mean}
    status = next((reason for reason, holds in reasons.items() if holds), "")
    rare = np.array([any(is_rare(inference, *level, label) for level in scenario.set_levels.items())])

    def within(effect: Estimated) -> Estimated:
        """An effect, if the scenario has one."""
        of_scenario = np.full(len(effect.status), status) if status else effect.status
        estimate = np.where(status != "", np.nan, effect.estimate)
        derivative = np.where(status != "", 0.0, effect.derivative)
        return Estimated(estimate, derivative, of_scenario, effect.rare | rare)

    is_scaled = comparison != "difference"
    mean = within(Estimated(response.mean, response.derivative, np.array([status]), rare))
    yield ("", "", ""), mean.on(comparison)
    factors = design.categorical_by_name
    for term in (term for term in scenario.averages if term in factors):
        levels = Levels(inference, factors[term], scenario.averages[term][number], label)
        every = within(levels.differences(references[term], comparison))
        for place, level in enumerate(levels.others(references[term])):
            yield (term, factors[term].levels[level], factors[term].levels[references[term]]), every.at([place])
    for term in (term for term in scenario.averages if term and term not in factors):
        slope = within(inference.slope(term, scenario.averages[term][number]))
        yield (term, "", ""), slope._replace(estimate=np.full(1, np.nan)) if is_scaled else slope


def is_rare(inference: InferenceOfAverages, term: str, level: int, label: str) -> bool:
    """Whether a level that a scenario sets has too few events for a test with clusters."""
    design, fitted = inference.design, inference.fitted
    factor = design.categorical_by_name[term]
    rows = design.by_level(term, fitted.rows)
    return bool(few_events(design, rows, events_by_level(design, fitted, factor, label))[level])
