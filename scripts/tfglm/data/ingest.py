"""One parse of one input file: rows selected and counted, columns encoded, shards written, in memory that does not grow."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np

from tfglm import digests
from tfglm.config import SPLITS, Layout, SelectionConfig
from tfglm.data import editions, levels, shards
from tfglm.data.encoding import groups_of
from tfglm.data.kinds import MEANINGS
from tfglm.data.layouts import recognised
from tfglm.data.limits import DEFAULT_LIMITS, IngestLimits
from tfglm.data.packing import left_out, packing
from tfglm.data.reader import InputReader, in_order
from tfglm.data.shards import Manifest, Shard
from tfglm.data.shuffle import ShuffledFile, ShuffledShard, Shuffler
from tfglm.errors import short, writing

PREDICT = SPLITS.index("predict")


def ingest(
    path: Path,
    file: str,
    layouts: Mapping[str, Layout],
    settings: SelectionConfig,
    folder: Path,
    threads: int = 2,
    log: Callable[[str], None] = lambda message: None,
    compiled: bool | None = None,
    limits: IngestLimits = DEFAULT_LIMITS,
    edition: int = 0,
    executor: ThreadPoolExecutor | None = None,
) -> Manifest:
    """Write the shards, the levels and the manifest of one CSV or Parquet file to `folder`, which appears complete or not at
    all.

    `file` is the name in results; the random numbers of rows depend on it. With `bad_rows` "drop", unreadable lines are
    counted, and the first ones are logged. Neither the number of `threads` nor `compiled` changes a byte; by default
    compiled code parses the plain lines of large files. `edition` says how often the content of the file has changed. Files
    that are read with the same `executor` share the distinct values of their fields.

    Raises UserError if the file cannot be read, changes during ingest or lacks a column, an expression cannot be evaluated,
    or a value is not finite. The message names the file and, if possible, the line.
    """
    before = editions.FileStatus.of(path)
    recognition = recognised(path, layouts, settings)
    log(f"{path}: layout {recognition.name}")
    reader = InputReader.of(path, file, recognition.header, recognition.layout, settings, log, limits)
    if skipped := reader.parser.skipped:
        above = "blank lines or comments above" if reader.parser.layout.comment else "blank lines before"
        log(f"{path}: {above} the header, which are skipped: {skipped:,}")
    if others := left_out(path):
        log(f"{path}: files of the archive that are not read: {', '.join(map(short, others[:10]))} ({len(others):,})")
    for encoder in reader.encoders[1:]:
        origin = "derived" if encoder.name in reader.selection.computed else "as read"
        log(f"  column {encoder.name}: {MEANINGS[encoder.kind]} ({origin})")
    with (
        editions.steady(path, before),
        replaced(folder) as partial,
        nullcontext(executor) if executor else ThreadPoolExecutor(threads) as executor,
        ThreadPoolExecutor(1) as beside,
    ):
        packed = beside.submit(editions.checksum_of, path) if packing(path) != "none" else None
        shuffler = Shuffler(partial / "spill", reader.encoders, settings.seed, executor, limits.chunk_bytes)
        places = [np.zeros(0, np.int64)]
        for kept in reader.kept_rows(executor, threads, compiled):
            places.append(kept.first + kept.places[kept.split == PREDICT])
            encoded = zip(reader.encoders, kept.columns, strict=True)
            shuffler.add(kept.split, [encoder.encode(column) for encoder, column in encoded])
        shuffled = shuffler.finish()
        capacity = shards.capacity_for(shuffled.total())
        written, sums, described = write_shards(shuffled, capacity, partial, executor, threads)
        if shuffler.folder.exists():
            shutil.rmtree(shuffler.folder)
        with writing(partial / shards.LEVELS):
            tables = (
                levels.table(column, shuffled.columns[0], of_column)
                for column, of_column in zip(shuffled.columns, described, strict=True)
            )
            levels.write(partial / shards.LEVELS, tables)
            shards.save(partial / shards.CHECKSUMS, sums)
            shards.save(partial / shards.PREDICTED_ROWS, np.concatenate(places))
            xxh128 = packed.result() if packed else reader.parser.checksum.hexdigest()
            manifest = Manifest(
                file,
                str(path),
                xxh128,
                recognition.name,
                capacity,
                tuple(column.stored for column in shuffled.columns),
                tuple(written),
                reader.read,
                dict(reader.dropped),
                {
                    name: digests.sha256(partial / name)
                    for name in (shards.LEVELS, shards.CHECKSUMS, shards.PREDICTED_ROWS)
                },
                {
                    name: min(reader.parser.twice[column.source])
                    for name, column in reader.parser.columns.items()
                    if column.source in reader.parser.twice
                },
                {
                    name: {} if is_unknown else dict(sorted(reader.parser.odd[column.source].items()))
                    for name, column in reader.parser.columns.items()
                    if (is_unknown := reader.parser.compiled is not None or column.source in reader.parser.unknown)
                    or column.source in reader.parser.odd
                },
            )
            manifest.write(partial / shards.MANIFEST)
            state = editions.confirmed(path, before, xxh128)
            editions.Record(state, xxh128, edition).write(partial / editions.RECORD)
    return manifest


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
    shuffled: ShuffledFile, capacity: int, folder: Path, executor: ThreadPoolExecutor, threads: int
) -> tuple[list[Shard], np.ndarray, list[list[dict]]]:
    """The shards, the checksums of their blocks, uint64 [blocks, columns], and the moments of each column that is plain."""
    (folder / "shards").mkdir()
    written, sums = [], [np.zeros((0, len(shuffled.columns)), np.uint64)]
    described: list[list[dict]] = [[] for _ in shuffled.columns]
    pieces = (piece for split in range(len(SPLITS)) for piece in shuffled.shards(split, capacity))
    for _, future in in_order(executor, partial(write_shard, folder), pieces, threads):
        shard, checksums, of_shard = future.result()
        written.append(shard)
        sums.append(checksums)
        for of_file, moments_of_column in zip(described, of_shard, strict=True):
            of_file += moments_of_column
    return written, np.concatenate(sums), described


def write_shard(folder: Path, shuffled: ShuffledShard) -> tuple[Shard, np.ndarray, list[list[dict]]]:
    """One shard, the checksums of its blocks, uint64 [blocks, columns], and the moments of its columns that are plain."""
    name, order = SPLITS[shuffled.split], shuffled.order()
    shard = Shard(f"shards/{name}-{shuffled.piece:05d}", name, len(order))
    (folder / shard.path).mkdir()
    patterns = shuffled.column(0, order)
    groups = groups_of(patterns, shuffled.split, 0, len(order))
    sums, described = [], []
    for number, column in enumerate(shuffled.file.columns):
        values = shuffled.column(number, order) if number else patterns
        sums.append(shards.write_column(folder / shard.path / column.stored.name, values))
        described.append([] if column.stored.coded else levels.moments(values, groups))
    return shard, np.stack(sums, axis=1), described
