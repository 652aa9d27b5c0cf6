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


def test_logarithms_of_amounts_are_responses_and_squares_and_classes_of_amounts_are_none():
    random = np.random.default_rng(8)
    age, size = random.integers(20, 60, 400), 400
    rows = pl.DataFrame(
        {"age": age, "lwage": random.normal(3, 1, size), "d81": age % 3, "d82": age % 2, "agesq": age**2}
    )
    assert chosen(rows).source == "lwage"
    texts = random.choice(["fired", "ok", "promoted"], size)
    assert (
        chosen(pl.DataFrame({"salary": age % 6, "hours": random.normal(40, 5, size), "status": texts})).source
        == "status"
    )
    both = pl.DataFrame({"price": random.normal(9, 1, size), "approve": age % 2, "white": age % 3 % 2})
    assert chosen(both).source == "approve"


def patients() -> pl.DataFrame:
    """Counts of 60 patients in 4 periods: `trt` and the logarithm `lbase` of `base` are the same in all rows of a patient."""
    random = np.random.default_rng(9)
    patient, period = np.repeat(np.arange(60), 4) * 7 + 3, np.tile(np.arange(4), 60)
    base, age = np.repeat(np.exp(random.normal(3, 1, 60)).round() + 1, 4), np.repeat(random.integers(18, 43, 60), 4)
    trt = np.repeat(random.choice(["placebo", "drug"], 60), 4)
    y = random.poisson(base / 8 * np.exp(random.normal(0, 0.3, 240)))
    return pl.DataFrame(
        {"y": y, "trt": trt, "base": base, "age": age, "nr": patient, "week": period, "lbase": np.log(base / 4)}
    )


def test_what_is_known_of_a_patient_is_not_determined_by_columns_that_tell_patients_apart():
    rows = patients()
    columns = [described(series) for series in rows]
    proposal = propose(rows, columns, Calendar(), chosen(rows), flights=False)
    assert proposal.std_errors == "cluster(nr)" and "trt" in proposal.terms
    assert proposal.response.family.name in ("poisson", "negative_binomial")
    assert len({"base", "lbase"} & proposal.terms.keys()) == 1
