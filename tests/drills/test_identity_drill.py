"""Runs are interrupted anywhere, the config is edited, and the next run ends with the very numbers of a run from nothing."""

import contextlib
import dataclasses
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from round_cases import EDITS, Case, Runs
from rounds import Round
from runs import ENVIRONMENT, command_line, processes_in, succeed

pytestmark = pytest.mark.drill

SEED = 20061231
INTERRUPTIONS = 20

ROUNDS = [13, 32, 49]
"""Seeds of rounds.py, a few of those that are played by hand."""

RULES = ["ingest", "merge_dictionary", "build_design", "check_reference", "chief", "write_tables"]


def interrupt(folder: Path, case: Case, draw: random.Random) -> str:
    """Start a run and end it at a random point: after so many jobs have begun and so many seconds, or at a rule. Returns how."""
    before = {path: path.stat().st_mtime_ns for path in folder.glob("logs/**/*.log")}
    if draw.random() < 0.3:
        rule = draw.choice(RULES)
        succeed(folder, "--rerun-incomplete", "--until", rule, "--", *case.targets)
        return f"--until {rule}"
    jobs, seconds, number = draw.randrange(10), 3 * draw.random() ** 2, draw.choice([2, 15, 9])

    def begun() -> int:
        logs = folder.glob("logs/**/*.log")
        return sum(path.stat().st_mtime_ns != before.get(path) for path in logs)

    with subprocess.Popen(
        command_line("--rerun-incomplete", "--", *case.targets),
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:
        while run.poll() is None and begun() < jobs:
            time.sleep(0.02)
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, number)
        if number != signal.SIGKILL:
            run.wait(180)
    # Roles end by themselves, if later: here they must not meet the next run.
    for each in processes_in(folder):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    return f"{signal.Signals(number).name} {seconds:.1f} s after {jobs} jobs had begun"


def test_an_interruption_and_an_edit_end_in_the_numbers_of_a_clean_run(tmp_path):
    draw, runs, folder = random.Random(SEED), Runs(tmp_path), tmp_path / "edited"
    folder.mkdir()
    case = Case("newton", "parameter_server")
    # Each key is what an interrupted run begins with, and what the next one ends with, about twice.
    edits = [*draw.sample(list(EDITS), len(EDITS)), *draw.sample(list(EDITS), len(EDITS))]
    story = []
    for number in range(INTERRUPTIONS):
        begun = dataclasses.replace(case, edit=edits[number])
        begun.write(folder)
        story.append(f"{begun.name}: {interrupt(folder, begun, draw)}")
        ended = dataclasses.replace(case, edit=draw.choice([None, begun.edit, edits[(number + 1) % len(edits)]]))
        ended.write(folder)
        story.append(f"then {ended.name}")
        for line in (["--unlock"], ["--rerun-incomplete"]):
            succeed(folder, *line, "--", *ended.targets)
        different = runs.differences(folder, ended)
        assert not different, "\n".join([*story, f"different: {different}"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize("seed", ROUNDS)
def test_a_round_of_random_interruptions(tmp_path, seed):
    round_ = Round(Runs(tmp_path), seed)
    round_.play()
    assert not round_.faults, "\n".join([*round_.story, *round_.faults])
