"""The rows of a network as a task that a worker runs: TensorFlow's graphs on a worker read its shards by it."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfglm.distribute.tasks import registered

KIND = "rows of a network"


@registered(KIND)
def rows_of_units(design: str, settings: Mapping[str, Any]) -> Callable[..., np.ndarray]:
    """Return a function that reads the training rows of a unit that take part (`networks.rows.NetworkRows`).

    It returns one vector: the groups of all rows, then their numbers. The settings are `networks.sources.Sources.words`, and
    whether to `cache` the rows.
    """
    # Slow to import, and workers that fit a regression never need them.
    from tfglm.networks.sources import Sources

    (units,) = Sources.of(settings).units("train")

    @functools.lru_cache(maxsize=None if settings["cache"] else 0)
    def rows(number: int) -> np.ndarray:
        of_unit = units.train(number)
        return np.concatenate([of_unit.groups.ravel(), of_unit.numbers.ravel()], dtype=np.float64)

    return lambda state, number: rows(int(number[0]))
