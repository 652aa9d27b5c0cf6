"""Scenarios on the first page: their means, and the differences and effects in them as tables. Of a logarithm they are geometric
means and ratios of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from tfglm.report.drawn_means import DrawnMeans, means_of_factor, shares_of_factor
from tfglm.report.words import Words, plain
from tfglm.results.digits import decimals_of, fixed, p_value
from tfglm.results.geometric import RATIOS

SCENARIO = "scenario"


@dataclass(frozen=True)
class Scenarios:
    """The scenarios of a model: what they set, `means` drawn, and tables of `differences` of means and of `effects`, which have
    second differences too; None where there are none."""

    described: list[str]
    means: DrawnMeans
    differences: pd.DataFrame | None
    effects: pd.DataFrame | None


def scenarios_of(
    table: pd.DataFrame,
    settings: Mapping[str, Mapping[str, str]],
    rows: int,
    response: str,
    is_share: bool,
    words: Words,
) -> Scenarios:
    """Return what the page shows of margins_at.csv, with the key `margins_at` as settings. So many `rows` are averaged. A
    response that is a share, a probability, is shown in percent."""
    in_scenario = (table["against"] == "") & table["at"].isin(list(settings))
    is_mean = table["term"] == ""
    of_means = table[in_scenario & is_mean].drop(columns=["term", "level"])
    of_means = of_means.rename(columns={"at": "level", "estimate": "mean"}).assign(rows=rows)
    drawn = (
        shares_of_factor(SCENARIO, of_means, response, words)
        if "class" in table
        else means_of_factor(SCENARIO, of_means, is_share, words)
    )
    is_share |= "class" in table
    described = [
        f"{name}: {', '.join(f'{words.column(column)} = {words.level(column, value)}' for column, value in values.items())}"
        for name, values in settings.items()
    ]
    differences = shown(table[~in_scenario & is_mean], "difference", response, is_share, words)
    effects = shown(table[~is_mean], "effect", response, is_share, words)
    return Scenarios(described, drawn, differences, effects)


def shown(rows: pd.DataFrame, measure: str, response: str, is_share: bool, words: Words) -> pd.DataFrame | None:
    """Rows of margins_at.csv as a page has them: shares in percentage points, and of a logarithm ratios."""
    if rows.empty:
        return None
    named, against = f"{measure}, percentage points" if is_share else measure, "less"
    if RATIOS["estimate"] in rows:
        rows = rows.assign(**{name: rows[ratio] for name, ratio in RATIOS.items()})
        rows = rows.assign(std_error=rows["std_error"] * rows["estimate"])
        named, against = "ratio of geometric means", "vs"
    factor = 100.0 if is_share else 1.0
    columns: dict[str, list[str]] = {}
    if measure == "effect":
        columns["effect of"] = [
            f"{words.column(plain(row.term))}: {words.level(row.term, row.level)} vs {words.level(row.term, row.reference)}"
            if row.level
            else f"{words.column(plain(row.term))}, +1"
            for row in rows.itertuples()
        ]
    columns["where"] = [f"{row.at} {against} {row.against}" if row.against else row.at for row in rows.itertuples()]
    if "class" in rows:
        columns["class"] = [words.level(response, label) for label in rows["class"]]
    decimals = decimals_of(factor * rows["std_error"]) if rows["std_error"].notna().any() else 3

    def written(name: str) -> list[str]:
        return [fixed(factor * value, decimals) for value in rows[name]]

    columns |= {named: written("estimate"), "from": written("ci_lower"), "to": written("ci_upper")}
    columns["p"] = [p_value(value) for value in rows["p_value"]]
    if rows["status"].any():
        columns["note"] = rows["status"].tolist()
    return pd.DataFrame(columns)
