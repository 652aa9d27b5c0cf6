"""The cluster, with real processes on the loopback; its processes' lives also with a stand-in for TensorFlow, in seconds.

`python tests/test_cluster.py FOLDER` is the chief of these tests: TensorFlow connects to a cluster only once a process.
"""

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tfglm import command
from tfglm.cluster import announce, lease, remote, watchdog
from tfglm.cluster import pool as pools
from tfglm.cluster.announce import Announcement, Roster
from tfglm.errors import UserError

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPTS)}


def wait_until(true: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def start_roles(folder: Path, role: str, count: int, *more: str, environment=ENVIRONMENT) -> subprocess.Popen:
    line = [sys.executable, SCRIPTS / "roles.py", role, "--count", count, "--roster", folder / f"{role}s.json"]
    return subprocess.Popen([*map(str, line), "--log", str(folder / f"{role}s.log"), *more], env=environment)


def end(process: subprocess.Popen) -> int:
    process.terminate()
    return process.wait(10)


def calls(count: int, steps: int = 0) -> list[tuple]:
    """Calls of the chief's pass; a step takes a worker about 10 us."""
    numbers = np.random.default_rng(1)
    return [(f"shard {i}", numbers.normal(size=1000), np.int32(steps)) for i in range(count)]


@pytest.fixture
def stand_in(tmp_path: Path) -> dict[str, str]:
    """An environment in which `import tensorflow` gives a stand-in that serves nothing, at once."""
    module = tmp_path / "stand_in" / "tensorflow.py"
    module.parent.mkdir()
    module.write_text(
        "from contextlib import nullcontext\n"
        "from types import SimpleNamespace as Space\n"
        "def server(cluster, job_name, task_index, **_):\n"
        "    host, port = cluster[job_name][task_index].split(':')\n"
        "    return Space(target=f'grpc://{host}:{port if int(port) else 4000 + task_index}')\n"
        "ignore = lambda *_, **__: None\n"
        "threading = Space(set_intra_op_parallelism_threads=ignore, set_inter_op_parallelism_threads=ignore)\n"
        "config, distribute = Space(threading=threading), Space(Server=server)\n"
        "compat = Space(v1=Space(ConfigProto=ignore, placeholder=ignore))\n"
        "Graph, Tensor = lambda: Space(as_default=nullcontext), None\n"
        "string = float64 = int64 = None\n"
        "numpy_function = lambda *_: Space(op=Space(get_attr=lambda _: b'pyfunc_0'))\n"
    )
    return {**ENVIRONMENT, "PYTHONPATH": f"{module.parent}:{SCRIPTS}"}


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


# ------------------------------------------------------------------------------------------------------------- the watchdog


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the lease sees; the first entry counts."""
    now = [1000.0]
    monkeypatch.setattr(lease.time, "monotonic", lambda: now[0])
    return now


def test_a_role_waits_for_its_chief_and_then_for_its_signs(tmp_path: Path, clock: list[float]) -> None:
    path = tmp_path / "chief.lease"
    path.touch()
    held = lease.Lease(path, 300.0)  # what an earlier chief has left is no sign
    clock[0] += 299
    assert held.expired() == ""
    clock[0] += 2
    assert "no chief has started within 300 s" in held.expired()
    os.utime(path, ns=(0, 5))
    assert held.expired() == ""
    clock[0] += lease.TERM - 1
    assert held.expired() == ""
    os.utime(path, ns=(0, 3))  # the clock of its node was put back: a sign all the same
    clock[0] += 2
    assert held.expired() == ""
    clock[0] += lease.TERM + 1
    assert f"the chief has given no sign for {lease.TERM:.0f} s" in held.expired()


def test_a_chief_gives_signs_from_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "PERIOD", 0.01)
    path = tmp_path / "cluster" / "chief.lease"
    held = lease.Lease(path, 0.0)
    lease.keep(path)
    seen = set()
    deadline = time.monotonic() + 10
    while len(seen) < 3 and time.monotonic() < deadline:
        seen.add(path.stat().st_mtime_ns if path.exists() else 0)
    assert len(seen) == 3 and held.expired() == ""


def test_a_role_ends_when_no_chief_comes(tmp_path: Path, stand_in: dict) -> None:
    lease_of = ("--lease", str(tmp_path / "chief.lease"), "--patience", "1")
    roles = start_roles(tmp_path, "worker", 2, *lease_of, environment=stand_in)
    assert roles.wait(20) == 1
    with pytest.raises(UserError, match="no chief has started within 1 s"):
        announce.gather([tmp_path / "workers.json"], 0, command.log)


def test_watchdog_lets_one_worker_go_but_not_all(capsys: pytest.CaptureFixture) -> None:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    members = [
        member(index, role=role, address=f"127.0.0.1:{each.getsockname()[1]}")
        for role, index, each in zip(("ps", "worker", "worker"), (0, 0, 1), sockets, strict=True)
    ]
    waited = 0.0
    dog = watchdog.Watchdog(members, lambda: waited, grace=0.0, stall=900.0)
    assert dog.check() == ""
    sockets[1].close()
    assert dog.check() == dog.check() == ""
    assert capsys.readouterr().out.count("lost: worker 0 at") == 1
    waited = 901.0
    assert "no call has come back for 901 s" in dog.check()
    waited = 0.0
    sockets[2].close()
    assert "lost for 0 s" in dog.check()
    assert "worker 1 at" in dog.check()
    sockets[1] = socket.create_server(("127.0.0.1", int(members[1].address[10:])))
    assert dog.check() == ""
    assert "worker 0 is back at" in capsys.readouterr().out
    sockets[0].close()
    assert "cannot go on: ps 0 at" in dog.check()


def test_watchdog_ends_a_chief_that_waits_for_ever() -> None:
    program = (
        "import time; from tfglm.cluster import announce, watchdog\n"
        "gone = announce.Announcement('ps', 0, 'now', 'listening', '127.0.0.1:1', 'n1', 7, 'ps.log')\n"
        "watchdog.Watchdog([gone], lambda: 0.0, grace=1.0).start(); time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    assert "cannot go on: ps 0 at 127.0.0.1:1 on n1, log: ps.log" in done.stdout


def test_exit_at_once_keeps_the_code() -> None:
    program = "from tfglm.cluster import watchdog\nwith watchdog.exit_at_once():\n    "
    for work, code in (("pass", 0), ("raise SystemExit(1)", 1), ("raise SystemExit('no')", 1), ("1 / 0", 2)):
        assert subprocess.run([sys.executable, "-c", program + work], env=ENVIRONMENT, timeout=20).returncode == code


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
    (tmp_path / "stand_in" / "tensorflow.py").write_text("raise ImportError('no AVX')")
    assert start_roles(tmp_path, "ps", 1, environment=stand_in).wait(20) == 1
    assert "ImportError: no AVX" in (tmp_path / "pss-0.log").read_text()
    with pytest.raises(UserError, match=r"ps 0 .* ended with code 2, after 3 restarts"):
        listening(tmp_path / "pss.json")


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


def test_a_role_keeps_its_memory_and_has_one_thread_whatever_snakemake_says(tmp_path: Path, stand_in: dict) -> None:
    line = [sys.executable, SCRIPTS / "worker.py", "--index", "0", "--announce", tmp_path / "w.json"]
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    worker = subprocess.Popen(list(map(str, line)), env=stand_in | threads, stdout=subprocess.PIPE, text=True)
    (said,) = listening(tmp_path / "w.json")
    assert said.pid == worker.pid
    assert b"MALLOC_MMAP_THRESHOLD_=4294967296" in Path(f"/proc/{worker.pid}/environ").read_bytes()
    # OpenBLAS starts its own when it is loaded, with the name of the process.
    names = [(task / "comm").read_text() for task in Path(f"/proc/{worker.pid}/task").iterdir()]
    assert names.count(Path(f"/proc/{worker.pid}/comm").read_text()) == 1
    assert end(worker) == 0
    assert worker.stdout.read().endswith("ending: SIGTERM\n")


# ------------------------------------------------------------------------------------------------------------ what is summed


def test_a_sum_is_the_same_bit_for_bit_however_its_calls_are_given_out() -> None:
    random = np.random.default_rng(3)
    for number in range(1, 40):
        vectors = random.normal(size=(number, 5)) * 10.0 ** random.integers(-8, 8, (number, 1))
        whole = remote.pairwise(vectors.copy())
        np.testing.assert_allclose(whole, [math.fsum(column) for column in vectors.T], rtol=1e-9)
        for together in (1, 2, 4, 8):
            tasks = (vectors[first : first + together].copy() for first in range(0, number, together))
            np.testing.assert_array_equal(remote.pairwise(map(remote.pairwise, tasks)), whole)


def test_calls_go_to_workers_together_if_none_has_more_of_them_for_that() -> None:
    assert [
        pools.calls_together(calls, workers) for calls, workers in ((8, 2), (4, 2), (4, 16), (10, 4), (120, 4))
    ] == [
        4,
        2,
        1,
        1,
        2,
    ]


def test_workers_take_turns_of_the_same_length():
    def lengths(kinds, workers):
        turns = pools._turns(kinds, workers)
        assert [place for turn in turns for place in range(turn.start, turn.stop)] == list(range(len(kinds)))
        assert all(len(set(kinds[turn])) == 1 for turn in turns)
        return [turn.stop - turn.start for turn in turns]

    assert lengths("a" * 10, 2) == [5, 5]
    assert lengths("a" * 3, 8) == [1, 1, 1]
    assert lengths("a" * 40, 4) == [5] * 8
    assert lengths("aabbba", 1) == [2, 3, 1]
    assert lengths("", 2) == []


# ---------------------------------------------------------------------------------------------------- with TensorFlow itself


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, dict]]]:
    """One cluster of a ps and two workers, its folder, and what its chief has told about each step."""
    folder = tmp_path_factory.mktemp("cluster")
    with_waves = {**ENVIRONMENT, "PYTHONPATH": f"{SCRIPTS}:{Path(__file__).parent}"}
    roles = [start_roles(folder, "ps", 1), start_roles(folder, "worker", 2, environment=with_waves)]
    try:
        line = [sys.executable, __file__, str(folder)]
        done = subprocess.run(
            line, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240
        )
        (folder / "chief.log").write_text(done.stdout)
        assert done.returncode == 0, done.stdout
        steps = [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]
        begin = time.monotonic()
        assert [end(each) for each in roles] == [0, 0]
        yield folder, {step["step"]: step for step in [*steps, {"step": "ended", "took": time.monotonic() - begin}]}
    finally:
        for each in roles:
            each.kill()


def test_sum_is_right_and_the_same_again(run: tuple[Path, dict]) -> None:
    step = run[1]["summed"]
    assert step["close"] and step["same"]
    assert (step["rows"], step["dtype"]) == (20_000, "float64")


def test_an_error_of_the_pass_reaches_the_user(run: tuple[Path, dict]) -> None:
    assert run[1]["refused"]["message"] == "a pass failed on a worker: shard bad is corrupt: restore the file"
    assert run[1]["failed"]["message"] == (
        "a pass failed on a worker: ZeroDivisionError: division by zero; the worker's log says where"
    )


def test_a_killed_worker_changes_no_bit_and_returns(run: tuple[Path, dict]) -> None:
    folder, steps = run
    assert steps["summed without a worker"]["same"] and not steps["summed without a worker"]["alive"]
    assert steps["worker back"]["same_address"]
    assert steps["summed by the one that came back"]["same"]
    said = (folder / "chief.log").read_text()
    assert said.count("lost: worker 0 at") == said.count("worker 0 is back at") == 1


def test_a_lost_ps_is_named(run: tuple[Path, dict]) -> None:
    assert run[1]["ps lost"]["message"].startswith("ps 0 at 127.0.0.1:")


def test_all_ends_at_sigterm(run: tuple[Path, dict]) -> None:
    folder, steps = run
    assert steps["ended"]["took"] < 10
    left = [path for path in folder.glob("*-*.json") if alive(announce.read(path).pid)]
    assert not left


def test_logs_hold_nothing_of_tensorflow(run: tuple[Path, dict]) -> None:
    own = re.compile(r"\d\d:\d\d:\d\d .*(starting|listening|ending|started|was killed by|lost: |is back|gone)|\{")
    for log in run[0].glob("*.log"):
        # The one error that is not the user's.
        said = re.sub(
            r"\S+ Traceback .*?\nZeroDivisionError: division by zero\n\n?", "", log.read_text(), flags=re.DOTALL
        )
        strange = [line for line in said.splitlines() if not own.match(line)]
        assert not strange, log


# ------------------------------------------------------------------------------------------------- the chief of the tests


class Waves:
    """A function for workers that takes as long as it is told to."""

    maker, text = "test_cluster:made", "{}"

    def __call__(self, state: dict, shard: np.ndarray, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
        if shard == "bad":
            raise UserError("shard bad is corrupt: restore the file")
        if shard == "worse":
            raise ZeroDivisionError("division by zero")
        for _ in range(int(steps)):
            x = np.sin(x) + state["w"]
        return np.append(np.sin(x) * state["w"], len(x))


def made(text: str) -> Waves:
    assert text == Waves.text
    return Waves()


def chief(folder: Path) -> None:
    """Go through a run with accidents; print one JSON object a step."""
    pass_ = Waves()
    begin = time.monotonic()

    def tell(step: str, **facts: object) -> None:
        print(json.dumps({"step": step, "at": time.monotonic() - begin, **facts}), flush=True)

    members = announce.gather([folder / "pss.json", folder / "workers.json"], 120, command.log)
    tell("gathered")
    pool = pools.connect(announce.addresses(members, "ps"), announce.addresses(members, "worker"), 10)
    tell("connected")
    watchdog.Watchdog(members, pool.stalled_seconds, grace=90).start()

    w = np.linspace(1, 2, 1000)
    short = calls(20)
    first, second = (pool.sum(pass_, short, {"w": w}) for _ in range(2))
    tell(
        "summed",
        close=np.allclose(first[:-1], sum(np.sin(x) * w for _, x, _ in short), rtol=1e-13, atol=1e-12),
        same=np.array_equal(first, second),
        rows=float(first[-1]),
        dtype=str(first.dtype),
    )
    for step, shard in (("refused", "bad"), ("failed", "worse")):
        try:
            pool.sum(pass_, [*short, (shard, *short[0][1:]), *short], {"w": w})
        except UserError as error:
            tell(step, message=str(error))

    long = calls(12, steps=30_000)
    before = pool.sum(pass_, long, {"w": w})
    tell("summed at length")
    killed = members[1]
    threading.Timer(0.5, os.kill, (killed.pid, signal.SIGKILL)).start()
    after = pool.sum(pass_, long, {"w": w})
    tell("summed without a worker", same=np.array_equal(before, after), alive=alive(killed.pid))

    def successor() -> Announcement:
        return announce.read(folder / "workers-0.json")

    wait_until(lambda: successor().pid != killed.pid and successor().state == "listening", 60, "the worker's return")
    tell("worker back", same_address=successor().address == killed.address)
    time.sleep(watchdog.PERIOD + 1)
    # The other one cannot do the work now, so the one that came back has to.
    os.kill(members[2].pid, signal.SIGKILL)
    again = pool.sum(pass_, long, {"w": w})
    tell("summed by the one that came back", same=np.array_equal(before, again))

    os.kill(members[0].pid, signal.SIGKILL)
    try:
        pool.sum(pass_, long, {"w": w})
    except UserError as error:
        tell("ps lost", message=str(error))


if __name__ == "__main__":
    with watchdog.exit_at_once():
        chief(Path(sys.argv[1]))
