"""The step of an elastic net: minimise g'v + v'Hv / 2 + sum(threshold |start + v|) over steps v.

This is the feature-sign search of Lee, Battle, Raina & Ng (NIPS 2006), with several coefficients at a time:

1. End if no KKT condition is violated by more than the precision.
2. Coefficients at zero with a violated condition enter, with the sign that lowers the function.
3. The direction is a Newton step on the nonzero and entering coefficients. Entering coefficients that would move against
   their sign are dropped, and the direction is computed again.
4. Go along the direction to the minimum of the function. Coefficients that reach zero stay there and leave.
"""

from dataclasses import replace

import numpy as np
import scipy.linalg

from tfglm.solvers.information import Blocks, factor

NUGGET = 1e-11
"""Share of the diagonal of H that is added to it in Newton steps, because columns with all levels are redundant. The search
still ends at the minimum of the original function."""

MOST_CHANGES = 500
"""Largest number of changes to the set of nonzero coefficients in a quadratic problem."""


class NotSolved(Exception):
    """The search has used MOST_CHANGES changes."""


def solve(
    blocks: Blocks, gradient: np.ndarray, start: np.ndarray, threshold: np.ndarray, precision: float
) -> np.ndarray:
    """The step from `start` to the minimum, [p]. It violates no KKT condition by more than `precision`.

    `blocks` are H, `gradient` [p] is g at `start`, and `threshold` [p] is the lasso penalty of each coefficient. Raises
    NotSolved after MOST_CHANGES changes.

    With H = I, each coefficient is soft-thresholded:

    >>> from tfglm.solvers.information import Blocks
    >>> none = np.zeros(0)
    >>> identity = Blocks(np.arange(2), none.astype(int), np.eye(2), np.zeros((2, 0)), none)
    >>> step = solve(identity, np.array([-3.0, 0.5]), np.zeros(2), np.array([1.0, 1.0]), 1e-9)
    >>> step.round(6).tolist()
    [2.0, 0.0]
    """
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
            # Settle the coefficients that are already nonzero before others enter.
            entering &= excess == excess.max() if singly else False
        sign = np.where(entering, -np.sign(residual), np.sign(x))
        direction = newton(blocks, active | entering, residual + threshold * sign)  # 3.
        while np.any(wrong := entering & (direction * sign < 0)):
            entering &= ~wrong
            direction = newton(blocks, active | entering, residual + threshold * sign)
        curved = blocks.times(direction)
        length = _lowest(x, direction, float(residual @ direction), float(direction @ curved), threshold)  # 4.
        singly = length == 0.0 and not singly
        after = x + length * direction
        # Coefficients that stop at zero become exactly zero.
        after[(x != 0) & (threshold > 0) & (np.abs(after) <= 1e-14 * np.abs(x))] = 0.0
        residual = residual + length * curved
        x = after
    raise NotSolved


def newton(blocks: Blocks, active: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The Newton step -H^-1 gradient over the active coefficients, [p]; 0 elsewhere."""
    restricted = blocks.restrict(active)
    nugget = NUGGET
    while True:
        try:
            eased = replace(
                restricted, a=restricted.a + np.diag(nugget * np.diag(restricted.a)), d=restricted.d * (1 + nugget)
            )
            return -factor(eased).solve(gradient)
        except scipy.linalg.LinAlgError:
            nugget *= 100


def _lowest(x: np.ndarray, direction: np.ndarray, slope: float, curvature: float, threshold: np.ndarray) -> float:
    """The t in [0, 1] that minimises t * slope + t^2 / 2 * curvature + sum(threshold |x + t direction|). The derivative
    rises linearly, with a jump where an entry reaches zero."""
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


TOLERANCE = 1e-9
"""Rounding error of a step and of a multiplier, in the largest score over the root of its information."""


def bounded(blocks: Blocks, gradient: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The step v [p] from `lower` to `upper` that minimises g'v + v'Hv / 2, by block principal pivoting (Judice & Pires,
    Computers & Operations Research 21, 1994).

    The coefficients at a bound are guessed, and the others solved for. All that are beyond a bound go to it, and all that a
    bound draws the wrong way leave it. If their number does not fall, only the last changes, which ends (Murty 1974). Raises
    NotSolved after MOST_CHANGES changes.

    >>> none = np.zeros(0)
    >>> identity = Blocks(np.arange(2), none.astype(int), np.eye(2), np.zeros((2, 0)), none)
    >>> bounded(identity, np.array([-3.0, 0.5]), np.zeros(2), np.full(2, np.inf)).round(6).tolist()
    [3.0, 0.0]
    """
    size = np.sqrt(blocks.diagonal(len(gradient)))
    present, side = size > 0, np.zeros(len(gradient))
    tolerance = TOLERANCE * np.abs(gradient[present] / size[present]).max(initial=0.0)
    slack = tolerance / np.where(present, size, 1.0)
    fewest, tries = len(gradient) + 1, 3
    for _ in range(MOST_CHANGES):
        step = np.select([side < 0, side > 0], [lower, upper], 0.0)
        step = step + newton(blocks, present & (side == 0), gradient + blocks.times(step))
        pull = side * (gradient + blocks.times(step))
        beyond = 1.0 * (step > upper + slack) - 1.0 * (step < lower - slack)
        wrong = np.where(side == 0, beyond != 0, pull > tolerance * size) & present
        if not wrong.any():
            return np.clip(step, lower, upper)
        fewer = np.count_nonzero(wrong) < fewest
        fewest, tries = (int(np.count_nonzero(wrong)), 3) if fewer else (fewest, tries - 1)
        changed = wrong if tries > 0 else np.arange(len(wrong)) == np.flatnonzero(wrong)[-1]
        side = np.where(changed, np.where(side == 0, beyond, 0.0), side)
    raise NotSolved
