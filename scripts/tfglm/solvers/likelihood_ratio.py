"""Likelihood ratio tests of terms with separated coefficients, whose Wald test would leave these out."""

from collections.abc import Callable

import numpy as np

from tfglm.design.design import Design
from tfglm.design.terms import Term
from tfglm.errors import UserError
from tfglm.solvers.fitted import SEPARATED
from tfglm.solvers.problem import Solution
from tfglm.solvers.separation import terms_in


def likelihood_ratios(
    full: Solution, fit_without: Callable[[str], Solution], tell: Callable[[str], None]
) -> list[dict[str, object]]:
    """Test the terms with separated coefficients, which have no Wald test.

    Separated rows have loss 0 in the full model, and so are in both likelihoods.

    Parameters
    ----------
    full
        The fit with all terms.
    fit_without
        Fits the model without a term.
    tell
        Hears of each test.

    Returns
    -------
    For each such term what fit.json says: `chi_squared` and `df`, or the problem that the fit without it ran into.
    """
    tests: list[dict[str, object]] = []
    problem = full.problem
    involved = terms_in(problem.design, np.abs(problem.separating).max(axis=0, initial=0.0))
    for term in problem.design.terms:
        separated = int(np.count_nonzero(problem.status[problem.design.slices[term.name]] == SEPARATED))
        across = bool(problem.separation) and term.name in involved
        if not (separated or across) or not is_testable(problem.design, term):
            continue
        tell(f"without {term.name}, for its likelihood ratio test:")
        try:
            less = fit_without(term.name)
        except UserError as error:
            tests.append({"term": term.name, "problem": str(error).splitlines()[0]})
            continue
        difference = 2 * (less.state.loss - full.state.loss)
        df = problem.free_count + separated + problem.separated_across
        df -= less.problem.free_count + less.problem.separated_across
        tests.append({"term": term.name, "chi_squared": difference, "df": df})
    return tests


def is_testable(design: Design, term: Term) -> bool:
    """Whether the model without the term is another one that can be fitted; and with classical standard errors alone, since the
    test takes the family's variance for true as they do."""
    inside = any(
        term is not other
        and set(term.categorical) <= set(other.categorical)
        and set(term.numeric) <= set(other.numeric)
        for other in design.terms
    )
    enough = len(design.terms) >= 2 + (design.intercept is not None)
    is_plain = design.std_errors == "classical" and not design.penalised
    return not inside and enough and is_plain and design.distribution.dispersion_known
