"""Which levels of absorbed factors occur together: where the sparse part of their information matrix has entries.

It is kept by rows (compressed sparse rows; Golub & Van Loan, Matrix Computations, 11.1.5): 4 bytes for each pair of levels. So
are the connected components of each two factors, which say what the rows can tell apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.engine.cell_kernels import count_rows, insert_all, number_all, number_components, place_in_rows, unite
from tfglm.engine.cells import empty_slots

SWEEPS = 4
"""Of projections onto what all pairs of three or more factors allow."""


class Numbered:
    """Keys with numbers, in the order in which they came."""

    def __init__(self) -> None:
        self._slots, self._keys, self._count = empty_slots(0), np.empty(0, np.int64), 0

    def add(self, keys: np.ndarray) -> np.ndarray:
        """The numbers of these keys, int32; those not seen before get new ones."""
        most = self._count + len(keys)
        if 2 * most > len(self._slots):
            self._slots = empty_slots(most)
            insert_all(self.keys, self._slots)
        if most > len(self._keys):
            self._keys = np.concatenate([self.keys, np.empty(2 * most - self._count, np.int64)])
        numbers = np.empty(len(keys), np.int32)
        self._count = number_all(keys.astype(np.int64), self._slots, self._keys, self._count, numbers)
        return numbers

    @property
    def keys(self) -> np.ndarray:
        return self._keys[: self._count]


@dataclass(frozen=True, eq=False)
class Sparsity:
    """Where a sparse matrix has entries: those of row i are `starts[i]` to `starts[i + 1]`, in `columns`, both int32."""

    starts: np.ndarray
    columns: np.ndarray
    width: int

    @classmethod
    def of(cls, pairs: "Sequence[Placed]", rows: int, width: int) -> tuple["Sparsity", list[np.ndarray]]:
        """That of pairs of levels, and where each of them stands."""
        counts = np.zeros(rows + 1, np.int32)
        for each in pairs:
            count_rows(each.keys, each.size, each.by_second, each.row, counts)
        starts = np.cumsum(counts, dtype=np.int32)
        ends, columns = starts[:-1].copy(), np.empty(starts[-1], np.int32)
        places = []
        for each in pairs:
            places.append(np.empty(len(each.keys), np.int32))
            args = (each.keys, each.size, each.by_second, each.row, each.column, ends, columns, places[-1])
            place_in_rows(*args)
        return cls(starts, columns, width), places

    def matrix(self, weights: np.ndarray) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array((weights, self.columns, self.starts), shape=(len(self.starts) - 1, self.width))


@dataclass(frozen=True, eq=False)
class Placed:
    """Pairs of levels of two factors, `keys` = first * size + second. Row and column of a matrix are the first and the second, or
    the other way round if `by_second`; those of the first level are number `row` and `column`."""

    keys: np.ndarray
    size: int
    by_second: bool
    row: int
    column: int


NOWHERE = Sparsity(np.zeros(1, np.int32), np.zeros(0, np.int32), 0)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where M has entries, beside the diagonal. There are m levels of all absorbed factors; `factors` are the slices of each, and
    number `largest` has the most. `with_largest` is where E has entries, [levels of the largest, o], and `among` where the upper
    triangle of M_oo has, [o, o]: o are the levels of the others. Weights by pair are those of E, then those of M_oo."""

    size: int
    factors: tuple[slice, ...]
    largest: int
    with_largest: Sparsity
    among: Sparsity

    @classmethod
    def of(cls, design: Design, keys: Sequence[np.ndarray]) -> tuple["Pattern", list[np.ndarray]]:
        """`keys` are the pairs of levels that occur, of each pair of factors (engine.cells). Returned with the places of each in
        weights by pair."""
        parts = [design.parts[k] for k in design.absorbed_parts]
        factors = tuple(
            slice(part.where.start - design.reported_size, part.where.stop - design.reported_size) for part in parts
        )
        size, largest = design.size - design.reported_size, max(range(len(parts)), key=lambda k: parts[k].size)
        pattern = cls(size, factors, largest, NOWHERE, NOWHERE)
        with_largest: list[Placed] = []
        among: list[Placed] = []
        which: list[list[Placed]] = []
        for (first, second), of_pair in zip(combinations(range(len(parts)), 2), keys, strict=True):
            is_with_largest, by_second = largest in (first, second), second == largest
            row = 0 if is_with_largest else pattern.place(first)
            column = pattern.place(first if by_second else second)
            which.append(with_largest if is_with_largest else among)
            which[-1].append(Placed(of_pair, parts[second].size, by_second, row, column))
        others = size - parts[largest].size
        of_e, places_e = Sparsity.of(with_largest, parts[largest].size, others)
        of_others, places_others = Sparsity.of(among, others, others)
        left = {id(with_largest): places_e, id(among): [len(of_e.columns) + places for places in places_others]}
        return replace(pattern, with_largest=of_e, among=of_others), [left[id(kind)].pop(0) for kind in which]

    @property
    def pairs(self) -> int:
        """How many pairs of levels there are."""
        return len(self.with_largest.columns) + len(self.among.columns)

    @property
    def eliminated(self) -> slice:
        """The levels of the largest factor."""
        return self.factors[self.largest]

    @cached_property
    def others(self) -> np.ndarray:
        """The positions of levels that are not of the largest factor, [o]."""
        return np.setdiff1d(np.arange(self.size), np.arange(self.eliminated.start, self.eliminated.stop))

    def place(self, factor: int) -> int:
        """The number of the first level of a factor that is not the largest among the others."""
        before = self.factors[factor].start
        return before - (self.eliminated.stop - self.eliminated.start if before > self.eliminated.start else 0)

    def components(self, first: int, second: int) -> tuple[int, np.ndarray]:
        """Of two factors, by their numbers: how many connected components they have, and that of each level, int32 [m], -1 of
        those of no pair. (SciPy's `connected_components` wants the graph in both directions: ten times the memory.)"""
        is_with_largest = self.largest in (first, second)
        entries = self.with_largest if is_with_largest else self.among
        by_row, by_column = (second, first) if second == self.largest else (first, second)
        (row, rows), (column, columns) = (
            (0 if factor == self.largest else self.place(factor), self.factors[factor])
            for factor in (by_row, by_column)
        )
        above, component = np.full(self.size, -1, np.int32), np.empty(self.size, np.int32)
        of_rows, of_columns = (row, row + rows.stop - rows.start), (column, column + columns.stop - columns.start)
        unite(entries.starts, entries.columns, of_rows, of_columns, (rows.start, columns.start), above)
        return number_components(above, component), component

    @cached_property
    def _components(self) -> dict[tuple[int, int], tuple[int, np.ndarray]]:
        """Those of each two factors."""
        return {pair: self.components(*pair) for pair in combinations(range(len(self.factors)), 2)}

    @cached_property
    def redundant(self) -> tuple[int, ...]:
        """Of each factor how many of its levels earlier factors make redundant: its connected components with one of them, and
        the most if there are several. That is exact for two factors; three or more together may make further levels redundant,
        of which this count, that of reghdfe (Correia 2017), does not know."""
        return tuple(
            max((self._components[before, factor][0] for before in range(factor)), default=0)
            for factor in range(len(self.factors))
        )

    @cached_property
    def _null(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Directions that T has no part in: of each two factors, the sum of the levels of one in a component less that of the
        other's, without those of the largest factor. As places [entries] among the others, their components, and signs."""
        directions = []
        for (first, second), (_, component) in self._components.items():
            sign = np.zeros(self.size)
            sign[self.factors[first]], sign[self.factors[second]] = 1.0, -1.0
            component, sign = component[self.others], sign[self.others]
            there = np.flatnonzero((component >= 0) & (sign != 0))
            directions.append((there, component[there], sign[there]))
        return directions

    def consistent(self, vectors: np.ndarray) -> np.ndarray:
        """Right sides for T, [o, columns], without what no solution can have: rounding errors."""
        vectors = vectors.copy()
        # The directions of one pair of factors are orthogonal, those of several pairs are not (von Neumann 1950).
        for there, component, sign in self._null * (1 if len(self._null) < 2 else SWEEPS):
            levels = np.bincount(component)
            for column in vectors.T:
                column[there] -= sign * (np.bincount(component, sign * column[there]) / levels)[component]
        return vectors
