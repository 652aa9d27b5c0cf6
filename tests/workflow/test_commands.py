"""Snakemake's own commands, after a complete run."""

import os
import re
import shutil

import pytest

from runs import REPOSITORY, RESULTS, contents, planned, snakemake, succeed

PAGE, FIT = f"{RESULTS}/index.html", f"{RESULTS}/models/late_arrival/fit.json"
JSON = f"{RESULTS}/data/rows.json"

SAYS = {
    "--summary": rf"(?m)^{FIT}\t.*\tok\tno update$",
    "--detailed-summary": rf"(?m)^{FIT}\t.*\tok\tno update$",
    "--list-rules": r"(?m)^write_tables_vcov|^write_tables",
    "--dag": r"digraph snakemake_dag",
    "--filegraph": r"digraph snakemake_dag",
    "--d3dag": r'{"nodes": ',
    "--touch": "Nothing to be done",
    "--touch --forceall": "The page to open",
    "--rerun-incomplete": "Nothing to be done",
    "--unlock": "Unlocked working directory",
    f"--cleanup-metadata {PAGE}": "",
    "--delete-all-output --dry-run": rf"Would delete {FIT}",
    "--delete-temp-output": r"\ABuilding DAG of jobs...\n\Z",
    "--list-untracked": r"(?m)^config/config.yaml$",
    "--list-changes code": r"\ABuilding DAG of jobs...\n\Z",
    "--list-changes input": r"\ABuilding DAG of jobs...\n\Z",
    "--list-changes params": r"results/",
    "--print-compilation": r"workflow . include",
    "--cleanup-shadow": "",
}
FAILS = {
    "--archive all.tar.gz": "conda",
    "--containerize": "conda",
    "--generate-unit-tests units": "is not in the subpath|No such file",
}
ELSEWHERE = ("--dry-run", "--lint", "--list-target-rules", "--report", "--rulegraph")
"""Commands that other tests and `make lint` run."""


def without_values(command: str) -> str:
    return re.match(r"--list-changes \w+|--[\w-]+", command)[0]


def test_the_documentation_has_all_of_them():
    text = (REPOSITORY / "docs" / "config" / "running.md").read_text()
    table = text.partition("<!-- commands:begin -->")[2].partition("<!-- commands:end -->")[0]
    documented = {
        command for row in re.findall(r"^\| (`--.*?) \|", table, re.M) for command in re.findall("`(.+?)`", row)
    }
    assert documented == set(map(without_values, [*SAYS, *FAILS, *ELSEWHERE]))


@pytest.mark.parametrize("command", SAYS)
def test_a_command_says_what_the_documentation_says_and_changes_no_result(finished, command):
    before = contents(finished / RESULTS)
    assert re.search(SAYS[command], succeed(finished, *command.split())), command
    after = contents(finished / RESULTS)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("command", FAILS)
def test_a_command_that_is_of_no_use_here_says_so(finished, command):
    if FAILS[command] == "conda" and shutil.which("conda"):
        pytest.skip("this machine has conda")
    done = snakemake(finished, *command.split())
    assert done.returncode == 1
    assert re.search(FAILS[command], done.stdout), done.stdout


def test_touched_results_are_taken_for_those_of_the_config(finished):
    assert planned(finished) == {}  # after all commands above
    os.utime(finished / JSON)
    assert planned(finished) != {}
    succeed(finished, "--touch")
    assert planned(finished) == {}


def test_a_run_after_all_output_was_deleted_plans_everything(finished):
    succeed(finished, "--delete-all-output")
    assert not (finished / FIT).exists()
    assert {"ingest", "chief", "write_home"} <= set(planned(finished))
