"""A fit with absorbed factors: their levels' coefficients are fitted like all others, but neither reported nor tested.

It takes the same steps as any other (solvers.fit). What differs is how much of it is sparse: the information matrix
(solvers.sparse_information), and the covariance, of which only the part of the covariates is ever there.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg

from tfglm.design.design import Design
from tfglm.design.parametrisation import hold, most_frequent_first, null_space, to_fit_scale
from tfglm.design.terms import INTERCEPT, Term
from tfglm.distribute.executor import Executor
from tfglm.distribute.reduction import pairwise
from tfglm.engine.blocks import Signature
from tfglm.engine.cell_kernels import add_numbered
from tfglm.engine.cells import NO_CLUSTER, pairs_of_absorbed, task
from tfglm.engine.passes import Pass, Sums
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.solvers import rectifier
from tfglm.solvers.fitted import EMPTY, FREE, REFERENCE
from tfglm.solvers.information import Blocks, assemble, gradient, null_vectors
from tfglm.solvers.pattern import Numbered, Pattern
from tfglm.solvers.prepare import by_coefficient, initial_status, null_model
from tfglm.solvers.problem import Problem, State
from tfglm.solvers.run import Run
from tfglm.solvers.separation import terms_in
from tfglm.solvers.sparse_information import SparseBlocks, SparseFactored, SparsePart, eliminate, factor


@dataclass(frozen=True)
class Kept:
    """What is left to fit once singletons and separated levels are gone: the rows, their counts, by grouping the levels that had
    a single row, and those that are separated. `rows_separated` are the rows of these; others that are gone are singletons'."""

    workload: Workload
    counts: Sums
    singletons: Mapping[tuple[str, ...], frozenset[int]]
    separated: Mapping[tuple[str, ...], frozenset[int]]
    rows_separated: int = 0


def keep(before: Kept, run: Run) -> Kept:
    """Leave out the rows of separated groups, and of levels of absorbed factors that have but one row, until there are none.

    The coefficient of such a level fits its row without error, whatever the others are, so that the row tells nothing of them
    (Correia, Singletons, Cluster-Robust Standard Errors and Fixed Effects, 2015).

    Raises
    ------
    UserError
        If nothing is left, or only responses that are all alike.
    """
    workload, counts = before.workload, before.counts
    design, family = workload.design, workload.design.distribution
    plain = {part.grouping for part in design.parts if not part.multiplier}
    absorbed = {design.parts[k].grouping for k in design.absorbed_parts}
    singletons, separated = dict(before.singletons), dict(before.separated)
    rows_separated = before.rows_separated

    def left(*which: Mapping[tuple[str, ...], frozenset[int]]) -> tuple[Workload, Sums]:
        excluded = {
            grouping: frozenset().union(*(found.get(grouping, frozenset()) for found in which))
            for grouping in dict.fromkeys(grouping for found in which for grouping in found)
        }
        less = workload.without(excluded)
        return less, less.sum(run.executor, "counts", design.by_term(np.zeros(design.size)))

    while True:
        known = dict(singletons), dict(separated)
        for number, grouping in enumerate(design.groupings):
            weight, response, rows = (counts[f"{name}_{number}"] for name in ("weight_sum", "response", "rows"))
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
    """Which pairs of levels the rows have. By signature of the workload's calls, `places` has for each call and pair of factors
    where its pairs stand among those of the pattern; `sizes` are how many there are of each pair of factors. `nested` are the
    absorbed parts of which each level lies in one cluster."""

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
        lowest, highest = np.full(levels, np.inf), np.full(levels, -np.inf)
        state = workload.state(np.zeros(design.size))
        for signature, calls in workload.calls.items():
            asked = task(workload.passes(signature), "cells")
            places[signature] = []
            for vector in executor.map([(asked, call) for call in calls], state):
                counts = vector[: len(pairs)].astype(int)
                *keys, clusters = np.split(vector[len(pairs) :], np.cumsum(counts))
                places[signature].append([table.add(of_pair) for table, of_pair in zip(numbered, keys, strict=True)])
                if design.cluster:
                    low, high = np.split(clusters, 2)
                    there = low > NO_CLUSTER
                    lowest[there] = np.minimum(lowest[there], low[there])
                    highest[there] = np.maximum(highest[there], high[there])
        within = lowest >= highest  # of a level without rows too
        of_parts = {k: design.parts[k].where for k in design.absorbed_parts if design.cluster}
        start = design.reported_size
        nested = {k for k, where in of_parts.items() if within[where.start - start : where.stop - start].all()}
        keys = [table.keys for table in numbered]
        del numbered  # whose tables are no longer needed
        pattern, of_keys = Pattern.of(design, keys)
        for of_call in (of_call for calls in places.values() for of_call in calls):
            for numbers, of_pair in zip(of_call, of_keys, strict=True):
                numbers[:] = of_pair[numbers]
        return cls(pattern, places, tuple(map(len, keys)), frozenset(nested))

    def sum(
        self, workload: Workload, executor: Executor, what: str, state: Mapping[str, np.ndarray]
    ) -> tuple[Sums, np.ndarray]:
        """The sums of the pass `information` or `rectifier`, and those of its weights by pair of levels."""
        digest = hashlib.sha256(f"{what} {workload.design.family}".encode())
        for value in state.values():
            digest.update(np.ascontiguousarray(value, float).tobytes())
        order = {signature: f"sums_{place}" for place, signature in enumerate(self.places)}

        def make() -> dict[str, np.ndarray]:
            cells = np.zeros(self.pattern.pairs)
            sums = {
                order[signature]: pairwise(self._parts(workload, executor, what, state, signature, calls, cells))
                for signature, calls in workload.calls.items()
            }
            return sums | {"cells": cells}

        answer = executor.remember(f"cells, {digest.hexdigest()}", make)
        total: Sums = {}
        for signature, key in order.items():
            pass_: Pass = getattr(workload.passes(signature), what)
            sums = pass_.unpack(answer[key])
            total = {name: total[name] + value if total else value for name, value in sums.items()}
        return total, answer["cells"]

    def _parts(
        self,
        workload: Workload,
        executor: Executor,
        what: str,
        state: Mapping[str, np.ndarray],
        signature: Signature,
        calls: list[tuple],
        cells: np.ndarray,
    ) -> Iterator[np.ndarray]:
        """The sums of each call; those by pair of levels are added to `cells`."""
        passes = workload.passes(signature)
        asked, size = task(passes, what), getattr(passes, what).size
        vectors = executor.map([(asked, call) for call in calls], dict(state))
        for places, vector in zip(self.places[signature], vectors, strict=True):
            first = size
            for of_pair in places:
                add_numbered(cells, of_pair, vector[first : first + len(of_pair)])
                first += len(of_pair)
            yield vector[:size].copy()


@dataclass(frozen=True)
class Across:
    """Rows that terms and absorbed factors separate together, and that have left the likelihood. The `direction` [p] moves each
    of these `rows` by 1 or more, and no other one. `workload`, `held` and `null_vectors` are those of the problem that still had
    them."""

    workload: Workload
    direction: np.ndarray
    rows: int
    held: np.ndarray
    null_vectors: np.ndarray


@dataclass(frozen=True, kw_only=True)
class AbsorbedProblem(Problem):
    """A `Problem` whose information matrix is sparse. `null_vectors` are those of the coefficients that are reported,
    [held, reported]. `across` is what terms and absorbed factors separate together, if that is known."""

    index: CellIndex
    kept: Kept
    across: "Across | None" = None
    last: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    def at(self, coefficients: np.ndarray, sums: str = "information") -> State:
        if sums != "information":
            return super().at(coefficients, sums)
        design = self.design
        total, cells = self.index.sum(self.workload, self.executor, sums, self.workload.state(coefficients))
        blocks = sparse_blocks(design, total, cells, self.index.pattern, self.free)
        return State(coefficients, float(total["loss"]), gradient(design, total), float(total["pearson"]), blocks)

    def rectified(self, state: Mapping[str, np.ndarray], moving: np.ndarray) -> tuple[Sums, Blocks]:
        total, cells = self.index.sum(self.workload, self.executor, "rectifier", state)
        return total, sparse_blocks(self.design, total, cells, self.index.pattern, moving)

    def factored(self, blocks: Blocks) -> SparseFactored:
        assert isinstance(blocks, SparseBlocks)
        # The last one is near this one's, if it is of the same columns.
        start = self.last.get("projection")
        usable = start is not None and start.shape[1] == len(blocks.dense)
        factored = factor(blocks, self.design.model, start if usable else None)
        self.last["projection"] = factored.projection
        return factored

    @property
    def identified(self) -> int:
        """How many coefficients of absorbed factors there are that the rows tell apart."""
        levels = int(np.count_nonzero(self.free[self.design.reported_size :]))
        return levels - sum(self.index.pattern.redundant)

    @property
    def identified_by_clusters(self) -> int:
        """The same, where a factor of which each level lies in one cluster counts as one coefficient, as in fixest."""
        design, count = self.design, self.identified
        for k in self.index.nested:
            count -= int(np.count_nonzero(self.free[design.parts[k].where])) - 1
        return max(count, 1)


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
                name = f"pair_{j}_{k}" if part.grouping else f"single_{j}_{k}"
                rows = rank[part.where]
                b[rows[rows >= 0], columns] = np.atleast_2d(sums[name])[rows >= 0]
    diagonal = np.concatenate([sums[f"own_{k}"] for k in design.absorbed_parts])
    return SparseBlocks(dense, np.arange(start, design.size), a, b, diagonal, SparsePart(pattern, diagonal, cells))


def prepare(before: Kept, run: Run) -> tuple[AbsorbedProblem, State]:
    """What is minimised, and the sums at the null model. What is aliased is not free in it. `before` are the rows to begin with.

    Raises
    ------
    UserError
        If nothing is left to fit, or the absorbed factors determine every covariate.
    """
    kept = keep(before, run)
    workload, counts, design = kept.workload, kept.counts, kept.workload.design
    status = initial_status(design, workload, counts)
    for part in (design.parts[k] for k in design.absorbed_parts):
        of_part = status[part.where]  # a view
        of_part[sorted(kept.singletons.get(part.grouping, ()))] = EMPTY
    held, null = formal(design, status, by_coefficient(design, counts, "rows"))
    status[held] = REFERENCE
    index = CellIndex.of(workload, run.executor)
    run.reporter.tell(told(design, index.pattern, index.sizes))
    coefficients, loss = null_model(workload, run.executor, counts)
    nothing = np.zeros(design.size)
    problem = AbsorbedProblem(
        workload,
        run,
        counts,
        status,
        held,
        null,
        coefficients,
        loss,
        0.0,
        0.0,
        nothing,
        nothing,
        index=index,
        kept=kept,
    )
    state = problem.at(coefficients)
    problem, state = without_aliased(problem, state)
    if not problem.free[: design.reported_size].any():
        raise UserError(
            f"models.{design.model}.absorb: the absorbed factors determine each covariate of the formula, so that there is "
            f"nothing to estimate\n  absorb fewer factors, or add covariates that vary within their levels"
        )
    return problem, state


def told(design: Design, pattern: Pattern, sizes: tuple[int, ...]) -> str:
    names = [design.parts[k].term.name for k in design.absorbed_parts]
    pairs = [f"{size:,} pairs of levels" for size in sizes]
    return f"absorbed: {', '.join(names)}" + (f", {' + '.join(pairs)}" if pairs else "")


def formal(design: Design, status: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The reported coefficients held at zero because the formula makes them redundant, as any absorbed factor has an intercept in
    it, and the directions that show it, [held, reported]."""
    reported = design.reported
    full = replace(reported, terms=(Term(INTERCEPT), *reported.terms), absorbed=())
    present = np.isin(status[: reported.size], (FREE, REFERENCE))
    null = (to_fit_scale(full) @ null_space(full, np.append(True, present), list(full.slices)).T).T[:, 1:]
    null = null[np.abs(null).max(1, initial=0.0) > 0]
    return hold(null, most_frequent_first(reported, rows[: reported.size]))


def without_aliased(problem: AbsorbedProblem, state: State) -> tuple[AbsorbedProblem, State]:
    """The problem without the columns that earlier ones and the absorbed factors determine."""
    blocks, design = state.blocks, problem.design
    assert isinstance(blocks, SparseBlocks)
    schur, projection = eliminate(blocks, design.model)
    of_reported = Blocks(blocks.dense, np.zeros(0, int), blocks.a, np.zeros((len(schur), 0)), np.zeros(0))
    aliased, null = null_vectors(of_reported, design.reported_size, schur)
    kept = ~np.isin(blocks.dense, aliased)
    less = problem.without_aliased(aliased, null)
    assert isinstance(less, AbsorbedProblem)
    less.last["projection"] = np.ascontiguousarray(projection[:, kept])
    blocks = replace(blocks, dense=blocks.dense[kept], a=blocks.a[np.ix_(kept, kept)], b=blocks.b[kept])
    return less, replace(state, blocks=blocks)


def without_separated_rows(problem: AbsorbedProblem) -> tuple[AbsorbedProblem, State] | None:
    """The problem of the rows that cannot be separated, and the sums at its null model; None if none can be. Raises UserError if
    that cannot be told, or nothing is left."""
    design = problem.design
    try:
        separated = rectifier.separated(problem)
        if separated and problem.across:
            # Singletons and levels that have left since are not to be told apart.
            earlier = problem.across.workload.without(problem.workload.excluded)
            separated = rectifier.with_earlier(problem, replace(problem.across, workload=earlier), separated)
    except (rectifier.NotTold, scipy.linalg.LinAlgError):
        raise UserError(
            f"models.{design.model}.absorb: the estimates run off to infinity, and which rows are separated could not be told\n"
            f"  merge rare levels with data.rare, absorb fewer factors, or coarser ones"
        ) from None
    if separated is None:
        return None
    names = ", ".join(terms_in(design, np.abs(separated.direction)))
    problem.run.reporter.tell(f"separated by {names} together, so left out of the likelihood: {separated.rows:,} rows")
    less, state = prepare(replace(problem.kept, workload=separated.workload, counts=separated.counts), problem.run)
    first = problem.across or Across(problem.workload, separated.direction, 0, problem.held, problem.null_vectors)
    across = replace(first, direction=separated.direction, rows=first.rows + separated.rows)
    return replace(less, across=across), state
