"""Likelihood ratio tests of terms.

With `tests: likelihood_ratio` every term is tested. Otherwise only terms with separated coefficients are, because a Wald test
leaves these out. Both need `classical` or `quasi` standard errors.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tfglm.design.design import Design
from tfglm.design.parametrisation import NEGLIGIBLE, hold, holding_zero, most_frequent_first, to_data_scale
from tfglm.design.terms import DesignTerm
from tfglm.errors import UserError
from tfglm.formula.terms import INTERCEPT
from tfglm.inference.fitted import ALIASED, FREE, REFERENCE, SEPARATED
from tfglm.solvers import firth
from tfglm.solvers.objective import Solution
from tfglm.solvers.prepare import by_coefficient
from tfglm.solvers.report import goodness_of_fit
from tfglm.solvers.separation import terms_in
from tfglm.solvers.shape import Shape

FIRTH_NOTE = "penalised likelihood ratio (Firth)"


def likelihood_ratios(
    full: Solution, without: Callable[[str], Solution], estimated: Shape | None = None
) -> list[dict[str, object]]:
    """Test each term by the fit without it. Return the entries of fit.json, one for each tested term: `chi_squared` and
    `df`, or the `problem` of the fit without the term. If all terms are tested, an entry also has the `deviance` and `aic`
    of that fit.

    Both likelihoods include the separated rows, whose loss in the full model is 0. If the dispersion is estimated, the
    difference of the deviances is divided by the dispersion of the full model. If the fit estimates the shape of the family
    (`estimated`), the AIC without a term counts it as a parameter (R's `drop1` does not count theta).
    """
    tests: list[dict[str, object]] = []
    objective, design = full.objective, full.objective.design
    involved = terms_in(design, np.abs(objective.separating).max(axis=0, initial=0.0))
    asked = design.inference.tests == "likelihood_ratio"
    # The test takes rows for independent, with the variance of the family up to a factor.
    if design.inference.std_errors not in ("classical", "quasi") or design.has_penalties or design.absorbed:
        return tests
    for term in design.terms:
        separated = int(np.count_nonzero(objective.status[design.slices[term.name]] == SEPARATED))
        across = bool(objective.separation) and term.name in involved
        if not (separated or across or asked) or not is_removable(design, term):
            continue
        objective.run.reporter.tell(f"without {term.name}, for its likelihood ratio test:")
        try:
            less = without(term.name)
        except UserError as error:
            tests.append({"term": term.name, "problem": str(error).splitlines()[0]})
            continue
        if not less.converged:
            tests.append({"term": term.name, "problem": "it did not converge"})
            continue
        difference = difference_of(full, less)
        df = objective.free_count + separated + objective.separated_across
        df -= less.objective.free_count + less.objective.separated_across
        test: dict[str, object] = {"term": term.name, "chi_squared": difference, "df": df}
        if asked:
            note = "likelihood ratio" + (", as there are separated levels" if separated else "")
            fit = goodness_of_fit(less)
            of_shapes = None if fit["aic"] is None else fit["aic"] + 2 * (estimated is not None)
            test |= {"note": note, "deviance": fit["deviance"], "aic": of_shapes}
        tests.append(test)
    return tests


def difference_of(full: Solution, less: Solution) -> float:
    """The likelihood ratio statistic: the difference of the deviances, divided by the dispersion. If theta is estimated in
    each fit, it is the difference of -2 log-likelihood."""
    if full.objective.family.theta != less.objective.family.theta:
        likelihoods = [solution.objective.likelihood(solution.point) for solution in (full, less)]
        assert likelihoods[0] is not None and likelihoods[1] is not None
        return 2 * (likelihoods[0] - likelihoods[1])
    dispersion = full.objective.dispersion(full.point, full.df_residual)
    if full.objective.design.inference.std_errors == "quasi":
        dispersion = full.point.pearson / full.df_residual
    return 2 * (less.point.loss - full.point.loss) / dispersion


def is_removable(design: Design, term: DesignTerm) -> bool:
    """Whether the other terms form a model, and a different one."""
    inside = any(term is not other and term.is_within(other) for other in design.terms)
    return not inside and term.name != INTERCEPT and len(design.terms) > 1


def penalised_likelihood_ratios(full: Solution) -> list[dict[str, object]]:
    """Penalised likelihood ratio tests (Heinze & Schemper 2002) of each term that no other term contains, as entries of
    fit.json: `chi_squared`, `df` and a `note`, or a `problem`. The statistic is twice the rise of F when the coefficients of
    a term are zero. Both values of F use the prior of the whole model."""
    tests: list[dict[str, object]] = []
    for term in full.objective.design.terms:
        if not is_removable(full.objective.design, term):
            continue
        at_zero = np.zeros(full.objective.design.size, bool)
        at_zero[full.objective.design.slices[term.name]] = True
        whole = _redundant_in(full, at_zero)
        df = int(np.count_nonzero(whole.objective.free & at_zero))
        if not df:
            continue
        full.objective.run.reporter.tell(f"with {term.name} at zero, for its penalised likelihood ratio test:")
        less = firth.solve(whole, *_at_zero(whole, at_zero))
        if less.converged:
            difference = less.objective.value(less.point) - whole.objective.value(whole.point)
            tests.append({"term": term.name, "chi_squared": 2 * difference, "df": df, "note": FIRTH_NOTE})
        else:
            tests.append({"term": term.name, "problem": f"not converged after {less.iterations} iterations"})
    return tests


def _at_zero(whole: Solution, of_term: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The coefficients of the fit [p], or combinations of them, that are zero if a term has no effect; for `firth.solve`.

    `of_term` [p] marks the coefficients of the term. The fit may have a number as the rest that earlier numbers of its column
    leave. Then the coefficients of these numbers on the scale of the data are combinations of several coefficients of the fit.
    """
    objective = whole.objective
    scale = to_data_scale(objective.design)
    directions = (scale @ objective.null_vectors.T).T
    sizes = (abs(scale) @ np.abs(objective.null_vectors).T).T
    order = np.append(objective.held, np.flatnonzero(~np.isin(np.arange(objective.design.size), objective.held)))
    rows = (holding_zero(*hold(directions, order, sizes)) @ scale)[np.flatnonzero(of_term & objective.free)].toarray()
    rows[:, ~objective.free] = 0.0
    if not rows[:, ~of_term].any():
        return of_term, None
    return np.zeros_like(of_term), np.linalg.qr(rows.T)[0].T


def _redundant_in(full: Solution, of_term: np.ndarray) -> Solution:
    """The same fit, with other reference levels: as many redundant coefficients as possible are held within one term.

    `of_term` [p] marks the coefficients of the term. Without an intercept, the reference level may be in another term. After
    the change, the model without the term is the model in which its free coefficients are zero. F changes by a constant,
    because I now belongs to other coefficients.
    """
    objective = full.objective
    assert isinstance(objective, firth.FirthObjective)
    aliased = objective.status[objective.held] == ALIASED
    elsewhere = objective.null_vectors[~aliased & ~of_term[objective.held]]
    if np.abs(elsewhere[:, of_term]).max(initial=0.0) <= NEGLIGIBLE:
        return full
    by_rows = most_frequent_first(objective.design, by_coefficient(objective.design, objective.counts, "rows"))
    order = np.concatenate([objective.held[aliased], by_rows[of_term[by_rows]], objective.held[~aliased]])
    held, null_vectors = hold(objective.null_vectors, order)
    status = objective.status.copy()
    status[objective.held], status[held] = FREE, REFERENCE
    status[objective.held[aliased]] = ALIASED
    objective = replace(objective, status=status, held=held, null_vectors=null_vectors)
    moved = np.where(objective.free, holding_zero(held, null_vectors) @ full.point.coefficients, 0.0)
    point = objective.with_prior(moved)
    assert point, "the model and its information matrix are the same"
    return replace(full, objective=objective, point=point)
