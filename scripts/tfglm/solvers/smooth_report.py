"""The report of smooth terms and random effects: REML, lambdas, standard deviations and tests."""

from collections.abc import Callable, Collection

import numpy as np

from tfglm.config.std_errors import OF_POSTERIOR
from tfglm.design.terms import Smoothing
from tfglm.inference import distributions
from tfglm.solvers.objective import Solution
from tfglm.solvers.reml import Parameters, Penalties, WorkingModel, restricted

QUANTILE = 1.959963984540054
"""Standard errors on either side in an interval of 95 %."""

WIDEST = 50.0
"""The largest half of an interval of the logarithm of a standard deviation."""

SAME_BELOW = 1e-9
"""Share of the squares of a combination of columns that others leave, below which that is rounding error."""

MOST_LEVELS, LARGEST_TEST = 2_000, 20_000_000
"""The largest number of random effects with a test, and of entries of the matrices behind it."""


def report(
    solution: Solution,
    penalties: Penalties,
    parameters: Parameters,
    model: WorkingModel,
    covariance: np.ndarray,
    untested: Collection[str],
) -> dict:
    """The entries of fit.json: V as `reml`, or -V as `marginal_log_likelihood`, and for each smooth term what it was estimated to
    be. `covariance` is that of log lambda and log phi. Terms that are `untested` have no test."""
    objective, point = solution.objective, solution.point
    phi = float(np.exp(parameters.log_phi))
    inverse, blocks = np.zeros(objective.design.size), solution.information.blocks
    inverse[blocks.dense], inverse[blocks.eliminated] = solution.information.inverse_diagonal()
    which, terms = lambdas_in_words(penalties, parameters.log_lambda), []
    means = np.zeros(objective.design.size)
    for term in objective.design.terms:
        if term.means:
            means[objective.design.slices[term.name]] = term.means
    for place, smooth in enumerate(penalties.smooths):
        if place and smooth is penalties.smooths[place - 1]:
            continue
        entry = smooth_entry(solution, smooth, inverse, means, smooth.term not in untested) | shared(solution, smooth)
        if smooth.columns:
            of_columns = zip(smooth.columns, which[place:], strict=False)
            entry["margins"] = [{"column": column} | smoothing for column, smoothing in of_columns]
        else:
            entry |= which[place]
        if smooth.is_random and parameters.log_lambda[place] < penalties.highest[place]:
            component = variance_component(place, parameters, covariance)
            # Its interval takes the likelihood for true.
            entry |= (
                component
                if objective.design.inference.std_errors in OF_POSTERIOR
                else {"std_dev": component["std_dev"]}
            )
        terms.append(entry)
    effective, value = {"effective_coefficients": solution.effective}, restricted(objective, point, model, parameters)
    effective |= variance_shares(solution, penalties, parameters)
    is_ml = objective.design.likelihood.method == "ml"
    return (
        ({"marginal_log_likelihood": -value} if is_ml else {"reml": value})
        | {"reml_dispersion": phi, "smooths": terms}
        | effective
    )


def variance_shares(solution: Solution, penalties: Penalties, parameters: Parameters) -> dict:
    """The entries of fit.json for shares of the variance on the scale of the linear predictor, with all rows as they are: that of
    terms without random effects as `r_squared_marginal`, that of all terms as `r_squared_conditional`, and under
    `intraclass_correlations` that of the random effects of a factor in what the former terms leave. Empty for a family whose rows
    have no variance on this scale, and without an intercept or random effects."""
    objective, b = solution.objective, solution.point.coefficients
    design, family, size = objective.design, objective.family, len(b)
    rows, phi = objective.weight_sum, float(np.exp(parameters.log_phi))
    of_row = family.latent_variance(float(objective.counts["response"]) / rows, phi)
    random = [place for place, smooth in enumerate(penalties.smooths) if smooth.is_random]
    if of_row is None or not random or design.intercept is None or solution.is_perfect:
        return {}
    blocks, ridge = solution.information.blocks, objective.ridge
    if not family.quadratic:
        blocks, ridge = objective.squares(), np.zeros(size)
    fixed = np.where(objective.free & ~penalties.weights[random].any(axis=0), b, 0.0)
    sums = blocks.times(fixed) - ridge * fixed
    of_fixed = float(fixed @ sums) / rows - (sums[design.intercept] / rows) ** 2
    squares, groups = blocks.diagonal(size) - ridge, dict[str, dict]()
    for place in random:
        smooth, weights = penalties.smooths[place], penalties.weights[place]
        there, is_zero = weights > 0, parameters.log_lambda[place] >= penalties.highest[place]
        each = 0.0 if is_zero else phi * np.exp(-parameters.log_lambda[place])
        # Correlated effects are independent on the scale of the fit.
        group = groups.setdefault(smooth.beside[0] if smooth.beside else smooth.term, {"terms": [], "value": 0.0})
        group["terms"].append(smooth.term)
        group["value"] += each * float(np.sum(squares[there] / weights[there])) / rows
    of_random = sum(group["value"] for group in groups.values())
    left = of_random + of_row
    return {
        "r_squared_marginal": of_fixed / (of_fixed + left),
        "r_squared_conditional": (of_fixed + of_random) / (of_fixed + left),
        "intraclass_correlations": [group | {"value": group["value"] / left} for group in groups.values()],
    }


def corrected(solution: Solution, smoothing_root: np.ndarray) -> dict:
    """The entry of fit.json for the effective number of coefficients that counts the estimation of lambda.

    It is the trace of I V / phi, where V is the covariance with `smoothing_root` [smooths, p], and I the information. It is
    at most the trace of 2 F - F F (Wood, Pya and Saefken, JASA 111, 2016, with the first of their two corrections, as in
    mgcv's bam).
    """
    objective, factored = solution.objective, solution.information
    if not solution.has_covariance:
        return {}
    information = factored.blocks.penalised(-objective.ridge)
    added = sum(float(each @ information.times(each)) for each in smoothing_root)
    dispersion = objective.dispersion(solution.point, solution.df_residual)
    most = objective.free_count - float(factored.traces(objective.ridge[None])[0, 0])
    return {"effective_coefficients_corrected": min(solution.effective + added / dispersion, most)}


def variance_component(number: int, parameters: Parameters, covariance: np.ndarray) -> dict:
    """The standard deviation of random effects, (phi / lambda)^1/2, with the interval of 95 % of its logarithm."""
    direction = np.zeros(len(covariance))
    direction[number], direction[-1] = -0.5, 0.5
    logarithm = 0.5 * (parameters.log_phi - parameters.log_lambda[number])
    error = np.sqrt(max(float(direction @ covariance @ direction), 0.0))
    # An interval that says nothing has finite ends too.
    reach = min(QUANTILE * error, WIDEST)
    values = np.exp([logarithm, logarithm - reach, logarithm + reach])
    return dict(zip(("std_dev", "std_dev_lower", "std_dev_upper"), values.tolist(), strict=True))


def lambdas_in_words(penalties: Penalties, log_lambda: np.ndarray) -> list[dict]:
    """What fit.json says of each lambda."""
    is_at_limit = ((log_lambda >= penalties.highest, "infinite"), (log_lambda <= penalties.lowest, "zero"))
    return [
        {
            "log_lambda": float(value),
            "lambda_is": "given"
            if smooth.sp
            else next((word for is_there, word in is_at_limit if is_there[number]), "finite"),
        }
        for number, (smooth, value) in enumerate(zip(penalties.smooths, log_lambda, strict=True))
    ]


def smooth_entry(
    solution: Solution, smooth: Smoothing, inverse: np.ndarray, means: np.ndarray, is_tested: bool
) -> dict:
    """The entry of fit.json for a smooth term, without lambda. `inverse` [p] is the diagonal of (H + P)^-1, and `means` [p] are
    those of columns that are not centred."""
    objective = solution.objective
    places = smooth.places[objective.free[smooth.places]]
    entry = {
        "term": smooth.term,
        "level": smooth.level,
        "is_random": smooth.is_random,
        "coefficients": len(places),
        "edf": float(np.sum(1 - objective.ridge[places] * inverse[places])),
    }
    if smooth.by:
        entry["by"] = smooth.by
    if smooth.is_random or np.all(objective.ridge[places] > 0):
        is_tested = is_tested and objective.design.inference.std_errors in OF_POSTERIOR
        return entry | (tested_as_random(solution, smooth, places) if is_tested else {})
    return entry | tested(solution, places, means)


def shared(solution: Solution, smooth: Smoothing) -> dict:
    """What fit.json says of terms that have columns of a smooth term: those `inseparable_from` it, which can take over a part of
    it without a change of any prediction, and those of factors whose slopes contain its straight line (`line_shared_with`)."""
    objective, design = solution.objective, solution.objective.design
    through = np.any(objective.null_vectors[:, smooth.places], axis=1)
    directions, held = objective.null_vectors[through], objective.held[through]
    curves = [
        other.term
        for other in design.smooths
        if other.term != smooth.term
        and (directions[:, other.places].any() or have_the_same_columns(solution, smooth, other))
    ]
    is_held = np.isin(np.arange(design.size), held) & ~design.in_smooths
    factors = [term.name for term in design.terms if term.categorical and is_held[design.slices[term.name]].any()]
    found = {"inseparable_from": list(dict.fromkeys(curves)), "line_shared_with": factors}
    return {key: names for key, names in found.items() if names}


def have_the_same_columns(solution: Solution, smooth: Smoothing, other: Smoothing) -> bool:
    """Whether the columns of two terms, at the same level, are combinations of each other. A regression of the sum of different
    multiples of those of one shows it."""
    free, size = solution.objective.free, solution.objective.design.size
    places, among = smooth.places[free[smooth.places]], other.places[free[other.places]]
    if len(places) != len(among) or smooth.level != other.level:
        return False
    information = solution.information.blocks.penalised(-solution.objective.ridge)
    summed = np.bincount(places, 1.0 + np.cos(np.arange(len(places))) ** 2, minlength=size)
    image = information.times(summed)
    if other.is_random:
        explained = image[among] ** 2 / information.diagonal(size)[among]
    else:
        columns = rows_of(information.times, among, size)[:, among]
        explained = image[among] * (np.linalg.pinv(columns, hermitian=True) @ image[among])
    return bool(summed @ image - explained.sum() <= SAME_BELOW * (summed @ image))


def rows_of(times: Callable[[np.ndarray], np.ndarray], places: np.ndarray, size: int) -> np.ndarray:
    """The rows of a symmetric matrix at some places, [places, size], by its products with vectors."""
    return np.array([times(np.bincount([place], minlength=size).astype(float)) for place in places])


def tested_as_random(solution: Solution, smooth: Smoothing, places: np.ndarray) -> dict:
    """The test that a term with a penalty on each coefficient has no effect (Wood, Biometrika 100, 2013, 1005-1010; mgcv's
    reTest). If there is no effect, the `statistic` is the sum of independent chi-squared variables with these `weights`.

    Other random effects, o, vary with the covariance phi P_o^-1. With H = X'WX, A = H + P and the coefficients b at `places`, the
    statistic is b'C b / phi. C is the Schur complement of b in H + H_o P_o^-1 H_o' + P, without o. The covariance of b / phi^1/2
    is its part of A^-1 (H + H_o P_o^-1 H_o') A^-1. Empty for too many random effects.
    """
    objective, factored = solution.objective, solution.information
    size, ridge = objective.design.size, objective.ridge
    others = np.zeros(size, bool)
    for other in objective.design.smooths:
        if other.is_random and other.term != smooth.term:
            others[other.places] = objective.free[other.places]
    fixed = objective.free & ~others
    fixed[places] = False
    kept = np.concatenate([np.flatnonzero(fixed), places])
    if len(places) > MOST_LEVELS or len(kept) * size > LARGEST_TEST:
        return {}
    information = factored.blocks.penalised(-ridge)
    rows = rows_of(information.times, kept, size)
    whole = rows[:, kept] + (rows[:, others] / ridge[others]) @ rows[:, others].T + np.diag(ridge[kept])
    first = len(kept) - len(places)
    root = np.linalg.cholesky(whole)[first:, first:]  # of the Schur complement
    inverse = rows_of(factored.solve, places, size)
    moved = np.array([information.times(each) for each in inverse])
    covariance = inverse @ moved.T + (moved[:, others] / ridge[others]) @ moved[:, others].T
    weights = np.linalg.eigvalsh(root.T @ covariance @ root)
    dispersion = objective.dispersion(solution.point, solution.df_residual)
    statistic = float(np.sum((solution.point.coefficients[places] @ root) ** 2)) / dispersion
    return {"statistic": statistic, "weights": weights[weights > weights.max() * np.finfo(float).eps ** 0.8].tolist()}


def tested(solution: Solution, places: np.ndarray, means: np.ndarray) -> dict:
    """The test that a smooth term has no effect (Wood, Biometrika 100, 2013; mgcv's summary.gam): both `statistics`, and their
    `rank`. With robust errors the rank alone, as results.smooth_tests has the statistics.

    Let V be the covariance of the coefficients b, and R'R the information of their columns less `means`. The statistic is
    b'R' (R V R')^- R b. The rank of the pseudoinverse, which need not be whole, is the trace of 2 F - F F with F = (I + P)^-1 I.
    Eigenvectors have no sign, so there are two statistics; the p-value is the mean of their p-values, as in mgcv.
    """
    objective, factored = solution.objective, solution.information
    size = objective.design.size
    rows = rows_of(factored.solve, places, size)
    # diag((A^-1 P)^2), of all coefficients with a penalty.
    blocks = factored.blocks.penalised(-objective.ridge)
    information = rows_of(blocks.times, places, size)[:, places]
    if means[places].any():
        unit, mean = np.zeros(size), means[places]
        unit[objective.design.intercept] = 1.0
        of_intercept = blocks.times(unit)
        crossed = np.outer(of_intercept[places], mean)
        information += np.outer(mean, mean) * of_intercept[objective.design.intercept] - crossed - crossed.T
    squares = np.einsum("ij,j,ij,i->i", rows, objective.ridge, rows, objective.ridge[places])
    reference = min(float(np.sum(1 - squares)), float(len(places)))
    if objective.design.inference.std_errors not in OF_POSTERIOR:
        return {"rank": reference}
    dispersion = objective.dispersion(solution.point, solution.df_residual)
    values, vectors = np.linalg.eigh(information)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    pair, rank = distributions.wald_of_rank(
        root @ solution.point.coefficients[places], dispersion * root @ rows[:, places] @ root, reference
    )
    return {"rank": rank, "statistics": pair}
