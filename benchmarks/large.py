"""The whole of ASA Data Expo 2009 by size, from CSV to coefficients: seconds, memory and bytes by stage.

Generates the 22 files once (12 GB), runs the workflow on them in a folder of its own, and writes results/large.json beside this
file. Timed runs take turns with a streaming scan of the same columns by polars. In the last run no server forks the jobs,
because Snakemake measures no memory of forked jobs; its benchmark files give the seconds and the memory of each stage. The truth
of the flights is known, and `truth` says how far the estimates are from it.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE)]

import asa  # noqa: E402
import pandas as pd  # noqa: E402

import ingest  # noqa: E402

BYTES_A_ROW = 96 + 2 * 15
"""CSV, and twice the shards while a file is ingested."""


def size(path: Path) -> int:
    """Bytes of a file or of all files below a folder."""
    return (
        path.stat().st_size
        if path.is_file()
        else sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    )


def stages(folder: Path) -> dict[str, dict]:
    """Seconds of work, peak memory and number of jobs of each rule, from Snakemake's benchmark files."""
    by_rule: dict[str, list[pd.DataFrame]] = {}
    for path in sorted((folder / "timings").rglob("*.tsv")):
        rule = path.relative_to(folder / "timings").parts[1].removesuffix(".tsv")
        by_rule.setdefault(rule, []).append(pd.read_csv(path, sep="\t", na_values="-"))
    return {
        rule: {
            "jobs": len(tables),
            "seconds": float(sum(table["s"].sum() for table in tables)),
            "peak_rss_mb": float(max(table["max_rss"].max() for table in tables)),
        }
        for rule, tables in by_rule.items()
    }


def against_truth(table: pd.DataFrame, seed: int) -> dict[str, float]:
    """How many standard errors the estimates are off the truth."""
    truth = {(term, level): value for term, level, value in asa.truth(seed).iter_rows()}
    table = table[table["std_error"].notna() & (table["term"] != "Intercept")].fillna({"level": "", "reference": ""})
    expected = [
        truth[row.term, row.level] - (truth[row.term, row.reference] if row.reference else 0.0)
        for row in table.itertuples()
    ]
    z = (table["estimate"] - expected) / table["std_error"]
    return {
        "coefficients": len(z),
        "within_1.96_standard_errors": float((z.abs() < 1.96).mean()),
        "largest_in_standard_errors": float(z.abs().max()),
        "largest_error": float((table["estimate"] - expected).abs().max()),
    }


def run(folder: Path, cores: int, **environment: str) -> float:
    """Seconds of the workflow from the files to the pages."""
    for part in ("results", "timings", "logs"):
        shutil.rmtree(folder / part, ignore_errors=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["snakemake", "--cores", str(cores), "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
    start = time.perf_counter()
    subprocess.run(command, check=True, env=os.environ | {"PATH": path} | environment)
    return time.perf_counter() - start


def main(arguments: argparse.Namespace) -> None:
    folder = arguments.data
    needed = arguments.rows * BYTES_A_ROW - (size(folder) if folder.exists() else 0)
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    print(f"{max(0, needed) / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free.")
    if needed > free:
        raise SystemExit("That is not enough; give another folder with --data.")
    csv = asa.write(folder / "data", arguments.rows, range(1987, 2009), seed=1)
    (folder / "config").mkdir(exist_ok=True)
    shutil.copyfile(HERE / "large.yaml", folder / "config" / "config.yaml")
    scans, runs = [], []
    for _ in range(arguments.turns):
        scans.append(ingest.read(sys.executable, "polars", folder / "data" / "????.csv").wall)
        runs.append(run(folder, arguments.cores))
    run(folder, arguments.cores, TFGLM_FORK_SERVER="off")
    model = folder / "results" / "flights" / "models" / "late_arrival"
    fit = json.loads((model / "fit.json").read_text())
    result = {
        "rows": json.loads((folder / "results/flights/data/rows.json").read_text())["read"],
        "seconds": statistics.median(runs),
        "turns": {"tfglm": runs, "scan by polars": scans},
        "times_a_scan": statistics.median(each / scan for each, scan in zip(runs, scans, strict=True)),
        "stages": stages(folder),
        "bytes": {"csv": sum(map(size, csv)), "shards": size(folder / "results" / "data"), "model": size(model)},
        "fit": {key: fit[key] for key in ("rows", "coefficients", "iterations", "converged", "certificate")},
        "metrics": json.loads((model / "metrics.json").read_text()),
        "truth": against_truth(pd.read_csv(model / "coefficients.csv", keep_default_na=False, na_values=[""]), 1),
        "cores": arguments.cores,
    }
    (HERE / "results").mkdir(exist_ok=True)
    arguments.result.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({key: result[key] for key in ("rows", "seconds", "turns", "bytes", "truth")}, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=sum(asa.ROWS.values()))
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument(
        "--data", type=Path, default=HERE / "data" / "large", help="folder to work in; its files are kept"
    )
    parser.add_argument("--result", type=Path, default=HERE / "results" / "large.json")
    main(parser.parse_args())
