"""Sums over the columns of a smooth term, which are functions of one code.

The columns of s(x) are numbers that depend on x alone, and x has few distinct values. So B'WC, for the columns B of one term
and C of another, is B' S C over distinct values, where S has the sums of weights by pair of codes: one addition for each row
instead of one for each row and pair of columns. With B the linear predictor is a look-up (Wood, Li, Shaddick and Augustin, JASA
112, 2017; Li and Wood, Statistics and Computing 30, 2020). No value is rounded. If a column has no codes, or S would be large,
products of whole matrices take the place of S. The columns of s(x, by=g) are summed in the same way in each level of g. Those of
s(x, by=z) with a number z are the columns of a curve times z, which joins the weights.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tfglm.design.design import Design
from tfglm.design.parametrisation import RAW
from tfglm.engine import kernels
from tfglm.engine.blocks import Signature
from tfglm.engine.rows import Multiplier, Rows

MOST_JOINT = 2**12
"""The largest number of combinations of codes of several columns that get a table."""

MOST_BY = 2**16
"""The largest number of codes times groups of the columns of s(x, by=g) that get a table."""

MOST_PAIRS = 8
"""The largest number of pairs of codes, as a multiple of rows, whose sums are kept."""

NONE = np.zeros(0)

CHUNK = 4096
"""Rows of a product of matrices: they fit into the caches."""


@dataclass(frozen=True, eq=False)
class Basis:
    """The columns of a smooth term: the multipliers from `first` on, and the coefficients of each, `places` [columns]. They are
    functions of the codes of the `columns` (name and size); of numbers without codes, or with too many, if there are none.

    The columns of s(x, by=g) have coefficients for each of the `groups` of the grouping with this number. Then `places` are those
    of the first group, and the columns have codes. The number `by` multiplies the functions of codes."""

    first: int
    multipliers: tuple[Multiplier, ...]
    places: np.ndarray
    columns: tuple[tuple[str, int], ...]
    grouping: int = -1
    groups: int = 1
    by: Multiplier | None = None

    @property
    def width(self) -> int:
        return len(self.multipliers)

    def in_groups(self, places: np.ndarray) -> np.ndarray:
        """The places [columns] in the first group as those in all groups, [groups, columns]; unchanged without groups."""
        return places if self.grouping < 0 else places + np.arange(self.groups)[:, None]

    def of(self, rows: Rows, numbers: np.ndarray) -> "BasisColumns":
        """The columns for some rows; `numbers` [multipliers, rows] are needed without codes."""
        if not self.columns:
            return BasisColumns(self, numbers=numbers[self.first : self.first + self.width])
        codes, table = rows.tabled(self.columns, self.multipliers)
        group = rows.groups[self.grouping] if self.grouping >= 0 else NONE
        by = rows.multiplied([self.by], np.empty((1, len(codes))))[0] if self.by else None
        # Codes beyond the largest take no time.
        return BasisColumns(self, codes=codes, table=table[: int(codes.max(initial=0)) + 1], group=group, by=by)


class BasisColumns(NamedTuple):
    """The columns of a basis for some rows: `table` [codes, columns] at `codes` [rows], or `numbers` [columns, rows]. A basis
    with groups also has the `group` [rows]. The number `by` [rows] multiplies the columns."""

    basis: Basis
    codes: np.ndarray = NONE
    table: np.ndarray = NONE
    numbers: np.ndarray = NONE
    group: np.ndarray = NONE
    by: np.ndarray | None = None

    @property
    def curve(self) -> "BasisColumns":
        """The columns without the number that multiplies them."""
        return self._replace(by=None)

    def times(self, value: np.ndarray) -> np.ndarray:
        """A value [rows] times the number that multiplies the columns."""
        return value if self.by is None else value * self.by

    def changed(self, function: Callable[[np.ndarray], np.ndarray]) -> "BasisColumns":
        """The same rows with a function of each number, such as its size or square."""
        if self.by is not None:
            return self.curve.changed(function)._replace(by=function(self.by))
        if not self.basis.columns:
            return self._replace(numbers=function(self.numbers))
        return self._replace(table=function(self.table))

    def add_along(self, eta: np.ndarray, coefficients: np.ndarray) -> None:
        """Add the columns times their coefficients to eta [rows]: [columns], or [groups, columns] of a basis with groups."""
        if self.by is not None:
            along = np.zeros(len(eta))
            self.curve.add_along(along, coefficients)
            eta += self.times(along)
            return
        if self.basis.grouping >= 0:
            of_codes = np.ascontiguousarray(coefficients @ self.table.T)
            kernels.add_looked_up_pairs(eta, of_codes.reshape(-1), self.group, self.codes, len(self.table))
            return
        if self.basis.columns:
            kernels.add_looked_up(eta, self.table @ coefficients, self.codes)
            return
        for coefficient, number in zip(coefficients, self.numbers, strict=True):
            eta += coefficient * number

    def sums(self, value: np.ndarray) -> np.ndarray:
        """The sums of `value` [rows] times each column, [columns]."""
        value = self.times(value)
        if not self.basis.columns:
            return self.numbers @ value
        by_code = np.zeros(len(self.table))
        kernels.add_by_code(by_code, self.codes, value)
        return self.table.T @ by_code

    def sums_by_group(self, value: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
        """The same by group [rows], of which there are `size`, [size, columns]."""
        sums, value = np.zeros((size, self.basis.width)), self.times(value)
        if not self.basis.columns:
            kernels.add_numbers_by_group(sums, group, self.numbers, value)
        elif size * len(self.table) <= len(value):
            by_code = np.zeros((size, len(self.table)))
            kernels.add_by_codes(by_code.reshape(-1), group, self.codes, len(self.table), value)
            return by_code @ self.table
        else:
            kernels.add_table_by_group(sums, group, self.codes, self.table, value)
        return sums

    def products_by_group(self, other: "BasisColumns", value: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
        """The sums of `value` [rows] times each pair of columns of this and of the other basis, by group [rows], of which there
        are `size`, [size, columns, columns]."""
        self, other, value = self.curve, other.curve, self.times(other.times(value))
        if self.basis.columns and size * len(self.table) <= MOST_PAIRS * len(value):
            if self.basis is other.basis:
                by_code = np.zeros((size, len(self.table)))
                kernels.add_by_codes(by_code.reshape(-1), group, self.codes, len(self.table), value)
                return np.stack([self.table.T @ (each[:, None] * self.table) for each in by_code])
            joint, count = joint_groups((group, self.codes), (size, len(self.table)))
            of_codes = other.sums_by_group(value, joint, count).reshape(size, len(self.table), -1)
            return np.stack([self.table.T @ each for each in of_codes])
        each = (self.table[self.codes, k] if self.basis.columns else self.numbers[k] for k in range(self.basis.width))
        return np.stack([other.sums_by_group(value * number, group, size) for number in each], axis=1)

    def products(self, other: "BasisColumns", value: np.ndarray) -> np.ndarray:
        """The sums of `value` [rows] times each pair of columns of this and of the other basis, [columns, columns]."""
        self, other, value = self.curve, other.curve, self.times(other.times(value))
        if self.basis is other.basis and self.basis.columns:
            by_code = np.zeros(len(self.table))
            kernels.add_by_code(by_code, self.codes, value)
            return self.table.T @ (by_code[:, None] * self.table)
        if not self.basis.columns and not other.basis.columns:
            whole = np.zeros((self.basis.width, other.basis.width))
            for first in range(0, len(value), CHUNK):
                chunk = slice(first, first + CHUNK)
                whole += (self.numbers[:, chunk] * value[chunk]) @ other.numbers[:, chunk].T
            return whole
        if not self.basis.columns:
            return other.products(self, value).T
        if not other.basis.columns:
            by_code = np.zeros((len(self.table), other.basis.width))
            kernels.add_numbers_by_group(by_code, self.codes, other.numbers, value)
            return self.table.T @ by_code
        if len(self.table) * len(other.table) <= MOST_PAIRS * len(value):
            pairs = np.zeros((len(self.table), len(other.table)))
            kernels.add_by_codes(pairs.reshape(-1), self.codes, other.codes, len(other.table), value)
            return self.table.T @ pairs @ other.table
        by_code = np.zeros((len(self.table), other.basis.width))
        kernels.add_table_by_group(by_code, self.codes, other.codes, other.table, value)
        return self.table.T @ by_code

    def add_form(self, forms: np.ndarray, other: "BasisColumns", matrix: np.ndarray) -> None:
        """Add the bilinear form of this and of the other basis with `matrix` [columns, columns] to forms [rows]: the quadratic
        form of the columns if the basis is the same."""
        if self.by is not None or other.by is not None:
            added = np.zeros(len(forms))
            self.curve.add_form(added, other.curve, matrix)
            forms += self.times(other.times(added))
            return
        if self.basis is other.basis and self.basis.columns:
            kernels.add_looked_up(forms, np.einsum("ij,ij->i", self.table @ matrix, self.table), self.codes)
        elif self.basis.columns and other.basis.columns:
            if len(self.table) * len(other.table) <= MOST_PAIRS * len(forms):
                pairs = np.ascontiguousarray(self.table @ matrix @ other.table.T)
                kernels.add_looked_up_pairs(forms, pairs.reshape(-1), self.codes, other.codes, len(other.table))
            else:
                kernels.add_dot(forms, self.codes, self.table @ matrix, other.codes, other.table)
        elif not self.basis.columns and other.basis.columns:
            other.add_form(forms, self, matrix.T)
        else:
            for first in range(0, len(forms), CHUNK):
                chunk = slice(first, first + CHUNK)
                mine = self.numbers[:, chunk] if not self.basis.columns else self.table[self.codes[chunk]].T
                forms[chunk] += np.einsum("ij,ij->j", matrix.T @ mine, other.numbers[:, chunk])

    def add_form_by_group(self, forms: np.ndarray, other: "BasisColumns", matrices: np.ndarray) -> None:
        """As `add_form`, with a matrix for each group of this basis, [groups, columns, columns]. The other basis has the same
        groups, or none."""
        if other.by is not None:
            added = np.zeros(len(forms))
            self.add_form_by_group(added, other.curve, matrices)
            forms += other.times(added)
            return
        if self.basis is other.basis:
            of_codes = np.stack([np.einsum("ij,ij->i", self.table @ each, self.table) for each in matrices])
            kernels.add_looked_up_pairs(forms, of_codes.reshape(-1), self.group, self.codes, len(self.table))
            return
        joint, _ = joint_groups((self.group, self.codes), (len(matrices), len(self.table)))
        left = np.concatenate([self.table @ each for each in matrices])
        if other.basis.columns:
            kernels.add_dot(forms, joint, left, other.codes, other.table)
            return
        for first in range(0, len(forms), CHUNK):
            chunk = slice(first, first + CHUNK)
            forms[chunk] += np.einsum("ij,ji->i", left[joint[chunk]], other.numbers[:, chunk])

    def add_form_with_group(self, forms: np.ndarray, group: np.ndarray, matrix: np.ndarray) -> None:
        """Add to forms [rows] the columns times the row of `matrix` [groups, columns] of each group [rows]. For a basis with
        groups of its own it is [groups, groups of the basis, columns]."""
        if self.by is not None:
            added = np.zeros(len(forms))
            self.curve.add_form_with_group(added, group, matrix)
            forms += self.times(added)
            return
        if self.basis.grouping >= 0:
            group, _ = joint_groups((group, self.group), matrix.shape[:2])
            matrix = matrix.reshape(-1, self.basis.width)
        if self.basis.columns:
            kernels.add_dot(forms, group, np.ascontiguousarray(matrix), self.codes, self.table)
            return
        for first in range(0, len(forms), CHUNK):
            chunk = slice(first, first + CHUNK)
            forms[chunk] += np.einsum("ji,ij->j", matrix[group[chunk]], self.numbers[:, chunk])


def joint_groups(groups: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[np.ndarray, int]:
    """The combination of the groups of some groupings, each [rows], and how many there are. The last changes first."""
    joint, count = groups[0], sizes[0]
    for group, size in zip(groups[1:], sizes[1:], strict=True):
        joint, count = joint.astype(np.uint32) * np.uint32(size) + group, count * size
    return joint, count


def bases_of(
    design: Design,
    signature: Signature,
    multipliers: Sequence[Multiplier],
    parts: np.ndarray,
    eliminated: Sequence[int] = (),
) -> list[Basis]:
    """The bases of a design: adjacent multipliers of the same smooth term. `multipliers` and `parts` as `parts.looked_up_parts`
    has them. Each part has one coefficient, or one for each level of the same factor. `eliminated` parts belong to no
    basis."""
    if design.equations:
        return []
    users = np.bincount(parts[parts[:, 2] >= 0, 2], minlength=len(multipliers))
    terms: dict[tuple[str, int], list[int]] = {}
    excluded = [design.parts[k].term for k in eliminated]
    for part, (_, grouping, which) in zip(design.parts, parts, strict=True):
        if part.term.kind.is_smooth and part.term not in excluded and users[which] == 1:
            terms.setdefault((part.term.name, int(grouping)), []).append(int(which))
    sizes = {column.column: column.table_size for column in signature.inputs if column.coded}
    start = {int(which): int(place) for place, _, which in parts if which >= 0}
    bases: list[Basis] = []
    by_name = {term.name: term for term in design.terms}
    for (name, grouping), of_term in terms.items():
        first, last = of_term[0], of_term[-1] + 1
        if of_term != list(range(first, last)):
            continue
        factors, number = design.smoothed(by_name[name]), design.multiplier_of(by_name[name])
        columns = [column for factor in factors for column in factor.columns]
        tabled = all(column in sizes for column in columns) and (
            len(columns) == 1 or math.prod(sizes[column] for column in columns) <= MOST_JOINT
        )
        groups = design.levels_of(design.groupings[grouping]) if grouping >= 0 else 1
        if grouping >= 0:
            of_another = any(basis.grouping not in (-1, grouping) for basis in bases)
            if of_another or not tabled or groups * math.prod(sizes[column] for column in columns) > MOST_BY:
                continue
        places = np.array([start[which] for which in of_term])
        of_columns = tuple((column, sizes[column]) for column in columns) if tabled else ()
        of_basis, of_number = multipliers[first:last], None
        if tabled and number:
            of_number = Multiplier(((number.name, 0),), RAW)
            of_basis = [
                replace(
                    each, numbers=tuple(each_number for each_number in each.numbers if each_number[0] != number.name)
                )
                for each in of_basis
            ]
        bases.append(Basis(first, tuple(of_basis), places, of_columns, grouping, groups, of_number))
    return bases


def apart(parts: np.ndarray, bases: Sequence[Basis]) -> np.ndarray:
    """Which parts are of no basis, [parts]; `parts` as `kernels.add_linear_predictor` takes them."""
    return ~np.isin(parts[:, 0], [place for basis in bases for place in basis.places])


class BasisSums:
    """Where sums of numbers of bases are in a vector. `groupings` are those of a row, in their order, with their `sizes`."""

    def __init__(self, bases: Sequence[Basis], sizes: Mapping[Hashable, int]):
        self._basis = {basis.first + k: (number, k) for number, basis in enumerate(bases) for k in range(basis.width)}
        self._groupings, self._sizes = list(sizes), list(sizes.values())
        self._jobs: dict[BasisJob, list[tuple[int, int, int]]] = {}

    def has(self, numbers: Sequence[int]) -> bool:
        """Whether any of these numbers belongs to a basis."""
        return any(number in self._basis for number in numbers)

    def covers(self, numbers: Sequence[int], groups: Sequence[Hashable]) -> bool:
        """Whether such a sum can be made here: of one or two columns of bases, in all, or by one or two groupings."""
        return sum(number in self._basis for number in numbers) <= 2 and len(groups) <= 2

    def put(self, value: Hashable, numbers: Sequence[int], groups: Sequence[Hashable], start: int) -> None:
        """Make also this sum, which begins at `start` in the vector."""
        others = tuple(number for number in numbers if number not in self._basis)
        (first, column), (second, other) = [*(self._basis[each] for each in numbers if each in self._basis), (-1, 0)][
            :2
        ]
        groupings = tuple(self._groupings.index(group) for group in groups)
        self._jobs.setdefault(BasisJob(value, others, first, second, groupings), []).append((start, column, other))

    @cached_property
    def _places(self) -> dict["BasisJob", np.ndarray]:
        """For each job the positions of its sums, and the columns that they are of, [3, sums]."""
        return {job: np.array(places).T for job, places in self._jobs.items()}

    def add(
        self,
        sums: np.ndarray,
        product: Callable[[Any, tuple[int, ...]], np.ndarray],
        columns: Sequence[BasisColumns],
        groups: np.ndarray,
    ) -> None:
        """Add some rows. `product` returns a value times other numbers, [rows], `columns` has the columns of each basis, and
        `groups` [groupings, rows]. All sums of a job are made, though some are another worker's: so they have the same bits."""
        for job, (starts, mine, others) in self._places.items():
            value = np.ascontiguousarray(product(job.value, job.numbers), float)
            first, second = columns[job.first], columns[job.second] if job.second >= 0 else None
            if not job.groupings:
                sums[starts] += first.products(second, value)[mine, others] if second else first.sums(value)[mine]
                continue
            sizes = [self._sizes[grouping] for grouping in job.groupings]
            group, size = joint_groups([groups[grouping] for grouping in job.groupings], sizes)
            if second:
                by_group = first.products_by_group(second, value, group, size)[:, mine, others]
            else:
                by_group = first.sums_by_group(value, group, size)[:, mine]
            for start, of_sum in zip(starts, by_group.T, strict=True):
                sums[start : start + size] += of_sum


class BasisJob(NamedTuple):
    """Sums of a value times other `numbers`, times the columns of the basis number `first`, and of `second` (-1 for none), by the
    groupings with these numbers."""

    value: Hashable
    numbers: tuple[int, ...]
    first: int
    second: int
    groupings: tuple[int, ...]
