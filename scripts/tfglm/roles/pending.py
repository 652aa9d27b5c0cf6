"""Jobs of a run that SLURM will never start: their run ends with SLURM's reason, where it would wait for ever without a word.

SLURM takes a job that asks for more than its partition or its user is allowed, and lets it pend. Only the standard library: the
Snakefile imports this.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

EXECUTOR = "slurm"
"""The executor of Snakemake whose jobs can be watched."""

PERIOD = 30.0
"""Seconds from one look at the queue to the next. A job is given up when two looks have found it the same."""

NEVER = re.compile(
    r"PartitionTimeLimit|PartitionNodeLimit|BadConstraints|MaxMemPerLimit|DependencyNeverSatisfied|ReservationDeleted"
    r"|Invalid(Account|QOS)|(Account|QOS)NotAllowed|QOSMin\w+|(Assoc|QOS)Max\w+Per(Job|Node)\w*"
)
"""Reasons for which a job stays where it is, whatever the others do (squeue(1), Job Reason Codes)."""

ORDINARY = re.compile(r"None|Priority|Resources|Dependency|BeginTime|Cleaning|Prolog")
"""Reasons for which a job waits for its turn."""

FIELDS = "\x1f".join(("%i", "%r", "%k", "%Z"))
"""What squeue is asked for: number, reason, comment (of Snakemake's executor, with the rule) and folder of a job."""


class Job(NamedTuple):
    """A job that waits."""

    number: str
    reason: str
    rule: str

    def __str__(self) -> str:
        return f"SLURM job {self.number} ({self.rule})"


def jobs_in(listed: str, folder: Path) -> list[Job]:
    """The jobs that were submitted from a folder, as squeue has listed them in FIELDS."""
    rows = [line.split("\x1f") for line in listed.splitlines()]
    return [
        Job(number, reason, comment.removeprefix("rule_").replace("_wildcards_", ": "))
        for number, reason, comment, submitted_from in (row for row in rows if len(row) == 4)
        if os.path.realpath(submitted_from) == os.path.realpath(folder)
    ]


class Queue:
    """What is known of the jobs that wait; `tell` hears each thing once, and `given_up` has why which job was."""

    def __init__(self, tell: Callable[[str], None], given_up: list[str]) -> None:
        self._tell, self.given_up, self._known = tell, given_up, set[Job]()

    def look(self, jobs: Iterable[Job]) -> list[Job]:
        """Those that are to be given up: for a reason that is final, and which they had at the last look too. A node that comes
        up again, say, may make a reason pass."""
        jobs = set(jobs)
        hopeless = [job for job in jobs & self._known if NEVER.match(job.reason)]
        for job in sorted(jobs - self._known):
            if not (ORDINARY.match(job.reason) or NEVER.match(job.reason)):
                self._tell(f"{job} waits, perhaps for long: {job.reason}")
        for job in hopeless:
            self.given_up.append(
                f"{job} can never start: {job.reason}. SLURM cannot give it what it asks for: ask for less in the "
                "profile, such as a lower `runtime`, or for another partition; `scontrol show partition` has the "
                "limits."
            )
            self._tell(f"{self.given_up[-1]} It is cancelled.")
        self._known = jobs - set(hopeless)
        return hopeless


def misses_cancelled(status_command: str) -> bool:
    """Whether the executor, asking by this command, does not notice a job that is cancelled."""
    return status_command == "sacct"


def watch(folder: Path, tell: Callable[[str], None], given_up: list[str], interrupt: bool) -> None:
    """From now on, cancel the jobs of a run in this folder that can never start; Snakemake then takes them for failed.

    With `interrupt` Snakemake is ended as by Ctrl-C too, which cancels all: for an executor that does not notice.
    """
    queue = Queue(tell, given_up)

    def run() -> None:
        while True:
            time.sleep(PERIOD)
            try:
                line = ["squeue", "--noheader", "--states=PENDING", f"--user={os.getuid()}", f"--format={FIELDS}"]
                listed = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout
                hopeless = queue.look(jobs_in(listed, folder))
                if hopeless:
                    line = ["scancel", *(job.number for job in hopeless)]
                    subprocess.run(line, capture_output=True, timeout=60, check=True)
            except (OSError, subprocess.SubprocessError) as error:
                # SLURM may be away for a while.
                print(f"cannot ask SLURM which jobs wait: {error}", file=sys.stderr)
                continue
            if hopeless and interrupt:
                os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=run, name="pending", daemon=True).start()
