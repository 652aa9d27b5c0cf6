"""The default config on the real data: run once, and copied for each file of tests."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

import default_run
from runs import results
from shared_runs import filled_once


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder in which the default config has been run."""
    folder = tmp_path_factory.mktemp("default") / "run"
    return shutil.copytree(filled_once(tmp_path_factory, "default", default_run.run), folder)


@pytest.fixture(scope="module")
def expected(finished) -> dict[str, str]:
    """The results of that run."""
    return results(finished)


@pytest.fixture(scope="session")
def flights() -> pd.DataFrame:
    """The same flights, read without any of our code."""
    return default_run.flights()
