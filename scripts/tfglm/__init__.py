"""tfglm: generalised linear models on airline-size CSV files. The scripts beside this folder are its command line."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfglm.call import fit as fit
    from tfglm.model import Model
    from tfglm.model import pool as pool

__version__ = "0.1.0"
"""That of the release; pyproject.toml reads it here."""

ENGINE = "29"
"""Raised whenever the same input can give other numbers. It is a parameter of the rules, so that old results are computed
again."""


@contextmanager
def _objects_that_last() -> Iterator[None]:
    """Make objects as if they were old: the collector would scan what is imported several times, a third of the time."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        if is_enabled:
            gc.enable()


def __getattr__(name: str) -> Any:
    # Here and below: the Snakefile imports this file in an environment without pandas.
    if name == "fit":
        with _objects_that_last():
            from tfglm.call import fit
        return fit
    if name == "pool":
        from tfglm.model import pool

        return pool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(folder: str | PathLike[str]) -> "Model":
    """The fitted model in a folder results/<name>/models/<model> (`model.Model`).

    >>> tfglm.load("results/flights/models/late")
    late: late ~ carrier
    binomial, 20 rows, 2 coefficients, standard errors: classical
                     estimate  std_error   p_value  ci_lower  ci_upper status
    ...
              UA     1.252763   0.944911  0.184906 -0.599229  3.104755
    """
    from tfglm.model import Model

    return Model(folder)
