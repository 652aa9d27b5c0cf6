"""Facts about the training rows that the dictionary lacks, read from the shards: combinations of values, and samples of
columns with too many values to count."""

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from tfglm.data.dictionary import lacks
from tfglm.data.shards import MISSING, IngestedFile, Shard

MOST_SAMPLED = 2**18
"""Rows of a sample."""

MOST_CELLS = 2**12
"""Cells into which `cells_with_rows` cuts the range of all columns."""

MOST_COUNTED = 2**18
"""Distinct points of two columns that are counted."""

ROWS_AT_ONCE = 2**14
"""Rows whose products are in memory together."""


def combinations(file: IngestedFile, columns: Sequence[str], required: Collection[str]) -> np.ndarray:
    """Return the combinations of codes that occur in the training rows of one file, int64 [combinations, columns] in
    ascending order. A row without a value in one of the `required` columns does not count."""
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
    """Return the distinct values of a column of numbers in a sample of about `most_rows` training rows, float64 in ascending
    order, and how often each occurs, int64. Rows without a value in one of the `required` columns do not count.

    The sample consists of the first rows of each shard, in proportion to the rows of its file. They are a fair sample of the
    file.
    """
    drawn = [np.zeros(0)]
    for file, shard, rows in sampled_shards(files, most_rows):
        values = file.stored(shard, column, rows)
        if file.column(column).coded:
            values = number_table(file, column)[values]
        drawn.append(values[usable(file, shard, required, rows)].astype(float))
    values = np.concatenate(drawn)
    return np.unique(values[~np.isnan(values)], return_counts=True)


def sampled_shards(files: Sequence[IngestedFile], most_rows: int) -> Iterator[tuple[IngestedFile, Shard, int]]:
    """Yield the training shards with their files, and how many of their first rows make a sample of about so many."""
    shards = [(file, shard) for file in files for shard in training_shards(file)]
    share = min(1.0, most_rows / max(sum(shard.rows for _, shard in shards), 1))
    for file, shard in shards:
        yield file, shard, int(np.ceil(share * shard.rows))


def sampled_rows(
    files: Sequence[IngestedFile], columns: Sequence[str], required: Collection[str], most_rows: int = MOST_SAMPLED
) -> dict[str, np.ndarray]:
    """Return the values of several columns in the same sample of the training rows, which `sample` describes: by column,
    [rows], float64 numbers, or text as objects; NaN or '' if missing. Text without codes is absent."""
    kept = [
        name
        for name in columns
        if all(file.column(name).kind in ("integer", "number") or file.column(name).coded for file in files)
    ]
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in kept}
    for file, shard, rows in sampled_shards(files, most_rows):
        good = usable(file, shard, required, rows)
        for name in kept:
            column, values = file.column(name), file.stored(shard, name, rows)[good]
            if column.kind == "text":
                values = np.array(["", *file.values(name)], object)[values]
            else:
                values = number_table(file, name)[values] if column.coded else values.astype(float)
            drawn[name].append(values)
    return {name: np.concatenate(parts) for name, parts in drawn.items() if parts}


def cells_with_rows(points: np.ndarray) -> np.ndarray:
    """Return the middles of the cells that have any of the points [rows, columns], [cells, columns]. Cells have the same size,
    and there are as many along each column."""
    low, width = points.min(axis=0), np.ptp(points, axis=0)
    along = round(MOST_CELLS ** (1 / points.shape[1]))
    width = np.where(width > 0, width, 1.0) / along
    cells = np.unique(np.minimum((points - low) / width, along - 1).astype(int), axis=0)
    return low + (cells + 0.5) * width


def training_shards(file: IngestedFile) -> Iterator[Shard]:
    return (shard for shard in file.manifest.shards if shard.split == "train")


def usable(file: IngestedFile, shard: Shard, required: Collection[str], rows: int | None = None) -> np.ndarray:
    """Return which rows lack no required value."""
    good = np.array([False, *(not lacks(pattern, required) for pattern in file.values(MISSING))])
    return good[file.stored(shard, MISSING, rows)]


def repeated(
    files: Sequence[IngestedFile], column: str, frequency: str, required: Collection[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted values of a column in the training rows, and the frequency of each: each row counts as often as the
    column `frequency` says."""
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


def counted_together(
    files: Sequence[IngestedFile], columns: Sequence[str], frequency: str | None, required: Collection[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the distinct points of two columns of numbers in the training rows, [points, 2] in ascending order, and the rows of
    each; None if there are more than MOST_COUNTED. With a column `frequency` a row counts as often as it says."""
    points, rows = np.zeros((0, len(columns))), np.zeros(0)
    for file in files:
        for shard in training_shards(file):
            good = usable(file, shard, required)
            values = np.stack([decoded(file, shard, column)[good] for column in columns], axis=1)
            times = decoded(file, shard, frequency)[good] if frequency else np.ones(len(values))
            counted = (times > 0) & ~np.isnan(values).any(axis=1)
            own, of_own = distinct_points(values[counted], times[counted])
            points, rows = distinct_points(np.concatenate([points, own]), np.concatenate([rows, of_own]))
            if len(points) > MOST_COUNTED:
                return None
    return points, rows


def distinct_points(points: np.ndarray, times: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct points among `points` [points, 2] in ascending order, and how often each occurs. A point with `times`
    counts so many times."""
    # Complex numbers are sorted ten times as fast as rows.
    distinct, place = np.unique(points[:, 0] + 1j * points[:, 1], return_inverse=True)
    return np.stack([distinct.real, distinct.imag], axis=1), np.bincount(place, times, len(distinct))


def moments(
    files: Sequence[IngestedFile],
    column: str,
    multiplicities: Sequence[str],
    required: Collection[str],
    columns_of: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance, [columns], of a number that `columns_of` transforms to [values, columns]. A row has the
    product of the columns `multiplicities` as its weight, and does not count without a value in one of the `required`
    columns. The divisor is the sum of the weights. The variance of a constant column is 0. NaN if no row has a weight."""
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


def means_of_products(
    files: Sequence[IngestedFile],
    columns: Sequence[str],
    frequency: str | None,
    required: Collection[str],
    columns_of: Sequence[Callable[[np.ndarray], np.ndarray]],
) -> np.ndarray:
    """Return the means over the training rows of all products of a transformed number of each column, [products]; the number
    of the last column varies fastest. Each of `columns_of` transforms values to [values, width]. A row counts as often as
    its `frequency` says, and not at all without a value in one of the `required` columns."""
    total, rows = np.zeros(1), 0.0
    for file in files:
        for shard in training_shards(file):
            good = usable(file, shard, required)
            times = decoded(file, shard, frequency)[good] if frequency else np.ones(np.count_nonzero(good))
            values = [decoded(file, shard, column)[good] for column in columns]
            for first in range(0, len(times), ROWS_AT_ONCE):
                some = slice(first, first + ROWS_AT_ONCE)
                product = times[some, None]
                for transform, of_column in zip(columns_of[:-1], values[:-1], strict=True):
                    product = (product[:, :, None] * transform(of_column[some])[:, None]).reshape(len(product), -1)
                total = total + (product.T @ columns_of[-1](values[-1][some])).ravel()
                rows += float(times[some].sum())
    return total / rows if rows else total


def decoded(file: IngestedFile, shard: Shard, column: str) -> np.ndarray:
    """The values of a number column of a shard."""
    stored = file.stored(shard, column)
    return number_table(file, column)[stored] if file.column(column).coded else stored.astype(float)


def number_table(file: IngestedFile, column: str) -> np.ndarray:
    """The number that each code of a coded column stands for; NaN for 0."""
    return np.append(np.nan, file.values(column).to_numpy().astype(float))
