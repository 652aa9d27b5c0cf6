"""The tables of a network, by name."""

import numpy as np
import pandas as pd

from tfglm import bundle, checkpoint
from tfglm.config import ResultsConfig
from tfglm.networks import embeddings, linear
from tfglm.results import coefficients, estimates, saved_fit
from tfglm.results.fit_tables import Table
from tfglm.results.saved_fit import SavedFit


def _weights(saved: SavedFit) -> dict[str, np.ndarray]:
    given = saved.arguments
    saved_fit.check(saved.fit, given.design, given.checkpoint, given.fit)
    return bundle.read(given.checkpoint / checkpoint.NETWORK)


def _coefficients(saved: SavedFit, _: ResultsConfig) -> pd.DataFrame:
    """Return the coefficients of a network without hidden layers."""
    fitted = linear.fitted(_weights(saved), saved.fit, saved.design, saved.files)
    return coefficients.table(estimates.estimated(saved.design, fitted, {}), 0.95)


TABLES: dict[str, Table] = {
    "coefficients": _coefficients,
    "embeddings": lambda saved, _: embeddings.table(saved.design, _weights(saved), saved.files),
}
"""The tables by the name of the file without `.csv`."""
