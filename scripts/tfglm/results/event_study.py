"""The averages of an event study: the effects of all cohorts in a period since their treatment, weighted by their rows (Sun and
Abraham, Journal of Econometrics 225, 2021, eq. 28; `aggregate` of fixest)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tfglm.design.terms import DesignTerm
from tfglm.formula.terms import BETWEEN_COLUMNS, EventStudy
from tfglm.results.coefficients import combinations
from tfglm.results.estimates import Estimates
from tfglm.results.hypotheses import tested_together
from tfglm.results.joint import COLUMNS, with_p_values

PERIOD, AVERAGE, COHORT, BEFORE = "period", "average since the treatment", "cohort", "all periods before"
"""What a row of the table is about: the average of the cohorts in a period, that of all periods since the treatment, that of a
cohort in these periods, and the joint test of the periods before."""


@dataclass(frozen=True)
class Averages:
    """The averages of a term: what each is about, its period or cohort (NaN for those of all), its weights [p] and rows; and the
    cohorts whose coefficients have no estimate, so that they are in no average."""

    about: list[str]
    value: list[float]
    weights: np.ndarray
    rows: np.ndarray
    without: list[str]


def event_studies(estimated: Estimates) -> Iterator[DesignTerm]:
    """Yield the terms that are event studies."""
    return (term for term in estimated.design.terms if isinstance(term.kind, EventStudy))


def averages(estimated: Estimates, term: DesignTerm) -> Averages:
    """The averages of an event study. Cohorts count by the weights of their rows."""
    design, study = estimated.design, term.kind
    assert isinstance(study, EventStudy)
    place = design.slices[term.name]
    levels = [level for name, level in design.coefficients() if name == term.name][:-1]
    kept = estimated.kept[place][:-1]
    weights = np.where(kept, estimated.fitted.summary["cohort_weights"][term.name][:-1], 0.0)
    rows = np.where(kept, estimated.fitted.rows[place][:-1], 0)
    since = np.array([study.since(level) for level in levels])
    cohorts = np.array([float(level.partition(BETWEEN_COLUMNS)[0]) for level in levels])
    groups = [(PERIOD, period, since == period) for period in np.unique(since)]
    groups += [(AVERAGE, np.nan, since >= 0)]
    groups += [(COHORT, cohort, (cohorts == cohort) & (since >= 0)) for cohort in np.unique(cohorts)]
    groups = [(about, value, which) for about, value, which in groups if weights[which].any()]
    combination = np.zeros((len(groups), design.size))
    for row, (_, _, which) in zip(combination, groups, strict=True):
        row[place][:-1] = np.where(which, weights, 0.0) / weights[which].sum()
    of_groups = np.array([rows[which].sum() for _, _, which in groups], np.int64)
    without = [level for level, has in zip(levels, kept, strict=True) if not has]
    return Averages([each[0] for each in groups], [each[1] for each in groups], combination, of_groups, without)


def event_study(estimated: Estimates, confidence: float) -> pd.DataFrame:
    """Return the averages of all event studies of a model.

    A row for each period since the treatment, the average over the periods from 0 on, that of each cohort in these periods,
    and a Wald test that all periods before are 0. Columns: term, about, value (the period or the cohort), estimate, std_error,
    z or t, df (with clusters), p_value, neg_log10_p, ci_lower, ci_upper, rows, F or chi_squared and df_numerator of the joint
    test, note.
    """
    tables = []
    for term in event_studies(estimated):
        found = averages(estimated, term)
        table = combinations(estimated, found.weights, confidence)
        table.insert(0, "value", found.value)
        table.insert(0, "about", found.about)
        table.insert(0, "term", term.base)
        table.insert(len(table.columns) - ("note" in table), "rows", found.rows)
        before = (np.array(found.about) == PERIOD) & (np.array(found.value) < 0)
        if before.any():
            joint = tested_together(estimated, term.base, found.weights[before], np.zeros(int(before.sum())))
            test = with_p_values(pd.DataFrame([joint], columns=COLUMNS), estimated)
            statistic = "F" if "F" in test else "chi_squared"
            test = test.rename(columns={"df": "df_numerator", "df_denominator": "df"})
            shown = ["df", "p_value", "neg_log10_p", statistic, "df_numerator", "note"]
            test = test[[name for name in shown if name in test]].assign(term=term.base, about=BEFORE)
            table = pd.concat([table, test.assign(rows=found.rows[before].sum())], ignore_index=True)
        if found.without:
            lacking = f"without {', '.join(found.without)}, which have no estimate"
            table["note"] = [f"{note}; {lacking}" if note else lacking for note in table.get("note", [""] * len(table))]
        tables.append(table)
    return pd.concat(tables, ignore_index=True).fillna({"note": ""})


def with_paths(effects: pd.DataFrame, estimated: Estimates, confidence: float) -> pd.DataFrame:
    """The table of `results.effects` with the path of each event study: its averages by period, and 0 in reference periods."""
    tables = [effects] if len(effects) else []
    for term in event_studies(estimated):
        study, table = term.kind, event_study(estimated, confidence)
        assert isinstance(study, EventStudy)
        path = table[(table["term"] == term.base) & (table["about"] == PERIOD)].rename(columns={"estimate": "effect"})
        references = pd.DataFrame({"value": study.before}).assign(effect=0.0, std_error=0.0, ci_lower=0.0, ci_upper=0.0)
        path = pd.concat([path, references]).sort_values("value")
        names = {
            "term": term.base,
            "column": f"{study.period} since {study.cohort}",
            "at": "",
            "reference": study.before[0],
        }
        tables.append(path.assign(**names).reindex(columns=effects.columns))
    return pd.concat(tables, ignore_index=True) if tables else effects
