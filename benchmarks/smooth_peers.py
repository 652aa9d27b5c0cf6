"""How long smooth terms and random effects take, and how much memory, beside mgcv's bam(discrete = TRUE): the same rows.

The rows are like flights: delays by hour, distance and temperature, with smooths of 20 coefficients each, and a random effect of
each aircraft. Each fit is a process of its own. Seconds and peak memory count from the shards on disk (tfglm, in one process) or
from the rows in memory (mgcv, with two threads) to the fit. The peak of mgcv includes these rows. If the response is not normal,
bam chooses smoothing parameters by another approximation; `largest_difference` is that of linear predictors, in standard errors.
With 10 million rows it writes benchmarks/results/smooth_peers.json, with the load of the machine and the BLAS of R. Debian's own
multiplies matrices far more slowly than OpenBLAS, and those of bam have a row for each aircraft. Needs R with mgcv and jsonlite.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

RESPONSES = {"gaussian": "delay", "binomial": "late"}
FORMULA = "s(hour, k=20) + s(distance, k=20) + s(temperature, k=20) + (1 | aircraft)"
SHOWN = 200
"""Rows whose linear predictors are compared."""

MGCV = """
suppressPackageStartupMessages({library(mgcv); library(jsonlite)})
given <- commandArgs(TRUE)
read <- function() {
  if (requireNamespace("data.table", quietly = TRUE)) return(as.data.frame(data.table::fread(given[1])))
  read.csv(given[1])
}
rows <- read()
rows$aircraft <- factor(rows$aircraft)
formula <- as.formula(paste(
  given[3], "~ s(hour, k = 20, bs = 'cr') + s(distance, k = 20, bs = 'cr') + s(temperature, k = 20, bs = 'cr')",
  "+ s(aircraft, bs = 're')"
))
begun <- proc.time()
fit <- bam(formula, given[2], rows, discrete = TRUE, nthreads = 2)
used <- proc.time() - begun
status <- grep("VmHWM", readLines("/proc/self/status"), value = TRUE)
predicted <- predict(fit, rows[1:as.integer(given[4]), ], se.fit = TRUE, discrete = FALSE)
cat(toJSON(list(
  seconds = used[["elapsed"]], processor_seconds = used[["user.self"]] + used[["sys.self"]],
  blas = basename(extSoftVersion()[["BLAS"]]),
  peak_mb = as.numeric(gsub("[^0-9]", "", status)) / 1024, eta = as.vector(predicted$fit), std_error = as.vector(predicted$se.fit)
), digits = NA, auto_unbox = TRUE))
"""


def make(rows: int, levels: int, path: Path) -> None:
    """Rows with both responses."""
    random = np.random.default_rng(38)
    aircraft = random.integers(0, levels, rows)
    hour = random.integers(0, 24 * 12, rows) / 12
    distance = np.round(random.gamma(2, 400, rows) / 10) * 10 + 50
    temperature = random.normal(12, 9, rows).round(1)
    eta = np.sin((hour - 9) / 4) + 0.3 * np.log(distance / 700) + 0.0015 * (temperature - 15) ** 2
    eta = 0.6 * eta + random.normal(0, 0.3, levels)[aircraft] - 1
    columns = {"aircraft": aircraft, "hour": hour.round(4), "distance": distance, "temperature": temperature}
    columns["delay"] = (eta + random.normal(size=rows)).round(3)
    columns["late"] = (random.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    pl.DataFrame(columns).write_csv(path)


def ingest_rows(path: Path, folder: Path) -> None:
    from tfglm.config import Layout, SelectionConfig
    from tfglm.data.ingest import ingest

    whole = {"aircraft", "late"}
    columns = ["aircraft", "hour", "distance", "temperature", *RESPONSES.values()]
    layout = Layout.model_validate({"columns": {name: "integer" if name in whole else "number" for name in columns}})
    settings = {"split": {"train": "TRUE"}, "columns": columns}
    ingest(path, folder.name, {"rows": layout}, SelectionConfig.model_validate(settings), folder)


def fit_by_tfglm(folder: Path, family: str, rows: Path) -> dict:
    """What a process of its own prints."""
    import pandas as pd

    from pools import IngestedFile, design_of, fit_design, ingest_frame, merge
    from tfglm.results import predict

    begun, used = time.perf_counter(), time.process_time()
    files = [IngestedFile.load(path) for path in sorted(folder.glob("*/manifest.json"))]
    design = design_of(f"{RESPONSES[family]} ~ {FORMULA}", family, merge(files), files)
    fitted = fit_design(design, files)
    result = {
        "seconds": time.perf_counter() - begun,
        "processor_seconds": time.process_time() - used,
        # Not ru_maxrss, in which is what the parent held before.
        "peak_mb": int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024,
        "iterations": fitted.summary["iterations"],
    }
    with tempfile.TemporaryDirectory() as place:
        first = ingest_frame(pd.read_csv(rows, nrows=SHOWN), Path(place), split={"train": "FALSE", "predict": "TRUE"})
        tables = predict.predictions(design, fitted, first, {}, [], 0.95)
        predicted = pd.concat([each.to_pandas() for each in tables]).sort_values("row")
    return result | {"eta": predicted["linear_predictor"].tolist()}


def asked(command: list[str], threads: int) -> dict:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(answer.stdout.splitlines()[-1])


def compared(rows: Path, shards: Path, family: str, times: int) -> dict:
    """Both programs in turn; of each the fastest run."""
    fits: dict[str, list[dict]] = {"tfglm": [], "mgcv": []}
    for _ in range(times):
        fits["tfglm"].append(asked([sys.executable, __file__, "--shards", str(shards), family, str(rows)], 1))
        script = rows.with_suffix(".R")
        script.write_text(MGCV)
        fits["mgcv"].append(asked(["Rscript", str(script), str(rows), family, RESPONSES[family], str(SHOWN)], 1))
    figures = ("seconds", "processor_seconds", "peak_mb")
    result: dict = {
        name: {key: round(min(run[key] for run in runs), 2) for key in figures} for name, runs in fits.items()
    }
    ours, theirs = (np.array(fits[name][0]["eta"]) for name in ("tfglm", "mgcv"))
    error = np.array(fits["mgcv"][0]["std_error"])
    result |= {"blas_of_r": fits["mgcv"][0]["blas"], "load": round(os.getloadavg()[2], 1)}
    return result | {"largest_difference": round(float(np.max(np.abs(ours - theirs) / error)), 4)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--levels", type=int, default=500, help="aircraft")
    parser.add_argument("--families", nargs="+", default=list(RESPONSES), choices=list(RESPONSES))
    parser.add_argument("--times", type=int, default=1, help="runs of each program")
    parser.add_argument("--shards", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.shards:
        shards, family, rows = arguments.shards
        print(json.dumps(fit_by_tfglm(Path(shards), family, Path(rows))))
        sys.exit()
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "rows.csv"
        make(arguments.rows, arguments.levels, table)
        ingest_rows(table, Path(place) / "shards" / "rows")
        results = {"rows": arguments.rows, "levels": arguments.levels, "processors": os.cpu_count()}
        for family in arguments.families:
            results[family] = compared(table, Path(place) / "shards", family, arguments.times)
            print(family, results[family], flush=True)
    if arguments.rows >= 10_000_000:
        (ROOT / "benchmarks" / "results" / "smooth_peers.json").write_text(json.dumps(results, indent=1) + "\n")
