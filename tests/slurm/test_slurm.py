"""`snakemake --profile slurm` on a real SLURM.

The tests bring up a cluster of simulated nodes (slurm_cluster.py). Where that is impossible they are skipped;
TFGLM_REQUIRE_SLURM=1 makes that a failure.
"""

import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from processes import wait_until
from slurm_cluster import Cluster
from slurm_runs import (
    ENVIRONMENT,
    FIT,
    NETWORK,
    PICTURE,
    SLURM,
    TABLE,
    checkout,
    cluster_for_tests,
    configure,
    finish,
    left_behind,
    of_the_cluster,
    results,
    snakemake,
    start_snakemake,
)
from tfglm.roles import announce

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_for_tests() as running:
        yield running


Running = tuple[Path, subprocess.Popen]
Start = Callable[..., Running]
DEEP = {"formula": "late ~ carrier + distance", "family": "binomial", "hidden": [4], "batch_size": 100, "epochs": 2}


ON_GPUS = {
    "deep": DEEP | {"gpus": 1},
    "served": DEEP | {"strategy": "parameter_server", "workers": 3, "gpus": 1},
    "many": DEEP | {"strategy": "mirrored", "gpus": 3},
}


# Most of their time the runs on SLURM wait for its answer whether a job has ended, so they go on side by side.
@pytest.fixture(scope="module")
def one_node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A clean checkout, and the run in it of the whole workflow on one node. The user edits the config while jobs wait."""
    folder = checkout(tmp_path_factory.mktemp("one") / "checkout", ps=1, workers=2)
    with start_snakemake(folder, *SLURM, environment=cluster.environment) as running:
        submitted = "has been submitted with SLURM jobid"
        wait_until(
            lambda: submitted in (folder / "snakemake.out").read_text() or running.poll() is not None, 120, "a job"
        )
        path = folder / "config" / "config.yaml"
        config = yaml.safe_load(path.read_text())
        config["models"]["late"] |= {"confidence": 0.5, "l2": 1.0, "reference": {"carrier": "UA"}, "threshold": 0.1}
        path.write_text(yaml.safe_dump(config))
        yield folder, running
        running.kill()


@pytest.fixture(scope="module")
def local(one_node: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout after a plain run, which is inside an allocation, as far as the environment tells, and stays local."""
    folder = checkout(tmp_path_factory.mktemp("local") / "checkout", ps=1, workers=2)
    code, output = snakemake(folder, "--cores", "2", TABLE, environment={**ENVIRONMENT, "SLURM_JOB_ID": "1"})
    assert code == 0, output
    return folder


@pytest.fixture(scope="module")
def start(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a run in a copy of a checkout; settings replace those of the config."""

    def run(of: Path, *line: str, **settings: Any) -> Running:
        folder = tmp_path_factory.mktemp("copy") / "checkout"
        shutil.copytree(of, folder, symlinks=True)
        if settings:
            configure(folder, **settings)
        running = runs.enter_context(start_snakemake(folder, *SLURM, *line, environment=cluster.environment))
        runs.callback(running.kill)
        return folder, running

    with contextlib.ExitStack() as runs:
        yield run


@pytest.fixture(scope="module")
def no_network(start: Start, local: Path) -> Running:
    """A copy of the local checkout, and a fit in it whose roles are to use a network interface that no node has."""
    wrong = [f"{rule}:{set_}" for rule in ("ps", "workers", "chief") for set_ in ("mpi=srun", "interface=ib7")]
    line = ["--forcerun", "chief", "--retries", "0", "--set-resources", *wrong, "--", FIT]
    return start(local, *line, ps=1, workers=2, nodes=3)


@pytest.fixture(scope="module")
def trained(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the local checkout with a trained network, whose regression is to be fitted in one process."""
    folder = tmp_path_factory.mktemp("trained") / "checkout"
    shutil.copytree(local, folder, symlinks=True)
    configure(folder, {"deep": DEEP}, strategy="one_device")
    code, output = snakemake(folder, "--cores", "2", NETWORK, environment=ENVIRONMENT)
    assert code == 0, output
    return folder


@pytest.fixture(scope="module")
def one_process(start: Start, trained: Path) -> Running:
    """A copy of that, and a run in it that fits the regression and trains the network again."""
    return start(trained, "--forcerun", "fit", "train", "--", FIT, NETWORK)


@pytest.fixture(scope="module")
def hour(start: Start, local: Path) -> Running:
    """A copy of the local checkout, and a run in it that makes table and picture on a partition with a limit of one hour."""
    line = ["--default-resources", "slurm_partition=hour", "runtime=30 * attempt", "mem_mb=2000"]
    line += ["--forcerun", "write_tables_vcov", "--", PICTURE]
    return start(local, *line)


@pytest.fixture(scope="module")
def never(start: Start, local: Path) -> Running:
    """The same, but it asks for more than the hour."""
    line = ["--default-resources", "slurm_partition=hour", "runtime=61", "mem_mb=2000", "--retries", "0"]
    line += ["--forcerun", "check_reference", "--", "results/flights/models/late/reference.json"]
    return start(local, *line)


@pytest.fixture(scope="module")
def refused(start: Start, local: Path) -> Running:
    """The same, and a fit in it that asks a node for more processes than it has processors."""
    return start(local, "--retries", "0", "--forcerun", "chief", "--", FIT, ps=1, workers=8)


@pytest.fixture(scope="module")
def on_gpu(start: Start, trained: Path) -> Running:
    """Another copy, and a run in it whose networks are to be trained on GPUs, of which the nodes have two by name only."""
    line = ["--retries", "0", "--keep-going", "--", *(NETWORK.replace("deep", name) for name in ON_GPUS)]
    return start(trained, *line, networks=ON_GPUS, strategy="one_device", nodes=2)


@pytest.fixture(scope="module")
def waiting(
    no_network: Running, one_process: Running, on_gpu: Running, hour: Running, never: Running, refused: Running
) -> None:
    """All runs of this module that wait for SLURM, each of which would be begun by the first test that asks for it."""


def test_one_fit_on_three_nodes(cluster: Cluster, local: Path, waiting: None, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    shutil.copytree(local, folder, symlinks=True)
    configure(folder, ps=2, workers=3, nodes=3)
    _, output = snakemake(folder, *SLURM, "--dry-run", TABLE, environment=cluster.environment)
    assert "Nothing to be done" in output

    code, output = snakemake(folder, *SLURM, "--forcerun", "chief", "--", FIT, environment=cluster.environment)
    assert code == 0, output
    # The fit is new to this run, which makes the table anew and the fit not.
    code, output = snakemake(folder, "--cores", "2", TABLE, environment=ENVIRONMENT)
    assert code == 0, output
    assert "write_tables" in output
    assert results(folder) == results(local)
    (group,) = of_the_cluster(cluster.jobs(folder))
    assert (group["NumNodes"], group["NodeList"], group["NumCPUs"]) == ("3", "node[1-3]", "9")
    members = [
        announce.read(path) for path in sorted((folder / "results/flights/models/late/cluster").glob("*-*.json"))
    ]
    assert [(each.name, each.node) for each in members] == [
        ("ps 0", "node1"),
        ("ps 1", "node1"),
        ("worker 0", "node2"),
        ("worker 1", "node3"),
        ("worker 2", "node2"),
    ]
    assert all(each.address.rpartition(":")[0] == cluster.addresses[each.node] for each in members)


def test_a_role_that_cannot_start_ends_the_job(no_network: Running) -> None:
    folder, running = no_network
    code, output = finish(folder, running)
    assert code == 1, output
    chief = (folder / "logs/flights/models/late/chief.log").read_text()
    assert re.search(r"error: no address of the network interface `ib7` on node\d: .*; it has lo, eth0", chief), output


def test_the_whole_workflow_on_one_node(cluster: Cluster, local: Path, one_node: tuple[Path, subprocess.Popen]) -> None:
    folder, running = one_node
    code, output = finish(folder, running)
    assert code == 0, output
    assert results(folder) == results(local)
    jobs = cluster.jobs(folder)
    assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    # All that Snakemake counts but `all` itself, with three in one for the cluster and three for the results.
    assert len(jobs) == int(re.search(r"^total +(\d+)$", output, re.M)[1]) - 1 - 2 - 2
    (group,) = of_the_cluster(jobs)
    assert (group["NumNodes"], group["NumCPUs"], group["MinMemoryNode"]) == ("1", "4", "8000M")
    # On a single node nobody else reaches them; several have to reach each other.
    assert json.loads((folder / "results/flights/models/late/cluster/network.json").read_text())["isolated"]


def test_a_config_that_is_put_back_after_an_edit_has_the_results_of_the_run(local: Path, one_node: Running) -> None:
    folder, running = one_node
    code, output = finish(folder, running)
    assert code == 0, output
    assert "confidence: 0.5" in (folder / "config/config.yaml").read_text()
    shutil.copyfile(local / "config/config.yaml", folder / "config/config.yaml")
    _, output = snakemake(folder, "--cores", "2", "--dry-run", environment=ENVIRONMENT)
    assert "Nothing to be done" in output
    assert results(folder) == results(local)


def test_a_partition_with_a_limit_of_one_hour_is_enough(cluster: Cluster, hour: Running) -> None:
    """The runtimes of the table and of its picture, which are one job, are added up."""
    folder, running = hour
    code, output = finish(folder, running)
    assert code == 0, output
    (job,) = cluster.jobs(folder)
    assert (job["Partition"], job["TimeLimit"], job["JobState"]) == ("hour", "00:20:00", "COMPLETED")


def test_a_job_that_slurm_never_starts_ends_the_run_with_its_reason(cluster: Cluster, never: Running) -> None:
    folder, running = never
    code, output = finish(folder, running)
    assert code == 1, output
    assert output.count("(late: check_reference) can never start: PartitionTimeLimit. ") >= 2, (
        output
    )  # when, and at the end
    assert [job["JobState"] for job in cluster.jobs(folder)] == ["CANCELLED"]


def test_a_group_of_jobs_that_sbatch_refuses_ends_the_run_with_its_reason(refused: Running) -> None:
    folder, running = refused
    code, output = finish(folder, running)
    assert code == 1, output
    reason = (
        "chief, ps, workers (late): SLURM sbatch failed. The error message was 'sbatch: error: CPU count per node can "
        "not be satisfied\n"
    )
    assert output.count(reason) == 2, output  # when, and at the end


def test_one_process_fits_and_trains_the_same_as_here(
    cluster: Cluster, local: Path, trained: Path, one_process: Running
) -> None:
    folder, running = one_process
    code, output = finish(folder, running)
    assert code == 0, output
    assert (folder / FIT).read_bytes() == (local / FIT).read_bytes()
    deep = trained / "results/flights/models/deep"
    files = [deep / "fit.json", *(deep / "checkpoint").iterdir()]
    assert (deep / "checkpoint" / "network.index") in files
    for path in files:
        assert (folder / path.relative_to(trained)).read_bytes() == path.read_bytes()
    jobs = {job["Comment"].strip("'\""): job for job in cluster.jobs(folder)}
    assert {job["JobState"] for job in jobs.values()} == {"COMPLETED"}
    assert [jobs[f"tfglm:{name}"]["NumCPUs"] for name in ("late:fit", "deep:train")] == ["1", "2"]


def test_a_network_is_given_the_gpus_that_it_asks_for(cluster: Cluster, on_gpu: Running) -> None:
    folder, running = on_gpu
    code, output = finish(folder, running)
    assert code == 1, output
    for refusal in (
        "networks.deep.gpus: the config asks for 1, and TensorFlow finds 0 on this machine",
        "networks.served.gpus: each worker asks for 1, and TensorFlow finds 0 there",
        "Requested node configuration is not available",
    ):
        assert refusal in output, output
    asked = {job["Comment"].strip("'\""): job["TresPerNode"] for job in cluster.jobs(folder) if "Tres" in str(job)}
    assert sorted(asked.values()) == ["gres:gpu:1", "gres:gpu:2", "gres:gpu:3"], asked
    # Three workers on two nodes of two: each has one of its own.
    logs = (folder / "logs/flights/models/served").glob("workers-*.log")
    has = re.compile(r"worker \d starting on (node\d).*worker \d has the GPUs (\d)\n", re.DOTALL)
    given = [has.search(log.read_text()).groups() for log in logs]
    assert len(set(given)) == 3 and sorted(number for _, number in given) == ["0", "0", "1"], given


def test_nothing_is_left_on_the_nodes(cluster: Cluster, local: Path) -> None:
    assert left_behind(cluster) == {}
