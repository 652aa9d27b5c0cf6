"""The content of fit.json, and the warnings without which its numbers would mislead."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tfglm.config.std_errors import SERIAL, SURVEY
from tfglm.design.design import Design
from tfglm.formula.parse import term_of
from tfglm.formula.terms import INTERCEPT, EventStudy
from tfglm.inference.clustered import Clustered, Crossed, Survey
from tfglm.inference.covariance import Covariance
from tfglm.inference.cr2 import CR2
from tfglm.inference.fitted import ALIASED, EMPTY, FREE, SEPARATED, Fitted
from tfglm.solvers.aliases import Near, nearly_aliased
from tfglm.solvers.certificate import optimality_gap
from tfglm.solvers.leave_out import corrected_variances
from tfglm.solvers.newton import CONVERGED_BELOW
from tfglm.solvers.objective import PathPoint, Solution
from tfglm.solvers.path import aic
from tfglm.solvers.prepare import by_coefficient
from tfglm.solvers.shape import Shape


def report(solution: Solution, fitted: Fitted, tests: list[dict], shape: Shape | None = None) -> dict:
    """The content of fit.json, except its identity, from the end of the solver, its covariance, and likelihood ratio tests
    as entries of fit.json. `shape` is given if the fit estimates it."""
    objective, design = solution.objective, solution.objective.design
    content = summary(solution, fitted, shape)
    content["largest_kkt_violation"] = solution.violation
    warnings = [*on_convergence(solution), *design.warnings]
    if design.penalty.l1 or design.penalty.path:
        content["coefficients_not_zero"] = int(np.count_nonzero(objective.active(solution.point)))
        content |= {"std_errors": {"kind": "none"}, "nearly_aliased": [], "likelihood_ratio_tests": []}
        if solution.path:
            ends = enumerate(solution.path)
            content["path"] = [penalty_of_path(end) | {"chosen": number == solution.chosen} for number, end in ends]
            content |= cross_validated(solution, content["path"])
        return content | {"warnings": [*warnings, *on_path(solution)]}
    near = nearly_aliased(objective.reported(solution.information), design)
    content["likelihood_ratio_tests"] = tests
    warnings += objective.remarks()
    if solution.has_covariance:
        warnings += [*on_dispersion(solution), *on_incidental_parameters(solution, shape)]
    content["nearly_aliased"] = aliases(design, near)
    warnings += on_near(content["nearly_aliased"])
    if solution.is_perfect:
        warnings.append(
            f"the fit is exact: the residuals of `{design.roles.response}` are rounding errors. So standard errors and tests "
            f"have no meaning, and there are none. Perhaps the response is a function of the covariates"
        )
    elif not solution.has_covariance:
        content["gap"] = optimality_gap(solution)
        warnings.append(on_distance(design, objective.run.settings.online_solver or "", content["gap"]))
    has_errors = solution.has_covariance and solution.converged and not design.penalty.l2
    content["std_errors"] = standard_errors(design, fitted.covariance) if has_errors else {"kind": "none"}
    warnings += on_inseparable_terms(content.get("smooths", ()))
    warnings += [*on_crossed_clusters(content["std_errors"]), *on_effects_across_clusters(design, fitted.covariance)]
    warnings += on_singular(content.get("smooths", []))
    return content | {"warnings": warnings}


def summary(solution: Solution, fitted: Fitted, shape: Shape | None = None) -> dict:
    """The figures of a fit by any solver. The counts include separated rows; the likelihoods do not."""
    objective, design, settings = solution.objective, solution.objective.design, solution.objective.run.settings
    counts = objective.counted.original_counts
    across = objective.separation.rows if objective.separation else 0
    unknown = (fitted.status == ALIASED) | (fitted.status == EMPTY)
    content: dict = {
        "model": design.model,
        "formula": design.formula,
        "family": design.likelihood.family,
        "link": objective.family.link_name,
        "solver": ", ".join(settings.solver),
        "exact": settings.is_exact,
        "converged": solution.converged,
        "perfect_fit": solution.is_perfect,
        "certificate": solution.certificate,
        "iterations": solution.iterations,
        "rows": int(counts["rows"]),
        "rows_in_likelihood": int(objective.counts["rows"]),
        "rows_of_separated_levels": int(counts["rows"] - objective.counts["rows"]) - across,
        "rows_separated_across_terms": across,
        "coefficients": int(np.count_nonzero(fitted.status == FREE)),
        "coefficients_aliased": int(np.count_nonzero(unknown)) - objective.separated_across,
        "coefficients_separated": int(np.count_nonzero(fitted.status == SEPARATED)) + objective.separated_across,
        **goodness_of_fit(solution, shape),
    }
    for name, value in (("theta", objective.family.theta), ("power", objective.family.power)):
        if value is not None:
            content |= {name: value, f"{name}_std_error": shape and shape.std_error}
    if shape and shape.dispersion is not None:
        content["dispersion_of_likelihood"] = shape.dispersion
    if objective.l1 or objective.l2:
        content |= {"l1": objective.l1, "l2": objective.l2, "effective_coefficients": solution.effective}
    if not objective.family.dispersion_known:
        df_residual = solution.df_residual
        dispersion = objective.dispersion(solution.point, df_residual) if df_residual > 0 else np.nan
        if objective.family.metrics == "means":
            content |= {"sigma": float(np.sqrt(dispersion)), "r_squared": content.pop("pseudo_r_squared")}
        else:
            content["dispersion"] = float(dispersion)
    if solution.online:
        content["online"] = solution.online
    studies = [term.name for term in design.terms if isinstance(term.kind, EventStudy)]
    weights = by_coefficient(design, objective.counts, "weight_sum") if studies else np.zeros(0)
    content |= {"cohort_weights": {name: weights[design.slices[name]].tolist() for name in studies}} if studies else {}
    content |= objective.facts(fitted) | dict(solution.smooths)
    if "marginal_log_likelihood" in content:
        parameters = np.count_nonzero(objective.unpenalised) + design.variance_parameters
        parameters += (not objective.family.dispersion_known) + (shape is not None)
        content["marginal_aic"] = 2 * int(parameters) - 2 * content["marginal_log_likelihood"]
    if settings.leave_out and solution.converged:
        content["absorbed"]["leave_out"] = corrected_variances(solution)
    if "effective_coefficients_corrected" in content and content["aic"] is not None:
        more = content["effective_coefficients_corrected"] - solution.effective
        content["aic_corrected"] = content["aic"] + 2 * more
    return content


def goodness_of_fit(solution: Solution, shape: Shape | None = None) -> dict:
    """The likelihood and the deviance, and figures that follow from them."""
    objective, loss, df_residual = solution.objective, solution.point.loss, solution.df_residual
    family, counts = objective.family, objective.counts
    rows, saturated = float(counts["rows"]), float(counts["saturated"])
    intercepts = sum(term.base == INTERCEPT for term in objective.design.terms) or objective.design.constant is not None
    # The likelihood has no meaning if the residuals are rounding errors.
    log_likelihood = None if solution.is_perfect else objective.likelihood(solution.point)
    if shape and shape.log_likelihood is not None:
        log_likelihood = shape.log_likelihood
    if objective.design.inference.std_errors in ("quasi", SURVEY) or objective.design.instruments:
        # A quasi-likelihood is no likelihood (Wedderburn, Biometrika 61, 1974). A weighted sample and two stages have none.
        log_likelihood = None
    # As in R, an estimated dispersion and an estimated shape count as parameters.
    parameters = solution.effective + (not family.dispersion_known) + (shape is not None)
    return {
        "log_likelihood": log_likelihood,
        "deviance": 2 * (loss - saturated),
        # Some links have no null model if there is no intercept.
        "null_deviance": 2 * (objective.null_loss - saturated) if np.isfinite(objective.null_loss) else None,
        "df_residual": df_residual if objective.l1 or objective.ridge.any() else int(df_residual),
        "df_null": int(rows) - intercepts,
        "aic": None if log_likelihood is None else -2 * log_likelihood + 2 * parameters,
        "bic": None if log_likelihood is None else -2 * log_likelihood + float(np.log(rows)) * parameters,
        "pseudo_r_squared": deviance_explained(solution),
        "pearson_dispersion": solution.point.pearson / df_residual if df_residual > 0 else None,
    }


def penalty_of_path(end: PathPoint) -> dict:
    """The entry of fit.json for a penalty of a path."""
    objective, loss = end.objective, end.point.loss
    saturated = float(objective.counts["saturated"])
    return {
        "penalty": end.penalty,
        "l1": objective.l1,
        "l2": objective.l2,
        "coefficients_not_zero": int(np.count_nonzero(end.point.coefficients)),
        "effective_coefficients": end.effective,
        "deviance": 2 * (loss - saturated),
        "deviance_explained": deviance_explained(end),
        "aic": aic(end),
        "deviance_held_out": end.deviance_held_out,
        "largest_kkt_violation": end.violation,
        "iterations": end.iterations,
        "information_passes": end.information_passes,
        "gradient_passes": end.gradient_passes,
    }


def cross_validated(solution: Solution, points: list[dict]) -> dict:
    """The entry of fit.json for a cross-validation; empty if there is none. Adds the mean deviances of a row to `points`."""
    validated, folds = solution.cross_validation, solution.objective.design.folds
    if not validated or not folds:
        return {}
    for number, point in enumerate(points):
        point["deviance_cross_validated"] = float(validated.mean[number])
        point["cross_validation_std_error"] = float(validated.std_error[number])
        point |= {f"deviance_fold_{fold}": float(row[number]) for fold, row in enumerate(validated.by_fold, 1)}
    path = solution.objective.design.penalty.path
    return {
        "cross_validation": {
            "folds": folds.number,
            "by": folds.groups.column if folds.groups else None,
            "rule": path.rule if path else None,
            "rows": validated.rows.astype(int).tolist(),
            "not_converged": validated.not_converged,
        }
    }


def deviance_explained(fit: Solution | PathPoint) -> float | None:
    """1 - deviance / deviance of the null model; None if the deviance of the null model is 0."""
    saturated, null_loss = float(fit.objective.counts["saturated"]), fit.objective.null_loss
    if not saturated < null_loss < np.inf:
        return None
    return 1 - (fit.point.loss - saturated) / (null_loss - saturated)


def standard_errors(design: Design, covariance: Covariance) -> dict:
    """The kind of the standard errors, with the details of their estimation."""
    errors: dict = {"kind": design.inference.std_errors}
    if not isinstance(covariance, Clustered):
        return errors
    effective = {"degrees_of_freedom": "effective clusters", "joint_tests": "Hotelling"}
    names = [clusters.column for clusters in design.inference.clusters]
    errors["column"] = " + ".join(names)
    if design.inference.std_errors in SERIAL:
        errors |= {"dates": covariance.count, "lags": int(covariance.lags)}
        errors |= effective | {"estimator": "Bartlett weights", "degrees_of_freedom": "effective dates"}
        return errors
    if isinstance(covariance, Survey):
        strata = len(design.inference.crossed) and design.inference.crossed[0].count
        df, fpc = covariance.df_design, any(0 < share < 1 for share in design.inference.fractions)
        return {**errors, "column": names[0], "strata": strata, "units": covariance.count, "df": df, "fpc": fpc}
    errors["clusters"] = covariance.count
    if isinstance(covariance, Crossed):
        counts = [len(column) for column in covariance.columns]
        errors |= {"estimator": "CGM", **effective}
        errors |= {
            "clusters_by_column": dict(zip(names, counts, strict=True)),
            "smallest_share": covariance.smallest_share,
        }
    elif isinstance(covariance, CR2):
        errors |= {"estimator": "CR2", "degrees_of_freedom": "Satterthwaite", "joint_tests": "AHT"}
        errors["rho"] = float(covariance.rho)
    else:
        errors |= {"estimator": "CR1", **effective}
    return errors


def aliases(design: Design, near: Near) -> list[dict]:
    """The columns that others nearly determine, with those that have the largest part in it."""
    names = list(design.reported.coefficients())
    numbers = zip(near.places, near.pivots, near.inflation, near.partners, strict=True)
    return [
        {
            "term": names[place][0],
            "level": names[place][1],
            "pivot": float(pivot),
            "vif": float(vif),
            "with": [dict(zip(("term", "level"), names[other], strict=True)) for other in partners],
        }
        for place, pivot, vif, partners in numbers
    ]


OVERDISPERSED_ABOVE = 1.25
"""Pearson dispersion above which a warning appears. A 5 % test with the family's own variance then rejects in 8 % of samples
without an effect: P(|z| > 1.96 / sqrt(1.25)) = 0.08."""

BY_CHANCE = 3.0
"""Standard deviations, sqrt(2 / df), by which a true dispersion of 1 may exceed 1 by chance."""

TOO_FAR = 1e6
"""Standard deviations of the residuals from 0 to the mean of a response, above which rounding errors may prevent convergence."""

SHOWN = 20
"""Largest number of columns that a warning names."""

MANY_LEVELS = 100
BIASED_ABOVE = 1.05
"""Factor by which the coefficients of a logistic regression may be too large without a warning. With fewer levels than
MANY_LEVELS, their standard errors are larger than the bias."""


def on_convergence(solution: Solution) -> list[str]:
    """Warnings if an exact fit, or points of its path, have not converged. They say how far it is from the end, and what may
    help. `on_distance` is the warning for online solvers."""
    settings = solution.objective.run.settings
    if not settings.is_exact:
        return []
    many = "raise `max_iterations`, if the next steps still come closer"
    points = sum(not point.converged for point in solution.path)
    of_points = f"{points:,} of the {len(solution.path):,} penalties of the path have not converged: {many}"
    if solution.converged:
        return [of_points] if points else []
    square = solution.certificate.get("lambda_squared")
    if square is None:
        far = f"its KKT conditions are broken by up to {solution.violation:.2g} for the mean loss of a row"
    elif square <= CONVERGED_BELOW:
        far = "its gradient vanishes where the likelihood has no maximum, by the observed information"
    else:
        far = f"the next step would move estimates by up to {np.sqrt(square):.2g} classical standard errors"
    distance = distance_from_0(solution)
    remedy = (
        f"the mean of `{solution.objective.design.roles.response}` is {distance:.0e} standard deviations of its "
        f"residuals from 0, so float64 has too few digits for its linear predictor: subtract a number near the mean from "
        f"`{solution.objective.design.roles.response}` under data.derive, and use family gaussian with link identity"
        if distance > TOO_FAR
        else many
        if solution.iterations >= settings.max_iterations
        else "no part of the next step came closer, probably because rounding errors are large: subtract a constant from columns "
        "that vary little for their size, reduce the range of `offset` and `weights`, merge rare levels with `data.rare`, or "
        "add a penalty, `l2`"
    )
    return [
        f"the fit has not converged after {solution.iterations:,} iteration{'' if solution.iterations == 1 else 's'}: {far}, so "
        f"do not report its estimates, errors and tests. {remedy[0].upper()}{remedy[1:]}",
        *([of_points] if points else []),
    ]


def distance_from_0(solution: Solution) -> float:
    """How many standard deviations of the residuals the mean response is, for a family with an estimated dispersion; else 0."""
    family, counts = solution.objective.family, solution.objective.counted.original_counts
    if family.dispersion_known or solution.df_residual <= 0:
        return 0.0
    mean = float(counts["response"] / counts["weight_sum"])
    spread = np.sqrt(solution.point.pearson / solution.df_residual * family.variance(np.array(mean)))
    return abs(mean) / float(spread) if spread > 0 else 0.0


def on_dispersion(solution: Solution) -> list[str]:
    """A warning if the response varies more than the family says, and the standard errors use the variance of the family.

    For a response of 0 and 1 there is no such warning, because its mean determines its variance.
    """
    design, family, df_residual = solution.objective.design, solution.objective.family, solution.df_residual
    if not family.dispersion_known or design.inference.std_errors != "classical" or df_residual <= 0:
        return []
    if family.counts_events and not solution.objective.counts["saturated"]:
        return []
    dispersion = solution.point.pearson / df_residual
    if dispersion <= max(OVERDISPERSED_ABOVE, 1 + BY_CHANCE * np.sqrt(2 / df_residual)):
        return []
    what = "posterior standard deviations" if design.penalty.l2 else "standard errors"
    if family.smallest == 1:
        return [
            f"the Pearson dispersion is {dispersion:,.3g}: the response varies so many times as much as family "
            f"{design.likelihood.family} says, so its estimates are biased; use family: truncated_negative_binomial"
        ]
    quasi = "" if design.smooths else "quasi`, `"
    remedy = (
        ""
        if design.penalty.l2 or design.likelihood.firth
        else f"; with `std_errors: {quasi}robust` or `cluster(column)` they are not"
    )
    return [
        f"the Pearson dispersion is {dispersion:,.3g}: the response varies so many times as much as family "
        f"{design.likelihood.family} says, and the {what} are too small by a factor of about {np.sqrt(dispersion):,.2g}{remedy}"
    ]


def on_incidental_parameters(solution: Solution, shape: Shape | None) -> list[str]:
    """A warning if a regression of a probability, or an estimated theta, has too few rows for each level of a factor.

    With T rows for each level, the coefficients of a logistic regression are too large by the factor T / (T - 1): Neyman &
    Scott, Econometrica 16 (1948); Andersen, JRSS B 32 (1970); Chamberlain, Review of Economic Studies 47 (1980). Those of a
    probit regression are so by about as much: Greene, Econometrics Journal 7 (2004). The
    coefficients of a negative binomial are not, but its theta is, which makes classical standard errors too small (Allison &
    Waterman, Sociological Methodology 32, 2002). Levels whose responses are all alike do not count.
    """
    objective, design = solution.objective, solution.objective.design
    of_theta = shape is not None and shape.name == "theta" and shape.root is None and not design.smooths
    if not (objective.family.incidental_bias or of_theta) or design.penalty.l2 or design.likelihood.firth:
        return []
    # A binomial row with several trials, or with a share and a weight, counts as so many rows.
    counts, free = objective.counts, objective.free_count
    weighted = not of_theta and (design.roles.trials or counts["saturated"])
    rows = float(counts["weight_sum" if weighted else "rows"])
    fixed = [part for part in design.parts if part.term.name in design.unpenalised_terms]
    largest = max(fixed, key=lambda part: part.size if part.grouping else 0, default=None)
    if largest is None or not largest.grouping:
        return []
    levels = int(np.count_nonzero(counts["rows", design.groupings.index(largest.grouping)]))
    factor = rows / (rows - free) if rows > free else np.inf
    if levels < MANY_LEVELS or factor <= BIASED_ABOVE:
        return []
    few = f"`{largest.term.name}` has {levels:,} levels, and {rows / levels:,.3g} rows for each of them: with so few"
    kind = "logistic" if objective.family.canonical else objective.family.link_name
    if of_theta:
        robust = ", and classical standard errors are too small: use `std_errors: robust` or `cluster(column)`"
        return [
            f"{few} the estimate of theta is too large{robust if design.inference.std_errors == 'classical' else ''} (incidental "
            f"parameters: Allison and Waterman 2002)"
        ]
    return [
        f"{few} the coefficients of a {kind} regression, also those of other terms, are too large by a factor of about "
        f"{factor:,.3g} "
        f"(incidental parameters: Neyman and Scott 1948, Andersen 1970, Chamberlain 1980). Merge rare levels with "
        f"`data.rare`, {'or absorb a coarser factor' if design.absorbed else 'leave the term out, or add a penalty, `l2`'}"
    ]


def on_crossed_clusters(std_errors: Mapping) -> list[str]:
    """A warning if the covariance matrix by clusters of several columns is not positive semidefinite. `std_errors` is the entry
    of fit.json."""
    share = std_errors.get("smallest_share")
    if share is None or share >= 0:
        return []
    return [
        f"the covariance matrix by clusters of {std_errors['column']} is not positive semidefinite: some combination of "
        f"coefficients would have {share:.2g} times its classical variance. A coefficient, contrast or term without a positive "
        f"variance has no standard error and no test; all others use this matrix (Cameron, Gelbach and Miller 2011)"
    ]


def on_inseparable_terms(smooths: Sequence[Mapping]) -> list[str]:
    """A warning for each set of smooth terms that cannot be told apart. `smooths` is the entry of fit.json."""
    sets = dict.fromkeys(
        frozenset([smooth["term"], *smooth["inseparable_from"]]) for smooth in smooths if "inseparable_from" in smooth
    )
    return [
        f"{' and '.join(f'`{term}`' for term in sorted(terms))} cannot be told apart: the rows determine only their sum, and a "
        "part of one can move to another without a change of any prediction. So none has a meaning alone, or a test. Leave one "
        "out"
        for terms in sets
    ]


def on_effects_across_clusters(design: Design, covariance: Covariance) -> list[str]:
    """A warning if random effects have rows in several clusters, so that errors by cluster take their variance from the fit."""
    if not isinstance(covariance, Clustered) or covariance.penalty is None:
        return []
    penalty = np.zeros(design.size)
    penalty[covariance.bread.free] = covariance.penalty
    terms = [smooth.term for smooth in design.smooths if smooth.is_random and penalty[smooth.places].any()]
    if not terms:
        return []
    named = ", ".join(f"`{term}`" for term in dict.fromkeys(terms))
    return [
        f"random effects of {named} have rows in several clusters, so errors by cluster take their variance from the fit; for "
        "terms that vary between these levels alone, cluster by the levels"
    ]


def on_singular(smooths: Sequence[Mapping]) -> list[str]:
    """A warning if the covariance of correlated random effects is singular. `smooths` are those of fit.json."""
    terms = [smooth["term"] for smooth in smooths if smooth.get("std_dev_at_origin", 1.0) == 0]
    groups = dict.fromkeys(term_of(term).columns[0] for term in terms)
    return [
        f"the correlated random effects of `{group}` have a singular covariance: a correlation of 1 or -1, or a variance of 0. "
        "The rows do not tell so many effects apart; write || in place of |, or leave a slope out"
        for group in groups
    ]


def on_distance(design: Design, solver: str, gap: dict) -> str:
    """A warning about the distance of an online fit from the maximum. `gap` is the entry of fit.json."""
    what = "penalised likelihood" if design.penalty.l2 else "likelihood"
    below = f"its logarithm is about {gap['log_likelihood']:,.3g} below it, {gap['each_coefficient']:,.2g} for each coefficient"
    remedy = "for the maximum and standard errors" if not design.penalty.l2 else "for the maximum"
    if gap["unreliable"]:
        return (
            f"{solver} has stopped far from the maximum of the {what}: {below}, so the coefficients are off by roughly "
            f"{gap['standard_errors']:.1g} standard errors in root mean square, a rough estimate that far from it. Run more "
            f"epochs, or {remedy} use `solver: [{solver}, newton]`"
        )
    return (
        f"{solver} has stopped near the maximum of the {what}: {below}, so the coefficients are off by about "
        f"{gap['standard_errors']:.1g} standard errors in root mean square. Use `solver: [{solver}, newton]` {remedy}"
    )


def on_near(columns: Sequence[Mapping]) -> list[str]:
    """A warning about `columns` that other columns nearly determine, as fit.json has them."""

    def name(column: Mapping) -> str:
        return f"{column['term']} {column['level']}".strip()

    shown = []
    for each in columns[:SHOWN]:
        beside = f", with {' and '.join(map(name, each['with']))}" if each["with"] else ""
        shown.append(f"{name(each)} (VIF {each['vif']:,.0f}{beside})")
    more = ", ..." if len(columns) > SHOWN else ""
    said = f"nearly determined by the other terms, so estimated with large errors: {', '.join(shown)}{more}"
    return [said] if shown else []


def on_path(solution: Solution) -> list[str]:
    """Warnings if a path ends before its best penalty, and if fits of the cross-validation have not converged."""
    validated = solution.cross_validation
    if validated and validated.not_converged:
        said = f"{validated.not_converged:,} fits of the cross-validation have not converged: raise `max_iterations`"
        return [said, *on_path(replace(solution, cross_validation=None))]
    if len(solution.path) < 2 or solution.chosen != len(solution.path) - 1:
        return []
    return ["the weakest penalty of the path is the best: extend the path with `smallest` or `penalties`"]
