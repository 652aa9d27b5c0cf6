"""Runs that a drill interrupts, and how they end. Such a run fits a path of many penalties."""

import contextlib
import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from path_run import PASSES, TARGET
from runs import ENVIRONMENT, command_line, processes_in
from tfglm.roles import probe

SOLVED = ("fit.json", "coefficients.csv", "checkpoint/fitted.data-00000-of-00001")

A_MINUTE_OR_SO = 75
"""Seconds until a run ends that cannot go on, as the README says."""


def log(folder: Path) -> Path:
    return folder / "logs" / "flights" / "models" / "path" / "progress.json"


def digests(folder: Path) -> dict[str, str]:
    model = folder / "results" / "flights" / "models" / "path"
    return {name: hashlib.sha256((model / name).read_bytes()).hexdigest() for name in SOLVED}


def progress(folder: Path) -> dict:
    try:
        return json.loads(log(folder).read_text())
    except FileNotFoundError:
        return {"state": "", "passes": 0}


@contextlib.contextmanager
def running(
    folder: Path,
    *more: str,
    within: tuple[str, ...] = (),
    environment: Mapping[str, str] = ENVIRONMENT,
    target: str = TARGET,
) -> Iterator[subprocess.Popen]:
    """Snakemake, making the target; at the end it is killed with all that it has started. `within` is a command that runs it."""
    with (folder / "said").open("w") as output:
        run = subprocess.Popen(
            [*within, *command_line("--verbose", *more, "--", target)],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield run
        finally:
            for process in [run, *processes_in(folder)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            run.wait()


def wait_for(true, seconds: float, what: str, every: float = 0.02) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(every)


def pids(folder: Path, *words: str) -> list[int]:
    """The processes in the folder that have all these words in their command lines."""
    matching = []
    for process in processes_in(folder):
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            if all(any(word in part for part in line) for word in words):
                matching.append(process.pid)
    return matching


def workers(folder: Path) -> list[int]:
    return sorted(pids(folder, "worker.py"))


def goes_on(folder: Path, reference: dict[str, str], *, at_least: int, resume: bool = False) -> None:
    """The same command, or `make resume`, completes the run; it asks for no sum that the run before it had."""
    for line in [["--unlock"], ["--rerun-incomplete"]] if resume else [[]]:
        done = subprocess.run(
            command_line(*line, "--", TARGET), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert digests(folder) == reference
    assert progress(folder)["state"] == "finished"
    assert progress(folder)["passes_recalled"] >= at_least
    assert not (folder / "results" / "flights" / "resume" / "path").exists()
    assert not (folder / "results" / "flights" / "models" / "path" / "cluster" / "designs").exists()


def step(folder: Path, network: str) -> int:
    """The last step of a training of which there is a whole checkpoint: TensorFlow names it in a file that it writes last."""
    try:
        written = (folder / "results" / "flights" / "resume" / network / "steps" / "checkpoint").read_text()
    except FileNotFoundError:
        return 0
    return int(re.findall(r'^model_checkpoint_path: "ckpt-(\d+)"', written, re.MULTILINE)[0])


def passes_kept(folder: Path) -> int:
    return len(list((folder / "results" / "flights" / "resume" / "path").glob("*.npz")))


def fitting(folder: Path) -> bool:
    """Whether the journal has so many sums; the last one that was made may still be on its way to the disk."""
    return progress(folder)["passes"] > PASSES


def ends(folder: Path, run: subprocess.Popen, seconds: float) -> str:
    """The run fails in time; nothing is left of it. What it has said."""
    assert run.wait(seconds) != 0
    wait_for(lambda: not processes_in(folder), 15, "all processes end")
    return (folder / "said").read_text()


def cut_short(folder: Path) -> None:
    """Kill Snakemake in the middle of the fit."""
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        run.kill()
        ends(folder, run, 10)


def is_open_to_others(folder: Path) -> bool:
    """Whether a process that is none of the fit reaches a worker."""
    address = json.loads((folder / "results/flights/models/path/cluster/workers-0.json").read_text())["address"]
    return probe.ask(address) == "answers"


def starting_late(folder: Path, seconds: dict[str, int]) -> dict[str, str]:
    """An environment whose `python` takes so long before it runs a command line with such words."""
    python = folder / "bin" / "python"
    python.parent.mkdir()
    cases = " ".join(f'*"{words}"*) sleep {wait};;' for words, wait in seconds.items())
    python.write_text(f'#!/bin/sh\ncase "$*" in {cases} esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return ENVIRONMENT | {"PATH": f"{python.parent}:{ENVIRONMENT['PATH']}"}
