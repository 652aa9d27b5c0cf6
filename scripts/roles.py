"""Start all processes of one role, on this machine or on SLURM nodes, restart those that die, and end them together."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tfglm import command, tensorflow_setup
from tfglm.errors import UserError
from tfglm.roles import announce, ending, forking, launch
from tfglm.roles.announce import Announcement, Role, Roster
from tfglm.roles.beside import STOPPED, Beside, Frozen
from tfglm.roles.lease import Lease, Signs

LONGEST_END = 30
"""Seconds from a signal to the end of this process."""


class Member:
    """One process of the role, and its successors."""

    def __init__(self, roster: Roster, index: int, path: Path, host: str, work: str, gpus: int) -> None:
        self.role, self.index, self.run, self.host = roster.role, index, roster.run, host
        self.work, self.gpus = work, gpus
        self.announcement = path.with_name(roster.members[index])
        self.log = Path(roster.logs[index]) if roster.logs else None
        self.restarts = 0
        self.process: subprocess.Popen | forking.Adopted | None = None  # None until it has been forked

    def line(self) -> list[str]:
        """The command line for the script of the role; of a successor with the port announced before, for a running cluster finds
        it nowhere else."""
        announced = announce.read(self.announcement)
        port = (
            announced.address.rpartition(":")[2]
            if isinstance(announced, Announcement) and announced.run == self.run
            else ""
        )
        line = ["--index", self.index, "--announce", self.announcement, "--run", self.run]
        line += ["--host", self.host, "--port", port or 0, "--parent", os.getpid()]
        line += ["--log", self.log] if self.log else []
        line += ["--work", self.work] if self.role == "peer" else []
        line += ["--gpus", self.gpus] if self.gpus else []
        return list(map(str, line))

    def start(self, others: Sequence["Member"] = (), tell: int = -1) -> None:
        """Start the process; `others` are then forked from it, and tell so."""
        line = [sys.executable, str(Path(__file__).with_name(f"{self.role}.py")), *self.line()]
        if others:
            line += ["--fork", json.dumps([other.line() for other in others]), "--tell", str(tell)]
        self.process = subprocess.Popen(
            line,
            env=tensorflow_setup.environment(os.environ),
            preexec_fn=ending.kill_with_parent,
            pass_fds=[tell] if others else [],
        )

    def restart(self) -> None:
        """Start a successor with a log of its own: the log of the previous process says why that died."""
        self.restarts += 1
        if self.log:
            stem = self.log.name.removesuffix(".log").removesuffix(f".restart{self.restarts - 1}")
            self.log = self.log.with_name(f"{stem}.restart{self.restarts}.log")
        self.start()

    def is_listening(self) -> bool:
        """Whether the chief, who then looks after it, can find the process."""
        announced = announce.read(self.announcement)
        return (
            isinstance(announced, Announcement)
            and announced.state == "listening"
            and (announced.run, announced.pid) == (self.run, self.process and self.process.pid)
        )

    def end(self) -> None:
        if self.process:
            self.process.terminate()

    def kill(self) -> None:
        if self.process:
            self.process.kill()

    def __str__(self) -> str:
        process = f"pid {self.process.pid}" if self.process else "to be forked"
        return f"{self.role} {self.index} ({process})"


class Members:
    """The processes of the role on this machine: the first imports for all, and the others are forked from it."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members, self._others = members, members[1:]
        self._frozen = Frozen()
        self._arriving: forking.Arriving | None = None
        if self._others:
            forking.adopt()
            self._arriving = forking.Arriving()
            members[0].start(self._others, self._arriving.writing)
            os.close(self._arriving.writing)
        elif members:
            members[0].start()

    def look(self) -> None:
        """Take note of those that have been forked. Those that will not be, as the first has died or cannot fork, are started."""
        if self._arriving and not self.note_arrivals():
            self._arriving = None
            for member in self._others:
                if not member.process:
                    member.start()
                    command.log(f"started {member}")

    def note_arrivals(self) -> bool:
        """Take note of those that have been forked since the last look. Returns whether more may come."""
        arrived = self._arriving.look() if self._arriving else None
        for place, pid in arrived or []:
            self._others[place].process = forking.Adopted(pid)
            command.log(f"started {self._others[place]}")
        return arrived is not None

    def kill_frozen(self) -> None:
        """Kill those that are stopped before they are listening, as nobody else sees that; they are then restarted."""
        by_id = {member.process.pid: member for member in self._members if member.process}
        for pid in self._frozen.among(by_id):
            if not by_id[pid].is_listening():
                command.log(f"{by_id[pid]} has been stopped for {STOPPED:.0f} s, by SIGSTOP or the like; it is killed")
                by_id[pid].kill()


def stop(started: Sequence[Member | launch.Step], patience_seconds: float) -> None:
    """End all processes, and kill those that have not ended after `patience_seconds`."""
    for each in started:
        each.end()
    deadline = time.monotonic() + patience_seconds
    for each in started:
        if not each.process:
            continue
        try:
            each.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.kill()
            each.process.wait()
            command.log(f"{each} did not end, and was killed")


def how_it_ended(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def main(arguments: argparse.Namespace) -> None:
    parent = arguments.parent or os.getppid()
    path, count = arguments.roster, arguments.count
    signals: list[int] = []

    def note(number: int, _: object) -> None:
        signals.append(number)
        # Should this process wait for a disk or for whoever reads what it says, the kernel ends it, and then its processes.
        signal.alarm(LONGEST_END)
        if number == signal.SIGINT:
            # The terminal sends it. Snakemake then cleans up nothing, would call the roster incomplete in the next run, and
            # kills this process once the chief has ended; so end immediately.
            path.unlink(missing_ok=True)

    roster = (
        joined(path, arguments.task_of) if arguments.task_of else called(arguments.role, count, path, arguments.log)
    )
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, note)
    started: list[Member | launch.Step] = []
    lease = Lease(arguments.lease, arguments.patience) if arguments.lease else None
    signs = Signs(path.with_name(roster.signs)) if not arguments.task_of else None
    beside = Beside(parent, arguments.lease, arguments.within) if lease and arguments.within else None

    def wanted() -> bool:
        if signs:
            signs.give()
        if lease and (reason := lease.expired()):
            raise UserError(reason)
        if beside and lease and not lease.signs.came and (reason := beside.trouble()):
            raise UserError(reason)
        return not signals and os.getppid() == parent

    members = Members([])
    try:
        try:
            if arguments.launcher == "srun":
                started.append(launch.Step(arguments.role, count, task(arguments, roster.run), arguments.gpus))
            elif arguments.task_of:
                host = launch.own_address(arguments.interface)
                index = int(os.environ["SLURM_PROCID"])  # the position of this process in its step
                started.append(Member(roster, index, path, host, arguments.work, arguments.gpus))
            else:
                started += [
                    Member(roster, index, path, arguments.host, arguments.work, arguments.gpus)
                    for index in range(count)
                ]
            members = Members([each for each in started if isinstance(each, Member)])
            command.log(f"started {', '.join(map(str, started))}")
            watch(started, members, arguments.restarts, wanted)
        finally:
            # A process that was forked a moment ago is ended like the others.
            members.note_arrivals()
            # The tasks of a step have the same patience with their own processes, so the step needs longer.
            stop(started, 10.0 if arguments.launcher == "srun" else 5.0)
    except UserError as error:
        announced = announce.read(path)
        if isinstance(announced, Roster) and announced.run == roster.run and announced.failed:
            # A task of the step reports it, which says more than the end of the step.
            raise UserError(announced.failed) from error
        announce.write(path, replace(roster, failed=str(error)))
        raise
    command.log(f"ended: {signal.Signals(signals[0]).name if signals else 'the parent process is gone'}")


def called(role: Role, count: int, path: Path, log: Path | None) -> Roster:
    """Write a new roster at `path`; the announcements of the previous roster are removed."""
    names = [f"{path.stem}-{index}.json" for index in range(count)]
    for name in names:
        path.with_name(name).unlink(missing_ok=True)
    logs = [log.with_name(f"{log.stem}-{index}.log").resolve() for index in range(count)] if log else []
    own_log = str(log.resolve()) if log else ""
    roster = Roster(
        role, uuid.uuid4().hex, tuple(names), tuple(map(str, logs)), signs=f"{path.stem}.alive", log=own_log
    )
    announce.write(path, roster)
    return roster


def joined(path: Path, run: str, deadline_seconds: float = 60.0) -> Roster:
    """The roster of that run at `path`, which a shared file system may show on other nodes a little later."""
    deadline = time.monotonic() + deadline_seconds
    while time.monotonic() < deadline:
        if isinstance(announced := announce.read(path), Roster) and announced.run == run:
            return announced
        time.sleep(0.2)
    raise UserError(
        f"{path} was written on the first node and is not visible here after {deadline_seconds:.0f} s; do all nodes "
        "share this folder?"
    )


def task(arguments: argparse.Namespace, run: str) -> list[str]:
    """The command of each task of a step: this script again, for the single process with its index."""
    line = [sys.executable, __file__, arguments.role, "--count", arguments.count, "--roster", arguments.roster]
    line += ["--restarts", arguments.restarts, "--interface", arguments.interface, "--task-of", run]
    line += ["--work", arguments.work, "--gpus", arguments.gpus]
    return list(map(str, line))


def watch(started: Sequence[Member | launch.Step], members: Members, restarts: int, wanted: Callable[[], bool]) -> None:
    """Restart processes that die while `wanted()`, but no step: its tasks do that. Raises UserError if there are more deaths
    than `restarts`, or if a step dies; and the errors of `wanted`."""
    left = restarts
    while wanted():
        members.look()
        members.kill_frozen()
        for each in started:
            code = each.process.poll() if each.process else None
            if code is None or not wanted():
                continue
            if isinstance(each, launch.Step):
                raise UserError(f"{each} {how_it_ended(code)}; this log, or those of its processes, say why")
            where = f"; its log: {each.log}" if each.log else ""
            if not left:
                raise UserError(f"{each} {how_it_ended(code)}, after {restarts} restarts of this role{where}")
            left -= 1
            command.log(f"{each} {how_it_ended(code)}: restarting it ({left} restarts left){where}")
            each.restart()
        time.sleep(0.2)


def parser() -> argparse.ArgumentParser:
    parser = command.parser(__doc__)
    parser.add_argument("role", choices=["ps", "worker", "peer"])
    parser.add_argument("--count", type=int, required=True, help="number of processes")
    parser.add_file("--roster", "roster to write, which names the announcement of each process")
    parser.add_file("--lease", "file that the chief touches as long as it lives; the role ends with it", optional=True)
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for the chief to start")
    parser.add_argument("--within", type=float, help="seconds within which the parent starts the chief, or never")
    parser.add_argument(
        "--restarts", type=int, default=3, help="how many dead processes are restarted, over all of them"
    )
    parser.add_argument("--host", default="127.0.0.1", help="name or number at which the others reach this machine")
    parser.add_argument("--launcher", choices=["local", "srun"], default="local", help="where the processes run")
    parser.add_argument(
        "--interface", default="auto", help="with srun, the network interface whose address is announced"
    )
    parser.add_argument(
        "--work",
        choices=["network", "fit"],
        default="fit",
        help="what peers do together: train a network, or fit a model",
    )
    parser.add_argument("--gpus", type=int, default=0, help="GPUs of each worker")
    parser.add_argument("--parent", type=int, help="id of the process that starts this process")
    parser.add_argument(
        "--task-of",
        metavar="RUN",
        help="set by srun's tasks: start only the process with the index SLURM_PROCID, of this run",
    )
    return parser


if __name__ == "__main__":
    command.run(main, parser().parse_args())
