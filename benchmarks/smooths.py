"""Do tests of smooth terms keep their level, and do intervals of curves and of random effects hold the truth?

Responses are drawn again and again for the same rows. The results are shares:

- of tests of a smooth or of random effects without an effect, those that reject at 5 %
- of 95 % intervals of the linear predictors of rows, those that hold the truth, with `classical` and `unconditional` errors
- of 95 % intervals of the standard deviation of random effects, those that hold the truth
- where rows of a cluster are alike and errors are by cluster: the same of intervals and of tests of a smooth and of a linear
  term, which vary between clusters alone and have no effect; how many of these tests there are, and the intervals and tests
  with classical errors
- beside random intercepts or slopes: of 95 % intervals of coefficients, adjusted means and average effects for the population,
  those that hold the truth; of 5 % tests of x and w, which have no effect, those that reject. w is constant within groups

Writes benchmarks/results/smooths.json. Takes about forty minutes. With words as arguments, only the designs whose names contain
one of them are measured; the others keep their results.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse
import scipy.special
import scipy.stats

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

from replicates import Replicates  # noqa: E402
from tfglm.config import ResultsConfig  # noqa: E402
from tfglm.design import transforms  # noqa: E402
from tfglm.design.design import Design  # noqa: E402
from tfglm.design.parametrisation import form_of, standardised  # noqa: E402
from tfglm.inference import distributions  # noqa: E402
from tfglm.results import coefficients  # noqa: E402
from tfglm.results.joint import joint_tests  # noqa: E402
from tfglm.results.marginal_tables import marginal_tables  # noqa: E402
from tfglm.results.margins import average_rows  # noqa: E402

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
            variances = fitted.covariance.variances(matrix)
            df = estimates.fitted.summary["df_residual"] if estimates.statistic == "t" else np.inf
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


CLUSTERS, ALIKE = 60, 0.2
"""The number of clusters, and the correlation of the normal variables behind the responses of their rows."""

QUANTILES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "gaussian": lambda normal, eta: eta + normal,
    "binomial": lambda normal, eta: (scipy.stats.norm.cdf(normal) < 1 / (1 + np.exp(-eta))).astype(float),
    "poisson": lambda normal, eta: scipy.stats.poisson.ppf(scipy.stats.norm.cdf(normal), np.exp(eta)),
}
"""The responses that standard normal variables and linear predictors give. So alike rows have the means of the family."""


def in_clusters(family: str, amplitude: float) -> dict:
    """The shares of a design with clusters of 4 to 16 rows. x varies within clusters, z and w between them alone."""
    random = np.random.default_rng(38)
    cluster = np.repeat(np.arange(CLUSTERS), random.integers(4, 17, CLUSTERS))
    size = len(cluster)
    frame = pd.DataFrame({"x": random.uniform(size=size).round(4), "cluster": cluster})
    frame["z"], frame["w"] = (
        random.uniform(size=CLUSTERS).round(4)[cluster],
        random.normal(size=CLUSTERS).round(4)[cluster],
    )
    eta = amplitude * np.sin(2 * np.pi * frame["x"].to_numpy()) + 0.3
    shares: dict[str, list[float]] = {}

    def count(name: str, values: np.ndarray) -> None:
        known = values[np.isfinite(values)]
        if len(known):
            shares.setdefault(name, []).append(float(np.mean(known)))

    with tempfile.TemporaryDirectory() as folder:
        replicates = Replicates(frame, "s(x) + s(z) + w", family, Path(folder), std_errors="cluster(cluster)")
        matrix = rows_of_design(replicates.design, frame)
        for _ in range(REPLICATIONS):
            normal = ALIKE**0.5 * random.normal(size=CLUSTERS)[cluster] + (1 - ALIKE) ** 0.5 * random.normal(size=size)
            estimates = replicates.estimates(QUANTILES[family](normal, eta))
            fitted, covariance = estimates.fitted, estimates.fitted.covariance
            variances, reference = covariance.variances(matrix), covariance.reference(matrix, exactly=False)
            far, quantile = np.abs(matrix @ fitted.coefficients - eta), reference.quantile(0.95)
            count("covered", np.where(np.isfinite(quantile), far <= quantile * np.sqrt(variances.chosen), np.nan))
            count("covered_classical", far <= 1.96 * np.sqrt(variances.classical))
            tests = joint_tests(estimates, (), fitted.summary["smooths"]).set_index("term")["p_value"]
            for term in ("s(z)", "w"):
                known = np.isfinite(tests[term])
                count(f"tested, {term}", np.array([float(known)]))
                count(f"rejected, {term}", np.array([tests[term] <= 0.05 if known else np.nan], float))
            row = estimates.transform[[estimates.design.slices["w"].start]]
            ratio = float((row @ fitted.coefficients)[0]) / fitted.covariance.variances(row).classical[0] ** 0.5
            count("rejected with classical errors, w", np.array([float(abs(ratio) > 1.96)]))
    return {name: round(float(np.mean(values)), 4) for name, values in shares.items()}


POPULATION_REPLICATIONS = 400

LINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gaussian": lambda eta: eta,
    "binomial": scipy.special.expit,
    "poisson": np.exp,
}

POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


class Truth(NamedTuple):
    """The true model of a population: the spreads of random intercepts and of random slopes of x, and the rows."""

    family: str
    spreads: tuple[float, float]
    frame: pd.DataFrame

    def fixed(self, **change: object) -> np.ndarray:
        """The linear predictor without random effects if columns were others."""
        return (0.3 + 0.4 * (self.frame.assign(**change)["f"] == "b")).to_numpy()

    def mean(self, how: str, **change: object) -> float:
        """The mean response if columns were others, with random effects at zero or integrated."""
        eta, x = self.fixed(**change), self.frame.assign(**change)["x"].to_numpy()
        if how == "zero":
            return float(LINKS[self.family](eta).mean())
        spread = np.hypot(self.spreads[0], self.spreads[1] * x)
        return float((LINKS[self.family](eta[:, None] + spread[:, None] * POINTS) @ WEIGHTS).mean() / WEIGHTS.sum())

    def averages(self, how: str) -> np.ndarray:
        """The average effects of x, w and f, and the adjusted means of f."""
        x, step = self.frame["x"], 1e-4
        slope = (self.mean(how, x=x + step) - self.mean(how, x=x - step)) / (2 * step)
        means = [self.mean(how, f=level) for level in "ab"]
        return np.array([slope, 0.0, means[1] - means[0], *means])


AVERAGES = ("effect of x", "effect of w", "effect of f", "mean of a", "mean of b")


def in_population(family: str, draw: Draw, groups: int, has_slopes: bool) -> dict:
    """The shares of a design with random intercepts of groups, or also with random slopes of x. x and f vary within groups, w
    between them."""
    random = np.random.default_rng(45)
    size = groups * (25 if groups < 50 else 8)
    group = np.arange(size) % groups
    frame = pd.DataFrame({"x": random.normal(size=size).round(4), "w": random.normal(size=groups).round(4)[group]})
    frame["f"] = random.choice(["a", "b"], size)
    frame["g"] = [f"g{number:03d}" for number in group]
    spreads = (0.5, 0.3) if family == "poisson" else (0.8, 0.5)
    truth = Truth(family, spreads if has_slopes else (spreads[0], 0.0), frame)
    # Integrals take most of the time.
    is_integrated = family != "gaussian" and not has_slopes and groups < 200
    ways = ("zero", "integrated") if is_integrated else ("zero",)
    expected = {how: truth.averages(how) for how in ways}
    counted: dict[str, list[bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        formula = f"x + w + f + ({'x ||' if has_slopes else '1 |'} g)"
        replicates = Replicates(frame, formula, family, Path(folder), std_errors="unconditional")
        for _ in range(POPULATION_REPLICATIONS):
            effects = random.normal(size=(2, groups)) * np.array(truth.spreads)[:, None]
            eta = truth.fixed() + effects[0][group] + effects[1][group] * frame["x"].to_numpy()
            estimates = replicates.estimates(draw(random, eta))
            table = coefficients.table(estimates, 0.95).set_index(["term", "level"])
            for term, value in ((("Intercept", ""), 0.3), (("x", ""), 0.0), (("w", ""), 0.0), (("f", "b"), 0.4)):
                row = table.loc[term]
                counted.setdefault(f"covered, {term[0]}", []).append(row["ci_lower"] <= value <= row["ci_upper"])
                if not value:
                    counted.setdefault(f"rejected, {term[0]}", []).append(row["p_value"] <= 0.05)
            for how in ways:
                given = replicates.design, estimates.fitted
                averaged = average_rows(*given, replicates.workload.files, ResultsConfig(random_effects=how))
                tables = marginal_tables(*given, averaged, {}, 0.95)
                limits = pd.concat([tables.effects, tables.means])[["ci_lower", "ci_upper"]].dropna().to_numpy(float)
                covered = (limits[:, 0] <= expected[how]) & (expected[how] <= limits[:, 1])
                for name, holds in zip(AVERAGES, covered.tolist(), strict=True):
                    counted.setdefault(f"covered, {name}, {how}", []).append(holds)
    return {name: round(float(np.mean(values)), 4) for name, values in counted.items()}


SMOOTHS, WITH_GROUPS = "s(x) + s(z)", "s(x) + s(g, bs=re)"

DESIGNS: dict[str, Callable[[], dict]] = {
    "gaussian, 200 rows": partial(measured, SMOOTHS, "gaussian", normal, 200, 1.0),
    "binomial, 500 rows": partial(measured, SMOOTHS, "binomial", events, 500, 1.0),
    "poisson, 300 rows": partial(measured, SMOOTHS, "poisson", counts, 300, 0.5),
    "gaussian with 40 groups, 400 rows": partial(measured, WITH_GROUPS, "gaussian", normal, 400, 1.0, SPREAD),
    "poisson with 40 groups, 400 rows": partial(measured, WITH_GROUPS, "poisson", counts, 400, 0.5, SPREAD),
    "gaussian with 40 groups alike, 400 rows": partial(measured, WITH_GROUPS, "gaussian", normal, 400, 1.0),
    "poisson with 40 groups alike, 400 rows": partial(measured, WITH_GROUPS, "poisson", counts, 400, 0.5),
    **{
        f"{name} with surfaces, {size} rows": partial(measured, f"{SURFACE} + te(v, w)", family, draw, size, 1.0)
        for name, family, draw, size in SURFACES
    },
    **{
        f"{family} in {CLUSTERS} clusters": partial(in_clusters, family, amplitude)
        for family, amplitude in (("gaussian", 1.0), ("binomial", 1.0), ("poisson", 0.5))
    },
    **{
        f"{family}, population of {groups} groups, {'slopes' if has_slopes else 'intercepts'}": partial(
            in_population, family, draw, groups, has_slopes
        )
        for family, draw in (("gaussian", normal), ("binomial", events), ("poisson", counts))
        for has_slopes in (False, True)
        for groups in (8, 20, 200)
    },
}


if __name__ == "__main__":
    path = ROOT / "benchmarks" / "results" / "smooths.json"
    results = json.loads(path.read_text())
    for name, design in DESIGNS.items():
        if not sys.argv[1:] or any(word in name for word in sys.argv[1:]):
            replications = POPULATION_REPLICATIONS if "population" in name else REPLICATIONS
            results[name] = {"replications": replications} | design()
            path.write_text(json.dumps(results, indent=1) + "\n")
