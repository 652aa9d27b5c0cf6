"""What jobs import, which is most of the time of a small one."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from processes import ENVIRONMENT, end, start_roles, wait_until
from tfglm.roles import announce

SCRIPTS = Path(__file__).parents[2] / "scripts"

RESULTS = {
    path.stem
    for pattern in (
        "check_reference",
        "compare",
        "evaluate",
        "export_vcov",
        "predict",
        "residuals",
        "render_*",
        "tabulate_*",
    )
    for path in SCRIPTS.glob(f"{pattern}.py")
}


def imported_by(*modules: str) -> set[str]:
    """All modules that are there once a new interpreter has imported these."""
    line = f"import sys, {', '.join(modules)}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", line], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


SLOW = {"tensorflow", "polars", "pandas", "scipy", "numba", "formulaic", "matplotlib", "sklearn"}
"""Each takes 0.2 s of processor or more to import."""

NEEDED = {
    "check_reference": set(),
    "compare": {"pandas", "scipy"},
    "evaluate": {"polars", "scipy", "numba"},
    "export_vcov": {"pandas", "scipy"},
    "predict": {"polars", "scipy", "numba"},
    "render_coefficients": {"pandas", "matplotlib"},
    "render_effects": {"pandas", "matplotlib"},
    "render_embeddings": {"pandas", "matplotlib"},
    "render_groups": {"pandas", "matplotlib"},
    "render_history": {"pandas", "matplotlib"},
    "render_metrics": {"pandas", "matplotlib"},
    "render_path": {"pandas", "scipy", "matplotlib"},
    "render_rows": {"pandas", "matplotlib"},
    "render_home": {"pandas"},
    "residuals": {"polars", "scipy", "numba"},
    "tabulate_coefficients": {"pandas", "scipy"},
    "tabulate_contrasts": {"pandas", "scipy"},
    "tabulate_hypotheses": {"pandas", "scipy"},
    "tabulate_pairwise": {"pandas", "scipy"},
    "tabulate_profile": {"pandas"},
    "tabulate_effects": {"polars", "pandas", "scipy"},
    "tabulate_embeddings": {"polars", "pandas", "scipy"},
    "tabulate_for_papers": {"pandas", "scipy"},
    "tabulate_groups": {"pandas"},
    "tabulate_margins": {"polars", "pandas", "scipy", "numba"},
    "tabulate_network": {"polars", "pandas", "scipy", "numba"},
    "tabulate_path": {"pandas"},
    "tabulate_scaling": {"pandas", "matplotlib"},
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
