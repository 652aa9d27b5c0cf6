"""Passes: reductions of the rows of a few shards, which run wherever an executor runs them.

The design matrix is never built. Every part of a term is a lookup, eta = sum over parts of number * table[group], and a
block of X'WX is a sum of weights by group, or by pair of groups. Everything that determines a reported number is float64
(docs/statistics.md: Precision).
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tfglm.data.shards import AT_ONCE, BLOCK_ROWS
from tfglm.design.design import Design
from tfglm.distribute.tasks import Document, Task, registered
from tfglm.engine.bases import bases_of
from tfglm.engine.blocks import Signature
from tfglm.engine.classes import EvaluatedClasses, EvaluatedOrdered
from tfglm.engine.evaluated import Evaluated, Values, residuals
from tfglm.engine.parts import derivative, looked_up_parts, products, sum_layout
from tfglm.engine.rectified import COUNTED
from tfglm.engine.reductions import Reduction
from tfglm.engine.rows import LEFT_OUT, cluster_key, positions_of, rows_of
from tfglm.engine.sums import RESIDUAL, WEIGHT, Key, Sum, SumLayout, concatenated

Sums = dict[Key, np.ndarray]
"""The sums of a pass, by name: see `Passes` for the names."""


ROWS_IN_A_SUM = AT_ONCE * BLOCK_ROWS
"""Rows that are added one after the other, at most: then sums are added, since a long chain of additions loses digits."""


class Pass(Reduction):
    """A function `(coefficients, paths, checksums, blocks, counts, *tables)` to one vector, the partial result of the rows of a
    call."""

    def __init__(self, passes: "Passes", name: str):
        self._passes, self.name = passes, name

    @property
    def settings(self) -> dict[str, Any]:
        """What names the pass, as JSON."""
        return {"name": self.name, "signature": asdict(self._passes.signature)}

    @cached_property
    def task(self) -> Task:
        """The specification with which an executor runs the same pass (`pass_of`)."""
        return Task("pass", self._passes.document, json.dumps(self.settings))

    @np.errstate(all="ignore")  # what takes no part may be anything
    def __call__(self, state: Mapping[str, np.ndarray], *call: np.ndarray) -> np.ndarray:
        partial = self.begin(state, rows_in([call]))
        for evaluated in self._passes.evaluated(state, call):
            self.map(evaluated, partial)
        return self.vector(partial)

    @abstractmethod
    def begin(self, state: Mapping[str, np.ndarray], rows: int) -> Any:
        """The partial result of none of so many rows, at a state."""

    def start(self) -> Any:
        return self.begin({}, 0)

    def vector(self, partial: Any) -> np.ndarray:
        """A partial result as one vector, which travels."""
        return partial

    def finish(self, total: Any) -> Any:
        """The vector itself."""
        return total


@dataclass(frozen=True, eq=False)
class Stage:
    """Sums that are computed together, of `values(rows)` times the numbers of the rows, or a function of them, `change`.

    If `block` is set, the sums of each block of rows are computed separately before they are added. `crossed` says that some
    sums are by other clusters than those of the first column.
    """

    layout: SumLayout
    values: Callable[[Evaluated], Values]
    change: Callable[[np.ndarray], np.ndarray] | None = None
    block: bool = False
    crossed: bool = False

    def add(self, sums: np.ndarray, evaluated: Evaluated) -> None:
        columns, change = evaluated.columns if self.layout.bases else [], self.change

        def numbers() -> np.ndarray:
            of_rows = evaluated.uncoded if self.layout.bases else evaluated.numbers
            return change(of_rows) if change else of_rows

        if change:
            columns = [each.changed(change) for each in columns]
        groups = evaluated.rows.crossed_groups if self.crossed else evaluated.rows.groups
        to = np.zeros(len(sums)) if self.block else sums
        self.layout.add(to, self.values(evaluated), numbers, groups, columns)
        if self.block:
            sums += to


class SumPass(Pass):
    """A pass whose vector has the sums of some stages; or those from one number to another, `portion`."""

    def __init__(self, passes: "Passes", name: str, stages: Sequence[Stage], portion: tuple[int, int] | None = None):
        super().__init__(passes, name)
        self.stages, self._portion = stages, portion
        self._ends = np.cumsum([stage.layout.size for stage in stages])
        self.size = int(self._ends[-1])
        """The number of its sums."""

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | ({"portion": self._portion} if self._portion else {})

    def begin(self, state: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        return np.zeros(self.size)

    def map(self, block: Evaluated, partial: np.ndarray) -> None:
        for stage, sums in zip(self.stages, np.split(partial, self._ends[:-1]), strict=True):
            stage.add(sums, block)

    def finish(self, total: np.ndarray) -> Sums:
        """The sums by name."""
        return concatenated([stage.layout for stage in self.stages], total)

    @property
    def sums(self) -> list[tuple[Sum, int]]:
        """The different sums in their order, and the length of each."""
        return [(sum_, stage.layout.size_of(sum_)) for stage in self.stages for sum_ in stage.layout.sums]

    def portion(self, first: int, last: int) -> "SumPass":
        """The pass of the sums from number `first` to `last`, not included: the same numbers, bit for bit."""
        stages, begin = [], 0
        for stage in self.stages:
            layout = stage.layout.cut(first - begin, last - begin)
            begin += len(stage.layout.sums)
            if layout.size:
                stages.append(replace(stage, layout=layout))
        return SumPass(self._passes, self.name, stages, (first, last))


@registered("pass")
def pass_of(design: str, settings: Mapping[str, Any]) -> Pass:
    """The pass that a task names. Raises ValueError if there is none."""
    pass_ = _passes_of(design, json.dumps(settings["signature"])).named(settings["name"])
    if "portion" not in settings:
        return pass_
    assert isinstance(pass_, SumPass)
    return pass_.portion(*settings["portion"])


@lru_cache(maxsize=8)
def _passes_of(design: str, signature: str) -> "Passes":
    return Passes(_designs.get(design) or Design.from_json(design), Signature.of(json.loads(signature)))


_designs: WeakValueDictionary[str, Design] = WeakValueDictionary()
"""The designs of this process by their JSON, so that a process that sums its own rows holds millions of levels once."""


OTHER_PASSES: dict[str, Callable[["Passes", str], Pass]] = {}
"""Kinds of passes that other modules define, by the names of their passes."""


class Passes:
    """The passes of one design over shards of one signature.

    The first argument has the coefficients, float64 arrays by term, and other inputs of a pass under other names. One is
    LEFT_OUT: a row that moves by more than 1 along one of these directions takes no part. `Workload` makes the other
    arguments. The list below names the sums of each pass. Here m is the weight of a row; k and j number the parts, c the
    groupings, and n the classes. Sums by part are by its groups, if it has some.

    In a regression of classes, residuals and weights belong to the linear predictor of each part.

    - `counts`: `rows`, `weight_sum`, `response` (m * y), `squares` (m * y^2, for `Family.is_movable`), `saturated`, `base`,
      `out_of_range` (rows with an impossible response), `not_finite` (rows for which a function of the formula has no finite
      value), and the weights of each class, `("class", n)`. By group of each grouping: `("rows", c)`, `("weight_sum", c)`,
      `("response", c)`, `("class", n, c)`
    - `gradient`: `loss` and its derivative by the coefficients, `("part", k)`; `pearson` (m * (y - mean)^2 / variance)
    - `magnitudes`: bounds for the rounding errors of a gradient (solvers.certificate): `("part", k)` of absolute values, and
      `reach`, weight * (1 + the sum of the absolute values of the summands of the linear predictor)^2
    - `information`: the sums of `gradient`, and the blocks of X'WX, `("block", j, k)` (`parts.products`)
    - `observed`: the same blocks weighted by the second derivative of the loss, if the link is not canonical
    - `expected`, of ordered classes: the sums of `information` with expected second derivatives instead of those of the rows
    - `squares`: the same blocks weighted by the squared score of a row, for robust standard errors. `hc2` and `hc3` divide
      this weight by 1 - h and (1 - h)^2, where h is the leverage (engine.leverage). They also sum `alone`, the rows of
      leverage 1, which are left out, and `("alone", c)`
    - `scores`: the derivative of the loss by cluster, `("part", k, 0)` [clusters] or [clusters, groups], and `("rows", 0)`; and
      the same by the clusters of column number d of `Inference.cluster_counts`, with d in place of 0
    - `cluster_columns`: by the clusters of each column of clusters, the sum of the weights in the information matrix,
      `("weight", equation, d)`, and of these times the row of the design matrix, `("part", k, d)`; for parts with numbers also
      times its squares, `("square", k, d)`
    - `cluster_information`: the blocks of `information` without loss and derivative, each by cluster of each column of clusters,
      `("block", j, k, d)` [clusters, ...]
    - `null`: `loss`, `residual` and `weight`, its derivatives by the linear predictor, for the model with the intercept alone
    - `jeffreys`: `("part", k)`, the derivative of log|I| / 2; the state has the inverse of I (engine.leverage)
    - `curvature`: the sums of `gradient`, the blocks of `observed` (of `information`, if the link is canonical), and those of
      `jeffreys` as `("slope", k)`. `curvature_by_shape` also sums `score` and `information` of `shape`, `half_weight`, half the
      derivative of log|I| by the logarithm of the shape, and `("by_shape", k)`, the derivative by it of `("part", k)`
    - `rectifier`, with a direction as the coefficients: the sums of `information` for the loss of `rectified`, and its
      counts
    - `shape`: the sums that the family names (`Family.shape_sums`), at the trial values in the state under SHAPE; if
      the shape is not apart from the coefficients, also `("by_shape", k)`
    - `separation`, with a direction as the coefficients: the number of rows whose linear predictor it moves towards their
      response (`along`), up or down away from it (`wrongly_up`, `wrongly_down`), and not at all (`left`)
    """

    def __init__(self, design: Design, signature: Signature):
        self.design, self.signature = design, signature
        of_classes = EvaluatedOrdered if design.likelihood.is_ordered else EvaluatedClasses
        self._evaluated = of_classes if design.equations else Evaluated
        self.multipliers, self.parts = looked_up_parts(design)
        self.positions = positions_of(design)
        self.bases = bases_of(design, signature, self.multipliers, self.parts, design.eliminated_parts)
        self._named: dict[str, Pass] = {}

    def named(self, name: str) -> Any:
        """The pass with this name. Raises ValueError if there is none."""
        if name not in self._named:
            make = OTHER_PASSES.get(name)
            self._named[name] = make(self, name) if make else SumPass(self, name, self._stages(name))
        return self._named[name]

    @cached_property
    def document(self) -> Document:
        """The design as tasks name it."""
        _designs[self.design.as_json] = self.design
        return Document.of(self.design.as_json)

    def _stages(self, name: str) -> list[Stage]:
        """What a pass sums."""
        inference, family = self.design.inference, self.design.distribution
        sums: dict[Key, Sum]
        match name:
            case "counts":
                return [self._stage(self._counted, lambda rows: rows.counts)]
            case "gradient":
                return [self._first]
            case "information":
                return [self._first, self._blocks(lambda rows: rows.weights)]
            case "expected":
                return [self._first, self._blocks(lambda rows: rows.expected_weights)]
            case "observed":
                return [self._blocks(lambda rows: {WEIGHT: rows.observed})]
            case "squares":
                return [self._blocks(lambda rows: rows.squared)]
            case "hc2" | "hc3":
                sums, power = products(self.design, self.parts) | whole("alone"), int(name[2:]) - 1
                sums |= {("alone", c): Sum("alone", (), (each,)) for c, each in enumerate(self.design.groupings)}
                return [self._stage(sums, lambda rows: rows.squared_over(power))]
            case "magnitudes":
                return [self._stage(whole("reach") | self._derivative(), lambda rows: rows.sizes, change=np.abs)]
            case "jeffreys":
                return [self._stage(self._derivative(), lambda rows: rows.firth_terms)]
            case "curvature":
                second = self._stages("information" if family.canonical else "observed")[-1]
                return [self._first, second, self._stage(self._derivative("slope"), lambda rows: rows.firth_terms)]
            case "curvature_by_shape":
                sums = whole("score", "information", "half_weight") | self._derivative("by_shape")
                return [*self._stages("curvature"), self._stage(sums, lambda rows: rows.slopes_by_shape)]
            case "null":
                values = {"residual": RESIDUAL, "weight": WEIGHT}
                sums = whole("loss") | {key: Sum(value) for key, value in values.items()}
                return [self._stage(sums, lambda rows: rows.contributions | rows.weights)]
            case "rectifier":
                sums = whole("loss", *COUNTED) | self._derivative() | products(self.design, self.parts)
                return [self._stage(sums, lambda rows: rows.rectified)]
            case "shape":
                sums = whole(*family.shape_sums) | ({} if family.shape_is_apart else self._derivative("by_shape"))
                return [self._stage(sums, lambda rows: rows.shape_terms)]
            case "separation":
                return [self._stage(whole("along", "wrongly_up", "wrongly_down", "left"), lambda rows: rows.directions)]
            case "scores":
                count = len(inference.cluster_counts)
                sums = self._by_cluster(
                    count, lambda *by: {("rows",): Sum("rows", (), by)} | self._derivative("part", *by)
                )
                return [self._in_clusters(sums, lambda rows: residuals(rows.scores))]
            case "cluster_columns":
                sums = self._by_cluster(len(inference.clusters), self._weights_and_columns)
                squares = self._by_cluster(len(inference.clusters), self._squares)
                stages = [self._in_clusters(sums, lambda rows: rows.own_weights)]
                squared = self._in_clusters(squares, lambda rows: rows.own_weights, change=np.square)
                return [*stages, squared] if squares else stages
            case "cluster_information":
                sums = self._by_cluster(len(inference.clusters), partial(products, self.design, self.parts))
                return [self._in_clusters(sums, lambda rows: rows.weights)]
        raise ValueError(f"`{name}` is no pass")

    def _stage(self, sums: Mapping[Key, Sum], values: Callable[[Evaluated], Values], **options: Any) -> Stage:
        return Stage(sum_layout(self.design, sums, self.bases), values, **options)

    @cached_property
    def _first(self) -> Stage:
        """The loss and its derivative."""
        return self._stage(whole("loss", "pearson") | self._derivative(), lambda rows: rows.contributions, block=True)

    @cached_property
    def _products(self) -> SumLayout:
        return sum_layout(self.design, products(self.design, self.parts), self.bases)

    def _blocks(self, weights: Callable[[Evaluated], Values]) -> Stage:
        """The blocks of X' diag(weight) X."""
        return Stage(self._products, weights)

    def _derivative(self, name: str = "part", *by: Hashable) -> dict[Key, Sum]:
        return derivative(self.design, self.parts, *by, name=name)

    @property
    def _counted(self) -> dict[Key, Sum]:
        design = self.design
        counted: dict[Key, Key] = {
            "rows": "rows",
            # Without weights each row counts as one.
            "weight_sum": "row_weight" if design.roles.multiplicities else "rows",
            "response": "response",
        }
        counted |= {("class", number): ("class", number) for number in range(len(design.likelihood.class_labels))}
        sums = {name: Sum(value) for name, value in counted.items()}
        sums |= whole("squares") if design.distribution.is_movable else {}
        sums |= whole("saturated", "base", "out_of_range", "not_finite")
        for number, grouping in enumerate(design.groupings):
            sums |= {numbered(name, number): Sum(value, (), (grouping,)) for name, value in counted.items()}
        return sums

    def _by_cluster(self, count: int, sums: Callable[..., Mapping[Any, Sum]]) -> dict[Key, Sum]:
        """Sums by the clusters of the first columns of clusters; the number of the column ends the name."""
        return {
            numbered(name, number): sum_ for number in range(count) for name, sum_ in sums(cluster_key(number)).items()
        }

    def _in_clusters(self, sums: Mapping[Key, Sum], values: Callable[[Evaluated], Values], **options: Any) -> Stage:
        """Sums by cluster of the values of rows that have one."""
        crossed = bool(self.design.inference.crossed)
        return self._stage(sums, lambda rows: rows.in_clusters(values(rows)), crossed=crossed, **options)

    def _weights_and_columns(self, by: Hashable) -> dict[Key, Sum]:
        columns = self._derivative("part", by)
        values = dict.fromkeys(sum_.value for sum_ in columns.values())
        return columns | {("weight", *value[1:]): Sum(value, (), (by,)) for value in values if isinstance(value, tuple)}

    def _squares(self, by: Hashable) -> dict[Key, Sum]:
        return {name: sum_ for name, sum_ in self._derivative("square", by).items() if sum_.numbers}

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
    def rows(
        self, values: Callable[[Evaluated], dict[str, np.ndarray]], state: Mapping[str, np.ndarray], call: Sequence
    ) -> dict[str, np.ndarray]:
        """Values of the rows of a call, in the order of the blocks."""
        listed = [values(evaluated) for evaluated in self.evaluated(state, call)]
        return {name: np.concatenate([block[name] for block in listed]) for name in listed[0]}


def whole(*names: Key) -> dict[Key, Sum]:
    """The sums of values with these names over all rows."""
    return {name: Sum(name) for name in names}


def numbered(name: Key, number: int) -> Key:
    """The name of a sum with a number behind it."""
    return (*name, number) if isinstance(name, tuple) else (name, number)


def rows_in(calls: Iterable[Sequence[Any]]) -> int:
    """Return the number of rows that some calls of a pass read."""
    return sum(int(np.sum(counts)) for _, _, _, counts, *_ in calls)
