"""What result jobs import, which is most of the time of a small one."""

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"

RESULTS = {
    path.stem
    for pattern in ("check_reference", "compare", "evaluate", "export_vcov", "predict", "render_*", "tabulate_*")
    for path in SCRIPTS.glob(f"{pattern}.py")
}


def imported_by(*modules: str) -> set[str]:
    """All modules that are there once a new interpreter has imported these."""
    line = f"import sys, {', '.join(modules)}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", line], cwd=SCRIPTS, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_no_script_of_results_imports_tensorflow():
    assert len(RESULTS) >= 14
    imported = imported_by(*sorted(RESULTS))
    assert "tensorflow" not in imported and "tfglm.results.coefficients" in imported


def test_a_table_of_coefficients_imports_nothing_that_is_slow_and_not_needed():
    imported = imported_by("tabulate_coefficients", "tabulate_contrasts", "export_vcov")
    assert not imported & {"tensorflow", "numba", "scipy.stats", "scipy.optimize", "sklearn", "matplotlib"}
