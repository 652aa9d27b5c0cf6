"""Do covariates act alike at all thresholds of ordered classes (proportional odds, if the link is the logit)?

The score test (Rao 1948), as in SAS's LOGISTIC. In the larger model each threshold above the first has further slopes d_k, as in
zeta_k + x'd_k - x'b. The test is of d_k = 0. Let b be the coefficients of the fit, g the derivative of the loss by all d_k, and I
the expected information there. The statistic is g' (I_dd - I_db I_bb^-1 I_bd)^-1 g. It needs one pass over the rows, and no fit
of the larger model, whose probabilities may be negative. A term alone is tested by its own d_k.
"""

from dataclasses import replace

import numpy as np
import scipy.linalg
import scipy.special

from tfglm.formula.terms import INTERCEPT
from tfglm.solvers.information import Blocks, assemble, gradient
from tfglm.solvers.objective import Solution

MOST_SLOPES = 1_000
"""Further slopes of the larger model, at most: its information matrix is dense."""

SINGULAR_BELOW = 1e-10
"""Scaled pivot below which a slope of the larger model is not identified."""


def parallel_slopes(solution: Solution) -> dict:
    """The entry of fit.json: `tests`, of all terms together under '' and of each, with `chi_squared`, `df` and `p_value`; or a
    `note` that says why there are none."""
    objective, design = solution.objective, solution.objective.design
    labels, terms = design.likelihood.class_labels, [term for term in design.terms if term.base != INTERCEPT]
    if len(labels) < 3 or not terms:
        return {"note": "there are no slopes at several thresholds to compare"}
    if design.inference.std_errors != "classical":
        return {"note": "slopes are compared with `std_errors: classical` only"}
    further = [replace(term, equation=label) for label in labels[1:-1] for term in terms]
    larger = replace(design, terms=(*design.terms, *further))
    free = np.concatenate([objective.free, *(objective.free[design.slices[term.base]] for term in further)])
    slopes = int(np.count_nonzero(free)) - objective.free_count
    if slopes > MOST_SLOPES:
        return {"note": f"{slopes:,} further slopes are too many to compare, of {MOST_SLOPES:,} at most"}
    coefficients = np.zeros(larger.size)
    coefficients[: design.size] = solution.point.coefficients
    rows = objective.workload.with_design(larger)
    sums = rows.sum(objective.executor, "expected", larger.by_term(coefficients))
    information, score = in_order(assemble(larger, sums, free)), gradient(larger, sums)[free]
    of_terms = {term.name: np.zeros(larger.size, bool) for term in terms}
    for term in further:
        of_terms[term.base][larger.slices[term.name]] = True
    every = np.any(list(of_terms.values()), axis=0)
    tests = []
    for name, which in {"": every, **of_terms}.items():
        tested = which[free]
        whole = next((term for term in terms if term.name == name), None)
        inside = [of_terms[term.name] for term in terms if whole and term is not whole and term.is_within(whole)]
        fitted = np.any([~every, *inside], axis=0)
        statistic = score_statistic(information, score, tested, fitted[free])
        if tested.any():
            df = int(np.count_nonzero(tested))
            p_value = float(scipy.special.chdtrc(df, statistic))
            known = np.isfinite(statistic)
            tests.append(
                {
                    "term": name,
                    "chi_squared": statistic if known else None,
                    "df": df,
                    "p_value": p_value if known else None,
                }
            )
    return {"tests": tests}


def in_order(blocks: Blocks) -> np.ndarray:
    """The whole matrix, in the order of the coefficients."""
    order = np.argsort(np.concatenate([blocks.dense, blocks.eliminated]))
    return blocks.whole[np.ix_(order, order)]


def score_statistic(information: np.ndarray, score: np.ndarray, tested: np.ndarray, fitted: np.ndarray) -> float:
    """g' (I_dd - I_db I_bb^-1 I_bd)^-1 g for the `tested` coefficients d and the `fitted` b; NaN if d is not identified."""
    across = information[np.ix_(fitted, tested)]
    own = information[np.ix_(tested, tested)]
    projected = scipy.linalg.solve(information[np.ix_(fitted, fitted)], across, assume_a="pos")
    left, remaining = own - across.T @ projected, score[tested] - projected.T @ score[fitted]
    scale = np.sqrt(np.diag(own))
    if (scale == 0).any() or np.linalg.eigvalsh(left / np.outer(scale, scale)).min(initial=1.0) < SINGULAR_BELOW:
        return np.nan
    return float(remaining @ scipy.linalg.solve(left, remaining, assume_a="pos"))
