"""The loops over rows in which a fit spends its time, compiled by numba once per machine.

XLA took 6 s to trace and to compile the passes of a model, and more time per row; NumPy has no loop that adds at given
positions. Nothing here is reordered: each sum is added row by row.

Groups are unsigned, because numba would have to check whether other indices count from the end.
"""

import numpy as np

from tfglm.families import FAMILIES
from tfglm.loops import compiled

RUN = 32
"""Rows that `in_runs` leaves together: row by row it took a seventh of an epoch. In a column they are a whole number of words."""


@compiled
def look_up(table, codes, out):
    """out = table[codes], each [rows]."""
    for i in range(len(codes)):
        out[i] = table[codes[i]]


@compiled
def in_runs(words, starts, sizes, rows, multiplier, offset, out):
    """Copy the first rows of some columns in another order.

    Whole runs of RUN rows are copied from the runs with the numbers (multiplier * i + offset) mod runs for i = 0, 1, ...;
    multiplier and offset are less than the number of runs. The remaining rows stay last. In `words` and `out` (int64),
    `starts` has the start of each column, and `sizes` the words of one of its runs.
    """
    runs, rest = rows // RUN, rows % RUN > 0
    for column in range(len(starts)):
        size, start = sizes[column], starts[column]
        run, place = offset, start
        for _ in range(runs):
            first = start + run * size
            for i in range(size):
                out[np.uint64(place + i)] = words[np.uint64(first + i)]
            place += size
            run += multiplier
            run -= runs if run >= runs else 0
        if rest:
            out[place : place + size] = words[place : place + size]


@compiled
def look_up_level(table, codes, level, flag):
    """Set `level` [rows] to the levels of the codes, 0 for a negative one, which lowers `flag` [rows]."""
    for i in range(len(codes)):
        level[i] = table[codes[i]]
    # Apart, since only this loop becomes vector instructions.
    for i in range(len(codes)):
        flag[i] = min(flag[i], np.int32(level[i]))
        level[i] = max(level[i], level.dtype.type(0))


@compiled
def standardise(number, center, scale, flag, out):
    """out = (number - center) / scale, 0 where the flag is negative; each [rows], `number` of any type."""
    inverse = 1.0 / scale
    for i in range(len(out)):
        value = (np.float64(number[i]) - center) * inverse
        out[i] = value if flag[i] >= 0 else 0.0


@compiled
def keep(value, frequency):
    """Set `value` to 0 where the frequency is not positive; each [rows]."""
    for i in range(len(value)):
        value[i] = value[i] if frequency[i] > 0 else 0.0


@compiled
def add_linear_predictor(eta, coefficients, parts, groups, numbers):
    """Add to eta [rows] what each part has for a row. `parts` int64 [parts, 3]: where its coefficients start, the row of its
    groups in `groups` [groupings, rows] and of its multiplier in `numbers` [multipliers, rows], -1 for none."""
    for k in range(len(parts)):
        start, grouping, multiplier = np.uint64(parts[k, 0]), parts[k, 1], parts[k, 2]
        if grouping < 0 and multiplier < 0:
            for i in range(len(eta)):
                eta[i] += coefficients[start]
        elif grouping < 0:
            number = numbers[multiplier]
            for i in range(len(eta)):
                eta[i] += coefficients[start] * number[i]
        elif multiplier < 0:
            group = groups[grouping]
            for i in range(len(eta)):
                eta[i] += coefficients[start + np.uint64(group[i])]
        else:
            group, number = groups[grouping], numbers[multiplier]
            for i in range(len(eta)):
                eta[i] += coefficients[start + np.uint64(group[i])] * number[i]


@compiled
def add_quadratic_form(forms, parts, eliminated, groups, numbers, dense, mixed, within):
    """Add x'Vx to forms [rows], x the row of the design matrix. V has the blocks `dense` [d, d], `mixed` [d, m] and, of the
    `eliminated` parts, whose numbers are int64 [q], `within` [q, q, levels]; `parts`, `groups` and `numbers` as
    `add_linear_predictor` takes them, where the eliminated parts start at 0 and the others have no place for them."""
    count = len(parts)
    place, number, which = np.zeros(count, np.uint64), np.ones(count), np.full(count, -1)
    for q in range(len(eliminated)):
        which[eliminated[q]] = q
    for i in range(len(forms)):
        for k in range(count):
            grouping, multiplier = parts[k, 1], parts[k, 2]
            place[k] = np.uint64(parts[k, 0]) + (np.uint64(groups[grouping, i]) if grouping >= 0 else np.uint64(0))
            number[k] = numbers[multiplier, i] if multiplier >= 0 else 1.0
        form = 0.0
        for k in range(count):
            if which[k] >= 0:
                level = np.uint64(groups[parts[k, 1], i])
                form += number[k] * number[k] * within[which[k], which[k], level]
                for j in eliminated[: which[k]]:
                    form += 2.0 * number[k] * number[j] * within[which[k], which[j], level]
                continue
            others = 0.5 * number[k] * dense[place[k], place[k]]
            for j in range(k):
                if which[j] < 0:
                    others += number[j] * dense[place[k], place[j]]
            for j in eliminated:
                others += number[j] * mixed[place[k], place[j]]
            form += 2.0 * number[k] * others
        forms[i] += form


@compiled
def add_by_group(sums, jobs, groups, value):
    """Add `value` [rows] to `sums` by group; `jobs` int64 [jobs, 2]: where the sums of a grouping start, and its row in `groups`
    [groupings, rows]."""
    for job in range(len(jobs)):
        start, group = np.uint64(jobs[job, 0]), groups[jobs[job, 1]]
        for i in range(len(value)):
            sums[start + np.uint64(group[i])] += value[i]


@compiled
def add_four_by_group(sums, jobs, groups, first, second, third, fourth):
    """Add four values, each [rows], to `sums` by group.

    `jobs` int64 [jobs, 6] has, for a grouping, the start of the sums of each value, the row of the grouping in `groups`
    [groupings, rows], and its number of groups. During the loop the four sums of a group are adjacent, which at least
    halves the time. `add_by_group` gives the same bits.
    """
    rows = len(first)
    values = np.empty(4 * rows)
    for i in range(rows):
        k = np.uint64(4) * np.uint64(i)
        values[k], values[k + np.uint64(1)] = first[i], second[i]
        values[k + np.uint64(2)], values[k + np.uint64(3)] = third[i], fourth[i]
    beside = np.empty(4 * jobs[:, 5].max())
    for job in range(len(jobs)):
        group, size = groups[jobs[job, 4]], np.uint64(jobs[job, 5])
        for value in range(4):
            start = np.uint64(jobs[job, value])
            for g in range(size):
                beside[np.uint64(4) * g + np.uint64(value)] = sums[start + g]
        for i in range(rows):
            at, k = np.uint64(4) * np.uint64(group[i]), np.uint64(4) * np.uint64(i)
            a, b = beside[at] + values[k], beside[at + np.uint64(1)] + values[k + np.uint64(1)]
            c, d = (
                beside[at + np.uint64(2)] + values[k + np.uint64(2)],
                beside[at + np.uint64(3)] + values[k + np.uint64(3)],
            )
            beside[at], beside[at + np.uint64(1)], beside[at + np.uint64(2)], beside[at + np.uint64(3)] = a, b, c, d
        for value in range(4):
            start = np.uint64(jobs[job, value])
            for g in range(size):
                sums[start + g] = beside[np.uint64(4) * g + np.uint64(value)]


@compiled
def add_by_pair(sums, jobs, groups, value):
    """Add `value` [rows] to `sums` by pair of groups; `jobs` int64 [jobs, 4]: where the sums of a pair of groupings start, the
    rows of both in `groups` [groupings, rows], and the number of groups of the second."""
    for job in range(len(jobs)):
        start, size = np.uint64(jobs[job, 0]), np.uint64(jobs[job, 3])
        first, second = groups[jobs[job, 1]], groups[jobs[job, 2]]
        for i in range(len(value)):
            sums[start + np.uint64(first[i]) * size + np.uint64(second[i])] += value[i]


@compiled
def add_by_triple(sums, jobs, groups, value):
    """Add `value` [rows] to `sums` by three groups; `jobs` int64 [jobs, 6]: where the sums of three groupings start, the rows of
    all in `groups` [groupings, rows], and the numbers of groups of the second and of the third."""
    for job in range(len(jobs)):
        start, second_size, third_size = np.uint64(jobs[job, 0]), np.uint64(jobs[job, 4]), np.uint64(jobs[job, 5])
        first, second, third = groups[jobs[job, 1]], groups[jobs[job, 2]], groups[jobs[job, 3]]
        for i in range(len(value)):
            place = (np.uint64(first[i]) * second_size + np.uint64(second[i])) * third_size + np.uint64(third[i])
            sums[start + place] += value[i]


@compiled
def add_looked_up(out, table, codes):
    """Add table[codes] to out [rows]."""
    for i in range(len(codes)):
        out[i] += table[np.uint64(codes[i])]


@compiled
def add_looked_up_pairs(out, table, first, second, size):
    """Add table[first * size + second] to out [rows]."""
    width = np.uint64(size)
    for i in range(len(first)):
        out[i] += table[np.uint64(first[i]) * width + np.uint64(second[i])]


@compiled
def add_by_code(sums, codes, value):
    """Add `value` [rows] to `sums` by code."""
    for i in range(len(codes)):
        sums[np.uint64(codes[i])] += value[i]


@compiled
def add_by_codes(sums, first, second, size, value):
    """Add `value` [rows] to `sums` by pair of codes, of which the second has `size`."""
    width = np.uint64(size)
    for i in range(len(first)):
        sums[np.uint64(first[i]) * width + np.uint64(second[i])] += value[i]


@compiled
def add_table_by_group(sums, group, codes, table, value):
    """Add table[codes] times `value` [rows] to `sums` [groups, columns] by group."""
    for i in range(len(codes)):
        of_group, of_code, weight = sums[np.uint64(group[i])], table[np.uint64(codes[i])], value[i]
        for k in range(len(of_group)):
            of_group[k] += weight * of_code[k]


@compiled
def add_numbers_by_group(sums, group, numbers, value):
    """Add `numbers` [columns, rows] times `value` [rows] to `sums` [groups, columns] by group."""
    count, rows = numbers.shape
    together = np.empty((256, count))
    for first in range(0, rows, 256):
        size = min(256, rows - first)
        for k in range(count):
            number = numbers[k, first : first + size]
            for i in range(size):
                together[i, k] = number[i]
        for i in range(size):
            of_group, of_row, weight = sums[np.uint64(group[first + i])], together[i], value[first + i]
            for k in range(count):
                of_group[k] += weight * of_row[k]


@compiled
def add_dot(out, codes, first, others, second):
    """Add first[codes] . second[others] to out [rows]; the tables have as many columns."""
    for i in range(len(codes)):
        left, right, dot = first[np.uint64(codes[i])], second[np.uint64(others[i])], 0.0
        for k in range(len(left)):
            dot += left[k] * right[k]
        out[i] += dot


@compiled
def add_levels(eta, table, context, number):
    """Add `table` [contexts, levels] of the context of a row, times its number, to eta [rows, levels]."""
    for i in range(len(eta)):
        of_context = table[np.uint64(context[i])]
        for level in range(eta.shape[1]):
            eta[i, level] += of_context[level] * number[i]


@compiled
def add_by_level(sums, group, number, value):
    """Add `value` [rows, levels] times the number of a row to `sums` [groups, levels] by group."""
    for i in range(len(value)):
        of_group = sums[np.uint64(group[i])]
        for level in range(value.shape[1]):
            of_group[level] += value[i, level] * number[i]


@compiled
def adagrad(weights, squares, gradient, l2, rate, epsilon, new_weights, new_squares):
    """Set `new_weights` and `new_squares` to what a step makes of the weights and of the sums of squared derivatives so far; each
    [coefficients], `l2` too. By NumPy's functions it took a tenth of an epoch."""
    small = weights.dtype.type(epsilon)
    for i in range(len(weights)):
        derivative = gradient[i] + l2[i] * weights[i]
        new_squares[i] = squares[i] + derivative * derivative
        new_weights[i] = weights[i] - rate * derivative / np.sqrt(new_squares[i] + small)


def load() -> None:
    """Load the loops of a pass, or compile them, for the types that are usual; others follow when they occur."""
    eta, flag, groups = np.zeros(1), np.zeros(1, np.int32), np.zeros((1, 1), np.uint16)
    parts, numbers = np.array([[0, 0, 0]]), np.zeros((1, 1))
    for dtype in (np.uint8, np.uint16):
        look_up(np.zeros(1), np.zeros(1, dtype), eta)
        look_up(np.zeros(1, np.int32), np.zeros(1, dtype), flag)
        look_up_level(np.zeros(1, np.int32), np.zeros(1, dtype), groups.view(np.int16)[0], flag)
    for float_type in (np.float32, np.float64):
        standardise(np.zeros(1, float_type), 0.0, 1.0, flag, eta)
    keep(eta, eta)
    add_linear_predictor(eta, eta, parts, groups, numbers)
    for family in FAMILIES.values():
        family.load()
    add_by_group(eta, np.array([[0, 0]]), groups, eta)
    add_four_by_group(eta, np.array([[0, 0, 0, 0, 0, 1]]), groups, eta, eta, eta, eta)
    add_by_pair(eta, np.array([[0, 0, 0, 1]]), groups, eta)
    add_by_triple(eta, np.array([[0, 0, 0, 0, 1, 1]]), groups, eta)
