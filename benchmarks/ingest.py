"""How fast CSV becomes shards, beside others that only read the used columns of the same file, and beside unpacking it.

Writes results/ingest.json beside this file. All take turns, each in a process of its own, on files in the page cache; medians
over the rounds are compared, of wall time and of processor time. Of tfglm the whole process counts, start and imports included,
as the rule `ingest` runs it; of the others the reading alone, without their imports: pandas.read_csv, a streaming scan of
polars and one of DuckDB with a maximum of each column (both on as many threads). DuckDB gets an environment of its own in the
folder of the data. Memory is the peak resident set of the process (VmHWM).
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
READERS = {
    "pandas": """
import pandas
def read(path, columns):
    pandas.read_csv(path, usecols=columns, engine="c")
""",
    "polars": """
import polars
def read(path, columns):
    table = polars.scan_csv(path, null_values=["NA"], encoding="utf8-lossy", infer_schema_length=10_000).select(columns)
    table.select(polars.all().max()).collect(engine="streaming")
""",
    "duckdb": """
import duckdb
duckdb.sql("SET threads = THREADS")
def read(path, columns):
    maxima = ", ".join(f"max({column})" for column in columns)
    duckdb.sql(f"SELECT {maxima} FROM read_csv('{path}', nullstr='NA', sample_size=100000)").fetchall()
""",
    "unpack": """
from pathlib import Path
sys.path.insert(0, SCRIPTS)
from tfglm.data.packing import opened
def read(path, columns):
    buffer = bytearray(1 << 24)
    with opened(Path(path), THREADS) as stream:
        while stream.readinto(buffer):
            pass
""",
    "unpack by Python": """
import bz2, zlib
def read(path, columns):
    stream = bz2.BZ2Decompressor() if path.endswith(".bz2") else zlib.decompressobj(16 + zlib.MAX_WBITS)
    with open(path, "rb") as file:
        while packed := file.read(1 << 18):
            stream.decompress(packed)
""",
}
"""Programs that read a file: of all columns, or the given ones."""
TIMED = """
import sys, time
{reader}
wall, processor = time.perf_counter(), time.process_time()
read(sys.argv[1], sys.argv[2].split(","))
print(time.perf_counter() - wall, time.process_time() - processor)
"""
PACKED = {".gz": "gzip", ".bz2": "bzip2"}
VERSIONS = ("indexed-bzip2", "isal", "numba", "numpy", "pandas", "polars", "pyarrow", "tensorflow")


def flights(folder: Path, size: float) -> Path:
    """A file of about so many bytes, made if it is not there."""
    path = folder / f"{size / 1e9:g}GB" / "2006.csv"
    if not path.exists():
        asa.write(path.parent, int(size / BYTES_A_ROW), range(2006, 2007), seed=1)
    return path


@dataclass(frozen=True)
class Run:
    """Seconds of a process, by the clock and of processors; peak memory in MB; and what it printed."""

    wall: float
    processor: float
    peak: float
    output: str


def run(command: list[str]) -> Run:
    """Run a process to its end."""
    start = time.perf_counter()
    environment = os.environ | {"POLARS_MAX_THREADS": str(THREADS)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    peak = 0.0
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        # Not ru_maxrss of the child, which begins with what this process had when it forked.
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = max([peak, *(float(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))])
        time.sleep(0.02)
    seconds = time.perf_counter() - start
    _, status, usage = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:3])} ended with status {process.returncode}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, peak, process.stdout.read())


def read(python: str, reader: str, path: Path) -> Run:
    """The reading of a file by one of READERS."""
    program = READERS[reader].replace("THREADS", str(THREADS)).replace("SCRIPTS", repr(str(SCRIPTS)))
    done = run([python, "-c", TIMED.format(reader=program), str(path), ",".join(sorted(USED))])
    wall, processor = map(float, done.output.split()[-2:])  # behind what the reader shows of its progress
    return Run(wall, processor, done.peak, "")


def with_duckdb(folder: Path) -> str:
    """The Python of an environment that has DuckDB, made if it is not there."""
    python = folder / "duckdb" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "duckdb")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "duckdb"], check=True)
    return str(python)


def ingest_command(path: Path, folder: Path, threads: int = THREADS) -> list[str]:
    """What the rule `ingest` runs."""
    settings = SelectionConfig.model_validate(SETTINGS).model_dump_json()
    return [
        *(sys.executable, str(SCRIPTS / "ingest.py"), "--source", str(path), "--file", path.stem),
        *("--layouts", "asa2009", "--settings", settings, "--threads", str(threads)),
        *("--manifest", str(folder / "manifest.json"), "--log", str(folder.with_suffix(".log"))),
    ]


def cached(path: Path) -> None:
    """Have a file in the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def medians(runs: list[Run], megabytes: float) -> dict:
    """Figures of some runs on a file."""
    walls, processors = [each.wall for each in runs], [each.processor for each in runs]
    return {
        "seconds": walls,
        "processor_seconds": processors,
        "mb_per_s": megabytes / statistics.median(walls),
        "mb_per_processor_s": megabytes / statistics.median(processors),
        "peak_rss_mb": max(each.peak for each in runs),
    }


def compare(path: Path, shards: Path, rounds: int, duckdb: str) -> dict:
    """Figures of one file."""
    megabytes = path.stat().st_size / 1e6
    cached(path)
    pythons = {"pandas": sys.executable, "polars": sys.executable, "duckdb": duckdb}
    runs: dict[str, list[Run]] = {name: [] for name in ("tfglm", *pythons)}
    for _ in range(rounds):
        shutil.rmtree(shards, ignore_errors=True)
        runs["tfglm"].append(run(ingest_command(path, shards)))
        for name, python in pythons.items():
            runs[name].append(read(python, name, path))
    manifest = json.loads((shards / "manifest.json").read_text())
    kept = sum(shard["rows"] for shard in manifest["shards"])
    stored = sum(file.stat().st_size for file in (shards / "shards").rglob("*") if file.is_file())
    figures = {name: medians(each, megabytes) for name, each in runs.items()}
    ours = figures["tfglm"]
    sizes = {"csv_mb": megabytes, "rows": manifest["read"], "rows_kept": kept, "bytes_per_row": stored / kept}
    speedups = {
        f"speedup_vs_{name}{what}": ours[f"mb_per_{unit}"] / figures[name][f"mb_per_{unit}"]
        for name in pythons
        for what, unit in (("", "s"), ("_processor", "processor_s"))
    }
    return sizes | speedups | figures


def compare_packed(path: Path, shards: Path, rounds: int) -> dict:
    """Figures of a file as .gz and as .bz2.

    `share` is what unpacking alone takes of the time of ingest, by the same library and as many threads; `share_by_python` what
    it takes by the zlib or libbz2 of Python, on one thread.
    """
    megabytes, figures = path.stat().st_size / 1e6, {}
    for suffix, packer in PACKED.items():
        packed = path.with_name(path.name + suffix)
        if not packed.exists():
            with packed.with_suffix(".partial").open("wb") as file:
                subprocess.run([packer, "--stdout", str(path)], stdout=file, check=True)
            packed.with_suffix(".partial").rename(packed)
        cached(packed)
        readers = {"unpacking": "unpack", "unpacking_by_python": "unpack by Python"}
        runs: dict[str, list[Run]] = {name: [] for name in ("tfglm", *readers)}
        for _ in range(rounds):
            shutil.rmtree(shards, ignore_errors=True)
            runs["tfglm"].append(run(ingest_command(packed, shards)))
            for name, reader in readers.items():
                runs[name].append(read(sys.executable, reader, packed))
        of_runs = {name: medians(each, megabytes) for name, each in runs.items()}
        shares = {
            name.replace("unpacking", "share"): of_runs["tfglm"]["mb_per_s"] / of_runs[name]["mb_per_s"]
            for name in readers
        }
        figures[suffix] = {"csv_gb": megabytes / 1000} | shares | of_runs
    return figures


def several(path: Path, shards: Path, files: int, rounds: int) -> dict:
    """Figures of so many files of the same content, one job each: one after another with all threads, and as many jobs at a time
    as there are threads."""
    megabytes, figures = files * path.stat().st_size / 1e6, {}
    for name, at_once in (("one after another", 1), ("at once", THREADS)):
        seconds = []
        for _ in range(rounds):
            start = time.perf_counter()
            commands = [ingest_command(path, shards / str(file), THREADS // at_once) for file in range(files)]
            with ThreadPoolExecutor(at_once) as executor:
                list(executor.map(run, commands))
            seconds.append(time.perf_counter() - start)
            shutil.rmtree(shards)
        figures[name] = {"seconds": seconds, "mb_per_s": megabytes / statistics.median(seconds)}
    return {"files": files, "csv_mb": megabytes} | figures


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
                workload.passes(signature).named("gradient")(coefficients, *call)
        seconds.append(time.perf_counter() - start)
    return 1e9 * statistics.median(seconds[1:]) / design.rows["train"]


def processor() -> str:
    """The name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def main(arguments: argparse.Namespace) -> None:
    load = os.getloadavg()[0]
    small, packed, large = (
        flights(arguments.data, arguments.__dict__[size] * 1e9) for size in ("small", "packed", "large")
    )
    shards, duckdb = arguments.data / "shards", with_duckdb(arguments.data)
    run(ingest_command(small, shards))  # on a new machine loops are compiled once
    figures = {
        name: compare(path, shards, arguments.rounds, duckdb) for name, path in (("small", small), ("large", large))
    }
    gradient = gradient_ns_per_row(shards)
    peaks = {name: each["tfglm"]["peak_rss_mb"] for name, each in figures.items()}
    result = {
        "mb_per_s": figures["large"]["tfglm"]["mb_per_s"],
        "mb_per_processor_s": figures["large"]["tfglm"]["mb_per_processor_s"],
        **{key: value for key, value in figures["large"].items() if key.startswith("speedup")},
        "peak_rss_mb": max(peaks.values()),
        "peak_rss_large_to_small": peaks["large"] / peaks["small"],
        "bytes_per_row": figures["large"]["bytes_per_row"],
        "gradient_ns_per_row": gradient,
        **figures,
        "packed": compare_packed(packed, shards, arguments.rounds),
        "several": several(small, shards, arguments.files, arguments.rounds),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "threads": THREADS, "load_before": load},
        "versions": {name: version(name) for name in VERSIONS}
        | {"duckdb": run([duckdb, "-c", "import duckdb; print(duckdb.__version__)"]).output.strip()},
    }
    (HERE / "results" / "ingest.json").write_text(json.dumps(result, indent=2) + "\n")
    for name, value in result.items():
        if isinstance(value, float):
            print(f"{name:32}{value:10.2f}")
    for suffix, of_packed in result["packed"].items():
        print(f"{'unpacking of ' + suffix + ' to ingest':32}{of_packed['share']:10.2f}")
        print(f"{'by Python':>32}{of_packed['share_by_python']:10.2f}")
    for name in ("one after another", "at once"):
        print(f"{arguments.files} files {name + ', MB/s':24}{result['several'][name]['mb_per_s']:10.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=float, default=0.3, help="GB of CSV of the small file")
    parser.add_argument("--large", type=float, default=3.0, help="GB of CSV of the large file")
    parser.add_argument("--packed", type=float, default=1.0, help="GB of CSV of the file that is packed")
    parser.add_argument("--files", type=int, default=6, help="files that are ingested one after another and at once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=HERE / "data", help="folder for the files, which are kept")
    main(parser.parse_args())
