"""How workers share a pass: the sum is the same for any division, all of them have work, and the chief receives one vector."""

import itertools
import operator

import numpy as np
import pandas as pd
import pytest

from pools import design_of, ingest_frame
from tfglm.data.dictionary import merge
from tfglm.distribute import parameter_server, tasks
from tfglm.engine import division
from tfglm.engine.cutting import Cutting
from tfglm.engine.workload import Workload

FORMULA = "late ~ carrier + hour + real + carrier:real + dest + plane"

CALLS = 5


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """Rows in CALLS calls of each pass, with pairs of levels enough for a long vector."""
    random = np.random.default_rng(5)
    rows = 40_000
    levels = {"carrier": 9, "hour": 24, "dest": 300, "plane": 1200}
    frame = pd.DataFrame(
        {name: [f"{name}{level:04d}" for level in random.integers(0, number, rows)] for name, number in levels.items()}
    )
    frame = frame.assign(
        late=random.integers(0, 2, rows), real=random.normal(size=rows), day=random.integers(1, 31, rows)
    )
    file = ingest_frame(frame, tmp_path_factory.mktemp("division"))
    design = design_of(FORMULA, "binomial", merge([file]), [file], std_errors="cluster(day)")
    cutting = Cutting(rows_per_sum=1e-9, rows_per_call=rows // CALLS, few_calls=CALLS, fewest_rows=1, evenly_spread=0)
    return Workload(design, [file], "train", cutting=cutting)


@pytest.mark.parametrize("name", ["counts", "gradient", "information", "squares", "magnitudes", "scores"])
def test_a_pass_is_the_same_bit_for_bit_however_it_is_divided(workload: Workload, name: str) -> None:
    ((signature, calls),) = workload.calls.items()
    whole, design = workload.passes(signature).named(name), workload.design
    state = design.by_term(np.random.default_rng(2).normal(0.0, 0.1, design.size))
    sizes = np.array([size for _, size in whole.sums])
    expected = tasks.run(whole.task, calls, state)
    for together in (1, 4):
        for portions in (2, 3, 1000):
            bounds = division.bounds_of(sizes, 1000.0, portions)
            assert all(first < last for first, last in itertools.pairwise(bounds))
            divided = tasks.Division(together, tuple(whole.portion(*each).task for each in itertools.pairwise(bounds)))
            vectors = (tasks.run(task, of_piece, state) for task, of_piece in divided.pieces(calls))
            np.testing.assert_array_equal(divided.added(vectors), expected, strict=True)


LEVELS = [22, 12, 31, 7, 29, 350, 350, 8000]
WIDE = np.array([*LEVELS, *np.repeat(LEVELS, 3), *itertools.starmap(operator.mul, itertools.combinations(LEVELS, 2))])
"""The sums of an information pass of 8 terms with 8,800 levels."""


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 16, 32])
def test_of_a_wide_model_all_workers_have_work_and_the_chief_receives_one_vector(workers: int) -> None:
    """10 million rows in four calls: as many as there were workers with work before."""
    together, bounds, slots = division.quickest(WIDE, 4, 2.5e6, workers, parameter_server.MOST_TOGETHER)
    assert together == 4 and not slots
    assert len(bounds) - 1 == workers


def test_who_sums_the_two_longest_has_others_too() -> None:
    """1 million rows in one call: left with all others, the second of two workers would have twice as much to do."""
    longest = np.flatnonzero(WIDE.max() == WIDE)
    assert division.quickest(WIDE, 1, 1e6, 2, parameter_server.MOST_TOGETHER).bounds[1] < longest[0]


@pytest.mark.parametrize("workers", [8, 32])
def test_of_a_wide_model_of_very_many_rows_the_chief_receives_a_vector_for_eight_calls(workers: int) -> None:
    """120 million rows in 46 calls: what the chief receives would take longer than the rows."""
    sharing = division.quickest(WIDE, 46, 2.6e6, workers, parameter_server.MOST_TOGETHER)
    assert sharing.together == 8 and not sharing.slots


@pytest.mark.parametrize("ps", [1, 3])
@pytest.mark.parametrize("workers", [1, 2, 3, 8, 32])
@pytest.mark.parametrize(("calls", "rows"), [(4, 2.5e6), (46, 2.6e6)])
def test_with_ps_to_add_the_chief_receives_one_vector(calls: int, rows: float, workers: int, ps: int) -> None:
    together, bounds, slots = division.quickest(WIDE, calls, rows, workers, parameter_server.MOST_TOGETHER, ps)
    runs = -(-calls // together)
    assert slots or runs == 1

    assert slots or calls == 4
    assert runs * WIDE.sum() <= ps * division.MOST_HELD
    assert min(workers, 32 // 2) <= runs * (len(bounds) - 1) or calls == 46


def test_two_workers_of_one_machine_have_no_slots() -> None:
    """10 million rows; and few numbers."""
    for sizes in (WIDE, WIDE[: len(LEVELS)]):
        assert not division.quickest(sizes, 4, 2.5e6, 2, parameter_server.MOST_TOGETHER, 1).slots


def test_what_the_ps_hold_is_bounded() -> None:
    """450 calls, 1.2 billion rows, in 29 runs or more: too many for one ps, and not for eight."""
    slots = [division.quickest(WIDE, 450, 2.7e6, 64, parameter_server.MOST_TOGETHER, ps).slots for ps in (1, 8)]
    assert slots == [False, True]


def test_few_numbers_are_divided_by_rows_alone(workload: Workload) -> None:
    ((signature, calls),) = workload.calls.items()
    divided = tasks.divide(workload.passes(signature).named("gradient").task, calls, 2, 4)
    assert len(divided.portions) == 1


@pytest.mark.parametrize(
    ("sizes", "bounds"),
    [([1e7, 1, 1], (0, 1, 3)), ([1, 1, 1e7], (0, 2, 3)), ([1e6, 1, 1.2e6], (0, 2, 3)), ([1.2e6, 1, 1e6], (0, 1, 3))],
)
def test_a_long_sum_is_on_the_side_where_it_is_closer_to_an_equal_share(sizes: list[float], bounds: tuple) -> None:
    assert division.bounds_of(np.array(sizes), 1000.0, 2) == bounds
