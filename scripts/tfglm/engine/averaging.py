"""The rows of a workload, added to averages (engine.averages) by threads."""

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tfglm.engine.averages import AveragedBlock, Averages
from tfglm.engine.parts import looked_up_parts
from tfglm.engine.workload import Workload

ROWS_OF_PIECE = 2**22
"""At least, of what one thread adds: sums for each coefficient are merged after it."""


def average(workload: Workload, averages: Sequence[Averages], coefficients: np.ndarray, threads: int = 1) -> float:
    """Add the rows of a workload to some averages, and return the number of rows.

    Each shard is read once. Threads sum pieces of the shards, and the sums are merged in the order of the pieces, so the
    number of threads changes no bit. `coefficients` [p] belong to the averages.
    """
    empty = copy.deepcopy(averages)

    def average_piece(calls: Sequence[tuple]) -> tuple[float, Sequence[Averages]]:
        own = copy.deepcopy(empty)
        return added(workload, calls, own, coefficients), own

    rows = 0.0
    with ThreadPoolExecutor(threads) as pool:
        # Merged as they arrive: with many coefficients, the sums of all pieces would take gigabytes.
        for of_rows, own in pool.map(average_piece, pieces(workload)):
            rows += of_rows
            for all_rows, more in zip(averages, own, strict=True):
                all_rows.merge(more)
    return rows


def pieces(workload: Workload) -> list[list[tuple]]:
    """The shards, (signature, call) each, in pieces of ROWS_OF_PIECE or more."""
    result: list[list[tuple]] = []
    rows = ROWS_OF_PIECE
    for _, shard, signature, call in workload.shards_alone():
        if rows >= ROWS_OF_PIECE:
            result.append([])
            rows = 0
        result[-1].append((signature, call))
        rows += shard.rows
    return result


@np.errstate(all="ignore")  # as at rows where a function of the formula has no derivative
def added(
    workload: Workload,
    calls: Sequence[tuple],
    averages: Sequence[Averages],
    coefficients: np.ndarray,
) -> float:
    """Add the rows of some shards to some averages, and return how many there are."""
    design = workload.design
    parts = looked_up_parts(design)[1]
    finite = np.where(np.isfinite(coefficients), coefficients, 0.0)
    state = workload.state(np.zeros(design.size))
    rows = 0.0
    for signature, call in calls:
        for evaluated in workload.passes(signature).evaluated(state, call):
            block = AveragedBlock(design, parts, evaluated, finite)
            rows += block.rows
            for of_rows in averages:
                of_rows.add(block)
    for of_rows in averages:
        of_rows.finish()
    return rows
