"""Jobs of a run on SLURM for which Snakemake would silently wait for ever: jobs that never start, and jobs that ended in a
state that its executor does not know.

If a job asks for more than its partition or its user is allowed, SLURM accepts it, and lets it pend. Only the standard
library: the Snakefile imports this.
"""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
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
"""Reasons for which a job never starts, whatever other jobs do (squeue(1), Job Reason Codes)."""

ORDINARY = re.compile(r"None|Priority|Resources|Dependency|BeginTime|Cleaning|Prolog")
"""Reasons for which a job waits for its turn."""

FIELDS = "\x1f".join(("%i", "%r", "%k", "%Z", "%T", "%M", "%N"))
"""The fields of squeue: number, reason, comment, folder, state, time since the start and nodes of a job."""

COMMENT = "tfglm"
"""How the comments of this workflow's jobs begin."""


def comment(rules: Collection[str], names: Iterable[str]) -> str:
    """What `squeue --format=%k` shows of a job: `tfglm:late_arrival:fit`. `names` are what its rules are for.

    >>> comment({"ps", "workers", "chief"}, ["late_arrival"])
    'tfglm:late_arrival:fit'
    >>> comment({"ingest"}, ["2006"])
    'tfglm:2006:ingest'
    """
    if len(rules) == 1:
        (what,) = rules
    else:
        what = "train" if "train_on_cluster" in rules else "fit" if "chief" in rules else "results"
    return ":".join([COMMENT, *names, what])


def ask_queue(*options: str) -> str:
    """What squeue lists of this user's jobs, in FIELDS. Raises OSError and SubprocessError."""
    line = ["squeue", "--noheader", f"--user={os.getuid()}", f"--format={FIELDS}", *options]
    return subprocess.run(line, capture_output=True, encoding="utf-8", errors="replace", timeout=60, check=True).stdout


class PendingJob(NamedTuple):
    number: str
    reason: str
    rule: str

    def __str__(self) -> str:
        return f"SLURM job {self.number} ({self.rule})"


def rows_in(listed: str, folder: Path) -> list[list[str]]:
    """The fields of the jobs that were submitted from a folder; the comment without its beginning."""
    rows = [line.split("\x1f") for line in listed.splitlines()]
    return [
        [number, reason, words.removeprefix(f"{COMMENT}:").replace(":", ": "), *others]
        for number, reason, words, submitted_from, *others in (row for row in rows if len(row) == 7)
        if os.path.realpath(submitted_from) == os.path.realpath(folder)
    ]


def jobs_in(listed: str, folder: Path) -> list[PendingJob]:
    """The jobs that were submitted from a folder."""
    return [PendingJob(*row[:3]) for row in rows_in(listed, folder)]


def accounts(folder: Path) -> list[str]:
    """A line for each job that a run in this folder has in the queue of SLURM; none where no run has used it."""
    try:
        rows = rows_in(ask_queue(), folder)
    except OSError:
        return []
    except subprocess.SubprocessError:
        return ["SLURM does not answer"] if (folder / ".snakemake" / "slurm_logs").is_dir() else []
    return [
        f"SLURM job {number} ({words}): {state.lower()}, {f'{since} on {nodes}' if nodes else reason}"
        for number, reason, words, state, since, nodes in rows
    ]


class Queue:
    """The jobs that wait. `tell` receives each message once; `given_up` has the jobs that were given up, with the reason."""

    def __init__(self, tell: Callable[[str], None], given_up: list[str]) -> None:
        self._tell, self.given_up, self._known = tell, given_up, set[PendingJob]()

    def look(self, jobs: Iterable[PendingJob]) -> list[PendingJob]:
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


SETTLED = 60.0
"""Seconds after which SLURM has begun a preempted job again, or never will."""

ENDED = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
)
"""States in which a job is over for the purposes here."""


class States:
    """The states of jobs in words that the executor knows. The executor (2.8.0) treats all other states as a running job.

    Other states are PREEMPTED, for a job that SLURM does not requeue; `CANCELLED by 1000`, from sacct; and no state, for a
    job that SLURM has forgotten. For such jobs the executor receives that they failed, and `tell` receives the reason.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        requeued: bool,
        clock: Callable[[], float] = time.monotonic,
        queued: Callable[[str], bool] | None = None,
    ) -> None:
        self._tell, self._requeued, self._clock, self._queued = tell, requeued, clock, queued or is_queued
        self._since: dict[str, tuple[str, float]] = {}  # by the number of a job: its state, and since when it has that
        self._failed: set[str] = set()

    def known(self, states: Mapping[str, str]) -> dict[str, str]:
        """Translate what SLURM has answered: the states of all jobs of the run by their numbers."""
        now = self._clock()
        answer = {number: state.split(" by ")[0] for number, state in states.items()}
        for number in answer.keys() | self._since.keys():
            state = answer.get(number, "gone")
            before, since = self._since.get(number, ("", now))
            # A job that is over is forgotten in time; the numbers of arrays change when their jobs start.
            if state == "gone" and (before in ENDED or not number.isdecimal()):
                del self._since[number]
                continue
            if state != before:
                since = now
            self._since[number] = state, since
            if state == "PREEMPTED":
                # sacct says PREEMPTED until the job starts again, which SLURM delays by minutes.
                final = not self._requeued or (now - since >= SETTLED and not self._queued(number))
                answer[number] = "FAILED" if final else "RUNNING"
                if final:
                    self._tell_once(
                        number, "was preempted, and SLURM does not begin it again; `slurm-requeue` can change that"
                    )
            elif state == "gone" and now - since >= SETTLED:
                answer[number] = "FAILED"
                self._tell_once(number, "is not known to SLURM any more; see `MinJobAge` in profiles/README.md")
        return answer

    def _tell_once(self, number: str, what: str) -> None:
        if number not in self._failed:
            self._failed.add(number)
            self._tell(f"SLURM job {number} {what}")


def is_queued(number: str) -> bool:
    """Whether a job waits or runs, as far as can be known."""
    line = ["squeue", "--noheader", "--states=PENDING,CONFIGURING,RUNNING,COMPLETING", f"--jobs={number}"]
    try:
        asked = subprocess.run(line, capture_output=True, encoding="utf-8", errors="replace", timeout=60)
    except (OSError, subprocess.SubprocessError):
        return True
    # It fails for a job that SLURM has forgotten.
    return bool(asked.stdout.strip()) or (asked.returncode != 0 and "Invalid job id" not in asked.stderr)


def watch(folder: Path, tell: Callable[[str], None], given_up: list[str]) -> None:
    """From now on, cancel the jobs of a run in this folder that can never start; Snakemake then takes them for failed."""
    queue = Queue(tell, given_up)

    def run() -> None:
        while True:
            time.sleep(PERIOD)
            try:
                hopeless = queue.look(jobs_in(ask_queue("--states=PENDING"), folder))
                if hopeless:
                    line = ["scancel", *(job.number for job in hopeless)]
                    subprocess.run(line, capture_output=True, timeout=60, check=True)
            except (OSError, subprocess.SubprocessError) as error:
                # SLURM may be away for a while.
                print(f"cannot ask SLURM which jobs wait: {error}", file=sys.stderr)

    threading.Thread(target=run, name="pending", daemon=True).start()
