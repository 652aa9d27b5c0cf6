"""The model of cost of `make bench-links` (benchmarks/cost.py)."""

import sys
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # last, where no name in it hides a package

import cost
from cost import Cluster, Constants, Measurement, Work

KNOWN = Constants(
    row=1e-8, sum=5e-11, outside=6e-9, sent=3e-9, worker_piece=4e-3, received=6e-9, piece=2e-3, chief_pass=1e-3,
    added=8e-9, ps_piece=1e-3, ps_pass=5e-4, row_bytes=0.02, piece_bytes=1e4, latency=2e-3, turn=1e-3, asked=2e-2, first=1e-2,
)  # fmt: skip
WIDE = Work((10, 22 * 8000, 8000 * 350, 8000 * 350), 8800, 10_000_000, 4)
NARROW = Work((10, 22, 12 * 31), 100, 10_000_000, 8)


def measured(work: Work, cluster: Cluster, first: bool) -> Measurement:
    """What a pass takes if the model is right."""
    plan = cost.plan_of(work, cluster.workers, cluster.ps)

    def known(terms: list[float], *constants: float) -> float:
        return float(np.dot(terms, constants))

    return Measurement(
        work,
        cluster,
        first,
        cost.seconds(work, cluster, KNOWN, first),
        cost.worker_seconds(work, plan, KNOWN),
        known(cost.chief_terms(work, plan), KNOWN.received, KNOWN.piece, KNOWN.chief_pass),
        known(cost.ps_terms(work, plan), KNOWN.added, KNOWN.ps_piece, KNOWN.ps_pass),
        known(cost.sent_terms(work, plan), KNOWN.row_bytes, KNOWN.piece_bytes),
    )


def test_the_constants_are_found_again_in_what_the_model_says():
    works = [
        replace(work, rows=rows, calls=calls)
        for work in (WIDE, NARROW)
        for rows, calls in ((10**5, 1), (10**6, 4), (10**8, 96))
    ]
    clusters = [Cluster(*each, cores=2) for each in product((1, 2, 4, 16), (1, 2), (None, 1.0))]
    found = cost.fitted([measured(*each) for each in product(works, clusters, (False, True))])
    assert any(cost.plan_of(work, each.workers, each.ps).on_ps for work in works for each in clusters)
    for name, value in asdict(KNOWN).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-6), name


def test_a_slower_link_costs_what_the_vector_takes_to_pass():
    one, tenth = (cost.seconds(WIDE, Cluster(1, 1, gigabits), KNOWN) for gigabits in (1, 10))
    vector = 8 * sum(WIDE.sizes)
    assert one - tenth == pytest.approx(0.9 * vector / (1e9 / 8 * cost.EFFICIENCY), rel=0.2)


def test_processors_of_their_own_make_more_workers_faster_and_shared_ones_do_not():
    large = replace(NARROW, rows=1_000_000_000, calls=1000)
    shared, own = (
        [cost.seconds(large, Cluster(workers, 1, None, cores), KNOWN) for workers in (2, 32)] for cores in (2, None)
    )
    assert own[1] < 0.15 * own[0]
    assert shared[1] > 0.9 * shared[0]


def test_stages_overlap_only_where_there_are_several_turns():
    stages = {"send": 1.0, "compute": 8.0, "transfer": 4.0, "add": 0.0, "fetch": 0.0, "receive": 2.0}
    plan = cost.Plan(together=1, bounds=(0, 1), runs=4, turns=1)
    assert cost.overlapped(stages, plan) == 15
    # Of four turns of 2, 1 and 0.5 s all but the last pass under those of the slowest stage.
    assert cost.overlapped(stages, replace(plan, turns=4)) == 1 + 8 + 1 + 0.5
    # A worker that writes into slots does nothing else meanwhile, and the ps add when all is there.
    assert cost.overlapped(stages, replace(plan, turns=4, on_ps=True)) == 15
