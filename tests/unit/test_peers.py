"""What the benchmark of other programs reports of their coefficients."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import psutil
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
import yaml

from runs import REPOSITORY

PEERS = REPOSITORY / "benchmarks" / "peers"
sys.path.append(str(PEERS))

from judge import judge, largest_difference  # noqa: E402


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A table, what is fitted to it, and statsmodels' fit."""
    folder = tmp_path_factory.mktemp("peers")
    random = np.random.default_rng(1)
    rows = 400
    carrier, x = random.choice(["AA", "UA", "WN"], rows), random.normal(size=rows)
    y = (random.random(rows) < 1 / (1 + np.exp(-x + (carrier == "UA")))).astype(int)
    table = pl.DataFrame({"late": y, "carrier": carrier, "x": x})
    table.write_csv(folder / "table.csv")
    work = {"response": "late", "family": "binomial", "factors": ["carrier"], "numbers": ["x"]}
    (folder / "work.json").write_text(json.dumps(work))
    return folder, smf.glm("late ~ carrier + x", table.to_pandas(), family=sm.families.Binomial()).fit()


def write(folder, name, rows, std_errors=False):
    header = ["term", "level", "estimate", *(["std_error"] if std_errors else [])]
    path = folder / name
    pl.DataFrame(rows, header, orient="row").write_csv(path)
    return path


def exact_rows(model):
    b, se = model.params, model.bse
    yield "Intercept", None, b["Intercept"], se["Intercept"]
    yield "carrier", "AA", 0.0, None
    for level in ("UA", "WN"):
        yield "carrier", level, b[f"carrier[T.{level}]"], se[f"carrier[T.{level}]"]
    yield "x", None, b["x"], se["x"]


def test_the_likelihood_of_coefficients_is_that_of_statsmodels(fitted):
    folder, model = fitted
    path = write(folder, "exact.csv", exact_rows(model), std_errors=True)
    answer = judge(folder / "table.csv", folder / "work.json", path)
    assert answer["log_likelihood"] == pytest.approx(model.llf, rel=1e-12)
    assert answer["has_std_errors"] and 0.5 < answer["auc"] < 1


def test_coefficients_against_another_reference_level_are_the_same(fitted):
    folder, model = fitted
    exact = write(folder, "exact.csv", exact_rows(model), std_errors=True)
    b = model.params
    ua = b["carrier[T.UA]"]
    rows = [
        ("Intercept", "", b["Intercept"] + ua),
        ("carrier", "AA", -ua),
        ("carrier", "WN", b["carrier[T.WN]"] - ua),
        ("x", "", b["x"] + 0.5 * model.bse["x"]),
    ]
    other = write(folder, "other.csv", rows)
    assert largest_difference(other, exact) == pytest.approx(0.5, rel=1e-9)
    assert judge(folder / "table.csv", folder / "work.json", other)["log_likelihood"] < model.llf


def test_without_the_coefficients_of_a_factor_there_is_no_likelihood(fitted):
    folder, model = fitted
    exact = write(folder, "exact.csv", exact_rows(model), std_errors=True)
    absorbed = write(folder, "absorbed.csv", [("x", "", model.params["x"], model.bse["x"])], std_errors=True)
    assert "log_likelihood" not in judge(folder / "table.csv", folder / "work.json", absorbed)
    assert largest_difference(absorbed, exact) == pytest.approx(0, abs=1e-12)


def test_every_peer_has_a_program_and_an_environment():
    config = yaml.safe_load((PEERS / "config.yaml").read_text())
    for name, peer in config["peers"].items():
        assert len(list((PEERS / "programs").glob(f"fit_{name}.*"))) == 1, name
        if "environment" in peer:
            lines = (PEERS / "environments" / f"{peer['environment']}.txt").read_text().split()
            assert all("==" in line for line in lines), name


SERVER = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
pathlib.Path(sys.argv[3], "server").write_text(str(child.pid))
time.sleep(600)
"""
"""A program that does not end, with a server in a session of its own."""


def measured(folder, *more):
    """What measure.py says of that program, if 3 seconds are its limit."""
    program, result = folder / "fit_server.py", folder / "result.json"
    program.write_text(SERVER)
    files = [f"--{name}={folder / name}" for name in ("table", "work", "folder")]
    limits = ["--cores=1", "--seconds=3", "--memory=4", f"--python={sys.executable}", *more]
    line = [sys.executable, str(PEERS / "measure.py"), *limits, f"--program={program}", *files, f"--result={result}"]
    subprocess.run(line, check=True)
    return json.loads(result.read_text())


@pytest.mark.processes
def test_a_program_that_a_limit_ends_leaves_no_server_and_is_not_started_on_more_rows(tmp_path):
    first = measured(tmp_path)
    assert first["ended"] == "not finished in 3 s" and first["seconds"] > 3
    server = int((tmp_path / "folder" / "server").read_text())
    assert not psutil.pid_exists(server) or psutil.Process(server).status() == psutil.STATUS_ZOMBIE
    fewer = tmp_path / "fewer.json"
    for ended in ("not finished in 3 s", "with fewer rows not finished in 3 s"):
        fewer.write_text(json.dumps(first | {"ended": ended}))
        assert measured(tmp_path, f"--fewer={fewer}")["ended"] == "with fewer rows not finished in 3 s"
        assert not (tmp_path / "folder" / "server").exists()


@pytest.mark.processes
def test_the_page_is_what_was_measured():
    line = [sys.executable, str(PEERS / "page.py"), "--check"]
    assert subprocess.run(line, capture_output=True, text=True, check=False).returncode == 0
