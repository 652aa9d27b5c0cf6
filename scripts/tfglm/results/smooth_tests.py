"""Tests that a smooth term or random effects have no effect (docs/statistics.md: Smooth terms).

With errors of the posterior, fit.json has the statistics (solvers.smooth_report). With robust errors, also by cluster, they are
made here. Let R'R be the information about the coefficients b of a term, and r the rank of Wood's test. In the order of the
variances of R b by the posterior, the first directions U, as many as r rounded up, take the place of its truncated pseudoinverse:
with the robust covariance matrix V, the statistic is Wood's of U'R b with U'R V R'U and rank r. So the rows choose no direction
by their noise, and by cluster it is Hotelling's of fixed contrasts (inference.reference).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.special

from tfglm.config.std_errors import OF_POSTERIOR
from tfglm.inference import distributions
from tfglm.inference.fitted import FREE
from tfglm.results.digits import four_that_count
from tfglm.results.estimates import Estimates

ROUNDING = 1e-6
"""A rank so little above a whole number is that number."""

NO_TEST = "no test with these errors"


@dataclass(frozen=True)
class SmoothTest:
    """The test of a smooth term: `row` is its name and the columns of results.joint, and `tail` its p-value and the logarithm of
    that; None without a test."""

    row: tuple[str, float, float, float, float, float, str]
    tail: tuple[float, float] | None


@dataclass(frozen=True)
class Statistic:
    """Both `values` of a statistic for the signs of an eigenvector, of a `rank` that need not be whole; or the value of a sum of
    chi-squared variables with these `weights`. `scale` times it is over chi-squared with `df` degrees of freedom, divided by
    them. No test if there is a `problem`; `note` says how it was made."""

    values: tuple[float, ...] = ()
    rank: float = np.nan
    weights: np.ndarray | None = None
    scale: float = 1.0
    df: float = np.nan
    problem: str = ""
    note: str = ""

    @property
    def tail(self) -> tuple[float, float] | None:
        """The p-value, the mean over both signs, and its logarithm."""
        if not self.values or self.problem:
            return None
        values = [self.scale * value for value in self.values]
        if self.weights is not None:
            tail = distributions.chi_squared_sum(values[0], self.weights, self.df)
            return float(tail.probability), float(tail.logarithm)
        p, log_p = zip(*(distributions.chi_squared_of_rank(value, self.rank, self.df) for value in values), strict=True)
        return float(np.mean(p)), float(scipy.special.logsumexp(log_p) - np.log(len(log_p)))


def smooth_test(estimated: Estimates, smooth: Mapping) -> SmoothTest:
    """The test of a smooth term at a level, or of random effects, by its entry of fit.json."""
    name = f"{smooth['term']}[{smooth['level']}]" if smooth["level"] else smooth["term"]
    statistic = statistic_of(estimated, smooth)
    beside = " and ".join(f"`{term}`" for term in smooth.get("line_shared_with", ()))
    notes = [
        in_words(smooth),
        beside and f"depends on the reference levels of {beside}",
        statistic.problem or statistic.note,
    ]
    note = "; ".join(filter(None, notes))
    value = float(np.mean(statistic.values)) if statistic.tail else np.nan
    row = name, statistic.rank, value, statistic.scale, statistic.df, np.nan, note
    return SmoothTest(row, statistic.tail)


def in_words(smooth: Mapping) -> str:
    """The note on a term: the standard deviation of random effects, or the shape of a curve."""
    note = f"{four_that_count(round(smooth['edf'], 4))} effective degrees of freedom"
    infinite = [each for each in smooth.get("margins", [smooth]) if each["lambda_is"] == "infinite"]
    if "std_dev" in smooth:
        numbers = four_that_count(smooth["std_dev"])
        if "std_dev_lower" in smooth:
            numbers += f" ({four_that_count(smooth['std_dev_lower'])} to {four_that_count(smooth['std_dev_upper'])})"
        return f"random effects: standard deviation {numbers}, {note}"
    if smooth["is_random"]:
        return "random effects: their variance is estimated as 0"
    above_constant = smooth["edf"] - ("by" in smooth)
    flat = "a plane" if above_constant > 1.5 else "a straight line" if above_constant > 0.5 else "constant"
    shape = f", {flat}" if infinite else ""
    if "margins" in smooth and infinite:
        shape = f", straight along {' and '.join(each['column'] for each in infinite)}"
    return f"smooth: {note}{shape}"


def statistic_of(estimated: Estimates, smooth: Mapping) -> Statistic:
    """The statistic of a term, by its entry of fit.json."""
    if others := smooth.get("inseparable_from"):
        named = " and ".join(f"`{term}`" for term in others)
        return Statistic(problem=f"it cannot be told apart from {named}, so it has no test")
    design = estimated.design
    df = estimated.fitted.covariance.df_residual
    weights = np.array(smooth["weights"]) if "weights" in smooth else None
    values = smooth.get("statistics", [smooth["statistic"]] if "statistic" in smooth else [])
    rank = smooth.get("rank", np.nan if weights is None else float(len(weights)))
    if not estimated.fitted.covariance.is_known:
        return Statistic(rank=rank)
    if design.inference.std_errors in OF_POSTERIOR:
        untested = "correlated, so without a test" if "correlations" in smooth else "too many levels for a test"
        problem = untested if "std_dev" in smooth and not values else ""
        return Statistic(tuple(values), rank, weights, df=df, problem=problem)
    return robust(estimated, smooth) if "rank" in smooth else Statistic(problem=NO_TEST)


def robust(estimated: Estimates, smooth: Mapping) -> Statistic:
    """The statistic of a smooth term with robust errors."""
    design, fitted = estimated.design, estimated.fitted
    (places,) = (each.places for each in design.smooths if (each.term, each.level) == (smooth["term"], smooth["level"]))
    places = places[fitted.status[places] == FREE]
    information = fitted.covariance.information(places)
    means = np.concatenate([term.means or np.zeros(design.size)[design.slices[term.name]] for term in design.terms])
    if means[places].any():
        assert design.intercept is not None
        whole = fitted.covariance.information(np.append(places, design.intercept))
        crossed = np.outer(whole[:-1, -1], means[places])
        information = information + np.outer(means[places], means[places]) * whole[-1, -1] - crossed - crossed.T
    values, vectors = np.linalg.eigh(information)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    units = scipy.sparse.csr_array(
        (np.ones(len(places)), (np.arange(len(places)), places)), shape=(len(places), design.size)
    )
    directions = np.linalg.eigh(root @ fitted.covariance.classical(units) @ root)[1].T[::-1]
    count = max(1, math.ceil(smooth["rank"] - ROUNDING))
    rows = (scipy.sparse.csr_array(directions[:count] @ root) @ units).tocsr()
    scale, df, note = 1.0, fitted.covariance.df_residual, ""
    if design.by_cluster:
        reference = estimated.joint_distribution(rows, rows)
        if np.isnan(reference.df):
            return Statistic(rank=smooth["rank"], problem=reference.problem or "too few clusters for this test")
        degrees, note = reference.df + count - 1, reference.note
        df = degrees - smooth["rank"] + 1
        scale = df / degrees
    pair, rank = distributions.wald_of_rank(rows @ fitted.coefficients, fitted.covariance.of(rows), smooth["rank"])
    return Statistic(tuple(pair), rank, scale=scale, df=df, note=note)
