"""What a model may use of a date: month and day of the week as factors, and the date itself as a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from tfglm.survey.columns import Column

FEWEST_CLUSTERS, FEWEST_ROWS_OF_A_DATE = 20, 2
"""Dates, and rows that one has on average, from which on errors are clustered by date. By fewer clusters few tests hold."""

MONTHS, WEEKDAYS = (
    {str(number): name for number, name in enumerate(names.split(), start=1)}
    for names in ("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec", "Mon Tue Wed Thu Fri Sat Sun")
)
"""What pages show in place of the numbers."""

MOST_MISSING = 0.2
"""Share of the rows that may lack the date."""


@dataclass(frozen=True)
class Calendar:
    """The date that rows are of, if they have one.

    `derive` are the columns made of it, `labels` those of their values, and `parts` the values. `clustered` says whether several
    rows share a date, so that their errors may be alike; `dates` how many there are.
    """

    date: str = ""
    derive: dict[str, str] = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    parts: tuple[pl.Series, ...] = ()
    dates: int = 0
    clustered: bool = False


def calendar_of(columns: Sequence[Column], rows: pl.DataFrame, complete: bool, derives: bool) -> Calendar:
    """The first date of a table that few rows lack.

    Parameters
    ----------
    columns
        What the columns hold.
    rows
        Their values.
    complete
        Whether these are all rows of the file: if not, there may be more dates.
    derives
        Whether month and day of the week are to be made of it. A layout may have them already.
    """
    dates = [column for column in columns if column.kind == "date" and column.missing <= MOST_MISSING * len(rows)]
    date = next((column for column in dates if column.values > 1), None)
    if not date:
        return Calendar()
    derive: dict[str, str] = {}
    labels: dict[str, dict[str, str]] = {}
    values: list[pl.Series] = []
    if derives:
        days = rows[date.name].dt
        for part, sql, called, series in (
            ("month", "MONTH", MONTHS, days.month()),
            ("weekday", "ISODOW", WEEKDAYS, days.weekday()),
        ):
            name = part if part not in rows.columns else f"{date.name}_{part}"
            if name not in rows.columns:
                derive[name], labels[name] = f"EXTRACT({sql} FROM {date.name})", called
                values.append(series.cast(pl.Int64).alias(name))
    shared = len(rows) - date.missing >= FEWEST_ROWS_OF_A_DATE * date.values
    clustered = shared and (date.values >= FEWEST_CLUSTERS or not complete)
    return Calendar(date.name, derive, labels, tuple(values), date.values, clustered)
