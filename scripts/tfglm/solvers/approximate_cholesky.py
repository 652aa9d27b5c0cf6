"""An approximate Cholesky factor of the Laplacian of a graph: a preconditioner for levels that few rows connect.

With the largest factor eliminated, the block of another factor is a Laplacian, plus a diagonal with a ridge penalty. Two levels
have an edge if they share a level of the largest factor. Gauss eliminates a vertex by connecting each two of its neighbours: with
edges of the weights w_1 <= ... <= w_d and the sum s, by w_i w_j / s. Here each neighbour i gets one edge instead. It leads to
j > i with the probability w_j / r_i, where r_i = w_(i+1) + ... + w_d, and its weight is w_i r_i / s. The expectation is the same,
and the factor has few entries (Kyng & Sachdeva, Approximate Gaussian Elimination for Laplacians, FOCS 2016; Gao, Kyng & Spielman,
Robust and Practical Solution of Laplacian Equations by Approximate Elimination, 2023). Each run draws the same random numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tfglm.loops import compiled

ROUNDING = 1e-10
"""A share of a diagonal entry that is a rounding error."""


@compiled
def uniform(number):
    """A number in [0, 1) for a number of a sequence (splitmix64: Steele, Lea & Flood, OOPSLA 2014)."""
    z = (np.uint64(number) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@compiled
def sort_by_weight(place, weight, count):
    """Sort the first `count` neighbours by weight."""
    if count > 32:
        order = np.argsort(weight[:count])
        place[:count], weight[:count] = place[:count][order], weight[:count][order]
        return
    for i in range(1, count):
        of_place, of_weight, j = place[i], weight[i], i
        while j > 0 and weight[j - 1] > of_weight:
            place[j], weight[j] = place[j - 1], weight[j - 1]
            j -= 1
        place[j], weight[j] = of_place, of_weight


@compiled
def sample(place, weight, count, pivot, drawn, partner, added):
    """Choose the `partner` and the weight `added` of the new edge of each but the last of `count` neighbours, sorted by weight.
    `drawn` is how many random numbers were used before."""
    running = np.cumsum(weight[:count])
    for i in range(count - 1):
        rest = running[-1] - running[i]
        partner[i] = place[
            min(np.searchsorted(running, running[i] + rest * uniform(drawn + i), side="right"), count - 1)
        ]
        added[i] = weight[i] * rest / pivot


@compiled
def eliminate_rows(starts, columns, weights, inverse, first, stop, ends, values, excess):
    """Eliminate the levels of the largest factor, the rows of E. `ends` int32 [pairs, 2] and `values` [pairs] become the edges
    between columns from `first` to `stop`; what these add to the diagonal is taken from `excess` [columns]. Return the number of
    edges."""
    edges, most = 0, 0
    for i in range(len(starts) - 1):
        most = max(most, starts[i + 1] - starts[i])
    place, partner, weight, added = (np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most), np.empty(most))
    for i in range(len(starts) - 1):
        count, total = 0, 0.0
        for at in range(starts[i], starts[i + 1]):
            if first <= columns[at] < stop and weights[at] > 0:
                place[count], weight[count] = columns[at] - first, weights[at]
                total += weights[at]
                count += 1
        for k in range(count):
            excess[place[k]] -= weight[k] * total * inverse[i]
        if count > 1:
            sort_by_weight(place, weight, count)
            sample(place, weight, count, 1 / inverse[i], edges, partner, added)
            for k in range(count - 1):
                ends[edges, 0], ends[edges, 1], values[edges] = place[k], partner[k], added[k]
                edges += 1
    return edges


@compiled
def link(ends, values, rank, heads, following):
    """Sort the ends of edges by `rank` [vertices], and list the edges of each vertex that end at a later one: its first edge is
    `heads` [vertices], and `following` [edges] is the next; -1 at the end."""
    for edge in range(len(values)):
        one, other = rank[ends[edge, 0]], rank[ends[edge, 1]]
        ends[edge, 0], ends[edge, 1] = min(one, other), max(one, other)
        following[edge] = heads[ends[edge, 0]]
        heads[ends[edge, 0]] = edge


@compiled
def eliminate(vertex, ends, values, heads, following, excess, least, starts, columns, shares, pivots):
    """Eliminate the vertices from `vertex` on, in order, until `columns` is full. Return the first vertex that is left.

    `starts` int64 [vertices + 1], `columns` int32 and `shares` become the factor: the neighbours of each vertex, and their
    weights over the pivot. `pivots` [vertices] are 0 where they are not above `least` [vertices].
    """
    vertices = len(heads)
    number = np.full(vertices, -1, np.int32)
    place, partner = np.empty(vertices, np.int32), np.empty(vertices, np.int32)
    weight, added = np.empty(vertices), np.empty(vertices)
    while vertex < vertices:
        count, pivot, edge = 0, excess[vertex], heads[vertex]
        while edge >= 0:
            other = ends[edge, 1]
            if number[other] < 0:
                number[other], place[count], weight[count] = count, other, 0.0
                count += 1
            weight[number[other]] += values[edge]
            pivot += values[edge]
            edge = following[edge]
        for k in range(count):
            number[place[k]] = -1
        begin = starts[vertex]
        if begin + count > len(columns):
            break
        starts[vertex + 1] = begin
        if pivot > least[vertex]:
            pivots[vertex] = pivot
            sort_by_weight(place, weight, count)
            for k in range(count):
                columns[begin + k], shares[begin + k] = place[k], weight[k] / pivot
                excess[place[k]] += excess[vertex] * weight[k] / pivot
            starts[vertex + 1] = begin + count
            sample(place, weight, count, pivot, begin, partner, added)
            edge = heads[vertex]  # its own edges become the new ones
            for k in range(count - 1):
                after = following[edge]
                one, other = min(place[k], partner[k]), max(place[k], partner[k])
                ends[edge, 0], ends[edge, 1], values[edge] = one, other, added[k]
                following[edge], heads[one] = heads[one], edge
                edge = after
        vertex += 1
    return vertex


@compiled
def solve(starts, columns, shares, pivots, vectors):
    """Multiply vectors [vertices, k] by the inverse of the factored matrix, in place."""
    for vertex in range(len(pivots)):
        for at in range(starts[vertex], starts[vertex + 1]):
            for k in range(vectors.shape[1]):
                vectors[columns[at], k] += shares[at] * vectors[vertex, k]
        for k in range(vectors.shape[1]):
            vectors[vertex, k] = vectors[vertex, k] / pivots[vertex] if pivots[vertex] > 0 else 0.0
    for vertex in range(len(pivots) - 1, -1, -1):
        for at in range(starts[vertex], starts[vertex + 1]):
            for k in range(vectors.shape[1]):
                vectors[vertex, k] += shares[at] * vectors[columns[at], k]


@dataclass(frozen=True, eq=False)
class ApproximateCholesky:
    """The factor: `order` [vertices] is the order of elimination. Vertex order[i] has the neighbours order[columns[a]] with
    `shares` [a] for starts[i] <= a < starts[i + 1], and the pivot `pivots` [i]."""

    order: np.ndarray
    starts: np.ndarray
    columns: np.ndarray
    shares: np.ndarray
    pivots: np.ndarray

    @classmethod
    def of(
        cls, entries: Sequence[np.ndarray], inverse: np.ndarray, diagonal: np.ndarray, least: np.ndarray, columns: slice
    ) -> Self:
        """The factor of D - E' D_e^-1 E for some `columns` of E.

        `entries` are the starts, columns and weights of E by row, `inverse` [rows] is D_e^-1 and `diagonal` [columns] is D.
        Pivots of at most `least` [columns] are taken for 0.
        """
        excess = diagonal.copy()
        ends, values = np.empty((len(entries[1]), 2), np.int32), np.empty(len(entries[1]))
        edges = eliminate_rows(*entries, inverse, columns.start, columns.stop, ends, values, excess)
        ends, values = ends[:edges].copy(), values[:edges].copy()
        excess[excess < ROUNDING * diagonal] = 0.0
        vertices = len(diagonal)
        order = np.argsort(np.bincount(ends.ravel(), minlength=vertices), kind="stable")
        rank = np.empty(vertices, np.int32)
        rank[order] = np.arange(vertices)
        heads, following = np.full(vertices, -1, np.int32), np.empty(edges, np.int32)
        link(ends, values, rank, heads, following)
        excess, least = excess[order], least[order]
        starts, pivots = np.zeros(vertices + 1, np.int64), np.zeros(vertices)
        found, shares, vertex = np.empty(0, np.int32), np.empty(0), 0
        while vertex < vertices:
            more = max(edges, vertices, len(found) // 2)
            found, shares = (np.concatenate([each, np.empty(more, each.dtype)]) for each in (found, shares))
            vertex = eliminate(vertex, ends, values, heads, following, excess, least, starts, found, shares, pivots)
        return cls(order, starts, found[: starts[-1]].copy(), shares[: starts[-1]].copy(), pivots)

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """The inverse of the factored matrix times vectors, [vertices, k]."""
        ordered = vectors[self.order]
        solve(self.starts, self.columns, self.shares, self.pivots, ordered)
        result = np.empty_like(ordered)
        result[self.order] = ordered
        return result
