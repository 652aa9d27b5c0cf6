"""The loops over rows that absorbed factors need beside those of `kernels`.

Which pairs of levels occur is kept in tables of open addressing, which hold a number for each key that has been seen: `slots`
int32 [a power of two] has the numbers, -1 where there is none, and `keys` int64 the key of each number.
"""

import numpy as np

from tfglm.engine.kernels import compiled

MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4)."""


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
    """Set `numbers` int32 [rows] to those of the pairs of groups `first * size + second`, -1 where `kept` is not positive, and
    return how many pairs there are."""
    for i in range(len(numbers)):
        numbers[i] = -1
        if kept[i] > 0:
            numbers[i], count = number_of(np.int64(first[i]) * size + np.int64(second[i]), slots, keys, count)
    return count


@compiled
def number_all(wanted, slots, keys, count, numbers):
    """Set `numbers` int32 to those of the `wanted` keys, and return how many keys there are."""
    for i in range(len(wanted)):
        numbers[i], count = number_of(wanted[i], slots, keys, count)
    return count


@compiled
def insert_all(keys, slots):
    """Put keys that are all different, with the numbers 0, 1, ..., into empty `slots`."""
    for i in range(len(keys)):
        number_of(keys[i], slots, keys, i)


@compiled
def add_numbered(sums, numbers, value):
    """Add `value` [rows] to `sums` by number, but for those of -1."""
    for i in range(len(value)):
        if numbers[i] >= 0:
            sums[numbers[i]] += value[i]


@compiled
def widen(group, cluster, kept, lowest, highest):
    """Let `lowest` and `highest` [groups] hold the numbers of the clusters of a group's rows; -1 where there are none."""
    for i in range(len(group)):
        if kept[i] > 0:
            k = np.uint64(group[i])
            lowest[k] = cluster[i] if lowest[k] < 0 else min(lowest[k], np.float64(cluster[i]))
            highest[k] = max(highest[k], np.float64(cluster[i]))


@compiled
def add_left(
    scores, rows, products, cluster, score, frequency, absorbed, loadings, parts, columns, groups, numbers, left
):
    """Add what rows have once absorbed factors are taken out of their covariates, `left` [free columns]: times their scores to
    `scores` [clusters, columns], with their numbers to `rows` [clusters]; or, if there are no clusters, its products times the
    squared scores to `products` [columns, columns].

    `absorbed` int64 [factors, 2]: a factor's row in `groups`, and where its levels begin in `loadings` [levels, columns];
    `parts` as `kernels.add_linear_predictor` takes them; `columns` int64 [coefficients] the number among the free ones, or -1.
    """
    for i in range(len(score)):
        if frequency[i] <= 0:
            continue
        left[:] = 0.0
        for a in range(len(absorbed)):
            level = absorbed[a, 1] + np.int64(groups[absorbed[a, 0], i])
            for c in range(len(left)):
                left[c] -= loadings[level, c]
        for k in range(len(parts)):
            place = parts[k, 0] + (np.int64(groups[parts[k, 1], i]) if parts[k, 1] >= 0 else 0)
            if columns[place] >= 0:
                left[columns[place]] += numbers[parts[k, 2], i] if parts[k, 2] >= 0 else 1.0
        if len(rows):
            rows[cluster[i]] += frequency[i]
            for c in range(len(left)):
                scores[cluster[i], c] += score[i] * left[c]
        else:
            square = score[i] * score[i] / frequency[i]
            for c in range(len(left)):
                for other in range(c + 1):
                    products[c, other] += square * left[c] * left[other]
