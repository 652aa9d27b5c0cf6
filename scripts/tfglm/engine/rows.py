"""A block of rows as a pass sees it: what a shard stores, and what the design makes of it.

The codes in a shard are local to its input file. A pass gets tables that map them to the levels of the design, or to numbers:
one look-up. A negative level takes the row out and says why.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from tfglm.data.folds import folds_of_rows, stored_name
from tfglm.data.shards import MISSING, codes_name
from tfglm.design import transforms
from tfglm.design.design import Design
from tfglm.design.factors import Categorical, Numeric
from tfglm.design.parametrisation import APART, RAW, form_of
from tfglm.design.scenarios import Scenario
from tfglm.design.terms import Part
from tfglm.engine import kernels
from tfglm.engine.blocks import BlockReader, Signature

UNSEEN_LEVEL = -1
"""Flag of a row with a level that no training row has."""

SEPARATED_LEVEL = -2
"""Flag of a row with a level whose training responses are all alike: its coefficient is not finite."""

MISSING_VALUE = -3
"""Flag of a row that lacks a value, and of padding."""

NOT_FINITE = -4
"""Flag of a row for which a function of the formula has no finite value, such as the logarithm of 0."""

WITHOUT_ESTIMATE = -5
"""Flag of a row with a level whose training rows have no part in the fit: none has a weight, or all were left out. Only
predictions have it."""

LOWEST_FLAG = WITHOUT_ESTIMATE

WITHOUT_MEAN = -6
"""Flag of a row whose linear predictor is out of the range of the link, as one below 0 with link inverse. Only
predictions have it."""

LEFT_OUT = "left out along"
"""Stands beside the terms in a state: directions [directions, p], which separate the rows that they move by more than 1."""

CLUSTER = "cluster"
"""Stands beside groupings for the clusters of the standard errors."""


def cluster_key(number: int) -> str:
    """Return the key of the clusters of column `number` of `Design.cluster_counts`, which is also the name of their table."""
    return f"{CLUSTER}/{number}" if number else CLUSTER


Products = TypeVar("Products", np.ndarray, list[np.ndarray])


@dataclass(frozen=True)
class Multiplier:
    """Numbers of the design, factor and column, whose product multiplies a part."""

    numbers: tuple[tuple[str, int], ...]
    form: int

    @classmethod
    def of(cls, design: Design, part: Part) -> "Multiplier | None":
        return cls(part.multiplier, form_of(design, part)) if part.multiplier else None


class Rows:
    """`count` rows of some blocks, read as `columns`. Each quantity, [rows], is computed when it is first used. `tables`
    come from `table_keys` for this shard, and `positions` from the design (`positions_of`)."""

    def __init__(
        self,
        design: Design,
        columns: Mapping[str, np.ndarray],
        tables: dict[str, np.ndarray],
        positions: Mapping[tuple[str, ...], np.ndarray],
        count: int,
    ):
        self._design, self._columns, self._tables, self._positions = design, columns, tables, positions
        self._count = count
        self._levels: dict[str, np.ndarray] = {}
        self._numbers: dict[str, Sequence[np.ndarray]] = {}
        self._set: Mapping[str, int] = {}
        self._values: Mapping[str, float] = {}

    def at(self, scenario: Scenario) -> "Rows":
        """The same rows with the same weights, if some columns had the values of a scenario."""
        design = self._design
        changed = Rows(design, self._columns, self._tables, self._positions, self._count)
        changed._set, changed._values = scenario.levels, scenario.numbers
        changed._levels = {name: np.full(self._count, level) for name, level in scenario.levels.items()}
        for factor in design.numeric_with_offset:
            if factor.column in scenario.numbers and len(factor.columns) == 1:
                values = transforms.apply(np, factor.learnt, np.array([scenario.numbers[factor.column]]))
                changed._numbers[factor.name] = [np.full(self._count, value[0]) for value in values]
        changed.flag, changed.frequency, changed.weight = self.flag, self.frequency, self.weight
        return changed

    @property
    def is_unknown(self) -> np.ndarray:
        """Whether a row has a level, or a combination of levels, without coefficients."""
        return self._grouped[1] < 0

    def looked_up(self, key: str, column: str) -> np.ndarray:
        table = self._tables[key]
        values = np.empty(self._count, table.dtype)
        kernels.look_up(table, self._columns[column], values)
        return values

    def number(self, column: str) -> np.ndarray:
        """Return the values of a number column, NaN for missing values."""
        key = f"number/{column}"
        return self.looked_up(key, column) if key in self._tables else self._stored(column)

    def _stored(self, column: str) -> np.ndarray:
        """Return numbers that are stored without codes."""
        return self._columns[column].astype(float)

    def _codes(self, column: str) -> str:
        """Return the column with the codes of a column: the same one, or a column of its own."""
        apart = codes_name(column)
        return apart if apart in self._columns else column

    def level(self, factor: Categorical) -> np.ndarray:
        """The number of the level of a factor, or the negative reason why there is none."""
        if factor.name not in self._levels:
            self._levels[factor.name] = self.looked_up(f"level/{factor.name}", self._codes(factor.column))
        return self._levels[factor.name]

    @cached_property
    def clusters(self) -> np.ndarray:
        """For each column of clusters the number of a row's cluster, 0 to its count - 1, [columns, rows]; negative for a row that
        belongs to none, which takes no part."""
        columns = [self._codes(clusters.column) for clusters in self._design.inference.clusters]
        numbers = [self.looked_up(cluster_key(k), column) for k, column in enumerate(columns)]
        return np.array(numbers).reshape(len(columns), self._count)

    @cached_property
    def in_clusters(self) -> np.ndarray:
        """Whether a row belongs to a cluster of each column."""
        return np.all(self.clusters >= 0, axis=0)

    @property
    def crossed_groups(self) -> np.ndarray:
        """`groups`, and behind them the other clusters of `Design.cluster_counts`. They take longer: few passes need them."""
        design, groups = self._design, self.groups
        if not design.inference.crossed:
            return groups
        numbers = np.maximum(self.clusters, 0)
        columns = [*numbers[1:]]
        for number, cells in enumerate(design.inference.cells, len(design.inference.clusters)):
            sizes = [design.inference.clusters[k].count for k in cells.of]
            joint = np.ravel_multi_index(tuple(numbers[list(cells.of)]), sizes)
            known = self._positions[(cluster_key(number),)]
            columns.append(np.minimum(np.searchsorted(known, joint), len(known) - 1))
        return np.vstack([groups, np.array(columns, groups.dtype)])

    def values(self, factor: Numeric) -> tuple[np.ndarray, ...]:
        """The values of each column of a factor, those of the scenario if it sets them."""
        return tuple(
            np.full(self._count, self._values[name]) if name in self._values else self.number(name)
            for name in factor.columns
        )

    def numbers(self, factor: Numeric) -> Sequence[np.ndarray]:
        """The numbers of a factor, on the scale of the data, of any type."""
        if factor.name not in self._numbers:
            key = f"factor/{factor.name}/0"
            if len(factor.columns) > 1:
                # Many rows are at the same point, and a point is costly.
                x, z = self.values(factor)
                points, place = np.unique(x + 1j * z, return_inverse=True)
                of_points = np.stack(transforms.apply(np, factor.learnt, (points.real, points.imag)))
                numbers = list(of_points[:, place])
            elif key in self._tables:
                numbers = [self.looked_up(f"factor/{factor.name}/{k}", factor.column) for k in range(factor.width)]
            elif factor.shape:
                numbers = list(self._columns[factor.column].view(np.uint8).reshape(self._count, factor.width).T)
            else:
                number = self._stored(factor.column) if factor.learnt else self._columns[factor.column]
                numbers = transforms.apply(np, factor.learnt, number)
            self._numbers[factor.name] = numbers
        return self._numbers[factor.name]

    @cached_property
    def _grouped(self) -> tuple[np.ndarray, np.ndarray]:
        """For each grouping the group of coefficients of each row, 0 for none, unsigned [groupings, rows]; and the reason
        for having none, 0 or negative."""
        flag = self.looked_up("missing", MISSING)
        groupings, signed = self._design.groupings, self._design.group_type
        groups = np.empty((len(groupings) + (self._design.inference.cluster is not None), self._count), signed)
        for group, grouping in zip(groups, groupings, strict=False):
            if len(grouping) == 1 and grouping[0] in self._set:
                group[:] = self._set[grouping[0]]
            elif len(grouping) == 1:
                factor = self._design.categorical_by_name[grouping[0]]
                codes = self._columns[self._codes(factor.column)]
                kernels.look_up_level(self._tables[f"level/{factor.name}"], codes, group, flag)
            else:
                kernels.look_up_level(self._tables[f"group/{':'.join(grouping)}"], self._joint(grouping), group, flag)
        if self._design.inference.cluster:
            groups[-1] = np.maximum(self.clusters[0], 0)
        return groups.view(np.dtype(f"u{signed.name}")), flag

    def _joint(self, grouping: tuple[str, ...]) -> np.ndarray:
        """The place of a combination of levels in the table of groups, which begins with the reasons why there is none."""
        joint, lowest = np.zeros(self._count, np.int64), np.zeros(self._count, np.int32)
        for name in grouping:
            factor = self._design.categorical_by_name[name]
            level = self.level(factor)
            joint = joint * len(factor.levels) + np.maximum(level, 0)
            lowest = np.minimum(lowest, level)
        return -LOWEST_FLAG + np.where(lowest < 0, lowest, self._positions[grouping][joint])

    @property
    def groups(self) -> np.ndarray:
        """The group of each row in each grouping, [groupings, rows]. With clustered errors the last entry is the cluster in
        the first column of clusters. Rows without a group have an arbitrary one."""
        return self._grouped[0]

    @cached_property
    def flag(self) -> np.ndarray:
        """0, or the negative reason why the row takes no part."""
        flag, classes = self._grouped[1], self._design.classes
        if classes:
            flag = np.where(flag >= 0, np.minimum(self.level(classes), 0), flag)
        for factor in self._design.numeric_with_offset:
            if transforms.may_fail(factor.learnt):
                finite = np.isfinite(sum(self.numbers(factor)))
                flag = np.where((flag >= 0) & ~finite, NOT_FINITE, flag)
        return flag

    def folds(self, checksums: np.ndarray) -> np.ndarray:
        """Return the fold of each row, [rows]. `checksums` are the checksums of the response in the blocks of the rows."""
        of_design, groups = self._design.folds, self._design.groups_of_folds
        assert of_design
        if groups:
            return self.looked_up("fold", self._codes(groups.column))
        of_collapsed = stored_name(self._design.roles.response or "", of_design.number)
        if of_collapsed in self._columns:
            return self._columns[of_collapsed]
        return folds_of_rows(checksums, self._count, of_design.number)

    def leave_out(self, which: np.ndarray) -> None:
        """Exclude these rows, such as rows with a separated level. Call it before using any quantity of the rows except
        numbers."""
        self.flag = np.where((self.flag >= 0) & which, np.int32(SEPARATED_LEVEL), self.flag)

    @cached_property
    def outside(self) -> np.ndarray:
        """Whether a number is outside the range that a spline has learnt, so that the spline uses the end of the range."""
        outside = np.zeros(self._count, bool)
        for factor in self._design.numeric:
            key = f"outside/{factor.name}"
            if key in self._tables:
                outside |= self.looked_up(key, factor.column) > 0
            elif transforms.learns_range(factor.learnt):
                x = self.values(factor) if len(factor.columns) > 1 else self._stored(factor.column)
                outside |= transforms.is_outside(np, factor.learnt, x)
        return outside & (self.flag >= 0)

    @property
    def repeats(self) -> np.ndarray | float:
        """The number of rows that each row represents, whether it takes part or not."""
        return self.number(self._design.roles.frequency) if self._design.roles.frequency else 1.0

    @cached_property
    def frequency(self) -> np.ndarray:
        """The number of rows that each row represents: 0 for a row that takes no part."""
        kept = self.flag >= 0
        for column in self._design.roles.multiplicities:
            kept &= self.number(column) > 0
        return np.where(kept, self.repeats, 0.0) if self._design.roles.frequency else kept.astype(float)

    @cached_property
    def kept(self) -> np.ndarray:
        return self.frequency > 0

    @cached_property
    def prior_weight(self) -> np.ndarray:
        """Its weight in the likelihood, were it one row: the prior weight times the number of trials."""
        weight = self.kept.astype(float)
        for column in (self._design.roles.weights, self._design.roles.trials):
            if column:
                weight *= np.where(self.kept, self.number(column), 0.0)
        return weight

    @cached_property
    def weight(self) -> np.ndarray:
        """Its weight in the likelihood."""
        design = self._design
        if not (design.roles.weights or design.roles.trials):
            return self.frequency
        return self.prior_weight if not design.roles.frequency else self.frequency * self.prior_weight

    @cached_property
    def y(self) -> np.ndarray:
        """The response; of trials, the share of events; of classes, the number of the class."""
        if not self._design.roles.response:
            return np.zeros(self._count)
        classes = self._design.classes
        y = self.level(classes).astype(float) if classes else self.number(self._design.roles.response)
        if self._design.roles.trials:
            y /= self.number(self._design.roles.trials)
        if self._design.likelihood.origin:
            y -= self._design.likelihood.origin
        kernels.keep(y, self.frequency)
        return y

    def tabled(
        self, columns: Sequence[tuple[str, int]], multipliers: Sequence[Multiplier]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the joint code of each row in these columns, uint16 [rows], and the products of numbers for each joint code,
        [codes, multipliers]. `columns` are names with the number of codes, 65,536 codes together at most. Numbers
        are 0 where a value is missing, and in rows that take no part."""
        codes = self._columns[columns[0][0]].astype(np.uint16, copy=False)
        for name, size in columns[1:]:
            codes = codes * np.uint16(size) + self._columns[name].astype(np.uint16, copy=False)
        key = f"tabled/{multipliers[0]}"
        # The first code is that of a missing value. A row that takes no part may have any values, even some without a mean.
        codes = np.where(self.flag < 0, np.uint16(0), codes)
        if key not in self._tables:
            grid = np.indices([size for _, size in columns]).reshape(len(columns), -1)
            stored = {
                name: of_column.astype(self._columns[name].dtype)
                for (name, _), of_column in zip(columns, grid, strict=True)
            }
            each = Rows(self._design, stored, self._tables, self._positions, grid.shape[1])
            each.flag = np.zeros(grid.shape[1], np.int32)
            table = each.multiplied(multipliers, np.empty((len(multipliers), grid.shape[1]))).T
            self._tables[key] = np.where(np.isfinite(table), table, 0.0)
        return codes, self._tables[key]

    def multiplied(self, multipliers: Sequence[Multiplier], products: Products) -> Products:
        """Set `products` [multipliers, rows] to the products of numbers on the scale of the fit."""
        uses = Counter((number, each.form) for each in multipliers if len(each.numbers) > 1 for number in each.numbers)
        kept = {  # what several products need
            key: self._standardised(*key, np.empty(self._count)) for key, times in uses.items() if times > 1
        }
        for product, multiplier in zip(products, multipliers, strict=True):
            first, *others = ((number, multiplier.form) for number in multiplier.numbers)
            if first in kept:
                product[:] = kept[first]
            else:
                self._standardised(*first, product)
            for other in others:
                product *= kept[other] if other in kept else self._standardised(*other, np.empty(self._count))
        return products

    def _standardised(self, number: tuple[str, int], form: int, out: np.ndarray) -> np.ndarray:
        name, column = number
        factor = self._design.numeric_by_name[name]
        center, scale = float(0.0 if form == RAW else factor.center[column]), float(factor.scale[column])
        kernels.standardise(self.numbers(factor)[column], center, scale, self.flag, out)
        if form == APART and factor.earlier_of(column):
            for earlier, place, weight in factor.earlier_of(column):
                out -= weight * self._standardised((earlier, place), form, np.empty(self._count))
            out /= factor.left[column]
        return out

    def linear_predictor(self, coefficients: np.ndarray, parts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """`coefficients` [coefficients], `parts` as `kernels.add_linear_predictor` takes them, `numbers` [multipliers, rows]."""
        eta = self.without_offset(coefficients, parts, numbers)
        return eta + self.offset if self._design.roles.offset else eta

    def without_offset(self, coefficients: np.ndarray, parts: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The linear predictor without the offset."""
        eta = np.zeros(self._count)
        kernels.add_linear_predictor(eta, coefficients, parts, self.groups, numbers)
        return eta

    @cached_property
    def offset(self) -> np.ndarray:
        assert self._design.roles.offset
        return np.where(self.flag >= 0, self.numbers(self._design.roles.offset)[0], 0.0)


def positions_of(design: Design) -> dict[tuple[str, ...], np.ndarray]:
    """For each grouping of several factors the group of each combination of their levels, int32; UNSEEN_LEVEL where there is
    none. For the clusters of rows that agree in several columns the combinations that occur, int64."""
    positions: dict[tuple[str, ...], np.ndarray] = {
        (cluster_key(number),): np.array(cells.joint, np.int64)
        for number, cells in enumerate(design.inference.cells, len(design.inference.clusters))
    }
    for grouping in design.groupings:
        if len(grouping) > 1:
            positions[grouping] = np.full(
                math.prod(len(design.categorical_by_name[name].levels) for name in grouping), UNSEEN_LEVEL, np.int32
            )
            positions[grouping][list(design.combinations[grouping])] = np.arange(design.levels_of(grouping))
    return positions


def rows_of(
    design: Design,
    signature: Signature,
    call: Sequence[np.ndarray],
    positions: Mapping[tuple[str, ...], np.ndarray],
    orders: np.ndarray | None = None,
) -> Iterator[Rows]:
    """Read the rows of a call, `(paths, checksums, blocks, counts, *tables)` as `Workload` makes it, some blocks at a time.
    Each Rows is valid until the next ones are read.

    `positions` are those of the groups of each grouping (`positions_of`). `orders`, int32 [blocks of a call, 2], has
    multiplier and offset of `kernels.in_runs` for each block; by default blocks are read in the stored order.
    """
    paths, expected, blocks, counts, files, *tables = call
    keys, of_file = table_keys(design, signature)[1:], {}
    of_response = next((k for k, column in enumerate(signature.inputs) if column.column == design.roles.response), 0)
    with BlockReader(signature, paths, expected) as reader:
        for number, (block, count) in enumerate(zip(blocks, counts, strict=True)):
            if not count:
                break
            file = int(files[block // signature.blocks])
            if file not in of_file:
                of_file[file] = {key: np.array(table[file]) for key, table in zip(keys, tables, strict=True)}
            order = None if orders is None else (int(orders[number, 0]), int(orders[number, 1]))
            columns = reader.read(int(block), int(count), order)
            rows = Rows(design, columns, of_file[file], positions, int(count))
            if design.folds and design.folds.fold is not None:
                folds = rows.folds(expected[int(block) :, of_response])
                rows.leave_out((folds == design.folds.fold) != design.folds.held)  # the held-out fold, or all others
            yield rows


def table_keys(design: Design, signature: Signature) -> list[str]:
    """The names of the tables that a pass gets, in their order: `file` says for each shard which row of the others is its own."""
    coded = {column.column for column in signature.inputs if column.coded}
    numbers = [
        None if design.classes else design.roles.response,
        design.roles.weights,
        design.roles.frequency,
        design.roles.trials,
    ]
    # The numbers of a factor of two columns are no table of the codes of one.
    numbers += [column for factor in design.numeric if len(factor.columns) > 1 for column in factor.columns]
    factors = [factor for factor in design.numeric_with_offset if len(factor.columns) == 1]
    return [
        "file",
        "missing",
        *dict.fromkeys(f"number/{column}" for column in numbers if column in coded),
        *dict.fromkeys(
            f"factor/{factor.name}/{k}" for factor in factors if factor.column in coded for k in range(factor.width)
        ),
        *(
            f"outside/{factor.name}"
            for factor in factors
            if factor is not design.roles.offset and factor.column in coded and transforms.learns_range(factor.learnt)
        ),
        *(f"level/{factor.name}" for factor in design.categorical),
        *(cluster_key(number) for number in range(len(design.inference.clusters))),
        *(["fold"] if design.groups_of_folds else []),
        *(f"group/{':'.join(grouping)}" for grouping in design.groupings if len(grouping) > 1),
    ]
