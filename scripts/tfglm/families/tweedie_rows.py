"""The series in the density of a Tweedie distribution, compiled by numba once a machine."""

import math

import numpy as np

from tfglm.loops import compiled

NEGLIGIBLE = 40.0
"""Terms of the series are left out if their logarithm is smaller than the largest by more than this."""


@compiled
def log_series(log_t, alpha):
    """log of the sum over j >= 1 of t^j / (j! gamma(j alpha)) (Dunn & Smyth, Statistics and Computing 15, 2005), from about the
    largest term to both sides."""
    # By Stirling's formula, the derivative of the logarithm of a term by j is 0 here.
    middle = max(1.0, np.floor(np.exp((log_t - alpha * np.log(alpha)) / (1.0 + alpha))))
    top = middle * log_t - math.lgamma(middle + 1.0) - math.lgamma(middle * alpha)
    total = 1.0
    for sign in (1.0, -1.0):
        j = middle + sign
        while j >= 1.0:
            term = j * log_t - math.lgamma(j + 1.0) - math.lgamma(j * alpha) - top
            if term < -NEGLIGIBLE:
                break
            total += np.exp(term)
            j += sign
    return top + np.log(total)


@compiled
def log_densities(mean, y, weight, dispersion, power, out):
    """Set `out` to log densities with a dispersion that is divided by the weight of each row, [rows]."""
    alpha = (2.0 - power) / (power - 1.0)
    for i in range(len(y)):
        scale = dispersion / weight[i]
        exponent = -(mean[i] ** (2.0 - power)) / (2.0 - power)
        if y[i] == 0.0:
            out[i] = exponent / scale
            continue
        exponent -= y[i] * mean[i] ** (1.0 - power) / (power - 1.0)
        log_t = alpha * np.log(y[i] / (power - 1.0)) - (1.0 + alpha) * np.log(scale) - np.log(2.0 - power)
        out[i] = exponent / scale + log_series(log_t, alpha) - np.log(y[i])
