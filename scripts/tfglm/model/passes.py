"""Passes: pure functions, compiled by XLA, that sum something over the rows of one shard.

The design matrix is never made. Every part of a term is a lookup, eta = sum over parts of number * table[group], and a block of
X'WX is a sum of weights by group, or by pair of groups. Everything that feeds a reported number is float64 (STATISTICS:
Precision).

The codes in a shard are local to its input file. A pass gets tables that map them to the levels of the design, or to numbers:
one gather. A negative level takes the row out and says why.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import tensorflow as tf
import tensorflow.experimental.numpy as tnp

from tfglm.data.dictionary import lacks
from tfglm.data.shards import BLOCK_ROWS, MISSING, IngestedFile
from tfglm.model import transforms
from tfglm.model.design import Categorical, Design, Numeric, Part
from tfglm.model.families import FAMILIES
from tfglm.model.parametrisation import is_centred

UNSEEN = -1
"""The row has a level that no training row has."""
SEPARATED = -2
"""The row has a level whose training responses are all alike: its coefficient is not finite."""
DROPPED = -3
"""The row lacks a value, or is not a row but padding."""

NOT_FINITE = -4
"""A function of the formula has no finite value for the row, as the logarithm of 0."""

Sums = dict[str, np.ndarray]
"""What a pass returns, summed: see `Passes` for the keys."""


@dataclass(frozen=True)
class Input:
    """A column as a pass reads it."""

    column: str
    dtype: str
    coded: bool
    table_size: int


@dataclass(frozen=True)
class Signature:
    """All that a compiled pass depends on besides the design: files that agree in it share the code."""

    capacity: int
    inputs: tuple[Input, ...]


def read_columns(signature: Signature, path: tf.Tensor, checksums: tf.Tensor) -> list[tf.Tensor]:
    """The columns of the shard in the folder `path`, [capacity] each, zeros after the last row.

    `checksums` are the expected ones, int64 [inputs, blocks]; another one found is an error that names file and block.
    """
    words, names = [], []
    for one in signature.inputs:
        name = tf.strings.join([path, one.column], "/")
        size = signature.capacity * np.dtype(one.dtype).itemsize
        words.append(tf.reshape(tf.io.decode_raw(tf.io.read_file(name), tf.int64, fixed_length=size), [size // 8]))
        names.append(name)
    wrong = tf.not_equal(_checksums(words, signature.capacity // BLOCK_ROWS), checksums)
    places = tf.where(wrong)
    tf.debugging.Assert(
        tf.equal(tf.shape(places)[0], 0),
        [
            "the content of a shard has changed since it was written:",
            tf.gather(tf.stack(names), places[:, 0]),
            f"in the blocks of {BLOCK_ROWS} rows with the numbers",
            places[:, 1],
        ],
    )
    return [
        tf.reshape(tf.bitcast(word, tf.as_dtype(one.dtype)), [signature.capacity])
        for word, one in zip(words, signature.inputs, strict=True)
    ]


@tf.function(jit_compile=True, autograph=False)
def _checksums(words: list[tf.Tensor], blocks: int) -> tf.Tensor:
    """As data.shards.checksums, [inputs, blocks]; zeros behind the end change nothing."""
    by_block = [tf.reshape(word, [blocks, -1]) for word in words]
    return tf.stack([tf.reduce_sum(word * (2 * tf.range(word.shape[1], dtype=tf.int64) + 1), 1) for word in by_block])


class Rows:
    """One block of rows of a shard. Each quantity, [rows], becomes part of the compiled pass when it is first asked for."""

    def __init__(self, design: Design, signature: Signature, start, rows, columns, tables):
        self._design, self._signature, self._start = design, signature, start
        self._columns = dict(zip((one.column for one in signature.inputs), columns, strict=True))
        self._tables = dict(zip(table_keys(design, signature), tables, strict=True))
        self._inside = start + tf.range(BLOCK_ROWS) < rows
        self._levels: dict[str, tf.Tensor] = {}
        self._numbers: dict[str, list[tf.Tensor]] = {}

    def stored(self, column: str) -> tf.Tensor:
        return tf.slice(self._columns[column], [self._start], [BLOCK_ROWS])

    def looked_up(self, key: str, column: str) -> tf.Tensor:
        return tf.gather(self._tables[key], tf.cast(self.stored(column), tf.int32))

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
            left = tf.gather(self._tables[f"group/{':'.join(coding)}"], tf.maximum(group, 0))
            made[coding] = tf.where(lowest < 0, lowest, tf.where(group < 0, group, left))
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

    @cached_property
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
        y = self.number(self._design.response)
        if self._design.trials:
            y /= self.number(self._design.trials)
        return self._where(self.kept, y)

    def multiplier(self, part: Part) -> tf.Tensor | None:
        """The number that multiplies a part, on the scale of the fit; None if there is none."""
        value, centred = None, is_centred(self._design, part)
        for name, which in part.multiplier:
            factor = self._design.factors[name]
            number = self.numbers(factor)[which] - (factor.center[which] if centred else 0.0)
            number = self._where(self.flag >= 0, number / factor.scale[which])
            value = number if value is None else value * number
        return value

    @cached_property
    def multipliers(self) -> list[tf.Tensor | None]:
        """That of each part of the design."""
        return [self.multiplier(part) for part in self._design.parts]

    @cached_property
    def x(self) -> tf.Tensor:
        """The numbers of the parts without groups, [parts, rows]."""
        ones = tf.ones([BLOCK_ROWS], tf.float64)
        return tf.stack(
            [ones if self.multipliers[k] is None else self.multipliers[k] for k in self._single] or [0 * ones]
        )

    @property
    def _single(self) -> list[int]:
        return [k for k, part in enumerate(self._design.parts) if not part.coding]

    def eta(self, coefficients) -> tf.Tensor:
        """The linear predictor."""
        eta = tf.zeros([BLOCK_ROWS], tf.float64)
        if self._design.offset:
            eta += self._where(self.flag >= 0, self.numbers(self._design.offset)[0])
        by_part = self._by_part(coefficients)
        if self._single:
            beta = tf.concat([by_part[k] for k in self._single], 0)
            eta += tf.reduce_sum(self.x * beta[:, None], 0)
        for k, part in enumerate(self._design.parts):
            if part.coding:
                found = tf.gather(by_part[k], tf.maximum(self.group[part.coding], 0))
                eta += found if self.multipliers[k] is None else found * self.multipliers[k]
        return eta

    def _by_part(self, coefficients) -> list[tf.Tensor]:
        slices = self._design.slices
        return [
            coefficients[part.term.name][
                part.where.start - slices[part.term.name].start : part.where.stop - slices[part.term.name].start
            ]
            for part in self._design.parts
        ]


def table_keys(design: Design, signature: "Signature") -> list[str]:
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


class Passes:
    """The passes of one design over shards of one signature.

    Each is called as `pass_(coefficients, path, rows, checksums, *tables)`: coefficients a dict of float64 arrays by
    term; the others as `Workload` makes them. Sums returned, where m is the mass of a row and k, j count the parts that
    have groups, S of all the others together:

    - `counts`: `rows`, `mass`, `response` (m * y), `saturated`, `base`, `out_of_range` (rows with an impossible response),
      `not_finite` (rows for which a function of the formula has no finite value), and by group of each coding c `rows_c`,
      `mass_c`, `response_c`
    - `gradient`: `loss`, `single` (derivative of the loss by the coefficients S), `part_k`
    - `information`: those, `pearson` (m * (y - mean)^2 / variance), and the blocks of X'WX: `single_single`, `single_k`,
      `own_k` (the diagonal), and of two parts either `nested_j_k` by the finer groups or `pair_j_k`
    - `squares`: these blocks with the squared score of a row for its weight, for robust standard errors
    - `scores`: the derivative of the loss by cluster, `single` [S, clusters] and `part_k` [clusters, groups]
    - `null`: `loss`, `score` and `weight` of a model with the intercept alone
    - `separation`, of a direction given in place of the coefficients: the number of rows whose linear predictor it moves
      towards their response (`along`) and away from it (`against`)
    - `predictions`, which returns rows instead of sums: `eta`, `response`, `flag`, `mass`, `outside`, each
      [capacity]
    """

    def __init__(self, design: Design, signature: Signature):
        self.design, self.signature = design, signature
        self.family = FAMILIES[design.family]
        self.unit = not (design.weights or design.frequency or design.trials)
        self.grouped = [k for k, part in enumerate(design.parts) if part.coding]
        self.single = [k for k, part in enumerate(design.parts) if not part.coding]
        self.counts = self._over_shard(self._count)
        self.gradient = self._over_shard(self._gradient)
        self.information = self._over_shard(self._information, self._stack_single)
        self.squares = self._over_shard(self._squares, self._stack_single)
        self.scores = self._over_shard(self._scores)
        self.null = self._over_shard(self._null)
        self.separation = self._over_shard(self._directions)
        self.predictions = self._predictions()

    def _over_shard(self, add, finish=lambda sums: sums):
        """A pass over all blocks of a shard; `add(sums, rows, coefficients)` adds a block, given `_Sums`."""

        @tf.function(jit_compile=True, autograph=False)
        def compiled(coefficients, rows, columns, tables):
            blocks = (rows + BLOCK_ROWS - 1) // BLOCK_ROWS

            def block(number):
                return Rows(self.design, self.signature, number * BLOCK_ROWS, rows, columns, tables)

            # Traced once only to learn the shapes of the sums; XLA drops it.
            shapes = _Sums(None)
            add(shapes, block(0), coefficients)
            nothing = {key: tf.zeros(shape, tf.float64) for key, shape in shapes.shapes.items()}

            def body(number, sums):
                added = _Sums(sums)
                add(added, block(number), coefficients)
                return number + 1, added.total

            return finish(tf.while_loop(lambda number, _: number < blocks, body, (0, nothing))[1])

        @tf.function(autograph=False)
        def over_shard(coefficients, path, rows, checksums, *tables):
            return compiled(coefficients, rows, read_columns(self.signature, path, checksums), tables)

        return over_shard

    def _predictions(self):
        @tf.function(jit_compile=True, autograph=False)
        def compiled(coefficients, rows, columns, tables):
            def one(number):
                block = Rows(self.design, self.signature, number * BLOCK_ROWS, rows, columns, tables)
                return block.eta(coefficients), block.y, block.flag, block.mass, block.outside

            made = tf.map_fn(
                one,
                tf.range(self.signature.capacity // BLOCK_ROWS),
                fn_output_signature=(tf.float64, tf.float64, tf.int32, tf.float64, tf.bool),
            )
            names = ("eta", "response", "flag", "mass", "outside")
            return {name: tf.reshape(value, [-1]) for name, value in zip(names, made, strict=True)}

        @tf.function(autograph=False)
        def predictions(coefficients, path, rows, checksums, *tables):
            return compiled(coefficients, rows, read_columns(self.signature, path, checksums), tables)

        return predictions

    def _count(self, sums: "_Sums", rows: Rows, coefficients) -> None:
        y, kept = rows.y, rows.kept
        zero = tf.zeros_like(y)
        impossible = (y > self.family.largest) | ((y < 0) & (self.design.family != "gaussian"))
        safe = tf.where(kept & ~impossible, y, zero)
        weight = tf.where(kept, rows.weight, tf.ones_like(y))
        counted = {"rows": rows.frequency, "mass": rows.mass, "response": rows.mass * y}
        for name, value in counted.items():
            sums.add(name, tf.reduce_sum(value))
        # Of a response of 0 and 1 both are 0, and logarithms of factorials cost as much as everything else together.
        counts = self.design.family != "binomial" or self.design.trials or self.design.weights
        sums.add(
            "saturated", tf.reduce_sum(rows.mass * self.family.saturated(safe)) if counts else tf.zeros([], tf.float64)
        )
        sums.add(
            "base",
            tf.reduce_sum(rows.frequency * self.family.base(safe, weight)) if counts else tf.zeros([], tf.float64),
        )
        sums.add("not_finite", tf.reduce_sum(tf.cast(rows.flag == NOT_FINITE, tf.float64)))
        sums.add("out_of_range", tf.reduce_sum(tf.cast(impossible & kept, tf.float64)))
        for number, coding in enumerate(self.design.codings):
            size = self.design.levels_of(coding)
            for name, value in counted.items():
                sums.scatter(f"{name}_{number}", size, tf.maximum(rows.group[coding], 0), value)

    def _gradient(self, sums: "_Sums", rows: Rows, coefficients) -> None:
        eta = rows.eta(coefficients)
        residual = self._residual(rows, eta)
        sums.add("loss", self.family.total_loss(eta, rows.y, rows.mass, self.unit))
        if self.single:
            sums.add("single", tf.linalg.matvec(rows.x, residual))
        for k in self.grouped:
            sums.scatter(f"part_{k}", *self._groups(rows, k), self._times(rows, k, residual))

    def _residual(self, rows: Rows, eta) -> tf.Tensor:
        """The derivative of the loss by the linear predictor of each row, times the mass."""
        return tf.where(rows.kept, self.family.mean(eta) - rows.y, 0.0) * rows.mass

    def _groups(self, rows: Rows, k: int) -> tuple[int, tf.Tensor]:
        part = self.design.parts[k]
        return part.size, tf.maximum(rows.group[part.coding], 0)

    def _times(self, rows: Rows, k: int, value: tf.Tensor) -> tf.Tensor:
        """A value times the multiplier of a part."""
        return value if rows.multipliers[k] is None else value * rows.multipliers[k]

    def _information(self, sums: "_Sums", rows: Rows, coefficients) -> None:
        eta = rows.eta(coefficients)
        mean = self.family.mean(eta)
        variance = tf.where(rows.kept, self.family.variance(mean), 1.0)
        residual = self._residual(rows, eta)
        sums.add("loss", self.family.total_loss(eta, rows.y, rows.mass, self.unit))
        # A variance that rounds to 0 belongs to a residual that does.
        share = tf.where(variance > 0, (rows.y - mean) ** 2 / tf.where(variance > 0, variance, 1.0), 0.0)
        sums.add("pearson", tf.reduce_sum(tf.where(rows.kept, share, 0.0) * rows.mass))
        self._products(sums, rows, variance * rows.mass, residual)

    def _squares(self, sums: "_Sums", rows: Rows, coefficients) -> None:
        eta = rows.eta(coefficients)
        score = tf.where(rows.kept, self.family.mean(eta) - rows.y, 0.0) * rows.weight
        self._products(sums, rows, rows.frequency * score**2)

    def _products(self, sums: "_Sums", rows: Rows, weight, residual=None) -> None:
        """The blocks of X' diag(weight) X, and X' residual."""
        if self.single:
            weighted = rows.x * weight[None]
            sums.add("single_single", tf.matmul(weighted, rows.x, transpose_b=True))
            if residual is not None:
                sums.add("single", tf.linalg.matvec(rows.x, residual))
        for k in self.grouped:
            # A scatter of several numbers at a place is slower than as many scatters.
            size, group = self._groups(rows, k)
            own = self._times(rows, k, weight)
            sums.scatter(f"own_{k}", size, group, self._times(rows, k, own))
            for number, x in enumerate(self._beside(rows, k)):
                sums.scatter(f"single_{k}_{number}", size, group, own * x)
            if residual is not None:
                sums.scatter(f"part_{k}", size, group, self._times(rows, k, residual))
        for j, k, nested in self._pairs:
            value = self._times(rows, j, self._times(rows, k, weight))
            if nested:
                sums.scatter(f"nested_{j}_{k}", *self._groups(rows, k if nested > 0 else j), value)
            else:
                (_, first), (size, second) = self._groups(rows, j), self._groups(rows, k)
                sums.scatter(f"pair_{j}_{k}", self.design.parts[j].size * size, first * size + second, value)

    def _own_is_first(self, k: int) -> bool:
        """Whether the diagonal of a part is its product with the intercept, and so the first of those with S."""
        return not self.design.parts[k].multiplier and self.design.intercept is not None

    def _beside(self, rows: Rows, k: int) -> list[tf.Tensor]:
        """The numbers of S whose products with a part need a table."""
        return tf.unstack(rows.x)[self._own_is_first(k) :] if self.single else []

    @cached_property
    def _pairs(self) -> list[tuple[int, int, int]]:
        """The pairs of parts that need a table, with how they are nested. One without multipliers that is nested needs none: it
        is the diagonal of the finer part."""
        parts = self.design.parts
        found = [(j, k, nesting(parts[j], parts[k])) for j, k in combinations(self.grouped, 2)]
        return [pair for pair in found if not pair[2] or parts[pair[0]].multiplier or parts[pair[1]].multiplier]

    def _stack_single(self, sums: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The sums with the products of S and a part as one matrix."""
        made = {key: value for key, value in sums.items() if not key.startswith("single_") or key == "single_single"}
        for k in self.grouped:
            first = [sums[f"own_{k}"]] if self._own_is_first(k) else []
            others = [sums[f"single_{k}_{number}"] for number in range(len(self.single) - len(first))]
            if self.single:
                made[f"single_{k}"] = tf.stack([*first, *others])
        return made

    def _scores(self, sums: "_Sums", rows: Rows, coefficients) -> None:
        cluster, clusters = rows.level(self.design.cluster), len(self.design.cluster.levels)
        residual = tf.where(cluster >= 0, self._residual(rows, rows.eta(coefficients)), 0.0)
        cluster = tf.maximum(cluster, 0)
        if self.single:
            sums.scatter("single", clusters, cluster, tf.transpose(rows.x * residual[None]))
        for k in self.grouped:
            size, group = self._groups(rows, k)
            sums.scatter(f"part_{k}", clusters * size, cluster * size + group, self._times(rows, k, residual))
        sums.scatter("rows", clusters, cluster, rows.frequency)

    def _null(self, sums: "_Sums", rows: Rows, coefficients) -> None:
        eta = coefficients["intercept"][0] + tf.zeros([BLOCK_ROWS], tf.float64)
        if self.design.offset:
            eta += tf.where(rows.kept, rows.numbers(self.design.offset)[0], 0.0)
        sums.add("loss", self.family.total_loss(eta, rows.y, rows.mass, self.unit))
        sums.add("score", tf.reduce_sum(self._residual(rows, eta)))
        sums.add("weight", tf.reduce_sum(self.family.variance(self.family.mean(eta)) * rows.mass))

    def _directions(self, sums: "_Sums", rows: Rows, direction) -> None:
        largest = tf.reduce_max(tf.abs(tf.concat(list(direction.values()), 0)))
        eta = rows.eta(direction)
        if self.design.offset:
            eta -= tf.where(rows.flag >= 0, rows.numbers(self.design.offset)[0], 0.0)
        # A row that a separating direction leaves where it is moves by the rounding error of the direction.
        up, down = ((sign * eta > 1e-6 * largest) & rows.kept for sign in (1.0, -1.0))
        along = (down & (rows.y == 0)) | (up & (rows.y == 1) & (self.design.family == "binomial"))
        sums.add("along", tf.reduce_sum(tf.cast(along, tf.float64)))
        sums.add("against", tf.reduce_sum(tf.cast((up | down) & ~along, tf.float64)))


def nesting(first: Part, second: Part) -> int:
    """1 if the groups of the second part divide those of the first, -1 the other way round, 0 if neither."""
    if set(first.coding) <= set(second.coding):
        return 1
    return -1 if set(second.coding) <= set(first.coding) else 0


class _Sums:
    """Sums by name while a block is added to them; without any, only their shapes are noted."""

    def __init__(self, total: Mapping[str, tf.Tensor] | None):
        self._known = total is not None
        self.total = dict(total or {})
        self.shapes: dict[str, list[int]] = {}

    def add(self, name: str, value: tf.Tensor) -> None:
        self.shapes[name] = value.shape.as_list()
        if self._known:
            self.total[name] = self.total[name] + value

    def scatter(self, name: str, size: int, where: tf.Tensor, value: tf.Tensor) -> None:
        """Add each row's value, a number or several, at its place in a table; in place, for it may be far larger than a block."""
        self.shapes[name] = [size, *value.shape[1:].as_list()]
        if self._known:
            self.total[name] = tf.tensor_scatter_nd_add(self.total[name], where[:, None], value)


class Workload:
    """The shards of one split as calls of a pass.

    `excluded` holds for some codings the groups (their numbers) whose rows take no part; `unseen` for some factors the level that
    stands for values which no training row has (else rows with such a value take no part). `share` is how much of each
    shard is used.
    """

    def __init__(
        self,
        design: Design,
        files: Sequence[IngestedFile],
        split: str,
        excluded: Mapping[tuple[str, ...], frozenset[int]] | None = None,
        unseen: Mapping[str, int] | None = None,
        share: float = 1.0,
    ):
        self.design, self.files, self.split = design, files, split
        self.excluded, self.unseen, self.share = dict(excluded or {}), dict(unseen or {}), share
        self._passes: dict[Signature, Passes] = {}

    def without(self, excluded: Mapping[tuple[str, ...], frozenset[int]]) -> "Workload":
        """The same shards with other groups left out."""
        return self._changed(excluded, self.share)

    def sampled(self, share: float) -> "Workload":
        """The first rows of each shard, which are a fair sample of it."""
        return self._changed(self.excluded, share)

    def _changed(self, excluded: Mapping[tuple[str, ...], frozenset[int]], share: float) -> "Workload":
        other = Workload(self.design, self.files, self.split, excluded, self.unseen, share)
        other._passes = self._passes  # compiled once for both
        return other

    def passes(self, signature: Signature) -> Passes:
        """The passes for shards of this signature, traced once."""
        if signature not in self._passes:
            self._passes[signature] = Passes(self.design, signature)
        return self._passes[signature]

    def sum(self, pool, name: str, coefficients: Mapping[str, np.ndarray]) -> Sums:
        """Sum the pass `name` over all rows. The order of the shards alone decides the order of the additions."""
        total: Sums = {}
        for signature, calls in self.calls.items():
            part = pool.sum(getattr(self.passes(signature), name), calls, dict(coefficients))
            total = {key: total[key] + value if total else value for key, value in part.items()}
        return total

    @cached_property
    def calls(self) -> dict[Signature, list[tuple]]:
        """The arguments (path, rows, checksums, *tables) for each shard, by signature."""
        made: dict[Signature, list[tuple]] = {}
        for file in self.files:
            signature = self.signature(file)
            tables = [self.table(file, signature, key) for key in table_keys(self.design, signature)]
            for shard, checksums in file.shard_checksums():
                if shard.split == self.split:
                    arguments = (
                        str((file.folder / shard.path).resolve()),
                        np.int32(math.ceil(self.share * shard.rows)),
                        _expected(file, checksums, signature),
                    )
                    made.setdefault(signature, []).append((*arguments, *tables))
        return made

    def signature(self, file: IngestedFile) -> Signature:
        inputs = []
        for name in (MISSING, *self.design.columns):
            column = file.column(name)
            size = 1
            while column.coded and size <= len(file.values(name)):
                size *= 2
            inputs.append(Input(name, column.dtype, column.coded, size))
        return Signature(file.manifest.capacity, tuple(inputs))

    def table(self, file: IngestedFile, signature: Signature, key: str) -> np.ndarray:
        """What each code of a column stands for, as `table_keys` names it."""
        sizes = {one.column: one.table_size for one in signature.inputs}
        if key == "missing":
            patterns = [DROPPED if lacks(pattern, self.design.required) else 0 for pattern in file.values(MISSING)]
            return padded([0, *patterns], sizes[MISSING], np.int32)
        what, name = key.split("/", 1)
        if what == "group":
            coding = next(one for one in self.design.codings if ":".join(one) == name)
            groups = np.arange(self.design.levels_of(coding), dtype=np.int32)
            groups[sorted(self.excluded.get(coding, ()))] = SEPARATED
            return groups
        if what == "number":
            return padded([np.nan, *file.values(name)], sizes[name], np.float64)
        if what == "level":
            factor = next(one for one in (*self.design.categorical, self.design.cluster) if one and one.name == name)
            return padded(self.level_codes(factor, [None, *file.values(factor.column)]), sizes[factor.column], np.int32)
        factor = next(one for one in (*self.design.numeric, self.design.offset) if one and one.name == name)
        with np.errstate(all="ignore"):
            values = np.array([np.nan, *file.values(factor.column)], float)
            if what == "outside":
                return padded(transforms.is_outside(np, factor.learnt, values), sizes[factor.column], np.float64)
            columns = np.stack(transforms.apply(np, factor.learnt, values), 1)
        return padded(columns, sizes[factor.column], np.float64)

    def level_codes(self, factor: Categorical, values: list) -> list[int]:
        """The number of each value (None: a missing one) among the levels of a factor, or why it takes no part."""
        replaced = dict.fromkeys(self.excluded.get((factor.name,), ()), SEPARATED)
        unseen = self.unseen.get(factor.name, UNSEEN)
        found = [factor.number(value, unseen) for value in values]
        return [replaced.get(number, number) for number in found]


def padded(entries, size: int, dtype) -> np.ndarray:
    """The entries in a table of that size, zeros behind."""
    entries = np.asarray(entries, dtype)
    table = np.zeros((size, *entries.shape[1:]), dtype)
    table[: len(entries)] = entries
    return table


def _expected(file: IngestedFile, checksums: np.ndarray, signature: Signature) -> np.ndarray:
    """The checksums of the columns of one shard, given as [blocks, columns], as `read_columns` wants them."""
    positions = {column.name: position for position, column in enumerate(file.manifest.columns)}
    padded = np.zeros((len(signature.inputs), signature.capacity // BLOCK_ROWS), np.int64)
    padded[:, : len(checksums)] = checksums[:, [positions[one.column] for one in signature.inputs]].T
    return padded
