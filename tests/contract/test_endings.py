"""Endings: a chief that cannot continue ends, whatever it computes, and whatever its log and its terminal do; so do the roles. A
process that computes does not count as gone. Drills test the same as a user meets it."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chiefs import chief, children
from processes import alive, wait_until
from tfglm.roles import announce, lease, probe, watchdog
from tfglm.roles.announce import Announcement, Roster


def member(index: int, port: int, role: str = "worker") -> Announcement:
    return Announcement(role, index, "now", "listening", f"127.0.0.1:{port}", "n1", 7, "w.log")


class Server:
    """Answers the PING of HTTP/2, until it is closed; or accepts connections and says nothing, as the kernel does for a process
    that is stopped."""

    def __init__(self, *, answers: bool = True, port: int = 0) -> None:
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        if answers:
            threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                word = connection.recv(1000)[-8:]
                connection.sendall(probe.frame(probe.SETTINGS, 0) + probe.frame(probe.PING, probe.ACK, word))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


# ----------------------------------------------------------------------------------------------------------------- probes


def test_that_a_port_accepts_connections_is_no_answer() -> None:
    good, stopped = Server(), Server(answers=False)
    assert probe.ask(f"127.0.0.1:{good.port}") == "answers"
    assert probe.ask(f"127.0.0.1:{stopped.port}", 0.2) == "silent"
    good.close()
    assert probe.ask(f"127.0.0.1:{good.port}") == "refused"
    stopped.close()


# ------------------------------------------------------------------------------------------------------------ signs of life


@pytest.fixture
def pass_seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, Callable[[], object]], None]:
    """Lets seconds pass on the clock that leases see, for a process that looks each second."""
    now = [1000.0]
    monkeypatch.setattr(lease.time, "monotonic", lambda: now[0])

    def pass_(seconds: float, look: Callable[[], object]) -> None:
        for _ in range(int(seconds)):
            now[0] += 1
            look()

    pass_.clock = now
    return pass_


def test_a_role_waits_for_its_chief_and_then_for_its_signs(tmp_path: Path, pass_seconds) -> None:
    path = tmp_path / "chief.lease"
    path.touch()
    held = lease.Lease(path, 300.0)  # what an earlier chief has left is no sign
    pass_seconds(299, held.expired)
    assert held.expired() == ""
    pass_seconds(2, held.expired)
    assert "no chief has started within 300 s" in held.expired()
    os.utime(path, ns=(0, 5))
    assert held.expired() == ""
    pass_seconds(lease.TERM - 1, held.expired)
    assert held.expired() == ""
    os.utime(path, ns=(0, 3))  # the clock of its node was put back: a sign all the same
    pass_seconds(2, held.expired)
    assert held.expired() == ""
    pass_seconds(lease.TERM + 1, held.expired)
    assert f"the chief has given no sign of life for {lease.TERM:.0f} s" in held.expired()


def test_who_was_frozen_itself_holds_nobody_to_be_gone(tmp_path: Path, pass_seconds) -> None:
    """After Control-Z and `fg`, or in a machine that was suspended."""
    path = tmp_path / "chief.lease"
    held = lease.Lease(path, 300.0)
    path.touch()
    assert held.expired() == ""
    pass_seconds.clock[0] += 3600
    assert held.expired() == ""
    pass_seconds(lease.TERM, held.expired)
    assert "the chief has given no sign" in held.expired()


def roster(path: Path, run: str = "now", **other: object) -> Roster:
    announced = Roster("ps", run, (), signs="pss.alive", node="n1", pid=7, log="/logs/ps.log", **other)
    announce.write(path, announced)
    return announced


def test_a_process_that_starts_roles_and_gives_no_sign_is_named(tmp_path: Path, pass_seconds) -> None:
    path = tmp_path / "pss.json"
    signs = lease.Signs(tmp_path / "pss.alive")
    supervisors = watchdog.Supervisors([path, tmp_path / "none.json"])
    pass_seconds(100, supervisors.gone)
    assert supervisors.gone() == ""  # nobody has begun yet
    roster(path)

    def look() -> None:
        signs.give()
        assert supervisors.gone() == ""

    pass_seconds(200, look)
    pass_seconds(lease.TERM, supervisors.gone)
    reason = supervisors.gone()
    assert reason.startswith("roles.py ps (pid 7 on n1), log: /logs/ps.log, has given no sign of life for 6")
    roster(path, "another start")
    assert supervisors.gone() == ""


# ------------------------------------------------------------------------------------------------------------- the watchdog


def test_watchdog_lets_one_worker_go_but_not_all() -> None:
    servers = [Server() for _ in range(3)]
    members = [
        member(index, each.port, role)
        for role, index, each in zip(("ps", "worker", "worker"), (0, 0, 1), servers, strict=True)
    ]
    told: list[str] = []
    dog = watchdog.Watchdog(members, lambda: None, print, grace=0.0, tell=told.append)
    assert dog.check() == ""
    servers[1].close()
    assert dog.check() == dog.check() == ""
    assert len(told) == 1 and told[0].startswith("lost: worker 0 at") and dog.workers_alive() == 1
    servers[2].close()
    assert "lost for 0 s" in dog.check()
    assert "worker 1 at" in dog.check()
    servers[1] = Server(port=servers[1].port)
    assert dog.check() == ""
    assert told[-1].startswith("worker 0 is back at")
    servers[0].close()
    assert "cannot continue: ps 0 at" in dog.check()
    servers[1].close()


def test_one_worker_that_is_silent_is_enough() -> None:
    """For the calls that it was given never come back, while those of one that has ended are repeated."""
    servers = [Server(), Server(), Server(answers=False)]
    members = [member(0, servers[0].port, "ps"), *(member(index, servers[index + 1].port) for index in range(2))]
    dog = watchdog.Watchdog(members, lambda: None, print, grace=0.0, tell=lambda message: None, timeout=0.2)
    reason = dog.check()
    assert "worker 1 at" in reason and "worker 0" not in reason and "its process is stopped" in reason
    for each in servers:
        each.close()


def test_what_the_roles_have_said_last_is_told(tmp_path: Path) -> None:
    gone = Server()
    gone.close()
    roster(tmp_path / "pss.json", failed="ps 0 (pid 8) ended with code 2, after 3 restarts")
    supervisors = watchdog.Supervisors([tmp_path / "pss.json"])
    dog = watchdog.Watchdog([member(0, gone.port, "ps")], lambda: None, print, supervisors, 0.0, tell=print)
    assert dog.check().endswith("; ps 0 (pid 8) ended with code 2, after 3 restarts")


def test_one_wait_of_the_chief_has_an_end(pass_seconds) -> None:
    """Whatever it waits for. Many in a row, or none, have not."""
    waits: list[int | None] = [1]
    dog = watchdog.Watchdog([], lambda: waits[-1], print, stall=100.0)
    pass_seconds(100, dog.check)
    assert dog.check() == ""
    waits.append(2)
    pass_seconds(101, dog.check)
    assert dog.check() == ""
    pass_seconds(1, dog.check)
    assert dog.check().startswith("no call has returned for 101 s")
    waits.append(None)
    pass_seconds(500, dog.check)
    assert dog.check() == ""


def test_a_watchdog_that_fails_ends_the_chief() -> None:
    ended: list[str] = []
    dog = watchdog.Watchdog([], lambda: 1 // 0, ended.append)
    dog.start()
    dog.join(10)
    assert ended == ["the watchdog of the cluster has failed: ZeroDivisionError: integer division or modulo by zero"]


# ------------------------------------------------------------------------------------------------- a chief and its watchdog


def test_a_chief_that_computes_gives_signs(tmp_path: Path) -> None:
    path = tmp_path / "cluster" / "chief.lease"
    held = lease.Lease(path, 20.0, term=1.0)
    with chief("hold(4)", lease=str(path), period=0.1) as running:
        while running.poll() is None:
            assert held.expired() == ""
            time.sleep(0.1)
        assert path.exists() and running.returncode == 0


@pytest.mark.parametrize("work", ["time.sleep(60)", "hold(60)"])
def test_a_chief_that_waits_for_ever_is_ended(work: str, tmp_path: Path) -> None:
    facts = tmp_path / "progress.json"
    facts.write_text('{"state": "fitting", "passes": 7}')
    begin = time.monotonic()
    with chief(f"watched.over([gone]); {work}", grace=1.0, progress=str(facts)) as running:
        assert running.wait(20) == -signal.SIGKILL and time.monotonic() - begin < 20
        assert "cannot continue: ps 0 at 127.0.0.1:1 on n1, log: ps.log" in running.stdout.read()
    wait_until(lambda: '"failed"' in facts.read_text(), 5, "the progress file")
    assert '"passes": 7' in facts.read_text() and "ps 0 at" in facts.read_text()


def test_one_wait_is_ended_although_python_cannot_run(tmp_path: Path) -> None:
    with chief("wait = watched.waiting(); wait.__enter__(); hold(60)", stall=1.0) as running:
        assert running.wait(20) == -signal.SIGKILL
        assert "no call has returned for" in running.stdout.read()


def test_a_chief_that_is_stopped_is_ended(tmp_path: Path) -> None:
    with chief("print('there', flush=True); time.sleep(60)", grace=2.0) as running:
        running.stdout.readline()
        running.send_signal(signal.SIGSTOP)
        assert running.wait(20) == -signal.SIGKILL
        assert "the chief has been stopped for 2 s" in running.stdout.read()


def test_a_chief_without_its_watchdog_ends_and_none_outlives_its_chief() -> None:
    with chief("print('there', flush=True); time.sleep(60)") as running:
        running.stdout.readline()
        (dog,) = children(running.pid)
        os.kill(dog, signal.SIGKILL)
        assert running.wait(10) == 1
        assert "the watchdog of this process has ended, with code -9" in running.stdout.read()
    with chief("print('there', flush=True); time.sleep(60)") as running:
        running.stdout.readline()
        (dog,) = children(running.pid)
        os.kill(dog, signal.SIGSTOP)
        running.kill()
        wait_until(lambda: not alive(dog), 5, "the end of the watchdog")


def test_exit_at_once_keeps_the_code() -> None:
    for work, code in (("pass", 0), ("raise SystemExit(1)", 1), ("raise SystemExit('no')", 1), ("1 / 0", 2)):
        with chief(work) as running:
            assert running.wait(20) == code
