"""Whom or what the rows of a file are about, if rows repeat them: errors of rows of one unit may be alike."""

import re
from collections.abc import Sequence

import polars as pl

from tfglm.survey.columns import ColumnSummary
from tfglm.survey.names import NUMBERED, OCCASIONS, TIME_OR_PLACE, UNITS, is_identifier, is_named

FEWEST_UNITS, FEWEST_ROWS_OF_A_UNIT, LARGEST_UNIT = 20, 2, 0.2
"""Fewest units, and fewest rows of one on average, for errors by unit, and the largest share of the rows that one may have."""
REPEATS = (
    f"{UNITS}|country|aircraft|tailnum|firm|company|store|shop|school|hospital|clinic|county|city|state|province|district|municipality|"
    "player|team|student|pupil|household|family|farm|litter|animal"
)
"""Names of units that rows repeat in a panel."""
PLACES, MOST_ROWS_OF_A_PLACE = "country|county|city|state|province|district|municipality", 50
"""Those of them that are places, and rows of one on average from which a place is a factor, unless the rows are a panel."""
LARGEST_PANEL = 2
"""Units times times of a panel, in rows, at most."""


def unit_of(columns: Sequence[ColumnSummary], rows: pl.DataFrame, fewest: int = FEWEST_UNITS) -> ColumnSummary | None:
    """The first column that says by its name whom or what rows are about, or that is the unit of a panel, if rows repeat it.
    There are `fewest` units at least."""
    for column in columns:
        is_route = re.fullmatch(NUMBERED, column.name.lower())
        if column.kind not in ("integer", "text") or column.missing or not column.values or is_route:
            continue
        repeats = column.values >= fewest and len(rows) >= FEWEST_ROWS_OF_A_UNIT * column.values
        if not repeats or (fewest == FEWEST_UNITS and column.frequent[0][1] > LARGEST_UNIT * len(rows)):
            continue
        is_large_place = is_named(column, PLACES) and len(rows) > MOST_ROWS_OF_A_PLACE * column.values
        is_unit = is_named(column, REPEATS) and not is_large_place
        if is_unit or is_identifier(column, len(rows)) or is_panel(column, columns, rows):
            return column
    return None


def is_panel(unit: ColumnSummary, columns: Sequence[ColumnSummary], rows: pl.DataFrame) -> bool:
    """Whether each value has at most one row for each value of another column, a time by its name, and has most of these, as
    persons have in years."""
    if is_named(unit, f"{TIME_OR_PLACE}|{OCCASIONS}"):
        return False
    return any(
        is_named(time, OCCASIONS)
        and not time.missing
        and FEWEST_ROWS_OF_A_UNIT * time.values <= len(rows)
        and unit.values * time.values <= LARGEST_PANEL * len(rows)
        and rows.select(unit.name, time.name).n_unique() == len(rows)
        for time in columns
        if time is not unit and time.values > 1
    )
