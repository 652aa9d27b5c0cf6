"""Do intervals of theta and power, estimated with the coefficients, hold the truth as often as they say?

Responses of a number are drawn again and again, counts of a negative binomial or amounts of a Tweedie distribution, and fitted as
a user's are, with the shape estimated. Counted is how often estimate +- 1.96 standard errors holds the shape, and the 95 %
interval the coefficient of the number.

Writes benchmarks/results/shapes.json. Takes some minutes.
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

from pools import fit_frame, table_of  # noqa: E402

Random = np.random.Generator

REPLICATIONS, SLOPE = 1500, 0.3
"""So many that the coverage has a standard error of 0.6 %."""

THETA, POWER, DISPERSION = 2.0, 1.5, 1.3


def counts(mean: np.ndarray, random: Random) -> np.ndarray:
    return random.negative_binomial(THETA, THETA / (THETA + mean))


def amounts(mean: np.ndarray, random: Random) -> np.ndarray:
    """A Poisson number of gamma amounts (Jorgensen 1987)."""
    events = random.poisson(mean ** (2 - POWER) / (DISPERSION * (2 - POWER)))
    scale = DISPERSION * (POWER - 1) * mean ** (POWER - 1)
    sums = random.gamma(np.maximum(events, 1) * (2 - POWER) / (POWER - 1), scale)
    return np.where(events > 0, sums, 0.0)


def covered(
    family: str, name: str, truth: float, rows: int, draw: Callable[[np.ndarray, Random], np.ndarray]
) -> dict[str, float]:
    """How often the intervals hold the truth, beside the spread of the estimates and their mean standard error."""
    random, shapes, inside = np.random.default_rng(29), [], np.zeros(2)
    for _ in range(REPLICATIONS):
        x = random.normal(size=rows).round(4)
        frame = pd.DataFrame({"x": x, "y": draw(np.exp(0.5 + SLOPE * x), random)})
        with tempfile.TemporaryDirectory() as folder:
            design, fitted = fit_frame(frame, "y ~ x", family, Path(folder))
        estimate, error = fitted.summary[name], fitted.summary[f"{name}_std_error"]
        of_x = table_of(design, fitted).loc[("x", "")]
        shapes.append((estimate, error))
        inside += [abs(estimate - truth) <= 1.96 * error, of_x["ci_lower"] <= SLOPE <= of_x["ci_upper"]]
    estimates, errors = np.array(shapes).T
    return {
        "rows": rows,
        "replications": REPLICATIONS,
        f"covered_{name}": round(inside[0] / REPLICATIONS, 4),
        "covered_coefficient": round(inside[1] / REPLICATIONS, 4),
        "standard_deviation": round(float(estimates.std(ddof=1)), 5),
        "mean_std_error": round(float(errors.mean()), 5),
    }


if __name__ == "__main__":
    results = {
        "negative_binomial": covered("negative_binomial", "theta", THETA, 500, counts),
        "tweedie": covered("tweedie", "power", POWER, 1000, amounts),
        "tweedie, 500 rows": covered("tweedie", "power", POWER, 500, amounts),
    }
    (ROOT / "benchmarks" / "results" / "shapes.json").write_text(json.dumps(results, indent=1) + "\n")
