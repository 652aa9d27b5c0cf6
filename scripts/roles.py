"""Start all processes of one role on this machine, restart those that die, and end them together."""

import argparse
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tfglm import command, runtime
from tfglm.cluster import announce
from tfglm.cluster.announce import Announcement, Role, Roster
from tfglm.errors import UserError


class Member:
    """One process of the role, and its successors."""

    def __init__(self, role: Role, index: int, run: str, announcement: Path, host: str, log: Path | None) -> None:
        self.role, self.index, self.run, self.host = role, index, run, host
        self.announcement, self.log = announcement, log
        self.restarts = 0
        self.start()

    def start(self) -> None:
        """Start the process; a successor on the port announced before, for a running cluster finds it nowhere else."""
        said = announce.read(self.announcement)
        port = said.address.rpartition(":")[2] if isinstance(said, Announcement) else ""
        script = Path(__file__).with_name(f"{self.role}.py")
        line = [sys.executable, script, "--index", self.index, "--announce", self.announcement, "--run", self.run]
        line += ["--host", self.host, "--port", port or 0, "--die-with-parent"]
        line += ["--log", self.log] if self.log else []
        self.process = subprocess.Popen(list(map(str, line)), env={**os.environ, **runtime.ALLOCATOR})

    def restart(self) -> None:
        """Start a successor, with a log of its own: the one of the process before says why that died."""
        self.restarts += 1
        if self.log:
            stem = self.log.name.removesuffix(".log").removesuffix(f".restart{self.restarts - 1}")
            self.log = self.log.with_name(f"{stem}.restart{self.restarts}.log")
        self.start()

    def __str__(self) -> str:
        return f"{self.role} {self.index} (pid {self.process.pid})"


def stop(members: list[Member], patience_seconds: float = 5.0) -> None:
    """End all processes, by SIGTERM, and by SIGKILL after `patience_seconds`."""
    for member in members:
        member.process.terminate()
    deadline = time.monotonic() + patience_seconds
    for member in members:
        try:
            member.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            command.log(f"{member} does not end: killed")
            member.process.kill()
            member.process.wait()


def ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def main(arguments: argparse.Namespace) -> None:
    parent = os.getppid()
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, _: signals.append(number))

    path, log = arguments.roster, arguments.log
    indices = range(arguments.count)
    names = [f"{path.stem}-{index}.json" for index in indices]
    logs = [log.with_name(f"{log.stem}-{index}.log") if log else None for index in indices]
    for name in names:
        path.with_name(name).unlink(missing_ok=True)
    shown = tuple(str(each.resolve()) for each in logs if each)
    roster = Roster(arguments.role, uuid.uuid4().hex, tuple(names), shown)
    announce.write(path, roster)

    members: list[Member] = []
    try:
        for index, name, own in zip(indices, names, logs, strict=True):
            members.append(Member(arguments.role, index, roster.run, path.with_name(name), arguments.host, own))
        command.log(f"started {', '.join(map(str, members))}")
        watch(members, arguments.restarts, lambda: not signals and os.getppid() == parent)
        command.log(f"ending: {signal.Signals(signals[0]).name if signals else 'the parent process is gone'}")
    except UserError as error:
        announce.write(path, replace(roster, failed=str(error)))
        raise
    finally:
        stop(members)


def watch(members: list[Member], restarts: int, wanted: Callable[[], bool]) -> None:
    """Restart what dies while `wanted()`. Raises UserError at the death that is one more than `restarts`."""
    left = restarts
    while wanted():
        for member in members:
            code = member.process.poll()
            if code is None or not wanted():
                continue
            where = f"; its log: {member.log}" if member.log else ""
            if not left:
                raise UserError(f"{member} {ending(code)}, after {restarts} restarts of this role{where}")
            left -= 1
            command.log(f"{member} {ending(code)}: restarting it ({left} restarts left){where}")
            member.restart()
        time.sleep(0.2)


def parser() -> argparse.ArgumentParser:
    made = command.parser(__doc__)
    made.add_argument("role", choices=["ps", "worker"])
    made.add_argument("--count", type=int, required=True, help="number of processes")
    made.add_argument("--roster", type=Path, required=True, help="file that names their announcements, written at once")
    made.add_argument("--restarts", type=int, default=3, help="deaths that are made good, of all processes together")
    made.add_argument("--host", default="127.0.0.1", help="name or number by which the others reach this machine")
    return made


if __name__ == "__main__":
    command.run(main, parser().parse_args())
