"""Averages over the levels that random effects have in the population, not over those in the training rows.

By default the random effects are 0, their mean. Otherwise averages are integrated over the normal distributions of the random
effects, by Gauss-Hermite quadrature: at each node all levels have the same effects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tfglm.design.design import Design
from tfglm.design.terms import Part
from tfglm.errors import UserError
from tfglm.inference.fitted import Fitted

NODES = {0: 1, 1: 31, 2: 15, 3: 9}
"""Nodes in each dimension, by the number of these: one for random intercepts, and one for each number with random slopes."""

AT_ZERO = "population, random effects at 0"
INTEGRATED = "population, integrated over random effects"


@dataclass(frozen=True)
class Population:
    """The nodes of an integral over random effects, whose places are `random`. In each of the `dimensions` the effects of
    some parts add up to one normal variable, with the `shares` of the parts in its variance. `nodes` have their weight, and
    the size of the variable in each dimension. `coefficients` are those of the fit with the random effects of each node,
    [p]. `about` says what the averages are about; '' without random effects."""

    random: np.ndarray
    dimensions: list[list[Part]]
    shares: list[np.ndarray]
    nodes: list[tuple[float, tuple[float, ...]]]
    coefficients: list[np.ndarray]
    about: str

    @classmethod
    def of(cls, design: Design, fitted: Fitted, coefficients: np.ndarray, random_effects: str) -> "Population":
        """The nodes for a fit with these coefficients, by the key of the config. Raises UserError for random slopes of more than
        two numbers with `integrated`."""
        places = [np.arange(part.where.start, part.where.stop) for part in design.random_parts]
        random = np.concatenate([*places, np.zeros(0, int)])
        about = INTEGRATED if random_effects == "integrated" else AT_ZERO
        if not len(random) or design.distribution.quadratic:
            about = "population" if len(random) else ""  # a mean that is linear in the effects
        dimensions = list(dimensions_of(design).values()) if about == INTEGRATED else []
        variances = variances_of(design, fitted) if dimensions else {}
        by_dimension = [np.array([variances[part.term.name] for part in parts]) for parts in dimensions]
        points, weights = np.polynomial.hermite_e.hermegauss(NODES[len(dimensions)])
        sizes = product(*(np.sqrt(each.sum()) * points for each in by_dimension))
        of_nodes = product(*[weights / weights.sum()] * len(dimensions))
        nodes = [(float(np.prod(weight)), size) for weight, size in zip(of_nodes, sizes, strict=True)]
        at_nodes = []
        for _, size in nodes:
            at_node = coefficients.copy()
            at_node[random] = 0.0
            for parts, effect in zip(dimensions, size, strict=True):
                at_node[parts[0].where] = effect
            at_nodes.append(at_node)
        shares = [each / (each.sum() or 1.0) for each in by_dimension]
        return cls(random, dimensions, shares, nodes, at_nodes, about)

    def merged(self, found: Sequence[Any]) -> Any:
        """The integral of averages, from those at each node in dictionaries, lists and tuples. In its derivatives by the
        coefficients [..., p] the first random effect of a term has the place of the logarithm of the standard deviation of
        the term, and the others are 0."""
        first = found[0]
        if isinstance(first, dict):
            return {key: self.merged([each[key] for each in found]) for key in first}
        if not hasattr(first, "derivative"):
            return [self.merged(each) for each in zip(*found, strict=True)]
        mean, derivative = 0.0, 0.0
        for (weight, size), each in zip(self.nodes, found, strict=True):
            by_fixed = each.derivative.copy()
            by_fixed[..., self.random] = 0.0
            for parts, shares, effect in zip(self.dimensions, self.shares, size, strict=True):
                along = effect * each.derivative[..., parts[0].where].sum(axis=-1)
                for part, share in zip(parts, shares, strict=True):
                    by_fixed[..., part.where.start] = share * along
            mean, derivative = mean + weight * each.mean, derivative + weight * by_fixed
        return first._replace(mean=mean, derivative=derivative)


def dimensions_of(design: Design) -> dict[Any, list[Part]]:
    """The random parts by what multiplies their effects. Raises UserError if there are too many."""
    dimensions: dict[Any, list[Part]] = {}
    for part in design.random_parts:
        dimensions.setdefault(part.multiplier, []).append(part)
    if len(dimensions) > max(NODES):
        raise UserError(
            f"models.{design.model}.random_effects: averages can be integrated over random slopes of two numbers at most; remove "
            "the key, or some random slopes"
        )
    return dimensions


def variances_of(design: Design, fitted: Fitted) -> dict[str, float]:
    """The variances of random effects by their term, on the scale of the fit; 0 where the fit found none."""
    deviations = {
        entry["term"]: entry.get("std_dev_at_origin", entry.get("std_dev", 0.0)) for entry in fitted.summary["smooths"]
    }
    random = [smooth for smooth in design.smooths if smooth.is_random]
    return {smooth.term: deviations[smooth.term] ** 2 / float(smooth.penalties[0, 0]) for smooth in random}
