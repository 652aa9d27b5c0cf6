"""Sums over rows, in all, by group or by pair of groups.

What is summed is data to a compiled pass, not code: a loop over a list of sums. Written out, the forty-odd tables of an
information matrix took XLA twice as long to compile, and ran no faster.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from tfglm.data.shards import BLOCK_ROWS

MOST_GROUPS = 2

COLUMNS = BLOCK_ROWS // 32
"""In which sums over all rows are kept until the end. Each adds 32 rows of a block; of more at once XLA makes a tree, slowly."""


@dataclass(frozen=True)
class Sum:
    """The sum of `value` times each of `numbers` (both are what `Layout.add` is given): over all rows, or by the groups of one
    or of two codings."""

    value: str
    numbers: tuple[int, ...] = ()
    groups: tuple[Hashable, ...] = ()


class Layout:
    """Where each sum stands: in the section of those over all rows, of those by group, or of those by pair of groups; equal sums
    once, whatever their names.

    The sections are apart while blocks are added, because XLA copies a vector that several loops change; and sums over all rows
    are columns until the end, because in a single one each addition waits for the one before.
    """

    def __init__(self, sums: Mapping[str, Sum], sizes: Mapping[Hashable, int]):
        self._names = {name: replace(one, numbers=tuple(sorted(one.numbers))) for name, one in sums.items()}
        self._sizes = dict(sizes)
        self._sections: list[dict[Sum, int]] = [{} for _ in range(MOST_GROUPS + 1)]
        self._lengths = [0] * len(self._sections)
        for one in self._names.values():
            section = len(one.groups)
            if one not in self._sections[section]:
                self._sections[section][one] = self._lengths[section]
                self._lengths[section] += math.prod(self._shape(one))

    def _shape(self, one: Sum) -> tuple[int, ...]:
        return tuple(self._sizes[group] for group in one.groups)

    @property
    def values(self) -> list[str]:
        """The names of the values that are summed."""
        return list(dict.fromkeys(one.value for one in self._names.values()))

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(self._lengths)

    def nothing(self) -> list[tf.Tensor]:
        """The sections before the first block."""
        _, *others = self._lengths
        columns = [tf.zeros([COLUMNS], tf.float64) for one in self._sections[0]]
        return [columns, *(tf.zeros([length], tf.float64) for length in others)]

    def add(
        self,
        sections: Sequence[tf.Tensor],
        values: Mapping[str, tf.Tensor],
        numbers: Sequence[tf.Tensor],
        groups: Mapping[Hashable, tf.Tensor],
    ) -> list[tf.Tensor]:
        """The sections with a block of rows added. `numbers`, `groups` and `values` are [rows] each, or a value `in_columns`."""
        whole, single, pairs = sections

        def product(one: Sum) -> tf.Tensor:
            return math.prod((numbers[number] for number in one.numbers), start=values[one.value])

        if self._sections[0]:
            whole = [sum_ + in_columns(product(one)) for sum_, one in zip(whole, self._sections[0], strict=True)]
        codings = list(groups)
        code = tf.stack(list(groups.values())) if codings else None
        # Values that are summed by the same codings share a loop.
        by_group: dict[tuple[str, tuple[int, ...]], dict[int, int]] = {}
        for one, offset in self._sections[1].items():
            by_group.setdefault((one.value, one.numbers), {})[codings.index(one.groups[0])] = offset
        together: dict[tuple[int, ...], list[tuple[str, tuple[int, ...]]]] = {}
        for key, offsets in by_group.items():
            together.setdefault(tuple(sorted(offsets)), []).append(key)
        for which, keys in together.items():
            of_rows = [product(Sum(*key)) for key in keys]

            def add_all(to, g, *starts, of_rows=of_rows):
                for start, of_row in zip(starts, of_rows, strict=True):
                    to = _at(to, start + code[g], of_row)
                return to

            single = _each([(g, *(by_group[key][g] for key in keys)) for g in which], single, add_all)
        by_pair = {}
        for one, offset in self._sections[2].items():
            first, second = map(codings.index, one.groups)
            job = (offset, first, second, self._sizes[one.groups[1]])
            by_pair.setdefault((one.value, one.numbers), []).append(job)
        for (value, which), jobs in by_pair.items():
            of_row = product(Sum(value, which))
            pairs = _each(
                jobs,
                pairs,
                lambda to, at, g, h, size, of_row=of_row: _at(to, at + code[g] * size + code[h], of_row),
            )
        return [whole, single, pairs]

    def finished(self, sections: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """All sums as vectors that belong one after the other."""
        whole, *others = sections
        return [tf.stack([tf.reduce_sum(one) for one in whole]) if whole else tf.zeros([0], tf.float64), *others]

    def unpack(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """The sums by name, as views of the vector."""
        starts = np.cumsum([0, *self._lengths])
        made = {}
        for name, one in self._names.items():
            shape, section = self._shape(one), len(one.groups)
            start = starts[section] + self._sections[section][one]
            made[name] = vector[start : start + math.prod(shape)].reshape(shape)
        return made


def _each(jobs: list[tuple[int, ...]], vector: tf.Tensor, add: Callable[..., tf.Tensor]) -> tf.Tensor:
    """`add(vector, *job)` for each job."""
    table = tf.constant(jobs, tf.int32)
    return tf.while_loop(
        lambda job, _: job < len(jobs),
        lambda job, vector: (job + 1, add(vector, *tf.unstack(table[job]))),
        (0, vector),
    )[1]


def _at(vector: tf.Tensor, where: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Add each value at its place: in place, for the vector may be far larger than a block."""
    return tf.tensor_scatter_nd_add(vector, where[:, None], value)


def in_columns(value: tf.Tensor, join: Callable[..., tf.Tensor] = tf.reduce_sum) -> tf.Tensor:
    """The sums (or what `join` makes) of the rows of a block, [COLUMNS]; what is in columns stays as it is."""
    return value if value.shape[0] == COLUMNS else join(tf.reshape(value, [COLUMNS, -1]), 1)
