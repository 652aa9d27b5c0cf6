"""Runs are interrupted anywhere, the config is edited, and the next run ends with the very numbers of a run from nothing."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from round_cases import EDITS, Runs
from rounds import Round
from runs import ENVIRONMENT, RESULTS, command_line, configure, contents, processes_in, succeed, write_asa

pytestmark = pytest.mark.drill

SEED = 20061231
INTERRUPTIONS = 20

ROUNDS = [11, 18, 34]
"""Seeds of rounds.py, a few of those that are played by hand."""

TARGETS = [
    "results/flights/data/rows.json",
    "results/flights/models/late/coefficients.csv",
    "results/flights/models/late/metrics.json",
]

RULES = ["ingest", "merge_dictionary", "build_design", "check_reference", "chief", "tabulate_coefficients"]

NOT_COMPARED = ("/history.", "/cluster/", ".snakemake_timestamp")
"""What holds the time of day, seconds, or addresses."""


def write_config(folder: Path, edit: str | None) -> None:
    def change(config):
        config["data"].update(
            files=["2006.csv"],
            where={"flown": "cancelled = 0 AND diverted = 0"},
            split={"train": "day <= 20", "evaluate": "day > 24"},
            columns=["late", "carrier", "dest", "dep_hour", "distance"],
        )
        model = {"formula": "late ~ carrier + dest + dep_hour", "family": "binomial", "std_errors": "robust"}
        if edit:
            section, key, value = EDITS[edit]
            (config["data"] if section == "data" else model)[key] = value
        config["models"] = {"late": model}
        config["cluster"] = {"workers": 1, "ps": 1, "patience": 120, "stall": 120}

    configure(folder, change)


def write_flights(folder: Path) -> None:
    flights = write_asa(folder, 2006, 3_000)
    flights.loc[::50, "Dest"] = None
    flights.loc[7::60, "Dest"] = "PVD"
    flights.to_csv(folder / "2006.csv", index=False, na_rep="NA")


def complete(folder: Path) -> None:
    """What `make resume` does."""
    for line in (["--unlock"], ["--rerun-incomplete"]):
        succeed(folder, *line, "--", *TARGETS)


def compared(folder: Path) -> dict[str, str]:
    actual = contents(folder / RESULTS)
    return {name: digest for name, digest in actual.items() if not any(part in f"/{name}" for part in NOT_COMPARED)}


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The results of a run from nothing, by the key that is edited; made once."""
    by_edit: dict[str | None, dict[str, str]] = {}

    def of(edit: str | None) -> dict[str, str]:
        if edit not in by_edit:
            folder = tmp_path_factory.mktemp(f"clean_{edit}")
            write_flights(folder)
            write_config(folder, edit)
            complete(folder)
            by_edit[edit] = compared(folder)
            shutil.rmtree(folder)
        return by_edit[edit]

    return of


def interrupt(folder: Path, draw: random.Random) -> str:
    """Start a run and end it at a random point: after so many jobs have begun and so many seconds, or at a rule. Returns how."""
    before = {path: path.stat().st_mtime_ns for path in folder.glob("logs/**/*.log")}
    if draw.random() < 0.3:
        rule = draw.choice(RULES)
        succeed(folder, "--rerun-incomplete", "--until", rule, "--", *TARGETS)
        return f"--until {rule}"
    jobs, seconds, number = draw.randrange(10), 3 * draw.random() ** 2, draw.choice([2, 15, 9])

    def begun() -> int:
        logs = folder.glob("logs/**/*.log")
        return sum(path.stat().st_mtime_ns != before.get(path) for path in logs)

    with subprocess.Popen(
        command_line("--rerun-incomplete", "--", *TARGETS),
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


def test_an_interruption_and_an_edit_end_in_the_numbers_of_a_clean_run(tmp_path, clean):
    draw = random.Random(SEED)
    write_flights(tmp_path)
    write_config(tmp_path, None)
    complete(tmp_path)
    assert compared(tmp_path) == clean(None)
    # Each key is what an interrupted run begins with, and what the next one ends with, about twice.
    edits = [*draw.sample(list(EDITS), len(EDITS)), *draw.sample(list(EDITS), len(EDITS))]
    story = []
    for number in range(INTERRUPTIONS):
        write_config(tmp_path, edits[number])
        story.append(f"{edits[number]}: {interrupt(tmp_path, draw)}")
        after = draw.choice([None, edits[number], edits[(number + 1) % len(edits)]])
        write_config(tmp_path, after)
        story.append(f"then {after}")
        complete(tmp_path)
        actual, expected = compared(tmp_path), clean(after)
        different = [name for name in expected.keys() | actual.keys() if actual.get(name) != expected.get(name)]
        assert not different, "\n".join([*story, f"different: {sorted(different)}"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize("seed", ROUNDS)
def test_a_round_of_random_interruptions(tmp_path, seed):
    round_ = Round(Runs(tmp_path), seed)
    round_.play()
    assert not round_.faults, "\n".join([*round_.story, *round_.faults])
