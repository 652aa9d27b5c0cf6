"""Jobs that SLURM ends for their memory or their deadline. This SLURM holds jobs to the memory that they ask for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_cluster
from slurm_cluster import Cluster
from slurm_runs import SLURM, checkout, cluster_for_tests, snakemake

pytestmark = [pytest.mark.slurm, pytest.mark.drill]

DICTIONARY = "results/flights/data/dictionary.json"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if not os.access(slurm_cluster.CGROUPS / "tasks", os.W_OK):
        pytest.skip("the kernel limits the memory of processes in control groups of version 2 alone")
    with cluster_for_tests(nodes=2, memory=True) as running:
        yield running


def states(cluster: Cluster, folder: Path) -> list[str]:
    return sorted(f"{job['Comment']} {job['JobState']}" for job in cluster.jobs(folder))


def test_a_job_without_enough_memory_is_reported_and_gets_more(cluster: Cluster, tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    # 40 MB, and 1,600 MB for the second attempt.
    asked = ["--set-resources", "ingest:mem_mb=40**attempt", "--retries", "1"]
    code, output = snakemake(folder, *SLURM, *asked, "--", DICTIONARY, environment=cluster.environment)
    assert code == 0 and "SLURM status is: 'OUT_OF_MEMORY'" in output, output
    ingested = [
        f"tfglm:{name}:ingest {state}" for name in ("autumn", "spring") for state in ("COMPLETED", "OUT_OF_MEMORY")
    ]
    assert states(cluster, folder) == sorted([*ingested, "tfglm:merge_dictionary COMPLETED"])


def test_a_job_that_cannot_end_before_its_deadline_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    asked = [
        "--default-resources",
        "mem_mb=2000",
        "runtime=30",
        "slurm_extra='--deadline=now+2minutes'",
        "--retries",
        "0",
    ]
    code, output = snakemake(folder, *SLURM, *asked, "--", DICTIONARY, environment=cluster.environment)
    assert code == 1 and "SLURM status is: 'DEADLINE'" in output, output
    assert states(cluster, folder) == ["tfglm:autumn:ingest DEADLINE", "tfglm:spring:ingest DEADLINE"]
