"""This project, through its workflow: `snakemake` from the CSV file to the table of coefficients with standard errors."""

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import yaml
from common import CORES, Work

ROOT = Path(__file__).resolve().parents[3]


def types_of(work: Work) -> dict[str, str]:
    """The types of the columns that are fitted."""
    response = {work.response: "integer" if work.family == "binomial" else "number"}
    return response | dict.fromkeys(work.factors, "string") | dict.fromkeys(work.numbers, "number")


def config(work: Work) -> dict:
    return {
        "results": "results/benchmark",
        "data": {
            "files": [str(work.table)],
            "layout": "layout.yaml",
            "split": {"train": "TRUE"},
            "columns": list(types_of(work)),
        },
        "models": {"m": {"formula": work.formula, "family": work.family}},
        "cluster": {"strategy": "auto"},  # as `init` writes it
    }


def seconds_of(folder: Path, *rules: str) -> float:
    """Seconds of the jobs of some rules, from the benchmark files of Snakemake."""
    paths = [
        path
        for path in (folder / "timings").rglob("*.tsv")
        for rule in rules
        if rule in path.parts or path.stem == rule
    ]
    return sum(pl.read_csv(path, separator="\t", null_values="-")["s"].sum() for path in paths)


def main() -> None:
    work = Work()
    (work.folder / "config.yaml").write_text(yaml.safe_dump(config(work)))
    (work.folder / "layout.yaml").write_text(yaml.safe_dump({"columns": types_of(work)}))
    table = "results/benchmark/models/m/coefficients.csv"
    line = [
        "snakemake",
        "--cores",
        str(CORES),
        "--snakefile",
        str(ROOT / "Snakefile"),
        "--configfile",
        "config.yaml",
        "--",
        table,
    ]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(line, cwd=work.folder, check=True, env=environment)
    work.said["read_seconds"] = seconds_of(work.folder, "ingest", "merge_dictionary")
    work.said["fit_seconds"] = seconds_of(work.folder, "fit", "chief")
    sys.path.insert(0, str(ROOT / "scripts"))
    from tfglm import ENGINE

    work.said["versions"] = {"tfglm engine": str(ENGINE)}
    types = {"level": pl.String, "estimate": pl.Float64, "std_error": pl.Float64}
    rows = pl.read_csv(work.folder / table, schema_overrides=types, infer_schema_length=None)
    # What no row can tell (aliased) counts as 0.
    rows = rows.select("term", "level", pl.col("estimate").fill_null(0.0), "std_error")
    work.answer(rows.iter_rows(), std_errors=True)


if __name__ == "__main__":
    main()
