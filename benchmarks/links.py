"""What fits cost on links of 1 and 10 Gbit/s, by rows, coefficients, workers and ps, and a model of it (cost.py).

Writes results/links.json beside this file. The nodes are those of the throw-away SLURM (tests/slurm_cluster.py), network
namespaces whose links are shaped: the chief has one, each ps and each worker. All share the processors of this machine, so
processor seconds are counted by role, and the model says what they would take by the clock on processors of their own.

Starting 36 processes takes longer than most fits. So ps and workers are started once, by hand with the scripts that the workflow
starts, and one chief after another uses some of them, between which the links change: it fits each design to each table
(measured_chief.py). Some fits go through the workflow with `--profile slurm` besides, where ps and chief share a node.

What is in HELD_OUT, and TABLE_HELD_OUT on all clusters, has no part in fitting the constants. Both were settled before the run
that is recorded, but not before trial runs on a busy machine, in which clusters of 1, 2 and 4 workers were looked at while the
model took its form. `--again` fits the constants anew to what was measured last.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests"), str(ROOT / "scripts")]

# Before others put the folder with scripts/fit.py in front.
import fit  # noqa: E402  # isort: skip
import link_figures  # noqa: E402
import scaling  # noqa: E402
import synthetic  # noqa: E402
from measured_chief import peak_mb  # noqa: E402

import slurm_cluster  # noqa: E402
from tfglm import tensorflow_setup  # noqa: E402
from tfglm.config import DesignConfig  # noqa: E402
from tfglm.data.dictionary import merge  # noqa: E402
from tfglm.design.build import build_design  # noqa: E402

DATA = HERE / "data" / "links"
MEASURED = DATA / "measured.json"
ROWS = (100_000, 1_000_000, 10_000_000)
FORMULAS = {"narrow": fit.narrower(0), "medium": synthetic.FORMULA_WITHOUT_PLANE, "wide": synthetic.FORMULA}
ENVIRONMENT = scaling.ENVIRONMENT | tensorflow_setup.ENVIRONMENT


@dataclass(frozen=True)
class Setting:
    """So many workers and ps, whose links have so many Gbit/s (None: as fast as memory)."""

    workers: int
    ps: int
    gigabits: float | None


FITTED = [
    *(Setting(1, 1, gigabits) for gigabits in (None, 1)),
    Setting(2, 1, 10),
    *(Setting(4, ps, gigabits) for ps, gigabits in ((1, 1), (2, 10), (4, None))),
    *(Setting(8, ps, gigabits) for ps, gigabits in ((2, 1), (4, 10))),
    *(Setting(16, ps, gigabits) for ps, gigabits in ((1, 10), (4, None), (4, 1))),
]
HELD_OUT = [
    *(Setting(workers, ps, 1) for workers, ps in ((2, 2), (4, 2), (16, 2), (32, 4))),
    *(Setting(workers, ps, 10) for workers, ps in ((1, 1), (8, 1), (16, 2), (32, 4))),
]

WORKFLOW = [
    (Setting(2, 1, 1), 10_000_000, "narrow"),
    (Setting(4, 1, 1), 1_000_000, "wide"),
    (Setting(4, 2, 10), 10_000_000, "wide"),
    (Setting(8, 2, 1), 10_000_000, "medium"),
    (Setting(16, 3, 10), 10_000_000, "wide"),
]
"""Fits through the workflow: where, how many rows, which formula. Chief and ps share a node, which has four processors."""


def design(rows: int, name: str) -> Path:
    """The design of a formula for a table, made anew."""
    files = [fit.shards(rows)]
    path = DATA / f"{name}-{rows}.json"
    build_design("m", DesignConfig(formula=FORMULAS[name], family="binomial"), merge(files), files).write(path)
    return path


def on_node(cluster: slurm_cluster.Cluster, node: str, *line: object) -> list[str]:
    """The command that runs a script of Python on a node."""
    return ["nsenter", f"--net=/run/netns/{cluster.namespaces[node]}", sys.executable, *map(str, line)]


class Roles:
    """ps and workers that wait for chiefs, a node each; the first node is the chief's."""

    def __init__(self, cluster: slurm_cluster.Cluster, folder: Path, ps: int, workers: int) -> None:
        self._cluster, self._folder = cluster, folder
        chief, *others = cluster.addresses
        self.nodes = {"chief": [chief], "ps": others[:ps], "worker": others[ps : ps + workers]}

    @contextlib.contextmanager
    def started(self) -> Iterator[None]:
        self._folder.mkdir()
        started = []
        try:
            for role in ("ps", "worker"):
                for index, node in enumerate(self.nodes[role]):
                    line = [
                        ROOT / "scripts" / f"{role}.py",
                        "--index",
                        index,
                        "--announce",
                        self._announced(role, index),
                    ]
                    line += ["--host", self._cluster.addresses[node], "--parent", os.getpid()]
                    line += ["--log", self._folder / f"{role}-{index}.log"]
                    started.append(subprocess.Popen(on_node(self._cluster, node, *line), env=ENVIRONMENT))
            yield
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()

    def _announced(self, role: str, index: int) -> Path:
        return self._folder / f"{role}-{index}.json"

    def fits(self, setting: Setting, designs: dict[tuple[int, str], Path]) -> list[dict]:
        """Fit all designs with the first ps and workers."""
        self._cluster.shape(setting.gigabits)
        used = {"chief": 1, "ps": setting.ps, "worker": setting.workers}
        cables = {
            role: [self._cluster.cables[node] for node in self.nodes[role][:number]] for role, number in used.items()
        }
        with tempfile.TemporaryDirectory(prefix="chief-", dir=self._folder) as own:
            order, result, log = (Path(own) / name for name in ("order.json", "fits.json", "chief.log"))
            fits = [
                {
                    "folder": f"{own}/{name}-{rows}",
                    "design": str(path),
                    "manifest": str(fit.SHARDS / str(rows) / "manifest.json"),
                }
                for (rows, name), path in designs.items()
            ]
            announced = [str(self._announced(role, index)) for role in ("ps", "worker") for index in range(used[role])]
            order.write_text(
                json.dumps({"announcements": announced, "cables": cables, "fits": fits, "result": str(result)})
            )
            line = on_node(
                self._cluster, self.nodes["chief"][0], HERE / "measured_chief.py", "--order", order, "--log", log
            )
            done = subprocess.run(line, env=ENVIRONMENT, stderr=subprocess.DEVNULL, check=False)
            if done.returncode:
                raise SystemExit(f"a chief failed with {setting}:\n{log.read_text()}")
            return [
                {"rows": rows, "design": name, **each}
                for (rows, name), each in zip(designs, json.loads(result.read_text()), strict=True)
            ]


def prepare_workflow(rows: int) -> Path:
    """A folder in which the workflow has come as far as the designs of all formulas for a table."""
    folder = DATA / f"workflow-{rows}"
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "table.parquet"
    if not table.exists():
        table.symlink_to(fit.table(rows).resolve())
    models = {name: {"formula": formula, "family": "binomial"} for name, formula in FORMULAS.items()}
    (folder / "layout.yaml").write_text(yaml.safe_dump(scaling.LAYOUT))
    (folder / "config.yaml").write_text(yaml.safe_dump(scaling.CONFIG | {"models": models}))
    for name in FORMULAS:
        scaling.snakemake(folder, 1, of_model(name) / "design.json")
    return folder


def of_model(name: str) -> Path:
    return scaling.MODEL.parent / name


class Peaks:
    """The most memory that chief and ps on a node hold, MB, looked at four times a second."""

    def __init__(self, cluster: slurm_cluster.Cluster, node: str) -> None:
        self._cluster, self._node, self._over = cluster, node, threading.Event()
        self.by_process: dict[tuple[str, int], float] = {}

    def __enter__(self) -> "Peaks":
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.25):
            for pid in self._cluster.processes(self._node):
                with contextlib.suppress(OSError):
                    script = re.search(r"/(chief|ps)\.py\0", Path(f"/proc/{pid}/cmdline").read_text())
                    if script:
                        self.by_process[script[1], pid] = peak_mb(pid)

    def of(self, role: str) -> list[float]:
        return [peak for (of_process, _), peak in self.by_process.items() if of_process == role]


def through_the_workflow(cluster: slurm_cluster.Cluster, setting: Setting, rows: int, name: str) -> dict:
    """One fit by `snakemake --profile slurm`: each worker has a node, the chief and the ps have another."""
    folder, first = DATA / f"workflow-{rows}", next(iter(cluster.addresses))
    cluster.shape(setting.gigabits)
    (folder / of_model(name) / "fit.json").unlink(missing_ok=True)
    where = (
        "--profile",
        str(ROOT / "profiles" / "slurm"),
        "--retries",
        "0",
        "--slurm-init-seconds-before-status-checks",
        "5",
    )
    counter = Path(f"/sys/class/net/{cluster.cables[first]}/statistics/tx_bytes")
    before, began = int(counter.read_text()), time.perf_counter()
    with Peaks(cluster, first) as peaks:
        scaling.snakemake(folder, setting.workers, of_model(name) / "fit.json", where, cluster.environment, setting.ps)
    end_to_end = time.perf_counter() - began
    log = (folder / "logs/flights/models" / name / "chief.log").read_text()
    report = json.loads((folder / of_model(name) / "fit.json").read_text())
    return {
        **vars(setting),
        "rows": rows,
        "design": name,
        "coefficients": report["coefficients"],
        "seconds": float(re.findall(r"fitted in ([\d.]+) s", log)[-1]),
        "end_to_end_seconds": end_to_end,
        "bytes_into_node": int(counter.read_text()) - before,
        "chief_mb": max(peaks.of("chief")),
        "ps_mb": peaks.of("ps"),
    }


def measure(settings: Sequence[Setting], workflow: Sequence[tuple], rows: Sequence[int], rounds: int) -> None:
    """Measure fits by chiefs one after another, and those through the workflow, and write all to MEASURED."""
    if lacking := slurm_cluster.missing():
        raise SystemExit(lacking)
    measured: dict = {"by_hand": [], "by_workflow": [], "machine": scaling.machine()}
    DATA.mkdir(parents=True, exist_ok=True)
    designs = {(number, name): design(number, name) for number in rows for name in FORMULAS}
    for number in sorted({number for _, number, _ in workflow}):
        prepare_workflow(number)
    workers, ps = (max(getattr(setting, role) for setting in settings) for role in ("workers", "ps"))

    def note(kind: str, began: float, one: dict, what: str) -> None:
        """Kept at once: should a later fit fail, `--again` takes what is there."""
        measured[kind].append(one)
        MEASURED.write_text(json.dumps(measured))
        print(f"{what}: {time.perf_counter() - began:.0f} s", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="tfglm-links-") as own,
        slurm_cluster.cluster(Path(own) / "slurm", scaling.ENVIRONMENT, nodes=1 + ps + workers) as cluster,
    ):
        roles = Roles(cluster, Path(own) / "roles", ps, workers)
        with roles.started():
            # Not counted: all have started then, the loops over rows are compiled, and the tables are in memory.
            roles.fits(Setting(workers, ps, None), designs)
            for number in range(1, rounds + 1):
                for setting in settings:
                    began = time.perf_counter()
                    of_round = {"round": number, **vars(setting), "fits": roles.fits(setting, designs)}
                    note("by_hand", began, of_round, f"round {number}, {setting}")
        for setting, number, name in workflow:
            began = time.perf_counter()
            of_workflow = through_the_workflow(cluster, setting, number, name)
            note("by_workflow", began, of_workflow, f"workflow, {setting}, {number:,} rows, {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "links.json")
    parser.add_argument("--again", action="store_true", help="measure nothing, but fit the model again")
    arguments = parser.parse_args()
    if not arguments.again:
        measure([*FITTED, *HELD_OUT], WORKFLOW, arguments.rows, arguments.rounds)
    figures = link_figures.figures(json.loads(MEASURED.read_text()), [vars(setting) for setting in HELD_OUT])
    arguments.output.write_text(link_figures.as_json(figures))
    print(json.dumps(figures["errors"], indent=2))


if __name__ == "__main__":
    main()
