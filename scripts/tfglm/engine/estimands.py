"""What averages over rows estimate, for modules that do not add rows."""

from typing import NamedTuple

import numpy as np


class AveragesByLevel(NamedTuple):
    """The means of a response by the level of a factor, [levels], and their derivatives by the coefficients, [levels, p], with
    what `LevelMeans` says of levels."""

    mean: np.ndarray
    derivative: np.ndarray
    unknown: np.ndarray
    infinite: np.ndarray


class AverageSlope(NamedTuple):
    """The mean derivative of a response by a column of numbers, and its derivative by the coefficients, [p]."""

    mean: float
    derivative: np.ndarray
