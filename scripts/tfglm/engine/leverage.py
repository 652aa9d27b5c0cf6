"""The leverage of a row in a pass: h = w x' I^-1 x with the working weight w, the row x of the design matrix and the information
matrix I.

The inverse has the blocks of the matrix itself, so that x' I^-1 x is a sum of look-ups by pair of parts, as what is summed in an
information pass is a sum by pair of parts.
"""

from collections.abc import Mapping

import numpy as np

from tfglm.engine import kernels

ALONE = 1e-10
"""A leverage that is no less below 1 is 1, but for rounding: the row alone determines a coefficient, and has no residual."""

TOO_NEAR = 1e-6
"""The same where I and w are not those of the same coefficients, as in a fit: they may differ by a share of 1e-7, where Newton's
steps end."""

DENSE, MIXED, DIAGONAL = "inverse/dense", "inverse/mixed", "inverse/diagonal"


def state_of(
    size: int,
    places: tuple[np.ndarray, np.ndarray],
    eliminated: slice,
    blocks: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> dict[str, np.ndarray]:
    """What a pass needs of the inverse of an information matrix.

    Parameters
    ----------
    size
        The number of coefficients, p.
    places
        Of the q dense and the m eliminated coefficients that are free, in the coefficient vector.
    eliminated
        Where the eliminated part lies there; nowhere if there is none.
    blocks
        Of the inverse: that of the dense ones [q, q], the mixed one [q, m] and the diagonal of that of the eliminated ones [m].

    Returns
    -------
    The same blocks with 0 for coefficients that are not free, without a place for the eliminated part in the dense ones.
    """
    dense, others = places
    dense = np.where(dense < eliminated.start, dense, dense - (eliminated.stop - eliminated.start))
    others = others - eliminated.start
    wide, width = size - (eliminated.stop - eliminated.start), eliminated.stop - eliminated.start
    state = {DENSE: np.zeros((wide, wide)), MIXED: np.zeros((wide, width)), DIAGONAL: np.zeros(width)}
    state[DENSE][np.ix_(dense, dense)], state[MIXED][np.ix_(dense, others)], state[DIAGONAL][others] = blocks
    return state


def leverages(
    state: Mapping[str, np.ndarray], parts: np.ndarray, eliminated: int | None, groups: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """x' I^-1 x of some rows, [rows].

    Parameters
    ----------
    state
        What `state_of` gives.
    parts
        As `kernels.add_linear_predictor` takes them.
    eliminated
        The number of the eliminated part.
    groups, numbers
        Of the rows, as `kernels.add_linear_predictor` takes them.
    """
    last = -1 if eliminated is None else eliminated
    moved = parts.copy()
    if last >= 0:
        moved[last + 1 :, 0] -= state[DIAGONAL].size
        moved[last, 0] = 0
    forms = np.zeros(groups.shape[1] if groups.size else numbers.shape[1])
    kernels.add_quadratic_form(
        forms, moved, last, groups, numbers, state[DENSE], state[MIXED], np.ascontiguousarray(state[DIAGONAL])
    )
    return forms
