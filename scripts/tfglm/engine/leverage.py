"""The leverage of a row in a pass: h = w x' I^-1 x with the working weight w, the row x of the design matrix and the
information matrix I.

The inverse has the same blocks as the matrix. So x' I^-1 x is a sum of lookups by pair of parts, just as an information
pass sums by pair of parts.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tfglm.engine import kernels
from tfglm.engine.bases import BasisColumns, apart

ALONE = 1e-10
"""Smallest 1 - h that is not a rounding error; below it the leverage is 1: the row alone determines a coefficient, and has
no residual."""

TOO_NEAR = 1e-6
"""The same if I and w belong to different coefficients, as in a fit: they may differ by a share of 1e-7, where Newton's
steps end."""

DENSE, MIXED, DIAGONAL = "inverse/dense", "inverse/mixed", "inverse/diagonal"


def state_of(
    size: int,
    places: tuple[np.ndarray, np.ndarray],
    eliminated: slice,
    blocks: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> dict[str, np.ndarray]:
    """Return the parts of the inverse of an information matrix that a pass needs: its dense block [q, q], mixed block [q, m]
    and the diagonal of the eliminated block [m], with 0 for coefficients that are not free. `places` are the positions of
    the q dense and the m eliminated free coefficients among all `size` coefficients; `eliminated` is the slice of the
    eliminated part, where the dense block has no entries."""
    dense, others = places
    dense = np.where(dense < eliminated.start, dense, dense - (eliminated.stop - eliminated.start))
    others = others - eliminated.start
    wide, width = size - (eliminated.stop - eliminated.start), eliminated.stop - eliminated.start
    state = {DENSE: np.zeros((wide, wide)), MIXED: np.zeros((wide, width)), DIAGONAL: np.zeros(width)}
    state[DENSE][np.ix_(dense, dense)], state[MIXED][np.ix_(dense, others)], state[DIAGONAL][others] = blocks
    return state


def leverages(
    state: Mapping[str, np.ndarray],
    parts: np.ndarray,
    eliminated: int | None,
    groups: np.ndarray,
    numbers: np.ndarray,
    bases: Sequence[BasisColumns] = (),
) -> np.ndarray:
    """x' I^-1 x of some rows, [rows], with the `state` of `state_of`. `parts`, `groups` and `numbers` are as
    `kernels.add_linear_predictor` takes them; numbers of `bases` are not read."""
    last = -1 if eliminated is None else eliminated
    dense, mixed, diagonal = state[DENSE], state[MIXED], np.ascontiguousarray(state[DIAGONAL])
    moved = parts.copy()
    if last >= 0:
        moved[last + 1 :, 0] -= diagonal.size
        moved[last, 0] = 0
    places = [moved[np.isin(parts[:, 0], columns.basis.places), 0] for columns in bases]
    alone = apart(parts, [columns.basis for columns in bases])
    rest = moved[alone]
    eliminated_rest = int(np.count_nonzero(alone[:last])) if last >= 0 else -1
    forms = np.zeros(groups.shape[1] if groups.size else numbers.shape[1])
    kernels.add_quadratic_form(forms, rest, eliminated_rest, groups, numbers, dense, mixed, diagonal)
    for number, (columns, mine) in enumerate(zip(bases, places, strict=True)):
        add_form(forms, columns, columns, dense, mine, mine)
        for other, theirs in zip(bases[number + 1 :], places[number + 1 :], strict=True):
            add_form(forms, columns, other, 2.0 * dense, mine, theirs)
        of_columns = columns.basis.in_groups(mine)
        for part, (start, grouping, multiplier) in enumerate(rest):
            crossed = np.zeros(len(forms))
            if part == eliminated_rest:
                columns.add_form_with_group(crossed, groups[grouping], np.moveaxis(mixed[of_columns], -1, 0))
            elif grouping >= 0:
                stop = min([place for place in (*moved[:, 0], len(dense)) if place > start])
                columns.add_form_with_group(crossed, groups[grouping], dense[start:stop, of_columns])
            else:
                columns.add_along(crossed, dense[start, of_columns])
            forms += 2.0 * (crossed if multiplier < 0 else crossed * numbers[multiplier])
    return forms


def add_form(
    forms: np.ndarray,
    first: BasisColumns,
    second: BasisColumns,
    dense: np.ndarray,
    mine: np.ndarray,
    theirs: np.ndarray,
) -> None:
    """Add the bilinear form of two bases with their entries of `dense` [q, q] to forms [rows]. `mine` and `theirs` [columns] are
    the places of the columns, in the first group if a basis has groups."""
    if first.basis.grouping < 0 <= second.basis.grouping:
        first, second, mine, theirs = second, first, theirs, mine
    if first.basis.grouping < 0:
        first.add_form(forms, second, dense[np.ix_(mine, theirs)])
        return
    with_groups = second.basis.grouping >= 0
    matrices = [dense[np.ix_(mine + g, theirs + g * with_groups)] for g in range(first.basis.groups)]
    first.add_form_by_group(forms, second, np.stack(matrices))
