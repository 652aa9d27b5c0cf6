"""Passes: pure functions, compiled by XLA, that sum something over the rows of a few shards.

The design matrix is never made. Every part of a term is a lookup, eta = sum over parts of number * table[group], and a block of
X'WX is a sum of weights by group, or by pair of groups. Everything that feeds a reported number is float64 (STATISTICS:
Precision).
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement

import numpy as np
import tensorflow as tf

from tfglm.data.shards import BLOCK_ROWS
from tfglm.model.design import Design, Part
from tfglm.model.families import FAMILIES
from tfglm.model.rows import CLUSTER, NOT_FINITE, UNDAMAGED, Multiplier, Rows, Signature, compiled_with_files
from tfglm.model.sums import COLUMNS, Layout, Sum

Sums = dict[str, np.ndarray]
"""What a pass returns, summed: see `Passes` for the keys."""

Values = dict[str, tf.Tensor]


COUNTS, GRADIENT, INFORMATION, SQUARES = range(4)
"""What the one function that XLA compiles for a fit is asked for. It takes seconds to compile, the greater part of them for what
the passes have in common."""


@dataclass(frozen=True, eq=False)
class Stage:
    """Sums that are made together of values, `values(rows, mode)`, if the mode is one of `modes`."""

    modes: tuple[int, ...]
    layout: Layout
    values: Callable[..., Values]


@dataclass(frozen=True, eq=False)
class Pass:
    """A compiled function `(coefficients, mode, paths, checksums, blocks, counts, *tables)`, the mode to call it with, and what
    is in the vector that it returns: one after the other, the sums of these layouts."""

    function: Callable[..., tf.Tensor]
    mode: int
    layouts: tuple[Layout, ...]

    @property
    def size(self) -> int:
        return sum(layout.size for layout in self.layouts)

    def unpack(self, vector: np.ndarray) -> Sums:
        """The sums by name."""
        parts = np.split(vector, np.cumsum([layout.size for layout in self.layouts])[:-1])
        return {
            name: value
            for layout, part in zip(self.layouts, parts, strict=True)
            for name, value in layout.unpack(part).items()
        }


class Passes:
    """The passes of one design over shards of one signature.

    Their arguments: coefficients, a dict of float64 arrays by term; the others as `Workload` makes them. Their sums, where m is
    the mass of a row, s and t count the parts without groups, k and j those with groups:

    - `counts`: `rows`, `mass`, `response` (m * y), `saturated`, `base`, `out_of_range` (rows with an impossible response),
      `not_finite` (rows for which a function of the formula has no finite value), and by group of each coding c `rows_c`,
      `mass_c`, `response_c`
    - `gradient`: `loss` and its derivative by the coefficients, `part_s` and `part_k`; `pearson` (m * (y - mean)^2 / variance)
    - `information`: those, and the blocks of X'WX: `pair_s_t` with s <= t, `single_s_k`,
      `own_k` (the diagonal), and of two parts either `nested_j_k` by the finer groups or `pair_j_k`
    - `squares`: these blocks with the squared score of a row for its weight, for robust standard errors
    - `scores`: the derivative of the loss by cluster, `part_s` [clusters] and `part_k` [clusters, groups]; `rows`
    - `null`: `loss`, `residual` and `weight`, its derivatives by the linear predictor, for the model with the intercept alone
    - `separation`, of a direction given in place of the coefficients: the number of rows whose linear predictor it moves
      towards their response (`along`) and away from it (`against`)

    `predictions` is a function of the same arguments that returns rows instead of sums: `eta`, `response`, `flag`, `mass`,
    `outside`, each [blocks * BLOCK_ROWS] in the order of the blocks. `rows_of_design` returns `eta`, `flag`, `outside`, and what
    a row of the design matrix consists of: `groups` [rows, codings], and the product of the numbers of each part as the fit has
    them, `multipliers` [rows, parts].
    """

    def __init__(self, design: Design, signature: Signature):
        self.design, self.signature = design, signature
        self.family = FAMILIES[design.family]
        self.unit = not (design.weights or design.frequency or design.trials)
        self.single = [k for k, part in enumerate(design.parts) if not part.coding]
        self.grouped = [k for k, part in enumerate(design.parts) if part.coding]
        multipliers = [Multiplier.of(design, part) for part in design.parts]
        self._multipliers = list(dict.fromkeys(one for one in multipliers if one))
        self._numbers = [(self._multipliers.index(one),) if one else () for one in multipliers]

        # Without weights a row's mass is the row.
        counted = {"rows": "rows", "mass": "rows" if self.unit else "mass", "response": "response"}
        counts = {name: Sum(value) for name, value in counted.items()}
        counts |= {name: Sum(name) for name in ("saturated", "base", "out_of_range", "not_finite")}
        for number, coding in enumerate(design.codings):
            counts |= {f"{name}_{number}": Sum(value, (), (coding,)) for name, value in counted.items()}
        first = {name: Sum(name) for name in ("loss", "pearson")}
        stages = [
            self._stage((COUNTS,), counts, self._count),
            self._stage((GRADIENT, INFORMATION), {**first, **self._derivative()}, self._first),
            self._stage((INFORMATION, SQUARES), self._products(), self._second),
        ]
        modes = (COUNTS, GRADIENT, INFORMATION, SQUARES)
        self.counts, self.gradient, self.information, self.squares = self._passes(stages, modes)

    @cached_property
    def scores(self) -> Pass:
        sums = {"rows": Sum("rows", (), (CLUSTER,)), **self._derivative(CLUSTER)}
        return self._alone(sums, self._of_clusters)

    @cached_property
    def null(self) -> Pass:
        return self._alone({name: Sum(name) for name in ("loss", "residual", "weight")}, self._of_null)

    @cached_property
    def separation(self) -> Pass:
        return self._alone({name: Sum(name) for name in ("along", "against")}, self._directions)

    def _stage(self, modes: tuple[int, ...], sums: dict[str, Sum], values: Callable) -> Stage:
        sizes: dict[Hashable, int] = {coding: self.design.levels_of(coding) for coding in self.design.codings}
        if self.design.cluster:
            sizes[CLUSTER] = len(self.design.cluster.levels)
        return Stage(modes, Layout(sums, sizes), values)

    def _alone(self, sums: dict[str, Sum], values: Callable) -> Pass:
        return self._passes([self._stage((0,), sums, values)], (0,))[0]

    def _derivative(self, *by: Hashable) -> dict[str, Sum]:
        return {
            f"part_{k}": Sum("residual", self._numbers[k], (*by, *self._coding(part)))
            for k, part in enumerate(self.design.parts)
        }

    def _coding(self, part: Part) -> tuple[Hashable, ...]:
        return (part.coding,) if part.coding else ()

    def _products(self) -> dict[str, Sum]:
        """The blocks of X' diag(weight) X."""
        parts = self.design.parts
        made = {}

        def put(name: str, j: int, k: int, groups: tuple[Hashable, ...]) -> None:
            made[name] = Sum("weight", (*self._numbers[j], *self._numbers[k]), groups)

        for s, t in combinations_with_replacement(self.single, 2):
            put(f"pair_{s}_{t}", s, t, ())
        for k in self.grouped:
            put(f"own_{k}", k, k, (parts[k].coding,))
            for s in self.single:
                put(f"single_{s}_{k}", s, k, (parts[k].coding,))
        for j, k in combinations(self.grouped, 2):
            nested = nesting(parts[j], parts[k])
            if nested:
                put(f"nested_{j}_{k}", j, k, (parts[k if nested > 0 else j].coding,))
            else:
                put(f"pair_{j}_{k}", j, k, (parts[j].coding, parts[k].coding))
        return made

    def _passes(self, stages: Sequence[Stage], modes: Sequence[int]) -> list[Pass]:
        """A pass for each mode."""

        def wanted(stage, mode):
            return tf.reduce_any([tf.equal(mode, one) for one in stage.modes])

        def add_up(coefficients, mode, columns, blocks, counts, tables):
            def add(stage, rows, sections):
                names = stage.layout.values

                def values():
                    made = stage.values(rows, mode)
                    return [made[name] for name in names]

                def zeros():
                    return [tf.zeros([COLUMNS if name == "loss" else BLOCK_ROWS], tf.float64) for name in names]

                made = dict(zip(names, tf.cond(wanted(stage, mode), values, zeros), strict=True))

                def once(turn, *sections):
                    return turn + 1, *stage.layout.add(sections, made, rows.multipliers, rows.groups)

                # A loop of one turn or none, since XLA copies the sections if they go through a condition.
                return tf.while_loop(
                    lambda turn, *_: turn < tf.cast(wanted(stage, mode), tf.int32), once, (0, *sections)
                )[1:]

            def block(number, damaged, sections):
                rows = Rows(
                    self.design, self.signature, tf.gather(blocks, number), tf.gather(counts, number), columns, tables
                )
                rows.prepare(coefficients, self._multipliers)
                added = [add(stage, rows, of_stage) for stage, of_stage in zip(stages, sections, strict=True)]
                return number + 1, tf.minimum(damaged, rows.damaged), added

            used = tf.math.count_nonzero(counts, dtype=tf.int32)
            begin = (0, tf.constant(UNDAMAGED, tf.int64), [stage.layout.nothing() for stage in stages])
            _, damaged, sections = tf.while_loop(lambda number, *_: number < used, block, begin)
            return damaged, [stage.layout.finished(of_stage) for stage, of_stage in zip(stages, sections, strict=True)]

        everything = compiled_with_files(self.signature, add_up)

        # One function for all modes: a worker compiles anew for each that it is sent, whatever they have in common.
        @tf.function(autograph=False)
        def function(coefficients, mode, *call):
            sums = zip(stages, everything(coefficients, mode, *call), strict=True)
            wanted_only = [
                tf.cond(wanted(stage, mode), lambda part=part: part, lambda part=part: part[:0])
                for stage, parts in sums
                for part in parts
            ]
            return tf.concat(wanted_only, 0)

        return [Pass(function, mode, tuple(stage.layout for stage in stages if mode in stage.modes)) for mode in modes]

    @cached_property
    def predictions(self) -> Callable[..., dict[str, tf.Tensor]]:
        names = {"eta": tf.float64, "response": tf.float64, "flag": tf.int32, "mass": tf.float64, "outside": tf.bool}
        return self._by_row(names, lambda rows: (rows.eta, rows.y, rows.flag, rows.mass, rows.outside))

    @cached_property
    def rows_of_design(self) -> Callable[..., dict[str, tf.Tensor]]:
        names = {"eta": tf.float64, "flag": tf.int32, "outside": tf.bool, "groups": tf.int32, "multipliers": tf.float64}

        def of_rows(rows):
            none = tf.zeros([BLOCK_ROWS, 0])
            groups = [rows.groups[coding] for coding in self.design.codings]
            ones = tf.ones([BLOCK_ROWS], tf.float64)
            made = dict(zip(self._multipliers, rows.multipliers, strict=True))
            products = [made.get(Multiplier.of(self.design, part), ones) for part in self.design.parts]
            groups = tf.stack(groups, 1) if groups else tf.cast(none, tf.int32)
            return rows.eta, rows.flag, rows.outside, groups, tf.stack(products, 1)

        return self._by_row(names, of_rows)

    def _by_row(self, names: dict[str, tf.DType], of_rows: Callable) -> Callable[..., dict[str, tf.Tensor]]:
        def predict(coefficients, mode, columns, blocks, counts, tables):
            def one(block):
                rows = Rows(self.design, self.signature, *block, columns, tables)
                rows.prepare(coefficients, self._multipliers)
                return rows.damaged, *of_rows(rows)

            damaged, *made = tf.map_fn(one, (blocks, counts), fn_output_signature=(tf.int64, *names.values()))
            flat = {name: tf.reshape(value, [-1, *value.shape[2:]]) for name, value in zip(names, made, strict=True)}
            return tf.reduce_min(damaged), flat

        return compiled_with_files(self.signature, predict)

    def _count(self, rows: Rows, mode) -> Values:
        y, zero = rows.y, tf.zeros_like(rows.y)
        impossible = (y > self.family.largest) | ((y < 0) & (self.design.family != "gaussian"))
        safe = tf.where(rows.kept & ~impossible, y, zero)
        weight = tf.where(rows.kept, rows.weight, tf.ones_like(y))
        # Of a response of 0 and 1 both are 0, and logarithms of factorials cost as much as everything else together.
        counts = self.design.family != "binomial" or self.design.trials or self.design.weights
        return {
            "rows": rows.frequency,
            "mass": rows.mass,
            "response": rows.mass * y,
            "saturated": rows.mass * self.family.saturated(safe) if counts else zero,
            "base": rows.frequency * self.family.base(safe, weight) if counts else zero,
            "not_finite": tf.cast(rows.flag == NOT_FINITE, tf.float64),
            "out_of_range": tf.cast(impossible & rows.kept, tf.float64),
        }

    def _first(self, rows: Rows, mode) -> Values:
        """The loss, and its derivative by the linear predictor."""
        mean = self.family.mean(rows.eta)
        difference = tf.where(rows.kept, mean - rows.y, 0.0)
        variance = self.family.variance(mean)
        # A variance that rounds to 0 belongs to a residual that does.
        share = tf.where(rows.kept & (variance > 0), difference**2 / tf.where(variance > 0, variance, 1.0), 0.0)
        loss = self.family.total_loss(rows.eta, rows.y, rows.mass, self.unit)
        return {"loss": loss, "pearson": share * rows.mass, "residual": difference * rows.mass}

    def _second(self, rows: Rows, mode) -> Values:
        """The second derivative, or the square of the first."""
        mean = self.family.mean(rows.eta)
        variance = tf.where(rows.kept, self.family.variance(mean), 1.0)
        squares = rows.frequency * (tf.where(rows.kept, mean - rows.y, 0.0) * rows.weight) ** 2
        return {"weight": tf.where(tf.equal(mode, SQUARES), squares, variance * rows.mass)}

    def _residual(self, rows: Rows) -> tf.Tensor:
        """The derivative of the loss by the linear predictor of each row, times the mass."""
        return tf.where(rows.kept, self.family.mean(rows.eta) - rows.y, 0.0) * rows.mass

    def _of_clusters(self, rows: Rows, mode) -> Values:
        within = rows.level(self.design.cluster) >= 0
        residual = tf.where(within, self._residual(rows), 0.0)
        return {"rows": rows.frequency, "residual": residual}

    def _of_null(self, rows: Rows, mode) -> Values:
        weight = self.family.variance(self.family.mean(rows.eta)) * rows.mass
        return {**self._first(rows, mode), "weight": weight}

    def _directions(self, rows: Rows, mode) -> Values:
        largest = tf.reduce_max(tf.abs(tf.concat(list(rows.coefficients.values()), 0)))
        eta = rows.eta
        if self.design.offset:
            eta -= tf.where(rows.flag >= 0, rows.numbers(self.design.offset)[0], 0.0)
        # A row that a separating direction leaves where it is moves by the rounding error of the direction.
        up, down = ((sign * eta > 1e-6 * largest) & rows.kept for sign in (1.0, -1.0))
        along = (down & (rows.y == 0)) | (up & (rows.y == 1) & (self.design.family == "binomial"))
        against = (up | down) & ~along
        return {"along": tf.cast(along, tf.float64), "against": tf.cast(against, tf.float64)}


def nesting(first: Part, second: Part) -> int:
    """1 if the groups of the second part divide those of the first, -1 the other way round, 0 if neither."""
    if set(first.coding) <= set(second.coding):
        return 1
    return -1 if set(second.coding) <= set(first.coding) else 0
