"""The uses of a date in a model: month, day of the week and hour as factors, and the date itself as a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import polars as pl

from tfglm.survey.columns import ColumnSummary

FEWEST_CLUSTERS, FEWEST_ROWS_OF_A_DATE = 20, 2
"""Fewest dates, and fewest rows per date on average, for which errors are clustered by date. With fewer clusters few tests
are valid."""

MONTHS, WEEKDAYS = (
    {str(number): name for number, name in enumerate(names.split(), start=1)}
    for names in ("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec", "Mon Tue Wed Thu Fri Sat Sun")
)
"""Labels that pages show instead of the numbers."""

MOST_MISSING = 0.05
"""Share of the rows that may lack the date: what more lack, such as a last review, is no date of the rows."""


@dataclass(frozen=True)
class Calendar:
    """The date of the rows, if they have one.

    `derive` are the columns derived from the date, `labels` the labels of their values, and `parts` the values. `cluster`
    is the date if several rows share one. `dates` is the number of dates.
    """

    date: str = ""
    derive: dict[str, str] = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    parts: tuple[pl.Series, ...] = ()
    dates: int = 0
    hour: str = ""
    """The column of the hour, if one is derived."""
    cluster: str = ""
    """The column within whose values errors may be correlated, if any."""


def calendar_of(
    columns: Sequence[ColumnSummary],
    rows: pl.DataFrame,
    complete: bool,
    derives: bool,
    clocks: Mapping[str, str] = MappingProxyType({}),
) -> Calendar:
    """Return the first date column of a table that few rows lack. If the rows are not `complete`, all of the file, there may
    be more dates. `derives` says whether to derive month, day of the week and hour, which a layout may have already.
    `clocks` are the columns with the time of day beside a date, by the name of the date."""
    dates = [column for column in columns if column.kind == "date" and column.missing <= MOST_MISSING * len(rows)]
    date = next((column for column in dates if column.values > 1), None)
    if not date:
        return Calendar()
    hour = ""
    derive: dict[str, str] = {}
    labels: dict[str, dict[str, str]] = {}
    values: list[pl.Series] = []
    if derives:
        days = rows[date.name].dt
        for part, sql, called, series in (
            ("month", "MONTH", MONTHS, days.month()),
            ("weekday", "ISODOW", WEEKDAYS, days.weekday()),
        ):
            if part == "weekday" and days.day().drop_nulls().n_unique() == 1:
                continue  # such as the first days of months, which stand for these
            name = part if part not in rows.columns else f"{date.name}_{part}"
            if name not in rows.columns:
                derive[name], labels[name] = f"EXTRACT({sql} FROM {date.name})", called
                values.append(series.cast(pl.Int64).alias(name))
        name = "hour" if "hour" not in rows.columns else f"{date.name}_hour"
        if date.name in clocks and name not in rows.columns:
            hour, clock = name, clocks[date.name]
            derive[name] = f"({clock} // 100) % 24"  # 2400 is midnight
            values.append((rows[clock] // 100 % 24).alias(name))
    shared = len(rows) - date.missing >= FEWEST_ROWS_OF_A_DATE * date.values
    clustered = shared and (date.values >= FEWEST_CLUSTERS or not complete)
    return Calendar(date.name, derive, labels, tuple(values), date.values, hour, date.name if clustered else "")
