"""Sums over the columns of smooth terms by code: the same as number by number, in passes of all kinds."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import tfglm.engine.bases as bases_module
from pools import design_of, ingest_frame, merge
from tfglm.data.limits import IngestLimits
from tfglm.distribute.local import LocalExecutor
from tfglm.engine import leverage, passes
from tfglm.engine.workload import Workload

FORMULA = (
    "y ~ z + s(hour, k=6) + s(wide, k=5) + te(knots, miles, k=3) + te(far, feet, k=[4, 3]) + (1 | g) + C(day)"
    " + s(east, north, k=5) + place + s(minute, k=4, by=place) + s(second, k=3, by=place)"
    " + s(minute, k=4, by=rate) + s(rate, miles, k=5, by=toll) + te(wide, second, k=3, by=pace)"
)
SUMS = ("gradient", "information", "magnitudes", "squares", "jeffreys", "hc3", "curvature")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    random, number = np.random.default_rng(7), 3000
    frame = pd.DataFrame(
        {
            "hour": random.integers(0, 24, number),
            "miles": random.choice([100, 250, 300, 470, 1200], number),
            "knots": random.choice([0, 5, 12, 30], number),
            "feet": random.choice([10, 20, 40, 80], number),
            "far": random.normal(size=number).round(6),
            "wide": random.normal(size=number).round(6),
            "east": random.integers(0, 20, number).astype(float),
            "north": random.choice([1.5, 2.5, 4.0, 8.0], number),
            "z": random.normal(size=number).round(2),
            "g": random.integers(0, 70, number),
            "day": random.integers(0, 5, number),
            "minute": random.integers(0, 60, number) / 1.0,
            "second": random.integers(0, 12, number) / 1.0,
            "rate": random.normal(size=number).round(1),
            "toll": random.integers(0, 3, number),
            "pace": random.normal(size=number).round(6),
            "place": random.choice(["north", "south", "west"], number),
            "y": random.integers(0, 2, number),
        }
    )
    frame["hour"] = frame["hour"].astype(float)
    frame.loc[5, "hour"] = np.nan  # takes no part, and has no number
    frame["miles"] = frame["miles"].astype(float)
    frame.loc[6, ["z", "miles", "east"]] = np.nan, 1e300, 1e300  # takes no part, and has no mean
    # `wide` and `far` are stored without codes.
    return ingest_frame(frame, tmp_path_factory.mktemp("bases"), limits=IngestLimits(most_codes=2000))


def all_sums(design, file) -> dict[str, np.ndarray]:
    """The sums of passes of all kinds, at some coefficients."""
    random = np.random.default_rng(1)
    state = design.by_term(random.normal(size=design.size) / 10)
    eliminated = max((part.where for part in design.parts if part.grouping), key=lambda where: where.stop - where.start)
    width = eliminated.stop - eliminated.start
    places = (
        np.setdiff1d(np.arange(design.size), np.arange(design.size)[eliminated]),
        np.arange(design.size)[eliminated],
    )
    dense = random.normal(size=(design.size - width, design.size - width))
    blocks = dense @ dense.T / 1e5, random.normal(size=(design.size - width, width)) / 1e4, np.full((1, 1, width), 1e-4)
    state |= leverage.state_of(design.size, places, [eliminated], blocks)
    workload = Workload(design, [file], "train")
    return {(name, key): value for name in SUMS for key, value in workload.sum(LocalExecutor(), name, state).items()}


def of_numbers(design, file, monkeypatch) -> dict[str, np.ndarray]:
    monkeypatch.setattr(passes, "bases_of", lambda *_: [])
    passes._passes_of.cache_clear()
    sums = all_sums(design, file)
    monkeypatch.undo()
    passes._passes_of.cache_clear()
    return sums


def test_sums_by_code_are_those_of_the_numbers(rows, monkeypatch):
    design = design_of(FORMULA, "binomial", merge([rows]), [rows])
    expected = of_numbers(design, rows, monkeypatch)
    for most_pairs, most_joint in ((8, 2**12), (0, 0)):
        monkeypatch.setattr(bases_module, "MOST_PAIRS", most_pairs)
        monkeypatch.setattr(bases_module, "MOST_JOINT", most_joint)
        passes._passes_of.cache_clear()
        found = all_sums(design, rows)
        passes._passes_of.cache_clear()
        assert found.keys() == expected.keys() and len(found) > 1000
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-11, atol=1e-9, err_msg=str(name))
        for (name, key), value in found.items():
            if name in ("gradient", "information", "jeffreys"):
                of_both = found["curvature", ("slope", key[1]) if name == "jeffreys" else key]
                assert of_both.tobytes() == value.tobytes(), (name, key)


def test_a_portion_of_the_sums_has_the_same_bits(rows):
    design = design_of(FORMULA, "binomial", merge([rows]), [rows])
    workload = Workload(design, [rows], "train")
    (signature, calls), *_ = workload.calls.items()
    state = design.by_term(np.linspace(-0.1, 0.1, design.size))
    whole = workload.passes(signature).named("information")
    sums, count = whole(state, *calls[0]), len(whole.sums)
    cuts = [0, 1, count // 3, count // 2, count]
    portions = [whole.portion(first, last)(state, *calls[0]) for first, last in pairwise(cuts)]
    assert np.concatenate(portions).tobytes() == sums.tobytes()
