"""What the exact solvers share in going a step: how far it goes, and when an older information matrix is too old."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tfglm.solvers.problem import Problem, State

CONVERGED_BELOW = 1e-12
"""Of lambda^2 = g' I^-1 g at the returned coefficients; its root bounds every |Newton step| / standard error."""

PRECISE_BELOW = 1e-18
"""Of lambda^2: where the steps end, as re-sharding must not move an estimate by 1e-9 standard errors; or where rounding errors
keep them from coming closer."""

SLOW = 0.1
"""Share of lambda^2 that such a step must not leave."""

SHORTEST_STEP = 2.0**-20

FRESH = 1e-7
"""How far any linear predictor may move until the information has to be summed anew before it is reported: its weights change
by no greater share."""

SHORT = FRESH / 10
"""How far a step may be likely to go, for which the information is summed before it: rare groups go further than is foretold."""

UNTOLD = 1e-12
"""Share of the size of an objective by which it may seem to rise: near the optimum it changes by less than its rounding error."""

MOST_STEPS = 3
"""With an older information matrix, until they are SHORT: one with a new matrix leaves about the square of the error that it
finds, and costs two to five times as much. There are more of them than foretold: where it was 5, the passes of a fit took a third
longer for 15 million rows and 676 coefficients, and a twentieth for 10 million and 8,805."""


@dataclass(frozen=True)
class Since:
    """What has happened since the information was summed: how far the linear predictors have moved, at most and in quadratic
    mean; how far at most in the last step, and lambda^2 before it; and what share of it the next step is likely to be."""

    largest: float = 0.0
    mean: float = 0.0
    last: float = 0.0
    decrement: float = np.inf
    ratio: float = 0.0

    def moved(self, largest: float, mean: float, decrement: float) -> "Since":
        # The share of the error that a step leaves is about that by which the weights have changed.
        ratio = max(self.mean + mean, largest / self.last if self.last else 0.0)
        return Since(self.largest + largest, self.mean + mean, largest, decrement, ratio)

    @property
    def is_fresh(self) -> bool:
        """Whether the information is the same there as where it was summed."""
        return self.largest <= FRESH

    @property
    def steps_left(self) -> float:
        """How many more steps with this information it is likely to take until one is SHORT."""
        if self.last <= SHORT or self.ratio == 0.0:
            return float(self.last > SHORT)
        return float(np.ceil(np.log(SHORT / self.last) / np.log(self.ratio))) if self.ratio < 1.0 else np.inf


def is_no_higher(after: float, before: float) -> bool:
    """Whether an objective, which may be negative, has not risen but for its rounding error; False for NaN."""
    return bool(after <= before + UNTOLD * abs(before))


def line_search(
    problem: Problem,
    state: State,
    step: np.ndarray,
    since: Callable[[float], Since],
    is_due: Callable[[Since], bool],
    evaluate: Callable[[np.ndarray, str], State],
) -> tuple[State, Since] | None:
    """Try step, step / 2, step / 4, ... until one does not raise the objective.

    Parameters
    ----------
    problem
        The objective.
    state
        Where the step begins.
    step
        Of the coefficients, [p].
    since
        Says of a length what will have happened there since the information matrix was summed.
    is_due
        Whether that is so much that it has to be summed again.
    evaluate
        Sums at some coefficients, by the pass of that name.

    Returns
    -------
    The state there, with `blocks` if the information matrix was due, and what has happened; None if every length raises the
    objective.
    """
    objective, length = problem.objective(state), 1.0
    while length >= SHORTEST_STEP:
        after = since(length)
        trial = evaluate(state.coefficients + length * step, "information" if is_due(after) else "gradient")
        if is_no_higher(problem.objective(trial), objective):
            return trial, after
        length /= 2
        problem.run.reporter.live(f"  the loss rose to {problem.objective(trial):.10g}: trying {length:g} of the step")
    return None
