"""Another workflow uses this one as a module, of which Snakemake fetches the rules alone, from a repository."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from runs import ENVIRONMENT, REPOSITORY, configure, planned, read_json, succeed

TAG = "v0.1.0"
AS_DEPLOYED = """
configfile: "config/config.yaml"

module tfglm:
    snakefile: {snakefile}
    config: config

use rule * from tfglm
"""
"""What `snakedeploy deploy-workflow` writes."""


@pytest.fixture(scope="module")
def hosted(tmp_path_factory) -> Path:
    """A host of repositories that has this one, as its files are here."""
    host = tmp_path_factory.mktemp("host")
    repository = host / "OWNER" / "tfglm"
    subprocess.run(["git", "init", "--quiet", repository], check=True)
    by = {f"GIT_{role}_{key}": "test@localhost" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    for line in (
        ["--work-tree", REPOSITORY, "add", "Snakefile", "workflow", "scripts", "config"],
        ["commit", "--quiet", "--message", "as it is"],
        ["tag", TAG],
    ):
        command = ["git", "--git-dir", repository / ".git", *line]
        subprocess.run(command, cwd=REPOSITORY, env={**os.environ, **by}, check=True)
    return host


@pytest.fixture(autouse=True)
def reached(hosted, tmp_path_factory, monkeypatch):
    """`github` leads to that host, and Snakemake's cache is empty."""
    monkeypatch.setitem(ENVIRONMENT, "XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setitem(ENVIRONMENT, "GIT_CONFIG_COUNT", "1")
    monkeypatch.setitem(ENVIRONMENT, "GIT_CONFIG_KEY_0", f"url.{hosted.as_uri()}/.insteadOf")
    monkeypatch.setitem(ENVIRONMENT, "GIT_CONFIG_VALUE_0", "https://github.com/")


def test_a_workflow_has_this_one_as_a_module_with_a_config_of_its_own(finished, tmp_path):
    theirs = yaml.safe_load((finished / "config" / "config.yaml").read_text())
    theirs["fit"] = ["late_arrival"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"regression": theirs}))
    (snippet,) = re.findall(
        r"```python\n((?:(?!```).)*?module tfglm.*?)```", (REPOSITORY / "docs/config/running.md").read_text(), re.DOTALL
    )
    (tmp_path / "Snakefile").write_text(snippet)
    here = ("--snakefile", str(tmp_path / "Snakefile"))
    jobs = planned(tmp_path, *here)
    assert jobs["tfglm_chief"] == 1 and jobs["results"] == 1
    succeed(tmp_path, *here, "results/flights/models/late_arrival/design.json")
    design = read_json(tmp_path, "models", "late_arrival", "design.json")
    assert design == read_json(finished, "models", "late_arrival", "design.json")


@pytest.mark.parametrize(
    "snakefile",
    [
        f'github("OWNER/tfglm", path="workflow/Snakefile", tag="{TAG}")',
        f'"git+file://{{repository}}/workflow/Snakefile@{TAG}"',
        f'"{REPOSITORY}/workflow/Snakefile"',
    ],
    ids=["github", "git+file", "clone"],
)
def test_a_workflow_is_deployed_from_where_snakemake_can_fetch_it(snakefile, hosted, tmp_path):
    snakefile = snakefile.format(repository=hosted / "OWNER" / "tfglm")
    (tmp_path / "Snakefile").write_text(AS_DEPLOYED.format(snakefile=snakefile))
    configure(tmp_path)
    jobs = planned(tmp_path, "--snakefile", str(tmp_path / "Snakefile"))
    assert jobs["ingest"] == 1 and jobs["chief"] == jobs["write_tables"] == 2


def test_the_fetched_scripts_look_at_a_file(hosted, tmp_path):
    line = ["git", "-C", hosted / "OWNER" / "tfglm", "rev-parse", "HEAD"]
    commit = subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()
    snakefile = f'github("OWNER/tfglm", path="Snakefile", commit="{commit}")'
    (tmp_path / "Snakefile").write_text(AS_DEPLOYED.format(snakefile=snakefile).replace("configfile", "# configfile"))
    (tmp_path / "sales.csv").write_text("sold,shop\n" + "3.5,A\n4.5,B\n1.5,A\n2.5,B\n" * 9)
    here = ("--snakefile", str(tmp_path / "Snakefile"))
    assert "All 36 rows of sales.csv" in succeed(tmp_path, *here, "init", "--config", "csv=sales.csv")
    (scripts,) = Path(ENVIRONMENT["XDG_CACHE_HOME"]).rglob(f"tfglm/{commit}/scripts")
    assert (scripts / "tfglm" / "layouts" / "asa2009.yaml").exists()
    assert planned(tmp_path, *here, "--configfile", "config/sales.yaml")["write_tables"] == 1
