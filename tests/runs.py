"""The whole workflow, run as a user runs it."""

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import yaml

import forks

REPOSITORY = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


RESULTS = Path("results", "flights")
"""Where the default config has them."""

OPTIONS = ("--cores", "4", "--snakefile", str(REPOSITORY / "Snakefile"))


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", *OPTIONS, *arguments]


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """`snakemake --cores 4` in `folder`; what it prints on both streams is in stdout."""
    return forks.snakemake(folder, [*OPTIONS, *arguments], ENVIRONMENT, 600)


def succeed(folder: Path, *arguments: str) -> str:
    done = snakemake(folder, *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


def planned(folder: Path, *arguments: str) -> dict[str, int]:
    """How many jobs of each rule a run would execute."""
    return jobs_in(succeed(folder, "--dry-run", *arguments))


def jobs_in(printed: str) -> dict[str, int]:
    """The jobs of each rule in what a dry run has printed."""
    jobs = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", printed, re.MULTILINE)}
    assert bool(jobs) != ("Nothing to be done" in printed), printed
    return {rule: count for rule, count in jobs.items() if rule not in ("all", "total")}


def configure(folder: Path, change=lambda config: None) -> None:
    """Write the default config into `folder`, changed by `change`, which gets it as a dict."""
    config = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    change(config)
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def configure_flights(folder: Path, columns: str, last_day: int = 24, **sections: dict) -> None:
    """Write a config for `2006.csv` of `write_asa`: these columns, the days of a month up to the last one to train on, and
    sections in the place of the default ones."""

    def change(config: dict) -> None:
        config["data"].update(
            files=["2006.csv"],
            where={"flown": "cancelled = 0 AND diverted = 0"},
            split={"train": f"day <= {last_day}", "evaluate": f"day > {last_day}"},
            columns=columns.split(),
        )
        config.update(sections)

    configure(folder, change)


def contents(folder: Path) -> dict[str, str]:
    """A digest of each file below `folder`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def results(folder: Path) -> dict[str, str]:
    """A digest of every result but what is made anew with each fit (addresses, times) or by each check of a model; and of the
    shards. A record of an input file has its inode."""
    passing = re.compile(r"/cluster/|/design.json|/reference.json|levels.parquet|/history\.|source.json$")
    of_config, shared = contents(folder / RESULTS), contents(folder / "results" / "data")
    every = of_config | {f"data/{name}": digest for name, digest in shared.items()}
    return {name: digest for name, digest in every.items() if not passing.search(name)}


def configure_few(folder: Path, files: list[str], columns: dict[str, str], model: dict) -> None:
    """Write few.yaml, a config with a model `m` of files that have these columns; its results are in results/few."""
    (folder / "table.yaml").write_text(yaml.safe_dump({"columns": columns}))
    data = {"files": files, "layout": ["table.yaml"], "columns": [*columns], "split": {"train": "TRUE"}}
    config = {"data": data, "models": {"m": model}, "cluster": {"strategy": "one_device"}, "results": "results/few"}
    (folder / "few.yaml").write_text(yaml.safe_dump(config))


def results_of_models(folder: Path) -> dict[str, str]:
    """A digest of what fits and their results consist of, but for times and addresses."""
    names = contents(folder / RESULTS / "models")
    return {name: digest for name, digest in names.items() if "/cluster/" not in name and "/history." not in name}


def dry_runs(configs: dict[str, str], folder: Path, finished: Path, *targets: str) -> dict[str, str]:
    """What a dry run prints with each of these texts beside the config; two are asked for at a time."""

    def plan(case: str) -> str:
        path = folder / f"{case.replace(' ', '_')}.yaml"
        path.write_text(configs[case])
        return succeed(finished, "--dry-run", *targets, "--configfile", "config/config.yaml", str(path))

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(configs, pool.map(plan, configs), strict=True))


def read_table(folder: Path, model: str, results: Path = RESULTS) -> pd.DataFrame:
    path = folder / results / "models" / model / "coefficients.csv"
    return (
        pd.read_csv(path, dtype={"level": str, "reference": str, "status": str}, keep_default_na=False, na_values=[""])
        .fillna({"level": "", "reference": "", "status": ""})
        .set_index(["term", "level"])
    )


def read_json(folder: Path, *names: str, results: Path = RESULTS) -> dict:
    return json.loads(folder.joinpath(results, *names).read_text())


def processes_in(folder: Path) -> list[psutil.Process]:
    """The processes that work in `folder`."""
    return [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(folder)]


ASA_HEADER = [
    *("Year", "Month", "DayofMonth", "DayOfWeek", "DepTime", "CRSDepTime", "ArrTime", "CRSArrTime", "UniqueCarrier"),
    *("FlightNum", "TailNum", "ActualElapsedTime", "CRSElapsedTime", "AirTime", "ArrDelay", "DepDelay", "Origin"),
    *("Dest", "Distance", "TaxiIn", "TaxiOut", "Cancelled", "CancellationCode", "Diverted", "CarrierDelay"),
    *("WeatherDelay", "NASDelay", "SecurityDelay", "LateAircraftDelay"),
]


def write_asa(folder: Path, year: int, rows: int) -> pd.DataFrame:
    """A file of random flights in exactly the schema of ASA Data Expo 2009, 29 columns, unquoted, NA for missing."""
    random = np.random.default_rng(year)
    date = pd.Timestamp(year, 1, 1) + pd.to_timedelta(random.integers(0, 365, rows), unit="D")
    frame = pd.DataFrame({"Year": year, "Month": date.month, "DayofMonth": date.day, "DayOfWeek": date.day_of_week + 1})
    frame["CRSDepTime"] = 100 * random.integers(5, 24, rows) + random.integers(0, 60, rows)
    carriers = ["AA", "DL", "PA (1)", "UA"] if year == 2006 else ["AA", "DL", "WN"]
    frame["UniqueCarrier"] = random.choice(carriers, rows)
    frame["Origin"] = random.choice(["ATL", "ORD", "DFW"], rows)
    frame["Dest"] = random.choice(["BOS", "JFK", "LAX", "SEA"], rows)
    frame["Distance"] = random.integers(100, 2600, rows)
    frame["Cancelled"] = (random.random(rows) < 0.02).astype(int)
    frame["Diverted"] = 0
    eta = -1.2 + 0.5 * (frame["UniqueCarrier"] == "UA") + 0.06 * (frame["CRSDepTime"] // 100 - 13)
    delay = 15 + np.round(30 * (eta + random.logistic(size=rows)))
    frame["ArrDelay"] = delay.where(frame["Cancelled"] == 0).astype("Int64")
    frame = frame.reindex(columns=ASA_HEADER)
    frame.to_csv(folder / f"{year}.csv", index=False, na_rep="NA")
    return frame


NOISE = re.compile(r"warning|error|deprecat|^[WEI]\d{4} |oneDNN|cuda|libgomp", re.IGNORECASE)


def noise_in(folder: Path) -> list[str]:
    """The lines in logs that a good run does not write."""
    logs = list(folder.rglob("*.log"))
    assert logs, f"{folder} has no logs"
    return [f"{path}: {line}" for path in logs for line in path.read_text().splitlines() if NOISE.search(line)]
