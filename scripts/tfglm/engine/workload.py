"""The rows of one split, cut into the calls of a pass."""

import math
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from tfglm.data.dictionary import lacks, written
from tfglm.data.folds import assign_folds, stored_name
from tfglm.data.shards import AT_ONCE, BLOCK_ROWS, MISSING, SMALLEST_CAPACITY, IngestedFile, Shard
from tfglm.data.training_rows import number_table
from tfglm.design import transforms
from tfglm.design.clusters import cluster_numbers, numbers_by_code
from tfglm.design.design import Design
from tfglm.design.levels import levels_by_code
from tfglm.distribute.executor import Executor
from tfglm.engine import cells, division, updates  # noqa: F401  registers passes, and how they are divided
from tfglm.engine.blocks import Input, Signature
from tfglm.engine.cutting import Cutting, cut
from tfglm.engine.passes import Passes, Sums
from tfglm.engine.rows import (
    LEFT_OUT,
    LOWEST_FLAG,
    MISSING_VALUE,
    SEPARATED_LEVEL,
    UNSEEN_LEVEL,
    WITHOUT_ESTIMATE,
    table_keys,
)
from tfglm.errors import UserError

DEFAULT_CUTTING = Cutting()


Groups = Mapping[tuple[str, ...], frozenset[int]]
"""Numbers of groups, by grouping."""


@dataclass(eq=False)
class Workload:
    """The rows of one split, cut into calls.

    `excluded` has, for some groupings, the groups (by number) whose rows take no part. `unseen` has, for some factors, the
    level that replaces values which no training row has; without it, rows with such a value take no part. `share` is the
    share of each file that is used. Two more kinds of rows take no part: those that move by more than 1 along one of the
    directions in `left_out` [directions, p], and those of groups that are `unknown`, whose coefficients have no estimate.
    """

    design: Design
    files: Sequence[IngestedFile]
    split: str
    excluded: Groups = field(default_factory=dict)
    unseen: Mapping[str, int] = field(default_factory=dict)
    share: float = 1.0
    cutting: Cutting = DEFAULT_CUTTING
    left_out: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    unknown: Groups = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._passes: dict[Signature, Passes] = {}
        self._cuts: dict[tuple[int, ...], dict[Signature, list[tuple]]] = {}
        self._tables: dict[int, list[np.ndarray]] = {}
        self._columns: dict[tuple[int, str], tuple[list[str], list[int]]] = {}
        self._mapped: dict[str, tuple[str, dict[int, np.ndarray]]] = {}

    def excluding(self, excluded: Groups) -> Self:
        """Return the same shards with other groups excluded."""
        return self._changed(excluded=excluded)

    def without_estimates(self, unknown: Groups) -> Self:
        """Return the same rows without the rows of these groups."""
        return self._changed(unknown=unknown)

    def along(self, left_out: np.ndarray) -> Self:
        """Return the same rows without those that move by more than 1 along these directions [directions, p]."""
        return self._changed(left_out=np.vstack([*self.left_out, *left_out]) if len(left_out) else self.left_out)

    def with_design(self, design: Design) -> Self:
        """Return the same rows for a design that differs only in its family, or in the origin of responses and offsets."""
        return self._changed(design=design)

    def as_in(self, other: "Workload") -> Self:
        """The rows that another workload of the same coefficients goes through, with the family and the origin of its design."""
        theirs = other.design.likelihood
        design = self.design.with_likelihood(theta=theirs.theta, power=theirs.power, origin=theirs.origin)
        design = design.with_roles(offset=other.design.roles.offset)
        return self._changed(design=design, excluded=other.excluded, left_out=other.left_out, unknown=other.unknown)

    def sampled(self, share: float) -> Self:
        """The first rows of each file, which are a fair sample of it."""
        return self._changed(share=share)

    def _changed(self, **changes: Any) -> Self:
        other = replace(self, **changes)
        if other.design is self.design:
            other._passes, other._mapped = self._passes, self._mapped  # these are made once for both
        return other

    def passes(self, signature: Signature) -> Passes:
        """The passes for shards of this signature, made once."""
        if signature not in self._passes:
            self._passes[signature] = Passes(self.design, signature)
        return self._passes[signature]

    def sum(self, executor: Executor, name: str, coefficients: Mapping[str, np.ndarray]) -> Sums:
        """Sum the pass `name` over all rows; `coefficients` by term, and what else the pass has in its state. The order of the
        shards alone decides the order of the additions."""
        total: Sums = {}
        state = self._with_left_out(coefficients)
        for signature, calls in self._calls_of(name).items():
            pass_ = self.passes(signature).named(name)
            sums = pass_.finish(executor.sum(pass_.task, calls, state))
            total = {key: total[key] + value if total else value for key, value in sums.items()}
        return total

    def state(self, coefficients: np.ndarray) -> dict[str, np.ndarray]:
        """Coefficients [p] as the passes over these rows take them."""
        return self._with_left_out(self.design.by_term(coefficients))

    def _with_left_out(self, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**state, LEFT_OUT: self.left_out} if len(self.left_out) else {**state}

    @property
    def rows(self) -> int:
        """Rows in the blocks that the calls go through."""
        return sum(rows for shards in self._alike.values() for *_, rows in self._used(shards))

    @cached_property
    def _alike(self) -> dict[Signature, list[tuple[IngestedFile, Shard, np.ndarray]]]:
        """The shards by the signature of a call that reads one of them."""
        alike: dict[Signature, list[tuple[IngestedFile, Shard, np.ndarray]]] = {}
        for file in self.files:
            mine = [(file, shard, sums) for shard, sums in file.shard_checksums() if shard.split == self.split]
            if mine:
                alike.setdefault(self._signature(file), []).extend(mine)
        return alike

    @property
    def calls(self) -> dict[Signature, list[tuple]]:
        """Return the arguments (paths, checksums, blocks, counts, *tables) of each call, by signature.

        `blocks.BlockReader` defines paths and checksums. `blocks` has the number of the first of some blocks
        (`shards.AT_ONCE`), and `counts` their rows, int32 [blocks of a call]; entries without rows come last. Tables are
        [files of a call, entries], except that those of the first of `rows.table_keys` are [shards of a call].
        """
        return self._calls_of("information")

    def _calls_of(self, name: str) -> dict[Signature, list[tuple]]:
        """The calls of the pass `name`: fewer than others have, if it sums so many numbers that to bring them to the chief would
        take longer than the rows."""
        rows = {alone: sum(rows for *_, rows in self._used(shards)) for alone, shards in self._alike.items()}
        usual, numbers = (
            tuple(self.cutting.calls(self.passes(alone).named(which).size, rows[alone]) for alone in rows)
            for which in ("information", name)
        )
        numbers = numbers if any(map(operator.lt, numbers, usual)) else usual
        if numbers not in self._cuts:
            calls = self._cuts[numbers] = {}
            for (alone, shards), number in zip(self._alike.items(), numbers, strict=True):
                pieces = cut(self._used(shards), number)
                files = max(len({id(file) for file, *_ in of_call}) for of_call in pieces)
                signature = replace(alone, shards=max(map(len, pieces)), files=files)
                calls[signature] = [self._call(signature, of_call) for of_call in pieces]
        return self._cuts[numbers]

    def shards_alone(self, in_units: bool = False) -> Iterator[tuple[IngestedFile, Shard, Signature, tuple]]:
        """Yield each shard with the call that reads only this shard, with rows in the order of the shard. With `in_units`, which
        processes share, a small file is read block by block."""
        for signature, shards in self._alike.items():
            at_once = 1 if in_units and signature.capacity == SMALLEST_CAPACITY else AT_ONCE
            for used in self._used(shards):
                file, shard, *_ = used
                yield file, shard, signature, self._call(signature, [(*used, 0)], at_once)

    def epoch(
        self, order: np.random.Generator | None, fewest_calls: int
    ) -> list[tuple[Signature, tuple[np.ndarray, ...]]]:
        """Return calls that together have each row once, in random order if `order` is given. The arguments are as in
        `calls`, with the orders of rows (`updates.orders`) before them."""
        calls = []
        for alone, shards in self._alike.items():
            used = self._used(shards)
            of_shards = min(self.cutting.rows_per_update // alone.capacity, len(used) // fewest_calls)
            of_shards = max(1, of_shards)
            signature = replace(alone, shards=of_shards, files=min(of_shards, len({id(file) for file, *_ in used})))
            places = np.arange(len(used)) if order is None else order.permutation(len(used))
            groups = np.array_split(places, -(-len(used) // signature.shards))
            pieces = -(-fewest_calls // len(groups))
            blocks_of_all = sum(-(-rows // BLOCK_ROWS) for *_, rows in used)
            at_once = AT_ONCE if blocks_of_all >= self.cutting.reads_to_shuffle * AT_ONCE * fewest_calls else 1
            for group in groups:
                of_group = [(*used[place], 0) for place in group]
                paths, expected, blocks, counts, *tables = self._call(signature, of_group, at_once)
                filled = np.flatnonzero(counts)
                mixed = filled if order is None else order.permutation(filled)
                for piece in np.array_split(mixed, min(pieces, len(filled))):
                    chosen = np.zeros((2, len(blocks)), np.int32)
                    chosen[:, : len(piece)] = blocks[piece], counts[piece]
                    call = (updates.orders(chosen[1], order), paths, expected, *chosen, *tables)
                    calls.append((signature, call))
        return calls if order is None else [calls[place] for place in order.permutation(len(calls))]

    def _used(self, shards: list[tuple[IngestedFile, Shard, np.ndarray]]) -> list[tuple]:
        """Return the first shards of each file that together have the share, as (file, shard, checksums, rows)."""
        of_file: dict[str, float] = {}
        for file, shard, _ in shards:
            of_file[file.manifest.file] = of_file.get(file.manifest.file, 0.0) + self.share * shard.rows
        used = []
        for file, shard, checksums in shards:
            rows = min(math.ceil(of_file[file.manifest.file]), shard.rows)
            of_file[file.manifest.file] -= rows
            if rows > 0:
                used.append((file, shard, checksums, rows))
        return used

    def _signature(self, file: IngestedFile) -> Signature:
        """Return the signature of a call that reads one shard of the file: the stored columns that a pass reads."""
        read, design, folds = [file.column(MISSING)], self.design, self.design.folds
        for name in design.columns:
            read += [file.column(name)] if name in design.number_columns else []
            read += [file.codes(name)] if name in design.identified_columns else []
        if folds and folds.fold is not None and not folds.groups:
            # Collapsed rows store the fold, because their places do not determine it.
            known = stored_name(design.roles.response or "", folds.number)
            read += [column for column in file.manifest.columns if column.name == known]
        inputs = []
        for column in dict.fromkeys(read):
            size = 1
            while column.coded and size <= len(file.values(column.name)):
                size *= 2
            inputs.append(Input(column.name, column.dtype, column.coded, size))
        return Signature(file.manifest.capacity, 1, 1, tuple(inputs))

    def _call(self, signature: Signature, pieces: list[tuple], at_once: int = AT_ONCE) -> tuple:
        """Return the call that reads these pieces of shards, (file, shard, checksums, rows, first). Each piece starts at a
        multiple of the number of blocks read together."""
        keys = table_keys(self.design, signature)[1:]
        names = [column.column for column in signature.inputs]
        paths = np.full((signature.shards, len(names)), os.devnull, object)
        expected = np.zeros((signature.shards * signature.blocks, len(names)), np.uint64)
        blocks = np.zeros((2, len(expected)), np.int32)
        tables: list[list[np.ndarray]] = []
        files: dict[int, int] = {}
        of_shard, filled = np.zeros(signature.shards, np.int32), 0
        for number, (file, shard, checksums, rows, begin) in enumerate(pieces):
            if (id(file), shard.path) not in self._columns:
                folder, stored = (file.folder / shard.path).resolve(), [each.name for each in file.manifest.columns]
                columns = [str(folder / name) for name in names], [stored.index(name) for name in names]
                self._columns[id(file), shard.path] = columns
            paths[number], places = self._columns[id(file), shard.path]
            first = number * signature.blocks
            expected[first : first + len(checksums)] = checksums[:, places]
            starts = np.arange(begin, rows, at_once * BLOCK_ROWS)
            where = slice(filled, filled + len(starts))
            blocks[:, where] = first + starts // BLOCK_ROWS, np.minimum(rows - starts, at_once * BLOCK_ROWS)
            filled = where.stop
            of_shard[number] = files.setdefault(id(file), len(files))
            if id(file) not in self._tables:
                self._tables[id(file)] = [self.table(file, signature, key) for key in keys]
            if of_shard[number] == len(tables):
                tables.append(self._tables[id(file)])
        tables += [tables[0]] * (signature.files - len(tables))
        stacked = (
            of_files[0][None] if len(of_files) == 1 else np.stack(of_files) for of_files in zip(*tables, strict=True)
        )
        return paths, expected, *blocks, of_shard, *stacked

    def table(self, file: IngestedFile, signature: Signature, key: str) -> np.ndarray:
        """Return the number for each code of a column in the table with this name (`table_keys`)."""
        sizes = {column.column: column.table_size for column in signature.inputs}
        what, _, name = key.partition("/")
        match what:
            case "missing":
                required = self.design.roles.required
                patterns = [MISSING_VALUE if lacks(pattern, required) else 0 for pattern in file.values(MISSING)]
                return padded([0, *patterns], sizes[MISSING], np.int32)
            case "cluster" | "fold" | "level":
                column, of_files = self._mapped_codes(key)
                numbers = of_files[id(file)]
                for without, flag in ((self.unknown, WITHOUT_ESTIMATE), (self.excluded, SEPARATED_LEVEL)):
                    if what == "level" and (left_out := list(without.get((name,), ()))):
                        numbers = np.where(np.isin(numbers, left_out), np.int32(flag), numbers)
                return padded(numbers, sizes[file.codes(column).name], np.int32)
            case "group":
                grouping = next(grouping for grouping in self.design.groupings if ":".join(grouping) == name)
                of_levels = np.arange(self.design.levels_of(grouping), dtype=np.int32)
                of_levels[sorted(self.excluded.get(grouping, ()))] = SEPARATED_LEVEL
                of_levels[sorted(self.unknown.get(grouping, ()))] = WITHOUT_ESTIMATE
                return np.concatenate([np.arange(LOWEST_FLAG, 0, dtype=np.int32), of_levels])
            case "number":
                return padded(number_table(file, name), sizes[name], np.float64)
        name, _, number = (name, "", "") if what == "outside" else name.rpartition("/")
        factor = next(factor for factor in self.design.numeric_with_offset if factor.name == name)
        with np.errstate(all="ignore"):
            values = number_table(file, factor.column)
            if what == "outside":
                return padded(transforms.is_outside(np, factor.learnt, values), sizes[factor.column], np.float64)
            column_of_factor = transforms.apply(np, factor.learnt, values)[int(number)]
        return padded(column_of_factor, sizes[factor.column], np.float64)

    def _mapped_codes(self, key: str) -> tuple[str, dict[int, np.ndarray]]:
        """The column of a table of levels, clusters or folds, and its entries by the `id` of the file, for all files
        together. Raises UserError if the files have not as many clusters as the design."""
        if key in self._mapped:
            return self._mapped[key]
        design, (what, _, name) = self.design, key.partition("/")
        if what == "level":
            factor = next(factor for factor in design.categorical if factor.name == name)
            column, unseen = factor.column, self.unseen.get(factor.name, UNSEEN_LEVEL)
            by_file = levels_by_code(factor, self.files, unseen)
        else:
            clusters = design.groups_of_folds if what == "fold" else design.inference.clusters[int(name or 0)]
            assert clusters
            column, numbered = clusters.column, cluster_numbers(clusters, self.files, design.roles.required)
            if what == "fold":
                # The fold of no value does not matter: such a row takes no part.
                assert design.folds
                folds = assign_folds(written(numbered["value"]).to_list(), design.folds.number)
                numbered = numbered.with_columns(cluster=pl.Series(folds))
                by_file = numbers_by_code(clusters, numbered, self.files)
            elif len(numbered) == clusters.count:
                by_file = numbers_by_code(clusters, numbered, self.files, MISSING_VALUE, UNSEEN_LEVEL)
            else:
                raise UserError(
                    f"models.{design.model}: the shards have {len(numbered):,} clusters (values of `{column}`), and the "
                    f"design has {clusters.count:,}: they come from different data\n"
                    "  delete the results and run again"
                )
        self._mapped[key] = column, dict(zip(map(id, self.files), by_file, strict=True))
        return self._mapped[key]


def padded(entries: npt.ArrayLike, size: int, dtype: npt.DTypeLike) -> np.ndarray:
    """The entries in a table of that size, zeros behind."""
    entries = np.asarray(entries, dtype)
    table = np.zeros((size, *entries.shape[1:]), dtype)
    table[: len(entries)] = entries
    return table
