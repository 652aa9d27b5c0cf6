"""The loops over rows in which a fit spends its time, compiled by numba once a machine.

XLA took 6 s to trace and to compile the passes of a model, and longer for each row; NumPy has no loop that adds at places.
Nothing here is reordered: each sum is added row by row.

Groups are unsigned, because numba would have to test other indices for those that count from the end.
"""

import numba
import numpy as np

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")

RUN = 32
"""Rows that `in_runs` leaves together: row by row it took a seventh of an epoch. In a column they are a whole number of words."""


@compiled
def look_up(table, codes, found):
    """found = table[codes], each [rows]."""
    for i in range(len(codes)):
        found[i] = table[codes[i]]


@compiled
def in_runs(words, starts, sizes, rows, multiplier, offset, found):
    """Copy the first rows of some columns in another order. Whole runs of RUN rows become the runs number
    (multiplier * i + offset) mod runs for i = 0, 1, ..., both less than their number; what is left of the rows stays last. In
    `words` and `found` (int64) the columns begin at `starts`, and `sizes` are the words of a run of each."""
    runs, rest = rows // RUN, rows % RUN > 0
    for column in range(len(starts)):
        size, start = sizes[column], starts[column]
        run, place = offset, start
        for _ in range(runs):
            first = start + run * size
            for i in range(size):
                found[np.uint64(place + i)] = words[np.uint64(first + i)]
            place += size
            run += multiplier
            run -= runs if run >= runs else 0
        if rest:
            found[place : place + size] = words[place : place + size]


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
def standardise(number, center, scale, flag, found):
    """found = (number - center) / scale, 0 where the flag is negative; each [rows], `number` of any type."""
    inverse = 1.0 / scale
    for i in range(len(found)):
        value = (np.float64(number[i]) - center) * inverse
        found[i] = value if flag[i] >= 0 else 0.0


@compiled
def keep(value, frequency):
    """Set `value` to 0 where the frequency is not positive; each [rows]."""
    for i in range(len(value)):
        value[i] = value[i] if frequency[i] > 0 else 0.0


LANES = 16
"""Sums that a loop makes side by side, of every 16th row each: what adds to one sum has to wait for the addition before."""

FACTORS = 512
"""Numbers between 1 and 2 whose product is a number still."""


@compiled
def _binomial_row(eta, small, y, mass):
    """Score, weight, Pearson statistic and loss of a row, without the logarithm of 1 + small that the loss has besides."""
    # In no branch: which one a row takes cannot be foreseen, and a wrong guess costs as much as ten rows.
    inverse = 1.0 / (1.0 + small)
    tail = small * inverse
    # The mean is `tail` or 1 - tail; as a difference of numbers near 1 it would lose the digits of a residual near 0.
    score = mass * ((1.0 - y) - tail if eta >= 0 else tail - y)
    score = score if mass > 0 else 0.0
    weight = mass * tail * inverse
    # A variance that rounds to 0 belongs to a residual that does.
    pearson = score * (score / weight) if weight > 0 else 0.0
    # log(1 + exp(eta)) - y * eta in the form that neither overflows nor loses digits far from 0.
    return score, weight, pearson, mass * (max(eta, 0.0) - y * eta)


@compiled
def binomial(eta, small, y, mass, unit, score, weight):
    """Loss and Pearson statistic of some rows; sets the derivative of the loss by eta, and the weights in the information
    matrix. `small` is exp(-|eta|); each [rows]. `unit` says that each mass is 0 or 1."""
    losses, pearsons = np.zeros(LANES), np.zeros(LANES)
    # Indices that count from 0 in a piece are known not to be negative; others keep a loop from becoming vector instructions.
    for first in range(0, len(eta), FACTORS * LANES):
        piece, factors = slice(first, first + FACTORS * LANES), np.ones(LANES)
        e, s, m, of_y, to_score, to_weight = (
            eta[piece],
            small[piece],
            mass[piece],
            y[piece],
            score[piece],
            weight[piece],
        )
        whole = len(e) - len(e) % LANES
        for start in range(0, whole, LANES):
            for lane in range(LANES):
                i = start + lane
                to_score[i], to_weight[i], pearson, loss = _binomial_row(e[i], s[i], of_y[i], m[i])
                pearsons[lane] += pearson
                losses[lane] += loss
                factors[lane] *= 1.0 + m[i] * s[i]
        for i in range(whole, len(e)):
            to_score[i], to_weight[i], pearson, loss = _binomial_row(e[i], s[i], of_y[i], m[i])
            pearsons[i - whole] += pearson
            losses[i - whole] += loss
            factors[i - whole] *= 1.0 + m[i] * s[i]
        if unit:
            # A logarithm a row costs as much as the rest of a gradient.
            for lane in range(LANES):
                losses[lane] += np.log(factors[lane])
    if not unit:
        for i in range(len(eta)):
            losses[0] += mass[i] * np.log1p(small[i])
    return losses.sum(), pearsons.sum()


@compiled
def add_linear_predictor(eta, coefficients, parts, groups, numbers):
    """Add to eta [rows] what each part has for a row. `parts` int64 [parts, 3]: where its coefficients start, the row of its
    groups in `groups` [codings, rows] and of its multiplier in `numbers` [multipliers, rows], -1 for none."""
    for k in range(len(parts)):
        start, coding, which = np.uint64(parts[k, 0]), parts[k, 1], parts[k, 2]
        if coding < 0 and which < 0:
            for i in range(len(eta)):
                eta[i] += coefficients[start]
        elif coding < 0:
            number = numbers[which]
            for i in range(len(eta)):
                eta[i] += coefficients[start] * number[i]
        elif which < 0:
            group = groups[coding]
            for i in range(len(eta)):
                eta[i] += coefficients[start + np.uint64(group[i])]
        else:
            group, number = groups[coding], numbers[which]
            for i in range(len(eta)):
                eta[i] += coefficients[start + np.uint64(group[i])] * number[i]


@compiled
def add_by_group(sums, jobs, groups, value):
    """Add `value` [rows] to `sums` by group; `jobs` int64 [jobs, 2]: where the sums of a coding start, and its row in `groups`
    [codings, rows]."""
    for job in range(len(jobs)):
        start, group = np.uint64(jobs[job, 0]), groups[jobs[job, 1]]
        for i in range(len(value)):
            sums[start + np.uint64(group[i])] += value[i]


@compiled
def add_by_pair(sums, jobs, groups, value):
    """Add `value` [rows] to `sums` by pair of groups; `jobs` int64 [jobs, 4]: where the sums of a pair of codings start, the rows
    of both in `groups` [codings, rows], and the number of groups of the second."""
    for job in range(len(jobs)):
        start, size = np.uint64(jobs[job, 0]), np.uint64(jobs[job, 3])
        first, second = groups[jobs[job, 1]], groups[jobs[job, 2]]
        for i in range(len(value)):
            sums[start + np.uint64(first[i]) * size + np.uint64(second[i])] += value[i]


@compiled
def add_by_triple(sums, jobs, groups, value):
    """Add `value` [rows] to `sums` by three groups; `jobs` int64 [jobs, 6]: where the sums of three codings start, the rows of
    all in `groups` [codings, rows], and the numbers of groups of the second and of the third."""
    for job in range(len(jobs)):
        start, second_size, third_size = np.uint64(jobs[job, 0]), np.uint64(jobs[job, 4]), np.uint64(jobs[job, 5])
        first, second, third = groups[jobs[job, 1]], groups[jobs[job, 2]], groups[jobs[job, 3]]
        for i in range(len(value)):
            place = (np.uint64(first[i]) * second_size + np.uint64(second[i])) * third_size + np.uint64(third[i])
            sums[start + place] += value[i]


@compiled
def adagrad(weights, squares, gradient, l2, rate, epsilon, new_weights, new_squares):
    """Set `new_weights` and `new_squares` to what a step makes of the weights and of the sums of squared derivatives so far; each
    [coefficients], `l2` too. By NumPy's functions it took a tenth of an epoch."""
    small = weights.dtype.type(epsilon)
    for i in range(len(weights)):
        slope = gradient[i] + l2[i] * weights[i]
        new_squares[i] = squares[i] + slope * slope
        new_weights[i] = weights[i] - rate * slope / np.sqrt(new_squares[i] + small)


def load() -> None:
    """Load the loops of a pass, or compile them, for the types that are usual; others follow when they occur."""
    eta, flag, groups = np.zeros(1), np.zeros(1, np.int32), np.zeros((1, 1), np.uint16)
    parts, numbers = np.array([[0, 0, 0]]), np.zeros((1, 1))
    for dtype in (np.uint8, np.uint16):
        look_up(np.zeros(1), np.zeros(1, dtype), eta)
        look_up(np.zeros(1, np.int32), np.zeros(1, dtype), flag)
        look_up_level(np.zeros(1, np.int32), np.zeros(1, dtype), groups.view(np.int16)[0], flag)
    for dtype in (np.float32, np.float64):
        standardise(np.zeros(1, dtype), 0.0, 1.0, flag, eta)
    keep(eta, eta)
    add_linear_predictor(eta, eta, parts, groups, numbers)
    binomial(eta, np.ones(1), eta, eta, True, np.zeros(1), np.zeros(1))
    add_by_group(eta, np.array([[0, 0]]), groups, eta)
    add_by_pair(eta, np.array([[0, 0, 0, 1]]), groups, eta)
    add_by_triple(eta, np.array([[0, 0, 0, 0, 1, 1]]), groups, eta)
