"""Verdicts of checks: what is a problem by its size and is no chance (docs/statistics.md has the rules)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfglm.results.digits import four_that_count, two_digits

RED, AMBER, GREEN, SKIPPED = VERDICTS = "red", "amber", "green", "not checked"

LIKELY, SURE = 1e-2, 1e-3
"""P-values below which a deviation may be amber, and red."""

MISFIT, DISTANCE, SPREAD, DISPERSION = (0.1, 0.25), (0.05, 0.1), (4.0, 10.0), (1.25, 2.0)
INFLATION, COOK, ZEROS, FAR_OUT, LOST = (5.0, 10.0), (0.5, 1.0), (0.05, 0.2), (0.01, 0.2), (0.001, 0.05)
"""From which size a deviation is amber, and red."""


class Check(NamedTuple):
    """A line: what was checked, the verdict, what was found, and what to do about it."""

    check: str
    verdict: str
    finding: str
    remedy: str = ""


class Deviation(NamedTuple):
    """A deviation of this size, which has the probability `p` by chance. Only large ones show the `remedy`, and `where` it is."""

    check: str
    limits: tuple[float, float]
    size: float
    finding: str
    remedy: str
    p: float = 0.0
    where: str = ""

    def line(self, tests: int = 1) -> Check:
        """Judge it as one of so many tests: by its size, which does not grow with the number of rows, if it is no chance."""
        (amber, red), p = self.limits, self.p * tests
        verdict = RED if self.size >= red and p < SURE else AMBER if self.size >= amber and p < LIKELY else GREEN
        if verdict == GREEN:
            return Check(self.check, GREEN, self.finding)
        return Check(self.check, verdict, f"{self.finding}{self.where}", self.remedy)


def worst(found: Sequence[Deviation]) -> Check:
    """The gravest of several deviations."""
    ranked = [(-VERDICTS.index((line := each.line(len(found))).verdict), each.size, line) for each in found]
    return max(ranked, key=lambda each: each[:2])[2]


def cohens_f(chi_squared: float, df: float, rows: float) -> float:
    """The effect that a test has found, less what it finds by chance."""
    return float(np.sqrt(max(chi_squared - df, 0.0) / rows))


def means_deviation(
    check: str, what: str, squares: np.ndarray, df: int, rows: float, means: Sequence[np.ndarray], remedy: str
) -> Deviation:
    """The deviation of means in bins with these chi-squared statistics of `df` degrees of freedom. `means` are those of the
    response and of predictions, and of the variable of the bins if it is another."""
    from scipy.special import chdtrc  # pages without rows held out do without SciPy

    size, p = cohens_f(float(squares.sum()), df, rows), float(chdtrc(df, squares.sum())) if df else 1.0
    said = f"{what} are off by {two_digits(size)} standard deviations of the residuals"
    observed, expected, *at = (four_that_count(float(each[squares.argmax()])) for each in means)
    where = f": {observed} where predictions are {expected}{f', near {at[0]}' if at else ''}"
    return Deviation(check, MISFIT, size, said, remedy, p, where)


def held_out_calibration(metrics: Mapping[str, Any]) -> list[Check]:
    """The calibration of rows that were kept back, from the content of metrics.json; none without such rows."""
    parts = [each for each in metrics.get("calibration", []) if each["rows"] > 3 and each["upper"] > each["lower"]]
    if not parts:
        return []
    names = "rows", "observed", "predicted", "lower", "upper"
    rows, observed, expected, lower, upper = (np.array([each[name] for each in parts]) for name in names)
    # A square of t with rows - 1 degrees of freedom has a mean above 1.
    squares = ((observed - expected) / (upper - lower) * 2 * 1.96) ** 2 * (rows - 3) / (rows - 1)
    remedy = "If training rows are calibrated, write fewer terms or a penalty `l2`"
    what, means = "means of rows kept back with similar predictions", (observed, expected)
    return [means_deviation("calibration", what, squares, len(parts), rows.sum(), means, remedy).line()]
