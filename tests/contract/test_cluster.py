"""How the processes of a cluster find each other, are restarted and end: real processes, with a stand-in for TensorFlow."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from processes import ENVIRONMENT, SCRIPTS, SERVER, alive, end, stand_in_for_tensorflow, start_roles, wait_until
from tfglm import command, tensorflow_setup
from tfglm.errors import UserError
from tfglm.roles import announce
from tfglm.roles.announce import Announcement, Roster


@pytest.fixture
def stand_in(tmp_path: Path) -> dict[str, str]:
    """An environment in which TensorFlow is a stand-in that serves nothing, at once."""
    stand_in_for_tensorflow(tmp_path / "stand_in")
    return {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path / 'stand_in'}:{SCRIPTS}"}


def listening(roster: Path) -> list[Announcement]:
    return announce.gather([roster], 20, command.log)


# ------------------------------------------------------------------------------------------------------------ announcements


def member(index: int = 0, run: str = "now", **other: object) -> Announcement:
    return replace(
        Announcement("worker", index, run, "listening", f"127.0.0.1:{4000 + index}", "n1", 7, "w.log"), **other
    )


def test_gather_reads_announcements_and_rosters(tmp_path: Path) -> None:
    announce.write(tmp_path / "ps-0.json", member(role="ps"))
    for index in (0, 1):
        announce.write(tmp_path / f"w-{index}.json", member(index))
    announce.write(tmp_path / "workers.json", Roster("worker", "now", ("w-0.json", "w-1.json")))
    members = announce.gather([tmp_path / "workers.json", tmp_path / "ps-0.json"], 0, command.log)
    assert announce.addresses(members, "worker") == ["127.0.0.1:4000", "127.0.0.1:4001"]
    assert announce.addresses(members, "ps") == ["127.0.0.1:4000"]


def test_the_announcement_of_an_earlier_run_is_not_believed(tmp_path: Path) -> None:
    announce.write(tmp_path / "w-0.json", member(run="yesterday"))
    announce.write(tmp_path / "workers.json", Roster("worker", "now", ("w-0.json",), ("w-0.log",)))
    with pytest.raises(UserError, match=r"worker 0 \(absent, log: w-0.log\)"):
        announce.gather([tmp_path / "workers.json"], 0, command.log)


def test_the_deadline_names_who_is_missing(tmp_path: Path) -> None:
    announce.write(tmp_path / "w-0.json", member())
    announce.write(tmp_path / "w-1.json", member(1, state="starting", address=""))
    announce.write(tmp_path / "workers.json", Roster("worker", "now", ("w-0.json", "w-1.json")))
    with pytest.raises(
        UserError, match=r"not complete after 0 s; still missing: worker 1 \(starting, on n1, log: w.log\)\."
    ):
        announce.gather([tmp_path / "workers.json"], 0, command.log)
    with pytest.raises(UserError, match=r"missing: .*none.json"):
        announce.gather([tmp_path / "none.json"], 0, command.log)


def test_two_roles_cannot_have_one_index() -> None:
    with pytest.raises(UserError, match=r"worker 0, 1, 2 \.\.\. once each; announced are: \[0, 0\]"):
        announce.addresses([member(), member()], "worker")


def test_a_file_that_is_no_announcement_is_named(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text('{"role": "worker"}')
    with pytest.raises(UserError, match=r"w.json is neither"):
        announce.gather([tmp_path / "w.json"], 0, command.log)


# --------------------------------------------------------------------------------------------------- the life of processes


def test_a_dead_role_comes_back_to_its_port_until_restarts_run_out(tmp_path: Path, stand_in: dict) -> None:
    roles = start_roles(tmp_path, "worker", 2, "--restarts", "1", environment=stand_in)
    roster = tmp_path / "workers.json"
    wait_until(roster.exists, 5, "the roster, for which Snakemake waits 5 s")
    first, other = listening(roster)
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: announce.read(tmp_path / "workers-0.json").pid != first.pid, 10, "the restart")
    second, _ = listening(roster)
    assert (second.address, second.run) == (first.address, first.run)
    os.kill(second.pid, signal.SIGKILL)
    assert roles.wait(10) == 1
    assert not alive(other.pid)
    with pytest.raises(
        UserError, match=r"worker 0 .* was killed by SIGKILL, after 1 restarts .*workers-0.restart1.log"
    ):
        listening(roster)


def test_a_role_that_cannot_start_says_why(tmp_path: Path, stand_in: dict) -> None:
    (tmp_path / "stand_in" / "tensorflow" / SERVER).write_text("raise ImportError('no AVX')")
    assert start_roles(tmp_path, "ps", 1, environment=stand_in).wait(20) == 1
    assert "ImportError: no AVX" in (tmp_path / "pss-0.log").read_text()
    with pytest.raises(UserError, match=r"ps 0 .* ended with code 2, after 3 restarts"):
        listening(tmp_path / "pss.json")


def test_a_role_ends_when_no_chief_comes(tmp_path: Path, stand_in: dict) -> None:
    lease_of = ("--lease", str(tmp_path / "chief.lease"), "--patience", "1")
    roles = start_roles(tmp_path, "worker", 2, *lease_of, environment=stand_in)
    assert roles.wait(20) == 1
    with pytest.raises(UserError, match="no chief has started within 1 s"):
        announce.gather([tmp_path / "workers.json"], 0, command.log)


def test_nothing_outlives_the_parent(tmp_path: Path, stand_in: dict) -> None:
    roles = start_roles(tmp_path, "worker", 2, environment=stand_in)
    wait_until((tmp_path / "workers.json").exists, 5, "the roster")
    members = listening(tmp_path / "workers.json")
    roles.kill()
    roles.wait()
    wait_until(lambda: not any(alive(each.pid) for each in members), 5, "the end of the workers")


def test_control_c_takes_the_roster_back_whatever_the_processes_do(tmp_path: Path, stand_in: dict) -> None:
    """Snakemake leaves a role no second from the end of the chief on."""
    roles = start_roles(tmp_path, "worker", 2, environment=stand_in)
    roster = tmp_path / "workers.json"
    wait_until(roster.exists, 5, "the roster")
    frozen, other = listening(roster)
    os.kill(frozen.pid, signal.SIGSTOP)
    roles.send_signal(signal.SIGINT)
    wait_until(lambda: not roster.exists(), 1, "the roster is taken back")
    assert roles.poll() is None and alive(frozen.pid)
    assert roles.wait(10) == 0
    assert not alive(frozen.pid) and not alive(other.pid)


def test_a_process_that_was_forked_a_moment_ago_is_ended_like_the_others(tmp_path: Path, stand_in: dict) -> None:
    roles = start_roles(tmp_path, "worker", 2, environment=stand_in)
    wait_until(lambda: psutil.Process(roles.pid).children(), 5, "the first worker")
    roles.send_signal(signal.SIGSTOP)
    members = listening(tmp_path / "workers.json")
    os.kill(members[0].pid, signal.SIGSTOP)  # so that ending takes a while
    roles.send_signal(signal.SIGINT)
    roles.send_signal(signal.SIGCONT)
    assert roles.wait(10) == 0
    assert not any(alive(each.pid) for each in members)
    assert (tmp_path / "workers-1.log").read_text().endswith("ending: SIGTERM\n")


def test_a_role_keeps_its_memory_and_has_one_thread_whatever_snakemake_says(tmp_path: Path, stand_in: dict) -> None:
    line = [sys.executable, SCRIPTS / "worker.py", "--index", "0", "--announce", tmp_path / "w.json"]
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    worker = subprocess.Popen(list(map(str, line)), env=stand_in | threads, stdout=subprocess.PIPE, text=True)
    (output,) = listening(tmp_path / "w.json")
    assert output.pid == worker.pid
    assert b"MALLOC_MMAP_THRESHOLD_=4294967296" in Path(f"/proc/{worker.pid}/environ").read_bytes()
    # OpenBLAS starts its own when it is loaded, with the name of the process.
    names = [(task / "comm").read_text() for task in Path(f"/proc/{worker.pid}/task").iterdir()]
    assert names.count(Path(f"/proc/{worker.pid}/comm").read_text()) == 1
    assert end(worker) == 0
    assert worker.stdout.read().endswith("ending: SIGTERM\n")


# ---------------------------------------------------------------------------------------------------- one import for all


def imports_in(stand_in: dict, more: str = "") -> Path:
    """The file to which the stand-in for TensorFlow writes the id of each process that imports it, before it does `more`."""
    folder = Path(stand_in["PYTHONPATH"].split(":")[0])
    module, imported = folder / "tensorflow" / SERVER, folder / "imported"
    marking = f"import os\nwith open({str(imported)!r}, 'a') as file: print(os.getpid(), file=file)\n{more}\n"
    module.write_text(marking + module.read_text())
    return imported


def test_one_process_imports_for_all_and_each_is_a_child_of_what_started_it(tmp_path: Path, stand_in: dict) -> None:
    imported = imports_in(stand_in)
    roles = start_roles(tmp_path, "worker", 3, environment=stand_in)
    wait_until((tmp_path / "workers.json").exists, 5, "the roster")
    members = listening(tmp_path / "workers.json")
    assert imported.read_text().split() == [str(members[0].pid)]
    for each in members:
        assert psutil.Process(each.pid).ppid() == roles.pid
        line = " ".join(psutil.Process(each.pid).cmdline())
        assert f"worker.py --index {each.index} " in line and "--fork" not in line
        assert f"{each.name} listening" in (tmp_path / f"workers-{each.index}.log").read_text()
    # What was forked is restarted, alone, as the first is.
    os.kill(members[2].pid, signal.SIGKILL)
    wait_until(lambda: announce.read(tmp_path / "workers-2.json").pid != members[2].pid, 10, "the restart")
    again = listening(tmp_path / "workers.json")
    assert [each.pid for each in again[:2]] == [each.pid for each in members[:2]]
    assert "worker 2" in (tmp_path / "workers-2.restart1.log").read_text()
    # The first is not needed any more.
    os.kill(again[0].pid, signal.SIGKILL)
    wait_until(lambda: announce.read(tmp_path / "workers-0.json").pid != again[0].pid, 10, "the restart")
    assert listening(tmp_path / "workers.json")[1].pid == again[1].pid and alive(again[1].pid)
    assert end(roles) == 0
    assert not any(alive(each.pid) for each in again[1:])


DIES = "import signal; os.path.exists('once') or (open('once', 'w'), os.kill(os.getpid(), signal.SIGKILL))"
HAS_THREADS = "import threading, time; threading.Thread(target=time.sleep, args=[99], daemon=True).start()"


@pytest.mark.parametrize(("accident", "restarts"), [(DIES, 1), (HAS_THREADS, 0)], ids=["dies", "has threads"])
def test_where_none_can_be_forked_each_imports(accident: str, restarts: int, tmp_path: Path, stand_in: dict) -> None:
    """The first has died before, or an import has started threads."""
    accident = accident.replace("'once'", repr(str(tmp_path / "once")))
    imported = imports_in(stand_in, accident)
    roles = start_roles(tmp_path, "worker", 3, environment=stand_in)
    wait_until((tmp_path / "workers.json").exists, 5, "the roster")
    members = listening(tmp_path / "workers.json")
    assert len(imported.read_text().split()) == 3 + restarts
    assert {str(each.pid) for each in members} <= set(imported.read_text().split())
    assert (tmp_path / "workers.log").read_text().count("restarting it") == restarts
    assert end(roles) == 0


SERVERS = """
import os, sys
from tfglm import tensorflow_setup
with tensorflow_setup.quiet():
    import tensorflow as tf
import worker
from tfglm.roles import forking
worker.load()
forking.adopt()
arriving = forking.Arriving()
sys.argv += ["--fork"]
if os.fork():
    os.close(arriving.writing)
    while arriving.look() is not None:
        pass
    for _ in range(3):
        os.wait()
    os._exit(0)
line = forking.fork([["1"], ["2"]], os.getppid(), arriving.writing)
place = int(line[0]) if line else 0
server = tf.distribute.Server({"worker": {place: "127.0.0.1:0"}}, job_name="worker", task_index=place)
with tf.compat.v1.Session(server.target) as session:
    devices = [device.incarnation for device in session.list_devices()]
    total = session.run(tf.reduce_sum(tf.cast(tf.range(10), tf.float64)))
os.write(1, f"{place} {os.getppid()} {devices[0]} {total}\\n".encode())
os._exit(0)
"""


def test_servers_of_forked_processes_are_told_apart() -> None:
    """With TensorFlow itself and all that a worker loads: threads or random numbers before the fork would be seen here."""
    environment = ENVIRONMENT | tensorflow_setup.ENVIRONMENT
    line = [sys.executable, "-c", SERVERS]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=True)
    places, parents, incarnations, totals = zip(*map(str.split, done.stdout.splitlines()), strict=True)
    assert sorted(places) == ["0", "1", "2"]
    assert len(set(parents)) == 1 and len(set(incarnations)) == 3 and set(totals) == {"45.0"}
