"""What an objective sums by cluster for errors by cluster."""

from typing import NamedTuple, Self

import numpy as np

from tfglm.design.design import Design
from tfglm.engine.passes import Sums
from tfglm.inference import effective
from tfglm.solvers.information import assemble


class Scores(NamedTuple):
    """Scores summed by cluster: `clusters` are the numbers of the clusters with rows, `sums` [clusters, free coefficients]."""

    clusters: np.ndarray
    sums: np.ndarray


class Columns(NamedTuple):
    """The columns of the design matrix, summed by cluster (inference.effective): h_g and k_gj [clusters, free coefficients], n_g
    [clusters], and K_g [clusters, free coefficients, free coefficients] unless these are too large."""

    sums: np.ndarray
    within: np.ndarray
    sizes: np.ndarray
    matrices: np.ndarray | None

    def combined(self, columns: np.ndarray) -> Self:
        """Those of combinations `columns` [free coefficients, k]. Only the lower triangles of `matrices` are filled."""
        sums, within, matrices = self.sums @ columns, self.within @ columns**2, None
        if self.matrices is not None:
            lower = np.tril(self.matrices)
            matrices = columns.T @ (lower + np.tril(lower, -1).transpose(0, 2, 1)) @ columns
            within = effective.within(sums, np.einsum("gii->gi", matrices), self.sizes)
        return self._replace(sums=sums, within=within, matrices=matrices)


class Priors(NamedTuple):
    """The random effects that belong to clusters: their places among the free coefficients, clusters and penalties [effects].

    All rows of such an effect are in one cluster. As a row of this cluster its prior is part of the score, so that the rows of a
    cluster may be alike in any way, and the clusters are independent. (With one effect for each cluster, the covariance of the
    other coefficients is that of Liang & Zeger, Biometrika 73, 1986, with the working covariance of the mixed model.)
    """

    places: np.ndarray
    clusters: np.ndarray
    penalties: np.ndarray

    @classmethod
    def of(cls, scores: Scores, is_random: np.ndarray, penalty: np.ndarray) -> Self:
        """The priors of random effects that have rows in one cluster alone. `is_random` and `penalty` are [free coefficients]."""
        # The sum over no row is 0 exactly.
        places = np.flatnonzero(is_random & (np.count_nonzero(scores.sums, axis=0) == 1))
        return cls(places, np.argmax(scores.sums[:, places] != 0, axis=0), penalty[places])

    def added_to(self, information: np.ndarray, share: float = 1.0) -> np.ndarray:
        """The information matrices of the clusters [clusters, free, free], or their diagonals [clusters, free], with `share`
        times the penalties."""
        if not len(self.places):
            return information
        information = information.copy()
        at = (self.clusters, self.places) if information.ndim == 2 else (self.clusters, self.places, self.places)
        information[at] += share * self.penalties
        return information


def matrices_of(design: Design, sums: Sums, clusters: np.ndarray, free: np.ndarray, column: int = 0) -> np.ndarray:
    """The information matrices of clusters, [clusters, free, free], dense coefficients first, from the sums of the pass
    `cluster_information`. `clusters` are the numbers of those of the column of clusters with this number."""
    own, count = {key[:-1]: value for key, value in sums.items() if key[-1] == column}, int(free.sum())
    information = np.empty((len(clusters), count, count))
    for place, cluster in enumerate(clusters):
        information[place] = assemble(design, {key: value[cluster] for key, value in own.items()}, free).whole
    return information
