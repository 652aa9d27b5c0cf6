"""Inference from few or unequal clusters: CR2 with Satterthwaite degrees of freedom, and AHT tests.

Notation: W are the working weights of the fit. For cluster g,

- X~_g = W_g^1/2 X_g are its rows, and e_g are its residuals times W_g^-1/2
- K_g = X~_g'X~_g is its information matrix, and s_g = X~_g'e_g is its score
- M = (sum K_g)^-1 = L L', C_g = L'K_gL (these sum to the identity), and u_g = L's_g

CR2 (Bell & McCaffrey, Survey Methodology 28, 2002; Pustejovsky & Tipton, Journal of Business & Economic Statistics 36, 2018) is
V = M [sum_g X~_g'A_g e_g e_g'A_g X~_g] M. The A_g make V unbiased under a working model. The working model here is a random
intercept: Phi_g = I + rho z_g z_g' with z_g = W_g^1/2 1. Independent rows (rho = 0) would overstate the degrees of freedom of
a covariate that is constant within clusters. Such a covariate has a single observation for each cluster, and effectively fewer
if clusters are unequal (Imbens & Kolesar, Review of Economics and Statistics 98, 2016).

The computation needs no rows. If a vector a gives X a = 1, then z_g = X~_g a. Then Phi_g, the variance Psi_g of the residuals
and A_g are the identity outside the range of X~_g. Let O_g be an orthonormal basis of this range, C_g = B_g'B_g by a pivoted
Cholesky factorisation, and alpha = L^-1 a. Then

    O_g'X~_g L = B,  O_g'z_g = t = B alpha,  B'O_g'e_g = u_g,  y_g = L'X~_g'z_g = C_g alpha,

    Phi_g = I + rho t t',  Psi_g = Phi_g - Phi_g B B' - B B' Phi_g + B (I + rho sum_k y_k y_k') B',
    A_g = Phi_g^1/2 (Phi_g^1/2 Psi_g Phi_g^1/2)^-1/2 Phi_g^1/2,

The root is a pseudo-inverse if cluster g alone determines a direction (an eigenvalue 1 of C_g).

A penalty b'Pb / 2 is the prior that b varies with the covariance phi P^-1. It is as if there were further rows P^1/2 with the
response 0, independent and with the known variance phi. They belong to no cluster: M = (sum K_g + P)^-1, all else stays, and
V has phi M P M beside it. So V is unbiased, on average over the prior. (refund's gam_sandwich_cluster_cl2 adjusts the
residuals of a gam in this way too, for rho = 0.)
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse

from tfglm.inference.bread import square
from tfglm.inference.clustered import Clustered
from tfglm.inference.reference import AS_MANY, DETERMINED_ALONE, FEWEST, SEEN, Fewest, Reference
from tfglm.inference.wild import FEWEST_CLUSTERS, MOST_CLUSTERS, wild_bootstrap

DETERMINED = 1e-8
"""A cluster determines a direction alone if its residuals keep less than this share of the variance of the direction."""

ABSENT = 1e-12
"""Pivot of C_g below which cluster g has no rows in a direction."""

ROUNDS = 5
"""Rounds until the weights of the clusters for rho settle."""


AT_ONCE = 16
"""Clusters in a block of the computation. Larger blocks lose more time to fresh memory than they save."""

CANCELLED = 1e-4
"""Share of its parts below which a sum of squares has lost too many digits."""

LONGEST_AHT = 1e12
"""Largest product of clusters and squared numbers of coefficients, in all and in a test, for the degrees of freedom of the
test; half of these products are computed."""

LARGEST_BLOCK = 2**21
"""Numbers in a block of contrasts, for all clusters and coefficients."""

TILE = 2**20
"""Size of the tiles of a joint test, which are summed, if there are no more coefficients than its root."""


class ClosestWishart(NamedTuple):
    """How a CR2 variance varies under the working model.

    `df` are the degrees of freedom of the closest chi-squared or Wishart distribution. `share` is the smallest ratio of the
    expected to the true variance. It is below 1 only if single clusters determine a direction.
    """

    df: float
    share: float


@dataclass(frozen=True, eq=False)
class ClusterModel:
    """The working model of n free coefficients: `information` = K [clusters, n, n], `constant` = a [n] and `rho`. `constant`
    is 0 if no a exists. `penalty` is the diagonal of P [n]."""

    information: np.ndarray
    constant: np.ndarray
    rho: float = 0.0
    penalty: np.ndarray | None = None

    @cached_property
    def _whole(self) -> np.ndarray:
        """M^-1."""
        whole = self.information.sum(0)
        return whole if self.penalty is None else whole + np.diag(self.penalty)

    @cached_property
    def _root(self) -> np.ndarray:
        """L^-T, the lower Cholesky factor of M^-1."""
        return np.linalg.cholesky(self._whole)

    def _whitened(self, vectors: np.ndarray) -> np.ndarray:
        """L' times each vector, [vectors, n]."""
        return scipy.linalg.solve_triangular(self._root, vectors.T, lower=True).T

    @cached_property
    def _constants(self) -> np.ndarray:
        """All y_g, [clusters, n]."""
        return self._whitened(self.information @ self.constant)

    def _bases(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """B_g = O_g'X~_g L [rank, n] for each cluster, and the order of columns that makes its left part triangular."""
        left = self._whitened(np.eye(len(self._root))).T
        # Smaller pivots of C_g are rounding errors.
        rounding = np.abs(left @ self._whole @ left.T - np.eye(len(left))).max()
        for matrix in self.information:
            factor, places, rank, _ = scipy.linalg.lapack.dpstrf(left @ matrix @ left.T, tol=max(ABSENT, rounding))
            order = places - 1
            basis = np.zeros((rank, len(left)))
            basis[:, order] = np.triu(factor)[:rank]
            yield basis, order

    @cached_property
    def _between(self) -> tuple[np.ndarray, np.ndarray]:
        """The eigenvalues and eigenvectors of J = I - rho sum_k y_k y_k'."""
        return np.linalg.eigh(np.eye(len(self._root)) - self.rho * self._constants.T @ self._constants)

    def _roots(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """The results of `_bases`, B_g in the basis of the eigenvectors of J, and H_g [rank, rank] with A_g = H_g H_g'."""
        alpha, (signs, turn) = self.constant @ self._root, self._between
        for (basis, order), y in zip(self._bases(), self._constants, strict=True):
            # Psi_g = 1 - B_g J B_g' + rho (t t' - t (B_g y_g)' - (B_g y_g) t').
            t, turned = basis @ alpha, basis @ turn
            psi = np.eye(len(t)) - (turned * signs) @ turned.T
            psi += self.rho * (np.outer(t, t) - symmetric(t, basis @ y))
            # Phi_g^1/2 = 1 + scale t t'.
            size = float(t @ t)
            scale = (np.sqrt(1 + self.rho * size) - 1) / (size or 1.0)
            of_t = psi @ t
            psi += scale * symmetric(t, of_t) + scale**2 * (t @ of_t) * np.outer(t, t)
            left, vectors = np.linalg.eigh(psi)
            good = left > DETERMINED
            half = vectors * np.where(good, np.where(good, left, 1.0) ** -0.25, 0.0)
            yield basis, order, turned, half + np.outer(scale * t, t @ half)

    @cached_property
    def _factors(self) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """What contrasts need: A_g B_g and B_g [rank, n] for each cluster, and the directions that single clusters determine
        [directions, n]. B_g is in the basis of the eigenvectors of J."""
        factors, determined = [], [np.zeros((0, len(self._root)))]
        for basis, _, turned, half in self._roots():
            factors.append(((half @ half.T) @ basis, turned))
            determined.append(determined_by(basis))
        return factors, np.concatenate(determined)

    def adjusted(self, scores: np.ndarray) -> np.ndarray:
        """The scores Z [clusters, n] of CR2, from the raw scores s_g [clusters, n]. Then V = M Z'Z M."""
        result = np.empty_like(scores)
        whitened = self._whitened(scores)
        for cluster, (basis, order, _, half) in enumerate(self._roots()):
            first = order[: len(basis)]
            residuals = scipy.linalg.solve_triangular(basis[:, first], whitened[cluster, first], trans="T")
            result[cluster] = basis.T @ (half @ (half.T @ residuals))
        return result @ self._root.T

    def with_rho(self, scores: np.ndarray, dispersion: float) -> "ClusterModel":
        """The working model with rho estimated from the sums of the residuals of each cluster. Under the working model, the
        expected square of such a sum is n_g - |y_g|^2 + rho sum_k N_gk^2 with N_gk = [g = k] n_g - y_g'y_k, in units of the
        dispersion."""
        if not self.constant.any():
            return self
        y = self._constants
        sizes = y @ (self.constant @ self._root)
        squares = (scores @ self.constant) ** 2 / dispersion
        independent = sizes - np.einsum("gi,gi->g", y, y)
        common = np.sum((np.diag(sizes) - y @ y.T) ** 2, axis=1)
        rho = 0.0
        for _ in range(ROUNDS):
            weights = 1.0 / (1.0 + rho * sizes) ** 2
            rho = max(0.0, float(weights @ (squares - independent) / (weights @ common)))
        return replace(self, rho=rho)

    def _expected(self, directions: np.ndarray) -> np.ndarray:
        """The variance of the contrasts under the working model, [q, q]."""
        moved = self._constants @ directions
        return directions.T @ directions + self.rho * moved.T @ moved

    def _biases(self, directions: np.ndarray) -> np.ndarray:
        """The part of P in this variance, [q, q]."""
        if self.penalty is None:
            return np.zeros((directions.shape[1],) * 2)
        moved = scipy.linalg.solve_triangular(self._root, directions, lower=True, trans="T")
        return moved.T @ (self.penalty[:, None] * moved)

    @cached_property
    def _known(self) -> dict[tuple[bytes, float], np.ndarray]:
        """The results of `satterthwaite` so far. Several tables have the same contrasts."""
        return {}

    def satterthwaite(self, contrasts: np.ndarray, enough: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        """The `ClosestWishart` of each contrast, [contrasts, n], as two arrays, NaN for a contrast of zeros. Degrees of freedom
        of `enough` or more may be a lower bound that is `enough` too."""
        keys = [(contrast.tobytes(), enough) for contrast in contrasts]
        new = {key: contrast for key, contrast in zip(keys, contrasts, strict=True) if key not in self._known}
        if new:
            self._known.update(zip(new, self._spreads(np.stack(list(new.values())), enough), strict=True))
        df, share = np.array([self._known[key] for key in keys]).reshape(-1, 2).T
        return df, share

    def _spreads(self, contrasts: np.ndarray, enough: float) -> np.ndarray:
        """The same for contrasts c that are not known yet, [contrasts, 2].

        With V = sum_g (p_g'e)^2 and P_gh = p_g'Phi p_h, df = (trace P)^2 / |P|^2. Since p_g = (I - H)_g A_g X~_g M c,
        P = diag(h_g'h_g) - m m' + rho N N' with N = diag(alpha'm_g) - m y'. The part of a penalty in V is known, so it adds to
        the trace alone.
        """
        result = np.full((len(contrasts), 2), np.nan)
        clusters, n = self.information.shape[:2]
        signs, turn = self._between
        y, alpha = self._constants @ turn, self.constant @ self._root @ turn
        whitened = self._whitened(contrasts)
        for some in slices(len(contrasts), LARGEST_BLOCK // (clusters * n)):
            directions = whitened[some]
            moved, own = np.empty((len(directions), clusters, n)), np.empty((len(directions), clusters))
            for cluster, (adjusted, basis) in enumerate(self._factors[0]):
                residuals = adjusted @ directions.T
                own[:, cluster] = np.einsum("rc,rc->c", residuals, residuals)
                np.matmul(residuals.T, basis, out=moved[:, cluster])
            zeta = moved @ alpha
            own += self.rho * zeta**2
            expected = np.sum(directions**2, axis=1) + self.rho * np.sum((directions @ self._constants.T) ** 2, axis=1)
            for place, direction in enumerate(directions):
                if not direction.any():
                    continue
                # P = diag(h_g'h_g + rho zeta^2) - m q' - q m' with q = m J / 2 + rho diag(zeta) y.
                m, diagonal = moved[place], own[place]
                q = m * (signs / 2) + self.rho * zeta[place][:, None] * y
                itself = 2 * np.einsum("gi,gi->g", m, q)
                trace = float(np.sum(diagonal - itself)) + float(self._biases(direction[:, None])[0, 0])
                most = float(np.linalg.norm(diagonal) + 2 * np.linalg.norm(m) * np.linalg.norm(q)) ** 2
                squares = most
                if trace**2 / enough < most:
                    # Without many clusters, P itself is as cheap, and more precise.
                    crossed = 2 * squared_sum(m, q) if clusters > 2 * n else -np.inf
                    squares = float(diagonal @ (diagonal - 2 * itself)) + crossed
                if squares < CANCELLED * most:
                    among = m @ q.T
                    squares = float(np.sum((np.diag(diagonal) - among - among.T) ** 2))
                df = trace**2 / squares if trace > 0 else 0.0
                result[some.start + place] = df, trace / expected[place]
        return result

    def determined_share(self, contrasts: np.ndarray) -> np.ndarray:
        """The share of the variance of each contrast, [contrasts, n], in directions that single clusters determine."""
        whitened = self._whitened(contrasts)
        with np.errstate(invalid="ignore"):
            return np.sum((whitened @ self._factors[1].T) ** 2, axis=1) / np.sum(whitened**2, axis=1)

    def hotelling(self, contrasts: np.ndarray, enough: float = np.inf) -> ClosestWishart:
        """The degrees of freedom eta of a joint test of q independent contrasts, [q, n]. If they are `enough` or more, they may
        be a lower bound that is `enough` too.

        eta belongs to a Wishart distribution. The variances of its entries have the same sum as the variances of the entries
        of the CR2 covariance matrix under the working model (AHT, Pustejovsky & Tipton 2018: their HTZ). With a Wald statistic
        Q from CR2, (eta - q + 1) / (eta q) Q is compared with F(q, eta - q + 1).
        """
        (clusters, n), q = self.information.shape[:2], len(contrasts)
        if q == 1:
            df, share = (float(value[0]) for value in self.satterthwaite(contrasts, enough))
            return ClosestWishart(df / max(share, ABSENT) ** 2, share)
        directions = self._whitened(contrasts).T
        # Under the working model, these directions are uncorrelated with variance 1.
        directions = directions @ np.linalg.inv(np.linalg.cholesky(self._expected(directions))).T
        # T_gh = [g = h] own_g - G_gh - R_gh, G_gh = m_g'J m_h, R_gh = rho (zeta_g (y_g'm_h) + (m_g'y_h) zeta_h').
        # G_gh + R_gh = m_g'h_h + h_g'm_h with h = J m / 2 + rho y zeta'. The sum is over trace(T_gh)^2 + trace(T_gh T_gh).
        # All vectors are in the basis of the eigenvectors of J.
        rho, (signs, turn) = self.rho, self._between
        y, alpha = self._constants @ turn, self.constant @ self._root @ turn
        moved, halves = (np.empty((clusters, q, n)) for _ in range(2))
        zeta, traces, expected, total = np.empty((clusters, q)), np.zeros((clusters, clusters)), np.zeros((q, q)), 0.0
        for cluster, (adjusted, basis) in enumerate(self._factors[0]):
            residuals = adjusted @ directions
            m = np.matmul(residuals.T, basis, out=moved[cluster])
            zeta[cluster] = m @ alpha
            halves[cluster] = m * (signs / 2) + rho * np.outer(zeta[cluster], y[cluster])
            own = residuals.T @ residuals + rho * np.outer(zeta[cluster], zeta[cluster])
            crossed = m @ halves[cluster].T
            crossed += crossed.T.copy()
            expected += own - crossed
            total += float(np.sum(own * (own - 2 * crossed)))
            traces[cluster, cluster] = np.trace(own)
        share = float(np.linalg.eigvalsh(expected + self._biases(directions))[0])
        among = moved.reshape(clusters, -1) @ halves.reshape(clusters, -1).T
        total += float(np.sum((traces - among - among.T) ** 2))
        if np.isfinite(enough):
            # trace(T_gh T_gh) is at most the sum of the squares of T_gh.
            squares = 2 * squared_sum(moved.reshape(-1, n), halves.reshape(-1, n))
            bound = total + squares
            if bound > CANCELLED * squares and q * (q + 1) >= enough * bound:
                return ClosestWishart(q * (q + 1) / bound, share)
        del halves
        for some in slices(clusters, AT_ONCE) if rho else ():
            weighted = moved[some] * signs
            of_others = (y[some] @ moved.reshape(-1, n).T).reshape(-1, clusters, q)  # y_g'm_h, [g, h, q]
            of_these = np.matmul(y, moved[some].transpose(0, 2, 1))  # y_h'm_g, [g, h, q]
            by_zeta = np.matmul(of_others, zeta[some][:, :, None])
            both = np.einsum("ghq,ghq->gh", of_others, of_these) * (zeta[some] @ zeta.T)
            total += 2 * rho**2 * float(np.sum(by_zeta**2) + np.sum(both))
            left = np.matmul(of_others, weighted)  # J m_g (m_h'y_g), [g, h, n]
            total += 4 * rho * float(np.einsum("ghi,hgi->", left, np.matmul(zeta[some], moved)))
        return ClosestWishart(q * (q + 1) / (total + squared_traces(moved, signs)), share)


@dataclass(frozen=True, eq=False, kw_only=True)
class CR2(Clustered):
    """CR2 with n = q + m free coefficients; `scores` are the adjusted ones.

    - `raw_scores` [clusters, n] are those before the adjustment; None if there is no bootstrap, as with a penalty.
    - `information_of_clusters` [clusters, n (n + 1) / 2] are the lower triangles of the information matrices of the clusters.
      `linear` are the same for a linear regression whose rows have a mean weight of 1.
    - `constant` [n] and `rho` define the working model.
    """

    information_of_clusters: np.ndarray
    linear: np.ndarray
    constant: np.ndarray
    rho: float
    raw_scores: np.ndarray | None = None

    kind: ClassVar[str] = "cr2"

    @cached_property
    def model(self) -> ClusterModel:
        return ClusterModel(square(self.information_of_clusters), self.constant, float(self.rho), penalty=self.penalty)

    @cached_property
    def linear_model(self) -> ClusterModel:
        """The same for a linear regression on the same columns, clusters and prior weights, with rho = 1.

        The rows of a cluster then share half of the variance. The response does not enter. The result decides which tests by
        cluster are reported.
        """
        information, penalty = square(self.linear), self.penalty
        if penalty is not None:
            # The weights have another mean, so the penalty has another unit.
            penalty = penalty * np.trace(information.sum(0)) / np.trace(self.model.information.sum(0))
        return ClusterModel(information, self.constant, 1.0, penalty=penalty)

    def reference(self, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST, exactly: bool = True) -> Reference:
        """t with Satterthwaite's degrees of freedom, or the wild cluster bootstrap."""
        if not exactly:
            return Reference(self.effective_clusters(transform), True, self.unseen(transform), fewest.df)
        contrasts = self.bread.on_free(transform)
        df, _ = self.model.satterthwaite(contrasts)
        df_by_design, share = self.linear_model.satterthwaite(contrasts, enough=fewest.df)
        few = (df_by_design >= AS_MANY * fewest.df_wild) & (df_by_design < AS_MANY * fewest.df) & (share >= SEEN)
        wild = {}
        if FEWEST_CLUSTERS <= self.count <= MOST_CLUSTERS and self.raw_scores is not None:
            wild = wild_bootstrap(self.bread, self.model.information, self.raw_scores, contrasts, np.flatnonzero(few))
        needed = fewest.df if self.count <= MOST_CLUSTERS else min(fewest.df, fewest.df_many)
        return Reference(
            df,
            True,
            share < SEEN,
            needed,
            df_by_design=df_by_design,
            wild=wild,
            count=self.count,
            prints_all=fewest.prints_all,
        )

    def unseen(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        return self.linear_model.determined_share(self.bread.on_free(transform)) > 1 - SEEN

    def _needed_jointly(self, coefficients: int, fewest: Fewest) -> float:
        return coefficients - 1 + max(fewest.df_joint, coefficients)

    def _joint_degrees(
        self, transform: scipy.sparse.csr_array, needed: float, always: bool
    ) -> tuple[float, float] | str:
        """Those of AHT, or a lower bound where that is enough; those of the fit only where there is a test, or `always`."""
        contrasts = self.bread.on_free(transform)
        if self.count * contrasts.shape[1] ** 2 * len(contrasts) ** 2 > LONGEST_AHT:
            return "the degrees of freedom of a test by cluster would take too long"
        by_design, share = self.linear_model.hotelling(contrasts, enough=AS_MANY * needed)
        if share < SEEN:
            return DETERMINED_ALONE
        return self.model.hotelling(contrasts).df if always or by_design >= AS_MANY * needed else by_design, by_design


def slices(size: int, at_once: int) -> Iterator[slice]:
    step = max(1, at_once)
    return (slice(first, first + step) for first in range(0, size, step))


def squared_sum(first: np.ndarray, second: np.ndarray) -> float:
    """Half the squared norm of first second' + second first', for two matrices [rows, n]."""
    crossed = first.T @ second
    return float(np.vdot(first.T @ first, second.T @ second) + np.einsum("ij,ji->", crossed, crossed))


def symmetric(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The matrix first second' + second first' of two vectors."""
    return np.outer(first, second) + np.outer(second, first)


def determined_by(basis: np.ndarray) -> np.ndarray:
    """The directions [directions, n] that a cluster determines alone: eigenvectors of C_g = B_g'B_g with eigenvalue 1."""
    try:
        # Most clusters determine no direction. This check costs a tenth of the eigenvectors.
        np.linalg.cholesky((1 - DETERMINED) * np.eye(len(basis)) - basis @ basis.T)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(basis.T @ basis)
        return vectors[:, values > 1 - DETERMINED].T
    return np.zeros((0, basis.shape[1]))


def squared_traces(turned: np.ndarray, signs: np.ndarray) -> float:
    """The sum of trace(G_gh G_gh) over pairs of clusters, with G_gh = F_g diag(signs) F_h' and F = `turned` [clusters, q, n].

    It is summed over pairs of the q contrasts, because there are more clusters. It is summed in tiles, because a matrix of all
    pairs would not fit into memory.
    """
    clusters, q, n = turned.shape
    plain = turned.reshape(clusters, -1)
    step = max(1, int(TILE**0.5 / n))
    tile = np.empty((step * n) ** 2)
    total = 0.0
    for first in range(0, q, step):
        left = (turned[:, first : first + step] * signs).reshape(clusters, -1)
        for second in range(first, q, step):
            right = plain[:, second * n : (second + step) * n]
            shape = left.shape[1], right.shape[1]
            among = np.matmul(left.T, right, out=tile[: shape[0] * shape[1]].reshape(shape))
            among = among.reshape(-1, n, shape[1] // n, n)
            total += (1 if first == second else 2) * float(np.einsum("sitj,sjti->", among, among))
    return total
