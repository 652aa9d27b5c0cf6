"""Coefficients in other coordinates: the scale of the fit and that of the data; and the directions that change no prediction.

A coefficient vector has every level of every factor, so many vectors mean the same model. Let the rows of N span the
directions that change no linear predictor. A set of coefficients, as many as N has rows, that determines a direction in
this span can be held at zero; then the others are unique, and L = I - N' (N_C')^-1 C, where C picks the coefficients held,
takes any vector to the one with zeros there.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import combinations

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.design.terms import Part

NEGLIGIBLE = 1e-8
"""Entries of a null vector (largest entry 1) below this are rounding error."""


def is_centred(design: Design, part: Part) -> bool:
    """Whether the numbers that multiply the part are centred in the fit.

    (x - c) * table[level] is no other model than x * table[level] if there is a table[level] too; of a product, if there is
    one for each product of fewer numbers.
    """
    present = {(other.grouping, other.multiplier) for other in design.parts}
    if design.absorbed:
        present.add(((), ()))  # by any absorbed factor
    smaller = (fewer for size in range(len(part.multiplier)) for fewer in combinations(part.multiplier, size))
    return bool(part.multiplier) and all((part.grouping, fewer) in present for fewer in smaller)


def to_data_scale(design: Design) -> scipy.sparse.csr_array:
    """The matrix that takes coefficients from the scale of the fit to that of the data."""

    def factor(center: float, scale: float, remains: bool) -> float:
        return 1.0 / scale if remains else -center / scale

    return _rescaling(design, factor)


def to_fit_scale(design: Design) -> scipy.sparse.csr_array:
    """Its inverse."""

    def factor(center: float, scale: float, remains: bool) -> float:
        return scale if remains else center

    return _rescaling(design, factor)


def _rescaling(design: Design, factor: Callable[[float, float, bool], float]) -> scipy.sparse.csr_array:
    places = {(part.term.equation, part.grouping, part.multiplier): part.where for part in design.parts}
    rows, columns, values = [], [], []
    for part in design.parts:
        sizes = range(len(part.multiplier)) if is_centred(design, part) else ()
        kept = [part.multiplier, *(fewer for size in sizes for fewer in combinations(part.multiplier, size))]
        for multiplier in kept:
            value = 1.0
            for name, position in part.multiplier:
                number = design.numeric_by_name[name]
                value *= factor(number.center[position], number.scale[position], (name, position) in multiplier)
            target = places.get((part.term.equation, part.grouping, multiplier))
            if target is None:  # what an absorbed factor takes up
                continue
            rows.append(np.arange(target.start, target.stop))
            columns.append(np.arange(part.where.start, part.where.stop))
            values.append(np.full(part.size, value))
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return scipy.sparse.csr_array(entries, shape=(design.size, design.size))


def null_space(design: Design, present: np.ndarray, terms: Collection[str]) -> np.ndarray:
    """The null directions that follow from the formula alone.

    The groups of two parts with the same multiplier, added up by the levels of the factors that they share, are the same columns.

    Parameters
    ----------
    design
        The parts of the formula.
    present
        Whether the column of a coefficient has an entry that is not zero, [coefficients].
    terms
        Those that are looked at.

    Returns
    -------
    Directions on the scale of the data, [directions, coefficients], which may depend on each other.
    """
    directions = []
    for first, second in combinations([part for part in design.parts if part.term.name in terms], 2):
        if first.multiplier != second.multiplier or first.term.equation != second.term.equation:
            continue
        shared = tuple(name for name in first.grouping if name in second.grouping)
        by_part = []
        for part, sign in ((first, 1.0), (second, -1.0)):
            groups = design.levels(part.grouping)[:, [part.grouping.index(name) for name in shared]]
            sizes = [len(design.categorical_by_name[name].levels) for name in shared]
            joint = np.ravel_multi_index(tuple(groups.T), sizes) if shared else np.zeros(part.size, np.int64)
            by_part.append((part, sign, joint))
        for group in np.unique(np.concatenate([joint for *_, joint in by_part])):
            direction = np.zeros(design.size)
            for part, sign, joint in by_part:
                direction[part.where] = np.where(joint == group, sign, 0.0)
            direction[~present] = 0.0
            if direction.any():
                directions.append(direction)
    return np.array(directions).reshape(len(directions), design.size)


def hold(null: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choose coefficients that are held at zero, so that the others are unique.

    Parameters
    ----------
    null
        Directions that change no prediction, [directions, coefficients].
    order
        The positions of coefficients, those to be held first.

    Returns
    -------
    The first coefficients in that order that can all be held at zero, and a basis of the directions, one for each of them, that
    is 1 there and 0 at the others held.
    """
    remaining = null.copy()
    basis, held = np.zeros((0, null.shape[1])), []
    largest = np.abs(remaining).max(0, initial=0.0)
    for position in order:
        if not len(remaining):
            break
        if largest[position] <= NEGLIGIBLE:
            continue
        pivot = int(np.argmax(np.abs(remaining[:, position])))
        direction = remaining[pivot] / remaining[pivot, position]
        remaining = np.delete(remaining, pivot, 0)
        remaining = remaining - remaining[:, [position]] * direction
        basis = np.vstack([basis - basis[:, [position]] * direction, direction])
        held.append(position)
        remaining = remaining[np.abs(remaining).max(1, initial=0.0) > NEGLIGIBLE]
        largest = np.abs(remaining).max(0, initial=0.0)
    return np.array(held, int), basis


def holding_zero(held: np.ndarray, basis: np.ndarray) -> scipy.sparse.csr_array:
    """The matrix L that takes a coefficient vector to the one that means the same and is zero at `held`."""
    size = basis.shape[1]
    identity = scipy.sparse.eye_array(size, format="csr")
    if not len(held):
        return identity
    cleaned = scipy.sparse.csr_array(np.where(np.abs(basis) < NEGLIGIBLE, 0.0, basis).T)
    picks = scipy.sparse.csr_array((np.ones(len(held)), (np.arange(len(held)), held)), shape=(len(held), size))
    return (identity - cleaned @ picks).tocsr()


def at_reference(design: Design, references: Mapping[str, int]) -> np.ndarray:
    """How many of its factors each coefficient has at their reference level."""
    counts = np.zeros(design.size, int)
    for part in design.parts:
        numbers = np.array([references[name] for name in part.grouping], int)
        counts[part.where] = (design.levels(part.grouping) == numbers).sum(1)
    return counts


def references_first(design: Design, references: Mapping[str, int]) -> np.ndarray:
    """The order in which coefficients are held at zero in a table: those with the most factors at their reference level first, of
    a later term before an earlier one; then, as R drops what is redundant, the last in formula order."""
    backwards = np.arange(design.size)[::-1]
    return backwards[np.argsort(-at_reference(design, references)[backwards], kind="stable")]


def most_frequent_first(design: Design, rows: np.ndarray) -> np.ndarray:
    """The order in which a fit holds coefficients at zero: of the last term the group with the most rows first, so that the rest
    is well conditioned; the intercept last."""
    term = np.concatenate([np.full(part.size, number) for number, part in enumerate(design.parts)])
    return np.lexsort((-rows, -term))
