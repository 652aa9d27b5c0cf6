"""A ps, a worker or what starts them is killed, frozen or missing in the middle of a run: the run goes on, or ends as in
test_chief_drills.py."""

import contextlib
import subprocess

import psutil
import pytest
import yaml

from interruptions import (
    A_MINUTE_OR_SO,
    digests,
    ends,
    fitting,
    goes_on,
    pids,
    progress,
    running,
    starting_late,
    wait_for,
    workers,
)
from path_run import PASSES
from runs import command_line, processes_in
from tfglm.roles import announce

drill = pytest.mark.drill


@drill
def test_a_frozen_worker_ends_the_run_with_its_name(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        psutil.Process(workers(folder)[0]).suspend()
        text = ends(folder, run, A_MINUTE_OR_SO)
    assert "lost for 30 s, so the run cannot continue: worker 0 at" in text and "workers-0.log" in text
    assert "its process is stopped" in text
    assert progress(folder)["state"] == "failed" and "worker 0 at" in progress(folder)["reason"]
    goes_on(folder, reference, at_least=PASSES)


@drill
@pytest.mark.parametrize("when", ["starting", "fitting"])
def test_a_worker_is_killed_and_nobody_notices(folder, reference, when):
    with running(folder) as run:
        wait_for(lambda: fitting(folder) if when == "fitting" else len(workers(folder)) == 2, 120, when)
        psutil.Process(workers(folder)[0]).kill()
        assert run.wait(180) == 0, (folder / "said").read_text()
    assert digests(folder) == reference
    assert (
        "restarting it (2 restarts left)"
        in (folder / "logs" / "flights" / "models" / "path" / "workers.log").read_text()
    )
    assert processes_in(folder) == []


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
        text = ends(folder, run, A_MINUTE_OR_SO)
    assert "so the run cannot continue: worker 0 at" in text
    goes_on(folder, reference, at_least=PASSES)


@drill
def test_the_ps_is_killed(folder, reference):
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        (ps,) = pids(folder, "/ps.py")
        psutil.Process(ps).kill()
        text = ends(folder, run, A_MINUTE_OR_SO)
    assert "ps 0 at" in text and "is lost" in text
    goes_on(folder, reference, at_least=PASSES)


@drill
@pytest.mark.parametrize("when", ["listening", "fitting"])
def test_the_ps_is_stopped(folder, reference, when):
    """TensorFlow then waits for ever, and may keep Python's lock meanwhile."""
    announcement = folder / "results/flights/models/path/cluster/ps-0.json"

    def listening() -> bool:
        announced = announce.read(announcement)
        return isinstance(announced, announce.Announcement) and announced.state == "listening"

    announcement.unlink()
    with running(folder) as run:
        wait_for(lambda: fitting(folder) if when == "fitting" else listening(), 240, when)
        (ps,) = pids(folder, "/ps.py")
        psutil.Process(ps).suspend()
        announced = ends(folder, run, A_MINUTE_OR_SO)
    assert "lost for 30 s, so the run cannot continue: ps 0 at" in announced
    assert "ps-0.log" in announced
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
        text = ends(folder, run, A_MINUTE_OR_SO)
    rule = "ps" if role == "ps" else "workers"
    if when == "fitting":
        assert f"{role} 0 at" in text and progress(folder)["state"] == "failed"
    else:
        # Whoever sees it first ends the run: the chief, or Snakemake, whose job has ended.
        by_chief = f"roles.py {role} (pid {supervisor} on" in text and "has given no sign of life for" in text
        assert by_chief or f"Error in rule {rule}:" in text
        assert f"logs/flights/models/path/{rule}.log" in text
        assert not by_chief or "roles.py" in progress(folder)["reason"]
    goes_on(folder, reference, at_least=PASSES if when == "fitting" else 0)


@drill
def test_what_starts_the_workers_is_frozen_at_the_end_of_the_fit(folder, reference):
    """Snakemake asks it to end, and waits. Its workers kill it."""
    fit = folder / "results" / "flights" / "models" / "path" / "fit.json"
    fit.unlink(missing_ok=True)
    with running(folder) as run:
        wait_for(lambda: fitting(folder), 240, "fitting")
        # Look for it before the fit ends: Snakemake asks it to end about a second later.
        (supervisor,) = pids(folder, "roles.py", "workers.json")
        wait_for(fit.exists, 240, "the fit")
        psutil.Process(supervisor).suspend()
        assert run.wait(180) == 0, (folder / "said").read_text()
    logs = folder / "logs" / "flights" / "models" / "path"
    # Whichever worker sees it first; the kernel then ends the other one before it can say anything.
    said = [(logs / f"workers-{index}.log").read_text() for index in range(2)]
    assert any("ending: the parent process has been stopped for 90 s; it is killed" in text for text in said), said
    assert digests(folder) == reference
    assert processes_in(folder) == []


@drill
@pytest.mark.parametrize("role", ["ps", "worker"])
def test_what_starts_the_roles_is_killed_at_once(folder, reference, role):
    """Snakemake gives the chief up, and waits for the others to end."""
    roster = "workers.json" if role == "worker" else "ps.json"
    with running(folder) as run:
        wait_for(lambda: pids(folder, "roles.py", roster), 120, "the first process")
        psutil.Process(pids(folder, "roles.py", roster)[0]).kill()
        ends(folder, run, A_MINUTE_OR_SO)
    goes_on(folder, reference, at_least=0)


@drill
@pytest.mark.parametrize("role", ["ps", "worker"])
def test_a_role_that_is_frozen_before_it_listens_is_started_again(folder, reference, role):
    with running(folder) as run:
        wait_for(lambda: pids(folder, f"/{role}.py"), 120, "a process that starts")
        psutil.Process(min(pids(folder, f"/{role}.py"))).suspend()
        assert run.wait(A_MINUTE_OR_SO + 120) == 0, (folder / "said").read_text()
    assert digests(folder) == reference
    log = folder / "logs/flights/models/path" / ("ps.log" if role == "ps" else "workers.log")
    assert "has been stopped for 30 s, by SIGSTOP or the like; it is killed" in log.read_text()


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
        text = ends(folder, run, 60)
    config.write_text(good)
    assert "the cluster is not complete after 10 s; still missing: worker" in text
    assert progress(folder)["state"] == "failed"
    goes_on(folder, reference, at_least=0)


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


@drill
def test_snakemake_has_room_for_every_chief(folder):
    """Four clusters start at once. Snakemake has 13 threads at 8 cores, and they take 16."""
    config = folder / "config" / "config.yaml"
    changed = yaml.safe_load(config.read_text())
    model = {key: value for key, value in changed["models"]["path"].items() if key != "path"}
    changed |= {"models": {f"m{number}": model for number in range(4)}, "cluster": {"ps": 1, "workers": 1}}
    config.write_text(yaml.safe_dump(changed))
    targets = [f"results/flights/models/{name}/fit.json" for name in changed["models"]]
    environment = starting_late(folder, {"chief.py": 45})
    line = command_line("--cores", "8", "--", *targets)
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
