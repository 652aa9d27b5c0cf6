"""What averages over rows estimate, for modules that do not add rows."""

from typing import NamedTuple

import numpy as np


class AveragesByLevel(NamedTuple):
    """The means of a response by the level of a factor, [levels], and their derivatives by the coefficients, [levels, p], with
    what `LevelMeans` says of levels. The mean response and a mean slope are those of one level."""

    mean: np.ndarray
    derivative: np.ndarray
    unknown: np.ndarray
    infinite: np.ndarray
