"""Coefficients in other coordinates: the scale of the fit and the scale of the data; and the directions that change no
prediction.

A coefficient vector has every level of every factor, so many vectors describe the same model. Let the rows of N span the
directions that change no linear predictor. Choose as many coefficients as N has rows, such that they determine a direction
in this span. If these are held at zero, the others are unique. With C the matrix that picks the coefficients held, L = I -
N' (N_C')^-1 C converts any vector to the equivalent vector with zeros there.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.design.factors import Numeric
from tfglm.design.terms import Part
from tfglm.formula.terms import RandomEffects

NEGLIGIBLE = 1e-8
"""Share of what an entry of a null vector is summed from below which it is rounding error."""


RAW, CENTRED, APART = range(3)
"""How a fit has the numbers of a part: divided by their scale; less their centre too; or less what earlier numbers of the same
column make of them, too."""

DETERMINED_BELOW = 1e-3
"""Smallest 1 - R^2 of a number on earlier numbers of its column; below it the fit separates the number from them. Then
cancellation in an information matrix loses a few digits at most."""

OF_ROUNDING = 1e3
"""Smallest rest of a number after subtracting earlier numbers, in rounding errors of its values."""

Number = tuple[str, int]
"""A numeric factor and which of its numbers."""


def form_of(design: Design, part: Part) -> int:
    """How the fit transforms the numbers that multiply a part.

    (x - c) * table[level] describes the same model as x * table[level] if the design has table[level] too. x^2 minus a
    multiple of x is equivalent to x^2 if the design has a part for x. For a product this holds if the design has every
    product that it expands to.
    """
    if isinstance(part.term.kind, RandomEffects) and not part.term.kind.beside:
        return RAW  # from another origin independent slopes are another model
    # Instruments change no form of another part, as the results have none.
    excluded = design.instruments.terms if design.instruments else ()
    present = {(o.grouping, o.multiplier) for o in design.parts if o is part or o.term not in excluded}
    if design.absorbs_constant:
        present.add(((), ()))  # by any absorbed factor
    has_earlier = any(design.numeric_by_name[name].earlier_of(position) for name, position in part.multiplier)
    for form in (APART, CENTRED) if has_earlier else (CENTRED,):
        of_numbers = [_on_data_scale(design, number, form) for number in part.multiplier]
        if form == APART:  # correlated slopes without an intercept have the origin 0
            of_numbers = [{key: value for key, value in number.items() if value or key} for number in of_numbers]
        expanded = [_product(design, chosen) for chosen in product(*of_numbers)]
        if part.multiplier and all((part.grouping, multiplier) in present for multiplier in expanded):
            return form
    return RAW


def apart(numbers: Sequence[tuple[Numeric, np.ndarray]], rows: np.ndarray) -> list[Numeric]:
    """Subtract from each number of a column what earlier numbers explain, if they nearly determine it. The factors are in
    the order of the formula, each with its numbers for the distinct values of the column, [distinct values, width]; `rows`
    says how many rows have each value."""
    weight = np.sqrt(rows / rows.sum())[:, None]
    basis, result = np.zeros((len(rows), 0)), []
    places: list[Number] = []
    for factor, columns in numbers:
        scaled = (columns - np.array(factor.center)) / np.array(factor.scale)
        earlier: list[tuple[tuple[str, int, float], ...]] = []
        left: list[float] = []
        for position, number in enumerate(scaled.T):
            shares, rest = np.zeros(basis.shape[1]), number
            for _ in range(2):  # once more, for what rounding has left
                more = np.linalg.lstsq(basis * weight, rest * weight[:, 0], rcond=None)[0]
                shares, rest = shares + more, rest - basis @ more
            size = float(np.linalg.norm(rest * weight[:, 0]))
            rounding = 2.0**-53 * np.abs(columns[:, position]).max() / factor.scale[position]
            is_determined = size**2 < DETERMINED_BELOW * float(np.linalg.norm(number * weight[:, 0])) ** 2
            is_apart = bool(is_determined and size > OF_ROUNDING * rounding)
            earlier.append(
                tuple((*place, share) for place, share in zip(places, shares.tolist(), strict=True)) if is_apart else ()
            )
            left.append(size if is_apart else 1.0)
            if is_apart or not is_determined:  # the rest is aliased with earlier numbers
                basis = np.column_stack([basis, rest / size if is_apart else number])
                places.append((factor.name, position))
        result.append(replace(factor, earlier=tuple(earlier), left=tuple(left)) if any(earlier) else factor)
    return result


def together(design: Design) -> Design:
    """Return the design without separated numbers, so that any term can be left out."""
    return replace(design, numeric=tuple(replace(factor, earlier=(), left=()) for factor in design.numeric))


def standardised(
    design: Design, number: Number, form: int, raw: Callable[[str], Sequence[Any]], is_change: bool = False
) -> Any:
    """A number on the scale of the fit; of a difference or derivative, `is_change`, without the centre. `raw` gives the
    numbers of a factor, on the scale of the data."""
    name, position = number
    factor = design.numeric_by_name[name]
    center = 0.0 if is_change or form == RAW else factor.center[position]
    value = (raw(name)[position] - center) / factor.scale[position]
    if form == APART and factor.earlier_of(position):
        for earlier, place, weight in factor.earlier_of(position):
            value = value - weight * standardised(design, (earlier, place), form, raw, is_change)
        value = value / factor.left[position]
    return value


def to_data_scale(design: Design) -> scipy.sparse.csr_array:
    """Return the matrix that converts coefficients from the scale of the fit to the scale of the data."""
    return _rescaling(design, _on_data_scale) + _centring(design)


def to_fit_scale(design: Design) -> scipy.sparse.csr_array:
    """Its inverse."""
    return _rescaling(design, _on_fit_scale) - _centring(design)


def _centring(design: Design) -> scipy.sparse.csr_array:
    """What the means of tensor products, whose columns the fit does not centre, add to the intercept."""
    surfaces = [term for term in design.terms if term.means]
    means = np.array([mean for term in surfaces for mean in term.means])
    columns = np.concatenate(
        [np.zeros(0, int), *(np.arange(design.size)[design.slices[term.name]] for term in surfaces)]
    )
    rows = np.full(len(columns), design.intercept or 0)
    return scipy.sparse.csr_array((means, (rows, columns)), shape=(design.size, design.size))


def _on_data_scale(design: Design, number: Number, form: int) -> dict[Number | None, float]:
    """Express a number of the fit in multiples of numbers of the data, and of 1."""
    name, position = number
    factor = design.numeric_by_name[name]
    center, scale = factor.center[position], factor.scale[position]
    result: dict[Number | None, float] = (
        {number: 1 / scale} if form == RAW else {None: -center / scale, number: 1 / scale}
    )
    if form == APART and factor.earlier_of(position):
        for earlier, place, weight in factor.earlier_of(position):
            for key, value in _on_data_scale(design, (earlier, place), form).items():
                result[key] = result.get(key, 0.0) - weight * value
        result = {key: value / factor.left[position] for key, value in result.items()}
    return result


def _on_fit_scale(design: Design, number: Number, form: int) -> dict[Number | None, float]:
    """Express a number of the data in multiples of numbers of the fit, and of 1."""
    name, position = number
    factor = design.numeric_by_name[name]
    center, scale = factor.center[position], factor.scale[position]
    result: dict[Number | None, float] = {number: scale} if form == RAW else {None: center, number: scale}
    if form == APART and factor.earlier_of(position):
        result[number] = scale * factor.left[position]
        result |= {(earlier, place): scale * weight for earlier, place, weight in factor.earlier_of(position)}
    return result


def _product(design: Design, numbers: Iterable[Number | None]) -> tuple[Number, ...]:
    """The multiplier that the product of some numbers, None for 1, is."""
    order = {name: place for place, name in enumerate(design.numeric_by_name)}
    return tuple(sorted(filter(None, numbers), key=lambda number: order[number[0]]))


def _rescaling(
    design: Design, expand: Callable[[Design, Number, int], Mapping[Number | None, float]]
) -> scipy.sparse.csr_array:
    places = {(part.term.equation, part.grouping, part.multiplier): part.where for part in design.parts}
    rows, columns, values = [], [], []
    for part in design.parts:
        form = form_of(design, part)
        for chosen in product(*(expand(design, number, form).items() for number in part.multiplier)):
            multiplier = _product(design, (number for number, _ in chosen))
            target = places.get((part.term.equation, part.grouping, multiplier))
            if target is None:  # what an absorbed factor takes up
                continue
            rows.append(np.arange(target.start, target.stop))
            columns.append(np.arange(part.where.start, part.where.stop))
            values.append(np.full(part.size, math.prod(value for _, value in chosen)))
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return scipy.sparse.csr_array(entries, shape=(design.size, design.size))


def null_space(design: Design, present: np.ndarray, terms: Collection[str]) -> np.ndarray:
    """The null directions that follow from the formula alone for these `terms`, on the scale of the data, [directions,
    coefficients]; they may depend on each other. `present` [coefficients] says whether a column has an entry that is not
    zero.

    The groups of two parts with the same multiplier, added up by the levels of the factors that they share, are the same
    columns.
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


def hold(null: np.ndarray, order: np.ndarray, sizes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Choose the first coefficients in this `order` of positions that can all be held at zero so that the others are unique,
    and a basis of the `null` directions that change no prediction, [directions, coefficients]. Each basis vector belongs to
    a held coefficient: it is 1 there and 0 at the other held coefficients.

    An entry within the rounding error of its summands, whose `sizes` are by default exact, counts as 0, so the units of
    coefficients do not change the choice.
    """
    unit = np.abs(null).max(0, initial=0.0)
    unit[unit == 0] = 1.0
    remaining = Summed(null, np.abs(null) if sizes is None else sizes).scaled(1 / unit)
    basis, held = Summed(np.zeros((0, null.shape[1])), np.zeros((0, null.shape[1]))), []
    occurs = np.any(remaining.entries, axis=0)
    for position in order:
        if not len(remaining.entries):
            break
        if not occurs[position]:
            continue
        share = np.abs(remaining.entries[:, position]) / np.abs(remaining.entries).max(1)
        pivot = int(np.argmax(share))
        direction = remaining[pivot].scaled(1 / remaining.entries[pivot, position])
        remaining = remaining[np.arange(len(share)) != pivot].less(direction, position)
        basis = basis.less(direction, position).with_row(direction)
        held.append(position)
        if not (alive := np.any(remaining.entries, axis=1)).all():
            remaining = remaining[alive]
        occurs = np.any(remaining.entries, axis=0)
    places = np.array(held, int)
    return places, basis.entries * unit / unit[places][:, None]


class Summed:
    """Rows of `entries`, 0 where they are rounding errors of what they were summed from, whose `sizes` are kept."""

    def __init__(self, entries: np.ndarray, sizes: np.ndarray):
        self.entries, self.sizes = np.where(np.abs(entries) <= NEGLIGIBLE * sizes, 0.0, entries), sizes

    def scaled(self, factor: np.ndarray | float) -> "Summed":
        return Summed(self.entries * factor, self.sizes * np.abs(factor))

    def __getitem__(self, rows: np.ndarray | int) -> "Summed":
        return Summed(self.entries[rows], self.sizes[rows])

    def with_row(self, row: "Summed") -> "Summed":
        return Summed(np.vstack([self.entries, row.entries]), np.vstack([self.sizes, row.sizes]))

    def less(self, direction: "Summed", position: int) -> "Summed":
        """Less as much of a direction, which is 1 at a position, as there is in each row."""
        share = self.entries[:, [position]]
        entries = self.entries - share * direction.entries
        entries[:, position] = 0.0
        return Summed(entries, np.maximum(self.sizes, np.abs(share) * direction.sizes))


def holding_zero(held: np.ndarray, basis: np.ndarray) -> scipy.sparse.csr_array:
    """Return the matrix L that converts a coefficient vector to the equivalent vector that is zero at `held`."""
    size = basis.shape[1]
    identity = scipy.sparse.eye_array(size, format="csr")
    if not len(held):
        return identity
    picks = scipy.sparse.csr_array((np.ones(len(held)), (np.arange(len(held)), held)), shape=(len(held), size))
    return (identity - scipy.sparse.csr_array(basis.T) @ picks).tocsr()


def in_table(
    design: Design, scale: scipy.sparse.csr_array, null: np.ndarray, references: Mapping[str, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, scipy.sparse.csr_array]:
    """How a table with these reference levels has the coefficients. `scale` [p, p] converts those of the fit to the scale of the
    data, and the rows of `null` [directions, p] change no prediction.

    Returns `at_reference`, `hold` (two arrays), and the matrix [p, p] that converts the coefficients of the fit to those of the
    table.
    """
    directions, sizes = (scale @ null.T).T, (abs(scale) @ np.abs(null).T).T
    at_references = at_reference(design, references, directions)
    held, basis = hold(directions, references_first(design, at_references), sizes)
    return at_references, held, basis, (holding_zero(held, basis) @ scale).tocsr()


def at_reference(design: Design, references: Mapping[str, int], null: np.ndarray) -> np.ndarray:
    """Return for each coefficient the number of its factors at their reference level.

    None in a term such as `t:g` beside which no other has the number t: each level of g has a slope of its own, as in R, and no
    coefficient of the term is 0 for a reason but aliasing. A curve has t if `null` directions [directions, p], which change no
    prediction, say so.
    """
    of_curves = null[np.any(null[:, design.in_smooths], axis=1)]
    counts = np.zeros(design.size, int)
    with_number = Counter((part.term.equation, part.multiplier) for part in design.parts)
    for part in design.parts:
        is_alone = with_number[part.term.equation, part.multiplier] == 1 and not of_curves[:, part.where].any()
        if part.multiplier and is_alone and not any(factor.is_indicator for factor in part.term.kind.factors):
            continue
        numbers = np.array([references[name] for name in part.grouping], int)
        counts[part.where] = (design.levels(part.grouping) == numbers).sum(1)
    return counts


def references_first(design: Design, at_references: np.ndarray) -> np.ndarray:
    """Return the order in which a table holds coefficients at zero.

    Coefficients with the most factors at their reference level come first (`at_references` [p]), those of later terms before
    those of earlier terms. Within a term the last in formula order comes first, because R drops redundant columns so. Curves
    and the intercept come last, because curves keep their straight lines.
    """
    backwards = np.arange(design.size)[::-1]
    keys = -at_references[backwards], design.in_smooths[backwards], backwards == design.intercept
    return backwards[np.lexsort(keys)]


def most_frequent_first(design: Design, rows: np.ndarray) -> np.ndarray:
    """Return the order in which a fit holds coefficients at zero. It starts with the group with the most rows in the last
    term, which keeps the rest well conditioned, and ends with the intercept."""
    term = np.concatenate([np.full(part.size, number) for number, part in enumerate(design.parts)])
    return np.lexsort((-rows, -term))
