"""Do tests and intervals keep their level with HC0 to HC3, clusters of two columns, and errors that allow for serial correlation?

Responses without any effect are drawn again and again and fitted as a user's are:

- `variances`: 200 rows whose variance grows with a number, one of them far out; HC0 to HC3 (250 rows for HC3 of a logistic
  regression)
- `crossed`: 100 dates and 80 planes of unequal sizes; rows of a date share something, and rows of a plane; a number by row, one
  by date and one by plane
- `cr1`: 60 or 110 clusters of unequal sizes, with CR1 as for many coefficients; two covariates are constant in clusters
- `dates`: 1,000 rows on 200 dates, or 2,000 on 1,000, whose errors share a series with autocorrelation 0.5; numbers by row and,
  autocorrelated as much, by date; `driscoll_kraay` with the default lags
- `series`: 400 dates of one row each; `newey_west` with the default lags
- `ordered`: four ordered classes, the highest with a tenth of the rows, by the latent variable of each link: 300 independent rows
  with classical errors, or 110 clusters as in `cr1` whose rows share something
- `pairs`: how often Tukey's and Holm's method find any difference of the 15 of six levels, of which some are rare
- `profile`: 120 rows of a logistic or Poisson regression with an effect; how often profile likelihood and Wald intervals do
  not cover it

The responses of `crossed`, `cr1` and `dates-400` are also `rare` events, `counts` with more variance than Poisson's, and
`ties`, which are rounded to few values.

Writes benchmarks/results/robust_inference.json, in the form of clustered_inference.json. Takes some minutes.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.special
from clustered_inference import FAMILIES, LEVEL, ROOT, SHARED, counted, responses  # which finds tests and scripts

from replicates import Replicates
from tfglm.formula.terms import INTERCEPT, THRESHOLD
from tfglm.results import coefficients
from tfglm.results.joint import joint_tests
from tfglm.results.pairwise import pairwise
from tfglm.solvers.run import Limits

Random = np.random.Generator


class Case(NamedTuple):
    """A frame of covariates, the formula, family and std_errors of a fit, and what draws responses. `is_cr1` asks for CR1. Of
    ordered `classes` responses are the numbers; `link` is that of the fit."""

    frame: pd.DataFrame
    formula: str
    family: str
    std_errors: str
    draw: Callable[[Random], np.ndarray]
    is_cr1: bool = False
    classes: int = 0
    link: str | None = None

    def replicates(self, folder: Path) -> Replicates:
        order = {"class_order": [f"class {number}" for number in range(self.classes)]} if self.classes else {}
        settings = {"std_errors": self.std_errors, "link": self.link, **order}
        limits = Limits(largest_cr2=0) if self.is_cr1 else None
        return Replicates(self.frame, self.formula, self.family, folder, self.classes, limits, **settings)


def series(dates: int, random: Random, correlation: float = 0.5) -> np.ndarray:
    """A stationary first-order autoregressive series with variance 1, [dates]."""
    steps = random.normal(size=dates) * np.sqrt(1 - correlation**2)
    values = np.empty(dates)
    values[0] = random.normal()
    for date in range(1, dates):
        values[date] = correlation * values[date - 1] + steps[date]
    return values


def variances(rows: int, std_errors: str, family: str, random: Random) -> Case:
    x = random.normal(size=rows).round(3)
    x[0] = 4.0
    frame = pd.DataFrame({"x": x, "z": random.normal(size=rows).round(3), "g": random.choice(list("abcd"), rows)})

    def draw(random: Random) -> np.ndarray:
        if family == "binomial":
            return (random.random(rows) < scipy.special.expit(-0.5)).astype(float)
        return random.normal(size=rows) * (0.5 + np.abs(x))

    return Case(frame, "x + z + g", family, std_errors, draw)


def crossed(kind: str, random: Random) -> Case:
    rows, dates, planes = 3_000, 100, 80
    sizes = random.lognormal(sigma=0.5, size=planes)
    date, plane = random.integers(0, dates, rows), random.choice(planes, rows, p=sizes / sizes.sum())
    wind, age = random.normal(size=dates).round(3)[date], random.normal(size=planes).round(3)[plane]
    frame = pd.DataFrame(
        {"date": date, "plane": plane, "x": random.normal(size=rows).round(3), "wind": wind, "age": age}
    )
    frame["g"] = random.choice(list("abc"), rows)

    def draw(random: Random) -> np.ndarray:
        shared = 0.4 * (random.normal(size=dates)[date] + random.normal(size=planes)[plane])
        if kind == "binomial":
            return (random.random(rows) < scipy.special.expit(-0.8 + 1.5 * shared)).astype(float)
        return responses(kind, shared, random)

    return Case(frame, "x + wind + age + g", FAMILIES[kind], "cluster(date + plane)", draw)


def unequal(clusters: int, random: Random) -> pd.DataFrame:
    """Rows of clusters of unequal sizes, with covariates; two are constant in clusters."""
    sizes = np.maximum(3, random.lognormal(np.log(25), 0.6, clusters)).astype(int)
    cluster = np.repeat(np.arange(clusters), sizes)
    covariates = {"wind": random.normal(size=clusters).round(3)[cluster], "few": (cluster < clusters // 2).astype(int)}
    covariates["x"] = random.normal(size=len(cluster)).round(3)
    covariates["g"] = random.choice(list("abcd"), len(cluster), p=[0.5, 0.3, 0.15, 0.05])
    return pd.DataFrame({"date": cluster} | covariates)


def cr1(kind: str, clusters: int, random: Random) -> Case:
    frame = unequal(clusters, random)

    def draw(random: Random) -> np.ndarray:
        return responses(kind, SHARED * random.normal(size=clusters)[frame["date"]], random)

    return Case(frame, "wind + few + x + g", FAMILIES[kind], "cluster(date)", draw, is_cr1=True)


LATENT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "logit": scipy.special.logit,
    "probit": scipy.special.ndtri,
    "cloglog": lambda share: np.log(-np.log1p(-share)),
}
"""By link, the quantiles of the latent variable."""

CUMULATIVE_SHARES = np.array([0.3, 0.6, 0.9])


def ordered(link: str, clusters: int, random: Random) -> Case:
    rows = unequal(clusters or 12, random)
    frame = rows if clusters else rows[:300]
    date, quantile = frame["date"].to_numpy(), LATENT[link]

    def draw(random: Random) -> np.ndarray:
        shared = SHARED * random.normal(size=clusters)[date] if clusters else 0.0
        return np.searchsorted(quantile(CUMULATIVE_SHARES), shared + quantile(random.random(len(frame)))).astype(float)

    terms = "wind + few + x + g" if clusters else "x + g"
    errors = "cluster(date)" if clusters else "classical"
    return Case(frame, terms, "ordinal", errors, draw, classes=len(CUMULATIVE_SHARES) + 1, link=link)


def dated(dates: int, rows: int, std_errors: str, random: Random, kind: str = "gaussian") -> Case:
    date = np.sort(np.concatenate([np.arange(dates), random.integers(0, dates, rows - dates)]))
    frame = pd.DataFrame(
        {"date": date, "x": random.normal(size=rows).round(3), "wind": series(dates, random).round(3)[date]}
    )
    frame["g"] = random.choice(list("abcd"), rows)
    frame["season"] = date * 4 // dates

    def draw(random: Random) -> np.ndarray:
        shared = 0.5 * series(dates, random)[date]
        return responses(kind, shared, random) if rows > dates else shared + 0.1 * random.normal(size=rows)

    return Case(frame, "x + wind + g + C(season)", FAMILIES[kind], std_errors, draw)


CASES: dict[str, Callable[[Random], Case]] = {
    **{
        f"variances-{kind}-gaussian": lambda random, kind=kind: variances(200, kind, "gaussian", random)
        for kind in ("HC0", "HC1", "HC2", "HC3")
    },
    "variances-HC3-binomial": lambda random: variances(250, "HC3", "binomial", random),
    **{
        f"crossed-{kind}": lambda random, kind=kind: crossed(kind, random)
        for kind in ("gaussian", "binomial", "rare", "counts", "ties")
    },
    **{
        f"cr1-{clusters}-{kind}": lambda random, kind=kind, clusters=clusters: cr1(kind, clusters, random)
        for clusters in (60, 110)
        for kind in ("gaussian", "rare", "counts", "ties")
    },
    **{
        f"ordered-{link}{'-cluster' if clusters else ''}": lambda random, link=link, clusters=clusters: ordered(
            link, clusters, random
        )
        for link in LATENT
        for clusters in (0, 110)
    },
    **{
        f"dates-400-{kind}": lambda random, kind=kind: dated(400, 1_200, "driscoll_kraay(date)", random, kind)
        for kind in ("rare", "counts", "ties")
    },
    "dates-200": lambda random: dated(200, 1_000, "driscoll_kraay(date)", random),
    "dates-1000": lambda random: dated(1_000, 2_000, "driscoll_kraay(date)", random),
    "series-400": lambda random: dated(400, 400, "newey_west(date)", random),
}


def paired(rows: int, family: str, std_errors: str, random: Random) -> Case:
    dates = 80
    date, wind = random.integers(0, dates, rows), random.normal(size=rows).round(3)
    level = random.choice(list("abcdef"), rows, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    frame = pd.DataFrame({"g": level, "wind": wind, "date": date})

    def draw(random: Random) -> np.ndarray:
        shared = 0.4 * random.normal(size=dates)[date] if std_errors.startswith("cluster") else np.zeros(rows)
        if family == "binomial":
            return (random.random(rows) < scipy.special.expit(-0.5 + shared)).astype(float)
        return shared + random.normal(size=rows)

    return Case(frame, "g + wind", family, std_errors, draw)


PAIRS: dict[str, Callable[[Random], Case]] = {
    "pairs-gaussian": lambda random: paired(300, "gaussian", "classical", random),
    "pairs-binomial": lambda random: paired(1_500, "binomial", "classical", random),
    "pairs-HC3": lambda random: paired(600, "gaussian", "HC3", random),
    "pairs-cluster": lambda random: paired(3_000, "gaussian", "cluster(date)", random),
}


def find_any(case: Case, replications: int, folder: Path) -> dict:
    """How often some pair of levels is said to differ."""
    random = np.random.default_rng(23)
    replicates = case.replicates(folder)
    found = {"p_tukey": 0, "p_holm": 0, "p_value": 0}
    for _ in range(replications):
        table = pairwise(replicates.estimates(case.draw(random)), ["g"], 1 - LEVEL)
        for name in found:
            found[name] += bool((table[name] < LEVEL).any())
    shares = {f"any_{name}": round(count / replications, 4) for name, count in found.items()}
    return {"replications": replications, "rows": len(case.frame), "std_errors": case.std_errors} | shares


EFFECT = {"binomial": 1.0, "poisson": 0.5}


def profiled(family: str, replications: int, folder: Path) -> dict:
    """How often profile likelihood and Wald intervals miss the effect of a number, below and above."""
    random, rows = np.random.default_rng(23), 120
    frame = pd.DataFrame({"x": random.normal(size=rows).round(3), "z": random.normal(size=rows).round(3)})
    replicates = Replicates(frame, "x + z", family, folder, profile={"x": {"x": 1.0}})
    effect = EFFECT[family]
    mean = {"binomial": scipy.special.expit, "poisson": np.exp}[family](
        (-1.5 if family == "binomial" else 0) + effect * frame["x"]
    )
    missed = {"profile_below": 0, "profile_above": 0, "wald_below": 0, "wald_above": 0}
    fitted = 0
    for _ in range(replications):
        y = random.random(rows) < mean if family == "binomial" else random.poisson(mean)
        summary_of = replicates.estimates(np.asarray(y, float)).fitted.summary
        profile = next(iter(summary_of["profile"]), None)
        if profile is None or profile["ci_upper"] is None or profile["ci_lower"] is None:
            continue
        fitted += 1
        for kind, prefix in (("profile", "ci"), ("wald", "wald")):
            missed[f"{kind}_below"] += profile[f"{prefix}_upper"] < effect
            missed[f"{kind}_above"] += profile[f"{prefix}_lower"] > effect
    shares = {name: round(count / fitted, 4) for name, count in missed.items()}
    return {"replications": fitted, "rows": rows, "effect": effect, **shares}


def simulate(case: Case, replications: int, folder: Path) -> dict:
    """What has come of the replications."""
    random = np.random.default_rng(23)
    replicates = case.replicates(folder)
    of_coefficients, of_terms = [], []
    for _ in range(replications):
        estimates = replicates.estimates(case.draw(random))
        table = coefficients.table(estimates, 1 - LEVEL)
        table = table[~table["term"].isin([INTERCEPT, THRESHOLD]) & ~estimates.reference]
        of_coefficients.append(table.assign(df=table.get("df", estimates.fitted.summary["df_residual"])))
        terms = joint_tests(estimates)
        of_terms.append(
            terms.assign(df_denominator=terms.get("df_denominator", estimates.fitted.summary["df_residual"]))
        )
    start = {"replications": replications, "rows": len(case.frame), "std_errors": case.std_errors}
    return start | counted(of_coefficients, of_terms)


PROFILES = {"profile-binomial": "binomial", "profile-poisson": "poisson"}

ALL = [*CASES, *PAIRS, *PROFILES]


def main(arguments: argparse.Namespace) -> None:
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    for name in arguments.cases:
        with tempfile.TemporaryDirectory() as folder:
            random = np.random.default_rng(5)
            if name in PROFILES:
                results[name] = profiled(PROFILES[name], arguments.replications, Path(folder))
            elif name in PAIRS:
                results[name] = find_any(PAIRS[name](random), arguments.replications, Path(folder))
            else:
                results[name] = simulate(CASES[name](random), arguments.replications, Path(folder))
        arguments.results.write_text(json.dumps(results, indent=1) + "\n")
        print(name, {key: value for key, value in results[name].items() if not isinstance(value, dict)}, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=ALL, metavar="case", help=", ".join(ALL))
    parser.add_argument("--replications", type=int, default=1_000)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "robust_inference.json")
    main(parser.parse_args())
