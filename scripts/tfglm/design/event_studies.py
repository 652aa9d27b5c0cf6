"""The cohorts and periods of an event study by Sun and Abraham (Journal of Econometrics 225, 2021): which have a coefficient.

The conventions are those of `sunab` in fixest. Cohorts that are untreated in all their periods are controls. Rows of cohorts that
are treated in all their periods take no part.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tfglm.errors import UserError, short
from tfglm.formula.terms import BETWEEN_COLUMNS, NEVER, EventStudy

OTHERS = "controls and reference periods"
"""The level of all values without a coefficient."""


@dataclass(frozen=True)
class Cohorts:
    """The values `cohort × period` of an event study: `treated` ones have a coefficient each, in the order of period and cohort,
    and `others` have none. `remarks` count rows that a reader may not expect there."""

    term: EventStudy
    treated: tuple[str, ...]
    others: tuple[str, ...]
    remarks: list[str]


def cohorts_of(term: EventStudy, rows: Mapping[str, int], where: str) -> Cohorts:
    """Divide the values `cohort × period`, which have so many training rows. Raises UserError if they make no event study.

    If there are periods below, at and above 0, they count from the treatment. Otherwise the cohort is the period of its
    treatment. A cohort without such a period is never treated.
    """
    where = f"{where}: `{term.name}`"
    pairs = {value: value.split(BETWEEN_COLUMNS) for value in rows}
    for column, place in ((term.cohort, 0), (term.period, 1)):
        for value in (pair[place] for pair in pairs.values()):
            if not is_number(value) and (column, value) != (term.cohort, NEVER):
                raise UserError(
                    f"{where}: `{column}` has the value `{value}`, and sunab() takes numbers; derive one under data.derive"
                )
    periods = {float(period) for _, period in pairs.values()}
    term = replace(term, is_relative=0.0 in periods and min(periods) < 0 < max(periods))
    since: dict[str, dict[float, str]] = {}
    for value, (cohort, _) in pairs.items():
        since.setdefault(cohort, {})[term.since(value)] = value
    dated = {cohort for cohort in since if cohort != NEVER and (term.is_relative or float(cohort) in periods)}
    always = {cohort for cohort in dated if min(since[cohort]) >= 0}
    treated = {cohort for cohort in dated if min(since[cohort]) < 0 <= max(since[cohort])}
    if not treated:
        raise UserError(
            f"{where}: no cohort has rows before and after its treatment; `{term.cohort}` is the `{term.period}` in which a unit "
            "is first treated, or one that has no rows if it never is"
        )
    if len(treated | always) == len(since):
        last = max(treated, key=float)
        example = "" if term.is_relative else f", as in `where: {term.period} < {last}`"
        raise UserError(
            f"{where}: all cohorts are treated, so there are no controls\n  leave out the rows since the treatment of the last "
            f"cohort, {last}, which is then the control{example}"
        )
    references: set[float] = {*term.before} or {time for cohort in treated for time in since[cohort] if time < 0}
    if lacking := sorted((cohort for cohort in treated if not references & {*since[cohort]}), key=float):
        known = set.intersection(*({*since[cohort]} for cohort in treated))
        known_before = ", ".join(f"{time:g}" for time in sorted(known) if time < 0)
        raise UserError(
            f"{where}: no rows in the reference period {', '.join(map(str, term.before))} in cohort {short(', '.join(lacking))}\n"
            f"  choose another with ref.p (all have {known_before or 'none before the treatment'}), or leave these cohorts out"
        )
    chosen = [(time, float(cohort), value) for cohort in treated for time, value in since[cohort].items()]
    with_estimate = tuple(value for time, _, value in sorted(chosen) if time not in references)
    if not with_estimate:
        raise UserError(f"{where}: there are rows of the reference periods alone; take some out of ref.p")
    others = tuple(value for value, (cohort, _) in pairs.items() if cohort not in always and value not in with_estimate)
    first = 0.0 if term.is_relative else min(periods)
    earlier = [cohort for cohort in since if cohort not in {NEVER, *dated} and 0 < float(cohort) < first]
    said: dict[str, Iterable[str]] = {
        f"no `{term.cohort}`, so they are controls": {NEVER} & {*since},
        f"a `{term.cohort}` before the first `{term.period}`, so they are controls; leave them out if they are treated": earlier,
        "no period before their treatment, so they take no part": always,
    }
    remarks = []
    for what, names in said.items():
        if count := sum(rows[value] for name in names for value in since[name].values()):
            remarks.append(f"`{term.name}`: {count:,} training rows have {what}")
    return Cohorts(term, with_estimate, others, remarks)


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
