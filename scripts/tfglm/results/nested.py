"""Likelihood-ratio tests of nested regressions, also with random effects.

Twice the difference of the log-likelihoods is chi-squared; its degrees of freedom are the coefficients that only the larger
model has. This holds if the smaller model is true, both are at their maximum on the same rows, and rows are independent and
vary as the family says. Otherwise there is no test, and the reason is given. With random effects it
takes `method: ml`, or restricted likelihoods of models that differ in their random effects alone. A variance that is 0 in the
smaller model is at its limit, so the p-value is too large (Self and Liang, JASA 82, 1987).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tfglm.config.std_errors import OF_POSTERIOR
from tfglm.design.design import Design
from tfglm.design.factors import Categorical, Numeric
from tfglm.formula.parse import term_of
from tfglm.inference import distributions
from tfglm.results.compare import ComparedModel
from tfglm.results.joint import log_chi2_sf

COLUMNS = ["model", "within", "chi_squared", "df", "p_value", "neg_log10_p", "problem"]


def likelihood_ratio_tests(models: Sequence[ComparedModel]) -> pd.DataFrame:
    """Test each model within each larger one, both of the same rows (`compare.refuse_other_rows`). A row for each pair.
    Columns: model, the smaller one; within, the larger one; chi_squared, df, p_value, neg_log10_p, missing where there is no
    test; and the problem, why there is none."""
    rows = []
    for place, first in enumerate(models):
        for second in models[place + 1 :]:
            smaller, larger = sorted((first, second), key=parameters)
            rows.append({"model": smaller.name, "within": larger.name, **test(smaller, larger)})
    table = pd.DataFrame(rows, columns=COLUMNS)
    value, df = (table[name].to_numpy(float) for name in ("chi_squared", "df"))
    table["p_value"], log_p = distributions.chi_squared(value, df)
    tiny = np.isneginf(log_p)
    log_p[tiny] = log_chi2_sf(value[tiny], df[tiny])
    table["neg_log10_p"] = np.abs(log_p) / np.log(10)
    table["df"] = table["df"].astype("Int64")
    return table


def test(smaller: ComparedModel, larger: ComparedModel) -> dict[str, object]:
    """`chi_squared` and `df`, or the `problem`, else ''."""
    problem = problem_of(smaller) or problem_of(larger) or problem_between(smaller, larger)
    if problem:
        return {"problem": problem}
    # That of rounding errors may be negative.
    difference = max(0.0, 2 * (log_likelihood(larger.fit) - log_likelihood(smaller.fit)))
    return {"chi_squared": difference, "df": parameters(larger) - parameters(smaller), "problem": ""}


def log_likelihood(fit: Mapping) -> float:
    """The log-likelihood, with random effects integrated out; the restricted one by REML."""
    return fit.get("marginal_log_likelihood", -fit["reml"] if "reml" in fit else fit["log_likelihood"])


def parameters(model: ComparedModel) -> int:
    """The number of estimated coefficients, including infinite ones: the rows of separated levels are in the likelihood, with
    loss 0. Variances and correlations take the place of random effects."""
    fit = model.fit
    effects = sum(smooth["coefficients"] for smooth in fit.get("smooths", ()) if smooth["is_random"])
    variances = model.design.variance_parameters if model.design else 0
    return fit.get("coefficients", 0) + fit.get("coefficients_separated", 0) - effects + variances


def problem_of(model: ComparedModel) -> str | None:
    """Why a model has no likelihood-ratio tests; None if it can."""
    fit, design = model.fit, model.design
    if fit.get("kind") == "network" or design is None:
        return f"{model.name} is a network"
    if design.penalty.given or not all(smooth.is_random for smooth in design.smooths):
        return f"{model.name} is penalised, so its likelihood is not at its maximum"
    if design.instruments:
        return f"{model.name} is fitted by two-stage least squares, which has no likelihood"
    if design.likelihood.firth:
        return f"{model.name} has Firth's penalty, so its likelihood is not at its maximum"
    if design.bounds:
        return f"{model.name} has coefficients between bounds, for which twice the difference is not chi-squared"
    if not fit["exact"] or not fit["converged"]:
        return f"{model.name} did not converge to the maximum of its likelihood"
    if fit["perfect_fit"]:
        return f"{model.name} fits perfectly, so its likelihood has no maximum"
    family = design.distribution
    if design.inference.std_errors == "quasi" or (not family.dispersion_known and family.metrics != "means"):
        return f"the dispersion of {model.name} is estimated, and not by maximum likelihood"
    if design.inference.std_errors not in OF_POSTERIOR:
        return (
            f"{model.name} has {design.inference.std_errors} standard errors, and the test takes rows for independent "
            f"and the variance of the family for true (if they are, say `std_errors: classical`)"
        )
    return None


def problem_between(smaller: ComparedModel, larger: ComparedModel) -> str | None:
    """Why two models are not nested; None if they are."""
    small, large = smaller.design, larger.design
    assert small and large
    names = f"{smaller.name} and {larger.name}"
    if small.likelihood.family != large.likelihood.family:
        return f"{names} differ in family"
    # The frequencies are the same, as the rows are; subsets may have two names for them.
    for what in ("response", "weights", "trials", "offset"):
        if getattr(small.roles, what) != getattr(large.roles, what):
            return f"{names} differ in {what}"
    if set(small.absorbed) != set(large.absorbed):
        return f"{names} absorb different factors, and with them leave out different rows"
    if small.distribution is not large.distribution:
        return f"{names} differ in the link or the shape of the family"
    restricted = ["reml" in model.fit for model in (smaller, larger)]
    same = [term.name for term in small.fixed_terms] == [term.name for term in large.fixed_terms]
    if any(restricted) and not (all(restricted) and same):
        return (
            f"{names} are not both fitted by maximum likelihood, and restricted likelihoods can be compared only if the terms "
            "without random effects are the same; write `method: ml` where there are random effects"
        )
    for term in small.terms:
        if term.kind.is_random:
            if term.name not in {other.name for other in large.terms}:
                return f"not nested: {larger.name} has no random effects `{term.name}` of {smaller.name}"
            continue
        numeric = [small.numeric_by_name[name] for name in term.numeric]
        categorical = [small.categorical_by_name[name] for name in term.categorical]
        if not spans(large, categorical, numeric):
            return f"not nested: {larger.name} has nothing that stands for `{term.name}` of {smaller.name}"
    return None if parameters(smaller) < parameters(larger) else f"{names} say the same"


def spans(design: Design, categorical: Sequence[Categorical], numeric: Sequence[Numeric]) -> bool:
    """Return whether a model has every linear predictor of a product of factors: by a term of the same numbers and of these
    levels or finer levels, or by several terms."""
    for term in design.fixed_terms:
        levels = [design.categorical_by_name[name] for name in term.categorical]
        if not all(any(is_same(factor, other) for other in levels) for factor in categorical):
            continue
        numbers = [factor for factor in numeric if not any(tells(other, factor) for other in levels)]
        if matches(design, categorical, numbers, [design.numeric_by_name[name] for name in term.numeric]):
            return True
    return False


def matches(
    design: Design, categorical: Sequence[Categorical], numeric: Sequence[Numeric], of_term: Sequence[Numeric]
) -> bool:
    """Whether the numbers of a term have all that a product of numbers has, perhaps with terms that have fewer of them: x is
    a polynomial of x less its constant."""
    if not numeric or not of_term:
        return not numeric and not of_term
    first, rest = numeric[0], list(numeric[1:])
    for place, other in enumerate(of_term):
        others = [*of_term[:place], *of_term[place + 1 :]]
        identical = (first.column, first.learnt) == (other.column, other.learnt)
        if (identical or (is_special(first, other) and spans(design, categorical, rest))) and matches(
            design, categorical, rest, others
        ):
            return True
    return False


def is_same(factor: Categorical, other: Categorical) -> bool:
    """Whether two factors divide the rows alike."""
    return all(getattr(factor, what) == getattr(other, what) for what in ("column", "levels", "rare", "missing"))


def tells(levels: Categorical, number: Numeric) -> bool:
    """Whether a number is the same in all rows of a level."""
    return (levels.column,) == number.columns and not levels.rare and not number.shape


def is_special(number: Numeric, other: Numeric) -> bool:
    """Return whether the numbers of a factor are linear combinations of the numbers of the other factor and a constant, as
    x is of poly(x, 2)."""
    degree, of_other = polynomial_degree(number), polynomial_degree(other)
    if degree is None or number.column != other.column:
        return False
    # A spline is a polynomial too, except for rows beyond bounds that the formula gives.
    functions = [function["function"] for function in other.learnt]
    if functions == ["bs"] and not {"lower_bound", "upper_bound"} & term_of(other.name).calls[0].options.keys():
        of_other = other.learnt[0]["degree"]
    # A natural spline is linear beyond its bounds, as x is.
    if functions == ["ns"]:
        of_other = 1
    return of_other is not None and degree <= of_other


def polynomial_degree(number: Numeric) -> int | None:
    """The degree of a factor that is all polynomials of its column up to one, less the constant; None if it is something else."""
    functions = [function["function"] for function in number.learnt]
    if number.shape or any(function not in ("scale", "center", "poly") for function in functions):
        return None
    degrees = [function["degree"] for function in number.learnt if function["function"] == "poly"]
    return degrees[0] if functions[-1:] == ["poly"] and len(degrees) == 1 else None if degrees else 1
