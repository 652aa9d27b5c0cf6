"""Text of the user has braces, dollars and brackets that mean something to Snakemake or the shell; a run leaves them alone."""

import yaml

from runs import REPOSITORY, read_json, succeed

NAME = "<re{file}sults> {0} $HOME %s \\n 'q' \"d\" <word>.csv"
INSPECTING = """
include: {snakefile!r}

for each in workflow.rules:
    for name, value in each.params._allitems():
        if not callable(value) and not isinstance(value, Unwatched) and name != "engine":
            raise WorkflowError(f"rule {{each.name}}: the param {{name}} is a text, which Snakemake formats; say literal(...)")
"""
"""Snakemake formats plain texts among the params; what functions return it leaves alone."""


def test_text_of_the_user_reaches_the_scripts_as_it_is(tmp_path):
    levels = ["{file}", "b{2}", "$HOME"]
    rows = [f"{number % 7}.5,{levels[number % 3]}\n" for number in range(99)]
    (tmp_path / NAME).write_text("y,g\n" + "".join(rows) + "1,other\n")
    (tmp_path / "table.yaml").write_text("columns: {y: number, g: string}\n")
    config = {
        "data": {
            "files": [NAME],
            "layout": ["table.yaml"],
            "split": {"train": "TRUE"},
            "columns": ["y", "g", "h"],
            "derive": {"h": "g = '{file}'"},
            "where": {"{wildcards} <x> $A `b` %d": "g IN ('{file}', 'b{2}', '$HOME')"},
        },
        "models": {"m": {"formula": "y ~ g", "family": "gaussian"}},
        "cluster": {"strategy": "one_device"},
        "tables": {"labels": {"g": "{file} {2} $HOME <word>"}},
        "results": "results/few",
    }
    (tmp_path / "few.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "inspecting.smk").write_text(INSPECTING.format(snakefile=str(REPOSITORY / "workflow" / "Snakefile")))
    where = ("--snakefile", str(tmp_path / "inspecting.smk"), "--configfile", "few.yaml")
    succeed(tmp_path, "results/few/data/rows.json", *where)
    account = read_json(tmp_path, "data", "rows.json", results="results/few")
    assert account["splits"]["train"]["rows"] == 99, account
