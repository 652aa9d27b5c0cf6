"""Sums over rows for absorbed factors: by the pairs of levels that occur, and of covariates after projecting out the
absorbed factors.

Most entries of a table of all pairs of levels would be zero. So each call numbers the pairs that occur in its rows, in
order of occurrence, and returns one sum for each. It returns the list of these pairs once (the task `cells`); their order
is the same each time, because the rows are.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from tfglm.design.design import Design
from tfglm.distribute.tasks import Task, registered
from tfglm.engine.blocks import Signature
from tfglm.engine.cell_kernels import add_left, add_numbered, number_rows, widen
from tfglm.engine.passes import Evaluated, Passes
from tfglm.engine.rectified import rectified

NO_CLUSTER = -1
"""The number for a level without rows."""


def pairs_of_absorbed(design: Design) -> list[tuple[int, int]]:
    """The numbers of all two absorbed parts."""
    return list(combinations(design.absorbed_parts, 2))


def empty_slots(keys: int) -> np.ndarray:
    """Return a hash table for so many keys; at least half of its slots stay free."""
    return np.full(2 ** int(np.ceil(np.log2(2 * max(keys, 8)))), -1, np.int32)


class LevelPairs:
    """The pairs of levels that the rows of a call have, and the sum of the weights of each."""

    def __init__(self, design: Design, rows: int) -> None:
        self._jobs, self._tables = [], []
        for j, k in pairs_of_absorbed(design):
            first, second = (design.groupings.index(design.parts[part].grouping) for part in (j, k))
            size = design.parts[k].size
            most = min(rows, design.parts[j].size * size)
            self._jobs.append((first, second, size))
            self._tables.append((empty_slots(most), np.empty(most, np.int64), np.zeros(most)))
        self._counts = [0] * len(self._jobs)

    def add(self, groups: np.ndarray, kept: np.ndarray, weight: np.ndarray | None) -> None:
        """Number the pairs of rows with `groups` [groupings, rows]; only rows with positive `kept` [rows] count. Without
        weights nothing is summed."""
        numbers = np.empty(len(kept), np.int32)
        for job, ((first, second, size), (slots, keys, sums)) in enumerate(zip(self._jobs, self._tables, strict=True)):
            args = (groups[first], groups[second], size, kept, slots, keys, self._counts[job], numbers)
            self._counts[job] = number_rows(*args)
            if weight is not None:
                add_numbered(sums, numbers, weight)

    @property
    def keys(self) -> list[np.ndarray]:
        """Return for each pair of factors the pairs of levels, `first * levels of the second + second`, in order of
        occurrence."""
        return [keys[:count] for (_, keys, _), count in zip(self._tables, self._counts, strict=True)]

    @property
    def sums(self) -> list[np.ndarray]:
        return [sums[:count] for (*_, sums), count in zip(self._tables, self._counts, strict=True)]


class CellTasks:
    """The tasks for a call if factors are absorbed. Vectors of different calls have different lengths, so an executor maps
    them instead of summing them; `left` is the exception.

    - `cells`: for each pair of factors the number of pairs of levels, then these pairs. For each column of clusters, then by
      level of the absorbed factors the lowest and the highest number of the clusters of its rows.
    - `information`, `observed`, `rectifier`: the sums of the pass with this name, then for each pair of levels the sum of its
      weights.
    - `left`, with `loadings` [levels, columns] and `columns` [coefficients] in the state: by cluster the rows, then the
      scores of the covariates after the absorbed factors are projected out. The clusters are those of column `clustering` [1]
      of `Design.cluster_counts`. Without clusters it is their products with the
      squared scores; only the lower triangle is filled.
    - `columns`, with the same state: by cluster the weights of the information matrix, then their products with what is left of
      the covariates, then with its squares. `products` has all products of two covariates instead of the squares, of which only
      the lower triangle is filled.
    """

    def __init__(self, design: Design, signature: Signature, what: str) -> None:
        self._passes, self._what = Passes(design, signature), what

    @np.errstate(all="ignore")  # what takes no part may be anything
    def __call__(self, state: Mapping[str, np.ndarray], *call: np.ndarray) -> np.ndarray:
        if self._what in ("information", "observed", "rectifier"):
            return self._with_cells(state, call)
        return self._cells(state, call) if self._what == "cells" else self._left(state, call)

    def _cells(self, state: Mapping[str, np.ndarray], call: tuple) -> np.ndarray:
        design = self._passes.design
        cells = LevelPairs(design, int(np.sum(call[3])))
        ends = np.full((len(design.inference.clusters), 2, design.size - design.reported_size), float(NO_CLUSTER))
        for evaluated in self._passes.evaluated(state, call):
            rows = evaluated.rows
            cells.add(rows.groups, rows.frequency, None)
            groups = rows.crossed_groups
            for number, (lowest, highest) in enumerate(ends):
                for k in design.absorbed_parts:
                    part = design.parts[k]
                    where = slice(part.where.start - design.reported_size, part.where.stop - design.reported_size)
                    group = groups[design.groupings.index(part.grouping)]
                    cluster = groups[len(design.groupings) + number]
                    widen(group, cluster, rows.frequency, lowest[where], highest[where])
        return np.concatenate([[float(len(keys)) for keys in cells.keys], *cells.keys, ends.ravel()])

    def _weight(self, evaluated: Evaluated) -> np.ndarray:
        if self._what == "information":
            return evaluated.terms.weight
        if self._what == "observed":
            return evaluated.observed
        family, direction = self._passes.family, evaluated.coefficients
        return np.asarray(rectified(evaluated.rows, family, evaluated.along, direction, evaluated.state)["weight"])

    def _with_cells(self, state: Mapping[str, np.ndarray], call: tuple) -> np.ndarray:
        cells = LevelPairs(self._passes.design, int(np.sum(call[3])))

        def counted() -> Iterator[Evaluated]:
            for evaluated in self._passes.evaluated(state, call):
                cells.add(evaluated.rows.groups, evaluated.rows.frequency, self._weight(evaluated))
                yield evaluated

        return np.concatenate([getattr(self._passes, self._what).summed(counted()), *cells.sums])

    def _left(self, state: Mapping[str, np.ndarray], call: tuple) -> np.ndarray:
        design, passes = self._passes.design, self._passes
        loadings, columns = state["loadings"], state["columns"].astype(np.int64)
        absorbed = np.array(
            [
                (design.groupings.index(part.grouping), part.where.start - design.reported_size)
                for part in (design.parts[k] for k in design.absorbed_parts)
            ],
            np.int64,
        )
        number = int(state["clustering"][0])
        free, clusters = loadings.shape[1], design.inference.cluster_counts[number] if design.inference.cluster else 0
        scores, rows = np.zeros((clusters, free)), np.zeros(clusters)
        widths = {"columns": 1, "products": free}
        squares = np.zeros((clusters, free, widths[self._what]) if self._what in widths else (0, 0, 0))
        products = np.zeros((0, 0) if clusters else (free, free))
        dense = passes.parts[[k for k in range(len(design.parts)) if k not in design.absorbed_parts]]
        for evaluated in passes.evaluated(state, call):
            of_rows = evaluated.rows
            groups = of_rows.crossed_groups if number else of_rows.groups
            cluster = groups[len(design.groupings) + number] if clusters else np.zeros(0, groups.dtype)
            factors = evaluated.terms.score, of_rows.frequency
            if self._what in widths:
                factors = evaluated.terms.weight, evaluated.terms.weight
            args = (cluster, *factors, absorbed, loadings, dense, columns)
            add_left(scores, squares, rows, products, *args, of_rows.groups, evaluated.numbers, np.zeros(free))
        return np.concatenate([rows, scores.ravel(), squares.ravel(), products.ravel()])


def task(passes: Passes, what: str) -> Task:
    """The specification with which an executor runs one of `CellTasks`."""
    settings = {"what": what, "signature": asdict(passes.signature)}
    return Task("cells", passes.document, json.dumps(settings))


@registered("cells")
def tasks_of(design: str, settings: Mapping[str, Any]) -> CellTasks:
    """What a task names."""
    return CellTasks(_design(design), Signature.of(settings["signature"]), settings["what"])


@lru_cache(maxsize=2)
def _design(text: str) -> Design:
    return Design.from_json(text)
