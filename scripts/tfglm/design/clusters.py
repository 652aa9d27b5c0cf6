"""The clusters of standard errors: which there are, and which rows belong to them."""

import itertools
import math
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from tfglm.config.std_errors import SERIAL, SURVEY, StdErrors
from tfglm.data import training_rows
from tfglm.data.dictionary import Column, Dictionary, training_values
from tfglm.data.shards import IngestedFile
from tfglm.design.checks import check_levels
from tfglm.design.factors import ClusterIntersections, Clusters
from tfglm.design.levels import looked_up
from tfglm.errors import UserError

MOST_JOINT = 2**62
"""Combinations of clusters that can be numbered."""

MOST_CELLS = 10_000_000
"""Most combinations of clusters that occur: the design lists them all."""

YEAR_FIRST = re.compile(r"\d{4}($|\D|\d{4}($|\D))")
"""The start of texts whose alphabetical order is the order of time."""

NONE = -1
"""The number of no cluster."""


class ClustersOf(NamedTuple):
    """The clusters of each column, and of rows that agree in several. `fractions` are of `sampled_fractions`."""

    of_columns: tuple[Clusters, ...] = ()
    cells: tuple[ClusterIntersections, ...] = ()
    fractions: tuple[float, ...] = ()


def clusters_of(
    errors: StdErrors, columns: Sequence[Column], files: Sequence[IngestedFile], dictionary: Dictionary, where: str
) -> ClustersOf:
    """The clusters of the training rows by the columns that the standard errors name. Raises UserError, which begins with
    the key `where`, if a column does not determine which rows belong together, or the order of dates."""
    of_columns = tuple(clusters_in(column, where) for column in columns[: len(errors.columns)])
    if errors.kind in SERIAL:
        check_dates(errors, of_columns[0], files, dictionary, where)
    found = ClustersOf(of_columns, cells_of(of_columns, files, dictionary.required, where))
    if errors.kind != SURVEY:
        return found
    return found._replace(fractions=sampled_fractions(found, errors, columns, files, dictionary.required, where))


def clusters_in(column: Column, where: str) -> Clusters:
    """Those of one column. Raises UserError if it has too many values or one alone, or if training rows without a value are
    kept."""
    name = column.name
    if column.missing_rows:
        raise UserError(
            f"{where}: {column.missing_rows:,} training rows have no value of `{name}`, so they belong to no "
            "cluster, but data.missing keeps them\n"
            f"  remove `{name}` from data.missing to drop and count them, or derive a column under data.derive that "
            "assigns them to a cluster"
        )
    distinct = check_levels(name, column, where)
    if distinct < 2:
        raise UserError(
            f"{where}: `{name}` has only the value `{column.labels[0]}` in the training rows, so there is only one cluster; "
            "choose another column"
        )
    return Clusters(name, column.kind, distinct)


def cluster_numbers(clusters: Clusters, files: Sequence[IngestedFile], required: Collection[str]) -> pl.DataFrame:
    """The number of each cluster by its value, in the training rows that lack no required column: `value`, `cluster`."""
    values = training_values(files, clusters.column, clusters.column_kind, required)["value"]
    return pl.DataFrame({"value": values, "cluster": np.arange(len(values), dtype=np.int32)})


def numbers_by_code(
    clusters: Clusters, numbers: pl.DataFrame, files: Sequence[IngestedFile], missing: int = NONE, unseen: int = NONE
) -> list[np.ndarray]:
    """Return the cluster number of each code, for each file; the first code means no value. It is `missing` for no value,
    and `unseen` for a value that no training row has. `numbers` come from `cluster_numbers`."""
    of_files = looked_up(clusters.column, clusters.column_kind, files, numbers, unseen)
    return [np.append(np.int32(missing), of_file) for of_file in of_files]


def cells_of(
    clusters: Sequence[Clusters], files: Sequence[IngestedFile], required: Collection[str], where: str
) -> tuple[ClusterIntersections, ...]:
    """The clusters of training rows that agree in two or more columns. A row without a value in one of the `required`
    columns does not count. Raises UserError, which begins with the key `where`, if there are too many combinations."""
    numbers = [cluster_numbers(each, files, required) for each in clusters]
    found = []
    for size in range(2, len(clusters) + 1):
        for of in itertools.combinations(range(len(clusters)), size):
            sizes = [clusters[k].count for k in of]
            if math.prod(sizes) > MOST_JOINT:
                raise UserError(f"{where}: the columns have too many values to be combined; leave out a column")
            joint = np.zeros(0, np.int64)
            of_columns = [numbers_by_code(clusters[k], numbers[k], files) for k in of]
            for file, *by_code in zip(files, *of_columns, strict=True):
                codes = training_rows.combinations(file, [clusters[k].column for k in of], required)
                rows = np.array([table[codes[:, place]] for place, table in enumerate(by_code)])
                joint = np.union1d(joint, np.ravel_multi_index(tuple(rows[:, (rows >= 0).all(axis=0)]), sizes))
                if len(joint) > MOST_CELLS:
                    names = " and ".join(f"`{clusters[k].column}`" for k in of)
                    raise UserError(
                        f"{where}: {names} have more than {MOST_CELLS:,} combinations in the training rows\n"
                        "  cluster by coarser columns"
                    )
            found.append(ClusterIntersections(of, tuple(joint.tolist())))
    return tuple(found)


def check_dates(
    errors: StdErrors, dates: Clusters, files: Sequence[IngestedFile], dictionary: Dictionary, where: str
) -> None:
    """Raise UserError for dates whose order, that of text, is not that of time, for lags that reach beyond them, and for several
    rows of a date where there may be one."""
    column, required = dates.column, dictionary.required
    if errors.lags is not None and errors.lags > dates.count - 2:
        raise UserError(
            f"{where}: {errors.lags:,} lags, but `{column}` has {dates.count:,} values in the training rows, so that there are "
            f"pairs up to {dates.count - 1:,} apart\n  give fewer lags, or leave `lags` out"
        )
    if errors.kind == "newey_west" and dates.count < dictionary.rows["train"]:
        raise UserError(
            f"{where}: newey_west is for one row of each date, and {dictionary.rows['train']:,} training rows share "
            f"{dates.count:,} values of `{column}`\n  use `driscoll_kraay({column})`, which takes the rows of a date together"
        )
    if dates.column_kind != "text":
        return
    values = training_values(files, column, dates.column_kind, required)["value"]
    wrong = [value for value in values if not YEAR_FIRST.match(value) or len(value) != len(values[0])]
    if wrong:
        raise UserError(
            f"{where}: `{column}` has the value `{wrong[0]}`, and only text such as `2013-01-31` is in the order of time\n"
            "  derive a column with such text, or with whole numbers, under data.derive"
        )


def sampled_fractions(
    clusters: ClustersOf,
    errors: StdErrors,
    columns: Sequence[Column],
    files: Sequence[IngestedFile],
    required: Collection[str],
    where: str,
) -> tuple[float, ...]:
    """The share of the sampling units of each stratum that a survey sampled; none if no column has the size of the population
    (their number, or their share if it is at most 1), and no lonely unit counts as all.

    Raises UserError, which begins with the key `where`, for a population that differs within a stratum or is smaller than its
    sample, and for a unit that is alone in its stratum.
    """
    units, *strata = clusters.of_columns
    stratum = np.array(clusters.cells[0].joint) % strata[0].count if strata else np.zeros(units.count, int)
    count, names = np.bincount(stratum), ["the sample"]
    if strata:
        names = [f"stratum {value}" for value in cluster_numbers(strata[0], files, required)["value"].to_list()]
    fractions = np.zeros(len(count))
    for column in columns[len(clusters.of_columns) :]:
        population = Clusters(column.name, column.kind, check_levels(column.name, column, where))
        values = cluster_numbers(population, files, required)["value"].cast(pl.Float64).to_numpy()
        cells = cells_of([*strata, population], files, required, where) if strata else ()
        of, which = np.divmod(cells[0].joint if cells else np.arange(len(values)), len(values))
        if len(of) > len(count) or not (values > 0).all():
            raise UserError(
                f"{where}: `{column.name}` has to be above 0, and the same in all rows of a stratum: the number of its sampling "
                "units in the population, or the share that was sampled"
            )
        fractions = np.where(values[which] <= 1, values[which], count / values[which])
        if (fractions > 1).any():
            name = names[int(np.argmax(fractions))]
            raise UserError(f"{where}: {name} has more sampling units than `{column.name}` says that there are")
    alone = (count == 1) & (fractions < 1)
    if alone.any() and not errors.lonely:
        listed = ", ".join([names[place] for place in np.flatnonzero(alone)][:3]) + (", ..." if alone.sum() > 3 else "")
        raise UserError(
            f"{where}: {listed} has a single sampling unit, so no variance\n  merge similar strata under data.derive, or write "
            "lonely=certainty (it adds nothing) or lonely=adjust (it adds its distance from the mean of all units)"
        )
    if errors.lonely == "certainty":
        fractions = np.where(alone, 1.0, fractions)
    return tuple(fractions.tolist()) if fractions.any() else ()
