"""The run that the drills interrupt: made once, and copied for each."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import path_run
from interruptions import digests, log, progress
from runs import processes_in
from shared_runs import filled_once


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """A folder in which a path of many penalties has been fitted once."""
    folder = filled_once(tmp_path_factory, "path", path_run.run)
    assert progress(folder)["passes_recalled"] == 0 and progress(folder)["passes"] > 2 * path_run.PASSES
    return folder


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
        *(copy / "results" / "flights" / "models" / "path" / name for name in ("fit.json", "coefficients.csv")),
        log(copy),
    ):
        path.unlink()
    yield copy
    assert processes_in(copy) == []
