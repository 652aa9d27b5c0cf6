"""tfglm: generalised linear models on airline-size CSV files. The scripts beside this folder are its command line."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

    from tfglm.call import fit as fit
    from tfglm.model import Model

__version__ = "0.1.0"
"""That of the release; pyproject.toml reads it here."""

ENGINE = "28"
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


def pool(fits: "Sequence[Model]", confidence: float = 0.95) -> "DataFrame":
    """Return the pooled coefficients of fits of multiply imputed rows, by Rubin's rules.

    The columns are those of `coefficients`, with t tests by the degrees of freedom of Barnard and Rubin, and `fmi`, the fraction
    of missing information. Each fit has the rows of one imputation.

    Parameters
    ----------
    fits
        Two or more fits of the same model, of `tfglm.fit` or `tfglm.load`.
    confidence
        The coverage of the intervals.

    Raises
    ------
    UserError
        If the fits differ in formula, family, number of rows, levels or kind of errors, or have no standard errors.

    Examples
    --------
    >>> data = {"delay": [1.0, 7, 3, 8, 2, 6, 3, 9], "wind": [1.0, 3, 1, 4, 2, 2, 2, 5]}
    >>> imputed = [pd.DataFrame(data | {"wind": [*data["wind"][:7], value]}) for value in (4.0, 5.0, 6.0)]
    >>> tfglm.pool([tfglm.fit("delay ~ wind", rows) for rows in imputed])[["estimate", "std_error", "df"]].round(3)
    """
    from tfglm.errors import UserError
    from tfglm.model import Model, check_coverage
    from tfglm.results.pooled import pooled

    check_coverage("pool: confidence", confidence)
    if wrong := next((type(each).__name__ for each in fits if not isinstance(each, Model)), None):
        raise UserError(f"pool: expected models of `tfglm.fit` or `tfglm.load`, and one is a {wrong}")
    return pooled([each._compared(each.name) for each in fits], confidence)
