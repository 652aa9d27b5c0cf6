"""The contribution of rows to the search for directions that separate them (solvers.rectifier)."""

from collections.abc import Callable, Mapping

import numpy as np

from tfglm.engine.rows import Rows
from tfglm.engine.sums import RESIDUAL, WEIGHT, Key
from tfglm.families.family import Family

ROUNDS, LEAST = "directions of earlier rounds", "least margins of earlier rounds"
"""Names in the state of a pass `rectifier`, beside the terms: [rounds, p] and [rounds]."""

LADDER = (1e-3, 1e-4, 1e-5, 1e-6)
"""By how much a margin falls short of 1: of each, the pass counts the rows that do by more. Less than the last is rounding."""

COUNTED: tuple[Key, ...] = ("candidate", *(("short", step) for step in range(len(LADDER))))
"""What it counts."""


def side(rows: Rows, family: Family) -> np.ndarray:
    """Return the direction in which a row may move without end, [rows]. It is -1 or 1 if the response is the smallest or the
    largest of the family; 0 if it is in between, or if the row takes no part."""
    sides = (rows.y == family.largest).astype(float) - (rows.y == family.smallest)
    return np.where(rows.kept, sides, 0.0)


def rectified(
    rows: Rows,
    family: Family,
    along: Callable[[np.ndarray], np.ndarray],
    direction: np.ndarray,
    state: Mapping[str, np.ndarray],
) -> dict[Key, np.ndarray | float]:
    """Return the loss of rows, its first and second derivative by the change of their linear predictor (`along`) in a
    direction [p], and COUNTED, [rows] each. The state has ROUNDS and LEAST.

    A candidate's loss is max(0, 1 - side * movement)^2 / 2. A row must not move if its response is between the ends of the
    family's range, or if it had less than the least margin in an earlier round: its loss is movement^2 / 2.
    """
    sides, kept, movement = side(rows, family), rows.kept, along(direction)
    candidate = sides != 0
    for of_round, least in zip(state[ROUNDS], state[LEAST], strict=True):
        candidate &= sides * along(of_round) >= least
    short = np.where(candidate, np.maximum(1.0 - sides * movement, 0.0), 0.0)
    residual = np.where(candidate, -sides * short, np.where(kept, movement, 0.0))
    return {
        "loss": 0.5 * residual**2,
        RESIDUAL: residual,
        WEIGHT: np.where(candidate, short > 0, kept).astype(float),
        **dict(zip(COUNTED, [candidate, *(short > step for step in LADDER)], strict=True)),
    }
