"""What a SLURM costs a fit of a regression, by number of workers, through the workflow.

Writes results/scaling_slurm.json beside this file. The SLURM is that of the tests (tests/slurm_cluster.py): a real one, whose
nodes are network namespaces of this machine and share its processors. So it tells what submitting, starting and the way between
nodes cost, not what more processors gain. Each number of workers fits here and then there, one after the other, and that again
in each round, so that what else runs on the machine slows all of them alike: what counts are the ratios within a round.

`seconds` run from the first pass to the certificate, `end_to_end_seconds` from the command to its end. On SLURM the latter has
three parts, each to within a second, as SLURM tells whole ones: until the job starts, the job, and until Snakemake has seen its
end and ends too. Snakemake asks after 10, 30, 60 s and so on, so it is the job that compares with a fit here from end to end.
"""

import argparse
import json
import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests")]

import scaling  # noqa: E402

import slurm_cluster  # noqa: E402

# A second attempt would be counted too.
SLURM = ("--profile", str(ROOT / "profiles" / "slurm"), "--retries", "0")


def fit_on_slurm(folder: Path, workers: int, cluster: slurm_cluster.Cluster) -> dict:
    """Fit with so many workers, on as many nodes and one more."""
    began = datetime.now()
    times = scaling.fit(folder, workers, SLURM, cluster.environment)
    ended = datetime.now()
    job = max(cluster.jobs(folder), key=lambda job: int(job["JobId"]))
    job_began, job_ended = (datetime.fromisoformat(job[key]) for key in ("StartTime", "EndTime"))
    return times | {
        "nodes": int(job["NumNodes"]),
        "before_job_seconds": (job_began - began).total_seconds(),
        "job_seconds": (job_ended - job_began).total_seconds(),
        "after_job_seconds": (ended - job_ended).total_seconds(),
    }


def fit_here_and_there(folder: Path, workers: int, cluster: slurm_cluster.Cluster, checkpoint: str) -> dict:
    """Fit with so many workers here, then on SLURM; see whether both end in the same checkpoint, bit for bit."""
    places = {"here": scaling.fit(folder, workers), "slurm": fit_on_slurm(folder, workers, cluster)}
    same = [fit.pop("checkpoint") == checkpoint for fit in places.values()]
    for fit in places.values():
        del fit["workers"]
    return {"workers": workers, **places, "same_checkpoint": all(same)}


def by_workers(fits: list[dict]) -> dict[str, list[dict]]:
    """The fits of all rounds, by number of workers."""
    numbers = dict.fromkeys(each["workers"] for each in fits)
    return {str(workers): [each for each in fits if each["workers"] == workers] for workers in numbers}


def medians(fits: list[dict]) -> dict[str, dict]:
    """By number of workers and place, the median of each time."""
    return {
        workers: {
            place: {key: statistics.median(each[place][key] for each in same) for key in same[0][place]}
            for place in ("here", "slurm")
        }
        for workers, same in by_workers(fits).items()
    }


def ratios(fits: list[dict], there: str, here: str) -> dict[str, list[float]]:
    """By number of workers, a time on SLURM divided by a time here in the same round."""
    return {
        workers: [each["slurm"][there] / each["here"][here] for each in same]
        for workers, same in by_workers(fits).items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=HERE / "data" / "scaling_slurm", help="folder to work in, which is kept"
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3, 6])
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    if lacking := slurm_cluster.missing():
        raise SystemExit(lacking)
    folder = arguments.data.resolve()
    scaling.prepare(folder, arguments.rows)
    # Not counted: the first in a checkout compiles the loops over rows.
    checkpoint = scaling.fit(folder, 1)["checkpoint"]
    with (
        tempfile.TemporaryDirectory(prefix="tfglm-slurm-") as own,
        slurm_cluster.cluster(Path(own), scaling.ENVIRONMENT, nodes=max(arguments.workers) + 1) as cluster,
    ):
        fits = [
            {"round": number, **fit_here_and_there(folder, workers, cluster, checkpoint)}
            for number in range(1, arguments.rounds + 1)
            for workers in arguments.workers
        ]
    figures = {
        "rows": arguments.rows,
        "coefficients": json.loads((folder / scaling.MODEL / "fit.json").read_text())["coefficients"],
        "fits": fits,
        "medians": medians(fits),
        "times_as_long": {
            "seconds": ratios(fits, "seconds", "seconds"),
            "job_seconds": ratios(fits, "job_seconds", "end_to_end_seconds"),
        },
        "machine": scaling.machine(),
    }
    (HERE / "results" / "scaling_slurm.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures["medians"], indent=2))


if __name__ == "__main__":
    main()
