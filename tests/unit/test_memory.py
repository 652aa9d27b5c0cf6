"""The memory of processes: what a role has used stays with it, and the stages before a fit need little for a wide file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tfglm import tensorflow_setup

pytestmark = pytest.mark.processes

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
TOUCHED = 1 << 26

PROGRAM = f"""
import sys
sys.path.insert(0, sys.argv[1])
import numpy
from tfglm.tensorflow_setup import touch

def held():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmRSS")]
    return 1024 * int(line.split()[1])

before = held()
touch({TOUCHED})
print(held() - before)
"""


def test_what_is_touched_is_kept() -> None:
    environment = {**os.environ, **tensorflow_setup.ENVIRONMENT}
    line = [sys.executable, "-c", PROGRAM, str(SCRIPTS)]
    grown = int(subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout)
    assert grown > 0.9 * TOUCHED


# Wide files -----------------------------------------------------------------------------------------------------------

COLUMNS = ["y", *(f"x{number}" for number in range(799))]
MODEL = json.dumps({"formula": "y ~ x0 + log(x1)", "family": "gaussian"})


def peak(script: str, folder: Path, **options: Path | str) -> int:
    """The most memory that a script takes, in bytes."""
    line = [sys.executable, str(SCRIPTS / f"{script}.py"), f"--log={folder / f'{script}.log'}"]
    line += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    _, status, usage = os.wait4(subprocess.Popen(line).pid, 0)
    assert status == 0, (folder / f"{script}.log").read_text()[-2000:]
    return 1024 * usage.ru_maxrss


def peaks_of_stages(folder: Path, values: np.ndarray) -> dict[str, int]:
    """The most memory of each stage before a fit, for a CSV file with these values."""
    folder.mkdir()
    pd.DataFrame(values, columns=COLUMNS).to_csv(folder / "wide.csv", index=False)
    (folder / "layout.yaml").write_text(json.dumps({"columns": dict.fromkeys(COLUMNS, "number")}))
    of_rows = json.dumps({"split": {"train": "TRUE"}, "columns": COLUMNS})
    of_levels = json.dumps({"missing": dict.fromkeys(COLUMNS[3:], "level")})
    manifest, dictionary = folder / "shards" / "manifest.json", folder / "dictionary.json"
    source = {"source": folder / "wide.csv", "file": "wide", "layouts": folder / "layout.yaml"}
    merged = {"manifests": manifest, "dictionary": dictionary}
    return {
        "ingest": peak("ingest", folder, **source, settings=of_rows, manifest=manifest),
        "dictionary": peak("merge_dictionary", folder, **merged, settings=of_levels, rows=folder / "rows.json"),
        "design": peak(
            "build_design", folder, **merged, model="m", settings=MODEL, to_check="{}", design=folder / "design.json"
        ),
    }


def test_no_stage_needs_much_memory_for_a_wide_file_of_distinct_values_some_of_them_missing(tmp_path):
    values = np.random.default_rng(5).random((800, len(COLUMNS)))
    values[:, 3:][np.random.default_rng(6).random((800, len(COLUMNS) - 3)) < 0.01] = np.nan
    least, needed = peaks_of_stages(tmp_path / "small", values[:2]), peaks_of_stages(tmp_path / "wide", values)
    bytes_a_value = {stage: (needed[stage] - least[stage]) / values.size for stage in least}
    assert max(bytes_a_value.values()) < 150, bytes_a_value
