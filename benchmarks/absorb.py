"""How long absorbed factors take, and how much memory, beside pyfixest: the same rows, coefficients and clusters.

Each fit is a process of its own, whose seconds of the processor and peak memory count from the rows in memory (pyfixest) or the
shards on disk (tfglm, in one process) to the table. The shapes of `ALONE` are fitted by tfglm alone. Writes
benchmarks/results/absorb.json.
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
LARGE = {"1,000,000 x 300,000": (1_000_000, 300_000)}
AIRCRAFT, FLIGHTS, ROUTES = 14_000, 8_000, 6_000
THREE = f"{AIRCRAFT:,} + {FLIGHTS:,} + {ROUTES:,}"
ROUTES_OF_AIRCRAFT, FLIGHTS_OF_ROUTE, ROWS_OF_FILE = 60, 10, 10_000_000
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


def make_flights(rows: int, file: int, path: Path) -> None:
    """Rows of one file of several, with three factors: an aircraft flies some routes, and a route has some flight numbers."""
    random, world = np.random.default_rng(file), np.random.default_rng(7)
    of_aircraft, of_flight, of_route = (world.normal(0, 0.3, number) for number in (AIRCRAFT, FLIGHTS, ROUTES))
    routes = world.integers(0, ROUTES, (AIRCRAFT, ROUTES_OF_AIRCRAFT))
    flights = world.integers(0, FLIGHTS, (ROUTES, FLIGHTS_OF_ROUTE))
    first = random.integers(0, AIRCRAFT, rows)
    third = routes[first, random.integers(0, ROUTES_OF_AIRCRAFT, rows)]
    second = flights[third, random.integers(0, FLIGHTS_OF_ROUTE, rows)]
    numbers = random.normal(size=(2, rows)).round(2)  # as minutes and miles are, few distinct ones
    eta = of_aircraft[first] + of_flight[second] + of_route[third] + 0.2 * numbers[0] - 0.1 * numbers[1]
    factors = {"first": first, "second": second, "third": third}
    columns = {name: codes.astype(np.int32) for name, codes in factors.items()}
    columns |= {"x1": numbers[0], "x2": numbers[1], "y": (eta + random.normal(size=rows)).round(2)}
    columns["event"] = (random.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    pl.DataFrame(columns).write_parquet(path)


def ingest_rows(path: Path, folder: Path) -> None:
    from tfglm.config import Layout, SelectionConfig
    from tfglm.data.ingest import ingest

    columns = pl.read_parquet_schema(path)
    types = {name: "integer" if dtype.is_integer() else "number" for name, dtype in columns.items()}
    settings = {"split": {"train": "TRUE"}, "columns": list(types)}
    layout = Layout.model_validate({"columns": types})
    ingest(path, folder.name, {"rows": layout}, SelectionConfig.model_validate(settings), folder)


def fit_by_tfglm(folder: Path, family: str) -> dict:
    """What a process of its own prints."""
    import time

    from pools import IngestedFile, design_of, fit_design, merge, table_of

    begun, used = time.perf_counter(), time.process_time()
    files = [IngestedFile.load(path) for path in sorted(folder.glob("*/manifest.json"))]
    columns = [column.name for column in files[0].manifest.columns]
    numbers, factors = ([name for name in of if name in columns] for of in (NUMBERS, ("first", "second", "third")))
    design = design_of(
        f"{RESPONSES[family]} ~ {' + '.join(numbers)}",
        family,
        merge(files),
        files,
        absorb=factors,
        std_errors="cluster(first)",
    )
    fitted = fit_design(design, files)
    table = table_of(design, fitted)
    return {
        "seconds": time.perf_counter() - begun,
        "processor_seconds": time.process_time() - used,
        # Not ru_maxrss, in which is what the parent held before.
        "peak_mb": int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024,
        "pairs_of_levels": fitted.summary["absorbed"]["pairs_of_levels"],
        "iterations": fitted.summary["iterations"],
        "within_standard_errors": fitted.summary["certificate"]["within_standard_errors"],
        "estimates": table.estimate.tolist(),
        "std_errors": table.std_error.tolist(),
    }


def asked(command: list[str], threads: int) -> dict:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(answer.stdout.splitlines()[-1])


def fit_shards(shards: Path, family: str) -> dict:
    return asked([sys.executable, __file__, "--shards", str(shards), family], 1)


def beside_pyfixest(shards: Path, path: Path, times: int, peer: str) -> dict:
    """Both families by both programs in turn; of each the fastest run."""
    of_shape = {}
    for family, response in RESPONSES.items():
        fits: dict[str, list[dict]] = {"tfglm": [], "pyfixest": []}
        for _ in range(times):
            fits["tfglm"].append(fit_shards(shards, family))
            theirs = [peer, "-c", PYFIXEST, str(path), family, response, " + ".join(NUMBERS)]
            fits["pyfixest"].append(asked(theirs, os.cpu_count() or 1))
        of_shape[family] = {
            name: {key: min(run[key] for run in runs) for key in ("seconds", "processor_seconds", "peak_mb")}
            for name, runs in fits.items()
        }
        mine, other = (np.array(fits[name][0]["estimates"]) for name in fits)
        errors, others = (np.array(fits[name][0]["std_errors"]) for name in fits)
        of_shape[family]["difference_in_std_errors"] = float(np.max(np.abs(mine - other) / errors))
        of_shape[family]["difference_of_std_errors"] = float(np.max(np.abs(others / errors - 1)))
        of_shape[family]["load"] = os.getloadavg()[0]
    return of_shape


def alone(shards: Path) -> dict:
    found = {family: fit_shards(shards, family) for family in RESPONSES}
    return {family: {key: value for key, value in fit.items() if key != "estimates"} for family, fit in found.items()}


def main(rows: int, of_three: int, times: int, peer: str) -> None:
    path = ROOT / "benchmarks/results/absorb.json"
    results = json.loads(path.read_text()) if path.exists() else {}

    def record(shape: str, rows: int, found: dict) -> None:
        results[shape] = {"rows": rows, **found}
        path.write_text(json.dumps(results, indent=2) + "\n")

    for shape, levels in (SHAPES | LARGE).items() if rows else ():
        with tempfile.TemporaryDirectory() as scratch:
            table, shards = Path(scratch) / "rows.parquet", Path(scratch) / "shards"
            make(rows, levels, table)
            ingest_rows(table, shards / "rows")
            record(shape, rows, alone(shards) if shape in LARGE else beside_pyfixest(shards, table, times, peer))
    if of_three:
        with tempfile.TemporaryDirectory() as scratch:
            table, shards = Path(scratch) / "rows.parquet", Path(scratch) / "shards"
            for file in range(-(-of_three // ROWS_OF_FILE)):
                make_flights(min(ROWS_OF_FILE, of_three), file, table)
                ingest_rows(table, shards / f"rows{file:02}")
            record(THREE, of_three, alone(shards))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--of-three", type=int, default=120_000_000, help="rows with three factors")
    parser.add_argument("--times", type=int, default=2, help="how often each is fitted; the fastest counts")
    parser.add_argument("--peer", default="python", help="a Python that has pyfixest")
    parser.add_argument("--shards", nargs=2, help="fit these by tfglm, with this family, and print what came of it")
    arguments = parser.parse_args()
    if arguments.shards:
        print(json.dumps(fit_by_tfglm(Path(arguments.shards[0]), arguments.shards[1])))
    else:
        main(arguments.rows, arguments.of_three, arguments.times, arguments.peer)
