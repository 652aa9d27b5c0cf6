"""The response that `init` chooses for well-known public files, by their names and types of columns."""

import numpy as np
import polars as pl
import pytest
from schemas import CLASSES_AND_RATES, FURTHER, HELD_OUT, NAMED, schemas

from tfglm.survey.calendar import Calendar
from tfglm.survey.columns import described
from tfglm.survey.proposal import propose
from tfglm.survey.responses import candidates_of

MISSED = {"low birth weight"}
"""Its last column is the weight that `low` is derived from."""


def chosen(rows: pl.DataFrame):
    return candidates_of([described(series) for series in rows], rows)[0]


@pytest.mark.parametrize("name", schemas(NAMED))
def test_the_response_and_family_of_famous_files(name):
    response, family, rows = schemas(NAMED)[name]
    columns = [described(series) for series in rows]
    first = chosen(rows)
    assert first.source in response.split(" or "), first.reason
    assert propose(rows, columns, Calendar(), first, flights=False).response.family.name == family


def test_the_response_of_further_files():
    """docs/config/data.md states the rate."""
    files = schemas(FURTHER)
    missed = {name for name, (response, _, rows) in files.items() if chosen(rows).source != response}
    assert len(files) == 36 and missed == MISSED


def test_the_rate_for_files_that_no_name_was_revised_for():
    """docs/config/data.md states the rate. R puts the response first, often without a telling name."""
    files = schemas(HELD_OUT)
    missed = {name for name, (response, _, rows) in files.items() if chosen(rows).source not in response.split(" or ")}
    in_r = {"warpbreaks", "toothgrowth", "airquality", "mroz", "admissions"}
    assert len(files) == 15 and missed == in_r | {"awards", "lending club"}


EXPOSURES = {"nursing homes": "Holders", "doctors": "person_years", "lung cancer": "pop"}
"""No name says that the service of ships is one."""


@pytest.mark.parametrize("name", schemas(CLASSES_AND_RATES))
def test_the_response_family_and_exposure_of_classes_and_counts(name):
    """docs/config/data.md states the rate."""
    response, family, rows = schemas(CLASSES_AND_RATES)[name]
    first = chosen(rows)
    proposal = propose(rows, [described(series) for series in rows], Calendar(), first, flights=False)
    assert (first.source, proposal.response.family.name) == (response, family)
    assert proposal.offset == (f"log({EXPOSURES[name]})" if name in EXPOSURES else "") and not proposal.penalised


@pytest.mark.slow
def test_the_family_of_further_files():
    for name, (response, family, rows) in schemas(FURTHER).items():
        columns = [described(series) for series in rows]
        candidate = next(each for each in candidates_of(columns, rows) if each.source == response)
        assert propose(rows, columns, Calendar(), candidate, flights=False).response.family.name == family, name


def test_a_count_is_overdispersed_by_what_its_covariates_leave():
    random = np.random.default_rng(4)
    x = random.normal(0, 1, 4000)
    for spread, family in ((0.0, "poisson"), (0.9, "negative_binomial")):
        visits = random.poisson(np.exp(0.4 + 0.6 * x + random.normal(0, 1, 4000) * spread))
        rows = pl.DataFrame({"visits": visits, "x": x})
        columns = [described(series) for series in rows]
        response = propose(rows, columns, Calendar(), chosen(rows), flights=False).response
        assert (response.name, response.family.name) == ("visits", family), response.reason


def test_dummies_of_a_set_are_no_response():
    random = np.random.default_rng(4)
    town = random.integers(0, 4, 400)
    rows = pl.DataFrame({"size": random.normal(0, 1, 400), "paid": random.integers(0, 2, 400)})
    rows = rows.with_columns(*(pl.Series(f"town_{level}", (town == level).astype(int)) for level in range(3)))
    assert [each.source for each in candidates_of([described(series) for series in rows], rows)] == ["paid", "size"]
