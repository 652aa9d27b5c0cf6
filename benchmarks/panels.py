"""Absorbed factors, from a Parquet file to a table of coefficients, beside other programs: processor seconds and memory.

`easy` has levels drawn at random. In `hard`, workers move between neighbouring firms, so that few rows connect distant firms.
Both have clusters by the first factor. Each fit is a process of its own, whose seconds count from the end of its imports. The
programs run in turns, and the fastest run of each counts. Writes benchmarks/results/panels.json and prints a table.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parents[1]

FRAME = """
import importlib.metadata, json, os, resource, sys, warnings
resource.setrlimit(resource.RLIMIT_CPU, ({most}, {most} + 9))
rows, family = sys.argv[1:]
response = "y" if family == "gaussian" else "event"
{imports}
warnings.simplefilter("ignore")
begun = sum(os.times()[:4])
{fit}
used = sum(os.times()[:4]) - begun
peak = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 1024
versions = [f"{{name}} {{importlib.metadata.version(name)}}" for name in {packages}]
print(json.dumps({{"processor_seconds": used, "peak_mb": peak, "estimates": list(map(float, estimates)),
                  "std_errors": list(map(float, errors)), "versions": versions}}))
"""

PYFIXEST = """
fit = pyfixest.feols if family == "gaussian" else lambda *args, **more: pyfixest.feglm(*args, family="logit", **more)
options = {{"vcov": {{"CRV1": "first"}}, "lean": True, "store_data": False, "copy_data": False{more}}}
table = fit(f"{{response}} ~ x + z | first + second + year", pandas.read_parquet(rows), **options).tidy()
estimates, errors = table["Estimate"], table["Std. Error"]
"""

PROGRAMS = {
    "tfglm": (
        f"sys.path.insert(0, {str(ROOT / 'scripts')!r})\nimport tfglm",
        """
model = tfglm.fit(f"{response} ~ x + z", rows, family=family, absorb=["first", "second", "year"], std_errors="cluster(first)")
table = model.coefficients
estimates, errors = table["estimate"], table["std_error"]
""",
        [],
    ),
    "hdfe-stream": (
        "import hdfe_stream",
        """
formula, options = f"{response} ~ x + z | first + second + year", {"vcov": {"CRV1": "first"}, "verbose": False}
if family == "gaussian":
    table = hdfe_stream.feols_stream(formula, rows, **options).tidy()
else:
    table = hdfe_stream.feglm_stream(formula, rows, "logit", **options).tidy()
estimates, errors = table["Estimate"], table["Std. Error"]
""",
        ["hdfe_stream"],
    ),
    "pyfixest": ("import pandas, pyfixest", PYFIXEST.format(more=""), ["pyfixest"]),
    "pyfixest, within": (
        "import pandas, pyfixest",
        PYFIXEST.format(more=', "demeaner": pyfixest.LsmrDemeaner(backend="within")'),
        ["pyfixest"],
    ),
    "linearmodels": (
        "import pandas\nfrom linearmodels.iv.absorbing import AbsorbingLS",
        """
frame = pandas.read_parquet(rows)
absorbed = frame[["first", "second", "year"]].astype("category")
found = AbsorbingLS(frame["y"], frame[["x", "z"]], absorb=absorbed).fit(cov_type="clustered", clusters=frame["first"])
estimates, errors = found.params, found.std_errors
""",
        ["linearmodels"],
    ),
}
LINEAR_ALONE = {"linearmodels"}


def make(rows: int, shape: str, path: Path) -> None:
    """Eight years of workers, with a firm for each 12 workers, or factors of as many levels drawn at random."""
    random, years = np.random.default_rng(5), 8
    workers = rows // years
    firms = max(workers // 12, 200)
    first, year = np.repeat(np.arange(workers), years), np.tile(np.arange(years), workers)
    second = random.integers(0, firms, len(first))
    if shape == "hard":
        moves = np.where(random.uniform(size=(workers, years)) < 0.06, random.integers(1, 200, (workers, years)), 0)
        moves[:, 0] = random.integers(0, firms, workers)
        second = (np.cumsum(moves, axis=1) % firms).ravel()
    of_first, of_second = random.normal(size=workers), random.normal(size=firms) / 2
    x = (random.normal(size=len(first)) + 0.3 * of_first[first]).round(3)
    z = (random.normal(size=len(first)) + 0.3 * of_second[second]).round(3)
    eta = of_first[first] + of_second[second] + 0.05 * year + 0.2 * x - 0.1 * z
    columns = {"first": first.astype(np.int32), "second": second.astype(np.int32), "year": year.astype(np.int16)}
    columns |= {"x": x, "z": z, "y": (eta + random.normal(size=len(first))).round(4)}
    columns["event"] = (random.uniform(size=len(first)) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    pl.DataFrame(columns).sample(fraction=1.0, shuffle=True, seed=1).write_parquet(path)


def fit(program: str, python: str, rows: Path, family: str, most: int) -> dict:
    imports, code, packages = PROGRAMS[program]
    script = FRAME.format(imports=imports, fit=code, packages=packages, most=most)
    answer = subprocess.run([python, "-c", script, str(rows), family], capture_output=True, text=True)
    if answer.returncode == -signal.SIGXCPU:
        return {"failed": f"more than {most} s"}
    if answer.returncode:
        return {"failed": answer.stderr.strip().splitlines()[-1]}
    return json.loads(answer.stdout.splitlines()[-1])


def compare(rows: Path, family: str, times: int, peer: str, most: int) -> dict[str, dict]:
    """The fastest run of each program, with the largest differences to tfglm in standard errors, and of the errors as a share."""
    programs = [name for name in PROGRAMS if family == "gaussian" or name not in LINEAR_ALONE]
    runs: dict[str, list[dict]] = {name: [] for name in programs}
    for _ in range(times):
        for name in programs:
            runs[name].append(fit(name, sys.executable if name == "tfglm" else peer, rows, family, most))
    best = {
        name: min(of_program, key=lambda run: run.get("processor_seconds", np.inf)) for name, of_program in runs.items()
    }
    mine = best["tfglm"]
    for run in best.values():
        if "failed" not in run:
            estimates, errors = np.array(run.pop("estimates")), np.array(run.pop("std_errors"))
            mine.setdefault("of_tfglm", (estimates, errors))
            run["difference_in_std_errors"] = float(
                np.max(np.abs(estimates - mine["of_tfglm"][0]) / mine["of_tfglm"][1])
            )
            run["difference_of_std_errors"] = float(np.max(np.abs(errors / mine["of_tfglm"][1] - 1)))
    mine.pop("of_tfglm", None)
    return best


def table(results: dict) -> str:
    lines = [
        "| rows, graph, family | program | processor | memory | estimates | errors |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for shape, found in results.items():
        for name, run in found["programs"].items():
            cells = (
                ["failed: " + run["failed"][:60], "", "", ""]
                if "failed" in run
                else [
                    f"{run['processor_seconds']:.1f} s",
                    f"{run['peak_mb'] / 1024:.1f} GB",
                    *(f"{run[key]:.0e}" for key in ("difference_in_std_errors", "difference_of_std_errors")),
                ]
            )
            lines.append(f"| {' | '.join([shape, name, *cells])} |")
    versions = {
        each for found in results.values() for run in found["programs"].values() for each in run.get("versions", ())
    }
    return "\n".join([*lines, "", ", ".join(sorted(versions))])


def main(rows: int, times: int, peer: str, families: list[str], most: int) -> None:
    path = ROOT / "benchmarks/results/panels.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for shape in ("easy", "hard"):
        with tempfile.TemporaryDirectory() as scratch:
            make(rows, shape, Path(scratch) / "rows.parquet")
            for family in families:
                found = compare(Path(scratch) / "rows.parquet", family, times, peer, most)
                results[f"{rows:,}, {shape}, {family}"] = {"load": os.getloadavg()[0], "programs": found}
                path.write_text(json.dumps(results, indent=2) + "\n")
    print(table(results))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=2, help="how often each is fitted; the fastest counts")
    parser.add_argument("--peer", default="python", help="a Python that has the other programs")
    parser.add_argument("--families", nargs="+", default=["gaussian", "binomial"])
    parser.add_argument("--most-seconds", type=int, default=600, help="of the processor, after which a run ends")
    arguments = parser.parse_args()
    main(arguments.rows, arguments.times, arguments.peer, arguments.families, arguments.most_seconds)
