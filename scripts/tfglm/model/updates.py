"""Steps of an online solver: pure functions, compiled by XLA, that go through some blocks of rows batch by batch.

In float32, but for what the solver shares between workers. The rows of a block are taken in the order of an affine sequence,
(multiplier * i + offset) mod rows: they lie in random order in the shards already.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfglm.data.shards import BLOCK_ROWS
from tfglm.model.design import Design
from tfglm.model.families import FAMILIES
from tfglm.model.optimisers import Optimiser, Penalty
from tfglm.model.rows import UNDAMAGED, Multiplier, Rows, Signature, compiled_with_files

SMALL = tf.float32


class Schedule(NamedTuple):
    """What a call has to know besides the data, float64 each.

    `mean_mass` is the mean weight of a row; `unit` that of the response and of the coefficients.
    """

    rate: float
    decay: float
    epochs: float
    """So far, when the call begins."""
    epochs_per_row: float
    l1: float
    l2: float
    mean_mass: float
    unit: float


class Updates:
    """The update of one design over shards of one signature: `(state, schedule, orders, paths, checksums, blocks, counts,
    *tables)` to a vector of the difference to the state, [slots, coefficients + 1], `losses` and `masses` by block, and the mean
    weights at the ends of the blocks.

    The first row of the state ends in the number of steps. `orders` int32 [blocks of a call, 2] are multiplier and offset of
    each block.
    """

    def __init__(self, design: Design, signature: Signature, optimiser: Optimiser, batch_size: int):
        self.design, self.signature, self.optimiser, self.batch_size = design, signature, optimiser, batch_size
        self.family = FAMILIES[design.family]
        self.blocks = signature.shards * signature.blocks
        self.shape = optimiser.slots, design.size + 1
        self._parts = [(part, Multiplier.of(design, part)) for part in design.parts]
        self._multipliers = list(dict.fromkeys(one for _, one in self._parts if one))

    def unpack(self, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Losses and masses [blocks] and mean weights [coefficients], from what comes after the difference."""
        losses, masses, mean = np.split(rest, [self.blocks, 2 * self.blocks])
        return losses, masses, mean

    @cached_property
    def function(self) -> Callable[..., tf.Tensor]:
        def learn(state, schedule, columns, blocks, counts, tables):
            schedule, orders = schedule
            begin = tf.cast(state["state"], SMALL)
            steps = begin[0, -1]
            schedule = Schedule(*tf.unstack(tf.cast(schedule, SMALL), len(Schedule._fields)))
            penalties = self._penalties(schedule)
            # An array for each part and slot: XLA updates small arrays in place, and would copy a large one.
            parts = [tf.unstack(begin[:, part.where], self.optimiser.slots) for part in self.design.parts]

            def weights_of(parts, steps):
                return [
                    self.optimiser.weights(slots, schedule.rate, steps, penalty)
                    for slots, penalty in zip(parts, penalties, strict=True)
                ]

            def block(number, damaged, epochs, steps, parts, losses, masses, mean):
                rows = Rows(
                    self.design, self.signature, tf.gather(blocks, number), tf.gather(counts, number), columns, tables
                )
                count, order = tf.gather(counts, number), tf.gather(orders, number)
                prepared = self._prepared(rows, count, order, schedule)

                def batch(number, steps, parts, loss, mass):
                    weights = weights_of(parts, steps)
                    added, gradient = self._gradient(weights, [tf.gather(one, number) for one in prepared])
                    first = tf.cast(number * self.batch_size, SMALL)
                    rate = schedule.rate / (1.0 + schedule.decay * (epochs + first * schedule.epochs_per_row))
                    of_parts = zip(parts, weights, gradient, penalties, strict=True)
                    after = [
                        self.optimiser.update(slots, of_part, slope, rate, steps + 1, penalty)
                        for slots, of_part, slope, penalty in of_parts
                    ]
                    return number + 1, steps + 1, after, loss + added[0], mass + added[1]

                zero = tf.constant(0.0, SMALL)
                _, steps, parts, loss, mass = tf.while_loop(
                    lambda number, *_: number * self.batch_size < count, batch, (0, steps, parts, zero, zero)
                )
                at = tf.reshape(number, [1, 1])
                return (
                    number + 1,
                    tf.minimum(damaged, rows.damaged),
                    epochs + tf.cast(count, SMALL) * schedule.epochs_per_row,
                    steps,
                    parts,
                    tf.tensor_scatter_nd_update(losses, at, [loss]),
                    tf.tensor_scatter_nd_update(masses, at, [mass]),
                    [sum_ + of_part for sum_, of_part in zip(mean, weights_of(parts, steps), strict=True)],
                )

            used = tf.math.count_nonzero(counts, dtype=tf.int32)
            nothing = tf.zeros([self.blocks], SMALL)
            undamaged = tf.constant(UNDAMAGED, tf.int64)
            no_sum = [tf.zeros_like(slots[0]) for slots in parts]
            begun = (0, undamaged, schedule.epochs, steps, parts, nothing, nothing, no_sum)
            _, damaged, _, after, parts, losses, masses, mean = tf.while_loop(
                lambda number, *_: number < used, block, begun
            )
            last = tf.concat([[[after]], tf.zeros([self.optimiser.slots - 1, 1], SMALL)], 0)
            ended = tf.concat([*(tf.stack(slots) for slots in parts), last], 1)
            difference = tf.cast(ended, tf.float64) - tf.cast(begin, tf.float64)
            sums = (
                tf.reshape(one, [-1]) for one in (difference, losses, masses, tf.concat(mean, 0) / tf.cast(used, SMALL))
            )
            return damaged, tf.concat([tf.cast(one, tf.float64) for one in sums], 0)

        whole = compiled_with_files(self.signature, learn)

        @tf.function(autograph=False)
        def function(state, schedule, orders, *call):
            return whole(state, (schedule, orders), *call)

        return function

    def _penalties(self, schedule: Schedule) -> list[Penalty]:
        """Of each part."""
        shares = [self.design.penalised_coefficients[part.where.start] for part in self.design.parts]
        return [Penalty(share * schedule.l1, share * schedule.l2) for share in shares]

    def _prepared(self, rows: Rows, count: tf.Tensor, order: tf.Tensor, schedule: Schedule) -> list[tf.Tensor]:
        """What the batches are made of, in their order, [batches, rows of a batch] each: response, mass, 1 for a row that is
        there, the offset, if there is one, the multipliers, and for each coding the groups."""
        unit = tf.cast(schedule.unit, tf.float64)
        numbers = [
            tf.where(rows.kept, rows.y, 0.0) / unit,
            rows.mass / tf.cast(schedule.mean_mass, tf.float64),
            tf.cast(tf.range(BLOCK_ROWS) < count, tf.float64),
            *([tf.where(rows.kept, rows.numbers(self.design.offset)[0], 0.0) / unit] if self.design.offset else []),
            *(rows.multiplied(one) for one in self._multipliers),
        ]
        groups = [rows.groups[coding] for coding in self.design.codings]
        batches = -(-BLOCK_ROWS // self.batch_size)
        which = tf.range(batches * self.batch_size)

        def materialised(values: list[tf.Tensor]) -> list[tf.Tensor]:
            # As the outcome of a condition, always true: XLA would make them anew for each use.
            return tf.cond(count >= 0, lambda: values, lambda: [tf.zeros(value.shape, value.dtype) for value in values])

        whole = materialised([*(tf.cast(number, SMALL) for number in numbers), *groups])
        place = tf.math.floormod(order[0] * tf.minimum(which, count) + order[1], count)
        # Behind the last row is none.
        (place,) = materialised([tf.where(which < count, place, BLOCK_ROWS)])
        padded = [tf.concat([value, tf.zeros([1], value.dtype)], 0) for value in whole]
        in_order = materialised([tf.gather(value, place) for value in padded])
        return [tf.reshape(value, [batches, self.batch_size]) for value in in_order]

    def _gradient(
        self, weights: list[tf.Tensor], prepared: list[tf.Tensor]
    ) -> tuple[tuple[tf.Tensor, tf.Tensor], list[tf.Tensor]]:
        """Loss and mass of a batch, and the derivative of its mean loss, by part."""
        y, mass, there, *rest = prepared
        eta, rest = (rest[0], rest[1:]) if self.design.offset else (tf.zeros_like(y), rest)
        multipliers = dict(zip(self._multipliers, rest, strict=False))
        groups = dict(zip(self.design.codings, rest[len(multipliers) :], strict=True))
        for (part, multiplier), of_part in zip(self._parts, weights, strict=True):
            found = tf.gather(of_part, groups[part.coding]) if part.coding else of_part[0]
            eta += found * multipliers[multiplier] if multiplier else found
        kept = mass > 0
        residual = tf.where(kept, (self.family.mean(eta) - y) * mass, 0.0) / tf.maximum(tf.reduce_sum(there), 1.0)
        gradient = []
        for part, multiplier in self._parts:
            value = residual * multipliers[multiplier] if multiplier else residual
            gradient.append(
                tf.math.unsorted_segment_sum(value, groups[part.coding], part.size)
                if part.coding
                else tf.reduce_sum(value)[None]
            )
        loss = tf.where(kept, self.family.loss(eta, y) * mass, 0.0)
        return (tf.reduce_sum(loss), tf.reduce_sum(mass)), gradient


def orders(counts: Sequence[int], random: np.random.Generator | None) -> np.ndarray:
    """Multiplier and offset of the order of the rows of each block, int32 [blocks, 2]; as they lie without `random`."""
    made = np.tile(np.array([1, 0], np.int32), (len(counts), 1))
    for number, count in enumerate(counts):
        if random is None or count < 2:
            continue
        while True:
            multiplier = int(random.integers(1, BLOCK_ROWS))
            if np.gcd(multiplier, int(count)) == 1:
                break
        made[number] = multiplier, random.integers(count)
    return made
