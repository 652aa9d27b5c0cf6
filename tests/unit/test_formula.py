"""Formulas as typed terms: names, stored forms and products of terms, which are those of formulaic."""

import json
import random

import pytest
from formulaic.parser import DefaultFormulaParser

from tfglm.errors import UserError
from tfglm.formula.parse import parse, term_of
from tfglm.formula.response import computed_response
from tfglm.formula.terms import CategoricalFactor, RandomEffects, Smooth, as_stored, from_stored
from tfglm.formula.text import products_of, words_of

WRITTEN = (
    "y ~ carrier * C(month, Treatment('6')) + C(day, contr.sum) + i(weekday, x, ref=1) + weekday + x + log(z) + poly(u / 2, 3) + "
    "s(a, k=6) + s(b, c) + te(d, log(e), bs=[cc, cr], lower_bound=0, upper_bound=24) + ti(f, g) + s(h, by=carrier) + (x || plane)"
)


def test_a_term_is_found_by_its_name_and_reads_back():
    for term in parse(WRITTEN, "f").terms:
        found = term_of(f"late: {term.name}")
        assert found.name == term.name and type(found) is type(term) and found.columns == term.columns
        assert (found.is_curve, found.is_random, found.is_surface) == (term.is_curve, term.is_random, term.is_surface)
        assert from_stored(json.loads(json.dumps(term, default=as_stored))) == term


def test_random_effects_are_the_same_terms_in_both_notations():
    lme4, mgcv = (
        parse(f"y ~ x + {right}", "f")
        for right in (
            "(1 | g) + (0 + x | h) + (x || k)",
            "s(g, bs=re) + s(h, x, bs='re') + s(k, bs=re) + s(k, x, bs=re)",
        )
    )
    assert lme4 == mgcv and lme4.terms[2:4] == (RandomEffects("k"), RandomEffects("h", "x"))


OTHERS = {
    "factor(m) * x": "C(m) * x",
    "as.factor(m):x": "C(m):x",
    "relevel(m, ref='a') + relevel(factor(h), 'b')": "C(m, Treatment('a')) + C(h, Treatment('b'))",
    'C(m, Treatment(reference="a"))': "C(m, Treatment('a'))",
    "te(x, z, k=c(5, 6), bs=c('cr', 'ps'))": "te(x, z, k=[5, 6], bs=[cr, ps])",
    's(x, k = 10, bs = "cr") + s(h, k=5, bs="re")': "s(x, k=10, bs=cr) + s(h, bs=re)",
    "m + factor(h) + s(x, by=factor(h))": "m + C(h) + s(x, by=h)",
    "poly(x, 2, raw = TRUE) + scale(z, center=F)": "poly(x, 2, raw=True) + scale(z, center=False)",
    "log(x, 2) + log(z, base=10) + np.log(u)": "log2(x) + log10(z) + np.log(u)",
    'Q("x") + `z`': "x + z",
}


@pytest.mark.parametrize("right", OTHERS)
def test_spellings_of_other_programs_are_the_same_terms(right):
    assert parse(f"y ~ {right}", "f") == parse(f"y ~ {OTHERS[right]}", "f")


def test_a_curve_by_a_factor_does_not_become_one_of_a_number():
    *_, smooth = parse("y ~ h + s(x, by=factor(h))", "f").terms
    assert smooth.by == CategoricalFactor("h")


def test_what_is_no_term_is_a_column_of_that_name():
    for name in ("day of week", "lag(x)", "(Threshold)", "log(x", "C(a, b)"):
        assert term_of(name).columns == (name,) and not term_of(name).is_curve
    assert isinstance(term_of("C(month)"), CategoricalFactor) and isinstance(term_of("te(x, z):w"), Smooth)


def drawn(draw: random.Random, depth: int) -> str:
    """A sum of products at random."""
    if depth == 0 or draw.random() < 0.25:
        return draw.choice(["a", "b", "c", "log(d)", "a:b"])
    operator = draw.choice(["+", "+", "-", "*", "/", ":", "%in%", "()", "^"])
    if operator in ("()", "^"):
        return f"({drawn(draw, depth - 1)} + e + g)" + ("^2" if operator == "^" else "")
    return f"{drawn(draw, depth - 1)} {operator} {drawn(draw, depth - 1)}"


@pytest.mark.parametrize("seed", range(3))
def test_products_are_those_of_formulaic(seed):
    draw, parser = random.Random(seed), DefaultFormulaParser()
    for _ in range(200):
        right = draw.choice(["", "0 + ", "-1 + "]) + drawn(draw, 3) + draw.choice(["", " - 1", " + 0"])
        theirs = [
            [] if str(term) == "1" else [each.expr for each in term.factors]
            for term in parser.get_terms(f"y ~ {right}").rhs
        ]
        assert sorted(map(list, products_of(words_of(right)))) == sorted(theirs), right


@pytest.mark.parametrize("formula", ["y ~ log(0x5in)", "y ~ I(1if x else 2)", "log(0x5in) ~ x"])
def test_a_mistake_is_said_once(formula, recwarn):
    with pytest.raises((UserError, ValueError)):
        computed_response(formula)
        parse(formula, "models.m.formula")
    assert [str(warning.message) for warning in recwarn] == []
