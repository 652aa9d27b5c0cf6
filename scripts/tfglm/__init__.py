"""tfglm: generalised linear models on airline-size CSV files. The scripts beside this folder are its command line."""

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfglm.model import Model

__version__ = "0.1.0"
"""That of the release; pyproject.toml reads it here."""

ENGINE = "18"
"""Raised whenever the same input can give other numbers; a parameter of the rules, so that old results are made anew."""


def load(folder: str | PathLike[str]) -> "Model":
    """The fitted model in a folder results/<name>/models/<model> (`model.Model`)."""
    # Here, as the Snakefile imports this file in an environment without pandas.
    from tfglm.model import Model

    return Model(folder)
