"""The covariance of averages over rows beside absorbed factors.

An average has derivatives g by the reported coefficients b and h by the absorbed effects a (engine.averages). With M and Z of
solvers.sparse_information it changes by

    g'db + h'da = (g - Z'h)'db + h'(da + Z db).

Classical errors of the two parts are not correlated. The second has the variance h'M^-h, and each row adds d'M^-h times its
score, where d marks the absorbed levels of the row. So it behaves as the coefficient of one more column, d'M^-h / h'M^-h, and all
kinds of errors are those of a fit that has such columns. They are one for each independent h, made orthonormal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import cast

import numpy as np
import scipy.linalg

from tfglm.design.parametrisation import NEGLIGIBLE
from tfglm.distribute.local import ThreadedExecutor
from tfglm.engine.workload import Workload
from tfglm.inference.bread import Bread
from tfglm.inference.classical import Classical
from tfglm.inference.covariance import Covariance
from tfglm.inference.fitted import ALIASED, FREE, REFERENCE, Fitted
from tfglm.solvers import origin
from tfglm.solvers.absorbed import AbsorbedObjective
from tfglm.solvers.cluster_sums import Columns
from tfglm.solvers.covariance import with_errors
from tfglm.solvers.information import Blocks, Factored
from tfglm.solvers.objective import NOT_FACTORED, Solution
from tfglm.solvers.run import Run
from tfglm.solvers.sparse_information import SparseBlocks, SparseFactored, eliminate, solved

DEPENDENT = 1e-12
"""Share of the largest h below which what others leave of one is a rounding error."""


@dataclass(frozen=True)
class WithEffects(SparseFactored):
    """Factored blocks with further columns for averages: r of them beside q coefficients. Their `projection` is [m, q + r].
    `columns` [q + r, q + r] turns the columns of these blocks into those of the estimates, whose `inverse` information it is."""

    columns: np.ndarray
    inverse: np.ndarray

    def schur_inverse(self) -> np.ndarray:
        """S^-1, which leverages need: the columns for averages are combinations of absorbed ones, and add nothing to these."""
        return np.pad(super().schur_inverse(), (0, len(self.inverse) - len(self.factor)))

    def bread(self) -> Bread:
        dense, more, none = self.blocks.dense, len(self.inverse) - len(self.factor), np.zeros(0)
        places = np.concatenate([dense, self.blocks.eliminated[0] + np.arange(more)])
        return Bread(places, none.astype(int), self.inverse, np.zeros((len(places), 0)), none)


@dataclass(frozen=True, kw_only=True)
class AveragedObjective(AbsorbedObjective):
    """An objective with a column for each of the functionals h of absorbed effects, `functionals` [m, r], with the `projection` Z
    [m, q] at the estimates."""

    functionals: np.ndarray
    projection: np.ndarray

    def factored(self, blocks: Blocks, near: Factored = NOT_FACTORED) -> WithEffects:
        """For other weights, as those of the null model, the columns have a covariance of their own, also with b."""
        inner = super().factored(blocks, near)
        assert isinstance(inner.blocks, SparseBlocks)
        moved = solved(inner.blocks, self.functionals, self.design.model)
        squares, crossed = self.functionals.T @ moved, self.functionals.T @ (self.projection - inner.projection)
        inverse, none = inner.schur_inverse(), np.zeros((len(inner.factor), len(squares)))
        root = np.block([[np.eye(len(inverse)), none], [crossed, squares]])
        middle = np.block([[inverse, none], [none.T, np.linalg.inv(squares)]])
        projection = np.hstack([inner.projection, -moved])
        return WithEffects(inner.blocks, inner.factor, projection, np.linalg.inv(root), root @ middle @ root.T)

    def reported(self, factored: Factored) -> Factored:
        return factored

    def columns_by_cluster(
        self, bread: Bread, null: Solution, clusters: Sequence[np.ndarray], with_matrices: bool
    ) -> list[Columns]:
        columns = cast(WithEffects, null.information).columns
        return [each.combined(columns) for each in super().columns_by_cluster(bread, null, clusters, with_matrices)]


def errors_of_averages(
    workload: Workload, fitted: Fitted, derivatives: np.ndarray, threads: int = 1
) -> tuple[np.ndarray, Covariance]:
    """The covariance of averages, of the kind that the design asks for.

    `workload` has the rows of the likelihood of the fit, and `derivatives` [averages, p] are those by its coefficients. The
    number of `threads` changes no bit. Returns the derivatives by the reported coefficients and r further ones, [averages,
    reported + r], and the covariance of all these. Raises UserError as `solved` does.
    """
    design, executor = workload.design, ThreadedExecutor(threads)
    start, reported = AbsorbedObjective.of(origin.counted(workload, executor), Run(executor)), design.reported_size
    # Coefficients held at 0 are free here: an average that depends on the choice of those held is not estimable.
    every = np.where(np.isin(fitted.status, (REFERENCE, ALIASED)), FREE, fitted.status)
    of_every = replace(start, status=every)
    point = of_every.at(fitted.coefficients - origin.shift(replace(start, status=fitted.status)))
    blocks = point.information
    assert isinstance(blocks, SparseBlocks)
    projection = eliminate(blocks, design.model)[1]
    on_absorbed = derivatives[:, reported:].T
    directions, sizes, order = scipy.linalg.qr(on_absorbed, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(sizes))
    rank = int(np.count_nonzero(diagonal > DEPENDENT * diagonal.max(initial=0.0)))
    functionals, shares = directions[:, :rank], np.zeros((len(derivatives), rank))
    shares[order] = sizes[:rank].T
    root = np.linalg.cholesky(functionals.T @ solved(blocks, functionals, design.model))
    functionals = np.linalg.solve(root, functionals.T).T
    own = derivatives[:, :reported].copy()
    own[:, blocks.dense] -= on_absorbed.T @ projection
    own[np.abs(own) <= NEGLIGIBLE * np.abs(derivatives).max(axis=1, keepdims=True)] = 0.0
    is_free = fitted.status[blocks.dense] == FREE
    projection = projection[:, is_free]
    objective = AveragedObjective(
        **{each.name: getattr(start, each.name) for each in fields(start)} | {"status": fitted.status},
        functionals=functionals,
        projection=projection,
    )
    kept = replace(blocks, dense=blocks.dense[is_free], a=blocks.a[np.ix_(is_free, is_free)], b=blocks.b[is_free])
    information = objective.factored(kept, SparseFactored(kept, NOT_FACTORED.factor, projection))
    before = fitted.covariance
    classical = Classical(bread=information.bread(), dispersion=before.dispersion, df_residual=before.df_residual)
    at_estimates = Solution(objective, point, information, effective=objective.estimated)
    covariance = with_errors(classical, at_estimates) if before.is_known else classical
    return np.hstack([own, shares @ root]), covariance
