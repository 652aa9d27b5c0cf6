"""One parse of one input file: rows selected and counted, columns encoded, shards written, in memory that does not grow."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from tfglm import digests
from tfglm.config import SPLITS, Layout, SelectionConfig
from tfglm.data import shards, source
from tfglm.data.encoding import groups_of, levels_table, moments
from tfglm.data.layouts import choose
from tfglm.data.reader import Reader, in_order
from tfglm.data.shards import MEANINGS, Manifest, Shard
from tfglm.data.shuffle import Mixed, MixedShard, Mixer

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
) -> Manifest:
    """Write the shards, the levels and the manifest of one input file into `folder`, which appears complete or not at all.

    `layouts` are those that the file may have, by name. Raises UserError, which names the file and where it can the line,
    for a file that cannot be read, a column that is not there, an expression that cannot be evaluated, or a value that is
    not finite. With `settings.bad_rows` "drop", lines that cannot be read are counted and the first ones logged. `compiled` says
    whether plain lines are parsed by compiled code, which a large file does by default; nothing else depends on it.
    """
    header = source.read_header(path)
    name, layout = choose(header, layouts, settings, str(path))
    log(f"{path}: layout {name}")
    reader = Reader.of(path, file, header, layout, settings, log)
    for encoder in reader.encoders[1:]:
        origin = "derived" if encoder.name in reader.selection.computed else "as read"
        log(f"  column {encoder.name}: {MEANINGS[encoder.kind]} ({origin})")
    with replaced(folder) as made, ThreadPoolExecutor(threads) as executor, ThreadPoolExecutor(1) as beside:
        sha256 = beside.submit(digests.of, path)
        (made / "spill").mkdir()
        mixer = Mixer(made / "spill", reader.encoders, settings.seed, executor)
        places = [np.zeros(0, np.int64)]
        for part in reader.parts(executor, threads, compiled):
            places.append(part.first + part.places[part.split == PREDICT])
            encoded = zip(reader.encoders, part.columns, strict=True)
            mixer.add(part.split, [encoder.encode(column) for encoder, column in encoded])
        mixed = mixer.finish()
        capacity = shards.capacity_for(mixed.total())
        written, sums, levels = write_shards(mixed, capacity, made, executor, threads)
        shutil.rmtree(mixer.folder)
        with shards.written(made / shards.LEVELS):
            levels.rechunk().write_parquet(made / shards.LEVELS)
            np.save(made / shards.CHECKSUMS, sums)
            np.save(made / shards.PREDICTED_ROWS, np.concatenate(places))
            manifest = Manifest(
                file,
                str(path),
                sha256.result(),
                name,
                capacity,
                tuple(column.stored for column in mixed.columns),
                tuple(written),
                reader.read,
                dict(reader.dropped),
                {one: digests.of(made / one) for one in (shards.LEVELS, shards.CHECKSUMS, shards.PREDICTED_ROWS)},
            )
            manifest.write(made / shards.MANIFEST)
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
    mixed: Mixed, capacity: int, folder: Path, executor: ThreadPoolExecutor, threads: int
) -> tuple[list[Shard], np.ndarray, pl.DataFrame]:
    """The shards, the checksums of their blocks, uint64 [blocks, columns], and the table of levels."""
    (folder / "shards").mkdir()
    written, sums = [], [np.zeros((0, len(mixed.columns)), np.uint64)]
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
    """One shard, the checksums of its blocks, uint64 [blocks, columns], and the moments of its columns that are plain."""
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
