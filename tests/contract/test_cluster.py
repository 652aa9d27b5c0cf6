"""The cluster, with real processes on the loopback; its processes' lives also with a stand-in for TensorFlow, in seconds.

`python tests/test_cluster.py FOLDER` is the chief of these tests: TensorFlow connects to a cluster only once a process.
"""

import ctypes
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from processes import alive, wait_until
from tfglm import command
from tfglm.distribute import parameter_server, wire
from tfglm.distribute.reduction import pairwise
from tfglm.distribute.tasks import Document, Task, registered
from tfglm.errors import UserError
from tfglm.roles import announce, ending, probe, watchdog
from tfglm.roles.announce import Announcement, Roster
from tfglm.roles.watched import Watched

TESTS = Path(__file__).resolve().parents[1]
SCRIPTS = TESTS.parent / "scripts"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPTS)}


def start_roles(
    folder: Path, role: str, count: int, *more: str, environment=ENVIRONMENT, scripts: Path = SCRIPTS
) -> subprocess.Popen:
    line = [sys.executable, scripts / "roles.py", role, "--count", count, "--roster", folder / f"{role}s.json"]
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
        whole = pairwise(vectors.copy())
        np.testing.assert_allclose(whole, [math.fsum(column) for column in vectors.T], rtol=1e-9)
        for together in (1, 2, 4, 8):
            tasks = (vectors[first : first + together].copy() for first in range(0, number, together))
            np.testing.assert_array_equal(pairwise(map(pairwise, tasks)), whole)


def test_calls_go_to_workers_together_if_none_has_more_of_them_for_that() -> None:
    assert [
        parameter_server.calls_together(calls, workers)
        for calls, workers in ((8, 2), (4, 2), (4, 16), (10, 4), (120, 4))
    ] == [
        4,
        2,
        1,
        1,
        2,
    ]


def test_workers_take_turns_of_the_same_length():
    def lengths(kinds, workers):
        turns = parameter_server.turns_of(kinds, workers)
        assert [place for turn in turns for place in range(turn.start, turn.stop)] == list(range(len(kinds)))
        assert all(len(set(kinds[turn])) == 1 for turn in turns)
        return [turn.stop - turn.start for turn in turns]

    assert lengths("a" * 10, 2) == [5, 5]
    assert lengths("a" * 3, 8) == [1, 1, 1]
    assert lengths("a" * 40, 4) == [5] * 8
    assert lengths("aabbba", 1) == [2, 3, 1]
    assert lengths("", 2) == []


DESIGN = Document.of("{}")
HEADER = {
    "task": "waves",
    "design": DESIGN.digest,
    "settings": "{}",
    "state": [["w", [2, 3]]],
    "calls": [[["<f8", [4]], ["|S64", []]], [["<i4", [3]]]],
}


@pytest.mark.parametrize(
    ("header", "words", "said"),
    [
        (HEADER, 14, ""),
        (HEADER, 15, "a header for 6 numbers and 14 words, with 6 and 15 of them"),
        (HEADER | {"task": "os:system"}, 14, "`os:system` is no task that this process runs; it runs: waves"),
        (HEADER | {"task": ["waves"]}, 14, "is no task that this process runs"),
        (HEADER | {"design": "../designs"}, 14, "a header that no chief writes"),
        (HEADER | {"settings": {}}, 14, "a header that no chief writes"),
        (HEADER | {"state": [["w", [7]]]}, 14, "a header for 7 numbers"),
        (HEADER | {"state": [["w", [-2, -3]]]}, 14, "a header that no chief writes"),
        (HEADER | {"state": [["w", 6]]}, 14, "a header that no chief writes"),
        (HEADER | {"state": {"wx": [6]}}, 14, "a header that no chief writes"),
        (HEADER | {"calls": [[["|O", [14]]]]}, 14, "a header that no chief writes"),
        (HEADER | {"calls": [[["<f8", [14.0]]]]}, 14, "a header that no chief writes"),
        (HEADER | {"calls": [[["<f8,<f8", [7]]]]}, 14, "a header that no chief writes"),
        (HEADER | {"calls": [[["<f8", [10**30]]]]}, 14, "words, with 6 and 14 of them"),
        (HEADER | {"calls": []}, 0, "a header that no chief writes"),
        ([], 14, "a header that no chief writes"),
        ("[" * 100_000, 14, "a header that no chief writes: RecursionError"),
        ("x" * (1 << 21), 14, "a header of 2,097,152 bytes, more than 1,048,576"),
    ],
)
def test_a_request_of_a_stranger_is_refused_in_words(header: object, words: int, said: str) -> None:
    raw = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    if not said:
        assert wire.checked(raw, 6, words).kind == "waves"
        return
    with pytest.raises(UserError, match=f"^refused: .*{re.escape(said)}"):
        wire.checked(raw, 6, words)


# ---------------------------------------------------------------------------------------------------- with TensorFlow itself


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, dict]]]:
    """One cluster of a ps and two workers, its folder, and what its chief has told about each step."""
    folder = tmp_path_factory.mktemp("cluster")
    scripts = folder / "scripts"
    scripts.mkdir()
    (scripts / "roles.py").symlink_to(SCRIPTS / "roles.py")
    (scripts / "worker.py").write_text(WORKER)
    with_waves = {**ENVIRONMENT, "PYTHONPATH": f"{SCRIPTS}:{TESTS}:{TESTS / 'contract'}"}
    roles = [
        start_roles(folder, "ps", 1),
        start_roles(folder, "worker", 2, environment=with_waves, scripts=scripts),
    ]
    try:
        line = [sys.executable, __file__, str(folder)]
        done = subprocess.run(
            line, env=with_waves, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240
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
    assert run[1]["refused"]["message"] == "a task failed on a worker: shard bad is corrupt: restore the file"
    assert run[1]["failed"]["message"] == (
        "a task failed on a worker: ZeroDivisionError: division by zero; the log of the process that ran it says where"
    )


def test_a_worker_runs_what_it_was_started_with_and_nothing_else(run: tuple[Path, dict]) -> None:
    """Whoever reaches the port of a worker could have any function of any module imported and called."""
    folder, steps = run
    assert steps["asked for a command"]["message"] == (
        "a task failed on a worker: refused: `os:system` is no task that this process runs; it runs: waves"
    )
    assert not (folder / "executed").exists()


def test_a_worker_answers_whatever_python_computes_in_it(run: tuple[Path, dict]) -> None:
    step = run[1]["asked while busy"]
    assert step["took"] >= 3
    assert step["answers"] == ["answers"] and step["times"] > 10 and step["slowest"] < 1


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
    own = re.compile(r"\d\d:\d\d:\d\d .*(starting|listening|ending|ended|started|was killed by|lost: |is back|gone)|\{")
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

    def __call__(self, state: dict, shard: np.ndarray, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
        if shard == "bad":
            raise UserError("shard bad is corrupt: restore the file")
        if shard == "worse":
            raise ZeroDivisionError("division by zero")
        if shard == "busy":
            ctypes.PyDLL(None).usleep(3_000_000)  # with Python's lock, which a PyDLL keeps
        for _ in range(int(steps)):
            x = np.sin(x) + state["w"]
        return np.append(np.sin(x) * state["w"], len(x))


@registered("waves")
def waves_of(design: str, settings: dict) -> Waves:
    assert (design, settings) == (DESIGN.text, {})
    return Waves()


WORKER = """
from tfglm.roles import server

def prepare(folder):
    import test_cluster
    from tfglm.distribute import remote
    from tfglm.distribute.designs import Designs
    remote.serve(Designs.beside(folder))

server.start("worker", "A worker of the tests", prepare)
"""


def chief(folder: Path) -> None:
    """Go through a run with accidents; print one JSON object a step."""
    task = Task("waves", DESIGN)
    begin = time.monotonic()

    def tell(step: str, **facts: object) -> None:
        print(json.dumps({"step": step, "at": time.monotonic() - begin, **facts}), flush=True)

    members = announce.gather([folder / "pss.json", folder / "workers.json"], 120, command.log)
    tell("gathered")
    watched = Watched(grace=90.0)
    watched.over(members)
    executor = parameter_server.connect(members, [folder], 10, watched.waiting)
    tell("connected")

    w = np.linspace(1, 2, 1000)
    short = calls(20)
    first, second = (executor.sum(task, short, {"w": w}) for _ in range(2))
    tell(
        "summed",
        close=np.allclose(first[:-1], sum(np.sin(x) * w for _, x, _ in short), rtol=1e-13, atol=1e-12),
        same=np.array_equal(first, second),
        rows=float(first[-1]),
        dtype=str(first.dtype),
    )
    for step, shard in (("refused", "bad"), ("failed", "worse")):
        try:
            executor.sum(task, [*short, (shard, *short[0][1:]), *short], {"w": w})
        except UserError as error:
            tell(step, message=str(error))
    try:
        executor.sum(Task("os:system", DESIGN, json.dumps(f"touch {folder / 'executed'}")), short, {"w": w})
    except UserError as error:
        tell("asked for a command", message=str(error))

    asked: list[tuple[probe.Answer, float]] = []

    def ask(begin: float) -> None:
        while time.monotonic() - begin < 2.5:
            before = time.monotonic()
            asked.extend((probe.ask(each.address), time.monotonic() - before) for each in members)
            time.sleep(0.1)

    begun = time.monotonic()
    asking = threading.Thread(target=ask, args=(begun,))
    asking.start()
    executor.sum(task, [("busy", *one[1:]) for one in calls(2)], {"w": w})
    asking.join()
    tell(
        "asked while busy",
        took=time.monotonic() - begun,
        answers=sorted({answer for answer, _ in asked}),
        times=len(asked),
        slowest=max(seconds for _, seconds in asked),
    )

    long = calls(12, steps=30_000)
    before = executor.sum(task, long, {"w": w})
    tell("summed at length")
    killed = members[1]
    threading.Timer(0.5, os.kill, (killed.pid, signal.SIGKILL)).start()
    after = executor.sum(task, long, {"w": w})
    tell("summed without a worker", same=np.array_equal(before, after), alive=alive(killed.pid))

    def successor() -> Announcement:
        return announce.read(folder / "workers-0.json")

    wait_until(lambda: successor().pid != killed.pid and successor().state == "listening", 60, "the worker's return")
    tell("worker back", same_address=successor().address == killed.address)
    time.sleep(watchdog.PERIOD + 1)
    # The other one cannot do the work now, so the one that came back has to.
    os.kill(members[2].pid, signal.SIGKILL)
    again = executor.sum(task, long, {"w": w})
    tell("summed by the one that came back", same=np.array_equal(before, again))

    os.kill(members[0].pid, signal.SIGKILL)
    try:
        executor.sum(task, long, {"w": w})
    except UserError as error:
        tell("ps lost", message=str(error))


if __name__ == "__main__":
    with ending.exit_at_once():
        chief(Path(sys.argv[1]))
