#!/usr/bin/env python3
"""A stand-in for the schedulers that profiles/generic is written for: it takes a job script as `qsub` and `bsub` do, runs it on
this machine, and answers questions in the words of theirs. Linked under the names of their commands (`install`).

With a file `hold` in its folder no job starts. With a folder `edits` there, whose files are named after numbers, a user edits the
file that `edited` links to while jobs wait: before each job starts it gets the content of the next one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

COMMANDS = {
    "pbs": ("qsub", "qstat", "qdel"),
    "sge": ("qsub", "qstat", "qacct", "qdel"),
    "lsf": ("bsub", "bjobs", "bkill"),
}


def install(folder: Path, scheduler: str) -> dict[str, str]:
    """Link the commands of a scheduler into `folder`, where its jobs are recorded too; returns the environment that has them."""
    folder.mkdir()
    (folder / "scheduler").write_text(scheduler)
    for name in COMMANDS[scheduler]:
        (folder / name).symlink_to(Path(__file__).resolve())
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "SCHEDULER_FOLDER": str(folder)}


def submitted(folder: Path) -> list[list[str]]:
    """What each job was submitted with, in order."""
    files = sorted(folder.glob("*.json"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text()) for path in files]


def submit(folder: Path, arguments: list[str]) -> int:
    """Start a job, away from the folder it was submitted from; its exit code is written when it ends."""
    number = len(submitted(folder)) + 1
    (folder / f"{number}.json").write_text(json.dumps(arguments))
    if edits := sorted(folder.glob("edits/*")):
        shutil.copyfile(edits[(number - 1) % len(edits)], folder / "edited")
    if not (folder / "hold").exists():
        run = '"$0"; echo $? >"$1.part"; mv "$1.part" "$1"'
        line = ["sh", "-c", run, arguments[-1], str(folder / f"{number}.exit")]
        with (folder / f"{number}.out").open("w") as out:
            job = subprocess.Popen(line, cwd="/", stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        (folder / f"{number}.pid").write_text(str(job.pid))
    return number


def cancel(folder: Path, numbers: list[str]) -> None:
    """End jobs, and record that they were killed."""
    for number in numbers:
        pid = folder / f"{number}.pid"
        if pid.exists():
            os.killpg(int(pid.read_text()), signal.SIGKILL)
        (folder / f"{number}.exit").write_text("137")


def answer(folder: Path, scheduler: str, command: str, arguments: list[str]) -> int:
    """Print what a scheduler says of a job; returns the exit code."""
    number = arguments[-1]
    exit_code = folder / f"{number}.exit"
    code = exit_code.read_text().strip() if exit_code.exists() else None
    if scheduler == "pbs":
        print(f"Job Id: {number}\n    Job_Name = tfglm\n    job_state = {'R' if code is None else 'F'}")
        if code is not None:
            print(f"    Exit_status = {code}")
    elif scheduler == "lsf":
        print("RUN   " if code is None else "DONE" if code == "0" else "EXIT")
    elif command == "qstat":
        return 0 if code is None else 1
    elif code is not None:
        print(f"{'=' * 60}\nqname        all.q\nfailed       0\nexit_status  {code}\nru_wallclock 5")
    return 0


def main(command: str, arguments: list[str]) -> int:
    folder = Path(os.environ["SCHEDULER_FOLDER"])
    scheduler = (folder / "scheduler").read_text()
    if command in ("qsub", "bsub"):
        number = submit(folder, arguments)
        print(f"Job <{number}> is submitted to default queue <normal>." if scheduler == "lsf" else number)
        return 0
    if command in ("qdel", "bkill"):
        cancel(folder, arguments)
        return 0
    return answer(folder, scheduler, command, arguments)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[0]).name, sys.argv[1:]))
