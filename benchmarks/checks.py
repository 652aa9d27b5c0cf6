"""How often do the checks of a right model raise a false alarm?

Responses of two numbers and a factor are drawn again and again from each family, and fitted by the model that drew them. Counted
is how often some check is amber, and how often one is red.

Writes benchmarks/results/checks.json. Takes some minutes.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]

from pools import fit_files, ingest_frame  # noqa: E402
from tfglm.results.checks import checks  # noqa: E402

Random = np.random.Generator

REPLICATIONS, ROWS = 200, 150

FAMILIES: dict[str, tuple[Callable[[np.ndarray, Random], np.ndarray], dict]] = {
    "gaussian": (lambda eta, random: eta + random.normal(size=ROWS), {}),
    "binomial": (lambda eta, random: (random.random(ROWS) < 1 / (1 + np.exp(-eta))).astype(int), {}),
    "poisson": (lambda eta, random: random.poisson(np.exp(eta)), {}),
    "negative_binomial": (lambda eta, random: random.negative_binomial(1.5, 1.5 / (1.5 + np.exp(1 + eta))), {}),
    "gamma": (lambda eta, random: random.gamma(1.5, np.exp(eta) / 1.5), {"link": "log"}),
}


def false_alarms(family: str) -> dict[str, float]:
    """The shares of fits with an amber and with a red check."""
    (draw, settings), random, alarms = FAMILIES[family], np.random.default_rng(31), Counter()
    for _ in range(REPLICATIONS):
        frame = pd.DataFrame({"x": random.normal(size=ROWS), "z": random.exponential(size=ROWS)}).round(4)
        frame["g"] = random.choice(list("abcd"), ROWS)
        frame["y"] = draw(0.3 * (frame["x"] + frame["z"]).to_numpy() + 0.4 * (frame["g"] == "b").to_numpy(), random)
        with tempfile.TemporaryDirectory() as folder:
            file = ingest_frame(frame, Path(folder))
            design, fitted, _ = fit_files([file], "y ~ x + z + g", family, **settings)
            found = checks(design.as_fitted(fitted.summary), fitted, fitted.summary, [file])
        alarms.update({each.verdict for each in found})
    return {verdict: alarms[verdict] / REPLICATIONS for verdict in ("amber", "red")}


if __name__ == "__main__":
    results = {"rows": ROWS, "replications": REPLICATIONS}
    for family in FAMILIES:
        results[family] = false_alarms(family)
        print(family, results[family], flush=True)
    (ROOT / "benchmarks" / "results" / "checks.json").write_text(json.dumps(results, indent=1) + "\n")
