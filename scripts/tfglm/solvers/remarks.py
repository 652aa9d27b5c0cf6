"""What a reader has to be told of a fit, because its numbers alone would mislead."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tfglm.config.families import WITH_FIRTH
from tfglm.design.design import Design
from tfglm.solvers.inference import Near
from tfglm.solvers.problem import Solution
from tfglm.solvers.separation import terms_in
from tfglm.solvers.steps import CONVERGED_BELOW

OVERDISPERSED_ABOVE = 1.25
"""Pearson dispersion from which a test at 5 % with the family's own variance rejects in more than 8 % of samples without an
effect: P(|z| > 1.96 / sqrt(1.25)) = 0.08."""

BY_CHANCE = 3.0
"""Standard deviations, sqrt(2 / df), that a dispersion of 1 may come out above 1."""

SHOWN = 20
"""Columns that are named."""

MANY_LEVELS = 100
BIASED_ABOVE = 1.05
"""Factor by which the coefficients of a logistic regression are too large. With fewer levels their standard errors are larger
than the bias."""


def on_convergence(solution: Solution) -> list[str]:
    """That an exact fit, or points of its path, have not converged, how far it is from where they should have, and what may help.
    How far an online solver is from there is another remark."""
    settings = solution.problem.run.settings
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
    remedy = (
        many
        if solution.iterations >= settings.max_iterations
        else "no part of the next step came closer, as where rounding errors are large: subtract a constant from numbers that "
        "vary little for their size, give `offset` and `weights` sizes that are less far apart, merge rare levels with "
        "`data.rare`, or add a penalty, `l2`"
    )
    return [
        f"the fit has not converged after {solution.iterations:,} iteration{'' if solution.iterations == 1 else 's'}: {far}, so "
        f"do not report its estimates, errors and tests. {remedy[0].upper()}{remedy[1:]}",
        *([of_points] if points else []),
    ]


def on_dispersion(solution: Solution) -> list[str]:
    """That the response varies more than the family says, where the standard errors believe the family. A response of 0 and 1
    has no other variance than that of its mean."""
    design, family, df_residual = solution.problem.design, solution.problem.family, solution.df_residual
    if not family.dispersion_known or design.std_errors != "classical" or df_residual <= 0:
        return []
    if family.counts_events and not solution.problem.counts["saturated"]:
        return []
    dispersion = solution.state.pearson / df_residual
    if dispersion <= max(OVERDISPERSED_ABOVE, 1 + BY_CHANCE * np.sqrt(2 / df_residual)):
        return []
    what = "posterior standard deviations" if design.l2 else "standard errors"
    remedy = (
        "" if design.l2 or design.firth else "; with `std_errors: quasi`, `robust` or `cluster(column)` they are not"
    )
    return [
        f"the Pearson dispersion is {dispersion:,.3g}: the response varies so many times as much as family {design.family} says, "
        f"and the {what} are too small by a factor of about {np.sqrt(dispersion):,.2g}{remedy}"
    ]


def on_separation(solution: Solution) -> list[str]:
    """That terms separate rows together."""
    problem = solution.problem
    if not problem.separation:
        return []
    names = ", ".join(f"`{term}`" for term in terms_in(problem.design, np.abs(problem.separation.direction)))
    rows, family = problem.separation.rows, problem.family
    firth = "`firth: true` or " if family.link_name == WITH_FIRTH.get(family.name) else ""
    return [
        f"{names} separate {rows:,} rows by their response, though no level does by itself: these rows have left the likelihood, "
        f"and the coefficients that only they would tell are infinite or not identified. All others are those of the fit without "
        f"these rows. For finite estimates use {firth}a penalty, `l2`"
    ]


def on_incidental_parameters(solution: Solution) -> list[str]:
    """That a logistic regression has too few rows for each level of a factor. Its coefficients are then too large, by the factor
    T / (T - 1) with T rows a level: Neyman & Scott, Econometrica 16 (1948); Andersen, JRSS B 32 (1970); Chamberlain, Review of
    Economic Studies 47 (1980). Levels whose responses are all alike do not count."""
    problem, design = solution.problem, solution.problem.design
    if not problem.family.incidental_bias or design.l2 or design.firth:
        return []
    # A row of several trials, or of a share by weights, counts as so many.
    counts, free = problem.counts, problem.free_count
    rows = float(counts["weight_sum" if design.trials or counts["saturated"] else "rows"])
    largest = max(design.parts, key=lambda part: part.size if part.grouping else 0)
    if not largest.grouping:
        return []
    levels = int(np.count_nonzero(counts[f"rows_{design.groupings.index(largest.grouping)}"]))
    factor = rows / (rows - free) if rows > free else np.inf
    if levels < MANY_LEVELS or factor <= BIASED_ABOVE:
        return []
    return [
        f"`{largest.term.name}` has {levels:,} levels, and {rows / levels:,.3g} rows for each of them: with so few the "
        f"coefficients of a logistic regression, also those of other terms, are too large by a factor of about {factor:,.3g} "
        f"(incidental parameters: Neyman and Scott 1948, Andersen 1970, Chamberlain 1980). Merge rare levels with "
        f"`data.rare`, {'or absorb a coarser factor' if design.absorbed else 'leave the term out, or add a penalty, `l2`'}"
    ]


def on_crossed_clusters(std_errors: Mapping) -> list[str]:
    """That the covariance matrix by clusters of several columns is none. `std_errors` is that of fit.json."""
    share = std_errors.get("smallest_share")
    if share is None or share >= 0:
        return []
    return [
        f"the covariance matrix by clusters of {std_errors['column']} is not positive semidefinite: some combination of "
        f"coefficients would have {share:.2g} times its classical variance. A coefficient, contrast or term without a positive "
        f"variance has no standard error and no test; the others are as the clusters say (Cameron, Gelbach and Miller 2011)"
    ]


def on_distance(design: Design, solver: str, gap: dict) -> str:
    """How far an online solver has stopped from the maximum. `gap` is that of fit.json."""
    what = "penalised likelihood" if design.l2 else "likelihood"
    below = f"its logarithm is about {gap['log_likelihood']:,.3g} below it, {gap['each_coefficient']:,.2g} for each coefficient"
    remedy = "for the maximum and standard errors" if not design.l2 else "for the maximum"
    if gap["unreliable"]:
        return (
            f"{solver} has stopped far from the maximum of the {what}: {below}, so the coefficients are off by roughly "
            f"{gap['standard_errors']:.1g} standard errors in root mean square, a rough estimate that far from it. Let it go on "
            f"for more epochs, or {remedy} add `finish: newton`"
        )
    return (
        f"{solver} has stopped near the maximum of the {what}: {below}, so the coefficients are off by about "
        f"{gap['standard_errors']:.1g} standard errors in root mean square. Add `finish: newton` {remedy}"
    )


def on_near(design: Design, near: Near) -> list[str]:
    """That others nearly determine these columns."""
    if not len(near.places):
        return []
    names = list(design.reported.coefficients())
    shown = [
        f"{' '.join(filter(None, names[place]))} (VIF {vif:,.0f})"
        for place, vif in zip(near.places[:SHOWN], near.inflation, strict=False)
    ]
    more = ", ..." if len(near.places) > SHOWN else ""
    return [f"nearly determined by the other terms, so estimated with large errors: {', '.join(shown)}{more}"]


def on_path(solution: Solution) -> list[str]:
    """That a path ends before the best penalty, and that fits to parts of the rows have not converged."""
    validated = solution.cross_validation
    if validated and validated.not_converged:
        said = f"{validated.not_converged:,} fits of the cross-validation have not converged: raise `max_iterations`"
        return [said, *on_path(replace(solution, cross_validation=None))]
    if len(solution.path) < 2 or solution.chosen != len(solution.path) - 1:
        return []
    return ["the weakest penalty of the path is the best: let the path go further, by `smallest` or `penalties`"]


def on_perfect_fit(design: Design) -> str:
    return (
        f"the fit is exact: what is left of `{design.response}` is rounding error. There is nothing that standard errors and "
        f"tests could tell, and so there are none. Perhaps the response is made of the covariates"
    )
