"""What jobs import, which is most of the time of a small one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from pools import design_of, ingest_frame
from processes import ENVIRONMENT, end, start_roles, wait_until
from tfglm.data.dictionary import merge
from tfglm.roles import announce

pytestmark = pytest.mark.processes

SCRIPTS = Path(__file__).parents[2] / "scripts"

RESULTS = {
    path.stem
    for pattern in ("check", "compare", "evaluate", "predict", "write_pages", "write_tables")
    for path in SCRIPTS.glob(f"{pattern}.py")
}


def imported_by(*modules: str, then: str = "") -> set[str]:
    """All modules that are there once a new interpreter has imported these, and then runs a line."""
    line = f"import sys, {', '.join(modules)}; {then}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", line], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


SLOW = {"tensorflow", "polars", "pandas", "scipy", "numba", "formulaic", "matplotlib", "sklearn"}
"""Each takes 0.2 s of processor or more to import."""

NEEDED = {
    "check": set(),
    "compare": {"pandas", "scipy"},
    "evaluate": {"polars", "pandas", "scipy", "numba"},
    "predict": {"polars", "scipy", "numba"},
    "write_pages": {"pandas"},
    "write_tables": {"pandas", "scipy"},
}
"""What of these a script of results uses."""


def test_the_list_has_all_scripts_of_results():
    assert set(NEEDED) == RESULTS


def test_results_have_no_tensorflow():
    """A room that may import it is named in docs/architecture.md."""
    modules = [f"tfglm.results.{path.stem}" for path in (SCRIPTS / "tfglm" / "results").glob("*.py")]
    imported = imported_by(*(module.removesuffix(".__init__") for module in modules))
    assert not imported & {"tensorflow", "keras"} and "tfglm.results.margins" in imported


@pytest.mark.parametrize("script", NEEDED)
def test_a_script_of_results_imports_what_it_uses_and_no_more(script):
    imported = imported_by(script)
    assert imported & SLOW == NEEDED[script]
    assert not imported & {"scipy.stats", "scipy.optimize"}


def test_a_job_imports_the_sections_of_the_config_that_it_uses():
    imported = imported_by("write_tables")
    others = {f"tfglm.config.{name}" for name in ("columns", "layouts", "networks", "root")}
    assert "tfglm.config.models" in imported and not imported & others


def test_the_checks_of_the_snakefile_import_no_special_functions():
    """Each run checks formulas and headers before any job starts."""
    parse = 'tfglm.formula.parse.parse("y ~ C(x) * z", "formula")'
    assert not imported_by("tfglm.design.early", "tfglm.data.layouts", then=parse) & {"scipy.special", "pandas"}


INGEST = """
import sys
from pathlib import Path
from tfglm.config import Layout, SelectionConfig
from tfglm.data.ingest import ingest
columns = {"late": "integer", "delay": "number", "day": "date", "carrier": "string"}
layout = Layout.model_validate({"columns": columns})
settings = SelectionConfig.model_validate({"split": {"train": "late = 0", "evaluate": "TRUE"}, "columns": list(columns)})
ingest(Path(sys.argv[1]), "flights", {"table": layout}, settings, Path(sys.argv[2]))
print(*sys.modules, sep="\\n")
"""


@pytest.mark.parametrize("name", ["flights.csv", "flights.parquet"])
def test_a_file_is_ingested_without_pandas(tmp_path, name):
    """pyarrow imports it to make an array of something else, or something else of an array."""
    rows = {"late": [0, None, 1], "delay": [0.5, None, 2.0], "carrier": ["AA", "NA", "UA"]}
    table = pl.DataFrame(rows).with_columns(day=pl.Series(["2013-01-01", None, "2013-01-02"]).str.to_date())
    path = tmp_path / name
    table.write_parquet(path) if path.suffix == ".parquet" else table.write_csv(path, null_value="NA")
    line = [sys.executable, "-c", INGEST, str(path), str(tmp_path / "shards")]
    done = subprocess.run(line, cwd=SCRIPTS, capture_output=True, text=True, check=True)
    assert "tfglm.data.ingest" in done.stdout.split()
    assert "pandas.core" not in done.stdout.split()


def test_a_fit_in_one_process_imports_no_tensorflow(tmp_path):
    """It takes a second to three; its checkpoint and its curves are written without it."""
    frame = pd.DataFrame({"y": [0.5, 1.5, 2.0, 4.0, 3.0, 1.0], "x": [1, 2, 3, 4, 5, 6]})
    file = ingest_frame(frame, tmp_path)
    design_of("y ~ x", "gaussian", merge([file]), [file]).write(tmp_path / "design.json")
    names = {"design": "design.json", "manifests": "table/manifest.json", "history": "history.csv", "fit": "fit.json"}
    names |= {"journal": "journal", "events": "events", "checkpoint": "checkpoint", "log": "log"}
    line = [sys.executable, SCRIPTS / "fit.py", "--settings", "{}"]
    line += [part for name, file in names.items() for part in (f"--{name}", tmp_path / file)]
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    subprocess.run([*map(str, line)], env=environment, capture_output=True, check=True)
    log = (tmp_path / "log").read_text()
    assert "tfglm.bundle" in log and not re.search(r"\| +tensorflow", log) and "scipy.stats" not in log
    assert (tmp_path / "checkpoint" / "fitted.index").exists() and len(list((tmp_path / "events").iterdir())) == 1


@pytest.mark.parametrize("role", ["ps", "worker"])
def test_servers_import_parts_of_tensorflow_and_only_once(role, tmp_path):
    running = start_roles(tmp_path, role, 2, environment=ENVIRONMENT | {"PYTHONPROFILEIMPORTTIME": "1"})
    try:
        wait_until((tmp_path / f"{role}s.json").exists, 10, "the roster")
        announce.gather([tmp_path / f"{role}s.json"], 60, print)
    finally:
        assert end(running) == 0
    first, other = ((tmp_path / f"{role}s-{index}.log").read_text() for index in (0, 1))
    assert "tensorflow.python.training.server_lib" in first and "tensorflow._api" not in first
    assert "tensorflow.python.training.server_lib" not in other
