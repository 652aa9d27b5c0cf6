"""Passes: pure functions, compiled by XLA, that sum something over the rows of one shard.

The design matrix is never made. Every term is a lookup, eta = sum_t x_t * beta_t[code_t], and a block of X'WX is a sum of
weights by code, or by pair of codes. Everything that feeds a reported number is float64 (STATISTICS: Precision).

The codes in a shard are local to its input file. A pass gets a table for each column that maps them to the levels of the
design, or to the number that the term multiplies: one gather. A negative entry takes the row out and says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tensorflow as tf

from tfglm.data.dictionary import label, lacks
from tfglm.data.shards import BLOCK_ROWS, MISSING, IngestedFile
from tfglm.model.design import Design, Term
from tfglm.model.families import FAMILIES

UNSEEN = -1
"""The row has a level that no training row has."""
SEPARATED = -2
"""The row has a level whose training responses are all alike: its coefficient is not finite."""
DROPPED = -3
"""The row lacks a value, or is not a row but padding."""

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


@tf.function(jit_compile=True)
def _checksums(words: list[tf.Tensor], blocks: int) -> tf.Tensor:
    """As data.shards.checksums, [inputs, blocks]; zeros behind the end change nothing."""
    by_block = [tf.reshape(word, [blocks, -1]) for word in words]
    return tf.stack([tf.reduce_sum(word * (2 * tf.range(word.shape[1], dtype=tf.int64) + 1), 1) for word in by_block])


@dataclass(frozen=True)
class Block:
    """Some rows ready for arithmetic, all of shape [rows].

    `keep` is 1.0 for rows that take part and 0.0 for the others, whose remaining entries are harmless; `flag` says why
    not. `x` is [numeric terms, rows], the intercept's ones first; `codes` one int32 tensor for each categorical term.
    """

    keep: tf.Tensor
    flag: tf.Tensor
    y: tf.Tensor
    x: tf.Tensor
    codes: list[tf.Tensor]


class Passes:
    """The passes of one design over shards of one signature.

    Each is called as `pass_(coefficients, path, rows, checksums, *tables)`: coefficients a dict of float64 arrays by
    term; the others as `Workload` makes them. Sums returned:

    - `counts`: `rows`, `response`, and for the k-th categorical term `rows_k`, `response_k`, each by level
    - `gradient`: `loss`, `numeric` (derivative of the loss by the numeric terms), `categorical_k`
    - `information`: those and the blocks of X'WX: `numeric_numeric`, `numeric_k`, `pair_j_k` for j < k
    - `separation`, of a direction given in place of the coefficients, for a response of 0 and 1: the number of rows whose
      linear predictor it moves towards their response (`along`) and away from it (`against`)
    - `predictions`, which returns rows instead of sums: `eta`, `response`, `flag`, each [capacity]
    """

    def __init__(self, design: Design, signature: Signature):
        self.design, self.signature = design, signature
        self.family = FAMILIES[design.family]
        self.sizes = [term.size for term in design.categorical]
        self.counts = self._over_shard(self._count, self._no_counts)
        self.gradient = self._over_shard(self._add_gradient, self._no_gradient)
        self.information = self._over_shard(self._add_information, self._no_information)
        self.separation = self._over_shard(self._count_directions, self._no_directions)
        self.predictions = self._predictions()

    def _over_shard(self, add, nothing):
        """A pass over all blocks of a shard that starts with `nothing()` and adds a block with `add(sums, ...)`."""

        @tf.function(jit_compile=True)
        def compiled(coefficients, rows, columns, tables):
            blocks = (rows + BLOCK_ROWS - 1) // BLOCK_ROWS

            def body(number, sums):
                return number + 1, add(sums, coefficients, self._block(number, rows, columns, tables))

            return tf.while_loop(lambda number, _: number < blocks, body, (0, nothing()))[1]

        @tf.function
        def over_shard(coefficients, path, rows, checksums, *tables):
            return compiled(coefficients, rows, read_columns(self.signature, path, checksums), tables)

        return over_shard

    def _predictions(self):
        @tf.function(jit_compile=True)
        def compiled(coefficients, rows, columns, tables):
            def one(number):
                block = self._block(number, rows, columns, tables)
                return self._eta(coefficients, block), block.y, block.flag

            eta, y, flag = tf.map_fn(
                one,
                tf.range(self.signature.capacity // BLOCK_ROWS),
                fn_output_signature=(tf.float64, tf.float64, tf.int32),
            )
            return {"eta": tf.reshape(eta, [-1]), "response": tf.reshape(y, [-1]), "flag": tf.reshape(flag, [-1])}

        @tf.function
        def predictions(coefficients, path, rows, checksums, *tables):
            return compiled(coefficients, rows, read_columns(self.signature, path, checksums), tables)

        return predictions

    def _block(self, number, rows, columns, tables) -> Block:
        start = number * BLOCK_ROWS
        inputs = {one.column: index for index, one in enumerate(self.signature.inputs)}

        def stored(column):
            return tf.slice(columns[inputs[column]], [start], [BLOCK_ROWS])

        # The tables come in the order in which `Workload.tables` makes them: missing, response, terms.
        remaining = iter(tables)

        def looked_up(column):
            one = self.signature.inputs[inputs[column]]
            return tf.gather(next(remaining), tf.cast(stored(column), tf.int32)) if one.coded else None

        flag = tf.where(start + tf.range(BLOCK_ROWS) < rows, looked_up(MISSING), DROPPED)
        y = looked_up(self.design.response)
        if y is None:
            y = tf.cast(stored(self.design.response), tf.float64)
        x, codes = [], []
        for term in self.design.terms[1:]:
            value = looked_up(term.column)
            if term.kind == "categorical":
                flag = tf.minimum(flag, value)
                codes.append(tf.maximum(value, 0))
            else:
                x.append(
                    (tf.cast(stored(term.column), tf.float64) - term.center) / term.scale if value is None else value
                )
        kept = flag >= 0
        zero = tf.zeros([], tf.float64)
        return Block(
            tf.cast(kept, tf.float64),
            flag,
            tf.where(kept, y, zero),
            tf.stack([tf.ones([BLOCK_ROWS], tf.float64), *(tf.where(kept, one, zero) for one in x)]),
            codes,
        )

    def _eta(self, coefficients, block: Block):
        beta = tf.concat([coefficients[term.name] for term in self.design.numeric], 0)
        eta = tf.reduce_sum(block.x * beta[:, None], 0)
        for term, code in zip(self.design.categorical, block.codes, strict=True):
            eta += tf.gather(coefficients[term.name], code)
        return eta

    def _by_level(self, values, block: Block, which: int):
        return tf.math.unsorted_segment_sum(values, block.codes[which], self.sizes[which])

    def _no_counts(self):
        by_level = {f"{what}_{k}": tf.zeros(size, tf.float64) for k, size in enumerate(self.sizes) for what in _COUNTED}
        return {what: tf.zeros([], tf.float64) for what in _COUNTED} | by_level

    def _count(self, sums, coefficients, block: Block):
        values = dict(zip(_COUNTED, (block.keep, block.y), strict=True))
        added = {what: tf.reduce_sum(value) for what, value in values.items()}
        added |= {
            f"{what}_{k}": self._by_level(values[what], block, k) for k in range(len(self.sizes)) for what in values
        }
        return _add(sums, added)

    def _no_directions(self):
        return {"along": tf.zeros([], tf.float64), "against": tf.zeros([], tf.float64)}

    def _count_directions(self, sums, direction, block: Block):
        moved = (2 * block.y - 1) * self._eta(direction, block) * block.keep
        largest = tf.reduce_max(tf.abs(tf.concat(list(direction.values()), 0)))
        # A row that a separating direction leaves where it is moves by the rounding error of the direction.
        moves = {"along": moved > 1e-6 * largest, "against": moved < -1e-6 * largest}
        return _add(sums, {key: tf.reduce_sum(tf.cast(rows, tf.float64)) for key, rows in moves.items()})

    def _no_gradient(self):
        return {
            "loss": tf.zeros([], tf.float64),
            "numeric": tf.zeros(len(self.design.numeric), tf.float64),
            **{f"categorical_{k}": tf.zeros(size, tf.float64) for k, size in enumerate(self.sizes)},
        }

    def _add_gradient(self, sums, coefficients, block: Block):
        eta = self._eta(coefficients, block)
        residual = (self.family.mean(eta) - block.y) * block.keep
        return _add(
            sums,
            {
                "loss": tf.reduce_sum(self.family.loss(eta, block.y) * block.keep),
                "numeric": tf.linalg.matvec(block.x, residual),
                **{f"categorical_{k}": self._by_level(residual, block, k) for k in range(len(self.sizes))},
            },
        )

    def _no_information(self):
        numeric = len(self.design.numeric)
        blocks = {"numeric_numeric": tf.zeros([numeric, numeric], tf.float64)}
        blocks |= {f"numeric_{k}": tf.zeros([numeric, size], tf.float64) for k, size in enumerate(self.sizes)}
        blocks |= {f"pair_{j}_{k}": tf.zeros(self.sizes[j] * self.sizes[k], tf.float64) for j, k in self._pairs()}
        return self._no_gradient() | blocks

    def _add_information(self, sums, coefficients, block: Block):
        gradient_keys = self._no_gradient().keys()
        gradient = self._add_gradient({key: sums[key] for key in gradient_keys}, coefficients, block)
        weight = self.family.weight(self.family.mean(self._eta(coefficients, block))) * block.keep
        weighted = block.x * weight[None]
        added = {"numeric_numeric": tf.matmul(weighted, block.x, transpose_b=True)}
        for k in range(len(self.sizes)):
            added[f"numeric_{k}"] = tf.stack([self._by_level(one, block, k) for one in tf.unstack(weighted)])
        result = gradient | _add({key: sums[key] for key in added}, added)
        for j, k in self._pairs():
            # Added in place: a table of pairs is far larger than a block.
            pair = block.codes[j] * self.sizes[k] + block.codes[k]
            result[f"pair_{j}_{k}"] = tf.tensor_scatter_nd_add(sums[f"pair_{j}_{k}"], pair[:, None], weight)
        return result

    def _pairs(self) -> list[tuple[int, int]]:
        return [(j, k) for k in range(len(self.sizes)) for j in range(k)]


_COUNTED = ("rows", "response")


def _add(sums, added):
    return {key: sums[key] + added[key] for key in added}


class Workload:
    """The shards of one split as calls of a pass.

    `excluded` holds for each categorical term the levels (their numbers) whose rows take no part; `unseen` for some terms the
    level that stands for values which no training row has (else rows with such a value take no part).
    """

    def __init__(
        self,
        design: Design,
        files: Sequence[IngestedFile],
        split: str,
        excluded: Mapping[str, frozenset[int]] | None = None,
        unseen: Mapping[str, int] | None = None,
    ):
        self.design, self.files, self.split = design, files, split
        self.excluded, self.unseen = dict(excluded or {}), dict(unseen or {})
        self._passes: dict[Signature, Passes] = {}

    def without(self, excluded: Mapping[str, frozenset[int]]) -> "Workload":
        """The same shards with other levels left out."""
        other = Workload(self.design, self.files, self.split, excluded, self.unseen)
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
            tables = self.tables(file, signature)
            for shard, checksums in file.shard_checksums():
                if shard.split == self.split:
                    arguments = (
                        str((file.folder / shard.path).resolve()),
                        np.int32(shard.rows),
                        _expected(file, checksums, signature),
                    )
                    made.setdefault(signature, []).append((*arguments, *tables))
        return made

    def signature(self, file: IngestedFile) -> Signature:
        columns = dict.fromkeys([MISSING, self.design.response, *(term.column for term in self.design.terms[1:])])
        inputs = []
        for name in columns:
            column = file.column(name)
            size = 1
            while column.coded and size <= len(file.values(name)):
                size *= 2
            inputs.append(Input(name, column.dtype, column.coded, size))
        return Signature(file.manifest.capacity, tuple(inputs))

    def tables(self, file: IngestedFile, signature: Signature) -> list[np.ndarray]:
        """The table of each use of a coded column: missing values, response, terms."""
        inputs = {one.column: one for one in signature.inputs}

        def padded(column: str, entries, dtype, missing=0) -> np.ndarray:
            table = np.zeros(inputs[column].table_size, dtype)
            table[0] = missing
            table[1 : len(entries) + 1] = entries
            return table

        required = self.design.required
        patterns = [DROPPED if lacks(pattern, required) else 0 for pattern in file.values(MISSING)]
        made = [padded(MISSING, patterns, np.int32)]
        response = self.design.response
        if inputs[response].coded:
            made.append(padded(response, file.values(response), np.float64))
        for term in self.design.terms[1:]:
            if term.kind == "categorical":
                missing, *codes = self.level_codes(term, [None, *file.values(term.column)])
                made.append(padded(term.column, codes, np.int32, missing))
            elif inputs[term.column].coded:
                multipliers = (np.array(file.values(term.column)) - term.center) / term.scale
                made.append(padded(term.column, multipliers, np.float64))
        return made

    def level_codes(self, term: Term, values: list) -> list[int]:
        """The number of each value (None: a missing one) among the levels of the term, or why it takes no part."""
        numbers = term.numbers
        replaced = dict.fromkeys(self.excluded.get(term.name, ()), SEPARATED)
        unseen = self.unseen.get(term.name, UNSEEN)
        found = [numbers.get(None if value is None else label(value, term.column_kind), unseen) for value in values]
        return [replaced.get(number, number) for number in found]


def _expected(file: IngestedFile, checksums: np.ndarray, signature: Signature) -> np.ndarray:
    """The checksums of the columns of one shard, given as [blocks, columns], as `read_columns` wants them."""
    positions = {column.name: position for position, column in enumerate(file.manifest.columns)}
    padded = np.zeros((len(signature.inputs), signature.capacity // BLOCK_ROWS), np.int64)
    padded[:, : len(checksums)] = checksums[:, [positions[one.column] for one in signature.inputs]].T
    return padded
