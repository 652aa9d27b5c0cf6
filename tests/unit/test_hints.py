"""A formula as other programs take it is refused with what to write instead."""

import re

import pytest

from configs import message
from tfglm.formula.parse import parse

REFUSED = {
    "late ~ distance + distance^2": "a power is `I(distance^2)`",
    "late ~ carrier + log(distance)**3": "a power is `I(log(distance)^3)`",
    "late ~ pow(distance, 2)": "write I(distance^2) or poly(distance, 2)",
    "late ~ I(distance * seats)": "write distance:seats for a product",
    "late ~ I(distance > 100)": "`derive: {distance_is_high: distance > 10}`",
    "late ~ {distance / 100}": "write I(distance/100)",
    "late ~ Q('day of week')": "`columns: {day_of_week: {type: string, source: day of week}}`",
    "late ~ standardize(distance)": "write scale(distance)",
    "late ~ C(carrier, levels=['AA', 'UA'])": "levels are those of the training rows",
    "late ~ cc(hour, df=4, lower_bound=0, upper_bound=24, constraints='center')": "cc() is periodic and has the mean 0",
    "late ~ exp10(wind)": "write I(2^wind) and I(10^wind)",
    "late ~ hashed(carrier, levels=10)": "data.rare merges rare levels",
    "late ~ lag(delay)": "rows are in no order",
    "late ~ ns(hour, df=4, intercept=True)": "include_intercept for intercept",
    "late ~ factor(carrier, levels=c('AA', 'UA'))": "levels are those of the training rows",
    "factor(late) ~ distance": "`late ~ ...`",
    "late ~ log(distance + seats)": "is of one column, not of distance, seats",
    "late ~ Log(distance)": "did you mean `log`?",
    "late ~ distance | origin": "`y ~ x | g` or the key `absorb: [g]`",
    "late ~ mvsw(distance, wind)": "`sweep: {formula: [late ~ distance, ...]}`",
    "late ~ distance + cluster(day)": "`std_errors: cluster(day)`",
    "late ~ as.numeric(month)": "write month, or C(month)",
    "late ~ s(x, by=factor(month) + 1)": "a number that multiplies the curve, as in s(x, by=g)",
    "late ~ C(carrier, ref='UA')": "`reference: {carrier: level}`",
    "late ~ C(month, contr.treatment(base=2))": 'write C(month, Treatment("2")) for the level 2',
    "late ~ i(month, bin=2)": "of fixest's i() there is ref alone; merge levels",
    "late ~ i(month, ref=[1, 2])": "ref is one level, such as ref=1",
    "late ~ i(month, distance, ref=1)": "add `distance`, or leave ref out for an effect at each level",
    "late ~ 0 + i(month, ref=1)": "add `1`, or leave ref out",
    "late ~ carrier + ..calendar": "define a list of terms under `terms`",
    "late ~ C(month, contr.SAS)": "`reference: {month: level}`",
    "late ~ C(month, contr.custom([[1], [2]]))": "codings are C(month, contr.sum), contr.helmert",
    "late ~ cr(distance, df=3)": "for a smooth term write s(distance, k=20); without a penalty ns(distance, df=4)",
    "late ~ s(hour, bs='cc')": "for hours from 0 to 23 s(hour, bs=cc, lower_bound=0, upper_bound=24)",
    "late ~ distance + wind == 4": "`derive: {wind_is_high: wind > 10}`",
    "late ~ log(wind, base=3)": "write log2(wind), log10(wind) or I(log(wind)/log(3))",
    "late ~ cut(distance, 4)": "`derive: {distance_is_high: distance > 10}`",
    "late ~ distance > 100": "`derive: {distance_is_high: distance > 10}`",
    "late ~ 2*distance": "`derive: {distance_times_2: distance * 2}`",
    "late ~ distance, carrier": "terms are joined by +",
    "late ~ `day of week`": "`columns: {day_of_week: {type: string, source: day of week}}`",
    "late ~ wind speed": "`columns: {wind_speed: {type: string, source: wind speed}}`",
    "late ~ flights$carrier": "no frame before them",
    "late ~ day.of.week": "letters, digits and _ alone",
    "late ~ (carrier": "each ( needs a )",
    "late = carrier": "write ~ between response and terms",
    "carrier + distance": "write the response before a ~",
    "late + delay ~ distance": "for a model of each response write c(y, z) ~ distance",
}


FLIGHTS = {"late", "carrier", "distance", "month", "tailnum", "origin", "hour", "seats"}


@pytest.mark.parametrize("formula", REFUSED)
def test_what_to_write_instead_is_told(formula):
    refused = message(parse, formula, "models.m.formula")
    assert refused.startswith("models.m.formula: ") and REFUSED[formula] in refused
    assert len(refused) < 600
    assert FLIGHTS & {*re.findall(r"[a-z]+", refused)} <= {*re.findall(r"[a-z]+", formula), "hour"}


def test_every_term_that_cannot_be_fitted_is_named():
    refused = message(parse, "late ~ foo(a) + b + bar(c)", "f")
    assert "`foo(a)` is not supported" in refused and "`bar(c)` is not supported" in refused


@pytest.mark.parametrize("right", ["C(month, contr.sum)", "I(distance^2)", "I(distance / 100)", "log(distance + 1)"])
def test_of_what_is_right_in_a_formula_nothing_is_said(right):
    refused = message(parse, f"late ~ {right} + foo(a)", "f")
    assert len(refused.splitlines()) == 2 and "the functions are" in refused
