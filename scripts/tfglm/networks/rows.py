"""Rows as a network takes them: numbers of levels, numbers, and of each row its response, weight and offset."""

from typing import NamedTuple

import numpy as np

from tfglm.data.shards import IngestedFile, Shard
from tfglm.design.design import Design
from tfglm.engine.parts import looked_up_parts
from tfglm.engine.passes import Passes
from tfglm.engine.workload import Workload
from tfglm.inference.fitted import Fitted
from tfglm.results import predict

OFFSET, RESPONSE, WEIGHT = -3, -2, -1
"""Columns of `NetworkRows.numbers`: what is added to the output, the response, and the weight of a row in the loss. The response
and the regression in the offset are counted from the `origin` of the design, in float64."""


class NetworkRows(NamedTuple):
    """The inputs of a network for some rows, and of its loss. There are only two arrays, because each array costs time in
    each batch."""

    groups: np.ndarray
    """The number of the level of each grouping of the design, int32 [rows, `width_of_groups`]."""
    numbers: np.ndarray
    """The numbers of the formula, standardised, and the columns above, float32 [rows, multipliers + 3]."""

    @property
    def used(self) -> "NetworkRows":
        """Those that take part."""
        used = np.flatnonzero(self.numbers[:, WEIGHT] > 0)
        # Faster than to index by whether a row takes part, which took half the time of reading.
        if len(used) == len(self.groups):
            return self
        return NetworkRows(*(np.take(values, used, axis=0) for values in self))


def width_of_groups(design: Design) -> int:
    """The columns of `NetworkRows.groups`. Without groupings there is one, of zeros: TensorFlow cannot split rows of width 0."""
    return max(1, len(design.groupings))


class Unit(NamedTuple):
    """Rows that are read together, and what is known of each, [rows]."""

    rows: NetworkRows
    flag: np.ndarray
    """0, or the negative reason why it takes no part (`engine.rows`)."""
    outside: np.ndarray
    """Return whether a number is outside the range of a spline."""
    frequency: np.ndarray
    """The number of rows that each row represents."""


class Units:
    """The rows of one split in units of a few blocks, which are read one by one. The linear predictor of `regression`, if
    there is one, is added to the offset. Rows without a finite linear predictor take no part."""

    def __init__(self, workload: Workload, regression: tuple[Workload, Fitted] | None = None) -> None:
        self._offsets = _Offsets(*regression) if regression else None
        self.design = design = workload.design
        self.widths = width_of_groups(design), len(looked_up_parts(design)[0]) + 3
        """The columns of `NetworkRows.groups` and of `NetworkRows.numbers`."""
        self._zeros = design.by_term(np.zeros(design.size))
        self.shards: list[tuple[IngestedFile, Shard, range]] = []
        """Yield each shard with the numbers of its units, in the order of its rows."""
        self._calls: list[tuple[Passes, tuple, int, int]] = []
        for file, shard, signature, (paths, expected, blocks, counts, *tables) in workload.shards_alone(in_units=True):
            first = len(self._calls)
            passes, used = workload.passes(signature), np.flatnonzero(counts)
            for place in used.tolist():
                call = (paths, expected, blocks[place : place + 1], counts[place : place + 1], *tables)
                self._calls.append((passes, call, len(self.shards), place))
            self.shards.append((file, shard, range(first, len(self._calls))))

    def __len__(self) -> int:
        return len(self._calls)

    @np.errstate(all="ignore")  # what takes no part may be anything
    def read(self, number: int) -> Unit:
        """A unit. Raises UserError if a shard has changed since it was written."""
        passes, call, shard, place = self._calls[number]
        (evaluated,) = passes.evaluated(self._zeros, call)
        rows, design = evaluated.rows, self.design
        flag, offset = rows.flag, rows.offset if design.roles.offset else np.zeros(len(rows.flag))
        if self._offsets:
            eta, of_regression = self._offsets.of(self.shards[shard][:2], place)
            offset, flag = offset + (eta - design.likelihood.origin), np.where(flag < 0, flag, of_regression)
        kept = flag >= 0
        weight = np.where(kept, rows.weight, 0.0)
        numbers = np.empty((len(flag), self.widths[1]), np.float32)
        numbers[:, :OFFSET] = evaluated.numbers.T
        numbers[:, OFFSET], numbers[:, RESPONSE], numbers[:, WEIGHT] = offset, rows.y, weight
        if not kept.all():
            numbers[~kept] = 0.0
        groups = np.zeros((len(flag), self.widths[0]), np.int32)
        groups[:, : len(design.groupings)] = rows.groups[: len(design.groupings)].T
        return Unit(NetworkRows(groups, numbers), flag, rows.outside, np.broadcast_to(rows.repeats, flag.shape))

    def train(self, number: int) -> NetworkRows:
        """The rows of a unit that take part."""
        return self.read(number).rows.used


class _Offsets:
    """The linear predictor of a fitted regression, by shard and unit."""

    def __init__(self, workload: Workload, fitted: Fitted) -> None:
        self._calls = {}
        workload = predict.without_separated(workload, fitted)
        self._coefficients = workload.state(fitted.coefficients)
        for file, shard, signature, call in workload.shards_alone(in_units=True):
            self._calls[file.manifest.file, shard.path] = workload.passes(signature), call

    def of(self, shard: tuple[IngestedFile, Shard], place: int) -> tuple[np.ndarray, np.ndarray]:
        """Linear predictor and flag of the rows of a unit, [rows]."""
        passes, (paths, expected, blocks, counts, *tables) = self._calls[shard[0].manifest.file, shard[1].path]
        call = (paths, expected, blocks[place : place + 1], counts[place : place + 1], *tables)
        (evaluated,) = passes.evaluated(self._coefficients, call)
        return evaluated.eta, evaluated.rows.flag
