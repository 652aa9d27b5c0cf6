"""What every fit needs to run: the executor, the settings, the reporter and the limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tfglm.config import SolverConfig
from tfglm.distribute.executor import Executor


def _nobody(*_: object) -> None:
    pass


@dataclass(frozen=True)
class Reporter:
    """The messages of a solver while it works.

    `tell` prints a line for the user, and `live` prints a line that the next line replaces. `note` writes to the log.
    `record(step, values)` adds points to curves. `advance(done, of)` counts iterations, epochs or penalties.
    """

    tell: Callable[[str], None] = _nobody
    live: Callable[[str], None] = _nobody
    note: Callable[[str], None] = _nobody
    record: Callable[[int, Mapping[str, float]], None] = _nobody
    advance: Callable[[int, int], None] = _nobody


@dataclass(frozen=True)
class Limits:
    """The sizes of data and model at which a fit changes its method.

    The first steps use a sample: `sample_share` of the rows, at least `sample_rows` rows, and at least
    `sample_rows_per_coefficient` rows for each coefficient. A sample larger than `largest_sample` of the rows is not worth
    it: then the first steps use all rows.

    Standard errors by cluster use CR2 below two limits. `largest_cr2` limits clusters times coefficients squared (400 MB for
    each copy of the information matrices of all clusters). `longest_cr2` limits clusters times coefficients cubed (a minute of
    eigenvalues). Without CR2, `largest_products` limits clusters times coefficients squared if the effective clusters by the
    design use these matrices (inference.effective).
    """

    sample_share: float = 0.05
    sample_rows: int = 50_000
    sample_rows_per_coefficient: int = 20
    largest_sample: float = 0.2
    largest_cr2: float = 5e7
    longest_cr2: float = 5e10
    largest_products: float = 5e7


@dataclass(frozen=True)
class Run:
    """The `executor` sums over the rows, the `settings` name the solver, and the `reporter` receives its progress."""

    executor: Executor
    settings: SolverConfig = field(default_factory=SolverConfig)
    reporter: Reporter = Reporter()
    limits: Limits = Limits()

    @property
    def max_iterations(self) -> int:
        """Steps after which a search ends, converged or not. It is 0 after an online solver alone: the search then only
        measures the distance to the minimum."""
        return self.settings.max_iterations if self.settings.is_exact else 0
