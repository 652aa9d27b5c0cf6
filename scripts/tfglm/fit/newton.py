"""Newton's method for the exact maximum likelihood estimate, synchronous: every sum is over all rows."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.linalg

from tfglm.errors import UserError
from tfglm.fit.information import Factored, assemble, factor, null_vectors
from tfglm.model.design import Design
from tfglm.model.families import FAMILIES
from tfglm.model.fitted import ALIASED, EMPTY, FREE, REFERENCE, SEPARATED, Fitted
from tfglm.model.passes import Sums, Workload

CONVERGED_BELOW = 1e-12
"""Of lambda^2 = g' I^-1 g at the returned coefficients; its root bounds every |Newton step| / standard error."""

SHORTEST_STEP = 2.0**-20

DRIFTING_ABOVE = 1e-3
"""Largest entry of a Newton step that belongs to an estimate. Where the maximum is at infinity, the loss and lambda^2 vanish
all the same, but each step is as long as the one before."""


def fit(workload: Workload, pool, max_iterations: int, tell: Callable[[str], None]) -> Fitted:
    """Fit the workload's design on its rows; `pool.sum(pass_, calls, state)` adds a pass over shards.

    The result's `summary` is what fit.json reports. Raises UserError if the rows that are left have but one response.
    """
    design = workload.design
    family = FAMILIES[design.family]
    counts = workload.sum(pool, "counts", zeros(design))
    tell(f"{counts['rows']:,.0f} training rows, {design.size:,} coefficients with all levels")
    workload, kept_counts = leave_out_separated(workload, pool, counts, tell)
    status = initial_status(design, workload, kept_counts)

    start = np.zeros(design.size)
    start[0] = family.link(kept_counts["response"] / kept_counts["rows"])
    sums = workload.sum(pool, "information", design.by_term(start))
    null_loss = float(sums["loss"])
    # At the null model all weights are alike, so what is aliased here is aliased by the columns alone.
    aliased, null = null_vectors(assemble(design, sums).restrict(status == FREE))
    status[aliased] = ALIASED

    df_residual = float(kept_counts["rows"] - np.count_nonzero(status == FREE))
    if df_residual <= 0 and not family.dispersion_known:
        raise UserError(
            f"models.{design.model}: {kept_counts['rows']:,.0f} training rows for {np.count_nonzero(status == FREE):,} "
            f"coefficients leave no residual variance to estimate; use fewer terms, or more rows"
        )
    coefficients, sums, factored, certificate, iterations = iterate(
        workload, pool, start, sums, status == FREE, df_residual, max_iterations, tell
    )
    fitted = Fitted(
        coefficients=coefficients,
        status=status,
        rows=by_coefficient(design, counts, "rows"),
        responses=by_coefficient(design, counts, "response"),
        dense=factored.blocks.dense,
        eliminated=factored.blocks.eliminated,
        schur_inverse=factored.schur_inverse(),
        loadings=factored.loadings,
        diagonal=factored.blocks.d,
        null_vectors=null,
        dispersion=dispersion(design, sums, df_residual),
    )
    return replace(
        fitted,
        summary=summary(design, fitted, counts, kept_counts, float(sums["loss"]), null_loss, certificate, iterations),
    )


def iterate(
    workload: Workload,
    pool,
    coefficients: np.ndarray,
    sums: Sums,
    free: np.ndarray,
    df_residual: float,
    max_iterations: int,
    tell: Callable[[str], None],
) -> tuple[np.ndarray, Sums, Factored, float, int]:
    """Damped Newton from `coefficients`, where the information pass gave `sums`.

    Returns the coefficients, the sums and the factored information there, lambda^2 there, and the number of steps. The
    last pass is at the returned coefficients, so that lambda^2 and the covariance are certificates of just these.
    """
    design = workload.design
    for iteration in range(max_iterations + 1):
        try:
            factored = factor(assemble(design, sums).restrict(free))
        except scipy.linalg.LinAlgError as error:
            raise UserError(
                f"models.{design.model}: the information matrix is singular after {iteration} iterations, though no term is "
                f"aliased: some combination of terms foretells the response without error, so its coefficients have no "
                f"finite estimate\n  leave out the terms whose coefficients grow, or merge their rare levels"
            ) from error
        step = factored.solve()
        decrement = float(step @ factored.blocks.gradient) / dispersion(design, sums, df_residual)
        tell(f"iteration {iteration}: loss {float(sums['loss']):.10g}, lambda^2 {decrement:.3g}")
        if decrement <= CONVERGED_BELOW and np.abs(step).max() > DRIFTING_ABOVE:
            refuse_separation(workload, pool, -step)
        if decrement <= CONVERGED_BELOW or iteration == max_iterations:
            return coefficients, sums, factored, decrement, iteration
        length = 1.0
        while True:
            trial = coefficients - length * step
            trial_sums = workload.sum(pool, "information", design.by_term(trial))
            # Near the optimum the loss changes by less than its rounding error: there the full step is taken.
            if trial_sums["loss"] <= sums["loss"] + 1e-12 * abs(sums["loss"]):
                break
            length /= 2
            tell(f"  the loss rose to {float(trial_sums['loss']):.10g}: trying {length:g} of the step")
            if length < SHORTEST_STEP:
                return coefficients, sums, factored, decrement, iteration
        coefficients, sums = trial, trial_sums
    raise AssertionError("unreachable")


def leave_out_separated(workload: Workload, pool, counts: Sums, tell: Callable[[str], None]) -> tuple[Workload, Sums]:
    """The workload without the rows of separated levels, and its counts (STATISTICS: Separation).

    A level is separated when its responses are all 0 or all 1. Leaving out its rows can separate another: so until none is.
    """
    design = workload.design
    excluded: dict[str, frozenset[int]] = {}
    while design.family == "binomial":
        found = {}
        for k, term in enumerate(design.categorical):
            rows, events = counts[f"rows_{k}"], counts[f"response_{k}"]
            levels = np.flatnonzero((rows > 0) & ((events == 0) | (events == rows)))
            if len(levels):
                found[term.name] = frozenset(levels.tolist())
                names = ", ".join(term.levels[level] for level in levels)
                tell(f"separated, so without a finite estimate: {term.name} {names}")
        if not found:
            break
        excluded = {
            name: excluded.get(name, frozenset()) | found.get(name, frozenset()) for name in {**excluded, **found}
        }
        workload = workload.without(excluded)
        counts = workload.sum(pool, "counts", zeros(design))
    if design.family == "binomial" and not 0 < counts["response"] < counts["rows"]:
        raise UserError(
            f"models.{design.model}: the terms separate the response completely: once the levels whose responses are all "
            f"alike are left out, nothing is left to fit\n  remove the term that determines `{design.response}`"
        )
    return workload, counts


def refuse_separation(workload: Workload, pool, direction: np.ndarray) -> None:
    """Raise UserError if `direction` moves no row away from its response, and some towards it: then it leads to infinity."""
    design = workload.design
    if design.family != "binomial":
        return
    rows = workload.sum(pool, "separation", design.by_term(direction))
    if rows["against"] == 0 < rows["along"]:
        size = np.abs(direction)
        involved = [term for term, where in design.slices.items() if size[where].max() > DRIFTING_ABOVE * size.max()]
        raise UserError(
            f"models.{design.model}: the terms {', '.join(involved)} together separate {rows['along']:,.0f} rows by their "
            f"response, so their coefficients have no finite estimate\n  leave one of these terms out, or merge its rare levels"
        )


def initial_status(design: Design, workload: Workload, counts: Sums) -> np.ndarray:
    """FREE, but for separated levels, levels without rows, and the most frequent level of each term, which is held at 0."""
    status = np.full(design.size, FREE)
    for k, term in enumerate(design.categorical):
        rows = counts[f"rows_{k}"]
        of_term = status[design.slices[term.name]]  # a view
        of_term[rows == 0] = EMPTY
        of_term[sorted(workload.excluded.get(term.name, ()))] = SEPARATED
        if rows.any():
            of_term[np.argmax(rows)] = REFERENCE
    return status


def dispersion(design: Design, sums: Sums, df_residual: float) -> float:
    """1 where the family knows it; else the residual variance RSS / (n - p)."""
    return 1.0 if FAMILIES[design.family].dispersion_known else 2 * float(sums["loss"]) / df_residual


def zeros(design: Design) -> dict[str, np.ndarray]:
    return design.by_term(np.zeros(design.size))


def by_coefficient(design: Design, counts: Sums, what: str) -> np.ndarray:
    """A count by level for each coefficient, and that of all rows for terms without levels."""
    result = np.full(design.size, counts[what])
    for k, term in enumerate(design.categorical):
        result[design.slices[term.name]] = counts[f"{what}_{k}"]
    return result


def summary(
    design: Design,
    fitted: Fitted,
    counts: Sums,
    kept_counts: Sums,
    loss: float,
    null_loss: float,
    certificate: float,
    iterations: int,
) -> dict:
    """The content of fit.json. Rows of separated levels are in none of the likelihoods, as if they had not been there."""
    family = FAMILIES[design.family]
    rows = float(kept_counts["rows"])
    estimated = int(np.count_nonzero(fitted.status == FREE))
    log_likelihood = family.log_likelihood(loss, rows)
    # As in R, an estimated variance counts as a parameter.
    parameters = estimated + (not family.dispersion_known)
    result = {
        "model": design.model,
        "formula": design.formula,
        "family": design.family,
        "solver": "newton",
        "converged": certificate <= CONVERGED_BELOW,
        "certificate": {"lambda_squared": certificate, "converged_below": CONVERGED_BELOW},
        "iterations": iterations,
        "rows": int(counts["rows"]),
        "rows_of_separated_levels": int(counts["rows"] - kept_counts["rows"]),
        "coefficients": estimated,
        "coefficients_aliased": int(np.count_nonzero((fitted.status == ALIASED) | (fitted.status == EMPTY))),
        "coefficients_separated": int(np.count_nonzero(fitted.status == SEPARATED)),
        "log_likelihood": log_likelihood,
        "deviance": 2 * loss,
        "null_deviance": 2 * null_loss,
        "df_residual": int(rows) - estimated,
        "df_null": int(rows) - 1,
        "aic": -2 * log_likelihood + 2 * parameters,
        "bic": -2 * log_likelihood + float(np.log(rows)) * parameters,
        "warnings": design.warnings,
    }
    if not family.dispersion_known:
        result |= {"sigma": float(np.sqrt(fitted.dispersion)), "r_squared": 1 - loss / null_loss}
    return result
