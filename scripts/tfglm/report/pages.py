"""Pages for readers, from the templates beside this file, and how numbers are written there."""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

from tfglm.report.glossary import explained, linked
from tfglm.results import csv_files
from tfglm.results.digits import decimals_of, fixed, four_that_count, in_powers, minus, p_value

TEMPLATES = Path(__file__).parent / "templates"

LONG = 30
"""A table of more rows can be sorted, filtered and folded."""


def render(template: str, **values: Any) -> str:
    """The page that a template makes of these values; what is HTML in a value is shown as text."""
    return environment().get_template(f"{template}.html.j2").render(values)


def compile_templates() -> None:
    """Compile all templates, for this process and those that are forked from it: a page takes up to six, for 10 ms each."""
    for name in environment().list_templates():
        environment().get_template(name)


@functools.cache
def environment() -> jinja2.Environment:
    """What all templates share."""
    shared = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    shared.filters |= {"count": "{:,}".format, "head": _head, "rows": _rows, "minus": minus, "breakable": _breakable}
    shared.filters |= {"explained": explained, "linked": linked}
    shared.globals["LONG"] = LONG
    return shared


BREAKS = re.compile(r"(?<=[_:/-])(?=[^\W\d])|(?<=[^\W_]{24})(?=[^\W_])")
"""Where a name may break: between its parts, and in one of more than 24 letters."""


def _breakable(text: object) -> Markup:
    """A name that breaks where a reader expects it, so that the longest part alone keeps its column wide."""
    return Markup("<wbr>").join(BREAKS.split(str(text)))


def _head(frame: pd.DataFrame) -> list[list[tuple[str, int]]]:
    """The names in each row of a table's header, each with the columns below it."""
    names = [name if isinstance(name, tuple) else (name,) for name in frame.columns]
    *groups, last = zip(*names, strict=True)
    over = [[(name, len(list(same))) for name, same in itertools.groupby(row)] for row in groups]
    return [*over, [(name, 1) for name in last]]


def _rows(frame: pd.DataFrame) -> Iterator[list]:
    """The cells of a table by row; empty where there is no value."""
    for row in frame.itertuples(index=False, name=None):
        yield ["" if pd.isna(cell) else minus(cell) for cell in row]


def read_table(path: Path, fit: Path) -> pd.DataFrame:
    """A table of coefficients from its CSV; names are text, also where a level is called NA. The terms of a regression of classes
    have their class before their name. Raises UserError as `csv_files.read` does."""
    return with_classes(csv_files.read(path, fit))


def with_classes(table: pd.DataFrame) -> pd.DataFrame:
    """The table of coefficients with the class of a term before its name, in place of a column."""
    if "class" in table:
        table["term"] = table.pop("class") + ": " + table["term"]
    return table


def cell(value: Any) -> str:
    """A value of a row of the data, with four digits that count; empty where there is none."""
    return "" if pd.isna(value) else four_that_count(value) if isinstance(value, float) else str(value)


def numbers_as_text(numbers: pd.DataFrame, errors: pd.Series, rate: float | None = None) -> pd.DataFrame:
    """Estimates and limits of intervals as text, with the decimals that keep two digits of the smallest error; one column is
    the `estimate`. With a `rate` the exponentials of so many times the numbers are written; no ratio is written as 0."""
    if rate is not None:
        with np.errstate(over="ignore"):
            numbers = np.exp(rate * numbers)
        errors = (rate * errors * numbers["estimate"]).where(rate * errors < 1)
    decimals = decimals_of(errors)
    sizes = numbers.abs().stack()
    powers = True if in_powers(10.0**-decimals) or any(map(in_powers, sizes[sizes >= 1])) else None
    return numbers.map(lambda value: fixed(value, decimals, powers))


def tests_as_text(names: Mapping[str, Sequence[str]], tests: pd.DataFrame) -> pd.DataFrame:
    """Joint tests as pages have them: their `names`, degrees of freedom, statistic, p-value, and notes if there are any."""
    # The p-value is a tail probability of this statistic.
    name, statistic = ("F", "F") if "F" in tests else ("chi-squared", "chi_squared")
    columns = {**names, "df": tests["df"].map(lambda value: "" if pd.isna(value) else four_that_count(value))}
    columns |= {name: tests[statistic].map(lambda value: fixed(value, 1)), "p": tests["p_value"].map(p_value)}
    return pd.DataFrame(columns).assign(**({"note": tests["note"]} if "note" in tests and any(tests["note"]) else {}))
