"""How often do 95 % intervals of average marginal effects and adjusted means cover the truth, also in scenarios?

Responses are drawn again and again for the same made-up rows, and fitted as a user's are. Writes benchmarks/results/margins.json:
by design and quantity the share of intervals with the truth in them; `chance` is how far from 0.95 chance alone would bring it.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.special

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from replicates import Replicates  # noqa: E402
from tfglm.config import ResultsConfig  # noqa: E402
from tfglm.results.marginal_tables import marginal_tables  # noqa: E402
from tfglm.results.margins import average_rows  # noqa: E402
from tfglm.results.scenario_table import scenario_table  # noqa: E402

ROWS, CLUSTERS = 1000, 100
EFFECTS = {"AA": 0.0, "B6": 0.4, "DL": -0.3, "UA": 0.6}
FORMULA = "carrier * hour + wind"
DESIGNS = {
    "binomial": ("binomial", {}),
    "poisson, robust": ("poisson", {"std_errors": "robust"}),
    "gaussian, by cluster": ("gaussian", {"std_errors": "cluster(date)"}),
}
SCENARIOS = {"early": {"hour": "-1"}, "late": {"hour": "1.5"}}
MEAN = {"binomial": scipy.special.expit, "poisson": np.exp, "gaussian": lambda eta: eta}


def covariates() -> pd.DataFrame:
    random = np.random.default_rng(1)
    date = random.integers(0, CLUSTERS, ROWS)
    carrier = random.choice(list(EFFECTS), ROWS, p=[0.4, 0.3, 0.2, 0.1])
    return pd.DataFrame(
        {"carrier": carrier, "hour": random.normal(size=ROWS), "date": date, "wind": random.normal(size=CLUSTERS)[date]}
    )


def linear_predictor(frame: pd.DataFrame) -> np.ndarray:
    eta = -0.4 + frame["carrier"].map(EFFECTS) + 0.5 * frame["hour"] - 0.2 * frame["wind"]
    return (eta + 0.3 * frame["hour"] * (frame["carrier"] == "B6")).to_numpy()


def truth(frame: pd.DataFrame, family: str) -> dict[str, float]:
    """The averages over the rows, the slopes by differences."""

    def average(**change) -> float:
        return float(MEAN[family](linear_predictor(frame.assign(**change))).mean())

    means = {f"mean {level}": average(carrier=level) for level in EFFECTS}
    effects = {f"effect {level}": means[f"mean {level}"] - means["mean AA"] for level in list(EFFECTS)[1:]}
    step = 1e-4
    for name in ("hour", "wind"):
        effects[f"effect {name}"] = (average(**{name: frame[name] + step}) - average(**{name: frame[name] - step})) / (
            2 * step
        )
    return effects | means | in_scenarios(average, frame)


def in_scenarios(average: Callable[..., float], frame: pd.DataFrame) -> dict[str, float]:
    """The means and effects in scenarios, and their differences: in the order of the table."""
    step, known = 1e-4, {}
    for name, scenario in SCENARIOS.items():
        hour = float(scenario["hour"])
        of_levels = {level: average(hour=hour, carrier=level) for level in EFFECTS}
        known[name] = {"mean": average(hour=hour)}
        known[name] |= {f"effect {level}": of_levels[level] - of_levels["AA"] for level in list(EFFECTS)[1:]}
        known[name]["effect hour"] = (average(hour=hour + step) - average(hour=hour - step)) / (2 * step)
        higher, lower = (average(hour=hour, wind=frame["wind"] + each) for each in (step, -step))
        known[name]["effect wind"] = (higher - lower) / (2 * step)
    result = {f"{name}, {what}": value for name, each in known.items() for what, value in each.items()}
    return result | {f"late - early, {what}": value - known["early"][what] for what, value in known["late"].items()}


def draw(family: str, frame: pd.DataFrame, random: np.random.Generator) -> np.ndarray:
    """Responses; those of a gaussian are alike within dates."""
    mean = MEAN[family](linear_predictor(frame))
    if family == "binomial":
        return (random.random(ROWS) < mean).astype(float)
    if family == "poisson":
        return random.poisson(mean).astype(float)
    return mean + 0.5 * random.normal(size=CLUSTERS)[frame["date"]] + random.normal(size=ROWS)


def coverage(family: str, settings: dict, replicates: int, seed: int, folder: Path) -> dict[str, float]:
    frame = covariates()
    fits = Replicates(frame, FORMULA, family, folder, **settings)
    random, exact = np.random.default_rng(seed), truth(frame, family)
    covered = np.zeros(len(exact))
    for _ in range(replicates):
        estimates = fits.estimates(draw(family, frame, random))
        averaged = average_rows(fits.design, estimates.fitted, fits.workload.files, ResultsConfig(margins_at=SCENARIOS))
        given = fits.design, estimates.fitted, averaged, {}, 0.95
        tables = marginal_tables(*given)
        scenarios = scenario_table(*given)
        limits = pd.concat([tables.effects, tables.means, scenarios])[["ci_lower", "ci_upper"]].to_numpy(float)
        values = np.array(list(exact.values()))
        # An effect without an interval is 0 by the model.
        covered += np.isnan(limits[:, 0]) | ((limits[:, 0] <= values) & (values <= limits[:, 1]))
    return dict(zip(exact, (covered / replicates).tolist(), strict=True))


def main(arguments: argparse.Namespace) -> None:
    result: dict = {"replicates": arguments.replicates, "chance": 1.96 * (0.05 * 0.95 / arguments.replicates) ** 0.5}
    for name, (family, settings) in DESIGNS.items():
        with tempfile.TemporaryDirectory() as folder:
            result[name] = coverage(family, settings, arguments.replicates, arguments.seed, Path(folder))
    arguments.results.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "margins.json")
    main(parser.parse_args())
