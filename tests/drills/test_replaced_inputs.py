"""An input that an older file replaces, between runs or while one reads it: the next run ends with the numbers of a clean run."""

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from round_cases import NOT_COMPARED
from runs import ENVIRONMENT, RESULTS, command_line, configure, contents, succeed, write_asa

pytestmark = pytest.mark.drill

SEED = 20061231
TARGETS = [str(RESULTS / "data" / "rows.json"), str(RESULTS / "models" / "late" / "coefficients.csv")]

REPLACED = ("cp -p", "mv")
"""How an older file takes the place of a newer one."""


def configure_scored(folder: Path) -> None:
    """A model fitted without a cluster, which predicts the flights of another file."""

    def change(config):
        config["data"].update(files=["2006.csv"], split={"train": "TRUE"}, columns=["late", "carrier", "distance"])
        config["models"] = {"late": {"formula": "late ~ carrier + distance", "family": "binomial"}}
        config |= {"score": ["2007.csv"], "cluster": {"strategy": "one_device"}}

    configure(folder, change)


def write_edition(folder: Path, name: str, edition: int) -> None:
    """A file of flights, older the higher its edition."""
    write_asa(folder, int(name[:4]), 1_500 + 100 * edition)
    os.utime(folder / name, (1.2e9 - edition, 1.2e9 - edition))


def scored(folder: Path) -> dict[str, str]:
    """The results of the model and of the files to score, by name."""
    succeed(folder, "--rerun-incomplete", "--", *TARGETS, "score")
    return {name: digest for name, digest in contents(folder / RESULTS).items() if not NOT_COMPARED.search(f"/{name}")}


def test_an_input_replaced_by_an_older_one_while_a_run_reads_it_or_between_runs_ends_in_its_numbers(tmp_path):
    draw, run, editions = random.Random(SEED), tmp_path / "run", {"2006.csv": 0, "2007.csv": 0}
    expected: dict[tuple, dict[str, str]] = {}

    def clean() -> dict[str, str]:
        key = tuple(editions.values())
        if key not in expected:
            folder = tmp_path / f"clean_{key}"
            folder.mkdir()
            configure_scored(folder)
            for name, edition in editions.items():
                write_edition(folder, name, edition)
            expected[key] = scored(folder)
        return expected[key]

    run.mkdir()
    configure_scored(run)
    for name in editions:
        write_edition(run, name, 0)
    assert scored(run) == clean()
    others = tmp_path / "others"
    others.mkdir()
    story = []
    for number, how in enumerate((*REPLACED, *REPLACED)):
        name = list(editions)[number % 2]
        editions[name] += 1
        write_edition(others, name, editions[name])
        meanwhile = number >= len(REPLACED)
        if meanwhile:
            # The run reads again what has another edition; the next one comes while it does.
            subprocess.run([*how.split(), others / name, run / name], check=True)
            line = command_line("--rerun-incomplete", "--", *TARGETS, "score")
            running = subprocess.Popen(
                line, cwd=run, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
            )
            time.sleep(8 * draw.random())
            editions[name] += 1
            write_edition(others, name, editions[name])
        subprocess.run([*how.split(), others / name, run / name], check=True)
        if meanwhile:
            running.wait(300)
        story.append(f"{how} {name}{' while it is read' if meanwhile else ''}")
        actual, wanted = scored(run), clean()
        different = [each for each in wanted.keys() | actual.keys() if actual.get(each) != wanted.get(each)]
        assert not different, "\n".join([*story, f"different: {sorted(different)}"])
