"""The config of a run, as its jobs on other nodes get it."""

import datetime
import os
import re
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest
from snakemake.settings.types import ConfigSettings

from tfglm.config import InputFile, Layout
from tfglm.errors import UserError
from tfglm.workflow import snapshot
from tfglm.workflow.snapshot import Snapshot

CONFIG = OrderedDict(
    data={"from": datetime.date(2024, 2, 29), "labels": {1: "Mon", "2": "ja"}},
    late=["ä: #", 1e-300],
    marks=["\x85", "\u2028", "\ufeff", "\x00", "\ud800", "😀"],
)
LAYOUT = Layout.model_validate({"columns": {"day": {"type": "date", "labels": {1: "Mon"}}}, "header": ["day"]})
TAKEN = Snapshot(
    text=snapshot.text_of(CONFIG),
    configs=["config/config.yaml"],
    layouts={"layout.yaml": LAYOUT},
    files={"a": InputFile("a.csv", ("layout.yaml",), sha256="12")},
    scored={},
    strategy="one_device",
    digests={"model.py": "ab"},
)


def given(snapshot_of_run: Snapshot, folder: Path, module: str = "None") -> Snapshot | None:
    """The snapshot as Snakemake hands it to a job."""
    saved = snapshot_of_run.save(folder, "None")
    return snapshot.load(ConfigSettings(configfiles=[saved]).overwrite_config, module)


def test_a_job_has_the_config_of_the_run_and_not_that_of_another_module(tmp_path):
    assert given(TAKEN, tmp_path) == TAKEN
    assert given(TAKEN, tmp_path).config == dict(CONFIG)
    assert given(TAKEN, tmp_path, "other") is None


def test_a_snapshot_is_named_by_its_content_and_for_the_user_alone(tmp_path):
    folder = tmp_path / "new"
    first, again, other = (each.save(folder, "None") for each in (TAKEN, TAKEN, replace(TAKEN, strategy="auto")))
    assert first == again != other
    assert first.stat().st_mode & 0o777 == 0o600
    # A job of an earlier run that has opened the file reads all of it: the new one has another inode.
    with first.open("rb") as of_job:
        TAKEN.save(folder, "None")
        assert not os.path.sameopenfile(of_job.fileno(), first.open("rb").fileno())
    assert sorted(folder.iterdir()) == sorted([first, other])


def test_another_program_and_another_content_of_a_file_are_refused(tmp_path):
    with pytest.raises(UserError, match="upgraded or downgraded"):
        given(replace(TAKEN, engine="24"), tmp_path)
    TAKEN.check("model.py", "ab")
    TAKEN.check("new.py", "cd")
    with pytest.raises(UserError, match=re.escape("model.py has changed since the run began; repeat the command")):
        TAKEN.check("model.py", "cd")
