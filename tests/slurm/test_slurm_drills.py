"""What can go wrong on a SLURM in the middle of a fit: a job that is cancelled, a node that goes down, a time limit, a controller
that is away. The run says so in bounded time, or goes on; the same command then ends with the very same numbers. This SLURM keeps
accounts, which that of test_slurm.py does not.

All of them wait for SLURM's answers most of the time, so they go on side by side.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from processes import wait_until
from runs import processes_in
from slurm_cluster import Cluster
from slurm_runs import (
    ENVIRONMENT,
    FIT,
    SLURM,
    checkout,
    cluster_for_tests,
    finish,
    left_behind,
    of_the_cluster,
    snakemake,
    start_snakemake,
)

pytestmark = [pytest.mark.slurm, pytest.mark.drill]

PENALTIES, PASSES = 200, 60
GROUP = {"ps": 1, "workers": 2, "nodes": 2, "patience": 120, "stall": 60}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_for_tests(nodes=9, accounting=True, sharing="EXCLUSIVE") as running:
        yield running


@pytest.fixture(scope="module")
def local(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which a path of many penalties has been fitted without SLURM."""
    folder = checkout(tmp_path_factory.mktemp("local") / "checkout", **GROUP)
    path = folder / "config" / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["models"]["late"]["path"] = {"number": PENALTIES, "select": "aic", "smallest": 1e-4}
    path.write_text(yaml.safe_dump(config))
    code, output = snakemake(folder, "--cores", "2", FIT, environment=ENVIRONMENT)
    assert code == 0, output
    return folder


def progress(folder: Path) -> dict:
    try:
        return json.loads((folder / "logs/flights/models/late/progress.json").read_text())
    except FileNotFoundError:
        return {"passes": 0, "state": ""}


def fit_on_slurm(cluster: Cluster, local: Path, folder: Path, *more: str) -> subprocess.Popen:
    """A copy of that checkout, in which the fit is begun anew on two nodes."""
    shutil.copytree(local, folder, symlinks=True)
    (folder / FIT).unlink()
    (folder / "logs/flights/models/late/progress.json").unlink()
    return start_snakemake(folder, *SLURM, *more, "--", FIT, environment=cluster.environment)


def in_the_middle(folder: Path, running: subprocess.Popen) -> None:
    """Wait until the journal has so many sums; the last one that was made may still be on its way to the disk."""
    deadline = time.monotonic() + 400
    while progress(folder)["passes"] <= PASSES:
        assert running.poll() is None and time.monotonic() < deadline, finish(folder, running)[1]
        time.sleep(0.1)


def job_of(cluster: Cluster, folder: Path) -> dict[str, str]:
    return of_the_cluster(cluster.jobs(folder))[-1]


ACCOUNTS = ("--slurm-status-command", "sacct")

Ended = tuple[Path, int, str, float]


def ended(folder: Path, running: subprocess.Popen) -> Ended:
    """The folder, the exit code, all that was said, and the seconds until the end."""
    began = time.monotonic()
    code, output = finish(folder, running, 600)
    return folder, code, output, time.monotonic() - began


def cancelled(cluster: Cluster, local: Path, folder: Path, *more: str) -> Ended:
    running = fit_on_slurm(cluster, local, folder, "--retries", "0", *more)
    in_the_middle(folder, running)
    cluster.ask("scancel", job_of(cluster, folder)["JobId"])
    return ended(folder, running)


def node_down(cluster: Cluster, local: Path, folder: Path) -> Ended:
    """The node of the workers: the second attempt gets another one."""
    running = fit_on_slurm(cluster, local, folder, *ACCOUNTS)
    in_the_middle(folder, running)
    nodes = cluster.ask("scontrol", "show", "hostnames", job_of(cluster, folder)["NodeList"]).split()
    cluster.ask("scontrol", "update", f"NodeName={nodes[-1]}", "State=DOWN", "Reason=drill")
    return ended(folder, running)


SCRIPTS = {"roles.py", "ps.py", "worker.py", "chief.py", "watchdog.py"}


def too_slow(cluster: Cluster, local: Path, folder: Path) -> Ended:
    """Four minutes, as to start takes a good part of one; all processes of the fit are frozen for the rest."""
    limits = [
        f"{rule}:{set_}" for rule in ("ps", "workers", "chief") for set_ in ("mpi=srun", "interface=auto", "runtime=4")
    ]
    running = fit_on_slurm(cluster, local, folder, "--retries", "0", "--set-resources", *limits, "chief:stall=600")
    in_the_middle(folder, running)
    for process in processes_in(folder):
        # All, or those that are left would end the run for the sake of the others.
        if process.name() != "srun" and {Path(word).name for word in process.cmdline()} & SCRIPTS:
            process.suspend()
    return ended(folder, running)


def controller_away(cluster: Cluster, local: Path, folder: Path) -> Ended:
    running = fit_on_slurm(cluster, local, folder, *ACCOUNTS)
    in_the_middle(folder, running)
    with cluster.controller_away():
        time.sleep(20)
    return ended(folder, running)


def preempted(cluster: Cluster, local: Path, folder: Path, *more: str, partition: str, requeue: bool = False) -> Ended:
    """By a job that asks for all of its nodes; there are enough others."""
    asked = ["--default-resources", f"slurm_partition={partition}", "mem_mb=2000", "runtime=30"]
    shutil.copytree(local, folder, symlinks=True)
    (folder / FIT).unlink()
    (folder / "logs/flights/models/late/progress.json").unlink()
    if requeue:
        profile = folder / "profiles" / "slurm" / "config.yaml"
        profile.write_text(profile.read_text().replace("slurm-no-requeue: true", "slurm-requeue: true"))
    line = [*SLURM, *asked, "--retries", "0" if requeue else "1", *more, "--", FIT]
    running = start_snakemake(folder, *line, environment=cluster.environment)
    in_the_middle(folder, running)
    nodes = job_of(cluster, folder)["NodeList"]
    cluster.ask("sbatch", "--chdir=/", "--output=/dev/null", f"--nodelist={nodes}", "--time=1", "--wrap=sleep 45")
    return ended(folder, running)


PREEMPTED = {
    "by requeueing": {"partition": "requeued"},
    "by cancelling": {"partition": "cancelled"},
    "and begun again": {"partition": "requeued", "requeue": True},
}


def cancelled_with_accounts(cluster: Cluster, local: Path, folder: Path) -> Ended:
    return cancelled(cluster, local, folder, *ACCOUNTS)


DRILLS = {
    "cancelled": cancelled,
    "cancelled_with_accounts": cancelled_with_accounts,
    "node_down": node_down,
    "too_slow": too_slow,
}


@pytest.fixture(scope="module")
def drills(cluster: Cluster, local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future]]:
    folder = tmp_path_factory.mktemp("drills")
    with ThreadPoolExecutor() as pool:
        yield {name: pool.submit(drill, cluster, local, folder / name) for name, drill in DRILLS.items()}


def result(folder: Path) -> bytes:
    return (folder / FIT).read_bytes()


def goes_on(folder: Path, local: Path, at_least: int = PASSES) -> None:
    """The same fit, here and without SLURM, has what was summed before."""
    code, output = snakemake(folder, "--cores", "2", FIT, environment=ENVIRONMENT)
    assert code == 0, output
    assert result(folder) == result(local)
    assert progress(folder)["passes_recalled"] >= at_least


@pytest.mark.parametrize("drill", ["cancelled", "cancelled_with_accounts"])
def test_a_cancelled_job_is_reported_and_resumed(drills: dict[str, Future], local: Path, drill: str) -> None:
    folder, code, output, seconds = drills[drill].result()
    assert code == 1 and seconds < 120, output
    assert "CANCELLED" in output, output
    goes_on(folder, local)


def test_a_time_limit_is_reported_and_the_fit_resumed(drills: dict[str, Future], local: Path) -> None:
    folder, code, output, seconds = drills["too_slow"].result()
    assert code == 1 and seconds < 480, output
    assert "DUE TO TIME LIMIT" in output, output
    goes_on(folder, local)


def test_a_node_that_goes_down_costs_a_new_start(cluster: Cluster, drills: dict[str, Future], local: Path) -> None:
    folder, code, output, seconds = drills["node_down"].result()
    assert code == 0 and seconds < 500, output
    states = [job["JobState"] for job in of_the_cluster(cluster.jobs(folder))]
    assert sorted(states) == ["COMPLETED", "NODE_FAIL"], output
    assert result(folder) == result(local)
    assert progress(folder)["passes_recalled"] >= PASSES


def test_a_controller_that_is_away_for_a_while_costs_nothing(
    cluster: Cluster, drills: dict[str, Future], local: Path, tmp_path: Path
) -> None:
    """Once the others are over, who would not be answered."""
    for each in drills.values():
        each.exception()
    folder, code, output, seconds = controller_away(cluster, local, tmp_path / "checkout")
    assert code == 0 and seconds < 240, output
    assert result(folder) == result(local)
    assert progress(folder)["passes_recalled"] == 0


@pytest.mark.parametrize(
    ("how", "accounts"), [*((how, ()) for how in PREEMPTED), ("and begun again", ACCOUNTS)], ids=[*PREEMPTED, "sacct"]
)
def test_a_preempted_job_is_begun_again(
    cluster: Cluster, local: Path, tmp_path: Path, drills: dict[str, Future], how: str, accounts: tuple[str, ...]
) -> None:
    """By SLURM, or by a second attempt of Snakemake."""
    for each in drills.values():
        each.exception()
    folder, code, output, seconds = preempted(cluster, local, tmp_path / "checkout", *accounts, **PREEMPTED[how])
    assert code == 0 and seconds < 400, output
    jobs = [job["JobState"] for job in of_the_cluster(cluster.jobs(folder))]
    assert sorted(jobs) == (["COMPLETED"] if "requeue" in PREEMPTED[how] else ["COMPLETED", "PREEMPTED"]), output
    assert ("was preempted, and SLURM does not begin it again" in output) == (len(jobs) == 2)
    assert result(folder) == result(local)
    assert progress(folder)["passes_recalled"] >= PASSES


def test_sixteen_workers_on_five_nodes_are_as_easy_as_two(
    cluster: Cluster, local: Path, tmp_path: Path, drills
) -> None:
    for each in drills.values():
        each.exception()  # over, for this machine has two processors
    folder = tmp_path / "checkout"
    many = ("--config", "cluster={ps: 2, workers: 16, nodes: 5, patience: 300, stall: 300}")
    code, output = finish(folder, fit_on_slurm(cluster, local, folder, *many), 600)
    assert code == 0, output
    assert result(folder) == result(local)
    assert job_of(cluster, folder)["NumNodes"] == "5"


def test_a_suspended_job_is_waited_for(cluster: Cluster, local: Path, tmp_path: Path) -> None:
    """Whose processes `squeue` and `tfglm status` name meanwhile."""
    folder = tmp_path / "checkout"
    running = fit_on_slurm(cluster, local, folder, "--retries", "0")
    in_the_middle(folder, running)
    job = job_of(cluster, folder)
    cluster.ask("scontrol", "suspend", job["JobId"])
    time.sleep(20)
    assert job["Comment"] == "tfglm:late:fit" and job["JobName"].startswith("tfglm_"), job
    line = [sys.executable, "-c", "from tfglm.console import main; main()", "status"]
    environment = {**cluster.environment, "PYTHONPATH": str(folder / "scripts")}
    told = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
    assert f"SLURM job {job['JobId']} (late: fit): suspended, " in told and running.poll() is None, told
    cluster.ask("scontrol", "resume", job["JobId"])
    folder, code, output, _ = ended(folder, running)
    assert code == 0, output
    assert result(folder) == result(local)


def test_control_c_cancels_the_jobs(cluster: Cluster, local: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    running = fit_on_slurm(cluster, local, folder)
    in_the_middle(folder, running)
    running.send_signal(signal.SIGINT)
    folder, code, output, seconds = ended(folder, running)
    assert code == 1 and seconds < 120, output
    (job,) = of_the_cluster(cluster.jobs(folder))
    wait_until(lambda: job_of(cluster, folder)["JobState"] == "CANCELLED", 60, f"the end of job {job['JobId']}")
    # The same command resumes: the profile has `rerun-incomplete`.
    folder, code, output, _ = ended(folder, start_snakemake(folder, *SLURM, "--", FIT, environment=cluster.environment))
    assert code == 0, output
    assert result(folder) == result(local)
    assert progress(folder)["passes_recalled"] >= PASSES


def test_a_limit_of_a_qos_ends_the_run_with_its_reason(cluster: Cluster, local: Path, tmp_path: Path) -> None:
    cluster.ask("sacctmgr", "--immediate", "add", "qos", "tiny", "MaxTRESPerJob=cpu=1")
    cluster.ask("sacctmgr", "--immediate", "modify", "user", "root", "set", "qos=normal,tiny")
    asked = ["--default-resources", "qos=tiny", "mem_mb=2000", "runtime=30", "--retries", "0"]
    folder = tmp_path / "checkout"
    _, code, output, seconds = ended(folder, fit_on_slurm(cluster, local, folder, *asked))
    assert code == 1 and seconds < 240, output
    assert "(late: fit) can never start: QOSMaxCpuPerJobLimit" in output, output


def test_nothing_is_left_on_the_nodes(cluster: Cluster, drills: dict[str, Future]) -> None:
    assert left_behind(cluster) == {}
