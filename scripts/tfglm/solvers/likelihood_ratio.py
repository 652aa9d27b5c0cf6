"""Likelihood ratio tests of terms: on request of all, else of those with separated coefficients, which a Wald test leaves out, as
long as standard errors are `classical` or `quasi`."""

from collections.abc import Callable

import numpy as np

from tfglm.design.design import Design
from tfglm.design.terms import INTERCEPT, Term
from tfglm.errors import UserError
from tfglm.solvers.describe import goodness_of_fit
from tfglm.solvers.fitted import SEPARATED
from tfglm.solvers.problem import Solution
from tfglm.solvers.separation import terms_in


def likelihood_ratios(
    full: Solution, fit_without: Callable[[str], Solution], shapes: int = 0
) -> list[dict[str, object]]:
    """Test terms by the fit without each.

    Separated rows have loss 0 in the full model, and so are in both likelihoods. Where the dispersion is estimated, the
    difference of the deviances is divided by that of the full model.

    Parameters
    ----------
    full
        The fit with all terms.
    fit_without
        Fits the model without a term.
    shapes
        How many shapes of the family are estimated, in the fits without a term too or as they are in the one with all: their AIC
        counts them (R's `drop1` prints AICs without theta).

    Returns
    -------
    For each term that is tested what fit.json says: `chi_squared` and `df`, or the problem that the fit without it ran into; if
    all are asked for, `deviance` and `aic` of the fit without it too.
    """
    tests: list[dict[str, object]] = []
    problem = full.problem
    involved = terms_in(problem.design, np.abs(problem.separating).max(axis=0, initial=0.0))
    for term in problem.design.terms:
        separated = int(np.count_nonzero(problem.status[problem.design.slices[term.name]] == SEPARATED))
        across = bool(problem.separation) and term.name in involved
        asked = problem.design.tests == "likelihood_ratio"
        if not (separated or across or asked) or not is_testable(problem.design, term):
            continue
        problem.run.reporter.tell(f"without {term.name}, for its likelihood ratio test:")
        try:
            less = fit_without(term.name)
        except UserError as error:
            tests.append({"term": term.name, "problem": str(error).splitlines()[0]})
            continue
        if not less.converged:
            tests.append({"term": term.name, "problem": "it did not converge"})
            continue
        difference = difference_of(full, less)
        df = problem.free_count + separated + problem.separated_across
        df -= less.problem.free_count + less.problem.separated_across
        test: dict[str, object] = {"term": term.name, "chi_squared": difference, "df": df}
        if asked:
            note = "likelihood ratio" + (", as there are separated levels" if separated else "")
            fit = goodness_of_fit(less)
            of_shapes = None if fit["aic"] is None else fit["aic"] + 2 * shapes
            test |= {"note": note, "deviance": fit["deviance"], "aic": of_shapes}
        tests.append(test)
    return tests


def difference_of(full: Solution, less: Solution) -> float:
    """The likelihood ratio statistic: the difference of the deviances, over the dispersion; of fits that each have an estimated
    shape, that of -2 log-likelihood."""
    if full.problem.family.theta != less.problem.family.theta:
        likelihoods = [solution.problem.likelihood(solution.state) for solution in (full, less)]
        assert likelihoods[0] is not None and likelihoods[1] is not None
        return 2 * (likelihoods[0] - likelihoods[1])
    return 2 * (less.state.loss - full.state.loss) / dispersion_of(full)


def dispersion_of(full: Solution) -> float:
    """What differences of deviances are divided by: 1 where it is known."""
    if full.problem.design.std_errors == "quasi":
        return full.state.pearson / full.df_residual
    return full.problem.dispersion(full.state, full.df_residual)


def is_testable(design: Design, term: Term) -> bool:
    """Whether the model without the term is another one that can be fitted, and rows are taken for independent and their variance
    for that of the family, but for a factor, as standard errors take them: the test does."""
    is_plain = design.std_errors in ("classical", "quasi") and not design.penalised
    return is_removable(design, term) and is_plain


def is_removable(design: Design, term: Term) -> bool:
    """Whether the other terms are a model, and another one."""
    inside = any(
        term is not other
        and set(term.categorical) <= set(other.categorical)
        and set(term.numeric) <= set(other.numeric)
        for other in design.terms
    )
    return not inside and term.name != INTERCEPT and len(design.terms) > 1
