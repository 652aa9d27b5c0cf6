"""Drills: something is killed, frozen or missing in the middle of a run as a user runs it. Each waits for a state in the progress
file first. Then the run ends in bounded time with a message that can be read, or goes on; nothing is left running; and the
same command ends with the very same numbers, most of the sums being those of the run before.

`make test` has one drill for each kind of failure, `make drills` all of them.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
import yaml

from runs import ENVIRONMENT, command_line, configure, processes_in, write_asa
from tfglm.roles import announce, probe

TARGET = "results/models/path/coefficients.csv"
SOLVED = ("fit.json", "coefficients.csv", "checkpoint/fitted.data-00000-of-00001")
PASSES = 25

A_MINUTE_OR_SO = 75
"""Seconds until a run ends that cannot go on, as the README says."""


def log(folder: Path) -> Path:
    return folder / "logs" / "models" / "path" / "progress.json"


def digests(folder: Path) -> dict[str, str]:
    model = folder / "results" / "models" / "path"
    return {name: hashlib.sha256((model / name).read_bytes()).hexdigest() for name in SOLVED}


def progress(folder: Path) -> dict:
    try:
        return json.loads(log(folder).read_text())
    except FileNotFoundError:
        return {"state": "", "passes": 0}


@contextlib.contextmanager
def running(
    folder: Path, *more: str, within: tuple[str, ...] = (), environment: Mapping[str, str] = ENVIRONMENT
) -> Iterator[subprocess.Popen]:
    """Snakemake, making the table; killed with all that it has started, if it is still there at the end. `within` is a command
    that runs the one behind it."""
    with (folder / "said").open("w") as said:
        run = subprocess.Popen(
            [*within, *command_line(*more, "--", TARGET)],
            cwd=folder,
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield run
        finally:
            for one in [run, *processes_in(folder)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            run.wait()


def wait_for(true, seconds: float, what: str, every: float = 0.02) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(every)


def pids(folder: Path, *words: str) -> list[int]:
    """The processes in the folder that have all these words in their command lines."""
    found = []
    for one in processes_in(folder):
        with contextlib.suppress(psutil.Error):
            line = one.cmdline()
            if all(any(word in part for part in line) for word in words):
                found.append(one.pid)
    return found


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
    assert not (folder / "results" / "resume" / "path").exists()


def passes_kept(folder: Path) -> int:
    return len(list((folder / "results" / "resume" / "path").glob("*.npz")))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A folder in which a path of many penalties has been fitted once."""
    folder = tmp_path_factory.mktemp("drills")
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
    return folder


@pytest.fixture(scope="module")
def reference(prepared) -> dict[str, str]:
    """The results of the run that nothing has interrupted."""
    assert progress(prepared)["passes_recalled"] == 0 and progress(prepared)["passes"] > 2 * PASSES
    return digests(prepared)


@pytest.fixture
def folder(prepared, reference, tmp_path) -> Iterator[Path]:
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


# One for each kind of failure ------------------------------------------------------------------------------------------


def is_open_to_others(folder: Path) -> bool:
    """Whether a process that is none of the fit reaches a worker."""
    address = json.loads((folder / "results/models/path/cluster/workers-0.json").read_text())["address"]
    return probe.ask(address) == "answers"


def test_the_chief_is_killed(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        isolated = json.loads((folder / "results/models/path/cluster/network.json").read_text())["isolated"]
        # Where the kernel allows no networks of their own it is, and the run has said so.
        assert is_open_to_others(folder) != isolated
        assert ("a network of its own is refused here" in (folder / "said").read_text()) != isolated
        (chief,) = pids(folder, "chief.py", "--progress")
        psutil.Process(chief).kill()
        assert "path: fitting" in ends(folder, run, 30)
    kept = passes_kept(folder)
    assert kept >= PASSES
    goes_on(folder, reference, at_least=kept)


def test_a_frozen_worker_ends_the_run_with_its_name(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        psutil.Process(workers(folder)[0]).suspend()
        said = ends(folder, run, A_MINUTE_OR_SO)
    assert "lost for 30 s, so the run cannot go on: worker 0 at" in said and "workers-0.log" in said
    assert "its process is stopped" in said
    assert progress(folder)["state"] == "failed" and "worker 0 at" in progress(folder)["reason"]
    goes_on(folder, reference, at_least=PASSES)


# The others ------------------------------------------------------------------------------------------------------------

drill = pytest.mark.drill


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
    assert not (folder / "results" / "models" / "path" / "coefficients.csv").exists()
    goes_on(folder, reference, at_least=0)


@drill
@pytest.mark.parametrize("when", ["starting", "fitting"])
def test_snakemake_is_killed(folder, reference, when):
    with running(folder) as run:
        wait_for(lambda: fitting(folder) if when == "fitting" else progress(folder)["state"], 120, when)
        run.kill()
        ends(folder, run, 10)
    goes_on(folder, reference, at_least=PASSES if when == "fitting" else 0, resume=True)


@drill
@pytest.mark.parametrize("when", ["starting", "fitting"])
def test_a_worker_is_killed_and_nobody_notices(folder, reference, when):
    with running(folder) as run:
        wait_for(lambda: fitting(folder) if when == "fitting" else len(workers(folder)) == 2, 120, when)
        psutil.Process(workers(folder)[0]).kill()
        assert run.wait(180) == 0, (folder / "said").read_text()
    assert digests(folder) == reference
    assert "restarting it (2 restarts left)" in (folder / "logs" / "models" / "path" / "workers.log").read_text()
    assert processes_in(folder) == []


@drill
@pytest.mark.parametrize("what", ["a sum in the journal", "the checkpoint"])
def test_the_chief_is_killed_while_it_writes(folder, reference, what):
    model, journal = (folder / "results" / name / "path" for name in ("models", "resume"))
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
def test_all_workers_are_killed_and_come_back(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        for pid in workers(folder):
            psutil.Process(pid).kill()
        assert run.wait(180) == 0, (folder / "said").read_text()
    assert digests(folder) == reference


@drill
def test_all_workers_are_killed_for_good(folder, reference):
    with running(folder, "--config", "cluster={workers: 2, stall: 300}") as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        for pid in [*pids(folder, "roles.py", "worker"), *workers(folder)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        said = ends(folder, run, A_MINUTE_OR_SO)
    assert "so the run cannot go on: worker 0 at" in said
    goes_on(folder, reference, at_least=PASSES)


@drill
def test_the_ps_is_killed(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        (ps,) = pids(folder, "/ps.py")
        psutil.Process(ps).kill()
        said = ends(folder, run, A_MINUTE_OR_SO)
    assert "ps 0 at" in said and "is lost" in said
    goes_on(folder, reference, at_least=PASSES)


@drill
@pytest.mark.parametrize("when", ["listening", "fitting"])
def test_the_ps_is_stopped(folder, reference, when):
    """TensorFlow then waits for ever, and may keep Python's lock meanwhile."""
    announcement = folder / "results/models/path/cluster/ps-0.json"

    def listening() -> bool:
        said = announce.read(announcement)
        return isinstance(said, announce.Announcement) and said.state == "listening"

    announcement.unlink()
    with running(folder) as run:
        wait_for(lambda: fitting(folder) if when == "fitting" else listening(), 240, when)
        (ps,) = pids(folder, "/ps.py")
        psutil.Process(ps).suspend()
        said = ends(folder, run, A_MINUTE_OR_SO)
    assert "lost for 30 s, so the run cannot go on: ps 0 at" in said
    assert "ps-0.log" in said
    assert progress(folder)["state"] == "failed" and "ps 0 at" in progress(folder)["reason"]
    goes_on(folder, reference, at_least=PASSES if when == "fitting" else 0)


@drill
@pytest.mark.parametrize("role", ["ps", "worker"])
@pytest.mark.parametrize("when", ["starting", "fitting"])
def test_what_starts_the_roles_is_killed(folder, reference, role, when):
    with running(folder) as run:
        # Workers are there once they have found the network of the ps; before, it is they who say that the ps have ended.
        begun = {"starting": lambda: progress(folder)["state"] and workers(folder), "fitting": lambda: fitting(folder)}
        wait_for(begun[when], 240, when)
        (supervisor,) = pids(folder, "roles.py", f"{role}s.json" if role == "worker" else "ps.json")
        psutil.Process(supervisor).kill()
        said = ends(folder, run, A_MINUTE_OR_SO)
    rule = "ps" if role == "ps" else "workers"
    if when == "fitting":
        assert f"{role} 0 at" in said and progress(folder)["state"] == "failed"
    else:
        # Whoever sees it first ends the run: the chief, or Snakemake, whose job has ended.
        by_chief = f"roles.py {role} (pid {supervisor} on" in said and "has given no sign of life for" in said
        assert by_chief or f"Error in rule {rule}:" in said
        assert f"logs/models/path/{rule}.log" in said
        assert not by_chief or "roles.py" in progress(folder)["reason"]
    goes_on(folder, reference, at_least=PASSES if when == "fitting" else 0)


@drill
def test_a_chief_that_is_stopped(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        (chief,) = pids(folder, "chief.py", "--progress")
        psutil.Process(chief).suspend()
        said = ends(folder, run, A_MINUTE_OR_SO)
    assert "the chief has been stopped for 30 s" in said
    goes_on(folder, reference, at_least=PASSES)


@drill
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize("what", ["chief.py", "watchdog.py", "roles.py"])
def test_a_full_disk_of_logs_delays_no_end(folder, reference, what):
    """Neither that of a fit that is complete, nor that of one that is asked to end."""
    mount = 'mount -t tmpfs -o size=64k none logs && mkdir -p logs/models/path && cat /dev/zero > logs/full; exec "$@"'
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


def starting_late(folder: Path, seconds: dict[str, int]) -> dict[str, str]:
    """An environment whose `python` takes so long before it runs a command line with such words."""
    python = folder / "bin" / "python"
    python.parent.mkdir()
    cases = " ".join(f'*"{words}"*) sleep {wait};;' for words, wait in seconds.items())
    python.write_text(f'#!/bin/sh\ncase "$*" in {cases} esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return ENVIRONMENT | {"PATH": f"{python.parent}:{ENVIRONMENT['PATH']}"}


@drill
def test_a_chief_that_never_starts(folder, reference):
    """Snakemake gives up before it, and then waits for the roles to end."""
    environment = starting_late(folder, {"roles.py ps": 25})
    short = ("--config", "cluster={workers: 2, patience: 10}")
    with running(folder, *short, environment=environment) as run:
        said = ends(folder, run, 120)
    assert "no chief has started within 70 s, so this role ends" in said
    goes_on(folder, reference, at_least=0)


@drill
def test_a_role_that_never_starts(folder, reference):
    config = folder / "config" / "config.yaml"
    good = config.read_text()
    changed = yaml.safe_load(good)
    changed["cluster"]["patience"] = 10
    config.write_text(yaml.safe_dump(changed))
    with running(folder) as run:
        wait_for(lambda: workers(folder), 60, "a worker")
        psutil.Process(workers(folder)[0]).suspend()
        said = ends(folder, run, 60)
    config.write_text(good)
    assert "the cluster is not complete after 10 s; still missing: worker" in said
    assert progress(folder)["state"] == "failed"
    goes_on(folder, reference, at_least=0)


@drill
def test_a_damaged_journal_is_not_believed(folder, reference):
    cut_short(folder)
    kept = sorted((folder / "results" / "resume" / "path").glob("*.npz"))
    kept[5].write_bytes(kept[5].read_bytes()[:-20])
    goes_on(folder, reference, at_least=5, resume=True)
    assert progress(folder)["passes_recalled"] == 5
    assert "00005.npz cannot be read" in (folder / "logs" / "models" / "path" / "chief.log").read_text()


@drill
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_costs_the_journal_and_not_the_fit(folder, reference):
    (folder / "results" / "resume").mkdir(exist_ok=True)
    mount = 'mount -t tmpfs -o size=64k none results/resume && exec "$@"'
    with running(folder, within=("unshare", "--mount", "sh", "-c", mount, "sh")) as run:
        assert run.wait(180) == 0, (folder / "said").read_text()
    assert digests(folder) == reference
    said = (folder / "logs" / "models" / "path" / "chief.log").read_text()
    assert "cannot be written (No space left on device): an interrupted fit starts over" in said


@drill
def test_a_run_shut_off_from_the_network(folder, reference):
    """As the README shows it: nothing that TensorFlow opens can be reached, and the run needs nothing from outside."""
    alone = ("unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert "unshare --map-root-user --net sh -c 'ip link set lo up && exec snakemake --cores 4'" in readme
    with running(folder, "--config", "cluster={isolate: never}", within=alone) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        assert not is_open_to_others(folder)
        assert run.wait(180) == 0, (folder / "said").read_text()
    assert digests(folder) == reference


@drill
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


@drill
def test_sixteen_workers_and_two_ps_are_as_easy_as_two_where_each_job_starts_late(folder, reference):
    """As under conda, which first activates an environment: the `python` of a job is there after a while, each after another."""
    environment = starting_late(folder, {"roles.py ps": 12, "roles.py worker": 8, "chief.py": 5})
    sixteen = "cluster={workers: 16, ps: 2, patience: 300, stall: 300}"
    with running(folder, "--config", sixteen, environment=environment) as run:
        wait_for(lambda: progress(folder).get("workers_alive") == 16, 300, "16 workers")
        assert run.wait(300) == 0, (folder / "said").read_text()
        wait_for(lambda: not processes_in(folder), 15, "all processes end")
    assert digests(folder) == reference
