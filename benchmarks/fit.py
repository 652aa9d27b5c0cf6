"""How fast a model is fitted, through the real processes, beside other programs on the same rows.

`python benchmarks/fit.py` measures everything in ten minutes and writes results/fit.json and the pictures of results/; `--rows`
sets the number of rows, `--quick` leaves out the curves. glum, which is compared with, is no requirement of tfglm: pip install
glum.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "scripts"
sys.path[:0] = [str(SCRIPTS), str(HERE)]

import numpy as np  # noqa: E402
import page  # noqa: E402
import polars as pl  # noqa: E402
import synthetic  # noqa: E402
from fit_peers import GLUM, LBFGS, SGD  # noqa: E402

from tfglm import ENGINE, tensorflow_setup  # noqa: E402
from tfglm.config import DesignConfig, Layout, SelectionConfig  # noqa: E402
from tfglm.data.dictionary import merge  # noqa: E402
from tfglm.data.ingest import ingest  # noqa: E402
from tfglm.data.shards import IngestedFile  # noqa: E402
from tfglm.design.build import build_design  # noqa: E402

DATA = HERE / "data" / "synthetic"
SHARDS = DATA / f"engine {ENGINE}"
RESULTS = HERE / "results"
COLUMNS = ["late", *synthetic.LEVELS, *synthetic.NUMBERS]


def table(rows: int) -> Path:
    """The Parquet file of so many rows, made if it is not there."""
    path = DATA / f"{rows}.parquet"
    if not path.exists():
        synthetic.write(path, rows)
    return path


def held_out() -> Path:
    """A table of other rows, to evaluate on."""
    path = DATA / "held_out.parquet"
    if not path.exists():
        synthetic.write(path, 1_000_000, seed=2)
    return path


def shards(rows: int) -> IngestedFile:
    """The rows to fit, ingested."""
    return ingested(table(rows), SHARDS / str(rows), {"train": "TRUE"})


def ingested(source: Path, folder: Path, split: dict[str, str]) -> IngestedFile:
    """A table as shards in `folder`, made if they are not there."""
    types = {
        "late": "integer",
        **dict.fromkeys(synthetic.LEVELS, "string"),
        **dict.fromkeys(synthetic.NUMBERS, "number"),
    }
    if not (folder / "manifest.json").exists():
        settings = SelectionConfig.model_validate({"split": split, "columns": COLUMNS})
        ingest(source, folder.name, {"table": Layout.model_validate({"columns": types})}, settings, folder)
    return IngestedFile.load(folder / "manifest.json")


def script(name: str, *words: str, **options) -> list[str]:
    """The command line of a script."""
    given = [[f"--{key}", *(value if isinstance(value, list) else [value])] for key, value in options.items()]
    return [sys.executable, str(SCRIPTS / name), *words, *(str(word) for words in given for word in words)]


def fit(rows: int, formula: str, workers: int, solver: str = "{}", **settings) -> dict:
    """Fit with real ps, worker and chief processes.

    `seconds` go from the first scheduled pass to the certificate and all standard errors, `end_to_end_seconds` from the start of
    the processes. Nothing is compiled for a model; `kernels.load` brings in the loops before a worker announces itself.
    """
    folder = DATA / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = [shards(rows)]
    if solver != "{}":
        files.append(ingested(held_out(), SHARDS / "held_out", {"train": "FALSE", "evaluate": "TRUE"}))
    design = build_design("m", DesignConfig(formula=formula, family="binomial", **settings), merge(files), files)
    design.write(folder / "design.json")
    started = time.perf_counter()
    roles = [
        subprocess.Popen(
            script("roles.py", role, count=count, roster=folder / f"{role}.json", log=folder / f"{role}.log")
        )
        for role, count in (("ps", 1), ("worker", workers))
    ]
    try:
        while not all((folder / f"{role}.json").exists() for role in ("ps", "worker")):
            time.sleep(0.05)
        chief = subprocess.Popen(
            script(
                "chief.py",
                rosters=[folder / "ps.json", folder / "worker.json"],
                design=folder / "design.json",
                manifests=[file.folder / "manifest.json" for file in files],
                settings=solver,
                journal=folder / "journal",
                history=folder / "history.csv",
                checkpoint=folder / "checkpoint",
                fit=folder / "fit.json",
                log=folder / "chief.log",
            ),
            stderr=subprocess.DEVNULL,
        )
        memory = 0.0
        while chief.poll() is None:
            memory = max(memory, *(peak(pid) for pid in processes(folder)))
            time.sleep(0.2)
        if chief.returncode:
            raise SystemExit((folder / "chief.log").read_text())
        end_to_end = time.perf_counter() - started
    finally:
        for role in roles:
            role.terminate()
        for role in roles:
            role.wait()
    report = json.loads((folder / "fit.json").read_text())
    log = (folder / "chief.log").read_text()
    seconds = float(re.search(r"fitted in ([\d.]+) s", log)[1])
    return {
        "rows": rows,
        "coefficients": report["coefficients"],
        "workers": workers,
        "seconds": seconds + standard_errors_seconds(folder, report),
        "end_to_end_seconds": end_to_end,
        "worker_rss_mb": memory,
        "iterations": report["iterations"],
        "deviance": report["deviance"],
        **report["certificate"],
        **{key: report[key] for key in ("online", "gap", "path") if key in report},
        "rows_a_second": [
            float(rate.replace(",", "")) for rate in re.findall(r"epoch \d+ of .*; ([\d,]+) rows a second", log)
        ],
    }


def standard_errors_seconds(folder: Path, report: dict) -> float:
    """The time for all standard errors from what the chief has made, if it has made such."""
    if report["std_errors"]["kind"] == "none":
        return 0.0
    return as_a_job(STANDARD_ERRORS, folder / "design.json", folder / "checkpoint", report["df_residual"])


def as_a_job(program: str, *arguments: object) -> float:
    """What a program prints that runs as the processes of a fit do."""
    line = [sys.executable, "-c", program, str(SCRIPTS), *map(str, arguments)]
    environment = {**os.environ, **tensorflow_setup.ENVIRONMENT}
    return float(subprocess.run(line, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)


STANDARD_ERRORS = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tfglm import checkpoint
from tfglm.design.design import Design
from tfglm.results.estimates import estimated
design = Design.load(Path(sys.argv[2]))
model = checkpoint.load(design, Path(sys.argv[3]))
start = time.perf_counter()
model.covariance.variances(estimated(design, model, {}).transform)
print(time.perf_counter() - start)
"""


def processes(folder: Path) -> list[int]:
    """The workers."""
    announced = (json.loads(path.read_text()) for path in folder.glob("worker-*.json"))
    return [each["pid"] for each in announced if "pid" in each] or [os.getpid()]


def peak(pid: int) -> float:
    """The most memory that a process has held, in MB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return float(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


GRADIENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from pathlib import Path
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
made = Design.load(Path(sys.argv[2]))
workload = Workload(made, [IngestedFile.load(Path(sys.argv[3]))], "train")
state = made.by_term(np.zeros(made.size))
((signature, calls),) = workload.calls.items()
gradient = workload.passes(signature).named("gradient")
def once():
    start = time.perf_counter()
    for call in calls:
        gradient(state, *call)
    return time.perf_counter() - start
once()
print(min(once() for _ in range(3)) / made.rows["train"] * 1e9)
"""


def gradient_ns_per_row(rows: int) -> float:
    """A gradient pass in float64, reading the shards included, on one core."""
    gradient_file = DATA / "gradient.json"
    file = shards(rows)
    build_design("m", DesignConfig(formula=synthetic.FORMULA, family="binomial"), merge([file]), [file]).write(
        gradient_file
    )
    return as_a_job(GRADIENT, gradient_file, SHARDS / str(rows) / "manifest.json")


ROUNDS = {"epochs": 5, "synchronous": True, "parts": 2}


def epochs(number: int) -> str:
    """The settings of `adagrad` for so many epochs."""
    return json.dumps({"solver": "adagrad", "online": {"epochs": number, "patience": number}})


def run(program: str, *arguments: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return [float(value) for value in done.stdout.split()]


def median(rows: int, formula: str, workers: int) -> dict:
    """That of three fits which takes the median of the seconds."""
    fits = sorted((fit(rows, formula, workers) for _ in range(3)), key=lambda each: each["seconds"])
    return fits[1] | {"seconds_of_each": [each["seconds"] for each in fits]}


SAME = 1e-6
"""Share of the deviance by which that of lbfgs may be higher than ours, to count as the same."""


def lbfgs(ours: dict, longest: float) -> dict:
    """scikit-learn's lbfgs on the rows of a fit until it comes to the same deviance, or takes `longest` times as long."""
    target, limit = ours["deviance"] * (1 + SAME), ours["seconds"] * longest
    numbers = ",".join(synthetic.NUMBERS)
    seconds, deviance, iterations = run(LBFGS, str(table(ours["rows"])), numbers, str(target), str(limit))
    return {
        "rows": ours["rows"],
        "seconds": seconds,
        "times_as_long": seconds / ours["seconds"],
        "iterations": iterations,
        "deviance": deviance,
        "deviance_gap": deviance - ours["deviance"],
        "same_deviance": deviance <= target,
    }


def narrower(planes: int) -> str:
    """The formula with fewer coefficients: of the columns with few levels alone, or with more and more of the others."""
    long = {0: [], 350: ["origin"], 700: ["origin", "dest"], 8000: ["plane"], 8700: ["plane", "origin", "dest"]}[planes]
    return f"late ~ {' + '.join(['carrier', 'month', 'day', 'weekday', 'hour', *long, *synthetic.NUMBERS])}"


def draw(curves: dict[str, list[dict]]) -> None:
    """Seconds against rows, coefficients and workers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(4 * len(curves), 3.2), layout="constrained")
    for axis, (key, points) in zip(axes, curves.items(), strict=True):
        x = [point[key] for point in points]
        axis.plot(x, [point["seconds"] for point in points], "o-")
        axis.set(
            xlabel=key,
            ylabel="seconds, with all standard errors",
            ylim=(0, None),
            xscale="linear" if key == "workers" else "log",
        )
        if key == "workers":
            axis.set_xticks([point[key] for point in points])
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(RESULTS / "fit.png", dpi=110)


def main(arguments: argparse.Namespace) -> None:
    rows, load = int(arguments.rows), os.getloadavg()[0]
    fit(rows // 10, synthetic.FORMULA, 2)  # what is compiled once a machine is compiled here
    wide = median(rows, synthetic.FORMULA, 2)
    one_worker = median(rows, synthetic.FORMULA, 1)
    medium = median(rows, synthetic.FORMULA_WITHOUT_PLANE, 2)
    small = median(rows // 10, synthetic.FORMULA, 2)
    (glum_seconds,) = run(GLUM, str(table(rows)))
    of_lbfgs = [lbfgs(small, longest=30), lbfgs(wide, longest=30)]
    learnt = fit(rows, synthetic.FORMULA, 2, epochs(3))
    # For the time of one; the first has what there is to do once.
    more = fit(rows, synthetic.FORMULA, 2, epochs(7))
    in_rounds = fit(rows, synthetic.FORMULA, 2, json.dumps({"solver": "adagrad", "online": ROUNDS}))
    path = fit(rows // 10, synthetic.FORMULA, 2, path={"select": "aic", "number": 50})
    sgd_seconds, sgd_loss, other_seconds, other_loss = run(
        SGD, str(table(rows)), str(held_out()), ",".join(synthetic.NUMBERS)
    )
    steps = path.pop("path")
    epoch_seconds = rows / float(np.median(more["rows_a_second"]))
    figures = {
        "newton_seconds": wide["seconds"],
        "newton_seconds_p800": medium["seconds"],
        "glum_seconds_p800": glum_seconds,
        "speedup_vs_glum_p800": glum_seconds / medium["seconds"],
        "gradient_ns_per_row": gradient_ns_per_row(rows),
        "worker_rss_mb": wide["worker_rss_mb"],
        "worker_rss_large_to_small": wide["worker_rss_mb"] / small["worker_rss_mb"],
        "speedup_2_workers": one_worker["seconds"] / wide["seconds"],
        "online_ns_per_row": 2e9 * epoch_seconds / rows,
        "online_epoch_seconds": epoch_seconds,
        "sgdclassifier_epoch_seconds": sgd_seconds,
        "speedup_vs_sgdclassifier": sgd_seconds / epoch_seconds,
        "online_log_loss": learnt["online"]["loss_a_row_held_out"],
        "sgdclassifier_log_loss": sgd_loss,
        "online_gap_a_row": (learnt["deviance"] - wide["deviance"]) / 2 / rows,
        "online_synchronous_gap_a_row": (in_rounds["deviance"] - wide["deviance"]) / 2 / rows,
        "path_seconds": path["seconds"],
        "path_information_passes": float(np.mean([each["information_passes"] for each in steps])),
        "path_gradient_passes": float(np.mean([each["gradient_passes"] for each in steps])),
        "path_largest_kkt_violation": max(each["largest_kkt_violation"] / each["penalty"] for each in steps),
        "sgdclassifier, tuned": {"epoch_seconds": other_seconds, "log_loss": other_loss},
        "online": {"asynchronous": learnt, "asynchronous, more epochs": more, "synchronous": in_rounds},
        "path": path | {"coefficients_not_zero": [each["coefficients_not_zero"] for each in steps]},
        "fits": {"wide": wide, "wide, one worker": one_worker, "medium": medium, "small": small},
        "lbfgs": of_lbfgs,
    }
    if not arguments.quick:
        curves = {
            "rows": [fit(n, synthetic.FORMULA, 2) for n in (100_000, 1_000_000, 3_000_000)] + [wide],
            "coefficients": [fit(1_000_000, narrower(long), 2) for long in (0, 350, 700, 8000, 8700)],
            "workers": [one_worker, wide],
        }
        draw(curves)
        figures["curves"] = curves
    figures["machine"] = {
        "cores": os.cpu_count(),
        "load_before": load,
        "numpy": np.__version__,
        "polars": pl.__version__,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "fit.json").write_text(json.dumps(figures, indent=2) + "\n")
    for name, value in figures.items():
        if isinstance(value, float):
            print(f"{name:30}{value:12.4g}")
    print("missed:", *page.missed(figures), sep="\n  ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e7, help="rows of the table")
    parser.add_argument("--quick", action="store_true", help="no curves")
    main(parser.parse_args())
