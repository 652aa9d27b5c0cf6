"""All pairs of levels of a factor on the first page, as tables."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from tfglm.report.pages import numbers_as_text
from tfglm.report.words import Words, plain
from tfglm.results.digits import p_value

MOST_PAIRS = 66
"""Pairs of a factor that the page shows, those of 12 levels: of more, those with the smallest p-values."""

OPEN = 15
"""Pairs that a reader sees without a click, those of 6 levels."""


@dataclass(frozen=True)
class Pairs:
    """The pairs of a factor: `name` is its name on pages, and `left_out` pairs are only in pairwise.csv."""

    name: str
    table: pd.DataFrame
    left_out: int

    @property
    def is_open(self) -> bool:
        return len(self.table) <= OPEN


def pairs_of(table: pd.DataFrame, measure: str, rate: float | None, response: str, words: Words) -> Iterator[Pairs]:
    """Yield what the page shows of each factor of pairwise.csv. `measure` is the name of a difference, or of its
    exponential. A difference is multiplied by `rate` before the exponential; None of one that has no meaning. `response` is
    its column."""
    for term, every in table.groupby("term", sort=False):
        chosen = every if len(every) <= MOST_PAIRS else every.nsmallest(MOST_PAIRS, "p_value").sort_index()
        yield Pairs(
            words.column(plain(str(term))),
            shown(str(term), chosen, measure, rate, response, words),
            len(every) - len(chosen),
        )


def shown(term: str, rows: pd.DataFrame, measure: str, rate: float | None, response: str, words: Words) -> pd.DataFrame:
    """Rows of pairwise.csv as a page has them."""
    written = numbers_as_text(rows[["estimate", "ci_lower", "ci_upper"]], rows["std_error"], rate)
    pairs = [f"{words.level(term, row.level)} vs {words.level(term, row.against)}" for row in rows.itertuples()]
    columns = {"levels": pairs}
    if "at" in rows and rows["at"].any():
        columns["at"] = rows["at"].tolist()
    if "class" in rows:
        columns["class"] = [words.level(response, label) for label in rows["class"]]
    columns |= {measure: written["estimate"], "from": written["ci_lower"], "to": written["ci_upper"]}
    columns |= {"p (Tukey)": rows["p_tukey"].map(p_value), "p (Holm)": rows["p_holm"].map(p_value)}
    if rows["note"].any():
        columns["note"] = rows["note"].tolist()
    return pd.DataFrame(columns)
