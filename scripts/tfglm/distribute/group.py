"""Messages among the processes of a MultiWorkerMirroredStrategy, by TensorFlow's collectives.

A collective completes when all its members call it, in the same order; so a receiver must be listening. The chief, number
0, broadcasts to all other processes. Each of them answers within a group of two, itself and the chief. If all processes
gathered the answers, results of 53 MB would be sent to processes that do not need them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfglm import tensorflow_setup
from tfglm.distribute import strategies, wire

with tensorflow_setup.quiet():
    import tensorflow as tf

ALL = 1_000_000
"""The key of the group of all processes, larger than the keys that TensorFlow gives to its own groups. The group of peer k
and the chief has this key plus k."""


class Message(NamedTuple):
    """A message from one process to another."""

    text: str
    words: np.ndarray  # int64


class ProcessGroup:
    """The processes at these `addresses`, from the view of the process at the position `index`.

    Create it once per process, before the process runs any TensorFlow operation. The constructor returns when all processes
    are present. The methods raise tf.errors.OpError if one process is lost.
    """

    def __init__(self, addresses: Sequence[str], index: int) -> None:
        tensorflow_setup.limit_threads()
        # Kept: a thread of it finds out who has gone.
        self._strategy = strategies.peer_strategy(addresses, index)
        self.size, self.index = len(addresses), index
        self._told: Counter[int] = Counter()

    def tell(self, message: Message) -> None:
        """Send a message from the chief to all others."""
        self._send(message, ALL, self.size)

    def hear(self) -> Message:
        """The next message of the chief; waits for it."""
        return self._receive(ALL, self.size)

    def answer(self, message: Message) -> None:
        """Send a message from this process to the chief; waits until the chief listens."""
        self._send(message, ALL + self.index, 2)

    def answer_of(self, index: int) -> Message:
        """Return the answer of that process to the chief; waits for it."""
        return self._receive(ALL + index, 2)

    def _send(self, message: Message, group: int, members: int) -> None:
        content = np.concatenate([wire.message(message.text), message.words])
        # Its length first, as who receives has to know the shape.
        for words in (np.array([len(content)]), content):
            tf.raw_ops.CollectiveBcastSendV2(
                input=tf.constant(words, tf.int64), group_size=members, group_key=group, instance_key=self._next(group)
            )

    def _receive(self, group: int, members: int) -> Message:
        def words(number: int) -> np.ndarray:
            tensor = tf.raw_ops.CollectiveBcastRecvV2(
                group_size=members, group_key=group, instance_key=self._next(group), shape=[number], T=tf.int64
            )
            return np.asarray(memoryview(tensor))

        (number,) = words(1)
        text, content = wire.opened(words(int(number)))
        return Message(text.decode(), content)

    def _next(self, group: int) -> int:
        """A number that no other collective of the group has had."""
        self._told[group] += 1
        return self._told[group]
