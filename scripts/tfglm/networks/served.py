"""The rows of a network as a task that a worker runs: TensorFlow's graphs on a worker read its shards by it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfglm.distribute.tasks import registered

BATCHES = "batches of a network"


@registered(BATCHES)
def batches_of_readers(design: str, settings: Mapping[str, Any]) -> Callable[..., np.ndarray]:
    """Return a function that reads the batch of a reader, an epoch and a number (`networks.cutting.OwnBatches`).

    It returns one vector: the groups of all rows, then their numbers. The settings are `networks.sources.Sources.words`, and
    those of the `batches`.
    """
    # Slow to import, and workers that fit a regression never need them.
    from tfglm.networks.cutting import OwnBatches
    from tfglm.networks.sources import Sources

    (units,) = Sources.of(settings).units("train")
    batches = OwnBatches(units, **settings["batches"])

    def read(state: Mapping[str, np.ndarray], place: np.ndarray) -> np.ndarray:
        return np.concatenate([values.ravel() for values in batches.batch(*place.tolist())], dtype=np.float64)

    return read
