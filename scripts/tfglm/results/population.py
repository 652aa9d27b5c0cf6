"""Averages over the levels that random effects have in the population, not over those in the training rows.

By default the random effects are 0, their mean. Otherwise averages are integrated over the normal distributions of the random
effects, by Gauss-Hermite quadrature: at each node all levels have the same effects.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from tfglm.design.design import Design
from tfglm.design.terms import Part
from tfglm.errors import UserError
from tfglm.results.marginal_tables import Averaged
from tfglm.solvers.fitted import FREE, Fitted

NODES = {1: 31, 2: 15, 3: 9}
"""Nodes in each dimension, by the number of these: one for random intercepts, and one for each number with random slopes."""

AT_ZERO = "population, random effects at 0"
INTEGRATED = "population, integrated over random effects"


def about(design: Design, random_effects: str) -> str:
    """What averages of a model are about, by the key of the config; '' without random effects."""
    if not design.random_parts:
        return ""
    if design.distribution.quadratic:
        return "population"  # the mean is linear, so both are the same
    return INTEGRATED if random_effects == "integrated" else AT_ZERO


class Node(NamedTuple):
    """Random effects: their `weight` and `size`, a number for each dimension, [dimensions]."""

    weight: float
    size: tuple[float, ...]


class Spread(NamedTuple):
    """A random term: the `first` place of its coefficients, its dimension, and the derivative of the standard deviation of this
    dimension by the logarithm of its own."""

    first: int
    dimension: int
    slope: float


def for_population(
    design: Design, fitted: Fitted, random_effects: str, average: Callable[[Fitted, int], Averaged]
) -> Averaged:
    """Return averages for the population of the levels of random effects.

    Parameters
    ----------
    design, fitted
        The model.
    random_effects
        The key of the config: `zero` or `integrated`.
    average
        Returns the averages at given coefficients, and takes the number of times that it is called.

    Returns
    -------
    In a derivative by the coefficients [..., p], the first random effect of a term has the place of the logarithm of the standard
    deviation of the term, and the others are 0.

    Raises
    ------
    UserError
        For random slopes of more than two numbers with `integrated`.
    """
    if not design.random_parts:
        return average(fitted, 1)
    random = np.concatenate([np.arange(part.where.start, part.where.stop) for part in design.random_parts])
    coefficients, status = fitted.coefficients.copy(), fitted.status.copy()
    coefficients[random], status[random] = 0.0, FREE
    dimensions, spreads, nodes = nodes_of(design, fitted, about(design, random_effects) == INTEGRATED)
    found = []
    for node in nodes:
        for part, size in zip(dimensions, node.size, strict=True):
            coefficients[part.where] = size
        found.append(average(replace(fitted, coefficients=coefficients.copy(), status=status), len(nodes)))

    def merged(parallel: Sequence[Any]) -> Any:
        """The weighted sum of averages of all nodes, in dictionaries and lists."""
        if isinstance(parallel[0], dict):
            return {key: merged([each[key] for each in parallel]) for key in parallel[0]}
        if isinstance(parallel[0], list):
            return [merged(each) for each in zip(*parallel, strict=True)]
        mean, derivative = 0.0, 0.0
        for node, each in zip(nodes, parallel, strict=True):
            by_fixed = each.derivative.copy()
            by_fixed[..., random] = 0.0
            for spread in spreads:
                of_dimension = each.derivative[..., dimensions[spread.dimension].where].sum(axis=-1)
                by_fixed[..., spread.first] = of_dimension * node.size[spread.dimension] * spread.slope
            mean, derivative = mean + node.weight * each.mean, derivative + node.weight * by_fixed
        return parallel[0]._replace(mean=mean, derivative=derivative)

    scenarios = {
        name: replace(
            scenario,
            **{
                what: merged([getattr(each.scenarios[name], what) for each in found])
                for what in ("response", "levels", "slopes")
            },
        )
        for name, scenario in found[0].scenarios.items()
    }
    levels, slopes = (merged([getattr(each, what) for each in found]) for what in ("levels", "slopes"))
    return replace(found[0], levels=levels, slopes=slopes, scenarios=scenarios, about=about(design, random_effects))


def nodes_of(design: Design, fitted: Fitted, is_integrated: bool) -> tuple[list[Part], list[Spread], list[Node]]:
    """A part of each dimension, the random terms, and the nodes. Effects with one multiplier add up to one normal variable."""
    if not is_integrated:
        return design.random_parts[:1], [], [Node(1.0, (0.0,))]
    deviations = {entry["term"]: entry.get("std_dev", 0.0) for entry in fitted.summary["smooths"]}
    variances = {  # on the scale of the fit
        smooth.term: deviations[smooth.term] ** 2 / float(smooth.penalties[0, 0])
        for smooth in design.smooths
        if smooth.is_random
    }
    dimensions: dict[Any, list[Part]] = {}
    for part in design.random_parts:
        dimensions.setdefault(part.multiplier, []).append(part)
    if len(dimensions) > max(NODES):
        raise UserError(
            f"models.{design.model}.random_effects: averages can be integrated over random slopes of two numbers at most; remove "
            "the key, or some random slopes"
        )
    points, weights = np.polynomial.hermite_e.hermegauss(NODES[len(dimensions)])
    spreads, sizes = [], []
    for dimension, parts in enumerate(dimensions.values()):
        total = sum(variances[part.term.name] for part in parts)
        sizes.append(np.sqrt(total) * points)
        shares = [variances[part.term.name] / total if total else 0.0 for part in parts]
        spreads += [Spread(part.where.start, dimension, share) for part, share in zip(parts, shares, strict=True)]
    of_nodes = product(*[weights / weights.sum()] * len(sizes))
    nodes = [Node(float(np.prod(weight)), size) for weight, size in zip(of_nodes, product(*sizes), strict=True)]
    return [parts[0] for parts in dimensions.values()], spreads, nodes
