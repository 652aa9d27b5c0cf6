"""A fit from its first pass to its summary, by whichever solver."""

from dataclasses import dataclass, replace

import numpy as np

from tfglm.config import SolverConfig
from tfglm.design.design import Design
from tfglm.design.parametrisation import hold, holding_zero, most_frequent_first, null_space, to_fit_scale
from tfglm.design.terms import INTERCEPT
from tfglm.engine.optimisers import OPTIMISERS
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.solvers import certificate, elastic_net, inference, newton, online, remarks
from tfglm.solvers.fitted import ALIASED, EMPTY, FREE, REFERENCE, SEPARATED, Fitted
from tfglm.solvers.information import NO_BLOCKS, Factored, factor
from tfglm.solvers.problem import Problem, State, dispersion, is_perfect
from tfglm.solvers.reporter import Reporter
from tfglm.solvers.separation import leave_out_separated


@dataclass(frozen=True)
class Maximum:
    """Where the likelihood is largest, over the rows that are left once those of separated groups are gone (`counts`).

    `state` is the last one, for which the information matrix, `factored`, is FRESH.
    """

    problem: Problem
    counts: Sums
    status: np.ndarray
    null: np.ndarray
    null_loss: float
    state: State
    factored: Factored
    certificate: float
    iterations: int


def fit(
    workload: Workload, pool, settings: SolverConfig, reporter: Reporter, held_out: Workload | None = None
) -> Fitted:
    """Fit the workload's design on its rows, with what `pool` runs: see distribute.parameter_server.

    `held_out` are the rows that decide on early stopping and on the strength of a penalty. The result's `summary` is what
    fit.json reports. Raises UserError if the rows that are left have but one response.
    """
    design = workload.design
    counts = workload.sum(pool, "counts", design.by_term(np.zeros(design.size)))
    check_counts(design, counts)
    reporter.tell(f"{counts['rows']:,.0f} training rows, {design.size:,} coefficients with all levels")
    if held_out and not held_out.rows:
        held_out = None
    needs = {
        "path.select: held_out": design.path and design.path.select == "held_out",
        "online.patience": settings.online_solver and settings.online.patience,
    }
    for key, needed in needs.items():
        if needed and not held_out:
            raise UserError(
                f"models.{design.model}.{key}: there are no rows to evaluate on\n  mend the condition data.split.evaluate"
            )
    learn = _Learning(pool, settings, reporter, held_out) if settings.online_solver else None
    if design.l1 or design.path:
        return lasso(workload, pool, counts, settings, reporter, held_out, learn)
    found = maximise(workload, pool, counts, settings, reporter, learn=learn)
    effective = inference.effective_coefficients(found.factored, found.problem.strength)
    df_residual = float(found.counts["rows"]) - effective
    perfect = is_perfect(design, found.state, found.factored.blocks)
    has_errors = settings.is_exact and not perfect
    fitted = Fitted(
        coefficients=found.state.coefficients,
        status=found.status,
        rows=by_coefficient(design, counts, "rows"),
        responses=by_coefficient(design, counts, "response"),
        null_vectors=found.null,
        dispersion=dispersion(design, found.state.loss, df_residual) if has_errors else np.nan,
        **blocks_of(found.factored),
    )
    result = Result(
        counts=found.counts,
        state=found.state,
        null_loss=found.null_loss,
        iterations=found.iterations,
        converged=perfect or found.certificate <= newton.CONVERGED_BELOW,
        certificate=certify(found, fitted) if has_errors else {} if perfect else {"lambda_squared": found.certificate},
        effective=effective,
        l2=design.l2,
        perfect=perfect,
    )
    said = summary(design, fitted, counts, result, settings, learn)
    violation = np.abs(found.problem.gradient(found.state)).max() / found.counts["mass"]
    said["largest_kkt_violation"] = float(violation)
    near = inference.nearly_aliased(found.factored)
    warned = inference.remarks_on(design, near)
    said["likelihood_ratio_tests"] = []
    if has_errors:
        pearson = found.state.pearson
        fitted, more = inference.with_errors(fitted, found.problem.workload, pool, found.counts, df_residual, pearson)
        said["likelihood_ratio_tests"] = likelihood_ratios(workload, pool, counts, found, settings, reporter)
        free = int(np.count_nonzero(found.problem.free))
        warned = [
            *more,
            *remarks.on_dispersion(design, found.counts, pearson, df_residual),
            *remarks.on_incidental_parameters(design, found.counts, free),
            *warned,
        ]
    elif perfect:
        warned.append(remarks.on_perfect_fit(design))
    else:
        said["gap"] = optimality_gap(found)
        warned.append(remarks.on_distance(design, settings.online_solver or "", said["gap"]))
    said |= inference.describe(design, fitted, near)
    if not has_errors:
        said["std_errors"] = {"kind": "none"}
    return replace(fitted, summary=said | {"warnings": [*design.warnings, *warned]})


class _Learning:
    """The online part of a fit. `summary` is there once it has been called."""

    def __init__(self, pool, settings: SolverConfig, reporter: Reporter, held_out: Workload | None):
        self.pool, self.settings, self.reporter, self.held_out = pool, settings, reporter, held_out
        self.summary: dict = {}

    def __call__(self, workload: Workload, counts: Sums, start: np.ndarray, null_loss: float) -> np.ndarray:
        """Coefficients learnt from `start`, with all levels."""
        design, online_settings = workload.design, self.settings.online
        # A response of any size is learnt in units of its standard deviation.
        variance = dispersion(design, null_loss, float(counts["mass"]))
        objective = online.Objective(workload, counts, design.l1, design.l2, float(np.sqrt(variance)) or 1.0)
        coefficients, self.summary = online.train(
            objective,
            self.held_out if online_settings.patience else None,
            self.pool,
            self.settings.online_solver or "",
            online_settings,
            start,
            self.reporter,
        )
        return coefficients

    def check(self, design: Design, counts: Sums, loss: float, null_loss: float) -> None:
        """Raise UserError if the solver ended far above the null model, with which it began: scores of a binomial response are
        bounded, and so its loss stays finite however long the steps are."""
        saturated = float(counts["saturated"])
        deviance, null_deviance = 2 * (loss - saturated), 2 * (null_loss - saturated)
        if deviance <= FAR_ABOVE_NULL * null_deviance:
            return
        solver, rate = self.summary["solver"], self.summary["learning_rate"]
        raise UserError(
            f"models.{design.model}.online.learning_rate: with {rate:g} the steps are too long: {solver} began at a deviance of "
            f"{null_deviance:.4g} and has come to {deviance:.4g}\n  make learning_rate smaller, such as "
            f"{min(rate / 10, OPTIMISERS[solver].learning_rate):g}"
        )


FAR_ABOVE_NULL = 2.0
"""Times the deviance of the null model: a little above it is where a solver may end that has found nothing."""


def maximise(
    workload: Workload,
    pool,
    counts: Sums,
    settings: SolverConfig,
    reporter: Reporter,
    without: str | None = None,
    learn: _Learning | None = None,
) -> Maximum:
    """The maximum of the likelihood, with all coefficients of the term `without`, if there is one, held at zero; or what an
    online solver, `learn`, has come to, if no exact one follows."""
    design = workload.design
    family = FAMILIES[design.family]
    if not design.l2:
        workload, counts = leave_out_separated(workload, pool, counts, reporter.tell, without)
    status = initial_status(design, workload, counts)
    if without is not None:
        status[design.slices[without]] = EMPTY
    null, held = np.zeros((0, design.size)), np.zeros(0, int)
    if not design.l2:
        present = np.isin(status, (EMPTY, SEPARATED), invert=True)
        null = (to_fit_scale(design) @ null_space(design, present, without).T).T
        held, null = hold(null, most_frequent_first(design, by_coefficient(design, counts, "rows")))
        status[held] = REFERENCE
    null_intercept, null_loss = null_model(workload, pool, counts)
    start = np.zeros(design.size)
    if design.intercept is not None:
        start[design.intercept] = null_intercept
    problem = problem_of(workload, pool, counts, status == FREE, 0.0, design.l2)
    state, sampled, aliased, found = newton.first_states(problem, start, counts)
    status[aliased] = ALIASED
    null = np.vstack([null, found])
    problem = replace(problem, free=status == FREE)
    if learn:
        learnt = learn(workload, counts, start, null_loss)
        # All levels have learnt; the same model with some held at zero, of terms that depend on each other too.
        held, null = hold(null, [*held, *aliased])
        state = problem.at(np.where(problem.free, holding_zero(held, null) @ learnt, 0.0))
        learn.check(design, counts, state.loss, null_loss)
    elif sampled is not None:
        warm = newton.warm_start(problem, sampled, newton.share_of_rows(problem, counts), reporter)
        state = problem.at(warm)
    else:
        state = replace(state, blocks=state.blocks.restrict(problem.free))
    free = int(np.count_nonzero(problem.free))
    df_residual = float(counts["rows"]) - free
    if df_residual <= 0 and not family.dispersion_known and not design.l2:
        raise UserError(
            f"models.{design.model}: {counts['rows']:,.0f} training rows for {free:,} coefficients leave no residual variance to "
            f"estimate; use fewer terms, or more rows"
        )
    iterations = settings.max_iterations if settings.is_exact else 0
    return Maximum(
        problem,
        counts,
        status,
        null,
        null_loss,
        *newton.iterate(problem, state, df_residual, iterations, reporter),
    )


def certify(found: Maximum, fitted: Fitted) -> dict:
    """What fit.json says of how far the estimates can be from the maximum."""
    rounding = certificate.rounding(found.problem, found.state, fitted.rows)
    return {
        "lambda_squared": found.certificate,
        "converged_below": newton.CONVERGED_BELOW,
        "within_standard_errors": certificate.within(found.certificate, rounding, fitted, fitted.dispersion),
    }


def problem_of(workload: Workload, pool, counts: Sums, free: np.ndarray, l1: float, l2: float) -> Problem:
    """The problem with these strengths, of all coefficients but the intercept."""
    design, mass = workload.design, float(counts["mass"])
    penalised = design.penalised_coefficients
    return Problem(workload, pool, free, l2 * mass * penalised, l1 * mass * penalised, mass)


def blocks_of(factored: Factored) -> dict[str, np.ndarray]:
    """The covariance as `Fitted` has it."""
    blocks = factored.blocks
    return {
        "dense": blocks.dense,
        "eliminated": blocks.eliminated,
        "schur_inverse": factored.schur_inverse(),
        "loadings": factored.loadings,
        "diagonal": blocks.d,
    }


def optimality_gap(found: Maximum) -> dict:
    """How far the log-likelihood is from its maximum: half of lambda^2 (STATISTICS: Asynchronous fits); and the coefficients from
    theirs, in standard errors, in root mean square."""
    free = int(np.count_nonzero(found.problem.free))
    return {
        "log_likelihood": found.certificate / 2,
        "each_coefficient": found.certificate / 2 / free,
        "standard_errors": float(np.sqrt(found.certificate / free)),
        "unreliable": bool(found.certificate / 2 > UNRELIABLE_ABOVE * free),
    }


UNRELIABLE_ABOVE = 0.01
"""Gap for each coefficient: the quadratic approximation does not reach that far."""


def lasso(
    workload: Workload,
    pool,
    counts: Sums,
    settings: SolverConfig,
    reporter: Reporter,
    held_out: Workload | None,
    learn: _Learning | None,
) -> Fitted:
    """A fit with a penalty that sets coefficients to zero, or a path of such."""
    design = workload.design
    status = initial_status(design, workload, counts)
    null_intercept, null_loss = null_model(workload, pool, counts)
    start = np.zeros(design.size)
    if design.intercept is not None:
        start[design.intercept] = null_intercept
    problem = problem_of(workload, pool, counts, status == FREE, design.l1, design.l2)
    if design.path:
        steps = elastic_net.path(problem, problem.at(start), design.path, settings.max_iterations, reporter, held_out)
        chosen = elastic_net.choose(steps, design.path.select, lambda step: information_criterion(design, counts, step))
        step = steps[chosen]
        reporter.tell(f"strength {step.strength:.4g} has the least {CRITERIA[design.path.select]}")
    else:
        if learn:
            start = np.where(problem.free, learn(workload, counts, start, null_loss), 0.0)
        state = problem.at(start)
        if learn:
            learn.check(design, counts, state.loss, null_loss)
        iterations = settings.max_iterations if settings.is_exact else 0
        found = elastic_net.minimise(problem, state, state.blocks, 0.0, design.l1, iterations, reporter)
        if design.l2:
            found = elastic_net.with_information(problem, found)
        steps, chosen = [], 0
        effective = elastic_net.effective_coefficients(problem, found)
        step = elastic_net.Step(design.l1, design.l1, design.l2, found, problem, effective)
    found, effective = step.minimum, step.effective
    if steps and step.l2:
        found = elastic_net.with_information(step.problem, found)
        effective = elastic_net.effective_coefficients(step.problem, found)
    active = elastic_net.active_coefficients(step.problem, found)
    # A lasso has no covariance: zeros have no posterior standard deviation.
    shown = NO_BLOCKS if step.l1 else found.near.restrict(active).penalised(step.problem.strength)
    fitted = Fitted(
        coefficients=found.state.coefficients,
        status=status,
        rows=by_coefficient(design, counts, "rows"),
        responses=by_coefficient(design, counts, "response"),
        null_vectors=np.zeros((0, design.size)),
        dispersion=np.nan if step.l1 else dispersion(design, found.state.loss, float(counts["rows"]) - effective),
        path_strengths=np.array([one.strength for one in steps]),
        path_coefficients=np.array([one.minimum.state.coefficients for one in steps]).reshape(len(steps), design.size),
        **blocks_of(factor(shown)),
    )
    below = elastic_net.CONVERGED_BELOW * step.strength
    result = Result(
        counts=counts,
        state=found.state,
        null_loss=null_loss,
        iterations=found.iterations,
        converged=found.violation <= below,
        certificate={"largest_kkt_violation": found.violation, "converged_below": below},
        effective=effective,
        l1=step.l1,
        l2=step.l2,
    )
    said = summary(design, fitted, counts, result, settings, learn)
    said |= {"largest_kkt_violation": found.violation, "coefficients_not_zero": int(np.count_nonzero(active))}
    said |= {"std_errors": {"kind": "none"}, "nearly_aliased": [], "likelihood_ratio_tests": []}
    if steps:
        said["path"] = [
            describe_step(design, counts, null_loss, one) | {"chosen": number == chosen}
            for number, one in enumerate(steps)
        ]
    warned = []
    if steps and chosen == len(steps) - 1 and len(steps) > 1:
        warned.append(
            "the weakest penalty of the path is the best: let the path go further, by `smallest` or `strengths`"
        )
    return replace(fitted, summary=said | {"warnings": [*design.warnings, *warned]})


CRITERIA = {"held_out": "deviance on the rows held out", "aic": "AIC"}


def information_criterion(design: Design, counts: Sums, step: elastic_net.Step) -> float:
    """AIC with the effective number of coefficients; of a lasso that is the number that are not zero (Zou, Hastie & Tibshirani,
    Annals of Statistics 35, 2007)."""
    family = FAMILIES[design.family]
    loss = step.minimum.state.loss
    log_likelihood = family.log_likelihood(loss, float(counts["base"]), float(counts["rows"]))
    return -2 * log_likelihood + 2 * (step.effective + (not family.dispersion_known))


def describe_step(design: Design, counts: Sums, null_loss: float, step: elastic_net.Step) -> dict:
    """What fit.json says of one strength of a path."""
    found = step.minimum
    loss, saturated = found.state.loss, float(counts["saturated"])
    return {
        "strength": step.strength,
        "l1": step.l1,
        "l2": step.l2,
        "coefficients_not_zero": int(np.count_nonzero(found.state.coefficients)),
        "effective_coefficients": step.effective,
        "deviance": 2 * (loss - saturated),
        "deviance_explained": 1 - (loss - saturated) / (null_loss - saturated) if null_loss > saturated else None,
        "aic": information_criterion(design, counts, step),
        "deviance_held_out": step.deviance_held_out,
        "largest_kkt_violation": found.violation,
        "iterations": found.iterations,
        "information_passes": found.information_passes,
        "gradient_passes": found.gradient_passes,
    }


def likelihood_ratios(
    workload: Workload,
    pool,
    counts: Sums,
    full: Maximum,
    settings: SolverConfig,
    reporter: Reporter,
) -> list[dict]:
    """Likelihood ratio tests of the terms with separated levels, whose Wald test would leave these levels out.

    Each takes a fit without the term. The rows of separated levels have loss 0 in the full model, and so are in both.
    Only with classical standard errors, since it takes the family's variance for true as they do.
    """
    design = workload.design
    made = []
    for term in design.terms:
        where = design.slices[term.name]
        separated = int(np.count_nonzero(full.status[where] == SEPARATED))
        inside = any(term is not one and set(term.categorical) <= set(one.categorical) for one in design.terms)
        if (
            not separated
            or inside
            or design.std_errors != "classical"
            or len(design.terms) < 2 + (design.intercept is not None)
        ):
            continue
        reporter.tell(f"without {term.name}, for its likelihood ratio test:")
        try:
            less = maximise(workload, pool, counts, settings, reporter, term.name)
        except UserError as error:
            made.append({"term": term.name, "problem": str(error).splitlines()[0]})
            continue
        difference = 2 * (less.state.loss - full.state.loss)
        df = int(np.count_nonzero(full.problem.free)) + separated - int(np.count_nonzero(less.problem.free))
        made.append({"term": term.name, "chi_squared": difference, "df": df})
    return made


def check_counts(design: Design, counts: Sums) -> None:
    """Raise UserError for responses that the family cannot have, and if nothing has a weight."""
    if counts["not_finite"]:
        raise UserError(
            f"models.{design.model}.formula: a function has no finite value for {counts['not_finite']:,.0f} training rows, as "
            f"the logarithm of 0\n  leave them out with a condition in data.where"
        )
    if counts["out_of_range"]:
        what = (
            f"more events in `{design.response}` than trials in `{design.trials}`"
            if design.trials
            else (f"a response `{design.response}` out of the range of family {design.family}")
        )
        raise UserError(
            f"models.{design.model}: {counts['out_of_range']:,.0f} training rows have {what}\n"
            f"  leave them out with a condition in data.where, or correct them under data.derive"
        )
    if not counts["rows"]:
        raise UserError(
            f"models.{design.model}: no training row has a weight above 0; check `weights`, `frequency` and `trials`"
        )


def null_model(workload: Workload, pool, counts: Sums) -> tuple[float, float]:
    """Intercept and loss of the model with nothing but an intercept and the offset; without an intercept, of the offset alone."""
    design = workload.design
    family = FAMILIES[design.family]
    mean = float(counts["response"] / counts["mass"])
    intercept = family.link(mean) if design.intercept is not None else 0.0
    if not design.offset and family.dispersion_known:
        # The loss is linear in the response.
        loss = family.loss(np.float64(intercept), np.float64(mean))
        return intercept, float(loss) * float(counts["mass"])
    for _ in range(100):
        start = np.zeros(design.size)
        if design.intercept is not None:
            start[design.intercept] = intercept
        sums = workload.sum(pool, "null", design.by_term(start))
        step = float(sums["residual"] / sums["weight"]) if design.intercept is not None else 0.0
        if abs(step) <= 1e-12 * max(1.0, abs(intercept)):
            break
        # A long step overshoots where the mean is an exponential.
        intercept -= float(np.clip(step, -1.0, 1.0)) if family.dispersion_known else step
    return intercept, float(sums["loss"])


def initial_status(design: Design, workload: Workload, counts: Sums) -> np.ndarray:
    """FREE, but for separated groups and groups without rows."""
    status = np.full(design.size, FREE)
    for part in design.parts:
        if part.grouping:
            of_part = status[part.where]  # a view
            of_part[counts[f"rows_{design.groupings.index(part.grouping)}"] == 0] = EMPTY
            if not part.multiplier:
                of_part[sorted(workload.excluded.get(part.grouping, ()))] = SEPARATED
    return status


def by_coefficient(design: Design, counts: Sums, what: str) -> np.ndarray:
    """A count by group for each coefficient, and that of all rows for parts without groups."""
    result = np.full(design.size, counts[what], float)
    for part in design.parts:
        if part.grouping:
            result[part.where] = counts[f"{what}_{design.groupings.index(part.grouping)}"]
    return result


@dataclass(frozen=True)
class Result:
    """What a summary is made of. `counts` are those of the rows that are in the likelihood, `effective` is the effective number
    of coefficients, `certificate` says how sure convergence is, `perfect` that the residuals are rounding errors."""

    counts: Sums
    state: State
    null_loss: float
    iterations: int
    converged: bool
    certificate: dict
    effective: float
    l1: float = 0.0
    l2: float = 0.0
    perfect: bool = False


def summary(
    design: Design,
    fitted: Fitted,
    counts: Sums,
    found: Result,
    settings: SolverConfig,
    learn: _Learning | None,
) -> dict:
    """The content of fit.json. Rows of separated groups are in none of the likelihoods, as if they had not been there."""
    family = FAMILIES[design.family]
    rows, loss, null_loss = float(found.counts["rows"]), found.state.loss, found.null_loss
    saturated = float(found.counts["saturated"])
    # Of residuals that are rounding errors it has no meaning.
    log_likelihood = None if found.perfect else family.log_likelihood(loss, float(found.counts["base"]), rows)
    # As in R, an estimated variance counts as a parameter.
    parameters = found.effective + (not family.dispersion_known)
    df_residual = rows - found.effective
    penalised = bool(found.l1 or found.l2)
    has_intercept = any(term.name == INTERCEPT for term in design.terms)
    result = {
        "model": design.model,
        "formula": design.formula,
        "family": design.family,
        "solver": ", ".join([*settings.solver, *([settings.finish] if settings.finish else [])]),
        "exact": settings.is_exact,
        "converged": found.converged,
        "perfect_fit": found.perfect,
        "certificate": found.certificate,
        "iterations": found.iterations,
        "rows": int(counts["rows"]),
        "rows_of_separated_levels": int(counts["rows"] - found.counts["rows"]),
        "coefficients": int(np.count_nonzero(fitted.status == FREE)),
        "coefficients_aliased": int(np.count_nonzero((fitted.status == ALIASED) | (fitted.status == EMPTY))),
        "coefficients_separated": int(np.count_nonzero(fitted.status == SEPARATED)),
        "log_likelihood": log_likelihood,
        "deviance": 2 * (loss - saturated),
        "null_deviance": 2 * (null_loss - saturated),
        "df_residual": df_residual if penalised else int(df_residual),
        "df_null": int(rows) - has_intercept,
        "aic": None if log_likelihood is None else -2 * log_likelihood + 2 * parameters,
        "bic": None if log_likelihood is None else -2 * log_likelihood + float(np.log(rows)) * parameters,
        "pseudo_r_squared": 1 - (loss - saturated) / (null_loss - saturated) if null_loss > saturated else None,
        "pearson_dispersion": found.state.pearson / df_residual if df_residual > 0 else None,
    }
    if penalised:
        result |= {"l1": found.l1, "l2": found.l2, "effective_coefficients": found.effective}
    if not family.dispersion_known:
        sigma = np.sqrt(dispersion(design, found.state.loss, df_residual)) if df_residual > 0 else np.nan
        result |= {"sigma": float(sigma), "r_squared": result.pop("pseudo_r_squared")}
    if learn:
        result["online"] = learn.summary
    return result
