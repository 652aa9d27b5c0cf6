"""Sums of vectors that are long enough to be cut into slices: what the contract asks of those that the ps add."""

import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tfglm.distribute.reduction import pairwise
from tfglm.distribute.tasks import Division, Document, Task, divides, registered
from tfglm.engine import division

if TYPE_CHECKING:
    from tfglm.distribute.parameter_server import ParameterServerExecutor

NUMBERS, PASSES = 300_000, 50
"""Of a vector, and how often one is summed."""


@registered("long")
class Long:
    """As many numbers as the design says, or some of them."""

    def __init__(self, design: str, settings: dict) -> None:
        self.places = np.arange(json.loads(design)["numbers"])[slice(*settings.get("places", [None]))]

    def __call__(self, state: dict, first: np.ndarray) -> np.ndarray:
        return (first + 0.1) * self.places


@divides("long")
def divide(task: Task, calls: Sequence[tuple], workers: int, most: int, ps: int) -> Division:
    """As a pass over calls of 2.6 million rows that sums 22 times as many numbers, 53 MB."""
    sizes = np.full(60, json.loads(task.design.text)["numbers"] // 60)
    together, bounds, slots = division.quickest(22 * sizes, len(calls), 2.6e6, workers, most, ps)
    places = [size * sizes[0] for size in bounds]
    portions = [json.dumps({"places": list(map(int, each))}) for each in itertools.pairwise(places)]
    lengths = tuple(map(int, np.diff(places))) if slots else ()
    return Division(together, tuple(replace(task, settings=portion) for portion in portions), lengths)


TASK = Task("long", Document.of(json.dumps({"numbers": NUMBERS})))


def calls(count: int) -> list[tuple]:
    return [(np.float64(number),) for number in range(count)]


def ask(executor: "ParameterServerExecutor", ps: list[int]) -> dict:
    """Whether sums are the same bit for bit; the vectors that the chief receives for one of 45 calls, by how many workers the
    executor believes to have; and the memory of the processes of the ps after each of many."""
    function, state = Long(TASK.design.text, {}), {"w": np.ones(1)}
    alone = {number: pairwise(function(state, *call) for call in calls(number)) for number in (45, 17)}
    same, received, held, usual = [], {}, [], executor.workers
    for executor.workers in (1, 2, 3, 8, 32):
        before = executor.received
        same.append(np.array_equal(executor.sum(TASK, calls(45), state), alone[45]))
        received[executor.workers] = (executor.received - before) / (8 * NUMBERS)
    executor.workers = usual
    for _ in range(PASSES):
        same.append(np.array_equal(executor.sum(TASK, calls(17), state), alone[17]))
        held.append([resident(pid) for pid in ps])
    return {"same": all(same), "received": received, "held": held}


def resident(pid: int) -> float:
    """MB of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
