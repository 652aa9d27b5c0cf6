"""One parse of one input file: rows selected and counted, columns encoded, shards written, in memory that does not grow."""

import hashlib
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.config import FILE, RANDOM, SPLITS, Layout, SelectionConfig
from tfglm.data import shards, source
from tfglm.data.distinct import Distinct
from tfglm.data.encoding import ColumnEncoder, groups_of, kind_of, levels_table, moments
from tfglm.data.layouts import choose
from tfglm.data.mixing import Mixed, MixedShard, Mixer
from tfglm.data.selection import Selection, selection
from tfglm.data.shards import MISSING, Manifest, Shard
from tfglm.data.source import UNREADABLE, Block, Parser, Unreadable
from tfglm.errors import UserError

PREDICT = SPLITS.index("predict")

SHOWN = 10
"""Dropped lines that are named one by one."""


def ingest(
    path: Path,
    file: str,
    layouts: Mapping[str, Layout],
    settings: SelectionConfig,
    folder: Path,
    threads: int = 2,
    log: Callable[[str], None] = lambda message: None,
) -> Manifest:
    """Write the shards, the levels and the manifest of one input file into `folder`, which appears complete or not at all.

    `layouts` are those that the file may have, by name. Raises UserError, which names the file and where it can the line,
    for a file that cannot be read, a column that is not there, an expression that cannot be evaluated, or a value that is
    not finite. With `settings.bad_rows` "drop", lines that cannot be read are counted and the first ones logged.
    """
    header = source.read_header(path)
    name, layout = choose(header, layouts, settings, str(path))
    log(f"{path}: layout {name}")
    reader = Reader.of(path, file, header, layout, settings, log)
    with replaced(folder) as made, ThreadPoolExecutor(threads) as executor, ThreadPoolExecutor(1) as beside:
        digest = beside.submit(digest_of, path)
        (made / "spill").mkdir()
        mixer = Mixer(made / "spill", reader.encoders, settings.seed, executor)
        places = [np.zeros(0, np.int64)]
        for part in reader.parts(executor, threads):
            places.append(part.first + part.places[part.split == PREDICT])
            encoded = zip(reader.encoders, part.columns, strict=True)
            mixer.add(part.split, [encoder.encode(column) for encoder, column in encoded])
        mixed = mixer.finish()
        capacity = shards.capacity_for(mixed.total())
        written, sums, levels = write_shards(mixed, capacity, made, executor, threads)
        shutil.rmtree(mixer.folder)
        columns = tuple(column.stored for column in mixed.columns)
        counted = (reader.read, dict(reader.dropped))
        manifest = Manifest(file, str(path), digest.result(), name, capacity, columns, tuple(written), *counted)
        with shards.written(made / "levels.parquet"):
            levels.write_parquet(made / "levels.parquet")
            np.save(made / "checksums.npy", sums)
            np.save(made / "predicted_rows.npy", np.concatenate(places))
            manifest.write(made / "manifest.json")
    return manifest


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A folder to write in, which takes the place of `folder` when all went well and is removed otherwise."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_shards(
    mixed: Mixed, capacity: int, folder: Path, executor: ThreadPoolExecutor, threads: int
) -> tuple[list[Shard], np.ndarray, pl.DataFrame]:
    """The shards, the checksums of their blocks, int64 [blocks, columns], and the table of levels."""
    (folder / "shards").mkdir()
    written, sums = [], [np.zeros((0, len(mixed.columns)), np.int64)]
    described: list[list[dict]] = [[] for _ in mixed.columns]
    pieces = (piece for split in range(len(SPLITS)) for piece in mixed.shards(split, capacity))
    for _, future in in_order(executor, partial(write_shard, folder), pieces, threads):
        shard, checksums, of_shard = future.result()
        written.append(shard)
        sums.append(checksums)
        for known, found in zip(described, of_shard, strict=True):
            known += found
    tables = [
        levels_table(column, mixed.columns[0], known) for column, known in zip(mixed.columns, described, strict=True)
    ]
    return written, np.concatenate(sums), pl.concat(tables)


def write_shard(folder: Path, piece: MixedShard) -> tuple[Shard, np.ndarray, list[list[dict]]]:
    """One shard, the checksums of its blocks, int64 [blocks, columns], and the moments of its columns that are plain."""
    name, order = SPLITS[piece.split], piece.order()
    shard = Shard(f"shards/{name}-{piece.piece:05d}", name, len(order))
    (folder / shard.path).mkdir()
    patterns = piece.column(0, order)
    groups = groups_of(patterns, piece.split, 0, len(order))
    sums, described = [], []
    for number, column in enumerate(piece.mixed.columns):
        values = piece.column(number, order) if number else patterns
        sums.append(shards.write_column(folder / shard.path / column.stored.name, values))
        described.append([] if column.stored.coded else moments(values, groups))
    return shard, np.stack(sums, axis=1), described


@dataclass(frozen=True)
class Part:
    """What is kept of a block: the number of the split of each row, [rows], its place in the block, [rows], and the columns in
    the encoders' order.

    `dropped` counts the rows that are not kept by reason, `read` all rows; `first` is the number of the block's first row in the
    file, from 1.
    """

    split: np.ndarray
    places: np.ndarray
    columns: list[Distinct]
    dropped: Counter
    read: int
    first: int = 0


@dataclass
class Reader:
    """One file on its way from lines to kept rows; `read` and `dropped` count the rows that have passed."""

    file: str
    parser: Parser
    selection: Selection
    settings: SelectionConfig
    log: Callable[[str], None]
    encoders: list[ColumnEncoder]
    dropped: Counter
    read: int = 0
    unreadable: int = 0

    @classmethod
    def of(cls, path: Path, file: str, header: list[str], layout: Layout, settings: SelectionConfig, log) -> "Reader":
        """Raises UserError for an expression that cannot be evaluated, whatever the rows."""
        selected = selection(layout, settings)
        needed = {name: column for name, column in layout.columns.items() if name in selected.needed}
        parser = Parser(path, tuple(header), layout, needed)
        dropped = Counter(dict.fromkeys(selected.reasons, 0))
        reader = cls(file, parser, selected, settings, log, [], dropped)
        try:
            nothing = reader.select(Block(memoryview(b""), 2))
        except UNREADABLE as error:
            raise UserError(f"{path}: data.derive, data.where or data.split: {str(error).splitlines()[0]}") from error
        kinds = [kind_of(column.values) for column in nothing.columns]
        reader.encoders += [
            ColumnEncoder(name, kind) for name, kind in zip((MISSING, *settings.columns), kinds, strict=True)
        ]
        return reader

    def parts(self, executor: ThreadPoolExecutor, threads: int) -> Iterator[Part]:
        """The kept rows, block by block in the order of the file. Raises UserError for what cannot be read."""
        compiled = executor.submit(self.parser.compile) if self.parser.is_large() else None
        blocks = enumerate(self.parser.blocks(threads, numbered=RANDOM in self.selection.operands))
        for (number, block), future in in_order(executor, lambda item: self.select(item[1]), blocks, threads + 1):
            try:
                part = future.result()
            except UNREADABLE as error:
                part = self.mended(self.numbered(number, block), error)
            yield replace(part, first=self.read + 1)
            self.read += part.read
            self.dropped.update(part.dropped)
        if compiled:
            compiled.result()  # raises what went wrong there

    def numbered(self, number: int, block: Block) -> Block:
        """The block with that number, with its place in the file."""
        return block if block.first else next(islice(self.parser.blocks(1, numbered=True), number, None))

    def select(self, block: Block) -> Part:
        """The kept rows of a block. Raises one of UNREADABLE."""
        parsed = self.parser.parse(block.data)
        computed, reason, split = self.selection.select(self.operands(parsed, block.first), parsed.rows)
        kept = np.flatnonzero(reason == 0)
        columns = []
        for name in self.settings.columns:
            columns.append((computed if name in computed else parsed.columns)[name].take(kept))
            if is_infinite(columns[-1]):
                raise Unreadable(f"column `{name}` is infinite; drop such rows with a condition in data.where")
        counts = np.bincount(reason, minlength=len(self.selection.reasons) + 1)[1:].tolist()
        dropped = Counter(dict(zip(self.selection.reasons, counts, strict=True)))
        missing = patterns(self.settings.columns, columns, len(kept))
        return Part(split.take(kept).astype(np.uint8), kept, [missing, *columns], dropped, parsed.rows)

    def operands(self, parsed: source.Parsed, first: int) -> dict[str, Distinct]:
        """What the expressions look at; `first` is the number of the first row."""
        made = dict(parsed.columns)
        if FILE in self.selection.operands:
            made[FILE] = Distinct(pl.Series([self.file]).to_arrow(), np.zeros(parsed.rows, np.int32))
        if RANDOM in self.selection.operands:
            drawn = uniform(self.settings.seed, self.file, first, parsed.rows)
            made[RANDOM] = Distinct(pl.Series(drawn).to_arrow(), np.arange(parsed.rows, dtype=np.int32))
        return made

    def mended(self, block: Block, error: Exception) -> Part:
        """What is kept of a block with lines that cannot be read, if the settings allow to drop them.

        Raises UserError, which names the first such line, if they do not.
        """
        if isinstance(block.data, pa.RecordBatch):
            rows = f"rows {block.first} to {block.first + block.data.num_rows - 1}"
            raise UserError(f"{self.parser.path}, {rows}: {str(error).splitlines()[0]}") from error
        lines = bytes(block.data).splitlines(keepends=True)
        dropped = Counter()
        bad = set()
        for number, problem in self.unreadable_lines(lines, block.first, 0, len(lines), error):
            reason, remark = self.parser.describe(lines[number], problem)
            place = f"{self.parser.path}, line {block.first + number}: {remark}"
            if self.settings.bad_rows == "error":
                raise UserError(f"{place}\n  or set data.bad_rows to `drop`, to count and leave out such lines")
            self.unreadable += 1
            if self.unreadable <= SHOWN:
                self.log(f"dropped {place}")
            dropped[f"unreadable: {reason}"] += 1
            bad.add(number)
        good = [number for number in range(len(lines)) if number not in bad]
        part = self.select(joined((lines[number] for number in good), block.first))
        # Empty lines are no rows, and make the numbers of lines and rows differ.
        rows = np.array([number for number in good if lines[number].strip(b"\r\n")], np.int64)
        empty = np.cumsum([not line.strip(b"\r\n") for line in lines])
        places = (rows - empty[rows])[part.places] if len(rows) == part.read else part.places
        return replace(part, places=places, dropped=part.dropped + dropped, read=part.read + len(bad))

    def unreadable_lines(
        self, lines: list[bytes], place: int, first: int, last: int, error: Exception
    ) -> Iterator[tuple[int, Exception]]:
        """The lines among `first` to `last` (excluded), which are known to fail together, that fail alone, with their errors.

        By halves: the parser itself says what it can read, and only the neighbourhood of a bad line is read again.
        """
        if last - first == 1:
            yield first, error
            return
        middle = (first + last) // 2
        for start, stop in ((first, middle), (middle, last)):
            try:
                self.select(joined(lines[start:stop], place + start))
            except UNREADABLE as problem:
                yield from self.unreadable_lines(lines, place, start, stop, problem)


def in_order(
    executor: ThreadPoolExecutor, function: Callable, items: Iterable, most: int
) -> Iterator[tuple[object, Future]]:
    """Each item with the future of `function(item)`, in order, with at most `most` under way."""
    under_way: deque = deque()
    for item in items:
        under_way.append((item, executor.submit(function, item)))
        if len(under_way) >= most:
            yield under_way.popleft()
    yield from under_way


def joined(lines: Iterable[bytes], place: int) -> Block:
    return Block(memoryview(b"".join(lines)), place)


def is_infinite(column: Distinct) -> bool:
    """Whether a row holds an infinite value."""
    if not pa.types.is_floating(column.values.type):
        return False
    infinite = np.flatnonzero(np.isinf(column.values.to_numpy()))
    return bool(len(infinite)) and bool(np.isin(column.indices, infinite).any())


def patterns(names: list[str], columns: list[Distinct], rows: int) -> Distinct:
    """Which of the columns each row lacks, as the names with commas between: the column MISSING."""
    lacking = {name: column.indices < 0 for name, column in zip(names, columns, strict=True)}
    lacking = {name: rows for name, rows in lacking.items() if rows.any()}
    if not lacking:
        return Distinct(pl.Series([""]).to_arrow(), np.zeros(rows, np.int32))
    some = np.flatnonzero(np.logical_or.reduce(list(lacking.values())))
    masks, which = np.unique(np.stack([rows[some] for rows in lacking.values()], 1), axis=0, return_inverse=True)
    texts = [",".join(np.array(list(lacking))[mask]) for mask in masks]
    indices = np.full(rows, len(texts), np.int32)
    indices[some] = which.reshape(-1)
    return Distinct(pl.Series([*texts, ""]).to_arrow(), indices)


def uniform(seed: int, file: str, line: int, rows: int) -> np.ndarray:
    """A number from [0, 1) for each of `rows` lines from `line` on: it depends on seed, file name and line alone.

    Philox is a generator with a counter, so that it can start at any line; each step of the counter gives four numbers.
    """
    key = np.random.SeedSequence([seed, *file.encode()]).generate_state(2, np.uint64)
    generator = np.random.Generator(np.random.Philox(key=key).advance(int(line) // 4))
    return generator.random(line % 4 + rows)[line % 4 :]
