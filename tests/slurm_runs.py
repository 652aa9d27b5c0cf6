"""Runs of Snakemake on a SLURM that the tests have brought up."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import slurm_cluster
from slurm_cluster import Cluster

ROOT = Path(__file__).parents[1]
FIT, TABLE = "results/flights/models/late/fit.json", "results/flights/models/late/coefficients.csv"
NETWORK = "results/flights/models/deep/fit.json"
PICTURE = "results/flights/models/late/coefficients.svg"
# The executor asks after that many seconds whether a job has ended, then 10 s later each time than the time before: at 12, 34
# and 66 s. With the 10, 30, 60 s of the profile the tests take longer on a busy machine, whose short jobs take just over 10.
SLURM = ("--profile", "slurm", "--slurm-init-seconds-before-status-checks", "12")
CHECKED_OUT = ("Snakefile", "config", "profiles", "scripts", "slurm", "workflow")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}


@contextlib.contextmanager
def cluster_for_tests(accounting: bool = False, **options: Any) -> Iterator[Cluster]:
    """A cluster, if this machine has what one takes; else the tests are skipped, or fail."""
    if lacking := slurm_cluster.missing(accounting):
        (pytest.fail if os.environ.get("TFGLM_REQUIRE_SLURM") == "1" else pytest.skip)(lacking)
    with (
        tempfile.TemporaryDirectory(prefix="tfglm-slurm-") as folder,
        slurm_cluster.cluster(Path(folder), environment=ENVIRONMENT, accounting=accounting, **options) as running,
    ):
        yield running


def checkout(folder: Path, **cluster: int) -> Path:
    """A clean checkout, whose config fits one model to 6,000 rows in two files."""
    folder.mkdir()
    for name in CHECKED_OUT:
        source = ROOT / name
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name, follow_symlinks=False)
    (folder / "data").mkdir()
    numbers = np.random.default_rng(7)
    for name in ("spring", "autumn"):
        carrier, distance = numbers.choice(["AA", "DL", "UA"], 3000), numbers.integers(100, 3000, 3000)
        late = numbers.random(3000) < 0.2 + 0.1 * (carrier == "UA") + distance / 20_000
        frame = pd.DataFrame({"carrier": carrier, "distance": distance, "late": late.astype(int)})
        frame.to_csv(folder / "data" / f"{name}.csv", index=False)
    layout = {"columns": {"carrier": "string", "distance": "integer", "late": "integer"}}
    (folder / "data" / "layout.yaml").write_text(yaml.safe_dump(layout))
    configure(folder, **cluster)
    return folder


def configure(folder: Path, networks: dict | None = None, **cluster: int | str) -> None:
    data = {"files": ["data/*.csv"], "layout": "data/layout.yaml", "split": {"train": "TRUE"}}
    data["columns"] = ["carrier", "distance", "late"]
    # With a table that few models have, so that its job has a name of its own.
    models = {"late": {"formula": "late ~ carrier + distance", "family": "binomial", "vcov": True}}
    config = {
        "results": "results/flights",
        "data": data,
        "models": models,
        "networks": networks or {},
        "cluster": cluster,
    }
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))


def start_snakemake(folder: Path, *arguments: str, environment: dict[str, str]) -> subprocess.Popen:
    with (folder / "snakemake.out").open("w") as out:
        line = [sys.executable, "-m", "snakemake", "--verbose", *arguments]
        return subprocess.Popen(line, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)


def finish(folder: Path, running: subprocess.Popen, seconds: float = 240) -> tuple[int, str]:
    """The exit code of a run, and what it has printed and logged."""
    try:
        code = running.wait(seconds)
    finally:
        running.kill()
    logs = sorted([*folder.glob("logs/**/*.log"), *folder.glob(".snakemake/slurm_logs/**/*.log")])
    return code, "\n".join(f"--- {log}\n{log.read_text()}" for log in [folder / "snakemake.out", *logs])


def snakemake(folder: Path, *arguments: str, environment: dict[str, str]) -> tuple[int, str]:
    return finish(folder, start_snakemake(folder, *arguments, environment=environment))


def results(folder: Path) -> dict[str, bytes]:
    return {
        name: (folder / "results/flights/models/late" / name).read_bytes() for name in ("coefficients.csv", "fit.json")
    }


def of_the_cluster(jobs: list[dict[str, str]]) -> list[dict[str, str]]:
    return [job for job in jobs if job.get("Comment", "").endswith(":fit")]


def left_behind(cluster: Cluster, patience_seconds: float = 10.0) -> dict[str, set[int]]:
    """The processes that still run on nodes when all jobs are over, SLURM's own left out."""
    deadline = time.monotonic() + patience_seconds
    while left := {node: running for node in cluster.addresses if (running := cluster.processes(node))}:
        if time.monotonic() > deadline:
            return left
        time.sleep(0.5)
    return {}
