"""The cases of rounds.py: models with their strategies, edits and interruptions, and clean runs to compare with."""

import dataclasses
import fcntl
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import slurm_cluster
from runs import ENVIRONMENT, REPOSITORY, RESULTS, command_line, configure, contents, write_asa

FORMULA = "late ~ carrier + dest + dep_hour"
BINOMIAL = {"formula": FORMULA, "family": "binomial"}
REGRESSIONS = {
    "newton": BINOMIAL | {"std_errors": "robust"},
    "clustered": BINOMIAL | {"std_errors": "cluster(day)"},
    "lasso": BINOMIAL | {"l1": 0.005},
    "path": BINOMIAL | {"path": {"number": 60, "select": "held_out"}},
    "absorbed": BINOMIAL | {"formula": "late ~ dep_hour + distance", "absorb": ["carrier", "dest"]},
    "learnt": BINOMIAL | {"solver": ["adagrad", "newton"], "online": {"epochs": 2, "synchronous": True}},
}
STRATEGIES = {
    "one_device": {"strategy": "one_device"},
    "parameter_server": {"ps": 1, "workers": 2},
    "multi_worker_mirrored": {"strategy": "multi_worker_mirrored", "workers": 3},
}
NETWORK = BINOMIAL | {"hidden": [8], "dropout": 0.1, "epochs": 8, "patience": 20, "batch_size": 100}
NETWORK |= {"checkpoints": {"steps": 20, "seconds": 1000}, "formula": FORMULA + " + distance"}
NETWORKS = {
    "mirrored": {"strategy": "mirrored", "devices": 2},
    "multi_worker_mirrored": {"strategy": "multi_worker_mirrored", "workers": 2},
    "parameter_server": {"strategy": "parameter_server", "ps": 2, "workers": 2},
    "synchronous": {"strategy": "parameter_server", "synchronous": True, "workers": 2},
}
VARY = {"parameter_server"}
"""Networks whose workers take steps by themselves: no two trainings come to the same weights."""

EDITS = {
    "derive": ("data", "derive", {"late": "arr_delay >= 30"}),
    "where": ("data", "where", {"flown": "cancelled = 0", "far": "distance > 300"}),
    "split": ("data", "split", {"train": "day <= 22", "evaluate": "day > 24"}),
    "columns": ("data", "columns", ["late", "carrier", "dest", "dep_hour", "distance", "day", "month"]),
    "missing": ("data", "missing", {"dest": "level"}),
    "rare": ("data", "rare", {"dest": 100}),
    "seed": ("data", "seed", 7),
    "formula": ("model", "formula", "late ~ carrier + dest + distance"),
    "std_errors": ("model", "std_errors", "classical"),
    "reference": ("model", "reference", {"carrier": "UA"}),
}
"""Each by its section, key and new value."""
EDITS_OF = {
    "newton": ["std_errors", "split"],
    "clustered": ["reference", "derive"],
    "lasso": ["rare", "where"],
    "path": ["reference", "columns"],
    "absorbed": ["missing", "derive"],
    "learnt": ["seed", "formula"],
    "network": ["formula", "seed"],
}
"""The edits of each fit: few, as each takes a clean run."""

SCRIPTS = {
    "chief": r"chief\.py",
    "ps": r"ps\.py",
    "worker": r"worker\.py",
    "peer": r"peer\.py",
    "starter": r"roles\.py",
    "watchdog": r"watchdog\.py",
    "fit": r"(fit|train)\.py",
    "ingest": r"ingest\.py",
    "design": r"(merge_dictionary|build_design|check)\.py",
    "tables": r"(write_tables|evaluate)\.py",
    "pages": r"write_pages\.py",
}
"""Processes to interrupt, besides Snakemake, by the names of their scripts."""
ROLES = {
    "one_device": ["fit"],
    "mirrored": ["fit"],
    "parameter_server": ["chief", "ps", "worker", "starter", "watchdog"],
    "multi_worker_mirrored": ["chief", "peer", "starter", "watchdog"],
}
ROLES["synchronous"] = ROLES["parameter_server"]
FREEZES = ("SIGSTOP, SIGCONT", "SIGSTOP, SIGKILL")
"""A frozen process is woken, or killed, after a while."""
PLACES = ("logs", "results", "results", "tmp", ".", ".")
"""Folders on a full disk."""
ENDS = ("SIGINT to all of", "SIGINT", "SIGTERM", "SIGKILL", "SIGSTOP, SIGCONT")
"""How Snakemake ends, or waits."""


def of_every_process(*scripts: str, how: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(script, signals) for signals in how for script in scripts]


ACCIDENTS = [
    *of_every_process(*SCRIPTS, how=("SIGKILL", "SIGSTOP, SIGCONT")),
    *of_every_process("ps", "worker", "peer", "ingest", "tables", "fit", "starter", how=("SIGSTOP, SIGKILL",)),
    # For good: others watch these.
    *of_every_process("chief", "ps", "worker", "peer", "starter", how=("SIGSTOP",)),
    *of_every_process("chief", "ps", "worker", "peer", "starter", "fit", "ingest", "tables", how=("SIGTERM",)),
    *(("snakemake", how) for how in ENDS),
    *(("disk", place) for place in PLACES),
    *(("edit", how) for how in ("cp", "cp -p", "mv", "config")),
]
"""What happens, and how: the first accident of round 1, 2, ... 60 rounds have them all."""
ACCIDENTS_ON_SLURM = [
    *of_every_process("chief", "ps", "worker", "peer", how=("SIGKILL", "SIGSTOP")),
    *(("preempt", partition) for partition in ("requeued", "cancelled") for _ in range(2)),
    *(("snakemake", how) for how in ("SIGINT to all of", "SIGKILL", "SIGSTOP, SIGCONT")),
    *((what, "") for what in ("controller", "controller", "node", "scancel")),
    ("edit", "config"),
]


@dataclasses.dataclass(frozen=True)
class Case:
    """A config and its data, which determine the results."""

    fit: str
    strategy: str
    edit: str | None = None
    rows: int = 1
    pages: bool = False  # whether all is made, to the pages

    @property
    def name(self) -> str:
        return f"{self.fit}-{self.strategy}-{self.edit}-{self.rows}{'-pages' if self.pages else ''}"

    @property
    def alone(self) -> "Case":
        """The case of the same results without a cluster; the weights of a network differ with its strategy."""
        return self if self.fit == "network" else dataclasses.replace(self, strategy="one_device")

    @property
    def targets(self) -> list[str]:
        names = ["embeddings.csv" if self.fit == "network" else "coefficients.csv", *["metrics.html"] * self.pages]
        return [str(RESULTS / "data" / "rows.json"), *(str(RESULTS / "models" / "m" / name) for name in names)]

    def configure(self, folder: Path, **cluster: int) -> None:
        def change(config: dict) -> None:
            config["data"].update(
                files=["flights.csv"],
                where={"flown": "cancelled = 0 AND diverted = 0"},
                split={"train": "day <= 20", "evaluate": "day > 24"},
                columns=["late", "carrier", "origin", "dest", "dep_hour", "distance", "day"],
            )
            settings = {"patience": 120, "stall": 120, **cluster}
            if self.fit == "network":
                model = NETWORK | NETWORKS[self.strategy]
            else:
                model, settings = dict(REGRESSIONS[self.fit]), settings | STRATEGIES[self.strategy]
            if self.edit:
                section, key, value = EDITS[self.edit]
                (config["data"] if section == "data" else model)[key] = value
            networks = self.fit == "network"
            config["models"], config["networks"] = ({}, {"m": model}) if networks else ({"m": model}, {})
            config["cluster"] = settings

        configure(folder, change)

    def write(self, folder: Path, how: str = "cp") -> None:
        """The config and the data. `how` a file replaces another one: `cp` makes it new, the others leave it older."""
        fresh, path = folder / "fresh.csv", folder / "flights.csv"
        write_rows(fresh, self.rows)
        if not path.exists() or path.read_bytes() != fresh.read_bytes():
            os.utime(fresh, (1.1e9, 1.1e9))
            subprocess.run([*how.split(), fresh, path], check=True)
        fresh.unlink(missing_ok=True)
        self.configure(folder)


def write_rows(path: Path, variant: int) -> None:
    """A CSV of flights."""
    with tempfile.TemporaryDirectory() as scratch:
        flights = write_asa(Path(scratch), 2005 + variant, 2_000)
    flights.loc[::50, "Dest"] = None
    flights.loc[7::60, "Dest"] = "PVD"
    flights.to_csv(path, index=False, na_rep="NA")


@dataclasses.dataclass
class Interruption:
    """An accident of a run, and its moment."""

    what: str  # a process of SCRIPTS, `snakemake`, `disk`, `edit`, `scancel`, ...
    how: str
    script: str  # the run has started this script,
    share: float  # this share of the fit is done,
    seconds: float  # and so many seconds have passed; kB of free space for a disk
    frozen: float  # seconds between two signals

    @property
    def is_late(self) -> bool:
        return self.script in ("tables", "pages")

    def __str__(self) -> str:
        if self.what == "disk":
            return f"{self.how} on a disk with {self.seconds:.0f} kB left"
        when = f"{self.script} + {self.seconds:.1f} s" + (f" at {self.share:.0%} of the fit" if self.share else "")
        return f"{self.how} {self.what} ({when}{f', after {self.frozen:.0f} s' if ', ' in self.how else ''})"


def can_happen(what: str, strategy: str) -> bool:
    """Whether a run has the process: fits have different ones."""
    return what in ROLES[strategy] or not any(what in roles for roles in ROLES.values())


def draw_case(draw: random.Random, what: str = "") -> Case:
    """Of all regressions and networks to which it can happen."""
    regressions = [Case(fit, strategy) for fit in REGRESSIONS for strategy in STRATEGIES]
    networks = [Case("network", strategy) for strategy in NETWORKS]
    cases = draw.choices([regressions, networks], [0.6, 0.4])[0]
    return draw.choice([case for case in cases if can_happen(what, case.strategy)])


def edited(draw: random.Random, case: Case) -> Case:
    """The case with a key of its config edited."""
    return dataclasses.replace(case, edit=draw.choice(EDITS_OF[case.fit]))


def draw_interruption(draw: random.Random, case: Case, what: str, how: str, slurm: bool) -> Interruption:
    """When an accident happens."""
    if what == "disk":
        free = round(math.exp(draw.uniform(math.log(4), math.log(4000))))
        return Interruption(what, how, "disk", share=0.0, seconds=free, frozen=0.0)
    roles = ROLES[case.strategy]
    script = what
    if what not in SCRIPTS:
        script = draw.choice([*roles, *roles, *([] if slurm else ["ingest", "design", "tables", "pages"])])
    share = draw.random() if script in roles and draw.random() < 0.6 else 0.0
    longest = 0.1 if share else 6.0 if script in roles else 1.0
    seconds = longest * draw.random() ** 2
    return Interruption(what, how, script, share, seconds, frozen=draw.uniform(1, 60 if what == "snakemake" else 20))


NOT_COMPARED = re.compile(r"/history\.|\.snakemake_timestamp|/levels\.parquet")
"""Files with the time of day or seconds."""

ROSTERS = re.compile(r"/cluster/((ps|workers|peers)(-\d+)?|network|order)\.json$|/cluster/(chief\.lease|\w+\.alive)$")
"""Files by which processes of a cluster find each other; a clean run in one process has none."""


class Runs:
    """Where rounds are played: here, or on a SLURM."""

    def __init__(self, base: Path, cluster: slurm_cluster.Cluster | None = None) -> None:
        self.base, self.cluster = base, cluster
        self.expected: dict[Case, dict[str, str]] = {}
        (base / "clean").mkdir(parents=True, exist_ok=True)

    def line(self, case: Case, *more: str, here: bool = False) -> list[str]:
        more = (*more, "--", *case.targets)
        if self.cluster is None or here:
            return command_line("--verbose", *more)
        profile = ("--profile", str(REPOSITORY / "profiles" / "slurm"), "--snakefile", str(REPOSITORY / "Snakefile"))
        checks = ("--slurm-init-seconds-before-status-checks", "5", "--retries", "0")
        return [sys.executable, "-m", "snakemake", "--verbose", *profile, *checks, *more]

    def environment(self, folder: Path, here: bool = False) -> dict[str, str]:
        own = {"TFGLM_ROUND": str(folder), "TMPDIR": str(folder / "tmp")}
        return (ENVIRONMENT if self.cluster is None or here else self.cluster.environment) | own

    def start(self, folder: Path, case: Case, *more: str) -> subprocess.Popen:
        (folder / "logs/flights/models/m/progress.json").unlink(missing_ok=True)
        with said(folder).open("a") as output:
            print(f"\n$ snakemake {' '.join(more)}", file=output, flush=True)
            return subprocess.Popen(
                self.line(case, *more),
                cwd=folder,
                env=self.environment(folder),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def clean(self, case: Case) -> dict[str, str]:
        """Digests of a run from nothing, made once. A regression runs in one process: all strategies give the same bytes."""
        case = case.alone
        if case in self.expected:
            return self.expected[case]
        folder = self.clean_folder(case)
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.with_suffix(".complete").exists():
                shutil.rmtree(folder, ignore_errors=True)
                (folder / "tmp").mkdir(parents=True)
                case.write(folder)
                line, environment = self.line(case, here=True), self.environment(folder, here=True)
                done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
                assert done.returncode == 0, f"{case.name}\n{done.stdout}{done.stderr}"
                folder.with_suffix(".complete").touch()
        self.expected[case] = compared(folder, case)
        return self.expected[case]

    def differences(self, folder: Path, case: Case) -> list[str]:
        """The results that a clean run has with other bytes, or not at all. Shards of another version of the data stay until
        `tidy`."""
        expected, actual = self.clean(case), compared(folder, case)
        names = {f"/{Path(target).relative_to('results')}" for target in case.targets}
        names |= {name for name in actual if not name.startswith("/data/")}
        return sorted(name for name in names if actual.get(name) != expected.get(name))

    def clean_folder(self, case: Case) -> Path:
        return self.base / "clean" / case.alone.name


def said(folder: Path) -> Path:
    return folder.with_suffix(".said")


def compared(folder: Path, case: Case) -> dict[str, str]:
    """A digest of each result; only the name of a result that varies."""
    # The workers of such a network take steps by themselves: no two trainings come to the same weights.
    varies = re.compile("/models/" if (case.fit, case.strategy) == ("network", "parameter_server") else "(?!)")
    every = {f"/{name}": digest for name, digest in contents(folder / "results").items()}
    every = {name: digest for name, digest in every.items() if not ROSTERS.search(name)}
    return {name: "" if NOT_COMPARED.search(name) or varies.search(name) else digest for name, digest in every.items()}
