"""The loop over the rows of a logistic regression, where a fit spends much of its time; compiled by numba once per machine."""

import numpy as np

from tfglm.loops import compiled

LANES = 16
"""Sums that a loop makes side by side, of every 16th row each: what adds to one sum has to wait for the addition before."""

FACTORS = 512
"""Numbers between 1 and 2 whose product is still a finite float64."""


@compiled
def binomial_row(eta, small, y, weight):
    """Score, information, Pearson statistic and loss of a row, the loss without its part log(1 + small)."""
    # In no branch: which one a row takes cannot be foreseen, and a wrong guess costs as much as ten rows.
    inverse = 1.0 / (1.0 + small)
    tail = small * inverse
    # The mean is `tail` or 1 - tail; as a difference of numbers near 1 it would lose the digits of a residual near 0.
    score = weight * ((1.0 - y) - tail if eta >= 0 else tail - y)
    score = score if weight > 0 else 0.0
    information = weight * tail * inverse
    # A variance that rounds to 0 belongs to a residual that does.
    pearson = score * (score / information) if information > 0 else 0.0
    # log(1 + exp(eta)) - y * eta in the form that neither overflows nor loses digits far from 0.
    return score, information, pearson, weight * (max(eta, 0.0) - y * eta)


@compiled
def binomial_rows(eta, small, y, weight, unit, score, information):
    """Loss and Pearson statistic of some rows; sets `score` to the derivative of the loss by eta, and `information` to the
    weights in the information matrix. `small` is exp(-|eta|); each [rows]. `unit` says that each weight is 0 or 1."""
    losses, pearsons = np.zeros(LANES), np.zeros(LANES)
    # Indices that count from 0 in a piece are known not to be negative; others keep a loop from becoming vector instructions.
    for first in range(0, len(eta), FACTORS * LANES):
        piece, factors = slice(first, first + FACTORS * LANES), np.ones(LANES)
        e, s, w, of_y = eta[piece], small[piece], weight[piece], y[piece]
        to_score, to_information = score[piece], information[piece]
        whole = len(e) - len(e) % LANES
        for start in range(0, whole, LANES):
            for lane in range(LANES):
                i = start + lane
                to_score[i], to_information[i], pearson, loss = binomial_row(e[i], s[i], of_y[i], w[i])
                pearsons[lane] += pearson
                losses[lane] += loss
                factors[lane] *= 1.0 + w[i] * s[i]
        for i in range(whole, len(e)):
            to_score[i], to_information[i], pearson, loss = binomial_row(e[i], s[i], of_y[i], w[i])
            pearsons[i - whole] += pearson
            losses[i - whole] += loss
            factors[i - whole] *= 1.0 + w[i] * s[i]
        if unit:
            # A logarithm a row costs as much as the rest of a gradient.
            for lane in range(LANES):
                losses[lane] += np.log(factors[lane])
    if not unit:
        for i in range(len(eta)):
            losses[0] += weight[i] * np.log1p(small[i])
    return losses.sum(), pearsons.sum()
