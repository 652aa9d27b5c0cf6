"""What the contract asks of every executor, and the tasks that it does so with.

`python tests/executors.py servers FOLDER` asks it of a cluster that announces itself there, and goes through accidents then; with
`peers`, of peers. TensorFlow connects to a cluster only once a process.
"""

import argparse
import ctypes
import functools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import long_sums
from processes import alive, wait_until
from tfglm import command, tensorflow_setup
from tfglm.data.shards import BLOCK_ROWS, IngestedFile
from tfglm.design.design import Design
from tfglm.distribute.executor import Executor
from tfglm.distribute.local import LocalExecutor
from tfglm.distribute.reduction import calls_together, pairwise
from tfglm.distribute.tasks import Division, Document, Task, divides, registered
from tfglm.errors import UserError
from tfglm.resume import Journal, ResumingExecutor
from tfglm.roles import announce, ending, peers, probe, watchdog
from tfglm.roles.announce import Announcement
from tfglm.roles.watched import Watched

if TYPE_CHECKING:
    from tfglm.distribute.parameter_server import ParameterServerExecutor

# ------------------------------------------------------------------------------------------------------------------ tasks


@registered("waves")
class Waves:
    """A sum of waves, as many as the design says, that takes as long as it is told to; at some `places`, if any are said."""

    def __init__(self, design: str, settings: dict) -> None:
        self.number, self.height = json.loads(design)["waves"], settings.get("height", 1.0)
        self.places = slice(*settings.get("places", [None]))

    def __call__(self, state: dict, shard: np.ndarray, x: np.ndarray, steps: np.ndarray) -> np.ndarray:
        if shard == "bad":
            raise UserError("shard bad is corrupt: restore the file")
        if shard == "worse":
            raise ZeroDivisionError("division by zero")
        if shard == "busy":
            ctypes.PyDLL(None).usleep(3_000_000)  # with Python's lock, which a PyDLL keeps
        for _ in range(int(steps)):
            x = np.sin(x) + state["w"]
        return np.append(self.number * self.height * np.sin(x) * state["w"], len(x))[self.places]


@divides("waves")
def divide(task: Task, calls: Sequence[tuple], workers: int, most: int, ps: int) -> Division:
    """Three portions, which are more than there are workers; the ps add those of usual height."""
    settings = json.loads(task.settings)
    portions = (json.dumps({**settings, "places": places}) for places in ([0, 200], [200, 1000], [1000, 1001]))
    return Division(
        calls_together(len(calls), workers, most),
        tuple(replace(task, settings=portion) for portion in portions),
        (200, 800, 1) if ps and "height" not in settings else (),
    )


@registered("step")
class Step:
    """An update that adds a number of its own to each entry; beside the difference it returns the number, and 7."""

    def __init__(self, design: str, settings: dict) -> None:
        pass

    def __call__(self, state: dict, number: np.ndarray) -> np.ndarray:
        difference = np.full(state["state"].shape, number, float)
        return np.append(difference, [float(number), 7.0])


@registered("halfway")
class Halfway:
    """An update that goes half the way from the state to a number."""

    def __init__(self, design: str, settings: dict) -> None:
        pass

    def __call__(self, state: dict, number: np.ndarray) -> np.ndarray:
        return (number - state["state"].ravel()) / 2


ONE_WAVE, THREE_WAVES = (Document.of(json.dumps({"waves": number})) for number in (1, 3))
WAVES = Task("waves", ONE_WAVE)
OTHERS = {
    "another design": Task("waves", THREE_WAVES),
    "other settings": Task("waves", ONE_WAVE, json.dumps({"height": 0.1})),
}
UNKNOWN = Task("os:system", ONE_WAVE, json.dumps("touch executed"))
W = np.linspace(1, 2, 1000)
ADDED = [1.0, 2.0, np.nan, 4.0, 8.0]
"""What each update adds."""


def calls(count: int, steps: int = 0) -> list[tuple]:
    """Calls of the waves; a step takes a worker about 10 us."""
    numbers = np.random.default_rng(1)
    return [(f"shard {i}", numbers.normal(size=1000), np.int32(steps)) for i in range(count)]


# --------------------------------------------------------------------------------------------------------------- questions


def ask(executor: Executor) -> dict[str, np.ndarray]:
    """The answers of an executor to all that it has to be able to do, by name; an error is answered by its message."""
    answers = {f"sum of {count}": executor.sum(WAVES, calls(count), {"w": W}) for count in (1, 7, 20)}
    answers |= {name: executor.sum(task, calls(5), {"w": W}) for name, task in OTHERS.items()}
    each = [(task, call) for task, call in zip([WAVES, *OTHERS.values()] * 3, calls(9), strict=True)]
    answers["map"] = np.stack(list(executor.map(each, {"w": W})))
    for name, wrong in {
        "an error that the user can mend": (WAVES, [*calls(3), ("bad", *calls(1)[0][1:])]),
        "an error of the task": (WAVES, [*calls(3), ("worse", *calls(1)[0][1:]), *calls(3)]),
        "no such task": (UNKNOWN, calls(2)),
    }.items():
        try:
            executor.sum(*wrong, {"w": W})
        except UserError as error:
            answers[name] = np.array(str(error))
    answers["sum after errors"] = executor.sum(WAVES, calls(7), {"w": W})

    shared = executor.share(np.arange(6.0).reshape(2, 3))
    step = Task("step", ONE_WAVE)
    turns = list(executor.update([(step, (np.float64(number),)) for number in ADDED], shared, 0.5))
    rests = [of_call for turn in turns for of_call in turn]
    answers["places of updates"] = np.array([place for place, _ in rests])
    answers["rests of updates"] = np.stack([rest for _, rest in rests])
    answers["shared"], answers["additions"] = (np.asarray(value) for value in shared.read())
    answers["remembered"] = executor.remember("how many?", lambda: {"many": np.array(3)})["many"]
    answers["workers"] = np.array(executor.workers)
    return answers


def expected() -> dict[str, np.ndarray]:
    """What the answers have to be, bit for bit, but for the text of errors."""

    def waves(task: Task, call: tuple) -> np.ndarray:
        return Waves(task.design.text, json.loads(task.settings))({"w": W}, *call)

    answers = {f"sum of {count}": pairwise(waves(WAVES, call) for call in calls(count)) for count in (1, 7, 20)}
    answers |= {name: pairwise(waves(task, call) for call in calls(5)) for name, task in OTHERS.items()}
    tasks = [WAVES, *OTHERS.values()] * 3
    answers["map"] = np.stack([waves(task, call) for task, call in zip(tasks, calls(9), strict=True)])
    answers["sum after errors"] = answers["sum of 7"]
    answers["places of updates"] = np.arange(len(ADDED))
    answers["rests of updates"] = np.array([[np.nan] * 2 if np.isnan(number) else [number, 7.0] for number in ADDED])
    answers["shared"] = np.arange(6.0).reshape(2, 3) + 0.5 * np.nansum(ADDED)
    answers["additions"] = np.array(np.count_nonzero(np.isfinite(ADDED)))
    answers["remembered"] = np.array(3)
    return answers


# --------------------------------------------------------------------------------------------------- fits of whole designs


def classes(folder: Path, family: str = "multinomial", **order) -> tuple[Design, IngestedFile]:
    """A regression of three classes with errors by cluster, and its rows: four blocks."""
    # pandas starts a thread, which keeps workers of the tests from being forked.
    import pandas as pd

    from pools import design_of, ingest_frame
    from tfglm.data.dictionary import merge

    random, rows = np.random.default_rng(8), 30_000
    day = random.integers(0, 60, rows)
    score = np.array([0.3, 0.0, -0.2]) + random.normal(size=(60, 3))[day] + random.gumbel(size=(rows, 3))
    frame = pd.DataFrame({"day": day, "carrier": random.choice(list("ABC"), rows), "x": random.normal(size=rows)})
    frame["status"] = np.array(["late", "cancelled", "on time"])[score.argmax(axis=1)]
    file = ingest_frame(frame, folder, "rows")
    settings = {"std_errors": "cluster(day)", **(order or {"reference_class": "on time"})}
    return design_of("status ~ carrier*x", family, merge([file]), [file], **settings), file


def smooth(folder: Path) -> tuple[Design, IngestedFile]:
    """A logistic regression with a smooth term and random effects, and its rows: four blocks."""
    import pandas as pd

    from pools import design_of, ingest_frame
    from tfglm.data.dictionary import merge

    random, rows = np.random.default_rng(9), 30_000
    day, x = random.integers(0, 60, rows), random.uniform(size=rows).round(3)
    eta = np.sin(6 * x) + 0.3 * random.normal(size=60)[day]
    frame = pd.DataFrame({"day": day, "x": x, "late": (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)})
    file = ingest_frame(frame, folder, "rows")
    return design_of("late ~ s(x) + s(day, bs=re)", "binomial", merge([file]), [file]), file


def fit_and_save(executor: Executor, design: Design, file: IngestedFile, folder: Path) -> dict[str, str]:
    """The digests of what a fit writes, by name. A call is a block."""
    from tfglm import checkpoint, digests
    from tfglm.engine.cutting import Cutting
    from tfglm.engine.workload import Workload
    from tfglm.solvers.fit import fit
    from tfglm.solvers.run import Run

    workload = Workload(design, [file], "train", cutting=Cutting(rows_per_call=BLOCK_ROWS))
    fitted = fit(workload, Run(executor))
    checkpoint.save(fitted, design, folder)
    digests.write_json(folder / "fit.json", fitted.summary)
    return {path.name: digests.sha256(path) for path in sorted(folder.iterdir())}


# ------------------------------------------------------------------------------------------------------- on a real cluster


def serve_tasks(folder: Path) -> None:
    """What a worker of the tests prepares."""
    from tfglm.distribute import answers
    from tfglm.distribute.designs import Designs
    from tfglm.engine import passes  # noqa: F401  registers those of a fit

    answers.serve(Designs.beside(folder))


def written_late(executor: "ParameterServerExecutor") -> dict:
    """A sum by the ps, into whose slots pieces of earlier sums are written once more before it is added: the second in slices of
    another length."""
    scheduled: list[tuple] = []
    late: list[tuple] = []
    schedule, added = executor._schedule, executor._slots.added

    def remember(*arguments: Any) -> Any:
        scheduled.append(arguments)
        return schedule(*arguments)

    def add_after_a_late_write(*arguments: Any) -> np.ndarray | None:
        if late:
            executor._servers.fetch(schedule(*late.pop(0)))
        return added(*arguments)

    executor._schedule = remember
    for earlier in ((WAVES, calls(3), {"w": -W}), (long_sums.TASK, long_sums.calls(17), {"w": W})):
        scheduled.clear()
        executor.sum(*earlier)
        late.append(scheduled[0])
    scheduled.clear()
    executor._slots.added = add_after_a_late_write
    of_pass = calls(7)[3:]
    total = executor.sum(WAVES, of_pass, {"w": W})
    executor._schedule, executor._slots.added = schedule, added
    alone = pairwise(Waves(ONE_WAVE.text, {})({"w": W}, *call) for call in of_pass)
    return {"same": np.array_equal(total, alone), "scheduled": len(scheduled)}


def chief(folder: Path) -> Iterator[tuple[str, dict]]:
    """Ask a cluster of two ps and two workers, then let things go wrong. Yields each step with what is to be known of it."""
    from tfglm.distribute import parameter_server

    members = announce.gather([folder / "pss.json", folder / "workers.json"], 120, command.log)
    ps, _, killed, other = members
    watched = Watched(grace=90.0)
    watched.over(members)
    executor = parameter_server.connect(members, [folder], 10, watched.waiting)
    np.savez(folder / "answers.npz", **ask(executor))
    yield "asked", {"designs": sorted(path.name for path in (folder / "designs").iterdir())}

    yield "in slots", long_sums.ask(executor, [member.pid for member in members if member.role == "ps"])
    yield "written late", written_late(executor)

    asked: list[tuple[probe.Answer, float]] = []
    begun = time.monotonic()

    def ask_ports() -> None:
        while time.monotonic() - begun < 2.5:
            before = time.monotonic()
            asked.extend((probe.ask(member.address), time.monotonic() - before) for member in members)
            time.sleep(0.1)

    asking = threading.Thread(target=ask_ports)
    asking.start()
    executor.sum(WAVES, [("busy", *call[1:]) for call in calls(2)], {"w": W})
    asking.join()
    yield (
        "busy",
        {
            "took": time.monotonic() - begun,
            "answers": sorted({answer for answer, _ in asked}),
            "times": len(asked),
            "slowest": max(seconds for _, seconds in asked),
        },
    )

    of_classes, recalled = classes(folder / "classes"), []
    alone = fit_and_save(LocalExecutor(), *of_classes, folder / "alone")
    for name, each in {"on servers": executor, "resumed": LocalExecutor()}.items():
        journal = Journal(folder / "journal", "key", lambda message: None)
        resuming = ResumingExecutor(each, journal, lambda was_there, seconds, of: recalled.append(was_there))
        yield f"classes {name}", {"same": fit_and_save(resuming, *of_classes, folder / name) == alone}
        journal.settle()
    yield "classes", {"files": sorted(alone), "recalled": recalled}
    others = {
        "smooth": smooth(folder / "smooth"),
        "ordered": classes(folder / "ordered", "ordinal", class_order=["on time", "late", "cancelled"]),
    }
    for kind, rows in others.items():
        ends = [
            fit_and_save(each, *rows, folder / kind / name)
            for name, each in (("one", LocalExecutor()), ("two", executor))
        ]
        yield kind, {"same": ends[0] == ends[1]}

    long = calls(12, steps=30_000)
    before = executor.sum(WAVES, long, {"w": W})
    threading.Timer(0.5, os.kill, (killed.pid, signal.SIGKILL)).start()
    after = executor.sum(WAVES, long, {"w": W})
    yield "a worker killed", {"same": np.array_equal(before, after), "alive": alive(killed.pid)}

    def successor() -> Announcement:
        return announce.read(folder / "workers-0.json")

    wait_until(lambda: successor().pid != killed.pid and successor().state == "listening", 60, "the worker's return")
    yield "the worker back", {"same_address": successor().address == killed.address}
    time.sleep(watchdog.PERIOD + 1)
    # The other one cannot do the work now, so the one that came back has to: it knows no design yet.
    os.kill(other.pid, signal.SIGKILL)
    yield "classes by the one that came back", {"same": fit_and_save(executor, *of_classes, folder / "again") == alone}
    again = executor.sum(WAVES, long, {"w": W})
    yield "summed by the one that came back", {"same": np.array_equal(before, again)}

    os.kill(ps.pid, signal.SIGKILL)
    try:
        executor.sum(WAVES, long, {"w": W})
    except UserError as error:
        yield "the ps killed", {"message": str(error)}


def load_tasks(arguments: argparse.Namespace) -> None:
    """What the peers of the tests load."""
    with tensorflow_setup.quiet():
        import tensorflow as tf  # noqa: F401


def follow_tasks(arguments: argparse.Namespace) -> peers.Follow:
    """What a peer of the tests prepares."""
    from tfglm.distribute import multi_worker_mirrored
    from tfglm.distribute.designs import Designs

    return functools.partial(multi_worker_mirrored.follow, designs=Designs.beside(arguments.announce.parent))


def learn(executor: Executor) -> np.ndarray:
    """What eight updates that depend on the state make of it."""
    shared = executor.share(np.zeros((2, 3)))
    halfway = Task("halfway", ONE_WAVE)
    for _ in executor.update([(halfway, (np.float64(number),)) for number in range(8)], shared, 0.7):
        pass
    return shared.read()[0]


def chief_of_peers(folder: Path) -> Iterator[tuple[str, dict]]:
    """Ask a group of this process and two peers, then kill one of them. Yields each step with what is to be known of it."""
    from tfglm.distribute import multi_worker_mirrored

    members = announce.gather([folder / "peers.json"], 120, command.log)
    watched = Watched(grace=90.0)
    executor = multi_worker_mirrored.connect(members, folder / "peers.json", watched)
    np.savez(folder / "answers.npz", **ask(executor))
    long = calls(12, steps=30_000)
    before = executor.sum(WAVES, long, {"w": W})
    alone = pairwise(Waves(ONE_WAVE.text, {})({"w": W}, *call) for call in long)
    yield "asked", {"same": np.array_equal(before, alone)}
    learnt = [learn(each) for each in (executor, LocalExecutor(workers=3))]
    yield "learnt", {"same": np.array_equal(*learnt), "far": float(np.min(learnt[0]))}
    threading.Timer(0.2, os.kill, (members[1].pid, signal.SIGKILL)).start()
    begun = time.monotonic()
    try:
        for _ in range(100):
            executor.sum(WAVES, long, {"w": W})
    except UserError as error:
        yield "a peer killed", {"message": str(error), "took": time.monotonic() - begun}


CHIEFS = {"servers": chief, "peers": chief_of_peers}

if __name__ == "__main__":
    with ending.exit_at_once():
        for name, facts in CHIEFS[sys.argv[1]](Path(sys.argv[2])):
            print(json.dumps({"step": name, **facts}), flush=True)
