"""How much faster more workers fit a regression, through the workflow.

Writes results/scaling.json beside this file. The same fit is made with each number of workers in turn, and that again in each
round, so that what else runs on the machine slows all of them alike: what counts are the ratios within a round. `seconds` run
from the first pass to the certificate, `end_to_end_seconds` from the command to its end, with the start of all processes.

In each round, two fits with one worker each also run at the same time, without anything in common. Two workers cannot be faster
than these two fits together, because they share the memory and the clock of the same machine. This is the `limit`.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "scripts")]

import synthetic  # noqa: E402

import ingest  # noqa: E402

LAYOUT = {
    "description": "A table like airline data without its meaning.",
    "columns": {
        "late": "integer",
        **dict.fromkeys(synthetic.LEVELS, "string"),
        **dict.fromkeys(synthetic.NUMBERS, "number"),
    },
}
CONFIG = {
    "results": "results/flights",
    "data": {
        "files": ["table.parquet"],
        "layout": "layout.yaml",
        "split": {"train": "TRUE"},
        "columns": list(LAYOUT["columns"]),
    },
    "models": {"late": {"formula": synthetic.FORMULA, "family": "binomial"}},
}
MODEL = Path("results", "flights", "models", "late")
LOCAL = ("--cores", str(os.cpu_count()))
ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def prepare(folder: Path, rows: int) -> None:
    """Have the table, its config and its shards in a folder."""
    table = folder / "table.parquet"
    made = folder / "rows"
    if not made.exists() or made.read_text() != str(rows):
        shutil.rmtree(folder, ignore_errors=True)
        synthetic.write(table, rows)
        made.write_text(str(rows))
    (folder / "layout.yaml").write_text(yaml.safe_dump(LAYOUT))
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    snakemake(folder, 1, MODEL / "design.json")


def snakemake(
    folder: Path,
    workers: int,
    target: Path,
    where: Sequence[str] = LOCAL,
    environment: Mapping[str, str] = ENVIRONMENT,
    ps: int = 1,
) -> None:
    """Make a file by the workflow. On a SLURM each worker has a node, and the chief and its parameter servers have another."""
    line = ["snakemake", *where, "--quiet", "all", "--snakefile", str(ROOT / "Snakefile")]
    line += ["--directory", str(folder), "--configfile", str(folder / "config.yaml")]
    line += ["--config", f"cluster={{ps: {ps}, workers: {workers}, nodes: {workers + 1}}}", "--", str(target)]
    done = subprocess.run(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout)


def fit(folder: Path, workers: int, where: Sequence[str] = LOCAL, environment: Mapping[str, str] = ENVIRONMENT) -> dict:
    """Fit anew with so many workers."""
    (folder / MODEL / "fit.json").unlink(missing_ok=True)
    started = time.perf_counter()
    snakemake(folder, workers, MODEL / "fit.json", where, environment)
    end_to_end = time.perf_counter() - started
    seconds = re.findall(r"fitted in ([\d.]+) s", (folder / "logs/flights/models/late/chief.log").read_text())
    report = json.loads((folder / MODEL / "fit.json").read_text())
    return {
        "workers": workers,
        "seconds": float(seconds[-1]),
        "end_to_end_seconds": end_to_end,
        "checkpoint": str(report["checkpoint"]),
    }


def limit(folders: Sequence[Path], alone: dict) -> float:
    """Rows per second of fits in these folders at the same time, one worker each, as a multiple of those of one fit alone."""
    with ThreadPoolExecutor() as executor:
        slowest = max(each["seconds"] for each in executor.map(fit, folders, [1] * len(folders)))
    return len(folders) * alone["seconds"] / slowest


def machine() -> dict:
    """The machine, and how busy it is: what else runs on it, and this."""
    return {"processor": ingest.processor(), "cores": os.cpu_count(), "load_average": os.getloadavg()[0]}


def ratios(rounds: list[list[dict]], key: str) -> dict[str, list[float]]:
    """By number of workers, the time of the first number in the same round divided by the time: above 1 is faster."""
    by_workers: dict[str, list[float]] = {}
    for first, *others in rounds:
        for other in others:
            by_workers.setdefault(str(other["workers"]), []).append(first[key] / other[key])
    return by_workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=HERE / "data" / "scaling", help="folder to work in, which is kept")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3], help="the first is 1")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    folders = [arguments.data / name for name in ("first", "second")]
    for folder in folders:
        prepare(folder, arguments.rows)
    rounds, limits = [], []
    for _ in range(arguments.rounds):
        rounds.append([fit(folders[0], workers) for workers in arguments.workers])
        limits.append(limit(folders, rounds[-1][0]))
    fits = [each for of_round in rounds for each in of_round]
    if len({each["checkpoint"] for each in fits}) > 1:
        raise SystemExit("the fits differ, and should be the same bit for bit")
    coefficients = json.loads((folders[0] / MODEL / "fit.json").read_text())["coefficients"]
    faster = {key: ratios(rounds, key) for key in ("seconds", "end_to_end_seconds")}
    figures = {
        "rows": arguments.rows,
        "coefficients": coefficients,
        "fits": [
            {"round": number, **{key: value for key, value in each.items() if key != "checkpoint"}}
            for number, of_round in enumerate(rounds, start=1)
            for each in of_round
        ],
        "times_as_fast": faster,
        "median_times_as_fast": {
            key: {workers: statistics.median(values) for workers, values in by_workers.items()}
            for key, by_workers in faster.items()
        },
        "limit": {"times_as_fast": limits, "median": statistics.median(limits)},
        "machine": machine(),
    }
    (HERE / "results" / "scaling.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
