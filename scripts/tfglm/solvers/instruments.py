"""Two-stage least squares, from the cross products of all columns (docs/statistics.md: Instruments).

W are the columns of the exogenous terms, the instruments and the endogenous terms, less the absorbed factors, and A = W'W with
weights. Each regression here has regressors W P with a matrix P of its own:

- the second stage: the exogenous columns, and the endogenous ones as the first stage predicts them;
- a first stage: the exogenous columns and the instruments;
- the Wu-Hausman test: the columns of the formula, and the residuals of the first stages;
- overidentification: what the exogenous columns leave of the instruments;
- the Anderson-Rubin test: the exogenous columns and the instruments, for the response less the endogenous columns times their
  coefficients under the hypothesis.

Their coefficients follow from A and one gradient. Scores of a row are its row of W P times the residual, so sums of scores for
robust errors are those of the columns W times P.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.special

from tfglm.design.design import Design
from tfglm.design.parametrisation import to_data_scale
from tfglm.engine.passes import Sums
from tfglm.errors import UserError, counted
from tfglm.inference import distributions
from tfglm.inference.bread import Bread
from tfglm.inference.classical import Classical
from tfglm.inference.covariance import Covariance
from tfglm.inference.fitted import EMPTY, FREE, REFERENCE, Fitted
from tfglm.inference.reference import Fewest, JointReference, fewest_for
from tfglm.solvers import origin
from tfglm.solvers.cluster_sums import Columns, Scores
from tfglm.solvers.covariance import with_errors
from tfglm.solvers.information import Blocks, Factored
from tfglm.solvers.newton import CONVERGED_BELOW, PRECISE_BELOW, SLOW
from tfglm.solvers.objective import Objective, Point, Solution
from tfglm.solvers.prepare import by_coefficient
from tfglm.solvers.report import report
from tfglm.solvers.separation import terms_in
from tfglm.solvers.sparse_information import SparseBlocks, SparseFactored

UNEXPLAINED = 1e-10
"""Smallest share of the variance of an endogenous combination that the instruments explain, above rounding errors."""

WIDEST = 2_000
"""Columns of a regression with instruments, whose cross products are one dense matrix."""

CONFIDENCE = 0.95
"""Coverage of the confidence set of Anderson and Rubin."""

REAL = 1e-6
"""Largest share of an imaginary part in a root that rounding may have made."""

BIAS = 10.0
"""One over the bias that the critical value of the effective F allows, as a share of the worst case."""


class Projected:
    """An objective with the sums for a regression on combinations `columns` [free, k] of its free columns. Sums that depend on no
    response are `known` to all regressions."""

    def __init__(self, source: Objective, bread: Bread, columns: np.ndarray, known: dict[bool, list[Columns]]) -> None:
        self._source, self._bread, self._columns, self._known = source, bread, columns, known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def meat(self, _: Bread, solution: Solution) -> Blocks:
        columns, none = self._columns, np.zeros(0)
        meat = columns.T @ self._source.meat(self._bread, solution).whole @ columns
        return Blocks(np.arange(len(meat)), none.astype(int), meat, np.zeros((len(meat), 0)), none)

    def scores(self, _: Bread, solution: Solution) -> list[Scores]:
        return [each._replace(sums=each.sums @ self._columns) for each in self._source.scores(self._bread, solution)]

    def columns_by_cluster(
        self, _: Bread, null: Solution, clusters: Sequence[np.ndarray], with_matrices: bool
    ) -> list[Columns]:
        if with_matrices not in self._known:
            sums = self._source.columns_by_cluster(self._bread, null, clusters, with_matrices)
            self._known[with_matrices] = sums
        return [each.combined(self._columns) for each in self._known[with_matrices]]

    def df_residual_by_cluster(self, solution: Solution) -> float:
        free, own = self._columns.shape
        return self._source.df_residual_by_cluster(replace(solution, effective=self._source.estimated)) + free - own


@dataclass(frozen=True, eq=False)
class Moments:
    """The columns W of the free coefficients of an objective, whose places its `bread` has, and A = `cross` [free, free]. The
    coefficients at the places `absorbed` take their `projection` [absorbed, free] from W."""

    objective: Objective
    factored: Factored
    bread: Bread
    cross: np.ndarray
    absorbed: np.ndarray
    projection: np.ndarray
    by_cluster: dict[bool, list[Columns]] = field(default_factory=dict)

    @classmethod
    def of(cls, start: Solution) -> "Moments":
        objective = start.objective
        factored = objective.factored(start.point.information, start.information)
        bread = objective.reported(factored).bread()
        if isinstance(factored, SparseFactored):
            cross = factored.factor @ factored.factor.T
            return cls(objective, factored, bread, cross, factored.blocks.eliminated, factored.projection)
        none = np.zeros(0, int)
        return cls(objective, factored, bread, factored.blocks.whole, none, np.zeros((0, len(bread.free))))

    def gradient(self, point: Point) -> np.ndarray:
        """-W'e with the residuals e at a point, [free]."""
        return point.gradient[self.bread.free] - point.gradient[self.absorbed] @ self.projection

    def along(self, step: np.ndarray) -> np.ndarray:
        """The coefficients [p] of the linear predictor W step."""
        vector = np.zeros(self.objective.design.size)
        vector[self.bread.free], vector[self.absorbed] = step, -self.projection @ step
        return vector

    def absorbed_step(self, point: Point) -> np.ndarray:
        """The step [p] of the absorbed coefficients alone to their minimum."""
        step, blocks = np.zeros(len(point.gradient)), self.factored.blocks
        if isinstance(blocks, SparseBlocks):
            step[self.absorbed] = -blocks.sparse.solve(point.gradient[self.absorbed][:, None]).vectors[:, 0]
        return step

    def regressed(self, columns: np.ndarray, point: Point, shift: np.ndarray | None = None) -> tuple[np.ndarray, Point]:
        """The regression on W `columns` of the residuals at a point, after a `shift` [free] of its coefficients: its own
        coefficients, and the point with its residuals."""
        moved = np.zeros(len(self.cross)) if shift is None else shift
        gradient = self.gradient(point)
        slope = columns.T @ (gradient + self.cross @ moved)
        coefficients = -np.linalg.solve(columns.T @ self.cross @ columns, slope)
        squares = 2 * point.loss + moved @ (2 * gradient + self.cross @ moved) + float(slope @ coefficients)
        there = point.coefficients + self.along(moved + columns @ coefficients)
        return coefficients, Point(there, squares / 2, np.zeros(0), squares)

    def errors(
        self, columns: np.ndarray, point: Point, places: np.ndarray | None = None, objective: Objective | None = None
    ) -> Covariance:
        """The covariance of the regression on W `columns`, at a point with its residuals. `places` [k] are those of its
        coefficients in a transformation; `objective` may have another response."""
        source, (free, own), none = objective or self.objective, columns.shape, np.zeros(0)
        count = source.estimated - free + own
        df = float(source.counts["rows"]) - count
        inverse = np.linalg.inv(columns.T @ self.cross @ columns)
        bread = Bread(np.arange(own) if places is None else places, none.astype(int), inverse, np.zeros((own, 0)), none)
        classical = Classical(bread=bread, dispersion=source.dispersion(point, df), df_residual=df)
        projected = cast(Objective, Projected(source, self.bread, columns, self.by_cluster))
        return with_errors(classical, Solution(projected, point, self.factored, effective=count))


def fit(start: Solution, structural: Design) -> Fitted:
    """Fit the `structural` design by two-stage least squares, from the start of its design with instruments.

    Raises
    ------
    UserError
        If instruments or endogenous terms are determined by others, and if the instruments are too few or explain nothing.
    """
    objective, design, run = start.objective, start.objective.design, start.objective.run
    stages = Stages.of(start)
    moments, second, places = stages.moments, stages.second, stages.moments.bread.free[stages.regressors]
    count = objective.estimated - len(second) + len(places)
    df, squares = float(objective.counts["rows"]) - count, second.T @ moments.cross @ second
    lower = scipy.linalg.cholesky(squares, lower=True)
    point, before, iterations = start.point, np.inf, 0
    while True:
        score, absorbed = second.T @ moments.gradient(point), moments.absorbed_step(point)
        step = scipy.linalg.cho_solve((lower, True), score)
        with np.errstate(divide="ignore", invalid="ignore"):
            square = abs(float(np.divide(score @ step - absorbed @ point.gradient, objective.dispersion(point, df))))
        perfect = bool(iterations) and objective.is_perfect(point, moments.factored.blocks)
        if perfect or iterations == run.max_iterations or square <= PRECISE_BELOW or square > SLOW * before:
            break
        before, iterations = square, iterations + 1
        moved = moments.along(np.eye(len(second))[:, stages.regressors] @ -step)
        point = objective.at(point.coefficients + absorbed + moved, "gradient")
        run.reporter.tell(f"two-stage least squares: step {iterations}, residual sum of squares {2 * point.loss:.10g}")
    converged = perfect or square <= CONVERGED_BELOW
    certificate = {"lambda_squared": square, "converged_below": CONVERGED_BELOW}
    own = np.arange(structural.size)
    kept = own + (design.size - structural.size) * (own >= structural.reported_size)
    blocks = Blocks(places, np.zeros(0, int), squares, np.zeros((len(places), 0)), np.zeros(0))
    solution = Solution(
        without_instruments(objective, structural, kept),
        replace(point, coefficients=point.coefficients[kept], gradient=point.gradient[kept]),
        SparseFactored(blocks, lower, np.zeros((0, len(places)))) if design.absorbed else Factored(blocks, lower),
        iterations=iterations,
        converged=converged,
        certificate={} if perfect else certificate | {"within_standard_errors": float(np.sqrt(square))},
        violation=float(np.abs(score).max()) / objective.weight_sum,
        effective=count,
        is_perfect=perfect,
        has_covariance=not perfect,
    )
    covariance, has_tests = moments.errors(second, point, places), converged and not perfect
    fitted = Fitted(
        coefficients=solution.point.coefficients,
        status=solution.objective.status,
        rows=by_coefficient(design, objective.counted.original_counts, "rows")[kept],
        responses=by_coefficient(design, objective.counted.original_counts, "response")[kept],
        null_vectors=solution.objective.null_vectors,
        covariance=covariance
        if has_tests
        else Classical(bread=covariance.bread, dispersion=np.nan, df_residual=covariance.df_residual),
    )
    assert structural.instruments
    endogenous, names = structural.instruments.endogenous, [term.name for term in structural.instruments.terms]
    summary = report(solution, fitted, [])
    summary["formula"] += f" | {' + '.join(endogenous)} ~ {' + '.join(names)}"
    tests = stages.tests(point) if has_tests else {}
    summary["instruments"] = {"endogenous": list(endogenous), "instruments": names, **tests}
    summary["warnings"] = [*summary["warnings"], *weakness(tests)]
    moved = origin.shift(solution.objective)
    return replace(fitted, coefficients=fitted.coefficients + moved, summary=summary)


def without_instruments(objective: Objective, structural: Design, kept: np.ndarray) -> Objective:
    """The objective of the structural design, whose coefficients are at the places `kept`."""
    design, own = objective.design, np.isin(objective.held, kept)
    of_groups: Sums = {
        ("rows", number): objective.counts["rows", design.groupings.index(grouping)]
        for number, grouping in enumerate(structural.groupings)
    }
    used = structural.with_likelihood(origin=design.likelihood.origin).with_roles(offset=design.roles.offset)
    return replace(
        objective,
        workload=objective.workload.with_design(used),
        counts={**objective.counts, **of_groups},
        counted=objective.counted._replace(original=structural),
        held=objective.held[own],
        null_vectors=objective.null_vectors[own][:, : structural.reported_size],
        **{name: getattr(objective, name)[kept] for name in ("status", "null_coefficients", "lasso", "ridge")},
    )


@dataclass(frozen=True, eq=False)
class Stages:
    """The columns of W that are `exogenous`, `excluded` instruments and `endogenous`, and the `regressors` of the formula among
    them.

    P of the `second` stage, of the `residuals` of the first stages, and of what exogenous columns leave of the instruments
    (`left`). Less exogenous columns, instruments have the cross products `squares`, with the endogenous columns `shared`, and
    these `whole`. `explained` are their squared canonical correlations, ascending.
    """

    moments: Moments
    exogenous: np.ndarray
    excluded: np.ndarray
    endogenous: np.ndarray
    regressors: np.ndarray
    second: np.ndarray
    residuals: np.ndarray
    left: np.ndarray
    squares: np.ndarray
    shared: np.ndarray
    whole: np.ndarray
    explained: np.ndarray
    combinations: np.ndarray

    @classmethod
    def of(cls, start: Solution) -> "Stages":
        """Raises UserError as `fit` does."""
        objective, design = start.objective, start.objective.design
        assert design.instruments
        key, of_formula = f"models.{design.model}.instruments", design.instruments.endogenous
        names = [term.name for term in design.instruments.terms]
        for name in (*of_formula, *names):
            refuse_determined(objective, name, key, name in names)
        if float(objective.counts["rows"]) <= objective.estimated:
            raise UserError(objective.too_few_rows())
        if (wide := np.count_nonzero(objective.free[: design.reported_size])) > WIDEST:
            raise UserError(
                f"{key}: {wide:,} coefficients are too many for two-stage least squares, which has {WIDEST:,} at most; absorb "
                "the factor of the formula that has the most levels"
            )
        moments, every = Moments.of(start), np.arange(design.size)
        cross, identity = moments.cross, np.eye(len(moments.cross))
        is_excluded, is_endogenous = (
            np.isin(moments.bread.free, np.concatenate([every[design.slices[name]] for name in terms]))
            for terms in (names, of_formula)
        )
        excluded, endogenous = np.flatnonzero(is_excluded), np.flatnonzero(is_endogenous)
        exogenous, regressors = np.flatnonzero(~(is_excluded | is_endogenous)), np.flatnonzero(~is_excluded)
        if len(excluded) < len(endogenous):
            raise UserError(
                f"{key}: {counted(len(excluded), 'instrument')} ({', '.join(names)}) for {len(endogenous)} endogenous "
                f"coefficients ({', '.join(of_formula)}); add instruments, until there are as many"
            )

        def less(columns: np.ndarray, which: np.ndarray) -> np.ndarray:
            """P of what the `columns` leave of others."""
            left = identity[:, which].copy()
            if len(columns):
                inside, between = cross[np.ix_(columns, columns)], cross[np.ix_(columns, which)]
                left[columns] -= scipy.linalg.solve(inside, between, assume_a="pos")
            return left

        residuals = less(np.concatenate([exogenous, excluded]), endogenous)
        second = identity.copy()
        second[:, endogenous] -= residuals
        left, of_endogenous = less(exogenous, excluded), less(exogenous, endogenous)
        squares, shared, whole = (
            one.T @ cross @ other
            for one, other in ((left, left), (left, of_endogenous), (of_endogenous, of_endogenous))
        )
        explained, combinations = scipy.linalg.eigh(shared.T @ np.linalg.solve(squares, shared), whole)
        if explained[0] < UNEXPLAINED:
            raise UserError(
                f"{key}: the instruments ({', '.join(names)}) do not identify the coefficients of {', '.join(of_formula)}: they "
                "explain nothing of them, or of a combination of them\n  add other instruments"
            )
        of_columns = exogenous, excluded, endogenous, regressors, second[:, regressors], residuals
        return cls(moments, *of_columns, left, squares, shared, whole, explained, combinations)

    @property
    def fewest(self) -> Fewest:
        """The least information from clusters for a test."""
        return fewest_for(self.moments.objective.design)

    def tests(self, point: Point) -> dict[str, Any]:
        """What fit.json says of the first stages and the instruments, at the estimates."""
        return {
            "first_stages": [self.first_stage(number) for number in range(len(self.endogenous))],
            **self.rank(),
            "wu_hausman": self.wu_hausman(point),
            "overidentification": self.overidentification(point),
            "anderson_rubin": self.anderson_rubin(point),
        }

    def first_stage(self, number: int) -> dict[str, Any]:
        """The regression of an endogenous column on the exogenous ones and the instruments, on the scale of the data."""
        moments, direction, first = self.moments, self.residuals[:, number], self.first
        design, free = moments.objective.design, moments.bread.free
        covariance, squares = self.errors_along(direction), float(direction @ moments.cross @ direction)
        # The data have column j of the fit times L[j, j], plus the others that L[:, j] has. L converts coefficients.
        to_data, shown, place = to_data_scale(design.reported).tocsc(), free[first], free[self.endogenous[number]]
        own = to_data[:, [place]].toarray()[:, 0]
        transform = scipy.sparse.csr_array(to_data[:, shown][shown] / own[place])
        values = transform @ -direction[first] - own[shown] / own[place]
        errors = np.sqrt(covariance.variances(transform).chosen)
        reference = covariance.reference(transform, self.fewest)
        p_values, notes = reference.p_value(values, errors), reference.notes()
        names, is_held = list(design.reported.coefficients()), moments.objective.status == REFERENCE
        (term, level), held = names[place], {names[k][0]: names[k][1] for k in np.flatnonzero(is_held).tolist()}
        result: dict[str, Any] = {
            "endogenous": f"{term}[{level}]" if level else term,
            "instruments": wald(covariance, -direction[self.excluded], self.chosen, self.fewest),
            "r_squared_partial": 1 - squares / float(self.whole[number, number]),
            "coefficients": [
                dict(zip(("term", "level"), names[shown[k]], strict=True))
                | {"reference": held.get(names[shown[k]][0], "")}
                | {"estimate": float(values[k]), "std_error": number_or_none(errors[k])}
                | {"p_value": number_or_none(p_values[k]), "note": str(notes[k])}
                for k in range(len(first))
            ],
        }
        return result | (self.effective_f(covariance) if len(self.endogenous) == 1 else {})

    @cached_property
    def first(self) -> np.ndarray:
        """The columns of W in a first stage, in the order of the design."""
        both = np.concatenate([self.exogenous, self.excluded])
        return both[np.argsort(self.moments.bread.free[both])]

    @property
    def chosen(self) -> np.ndarray:
        """What chooses the instruments among these, [instruments, columns]."""
        return (self.excluded[:, None] == self.first).astype(float)

    @cached_property
    def root(self) -> np.ndarray:
        """The lower Cholesky factor of `squares`."""
        return np.linalg.cholesky(self.squares)

    def errors_along(self, direction: np.ndarray) -> Covariance:
        """The covariance of a first stage with the residuals W `direction`."""
        moments, objective = self.moments, self.moments.objective
        linear = objective.design.with_roles(response=None, trials=None, offset=None)
        rows = replace(objective, workload=objective.workload.with_design(linear))
        squares = float(direction @ moments.cross @ direction)
        point = Point(moments.along(direction), squares / 2, np.zeros(0), squares)
        return moments.errors(np.eye(len(direction))[:, self.first], point, objective=rows)

    def rank(self) -> dict[str, Any]:
        """Tests that the instruments leave some combination of the endogenous columns unexplained.

        Cragg and Donald's statistic is the smallest eigenvalue of their matrix: the first-stage F of a single endogenous column.
        Kleibergen and Paap's (Journal of Econometrics 133, 2006) uses other than classical errors, for the combination d'c with
        the smallest canonical correlation. It is the Wald statistic of the part of its first-stage coefficients that is
        orthogonal to those of the other combinations. Its LM form takes d'c itself for the residuals of the first stage. With
        classical errors they are Cragg and Donald's F, and Anderson's LM statistic.
        """
        objective, share, count = self.moments.objective, float(self.explained[0]), len(self.excluded)
        rows, more = float(objective.counts["rows"]), count - len(self.endogenous) + 1
        cragg_donald = share / (1 - share) * (rows - objective.estimated + len(self.endogenous)) / count
        name, statistic, strength = "Anderson LM", rows * share, cragg_donald
        if objective.design.inference.std_errors != "classical":
            slopes = np.linalg.solve(self.root, self.shared @ self.combinations)
            others = np.linalg.qr(slopes[:, 1:], mode="complete")[0][:, len(self.endogenous) - 1 :].T
            transform, values = scipy.sparse.csr_array(others @ self.root.T @ self.chosen), others @ slopes[:, 0]
            # The endogenous columns less the exogenous ones alone are the residuals of the LM form.
            under = self.residuals + self.left @ np.linalg.solve(self.squares, self.shared)
            full, lm = (self.errors_along(each @ self.combinations[:, 0]) for each in (self.residuals, under))
            strength = quadratic_form(full.of(transform), values) / count
            name, statistic = "Kleibergen-Paap rk LM", quadratic_form(lm.of(transform) / lm.correction, values)
        p = distributions.chi_squared(np.array(statistic), np.array(more)).probability
        return {
            "cragg_donald": cragg_donald,
            "kleibergen_paap": number_or_none(strength),
            "underidentification": {"test": name, "statistic": number_or_none(statistic), "df": more}
            | {"p_value": number_or_none(p)},
        }

    def anderson_rubin(self, point: Point) -> dict[str, Any]:
        """The test that all endogenous coefficients are 0 (Anderson and Rubin, Annals of Mathematical Statistics 20, 1949), and
        of a single one the values b that the test does not reject.

        The coefficients of the instruments for y - d b are linear in b, and their covariance is quadratic. So three values of b
        determine both. With the reference distribution at the estimate, the set ends where det(critical value * covariance -
        coefficients coefficients') = 0, which is a quadratic eigenvalue problem.
        """
        moments, identity = self.moments, np.eye(len(self.residuals))
        own, transform = moments.bread.free[self.endogenous], scipy.sparse.csr_array(self.chosen)

        def at(shift: np.ndarray | float) -> tuple[np.ndarray, Covariance]:
            first, moved = identity[:, self.first], identity[:, self.endogenous] @ np.atleast_1d(shift)
            coefficients, there = moments.regressed(first, point, moved)
            return self.chosen @ coefficients, moments.errors(first, there)

        values, covariance = at(-point.coefficients[own])
        tested = wald(covariance, values, self.chosen, self.fewest)
        design = moments.objective.design.reported
        to_data, levels = to_data_scale(design).tocsr()[own], [level for _, level in design.coefficients()]
        if len(own) > 1 or levels[own[0]] or len(to_data.indices) > 1 or covariance.may_be_indefinite:
            return tested
        # Steps of this size change residuals by their own size.
        step = np.sqrt(2 * point.loss / (self.residuals[:, 0] @ moments.cross @ self.residuals[:, 0]))
        values, covariances = zip(*map(at, (-step, 0.0, step)), strict=True)
        reference, count = joint_reference(covariances[1], transform, self.fewest), len(self.excluded)
        if reference.problem:
            return tested
        critical = count / reference.scale * scipy.special.fdtri(count, reference.df, CONFIDENCE)
        ends = accepted(values, [each.of(transform) for each in covariances], critical)
        scale = float(to_data.data[0])
        ends = scale * (point.coefficients[own[0]] + step * (ends if scale > 0 else ends[::-1, ::-1]))
        limits = [[number_or_none(each) for each in interval] for interval in ends]
        return {**tested, "confidence": CONFIDENCE, "set": limits}

    def effective_f(self, covariance: Covariance) -> dict[str, float | None]:
        """The effective F, and its critical value for a bias of a tenth of the worst case, by Patnaik's approximation (Montiel
        Olea & Pflueger, Journal of Business & Economic Statistics 31, 2013)."""
        slopes = np.linalg.solve(self.root, self.shared)
        variance = self.root.T @ covariance.of(scipy.sparse.csr_array(self.chosen)) @ self.root
        if not np.isfinite(variance).all():
            return {}
        trace = float(np.trace(variance))
        size = trace * float(np.linalg.eigvalsh(variance)[-1])
        df = trace**2 * (1 + 2 * BIAS) / (float(np.sum(variance**2)) + 2 * BIAS * size)
        return {
            "effective_F": number_or_none(float(np.sum(slopes**2)) / trace),
            "effective_F_critical": number_or_none(scipy.special.chndtrix(0.95, df, df * BIAS) / df),
        }

    def wu_hausman(self, point: Point) -> dict[str, Any]:
        """The test that the residuals of the first stages have no coefficient beside the terms of the formula."""
        moments, count = self.moments, len(self.endogenous)
        columns = np.hstack([np.eye(len(moments.cross))[:, self.regressors], self.residuals])
        coefficients, there = moments.regressed(columns, point)
        covariance = moments.errors(columns, there)
        return wald(covariance, coefficients[-count:], np.eye(columns.shape[1])[-count:], self.fewest)

    def overidentification(self, point: Point) -> dict[str, Any] | None:
        """Sargan's test with classical errors, and else Hansen's J with the weights of the robust covariance of the moments; None
        if there are as many instruments as endogenous columns."""
        moments, more = self.moments, len(self.excluded) - len(self.endogenous)
        if not more:
            return None
        slope, note = self.left.T @ moments.gradient(point), ""
        rows = float(moments.objective.counts["rows"])
        if moments.objective.design.inference.std_errors == "classical":
            name, statistic = "Sargan", slope @ np.linalg.solve(self.squares, slope) / (2 * point.loss / rows)
        else:
            covariance = moments.errors(self.left, point)
            every = scipy.sparse.csr_array(np.eye(len(self.excluded)))
            note, name, statistic = covariance.joint(every, self.fewest).problem, "Hansen J", np.nan
            if not note:
                weights = self.squares @ covariance.of(every) @ self.squares / covariance.correction
                within = np.linalg.solve(weights, np.column_stack([slope, self.shared]))
                own = self.shared.T @ within
                statistic = slope @ within[:, 0] - own[:, 0] @ np.linalg.solve(own[:, 1:], own[:, 0])
        p = number_or_none(distributions.chi_squared(np.array(statistic), np.array(more)).probability)
        return {"test": name, "statistic": number_or_none(statistic), "df": more, "p_value": p, "note": note}


def wald(covariance: Covariance, values: np.ndarray, chosen: np.ndarray, fewest: Fewest) -> dict[str, Any]:
    """The test that coefficients are 0: `values` [q], and the rows of the transformation that choose them, [q, k]."""
    transform, df = scipy.sparse.csr_array(chosen), len(values)
    reference = joint_reference(covariance, transform, fewest)
    ratio = quadratic_form(covariance.of(transform), values) / df
    if np.isnan(ratio):
        reference = JointReference(problem="their covariance matrix is not positive definite")
    with np.errstate(invalid="ignore"):
        p = distributions.f(np.array(reference.scale * ratio), np.array(df), np.array(reference.df)).probability
    return {
        "F": number_or_none(ratio),
        "df": df,
        "df_denominator": number_or_none(reference.df),
        "p_value": None if reference.problem else number_or_none(p),
        "note": reference.problem or reference.note,
    }


def joint_reference(covariance: Covariance, transform: scipy.sparse.csr_array, fewest: Fewest) -> JointReference:
    """The reference distribution of the Wald statistic of the rows of a transformation."""
    if transform.shape[0] == 1:
        return JointReference.from_single(covariance.reference(transform, fewest))
    return covariance.joint(transform, fewest)


def quadratic_form(variance: np.ndarray, values: np.ndarray) -> float:
    """values' variance^-1 values; NaN if the matrix is not positive definite."""
    try:
        return float(np.sum(np.linalg.solve(np.linalg.cholesky(variance), values) ** 2))
    except np.linalg.LinAlgError:
        return np.nan


def accepted(values: Sequence[np.ndarray], variances: Sequence[np.ndarray], critical: float) -> np.ndarray:
    """Where v' S^-1 v is at most `critical`, for v linear and S quadratic in u: the intervals of u, [intervals, 2], in order.
    `values` and `variances` are those at u = -1, 0 and 1.

    >>> accepted([np.array([v]) for v in (0.0, 1.0, 2.0)], [np.eye(1)] * 3, 4.0).round(9).tolist()
    [[-3.0, 1.0]]
    """
    root = np.linalg.inv(np.linalg.cholesky(variances[1]))
    below, v, above = (root @ each for each in values)
    first, s, last = (root @ each @ root.T for each in variances)
    slope, s_slope, s_bend = (above - below) / 2, (last - first) / 2, (last + first) / 2 - s
    crossed, one, none = np.outer(v, slope), np.eye(len(v)), np.zeros_like(s)
    constant, linear = critical * s - np.outer(v, v), critical * s_slope - crossed - crossed.T
    square = critical * s_bend - np.outer(slope, slope)
    roots = scipy.linalg.eigvals(np.block([[none, one], [-constant, -linear]]), np.block([[one, none], [none, square]]))
    roots = roots[np.isfinite(roots)]
    ends = np.unique(roots.real[np.abs(roots.imag) <= REAL * (1 + np.abs(roots.real))])
    # A number in each interval between the ends; two of them may have been one root.
    outside = 1 + np.abs(ends)
    inside = (
        np.concatenate([(ends - outside)[:1], (ends[1:] + ends[:-1]) / 2, (ends + outside)[-1:]])
        if len(ends)
        else [0.0]
    )
    holds = [quadratic_form(s + u * s_slope + u**2 * s_bend, v + u * slope) <= critical for u in inside]
    changes = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]])))
    return np.concatenate([[-np.inf], ends, [np.inf]])[changes].reshape(-1, 2)


def number_or_none(value: Any) -> float | None:
    """A number for JSON."""
    return float(value) if np.isfinite(value) else None


def refuse_determined(objective: Objective, name: str, key: str, is_instrument: bool) -> None:
    """Raise UserError for an endogenous term with a column, or an instrument with all columns, that others determine."""
    design = objective.design
    where = design.slices[name]
    status = objective.status[where]
    left = np.flatnonzero(~np.isin(status, (FREE, REFERENCE, EMPTY))) + where.start
    if not len(left) or (is_instrument and FREE in status):
        return
    vectors = objective.null_vectors[objective.held == left[0]]
    others = [term for term in terms_in(design.reported, np.abs(vectors).max(0)) if term != name]
    by = [f"`{term}`" for term in others] or [
        f"the absorbed factors {', '.join(design.absorbed)}" if design.absorbed else "the intercept"
    ]
    what = "instrument" if is_instrument else "endogenous term"
    raise UserError(
        f"{key}: the {what} `{name}` is determined by {', '.join(by)}, so nothing of it is left\n"
        + ("  leave it out" if is_instrument else "  remove it from the endogenous terms, or those that determine it")
    )


def weakness(tests: dict[str, Any]) -> list[str]:
    """A warning for weak instruments."""
    return [
        f"the instruments of `{each['endogenous']}` may be weak: their effective F is {each['effective_F']:.3g}, and above "
        f"{each['effective_F_critical']:.3g} the bias would be at most a tenth of the worst case, with 5 % error (Montiel Olea "
        "and Pflueger 2013). With weak instruments, intervals and tests of two-stage least squares are not valid, but those of "
        "Anderson and Rubin are"
        for each in tests.get("first_stages", ())
        if each.get("effective_F") and each["effective_F"] < each["effective_F_critical"]
    ]
