"""Ends the chief: when its cluster cannot go on, and when its work is done.

TensorFlow tells the chief of a dead ps only when a call needs it, and of dead workers never: with all of them gone it waits
for ever, and nothing in Python can interrupt that. So a thread probes them, and ends the process.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tfglm import command
from tfglm.cluster.announce import Announcement, reachable

PERIOD = 2.0
"""Seconds between two rounds of probes."""


class Watchdog(threading.Thread):
    """Ends the process with 1 and a message when

    - a ps, or every worker, has been unreachable for `grace` seconds (the default leaves time for a restart), or
    - `stalled_seconds()` exceeds `stall`.

    `ending` is told the reason first. One lost worker of several is logged, once, and its return too. Start it with `.start()`;
    it needs no end.
    """

    def __init__(
        self,
        members: Sequence[Announcement],
        stalled_seconds: Callable[[], float],
        ending: Callable[[str], None] = lambda reason: None,
        grace: float = 30.0,
        stall: float = 900.0,
    ) -> None:
        super().__init__(name="watchdog", daemon=True)
        self.members, self.stalled_seconds, self.grace, self.stall = members, stalled_seconds, grace, stall
        self.ending = ending
        self.lost: dict[str, float] = {}  # name of a member: since when, on the monotonic clock
        self.probes = ThreadPoolExecutor(min(32, len(members)))  # a machine that is off takes each probe 2 s

    def run(self) -> None:
        while not (reason := self.check()):
            time.sleep(PERIOD)
        self.ending(reason)
        command.say(f"error: {reason}")
        os._exit(1)

    def workers_alive(self) -> int:
        """How many workers have answered the last probe."""
        return sum(each.role == "worker" and each.name not in self.lost for each in self.members)

    def check(self) -> str:
        """Probe everyone once; why the process has to end, or ''."""
        now = time.monotonic()
        for member, answers in zip(
            self.members, self.probes.map(reachable, [each.address for each in self.members]), strict=True
        ):
            if answers and self.lost.pop(member.name, None) is not None:
                command.log(f"{member.name} is back at {member.address}")
            elif not answers and member.name not in self.lost:
                self.lost[member.name] = now
                command.log(f"lost: {describe(member)}")
        gone = [each for each in self.members if each.name in self.lost and now - self.lost[each.name] >= self.grace]
        dead = [each for each in gone if each.role == "ps"]
        workers = [each for each in self.members if each.role == "worker"]
        dead += workers if all(each in gone for each in workers) else []
        if dead:
            return f"lost for {self.grace:.0f} s, so the run cannot go on: {'; '.join(map(describe, dead))}"
        if (waited := self.stalled_seconds()) > self.stall:
            whom = "; ".join(map(describe, workers))
            return f"no call has come back for {waited:.0f} s; the workers' logs may say why: {whom}"
        return ""


def describe(member: Announcement) -> str:
    """Where to look for a member that was listening once."""
    return f"{member.name} at {member.address} on {member.node}, log: {member.log or 'its terminal'}"


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


def _end_at_signal() -> None:
    """End this process at a signal. A handler in Python waits until the main thread is back from TensorFlow; but the number of
    the signal is written to a pipe at once, whichever thread got it, and a thread can read that."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in ENDING:
        signal.signal(number, lambda number, _: None)
    signal.set_wakeup_fd(writing)

    def end() -> None:
        (number,) = os.read(reading, 1)
        command.log(f"ending: {signal.Signals(number).name}")
        os._exit(128 + number)

    threading.Thread(target=end, name="signals", daemon=True).start()


@contextlib.contextmanager
def exit_at_once() -> Iterator[None]:
    """Run the chief's whole program inside this: it exits with the code of its SystemExit, 0 without one; and at a signal that
    asks it to end.

    The interpreter's own way out waits for the threads of TensorFlow, and these, for ever, for a worker that is lost.
    """
    _end_at_signal()
    code = 2
    try:
        yield
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
