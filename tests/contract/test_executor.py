"""The contract of executors: in this process, on a cluster, and resuming an earlier fit, all give the same answers bit for bit.

And what a cluster does when one of its processes is killed.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import executors
from executors import ONE_WAVE, THREE_WAVES, ask, expected
from processes import ENVIRONMENT, SCRIPTS, TESTS, alive, end, start_roles
from tfglm.distribute.designs import Designs
from tfglm.distribute.local import LocalExecutor, ThreadedExecutor
from tfglm.distribute.tasks import Document
from tfglm.errors import UserError
from tfglm.resume import Journal, ResumingExecutor
from tfglm.roles import announce

WORKER = """
import executors
from tfglm.roles import server

server.start("worker", "A worker of the tests", prepare=executors.serve_tasks)
"""

PEER = """
import executors
from tfglm.roles import peers

peers.start("A peer of the tests", executors.load_tasks, executors.follow_tasks)
"""

IMPORTING = {**ENVIRONMENT, "PYTHONPATH": f"{SCRIPTS}:{TESTS}"}


def scripts_with(folder: Path, name: str, text: str) -> Path:
    """A folder of scripts in which the processes of a role are those of the tests."""
    scripts = folder / "scripts"
    scripts.mkdir()
    (scripts / "roles.py").symlink_to(SCRIPTS / "roles.py")
    (scripts / name).write_text(text)
    return scripts


def steps_of(chief: str, folder: Path) -> list[dict]:
    """What is to be known of each step that a chief of the tests has gone through."""
    line = [sys.executable, executors.__file__, chief, str(folder)]
    done = subprocess.run(line, env=IMPORTING, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    (folder / "chief.log").write_text(done.stdout)
    assert done.returncode == 0, done.stdout
    return [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, dict]]]:
    """A cluster of two ps and two workers that has been through all that `executors.chief` does: its folder, and what was to be
    known of each step."""
    folder = tmp_path_factory.mktemp("cluster")
    scripts = scripts_with(folder, "worker.py", WORKER)
    Designs.beside(folder).put(Document.of("of a fit that was killed"))
    roles = [start_roles(folder, "ps", 2), start_roles(folder, "worker", 2, environment=IMPORTING, scripts=scripts)]
    try:
        steps = steps_of("servers", folder)
        begin = time.monotonic()
        assert [end(process) for process in roles] == [0, 0]
        steps.append({"step": "ended", "took": time.monotonic() - begin})
        yield folder, {step["step"]: step for step in steps}
    finally:
        for process in roles:
            process.kill()


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict]]:
    """The same of a chief with two peers, which has been through all that `executors.chief_of_peers` does."""
    folder = tmp_path_factory.mktemp("group")
    scripts = scripts_with(folder, "peer.py", PEER)
    Designs.beside(folder).put(Document.of("of a fit that was killed"))
    roles = start_roles(folder, "peer", 2, "--restarts", "0", environment=IMPORTING, scripts=scripts)
    try:
        steps = steps_of("peers", folder)
        assert roles.wait(20) == 1
        return folder, {step["step"]: step for step in steps}
    finally:
        roles.kill()


@pytest.fixture(scope="module", params=["local", "threads", "resuming", "resumed", "parameter servers", "peers"])
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The answers of each executor."""
    clusters = {"parameter servers": "cluster", "peers": "group"}
    if request.param in clusters:
        folder, _ = request.getfixturevalue(clusters[request.param])
        return dict(np.load(folder / "answers.npz"))
    executor = LocalExecutor()
    if request.param in ("local", "threads"):
        return ask(executor if request.param == "local" else ThreadedExecutor(3))
    folder = tmp_path_factory.mktemp("journal")
    for _ in range(2 if request.param == "resumed" else 1):
        journal = Journal(folder / "journal", "key", lambda message: None)
        answers = ask(ResumingExecutor(executor, journal, lambda recalled, seconds, of: None))
        journal.settle()
    return answers


@pytest.mark.parametrize("question", expected())
def test_every_executor_answers_the_same_bit_for_bit(answers: dict[str, np.ndarray], question: str) -> None:
    np.testing.assert_array_equal(answers[question], expected()[question], strict=True)


def test_an_error_of_a_task_reaches_the_user(answers: dict[str, np.ndarray]) -> None:
    assert str(answers["an error that the user can mend"]).endswith("shard bad is corrupt: restore the file")
    assert str(answers["an error of the task"]).endswith(
        "ZeroDivisionError: division by zero; the log of the process that ran it says where"
    )


def test_what_is_not_registered_is_refused(answers: dict[str, np.ndarray]) -> None:
    """Whoever reaches the port of a worker could have any function of any module imported and called."""
    refused = re.search(
        r"refused: `os:system` is no task that this process runs; it runs: ([\w, ]+)", str(answers["no such task"])
    )
    # Other tests in this process may have registered more.
    assert refused and {"waves", "step"} <= set(refused[1].split(", "))


def test_a_sum_needs_a_call() -> None:
    with pytest.raises(ValueError, match="at least one call"):
        LocalExecutor().sum(executors.WAVES, [], {"w": executors.W})


# -------------------------------------------------------------------------------------------------------- designs by digest


def test_a_design_is_sent_once_and_those_of_an_earlier_fit_are_gone(cluster: tuple[Path, dict]) -> None:
    assert cluster[1]["asked"]["designs"] == sorted([ONE_WAVE.digest, THREE_WAVES.digest])


def test_a_worker_believes_no_other_design(tmp_path: Path) -> None:
    chief, worker = Designs.beside(tmp_path), Designs.beside(tmp_path)
    with pytest.raises(UserError, match=rf"{ONE_WAVE.digest}, which the chief has written, cannot be read: .*No such"):
        worker.get(ONE_WAVE.digest)
    chief.put(ONE_WAVE)
    path = chief.folder / ONE_WAVE.digest
    path.write_text(THREE_WAVES.text)
    with pytest.raises(UserError, match="the design has changed since the chief wrote it"):
        worker.get(ONE_WAVE.digest)
    path.write_text(ONE_WAVE.text)
    assert worker.get(ONE_WAVE.digest).text == ONE_WAVE.text
    path.unlink()
    assert worker.get(ONE_WAVE.digest).text == ONE_WAVE.text


# --------------------------------------------------------------------------------------------------- a cluster in accidents


def test_a_worker_answers_whatever_python_computes_in_it(cluster: tuple[Path, dict]) -> None:
    step = cluster[1]["busy"]
    assert step["took"] >= 3
    assert step["answers"] == ["answers"] and step["times"] > 10 and step["slowest"] < 1


def test_of_a_sum_in_slots_the_chief_receives_one_vector_and_the_ps_do_not_grow(cluster: tuple[Path, dict]) -> None:
    step = cluster[1]["in slots"]
    assert step["same"]
    # By number of workers, of 45 calls.
    assert list(step["received"].values()) == [1.0] * 5
    early, late = np.array(step["held"])[[10, -1]]
    # Each sum writes 4 MB or more to each of them.
    assert np.all(late - early < 15)


def test_what_a_worker_writes_late_is_not_added(cluster: tuple[Path, dict]) -> None:
    """Into a slot that is in use again: the sum is made once more."""
    folder, steps = cluster
    assert steps["written late"]["same"]
    pieces = 2 * 3  # runs and portions
    assert steps["written late"]["scheduled"] == 3 * pieces
    assert (folder / "chief.log").read_text().count("has written its numbers late") == 2


def test_a_killed_worker_changes_no_bit_and_returns(cluster: tuple[Path, dict]) -> None:
    folder, steps = cluster
    assert steps["a worker killed"]["same"] and not steps["a worker killed"]["alive"]
    assert steps["the worker back"]["same_address"]
    assert steps["summed by the one that came back"]["same"]
    printed = (folder / "chief.log").read_text()
    # Neither is printed if the worker is back before the watchdog asks it again.
    assert printed.count("lost: worker 0 at") == printed.count("worker 0 is back at") <= 1


def test_classes_and_smooths_are_fitted_on_servers_as_in_one_process(cluster: tuple[Path, dict]) -> None:
    """To the same bytes, though a worker is killed; and one process goes on from the journal of the servers' fit."""
    steps = cluster[1]
    assert {"fit.json", "fitted.data-00000-of-00001"} <= set(steps["classes"]["files"])
    fits = ("on servers", "resumed", "by the one that came back")
    assert [steps[f"classes {name}"]["same"] for name in fits] == [True, True, True]
    assert steps["smooth"]["same"] and steps["ordered"]["same"]
    recalled = steps["classes"]["recalled"]
    passes = len(recalled) // 2
    assert passes > 5 and recalled == [False] * passes + [True] * passes


def test_a_lost_ps_is_named(cluster: tuple[Path, dict]) -> None:
    assert cluster[1]["the ps killed"]["message"].startswith("ps 0 at 127.0.0.1:")


def test_peers_sum_to_the_same_bits_until_one_of_them_is_killed(group: tuple[Path, dict]) -> None:
    folder, steps = group
    assert steps["asked"]["same"]
    # Updates, too: peers wait for each other as the workers of one process do.
    assert steps["learnt"]["same"] and steps["learnt"]["far"] > 1
    killed = steps["a peer killed"]
    assert killed["took"] < 60
    assert re.match(
        r"the fit cannot continue without all its peers \(peer 1 \(pid \d+\) was killed by SIGKILL", killed["message"]
    )
    assert "peers-1.log" in killed["message"] and "resumes from the last sum" in killed["message"]
    assert not [path for path in folder.glob("*-*.json") if alive(announce.read(path).pid)]


def test_all_ends_at_sigterm(cluster: tuple[Path, dict]) -> None:
    folder, steps = cluster
    assert steps["ended"]["took"] < 10
    left = [path for path in folder.glob("*-*.json") if alive(announce.read(path).pid)]
    assert not left


def test_logs_hold_nothing_of_tensorflow(cluster: tuple[Path, dict]) -> None:
    own = re.compile(
        r"\d\d:\d\d:\d\d .*(starting|listening|ending|ended|started|was killed by|lost: |is back|gone|late)|\{"
    )
    for log in cluster[0].glob("*.log"):
        # The one error that is not the user's.
        text = re.sub(
            r"\S+ Traceback .*?\nZeroDivisionError: division by zero\n\n?", "", log.read_text(), flags=re.DOTALL
        )
        strange = [line for line in text.splitlines() if not own.match(line)]
        assert not strange, log
