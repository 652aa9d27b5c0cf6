"""Do likelihood ratios keep their level, and profile intervals hold the truth: with an estimated theta, of terms that separate
rows, and with Firth's penalty? Do score tests of parallel slopes of ordered classes keep it?

Responses are drawn again and again and fitted as a user's are. Counted is how often tests of a term without an effect reject at
5 %, and how often intervals of 95 % hold the coefficient of a number, beside Wald's.

Writes benchmarks/results/likelihoods.json. Takes about ten minutes.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

from pools import estimates_of, fit_frame  # noqa: E402
from tfglm.errors import UserError  # noqa: E402
from tfglm.results.joint import joint_tests  # noqa: E402

Random = np.random.Generator
Draw = Callable[[Random], pd.DataFrame]

REPLICATIONS, SLOPE, THETA = 1500, 0.5, 1.5
RARE = ["a"] * 60 + ["b"] * 60 + ["c"] * 60 + ["rare"] * 8
"""Levels of a factor without an effect, of which one often has no event at all."""


def counts(rows: int, slope: float) -> Draw:
    """Negative binomial ones."""

    def draw(random: Random) -> pd.DataFrame:
        x, g = random.normal(size=rows).round(4), random.choice(list("abc"), rows)
        mean = np.exp(0.5 + slope * x)
        return pd.DataFrame({"x": x, "g": g, "y": random.negative_binomial(THETA, THETA / (THETA + mean))})

    return draw


def with_rare_level(dispersion: float | None) -> Draw:
    """Events of one trial; or counts whose variance is so many times their mean."""

    def draw(random: Random) -> pd.DataFrame:
        rows = len(RARE)
        x = random.normal(size=rows).round(4)
        mean = np.exp(-1 + 0.5 * x)
        if dispersion is None:
            y = (random.random(rows) < mean / (1 + mean)).astype(int)
        else:
            size = mean / (dispersion - 1)
            y = random.negative_binomial(size, 1 / dispersion)
        return pd.DataFrame({"x": x, "g": RARE, "y": y})

    return draw


def few_events(rows: int) -> Draw:
    def draw(random: Random) -> pd.DataFrame:
        x = random.normal(size=rows).round(4)
        return pd.DataFrame({"x": x, "y": (random.random(rows) < 1 / (1 + np.exp(2 - SLOPE * x))).astype(int)})

    return draw


def ordered(rows: int) -> Draw:
    """Three classes with proportional odds, and covariates that act."""

    def draw(random: Random) -> pd.DataFrame:
        x, g = random.exponential(size=rows).round(4), random.choice(list("abc"), rows, p=[0.6, 0.3, 0.1])
        latent = SLOPE * x + 0.4 * (g == "b") + random.logistic(size=rows)
        return pd.DataFrame({"x": x, "g": g, "y": np.digitize(latent, [-0.5, 1.0, 2.0])})

    return draw


def rejected_as_parallel(draw: Draw) -> dict[str, float]:
    """How often the test of all terms together, and of each term, rejects equal slopes."""
    reached = [made[1].summary["parallel_slopes"]["tests"] for made in fits(draw, "y ~ x + g", "ordinal") if made]
    p_values = pd.DataFrame([{test["term"] or "all": test["p_value"] for test in tests} for tests in reached])
    shares = (p_values <= 0.05).mean().round(4)
    return {"fitted": len(reached), "without_a_test": int(p_values.isna().any(axis=1).sum()), **shares.to_dict()}


def fits(draw: Draw, formula: str, family: str, **settings):
    """Design and fit of each replication; None where nothing can be fitted."""
    random = np.random.default_rng(31)
    for _ in range(REPLICATIONS):
        with tempfile.TemporaryDirectory() as folder:
            try:
                yield fit_frame(draw(random), formula, family, Path(folder), **settings)
            except UserError:
                yield None


def rejected(draw: Draw, family: str, **settings) -> dict[str, float]:
    """How often the test of `g` rejects, in all and where it separates rows."""
    reached = []
    for made in fits(draw, "y ~ x + g", family, **settings):
        if made:
            design, fitted = made
            tests = joint_tests(estimates_of(design, fitted), fitted.summary["likelihood_ratio_tests"])
            p_value = tests.set_index("term").loc["g", "p_value"]
            reached.append((p_value <= 0.05, fitted.summary["coefficients_separated"] > 0))
    rejects, separated = np.array(reached, float).T
    result = {"fitted": len(reached), "rejected": round(rejects.mean(), 4)}
    if separated.any():
        result |= {"separated": int(separated.sum()), "rejected_of_these": round(rejects[separated > 0].mean(), 4)}
    return result


def covered(draw: Draw, family: str, **settings) -> dict[str, float]:
    """How often the profile interval of `x` holds the truth, beside Wald's, and how often it lies above and below."""
    reached = []
    for made in fits(draw, "y ~ x", family, profile={"x": {"x": 1.0}}, **settings):
        if made:
            (interval,) = made[1].summary["profile"]
            ends = [interval[name] for name in ("ci_lower", "ci_upper", "wald_lower", "wald_upper")]
            reached.append([np.nan if end is None else end for end in ends])
    lower, upper, wald_lower, wald_upper = np.array(reached, float).T
    return {
        "fitted": len(reached),
        "without_an_end": int(np.isnan(lower).sum() + np.isnan(upper).sum()),
        "covered": round(float(np.mean((lower <= SLOPE) & (upper >= SLOPE))), 4),
        "above": round(float(np.mean(lower > SLOPE)), 4),
        "below": round(float(np.mean(upper < SLOPE)), 4),
        "covered_by_wald": round(float(np.mean((wald_lower <= SLOPE) & (wald_upper >= SLOPE))), 4),
    }


if __name__ == "__main__":
    asked = {"tests": "likelihood_ratio"}
    results = {
        "replications": REPLICATIONS,
        "theta estimated, 100 rows": rejected(counts(100, 0.0), "negative_binomial", **asked),
        "theta estimated, 300 rows": rejected(counts(300, 0.0), "negative_binomial", **asked),
        "theta estimated, profile, 100 rows": covered(counts(100, SLOPE), "negative_binomial"),
        "theta estimated, profile, 300 rows": covered(counts(300, SLOPE), "negative_binomial"),
        "a rare level, binomial": rejected(with_rare_level(None), "binomial", **asked),
        "a rare level, poisson, quasi": rejected(with_rare_level(2.0), "poisson", std_errors="quasi", **asked),
        "firth, profile, 60 rows": covered(few_events(60), "binomial", firth=True),
        "firth, profile, 200 rows": covered(few_events(200), "binomial", firth=True),
        "ordinal, parallel slopes, 200 rows": rejected_as_parallel(ordered(200)),
        "ordinal, parallel slopes, 1,000 rows": rejected_as_parallel(ordered(1000)),
    }
    (ROOT / "benchmarks" / "results" / "likelihoods.json").write_text(json.dumps(results, indent=1) + "\n")
