"""`auto_shard: file`: what each process of a network's training reads, without starting processes."""

import numpy as np
import pytest
from test_models import flights

from pools import design_of, ingest_frame
from tfglm.config import TrainingConfig
from tfglm.data.dictionary import merge
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.networks.counts import TrainingCounts, count
from tfglm.networks.cutting import OwnBatches, batches_of_readers, rows_at_once
from tfglm.networks.pipeline import Batch, Batches
from tfglm.networks.rows import WEIGHT, Units
from trainings import training_of

ROWS_OF_FILES = [700, 250, 1100, 90, 400, 620, 30]
WORKERS, BATCH = 3, 90


@pytest.fixture(scope="module")
def units(tmp_path_factory) -> Units:
    """Seven, of uneven numbers of rows, some of which take no part."""
    folder, files = tmp_path_factory.mktemp("shards"), []
    for number, rows in enumerate(ROWS_OF_FILES):
        frame = flights(rows, seed=number)
        frame.loc[::50, "carrier"] = None
        files.append(ingest_frame(frame, folder, f"table{number}"))
    design = design_of("late ~ carrier + hour + distance", "binomial", merge(files), files, weights="weight")
    return Units(Workload(design, files, "train"))


def settings(**keys) -> TrainingConfig:
    of_all = {"strategy": "multi_worker_mirrored", "workers": WORKERS, "batch_size": BATCH, "auto_shard": "file"}
    return TrainingConfig.model_validate(of_all | keys)


def owned(units: Units) -> list[range]:
    return [range(process, len(units), WORKERS) for process in range(WORKERS)]


def epochs(units: Units, first: int, end: int, **keys) -> list[list[Batch]]:
    """The batches of each process."""
    lines = [len(units.train(number).numbers) for number in range(len(units))]
    filled = batches_of_readers(lines, WORKERS, BATCH // WORKERS)
    return [
        list(Batches(units, settings(**keys), own, max(filled) - of_own).epochs(first, end))
        for own, of_own in zip(owned(units), filled, strict=True)
    ]


def rows_of(batches: list[Batch]) -> np.ndarray:
    """Those that have a weight, sorted."""
    numbers = np.concatenate([batch.numbers for batch in batches])
    numbers = numbers[numbers[:, WEIGHT] > 0]
    return numbers[np.lexsort(numbers.T)]


@pytest.mark.slow
@pytest.mark.parametrize("keys", [{}, {"cache": True}, {"shuffle": False}, {"prefetch": 1}])
def test_each_row_is_in_an_epoch_once_and_all_processes_take_as_many_steps(units, keys):
    of_processes = epochs(units, 0, 1, **keys)
    filled = [-(-len(rows_of(batches)) // (BATCH // WORKERS)) for batches in of_processes]
    assert len(set(filled)) > 1
    assert [len(batches) for batches in of_processes] == WORKERS * [max(filled)]
    for batches, own in zip(of_processes, owned(units), strict=True):
        rows = np.concatenate([units.train(number).numbers for number in own])
        np.testing.assert_array_equal(rows_of(batches), rows[np.lexsort(rows.T)])
        assert {batch.share.shape[0] for batch in batches} == {BATCH // WORKERS}


@pytest.mark.slow
def test_a_process_reads_its_own_units_alone(units, monkeypatch):
    read, train = [], units.train
    monkeypatch.setattr(units, "train", lambda number: read.append(number) or train(number))
    for cache, times in ((True, 1), (False, 2)):
        for own in owned(units):
            read.clear()
            list(Batches(units, settings(cache=cache), own).epochs(0, 2))
            assert sorted(read) == sorted(times * list(own))


@pytest.mark.parametrize("buffer", [None, 2 * BATCH])
def test_a_worker_on_servers_makes_the_batches_of_a_peer(units, buffer):
    keys = {"shuffle": False, "shuffle_buffer": buffer}
    lines = [len(units.train(number).numbers) for number in range(len(units))]
    size = BATCH // WORKERS
    at_once = rows_at_once(size, units.widths[1], buffer)
    own = [OwnBatches(units, lines, WORKERS, size, at_once, seed, cache=False) for seed in (None, 1, 1)]
    for reader, of_peer in enumerate(epochs(units, 0, 1, **keys)):
        for number, batch in enumerate(of_peer):
            groups, numbers = own[0].batch(reader, 0, number)
            np.testing.assert_array_equal(groups, batch.groups)
            np.testing.assert_array_equal(numbers, batch.numbers)
        places = range(len(of_peer))
        mixed = [own[1].batch(reader, 3, number)[1] for number in places]
        # Of any process, in any order.
        again = [own[2].batch(reader, 3, number)[1] for number in reversed(places)][::-1]
        np.testing.assert_array_equal(mixed, again)
        assert not np.array_equal(mixed, [own[1].batch(reader, 4, number)[1] for number in places])
        in_order = np.concatenate([batch.numbers for batch in of_peer])
        used = [rows[rows[:, WEIGHT] > 0] for rows in (np.concatenate(mixed), in_order)]
        np.testing.assert_array_equal(*(rows[np.lexsort(rows.T)] for rows in used))


@pytest.mark.slow
def test_the_weights_of_a_step_are_those_of_its_rows_in_all_processes(units):
    for parts in zip(*epochs(units, 0, 1), strict=True):
        weights = [part.numbers[:, WEIGHT].numpy().astype(float) for part in parts]
        assert sum(map(np.sum, weights)) > 0
        for part, weight in zip(parts, weights, strict=True):
            assert np.isfinite(part.share).all() and ((part.share.numpy() > 0) == (weight > 0)).all()
            np.testing.assert_allclose(part.share * weight.sum(), weight, rtol=1e-5)


@pytest.mark.slow
def test_an_epoch_follows_from_the_seed_and_a_later_one_from_its_number(units):
    def numbers(first: int, end: int, **keys) -> np.ndarray:
        return np.array([[batch.numbers for batch in of_process] for of_process in epochs(units, first, end, **keys)])

    both = numbers(0, 2)
    half = both.shape[1] // 2
    np.testing.assert_array_equal(both, numbers(0, 2))
    np.testing.assert_array_equal(both[:, half:], numbers(1, 2))
    assert not np.array_equal(both[:, :half], both[:, half:])
    assert not np.array_equal(both, numbers(0, 2, seed=2))


def test_counts_of_all_processes_are_those_of_one(units):
    def counted(own: range, others: list[list[np.ndarray]]) -> TrainingCounts:
        """By a process whose sums are put behind those of `others`, and added to them."""
        mine: list[np.ndarray] = []
        others.append(mine)

        def of_all(sums: np.ndarray) -> np.ndarray:
            mine.append(sums)
            return sum(of_process[len(mine) - 1] for of_process in others)

        return count(units, FAMILIES["binomial"], own, of_all)

    together: list[list[np.ndarray]] = []
    *_, divided = [counted(own, together) for own in owned(units)]
    whole = counted(range(len(units)), [])
    assert divided.lines_of_units == whole.lines_of_units and divided.rows == whole.rows
    assert divided.weight_sum == pytest.approx(whole.weight_sum)
    assert divided.scale.start == pytest.approx(whole.scale.start)


def test_more_processes_than_units_are_refused(units, tmp_path):
    with pytest.raises(
        UserError, match=r"networks\.m\.auto_shard: `file` gives each of 9 workers .* have only 7 units; use `auto"
    ):
        training_of([units, units], settings(workers=9), tmp_path)
