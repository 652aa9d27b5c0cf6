"""What fit.json reports of a fit."""

import numpy as np

from tfglm.config.std_errors import SERIAL
from tfglm.design.design import Design
from tfglm.design.terms import INTERCEPT
from tfglm.engine.passes import Sums
from tfglm.solvers import remarks
from tfglm.solvers.certificate import optimality_gap
from tfglm.solvers.fitted import ALIASED, EMPTY, FREE, SEPARATED, Fitted
from tfglm.solvers.inference import Near, nearly_aliased
from tfglm.solvers.path import aic
from tfglm.solvers.problem import Point, Solution
from tfglm.solvers.sandwich import smallest_share
from tfglm.solvers.shape import Shape


def describe(
    solution: Solution,
    fitted: Fitted,
    counts: Sums,
    tests: list[dict],
    estimated: Shape | None = None,
) -> dict:
    """The content of fit.json, but for its identity.

    Parameters
    ----------
    solution
        What the solver has come to.
    fitted
        Its coefficients and their covariance.
    counts
        Of all rows: separated ones are in them, but in none of the likelihoods, as if they had not been there.
    tests
        Likelihood ratio tests of terms, as fit.json has them.
    estimated
        The shape of the family, if the fit has estimated it.
    """
    problem, design = solution.problem, solution.problem.design
    report = summary(solution, fitted, counts, estimated)
    report["largest_kkt_violation"] = solution.violation
    of_convergence = remarks.on_convergence(solution)
    if design.l1 or design.path:
        report["coefficients_not_zero"] = int(np.count_nonzero(problem.active(solution.state)))
        report |= {"std_errors": {"kind": "none"}, "nearly_aliased": [], "likelihood_ratio_tests": []}
        if solution.path:
            points = enumerate(solution.path)
            report["path"] = [point_of_path(point) | {"chosen": number == solution.chosen} for number, point in points]
            report |= cross_validated(solution, report["path"])
        return report | {"warnings": [*of_convergence, *design.warnings, *remarks.on_path(solution)]}
    near = nearly_aliased(solution.information, design)
    report["likelihood_ratio_tests"] = tests
    warnings = remarks.on_near(design, near)
    if solution.has_covariance:
        warnings = [
            *remarks.on_separation(solution),
            *remarks.on_dispersion(solution),
            *remarks.on_incidental_parameters(solution),
            *warnings,
        ]
    elif solution.is_perfect:
        warnings.append(remarks.on_perfect_fit(design))
    else:
        report["gap"] = optimality_gap(solution)
        warnings.append(remarks.on_distance(design, problem.run.settings.online_solver or "", report["gap"]))
    has_errors = solution.has_covariance and solution.converged and not design.l2
    report["std_errors"] = standard_errors(design, fitted) if has_errors else {"kind": "none"}
    warnings += remarks.on_crossed_clusters(report["std_errors"])
    report["nearly_aliased"] = aliases(design, near)
    return report | {"warnings": [*of_convergence, *design.warnings, *warnings]}


def summary(solution: Solution, fitted: Fitted, counts: Sums, estimated: Shape | None = None) -> dict:
    """The figures of a fit by any solver."""
    problem, design, settings = solution.problem, solution.problem.design, solution.problem.run.settings
    across = problem.separation.rows if problem.separation else 0
    unknown = (fitted.status == ALIASED) | (fitted.status == EMPTY)
    report: dict = {
        "model": design.model,
        "formula": design.formula,
        "family": design.family,
        "link": problem.family.link_name,
        "solver": ", ".join([*settings.solver, *([settings.finish] if settings.finish else [])]),
        "exact": settings.is_exact,
        "converged": solution.converged,
        "perfect_fit": solution.is_perfect,
        "certificate": solution.certificate,
        "iterations": solution.iterations,
        "rows": int(counts["rows"]),
        "rows_in_likelihood": int(problem.counts["rows"]),
        "rows_of_separated_levels": int(counts["rows"] - problem.counts["rows"]) - across,
        "rows_separated_across_terms": across,
        "coefficients": int(np.count_nonzero(fitted.status == FREE)),
        "coefficients_aliased": int(np.count_nonzero(unknown)) - problem.separated_across,
        "coefficients_separated": int(np.count_nonzero(fitted.status == SEPARATED)) + problem.separated_across,
        **goodness_of_fit(solution, estimated),
    }
    if design.firth:
        report["firth"] = True
    for name, value in (("theta", problem.family.theta), ("power", problem.family.power)):
        if value is not None:
            report |= {name: value, f"{name}_std_error": estimated and estimated.std_error}
    if estimated and estimated.dispersion is not None:
        report["dispersion_of_likelihood"] = estimated.dispersion
    if design.equations:
        report |= {"classes": list(design.class_labels), "reference_class": design.reference_class}
    if problem.l1 or problem.l2:
        report |= {"l1": problem.l1, "l2": problem.l2, "effective_coefficients": solution.effective}
    if not problem.family.dispersion_known:
        df_residual = solution.df_residual
        dispersion = problem.dispersion(solution.state, df_residual) if df_residual > 0 else np.nan
        if problem.family.metrics == "means":
            report |= {"sigma": float(np.sqrt(dispersion)), "r_squared": report.pop("pseudo_r_squared")}
        else:
            report["dispersion"] = float(dispersion)
    if solution.online:
        report["online"] = solution.online
    return report


def goodness_of_fit(solution: Solution, estimated: Shape | None = None) -> dict:
    """Likelihood, deviance, and what follows from them."""
    problem, loss, df_residual = solution.problem, solution.state.loss, solution.df_residual
    family, counts = problem.family, problem.counts
    rows, saturated = float(counts["rows"]), float(counts["saturated"])
    intercepts = sum(term.base == INTERCEPT for term in problem.design.terms) or problem.design.constant is not None
    # Of residuals that are rounding errors it has no meaning.
    log_likelihood = None if solution.is_perfect else problem.likelihood(solution.state)
    if estimated and estimated.log_likelihood is not None:
        log_likelihood = estimated.log_likelihood
    if problem.design.std_errors == "quasi":
        # A variance in proportion to that of the family is that of no likelihood (Wedderburn, Biometrika 61, 1974).
        log_likelihood = None
    # As in R, an estimated dispersion counts as a parameter, and so does a shape.
    parameters = solution.effective + (not family.dispersion_known) + (estimated is not None)
    return {
        "log_likelihood": log_likelihood,
        "deviance": 2 * (loss - saturated),
        # Without an intercept some links have no null model.
        "null_deviance": 2 * (problem.null_loss - saturated) if np.isfinite(problem.null_loss) else None,
        "df_residual": df_residual if problem.l1 or problem.l2 else int(df_residual),
        "df_null": int(rows) - intercepts,
        "aic": None if log_likelihood is None else -2 * log_likelihood + 2 * parameters,
        "bic": None if log_likelihood is None else -2 * log_likelihood + float(np.log(rows)) * parameters,
        "pseudo_r_squared": deviance_explained(solution),
        "pearson_dispersion": solution.state.pearson / df_residual
        if df_residual > 0 and not problem.design.equations
        else None,
    }


def point_of_path(point: Point) -> dict:
    """What is reported of one penalty of a path."""
    problem, loss = point.problem, point.state.loss
    saturated = float(problem.counts["saturated"])
    return {
        "penalty": point.penalty,
        "l1": problem.l1,
        "l2": problem.l2,
        "coefficients_not_zero": int(np.count_nonzero(point.state.coefficients)),
        "effective_coefficients": point.effective,
        "deviance": 2 * (loss - saturated),
        "deviance_explained": deviance_explained(point),
        "aic": aic(point),
        "deviance_held_out": point.deviance_held_out,
        "largest_kkt_violation": point.violation,
        "iterations": point.iterations,
        "information_passes": point.information_passes,
        "gradient_passes": point.gradient_passes,
    }


def cross_validated(solution: Solution, points: list[dict]) -> dict:
    """What is reported of a cross-validation; `points` of the path get the deviances of a row. Nothing without one."""
    validated, folds = solution.cross_validation, solution.problem.design.folds
    if not validated or not folds:
        return {}
    for number, point in enumerate(points):
        point["deviance_cross_validated"] = float(validated.mean[number])
        point["cross_validation_std_error"] = float(validated.std_error[number])
        point |= {f"deviance_fold_{fold}": float(row[number]) for fold, row in enumerate(validated.by_fold, 1)}
    path = solution.problem.design.path
    return {
        "cross_validation": {
            "folds": folds.number,
            "by": folds.groups.column if folds.groups else None,
            "rule": path.rule if path else None,
            "rows": validated.rows.astype(int).tolist(),
            "not_converged": validated.not_converged,
        }
    }


def deviance_explained(fit: Solution | Point) -> float | None:
    """The share of the null model's deviance that the model does without; None if that is 0."""
    saturated, null_loss = float(fit.problem.counts["saturated"]), fit.problem.null_loss
    if not saturated < null_loss < np.inf:
        return None
    return 1 - (fit.state.loss - saturated) / (null_loss - saturated)


def standard_errors(design: Design, fitted: Fitted) -> dict:
    """How the standard errors were estimated."""
    errors: dict = {"kind": design.std_errors}
    effective = {"degrees_of_freedom": "effective clusters", "joint_tests": "Hotelling"}
    if design.std_errors in SERIAL:
        errors |= {"column": design.clusters[0].column, "dates": fitted.cluster_count, "lags": int(fitted.lags)}
        errors |= effective | {"estimator": "Bartlett weights", "degrees_of_freedom": "effective dates"}
    elif design.crossed:
        names = [clusters.column for clusters in design.clusters]
        counts = [len(of_column) for of_column in fitted.columns_of_scores]
        errors |= {"column": " + ".join(names), "clusters": fitted.cluster_count, "estimator": "CGM", **effective}
        errors |= {
            "clusters_by_column": dict(zip(names, counts, strict=True)),
            "smallest_share": smallest_share(fitted),
        }
    elif design.cluster:
        errors |= {"column": design.cluster.column, "clusters": len(fitted.scores)}
        if len(fitted.cluster_information):
            errors |= {"estimator": "CR2", "degrees_of_freedom": "Satterthwaite", "joint_tests": "AHT"}
            errors["rho"] = float(fitted.cluster_rho)
        else:
            errors |= {"estimator": "CR1", **effective}
    return errors


def aliases(design: Design, near: Near) -> list[dict]:
    """The columns that others nearly determine."""
    names = list(design.reported.coefficients())
    return [
        {"term": names[place][0], "level": names[place][1], "pivot": float(pivot), "vif": float(vif)}
        for place, pivot, vif in zip(near.places, near.pivots, near.inflation, strict=True)
    ]
