"""How a fit is carried out, whatever it fits: who sums over the rows, who hears of it, and when it ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tfglm.config import SolverConfig
from tfglm.distribute.executor import Executor


def _nobody(*_: object) -> None:
    pass


@dataclass(frozen=True)
class Reporter:
    """What a solver says while it works.

    `tell` is a line now and then for whoever waits, and `live` one that the next line replaces. `note` goes to the log.
    `record(step, values)` adds to curves. `advance(done, of)` counts iterations, epochs or penalties.
    """

    tell: Callable[[str], None] = _nobody
    live: Callable[[str], None] = _nobody
    note: Callable[[str], None] = _nobody
    record: Callable[[int, Mapping[str, float]], None] = _nobody
    advance: Callable[[int, int], None] = _nobody


@dataclass(frozen=True)
class Limits:
    """The sizes of data and model from which on a fit is done in another way.

    The first steps are taken on `sample_share` of the rows; on more if these are fewer than `sample_rows`, or than
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


@dataclass(frozen=True)
class Run:
    """The `executor` sums over the rows, the `settings` name the solver, the `reporter` hears how far it is."""

    executor: Executor
    settings: SolverConfig = field(default_factory=SolverConfig)
    reporter: Reporter = Reporter()
    limits: Limits = Limits()

    @property
    def max_iterations(self) -> int:
        """Steps after which a search ends, converged or not. After an online solver alone it is 0: a search then only tells how
        far the minimum is."""
        return self.settings.max_iterations if self.settings.is_exact else 0
