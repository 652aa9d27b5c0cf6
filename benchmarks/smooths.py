"""Do tests of smooth terms keep their level, and do intervals of curves and of random effects hold the truth?

Responses are drawn again and again for the same rows. The results are four shares:

- of tests of a smooth or of random effects without an effect, those that reject at 5 %
- of 95 % intervals of the linear predictors of rows, those that hold the truth, with `classical` and `unconditional` errors
- of 95 % intervals of the standard deviation of random effects, those that hold the truth

Writes benchmarks/results/smooths.json. Takes about ten minutes.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

from replicates import Replicates  # noqa: E402
from tfglm.design import transforms  # noqa: E402
from tfglm.design.design import Design  # noqa: E402
from tfglm.design.parametrisation import form_of, standardised  # noqa: E402
from tfglm.results import distributions  # noqa: E402
from tfglm.results.joint import joint_tests  # noqa: E402

REPLICATIONS, GROUPS, SPREAD = 500, 40, 0.5

SURFACE = "te(x, z)"

WITHOUT_EFFECT = ("s(z)", "te(v, w)", "s(g, bs=re)")
"""Terms whose tests count."""

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Draws responses from linear predictors."""


def normal(random: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    return eta + random.normal(size=len(eta))


def events(random: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    return (random.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)


def counts(random: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    return random.poisson(np.exp(eta)).astype(float)


SURFACES = (
    ("gaussian", "gaussian", normal, 400),
    ("binomial", "binomial", events, 1000),
    ("poisson", "poisson", counts, 500),
)


def rows_of_design(design: Design, frame: pd.DataFrame) -> scipy.sparse.csr_array:
    """The rows of the design matrix, on the scale of the fit, [rows, p]."""

    def numbers(name: str) -> list[np.ndarray]:
        factor = design.numeric_by_name[name]
        return transforms.apply(np, factor.learnt, frame[factor.column].to_numpy(float))

    matrix = np.zeros((len(frame), design.size))
    for part in design.parts:
        values = np.ones(len(frame))
        for number in part.multiplier:
            values = values * standardised(design, number, form_of(design, part), numbers)
        group = 0
        if part.grouping:
            factor = design.categorical_by_name[part.grouping[0]]
            group = frame[factor.column].map(factor.numbers).to_numpy()
        matrix[np.arange(len(frame)), part.where.start + group] = values
    return scipy.sparse.csr_array(matrix)


def measured(formula: str, family: str, draw: Draw, size: int, amplitude: float, spread: float = 0.0) -> dict:
    """The shares of one design. `spread` is the standard deviation of random effects of `g`. If the formula has a surface of x
    and z, the sine curve of x is the steeper the larger z is."""
    random = np.random.default_rng(38)
    frame = pd.DataFrame({"x": random.uniform(size=size).round(4), "z": random.uniform(size=size).round(4)})
    frame["g"] = [f"g{number:02d}" for number in np.arange(size) % GROUPS]
    curve = amplitude * np.sin(2 * np.pi * frame["x"].to_numpy()) + 0.3
    if SURFACE in formula:
        curve *= 0.5 + frame["z"].to_numpy()
        frame = frame.assign(v=random.uniform(size=size).round(4), w=random.uniform(size=size).round(4))
    with tempfile.TemporaryDirectory() as folder:
        replicates = Replicates(frame, formula, family, Path(folder), std_errors="unconditional")
        matrix = rows_of_design(replicates.design, frame)
        covered, unconditional, rejected, spreads = [], [], [], []
        for _ in range(REPLICATIONS):
            eta = curve + (spread * random.normal(size=GROUPS))[np.arange(size) % GROUPS]
            estimates = replicates.estimates(draw(random, eta))
            fitted = estimates.fitted
            variances = fitted.variances(matrix)
            df = estimates.df_residual if estimates.statistic == "t" else np.inf
            reach = float(distributions.t_quantile(0.975, np.array(df)))
            far = np.abs(matrix @ fitted.coefficients - eta)
            covered.append(np.mean(far <= reach * np.sqrt(variances.classical)))
            unconditional.append(np.mean(far <= reach * np.sqrt(variances.chosen)))
            smooths = fitted.summary["smooths"]
            tests = joint_tests(estimates, (), smooths).set_index("term")
            without = next(term for term in WITHOUT_EFFECT if term in tests.index)
            if without != "s(g, bs=re)" or not spread:
                rejected.append(tests.loc[without, "p_value"] <= 0.05)
            for smooth in smooths:
                if smooth["term"] == "s(g, bs=re)" and spread:
                    ends = smooth.get("std_dev_lower", 0.0), smooth.get("std_dev_upper", 0.0)
                    spreads.append(ends[0] <= spread <= ends[1])
    result = {"covered": round(float(np.mean(covered)), 4)}
    others = {"covered_unconditional": unconditional, "rejected": rejected, "std_dev_covered": spreads}
    for name, shares in others.items():
        if shares:
            result[name] = round(float(np.mean(shares)), 4)
    return result


if __name__ == "__main__":
    smooths, with_groups = "s(x) + s(z)", "s(x) + s(g, bs=re)"
    results = {
        "replications": REPLICATIONS,
        "gaussian, 200 rows": measured(smooths, "gaussian", normal, 200, 1.0),
        "binomial, 500 rows": measured(smooths, "binomial", events, 500, 1.0),
        "poisson, 300 rows": measured(smooths, "poisson", counts, 300, 0.5),
        "gaussian with 40 groups, 400 rows": measured(with_groups, "gaussian", normal, 400, 1.0, SPREAD),
        "poisson with 40 groups, 400 rows": measured(with_groups, "poisson", counts, 400, 0.5, SPREAD),
    }
    for name, family, draw, amplitude in (("gaussian", "gaussian", normal, 1.0), ("poisson", "poisson", counts, 0.5)):
        results[f"{name} with 40 groups alike, 400 rows"] = measured(with_groups, family, draw, 400, amplitude)
    for name, family, draw, size in SURFACES:
        results[f"{name} with surfaces, {size} rows"] = measured(f"{SURFACE} + te(v, w)", family, draw, size, 1.0)
    (ROOT / "benchmarks" / "results" / "smooths.json").write_text(json.dumps(results, indent=1) + "\n")
