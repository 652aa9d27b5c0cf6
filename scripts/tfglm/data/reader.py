"""One file on its way from lines to kept rows: conditions and splits applied, lines that cannot be read named or counted."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.config import FILE, RANDOM, Layout, SelectionConfig
from tfglm.data.blocks import InputBlock
from tfglm.data.csv_lines import LineProblem
from tfglm.data.distinct import Distinct
from tfglm.data.encoding import ColumnEncoder, Encoder, ImageEncoder
from tfglm.data.limits import DEFAULT_LIMITS, IngestLimits
from tfglm.data.parser import UNREADABLE, Parsed, Parser
from tfglm.data.selection import Selection, selection
from tfglm.data.shards import MISSING
from tfglm.data.sql import failure
from tfglm.data.values import Unreadable
from tfglm.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

SHOWN = 10
"""Dropped lines that are reported individually."""

READ_AHEAD = 3
"""Blocks that are read and unpacked in advance: enough to continue while the parsing threads shuffle."""

LARGEST_SHARE = 0.1
"""Largest share of unreadable rows of a large file that may be dropped; for a small file see `limits.few_bad_rows`."""


@dataclass(frozen=True)
class KeptRows:
    """The kept rows of a block: the split number of each row [rows], its place in the block [rows], and the columns in the
    order of the encoders.

    `dropped` counts the rows that are not kept, by reason. `read` is the number of all rows, and `lines` the number of
    lines, including blank lines. `first` is the number of the block's first row in the file, from 1.
    """

    split: np.ndarray
    places: np.ndarray
    columns: list[Distinct]
    dropped: Counter
    read: int
    lines: int
    first: int = 0


@dataclass
class InputReader:
    """One file; `read`, `lines` and `dropped` count what has passed."""

    file: str
    parser: Parser
    selection: Selection
    settings: SelectionConfig
    log: Callable[[str], None]
    limits: IngestLimits
    encoders: list[Encoder]
    dropped: Counter
    read: int = 0
    lines: int = 0
    unreadable: int = 0
    shown: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        path: Path,
        file: str,
        header: list[str],
        layout: Layout,
        settings: SelectionConfig,
        log: Callable[[str], None],
        limits: IngestLimits = DEFAULT_LIMITS,
    ) -> "InputReader":
        """Raises UserError for an expression that cannot be evaluated, whatever the rows."""
        selected = selection(layout, settings)
        needed = {name: column for name, column in layout.columns.items() if name in selected.needed}
        parser = Parser(path, tuple(header), layout, needed, settings.bad_rows == "drop", limits.block_bytes)
        parser.check_types()
        dropped = Counter(dict.fromkeys(selected.reasons, 0))
        reader = cls(file, parser, selected, settings, log, limits, [], dropped)
        for name, kind in {MISSING: "text", **selected.kinds}.items():
            if kind != "image":
                reader.encoders.append(ColumnEncoder(name, kind or "number", limits))  # of a column of nulls
            elif parser.images:
                reader.encoders.append(ImageEncoder(name, parser.images.shape))
            else:
                raise UserError(
                    f"{path}: `{name}` has the type image in the layout, and images are read from .npz files only"
                )
        return reader

    def kept_rows(self, executor: ThreadPoolExecutor, threads: int, compiled: bool | None = None) -> Iterator[KeptRows]:
        """Yield the kept rows, block by block in the order of the file. `threads` blocks are parsed at the same time, and
        one more waits. By default compiled code is loaded while the first blocks of a large file are parsed; `compiled` says
        whether it parses plain lines from the first block on. Raises UserError if a line or block cannot be read."""
        if compiled:
            self.parser.compile()
        loading = executor.submit(self.parser.compile) if compiled is None and self.parser.is_large() else None
        blocks = self.parser.blocks(threads, numbered=RANDOM in self.selection.operands)
        with ThreadPoolExecutor(1) as reading:
            for block, future in in_order(executor, self.select, read_ahead(reading, blocks), threads + 1):
                try:
                    kept = future.result()
                except UNREADABLE:
                    kept = self.repaired(block)
                yield replace(kept, first=self.read + 1)
                self.read += kept.read
                self.lines += kept.lines
                self.dropped.update(kept.dropped)
                self.parser.buffers.give(block)
        if loading:
            loading.result()  # raises what went wrong there

    def select(self, block: InputBlock) -> KeptRows:
        """The kept rows of a block. Raises one of UNREADABLE."""
        parsed = self.parser.parse(block.data)
        kept, infinite = self.kept(parsed, block.first)
        if infinite:
            raise Unreadable(next(iter(infinite.values())).remark)
        return kept

    def kept(self, parsed: Parsed, first: int) -> tuple[KeptRows, dict[int, LineProblem]]:
        """Return the kept rows of a block whose first line has the number `first`, and the problems of those with a value
        that is not finite, by their place in `parsed`. Raises one of UNREADABLE."""
        computed, reason, split = self.selection.select(self.operands(parsed, first), parsed.rows)
        kept = np.flatnonzero(reason == len(self.selection.reasons))
        columns: list[Distinct] = []
        infinite: dict[int, LineProblem] = {}
        for name in self.settings.columns:
            columns.append((computed if name in computed else parsed.columns)[name].take(kept))
            remark = f"column `{name}` is infinite; drop such rows with a condition in data.where"
            problem = LineProblem("expression", remark)
            infinite = dict.fromkeys(kept[infinite_rows(columns[-1])].tolist(), problem) | infinite
        counts = np.bincount(
            reason[reason < len(self.selection.reasons)], minlength=len(self.selection.reasons)
        ).tolist()
        dropped = Counter(dict(zip(self.selection.reasons, counts, strict=True)))
        missing = patterns(self.settings.columns, columns, len(kept))
        return KeptRows(split.take(kept), kept, [missing, *columns], dropped, parsed.rows, parsed.lines), infinite

    def operands(self, parsed: Parsed, first: int) -> dict[str, Distinct]:
        """Return the columns that expressions read; `first` is the number of the first line, or of the first row of a
        Parquet file."""
        operands = dict(parsed.columns)
        if FILE in self.selection.operands:
            operands[FILE] = Distinct(pl.Series([self.file]).to_arrow(), np.zeros(parsed.rows, np.int32))
        if RANDOM in self.selection.operands:
            drawn = uniform(self.settings.seed, self.file, first, parsed.lines)
            drawn = drawn if parsed.with_rows is None else drawn[parsed.with_rows]
            operands[RANDOM] = Distinct(pl.Series(drawn).to_arrow(), np.arange(parsed.rows, dtype=np.int32))
        return operands

    def repaired(self, block: InputBlock) -> KeptRows:
        """Return the kept rows of a block with unreadable lines, if the settings allow dropping these. Raises UserError,
        which names the first such line, if the settings do not allow it, or if there are too many."""
        is_text = not isinstance(block.data, pa.RecordBatch)
        first = self.lines + self.parser.first_line if is_text else block.first
        # An editor shows lines; before those of JSON, and the rows of files with types, is no line of names.
        kind = self.parser.kind
        place = f"{self.parser.path}, {'line' if kind in ('csv', 'workbook', 'json') else 'row'} "
        number = first if kind in ("csv", "workbook") else self.lines + 1
        problems, parsed = self.parser.examine(block.data)
        self.report(problems, place, number)
        rows = parsed.rows + len(problems)
        self.check_share(len(problems), rows)
        failing = self.failing(parsed, first, rows - parsed.rows, rows)
        failed = dict(failing if self.settings.bad_rows == "drop" else islice(failing, 1))
        if failed:
            by_line = {int(parsed.line_numbers[row]): problem for row, problem in failed.items()}
            self.report(by_line, place, number)
            problems |= by_line
            parsed = parsed.taken(np.setdiff1d(np.arange(parsed.rows), list(failed)))
        kept, _ = self.kept(parsed, first)
        self.unreadable += len(problems)
        # Among the lines that are not blank.
        places = np.searchsorted(np.sort([*parsed.line_numbers, *problems]), parsed.line_numbers)[kept.places]
        dropped = Counter(f"unreadable: {problem.reason}" for problem in problems.values())
        return replace(kept, places=places, dropped=kept.dropped + dropped, read=rows)

    def report(self, problems: dict[int, LineProblem], place: str, first: int) -> None:
        """Log the problems of lines of a block, by their number in it, or raise UserError, as the settings require. A
        message locates a line by `place` and the number of the line; `first` is the number of the block's first line."""
        for number in sorted(problems):
            remark = f"{place}{first + number}: {problems[number].remark}"
            if self.settings.bad_rows == "error":
                raise UserError(f"{remark}\n  or set data.bad_rows to `drop`, to count and leave out such lines")
            if len(self.shown) == SHOWN:
                return
            self.log(f"dropped {remark}")
            self.shown.append(remark)

    def check_share(self, bad: int, rows: int) -> None:
        """Raise UserError if more rows are to be dropped than may be, `bad` of the next `rows` and those before."""
        bad, rows = self.unreadable + bad, self.read + rows
        if self.settings.bad_rows == "drop" and bad > max(self.limits.few_bad_rows, LARGEST_SHARE * rows):
            most = f"{self.limits.few_bad_rows} rows, and {LARGEST_SHARE:.0%} of a larger file"
            shown = "\n  ".join(self.shown[:3])
            raise UserError(
                f"{self.parser.path}: {bad:,} of the first {rows:,} rows cannot be read, and `bad_rows: drop` allows "
                f"fewer ({most}): something is wrong with the file or its layout\n"
                f"  {shown}"
            )

    def failing(self, parsed: Parsed, first: int, bad: int, rows: int) -> Iterator[tuple[int, LineProblem]]:
        """Yield the rows, by their place in `parsed`, for which an expression cannot be evaluated or a value is not finite,
        with the problem. It bisects the block. `bad` of its `rows` are known to be unreadable."""
        waiting = [np.arange(parsed.rows)]
        while waiting:
            places = waiting.pop()
            taken = parsed.taken(places)
            try:
                _, infinite = self.kept(taken, first)
            except UNREADABLE as error:
                if len(places) > 1:
                    waiting += [places[len(places) // 2 :], places[: len(places) // 2]]
                    continue
                infinite = {0: LineProblem("expression", failure(error))}
            bad += len(infinite)
            self.check_share(bad, rows)
            for row, problem in sorted(infinite.items(), key=itemgetter(0)):
                yield int(places[row]), problem


def read_ahead(executor: ThreadPoolExecutor, items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items, while the executor, which has one thread, prepares the next READ_AHEAD items."""
    following = deque(executor.submit(next, items, None) for _ in range(READ_AHEAD))
    while (item := following.popleft().result()) is not None:
        following.append(executor.submit(next, items, None))
        yield item


def in_order(
    executor: ThreadPoolExecutor, function: Callable[[Item], Result], items: Iterable[Item], most: int
) -> Iterator[tuple[Item, Future[Result]]]:
    """Yield each item with the future of `function(item)`, in order, with at most `most` running."""
    under_way: deque = deque()
    for item in items:
        under_way.append((item, executor.submit(function, item)))
        if len(under_way) >= most:
            yield under_way.popleft()
    yield from under_way


def infinite_rows(column: Distinct) -> np.ndarray:
    """Return the positions of rows with an infinite value."""
    if not pa.types.is_floating(column.values.type):
        return np.zeros(0, np.int64)
    infinite = np.flatnonzero(np.isinf(pl.Series(column.values).to_numpy()))
    return np.flatnonzero(np.isin(column.indices, infinite)) if len(infinite) else np.zeros(0, np.int64)


def patterns(names: list[str], columns: list[Distinct], rows: int) -> Distinct:
    """Return the missing columns of each row, as names separated by commas: the column MISSING."""
    lacking = {
        name: column.through(np.append(np.zeros(len(column.values), bool), True))
        for name, column in zip(names, columns, strict=True)
        if column.table is None
        or (column.table < 0).any()  # a value may be missing; whether one is takes a look at all rows
    }
    lacking = {name: rows for name, rows in lacking.items() if rows.any()}
    if not lacking:
        return Distinct(pl.Series([""]).to_arrow(), np.zeros(rows, np.int32))
    some = np.flatnonzero(np.logical_or.reduce(list(lacking.values())))
    masks, mask_of_row = np.unique(np.stack([rows[some] for rows in lacking.values()], 1), axis=0, return_inverse=True)
    texts = [",".join(np.array(list(lacking))[mask]) for mask in masks]
    indices = np.full(rows, len(texts), np.int32)
    indices[some] = mask_of_row.reshape(-1)
    return Distinct(pl.Series([*texts, ""]).to_arrow(), indices)


def uniform(seed: int, file: str, line: int, rows: int) -> np.ndarray:
    """A number from [0, 1) for each of `rows` lines from `line` on: it depends on seed, file name and line alone. Philox is
    a generator with a counter, so that it can start at any line; each step of the counter gives four numbers."""
    key = np.random.SeedSequence([seed, *file.encode()]).generate_state(2, np.uint64)
    generator = np.random.Generator(np.random.Philox(key=key).advance(int(line) // 4))
    return generator.random(line % 4 + rows)[line % 4 :]
