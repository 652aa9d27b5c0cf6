"""Sums over rows for absorbed factors: by the pairs of levels that occur, and of covariates after projecting out the
absorbed factors.

Most entries of a table of all pairs of levels would be zero. So each call numbers the pairs that occur in its rows, in
order of occurrence, and returns one sum for each. It returns the list of these pairs once (the pass `cells`); their order
is the same each time, because the rows are. So vectors of different calls have different lengths, and an executor maps them
instead of summing them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations, product

import numpy as np

from tfglm.data.numbered import empty_slots, number_rows
from tfglm.design.design import Design
from tfglm.engine.cell_kernels import add_forms, add_left, add_numbered, widen
from tfglm.engine.evaluated import Evaluated
from tfglm.engine.leverage import TOO_NEAR
from tfglm.engine.passes import OTHER_PASSES, Pass, SumPass
from tfglm.engine.sums import WEIGHT

NO_CLUSTER = -1
"""The number for a level without rows."""

NO_NUMBERS = np.zeros((0, 0))


def pairs_of_absorbed(design: Design) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The numbers of the parts of all two absorbed factors."""
    return list(combinations(design.absorbed_groupings, 2))


class LevelPairs:
    """The pairs of levels that the rows of a call have, and for each the sums of the weights, times the numbers of slopes: one
    sum for each two parts. `multipliers` has the number of each part, -1 for effects."""

    def __init__(self, design: Design, rows: int, multipliers: np.ndarray) -> None:
        self._jobs, self._tables = [], []
        for pair in pairs_of_absorbed(design):
            (first, larger), (second, size) = (
                (design.groupings.index(design.parts[parts[0]].grouping), design.parts[parts[0]].size) for parts in pair
            )
            most, factors = min(rows, larger * size), list(product(*(multipliers[list(parts)] for parts in pair)))
            self._jobs.append((first, second, size, factors))
            self._tables.append((empty_slots(most), np.empty(most, np.int64), np.zeros((len(factors), most))))
        self._counts = [0] * len(self._jobs)

    def add(
        self, groups: np.ndarray, kept: np.ndarray, weight: np.ndarray | None = None, numbers: np.ndarray = NO_NUMBERS
    ) -> None:
        """Number the pairs of rows with `groups` [groupings, rows]; only rows with positive `kept` [rows] count. Without
        weights nothing is summed. `numbers` [multipliers, rows] are those of slopes."""
        places = np.empty(len(kept), np.int32)
        for job, ((first, second, size, factors), (slots, keys, sums)) in enumerate(
            zip(self._jobs, self._tables, strict=True)
        ):
            args = (groups[first], groups[second], size, kept, slots, keys, self._counts[job], places)
            self._counts[job] = number_rows(*args)
            for total, multiplied in zip(sums, factors, strict=True):
                if weight is not None:
                    add_numbered(total, places, reduce(np.multiply, (numbers[k] for k in multiplied if k >= 0), weight))

    def keys(self) -> list[np.ndarray]:
        """Return for each pair of factors the pairs of levels, `first * levels of the second + second`, in order of
        occurrence. Other arrays are freed, as they may be large."""
        tables, self._tables = self._tables, []
        return [keys[:count] for (_, keys, _), count in zip(tables, self._counts, strict=True)]

    def sums(self) -> list[np.ndarray]:
        """The sums by pair for each two parts, in the same order. Other arrays are freed."""
        tables, self._tables = self._tables, []
        return [total[:count] for (*_, sums), count in zip(tables, self._counts, strict=True) for total in sums]


class PairPass(Pass):
    """The pass `cells`: for each pair of factors the number of pairs of levels, then these pairs. For each column of clusters,
    then by level of the absorbed factors the lowest and the highest number of the clusters of its rows."""

    def begin(self, state: Mapping[str, np.ndarray], rows: int) -> tuple[LevelPairs, np.ndarray]:
        design = self._passes.design
        levels = design.size - design.reported_size
        return LevelPairs(design, rows, self._passes.parts[:, 2]), np.full(
            (len(design.inference.clusters), 2, levels), float(NO_CLUSTER)
        )

    def map(self, block: Evaluated, partial: tuple[LevelPairs, np.ndarray]) -> None:
        design, rows, (cells, ends) = self._passes.design, block.rows, partial
        cells.add(rows.groups, rows.frequency)
        groups = rows.crossed_groups
        for number, (lowest, highest) in enumerate(ends):
            for k in design.absorbed_parts:
                part = design.parts[k]
                where = slice(part.where.start - design.reported_size, part.where.stop - design.reported_size)
                group = groups[design.groupings.index(part.grouping)]
                cluster = groups[len(design.groupings) + number]
                widen(group, cluster, rows.frequency, lowest[where], highest[where])

    def vector(self, partial: tuple[LevelPairs, np.ndarray]) -> np.ndarray:
        cells, ends = partial
        keys = cells.keys()
        return np.concatenate([[float(len(of_pair)) for of_pair in keys], *keys, ends.ravel()])


BY_PAIR = {name: f"{name} by pair" for name in ("information", "observed", "rectifier")}
"""The passes that also sum their weights by pair of levels, by the names of those that do not."""


class MatchPass(Pass):
    """The pass `matches` of a linear regression without weights: for each pair of levels of the first two absorbed factors that
    occurs, its number, rows, and the sums of the residuals and of their squares, [4, pairs] row by row."""

    def begin(self, state: Mapping[str, np.ndarray], rows: int) -> list[np.ndarray]:
        first, second = (self._passes.design.parts[k].size for k in self._passes.design.absorbed_parts[:2])
        most = min(rows, first * second)
        return [empty_slots(most), np.empty(most, np.int64), np.zeros((3, most)), np.zeros(1, np.int64)]

    def map(self, block: Evaluated, partial: list[np.ndarray]) -> None:
        design, kept, (slots, keys, sums, count) = self._passes.design, block.rows.frequency, partial
        parts, numbers = [design.parts[k] for k in design.absorbed_parts[:2]], np.empty(len(kept), np.int32)
        groups = [block.rows.groups[design.groupings.index(part.grouping)] for part in parts]
        count[:] = number_rows(*groups, parts[1].size, kept, slots, keys, count[0], numbers)
        residual = -np.divide(block.terms.score, kept, out=np.zeros(len(kept)), where=kept > 0)
        for power in range(3):
            add_numbered(sums[power], numbers, kept * residual**power)

    def vector(self, partial: list[np.ndarray]) -> np.ndarray:
        _, keys, sums, (count,) = partial
        return np.concatenate([keys[:count], *sums[:, :count]])


class PairedPass(Pass):
    """The sums of a pass, then for each pair of levels the sum of its weights."""

    @cached_property
    def sums(self) -> SumPass:
        """The pass without pairs."""
        return self._passes.named(next(name for name, paired in BY_PAIR.items() if paired == self.name))

    def begin(self, state: Mapping[str, np.ndarray], rows: int) -> tuple[np.ndarray, LevelPairs]:
        return self.sums.start(), LevelPairs(self._passes.design, rows, self._passes.parts[:, 2])

    def map(self, block: Evaluated, partial: tuple[np.ndarray, LevelPairs]) -> None:
        sums, cells = partial
        weight = self.sums.stages[-1].values(block)[WEIGHT]
        cells.add(block.rows.groups, block.rows.frequency, np.asarray(weight), block.numbers)
        self.sums.map(block, sums)

    def vector(self, partial: tuple[np.ndarray, LevelPairs]) -> np.ndarray:
        sums, cells = partial
        return np.concatenate([sums, *cells.sums()])


@dataclass
class Left:
    """What `add_left` adds to, which are parts of one vector, and its other arguments."""

    vector: np.ndarray
    rows: np.ndarray
    scores: np.ndarray
    squares: np.ndarray
    products: np.ndarray
    alone: np.ndarray
    number: int
    loadings: np.ndarray
    columns: np.ndarray


class LeftPass(Pass):
    """Sums of the covariates after the absorbed factors are projected out, by `loadings` [levels, columns] and `columns`
    [coefficients] in the state. The clusters are those of column `clustering` [1] of `Inference.cluster_counts`.

    - `left`: by cluster the rows, then the scores. Without clusters it is the products of the covariates with the squared scores;
      only the lower triangle is filled.
    - `left_hc2` and `left_hc3`: the same without clusters, with the squared scores divided by 1 - h and (1 - h)^2, where h is the
      leverage; the state has `sparse_information.SparsePart.inverse_parts` and `schur_inverse`. Then the number of rows of
      leverage 1, which are left out.
    - `columns`: by cluster the weights of the information matrix, then their products with what is left of the covariates, then
      with its squares. `products` has all products of two covariates instead of the squares, of which only the lower triangle is
      filled.
    """

    def begin(self, state: Mapping[str, np.ndarray], rows: int) -> Left:
        inference, number, loadings = self._passes.design.inference, int(state["clustering"][0]), state["loadings"]
        free, clusters = loadings.shape[1], inference.cluster_counts[number] if inference.cluster else 0
        columns = state["columns"].astype(np.int64)
        widths = {"columns": 1, "products": free}
        squares = (clusters, free, widths[self.name]) if self.name in widths else (0, 0, 0)
        products = (0, 0) if clusters else (free, free)
        shapes = [(clusters,), (clusters, free), squares, products, (int(self.name in OVER),)]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        vector = np.zeros(ends[-1])
        parts = [each.reshape(shape) for each, shape in zip(np.split(vector, ends[:-1]), shapes, strict=True)]
        counts, scores, squared, multiplied, alone = parts
        return Left(vector, counts, scores, squared, multiplied, alone, number, loadings, columns)

    @cached_property
    def _absorbed(self) -> np.ndarray:
        """The place of the grouping of each absorbed part, where its levels start in `loadings`, and its multiplier."""
        parts = self._passes.parts[list(self._passes.design.absorbed_parts)]
        return np.stack([parts[:, 1], parts[:, 0] - self._passes.design.reported_size, parts[:, 2]], axis=1)

    def map(self, block: Evaluated, partial: Left) -> None:
        design, rows = self._passes.design, block.rows
        groups = rows.crossed_groups if partial.number else rows.groups
        cluster = groups[len(design.groupings) + partial.number] if len(partial.rows) else np.zeros(0, groups.dtype)
        factors = block.terms.score, rows.frequency
        if self.name in ("columns", "products"):
            factors = block.terms.weight, block.terms.weight
        dense = self._passes.parts[[k for k in range(len(design.parts)) if k not in design.absorbed_parts]]
        if self.name in OVER:
            fixed = self._absorbed, partial.loadings, dense, partial.columns, rows.groups, block.numbers
            remaining = 1.0 - self._leverage(block, fixed)
            alone = rows.kept & (remaining <= TOO_NEAR)
            partial.alone += np.count_nonzero(alone)
            score = np.where(alone, 0.0, block.terms.score / np.where(alone, 1.0, remaining) ** (OVER[self.name] / 2))
            factors = score, rows.frequency
        sums = partial.scores, partial.squares, partial.rows, partial.products
        about = self._absorbed, partial.loadings, dense, partial.columns
        add_left(*sums, cluster, *factors, *about, rows.groups, block.numbers, np.zeros(partial.loadings.shape[1]))

    def _leverage(self, block: Evaluated, fixed: tuple[np.ndarray, ...]) -> np.ndarray:
        """The leverage of each row, [rows]. A row that represents several rows has the leverage of one of these."""
        design, state, absorbed = self._passes.design, block.state, self._absorbed
        largest = max(range(len(absorbed)), key=lambda k: design.parts[design.absorbed_parts[k]].size)
        others = np.delete(absorbed, largest, axis=0)
        sizes = [design.parts[k].size for k in np.delete(design.absorbed_parts, largest)]
        others[:, 1] = np.cumsum([0, *sizes])[:-1]
        places = (state[name].astype(np.int64) for name in ("starts", "columns of shares"))
        forms, kept, schur = np.zeros(len(block.rows.flag)), block.rows.frequency, state["schur_inverse"]
        inverse = (*places, state["shares"], state["own"], state["inverse"])
        add_forms(forms, kept, schur, *inverse, absorbed[largest, 0], others, fixed, np.zeros(len(schur)))
        return forms * np.divide(block.terms.weight, kept, out=np.zeros_like(forms), where=kept > 0)

    def vector(self, partial: Left) -> np.ndarray:
        return partial.vector


OVER = {"left_hc2": 1, "left_hc3": 2}
"""The powers of 1 - leverage by which passes divide the squared scores."""


OTHER_PASSES |= {"cells": PairPass, "matches": MatchPass, **dict.fromkeys(BY_PAIR.values(), PairedPass)}
OTHER_PASSES |= dict.fromkeys(("left", *OVER, "columns", "products"), LeftPass)
