"""Steps of an online solver: pure functions that process some blocks of rows batch by batch.

They use float32, except for values that workers share. A block is read in runs of some rows, in the order of an affine
sequence, (multiplier * i + offset) mod runs; the rows are already in random order in the shards.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tfglm.design.design import Design
from tfglm.distribute.tasks import Document, Task, registered
from tfglm.engine import kernels
from tfglm.engine.blocks import Signature
from tfglm.engine.optimisers import OPTIMISERS, Penalty
from tfglm.engine.parts import derivative, looked_up_parts, sum_layout
from tfglm.engine.rows import Rows, positions_of, rows_of
from tfglm.engine.sums import RESIDUAL

SMALL = np.float32


class Schedule(NamedTuple):
    """The inputs of a call besides the data. `mean_weight` is the mean weight of a row; `unit` is the unit of the response
    and of the coefficients."""

    rate: float
    decay: float
    epochs: float
    """So far, when the call begins."""
    epochs_per_row: float
    l1: float
    l2: float
    mean_weight: float
    unit: float


class Updates:
    """The update of one design over shards of one signature: `(state, schedule, orders, paths, checksums, blocks, counts,
    *tables)` to a vector of the difference to the state, [slots, coefficients + 1], `losses` and `weight_sums` by block, and the
    mean weights at the ends of the blocks.

    The first row of the state ends in the number of steps. `orders` int32 [blocks of a call, 2] are multiplier and offset of
    each block.
    """

    def __init__(self, design: Design, signature: Signature, solver: str, batch_size: int):
        self.design, self.signature, self.solver, self.batch_size = design, signature, solver, batch_size
        self.optimiser, self.family = OPTIMISERS[solver], design.distribution
        self.blocks = signature.shards * signature.blocks
        self.shape = self.optimiser.slots, design.size + 1
        self._multipliers, self._parts = looked_up_parts(design)
        self._positions = positions_of(design)
        self._gradient_layout = sum_layout(design, derivative(design, self._parts))

    @cached_property
    def task(self) -> Task:
        """The specification with which an executor runs the same updates (`updates_of`)."""
        settings = {"signature": asdict(self.signature), "solver": self.solver, "batch_size": self.batch_size}
        return Task("update", Document.of(self.design.as_json), json.dumps(settings))

    def unpack(self, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Losses and weight sums [blocks] and mean weights [coefficients], from what comes after the difference."""
        losses, weight_sums, mean = np.split(rest, [self.blocks, 2 * self.blocks])
        return losses, weight_sums, mean

    @np.errstate(all="ignore")  # what diverges is seen in the loss
    def __call__(
        self, state: Mapping[str, np.ndarray], schedule: np.ndarray, orders: np.ndarray, *call: np.ndarray
    ) -> np.ndarray:
        begin = state["state"].reshape(self.shape).astype(SMALL)
        slots: Sequence[np.ndarray] = list(begin[:, :-1])
        steps = int(begin[0, -1])
        of_call = Schedule(*map(float, schedule))
        shares, rate = self.design.penalised_coefficients.astype(SMALL), SMALL(of_call.rate)
        penalty = Penalty(shares * SMALL(of_call.l1), shares * SMALL(of_call.l2))
        losses, weight_sums = np.zeros((2, self.blocks))
        mean, epochs = np.zeros(self.design.size), of_call.epochs
        number = 0
        for rows in rows_of(self.design, self.signature, call, self._positions, orders):
            numbers, groups = self._numbers(rows, of_call.unit), rows.groups
            count = numbers.shape[1]
            for first in range(0, count, self.batch_size):
                batch = slice(first, first + self.batch_size)
                weights = self.optimiser.weights(slots, rate, SMALL(steps), penalty)
                loss, gradient = self._gradient(weights, of_call.mean_weight, numbers[:, batch], groups[:, batch])
                steps += 1
                now = SMALL(of_call.rate / (1 + of_call.decay * (epochs + first * of_call.epochs_per_row)))
                slots = self.optimiser.update(slots, weights, gradient, now, SMALL(steps), penalty)
                losses[number] += loss
            weight_sums[number] = numbers[1].sum(dtype=float) / of_call.mean_weight
            mean += self.optimiser.weights(slots, rate, SMALL(steps), penalty)
            epochs += count * of_call.epochs_per_row
            number += 1
        last = np.zeros((self.optimiser.slots, 1))
        last[0] = steps
        difference = np.hstack([np.stack(slots), last]) - begin
        return np.concatenate([difference.ravel(), losses, weight_sums, mean / max(number, 1)])

    def _numbers(self, rows: Rows, unit: float) -> np.ndarray:
        """Response, weight, offset and multipliers, [3 + multipliers, rows]."""
        numbers = np.zeros((3 + len(self._multipliers), len(rows.flag)), SMALL)
        numbers[0], numbers[1] = rows.y, rows.weight
        rows.multiplied(self._multipliers, numbers[3:])
        if self.design.roles.offset:
            numbers[2] = rows.offset
        if unit != 1.0:
            numbers[[0, 2]] /= SMALL(unit)
        return numbers

    def _gradient(
        self, weights: np.ndarray, mean_weight: float, numbers: np.ndarray, groups: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Loss of a batch, and the derivative of its mean loss, [coefficients]."""
        y, weight, offset, multipliers = numbers[0], numbers[1], numbers[2], numbers[3:]
        eta = offset.copy()
        kernels.add_linear_predictor(eta, weights, self._parts, groups, multipliers)
        terms = self.family.terms(eta, y, weight, not self.design.roles.multiplicities)
        residual = terms.score * SMALL(1 / (mean_weight * len(y)))
        gradient = np.zeros(self.design.size, SMALL)
        self._gradient_layout.add(gradient, {RESIDUAL: residual}, lambda: multipliers, groups)
        return terms.loss / mean_weight, gradient


@registered("update")
def updates_of(design: str, settings: Mapping[str, Any]) -> Updates:
    """The update that a task names."""
    signature = Signature.of(settings["signature"])
    return Updates(Design.from_json(design), signature, settings["solver"], settings["batch_size"])


def orders(counts: Sequence[int], random: np.random.Generator | None) -> np.ndarray:
    """Return multiplier and offset of the order of the rows of each block (`kernels.in_runs`), int32 [blocks, 2]. Without
    `random` it is the stored order."""
    affine = np.tile(np.array([1, 0], np.int32), (len(counts), 1))
    if random is None:
        return affine
    runs = np.asarray(counts) // kernels.RUN
    left = np.flatnonzero(runs > 1)
    affine[left, 1] = random.integers(runs[left])
    while len(left):
        affine[left, 0] = random.integers(1, runs[left])
        left = left[np.gcd(affine[left, 0], runs[left]) > 1]
    return affine
