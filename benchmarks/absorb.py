"""How long two absorbed factors take, and how much memory, beside pyfixest: the same rows, coefficients and clusters.

Each fit is a process of its own, whose seconds of the processor and peak memory count from the rows in memory (pyfixest) or the
shards on disk (tfglm, in one process) to the table. Writes benchmarks/results/absorb.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

SHAPES = {"100,000 x 10,000": (100_000, 10_000), "42,000 x 7,500": (42_000, 7_500)}
RESPONSES = {"gaussian": "y", "binomial": "event"}
NUMBERS = [f"x{number}" for number in range(1, 6)]

PYFIXEST = """
import json, sys, time, pandas, pyfixest
rows, family, response, formula = sys.argv[1:]
frame = pandas.read_parquet(rows)
begun, used = time.perf_counter(), time.process_time()
options = {"vcov": {"CRV1": "first"}, "lean": True, "store_data": False, "copy_data": False}
fit = pyfixest.feols if family == "gaussian" else lambda *args, **more: pyfixest.feglm(*args, family="logit", **more)
table = fit(f"{response} ~ {formula} | first + second", frame, **options).tidy()
peak = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 1024
print(json.dumps({"seconds": time.perf_counter() - begun, "processor_seconds": time.process_time() - used, "peak_mb": peak,
                  "estimates": list(table["Estimate"]), "std_errors": list(table["Std. Error"])}))
"""


def make(rows: int, levels: tuple[int, int], path: Path) -> None:
    """Rows whose factors are in their numbers and in both responses."""
    random = np.random.default_rng(7)
    first, second = (random.integers(0, number, rows) for number in levels)
    of_first, of_second = (random.normal(0, 0.5, number) for number in levels)
    numbers = random.normal(size=(len(NUMBERS), rows))
    numbers[0] += of_first[first]
    numbers[1] += of_second[second]
    eta = of_first[first] + of_second[second] + 0.2 * numbers[0] - 0.1 * numbers[1] + 0.3 * numbers[2]
    columns = {
        "first": first.astype(np.int32),
        "second": second.astype(np.int32),
        **dict(zip(NUMBERS, numbers, strict=True)),
    }
    columns["y"] = eta + random.normal(size=rows)
    columns["event"] = (random.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    pl.DataFrame(columns).write_parquet(path)


def ingest_rows(path: Path, folder: Path) -> None:
    from tfglm.config import Layout, SelectionConfig
    from tfglm.data.ingest import ingest

    types = {"first": "integer", "second": "integer", **dict.fromkeys([*NUMBERS, "y"], "number"), "event": "integer"}
    settings = {"split": {"train": "TRUE"}, "columns": list(types)}
    layout = Layout.model_validate({"columns": types})
    ingest(path, "rows", {"rows": layout}, SelectionConfig.model_validate(settings), folder)


def fit_by_tfglm(folder: Path, family: str) -> dict:
    """What a process of its own prints."""
    import time

    from pools import IngestedFile, design_of, fit_design, merge, table_of

    begun, used = time.perf_counter(), time.process_time()
    file = IngestedFile.load(folder / "manifest.json")
    design = design_of(
        f"{RESPONSES[family]} ~ {' + '.join(NUMBERS)}",
        family,
        merge([file]),
        [file],
        absorb=["first", "second"],
        std_errors="cluster(first)",
    )
    table = table_of(design, fit_design(design, [file]))
    return {
        "seconds": time.perf_counter() - begun,
        "processor_seconds": time.process_time() - used,
        # Not ru_maxrss, in which is what the parent held before.
        "peak_mb": int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024,
        "estimates": table.estimate.tolist(),
        "std_errors": table.std_error.tolist(),
    }


def asked(command: list[str], threads: int) -> dict:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(answer.stdout.splitlines()[-1])


def main(rows: int, times: int, peer: str) -> None:
    results: dict = {"rows": rows, "shapes": {}}
    for shape, levels in SHAPES.items():
        with tempfile.TemporaryDirectory() as scratch:
            path, folder = Path(scratch) / "rows.parquet", Path(scratch) / "shards"
            make(rows, levels, path)
            ingest_rows(path, folder)
            of_shape = results["shapes"][shape] = {}
            for family, response in RESPONSES.items():
                fits: dict[str, list[dict]] = {"tfglm": [], "pyfixest": []}
                for _ in range(times):  # in turn
                    fits["tfglm"].append(asked([sys.executable, __file__, "--shards", str(folder), family], 1))
                    theirs = [peer, "-c", PYFIXEST, str(path), family, response, " + ".join(NUMBERS)]
                    fits["pyfixest"].append(asked(theirs, os.cpu_count() or 1))
                of_shape[family] = {
                    name: {key: min(run[key] for run in runs) for key in ("seconds", "processor_seconds", "peak_mb")}
                    for name, runs in fits.items()
                }
                mine, other = (np.array(fits[name][0]["estimates"]) for name in fits)
                errors = np.array(fits["tfglm"][0]["std_errors"])
                of_shape[family]["difference_in_std_errors"] = float(np.max(np.abs(mine - other) / errors))
    (ROOT / "benchmarks/results/absorb.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=2, help="how often each is fitted; the fastest counts")
    parser.add_argument("--peer", default="python", help="a Python that has pyfixest")
    parser.add_argument("--shards", nargs=2, help="fit these by tfglm, with this family, and print what came of it")
    arguments = parser.parse_args()
    if arguments.shards:
        print(json.dumps(fit_by_tfglm(Path(arguments.shards[0]), arguments.shards[1])))
    else:
        main(arguments.rows, arguments.times, arguments.peer)
