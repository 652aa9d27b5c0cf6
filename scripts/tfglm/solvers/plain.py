"""The objective of most fits, built from the counts of the rows, and the start of its solver."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from tfglm.config.families import WITH_FIRTH
from tfglm.config.std_errors import BY_LEVERAGE
from tfglm.design.design import Design
from tfglm.design.parametrisation import (
    at_reference,
    hold,
    holding_zero,
    most_frequent_first,
    null_space,
    references_first,
    to_fit_scale,
)
from tfglm.engine.parts import equations_of
from tfglm.engine.passes import Sums
from tfglm.engine.rectified import side
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.formula.terms import INTERCEPT
from tfglm.inference import effective
from tfglm.inference.bread import Bread
from tfglm.inference.fitted import ALIASED, EMPTY, FREE, REFERENCE, SEPARATED, choose_references
from tfglm.solvers import rectifier
from tfglm.solvers.cluster_sums import Columns, Scores, matrices_of
from tfglm.solvers.information import Blocks, assemble, inverse_state, null_vectors
from tfglm.solvers.newton import FisherScoring
from tfglm.solvers.objective import CountedRows, Objective, Point, Separation, Solution
from tfglm.solvers.prepare import by_coefficient, check_means, initial_status, null_model, valid_start
from tfglm.solvers.run import Reporter, Run
from tfglm.solvers.separation import group_names, leave_out_separated, name_or_terms, separation, terms_in

LEFT_ABOVE = 1e-12
"""A column is estimated if the other columns leave more than this share of its squares. Smaller shares are rounding errors."""

DOUBTFUL_ABOVE = 1e-14
"""The same share, computed from the information matrix. Below it, the column is redundant without a pass over the rows."""

WARM_ITERATIONS = 12
WARM_UNTIL = 0.25
"""lambda^2 for each coefficient at which the steps on a sample end. This is closer to the optimum of the sample than the optimum
of all rows is."""

WARM_RIDGE = 1.0
"""Ridge penalty (times b^2 / 2) on these steps, because the responses of a rare group may be all alike in the sample."""

MOST_SEPARATED_ROWS = 20_000
"""Largest number of distinct separated rows from which a table of coefficients takes the signs of infinite estimates. Rows that
the directions move alike count once."""

DIGITS = 9
"""Rows whose movements agree to so many digits are alike."""

SHOWN = 5
"""Groups that a message names."""


class PlainObjective(Objective):
    """F without absorbed factors: all coefficients are reported."""

    @classmethod
    def of(cls, counted: CountedRows, run: Run, without: str | None = None) -> Self:
        """As `Objective.of`. `without` names a term whose coefficients are held at zero, for its likelihood ratio test.
        Penalised coefficients are finite and unique. So none of their levels is separated or held at zero."""
        workload, counts, design = counted.workload, counted.counts, counted.workload.design
        terms = [term for term in design.unpenalised_terms if term != without]
        bounded = {list(design.coefficients())[place][0] for place, *_ in design.bounds}
        if set(terms) - {INTERCEPT}:
            # A bounded coefficient may be finite where its level is separated.
            workload, counts = cls._overlapping(workload, run, counts, [term for term in terms if term not in bounded])
        status = initial_status(design, workload, counts)
        if without is not None:
            status[design.slices[without]] = EMPTY
        null, held = np.zeros((0, design.size)), np.zeros(0, int)
        if set(terms) - {INTERCEPT}:
            present = np.isin(status, (EMPTY, SEPARATED), invert=True)
            null = (to_fit_scale(design) @ null_space(design, present, terms).T).T
            order = most_frequent_first(design, by_coefficient(design, counts, "rows"))
            if design.bounds:  # those of a factor are against its reference level
                order = references_first(design, at_reference(design, choose_references(design, status, {}), null))
            held, null = hold(null, order)
            status[held] = REFERENCE
        coefficients, loss = cls._null_model(workload, run, counts)
        if design.constant is None and counted.original is not design:
            plain = workload.with_design(counted.original)
            loss = null_model(plain, run.executor, counted.original_counts)[1]
        if not design.distribution.canonical or design.distribution.positive_predictor:
            coefficients = valid_start(design, coefficients, counts, status == FREE)
        nothing = np.zeros(design.size)
        objective = cls(
            workload, run, counts, counted, status, held, null, coefficients, loss, 0.0, 0.0, nothing, nothing
        )
        return objective.penalised(design.penalty.l1, design.penalty.l2)

    @classmethod
    def _overlapping(cls, workload: Workload, run: Run, counts: Sums, terms: list[str]) -> tuple[Workload, Sums]:
        """The rows of levels that are not separated, and their counts."""
        workload, counts = leave_out_separated(workload, run, counts, terms)
        check_means(workload.design, counts, terms)
        return workload, counts

    @classmethod
    def _null_model(cls, workload: Workload, run: Run, counts: Sums) -> tuple[np.ndarray, float]:
        return null_model(workload, run.executor, counts)

    def begin(self, learn: Callable[[Self], Solution] | None = None) -> Solution:
        objective, point, sampled = self, None, None
        share, design = self.sample_share(), self.design
        if design.penalty.factors or design.smooths:
            # Only unpenalised coefficients can be aliased.
            point = self.at(self.null_coefficients)
            unpenalised = self.free & (design.penalised_coefficients == 0)
            objective = self.without_aliased(*self.redundant(point.information.restrict(unpenalised)))
        elif not (design.penalty.l1 or design.penalty.path):
            objective, point, sampled = self.with_aliased_held(share)
        if learn:
            return learn(objective)
        if sampled is not None:
            point = objective.at(objective.warm_start(sampled, share))
            # If the link needs linear predictors above 0, rows outside the sample may have no mean there.
            point = point if np.isfinite(point.loss) else objective.at(objective.null_coefficients)
        elif point is None:
            point = objective.at(objective.null_coefficients)
        else:
            point = replace(point, blocks=point.information.restrict(objective.free))
        return Solution(objective, point)

    def with_aliased_held(self, share: float) -> tuple[Self, Point | None, Point | None]:
        """The objective without aliased coefficients, and the sums at the null model over all rows, or over a sample.

        At the null model all weights are equal, so only the columns decide which coefficients are aliased (docs/statistics.md:
        Aliasing). Columns that are independent on a sample are independent on all rows. So a sample with all groups can show
        that no coefficient is aliased, which saves a pass over all rows.
        """
        design, size = self.design, self.design.size
        if share < 1.0 and not self.family.quadratic:
            sampled = replace(self, workload=self.workload.sampled(share)).at(self.null_coefficients)
            blocks = sampled.information
            # Groups outside the sample do not affect the rest of the matrix.
            blocks = replace(blocks, d=np.where(blocks.d > 0, blocks.d, 1.0))
            if design.penalty.l2 or (np.all(np.diag(blocks.a) > 0) and not len(null_vectors(blocks, size)[0])):
                return self, None, sampled
        point = self.at(self.null_coefficients)
        if design.penalty.l2:
            return self, point, None
        aliased, directions = self.redundant(point.information)
        if len(aliased) and design.roles.offset:
            # With an offset, the weights differ like exp(offset). Columns that differ only in rows of little weight then seem
            # to be aliased. So X'X with equal weights decides.
            fewer, of_fewer = self.redundant(self.squares())
            aliased, directions = (fewer, of_fewer) if len(fewer) < len(aliased) else (aliased, directions)
        return self.without_aliased(aliased, directions), point, None

    def redundant(self, blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
        """As `null_vectors`, without columns that a pass over the rows shows to be independent. Squares lose half of the
        digits. A pivot of 1e-11 may be rounding error, or belong to a column that can be estimated."""
        estimable: set[int] = set()
        while True:
            aliased, directions = null_vectors(blocks, self.design.size, estimable=estimable)
            more = {
                int(place)
                for place, direction in zip(aliased, directions, strict=True)
                if self._is_doubtful(blocks, int(place), direction)
                and self._left_of(int(place), direction) > LEFT_ABOVE
            }
            if not more:
                return aliased, directions
            estimable |= more

    def _is_doubtful(self, blocks: Blocks, place: int, direction: np.ndarray) -> bool:
        """Whether the information matrix cannot decide that a direction moves no row. The direction should cancel the column at
        `place`."""
        alone = np.where(np.arange(len(direction)) == place, direction, 0.0)
        left, whole = (float(each @ blocks.times(each)) for each in (direction, alone))
        return abs(left) > DOUBTFUL_ABOVE * whole

    def _left_of(self, place: int, direction: np.ndarray) -> float:
        """The sum of squares along a direction that should move no row, as a share of the squares of the column at `place`.
        It is summed row by row, so the squares do not cancel."""
        linear = self.design.as_linear().with_roles(response=None, trials=None, offset=None)
        workload = self.workload.with_design(linear)
        alone = np.where(np.arange(len(direction)) == place, direction, 0.0)
        left, whole = (
            float(workload.sum(self.executor, "gradient", linear.by_term(each))["loss"]) for each in (direction, alone)
        )
        return left / whole

    def sample_share(self) -> float:
        """The share of the rows in the sample of the first steps; 1 if there are too few rows for a sample. A row of the
        file counts once, whatever its `frequency`."""
        rows, limits = float(self.counts["rows"]), self.run.limits
        if self.design.roles.frequency:
            rows = min(rows, self.workload.rows)
        fewest = max(limits.sample_rows, limits.sample_rows_per_coefficient * self.free_count)
        share = max(limits.sample_share, fewest / rows)
        return float(share) if share <= limits.largest_sample else 1.0

    def warm_start(self, point: Point, share: float) -> np.ndarray:
        """Coefficients near the optimum, [p], from steps on a sample of the rows. `point` has the sums over the sample."""
        ridge = share * self.ridge + np.where(self.ridge > 0, 0.0, WARM_RIDGE)
        if self.design.intercept is not None:
            ridge[self.design.intercept] = 0.0
        live = self.run.reporter.live
        run = replace(self.run, reporter=Reporter(live=lambda message: live(f"on {share:.0%} of the rows, {message}")))
        sampled = replace(self, workload=self.workload.sampled(share), ridge=ridge, run=run)
        until, df_residual = WARM_UNTIL * self.free_count, share * float(self.counts["rows"])
        scoring = FisherScoring(sampled, point, df_residual, WARM_ITERATIONS, until, is_exact=False)
        scoring.run()
        return scoring.point.coefficients

    def with_zeros_held(self, coefficients: np.ndarray) -> tuple[Self, np.ndarray]:
        """The objective of an exact fit, and coefficients [p] that make the same predictions. Coefficients that an exact fit
        holds at zero are zero."""
        objective = self
        if len(self.held):
            held, null = hold(self.null_vectors, self.held)
            objective = replace(self, held=held, null_vectors=null)
            coefficients = holding_zero(held, null) @ coefficients
        return objective, np.where(self.free, coefficients, 0.0)

    def without_separated_rows(self, coefficients: np.ndarray) -> Solution | None:
        design = self.design
        try:
            separated = rectifier.separated(self)
            if separated and self.separation:
                separated = rectifier.with_earlier(self, self.separation, separated)
        except rectifier.Undecided:
            raise UserError(
                f"models.{design.model}: the estimates run off to infinity, and the separated rows could not be found\n"
                f"  leave out the terms whose numbers are the largest or vary the least, merge rare levels, or add a penalty, "
                f"`l2`"
            ) from None
        if separated is None:
            return None
        workload, counts, direction = separated.workload, separated.counts, separated.direction
        involved = terms_in(design, np.abs(direction))
        if not counts["rows"] or design.has_penalties:
            involved, _ = name_or_terms(self.workload, self.executor, direction)
            raise UserError(separation(design, involved, separated.rows, int(counts["rows"])))
        self.run.reporter.tell(
            f"separated by terms together, so left out of the likelihood: {separated.rows:,} rows, by {', '.join(involved)}"
        )
        status, empty = self.status.copy(), by_coefficient(design, counts, "rows") == 0
        gone = np.flatnonzero(empty & (status == FREE))
        status[empty & np.isin(status, (FREE, REFERENCE, ALIASED))] = EMPTY
        null_coefficients, null_loss = null_model(workload, self.executor, counts)
        first = self.separation or Separation(self.workload, direction, self.held, self.null_vectors)
        less = replace(
            self,
            workload=workload,
            counts=counts,
            status=status,
            held=np.array([*self.held, *gone], int),
            null_vectors=np.vstack([self.null_vectors, np.eye(design.size)[gone]]),
            null_coefficients=null_coefficients,
            null_loss=null_loss,
            separation=replace(first, direction=direction, rows=first.rows + separated.rows),
        )
        # Without these rows, further coefficients may be aliased, and further rows may be separated.
        objective = less.begin().objective
        assert isinstance(objective, PlainObjective)
        return Solution(objective, objective.at(objective.with_zeros_held(coefficients)[1]))

    def movement_of_separated_rows(self) -> np.ndarray:
        directions = self.separating
        if len(directions) == 2:
            # With two directions, the second is a multiple of the first, and all rows move alike.
            return np.sign([[directions[0] @ directions[1]]])
        answer = self.executor.remember("separated rows", lambda: {"rows": self._movements()})
        return answer["rows"]

    def _movements(self) -> np.ndarray:
        assert self.separation
        design, workload, (first, *others) = self.design, self.separation.workload, self.separating
        known = np.zeros((0, len(others)))
        state = workload.state(np.zeros(design.size))
        for _, _, signature, call in workload.shards_alone():
            for evaluated in workload.passes(signature).evaluated(state, call):
                towards = side(evaluated.rows, design.distribution)
                which = (towards != 0) & (np.abs(evaluated.along(first)) > 0.5)
                movement = np.stack([towards * evaluated.along(other) for other in others], axis=1)[which]
                movement /= np.abs(movement).max(axis=1, keepdims=True)
                known = np.unique(np.vstack([known, movement.round(DIGITS)]), axis=0)
            if len(known) > MOST_SEPARATED_ROWS:
                return known[:0]
        return known

    def meat(self, bread: Bread, solution: Solution) -> Blocks:
        design, kind = self.design, self.design.inference.std_errors
        state = design.by_term(solution.point.coefficients)
        if kind not in BY_LEVERAGE:
            sums = self.workload.sum(self.executor, "squares", state)
        else:
            sums = self.workload.sum(self.executor, kind.lower(), state | inverse_state(design, bread))
            refuse_leverage_of_one(design, sums, self.counts)
        return assemble(design, sums, np.isin(np.arange(design.size), bread.free))

    def scores(self, bread: Bread, solution: Solution) -> list[Scores]:
        design = self.design
        sums = self.workload.sum(self.executor, "scores", design.by_term(solution.point.coefficients))
        scores = []
        for number in range(len(design.inference.cluster_counts)):
            rows = sums["rows", number]
            present = rows > 0
            if design.inference.std_errors == "newey_west" and rows.max() > 1:
                raise UserError(
                    f"models.{design.model}.std_errors: newey_west is for one row of each date, and a date has "
                    f"{rows.max():,.0f}\n"
                    f"  use `driscoll_kraay({design.inference.clusters[0].column})`, which takes the rows of a date together"
                )
            by_cluster = np.zeros((len(present), design.size))
            for k, part in enumerate(design.parts):
                by_cluster[:, part.where] = sums["part", k, number].reshape(len(present), part.size)
            scores.append(Scores(np.flatnonzero(present), by_cluster[np.ix_(present, bread.free)]))
        return scores

    def columns_by_cluster(
        self, bread: Bread, null: Solution, clusters: Sequence[np.ndarray], with_matrices: bool
    ) -> list[Columns]:
        design, state = self.design, self.design.by_term(null.point.coefficients)
        sums = self.workload.sum(self.executor, "cluster_columns", state)
        products = self.workload.sum(self.executor, "cluster_information", state) if with_matrices else None
        found, is_free = [], np.isin(np.arange(design.size), bread.free)
        for number, present in enumerate(clusters):
            shape = (design.inference.clusters[number].count, design.size)
            columns, within, weights = np.zeros(shape), np.zeros(shape), {}
            for k, part in enumerate(design.parts):
                name = ("weight", *equations_of(design, part), number)
                weights[name] = sums[name]
                of_part = sums["part", k, number].reshape(-1, part.size)
                squares = sums.get(("square", k, number), of_part).reshape(-1, part.size)
                columns[:, part.where] = of_part
                within[:, part.where] = effective.within(of_part, squares, sums[name])
            matrices = matrices_of(design, products, present, is_free, number) if products is not None else None
            inside, sizes = np.ix_(present, bread.free), np.sum(list(weights.values()), axis=0)[present]
            found.append(Columns(columns[inside], within[inside], sizes, matrices))
        return found

    def remarks(self) -> list[str]:
        """A warning if terms separate rows together."""
        if not self.separation:
            return []
        names = ", ".join(f"`{term}`" for term in terms_in(self.design, np.abs(self.separation.direction)))
        firth = "`firth: true` or " if self.family.link_name == WITH_FIRTH.get(self.family.name) else ""
        return [
            f"{names} separate {self.separation.rows:,} rows by their response, though no single level does: these rows are left "
            f"out of the likelihood, and coefficients that only they would identify are infinite or not identified. All other "
            f"coefficients are estimated without these rows. For finite estimates use {firth}a penalty, `l2`"
        ]


def refuse_leverage_of_one(design: Design, sums: Sums, counts: Sums) -> None:
    """Raise UserError if a single row determines a coefficient. The message names the groups of such rows."""
    alone = int(sums["alone"])
    if not alone:
        return
    named = []
    for number, grouping in enumerate(design.groupings):
        of_one = np.flatnonzero((sums["alone", number] == 1) & (counts["rows", number] == 1))
        named += [f"{':'.join(grouping)}[{name}]" for name in group_names(design, grouping, of_one)]
    where = f", those of {', '.join(named[:SHOWN])}{', ...' if len(named) > SHOWN else ''}" if named else ""
    raise UserError(
        f"models.{design.model}.std_errors: {design.inference.std_errors} divides by 1 less the leverage of a row, and that is 0 "
        "for "
        f"{'a training row' if alone == 1 else f'{alone:,} training rows'}: each alone determines a coefficient{where}\n"
        "  merge rare levels with data.rare, leave such rows out in data.where, or use `std_errors: HC1`"
    )
