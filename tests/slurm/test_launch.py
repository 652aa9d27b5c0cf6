"""How roles are placed on nodes and started there by srun, and which jobs are given up; with stand-ins for SLURM's programs."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from processes import SERVER, stand_in_for_tensorflow
from slurm_runs import ENVIRONMENT, ROOT
from tfglm import console
from tfglm.errors import UserError
from tfglm.roles import announce, launch, pending
from tfglm.roles.announce import Announcement, Roster


@pytest.mark.parametrize(
    ("ps", "workers", "peers", "nodes", "gpus", "expected"),
    [
        (1, 2, 0, 1, 0, launch.Allocation(1, 4)),
        (1, 2, 0, 2, 0, launch.Allocation(2, 2)),
        (1, 2, 0, 9, 0, launch.Allocation(3, 2)),
        (2, 16, 0, 5, 0, launch.Allocation(5, 4)),
        (1, 7, 0, 4, 0, launch.Allocation(4, 3)),
        (4, 2, 0, 3, 0, launch.Allocation(3, 5)),
        (0, 0, 3, 3, 0, launch.Allocation(3, 2)),
        (1, 3, 0, 1, 1, launch.Allocation(1, 5, gpus=3)),
        (1, 3, 0, 2, 1, launch.Allocation(2, 4, gpus=2)),  # two workers beside ps and chief, one on the other node
        (1, 3, 0, 9, 1, launch.Allocation(3, 3, gpus=1)),
        (0, 0, 0, 9, 2, launch.Allocation(1, 1, gpus=2)),  # a process alone
        (0, 0, 3, 1, 2, launch.Allocation(1, 4, gpus=8)),
        (0, 0, 3, 4, 2, launch.Allocation(4, 2, gpus=2)),
        (0, 0, 3, 3, 1, launch.Allocation(3, 2, gpus=2)),
    ],
)
def test_every_process_has_a_processor_and_its_gpus(
    ps: int, workers: int, peers: int, nodes: int, gpus: int, expected: launch.Allocation
) -> None:
    assert launch.request(ps, workers, peers, nodes, gpus) == expected
    load = [1, *[0] * (expected.nodes - 1)]  # the chief
    busy = [0 if workers else gpus, *load[1:]]
    for role, count in (("ps", ps), ("worker", workers), ("peer", peers)):
        first, spread = launch.place(role, count, expected.nodes, gpus)
        for index in range(count):
            load[first + index % spread] += 1
            busy[first + index % spread] += 0 if role == "ps" else gpus
    assert min(load) >= 1
    # The executor refuses to ask for one task a node.
    assert max(load) <= expected.processes == (max(2, *load) if workers + peers else 1)
    assert max(busy) == expected.gpus


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
    stand_in_for_tensorflow(tmp_path / "stand_in").write_text("import time\ntime.sleep(60)\n")
    return {
        **ENVIRONMENT,
        "PATH": f"{tmp_path}:{ENVIRONMENT['PATH']}",
        "PYTHONPATH": f"{tmp_path / 'stand_in'}:{ROOT / 'scripts'}",
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
    script = f"ps --count 1 --launcher srun --roster {tmp_path / 'ps.json'} --parent {os.getpid()}".split()
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
    (tmp_path / "stand_in" / "tensorflow" / SERVER).write_text("raise ImportError('no AVX')\n")
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


def test_status_names_the_jobs_in_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    rows = [
        ("8", "None", "tfglm:late:fit", str(tmp_path), "RUNNING", "1:02", "node[1-2]"),
        ("9", "Resources", "tfglm:2006:ingest", str(tmp_path), "PENDING", "0:00", ""),
        ("7", "None", "tfglm:late:fit", str(tmp_path.parent), "RUNNING", "1:02", "node3"),
    ]
    (tmp_path / "listed").write_text("\n".join("\x1f".join(row) for row in rows))
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text(f"#!/bin/sh\nexec cat {tmp_path}/listed\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{squeue.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    console.do(["status"])
    assert capsys.readouterr().out.splitlines() == [
        "Nothing runs here.",
        "  SLURM job 8 (late: fit): running, 1:02 on node[1-2]",
        "  SLURM job 9 (2006: ingest): pending, Resources",
    ]
    squeue.write_text("#!/bin/sh\nexit 1\n")
    assert pending.accounts(tmp_path) == []
    (tmp_path / ".snakemake" / "slurm_logs").mkdir(parents=True)
    assert pending.accounts(tmp_path) == ["SLURM does not answer"]


def test_a_job_is_given_up_when_slurm_says_twice_that_it_can_never_start(tmp_path: Path) -> None:
    messages: list[str] = []
    given_up: list[str] = []
    queue = pending.Queue(messages.append, given_up)
    elsewhere = tmp_path.with_name("elsewhere")
    listed = "\n".join(
        "\x1f".join(row)
        for row in [
            ("1", "PartitionTimeLimit", "tfglm:late:table", str(tmp_path), "PENDING", "0:00", ""),
            ("2", "Resources", "tfglm:2006:ingest", str(tmp_path), "PENDING", "0:00", ""),
            ("3", "ReqNodeNotAvail, UnavailableNodes:node3", "tfglm:evaluate", str(tmp_path), "PENDING", "0:00", ""),
            ("4", "BadConstraints", "tfglm:ingest", str(elsewhere), "PENDING", "0:00", ""),
        ]
    )
    (tmp_path / "link").symlink_to(tmp_path)
    jobs = pending.jobs_in(listed, tmp_path / "link")
    assert [job.number for job in jobs] == ["1", "2", "3"]
    assert queue.look(jobs) == []
    assert messages == ["SLURM job 3 (evaluate) waits, perhaps for long: ReqNodeNotAvail, UnavailableNodes:node3"]
    assert queue.look(jobs) == [jobs[0]]
    assert given_up[0].startswith("SLURM job 1 (late: table) can never start: PartitionTimeLimit. ")
    assert len(messages) == 2
    assert queue.look(jobs[1:]) == [] and len(messages) == 2


@pytest.mark.parametrize(
    "reason", ["QOSMaxWallDurationPerJobLimit", "AssocMaxNodePerJobLimit", "QOSMinCpuNotSatisfied"]
)
def test_limits_of_an_account_are_final(reason: str) -> None:
    assert pending.NEVER.fullmatch(reason)


@pytest.mark.parametrize("reason", ["QOSMaxJobsPerUserLimit", "AssocGrpCpuLimit", "Priority", "JobHeldUser"])
def test_what_may_pass_is_waited_for(reason: str) -> None:
    assert not pending.NEVER.match(reason)


def test_how_a_job_has_ended_is_said_in_words_that_the_executor_knows() -> None:
    now, told = [0.0], list[str]()
    states = pending.States(told.append, requeued=False, clock=lambda: now[0])
    assert states.known({"1": "RUNNING", "2": "CANCELLED by 1000", "3": "COMPLETED"}) == {
        "1": "RUNNING",
        "2": "CANCELLED",
        "3": "COMPLETED",
    }
    assert states.known({"1": "PREEMPTED"})["1"] == "FAILED"
    assert told == ["SLURM job 1 was preempted, and SLURM does not begin it again; `slurm-requeue` can change that"]
    assert states.known({}) == {} and len(told) == 1


def test_a_job_that_slurm_begins_again_is_waited_for() -> None:
    now, told, queue = [0.0], list[str](), {"1"}
    states = pending.States(told.append, True, lambda: now[0], queue.__contains__)
    for now[0], state in enumerate(("RUNNING", "PREEMPTED", "PREEMPTED", "PENDING", "RUNNING", "PREEMPTED")):
        assert states.known({"1": state})["1"] == ("RUNNING" if state == "PREEMPTED" else state)
    now[0] += pending.SETTLED
    assert states.known({"1": "PREEMPTED"})["1"] == "RUNNING" and not told  # as sacct has it, minutes after squeue
    queue.clear()
    assert states.known({"1": "PREEMPTED"})["1"] == "FAILED" and len(told) == 1


def test_a_job_that_slurm_has_forgotten_has_failed() -> None:
    now, told = [0.0], list[str]()
    states = pending.States(told.append, requeued=True, clock=lambda: now[0])
    states.known({"1": "RUNNING", "2": "COMPLETED", "3_[1-4]": "PENDING", "4": "OUT_OF_MEMORY", "5": "DEADLINE"})
    assert states.known({}) == {}  # slurmctld may just have begun
    now[0] += pending.SETTLED
    assert states.known({}) == {"1": "FAILED"} and len(told) == 1


def test_the_executor_is_the_one_that_is_translated_for() -> None:
    """Of the version that is installed."""
    import snakemake_executor_plugin_slurm as executor

    assert callable(executor.query_job_status)
    source = Path(executor.__file__).read_text()
    failed = re.findall(r'"(\w+)"', source.partition("fail_stati = (")[2].partition(")")[0])
    assert {*failed} - {"ERROR"} == {*pending.ENDED} - {"COMPLETED", "PREEMPTED"}
    assert "await query_job_status(" in source
    # The comment of each job is given so.
    assert source.count("call = get_submit_command(") == source.count('"comment_str": comment_str') == 2
