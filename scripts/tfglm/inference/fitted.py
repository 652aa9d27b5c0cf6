"""A fitted model: the estimates by coefficient, and their covariance."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tfglm.design.design import Design
from tfglm.design.parametrisation import NEGLIGIBLE
from tfglm.errors import UserError
from tfglm.inference.covariance import Covariance

FREE, REFERENCE, ALIASED, SEPARATED, EMPTY, AT_BOUND = range(6)
"""The status of a coefficient. REFERENCE and ALIASED coefficients are held at 0. SEPARATED coefficients have no finite estimate.
EMPTY coefficients have no rows after the rows of separated groups are dropped. AT_BOUND coefficients are held at a bound."""


@dataclass(frozen=True, eq=False)
class JointSeparation:
    """Rows that terms separate together.

    `directions` [directions, p] separate them. The first direction moves all separated rows. The others and `Fitted.null_vectors`
    span all directions that change no prediction for the rows of the likelihood. `movements` [rows, others] says how far the
    other directions move each separated row towards its response. Equal rows appear once.
    """

    directions: np.ndarray
    movements: np.ndarray


@dataclass(frozen=True, eq=False)
class FittedPath:
    """The `coefficients` [penalties, p] for all `penalties` of a path."""

    penalties: np.ndarray
    coefficients: np.ndarray


@dataclass(frozen=True, eq=False)
class Fitted:
    """Estimates on the scale of the fit (numbers centred and scaled as in the design).

    - `coefficients`, `status` and `rows` are [p]. `responses` [p] sums the response by group; for terms without groups, over
      all rows.
    - `null_vectors` [directions, p] are directions that change no prediction.
    - `covariance` is that of the free coefficients.
    - `separation` are the rows that terms separate together, `path` the fits of a path of penalties; None without any.
    - `summary` is what fit.json reports.
    """

    coefficients: np.ndarray
    status: np.ndarray
    rows: np.ndarray
    responses: np.ndarray
    null_vectors: np.ndarray
    covariance: Covariance
    separation: JointSeparation | None = None
    path: FittedPath | None = None
    summary: dict = field(default_factory=dict)

    def reported(self, design: Design) -> "Fitted":
        """The fit without the coefficients of absorbed factors, which have no covariance."""
        if not design.absorbed:
            return self
        shown = slice(0, design.reported_size)
        by_term = {name: getattr(self, name)[shown] for name in ("coefficients", "status", "rows", "responses")}
        separation = self.separation and replace(self.separation, directions=self.separation.directions[:, shown])
        return replace(self, **by_term, separation=separation)

    def without_errors(self) -> "Fitted":
        """The fit without standard errors, for one that has not converged. All tables then have estimates only."""
        return replace(self, covariance=replace(self.covariance, dispersion=np.nan))

    def estimable(self, rows: np.ndarray) -> np.ndarray:
        """Which combinations of the coefficients [rows, p] can be estimated, [rows].

        A combination is estimable if it is constant along every direction that changes no prediction for the rows of the
        likelihood. The largest entry of a direction is about 1, and its rounding errors are far below NEGLIGIBLE. So they are
        compared with the largest weight of the combination.
        """
        others = self.separation.directions[1:] if self.separation else ()
        largest = np.abs(rows).max(axis=1, initial=0.0)
        along = np.abs(rows @ np.vstack([self.null_vectors, *others]).T)
        return (along <= NEGLIGIBLE * largest[:, None]).all(axis=1)


def choose_references(design: Design, status: np.ndarray, requested: Mapping[str, str]) -> dict[str, int]:
    """Return the number of the reference level of each categorical factor. Absorbed factors and the response have none. `status`
    [p] is that of the coefficients; levels without a finite estimate are no reference."""
    chosen = {}
    for factor in design.reported.categorical:
        if factor.name == design.roles.response:
            continue
        finite = np.zeros(len(factor.levels), bool)
        parts = [part for part in design.parts if factor.name in part.grouping]
        # A factor's own part, if it has one, decides.
        for part in sorted(parts, key=lambda part: len(part.grouping))[:1]:
            numbers = design.levels(part.grouping)[:, part.grouping.index(factor.name)]
            finite[numbers[np.isin(status[part.where], (FREE, REFERENCE, ALIASED))]] = True
        wanted = requested.get(factor.name, factor.reference)
        if wanted is None:
            chosen[factor.name] = int(np.argmax(finite))
            continue
        chosen[factor.name] = factor.levels.index(wanted)
        if not finite[chosen[factor.name]]:
            raise UserError(
                f"models.{design.model}.reference.{factor.name}: `{wanted}` cannot be the reference level: "
                f"its training responses are all alike, so every difference from it is infinite\n"
                f"  choose another level, or leave the key out"
            )
    return chosen
