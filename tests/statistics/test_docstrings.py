"""The examples in docstrings print what they say."""

import doctest
import importlib
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tfglm
from pools import fit_files, ingest_frame, write_results
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.distribute.local import LocalExecutor
from tfglm.engine.workload import Workload
from tfglm.formula.parse import parse_factor

PACKAGE = Path(tfglm.__file__).parent

MODULES = [
    ".".join(("tfglm", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text()
]

KNOWN = {"math": math, "np": np, "pd": pd, "tfglm": tfglm, "parse_factor": parse_factor, "LocalExecutor": LocalExecutor}
"""What examples take as imported."""


@pytest.fixture(scope="module")
def workload(run) -> Workload:
    """The rows and the design of the fit."""
    design = Design.load(run / "results/flights/models/late/design.json")
    return Workload(design, [IngestedFile.load(next(run.rglob("manifest.json")))], "train")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A folder with a fit in `results/flights/models/late`: of the carrier AA 3 of 10 flights were late, and of UA 6 of 10."""
    run = tmp_path_factory.mktemp("examples")
    folder = run / "results/flights/models/late"
    frame = pd.DataFrame({"carrier": np.repeat(["AA", "UA"], 10), "late": [1] * 3 + [0] * 7 + [1] * 6 + [0] * 4})
    design, fitted, _ = fit_files([ingest_frame(frame, folder / "data")], "late ~ carrier", "binomial")
    fitted.summary.update(model="late", provenance={"model": {}, "inputs": [], "data": {}})
    write_results(fitted, design, folder)
    return run


def test_what_users_call_has_examples():
    assert {"tfglm", "tfglm.model", "tfglm.families", "tfglm.formula.parse", "tfglm.solvers.fit"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_an_example_prints_what_it_says(run, workload, name, monkeypatch):
    monkeypatch.chdir(run)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    known = KNOWN | {"workload": workload}
    result = doctest.testmod(importlib.import_module(name), extraglobs=known, optionflags=flags)
    assert result.failed == 0 and result.attempted > 0, result


@pytest.mark.parametrize("name", ["from-other-tools", "tutorial-lettings"])
def test_a_page_with_examples_prints_what_it_says(name, monkeypatch):
    page = Path(__file__).parents[2] / f"docs/{name}.md"
    monkeypatch.chdir(page.parents[1])
    result = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    assert result.failed == 0 and result.attempted > 15, result


def test_the_first_call_of_the_readme_prints_what_it_says(monkeypatch, capsys):
    repository = Path(__file__).parents[2]
    text = (repository / "README.md").read_text(encoding="utf-8")
    call, printed = re.findall(r"```python\n(.*?)```\s*```\n(.*?)```", text, re.DOTALL)[0]
    monkeypatch.chdir(repository)
    exec(call, {})
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == printed.splitlines()
