"""Networks that several processes on three nodes of a real SLURM train, beside a regression that peers there fit."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_cluster import Cluster
from slurm_runs import (
    SLURM,
    checkout,
    cluster_for_tests,
    configure,
    finish,
    left_behind,
    of_the_cluster,
    start_snakemake,
)
from tfglm.roles import announce

pytestmark = [pytest.mark.slurm, pytest.mark.drill]

ALONE = {"formula": "late ~ carrier + distance", "family": "binomial", "hidden": [4], "batch_size": 100, "epochs": 2}
NETWORKS = {
    "alone": ALONE,
    "ring": ALONE | {"strategy": "multi_worker_mirrored", "workers": 3},
    "served": ALONE | {"strategy": "parameter_server", "ps": 2, "workers": 2},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_for_tests() as running:
        yield running


def test_networks_are_trained_on_three_nodes(cluster: Cluster, tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    configure(folder, NETWORKS, strategy="multi_worker_mirrored", workers=3, nodes=3)
    fits = {name: f"results/flights/models/{name}/fit.json" for name in (*NETWORKS, "late")}
    with start_snakemake(folder, *SLURM, "--", *fits.values(), environment=cluster.environment) as running:
        code, output = finish(folder, running, 600)
    assert code == 0, output
    alone, ring, served, late = (json.loads((folder / path).read_text()) for path in fits.values())
    assert late["converged"] and late["rows"] == alone["rows"]
    assert ring["steps"] == alone["steps"] and abs(ring["loss"] - alone["loss"]) < 1e-5
    assert served["rows"] == alone["rows"] and abs(served["loss"] - alone["loss"]) < 0.02
    trained = {job["Comment"]: job["NumNodes"] for job in cluster.jobs(folder) if job["Comment"].endswith(":train")}
    assert trained == {"tfglm:alone:train": "1", "tfglm:ring:train": "3", "tfglm:served:train": "3"}
    assert [job["NumNodes"] for job in of_the_cluster(cluster.jobs(folder))] == ["3"]
    assert nodes(folder, "ring") == nodes(folder, "late") == [("peer 0", "node2"), ("peer 1", "node3")]
    assert nodes(folder, "served") == [
        ("ps 0", "node1"),
        ("ps 1", "node1"),
        ("worker 0", "node2"),
        ("worker 1", "node3"),
    ]
    assert left_behind(cluster) == {}


def nodes(folder: Path, model: str) -> list[tuple[str, str]]:
    """Where the processes of a training were."""
    rosters = sorted((folder / "results" / "flights" / "models" / model / "cluster").glob("*-*.json"))
    return [(member.name, member.node) for member in map(announce.read, rosters)]
