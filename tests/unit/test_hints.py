"""A formula as other programs take it is refused with what to write instead."""

import pytest

from tfglm.design.formula import parse
from tfglm.errors import UserError

REFUSED = {
    "late ~ .": "write them out, as in `late ~ carrier + distance`",
    "late ~ I(distance^2)": "write poly(distance, 2, raw=True)",
    "late ~ pow(distance, 2)": "write poly(distance, 2, raw=True)",
    "late ~ poly(distance, 2, raw=TRUE)": "write True and False",
    "late ~ scale(distance, center=F)": "write True and False",
    "late ~ log(distance + 1)": "log1p(x) is log(x + 1)",
    "late ~ Log(distance)": "did you mean `log`?",
    "late ~ distance | origin": "`std_errors: cluster(column)`",
    "late ~ distance + (1 | origin)": "`std_errors: cluster(column)`",
    "late ~ distance + cluster(day)": "`std_errors: cluster(date)`",
    "late ~ factor(month)": "write C(month)",
    "late ~ as.factor(month)": "write C(month)",
    "late ~ distance + offset(log(seats))": "`offset: log(seats)`",
    "late ~ relevel(carrier, ref='UA')": "`reference: {carrier: UA}`",
    "late ~ C(month, Sum)": "`reference: {carrier: UA}`",
    "late ~ ns(distance, 3)": "write bs(distance, df=5)",
    "late ~ bs(distance, knots=c(500, 1000))": "write a list as [500, 1000]",
    "late ~ cut(distance, 4)": "`derive: {far: distance > 1000}`",
    "late ~ distance > 100": "`derive: {far: distance > 1000}`",
    "late ~ 2*distance": "`derive: {km: distance * 1.609}`",
    "late ~ distance, carrier": "terms are joined by +",
    "late ~ `day of week`": "`columns: {weekday: {type: string, source: day of week}}`",
    "late ~ day of week": "`columns: {weekday: {type: string, source: day of week}}`",
    "late ~ flights$carrier": "no frame before them",
    "late ~ day.of.week": "source: day.of.week",
    "late ~ (carrier": "each ( needs a )",
    "late = carrier": "write ~ between response and terms",
    "carrier + distance": "write the response before a ~",
    "late + delay ~ distance": "a model has one response",
    "cbind(late, seats) ~ distance": "its key `trials: column`",
    "log(delay) ~ distance": "`derive: {log_delay: LN(delay)}`",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_what_to_write_instead_is_told(formula):
    with pytest.raises(UserError) as error:
        parse(formula, "models.m.formula")
    assert str(error.value).startswith("models.m.formula: ") and REFUSED[formula] in str(error.value)
    assert len(str(error.value)) < 600


def test_every_term_that_cannot_be_fitted_is_named():
    with pytest.raises(UserError) as error:
        parse("late ~ foo(a) + b + bar(c)", "f")
    assert "`foo(a)` is not supported" in str(error.value) and "`bar(c)` is not supported" in str(error.value)
