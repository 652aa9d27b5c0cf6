"""The sizes of data and model from which on a fit is done in another way."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The first steps are taken on `sample_share` of the rows; on more if these are fewer than `sample_rows`, or than
    `sample_rows_per_coefficient`; on all rows if that would be more than `largest_sample` of them.

    Standard errors by cluster are CR2's up to `largest_cr2` (clusters times the square of the number of coefficients: 400 MB for
    each copy of the information matrices of all clusters) and `longest_cr2` (times its cube: a minute of eigenvalues).
    """

    sample_share: float = 0.05
    sample_rows: int = 50_000
    sample_rows_per_coefficient: int = 20
    largest_sample: float = 0.2
    largest_cr2: float = 5e7
    longest_cr2: float = 5e10


DEFAULTS = Limits()
