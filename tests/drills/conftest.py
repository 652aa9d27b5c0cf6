"""The run that the drills interrupt: made once, and copied for each."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from interruptions import PASSES, digests, log, progress, running
from runs import configure, processes_in, write_asa
from shared_runs import filled_once


def fit_a_path(folder: Path) -> None:
    write_asa(folder, 2006, 20_000)

    def change(config):
        config["data"].update(
            files=["2006.csv"],
            where={"flown": "cancelled = 0 AND diverted = 0"},
            split={"train": "TRUE"},
            columns=["late", "carrier", "origin", "dest", "month", "dep_hour", "distance"],
        )
        formula = "late ~ carrier + origin + dest + C(month) + dep_hour + distance"
        path = {"number": 60, "select": "aic"}
        config["models"] = {"path": {"formula": formula, "family": "binomial", "path": path}}
        config["cluster"] = {"ps": 1, "workers": 2, "patience": 120, "stall": 45}

    configure(folder, change)
    with running(folder) as run:
        assert run.wait(300) == 0, (folder / "said").read_text()
    assert progress(folder)["passes_recalled"] == 0 and progress(folder)["passes"] > 2 * PASSES


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """A folder in which a path of many penalties has been fitted once."""
    return filled_once(tmp_path_factory, "path", fit_a_path)


@pytest.fixture(scope="session")
def reference(prepared) -> dict[str, str]:
    """The results of the run that nothing has interrupted."""
    return digests(prepared)


@pytest.fixture
def folder(prepared, tmp_path) -> Iterator[Path]:
    """A copy of that folder, its model to be fitted anew."""
    copy = tmp_path / "copy"
    shutil.copytree(prepared, copy)
    for path in (
        *(copy / "results" / "models" / "path" / name for name in ("fit.json", "coefficients.csv")),
        log(copy),
    ):
        path.unlink()
    yield copy
    assert processes_in(copy) == []
