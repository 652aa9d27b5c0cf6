"""Sums over rows, in all, by group, by pair or by triple of groups."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tfglm.engine import kernels
from tfglm.engine.bases import Basis, BasisColumns, BasisSums

Key = str | tuple[Any, ...]
"""The name of a value or a sum: a text, or a tuple of a text and numbers."""

RESIDUAL, WEIGHT = ("residual", 0), ("weight", 0, 0)
"""The first and the second derivative of the loss by the only linear predictor. With several, the numbers are equations."""

Product = tuple[Key, tuple[int, ...]]
"""A value and the numbers that it is multiplied by."""

MOST_BESIDE = 1024
"""Groups whose sums of four products are put side by side, for each block of rows: far fewer than rows."""


@dataclass(frozen=True)
class Sum:
    """The sum of `value` times each of `numbers` (both are what `SumLayout.add` is given): over all rows, or by the groups of
    one, two or three groupings."""

    value: Key
    numbers: tuple[int, ...] = ()
    groups: tuple[Hashable, ...] = ()


class SumLayout:
    """The positions of sums in one vector; equal sums are stored once under several names. `sizes` are the numbers of
    groups of the groupings, in the order of the groupings of a row. Numbers of `bases` are summed by code, if all sums can be."""

    def __init__(self, sums: Mapping[Any, Sum], sizes: Mapping[Hashable, int], bases: Sequence[Basis] = ()):
        self._names = {
            name: replace(sum_, numbers=tuple(sorted(sum_.numbers))) if len(sum_.numbers) > 1 else sum_
            for name, sum_ in sums.items()
        }
        self._sizes, self._groupings = dict(sizes), list(sizes)
        self._starts: dict[Sum, int] = {}
        self.size = 0
        """The number of numbers."""
        for sum_ in self._names.values():
            if sum_ not in self._starts:
                self._starts[sum_] = self.size
                self.size += self.size_of(sum_)
        self.bases = tuple(bases)
        """The bases of the numbers; none if their sums are made number by number."""
        self._of_bases = BasisSums(self.bases, self._sizes)
        has = self._of_bases.has
        if not all(self._of_bases.covers(each.numbers, each.groups) for each in self._starts if has(each.numbers)):
            self.bases, self._of_bases = (), BasisSums((), self._sizes)
            has = self._of_bases.has
        for sum_, start in self._starts.items():
            if has(sum_.numbers):
                self._of_bases.put(sum_.value, sum_.numbers, sum_.groups, start)
        self._alone = {sum_: start for sum_, start in self._starts.items() if not has(sum_.numbers)}

    @property
    def sums(self) -> list[Sum]:
        """The different sums in their order."""
        return list(self._starts)

    def size_of(self, sum_: Sum) -> int:
        """The number of numbers in the vector."""
        return math.prod(self._shape(sum_))

    def cut(self, first: int, last: int) -> "SumLayout":
        """The layout of the different sums from number `first` to `last`, not included, by their numbers."""
        chosen = self.sums[max(first, 0) : max(last, 0)]
        return SumLayout(dict(enumerate(chosen)), self._sizes, self.bases)

    def _shape(self, sum_: Sum) -> tuple[int, ...]:
        return tuple(self._sizes[group] for group in sum_.groups)

    @cached_property
    def _products(self) -> dict[Product, tuple[int | None, np.ndarray, np.ndarray, np.ndarray]]:
        """For each product to sum: the position of its sum over all rows, and the jobs of `kernels.add_by_group`,
        `add_by_pair` and `add_by_triple`."""
        in_fours = {
            (product, job[4]) for four, jobs in self._fours.items() for product in four for job in jobs.tolist()
        }
        jobs: dict[Product, list[list]] = {}
        for sum_, start in self._alone.items():
            product, groupings = (sum_.value, sum_.numbers), [self._groupings.index(group) for group in sum_.groups]
            of_product = jobs.setdefault(product, [[], [], [], []])
            if len(groupings) != 1 or (product, groupings[0]) not in in_fours:
                of_product[len(groupings)].append(
                    (start, *groupings, *(self._sizes[group] for group in sum_.groups[1:]))
                )
        return {
            product: (
                whole[0][0] if whole else None,
                np.array(single, np.int64).reshape(-1, 2),
                np.array(pairs, np.int64).reshape(-1, 4),
                np.array(triples, np.int64).reshape(-1, 6),
            )
            for product, (whole, single, pairs, triples) in jobs.items()
        }

    @cached_property
    def _fours(self) -> dict[tuple[Product, ...], np.ndarray]:
        """Four products that are summed by the same groups, and the jobs of `kernels.add_four_by_group`."""
        by_grouping: dict[Hashable, list[tuple[Product, int]]] = {}
        for sum_, start in self._alone.items():
            if len(sum_.groups) == 1 and self._sizes[sum_.groups[0]] <= MOST_BESIDE:
                by_grouping.setdefault(sum_.groups[0], []).append(((sum_.value, sum_.numbers), start))
        jobs: dict[tuple[Product, ...], list[tuple[int, ...]]] = {}
        for group, products in by_grouping.items():
            for first in range(0, len(products) - 3, 4):
                four, starts = zip(*products[first : first + 4], strict=True)
                jobs.setdefault(four, []).append((*starts, self._groupings.index(group), self._sizes[group]))
        return {four: np.array(of_four, np.int64) for four, of_four in jobs.items()}

    def add(
        self,
        sums: np.ndarray,
        values: Mapping[Any, np.ndarray | float],
        numbers: Callable[[], np.ndarray],
        groups: np.ndarray,
        columns: Sequence[BasisColumns] = (),
    ) -> None:
        """Add some rows to the sums so far, [size]. Values are [rows] each; or already summed, if they are by no group.
        `numbers` returns the multipliers, [numbers, rows]; it is called if the sums have any, and may lack the numbers of
        bases that have codes, whose `columns` it gets. `groups` are [groupings, rows]."""
        products: dict[Product, np.ndarray] = {}

        # A function that calls itself would be a reference cycle, which keeps the rows alive, and their memory from the
        # next rows.
        def product(value: Key, multipliers: tuple[int, ...]) -> np.ndarray:
            multiplied = np.asarray(values[value])
            for end in range(1, len(multipliers) + 1):
                if (value, multipliers[:end]) not in products:
                    products[value, multipliers[:end]] = multiplied * numbers()[multipliers[end - 1]]
                multiplied = products[value, multipliers[:end]]
            return multiplied

        for (value, multipliers), (whole, single, pairs, triples) in self._products.items():
            if whole is not None:
                whole_value = values[value]
                if multipliers:
                    sums[whole] += product(value, multipliers[:-1]) @ numbers()[multipliers[-1]]
                else:
                    sums[whole] += whole_value if isinstance(whole_value, float) else whole_value.sum()
            if len(single):
                kernels.add_by_group(sums, single, groups, product(value, multipliers))
            if len(pairs):
                kernels.add_by_pair(sums, pairs, groups, product(value, multipliers))
            if len(triples):
                kernels.add_by_triple(sums, triples, groups, product(value, multipliers))
        for four, jobs in self._fours.items():
            values_of_four = (np.ascontiguousarray(product(*each), float) for each in four)
            kernels.add_four_by_group(sums, jobs, groups, *values_of_four)
        self._of_bases.add(sums, product, columns, groups)

    def unpack(self, vector: np.ndarray) -> dict[Key, np.ndarray]:
        """The sums by name, as views of the vector."""
        named = {}
        for name, sum_ in self._names.items():
            start, shape = self._starts[sum_], self._shape(sum_)
            named[name] = vector[start : start + math.prod(shape)].reshape(shape)
        return named


def concatenated(layouts: Sequence[SumLayout], vector: np.ndarray) -> dict[Key, np.ndarray]:
    """Return the sums by name of layouts that follow each other in a vector, as views of it."""
    parts = np.split(vector, np.cumsum([layout.size for layout in layouts])[:-1])
    return {
        name: value for layout, part in zip(layouts, parts, strict=True) for name, value in layout.unpack(part).items()
    }
