"""Keys that are numbered in the order of their arrival, in a table of open addressing: `slots` int32 [a power of two] has the
numbers, -1 where there is none, and `keys` int64 the key of each number."""

import numpy as np

from tfglm.loops import compiled

MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4)."""

MOST_FULL = 0.75


@compiled
def number_of(key, slots, keys, count):
    """The number of a key in a table of open addressing, and how many keys there are then. `slots` int32 [a power of two] has
    numbers, -1 where there is none; `keys` int64 has the key of each number."""
    mask = np.uint64(len(slots) - 1)
    mixed = np.uint64(key) * MIX
    place = (mixed ^ (mixed >> np.uint64(32))) & mask
    while True:
        number = slots[place]
        if number < 0:
            slots[place] = count
            keys[count] = key
            return count, count + 1
        if keys[number] == key:
            return number, count
        place = (place + np.uint64(1)) & mask


@compiled
def number_rows(first, second, size, kept, slots, keys, count, numbers):
    """Set `numbers` int32 [rows] to the numbers of the pairs of groups `first * size + second`, and to -1 where `kept` is
    not positive. Return the number of pairs."""
    for i in range(len(numbers)):
        numbers[i] = -1
        if kept[i] > 0:
            numbers[i], count = number_of(np.int64(first[i]) * size + np.int64(second[i]), slots, keys, count)
    return count


@compiled
def number_all(wanted, slots, keys, count, numbers):
    """Set `numbers` int32 to the numbers of the `wanted` keys, and return the number of keys."""
    for i in range(len(wanted)):
        numbers[i], count = number_of(wanted[i], slots, keys, count)
    return count


@compiled
def insert_all(keys, slots):
    """Put keys that are all different, with the numbers 0, 1, ..., into empty `slots`."""
    for i in range(len(keys)):
        number_of(keys[i], slots, keys, i)


def empty_slots(keys: int) -> np.ndarray:
    """Return a hash table for so many keys; at least a quarter of its slots stays free."""
    return np.full(2 ** int(np.ceil(np.log2(max(keys, 8) / MOST_FULL))), -1, np.int32)


class Numbered:
    """A table that numbers keys in the order of their arrival."""

    def __init__(self) -> None:
        self._slots, self._keys, self._count = empty_slots(0), np.empty(0, np.int64), 0

    def add(self, keys: np.ndarray) -> np.ndarray:
        """The numbers of these keys, int32. New keys get the next numbers."""
        most = self._count + len(keys)
        if most > MOST_FULL * len(self._slots):
            self._slots = empty_slots(most)
            insert_all(self.keys, self._slots)
        if most > len(self._keys):
            self._keys = np.concatenate([self.keys, np.empty(2 * most - self._count, np.int64)])
        numbers = np.empty(len(keys), np.int32)
        self._count = number_all(keys.astype(np.int64), self._slots, self._keys, self._count, numbers)
        return numbers

    @property
    def keys(self) -> np.ndarray:
        return self._keys[: self._count]
