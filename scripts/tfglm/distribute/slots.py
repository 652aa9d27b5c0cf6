"""Sums that the ps add up: workers write their vectors into slots there, and the chief fetches one vector, the sum.

A slot holds the sums of one worker, cut into slices over all ps. The last number of a slice is a *stamp* that identifies
one piece of one sum. It is written together with the slice, and read together with it. This matters because a worker that
the chief has given up may still write later, into a slot that is in use again. The chief adds only slices with the stamps
that it requested. A piece may be written twice, if its worker was lost after writing it; this changes nothing, because the
numbers are the same.
"""

import itertools
import secrets
from collections.abc import Callable, Sequence

import numpy as np

from tfglm import tensorflow_setup
from tfglm.distribute.reduction import pairwise
from tfglm.distribute.servers import Servers

with tensorflow_setup.quiet():
    import tensorflow as tf

CHIEF = "/job:chief/replica:0/task:0/device:CPU:0"

ALIGNED = 8
"""Numbers, 64 bytes: TensorFlow copies no slice of a vector that begins and ends at a multiple of these."""

SHORTEST = 2**16
"""Smallest length of a slice, unless the vector is shorter: sending fewer numbers takes less time than a message of its
own."""

LONGEST = 2**20
"""Largest length of a slice, 8 MB. With slices as long as vectors, the memory of a ps was four times its content: received
data that were not yet tensors, and gaps too small for other data."""


def sizes_of_slices(numbers: int, ps: int) -> tuple[int, ...]:
    """How long the slices of a vector are, as many for each ps; or fewer than there are ps, if the vector is short."""
    slices = max(1, min(ps, numbers // SHORTEST))
    slices *= -(-numbers // (slices * LONGEST))
    bounds = [numbers // ALIGNED * k // slices * ALIGNED for k in range(slices)]
    return tuple(last - first for first, last in itertools.pairwise([*bounds, numbers]))


def write(slices: Sequence[tf.Tensor], vector: tf.Tensor, sizes: Sequence[int], stamp: tf.Tensor) -> None:
    """Put a vector [numbers] into a slot with its stamp, float64 [1]; what a worker does."""
    bounds = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    for handle, (first, last) in zip(slices, bounds, strict=True):
        tf.raw_ops.AssignVariableOp(resource=handle, value=tf.concat([vector[first:last], stamp], 0))


class Slots:
    """The slots of one chief on all ps. They are empty between two sums, so passes of all sizes use the same."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._devices = [f"/job:ps/replica:0/task:{index}/device:CPU:0" for index in sorted(servers.ps)]
        # No other chief has slots of this name: its workers might still write.
        self._name = f"slot_{secrets.token_hex(8)}"
        self._handles: dict[tuple[int, int, str], tf.Tensor] = {}
        self._stamps = itertools.count(1)
        self._adding: dict[tuple, Callable[[], tuple[list[tf.Tensor], list[tf.Tensor]]]] = {}

    def stamps(self, number: int) -> list[int]:
        """So many that no slice has had before."""
        return list(itertools.islice(self._stamps, number))

    def sizes(self, numbers: int) -> tuple[int, ...]:
        """See `sizes_of_slices`."""
        return sizes_of_slices(numbers, len(self._devices))

    def slices(self, portion: int, slot: int, sizes: Sequence[int]) -> list[tf.Tensor]:
        """Return the inputs of `write` for a portion and a slot: a resource for each slice."""
        with self._servers.waiting():
            return [self._handle(slot, *place) for place in self._places(portion, sizes)]

    def _places(self, portion: int, sizes: Sequence[int]) -> list[tuple[int, str]]:
        """The number of each slice, and the device where it is."""
        return [(k, self._devices[(portion * len(sizes) + k) % len(self._devices)]) for k in range(len(sizes))]

    def _handle(self, slot: int, number: int, device: str) -> tf.Tensor:
        key = slot, number, device
        if key not in self._handles:
            with tf.device(device):
                self._handles[key] = tf.raw_ops.VarHandleOp(
                    dtype=tf.float64, shape=tf.TensorShape(None), shared_name=f"{self._name}_{slot}_{number}"
                )
        return self._handles[key]

    def added(self, lengths: Sequence[int], stamps: Sequence[int]) -> np.ndarray | None:
        """Return the sum of the vectors of all pieces, added pairwise over the runs of calls (`reduction.pairwise`), the
        portions one after the other, and empty their slots. None if a slot does not hold the data of its piece.

        `lengths` are those of the vector of each portion. `stamps` are those of the pieces: of all portions of the first run
        of calls, then of the next run, and so on. The first piece has slot 0.
        """
        key = tuple(lengths), len(stamps)
        if key not in self._adding:
            self._adding[key] = self._function(lengths, len(stamps))
        with self._servers.waiting():
            try:
                sums, found = self._adding[key]()
            except tf.errors.InvalidArgumentError:
                # Slices of another length, of another pass, cannot be added.
                return None
            total, last = np.empty(sum(lengths)), 0
            for each in sums:
                first, last = last, last + each.shape[0] - 1
                total[first:last] = np.asarray(memoryview(each))[:-1]
            expected = np.array(stamps, float).reshape(-1, len(lengths)).T
            portions = (portion for portion, length in enumerate(lengths) for _ in self.sizes(length))
            agree = [
                np.array_equal(each.numpy(), expected[portion]) for portion, each in zip(portions, found, strict=True)
            ]
        return total if all(agree) else None

    def _function(self, lengths: Sequence[int], pieces: int) -> Callable[[], tuple[list[tf.Tensor], list[tf.Tensor]]]:
        """Add all slices on the ps that hold them. Returns each sum, and the stamps of the added slices."""

        @tf.function(autograph=False)
        def added() -> tuple[list[tf.Tensor], list[tf.Tensor]]:
            sums, found = [], []
            for portion, length in enumerate(lengths):
                slots = range(portion, pieces, len(lengths))
                for number, device in self._places(portion, self.sizes(length)):
                    with tf.device(device):
                        total, stamps = _add_and_empty([self._handle(slot, number, device) for slot in slots])
                    # To the chief's memory: else the slices would be fetched one after the other.
                    with tf.device(CHIEF):
                        sums.append(tf.identity(total))
                        found.append(tf.identity(stamps))
            return sums, found

        return added


@tf.function(autograph=False)
def _add_and_empty(handles: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """The sum of slices of one ps, and the stamp of each."""

    # Each slice is read once, so its stamp belongs to the numbers that are added.
    values = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float64) for handle in handles]
    stamps = tf.stack([value[-1] for value in values])
    before = [stamps]

    def add(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        # One after the other, so that few sums wait for others.
        with tf.control_dependencies(before[-1:]):
            before.append(tf.raw_ops.AddV2(x=first, y=second))
        return before[-1]

    total = pairwise(values, add)
    with tf.control_dependencies([total, stamps]):
        for handle in handles:
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.zeros(0, tf.float64))
    return total, stamps
