"""The averages of an event study: the effects of all cohorts in a period since their treatment, weighted by their rows (Sun and
Abraham, Journal of Econometrics 225, 2021, eq. 28; `aggregate` of fixest)."""

import numpy as np
import pandas as pd

from tfglm.design.terms import DesignTerm
from tfglm.errors import UserError
from tfglm.formula.terms import BETWEEN_COLUMNS, EventStudy
from tfglm.results.coefficients import combinations
from tfglm.results.estimates import Estimates
from tfglm.results.hypotheses import tested_together
from tfglm.results.joint import COLUMNS, with_p_values

PERIOD, AVERAGE, COHORT, BEFORE = "period", "average since the treatment", "cohort", "all periods before"
"""Rows of the table: averages of the cohorts in a period, of all periods since the treatment, and of a cohort in these periods;
and the joint test of the periods before."""


def event_study(estimated: Estimates, confidence: float) -> pd.DataFrame:
    """Return the averages of all event studies of a model.

    There is a row for each period since the treatment, for the average over the periods from 0 on, and for each cohort in these
    periods. The last row is a Wald test that all periods before are 0.

    Columns: term, about, value (the period or the cohort), estimate, std_error, z or t, df (with clusters), p_value,
    neg_log10_p, ci_lower, ci_upper, rows, F or chi_squared and df_numerator of the joint test, note. Raises UserError for a model
    without event studies.
    """
    tables = [table_of(estimated, term, confidence) for term in estimated.design.terms if is_study(term)]
    if not tables:
        raise UserError(
            "event_study: the formula has no sunab(); write one, as in y ~ sunab(cohort, year) | unit + year"
        )
    return pd.concat(tables, ignore_index=True)


def is_study(term: DesignTerm) -> bool:
    return isinstance(term.kind, EventStudy)


def table_of(estimated: Estimates, term: DesignTerm, confidence: float) -> pd.DataFrame:
    """The rows of an event study. Cohorts count by the weights of their rows; those without an estimate are in no average."""
    design, study = estimated.design, term.kind
    assert isinstance(study, EventStudy)
    place = np.arange(design.size)[design.slices[term.name]][:-1]
    levels = [level for name, level in design.coefficients() if name == term.name][:-1]
    kept = estimated.kept[place]
    weights = np.where(kept, estimated.fitted.summary["cohort_weights"][term.name][:-1], 0.0)
    rows = np.where(kept, estimated.fitted.rows[place], 0)
    since = np.array([study.since(level) for level in levels])
    cohorts = np.array([float(level.partition(BETWEEN_COLUMNS)[0]) for level in levels])
    groups = [(PERIOD, period, since == period) for period in np.unique(since)]
    groups += [(AVERAGE, np.nan, since >= 0)]
    groups += [(COHORT, cohort, (cohorts == cohort) & (since >= 0)) for cohort in np.unique(cohorts)]
    groups = [(about, value, which) for about, value, which in groups if weights[which].any()]
    combination = np.zeros((len(groups), design.size))
    for row, (_, _, which) in zip(combination, groups, strict=True):
        row[place] = np.where(which, weights, 0.0) / weights[which].sum()
    tested = combinations(estimated, combination, confidence)
    about, value, which = zip(*groups, strict=True)
    table = pd.DataFrame({"about": about, "value": value}).join(tested)
    table["rows"] = [int(rows[each].sum()) for each in which]
    lacking = [", ".join(np.array(levels)[each & ~kept]) for each in which]
    without = [f"without {names}, which have no estimate" if names else "" for names in lacking]
    notes = table.pop("note") if "note" in table else [""] * len(table)
    table["note"] = ["; ".join(filter(None, each)) for each in zip(notes, without, strict=True)]
    before = (table["about"] == PERIOD) & (table["value"] < 0)
    if before.any():
        joint = tested_together(estimated, term.base, combination[before], np.zeros(int(before.sum())))
        test = with_p_values(pd.DataFrame([joint], columns=COLUMNS), estimated)
        test = test.rename(columns={"df": "df_numerator", "df_denominator": "df"})
        test = test.drop(columns="chi_squared") if "F" in test else test
        table = pd.concat([table, test.assign(about=BEFORE, rows=table["rows"][before].sum())], ignore_index=True)
    table.insert(0, "term", term.base)
    return table.assign(note=table.pop("note"))


def with_paths(effects: pd.DataFrame, estimated: Estimates, confidence: float) -> pd.DataFrame:
    """The table of `results.effects` with the path of each event study: its averages by period, and 0 in reference periods."""
    tables = [effects] if len(effects) else []
    for term in filter(is_study, estimated.design.terms):
        study, table = term.kind, table_of(estimated, term, confidence)
        assert isinstance(study, EventStudy)
        path = table[table["about"] == PERIOD].rename(columns={"estimate": "effect"})
        references = pd.DataFrame({"value": study.before or (-1,)}).assign(
            effect=0.0, std_error=0.0, ci_lower=0.0, ci_upper=0.0
        )
        path = pd.concat([path, references]).sort_values("value")
        names = {
            "term": term.base,
            "column": f"{study.period} since {study.cohort}",
            "at": "",
            "reference": (*study.before, -1)[0],
        }
        tables.append(path.assign(**names).reindex(columns=effects.columns))
    return pd.concat(tables, ignore_index=True) if tables else effects
