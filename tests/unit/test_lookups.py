"""Rows by number: the compiled loops and NumPy give the same."""

import numpy as np
import pytest

from tfglm.data import lookups, row_loops

RANDOM = np.random.default_rng(3)
ROWS = RANDOM.permutation(100_003).astype(np.uint32)


@pytest.fixture(params=["numpy", "compiled"])
def either(request, monkeypatch):
    monkeypatch.setattr(lookups, "_loops", row_loops if request.param == "compiled" else None)


@pytest.mark.parametrize("table_type", [bool, np.uint8, np.uint16, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("type_of_numbers", [np.uint8, np.uint16, np.uint32])
def test_rows_have_what_stands_at_their_number(either, table_type, type_of_numbers):
    numbers = RANDOM.integers(0, 200, len(ROWS)).astype(type_of_numbers)
    table = RANDOM.integers(0, 120, 200).astype(table_type)
    for rows in (None, ROWS[:1000], ROWS[:0]):
        found = lookups.looked_up(table, numbers, rows)
        expected = table[numbers if rows is None else numbers[rows]]
        assert found.dtype == expected.dtype and (found == expected).all()


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.float32, np.float64, np.dtype((np.void, 6))])
def test_rows_are_put_in_another_order(either, kind):
    values = np.frombuffer(RANDOM.bytes(len(ROWS) * np.dtype(kind).itemsize), kind)
    assert lookups.looked_up(values, ROWS).tobytes() == values[ROWS].tobytes()


@pytest.mark.parametrize("most", [1, 2**8, 2**16])
@pytest.mark.parametrize("rows", [0, 1, 5, 100_003])
def test_codes_are_counted_and_keys_sorted(either, most, rows):
    codes = RANDOM.integers(0, most, rows).astype(np.min_scalar_type(most - 1))
    assert lookups.counted(codes).tolist() == np.bincount(codes).tolist()
    keys = codes.astype(np.uint16)
    order = lookups.ascending(keys)
    assert order.dtype == np.uint32 and (order == keys.argsort(kind="stable")).all()


@pytest.mark.parametrize("sizes", [(3, 5), (2, 3, 4), (2**16, 1), (1, 2**16), (256, 256)])
def test_combinations_are_numbered_as_in_an_array(either, sizes):
    numbers = [RANDOM.integers(0, size, 1000).astype(np.uint16) for size in sizes]
    joint, occur = lookups.joined(numbers, sizes)
    expected = np.ravel_multi_index(numbers, sizes)
    assert (joint == expected).all() and (occur == np.unique(expected)).all()
