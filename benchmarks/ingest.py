"""How fast CSV becomes shards, beside pandas.read_csv on the same file, and what a pass over the shards costs.

Writes results/ingest.json beside this file. The two take turns, each in a process of its own, on files in the page cache;
medians over the rounds are compared. Of tfglm the whole process counts, start and imports included, as the rule `ingest`
runs it; of pandas the reading of the used columns alone. Memory is the peak resident set of the process (VmHWM).
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCRIPTS = ROOT / "scripts"
sys.path[:0] = [str(SCRIPTS), str(HERE)]

import asa  # noqa: E402
import numpy as np  # noqa: E402

from tfglm.config import SelectionConfig  # noqa: E402

BYTES_A_ROW = 96
THREADS = 2
SETTINGS = {
    "derive": {"late": "arr_delay >= 15"},
    "where": {"flown": "cancelled = 0 AND diverted = 0"},
    "split": {"train": "day <= 24", "evaluate": "day > 24"},
    "columns": ["late", "arr_delay", "carrier", "origin", "dest", "month", "weekday", "dep_hour", "distance"],
}
USED = {
    "ArrDelay", "Cancelled", "Diverted", "DayofMonth", "UniqueCarrier", "Origin", "Dest", "Month", "DayOfWeek",
    "CRSDepTime", "Distance",
}  # fmt: skip
PANDAS = """
import sys, time, pandas
start = time.perf_counter()
pandas.read_csv(sys.argv[1], usecols=sys.argv[2].split(","), engine="c")
print(time.perf_counter() - start)
"""


def flights(folder: Path, size: float) -> Path:
    """A file of about so many bytes, made if it is not there."""
    path = folder / f"{size / 1e9:g}GB" / "2006.csv"
    if not path.exists():
        asa.write(path.parent, int(size / BYTES_A_ROW), range(2006, 2007), seed=1)
    return path


def run(command: list[str]) -> tuple[float, float, str]:
    """Seconds, peak memory in MB and output of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0.0
    while process.poll() is None:
        # Not ru_maxrss of the child, which begins with what this process had when it forked.
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = max([peak, *(float(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))])
        time.sleep(0.02)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:3])} ended with status {process.returncode}")
    return seconds, peak, process.stdout.read()


def ingest_command(path: Path, folder: Path) -> list[str]:
    """What the rule `ingest` runs."""
    settings = SelectionConfig.model_validate(SETTINGS).model_dump_json()
    return [
        *(sys.executable, str(SCRIPTS / "ingest.py"), "--source", str(path), "--file", path.stem),
        *("--layouts", "asa2009", "--settings", settings, "--threads", str(THREADS)),
        *("--manifest", str(folder / "manifest.json"), "--log", str(folder.with_suffix(".log"))),
    ]


def compare(path: Path, shards: Path, rounds: int) -> dict:
    """Figures of one file."""
    megabytes = path.stat().st_size / 1e6
    with path.open("rb") as file:  # into the page cache, for both
        while file.read(1 << 24):
            pass
    ours, memory, pandas = [], [], []
    for _ in range(rounds):
        shutil.rmtree(shards, ignore_errors=True)
        seconds, peak, _ = run(ingest_command(path, shards))
        ours.append(seconds)
        memory.append(peak)
        pandas.append(float(run([sys.executable, "-c", PANDAS, str(path), ",".join(USED)])[2]))
    manifest = json.loads((shards / "manifest.json").read_text())
    kept = sum(shard["rows"] for shard in manifest["shards"])
    stored = sum(file.stat().st_size for file in (shards / "shards").rglob("*") if file.is_file())
    return {
        "csv_mb": megabytes,
        "rows": manifest["read"],
        "rows_kept": kept,
        "bytes_per_row": stored / kept,
        "seconds": ours,
        "pandas_read_seconds": pandas,
        "mb_per_s": megabytes / statistics.median(ours),
        "pandas_read_mb_per_s": megabytes / statistics.median(pandas),
        "speedup_vs_pandas_read": statistics.median(pandas) / statistics.median(ours),
        "peak_rss_mb": max(memory),
    }


def gradient_ns_per_row(shards: Path, repeats: int = 5) -> float:
    """A pass over all shards in this process, the reading of the shards and the mapping of codes included."""
    from tfglm.config import DesignConfig
    from tfglm.data.dictionary import merge
    from tfglm.data.shards import IngestedFile
    from tfglm.design.build import build_design
    from tfglm.engine.workload import Workload

    file = IngestedFile.load(shards / "manifest.json")
    formula = "late ~ carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance"
    design = build_design("m", DesignConfig(formula=formula, family="binomial"), merge([file]), [file])
    workload = Workload(design, [file], "train")
    coefficients = design.by_term(np.zeros(design.size))
    seconds = []
    for _ in range(repeats + 1):  # the first one compiles
        start = time.perf_counter()
        for signature, calls in workload.calls.items():
            for call in calls:
                workload.passes(signature).gradient(coefficients, *call)
        seconds.append(time.perf_counter() - start)
    return 1e9 * statistics.median(seconds[1:]) / design.rows["train"]


def processor() -> str:
    """The name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def main(arguments: argparse.Namespace) -> None:
    small, large = (flights(arguments.data, size * 1e9) for size in (arguments.small, arguments.large))
    shards = arguments.data / "shards"
    figures = {name: compare(path, shards, arguments.rounds) for name, path in (("small", small), ("large", large))}
    result = {
        **{key: figures["large"][key] for key in ("mb_per_s", "speedup_vs_pandas_read", "bytes_per_row")},
        "peak_rss_mb": max(each["peak_rss_mb"] for each in figures.values()),
        "peak_rss_large_to_small": figures["large"]["peak_rss_mb"] / figures["small"]["peak_rss_mb"],
        "gradient_ns_per_row": gradient_ns_per_row(shards),
        **figures,
        "machine": {"processor": processor(), "cores": os.cpu_count(), "threads": THREADS},
        "versions": {name: version(name) for name in ("numba", "numpy", "pandas", "polars", "pyarrow", "tensorflow")},
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "ingest.json").write_text(json.dumps(result, indent=2) + "\n")
    shutil.rmtree(shards)
    for name in ("mb_per_s", "speedup_vs_pandas_read", "peak_rss_mb", "peak_rss_large_to_small", "bytes_per_row"):
        print(f"{name:26}{result[name]:10.2f}")
    print(f"{'gradient_ns_per_row':26}{result['gradient_ns_per_row']:10.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=float, default=0.3, help="GB of CSV of the small file")
    parser.add_argument("--large", type=float, default=3.0, help="GB of CSV of the large file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=HERE / "data", help="folder for the files, which are kept")
    main(parser.parse_args())
