"""How a task and the arrays of its calls are written for a worker, and how a worker reads them again.

TensorFlow asks nobody who he is, so a request may come from a stranger. He can have a registered task run, and no other code of
Python; whatever else he sends is an error of that call, and the worker lives on.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfglm.distribute import tasks
from tfglm.distribute.tasks import Task
from tfglm.errors import UserError

WORD, TEXT_BYTES = 8, 64

KIND = re.compile(r"[<|]([fiu][1248]|b1|S[1-9]\d{0,6})")
"""The types of arrays that are sent: plain numbers and bytes, as numpy writes them."""

DIGEST = re.compile(r"[0-9a-f]{64}")

LONGEST_HEADER = 1 << 20
"""Bytes; one of a fit has some thousands."""

Kinds = tuple[tuple[str, tuple[int, ...]], ...]
"""Types and shapes of arrays."""


def _plain(array: Any) -> np.ndarray:
    """Return an array unchanged, and texts as bytes. Their number is a multiple of TEXT_BYTES, because a function is traced
    again for each new length."""
    array = np.asarray(array)
    if array.dtype.kind not in "OU":
        return array
    texts = [text.encode() for text in array.ravel().tolist()]
    width = -(-max(map(len, texts), default=1) // TEXT_BYTES) * TEXT_BYTES
    return np.array(texts, f"S{width}").reshape(array.shape)


def kinds(arrays: Sequence[Any]) -> Kinds:
    """Return the types and shapes of arrays, which `unpack` needs."""
    return tuple((array.dtype.str, array.shape) for array in map(_plain, arrays))


def size(of_kinds: Iterable[tuple[str, Sequence[int]]]) -> int:
    """Words that arrays of these kinds take."""
    return sum(-(-math.prod(shape) * np.dtype(kind).itemsize // WORD) for kind, shape in of_kinds)


def pack(arrays: Sequence[Any]) -> np.ndarray:
    """Arrays as one of 8-byte words. Each tensor that a call is given costs milliseconds of its own."""
    raw = (array.tobytes() for array in map(_plain, arrays))
    return np.frombuffer(b"".join(content + b"\0" * (-len(content) % WORD) for content in raw), np.int64)


def message(header: str, arrays: Sequence[Any] = ()) -> np.ndarray:
    """A header, its length in bytes before it, and arrays, as one of 8-byte words."""
    content = np.frombuffer(header.encode(), np.uint8)
    return np.concatenate([[len(content)], pack([content]), pack(arrays)])


def opened(words: np.ndarray) -> tuple[bytes, np.ndarray]:
    """The header of a `message`, and the words of its arrays. Raises UserError for a message that no chief writes."""
    length = int(words[0]) if words.ndim == 1 and len(words) else -1
    end = 1 + -(-length // WORD)
    if length < 0 or end > len(words):
        raise UserError(f"refused: a message of {words.size:,} words, with a header of {length:,} bytes")
    return words[1:end].tobytes()[:length], words[end:]


def unpack(of_kinds: Iterable[tuple[str, Sequence[int]]], words: np.ndarray) -> list[np.ndarray]:
    """What was packed."""
    arrays, first = [], 0
    for kind, shape in of_kinds:
        last = first + size([(kind, shape)])
        array = np.frombuffer(words[first:last], kind, math.prod(shape)).reshape(shape)
        if array.dtype.kind == "S":
            texts = [text.decode() for text in array.ravel().tolist()]
            array = np.array(texts, object).reshape(shape)
        arrays.append(array)
        first = last
    return arrays


def vector_of(state: Mapping[str, np.ndarray]) -> np.ndarray:
    """The arrays of a state as one vector, float64."""
    return np.concatenate([np.zeros(0), *(np.ravel(np.asarray(value, float)) for value in state.values())])


def header(task: Task, state: Mapping[str, tuple[int, ...]], calls: Sequence[Kinds]) -> str:
    """The task, the names and shapes of the state, and the types and shapes of the arrays of each call. It has the digest
    of the design instead of the design."""
    named = {"task": task.kind, "design": task.design.digest, "settings": task.settings}
    return json.dumps({**named, "state": list(state.items()), "calls": calls})


class CallHeader(NamedTuple):
    """What a header says."""

    kind: str
    design: str
    settings: str
    state: list[tuple[str, list[int]]]
    calls: list[list[tuple[str, list[int]]]]

    def named(self, state: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of the state by name, from their concatenation."""
        ends = np.cumsum([math.prod(shape) for _, shape in self.state], dtype=int)
        parts = np.split(state, ends[:-1]) if self.state else []
        return {name: part.reshape(shape) for (name, shape), part in zip(self.state, parts, strict=True)}


def checked(raw: bytes, numbers: int, words: int) -> CallHeader:
    """The request that a header makes, which `header` or a stranger has written, with so many `numbers` of the state and
    `words` of the calls. Raises UserError if no chief writes it, or if its task is not registered here, or if the numbers
    and words are not as many as it describes."""
    if len(raw) > LONGEST_HEADER:
        raise UserError(f"refused: a header of {len(raw):,} bytes, more than {LONGEST_HEADER:,}")
    try:
        content = json.loads(raw)
        request = CallHeader(*(content[key] for key in ("task", "design", "settings", "state", "calls")))
        shapes = [shape for _, shape in request.state] + [shape for call in request.calls for _, shape in call]
        plain = (
            isinstance(request.design, str)
            and DIGEST.fullmatch(request.design)
            and isinstance(request.settings, str)
            and all(isinstance(name, str) for name, _ in request.state)
            and all(isinstance(kind, str) and KIND.fullmatch(kind) for call in request.calls for kind, _ in call)
            and all(isinstance(shape, list) for shape in shapes)
            and all(type(length) is int and length >= 0 for shape in shapes for length in shape)
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"refused: a header that no chief writes: {type(error).__name__}: {error}") from error
    if not plain or not request.calls:
        raise UserError("refused: a header that no chief writes")
    tasks.check_kind(request.kind)
    held = sum(math.prod(shape) for _, shape in request.state), sum(map(size, request.calls))
    if held != (numbers, words):
        raise UserError(
            f"refused: the header announces {held[0]:,} numbers and {held[1]:,} words, and {numbers:,} and {words:,} follow"
        )
    return request
