"""The chief or Snakemake is killed, stopped or missing in the middle of a run.

Each drill waits for a state in the progress file. Then the run ends in bounded time with a readable message, or goes on; nothing
is left running. The same command ends with the same numbers, and takes most of the sums from the journal.

`make test` has a drill for each kind of failure, `make drills` all of them.
"""

import json
import os
import shutil
import signal

import psutil
import pytest

from interruptions import (
    A_MINUTE_OR_SO,
    ends,
    fitting,
    goes_on,
    is_open_to_others,
    passes_kept,
    pids,
    progress,
    running,
    starting_late,
    wait_for,
)
from path_run import PASSES
from runs import RESULTS

drill = pytest.mark.drill


def test_the_chief_is_killed(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        isolated = json.loads((folder / "results/flights/models/path/cluster/network.json").read_text())["isolated"]
        # Where the kernel allows no networks of their own it is, and the run has said so.
        assert is_open_to_others(folder) != isolated
        assert ("a network of its own is refused here" in (folder / "said").read_text()) != isolated
        (chief,) = pids(folder, "chief.py", "--progress")
        psutil.Process(chief).kill()
        assert "path: fitting" in ends(folder, run, 30)
    kept = passes_kept(folder)
    assert kept >= PASSES
    goes_on(folder, reference, at_least=kept)


@drill
@pytest.mark.parametrize("what", ["a sum in the journal", "the checkpoint"])
def test_the_chief_is_killed_while_it_writes(folder, reference, what):
    model, journal = (folder / RESULTS / name / "path" for name in ("models", "resume"))
    shutil.rmtree(model / "checkpoint")

    def half_written() -> bool:
        if what == "the checkpoint":
            return (model / "checkpoint").exists() and not (model / "checkpoint" / "fitted.index").exists()
        return any(journal.glob("*.partial"))

    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        (pid,) = pids(folder, "chief.py", "--progress")
        chief = psutil.Process(pid)

        def caught() -> bool:
            if not half_written():
                return False
            # It goes on until it is stopped, so only then what is there stays.
            chief.suspend()
            if half_written():
                return True
            chief.resume()
            return False

        wait_for(caught, 120, what, every=0.0)
        kept = passes_kept(folder)
        chief.kill()
        ends(folder, run, 30)
    assert kept >= PASSES
    goes_on(folder, reference, at_least=kept)


@drill
def test_a_chief_that_is_stopped(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        (chief,) = pids(folder, "chief.py", "--progress")
        psutil.Process(chief).suspend()
        text = ends(folder, run, A_MINUTE_OR_SO)
    assert "the chief has been stopped for 30 s" in text
    goes_on(folder, reference, at_least=PASSES)


@drill
def test_a_chief_that_is_stopped_at_once(folder, reference):
    """Before it has a watchdog."""
    with running(folder) as run:
        wait_for(lambda: pids(folder, "chief.py", "--progress"), 120, "the chief", every=0.002)
        psutil.Process(pids(folder, "chief.py", "--progress")[0]).suspend()
        ends(folder, run, A_MINUTE_OR_SO)
    goes_on(folder, reference, at_least=0)


@drill
def test_a_chief_that_never_starts(folder, reference):
    """Snakemake gives up before it, and then waits for the roles to end."""
    environment = starting_late(folder, {"roles.py ps": 25})
    short = ("--config", "cluster={workers: 2, patience: 10}")
    with running(folder, *short, environment=environment) as run:
        text = ends(folder, run, 120)
    assert "no chief has been started within 30 s" in text
    goes_on(folder, reference, at_least=0)


@drill
def test_control_c_in_the_terminal(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        os.killpg(run.pid, signal.SIGINT)
        ends(folder, run, 60)
    goes_on(folder, reference, at_least=PASSES)


@drill
def test_snakemake_is_asked_to_end(folder, reference):
    """It finishes the jobs that run, and starts no other."""
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        run.send_signal(signal.SIGTERM)
        ends(folder, run, 60)
    assert progress(folder)["state"] == "finished"
    assert not (folder / "results" / "flights" / "models" / "path" / "coefficients.csv").exists()
    goes_on(folder, reference, at_least=0)


@drill
@pytest.mark.parametrize("when", ["starting", "fitting"])
def test_snakemake_is_killed(folder, reference, when):
    with running(folder) as run:
        wait_for(lambda: fitting(folder) if when == "fitting" else progress(folder)["state"], 120, when)
        run.kill()
        ends(folder, run, 10)
    goes_on(folder, reference, at_least=PASSES if when == "fitting" else 0, resume=True)
