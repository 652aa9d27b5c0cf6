"""Runs one program on one work, within limits of time and memory, and writes what it took and how good its answer is.

A program that a limit has ended with fewer of the same rows is not started.

Memory is the largest sum of the proportional set sizes of the program and all its descendants, looked at five times a second.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

import psutil
from judge import judge

HERE = Path(__file__).resolve().parent
FEWER = "with fewer rows "


def memory_of(process: psutil.Process) -> float:
    """GB that a process and its descendants hold together, pages that they share counted once."""
    total = 0
    for each in [process, *process.children(recursive=True)]:
        try:
            total += each.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total / 1e9


def end(process: psutil.Process) -> None:
    """End a process and all its descendants: servers, too, that it has put into process groups of their own."""
    of_all = [process, *process.children(recursive=True)]
    for each in of_all:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(of_all)


def command(arguments: argparse.Namespace) -> list[str]:
    interpreter = ["Rscript"] if arguments.program.suffix == ".R" else [arguments.python]
    return [*interpreter, str(arguments.program), str(arguments.table), str(arguments.work), str(arguments.folder)]


def run(arguments: argparse.Namespace) -> dict:
    """Seconds, peak memory, and how it ended."""
    started, peak, ended = time.perf_counter(), 0.0, "finished"
    environment = os.environ | {"BENCHMARK_CORES": str(arguments.cores)}
    log = arguments.folder / "log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            command(arguments),
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, range(arguments.cores)),
        )
        process = psutil.Process(child.pid)
        while child.poll() is None:
            peak = max(peak, memory_of(process))
            if peak > arguments.memory:
                ended = f"more than {arguments.memory:g} GB"
            elif time.perf_counter() - started > arguments.seconds:
                ended = f"not finished in {arguments.seconds:g} s"
            if ended != "finished":
                end(process)
            time.sleep(0.2)
    if child.returncode and ended == "finished":
        lines = log.read_text(errors="replace").strip().splitlines() or ["no word"]
        ended = f"failed: {lines[-1][:200]}"
    return {"ended": ended, "seconds": time.perf_counter() - started, "peak_gb": peak}


def ended_with_fewer(run: Path | None) -> str | None:
    """How a limit ended the same program on fewer of the same rows, or None, in which case it has to be run."""
    ended = json.loads(run.read_text())["ended"] if run else "finished"
    if ended == "finished" or ended.startswith("failed"):
        return None
    return ended if ended.startswith(FEWER) else FEWER + ended


def processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main(arguments: argparse.Namespace) -> None:
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    ended = ended_with_fewer(arguments.fewer)
    result = {"ended": ended, "seconds": None, "peak_gb": None} if ended else run(arguments)
    if result["ended"] == "finished":
        # Of the program itself: seconds to read and to fit, versions.
        result |= json.loads((arguments.folder / "said.json").read_text())
        result |= judge(arguments.table, arguments.work, arguments.folder / "coefficients.csv")
    result["machine"] = {"processor": processor_name(), "cores": arguments.cores}
    arguments.result.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="after which the program is ended")
    parser.add_argument("--memory", type=float, required=True, help="GB, above which the program is ended")
    parser.add_argument("--python", required=True, help="interpreter of the peer")
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--fewer", type=Path, help="what this wrote of the program with fewer of the same rows")
    parser.add_argument("--folder", type=Path, required=True, help="where the program writes; made anew")
    parser.add_argument("--result", type=Path, required=True)
    main(parser.parse_args())
