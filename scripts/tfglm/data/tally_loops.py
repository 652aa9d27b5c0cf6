"""The compiled loops that find rows which agree, in a hash table of keys with open addressing (Knuth, The Art of Computer
Programming, 6.4, algorithm L)."""

import numpy as np

from tfglm.data import folds
from tfglm.data.folds import GOLDEN
from tfglm.loops import compiled

mixed = compiled(folds.mixed)


@compiled
def hashed(keys, row):
    """The hash of a key, uint64, of `keys` int64 [words, rows]."""
    bits = np.uint64(0)
    for word in range(len(keys)):
        bits = mixed((bits ^ np.uint64(keys[word, row])) + GOLDEN)
    return bits


@compiled
def hash_all(keys, hashes):
    """Set `hashes`, uint64 [rows], to the hashes of the keys."""
    for row in range(len(hashes)):
        hashes[row] = hashed(keys, row)


@compiled
def place(keys, first, last, places):
    """Put the keys from number `first` to `last` (excluded), which differ, into the table `places`, int32 [a power of two], where
    -1 is free."""
    mask = np.uint64(len(places) - 1)
    for row in range(first, last):
        at = hashed(keys, row) & mask
        while places[at] >= 0:
            at = (at + np.uint64(1)) & mask
        places[at] = row


@compiled
def number(keys, known, count, places, numbers):
    """Set `numbers`, int32 [rows], to the positions of the rows' keys in `known`, int64 [words, room], whose first `count`
    keys are filled. Appends new keys, and returns the new count."""
    mask = np.uint64(len(places) - 1)
    for row in range(len(numbers)):
        at = hashed(keys, row) & mask
        while True:
            found = places[at]
            if found < 0:
                for word in range(len(keys)):
                    known[word, count] = keys[word, row]
                places[at] = found = count
                count += 1
                break
            same = True
            for word in range(len(keys)):
                same = same and known[word, found] == keys[word, row]
            if same:
                break
            at = (at + np.uint64(1)) & mask
        numbers[row] = found
    return count


@compiled
def add(numbers, amounts, sums):
    """Add to `sums` [keys] the amounts of the rows with these numbers, in their order."""
    for row in range(len(numbers)):
        sums[numbers[row]] += amounts[row]


@compiled
def add_moments(numbers, weights, values, weight, mean, squares):
    """Bring sums of weights, means and sums of squares about these, each [keys], up to date with rows of these weights and
    values (West, Communications of the ACM 22, 1979)."""
    for row in range(len(numbers)):
        key, more = numbers[row], weights[row]
        if more > 0:
            weight[key] += more
            difference = values[row] - mean[key]
            mean[key] += difference * more / weight[key]
            squares[key] += more * difference * (values[row] - mean[key])
