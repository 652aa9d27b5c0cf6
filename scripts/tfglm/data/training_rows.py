"""What the dictionary does not know of the training rows, read from the shards: which values occur together, and samples of
columns with too many values to count."""

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from tfglm.data.dictionary import lacks
from tfglm.data.shards import MISSING, IngestedFile, Shard

MOST_SAMPLED = 2**18
"""Rows of a sample."""


def combinations(file: IngestedFile, columns: Sequence[str], required: Collection[str]) -> np.ndarray:
    """Which codes occur together in the training rows of one file.

    Parameters
    ----------
    file
        The file, ingested.
    columns
        Columns of the data that have codes.
    required
        Columns without a value of which a row does not count.

    Returns
    -------
    int64 array [combinations, columns]
        In ascending order.
    """
    columns = [file.codes(column).name for column in columns]
    sizes = [len(file.values(column)) + 1 for column in columns]
    seen = np.zeros(0, np.int64)
    for shard in training_shards(file):
        joint = np.zeros(shard.rows, np.int64)
        for column, size in zip(columns, sizes, strict=True):
            joint = joint * size + file.stored(shard, column)
        seen = np.union1d(seen, joint[usable(file, shard, required)])
    return np.stack(np.unravel_index(seen, sizes), axis=1) if len(seen) else np.zeros((0, len(columns)), np.int64)


def sample(
    files: Sequence[IngestedFile], column: str, required: Collection[str], most_rows: int = MOST_SAMPLED
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a column in a sample of the training rows.

    The sample consists of the first rows of each shard, which are a fair sample of their file, in proportion to its rows.

    Parameters
    ----------
    files
        All that are ingested.
    column
        A column of numbers.
    required
        Columns without a value of which a row does not count.
    most_rows
        Rows of the sample, about.

    Returns
    -------
    values : float64 array [distinct values]
        In ascending order.
    rows : int64 array [distinct values]
        How often each occurs in the sample.
    """
    shards = [(file, shard) for file in files for shard in training_shards(file)]
    share = min(1.0, most_rows / max(sum(shard.rows for _, shard in shards), 1))
    drawn = [np.zeros(0)]
    for file, shard in shards:
        rows = int(np.ceil(share * shard.rows))
        values = file.stored(shard, column, rows)
        if file.column(column).coded:
            values = number_table(file, column)[values]
        drawn.append(values[usable(file, shard, required, rows)].astype(float))
    values = np.concatenate(drawn)
    return np.unique(values[~np.isnan(values)], return_counts=True)


def training_shards(file: IngestedFile) -> Iterator[Shard]:
    return (shard for shard in file.manifest.shards if shard.split == "train")


def usable(file: IngestedFile, shard: Shard, required: Collection[str], rows: int | None = None) -> np.ndarray:
    """Which of the rows lack no required value."""
    good = np.array([False, *(not lacks(pattern, required) for pattern in file.values(MISSING))])
    return good[file.stored(shard, MISSING, rows)]


def repeated(
    files: Sequence[IngestedFile], column: str, frequency: str, required: Collection[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The values of a column (sorted) in the training rows, and how often each occurs if each row counts as often as the column
    `frequency` says."""
    counts: dict[float, float] = {}
    for file in files:
        for shard in training_shards(file):
            good = usable(file, shard, required)
            values, times = (decoded(file, shard, name)[good] for name in (column, frequency))
            distinct, place = np.unique(values, return_inverse=True)
            for value, rows in zip(distinct.tolist(), np.bincount(place, times).tolist(), strict=True):
                counts[value] = counts.get(value, 0.0) + rows
    pairs = sorted((value, rows) for value, rows in counts.items() if rows > 0)
    return np.array([value for value, _ in pairs]), np.array([rows for _, rows in pairs])


def moments(
    files: Sequence[IngestedFile],
    column: str,
    multiplicities: Sequence[str],
    required: Collection[str],
    columns_of: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of what becomes of a column of numbers, where a row counts as often as the product of `multiplicities`.

    Parameters
    ----------
    files
        All that are ingested.
    column
        A column of numbers.
    multiplicities
        Columns of weights, frequencies or trials.
    required
        Columns without a value of which a row does not count.
    columns_of
        Makes [values, columns] of values.

    Returns
    -------
    mean, variance : float64 arrays [columns]
        With the sum of the weights as divisor; the variance of a column that does not vary is 0. NaN if no row has a weight.
    """
    weight_sum, mean, squares, low, high = 0.0, np.zeros(1), np.zeros(1), np.full(1, np.inf), np.full(1, -np.inf)
    for file in files:
        for shard in training_shards(file):
            good = usable(file, shard, required)
            weights: np.ndarray = np.ones(np.count_nonzero(good))
            for name in multiplicities:
                weights = weights * decoded(file, shard, name)[good]
            values = file.stored(shard, column)[good]
            if file.column(column).coded:
                table = number_table(file, column)
                values, weights = table, np.bincount(values, weights, len(table))
            counted = (weights > 0) & ~np.isnan(values)
            if not counted.any():
                continue
            weights, numbers = weights[counted], columns_of(values[counted].astype(float))
            of_shard, low = weights.sum(), np.minimum(low, numbers.min(axis=0))
            high = np.maximum(high, numbers.max(axis=0))
            mean_of_shard = weights @ numbers / of_shard
            # Chan, Golub and LeVeque, The American Statistician 37 (1983).
            difference, before = mean_of_shard - mean, weight_sum
            weight_sum += of_shard
            mean = mean + difference * (of_shard / weight_sum)
            squares = (
                squares + weights @ (numbers - mean_of_shard) ** 2 + difference**2 * (before * of_shard / weight_sum)
            )
    if not weight_sum:
        return np.full(1, np.nan), np.full(1, np.nan)
    return np.where(low == high, low, mean), np.where(low == high, 0.0, squares / weight_sum)


def decoded(file: IngestedFile, shard: Shard, column: str) -> np.ndarray:
    """The values of a number column of a shard."""
    stored = file.stored(shard, column)
    return number_table(file, column)[stored] if file.column(column).coded else stored.astype(float)


def number_table(file: IngestedFile, column: str) -> np.ndarray:
    """The number that each code of a coded column stands for; NaN for 0."""
    return np.append(np.nan, file.values(column).to_numpy().astype(float))
