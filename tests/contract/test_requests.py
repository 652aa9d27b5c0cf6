"""What is sent to a worker, how calls are given out, and how their results are added."""

import json
import math
import re

import numpy as np
import pytest

import executors  # registers the tasks of the tests
from tfglm.distribute import parameter_server, wire
from tfglm.distribute.reduction import calls_together, pairwise
from tfglm.errors import UserError


def test_a_sum_is_the_same_bit_for_bit_however_its_calls_are_given_out() -> None:
    random = np.random.default_rng(3)
    for number in range(1, 40):
        vectors = random.normal(size=(number, 5)) * 10.0 ** random.integers(-8, 8, (number, 1))
        whole = pairwise(vectors.copy())
        np.testing.assert_allclose(whole, [math.fsum(column) for column in vectors.T], rtol=1e-9)
        for together in (1, 2, 4, 8, 16):
            tasks = (vectors[first : first + together].copy() for first in range(0, number, together))
            np.testing.assert_array_equal(pairwise(map(pairwise, tasks)), whole)


def test_calls_go_to_workers_together_if_none_has_more_of_them_for_that() -> None:
    assert [calls_together(calls, workers, 4) for calls, workers in ((8, 2), (4, 2), (4, 16), (10, 4), (120, 4))] == [
        4,
        2,
        1,
        1,
        2,
    ]


def test_workers_take_turns_of_the_same_length():
    def lengths(kinds, workers):
        turns = parameter_server.turns_of(kinds, workers)
        assert [place for turn in turns for place in range(turn.start, turn.stop)] == list(range(len(kinds)))
        assert all(len(set(kinds[turn])) == 1 for turn in turns)
        return [turn.stop - turn.start for turn in turns]

    assert lengths("a" * 10, 2) == [5, 5]
    assert lengths("a" * 3, 8) == [1, 1, 1]
    assert lengths("a" * 40, 4) == [5] * 8
    assert lengths("aabbba", 1) == [2, 3, 1]
    assert lengths("", 2) == []


HEADER = {
    "task": "waves",
    "design": executors.ONE_WAVE.digest,
    "settings": "{}",
    "state": [["w", [2, 3]]],
    "calls": [[["<f8", [4]], ["|S64", []]], [["<i4", [3]]]],
}


@pytest.mark.parametrize(
    ("header", "words", "message"),
    [
        (HEADER, 14, ""),
        (HEADER, 15, "the header announces 6 numbers and 14 words, and 6 and 15 follow"),
        (HEADER | {"task": "os:system"}, 14, "`os:system` is no task that this process runs; it runs: "),
        (HEADER | {"task": ["waves"]}, 14, "is no task that this process runs"),
        (HEADER | {"design": "../designs"}, 14, "a header that no chief writes"),
        (HEADER | {"settings": {}}, 14, "a header that no chief writes"),
        (HEADER | {"state": [["w", [7]]]}, 14, "the header announces 7 numbers"),
        (HEADER | {"state": [["w", [-2, -3]]]}, 14, "a header that no chief writes"),
        (HEADER | {"state": [["w", 6]]}, 14, "a header that no chief writes"),
        (HEADER | {"state": {"wx": [6]}}, 14, "a header that no chief writes"),
        (HEADER | {"calls": [[["|O", [14]]]]}, 14, "a header that no chief writes"),
        (HEADER | {"calls": [[["<f8", [14.0]]]]}, 14, "a header that no chief writes"),
        (HEADER | {"calls": [[["<f8,<f8", [7]]]]}, 14, "a header that no chief writes"),
        (HEADER | {"calls": [[["<f8", [10**30]]]]}, 14, "words, and 6 and 14 follow"),
        (HEADER | {"calls": []}, 0, "a header that no chief writes"),
        ([], 14, "a header that no chief writes"),
        ("[" * 100_000, 14, "a header that no chief writes: RecursionError"),
        ("x" * (1 << 21), 14, "a header of 2,097,152 bytes, more than 1,048,576"),
    ],
)
def test_a_request_of_a_stranger_is_refused_in_words(header: object, words: int, message: str) -> None:
    raw = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    if not message:
        assert wire.checked(raw, 6, words).kind == "waves"
        return
    with pytest.raises(UserError, match=f"^refused: .*{re.escape(message)}"):
        wire.checked(raw, 6, words)


def test_a_message_is_a_header_and_arrays_and_one_of_a_stranger_is_refused() -> None:
    for text in ("", "12345678", json.dumps(HEADER)):
        header, words = wire.opened(wire.message(text, [np.arange(3.0), np.array(["x"])]))
        assert header == text.encode()
        first, second = wire.unpack([("<f8", (3,)), ("|S64", (1,))], words)
        assert first.tolist() == [0.0, 1.0, 2.0] and second.tolist() == ["x"]
    for words in ([], [-1], [9, 0], [1 << 62, 0], [[8, 0], [8, 0]]):
        with pytest.raises(UserError, match=r"^refused: a message of .* words, with a header of"):
            wire.opened(np.array(words, np.int64))
