"""The quadratic problem of an elastic net's step: the least g'v + v'Hv / 2 + sum(threshold |start + v|) over steps v.

By the search for the signs of Lee, Battle, Raina & Ng (NIPS 2006), several at a time:

1. End if no KKT condition is broken by more than the precision.
2. Coefficients at zero whose condition is broken enter, with the sign that lowers the function.
3. The direction is a Newton step on those that are not zero or enter; without those that it would take to the other side.
4. Go along it as far as the function falls; what reaches zero stays there, and leaves.
"""

from dataclasses import replace

import numpy as np
import scipy.linalg

from tfglm.solvers.information import Blocks, factor

NUGGET = 1e-11
"""Added to the diagonal of the quadratic function, as a share of it and around the point where the search stands, as columns with
all levels are redundant. The minimum of the function without it is found all the same."""

MOST_CHANGES = 500
"""Of the set of coefficients that are not zero, within one quadratic problem."""


class NotSolved(Exception):
    """The search for the signs has changed them as often as it may."""


def solve(
    blocks: Blocks, gradient: np.ndarray, start: np.ndarray, threshold: np.ndarray, precision: float
) -> np.ndarray:
    """The step from `start` to the minimum, [p], to within `precision` of its KKT conditions. `blocks` are H, `gradient` is g at
    `start`. Raises NotSolved if that takes too long."""
    x, residual = start.copy(), gradient.copy()
    present = np.zeros(len(x), bool)
    present[blocks.dense] = present[blocks.eliminated] = True
    free = present & (threshold == 0)
    singly = False
    for _ in range(MOST_CHANGES):
        active = free | (present & (x != 0))
        excess = np.where(present & ~active, np.abs(residual) - threshold, 0.0)
        left = np.abs(residual + threshold * np.sign(x))[active].max(initial=0.0)
        if max(excess.max(initial=0.0), left) <= precision:  # 1.
            return x - start
        entering = excess > precision  # 2.
        if singly or left > 0.1 * excess.max(initial=0.0):
            # The signs of those that are there first, then others.
            entering &= excess == excess.max() if singly else False
        sign = np.where(entering, -np.sign(residual), np.sign(x))
        direction = newton(blocks, active | entering, residual + threshold * sign)  # 3.
        while np.any(wrong := entering & (direction * sign < 0)):
            entering &= ~wrong
            direction = newton(blocks, active | entering, residual + threshold * sign)
        curved = product(blocks, direction)
        length = _lowest(x, direction, float(residual @ direction), float(direction @ curved), threshold)  # 4.
        singly = length == 0.0 and not singly
        after = x + length * direction
        # What has been stopped at zero is zero.
        after[(x != 0) & (threshold > 0) & (np.abs(after) <= 1e-14 * np.abs(x))] = 0.0
        residual = residual + length * curved
        x = after
    raise NotSolved


def product(blocks: Blocks, vector: np.ndarray) -> np.ndarray:
    """The information matrix times a vector over all coefficients; 0 at those that it does not have."""
    dense, eliminated = vector[blocks.dense], vector[blocks.eliminated]
    result = np.zeros(len(vector))
    result[blocks.dense] = blocks.a @ dense + blocks.b @ eliminated
    result[blocks.eliminated] = dense @ blocks.b + blocks.d * eliminated
    return result


def newton(blocks: Blocks, active: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-H^-1 gradient over the active coefficients, 0 elsewhere."""
    restricted = blocks.restrict(active)
    nugget = NUGGET
    while True:
        try:
            eased = replace(
                restricted,
                a=restricted.a + np.diag(nugget * np.diag(restricted.a)),
                d=restricted.d * (1 + nugget),
            )
            return -factor(eased).solve(gradient)
        except scipy.linalg.LinAlgError:
            nugget *= 100


def _lowest(x: np.ndarray, direction: np.ndarray, slope: float, curvature: float, threshold: np.ndarray) -> float:
    """The t in [0, 1] for which t * slope + t^2 / 2 * curvature + sum(threshold |x + t direction|) is least: the derivative
    rises, linearly but for a jump where an entry becomes zero."""
    penalised = (threshold > 0) & (direction != 0)
    x, direction, threshold = x[penalised], direction[penalised], threshold[penalised]
    side = np.where(x == 0, np.sign(direction), np.sign(x))
    rise = slope + float(np.sum(threshold * direction * side))
    crossing = np.where(x == 0, np.inf, -x / direction)
    crossing[crossing <= 0] = np.inf
    order = np.argsort(crossing)
    before = 0.0
    for place in order:
        until = min(crossing[place], 1.0)
        if rise + until * curvature >= 0:
            return float(np.clip(-rise / curvature, before, until)) if curvature > 0 else before
        if until == 1.0:
            return 1.0
        rise += 2 * threshold[place] * abs(direction[place])
        before = until
        if rise + until * curvature >= 0:
            return until
    return float(np.clip(-rise / curvature, before, 1.0)) if curvature > 0 else 1.0
