"""Lasso and elastic net, by proximal Newton steps: near the coefficients the loss is a quadratic function, and the sum of that
and the penalty is minimised exactly (Lee, Sun & Saunders, SIAM J. Optim. 24, 2014)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from tfglm.config import PathConfig
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.solvers import inference
from tfglm.solvers.information import Blocks, factor, null_vectors
from tfglm.solvers.problem import SHORTEST_STEP, Problem, Since, State, movement
from tfglm.solvers.reporter import Reporter

CONVERGED_BELOW = 1e-6
"""Largest KKT violation at the returned coefficients, as a share of the strength."""

NUGGET = 1e-11
"""Added to the diagonal of the quadratic function, as a share of it and around the point where the search stands, as columns with
all levels are redundant. The minimum of the function without it is found all the same."""

MOST_CHANGES = 500
"""Of the set of coefficients that are not zero, within one quadratic problem."""


@dataclass(frozen=True)
class Minimum:
    """Where the penalised loss is least. `violation` is the largest of the KKT conditions, for the mean loss of a row; `near` the
    last information matrix, until it is forgotten; `correction` how far the first step, from the minimum for another strength,
    was from this one; passes are those that it took."""

    state: State
    near: Blocks | None
    violation: float
    correction: np.ndarray
    iterations: int
    information_passes: int
    gradient_passes: int


def violations(problem: Problem, state: State) -> np.ndarray:
    """By how much each coefficient breaks its KKT condition: |g + l1 sign(b)| where b is not zero, max(|g| - l1, 0) where it is;
    g is the derivative of the loss and of the ridge penalty."""
    slope, b = problem.gradient(state), state.coefficients
    at_zero = np.maximum(np.abs(slope) - problem.threshold, 0.0)
    elsewhere = np.abs(slope + problem.threshold * np.sign(b))
    return np.where(problem.free, np.where(b == 0, at_zero, elsewhere), 0.0)


def minimise(
    problem: Problem,
    state: State,
    near: Blocks,
    correction: np.ndarray | float,
    strength: float,
    max_iterations: int,
    reporter: Reporter,
) -> Minimum:
    """Proximal Newton from `state`; `near` is an information matrix, and the first step is corrected by `correction`. `strength`
    is that of the penalty beside the mean loss of a row."""
    mass = problem.mass
    blocks, since = near.penalised(problem.strength), Since()
    foretold = state.coefficients
    passes = {"information": 0, "gradient": 0}

    def at(coefficients: np.ndarray, sums: str) -> State:
        passes[sums] += 1
        return problem.at(coefficients, sums)

    def new_information() -> tuple[Blocks, Blocks, Since, float]:
        return state.blocks, state.blocks.penalised(problem.strength), Since(), np.inf

    # How much the last step was meant to improve on the violation tells whether the information still fits.
    before = np.inf
    iteration = 0
    while True:
        violation = float(violations(problem, state).max(initial=0.0)) / mass
        reporter.note(
            f"iteration {iteration}: objective {problem.objective(state):.10g}, KKT violation {violation:.3g}"
        )
        if violation <= CONVERGED_BELOW * strength or iteration == max_iterations:
            break
        if not since.is_fresh and violation > SLOW * before:
            state = at(state.coefficients, "information")
            near, blocks, since, before = new_information()
        before = violation
        step = solve(
            blocks, problem.gradient(state), state.coefficients, problem.threshold, PRECISION * strength * mass
        )
        if not iteration:
            foretold = state.coefficients + step
            corrected = foretold + correction
            step = np.where(foretold * corrected > 0, corrected, foretold) - state.coefficients
        square = float(step @ product(blocks, step))
        weight = np.diag(blocks.a).max(initial=blocks.d.max(initial=0.0))
        objective, length = problem.objective(state), 1.0
        while True:
            after = since.moved(
                length * movement(problem.workload.design, step), length * np.sqrt(square / weight), np.inf
            )
            again = after.mean > FAR
            trial = at(state.coefficients + length * step, "information" if again else "gradient")
            if problem.objective(trial) <= objective + 1e-12 * abs(objective):
                break
            length /= 2
            if length < SHORTEST_STEP:
                return Minimum(state, near, violation, state.coefficients - foretold, iteration, *passes.values())
        state, since, iteration = trial, after, iteration + 1
        if again:
            near, blocks, since, before = new_information()
    return Minimum(state, near, violation, state.coefficients - foretold, iteration, *passes.values())


FAR = 0.005
"""How far the linear predictors may move, in quadratic mean, while an older information matrix is good enough for the next step:
each leaves about this share of the error, and costs a third of one with a new matrix."""

SLOW = 0.3
"""Share of the violation that a step with an older information matrix must not leave."""

PRECISION = 1e-9
"""Of the quadratic problem: the largest violation of its KKT conditions, as a share of the strength."""


def product(blocks: Blocks, vector: np.ndarray) -> np.ndarray:
    """The information matrix times a vector over all coefficients; 0 at those that it does not have."""
    dense, eliminated = vector[blocks.dense], vector[blocks.eliminated]
    made = np.zeros(len(vector))
    made[blocks.dense] = blocks.a @ dense + blocks.b @ eliminated
    made[blocks.eliminated] = dense @ blocks.b + blocks.d * eliminated
    return made


def solve(blocks: Blocks, slope: np.ndarray, start: np.ndarray, threshold: np.ndarray, precision: float) -> np.ndarray:
    """The step v that minimises slope'v + v'Hv / 2 + sum(threshold |start + v|), H the matrix in blocks; to within `precision`
    of its KKT conditions.

    By the search for the signs of Lee, Battle, Raina & Ng (NIPS 2006), several at a time: a Newton step on the coefficients that
    are not zero, as far as the function falls; those that reach zero leave, those at zero whose condition is violated enter.
    """
    x, residual = start.copy(), slope.copy()
    present = np.zeros(len(x), bool)
    present[blocks.dense] = present[blocks.eliminated] = True
    free = present & (threshold == 0)
    one_by_one = False
    for _ in range(MOST_CHANGES):
        active = free | (present & (x != 0))
        excess = np.where(present & ~active, np.abs(residual) - threshold, 0.0)
        left = np.abs(residual + threshold * np.sign(x))[active].max(initial=0.0)
        if max(excess.max(initial=0.0), left) <= precision:
            return x - start
        entering = excess > precision
        if one_by_one or left > 0.1 * excess.max(initial=0.0):
            # The signs of those that are there first, then others.
            entering &= excess == excess.max() if one_by_one else False
        sign = np.where(entering, -np.sign(residual), np.sign(x))
        direction = _newton(blocks, active | entering, residual + threshold * sign)
        while np.any(wrong := entering & (direction * sign < 0)):
            entering &= ~wrong
            direction = _newton(blocks, active | entering, residual + threshold * sign)
        curved = product(blocks, direction)
        length = _lowest(x, direction, float(residual @ direction), float(direction @ curved), threshold)
        one_by_one = length == 0.0 and not one_by_one
        after = x + length * direction
        # What has been stopped at zero is zero.
        after[(x != 0) & (threshold > 0) & (np.abs(after) <= 1e-14 * np.abs(x))] = 0.0
        residual = residual + length * curved
        x = after
    raise UserError("the quadratic problem of an elastic net was not solved")


def _newton(blocks: Blocks, active: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """-H^-1 slope over the active coefficients, 0 elsewhere."""
    restricted = blocks.restrict(active)
    nugget = NUGGET
    while True:
        try:
            eased = replace(
                restricted,
                a=restricted.a + np.diag(nugget * np.diag(restricted.a)),
                d=restricted.d * (1 + nugget),
            )
            return -factor(eased).solve(slope)
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


# Paths ----------------------------------------------------------------------------------------------------------------

LEAST_MIXING = 1e-3
"""Of the lasso, in choosing the first strength: a ridge leaves nothing at zero, however strong."""


@dataclass(frozen=True)
class Step:
    """One strength of a path, and what was found there. `effective` is the effective number of coefficients."""

    strength: float
    l1: float
    l2: float
    minimum: Minimum
    problem: Problem
    effective: float
    deviance_held_out: float | None = None


def path(
    problem: Problem,
    state: State,
    settings: PathConfig,
    max_iterations: int,
    reporter: Reporter,
    held_out: Workload | None,
) -> list[Step]:
    """Fits for all strengths, each from the one before, the strongest first; `state` is the model with the intercept alone."""
    steps: list[Step] = []
    mass, penalised = problem.mass, problem.workload.design.penalised_coefficients
    near, correction, counts, null_loss = state.blocks, 0.0, None, state.loss
    wanted = strengths(problem, state, settings)
    for strength in wanted:
        l1, l2 = settings.mixing * strength, (1 - settings.mixing) * strength
        one = replace(problem, threshold=l1 * mass * penalised, strength=l2 * mass * penalised)
        found = minimise(one, state, near, correction, strength, max_iterations, reporter)
        deviance = None
        if held_out:
            design = held_out.design
            counts = counts or held_out.sum(problem.pool, "counts", design.by_term(np.zeros(design.size)))
            sums = held_out.sum(problem.pool, "gradient", design.by_term(found.state.coefficients))
            deviance = 2 * float(sums["loss"] - counts["saturated"])
        # Information matrices of all strengths would be too large to keep.
        effective = effective_coefficients(one, found)
        kept = replace(found, state=replace(found.state, blocks=None), near=None)
        steps.append(Step(strength, l1, l2, kept, one, effective, deviance))
        # From one strength to the next the same is missing from what a quadratic function foretells.
        state, near, correction = found.state, found.near, found.correction
        reporter.advance(len(steps), len(wanted))
        explained = 1 - state.loss / null_loss
        reporter.record(len(steps), {"path/strength": strength, "path/loss explained": explained})
        reporter.live(
            f"strength {strength:.4g}: {np.count_nonzero(found.state.coefficients):,} coefficients are not zero, "
            f"{found.iterations} iterations, KKT violation {found.violation / strength:.1g} of the strength"
        )
    return steps


def strengths(problem: Problem, state: State, settings: PathConfig) -> list[float]:
    """The strengths of a path, the strongest first."""
    if settings.strengths:
        return sorted(settings.strengths, reverse=True)
    slope = np.abs(problem.gradient(state)) * problem.workload.design.penalised_coefficients
    largest = float(slope.max(initial=0.0)) / problem.mass / max(settings.mixing, LEAST_MIXING)
    if not largest:
        raise UserError(
            f"models.{problem.workload.design.model}.path: no term has an effect, so there is no strength to begin with"
        )
    return [float(one) for one in np.geomspace(largest, settings.smallest * largest, settings.number)]


def choose(steps: list[Step], select: str, criterion: Callable[[Step], float]) -> int:
    """The number of the step with the least deviance held out, or the least `criterion`."""
    values = [step.deviance_held_out if select == "held_out" else criterion(step) for step in steps]
    return int(np.argmin(values))


def with_information(problem: Problem, found: Minimum) -> Minimum:
    """The minimum with the information matrix where it is, and not merely near."""
    state = found.state if found.state.blocks else problem.at(found.state.coefficients)
    return replace(found, state=state, near=state.blocks)


def active_coefficients(problem: Problem, found: Minimum) -> np.ndarray:
    """Which coefficients are not zero, or have no penalty."""
    return problem.free & ((found.state.coefficients != 0) | (problem.threshold == 0))


def effective_coefficients(problem: Problem, found: Minimum) -> float:
    """The trace of (I + penalty)^-1 I over the coefficients that are not zero (Tibshirani & Taylor, Annals of Statistics 40,
    2012)."""
    active = active_coefficients(problem, found)
    blocks = found.near.restrict(active)
    if not problem.strength.any():
        # Of columns that depend on each other a lasso may keep all.
        return float(np.count_nonzero(active) - len(null_vectors(blocks, len(active))[0]))
    return inference.effective_coefficients(factor(blocks.penalised(problem.strength)), problem.strength)
