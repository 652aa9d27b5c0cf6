"""Interrupt runs at random, edit something, run the same command again, and compare the results with those of a run from nothing.
`python tests/rounds.py 1-60` plays 60 rounds on this machine; with `--slurm`, on a SLURM of its own."""

import argparse
import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

import slurm_cluster
from round_cases import (
    ACCIDENTS,
    ACCIDENTS_ON_SLURM,
    SCRIPTS,
    Case,
    Interruption,
    Runs,
    can_happen,
    draw_case,
    draw_interruption,
    edited,
    said,
)
from runs import ENVIRONMENT

IN_TIME = 120
"""Seconds until a run ends that cannot continue: a minute or so, and more on a busy machine."""

LONGEST = 480
"""Seconds that a run may take."""

CAUSES = {
    "disk": "No space left on device|MB are free",
    "snakemake": "Complete log|Terminating|Cancelling|Will exit|KeyboardInterrupt",
    "scancel": "CANCELLED|cancelled",
    "preempt": "was preempted",
    "node": "NODE",
    "controller": "slurm",
    "edit": "changed|replaced|edited",
    "ingest": "ingest",
    "starter": "roles.py|Error in rule (ps|workers|peers)",
    "tables": "Error in rule (write_tables|compare|evaluate)",
    "pages": "Error in rule (write_pages|write_home|write_rows)",
    "design": "Error in rule (merge_dictionary|build_design|check_reference)",
    "fit": "Error in rule (fit|train)",
}
"""Words of the message after each accident. For any other process its name is enough."""


def processes(folder: Path, script: str = "") -> list[psutil.Process]:
    """The processes of the runs in a folder, wherever they work; of a script those that run it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            names = [Path(part).name for part in process.cmdline()[1:3]]
            is_wanted = not script or any(re.fullmatch(script, name) for name in names)
            if is_wanted and process.environ().get("TFGLM_ROUND") == str(folder):
                found.append(process)
    return found


def share(folder: Path) -> float:
    """The share of a fit that is done."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        facts = json.loads((folder / "logs/flights/models/m/progress.json").read_text())
        return facts.get("done", 0) / facts.get("of", 1)
    return 0.0


def moment(folder: Path, run: subprocess.Popen, wanted: Interruption) -> list[psutil.Process]:
    """Wait for the moment of an interruption: the processes that then run the script. None if they have ended before."""
    found: list[psutil.Process] = []
    while run.poll() is None and not (found and share(folder) >= wanted.share):
        # To look for processes takes as long as a small fit, so not while it runs.
        if not (found and share(folder)):
            found = processes(folder, SCRIPTS[wanted.script])
        time.sleep(0.005)
    time.sleep(wanted.seconds)
    return [process for process in found if process.is_running()]


def send(number: int, *to: psutil.Process) -> None:
    for process in to:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


TRIES = 3
"""How often a round is drawn until its accident happens: a process may have ended before."""


class Round:
    """The round of one seed and try: `story` lists its events, `faults` its faults. `has_missed` if an accident came too late."""

    def __init__(self, runs: Runs, seed: int, attempt: int = 1) -> None:
        self.runs, self.seed, self.draw = runs, seed, random.Random(seed + 1000 * (attempt - 1))
        self.folder = runs.base / f"round{seed}"
        self.story: list[str] = []
        self.faults: list[str] = []
        self.has_missed = False

    def play(self) -> None:
        """Draw all of it first, so that a seed always makes the same round; then interrupt, edit, complete and compare."""
        draw, folder = self.draw, self.folder
        shutil.rmtree(folder, ignore_errors=True)
        said(folder).unlink(missing_ok=True)
        folder.mkdir()
        slurm = self.runs.cluster is not None
        accidents = ACCIDENTS_ON_SLURM if slurm else ACCIDENTS
        first_one = accidents[(self.seed - 1) % len(accidents)]
        self.case = draw_case(draw, first_one[0])
        others = [each for each in accidents if can_happen(each[0], self.case.strategy)]
        # On a SLURM each job costs seconds: only those of the fit, and after it, are to be done.
        begun = self.case if slurm else edited(draw, self.case) if draw.random() < 0.3 else None
        chosen = [*draw.sample(others, draw.choice([0, 0, 0, 1])), first_one]
        interruptions = [draw_interruption(draw, self.case, *each, slurm) for each in chosen]
        self.case = dataclasses.replace(self.case, pages=any(each.is_late for each in interruptions))
        after = draw.choice([None, None, edited(draw, self.case), dataclasses.replace(self.case, rows=2)])
        how = draw.choice(["cp", "cp -p", "mv", "rsync -a"])
        second = draw_case(draw) if draw.random() < 0.15 and not slurm else None
        first = dataclasses.replace(begun or self.case, pages=self.case.pages)
        self.tell(f"{first.name}, from {'the results of ' + self.case.name if begun else 'nothing'}")
        with contextlib.ExitStack() as stack:
            for place in sorted({each.how for each in interruptions if each.what == "disk"}):
                path = folder / place
                path.mkdir(exist_ok=True)
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "none", path], check=True)
                stack.callback(subprocess.run, ["umount", "--lazy", path], check=True)
            if begun:
                self.runs.clean(self.case)
                shutil.copytree(self.runs.clean_folder(self.case), folder, dirs_exist_ok=True)
                if slurm:
                    for name in ("fit.json", "coefficients.csv", "embeddings.csv"):
                        (folder / "results/flights/models/m" / name).unlink(missing_ok=True)
            (folder / "tmp").mkdir(exist_ok=True)
            stack.callback(lambda: send(signal.SIGKILL, *processes(folder)))
            first.write(folder)
            if second:
                self.begin_beside(second, stack)
            last, code = first, 1
            while interruptions and code:
                last, code = self.interrupt(interruptions.pop(), last)
            if after:
                last = after
                last.write(folder, how)
                self.tell(f"then {last.name} by {how}")
            self.complete(last)
            if second:
                self.end_beside(second)

    def tell(self, what: str) -> None:
        self.story.append(what)
        print(f"  {self.seed}: {what}", flush=True)

    def fault(self, what: str) -> None:
        self.faults.append(what)
        print(f"  {self.seed}: FAULT {what}", flush=True)

    def begin_beside(self, second: Case, stack: contextlib.ExitStack) -> None:
        """A run in another folder, at the same time."""
        self.other = self.folder.with_name(f"{self.folder.name}b")
        shutil.rmtree(self.other, ignore_errors=True)
        (self.other / "tmp").mkdir(parents=True)
        said(self.other).unlink(missing_ok=True)
        second.write(self.other)
        self.beside = self.runs.start(self.other, second)
        stack.callback(lambda: send(signal.SIGKILL, *processes(self.other)))
        self.tell(f"beside {second.name}")

    def end_beside(self, second: Case) -> None:
        code = self.beside.wait(LONGEST)
        if code:
            self.fault(f"the run beside ended with {code}: {said(self.other).read_text()[-3000:]}")
        else:
            self.compare(self.other, second)

    def interrupt(self, wanted: Interruption, case: Case) -> tuple[Case, int | None]:
        """Run, and interrupt the run. Returns the case that the folder now has, and the run's exit code."""
        begin = len(said(self.folder).read_text()) if said(self.folder).exists() else 0
        if wanted.what == "disk":
            self.resize(wanted, f"{self.used(wanted) + wanted.seconds:.0f}k")
        partition = ("--default-resources", f"slurm_partition={wanted.how}", "mem_mb=2000", "runtime=30")
        run = self.runs.start(self.folder, case, *(partition if wanted.what == "preempt" else ()))
        found = [] if wanted.what == "disk" else moment(self.folder, run, wanted)
        missed = wanted.what != "disk" and not found
        self.has_missed |= missed
        self.tell(f"{'missed: ' if missed else ''}{wanted}")
        since = time.monotonic()
        if not missed:
            case = self.disturb(wanted, run, found, case)
        try:
            code = run.wait(LONGEST)
        except subprocess.TimeoutExpired:
            code = None
        seconds = time.monotonic() - since
        text = said(self.folder).read_text()[begin:]
        left = self.left_behind(IN_TIME if "SIGKILL" in wanted.how else 20)
        seconds = max(seconds, time.monotonic() - since - 1)
        self.tell(f"the run has ended with {code} after {seconds:.0f} s")
        if code is None:
            self.fault(f"no end within {LONGEST} s; there are still {left}")
            send(signal.SIGKILL, *processes(self.folder))
            run.wait()
        elif left:
            self.fault(f"left behind: {left}")
            send(signal.SIGKILL, *processes(self.folder))
        elif code and wanted.what != "disk" and seconds > IN_TIME + wanted.frozen:
            self.fault(f"ended {seconds:.0f} s after the interruption only")
        if code and code > 0 and not missed and not re.search(CAUSES.get(wanted.what, wanted.what), text):
            self.fault(f"no word of the cause:\n{text[-3000:]}")
        if wanted.what == "disk":
            self.resize(wanted, "400m")
        return case, code

    def used(self, wanted: Interruption) -> int:
        status = os.statvfs(self.folder / wanted.how)
        return (status.f_blocks - status.f_bfree) * status.f_frsize // 1024

    def resize(self, wanted: Interruption, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self.folder / wanted.how], check=True)

    def disturb(self, wanted: Interruption, run: subprocess.Popen, found: list[psutil.Process], case: Case) -> Case:
        if wanted.what in (*SCRIPTS, "snakemake"):
            victim = self.draw.choice(found) if wanted.what in SCRIPTS else psutil.Process(run.pid)
            name, _, to_all = wanted.how.partition(" to all")
            for i, number in enumerate(getattr(signal, each) for each in name.split(", ")):
                time.sleep(wanted.frozen * i)
                if to_all:
                    os.killpg(run.pid, number)
                else:
                    send(number, victim)
        elif wanted.what == "edit":
            if wanted.how == "config":
                case = edited(self.draw, self.case)
                case.configure(self.folder)
            else:
                case = dataclasses.replace(case, rows=3 - case.rows)
                case.write(self.folder, wanted.how)
            self.tell(f"now {case.name}")
        elif wanted.what != "disk":
            self.disturb_slurm(wanted)
        return case

    def disturb_slurm(self, wanted: Interruption) -> None:
        cluster = self.runs.cluster
        assert cluster
        if wanted.what == "controller":
            with cluster.controller_away():
                time.sleep(self.draw.uniform(1, 20))
            return
        running = [job for job in cluster.jobs(self.folder) if job["JobState"] in ("RUNNING", "PENDING")]
        if not running:
            return
        job = self.draw.choice(running)
        if wanted.what == "scancel":
            cluster.ask("scancel", job["JobId"])
        elif job["JobState"] == "RUNNING" and wanted.what == "preempt":
            wish = ("--exclusive", f"--nodelist={job['NodeList']}", "--time=1", "--wrap=sleep 20")
            cluster.ask("sbatch", "--chdir=/", "--output=/dev/null", *wish)
        elif job["JobState"] == "RUNNING":
            node = cluster.ask("scontrol", "show", "hostnames", job["NodeList"]).split()[-1]
            cluster.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=round")
            time.sleep(5)
            with contextlib.suppress(subprocess.CalledProcessError):  # it may have come back by itself
                cluster.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def left_behind(self, seconds: float) -> list[str]:
        """What still runs after so many seconds, or is mounted."""
        deadline = time.monotonic() + seconds
        while (left := processes(self.folder)) and time.monotonic() < deadline:
            time.sleep(0.5)
        names = []
        for process in left:
            with contextlib.suppress(psutil.Error):
                names.append(f"{process.pid} {process.status()} {' '.join(process.cmdline()[:6])}")
        return names

    def complete(self, case: Case) -> None:
        """The same command, or what its message says, completes the run."""
        begin = len(said(self.folder).read_text())
        since = time.monotonic()
        more: list[str] = []
        for _ in range(4):  # incomplete files, then the lock, then the files again
            begin = len(said(self.folder).read_text())
            run = self.runs.start(self.folder, case, *more)
            try:
                code = run.wait(LONGEST)
            except subprocess.TimeoutExpired:
                self.fault(f"completing it: no end within {LONGEST} s; there are {self.left_behind(0)}")
                return
            text = said(self.folder).read_text()[begin:]
            if code == 0 and "--unlock" not in more:
                break
            if "--unlock" in more:
                more = ["--rerun-incomplete"]
            elif "--unlock" in text:
                more = ["--unlock"]
            elif "--rerun-incomplete" in text:
                more = ["--rerun-incomplete"]
            else:
                self.fault(f"the same command ends with {code}:\n{text[-3000:]}")
                return
        else:
            self.fault("the same command, and what its messages say, complete nothing")
            return
        self.tell(f"completed after {time.monotonic() - since:.0f} s by snakemake {' '.join(more)}")
        if left := self.left_behind(20):
            self.fault(f"left behind by the complete run: {left}")
        self.compare(self.folder, case)

    def compare(self, folder: Path, case: Case) -> None:
        if different := self.runs.differences(folder, case):
            self.fault(f"{folder.name} differs from a clean run of {case.name}: {different}")
        if files := sorted(str(path.relative_to(folder)) for path in (folder / "tmp").rglob("*") if path.is_file()):
            self.fault(f"left in TMPDIR: {files}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="such as 1-60 or 3,17")
    parser.add_argument("--folder", type=Path, help="where they are played and kept; else a temporary one")
    parser.add_argument("--slurm", action="store_true", help="on a SLURM of the tests (as root)")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    seeds = [
        seed
        for part in arguments.seeds.split(",")
        for seed in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)
    ]
    with contextlib.ExitStack() as stack:
        base = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tfglm-rounds-")))
        cluster = None
        if arguments.slurm:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tfglm-slurm-")))
            cluster = stack.enter_context(slurm_cluster.cluster(scratch, environment=ENVIRONMENT, processors=8))
        runs = Runs(base.absolute(), cluster)
        failed: list[int] = []
        missed: list[int] = []
        for seed in seeds:
            for attempt in range(1, TRIES + 1):
                begin, round_ = time.monotonic(), Round(runs, seed, attempt)
                try:
                    round_.play()
                except Exception as error:
                    round_.fault(f"{type(error).__name__}: {error}")
                seconds = round(time.monotonic() - begin)
                end = "FAULT" if round_.faults else "missed" if round_.has_missed else "well"
                record = {"seed": seed, "seconds": seconds, "end": end, "story": round_.story, "faults": round_.faults}
                with (base / "rounds.jsonl").open("a") as file:
                    print(json.dumps(record), file=file)
                print(f"round {seed}: {end}, {seconds} s", flush=True)
                if end != "missed":
                    break
            (failed if end == "FAULT" else missed if end == "missed" else []).append(seed)
    print(
        f"{len(seeds)} rounds; with faults: {failed or 'none'}; without an accident in {TRIES} tries: {missed or 'none'}"
    )
    return bool(failed or missed)


if __name__ == "__main__":
    sys.exit(main())
