"""Writes the figures of results/large.json, fit.json, ingest.json and start.json into docs/benchmarks.md, and those of
results/links.json into docs/scaling.md, between the marks; `--check` only sees whether they agree.

results/measured.json has for each result its digest, the day, the engine and the processor. A result that is not there with its
digest was measured today, here, by this engine.
"""

import argparse
import datetime
import hashlib
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from link_page import figures_of_links
from scaling import machine
from start import CASES

from tfglm import ENGINE

HERE = Path(__file__).resolve().parent
DOCS, MEASURED = HERE.parent / "docs", HERE / "results" / "measured.json"
BEGIN, END = "<!-- {}:begin -->\n", "<!-- {}:end -->\n"


def row(name: str, fit: dict) -> str:
    """A line of the table."""
    return f"| {name} | {fit['seconds']:.1f} | {fit['end_to_end_seconds']:.0f} |"


def figures_of_ingest(ingest: dict) -> str:
    """The text about CSV to shards."""
    large, several, machine = (ingest[name] for name in ("large", "several", "machine"))
    names = {
        "tfglm": "tfglm, CSV to shards, the whole process",
        "polars": "polars, a streaming scan of the used columns",
        "duckdb": "DuckDB, the same",
        "pandas": "`pandas.read_csv` of the used columns",
    }
    table = ["| | MB/s | MB per second of a processor |", "|---|---|---|"]
    for name, meaning in names.items():
        table.append(f"| {meaning} | {large[name]['mb_per_s']:.0f} | {large[name]['mb_per_processor_s']:.0f} |")
    before = (
        f"CSV becomes shards: {large['csv_mb'] / 1000:.1f} GB, {large['rows'] / 1e6:.0f} million rows, "
        f"{large['bytes_per_row']:.0f} bytes a row in the shards. The programs take turns, with {machine['threads']} threads on "
        f"{machine['cores']} cores with other work. The other programs only read the file."
    )
    size = several["csv_mb"] / several["files"] / 1000
    one, both = (several[how]["mb_per_s"] for how in ("one after another", "at once"))
    after = (
        f"Memory peaks at {ingest['peak_rss_mb'] / 1000:.2f} GB, "
        f"{ingest['peak_rss_large_to_small']:.1f} times the peak for a tenth of the file. {several['files']} files of "
        f"{size:.1f} GB are ingested at {one:.0f} MB/s one after another and at {both:.0f} MB/s side by side "
        "([ingest.json](../benchmarks/results/ingest.json))."
    )
    return "\n\n".join([filled(before), "\n".join(table), filled(after)]) + "\n"


STAGES = {
    "ingest": "ingest, {jobs} files",
    "chief": "fit, {iterations} Newton steps on {rows:,} rows",
    "evaluate": "metrics of {evaluated:,} rows, averages of {rows:,} rows for marginal effects",
}
"""The words for a rule; all other rules come last, together."""


def figures_of_large(large: dict) -> str:
    """The text about 120 million rows."""
    fit, bytes_, stages = large["fit"], large["bytes"], dict(large["stages"])
    named = {rule: stages.pop(rule) for rule in STAGES if rule in stages}
    words = {**fit, "evaluated": large["metrics"]["rows"]}
    table = ["| stage | seconds | peak memory of a job |", "|---|---|---|"]
    for rule, stage in named.items():
        meaning = STAGES[rule].format(**words, **stage)
        table.append(f"| {meaning} | {stage['seconds']:.0f} | {stage['peak_rss_mb'] / 1000:.1f} GB |")
    seconds, peak = (
        pick(stage[key] for stage in stages.values()) for pick, key in ((sum, "seconds"), (max, "peak_rss_mb"))
    )
    table.append(f"| everything else | {seconds:.0f} | {peak / 1000:.1f} GB |")
    scan = f": {large['times_a_scan']:.1f} times what polars needs to scan the same columns" if "turns" in large else ""
    before = (
        f"A logistic regression with {fit['coefficients']:,} coefficients on {large['rows']:,} flights of 22 years, "
        f"{bytes_['csv'] / 1e9:.1f} GB of CSV, takes {large['seconds']:.0f} s on {large['cores']} cores from the files to the "
        f"pages ([large.json](../benchmarks/results/large.json)){scan}. Independent jobs "
        "run at the same time, so their seconds add up to more:"
    )
    covered = 100 * large["truth"]["within_1.96_standard_errors"]
    after = (
        f"The {bytes_['csv'] / 1e9:.1f} GB of CSV become {bytes_['shards'] / 1e9:.2f} GB of shards, and these "
        f"become {bytes_['model'] / 1e6:.1f} MB of results. For {covered:.1f} % of the coefficients "
        "the 95 % confidence interval contains the true value."
    )
    return "\n\n".join([filled(before), "\n".join(table), filled(after)]) + "\n"


def filled(paragraph: str) -> str:
    """Lines of the page's width."""
    return textwrap.fill(paragraph, 128, break_on_hyphens=False)


def missed(fit: dict) -> list[str]:
    """The aims that were missed, with the values reached."""
    of_lbfgs = {run["rows"]: run for run in fit["lbfgs"]}
    aims = [
        ("10 million rows in 4.0 s", f"{fit['newton_seconds']:.1f}", fit["newton_seconds"] <= 4.0),
        ("1 million in 1.5", f"{fit['fits']['small']['seconds']:.1f}", fit["fits"]["small"]["seconds"] <= 1.5),
        ("798 coefficients in 1.5", f"{fit['newton_seconds_p800']:.1f}", fit["newton_seconds_p800"] <= 1.5),
        ("8 times as fast as glum", f"{fit['speedup_vs_glum_p800']:.1f}", fit["speedup_vs_glum_p800"] >= 8),
        ("2 workers 1.8 times as fast as one", f"{fit['speedup_2_workers']:.1f}", fit["speedup_2_workers"] >= 1.8),
    ]
    for rows, times in ((1_000_000, 10), (10_000_000, 20)):
        if rows in of_lbfgs:
            ratio = of_lbfgs[rows]["times_as_long"]
            aims.append((f"{times} times as fast as lbfgs on {rows:,} rows", f"{ratio:.0f}", ratio >= times))
    return [f"{aim} ({there})" for aim, there, reached in aims if not reached]


def of_lbfgs(run: dict) -> str:
    """How long scikit-learn's lbfgs takes."""
    rows, times = (
        f"{run['rows'] / 1e6:.0f} million rows",
        f"{run['seconds']:.0f} s, {run['times_as_long']:.0f} times as long",
    )
    if run["same_deviance"]:
        return f"On {rows} it takes {times} and {run['iterations']:.0f} iterations"
    return f"On {rows} its deviance is {run['deviance_gap']:,.0f} higher after {times}, and {run['iterations']:.0f} iterations"


def figures_of_fits(fit: dict) -> str:
    """The text about fits."""
    fits, learnt, path = fit["fits"], fit["online"]["asynchronous"], fit["path"]
    wide, medium, small = fits["wide"], fits["medium"], fits["small"]
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
        "A logistic regression on synthetic flights, with 8 categorical columns and 3 numbers, by 2 workers on the "
        "2 cores. `seconds` run from the first pass to the certificate and all standard errors; `end to end` includes the start "
        "and the end of all processes."
    )
    peers = (
        f"glum takes {fit['glum_seconds_p800']:.0f} s for the {medium['coefficients']:,} coefficients, "
        f"{fit['speedup_vs_glum_p800']:.1f} times as long, with its table in memory and without standard errors. "
        f"scikit-learn's lbfgs has none either. {'. '.join(map(of_lbfgs, fit['lbfgs']))}. A worker holds at most "
        f"{fit['worker_rss_mb'] / 1000:.1f} GB, {fit['worker_rss_large_to_small']:.1f} times as much as for a tenth of the "
        f"rows."
    )
    aims = missed(fit)
    peers += f" Aims that were missed, with the value reached: {'; '.join(aims)}." if aims else ""
    online = (
        f"An epoch of `adagrad` over the {large} takes {fit['online_epoch_seconds']:.1f} s "
        f"({fit['online_ns_per_row']:.0f} ns per row and worker), and an epoch of scikit-learn's `SGDClassifier` "
        f"{fit['sgdclassifier_epoch_seconds']:.1f} s. After {learnt['online']['epochs']} epochs the log loss on held-out rows "
        f"is {fit['online_log_loss']:.4f}, with `SGDClassifier` {fit['sgdclassifier_log_loss']:.4f}."
    )
    first, *rest = map(filled, (before, peers, online))
    return "\n\n".join([first, "\n".join(table), *rest]) + "\n"


def written(page: Path, mark: str, figures: Callable[[dict], str], measured: Path) -> str:
    """The page with what the figures say between its marks."""
    begin, end = BEGIN.format(mark), END.format(mark)
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{figures(json.loads(measured.read_text()))}{end}{after}"


def figures_of_start(start: dict) -> str:
    """The text about small models."""
    table = ["| | seconds | processor seconds |", "|---|---|---|"]
    for case, numbers in start["cases"].items():
        table.append(f"| {CASES[case]} | {numbers['seconds']:.1f} | {numbers['processor_seconds']:.1f} |")
    machine = start["machine"]
    before = (
        f"With {start['rows']:,} rows starting programs takes most of the time. Medians of {start['turns']} turns on "
        f"{machine['cores']} cores with other work ([start.json](../benchmarks/results/start.json), `make bench-start`):"
    )
    after = "" if "glum" in start["cases"] else "\n" + filled("glum was not installed, and so not measured.") + "\n"
    return "\n\n".join(["\n## Small models", filled(before), "\n".join(table)]) + "\n" + after + "\n"


def record() -> dict[str, dict[str, str]]:
    """When, by which engine and on which processor each result was measured."""
    before = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    now = {"day": str(datetime.date.today()), "engine": ENGINE, "processor": machine()["processor"]}
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(MEASURED.parent.glob("*.json"))
        if path != MEASURED
    }
    return {
        name: before[name] if before.get(name, {}).get("sha256") == digest else {"sha256": digest} | now
        for name, digest in digests.items()
    }


def figures_of_measured(measured: dict) -> str:
    """The table of days and engines."""
    table = ["| result | day | engine | processor |", "|---|---|---:|---|"]
    for name, its in sorted(measured.items(), key=lambda item: (-int(item[1]["engine"]), item[0])):
        table.append(
            f"| [{name}](../benchmarks/results/{name}) | {its['day']} | {its['engine']} | {its['processor']} |"
        )
    before = (
        "A number of the engine is one state of its sums, solvers and tests; CHANGELOG.md says what changed. So a time of "
        "an older engine says what was true then."
    )
    return filled(before) + "\n\n" + "\n".join(table) + "\n"


PARTS: list[tuple[str, str, str, Callable[[dict], str]]] = [
    ("benchmarks.md", "large", "large", figures_of_large),
    ("benchmarks.md", "ingest", "ingest", figures_of_ingest),
    ("benchmarks.md", "fits", "fit", figures_of_fits),
    ("benchmarks.md", "start", "start", figures_of_start),
    ("benchmarks.md", "measured", "measured", figures_of_measured),
    ("scaling.md", "links", "links", lambda links: figures_of_links(links, filled)),
]
"""Page, mark, result and text of each part."""


def main(arguments: argparse.Namespace) -> None:
    recorded = json.dumps(record(), indent=1) + "\n"
    if not arguments.check:
        MEASURED.write_text(recorded)
    elif recorded != MEASURED.read_text():
        sys.exit("benchmarks/results/measured.json does not have all results; run `python benchmarks/page.py`")
    for name, mark, result, figures in PARTS:
        page, measured = DOCS / name, HERE / "results" / f"{result}.json"
        if not measured.exists():
            continue
        text = written(page, mark, figures, measured)
        if not arguments.check:
            page.write_text(text)
        elif text != page.read_text():
            sys.exit(
                f"docs/{name} does not say what benchmarks/results/{result}.json says; run `python benchmarks/page.py`"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    main(parser.parse_args())
