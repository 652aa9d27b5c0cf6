"""The loops over rows that absorbed factors need beside those of `kernels`."""

import numpy as np

from tfglm.loops import compiled


@compiled
def add_numbered(sums, numbers, value):
    """Add `value` [rows] to `sums` by number, and skip rows with number -1."""
    for i in range(len(value)):
        if numbers[i] >= 0:
            sums[numbers[i]] += value[i]


@compiled
def count_rows(keys, size, by_second, first_row, starts):
    """Count pairs of groups `first * size + second` by row, which is the first group or the second. The number of pairs of
    row i is added to `starts[first_row + i + 1]`."""
    for i in range(len(keys)):
        row = keys[i] % size if by_second else keys[i] // size
        starts[first_row + row + 1] += 1


@compiled
def place_in_rows(keys, size, by_second, first_row, first_column, ends, columns, positions):
    """Set `positions` int32 to the positions of pairs sorted by row, as `count_rows` counted them, and `columns` there to
    the other group. `ends` has, for each row, the end of the pairs placed so far."""
    for i in range(len(keys)):
        first, second = keys[i] // size, keys[i] % size
        row, column = (second, first) if by_second else (first, second)
        place = ends[first_row + row]
        ends[first_row + row] = place + 1
        columns[place] = first_column + column
        positions[i] = place


@compiled
def root_of(level, above):
    """The root of a level's component; of a level without one it becomes itself."""
    if above[level] < 0:
        above[level] = level
    while above[level] != level:
        above[level] = above[above[level]]
        level = above[level]
    return level


@compiled
def unite(starts, columns, rows, columns_of, levels, above):
    """Unite the components of levels that are a pair. The pairs are those of `rows` (from, to) with columns in `columns_of`
    (from, to), which stand for the levels from `levels` (of the rows, of the columns) on. `above` int32 [levels] is a level of
    the same component with a smaller number, or the level itself; -1 of a level of no pair."""
    for row in range(rows[0], rows[1]):
        for place in range(starts[row], starts[row + 1]):
            column = columns[place]
            if columns_of[0] <= column < columns_of[1]:
                first = root_of(levels[0] + row - rows[0], above)
                second = root_of(levels[1] + column - columns_of[0], above)
                above[max(first, second)] = min(first, second)


@compiled
def number_components(above, component):
    """Set `component` int32 [levels] to the numbers of components, -1 of a level of none, and return how many there are."""
    count = 0
    for level in range(len(above)):
        component[level] = -1
        if above[level] == level:
            component[level] = count
            count += 1
        elif above[level] >= 0:
            component[level] = component[above[level]]
    return count


@compiled
def cut_vertices(starts, neighbours):
    """Which vertices disconnect a graph if they are removed (Tarjan, SIAM Journal on Computing 1, 1972). The neighbours of vertex
    i are `neighbours[starts[i] : starts[i + 1]]`."""
    size, count = len(starts) - 1, 0
    order, low, place = np.zeros(size, np.int64), np.zeros(size, np.int64), starts[:-1].copy()
    parent, cut = np.full(size, -1), np.zeros(size, np.bool_)
    for root in range(size):
        vertex, children = (-1 if order[root] else root), 0
        while vertex >= 0:
            if not order[vertex]:
                count += 1
                order[vertex] = low[vertex] = count
            if place[vertex] < starts[vertex + 1]:
                other = neighbours[place[vertex]]
                place[vertex] += 1
                if not order[other]:
                    parent[other], vertex = vertex, other
                elif other != parent[vertex]:
                    low[vertex] = min(low[vertex], order[other])
            else:
                above = parent[vertex]
                if above >= 0:
                    low[above] = min(low[above], low[vertex])
                    children += above == root
                    cut[above] |= low[vertex] >= order[above]
                vertex = above
        cut[root] = children > 1 or (cut[root] and parent[root] >= 0)
    return cut


@compiled
def subtract_product(starts, columns, weights, inverse, vector, result):
    """Subtract E' diag(inverse) E times `vector` [columns of E] from `result`. E, sparse by rows, is read once, and no array as
    large as its rows is needed."""
    for i in range(len(starts) - 1):
        value = 0.0
        for place in range(starts[i], starts[i + 1]):
            value += weights[place] * vector[np.uint64(columns[place])]
        value *= inverse[i]
        for place in range(starts[i], starts[i + 1]):
            result[np.uint64(columns[place])] -= weights[place] * value


@compiled
def subtract_products(starts, columns, weights, inverse, vectors, result):
    """As `subtract_product` for several `vectors` [columns of E, k], with one reading of E."""
    values = np.empty(vectors.shape[1])
    for i in range(len(starts) - 1):
        values[:] = 0.0
        for place in range(starts[i], starts[i + 1]):
            column = np.uint64(columns[place])
            for k in range(len(values)):
                values[k] += weights[place] * vectors[column, k]
        for k in range(len(values)):
            values[k] *= inverse[i]
        for place in range(starts[i], starts[i + 1]):
            column = np.uint64(columns[place])
            for k in range(len(values)):
                result[column, k] -= weights[place] * values[k]


@compiled
def subtract_squares(starts, columns, weights, inverse, left):
    """Subtract the diagonal of E' diag(inverse) E from `left` [columns of E]."""
    for i in range(len(starts) - 1):
        for place in range(starts[i], starts[i + 1]):
            left[columns[place]] -= weights[place] * weights[place] * inverse[i]


@compiled
def widen(group, cluster, kept, lowest, highest):
    """Let `lowest` and `highest` [groups] hold the numbers of the clusters of a group's rows; -1 where there are none."""
    for i in range(len(group)):
        if kept[i] > 0:
            k = np.uint64(group[i])
            lowest[k] = cluster[i] if lowest[k] < 0 else min(lowest[k], np.float64(cluster[i]))
            highest[k] = max(highest[k], np.float64(cluster[i]))


@compiled
def fill_left(left, i, absorbed, loadings, parts, columns, groups, numbers):
    """Set `left` [free columns] to the covariates of row i after the absorbed factors are projected out; the others are as in
    `add_left`."""
    left[:] = 0.0
    for a in range(len(absorbed)):
        level = absorbed[a, 1] + np.int64(groups[absorbed[a, 0], i])
        number = numbers[absorbed[a, 2], i] if absorbed[a, 2] >= 0 else 1.0
        for c in range(len(left)):
            left[c] -= number * loadings[level, c]
    for k in range(len(parts)):
        place = parts[k, 0] + (np.int64(groups[parts[k, 1], i]) if parts[k, 1] >= 0 else 0)
        if columns[place] >= 0:
            left[columns[place]] += numbers[parts[k, 2], i] if parts[k, 2] >= 0 else 1.0


@compiled
def add_own_forms(starts, columns, shares, inverse, forms):
    """Add u' G u to `forms` [rows of E], for each row u of the sparse matrix of `shares` and G = `inverse`."""
    for i in range(len(forms)):
        for one in range(starts[i], starts[i + 1]):
            for other in range(starts[i], starts[i + 1]):
                forms[i] += shares[one] * shares[other] * inverse[columns[one], columns[other]]


@compiled
def add_forms(forms, kept, schur, starts, columns_of, shares, own, inverse, largest, others, fixed, left):
    """Add x' I^-1 x to `forms` for rows with positive `kept`, [rows].

    `schur` is S^-1. `starts`, `columns_of` and `shares` are the sparse matrix D_e^-1 E. `own` [levels of the largest factor]
    and `inverse` [o, o] are as in `SparsePart.inverse_parts`. `largest` is the row of the largest factor in the groups.
    `others` int64 [factors, 2] has the rows of the other factors, and their places in `inverse`. `fixed` are the last
    arguments of `fill_left`.
    """
    absorbed, loadings, parts, columns, groups, numbers = fixed
    for i in range(len(forms)):
        if kept[i] <= 0:
            continue
        fill_left(left, i, absorbed, loadings, parts, columns, groups, numbers)
        for c in range(len(left)):
            for other in range(len(left)):
                forms[i] += left[c] * left[other] * schur[c, other]
        level = np.int64(groups[largest, i])
        forms[i] += own[level]
        for a in range(len(others)):
            first = others[a, 1] + np.int64(groups[others[a, 0], i])
            for b in range(len(others)):
                forms[i] += inverse[first, others[b, 1] + np.int64(groups[others[b, 0], i])]
            for place in range(starts[level], starts[level + 1]):
                forms[i] -= 2.0 * shares[place] * inverse[first, columns_of[place]]


@compiled
def add_left(
    scores,
    squares,
    rows,
    products,
    cluster,
    score,
    frequency,
    absorbed,
    loadings,
    parts,
    columns,
    groups,
    numbers,
    left,
):
    """Add the scores or squares of the covariates after the absorbed factors are projected out, `left` [free columns].

    With clusters, it adds `left` times the scores to `scores` [clusters, columns], and counts rows in `rows` [clusters]. It adds
    the products of `left` times the scores to `squares` [clusters, columns, columns], unless this is empty. If its last length
    is 1, it adds the squares of `left` times the scores.
    Without clusters, it adds the products of `left` times the squared scores to `products` [columns, columns].

    `absorbed` int64 [parts, 3] has the row of each absorbed part in `groups`, the start of its levels in `loadings` [levels,
    columns], and the row of its multiplier in `numbers`, or -1. `parts` is as in `kernels.add_linear_predictor`. `columns` int64
    [coefficients] numbers the free coefficients, with -1 for others.
    """
    for i in range(len(score)):
        if frequency[i] <= 0:
            continue
        fill_left(left, i, absorbed, loadings, parts, columns, groups, numbers)
        if len(rows):
            rows[cluster[i]] += frequency[i]
            for c in range(len(left)):
                scores[cluster[i], c] += score[i] * left[c]
            if len(squares):
                is_diagonal = squares.shape[2] == 1
                for c in range(len(left)):
                    weighted = score[i] * left[c]
                    if is_diagonal:
                        squares[cluster[i], c, 0] += weighted * left[c]
                    else:
                        for other in range(c + 1):
                            squares[cluster[i], c, other] += weighted * left[other]
        else:
            square = score[i] * score[i] / frequency[i]
            for c in range(len(left)):
                for other in range(c + 1):
                    products[c, other] += square * left[c] * left[other]
