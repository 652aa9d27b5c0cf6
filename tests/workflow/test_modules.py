"""Another workflow uses this one as a module, of which Snakemake fetches the rules alone, from a repository."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from runs import ENVIRONMENT, REPOSITORY, configure, planned, succeed

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


def test_a_workflow_has_this_one_as_a_module_with_a_config_of_its_own(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").write_text("sold,shop\n" + "3.5,A\n4.5,B\n1.5,A\n2.5,B\n" * 9)
    (tmp_path / "sales.layout.yaml").write_text("columns: {sold: number, shop: string}\n")
    data = {
        "files": ["data/sales.csv"],
        "layout": "sales.layout.yaml",
        "columns": ["sold", "shop"],
        "split": {"train": "TRUE"},
    }
    models = {"sold": {"family": "gaussian", "formula": "sold ~ shop"}}
    theirs = {"results": "results/sales", "data": data, "models": models, "cluster": {"workers": 1}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"regression": theirs}))
    (snippet,) = re.findall(
        r"```python\n((?:(?!```).)*?module tfglm.*?)```", (REPOSITORY / "docs/config/running.md").read_text(), re.DOTALL
    )
    fetched = f'github("OWNER/tfglm", path="workflow/Snakefile", tag="{TAG}")'
    (tmp_path / "Snakefile").write_text(snippet.replace('"tfglm/workflow/Snakefile"', fetched))
    here = ("--snakefile", str(tmp_path / "Snakefile"))
    jobs = planned(tmp_path, *here)
    assert jobs["tfglm_chief"] == 1 and jobs["results"] == 1
    below = "regression/results/sales/models/sold"
    succeed(tmp_path, *here, f"{below}/fit.json")
    # All that the processes of a fit write, from shards to logs, is below the prefix. The data stays where it is.
    files = {"Snakefile", "config.yaml", "sales.layout.yaml", "data", "regression", ".snakemake"}
    assert {path.name for path in tmp_path.iterdir()} == files
    assert {path.name for path in (tmp_path / "regression").iterdir()} == {"results", "logs", "timings"}
    assert (tmp_path / "regression/logs/sales/models/sold/chief.log").is_file()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["sales.csv"]
    assert json.loads((tmp_path / below / "fit.json").read_text())["rows"] == 36
    assert not {"tfglm_ingest", "tfglm_chief"} & planned(tmp_path, *here, f"{below}/coefficients.csv").keys()


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
