"""A disk that is full, a journal that is damaged, no network, another config: the run goes on, or the next one does."""

import os
import subprocess
from pathlib import Path

import psutil
import pytest
import yaml

from interruptions import (
    A_MINUTE_OR_SO,
    cut_short,
    digests,
    ends,
    fitting,
    goes_on,
    is_open_to_others,
    passes_kept,
    pids,
    progress,
    running,
    wait_for,
)
from path_run import PASSES
from runs import ENVIRONMENT, command_line

pytestmark = pytest.mark.drill


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize("what", ["chief.py", "watchdog.py", "roles.py"])
def test_a_full_disk_of_logs_delays_no_end(folder, reference, what):
    """Neither that of a fit that is complete, nor that of one that is asked to end."""
    mount = 'mount -t tmpfs -o size=64k none logs && mkdir -p logs/flights/models/path && cat /dev/zero > logs/full; exec "$@"'
    within = ("unshare", "--mount", "sh", "-c", mount, "sh")
    with running(folder, within=within) as run:
        wait_for(lambda: passes_kept(folder) >= PASSES, 240, "fitting")
        for pid in pids(folder, what):
            psutil.Process(pid).terminate()
        ends(folder, run, A_MINUTE_OR_SO if what == "roles.py" else 30)
    if what == "chief.py":
        with running(folder, within=within) as run:
            assert run.wait(180) == 0, (folder / "said").read_text()
        assert digests(folder) == reference
        assert "the log cannot be written" in (folder / "said").read_text()
    else:
        goes_on(folder, reference, at_least=PASSES)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_costs_the_journal_and_not_the_fit(folder, reference):
    (folder / "results" / "flights" / "resume").mkdir(exist_ok=True)
    mount = 'mount -t tmpfs -o size=64k none results/flights/resume && exec "$@"'
    with running(folder, within=("unshare", "--mount", "sh", "-c", mount, "sh")) as run:
        assert run.wait(180) == 0, (folder / "said").read_text()
    assert digests(folder) == reference
    text = (folder / "logs" / "flights" / "models" / "path" / "chief.log").read_text()
    assert "cannot be written (No space left on device): an interrupted fit starts over" in text


def test_a_damaged_journal_is_not_believed(folder, reference):
    cut_short(folder)
    kept = sorted((folder / "results" / "flights" / "resume" / "path").glob("*.npz"))
    kept[5].write_bytes(kept[5].read_bytes()[:-20])
    goes_on(folder, reference, at_least=5, resume=True)
    assert progress(folder)["passes_recalled"] == 5
    assert "00005.npz cannot be read" in (folder / "logs" / "flights" / "models" / "path" / "chief.log").read_text()


def test_a_run_shut_off_from_the_network(folder, reference):
    """As docs/security.md shows it: nothing that TensorFlow opens can be reached, and the run needs nothing from outside."""
    alone = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    assert "unshare --map-root-user --net sh -c 'ip link set lo up && exec snakemake --cores 4'" in page
    with running(folder, "--config", "cluster={isolate: never}", within=alone) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        assert not is_open_to_others(folder)
        assert run.wait(180) == 0, (folder / "said").read_text()
    assert digests(folder) == reference


def test_another_config_goes_on_from_nothing(folder, reference):
    cut_short(folder)
    config = folder / "config" / "config.yaml"
    good = config.read_text()
    changed = yaml.safe_load(good)
    changed["models"]["path"]["max_iterations"] = 49
    config.write_text(yaml.safe_dump(changed))
    try:
        subprocess.run(command_line("--unlock"), cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
        with running(folder, "--rerun-incomplete") as run:
            assert run.wait(180) == 0, (folder / "said").read_text()
    finally:
        config.write_text(good)
    assert progress(folder)["passes_recalled"] == 0
    # fit.json says what the config was.
    assert digests(folder).items() - reference.items() == {("fit.json", digests(folder)["fit.json"])}
