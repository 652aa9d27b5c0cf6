"""Passes: pure functions that sum something over the rows of a few shards.

The design matrix is never built. Every part of a term is a lookup, eta = sum over parts of number * table[group], and a
block of X'WX is a sum of weights by group, or by pair of groups. Everything that determines a reported number is float64
(docs/statistics.md: Precision).
"""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from tfglm.data.shards import AT_ONCE, BLOCK_ROWS
from tfglm.design.design import Design
from tfglm.distribute.tasks import Document, Task, registered
from tfglm.engine.bases import bases_of
from tfglm.engine.blocks import Signature
from tfglm.engine.classes import EvaluatedClasses, EvaluatedOrdered
from tfglm.engine.evaluated import Evaluated, Values
from tfglm.engine.leverage import TOO_NEAR
from tfglm.engine.parts import (
    derivative,
    eliminated_part,
    equation_of,
    looked_up_parts,
    nesting,
    numbers_of,
    pairs,
    sum_layout,
)
from tfglm.engine.rectified import COUNTED, rectified
from tfglm.engine.rows import LEFT_OUT, NOT_FINITE, cluster_key, positions_of, rows_of
from tfglm.engine.sums import Sum, SumLayout, concatenated

Sums = dict[str, np.ndarray]
"""The sums of a pass, by name: see `Passes` for the names."""

SHAPE = "shape of the family"
"""Stands beside the terms in the state of a pass `shape`: trial values."""


ROWS_IN_A_SUM = AT_ONCE * BLOCK_ROWS
"""Rows that are added one after the other, at most: then sums are added, since a long chain of additions loses digits."""


@dataclass(frozen=True, eq=False)
class Stage:
    """Sums that are computed together, of `values(rows)` times the numbers of the rows, or a function of them, `change`.

    If `block` is set, the sums of each block of rows are computed separately before they are added, which doubles the
    memory. `crossed` says that some sums are by other clusters than those of the first column.
    """

    layout: SumLayout
    values: Callable[["Evaluated"], Values]
    change: Callable[[np.ndarray], np.ndarray] | None = None
    block: bool = False
    crossed: bool = False

    def add(self, sums: np.ndarray, evaluated: Evaluated) -> None:
        """Add some rows to the sums."""
        columns = evaluated.columns if self.layout.bases else []
        if self.change:
            columns = [each.changed(self.change) for each in columns]
        groups = evaluated.rows.crossed_groups if self.crossed else evaluated.rows.groups
        self.layout.add(sums, self.values(evaluated), partial(self._numbers, evaluated), groups, columns)

    def _numbers(self, evaluated: Evaluated) -> np.ndarray:
        numbers = evaluated.uncoded if self.layout.bases else evaluated.numbers
        return self.change(numbers) if self.change else numbers


class Pass:
    """A function `(coefficients, paths, checksums, blocks, counts, *tables)` to one vector of all its sums; or of those from one
    number to another, `portion`, of a pass with that name."""

    def __init__(self, passes: "Passes", name: str, stages: Sequence[Stage], portion: tuple[int, int] | None = None):
        self._passes, self.name, self.stages, self._portion = passes, name, stages, portion

    @property
    def size(self) -> int:
        """The number of its sums."""
        return sum(stage.layout.size for stage in self.stages)

    @cached_property
    def task(self) -> Task:
        """The specification with which an executor runs the same pass (`pass_of`)."""
        settings: dict[str, Any] = {"name": self.name, "signature": asdict(self._passes.signature)}
        if self._portion:
            settings["portion"] = self._portion
        return Task("pass", self._passes.document, json.dumps(settings))

    @np.errstate(all="ignore")  # what takes no part may be anything
    def __call__(self, coefficients: Mapping[str, np.ndarray], *call: np.ndarray) -> np.ndarray:
        return self.summed(self._passes.evaluated(coefficients, call))

    def summed(self, blocks: Iterable["Evaluated"]) -> np.ndarray:
        """The sums over some blocks of rows."""
        whole = np.zeros(self.size)
        sums = np.split(whole, np.cumsum([stage.layout.size for stage in self.stages])[:-1])
        of_block = [np.zeros(stage.layout.size) if stage.block else None for stage in self.stages]
        for evaluated in blocks:
            for stage, of_stage, alone in zip(self.stages, sums, of_block, strict=True):
                to = of_stage if alone is None else alone
                stage.add(to, evaluated)
                if alone is not None:
                    of_stage += alone
                    alone.fill(0.0)
        return whole

    @property
    def sums(self) -> list[tuple[Sum, int]]:
        """The different sums in their order, and the length of each."""
        return [(sum_, stage.layout.size_of(sum_)) for stage in self.stages for sum_ in stage.layout.sums]

    def portion(self, first: int, last: int) -> "Pass":
        """The pass of the sums from number `first` to `last`, not included: the same numbers, bit for bit."""
        stages, begin = [], 0
        for stage in self.stages:
            layout = stage.layout.cut(first - begin, last - begin)
            begin += len(stage.layout.sums)
            if layout.size:
                stages.append(replace(stage, layout=layout))
        return Pass(self._passes, self.name, stages, (first, last))

    def unpack(self, vector: np.ndarray) -> Sums:
        """The sums by name."""
        return concatenated([stage.layout for stage in self.stages], vector)


@registered("pass")
def pass_of(design: str, settings: Mapping[str, Any]) -> Pass:
    """The pass that a task names. Raises ValueError if there is none."""
    name = settings["name"]
    pass_ = getattr(_passes_of(design, json.dumps(settings["signature"])), name)
    if not isinstance(pass_, Pass):
        raise ValueError(f"`{name}` is no pass")
    return pass_.portion(*settings["portion"]) if "portion" in settings else pass_


@lru_cache(maxsize=8)
def _passes_of(design: str, signature: str) -> "Passes":
    return Passes(Design.from_json(design), Signature.of(json.loads(signature)))


class Passes:
    """The passes of one design over shards of one signature.

    The first argument has the coefficients, float64 arrays by term, and other inputs of a pass under other names. One is
    LEFT_OUT: a row that moves by more than 1 along one of these directions takes no part. `Workload` makes the other
    arguments. The list below names the sums of each pass. Here m is the weight of a row, s and t number the parts without
    groups, and k and j the parts with groups.

    In a regression of classes, residuals and weights belong to the linear predictor of each part. `counts` also has the
    weights of each class c, `class_c`, and by group, `class_c_k`; `predictions` has `eta` [rows, classes].

    - `counts`: `rows`, `weight_sum`, `response` (m * y), `squares` (m * y^2, for `Family.is_movable`), `saturated`, `base`,
      `out_of_range` (rows with an impossible response),
      `not_finite` (rows for which a function of the formula has no finite value), and by group of each grouping c `rows_c`,
      `weight_sum_c`, `response_c`
    - `gradient`: `loss` and its derivative by the coefficients, `part_s` and `part_k`; `pearson` (m * (y - mean)^2 / variance)
    - `magnitudes`: bounds for the rounding errors of a gradient (solvers.certificate): `part_s` and `part_k` of absolute
      values, and `reach`, weight * (1 + the sum of the absolute values of the summands of the linear predictor)^2
    - `information`: the sums of `gradient`, and the blocks of X'WX: `pair_s_t` with s <= t, `single_s_k`, `own_k` (the
      diagonal), and for two parts either `nested_j_k` by the finer groups or `pair_j_k`, where j < k except that the
      eliminated part comes last
    - `observed`: the same blocks weighted by the second derivative of the loss, if the link is not canonical
    - `expected`, of ordered classes: the sums of `information` with expected second derivatives instead of those of the rows
    - `squares`: the same blocks weighted by the squared score of a row, for robust standard errors. `hc2` and `hc3` divide
      this weight by 1 - h and (1 - h)^2, where h is the leverage (engine.leverage). They also sum `alone`, the rows of
      leverage 1, which are left out, and `alone_c` by group of each grouping c
    - `scores`: the derivative of the loss by cluster, `part_s` [clusters] and `part_k` [clusters, groups], and `rows`; and
      the same by the clusters of column number c of `Design.cluster_counts`: `part_s_of_c`, `part_k_of_c`, `rows_of_c`
    - `cluster_columns`: by the clusters of each column of clusters, the sum of the weights in the information matrix, `weight`,
      and of these times the row of the design matrix, `part_s` and `part_k`; for parts with numbers also times its squares,
      `square_part_s` and `square_part_k`; the names end as those of `scores`
    - `cluster_information`: the blocks of `information` without loss and derivative, each by cluster of each column of clusters,
      [clusters, ...], named by column as in `scores`
    - `null`: `loss`, `residual` and `weight`, its derivatives by the linear predictor, for the model with the intercept alone
    - `jeffreys`: `part_s` and `part_k`, the derivative of log|I| / 2; the state has the inverse of I (engine.leverage)
    - `curvature`: the sums of `gradient`, the blocks of `observed` (of `information`, if the link is canonical), and those of
      `jeffreys` as `slope_part_s` and `slope_part_k`. `curvature_by_shape` also sums `score` and `information` of `shape`,
      `half_weight`, half the derivative of log|I| by the logarithm of the shape, and `shape_part_s` and `shape_part_k`, the
      derivative by it of `part_s` and `part_k`
    - `rectifier`, with a direction as the coefficients: the sums of `information` for the loss of `rectified`, and its
      counts
    - `shape`: the sums that the family names (`Family.shape_sums`), at the trial values in the state under SHAPE
    - `separation`, with a direction as the coefficients: the number of rows whose linear predictor it moves towards their
      response (`along`), up or down away from it (`wrongly_up`, `wrongly_down`), and not at all (`left`)

    `predictions` is a function of the same arguments that returns rows instead of sums: `eta`, `response`, `flag`,
    `weight`, `outside`, each [rows] in the order of the blocks. `rows_of_design` returns `eta`, `flag`, `outside`, and the
    content of a row of the design matrix: `groups` [rows, groupings], and the product of the numbers of each part on the
    scale of the fit, `multipliers` [rows, parts].
    """

    def __init__(self, design: Design, signature: Signature):
        self.design, self.signature = design, signature
        self.family = design.distribution
        of_classes = EvaluatedOrdered if design.likelihood.is_ordered else EvaluatedClasses
        self._evaluated = of_classes if design.equations else Evaluated
        self.single = [k for k, part in enumerate(design.parts) if not part.grouping]
        self.grouped = [k for k, part in enumerate(design.parts) if part.grouping]
        self.multipliers, self.parts = looked_up_parts(design)
        self._numbers = numbers_of(self.parts)
        self.positions = positions_of(design)
        self.bases = bases_of(design, signature, self.multipliers, self.parts, eliminated_part(design))

        # Without weights each row counts as one.
        counted = {
            "rows": "rows",
            "weight_sum": "row_weight" if design.roles.multiplicities else "rows",
            "response": "response",
        }
        counted |= {f"class_{number}": f"class_{number}" for number, _ in enumerate(design.likelihood.class_labels)}
        counts = {name: Sum(value) for name, value in counted.items()}
        if self.family.is_movable:
            counts["squares"] = Sum("squares")
        counts |= {name: Sum(name) for name in ("saturated", "base", "out_of_range", "not_finite")}
        for number, grouping in enumerate(design.groupings):
            counts |= {f"{name}_{number}": Sum(value, (), (grouping,)) for name, value in counted.items()}
        first = Stage(
            self._layout({"loss": Sum("loss"), "pearson": Sum("pearson"), **derivative(design, self.parts)}),
            lambda evaluated: evaluated.contributions,
            block=True,
        )
        sizes = Stage(
            self._layout({"reach": Sum("reach"), **derivative(design, self.parts)}),
            lambda evaluated: evaluated.sizes,
            np.abs,
        )
        products = self._layout(self._products())
        self.counts = Pass(self, "counts", [Stage(self._layout(counts), self._count)])
        self.gradient = Pass(self, "gradient", [first])
        self.information = Pass(self, "information", [first, Stage(products, lambda evaluated: evaluated.weights)])
        self.magnitudes = Pass(self, "magnitudes", [sizes])
        self.observed = Pass(self, "observed", [Stage(products, lambda evaluated: {"weight": evaluated.observed})])
        self.squares = Pass(self, "squares", [Stage(products, lambda evaluated: evaluated.squared)])
        of_prior = self._layout(derivative(design, self.parts))
        self.jeffreys = Pass(self, "jeffreys", [Stage(of_prior, self._firth_terms)])
        self.null = self._whole("null", self._null_terms, "loss", "residual", "weight")
        self.separation = self._whole("separation", self._directions, "along", "wrongly_up", "wrongly_down", "left")

    @cached_property
    def _over(self) -> SumLayout:
        alone = {f"alone_{k}": Sum("alone", (), (grouping,)) for k, grouping in enumerate(self.design.groupings)}
        return self._layout({**self._products(), "alone": Sum("alone"), **alone})

    @cached_property
    def hc2(self) -> Pass:
        return Pass(self, "hc2", [Stage(self._over, partial(self._squares_over, 1))])

    @cached_property
    def hc3(self) -> Pass:
        return Pass(self, "hc3", [Stage(self._over, partial(self._squares_over, 2))])

    @cached_property
    def rectifier(self) -> Pass:
        sums = {name: Sum(name) for name in ("loss", *COUNTED)} | derivative(self.design, self.parts) | self._products()
        return Pass(self, "rectifier", [Stage(self._layout(sums), self._rectified)])

    def _rectified(self, evaluated: Evaluated) -> Values:
        return rectified(evaluated.rows, self.family, evaluated.along, evaluated.coefficients, evaluated.state)

    def _layout(self, sums: Mapping[str, Sum]) -> SumLayout:
        return sum_layout(self.design, sums, self.bases)

    @cached_property
    def expected(self) -> Pass:
        first, products = self.information.stages
        return Pass(self, "expected", [first, replace(products, values=lambda evaluated: evaluated.expected_weights)])

    @cached_property
    def curvature(self) -> Pass:
        first, products = self.information.stages
        of_slope = {f"slope_{name}": sum_ for name, sum_ in derivative(self.design, self.parts).items()}
        slopes = Stage(self._layout(of_slope), self._firth_terms)
        second = products if self.family.canonical else self.observed.stages[0]
        return Pass(self, "curvature", [first, second, slopes])

    @cached_property
    def curvature_by_shape(self) -> Pass:
        sums = {name: Sum(name) for name in ("score", "information", "half_weight")}
        sums |= {f"shape_{name}": sum_ for name, sum_ in derivative(self.design, self.parts).items()}
        stages = [*self.curvature.stages, Stage(self._layout(sums), self._slopes_by_shape)]
        return Pass(self, "curvature_by_shape", stages)

    @cached_property
    def document(self) -> Document:
        """The design as tasks name it."""
        return Document.of(self.design.as_json)

    @cached_property
    def shape(self) -> Pass:
        return self._whole("shape", self._shape_terms, *self.family.shape_sums)

    @cached_property
    def scores(self) -> Pass:
        sums = {}
        for number in range(len(self.design.inference.cluster_counts)):
            by, which = cluster_key(number), f"_of_{number}" if number else ""
            sums[f"rows{which}"] = Sum("rows", (), (by,))
            sums |= {f"{name}{which}": sum_ for name, sum_ in derivative(self.design, self.parts, by).items()}
        stage = Stage(self._layout(sums), self._cluster_scores, crossed=bool(self.design.inference.crossed))
        return Pass(self, "scores", [stage])

    @cached_property
    def cluster_columns(self) -> Pass:
        design, columns, squares = self.design, {}, {}
        for number in range(len(design.inference.clusters)):
            by, which = cluster_key(number), f"_of_{number}" if number else ""
            for name, sum_ in derivative(design, self.parts, by).items():
                columns[f"{name}{which}"] = sum_
                columns[f"weight{sum_.value.removeprefix('residual')}{which}"] = Sum(sum_.value, (), (by,))
                if sum_.numbers:
                    squares[f"square_{name}{which}"] = sum_
        stages = [Stage(self._layout(columns), self._weights_in_clusters, crossed=bool(design.inference.crossed))]
        if squares:
            layout = self._layout(squares)
            squared = Stage(layout, self._weights_in_clusters, np.square, crossed=bool(design.inference.crossed))
            stages.append(squared)
        return Pass(self, "cluster_columns", stages)

    @cached_property
    def cluster_information(self) -> Pass:
        sums: dict[str, Sum] = {}
        for number in range(len(self.design.inference.clusters)):
            which = f"_of_{number}" if number else ""
            sums |= {f"{name}{which}": sum_ for name, sum_ in self._products(cluster_key(number)).items()}
        crossed = bool(self.design.inference.crossed)
        stage = Stage(self._layout(sums), self._weights_of_clusters, crossed=crossed)
        return Pass(self, "cluster_information", [stage])

    def _whole(self, name: str, values: Callable[[Evaluated], Values], *names: str) -> Pass:
        return Pass(self, name, [Stage(self._layout({key: Sum(key) for key in names}), values)])

    def _products(self, *by: Hashable) -> dict[str, Sum]:
        """The blocks of X' diag(weight) X."""
        parts = self.design.parts
        blocks = {}

        def put(name: str, j: int, k: int, groups: tuple[Hashable, ...]) -> None:
            weight = f"weight{equation_of(self.design, parts[j], parts[k])}"
            blocks[name] = Sum(weight, (*self._numbers[j], *self._numbers[k]), (*by, *groups))

        for s, t in combinations_with_replacement(self.single, 2):
            put(f"pair_{s}_{t}", s, t, ())
        for k in self.grouped:
            put(f"own_{k}", k, k, (parts[k].grouping,))
            for s in self.single:
                put(f"single_{s}_{k}", s, k, (parts[k].grouping,))
        for j, k in pairs(self.design):
            nested = nesting(parts[j], parts[k])
            if nested:
                put(f"nested_{j}_{k}", j, k, (parts[k if nested > 0 else j].grouping,))
            else:
                put(f"pair_{j}_{k}", j, k, (parts[j].grouping, parts[k].grouping))
        return blocks

    def evaluated(self, coefficients: Mapping[str, np.ndarray], call: Sequence[np.ndarray]) -> Iterator[Evaluated]:
        """The blocks of a call, each valid until the next."""
        vector = np.concatenate([coefficients[term.name] for term in self.design.terms])
        for rows in rows_of(self.design, self.signature, call, self.positions):
            evaluated = self._evaluated(
                self.design, (self.multipliers, self.parts), rows, vector, coefficients, self.bases
            )
            if len(coefficients.get(LEFT_OUT, ())):
                rows.leave_out(np.any([np.abs(evaluated.along(way)) > 1 for way in coefficients[LEFT_OUT]], axis=0))
            yield evaluated

    @np.errstate(all="ignore")
    def predictions(self, coefficients: Mapping[str, np.ndarray], *call: np.ndarray) -> dict[str, np.ndarray]:
        return joined(
            {
                "eta": evaluated.eta,
                "response": evaluated.rows.y,
                "flag": evaluated.flag,
                "weight": evaluated.rows.weight,
                "frequency": np.broadcast_to(evaluated.rows.repeats, evaluated.rows.flag.shape),
                "outside": evaluated.rows.outside,
            }
            for evaluated in self.evaluated(coefficients, call)
        )

    @np.errstate(all="ignore")
    def rows_of_design(self, coefficients: Mapping[str, np.ndarray], *call: np.ndarray) -> dict[str, np.ndarray]:
        groupings = len(self.design.groupings)
        return joined(
            {
                "eta": evaluated.eta,
                "flag": evaluated.flag,
                "outside": evaluated.rows.outside,
                "groups": evaluated.rows.groups[:groupings].T.astype(int),
                "multipliers": np.vstack([evaluated.numbers, np.ones(len(evaluated.eta))])[self.parts[:, 2]].T,
            }
            for evaluated in self.evaluated(coefficients, call)
        )

    def _count(self, evaluated: Evaluated) -> Values:
        rows = evaluated.rows
        y, kept = rows.y, rows.kept
        impossible = kept & ~self.family.in_range(y)
        values = {
            "rows": rows.frequency,
            "row_weight": rows.weight,
            "response": rows.weight * y,
            "squares": rows.weight * y**2,
            "not_finite": np.where(rows.flag == NOT_FINITE, rows.repeats, 0.0),
            "out_of_range": np.where(impossible, rows.repeats, 0.0),
            **evaluated.counted,
        }
        # If responses are 0 and 1, both sums are 0, and logarithms of factorials would cost more than everything else
        # together.
        if self.family.counts_events and not (self.design.roles.trials or self.design.roles.weights):
            return values | {"saturated": 0.0, "base": 0.0}
        safe, weight = np.where(kept & ~impossible, y, 0.0), np.where(kept, rows.prior_weight, 1.0)
        saturated, base = self.family.saturated(safe), self.family.base(safe, weight)
        return values | {"saturated": rows.weight * saturated, "base": rows.frequency * base}

    def _firth_terms(self, evaluated: Evaluated) -> Values:
        """Half the derivative of log|I| by the linear predictor: the leverage times the derivative of log(weight), over 2. If the
        link is not canonical, I is the observed information."""
        rows = evaluated.rows
        curvature = rows.weight * self.family.observed_slope(evaluated.eta, rows.y)
        return {"residual": np.where(rows.kept, 0.5 * curvature * evaluated.distance, 0.0)}

    def _squares_over(self, power: int, evaluated: Evaluated) -> Values:
        """The squares over a power of 1 less the leverage."""
        left = 1.0 - evaluated.leverage
        alone = evaluated.rows.kept & (left <= TOO_NEAR)
        squares = evaluated.squared["weight"]
        return {"weight": np.where(alone, 0.0, squares / np.where(alone, 1.0, left) ** power), "alone": alone}

    def _cluster_scores(self, evaluated: Evaluated) -> Values:
        within = evaluated.rows.in_clusters
        scores = {name: np.where(within, score, 0.0) for name, score in evaluated.scores.items()}
        return {"rows": evaluated.rows.frequency, **scores}

    def _weights_in_clusters(self, evaluated: Evaluated) -> Values:
        within = evaluated.rows.in_clusters
        return {name: np.where(within, weight, 0.0) for name, weight in evaluated.own_weights.items()}

    def _weights_of_clusters(self, evaluated: Evaluated) -> Values:
        within = evaluated.rows.in_clusters
        return {name: np.where(within, weight, 0.0) for name, weight in evaluated.weights.items()}

    def _shape_terms(self, evaluated: Evaluated) -> Values:
        rows = evaluated.rows
        y, weight = np.where(rows.kept, rows.y, 0.0), np.where(rows.kept, rows.prior_weight, 1.0)
        eta = np.where(rows.kept, evaluated.eta, 0.0)
        values = self.family.shape_terms(eta, y, weight, evaluated.state[SHAPE])
        return {name: np.where(rows.kept, rows.frequency * value, 0.0) for name, value in values.items()}

    def _slopes_by_shape(self, evaluated: Evaluated) -> Values:
        rows = evaluated.rows
        score, weight = self.family.slopes_by_shape(evaluated.eta, rows.y)
        of_rows = {"residual": score, "half_weight": 0.5 * weight * evaluated.distance}
        kept = {name: np.where(rows.kept, rows.weight * value, 0.0) for name, value in of_rows.items()}
        return kept | self._shape_terms(evaluated)

    def _null_terms(self, evaluated: Evaluated) -> Values:
        return {"loss": evaluated.terms.loss, "residual": evaluated.terms.score, "weight": evaluated.terms.weight}

    def _directions(self, evaluated: Evaluated) -> Values:
        rows, eta = evaluated.rows, evaluated.eta
        if self.design.roles.offset:
            eta = eta - rows.offset
        largest = np.abs(evaluated.coefficients).max()
        # A row that a separating direction leaves where it is moves by the rounding error of the direction.
        up, down = ((sign * eta > 1e-6 * largest) & rows.kept for sign in (1.0, -1.0))
        along = (down & (rows.y == self.family.smallest)) | (up & (rows.y == self.family.largest))
        wrong = {"wrongly_up": up & ~along, "wrongly_down": down & ~along}
        return {"along": along, **wrong, "left": rows.kept & ~(up | down)}


def rows_in(calls: Iterable[Sequence[Any]]) -> int:
    """Return the number of rows that some calls of a pass read."""
    return sum(int(np.sum(counts)) for _, _, _, counts, *_ in calls)


def joined(blocks: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays of blocks one after the other."""
    listed = list(blocks)
    return {name: np.concatenate([block[name] for block in listed]) for name in listed[0]}
