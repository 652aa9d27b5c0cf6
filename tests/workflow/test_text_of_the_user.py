"""Text of the user has braces, dollars and brackets that mean something to Snakemake or the shell; a run leaves them alone."""

import html
import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from browser import browser
from runs import ENVIRONMENT, REPOSITORY, command_line, read_table, succeed

REFUSABLE = ("contrasts", "hypotheses")
"""Tables that have jobs of their own, and pages."""
PAGES = ("coefficients", "metrics", *REFUSABLE)

SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
NAME = f"f{SCRIPT}<re{{file}}sults> {{0}} $HOME %s \\n 'q' \"d\" <word>.csv"
INSPECTING = """
include: {snakefile!r}

from tfglm.workflow.values import Unwatched

for each in workflow.rules:
    for name, value in each.params._allitems():
        if not callable(value) and not isinstance(value, Unwatched) and name != "engine":
            raise WorkflowError(f"rule {{each.name}}: the param {{name}} is a text, which Snakemake formats; say literal(...)")
"""
"""Snakemake formats plain texts among the params; what functions return it leaves alone."""


def text_of(page: Path) -> str:
    """The text of a page. Names may be broken between their parts."""
    return html.unescape(page.read_text().replace("<wbr>", ""))


LEVELS = ["{file}", "b{2}", "$HOME", SCRIPT, "`id` $(id)", "%s %d", "two\\nlines", "q\"'\\", "Łódź → 東京"]
NUMBER, FACTOR = "x {input} \"q\" 's' $HOME `t`", "g <b>{2}</b> %s"
"""Columns of the header."""

TAGS = ["<script>alert", "<b>{2}", "<b>{output}", "<b>word", "<i>{input}", "<u>{2}"]


def write_rows(path: Path) -> None:
    random = np.random.default_rng(1)
    frame = pd.DataFrame({"y": random.normal(size=400).round(3), NUMBER: random.normal(size=400).round(3)})
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.assign(**{FACTOR: np.resize(LEVELS, 400), "part": np.arange(400) % 5}).to_csv(path, index=False)


@pytest.fixture(params=["C.UTF-8", "de_DE.ISO-8859-1"])
def in_locale(request, tmp_path):
    """The environment of a run in a locale: `C.UTF-8`, or one that lacks most letters. Skips a locale that cannot be made."""
    if request.param != "C.UTF-8":
        name, _, characters = request.param.partition(".")
        made = subprocess.run(
            ["localedef", "-i", name, "-f", characters, tmp_path / request.param], capture_output=True
        )
        if made.returncode:
            pytest.skip(f"there is no locale {request.param}; apt-get install locales")
    return ENVIRONMENT | {"LC_ALL": request.param, "LOCPATH": str(tmp_path)}


def alerts(paths: list[Path]) -> list[str]:
    """The pages in which a text of the user runs, or would run at a click."""
    found: list[str] = []
    with browser() as started:
        for path in paths:
            with started.new_page() as page:
                page.on("dialog", lambda dialog: (found.append(dialog.page.url), dialog.dismiss()))
                page.goto(path.as_uri())
                if page.locator("a[href^='javascript:']").count():
                    found.append(f"{path}: a link")
    return found


def test_text_of_the_user_goes_through_a_whole_run_as_it_is(tmp_path, in_locale):
    def succeed(folder: Path, *arguments: str) -> None:
        done = subprocess.run(command_line(*arguments), cwd=folder, env=in_locale, capture_output=True)
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    write_rows(tmp_path / NAME)
    columns = {
        "y": {"type": "number", "unit": "<u>{2}</u>"},
        "x": {"type": "number", "source": NUMBER},
        "g": {"type": "string", "source": FACTOR, "labels": {SCRIPT: "<b>{output}</b>"}},
        "part": "integer",
    }
    (tmp_path / "table.yaml").write_text(yaml.safe_dump({"description": f"{SCRIPT} {{input}}", "columns": columns}))
    condition = f"{{wildcards}} <x> $A `b` %d {SCRIPT}"
    model = {
        "formula": "y ~ g + x + h:x",
        "family": "gaussian",
        "contrasts": {f"{SCRIPT} {{input}}": {"g[%s %d]": 1, "g[$HOME]": -1}},
        "hypotheses": {"<b>{2}</b> $HOME": [{"x": 1}]},
        "pairwise": ["g"],
        "margins_at": {f"{SCRIPT} {{input}}": {"g": "$HOME"}, "<b>{2}</b> $HOME": {"g": "%s %d", "x": 0.5}},
        "margins_contrasts": {f"%s {SCRIPT}": {f"{SCRIPT} {{input}}": 1, "<b>{2}</b> $HOME": -1}},
        "by": ["g"],
        "identity": ["g"],
        "predictions": "csv",
    }
    config = {
        "data": {
            "files": [NAME],
            "layout": ["table.yaml"],
            "split": {"train": "part < 3", "evaluate": "part = 4", "predict": "part = 3"},
            "columns": ["y", "g", "x", "h"],
            "derive": {"h": "CASE WHEN g = '{file}' THEN '<i>{input}</i>' ELSE '%s $HOME' END"},
            "where": {condition: "x > -1.5"},
        },
        "models": {"m": model},
        "cluster": {"strategy": "one_device"},
        "tables": {"labels": {"g": "{file} {2} $HOME <b>word</b>"}},
        "results": "results/few",
    }
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "inspecting.smk").write_text(INSPECTING.format(snakefile=str(REPOSITORY / "workflow" / "Snakefile")))
    folder = tmp_path / "results/few"
    pages = [
        folder / "index.html",
        folder / "data/rows.html",
        folder / "data/columns.html",
        *(folder / f"models/m/{name}.html" for name in PAGES),
    ]
    targets = [*(str(path.relative_to(tmp_path)) for path in pages), "tables", "all"]
    succeed(tmp_path, "--snakefile", "inspecting.smk", "--configfile", "few.yaml", "--", *targets)
    table = read_table(tmp_path, "m", Path("results/few"))
    assert sorted(table.loc["g"].index) == sorted(LEVELS)
    assert sorted(table.loc["h:x"].index) == ["%s $HOME", "<i>{input}</i>"]
    for name in REFUSABLE:
        assert next(iter(model[name])) in pd.read_csv(folder / f"models/m/{name}.csv").iloc[:, 0].to_list()
        assert next(iter(model[name])) in text_of(folder / f"models/m/{name}.html")
    (source,) = json.loads((folder / "models/m/fit.json").read_text())["provenance"]["inputs"]
    assert source["source"] == NAME
    shown = pages + list(folder.rglob("*.svg"))
    for path in [*shown, *folder.rglob("tables/*.html")]:
        assert not [tag for tag in TAGS if tag in path.read_text()], path
    of_rows = text_of(folder / "data/rows.html")
    assert condition in of_rows
    assert config["data"]["derive"]["h"] in text_of(folder / "index.html")
    assert "<b>{output}</b>" in text_of(folder / "models/m/coefficients.html")
    (predictions,) = folder.glob("models/m/predictions/*.csv")
    assert set(pd.read_csv(predictions, encoding="utf-8")["g"]) == set(LEVELS)
    succeed(tmp_path, "--configfile", "few.yaml", "--report", "report.html")
    assert alerts([tmp_path / "report.html", *shown]) == []


def test_init_takes_a_file_whose_name_and_header_are_any_text(tmp_path):
    write_rows(tmp_path / NAME)
    printed = succeed(tmp_path, "init", "--config", f"csv={NAME}")
    assert "Written: config/" in printed
    layout, config = (yaml.safe_load(path.read_text()) for path in sorted((tmp_path / "config").iterdir()))
    assert config["data"]["files"] == [NAME]
    assert {each["source"] for each in layout["columns"].values() if isinstance(each, dict)} == {NUMBER, FACTOR}
