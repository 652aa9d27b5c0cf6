"""The chief: waits for the ps and the workers, fits the model with them, writes the checkpoint and fit.json."""

import argparse
import csv
import hashlib
import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path

from tfglm import ENGINE, command, digests, tensorflow_setup
from tfglm import provenance as passport
from tfglm.config import SolverConfig
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.roles import announce, curves, ending
from tfglm.roles.progress import Progress
from tfglm.roles.watched import Watched


def main(arguments: argparse.Namespace) -> None:
    design = Design.load(arguments.design)
    progress = Progress(arguments.progress, design.model)
    try:
        work(arguments, design, progress)
    except Exception as error:
        progress.update(state="failed", reason=str(error))
        raise


def work(arguments: argparse.Namespace, design: Design, progress: Progress) -> None:
    """Wait for the cluster, fit, and write."""
    watched = Watched(
        rosters=tuple(map(str, [*arguments.ps, *arguments.workers])),
        lease=str(arguments.lease or ""),
        parent=arguments.parent or 0,
        progress=str(arguments.progress or ""),
        stall=arguments.stall,
    )
    with tensorflow_setup.quiet():
        from tfglm import checkpoint, resume
        from tfglm.distribute import parameter_server
        from tfglm.engine.workload import Workload
        from tfglm.results import coefficients
        from tfglm.solvers import estimate
        from tfglm.solvers.reporter import Reporter

    files = [IngestedFile.load(manifest) for manifest in arguments.manifests]
    if design.data != tuple(file.manifest.digest for file in files):
        raise digests.changed(arguments.design, "it was made for other shards", delete=arguments.design)
    progress.update(state="waiting for the cluster")
    members = announce.gather([*arguments.ps, *arguments.workers], arguments.patience, command.log)
    ps = sum(member.role == "ps" for member in members)
    command.log(f"{ps} ps and {len(members) - ps} workers are listening")
    watched.over(members)
    progress.workers_alive = watched.workers_alive
    folders = {path.parent for path in arguments.workers}
    cluster = parameter_server.connect(members, folders, arguments.patience, watched.waiting)
    progress.fitting()
    workload = Workload(design, files, "train")
    record_curves = curves.recorder(arguments.events)

    history = [("seconds", "quantity", "step", "value")]
    passes = itertools.count(1)
    started = time.perf_counter()

    def record(step: int, values: Mapping[str, float]) -> None:
        record_curves(step, values)
        history.extend((time.perf_counter() - started, name, step, value) for name, value in values.items())
        progress.update(**{name.split("/")[1].replace(" ", "_"): value for name, value in values.items()})

    reporter = Reporter(
        lambda message: command.say(f"{design.model}: {message}"),
        lambda message: command.live(f"{design.model}: {message}"),
        command.log,
        record,
        progress.advance,
    )
    journal = resume.Journal(arguments.journal, key(arguments), command.log)

    def passed(recalled: bool, seconds: float) -> None:
        progress.passed(recalled, seconds, workload.rows)
        if seconds and not recalled:
            history.append((time.perf_counter() - started, "pass/rows a second", next(passes), workload.rows / seconds))

    fitted = estimate.fit(
        workload,
        resume.ResumingExecutor(cluster, journal, passed),
        arguments.solver,
        reporter,
        Workload(design, files, "evaluate"),
    )
    seconds = time.perf_counter() - started
    command.log(f"fitted in {seconds:.3f} s")
    checkpoint.save(fitted, design, arguments.checkpoint)
    with arguments.history.open("w", newline="") as stream:
        csv.writer(stream).writerows(history)
    digests.write_beside(arguments.history)
    found = {"aliased": coefficients.aliased_by_default(design, fitted)}
    found |= passport.identity(arguments.design, arguments.checkpoint)
    found |= {"passport": passport.of(files, json.loads(arguments.config), ENGINE)}
    digests.write_json(arguments.fit, fitted.summary | found, indent=2)
    journal.remove()
    progress.update(state="finished", seconds_left=0.0)
    if fitted.summary["exact"] and not fitted.summary["converged"]:
        command.say(
            f"{design.model}: warning: not converged after {fitted.summary['iterations']} iterations: `max_iterations` may be "
            f"too small, rounding errors too large, or a coefficient without a finite estimate; the summary page says how far "
            f"it is from the maximum"
        )


def key(arguments: argparse.Namespace) -> str:
    """What the fit depends on: the manifests tell the content of the shards."""
    digest = hashlib.sha256(f"{passport.versions(ENGINE)} {arguments.solver.model_dump_json()}".encode())
    for path in (arguments.design, *arguments.manifests):
        digest.update(digests.of(path).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    parser = command.parser(__doc__)
    parser.add_argument(
        "--ps", type=Path, nargs="+", required=True, help="announcements of ps.py, or rosters of roles.py"
    )
    parser.add_argument("--workers", type=Path, nargs="+", required=True, help="those of worker.py, or of roles.py")
    parser.add_argument("--lease", type=Path, help="file that tells them, from time to time, that this process lives")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for them")
    parser.add_argument("--stall", type=float, default=900.0, help="seconds for one answer of the cluster")
    parser.add_argument("--design", type=Path, required=True, help="what build_design.py wrote")
    parser.add_argument("--manifests", type=Path, nargs="+", required=True, help="one of each ingested file, in order")
    parser.add_argument(
        "--solver", type=SolverConfig.model_validate_json, default="{}", help="the solver and its settings, as JSON"
    )
    parser.add_argument(
        "--config", default="{}", help="what the config says of data and model, as JSON, for the record"
    )
    parser.add_argument("--history", type=Path, required=True, help="CSV for what the fit recorded over time")
    parser.add_argument("--journal", type=Path, required=True, help="folder for what a fit that is killed goes on from")
    parser.add_argument("--progress", type=Path, help="file that says what the fit is at")
    parser.add_argument("--events", type=Path, help="folder for curves that TensorBoard shows")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder for the checkpoint")
    parser.add_argument("--fit", type=Path, required=True, help="fit.json to write, last of all")
    parser.add_argument("--parent", type=int, help="id of the process that starts this one, to end when it is gone")
    arguments = parser.parse_args()
    tensorflow_setup.set_environment()
    with ending.exit_at_once():
        command.run(main, arguments)
