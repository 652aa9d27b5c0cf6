"""The objective with absorbed factors.

The coefficients of absorbed levels are fitted like all others, but are neither reported nor tested. The information matrix is
sparse (solvers.sparse_information). The covariance is computed for the covariates only.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from typing import Self

import numpy as np
import scipy.linalg

from tfglm.config.std_errors import BY_LEVERAGE
from tfglm.data.numbered import Numbered
from tfglm.design.design import Design
from tfglm.design.parametrisation import hold, most_frequent_first, null_space, to_fit_scale
from tfglm.design.terms import DesignTerm
from tfglm.distribute.executor import Executor
from tfglm.distribute.reduction import add_to_first, pairwise
from tfglm.engine.blocks import Signature
from tfglm.engine.cell_kernels import add_numbered
from tfglm.engine.cells import BY_PAIR, NO_CLUSTER, OVER, pairs_of_absorbed
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.formula.terms import Intercept
from tfglm.inference import effective
from tfglm.inference.bread import Bread
from tfglm.inference.fitted import ALIASED, EMPTY, FREE, REFERENCE, SEPARATED, Fitted
from tfglm.solvers import rectifier
from tfglm.solvers.cluster_sums import Columns, Scores
from tfglm.solvers.information import Blocks, Factored, assemble, gradient, null_vectors
from tfglm.solvers.objective import NOT_FACTORED, CountedRows, Objective, Point, Separation, Solution
from tfglm.solvers.pattern import Pattern
from tfglm.solvers.plain import refuse_leverage_of_one
from tfglm.solvers.prepare import by_coefficient, initial_status, null_model
from tfglm.solvers.run import Run
from tfglm.solvers.separation import terms_in
from tfglm.solvers.sparse_information import SparseBlocks, SparseFactored, SparsePart, eliminate, factor

SAME = 1e-9
"""The levels of a factor determine a number if so little remains of its sum of squares; sums over all rows have larger rounding
errors than those by level."""


@dataclass(frozen=True)
class Kept:
    """The rows that remain to be fitted, without singletons and separated levels.

    `workload` and `counts` are the remaining rows and their counts. `singletons` and `separated` are the dropped levels, by
    grouping. `rows_separated` counts the rows of separated levels; all other dropped rows are singletons.
    """

    workload: Workload
    counts: Sums
    singletons: Mapping[tuple[str, ...], frozenset[int]]
    separated: Mapping[tuple[str, ...], frozenset[int]]
    rows_separated: int = 0


def keep(before: Kept, run: Run) -> Kept:
    """Drop separated groups and singletons until none remain.

    A singleton is a level of an absorbed factor with a single row. Its coefficient fits the row without error, whatever the
    other coefficients are. So the row carries no information about them (Correia, Singletons, Cluster-Robust Standard Errors
    and Fixed Effects, 2015). Raises UserError if no rows remain, or if all remaining responses are at the same end of the
    range of the family.
    """
    workload, counts = before.workload, before.counts
    design, family = workload.design, workload.design.distribution
    plain = {part.grouping for part in design.parts if not part.multiplier}
    absorbed = {design.parts[k].grouping for k in design.absorbed_parts} & plain
    singletons, separated = dict(before.singletons), dict(before.separated)
    rows_separated = before.rows_separated

    def left(*which: Mapping[tuple[str, ...], frozenset[int]]) -> tuple[Workload, Sums]:
        excluded = {
            grouping: frozenset().union(*(found.get(grouping, frozenset()) for found in which))
            for grouping in dict.fromkeys(grouping for found in which for grouping in found)
        }
        less = workload.excluding(excluded)
        return less, less.sum(run.executor, "counts", design.by_term(np.zeros(design.size)))

    while True:
        known = dict(singletons), dict(separated)
        for number, grouping in enumerate(design.groupings):
            weight, response, rows = (counts[name, number] for name in ("weight_sum", "response", "rows"))
            alone = (rows == 1) & (grouping in absorbed)
            alike = (weight > 0) & family.at_an_end(response, weight) & (grouping in plain) & ~alone
            for found, which in ((singletons, alone), (separated, alike)):
                if which.any():
                    found[grouping] = found.get(grouping, frozenset()) | frozenset(np.flatnonzero(which).tolist())
        if (singletons, separated) == known:
            break
        if separated != known[1]:
            before_round = counts["rows"]
            workload, counts = left(known[0], separated)
            rows_separated += int(before_round - counts["rows"])
        if singletons != known[0]:
            workload, counts = left(singletons, separated)
    for what, found in (("a single row", singletons), ("responses that are all alike", separated)):
        for grouping, levels in found.items():
            if levels:
                run.reporter.tell(f"left out: {len(levels):,} levels of {':'.join(grouping)} with {what}")
    if not counts["rows"] or family.at_an_end(counts["response"], counts["weight_sum"]):
        raise UserError(
            f"models.{design.model}.absorb: once levels with a single row, or with responses that are all alike, are left out, "
            f"nothing is left to fit\n  absorb fewer factors, or coarser ones"
        )
    return Kept(workload, counts, singletons, separated, rows_separated)


@dataclass(frozen=True)
class CellIndex:
    """The pairs of levels that occur in the rows.

    `places` maps a signature of the workload's calls to one list for each call. The list has an array for each pair of
    factors, and each two of their parts: the positions of the call's pairs of levels in the pattern. `sizes` counts the pairs of
    levels of each pair of factors. `nested` are the absorbed parts whose levels each belong to one cluster of some column.
    """

    pattern: Pattern
    places: Mapping[Signature, list[list[np.ndarray]]]
    sizes: tuple[int, ...]
    nested: frozenset[int]

    @classmethod
    def of(cls, workload: Workload, executor: Executor) -> "CellIndex":
        design = workload.design
        pairs = pairs_of_absorbed(design)
        numbered = [Numbered() for _ in pairs]
        places: dict[Signature, list[list[np.ndarray]]] = {}
        levels = design.size - design.reported_size
        lowest, highest = np.full((2, len(design.inference.clusters), levels), [[[np.inf]], [[-np.inf]]])
        state = workload.state(np.zeros(design.size))
        for signature, calls in workload.calls.items():
            task = workload.passes(signature).named("cells").task
            places[signature] = []
            for vector in executor.map([(task, call) for call in calls], state):
                counts = vector[: len(pairs)].astype(int)
                *keys, clusters = np.split(vector[len(pairs) :], np.cumsum(counts))
                places[signature].append([table.add(of_pair) for table, of_pair in zip(numbered, keys, strict=True)])
                low, high = clusters.reshape(-1, 2, levels).swapaxes(0, 1)
                there = low > NO_CLUSTER
                lowest[there] = np.minimum(lowest[there], low[there])
                highest[there] = np.maximum(highest[there], high[there])
                del vector, keys, clusters, low, high  # before the next ones are made
        within = lowest >= highest  # also true for a level without rows
        of_parts = {k: design.parts[k].where for k in design.absorbed_parts}
        start = design.reported_size
        nested = {
            k for k, where in of_parts.items() if within[:, where.start - start : where.stop - start].all(axis=1).any()
        }
        keys = [table.keys for table in numbered]
        del numbered  # frees its tables
        pattern, of_keys = Pattern.of(design, keys)
        sums = [len(first) * len(second) for first, second in pairs]
        for of_calls in places.values():
            for number, of_pairs in enumerate(of_calls):
                of_sums = (numbers for numbers, count in zip(of_pairs, sums, strict=True) for _ in range(count))
                of_calls[number] = [positions[numbers] for numbers, positions in zip(of_sums, of_keys, strict=True)]
        return cls(pattern, places, tuple(map(len, keys)), frozenset(nested))

    def sum(
        self, workload: Workload, executor: Executor, what: str, state: Mapping[str, np.ndarray]
    ) -> tuple[Sums, np.ndarray]:
        """The sums of the pass `information`, `observed` or `rectifier`, and the sums of its weights by pair of levels."""
        pairs = [workload.passes(signature).named(BY_PAIR[what]) for signature in self.places]
        digest = hashlib.sha256(repr([each.task for each in pairs]).encode())
        for value in state.values():
            digest.update(np.ascontiguousarray(value, float).tobytes())

        def make() -> dict[str, np.ndarray]:
            cells, sums = np.zeros(self.pattern.pairs), {}
            for number, (each, (signature, calls)) in enumerate(zip(pairs, workload.calls.items(), strict=True)):
                vectors = executor.map([(each.task, call) for call in calls], dict(state))
                sums[str(number)] = pairwise(without_pairs(vectors, each.sums.size, self.places[signature], cells))
            return sums | {"cells": cells}

        answer = executor.remember(f"cells, {digest.hexdigest()}", make)
        total: Sums = {}
        for number, each in enumerate(pairs):
            sums = each.sums.finish(answer[str(number)])
            total = {name: total[name] + value if total else value for name, value in sums.items()}
        return total, answer["cells"]


def without_pairs(
    vectors: Iterable[np.ndarray], size: int, places: Sequence[Sequence[np.ndarray]], cells: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the first `size` sums of each call, and add the others, by pair of levels, to `cells` at the `places`."""
    remaining = iter(places)  # `zip` would keep a vector while the next one is made
    for vector in vectors:
        first = size
        for of_pair in next(remaining):
            add_numbered(cells, of_pair, vector[first : first + len(of_pair)])
            first += len(of_pair)
        sums = vector[:size].copy()
        del vector
        yield sums


@dataclass(frozen=True, kw_only=True)
class AbsorbedObjective(Objective):
    """An `Objective` whose information matrix is sparse. `null_vectors` [held, reported] only cover the reported
    coefficients."""

    index: CellIndex
    kept: Kept
    redundant_slopes: int = 0
    """Sums of the slopes of connected levels that effects of another factor determine, or slopes of an earlier one."""

    @classmethod
    def of(cls, counted: CountedRows, run: Run) -> Self:
        return cls._over(Kept(counted.workload, counted.counts, {}, {}), counted, run)

    @classmethod
    def _over(cls, before: Kept, counted: CountedRows, run: Run) -> Self:
        """The objective over rows that may still have singletons and separated levels."""
        kept = keep(before, run)
        workload, counts, design = kept.workload, kept.counts, kept.workload.design
        status = initial_status(design, workload, counts)
        for part in (design.parts[k] for k in design.absorbed_parts):
            of_part = status[part.where]  # a view
            of_part[sorted(kept.singletons.get(part.grouping, ()))] = EMPTY
        held, null = formal(design, status, by_coefficient(design, counts, "rows"))
        status[held] = REFERENCE
        index = CellIndex.of(workload, run.executor)
        names = ", ".join(design.parts[k].term.name for k in design.absorbed_parts)
        pairs = " + ".join(f"{size:,} pairs of levels" for size in index.sizes)
        run.reporter.tell(f"absorbed: {names}" + (f", {pairs}" if pairs else ""))
        start, loss = null_model(workload, run.executor, counts)
        nothing = np.zeros(design.size)
        common = workload, run, counts, counted, status, held, null, start, loss, 0.0, 0.0, nothing, nothing
        return cls(*common, index=index, kept=kept)

    def begin(self, learn: Callable[[Self], Solution] | None = None) -> Solution:
        """Begin at the null model, and drop the columns that earlier columns and the absorbed factors determine. Raises
        UserError if the absorbed factors determine every covariate."""
        point, design = self.at(self.null_coefficients), self.design
        blocks = point.blocks
        assert isinstance(blocks, SparseBlocks)
        schur, projection = eliminate(blocks, design.model)
        of_reported = Blocks(blocks.dense, np.zeros(0, int), blocks.a, np.zeros((len(schur), 0)), np.zeros(0))
        aliased, null = null_vectors(of_reported, design.reported_size, schur)
        kept = ~np.isin(blocks.dense, aliased)
        less = self._without_constant_slopes(blocks.sparse).without_aliased(aliased, null)
        if self.separation:
            later = null[~np.isin(aliased, self.separation.held)]
            others = np.hstack([later, -later[:, blocks.dense] @ projection.T])
            less = replace(less, separation=replace(self.separation, others=others))
        blocks = replace(blocks, dense=blocks.dense[kept], a=blocks.a[np.ix_(kept, kept)], b=blocks.b[kept])
        near = SparseFactored(blocks, NOT_FACTORED.factor, np.ascontiguousarray(projection[:, kept]))
        if not less.free[: design.reported_size].any():
            raise UserError(
                f"models.{design.model}.absorb: the absorbed factors determine each covariate of the formula, so that there is "
                f"nothing to estimate\n  absorb fewer factors, or add covariates that vary within their levels"
            )
        return Solution(less, replace(point, blocks=blocks), near)

    def _without_constant_slopes(self, sparse: SparsePart) -> Self:
        """The objective without the slopes of levels whose rows have one value of the number. Raises UserError if no level has
        several."""
        design, pattern = self.design, sparse.pattern
        start, status, redundant = design.reported_size, self.status.copy(), 0
        if not any(design.parts[k].multiplier for k in design.absorbed_parts):
            return self
        pivots = sparse.orthogonal[0].diagonal if pattern.has_slopes else sparse.diagonal
        status[start:][(pivots == 0) & (status[start:] == FREE)] = ALIASED
        for number, parts in enumerate(design.absorbed_groupings):
            for part in (design.parts[k] for k in parts if design.parts[k].multiplier):
                where = part.where
                if not np.any(status[where] == FREE):
                    raise UserError(
                        f"models.{design.model}.absorb: `{part.term.name}`: {part.multiplier[0][0]} is constant within each "
                        f"level of {part.grouping[0]}, which leaves no slope; remove it"
                    )
                slopes = np.zeros(pattern.size)
                slopes[where.start - start : where.stop - start] = 1.0
                sums = sparse.times(slopes[:, None])[:, 0]
                total, counts = float(slopes @ sums), [0]
                for other, of_other in enumerate(design.absorbed_groupings):
                    weight, of_levels = sparse.diagonal[pattern.effects(other)], sums[pattern.effects(other)]
                    explained = np.divide(of_levels**2, weight, out=np.zeros_like(weight), where=weight > 0).sum()
                    by_effects = pattern.has_effects[other] and total - explained <= SAME * total
                    by_slopes = other < number and part.multiplier in [design.parts[j].multiplier for j in of_other]
                    if other != number and (by_effects or by_slopes):
                        counts.append(pattern.components(*sorted((number, other)))[0])
                redundant += max(counts)
        return replace(self, status=status, redundant_slopes=redundant)

    def without_separated_rows(self, coefficients: np.ndarray) -> Solution | None:
        design = self.design
        try:
            separated = rectifier.separated(self)
            if separated and self.separation:
                # Singletons and levels dropped since then need no separating direction.
                earlier = self.separation.workload.excluding(self.workload.excluded)
                separated = rectifier.with_earlier(self, replace(self.separation, workload=earlier), separated)
        except (rectifier.Undecided, scipy.linalg.LinAlgError):
            raise UserError(
                f"models.{design.model}.absorb: the estimates run off to infinity, and the separated rows could not be found\n"
                f"  merge rare levels with data.rare, absorb fewer factors, or coarser ones"
            ) from None
        if separated is None:
            return None
        names = ", ".join(terms_in(design, np.abs(separated.direction)))
        self.run.reporter.tell(f"separated by {names} together, so left out of the likelihood: {separated.rows:,} rows")
        left = replace(self.kept, workload=separated.workload, counts=separated.counts)
        first = self.separation or Separation(self.workload, separated.direction, self.held, self.null_vectors)
        separation = replace(first, direction=separated.direction, rows=first.rows + separated.rows)
        return replace(self._over(left, self.counted, self.run), separation=separation).begin()

    def movement_of_separated_rows(self) -> np.ndarray:
        return np.zeros((0, len(self.separating) - 1))

    def at(self, coefficients: np.ndarray, sums: str = "information") -> Point:
        if sums != "information":
            return super().at(coefficients, sums)
        design = self.design
        total, cells = self.index.sum(self.workload, self.executor, sums, self.workload.state(coefficients))
        blocks = sparse_blocks(design, total, cells, self.index.pattern, self.free)
        return Point(coefficients, float(total["loss"]), gradient(design, total), float(total["pearson"]), blocks)

    def observed(self, coefficients: np.ndarray) -> SparseBlocks:
        state = self.workload.state(coefficients)
        total, cells = self.index.sum(self.workload, self.executor, "observed", state)
        return sparse_blocks(self.design, total, cells, self.index.pattern, self.free)

    def rectified(self, state: Mapping[str, np.ndarray], moving: np.ndarray) -> tuple[Sums, Blocks]:
        total, cells = self.index.sum(self.workload, self.executor, "rectifier", state)
        return total, sparse_blocks(self.design, total, cells, self.index.pattern, moving)

    def factored(self, blocks: Blocks, near: Factored = NOT_FACTORED) -> SparseFactored:
        assert isinstance(blocks, SparseBlocks)
        start = near.projection if isinstance(near, SparseFactored) else None
        usable = start is not None and start.shape[1] == len(blocks.dense)
        return factor(blocks, self.design.model, start if usable else None)

    @property
    def identified(self) -> int:
        """The number of absorbed coefficients that the rows identify."""
        levels = int(np.count_nonzero(self.free[self.design.reported_size :]))
        return levels - sum(self.index.pattern.redundant) - self.redundant_slopes

    @property
    def identified_by_clusters(self) -> int:
        """The same, but the effects of a factor nested in the clusters count as one coefficient, as in fixest. Its slopes are
        counted, as there."""
        design, count = self.design, self.identified
        for k in (k for k in self.index.nested if not design.parts[k].multiplier):
            count -= int(np.count_nonzero(self.free[design.parts[k].where])) - 1
        return max(count, 1)

    @property
    def estimated(self) -> int:
        return int(np.count_nonzero(self.free[: self.design.reported_size])) + self.identified

    def effective(self, factored: Factored) -> float:
        return self.estimated

    def reported(self, factored: Factored) -> Factored:
        assert isinstance(factored, SparseFactored)
        return factored.reported_part

    def reported_error(self, error: np.ndarray, factored: Factored) -> np.ndarray:
        """Errors in the gradient of absorbed coefficients reach the reported coefficients through Z'."""
        assert isinstance(factored, SparseFactored)
        error, blocks = error.copy(), factored.blocks
        error[blocks.dense] += error[blocks.eliminated] @ np.abs(factored.projection)
        return error

    def too_few_rows(self) -> str:
        return (
            f"models.{self.design.model}: {self.counts['rows']:,.0f} training rows for {self.estimated:,} coefficients, "
            f"absorbed ones included, leave no residual variance to estimate; absorb fewer factors, or coarser ones"
        )

    def meat(self, bread: Bread, solution: Solution) -> Blocks:
        free, kind = len(bread.dense), self.design.inference.std_errors
        sums = self._left(solution, f"left_{kind.lower()}" if kind in BY_LEVERAGE else "left")
        if kind in BY_LEVERAGE:
            sums, alone = sums[:-1], sums[-1]
            none = {("alone", number): np.zeros(1) for number in range(len(self.design.groupings))}
            refuse_leverage_of_one(self.design, {"alone": alone} | none, self.counts)
        lower = np.tril(sums.reshape(free, free))
        return Blocks(bread.dense, bread.eliminated, lower + np.tril(lower, -1).T, np.zeros((free, 0)), np.zeros(0))

    def scores(self, bread: Bread, solution: Solution) -> list[Scores]:
        scores = []
        for number, count in enumerate(self.design.inference.cluster_counts):
            answer = self._left(solution, "left", number)
            of_cluster, sums = np.split(answer, [count])
            present = np.flatnonzero(of_cluster > 0)
            scores.append(Scores(present, sums.reshape(count, -1)[present]))
        return scores

    def columns_by_cluster(
        self, bread: Bread, null: Solution, clusters: Sequence[np.ndarray], with_matrices: bool
    ) -> list[Columns]:
        free, found = len(bread.dense), []
        for number, present in enumerate(clusters):
            count = self.design.inference.clusters[number].count
            answer = self._left(null, "products" if with_matrices else "columns", number)
            sizes, columns, products = np.split(answer, [count, count * (1 + free)])
            of_present = sizes, columns.reshape(count, free), products.reshape(count, free, -1)
            if len(present) < count:  # no copies of millions of clusters
                of_present = sizes[present], of_present[1][present], of_present[2][present]
            sizes, sums, products = of_present
            squares = np.einsum("gii->gi", products) if with_matrices else products[:, :, 0]
            within = effective.within(sums, squares, sizes)
            found.append(Columns(sums, within, sizes, products if with_matrices else None))
        return found

    def df_residual_by_cluster(self, solution: Solution) -> float:
        reported = int(np.count_nonzero(self.free[: self.design.reported_size]))
        return float(self.counts["rows"]) - reported - self.identified_by_clusters

    def _left(self, solution: Solution, what: str, clustering: int = 0) -> np.ndarray:
        """The sums of the task `left`, `columns` or `products` (engine.cells) at a solution, by column `clustering` of
        `Design.cluster_counts`."""
        factored = solution.information
        assert isinstance(factored, SparseFactored)
        design, workload, dense = self.design, self.workload, factored.blocks.dense
        columns = np.full(design.reported_size, -1.0)
        columns[dense] = np.arange(len(dense))
        state = workload.state(solution.point.coefficients) | {"loadings": factored.projection, "columns": columns}
        state |= {"clustering": np.array([float(clustering)])}
        if what in OVER:
            assert isinstance(factored.blocks, SparseBlocks)
            state |= factored.blocks.sparse.inverse_parts() | {"schur_inverse": factored.schur_inverse()}
        of_signatures = (
            self.executor.sum(workload.passes(signature).named(what).task, calls, state)
            for signature, calls in workload.calls.items()
        )
        return reduce(add_to_first, of_signatures)

    def facts(self, fitted: Fitted) -> dict:
        """The absorbed factors, and the counts of coefficients without them."""
        counts = self.counted.original_counts
        design, reported = self.design, fitted.reported(self.design)
        rows_across = self.separation.rows if self.separation else 0
        left_out = int(counts["rows"] - self.counts["rows"])
        unknown = self.separated_across
        factors = []
        for number, k in ((number, k) for number, parts in enumerate(design.absorbed_groupings) for k in parts):
            part = design.parts[k]
            factors.append(
                {
                    "factor": part.term.name,
                    "levels": int(np.count_nonzero(self.free[part.where])),
                    "singletons": len(self.kept.singletons.get(part.grouping, ())),
                    "separated": int(np.count_nonzero(self.status[part.where] == SEPARATED)),
                    **({} if part.multiplier else {"redundant": self.index.pattern.redundant[number]}),
                    "nested_in_clusters": k in self.index.nested,
                    **(self.slopes if part.multiplier else self.effects)(number, k, fitted.coefficients),
                }
            )
        return {
            "formula": f"{design.formula} | {' + '.join(design.absorbed)}",  # as fixest and pyfixest write it
            "coefficients": int(np.count_nonzero(reported.status == FREE)),
            "coefficients_aliased": int(np.count_nonzero(np.isin(reported.status, (ALIASED, EMPTY)))) - unknown,
            "coefficients_separated": int(np.count_nonzero(reported.status == SEPARATED)) + unknown,
            "rows_of_separated_levels": self.kept.rows_separated,
            "rows_separated_across_terms": rows_across,
            "absorbed": {
                "factors": factors,
                "coefficients": self.identified,
                **({"redundant_slopes": self.redundant_slopes} if self.redundant_slopes else {}),
                "pairs_of_levels": sum(self.index.sizes),
                "rows_left_out": left_out,
                "rows_of_singletons": left_out - self.kept.rows_separated - rows_across,
            },
        }

    def slopes(self, number: int, k: int, coefficients: np.ndarray) -> dict[str, float | int]:
        """The levels with rows of one value of the number of part `k`, and the variance over the rows of the other slopes."""
        part = self.design.parts[k]
        rows = np.where(self.free[part.where], self.counts["rows", self.design.groupings.index(part.grouping)], 0.0)
        name, place = part.multiplier[0]
        slopes = coefficients[part.where] / self.design.numeric_by_name[name].scale[place]
        return {
            "constant_levels": int(np.count_nonzero(self.status[part.where] == ALIASED)),
            "variance_of_effects": float(np.average((slopes - np.average(slopes, weights=rows)) ** 2, weights=rows)),
        }

    def effects(self, number: int, k: int, coefficients: np.ndarray) -> dict[str, float | int]:
        """The connected sets of the levels of absorbed factor `number`, whose part is `k`, the rows of the largest set, and the
        variance of the estimated effects over these rows. Effects of two sets cannot be compared. The variance has the sampling
        errors of the effects in it (Andrews et al., Journal of the Royal Statistical Society A 171, 2008)."""
        part = self.design.parts[k]
        rows = self.counts["rows", self.design.groupings.index(part.grouping)]
        sets = self.index.pattern.sets(number)
        by_set = np.bincount(sets, rows)
        weights = np.where(sets == by_set.argmax(), rows, 0.0)
        effects = coefficients[part.where] - np.average(coefficients[part.where], weights=weights)
        return {
            "connected_sets": int(np.count_nonzero(by_set)),
            "rows_of_largest_set": int(by_set.max()),
            "variance_of_effects": float(np.average(effects**2, weights=weights)),
        }

    def remarks(self) -> list[str]:
        """Remarks about separated rows, and about groups of absorbed levels that no row connects."""
        design, redundant, separation = self.design, self.index.pattern.redundant, self.separation
        names = [design.parts[parts[0]].term.name for parts in design.absorbed_groupings]
        remarks = [
            f"{constant:,} of {part.size:,} levels of `{part.grouping[0]}` have no slope of `{part.multiplier[0][0]}`: it is "
            f"constant in the rows of each, or other slopes determine it"
            for part in (design.parts[k] for k in design.absorbed_parts)
            if part.multiplier and (constant := int(np.count_nonzero(self.status[part.where] == ALIASED)))
        ]
        if separation:
            together = ", ".join(f"`{term}`" for term in terms_in(design, np.abs(separation.direction)))
            remarks.append(
                f"{together} separate {separation.rows:,} rows by their response, though no single level does: these rows "
                f"are left out of the likelihood, and have no prediction"
            )
        return remarks + [
            f"the levels of `{name}` and of {' or '.join(f'`{other}`' for other in names[:number])} fall into {groups:,} groups "
            f"that no training row connects: predictions for rows with levels of two groups are arbitrary, because the "
            f"difference between the groups cannot be estimated"
            for number, (name, groups) in enumerate(zip(names, redundant, strict=True))
            if groups > 1
        ]


def sparse_blocks(design: Design, sums: Sums, cells: np.ndarray, pattern: Pattern, free: np.ndarray) -> SparseBlocks:
    """The blocks of the free coefficients from the sums of an information pass."""
    reported = np.arange(design.size) < design.reported_size
    a = assemble(design, sums, free & reported).a
    dense = np.flatnonzero(free & reported)
    b = np.zeros((len(dense), pattern.size))
    start, rank = design.reported_size, np.full(design.reported_size, -1)
    rank[dense] = np.arange(len(dense))
    for k in design.absorbed_parts:
        columns = slice(design.parts[k].where.start - start, design.parts[k].where.stop - start)
        for j, part in enumerate(design.parts):
            if j not in design.absorbed_parts:
                rows = rank[part.where]
                b[rows[rows >= 0], columns] = np.atleast_2d(sums["block", j, k])[rows >= 0]
    diagonal = np.concatenate([sums["block", k, k] for k in design.absorbed_parts])
    of_levels = (pair for parts in design.absorbed_groupings for pair in combinations(parts, 2))
    within = [sums["block", j, k] if ("block", j, k) in sums else sums["block", k, j] for j, k in of_levels]
    cells = np.concatenate([cells, *within]) if within else cells
    return SparseBlocks(dense, np.arange(start, design.size), a, b, diagonal, SparsePart(pattern, diagonal, cells))


def formal(design: Design, status: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The reported coefficients that the formula makes redundant, and the directions that show it, [held, reported]. These
    coefficients are held at zero. An absorbed factor contains an intercept."""
    reported = design.reported
    constant = (DesignTerm(Intercept()),) * design.absorbs_constant
    full = replace(reported, terms=(*constant, *reported.terms), absorbed=())
    present = np.append(np.ones(len(constant), bool), np.isin(status[: reported.size], (FREE, REFERENCE)))
    null = (to_fit_scale(full) @ null_space(full, present, list(full.slices)).T).T[:, len(constant) :]
    null = null[np.abs(null).max(1, initial=0.0) > 0]
    return hold(null, most_frequent_first(reported, rows[: reported.size]))
