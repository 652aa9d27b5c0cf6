"""The first question about flights, for files of a shipped layout: which are late, by what is known before departure."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tfglm.config import SelectionConfig, load_layout, shipped_layouts
from tfglm.data.header import read_header
from tfglm.data.layouts import Recognition, recognised
from tfglm.data.packing import has_images
from tfglm.errors import UserError
from tfglm.survey.columns import present

COVARIATES = ("carrier", "origin", "dest", "month", "weekday", "dep_hour", "distance")
"""Columns that are known before departure, with the names that all shipped layouts of flights share."""

PLACES = {"carrier", "origin", "dest"}

FEWEST_COVARIATES = 3
"""With fewer of them, one of PLACES included, a file is not taken for one of flights."""


@dataclass(frozen=True)
class Question:
    """A response of 0 and 1, derived by `sql` from the column `source` of the layout; the rows that have it are `where`."""

    name: str
    source: str
    sql: str
    where: str
    reason: str

    def values(self, rows: pl.DataFrame) -> pl.Series:
        """The response of some rows."""
        least = 1 if self.sql.endswith("= 1") else 15
        return (rows[self.source] >= least).cast(pl.Int64)


QUESTIONS = tuple(
    Question(name, source, f"{source} {condition}", where, f"{moved} 15 minutes late or more, the official definition")
    for name, where, moved, of_layout in (
        ("late", "arrived", "arrives", "arr"),
        ("late_departure", "departed", "departs", "dep"),
    )
    for source, condition in (
        (f"{of_layout}_delay", ">= 15"),
        (f"{of_layout}_delay_new", ">= 15"),
        (f"{of_layout}_del15", "= 1"),
    )
)
"""Questions, the first one first. The Bureau of Transportation Statistics has a delay of 0 for early flights, too, and a flag."""


@dataclass(frozen=True)
class FlightFile:
    """A file of flights: its layout, the names in its header, and the questions that it answers, one of each name."""

    recognition: Recognition
    questions: tuple[Question, ...]


def flights_in(path: Path) -> FlightFile | None:
    """The file as one of flights, by the shipped layout with the most columns of it; None if it is none."""
    if has_images(path):
        return None
    found: list[tuple[tuple[int, int], FlightFile]] = []
    for name in shipped_layouts():
        layout = load_layout(name)
        try:
            header = read_header(path, layout.dialect)
        except UserError:
            continue
        part = present(layout, header)
        offered = {*part.columns, *part.derive}
        answered: dict[str, Question] = {}
        for question in QUESTIONS:
            if question.source in offered:
                answered.setdefault(question.name, question)
        covariates = [column for column in COVARIATES if column in offered]
        if not answered or len(covariates) < FEWEST_COVARIATES or not PLACES & set(covariates):
            continue
        columns = [*(question.source for question in answered.values()), *covariates]
        settings = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": columns})
        sources = {column.source for column in layout.columns.values()}
        likeness = len(sources & set(header)), -len(sources - set(header))
        recognition = recognised(path, {name: layout}, settings)
        found.append((likeness, FlightFile(recognition, tuple(answered.values()))))
    return max(found, key=lambda entry: entry[0])[1] if found else None
