"""`snakemake --profile slurm` on a real SLURM, and the pieces of it that need none.

The marked tests bring up a cluster of simulated nodes (slurm_cluster.py). Where that is impossible they are skipped;
TFGLM_REQUIRE_SLURM=1 makes that a failure.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import slurm_cluster
from slurm_cluster import Cluster
from tfglm.errors import UserError
from tfglm.roles import announce, launch, pending
from tfglm.roles.announce import Announcement, Roster

ROOT = Path(__file__).parents[2]
FIT, TABLE = "results/models/late/fit.json", "results/models/late/coefficients.csv"
PICTURE = "results/models/late/coefficients.svg"
# The executor asks after that many seconds whether a job has ended, then 10 s later each time than the time before: at 12, 34
# and 66 s. With the 10, 30, 60 s of the profile the tests take longer on a busy machine, whose short jobs take just over 10.
SLURM = ("--profile", "slurm", "--slurm-init-seconds-before-status-checks", "12")
CHECKED_OUT = ("Snakefile", "config", "profiles", "scripts", "slurm", "workflow")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}


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


def configure(folder: Path, **cluster: int) -> None:
    data = {"files": ["data/*.csv"], "layout": "data/layout.yaml", "split": {"train": "TRUE"}}
    data["columns"] = ["carrier", "distance", "late"]
    models = {"late": {"formula": "late ~ carrier + distance", "family": "binomial"}}
    config = {"data": data, "models": models, "cluster": cluster}
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))


def start_snakemake(folder: Path, *arguments: str, environment: dict[str, str]) -> subprocess.Popen:
    with (folder / "snakemake.out").open("w") as out:
        line = [sys.executable, "-m", "snakemake", *arguments]
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
    return {name: (folder / "results/models/late" / name).read_bytes() for name in ("coefficients.csv", "fit.json")}


# ----------------------------------------------------------------------------------------------------------- on a real SLURM


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if lacking := slurm_cluster.missing():
        (pytest.fail if os.environ.get("TFGLM_REQUIRE_SLURM") == "1" else pytest.skip)(lacking)
    with (
        tempfile.TemporaryDirectory(prefix="tfglm-slurm-") as folder,
        slurm_cluster.cluster(Path(folder), environment=ENVIRONMENT) as made,
    ):
        yield made


Running = tuple[Path, subprocess.Popen]


# Most of their time the runs on SLURM wait for its answer whether a job has ended, so they go on side by side.
@pytest.fixture(scope="module")
def one_node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A clean checkout, and the run in it of the whole workflow on one node."""
    folder = checkout(tmp_path_factory.mktemp("one") / "checkout", ps=1, workers=2)
    with start_snakemake(folder, *SLURM, environment=cluster.environment) as running:
        yield folder, running
        running.kill()


@pytest.fixture(scope="module")
def local(one_node: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout after a plain run, which is inside an allocation, as far as the environment tells, and stays local."""
    folder = checkout(tmp_path_factory.mktemp("local") / "checkout", ps=1, workers=2)
    code, said = snakemake(folder, "--cores", "2", TABLE, environment={**ENVIRONMENT, "SLURM_JOB_ID": "1"})
    assert code == 0, said
    return folder


@pytest.fixture(scope="module")
def no_network(cluster: Cluster, local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A copy of the local checkout, and a fit in it whose roles are to use a network interface that no node has."""
    folder = tmp_path_factory.mktemp("none") / "checkout"
    shutil.copytree(local, folder, symlinks=True)
    configure(folder, ps=1, workers=2, nodes=3)
    wrong = [f"{rule}:{set_}" for rule in ("ps", "workers", "chief") for set_ in ("mpi=srun", "interface=ib7")]
    line = ["--forcerun", "chief", "--retries", "0", "--set-resources", *wrong, "--", FIT]
    with start_snakemake(folder, *SLURM, *line, environment=cluster.environment) as running:
        yield folder, running
        running.kill()


def of_the_cluster(jobs: list[dict[str, str]]) -> list[dict[str, str]]:
    return [job for job in jobs if "chief" in job.get("Comment", "")]


@pytest.mark.slurm
def test_one_fit_on_three_nodes(cluster: Cluster, local: Path, no_network: Running, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    shutil.copytree(local, folder, symlinks=True)
    configure(folder, ps=2, workers=3, nodes=3)
    _, said = snakemake(folder, *SLURM, "--dry-run", TABLE, environment=cluster.environment)
    assert "Nothing to be done" in said

    code, said = snakemake(folder, *SLURM, "--forcerun", "chief", "--", FIT, environment=cluster.environment)
    assert code == 0, said
    # The fit is new to this run, which makes the table anew and the fit not.
    code, said = snakemake(folder, "--cores", "2", TABLE, environment=ENVIRONMENT)
    assert code == 0, said
    assert "tabulate_coefficients" in said
    assert results(folder) == results(local)
    (group,) = of_the_cluster(cluster.jobs(folder))
    assert (group["NumNodes"], group["NodeList"], group["NumCPUs"]) == ("3", "node[1-3]", "9")
    members = [announce.read(path) for path in sorted((folder / "results/models/late/cluster").glob("*-*.json"))]
    assert [(each.name, each.node) for each in members] == [
        ("ps 0", "node1"),
        ("ps 1", "node1"),
        ("worker 0", "node2"),
        ("worker 1", "node3"),
        ("worker 2", "node2"),
    ]
    assert all(each.address.rpartition(":")[0] == cluster.addresses[each.node] for each in members)


@pytest.mark.slurm
def test_a_role_that_cannot_start_ends_the_job(no_network: Running) -> None:
    folder, running = no_network
    code, said = finish(folder, running)
    assert code == 1, said
    chief = (folder / "logs/models/late/chief.log").read_text()
    assert re.search(r"error: no address of the network interface `ib7` on node\d: .*; it has lo, eth0", chief), said


@pytest.mark.slurm
def test_the_whole_workflow_on_one_node(cluster: Cluster, local: Path, one_node: tuple[Path, subprocess.Popen]) -> None:
    folder, running = one_node
    code, said = finish(folder, running)
    assert code == 0, said
    assert results(folder) == results(local)
    jobs = cluster.jobs(folder)
    assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    # All that Snakemake counts but `all` itself, with three in one for the cluster and two for the table.
    assert len(jobs) == int(re.search(r"^total +(\d+)$", said, re.M)[1]) - 1 - 2 - 1
    (group,) = of_the_cluster(jobs)
    assert (group["NumNodes"], group["NumCPUs"], group["MinMemoryNode"]) == ("1", "4", "8000M")
    # On a single node nobody else reaches them; several have to reach each other.
    assert json.loads((folder / "results/models/late/cluster/network.json").read_text())["isolated"]


@pytest.fixture(scope="module")
def hour(cluster: Cluster, local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A copy of the local checkout, and a run in it that makes table and picture on a partition with a limit of one hour."""
    folder = tmp_path_factory.mktemp("hour") / "checkout"
    shutil.copytree(local, folder, symlinks=True)
    line = ["--default-resources", "slurm_partition=hour", "runtime=30 * attempt", "mem_mb=2000"]
    line += ["--forcerun", "tabulate_coefficients", "--", PICTURE]
    with start_snakemake(folder, *SLURM, *line, environment=cluster.environment) as running:
        yield folder, running
        running.kill()


@pytest.fixture(scope="module")
def never(cluster: Cluster, local: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The same, but it asks for more than the hour."""
    folder = tmp_path_factory.mktemp("never") / "checkout"
    shutil.copytree(local, folder, symlinks=True)
    line = ["--default-resources", "slurm_partition=hour", "runtime=61", "mem_mb=2000", "--retries", "0"]
    line += ["--forcerun", "check_reference", "--", "results/models/late/reference.json"]
    with start_snakemake(folder, *SLURM, *line, environment=cluster.environment) as running:
        yield folder, running
        running.kill()


@pytest.mark.slurm
def test_a_partition_with_a_limit_of_one_hour_is_enough(cluster: Cluster, hour: Running) -> None:
    """The runtimes of the table and of its picture, which are one job, are added up."""
    folder, running = hour
    code, said = finish(folder, running)
    assert code == 0, said
    (job,) = cluster.jobs(folder)
    assert (job["Partition"], job["TimeLimit"], job["JobState"]) == ("hour", "00:30:00", "COMPLETED")


@pytest.mark.slurm
def test_a_job_that_slurm_never_starts_ends_the_run_with_its_reason(cluster: Cluster, never: Running) -> None:
    folder, running = never
    code, said = finish(folder, running)
    assert code == 1, said
    assert said.count("(check_reference: late) can never start: PartitionTimeLimit. ") >= 2, (
        said
    )  # when, and at the end
    assert [job["JobState"] for job in cluster.jobs(folder)] == ["CANCELLED"]


@pytest.mark.slurm
def test_nothing_is_left_on_the_nodes(cluster: Cluster, local: Path) -> None:
    assert left_behind(cluster) == {}


def left_behind(cluster: Cluster, patience_seconds: float = 10.0) -> dict[str, set[int]]:
    """The processes that still run on nodes when all jobs are over, SLURM's own left out."""
    deadline = time.monotonic() + patience_seconds
    while left := {node: found for node in cluster.addresses if (found := cluster.processes(node))}:
        if time.monotonic() > deadline:
            return left
        time.sleep(0.5)
    return {}


# --------------------------------------------------------------------------------------------------------------- without it


@pytest.mark.parametrize(
    ("ps", "workers", "nodes", "expected"),
    [
        (1, 2, 1, launch.Request(1, 4)),
        (1, 2, 2, launch.Request(2, 2)),
        (1, 2, 9, launch.Request(3, 2)),
        (2, 16, 5, launch.Request(5, 4)),
        (1, 7, 4, launch.Request(4, 3)),
        (4, 2, 3, launch.Request(3, 5)),
    ],
)
def test_every_process_has_a_processor(ps: int, workers: int, nodes: int, expected: launch.Request) -> None:
    assert launch.request(ps, workers, nodes) == expected
    load = [1, *[0] * (expected.nodes - 1)]  # the chief
    for role, count in (("ps", ps), ("worker", workers)):
        first, spread = launch.place(role, count, expected.nodes)
        for index in range(count):
            load[first + index % spread] += 1
    assert min(load) >= 1
    assert max(load) == expected.processes


def test_the_address_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch.own_address("lo") == "127.0.0.1"
    with pytest.raises(UserError, match=r"no address of the network interface `ib7` on .*; it has lo.*`auto`"):
        launch.own_address("ib7")
    monkeypatch.setenv("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1")
    assert launch.own_address("auto") == "127.0.0.1"
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    with pytest.raises(UserError, match=r"at 127.0.0.1, and other nodes cannot\. Give an interface"):
        launch.own_address("auto")


@pytest.fixture
def stand_ins(tmp_path: Path) -> dict[str, str]:
    """An environment with an srun that starts its tasks here, and a squeue that knows of two nodes."""
    programs = {
        "squeue": "echo 2",
        # Like the real one: the tasks go without its standard input, USR1 is passed on, TERM kills them.
        "srun": """echo "$@" >> "$ASKED"
            while [[ $1 == --* ]]; do [[ $1 == --ntasks=* ]] && count=${1#*=}; shift; done
            export SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
            for ((i = 0; i < count; i++)); do SLURM_PROCID=$i "$@" & tasks+=($!); done
            trap 'kill -USR1 ${tasks[*]}' USR1
            trap 'kill -KILL ${tasks[*]}' TERM
            code=0
            for task in ${tasks[*]}; do
                while true; do wait $task; ended=$?; kill -0 $task 2> /dev/null || break; done
                ((ended)) && { code=$ended; kill -KILL ${tasks[*]} 2> /dev/null; }
            done
            exit $code""",
    }
    for name, program in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{program}\n")
        (tmp_path / name).chmod(0o755)
    tensorflow = tmp_path / "stand_in" / "tensorflow.py"
    tensorflow.parent.mkdir()
    tensorflow.write_text("import time\ntime.sleep(60)\n")
    return {
        **ENVIRONMENT,
        "PATH": f"{tmp_path}:{ENVIRONMENT['PATH']}",
        "PYTHONPATH": f"{tensorflow.parent}:{ROOT / 'scripts'}",
        "ASKED": str(tmp_path / "asked"),
        "SLURM_JOB_ID": "7",
    }


def start_roles(folder: Path, environment: dict[str, str]) -> subprocess.Popen:
    line = [sys.executable, ROOT / "scripts/roles.py", "worker", "--count", "3", "--launcher", "srun"]
    line += ["--roster", folder / "workers.json", "--log", folder / "workers.log", "--restarts", "1"]
    return subprocess.Popen(list(map(str, line)), env=environment)


def starting(folder: Path) -> list[Announcement]:
    """The members of the roster, when all have said that they are starting."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        members = [announce.read(folder / f"workers-{index}.json") for index in range(3)]
        if all(members):
            return members
        time.sleep(0.1)
    raise AssertionError((folder / "workers.log").read_text())


def test_tasks_take_their_places_and_end_with_the_step(tmp_path: Path, stand_ins: dict[str, str]) -> None:
    roles = start_roles(tmp_path, stand_ins)
    members = starting(tmp_path)
    assert [each.index for each in members] == [0, 1, 2]
    assert {each.run for each in members} == {announce.read(tmp_path / "workers.json").run}
    asked = Path(stand_ins["ASKED"]).read_text()
    assert "--relative=1 --nodes=1 --ntasks=3" in asked
    roles.terminate()
    assert roles.wait(15) == 0, (tmp_path / "workers.log").read_text()
    assert not any(Path(f"/proc/{each.pid}").exists() for each in members)


def test_on_a_single_node_the_processes_are_started_without_a_step(tmp_path: Path, stand_ins: dict[str, str]) -> None:
    """So that they can have a network of their own."""
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 1\n")
    script = [
        "ps",
        "--count",
        "1",
        "--launcher",
        "srun",
        "--roster",
        str(tmp_path / "ps.json"),
        "--parent",
        str(os.getpid()),
    ]
    line = [sys.executable, ROOT / "scripts/isolate.py", "--launcher", "srun", "--network", tmp_path / "network.json"]
    roles = subprocess.Popen([*map(str, line), "roles.py", *script], env=stand_ins)
    deadline = time.monotonic() + 20
    while not (tmp_path / "ps-0.json").exists():
        assert roles.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    assert not Path(stand_ins["ASKED"]).exists()
    assert json.loads((tmp_path / "network.json").read_text())["isolated"] is not None
    roles.terminate()
    assert roles.wait(15) == 0


def test_what_a_task_died_of_reaches_the_roster(tmp_path: Path, stand_ins: dict[str, str]) -> None:
    (tmp_path / "stand_in" / "tensorflow.py").write_text("raise ImportError('no AVX')\n")
    assert start_roles(tmp_path, stand_ins).wait(20) == 1
    roster = announce.read(tmp_path / "workers.json")
    assert isinstance(roster, Roster)
    assert re.search(r"worker \d .* ended with code 2, after 1 restarts .*workers-\d.restart1.log", roster.failed)


def test_srun_outside_of_slurm_is_refused(tmp_path: Path, stand_ins: dict[str, str]) -> None:
    del stand_ins["SLURM_JOB_ID"]
    assert start_roles(tmp_path, stand_ins).wait(20) == 1
    assert "this is no SLURM job; `mpi: srun` belongs in a profile" in announce.read(tmp_path / "workers.json").failed


def test_no_number_of_nodes_reaches_srun_unless_it_is_one(tmp_path: Path, stand_ins: dict[str, str]) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\necho slurm_load_jobs error: Invalid job id specified >&2\n")
    assert start_roles(tmp_path, stand_ins).wait(20) == 1
    assert "job 7: `squeue --noheader" in announce.read(tmp_path / "workers.json").failed
    assert not Path(stand_ins["ASKED"]).exists()


def test_a_job_is_given_up_when_slurm_says_twice_that_it_can_never_start(tmp_path: Path) -> None:
    said: list[str] = []
    given_up: list[str] = []
    queue = pending.Queue(said.append, given_up)
    elsewhere = tmp_path.with_name("elsewhere")
    listed = "\n".join(
        "\x1f".join(row)
        for row in [
            ("1", "PartitionTimeLimit", "rule_table_wildcards_late", str(tmp_path)),
            ("2", "Resources", "rule_ingest_wildcards_2006", str(tmp_path)),
            ("3", "ReqNodeNotAvail, UnavailableNodes:node3", "rule_evaluate", str(tmp_path)),
            ("4", "BadConstraints", "rule_ingest", str(elsewhere)),
        ]
    )
    (tmp_path / "link").symlink_to(tmp_path)
    jobs = pending.jobs_in(listed, tmp_path / "link")
    assert [job.number for job in jobs] == ["1", "2", "3"]
    assert queue.look(jobs) == []
    assert said == ["SLURM job 3 (evaluate) waits, perhaps for long: ReqNodeNotAvail, UnavailableNodes:node3"]
    assert queue.look(jobs) == [jobs[0]]
    assert given_up[0].startswith("SLURM job 1 (table: late) can never start: PartitionTimeLimit. ")
    assert len(said) == 2
    assert queue.look(jobs[1:]) == [] and len(said) == 2


@pytest.mark.parametrize(
    "reason", ["QOSMaxWallDurationPerJobLimit", "AssocMaxNodePerJobLimit", "QOSMinCpuNotSatisfied"]
)
def test_limits_of_an_account_are_final(reason: str) -> None:
    assert pending.NEVER.fullmatch(reason)


@pytest.mark.parametrize("reason", ["QOSMaxJobsPerUserLimit", "AssocGrpCpuLimit", "Priority", "JobHeldUser"])
def test_what_may_pass_is_waited_for(reason: str) -> None:
    assert not pending.NEVER.match(reason)
