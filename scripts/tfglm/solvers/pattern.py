"""The sparsity pattern of the information matrix of absorbed factors: which pairs of levels occur in the rows.

The pattern is stored in compressed sparse rows (Golub & Van Loan, Matrix Computations, 11.1.5), with 4 bytes for each pair of
levels. The connected components of each two factors show which coefficients the rows identify.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.engine.cell_kernels import count_rows, number_components, place_in_rows, unite

SWEEPS = 4
"""Rounds of projections for three or more factors; a round projects for each pair of factors."""


@dataclass(frozen=True, eq=False)
class Sparsity:
    """The positions of the entries of a sparse matrix. The columns of row i are `columns[starts[i] : starts[i + 1]]`; both
    arrays are int32."""

    starts: np.ndarray
    columns: np.ndarray
    width: int

    @classmethod
    def of(cls, pairs: "Sequence[Placed]", rows: int, width: int) -> tuple["Sparsity", list[np.ndarray]]:
        """The sparsity of pairs of levels, and the position of each pair in `columns`."""
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
    """Pairs of levels of two factors, `keys` = first * size + second, with their position in a matrix.

    The first level gives the row of the matrix and the second the column. With `by_second` it is the reverse. Numbers of rows
    begin at `row`, and numbers of columns at `column`.
    """

    keys: np.ndarray
    size: int
    by_second: bool
    row: int
    column: int


NOWHERE = Sparsity(np.zeros(1, np.int32), np.zeros(0, np.int32), 0)


@dataclass(frozen=True, eq=False)
class Pattern:
    """The positions of the entries of M outside its diagonal (solvers.sparse_information).

    `size` = m is the number of coefficients of all absorbed factors. `factors` are the slices of each factor, and number
    `largest` has the most coefficients. The other factors have o coefficients together. `with_largest` is the sparsity of E,
    [coefficients of the largest, o]. `among` is the sparsity of the upper triangle of M_oo, [o, o]. Weights by pair list the
    entries of E, then of M_oo. The first coefficients of a factor, one for each of its `levels`, are its effects if it
    `has_effects`; slopes follow.
    """

    size: int
    factors: tuple[slice, ...]
    levels: tuple[int, ...]
    has_effects: tuple[bool, ...]
    largest: int
    with_largest: Sparsity
    among: Sparsity
    slow: list[bool] = field(default_factory=list)
    """Not empty once a system took many steps (solvers.sparse_information)."""

    @classmethod
    def of(cls, design: Design, keys: Sequence[np.ndarray]) -> tuple["Pattern", list[np.ndarray]]:
        """The pattern, and the positions in the weights by pair: for each pair of factors, and for each two of their parts.
        `keys` has the pairs of levels that occur, for each pair of factors (engine.cells)."""
        parts = [[design.parts[k] for k in of_factor] for of_factor in design.absorbed_groupings]
        factors = tuple(
            slice(of[0].where.start - design.reported_size, of[-1].where.stop - design.reported_size) for of in parts
        )
        size, widths = design.size - design.reported_size, [where.stop - where.start for where in factors]
        largest, levels = max(range(len(parts)), key=widths.__getitem__), tuple(of[0].size for of in parts)
        pattern = cls(size, factors, levels, tuple(not of[0].multiplier for of in parts), largest, NOWHERE, NOWHERE)
        with_largest: list[Placed] = []
        among: list[Placed] = []
        which: list[list[Placed]] = []
        for (first, second), of_pair in zip(combinations(range(len(parts)), 2), keys, strict=True):
            is_with_largest, by_second = largest in (first, second), second == largest
            for i, k in product(range(len(parts[first])), range(len(parts[second]))):
                of_first, of_second = i * levels[first], k * levels[second]
                of_row, of_column = (of_second, of_first) if by_second else (of_first, of_second)
                row = of_row + (0 if is_with_largest else pattern.place(first))
                column = of_column + pattern.place(first if by_second else second)
                which.append(with_largest if is_with_largest else among)
                which[-1].append(Placed(of_pair, levels[second], by_second, row, column))
        others = size - widths[largest]
        of_e, places_e = Sparsity.of(with_largest, widths[largest], others)
        of_others, places_others = Sparsity.of(among, others, others)
        left = {id(with_largest): places_e, id(among): [len(of_e.columns) + places for places in places_others]}
        return replace(pattern, with_largest=of_e, among=of_others), [left[id(kind)].pop(0) for kind in which]

    @property
    def pairs(self) -> int:
        return len(self.with_largest.columns) + len(self.among.columns)

    @property
    def eliminated(self) -> slice:
        """The coefficients of the largest factor."""
        return self.factors[self.largest]

    @property
    def has_slopes(self) -> bool:
        """Whether some level has several coefficients."""
        return self.size > sum(self.levels)

    def effects(self, factor: int) -> slice:
        """The first coefficients of a factor, one for each level."""
        start = self.factors[factor].start
        return slice(start, start + self.levels[factor])

    @cached_property
    def others(self) -> np.ndarray:
        """The positions of the coefficients of all factors but the largest, [o]."""
        return np.delete(np.arange(self.size), self.eliminated)

    def place(self, factor: int) -> int:
        """The position of the first coefficient of a factor among `others`. The factor is not the largest."""
        before = self.factors[factor].start
        return before - (self.eliminated.stop - self.eliminated.start if before > self.eliminated.start else 0)

    def components(self, first: int, second: int) -> tuple[int, np.ndarray]:
        """The number of connected components of two factors, and the component of each level, int32 [m]. Levels without a
        pair have -1. (SciPy's `connected_components` needs the graph in both directions: ten times the memory.)"""
        is_with_largest = self.largest in (first, second)
        entries = self.with_largest if is_with_largest else self.among
        by_row, by_column = (second, first) if second == self.largest else (first, second)
        (row, rows), (column, columns) = (
            (0 if factor == self.largest else self.place(factor), self.effects(factor))
            for factor in (by_row, by_column)
        )
        above, component = np.full(self.size, -1, np.int32), np.empty(self.size, np.int32)
        of_rows, of_columns = (row, row + rows.stop - rows.start), (column, column + columns.stop - columns.start)
        unite(entries.starts, entries.columns, of_rows, of_columns, (rows.start, columns.start), above)
        return number_components(above, component), component

    @cached_property
    def _components(self) -> dict[tuple[int, int], tuple[int, np.ndarray]]:
        """The components of each two factors with effects."""
        with_effects = [factor for factor, has_effects in enumerate(self.has_effects) if has_effects]
        return {pair: self.components(*pair) for pair in combinations(with_effects, 2)}

    def sets(self, factor: int) -> np.ndarray:
        """The connected set of each level of a factor, [levels]. Levels of one set are connected through each other factor."""
        sets = np.zeros(self.levels[factor], np.int64)
        for pair, (count, component) in self._components.items():
            if factor in pair:
                sets = np.unique(sets * (count + 1) + component[self.effects(factor)] + 1, return_inverse=True)[1]
        return sets

    @cached_property
    def redundant(self) -> tuple[int, ...]:
        """The number of levels of each factor that earlier factors make redundant.

        It is the number of connected components with an earlier factor, and the largest number if there are several earlier
        factors. The count is exact for two factors. Three or more factors may have more redundant levels, which this count does
        not find. reghdfe counts the same way (Correia 2017).
        """
        return tuple(
            max((count for (_, second), (count, _) in self._components.items() if second == factor), default=0)
            for factor in range(len(self.factors))
        )

    @cached_property
    def _null(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The null directions of T. Each pair of factors has one direction for each component.

        Within a component, the direction is 1 for the levels of one factor and -1 for the levels of the other. Levels of the
        largest factor are left out. Each pair of factors has the positions of its levels among the others, their components and
        their signs, each [entries].
        """
        directions = []
        for (first, second), (_, component) in self._components.items():
            sign = np.zeros(self.size)
            sign[self.effects(first)], sign[self.effects(second)] = 1.0, -1.0
            component, sign = component[self.others], sign[self.others]
            there = np.flatnonzero((component >= 0) & (sign != 0))
            directions.append((there, component[there], sign[there]))
        return directions

    def consistent(self, vectors: np.ndarray) -> np.ndarray:
        """Right sides for T, [o, columns], without their part along null directions, which is rounding error."""
        vectors = vectors.copy()
        # The directions of a pair of factors are orthogonal. Directions of several pairs are not, so the projections
        # alternate (von Neumann 1950).
        for there, component, sign in self._null * (1 if len(self._null) < 2 else SWEEPS):
            levels = np.bincount(component)
            for column in vectors.T:
                column[there] -= sign * (np.bincount(component, sign * column[there]) / levels)[component]
        return vectors
