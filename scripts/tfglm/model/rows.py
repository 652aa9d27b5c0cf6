"""A block of rows as a pass sees it: what a shard stores, and what the design makes of it, inside one compiled function.

The codes in a shard are local to its input file. A pass gets tables that map them to the levels of the design, or to numbers:
one gather. A negative level takes the row out and says why.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from tfglm.data.shards import BLOCK_ROWS, MISSING
from tfglm.model import transforms
from tfglm.model.design import Categorical, Design, Numeric, Part
from tfglm.model.parametrisation import is_centred

UNSEEN = -1
"""The row has a level that no training row has."""
SEPARATED = -2
"""The row has a level whose training responses are all alike: its coefficient is not finite."""
DROPPED = -3
"""The row lacks a value, or is not a row but padding."""

NOT_FINITE = -4
"""A function of the formula has no finite value for the row, as the logarithm of 0."""

UNDAMAGED = 2**62
"""No place in a shard."""

CLUSTER = "cluster"
"""Stands beside codings for the clusters of the standard errors."""


@dataclass(frozen=True)
class Multiplier:
    """Numbers of the design, factor and column, whose product multiplies a part."""

    numbers: tuple[tuple[str, int], ...]
    centred: bool

    @classmethod
    def of(cls, design: Design, part: Part) -> "Multiplier | None":
        return cls(part.multiplier, is_centred(design, part)) if part.multiplier else None


@dataclass(frozen=True)
class Input:
    """A column as a pass reads it."""

    column: str
    dtype: str
    coded: bool
    table_size: int


@dataclass(frozen=True)
class Signature:
    """All that a compiled pass depends on besides the design: files that agree in it share the code.

    One call reads up to `shards` shards, each with room for `capacity` rows.
    """

    capacity: int
    shards: int
    inputs: tuple[Input, ...]

    @property
    def blocks(self) -> int:
        """Blocks of one shard."""
        return self.capacity // BLOCK_ROWS


class Columns(NamedTuple):
    """What one call has read, by block: of each input `words`, the 8-byte integers [blocks, words of a block], and `values`, what
    they are [blocks, BLOCK_ROWS]; and `expected`, the checksums int64 [blocks, inputs]."""

    words: list[tf.Tensor]
    values: list[tf.Tensor]
    expected: tf.Tensor


def read(signature: Signature, paths: tf.Tensor, expected: tf.Tensor) -> Columns:
    """Read the files `paths` [shards, inputs]; the rest of a shard's room is filled with zeros."""
    blocks = signature.shards * signature.blocks
    words = []
    for number, one in enumerate(signature.inputs):
        size = signature.capacity * np.dtype(one.dtype).itemsize

        def content(path, size=size):
            return tf.io.decode_raw(tf.io.read_file(path), tf.int64, fixed_length=size)

        # Numbers are stacked, since strings would be copied twice.
        if signature.shards == 1:
            found = content(paths[0, number])
        else:
            kind = tf.TensorSpec([size // np.dtype(np.int64).itemsize], tf.int64)
            found = tf.map_fn(content, paths[:, number], fn_output_signature=kind)
        words.append(tf.reshape(found, [blocks, -1]))
    values = [
        tf.reshape(tf.bitcast(word, tf.as_dtype(one.dtype)), [blocks, BLOCK_ROWS])
        for word, one in zip(words, signature.inputs, strict=True)
    ]
    return Columns(words, values, expected)


def compiled_with_files(signature: Signature, of_columns: Callable) -> Callable:
    """`of_columns(state, settings, columns, blocks, counts, tables)` compiled, with files in place of columns:
    `(state, settings, paths, checksums, blocks, counts, *tables)`. It returns the first damaged place and a result."""
    compiled = tf.function(of_columns, jit_compile=True, autograph=False)

    @tf.function(autograph=False)
    def function(state, settings, paths, checksums, blocks, counts, *tables):
        columns = read(signature, paths, checksums)
        damaged, result = compiled(state, settings, columns, blocks, counts, tables)
        place = tf.where(damaged == UNDAMAGED, tf.zeros_like(damaged), damaged)
        block, which = place // len(signature.inputs), place % len(signature.inputs)
        tf.debugging.Assert(
            damaged == UNDAMAGED,
            [
                "the content of a shard has changed since it was written:",
                paths[block // signature.blocks, which],
                f"in the block of {BLOCK_ROWS} rows with the number",
                block % signature.blocks,
            ],
        )
        return result

    return function


class Rows:
    """`count` rows in the block number `block`. Each quantity, [rows], becomes part of the compiled pass when it is first asked
    for. `tables` are those of `table_keys`, of each shard, [shards, entries]."""

    def __init__(
        self, design: Design, signature: Signature, block, count, columns: Columns, tables: Sequence[tf.Tensor]
    ):
        self._design, self._signature, self._block, self._read = design, signature, block, columns
        self._columns = dict(zip((one.column for one in signature.inputs), columns.values, strict=True))
        self._tables = dict(zip(table_keys(design, signature), tables, strict=True))
        self._count = count
        self._inside = tf.range(BLOCK_ROWS) < count
        self._shard = block // signature.blocks
        self._levels: dict[str, tf.Tensor] = {}
        self._numbers: dict[str, list[tf.Tensor]] = {}
        self._multiplied: dict[Multiplier, tf.Tensor] = {}

    @cached_property
    def damaged(self) -> tf.Tensor:
        """UNDAMAGED, or block * inputs + the number of the first input whose content has changed since it was written."""
        sums: dict[str, tf.Tensor] = {}
        sizes = {one.column: word.shape[1] for one, word in zip(self._signature.inputs, self._read.words, strict=True)}
        for size in set(sizes.values()):
            words = {
                one.column: tf.gather(word, self._block)
                for one, word in zip(self._signature.inputs, self._read.words, strict=True)
                if sizes[one.column] == size
            }
            factors = 2 * tf.range(size, dtype=tf.int64) + 1  # as data.shards.checksums
            of_size = tf.reduce_sum(tf.stack(list(words.values())) * factors, 1)
            sums |= dict(zip(words, tf.unstack(of_size, len(words)), strict=True))
        wrong = tf.not_equal(tf.stack([sums[name] for name in sizes]), tf.gather(self._read.expected, self._block))
        places = tf.cast(self._block, tf.int64) * len(sizes) + tf.range(len(sizes), dtype=tf.int64)
        return tf.reduce_min(tf.where(wrong, places, tf.constant(UNDAMAGED, tf.int64)))

    def stored(self, column: str) -> tf.Tensor:
        # Not tf.slice, whose beginning is a constant for XLA: it would compile anew for each list of blocks.
        return tf.gather(self._columns[column], self._block)

    def entry(self, key: str, index: tf.Tensor) -> tf.Tensor:
        """The entries of a table of this block's shard."""
        table = self._tables[key]
        size = table.shape[1]
        return tf.gather(tf.reshape(table, [-1, *table.shape[2:]]), self._shard * size + index)

    def looked_up(self, key: str, column: str) -> tf.Tensor:
        return self.entry(key, tf.cast(self.stored(column), tf.int32))

    def number(self, column: str) -> tf.Tensor:
        """The values of a number column, NaN for missing ones."""
        key = f"number/{column}"
        return self.looked_up(key, column) if key in self._tables else tf.cast(self.stored(column), tf.float64)

    def level(self, factor: Categorical) -> tf.Tensor:
        """The number of the level of a factor, or the negative reason why there is none."""
        if factor.name not in self._levels:
            self._levels[factor.name] = self.looked_up(f"level/{factor.name}", factor.column)
        return self._levels[factor.name]

    def numbers(self, factor: Numeric) -> list[tf.Tensor]:
        """The numbers of a factor, on the scale of the data."""
        if factor.name not in self._numbers:
            key = f"factor/{factor.name}"
            if key in self._tables:
                made = tf.unstack(self.looked_up(key, factor.column), factor.width, axis=1)
            else:
                made = transforms.apply(tnp, factor.learnt, tf.cast(self.stored(factor.column), tf.float64))
            self._numbers[factor.name] = made
        return self._numbers[factor.name]

    @cached_property
    def group(self) -> dict[tuple[str, ...], tf.Tensor]:
        """For each coding the group of coefficients of a row, or the negative reason why there is none."""
        made = {}
        for coding in self._design.codings:
            levels = [self.level(self._design.factors[name]) for name in coding]
            if len(coding) == 1:
                made[coding] = levels[0]
                continue
            sizes = [len(self._design.factors[name].levels) for name in coding]
            joint, lowest = 0, 0
            for level, size in zip(levels, sizes, strict=True):
                joint = joint * size + tf.maximum(level, 0)
                lowest = tf.minimum(lowest, level)
            positions = np.full(math.prod(sizes), UNSEEN, np.int32)
            positions[list(self._design.combinations[coding])] = np.arange(self._design.levels_of(coding))
            group = tf.gather(tf.constant(positions), joint)
            left = self.entry(f"group/{':'.join(coding)}", tf.maximum(group, 0))
            made[coding] = tf.where(lowest < 0, lowest, tf.where(group < 0, group, left))
        return made

    @cached_property
    def groups(self) -> dict[Hashable, tf.Tensor]:
        """The same, some group where there is none; and under CLUSTER the cluster."""
        made = {coding: tf.maximum(group, 0) for coding, group in self.group.items()}
        if self._design.cluster:
            made[CLUSTER] = tf.maximum(self.level(self._design.cluster), 0)
        return made

    @cached_property
    def flag(self) -> tf.Tensor:
        """0, or the negative reason why the row takes no part."""
        flag = tf.where(self._inside, self.looked_up("missing", MISSING), DROPPED)
        for group in self.group.values():
            flag = tf.minimum(flag, group)
        offset = [self._design.offset] if self._design.offset else []
        for factor in (*self._design.numeric, *offset):
            if transforms.may_fail(factor.learnt):
                finite = tf.math.is_finite(sum(self.numbers(factor)))
                flag = tf.where((flag >= 0) & ~finite, NOT_FINITE, flag)
        return flag

    @cached_property
    def outside(self) -> tf.Tensor:
        """Whether a number lies outside the range that a spline has learnt, and is taken for the end of it."""
        found = tf.zeros([BLOCK_ROWS], tf.bool)
        for factor in self._design.numeric:
            key = f"outside/{factor.name}"
            if key in self._tables:
                found |= self.looked_up(key, factor.column) > 0
            elif transforms.learns_range(factor.learnt):
                found |= transforms.is_outside(tnp, factor.learnt, tf.cast(self.stored(factor.column), tf.float64))
        return found & (self.flag >= 0)

    @cached_property
    def frequency(self) -> tf.Tensor:
        """How many rows it stands for: 0 for a row that takes no part."""
        kept = self.flag >= 0
        if self._design.frequency:
            kept &= self.number(self._design.frequency) > 0
        if self._design.weights:
            kept &= self.number(self._design.weights) > 0
        if self._design.trials:
            kept &= self.number(self._design.trials) > 0
        return self._where(kept, self.number(self._design.frequency) if self._design.frequency else None)

    def _where(self, kept: tf.Tensor, value: tf.Tensor | None) -> tf.Tensor:
        """The value, or 1; 0 where the row is not kept."""
        zeros = tf.zeros([BLOCK_ROWS], tf.float64)
        return tf.where(kept, zeros + 1.0 if value is None else value, zeros)

    @property
    def kept(self) -> tf.Tensor:
        return self.frequency > 0

    @cached_property
    def weight(self) -> tf.Tensor:
        """Its weight in the likelihood, were it one row: the prior weight times the number of trials."""
        weight = self._where(self.kept, None)
        for column in (self._design.weights, self._design.trials):
            if column:
                weight *= self._where(self.kept, self.number(column))
        return weight

    @cached_property
    def mass(self) -> tf.Tensor:
        """Its weight in the likelihood."""
        return self.frequency * self.weight

    @cached_property
    def y(self) -> tf.Tensor:
        """The response; of trials, the share of events."""
        if not self._design.response:
            return tf.zeros([BLOCK_ROWS], tf.float64)
        y = self.number(self._design.response)
        if self._design.trials:
            y /= self.number(self._design.trials)
        return self._where(self.kept, y)

    def multiplied(self, multiplier: Multiplier) -> tf.Tensor:
        """The product of these numbers on the scale of the fit."""
        if multiplier not in self._multiplied:
            value = None
            for name, which in multiplier.numbers:
                factor = self._design.factors[name]
                number = self.numbers(factor)[which] - (factor.center[which] if multiplier.centred else 0.0)
                number = self._where(self.flag >= 0, number / factor.scale[which])
                value = number if value is None else value * number
            self._multiplied[multiplier] = value
        return self._multiplied[multiplier]

    def prepare(self, coefficients, multipliers: Sequence[Multiplier]) -> None:
        """Make what the stages of a pass have in common. Within one of them it would be out of reach for the next.

        As the outcome of a condition, always true, because XLA would otherwise make all of it anew wherever some is used.
        """
        self.coefficients = coefficients
        names = ("frequency", "weight", "mass", "y")
        _ = self.flag, self.groups
        if self._design.offset:
            self.numbers(self._design.offset)
        zeros = tf.zeros([BLOCK_ROWS], tf.float64)
        made = tf.cond(
            self._count >= 0,
            lambda: [
                self._linear_predictor(coefficients),
                *(tf.identity(getattr(self, name)) for name in names),
                *(self.multiplied(one) for one in multipliers),
            ],
            lambda: [zeros] * (1 + len(names) + len(multipliers)),
        )
        self.eta, *made = made
        """The linear predictor."""
        for name in names:
            setattr(self, name, made.pop(0))
        self.multipliers = made

    def _linear_predictor(self, coefficients) -> tf.Tensor:
        eta = tf.zeros([BLOCK_ROWS], tf.float64)
        if self._design.offset:
            eta += self._where(self.flag >= 0, self.numbers(self._design.offset)[0])
        for part, of_part in zip(self._design.parts, self._by_part(coefficients), strict=True):
            found = tf.gather(of_part, self.groups[part.coding]) if part.coding else of_part[0]
            multiplier = Multiplier.of(self._design, part)
            eta += found * self.multiplied(multiplier) if multiplier else found
        return eta

    def _by_part(self, coefficients) -> list[tf.Tensor]:
        slices = self._design.slices
        return [
            coefficients[part.term.name][
                part.where.start - slices[part.term.name].start : part.where.stop - slices[part.term.name].start
            ]
            for part in self._design.parts
        ]


def table_keys(design: Design, signature: Signature) -> list[str]:
    """The names of the tables that a pass gets, in their order."""
    coded = {one.column for one in signature.inputs if one.coded}
    numbers = [design.response, design.weights, design.frequency, design.trials]
    factors = [*design.numeric, *([design.offset] if design.offset else [])]
    levels = [*design.categorical, *([design.cluster] if design.cluster else [])]
    return [
        "missing",
        *dict.fromkeys(f"number/{column}" for column in numbers if column in coded),
        *dict.fromkeys(f"factor/{factor.name}" for factor in factors if factor.column in coded),
        *(
            f"outside/{factor.name}"
            for factor in design.numeric
            if factor.column in coded and transforms.learns_range(factor.learnt)
        ),
        *dict.fromkeys(f"level/{factor.name}" for factor in levels),
        *(f"group/{':'.join(coding)}" for coding in design.codings if len(coding) > 1),
    ]
