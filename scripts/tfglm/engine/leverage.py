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

DENSE, MIXED, WITHIN = "inverse/dense", "inverse/mixed", "inverse/within"


def state_of(
    size: int,
    places: tuple[np.ndarray, np.ndarray],
    eliminated: Sequence[slice],
    blocks: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> dict[str, np.ndarray]:
    """Return the parts of the inverse of an information matrix that a pass needs: its dense block [n, n], mixed block [n, m]
    and the block within each level of the eliminated parts [q, q, levels], with 0 for coefficients that are not free. `places`
    are the positions of the n dense and the m eliminated free coefficients among all `size` coefficients; `eliminated` are the
    slices of the eliminated parts, where the dense block has no entries."""
    inside = np.concatenate([np.zeros(0, int), *(np.arange(where.start, where.stop) for where in eliminated)])
    rank, levels = np.zeros(size, int), len(inside) // max(len(eliminated), 1)
    rank[np.delete(np.arange(size), inside)] = np.arange(size - len(inside))
    rank[inside] = np.arange(len(inside))
    (dense, others), wide = (rank[each] for each in places), size - len(inside)
    state = {DENSE: np.zeros((wide, wide)), MIXED: np.zeros((wide, len(inside)))}
    state[WITHIN] = np.zeros((len(eliminated), len(eliminated), levels))
    state[DENSE][np.ix_(dense, dense)], state[MIXED][np.ix_(dense, others)] = blocks[:2]
    if len(others):
        by_level = others.reshape(len(blocks[2]), -1)
        parts = by_level[:, 0] // levels
        state[WITHIN][np.ix_(parts, parts, by_level[0] % levels)] = blocks[2]
    return state


def leverages(
    state: Mapping[str, np.ndarray],
    parts: np.ndarray,
    eliminated: Sequence[int],
    groups: np.ndarray,
    numbers: np.ndarray,
    bases: Sequence[BasisColumns] = (),
) -> np.ndarray:
    """x' I^-1 x of some rows, [rows], with the `state` of `state_of`. `parts`, `groups` and `numbers` are as
    `kernels.add_linear_predictor` takes them; numbers of `bases` are not read."""
    dense, mixed, within = state[DENSE], state[MIXED], np.ascontiguousarray(state[WITHIN])
    moved, levels, is_eliminated = parts.copy(), within.shape[-1], np.isin(np.arange(len(parts)), eliminated)
    moved[:, 0] -= levels * (np.cumsum(is_eliminated) - is_eliminated)
    moved[is_eliminated, 0] = levels * np.arange(len(within))
    places = [moved[np.isin(parts[:, 0], columns.basis.places), 0] for columns in bases]
    alone = apart(parts, [columns.basis for columns in bases])
    rest, eliminated_rest = moved[alone], np.flatnonzero(is_eliminated[alone])
    forms = np.zeros(groups.shape[1] if groups.size else numbers.shape[1])
    kernels.add_quadratic_form(forms, rest, eliminated_rest, groups, numbers, dense, mixed, within)
    for number, (columns, mine) in enumerate(zip(bases, places, strict=True)):
        add_form(forms, columns, columns, dense, mine, mine)
        for other, theirs in zip(bases[number + 1 :], places[number + 1 :], strict=True):
            add_form(forms, columns, other, 2.0 * dense, mine, theirs)
        of_columns = columns.basis.in_groups(mine)
        for part, (start, grouping, multiplier) in enumerate(rest):
            crossed = np.zeros(len(forms))
            if part in eliminated_rest:
                of_part = mixed[of_columns, start : start + levels]
                columns.add_form_with_group(crossed, groups[grouping], np.moveaxis(of_part, -1, 0))
            elif grouping >= 0:
                stop = min([place for place in (*moved[~is_eliminated, 0], len(dense)) if place > start])
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
