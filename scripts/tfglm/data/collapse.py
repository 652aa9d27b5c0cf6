"""Collapse equal training rows into one row with a count: shards like those of an input file, which fits read as usual.

Rows agree if they have the same value, or none, in each of some columns. The collapsed rows have these columns as codes,
and a column with the number of rows each represents. They are stored in the order of a hash, so the first ones are a fair
sample. A fit that uses the counts as `frequency` computes the same sums as over all rows (McCullagh & Nelder, Generalized
Linear Models, 1989, 4.1: grouped data; Wong, Forsell, Lewis, Mao & Wardrop, You Only Compress Once, 2021: frequency
weights).

If a response has a normal likelihood, only the number, mean and sum of squares matter. So n rows with mean m and variance v
(divisor n) become n / 2 rows with m - sqrt(v) and n / 2 rows with m + sqrt(v), which have the same three values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm import digests
from tfglm.config import SPLITS, CollapseConfig
from tfglm.data import folds, levels, shards, tally_loops
from tfglm.data.collapsed import NAME, ROWS, identity, sum_name
from tfglm.data.dictionary import Dictionary
from tfglm.data.encoding import FinishedColumn, code_type, key_of, survives_float32
from tfglm.data.ingest import replaced
from tfglm.data.kinds import EXACT_BELOW, Kind
from tfglm.data.shards import MISSING, IngestedFile, Manifest, Shard, StoredColumn
from tfglm.data.tally import Keys, KeyTally
from tfglm.data.training_rows import decoded, usable
from tfglm.errors import writing

MOST_SHARE = 0.5
"""Largest share of rows that may remain after collapsing; with more, a fit reads the original rows. A row with a count
costs a fit a little more than a row without."""

AT_ONCE = 2**15
"""Rows that are summed one after the other before there is room for more keys."""

MOST_KEYS = 2**24
"""Rows that agree in nothing, at most: 16 bytes or more are held of each."""


def collapse(
    files: Sequence[IngestedFile],
    dictionary: Dictionary,
    settings: CollapseConfig,
    folder: Path,
    log: Callable[[str], None] = lambda message: None,
) -> Manifest:
    """Sum the training rows that agree in the columns of the settings, and write the collapsed rows to `folder`, which
    appears complete or not at all. If reading collapsed rows would not pay, the manifest has no shards, and the reason is
    under `dropped`."""
    known = [name for name in settings.columns if name in dictionary.columns]
    settings, rows = settings.model_copy(update={"columns": known}), dictionary.rows["train"]
    many = [name for name in known if dictionary.columns[name].distinct is None]
    far = [name for name in settings.responses if dictionary.columns[name].is_far]
    if many:
        reason = f"`{many[0]}` has too many different numbers"
    elif far:
        reason = f"`{far[0]}` has a mean so far from 0 for its spread that means of rows would lose digits"
    else:
        keys = Keys.of(settings, files, dictionary)
        rows_of_keys = _RowsOfKeys(dictionary, settings, keys, KeyTally(keys.words))
        reason = rows_of_keys.add_all(files)
    columns = {} if reason else rows_of_keys.collapsed()
    with replaced(folder) as partial:
        (partial / "shards").mkdir()
        if reason:
            log(f"not collapsed: {reason}")
            return _finish(partial, files, rows, dropped={reason: rows})
        log(f"{rows:,} training rows have {len(columns[MISSING]):,} different combinations of values")
        finished = [_finished(name, values, dictionary, keys, rows) for name, values in columns.items()]
        tables = [levels.table(column, finished[0], []) for column in finished]
        stored = tuple(column.stored for column in finished)
        return _finish(partial, files, rows, stored, tables, *_write_shards(partial, columns))


@dataclass(frozen=True)
class _RowsOfKeys:
    """What is summed over the rows of each key."""

    dictionary: Dictionary
    settings: CollapseConfig
    keys: Keys
    tally: KeyTally

    def add_all(self, files: Sequence[IngestedFile]) -> str:
        """Sum all training rows, or return the reason why collapsing does not pay."""
        rows = self.dictionary.rows["train"]
        most = min(MOST_SHARE * rows / (2 if self.settings.responses else 1), MOST_KEYS)
        for file in files:
            tables = self.keys.tables(file)
            for shard, checksums in file.shard_checksums():
                if shard.split == "train":
                    self._add(file, shard, tables, self._folds(file, shard, checksums))
                if self.tally.count > most:
                    return f"more than {int(most):,} of {rows:,} training rows differ"
        return ""

    def _folds(self, file: IngestedFile, shard: Shard, checksums: np.ndarray) -> dict[str, np.ndarray]:
        """Return the fold of each row of a shard, from its fold column. `checksums` [blocks, columns] are the checksums of
        its blocks."""
        of_rows = {}
        for name, numbers in self.settings.folds.items():
            of_response = checksums[:, file.manifest.columns.index(file.column(name))]
            for number in numbers:
                of_rows[folds.stored_name(name, number)] = folds.folds_of_rows(of_response, shard.rows, number)
        return of_rows

    def _add(
        self, file: IngestedFile, shard: Shard, tables: Mapping[str, np.ndarray], of_folds: Mapping[str, np.ndarray]
    ) -> None:
        """Sum the rows of a shard; `tables` are those of `Keys.tables`."""
        settings, good = self.settings, usable(file, shard, self.dictionary.required)
        numbers = {name: table[file.stored(shard, file.codes(name).name)] for name, table in tables.items()}
        joined = self.keys.joined({**numbers, **of_folds}, shard.rows)[:, good]
        amounts = {ROWS: np.ones(joined.shape[1])}
        for name in settings.frequencies:
            frequency = decoded(file, shard, name)[good]
            amounts[sum_name(name)] = np.where(frequency > 0, frequency, 0.0)
        weights = amounts[sum_name(settings.frequencies[0]) if settings.frequencies else ROWS]
        responses = {name: decoded(file, shard, name)[good] for name in settings.responses}
        for first in range(0, joined.shape[1], AT_ONCE):
            some = slice(first, first + AT_ONCE)
            places = self.tally.numbers(np.ascontiguousarray(joined[:, some]))
            for name, of_rows in amounts.items():
                tally_loops.add(places, of_rows[some], self.tally.of(name))
            for name, values in responses.items():
                moments = (self.tally.of(f"{what} {name}") for what in ("weight of", "mean of", "squares of"))
                tally_loops.add_moments(places, weights[some], values[some], *moments)

    def collapsed(self) -> dict[str, np.ndarray]:
        """The columns of what is left, in the order of the hashes of the keys."""
        count, names = self.tally.count, self.settings.responses
        known = np.ascontiguousarray(self.tally.keys[:, :count])
        sums = {name: of_keys[:count] for name, of_keys in self.tally.sums.items()}
        weights = {name: sums[f"weight of {name}"] for name in names}
        deviations = {
            name: np.sqrt(sums[f"squares of {name}"] / np.where(weight > 0, weight, 1.0))
            for name, weight in weights.items()
        }
        spread = np.any([np.zeros(count, bool), *(deviation > 0 for deviation in deviations.values())], axis=0)
        hashes = np.empty(count, np.uint64)
        tally_loops.hash_all(known, hashes)
        of_row = np.concatenate([np.arange(count), np.flatnonzero(spread)])
        sign = np.concatenate([np.where(spread, 1.0, 0.0), np.full(len(of_row) - count, -1.0)])
        order = np.argsort(hashes[of_row], kind="stable")
        of_row, sign = of_row[order], sign[order]
        columns = {MISSING: np.ones(len(of_row), np.uint8)}
        columns |= {name: numbers[of_row] for name, numbers in self.keys.numbers(known).items()}
        for name in (ROWS, *map(sum_name, self.settings.frequencies)):
            columns[name] = _narrow(np.where(spread, sums[name] / 2, sums[name])[of_row])
        for name, deviation in deviations.items():
            columns[name] = _narrow(sums[f"mean of {name}"][of_row] + sign * deviation[of_row])
        return columns


def _narrow(values: np.ndarray) -> np.ndarray:
    """Numbers in a smaller type that holds them exactly, if there is one."""
    if len(values) and values.min() >= 0 and values.max() < EXACT_BELOW and np.array_equal(values, np.rint(values)):
        return values.astype(code_type(int(values.max())))
    return values.astype(np.float32) if survives_float32(values) else values


def _finished(name: str, values: np.ndarray, dictionary: Dictionary, keys: Keys, rows: int) -> FinishedColumn:
    """A column of the collapsed rows with the training rows of each of its codes. No row lacks what is required."""
    known, counted = dictionary.columns.get(name), keys.values.get(name)
    kind: Kind = "text" if name == MISSING else known.kind if known else "number"
    if name == MISSING:
        counted = pl.DataFrame({"value": [""], "rows": [rows]})
    stored = StoredColumn(name, kind, values.dtype.name, counted is not None)
    if counted is None:
        return FinishedColumn(stored, [], np.zeros(0))
    codes = np.arange(1, len(counted) + 1)
    of_codes = key_of(SPLITS.index("train"), np.int64(1), codes)
    return FinishedColumn(stored, counted["value"].to_list(), np.append(0, codes), of_codes, counted["rows"].to_numpy())


def _write_shards(folder: Path, columns: Mapping[str, np.ndarray]) -> tuple[list[Shard], np.ndarray]:
    """The shards, and the checksums of their blocks, uint64 [blocks, columns]."""
    rows = len(columns[MISSING])
    capacity, written, sums = shards.capacity_for(rows), [], []
    for number, first in enumerate(range(0, rows, capacity)):
        shard = Shard(f"shards/train-{number:05d}", "train", min(capacity, rows - first))
        (folder / shard.path).mkdir()
        of_shard = [
            shards.write_column(folder / shard.path / name, values[first : first + shard.rows])
            for name, values in columns.items()
        ]
        written.append(shard)
        sums.append(np.stack(of_shard, axis=1))
    return written, np.concatenate(sums)


def _finish(
    folder: Path,
    files: Sequence[IngestedFile],
    rows: int,
    columns: tuple[StoredColumn, ...] = (),
    tables: Sequence[pa.Table] = (),
    written: Sequence[Shard] = (),
    sums: np.ndarray | None = None,
    dropped: Mapping[str, int] | None = None,
) -> Manifest:
    """Write the files beside the shards, and the manifest."""
    with writing(folder / shards.LEVELS):
        levels.write(folder / shards.LEVELS, tables)
        shards.save(folder / shards.CHECKSUMS, np.zeros((0, 0), np.uint64) if sums is None else sums)
        manifest = Manifest(
            NAME,
            "training rows",
            identity([file.manifest.digest for file in files]),
            "",
            shards.capacity_for(sum(shard.rows for shard in written)),
            columns,
            tuple(written),
            rows,
            dict(dropped or {}),
            {name: digests.sha256(folder / name) for name in (shards.LEVELS, shards.CHECKSUMS)},
        )
        manifest.write(folder / shards.MANIFEST)
    return manifest
