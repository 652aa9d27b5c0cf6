"""Functions of arrays that a worker runs in Python: how the chief names one, and how a worker finds it.

What TensorFlow sends to a worker is a graph of three operations: read the state from the ps, run the function, return its
vector. A function is told by the name of its maker, one of those that the worker was started with, and by a text, which the
maker is given once in a process.

TensorFlow asks nobody who he is, so a request may come from a stranger. He can have a maker of the list run, and no other code of
Python; whatever else he sends is an error of that call, and the worker lives on.
"""

import functools
import json
import math
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Protocol

import numpy as np

from tfglm import command, runtime
from tfglm.errors import UserError

with runtime.quiet():
    import tensorflow as tf

TOKEN = "pyfunc_0"
"""By which TensorFlow knows the first Python function of a process."""

WORD, TEXT_BYTES = 8, 64

KIND = re.compile(r"[<|]([fiu][1248]|b1|S[1-9]\d{0,6})")
"""The types of arrays that are sent: plain numbers and bytes, as numpy writes them."""

LONGEST_HEADER = 1 << 20
"""Bytes; one of a fit has some thousands."""

_GRAPH = tf.Graph()
"""TensorFlow forgets a Python function with the graph that it is in."""


class Function(Protocol):
    """A function `(state, *call) -> float64 vector` without side effects, of arrays by name and of arrays. What a worker offers
    as `maker` makes the same of `text`."""

    maker: str
    text: str

    def __call__(self, state: Mapping[str, np.ndarray], *call: np.ndarray) -> np.ndarray: ...


Kinds = tuple[tuple[str, tuple[int, ...]], ...]
"""Types and shapes of arrays."""

Maker = Callable[[str], Callable[..., np.ndarray]]
"""Makes a `Function` of its text."""


def _plain(array: Any) -> np.ndarray:
    """An array as it is; texts as bytes, their number a multiple of TEXT_BYTES: a function is traced anew for another."""
    array = np.asarray(array)
    if array.dtype.kind not in "OU":
        return array
    texts = [text.encode() for text in array.ravel().tolist()]
    width = -(-max(map(len, texts), default=1) // TEXT_BYTES) * TEXT_BYTES
    return np.array(texts, f"S{width}").reshape(array.shape)


def kinds(arrays: Sequence[Any]) -> Kinds:
    """What `unpack` has to know of them."""
    return tuple((array.dtype.str, array.shape) for array in map(_plain, arrays))


def size(of_kinds: Iterable[tuple[str, Sequence[int]]]) -> int:
    """Words that arrays of these kinds take."""
    return sum(-(-math.prod(shape) * np.dtype(kind).itemsize // WORD) for kind, shape in of_kinds)


def pack(arrays: Sequence[Any]) -> np.ndarray:
    """Arrays as one of 8-byte words. Each tensor that a call is given costs milliseconds of its own."""
    raw = (array.tobytes() for array in map(_plain, arrays))
    return np.frombuffer(b"".join(one + b"\0" * (-len(one) % WORD) for one in raw), np.int64)


def unpack(of_kinds: Iterable[tuple[str, Sequence[int]]], words: np.ndarray) -> list[np.ndarray]:
    """What was packed."""
    made, first = [], 0
    for kind, shape in of_kinds:
        last = first + size([(kind, shape)])
        array = np.frombuffer(words[first:last], kind, math.prod(shape)).reshape(shape)
        if array.dtype.kind == "S":
            texts = [text.decode() for text in array.ravel().tolist()]
            array = np.array(texts, object).reshape(shape)
        made.append(array)
        first = last
    return made


def pairwise(vectors: Iterable[np.ndarray]) -> np.ndarray:
    """The sum of vectors: each with its neighbour, then each two with the next two, and so on. It may write to them.

    So a run of 2^k vectors that begins at a multiple of 2^k can be summed elsewhere first, and the sum is the same bit for bit.
    """

    def add(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.add(first, second, out=first if first.flags.writeable else None)

    waiting: list[tuple[int, np.ndarray]] = []
    for vector in vectors:
        total, number = vector, 1
        while waiting and waiting[-1][0] == number:
            total, number = add(waiting.pop()[1], total), 2 * number
        waiting.append((number, total))
    total = waiting.pop()[1]
    while waiting:
        total = add(waiting.pop()[1], total)
    return total


def run(
    function: Function,
    shapes: Mapping[str, tuple[int, ...]],
    of_kinds: Sequence[Kinds],
    state: tf.Tensor,
    words: tf.Tensor,
) -> tf.Tensor:
    """The operation that sums a function over some calls on a worker: `state` holds arrays of these shapes one after the other,
    `words` the calls."""
    header = json.dumps({"maker": function.maker, "state": list(shapes.items()), "calls": of_kinds})
    inputs = [tf.constant(header), tf.constant(function.text), state, words]
    (vector,) = tf.raw_ops.PyFunc(input=inputs, token=TOKEN, Tout=[tf.float64])
    return tf.ensure_shape(vector, [None])


def offer(makers: Mapping[str, Maker]) -> None:
    """Make this process run what it is sent by `run`: functions of these makers, by name, and no others."""
    made = functools.lru_cache(maxsize=64)(lambda maker, text: makers[maker](text))

    def called(header: bytes, text: bytes, state: np.ndarray, words: np.ndarray) -> np.ndarray:
        try:
            maker, of_state, of_calls = _checked(header, makers, len(state), len(words))
            ends = np.cumsum([math.prod(shape) for _, shape in of_state], dtype=int)
            parts = np.split(state, ends[:-1])
            named = {name: part.reshape(shape) for (name, shape), part in zip(of_state, parts, strict=True)}
            function, arrays = made(maker, text.decode()), iter(unpack(chain(*of_calls), words))
            return pairwise(function(named, *islice(arrays, len(call))) for call in of_calls)
        except UserError as error:
            raise ValueError(str(error)) from None
        except Exception as error:
            command.log(traceback.format_exc())
            raise ValueError(f"{type(error).__name__}: {error}; the worker's log says where") from None

    with _GRAPH.as_default():
        kinds_of_inputs = (tf.string, tf.string, tf.float64, tf.int64)
        inputs = [tf.compat.v1.placeholder(kind) for kind in kinds_of_inputs]
        token = tf.numpy_function(called, inputs, tf.float64).op.get_attr("token").decode()
    assert token == TOKEN


Shape = list[int]


def _checked(
    header: bytes, makers: Iterable[str], numbers: int, words: int
) -> tuple[str, list[tuple[str, Shape]], list[list[tuple[str, Shape]]]]:
    """The maker, names and shapes of the state, and types and shapes of the arrays of each call, as a header says them.

    Raises UserError if it says anything else, or not just what `numbers` of the state and `words` of the calls hold.
    """
    if len(header) > LONGEST_HEADER:
        raise UserError(f"refused: a header of {len(header):,} bytes, more than {LONGEST_HEADER:,}")
    try:
        said = json.loads(header)
        maker, state, calls = said["maker"], said["state"], said["calls"]
        shapes = [shape for _, shape in state] + [shape for call in calls for _, shape in call]
        plain = (
            all(isinstance(name, str) for name, _ in state)
            and all(isinstance(kind, str) and KIND.fullmatch(kind) for call in calls for kind, _ in call)
            and all(isinstance(shape, list) for shape in shapes)
            and all(type(length) is int and length >= 0 for shape in shapes for length in shape)
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"refused: a header that no chief writes: {type(error).__name__}: {error}") from error
    if not plain or not calls:
        raise UserError("refused: a header that no chief writes")
    if not isinstance(maker, str) or maker not in makers:
        raise UserError(f"refused: `{maker}` is no function of this worker; it runs: {', '.join(makers)}")
    held = sum(math.prod(shape) for _, shape in state), sum(map(size, calls))
    if held != (numbers, words):
        raise UserError(
            f"refused: a header for {held[0]:,} numbers and {held[1]:,} words, with {numbers:,} and {words:,} of them"
        )
    return maker, state, calls
