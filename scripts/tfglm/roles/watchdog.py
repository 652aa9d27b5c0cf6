"""End a chief that cannot continue, from a process beside it.

TensorFlow reports a dead ps to the chief only when a call needs it, and it never reports dead workers or stopped processes:
it waits for ever. A thread of the chief could not end it. TensorFlow holds Python's lock while it waits for a stopped ps,
and LAPACK holds it while it factors a matrix. So this process watches the chief, and imports nothing that computes. It also
gives the chief's signs of life.

It kills the chief first and reports afterwards, so that a full log or a busy reader cannot keep the chief alive.
"""

import json
import mmap
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from tfglm import command
from tfglm.errors import UserError
from tfglm.roles import announce, ending, lease, probe, progress
from tfglm.roles.announce import Announcement, Roster
from tfglm.roles.lease import Seen, Signs, Silence

PERIOD = 2.0
"""Seconds between two rounds of probes."""

TICK = 0.5
"""Seconds between two looks at the chief."""


@dataclass(frozen=True)
class Settings:
    """The settings that the chief sends to its watchdog at the start, as JSON. Paths are texts; '' means none."""

    chief: int  # its process id
    page: int  # the file descriptor of their common page
    terminal: int  # the file descriptor of the terminal, or of its replacement
    rosters: tuple[str, ...] = ()
    parent: int = 0  # the process that starts the chief, to end with it; 0 for none
    progress: str = ""
    grace: float = 30.0
    stall: float = 900.0
    term: float = lease.TERM
    period: float = lease.PERIOD  # of the chief's signs
    lease: str = ""  # where it gives them

    def text(self) -> str:
        return json.dumps(asdict(self))


class Page:
    """A page of memory that the chief and its watchdog share, behind a file descriptor: three numbers, written without a lock, a
    system call or a wait."""

    SIZE, WAITS, DEPTH, ALIVE = 24, 0, 1, 2

    def __init__(self, descriptor: int) -> None:
        self._numbers = memoryview(mmap.mmap(descriptor, self.SIZE)).cast("q")

    @staticmethod
    def make() -> int:
        """The file descriptor of a new one, for `Page` in both processes."""
        descriptor = os.memfd_create("tfglm")
        os.ftruncate(descriptor, Page.SIZE)
        return descriptor

    def begin(self) -> None:
        """The chief begins to wait for a call."""
        self._numbers[self.WAITS] += 1
        self._numbers[self.DEPTH] += 1

    def end(self) -> None:
        """It has come back, or failed."""
        self._numbers[self.DEPTH] -= 1

    def wait(self) -> int | None:
        """The number of the wait that the chief is in, None if it is in none."""
        return self._numbers[self.WAITS] if self._numbers[self.DEPTH] else None

    @property
    def workers_alive(self) -> int:
        """The number of workers that answer the watchdog."""
        return self._numbers[self.ALIVE]

    @workers_alive.setter
    def workers_alive(self, number: int) -> None:
        self._numbers[self.ALIVE] = number


class Supervisors:
    """The processes of `roles.py`, by the signs of life that their rosters name."""

    def __init__(self, rosters: Iterable[Path], term: float = lease.TERM) -> None:
        self.rosters, self.term = list(rosters), term
        self._known: dict[Path, tuple[Roster, Seen]] = {}

    def gone(self) -> str:
        """Return which of them gives no sign any more, or ''."""
        for roster, signs in self._look():
            if (silent := signs.silent_seconds()) > self.term:
                return f"{_silence(roster, silent)}; it and the processes that it started are gone"
        return ""

    def failures(self, roles: Iterable[str]) -> list[str]:
        """Return facts about the processes that started these roles, which may explain why the roles are lost."""
        of_roles = [(roster, signs.silent_seconds()) for roster, signs in self._look() if roster.role in roles]
        given_up = [roster.failed for roster, _ in of_roles if roster.failed]
        return given_up + [_silence(roster, silent) for roster, silent in of_roles if silent > OVERDUE * lease.PERIOD]

    def _look(self) -> list[tuple[Roster, Seen]]:
        for path in self.rosters:
            try:
                roster = announce.read(path)
            except (OSError, UserError):
                continue  # the chief, who waits for it, says so
            if not isinstance(roster, Roster) or not roster.signs:
                continue
            known = self._known.get(path)
            signs = known[1] if known and known[0].run == roster.run else Seen(path.with_name(roster.signs))
            self._known[path] = roster, signs
        return list(self._known.values())


OVERDUE = 3
"""Periods without a sign after which it is worth a word."""


def _silence(roster: Roster, silent: float) -> str:
    return f"{roster.supervisor}, log: {roster.log or 'its terminal'}, has given no sign of life for {silent:.0f} s"


class Watchdog(threading.Thread):
    """Calls `end` with a reason when

    - a ps, or every worker, has not answered for `grace` seconds (the default leaves time for a restart),
    - one worker has been silent that long, because its calls never return (if the process of a worker has ended, the other
      workers and its restart compensate),
    - the chief has waited for one call, of whatever kind, for `stall` seconds, though all answer, or
    - a process that starts the roles gives no sign of life any more, or
    - it fails itself.

    `waits()` identifies the current wait of the chief, and is None while it waits for nothing. `members` may be set later;
    they have `timeout` seconds to answer. The loss of a member is reported once, and so is its return. Start it with
    `.start()`; it needs no end.
    """

    def __init__(
        self,
        members: Sequence[Announcement],
        waits: Callable[[], int | None],
        end: Callable[[str], object],
        supervisors: Supervisors | None = None,
        grace: float = 30.0,
        stall: float = 900.0,
        tell: Callable[[str], object] = command.aside,
        timeout: float = 5.0,
    ) -> None:
        super().__init__(name="watchdog", daemon=True)
        self.members, self.waits, self.end, self.grace, self.stall, self.tell = members, waits, end, grace, stall, tell
        self.timeout = timeout
        self.supervisors = supervisors or Supervisors([])
        self.lost: dict[str, probe.Answer] = {}  # by the name of a member: its last answer
        self._silences: dict[str, Silence] = {}
        self._waited = Silence()

    def run(self) -> None:
        reason = ""
        try:
            while not (reason := self.check()):
                time.sleep(PERIOD)
        except BaseException as error:
            reason = f"the watchdog of the cluster has failed: {type(error).__name__}: {error}"
        finally:
            self.end(reason)

    def workers_alive(self) -> int:
        """The number of workers that answered the last probe."""
        return sum(each.role == "worker" and each.name not in self.lost for each in self.members)

    def check(self) -> str:
        """Ask everyone once; why the chief has to end, or ''."""
        members = self.members
        for_seconds = self._ask(members)
        gone = [each for each in members if for_seconds[each.name] >= self.grace and each.name in self.lost]
        workers = [each for each in members if each.role == "worker"]
        if not all(each in gone for each in workers):
            gone = [each for each in gone if each.role == "ps" or self.lost[each.name] == "silent"]
        if gone:
            whom = "; ".join(f"{each.place} ({MEANING[self.lost[each.name]]})" for each in gone)
            why = self.supervisors.failures({each.role for each in gone})
            return f"lost for {self.grace:.0f} s, so the run cannot continue: {'; '.join([whom, *why])}"
        if reason := self.supervisors.gone():
            return reason
        wait = self.waits()
        if (waited := self._waited.seconds(object() if wait is None else wait)) > self.stall:
            whom = "; ".join(each.place for each in members)
            return (
                f"no call has returned for {waited:.0f} s, although all processes answer; their logs may say why: "
                f"{whom}"
            )
        return ""

    def _ask(self, members: Sequence[Announcement]) -> dict[str, float]:
        """Ask all at the same time. By name: the seconds since the last answer."""
        if not members:
            return {}
        with ThreadPoolExecutor(len(members)) as asking:
            answers = list(asking.map(lambda each: probe.ask(each.address, self.timeout), members))
        for_seconds = {}
        for member, answer in zip(members, answers, strict=True):
            here = answer == "answers"
            silence = self._silences.setdefault(member.name, Silence())
            for_seconds[member.name] = silence.seconds(object() if here else "lost")
            if here and member.name in self.lost:
                del self.lost[member.name]
                self.tell(f"{member.name} is back at {member.address}")
            elif not here:
                if member.name not in self.lost:
                    self.tell(f"lost: {member.place} ({MEANING[answer]})")
                self.lost[member.name] = answer
        return for_seconds


MEANING = {
    "refused": "no process listens there any more",
    "silent": "it does not answer: its process is stopped, or its machine or network is down",
}


class WatchedChief:
    """The chief, seen by its watchdog, which is a child of it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._stopped = Silence()
        self.stopped = False

    def check(self) -> str:
        """Why it has to end, or ''; no sign of life is to be given while it is `stopped`."""
        state, parent = self._state()
        self.stopped = state == "T"
        if self.settings.parent and parent != self.settings.parent:
            return "the process that started the chief is gone"
        stopped = self._stopped.seconds("stopped" if self.stopped else object())
        if stopped >= self.settings.grace:
            return f"the chief has been stopped for {stopped:.0f} s, by SIGSTOP or the like"
        return ""

    def _state(self) -> tuple[str, int]:
        """The state of the process and the id of its parent (proc(5), /proc/PID/stat)."""
        state, parent = (
            Path(f"/proc/{self.settings.chief}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
        )
        return state, int(parent)

    def end(self, reason: str) -> NoReturn:
        """Kill the chief; then report the reason, if any, in its log, on the terminal and in its progress file. Does nothing
        if it is gone. This runs in the main thread, because the kernel's signal at a parent's end is set for each thread."""
        ending.kill_with_parent(0)
        if os.getppid() != self.settings.chief:
            ending.leave(0)
        os.kill(self.settings.chief, signal.SIGKILL)
        path = self.settings.progress
        last = [lambda: command.say(f"error: {reason}")] if reason else []
        last += [lambda: progress.failed(Path(path), reason)] if path else []
        ending.leave(1, *last)


def main() -> None:
    """Look after the chief until it ends, or has to be ended. Standard input brings the members, once they are there."""
    # The terminal sends it to all of the chief's processes: the chief ends, and this process with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = Settings(**json.loads(sys.argv[1]))
    command.terminal = os.fdopen(settings.terminal, "w", encoding=sys.stderr.encoding, errors="backslashreplace")
    chief = WatchedChief(settings)
    try:
        reason = look_after(chief, settings)
    except BaseException as error:
        reason = f"the watchdog of the chief has failed: {type(error).__name__}: {error}"
    chief.end(reason)


def look_after(chief: WatchedChief, settings: Settings) -> str:
    """Until the chief has ended, or for this reason has to end."""
    page = Page(settings.page)
    signs = Signs(Path(settings.lease), settings.period) if settings.lease else None
    supervisors = Supervisors(map(Path, settings.rosters), settings.term)
    reasons: list[str] = []
    dog = Watchdog([], page.wait, reasons.append, supervisors, settings.grace, settings.stall)
    dog.start()
    while not (reason := chief.check()) and not reasons:
        if signs and not chief.stopped:
            signs.give()
        page.workers_alive = dog.workers_alive()
        if select.select([0], [], [], TICK)[0]:
            if not (told := sys.stdin.readline()):
                return ""  # the chief has ended
            dog.members = [Announcement(**member) for member in json.loads(told)]
    return reason or reasons[0]


if __name__ == "__main__":
    main()
