"""Writes the figures of results/fit.json into docs/benchmarks.md, between the marks; `--check` only sees whether they agree."""

import argparse
import json
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- fits:begin -->\n", "<!-- fits:end -->\n"


def row(name: str, fit: dict) -> str:
    """A line of the table."""
    return f"| {name} | {fit['seconds']:.1f} | {fit['end_to_end_seconds']:.0f} |"


def figures(fit: dict) -> str:
    """The text between the marks."""
    fits, lbfgs, learnt, path = fit["fits"], fit["lbfgs"], fit["online"]["asynchronous"], fit["path"]
    wide, medium, small = fits["wide"], fits["medium"], fits["small"]
    gap = fit["lbfgs_deviance_gap"]
    large, little = "10 million rows", "1 million rows"
    table = [
        "| | seconds | end to end |",
        "|---|---|---|",
        row(f"{large}, {wide['coefficients']:,} coefficients", wide),
        row("the same with one worker", fits["wide, one worker"]),
        row(f"{large}, {medium['coefficients']:,} coefficients", medium),
        row(f"{little}, {small['coefficients']:,} coefficients", small),
        row(f"{little}, a lasso path of 50 penalties, {path['coefficients']:,} coefficients", path),
    ]
    before = (
        "A logistic regression on a synthetic table like flights, with 8 categorical columns and 3 numbers, by 2 workers on the "
        "2 cores. `seconds` run from the first pass to the certificate of convergence and all standard errors; `end to end` "
        "includes the start and the end of all processes. No model needs compiling: the loops over rows are compiled once per "
        "machine."
    )
    peers = (
        f"glum takes {fit['glum_seconds_p800']:.0f} s for the {medium['coefficients']:,} coefficients, "
        f"{fit['speedup_vs_glum_p800']:.1f} times as long, with its table in memory and without standard errors. On "
        f"{little} 200 iterations of scikit-learn's lbfgs take {lbfgs['seconds']:.0f} s and end at a deviance "
        f"{f'{gap:,.0f} higher than ours' if gap > 1 else 'as low as ours'}. A gradient pass takes "
        f"{fit['gradient_ns_per_row']:.0f} ns per row and worker, reading included. A worker holds at most "
        f"{fit['worker_rss_mb'] / 1000:.1f} GB, {fit['worker_rss_large_to_small']:.1f} times as much as for a tenth of the "
        f"rows."
    )
    online = (
        f"An epoch of `adagrad` over the {large} takes {fit['online_epoch_seconds']:.1f} s "
        f"({fit['online_ns_per_row']:.0f} ns per row and worker), one of scikit-learn's `SGDClassifier` "
        f"{fit['sgdclassifier_epoch_seconds']:.1f} s. After {learnt['online']['epochs']} epochs the log loss on held-out rows "
        f"is {fit['online_log_loss']:.4f}, that of `SGDClassifier` {fit['sgdclassifier_log_loss']:.4f}, and the "
        f"log-likelihood is {fit['online_gap_a_row']:.1e} per row below its maximum. The path takes "
        f"{fit['path_information_passes']:.1f} information and {fit['path_gradient_passes']:.1f} gradient passes a penalty."
    )
    paragraphs = (textwrap.fill(paragraph, 128, break_on_hyphens=False) for paragraph in (before, peers, online))
    first, *rest = paragraphs
    return "\n\n".join([first, "\n".join(table), *rest]) + "\n"


def main(arguments: argparse.Namespace) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page = f"{before}{BEGIN}{figures(json.loads((HERE / 'results' / 'fit.json').read_text()))}{END}{after}"
    if arguments.check and page != text:
        sys.exit(
            "docs/benchmarks.md does not say what benchmarks/results/fit.json says; run `python benchmarks/page.py`"
        )
    PAGE.write_text(page)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    main(parser.parse_args())
