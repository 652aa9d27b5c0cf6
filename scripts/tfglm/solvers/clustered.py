"""Inference from clusters that holds where they are few or unequal: CR2 with Satterthwaite degrees of freedom, and AHT tests.

With W the working weights of the fit, let X~_g = W_g^1/2 X_g be the rows of cluster g, e_g its residuals times W_g^-1/2,
K_g = X~_g'X~_g its information matrix, s_g = X~_g'e_g its score, M = (sum K_g)^-1 = L L', C_g = L'K_gL (they add up to the
identity) and u_g = L's_g.

CR2 (Bell & McCaffrey, Survey Methodology 28, 2002; Pustejovsky & Tipton, Journal of Business & Economic Statistics 36, 2018) is
V = M [sum_g X~_g'A_g e_g e_g'A_g X~_g] M with A_g such that V is unbiased under a working model. Ours is that of a random
intercept, Phi_g = I + rho z_g z_g' with z_g = W_g^1/2 1: what has one value in a cluster is known from as many observations
as there are clusters, and from a few of them if they are unequal, which independent rows (rho = 0) would not tell (Imbens &
Kolesar, Review of Economics and Statistics 98, 2016).

Rows are not needed. If a vector a gives X a = 1, then z_g = X~_g a, so Phi_g, the variance Psi_g of the residuals and A_g leave
the range of X~_g alone. In an orthonormal basis O_g of it, with C_g = B_g'B_g by a pivoted Cholesky factorisation and
alpha = L^-1 a,

    O_g'X~_g L = B,  O_g'z_g = t = B alpha,  B'O_g'e_g = u_g,  y_g = L'X~_g'z_g = C_g alpha,
    Phi_g = I + rho t t',  Psi_g = Phi_g - Phi_g B B' - B B' Phi_g + B (I + rho sum_k y_k y_k') B',
    A_g = Phi_g^1/2 (Phi_g^1/2 Psi_g Phi_g^1/2)^-1/2 Phi_g^1/2,

with the pseudo-inverse where cluster g alone determines a direction (an eigenvalue 1 of C_g).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg

DETERMINED = 1e-8
"""Share of the variance of a direction that is left in the residuals of a cluster which alone determines it."""

ABSENT = 1e-12
"""Of C_g, what is left of a direction in which cluster g has no rows."""

SEEN = 0.99
"""Share of its variance under the working model that CR2 has to expect of a contrast: the rest is that of directions which single
clusters determine, and between clusters it cannot be seen."""

ROUNDS = 5
"""In which the weights of the clusters settle that estimate rho."""


AT_ONCE = 16
"""Contrasts whose degrees of freedom are worked out at once, and clusters: fresh memory costs more than what is done in it."""

TILE = 2**20
"""Numbers that are summed at once for the degrees of freedom of a joint test, if there are no more coefficients than its root."""


class Spread(NamedTuple):
    """How a CR2 variance behaves under the working model: the degrees of freedom of the chi-squared or Wishart distribution
    that comes nearest, and the (least) share of the variance that it expects, 1 but for directions which single clusters
    determine."""

    df: float
    share: float


@dataclass(frozen=True, eq=False)
class Clustered:
    """`information` = K [clusters, n, n] of the n free coefficients; `constant` = a [n], 0 if there is none; `rho`."""

    information: np.ndarray
    constant: np.ndarray
    rho: float = 0.0

    @cached_property
    def _root(self) -> np.ndarray:
        """L^-T, the lower Cholesky factor of the information of all clusters."""
        return np.linalg.cholesky(self.information.sum(0))

    def _whitened(self, vectors: np.ndarray) -> np.ndarray:
        """L' times each of some vectors, [vectors, n]."""
        return scipy.linalg.solve_triangular(self._root, vectors.T, lower=True).T

    @cached_property
    def _constants(self) -> np.ndarray:
        """All y_g, [clusters, n]."""
        return self._whitened(self.information @ self.constant)

    def _bases(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """B_g = O_g'X~_g L [rank, n] of each cluster, and the order of the columns in which it is a triangle on the left."""
        left = self._whitened(np.eye(len(self._root))).T
        # Beside what rounding makes of C_g there is nothing.
        rounding = np.abs(left @ self.information.sum(0) @ left.T - np.eye(len(left))).max()
        for matrix in self.information:
            factor, places, rank, _ = scipy.linalg.lapack.dpstrf(left @ matrix @ left.T, tol=max(ABSENT, rounding))
            order = places - 1
            basis = np.zeros((rank, len(left)))
            basis[:, order] = np.triu(factor)[:rank]
            yield basis, order

    def _roots(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """What `_bases` gives, and H_g with A_g = H_g H_g' [rank, rank]."""
        alpha = self.constant @ self._root
        among = np.linalg.cholesky(np.eye(len(alpha)) + self.rho * self._constants.T @ self._constants)
        for basis, order in self._bases():
            t = basis @ alpha
            own, expected = basis @ basis.T, basis @ among
            psi = np.eye(len(t)) - 2 * own + expected @ expected.T
            psi += self.rho * (np.outer(t, t) - symmetric(t, own @ t))
            # Phi_g^1/2 = 1 + scale t t'.
            size = float(t @ t)
            scale = (np.sqrt(1 + self.rho * size) - 1) / (size or 1.0)
            of_t = psi @ t
            psi += scale * symmetric(t, of_t) + scale**2 * (t @ of_t) * np.outer(t, t)
            left, turned = np.linalg.eigh(psi)
            good = left > DETERMINED
            half = turned * np.where(good, np.where(good, left, 1.0) ** -0.25, 0.0)
            yield basis, order, half + np.outer(scale * t, t @ half)

    @cached_property
    def _matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """B_g'A_g B_g and B_g'A_g^2 B_g [clusters, n, n], which are all that contrasts need, and the directions that single
        clusters determine [directions, n]."""
        adjusted, twice = np.empty((2, *self.information.shape))
        determined = [np.zeros((0, len(self._root)))]
        for cluster, (basis, _, half) in enumerate(self._roots()):
            reduced = half.T @ basis
            adjusted[cluster] = reduced.T @ reduced
            reduced = half @ reduced
            twice[cluster] = reduced.T @ reduced
            determined.append(determined_by(basis))
        return adjusted, twice, np.concatenate(determined)

    def adjusted(self, scores: np.ndarray) -> np.ndarray:
        """Scores s_g [clusters, n] as CR2 has them: V = M Z'Z M with their matrix Z."""
        result = np.empty_like(scores)
        whitened = self._whitened(scores)
        for cluster, (basis, order, half) in enumerate(self._roots()):
            first = order[: len(basis)]
            residuals = scipy.linalg.solve_triangular(basis[:, first], whitened[cluster, first], trans="T")
            result[cluster] = basis.T @ (half @ (half.T @ residuals))
        return result @ self._root.T

    def with_rho(self, scores: np.ndarray, dispersion: float) -> "Clustered":
        """With rho estimated from the sums of the residuals of each cluster, whose expected squares under the working model are
        n_g - |y_g|^2 + rho sum_k N_gk^2, N_gk = [g = k] n_g - y_g'y_k, in units of the dispersion."""
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
        return Clustered(self.information, self.constant, rho)

    def _expected(self, directions: np.ndarray) -> np.ndarray:
        """The variance of the contrasts under the working model, [q, q]."""
        moved = self._constants @ directions
        return directions.T @ directions + self.rho * moved.T @ moved

    def satterthwaite(self, contrasts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The `Spread` of each contrast c, [contrasts, n], as two arrays. With P_gh = p_g'Phi p_h, where V = sum_g (p_g'e)^2,
        df = (trace P)^2 / |P|^2; since p_g = (I - H)_g A_g X~_g M c, P = diag(h_g'h_g) - m m' + rho N N' with
        N = diag(alpha'm_g) - m y'."""
        df, share = np.full((2, len(contrasts)), np.nan)
        adjusted, twice, _ = self._matrices
        clusters, n = self.information.shape[:2]
        alpha, y = self.constant @ self._root, self._constants
        between = np.eye(n) - self.rho * y.T @ y
        whitened = self._whitened(contrasts)
        for first in range(0, len(contrasts), AT_ONCE):
            directions = whitened[first : first + AT_ONCE]
            moved = (directions @ adjusted.reshape(-1, n).T).reshape(-1, clusters, n)
            own = ((directions @ twice.reshape(-1, n).T).reshape(moved.shape) @ directions[:, :, None])[:, :, 0]
            zeta = moved @ alpha
            # P = diag(h_g'h_g + rho zeta^2) - Q - Q', Q = m (m (1 - rho y'y) / 2 + rho diag(zeta) y)'.
            halves = moved @ (between / 2) + self.rho * zeta[:, :, None] * y
            own += self.rho * zeta**2
            for place, direction in enumerate(directions):
                if not direction.any():
                    continue
                among = moved[place] @ halves[place].T
                among = np.diag(own[place]) - among - among.T
                trace = np.trace(among)
                df[first + place] = trace**2 / np.sum(among**2) if trace > 0 else 0.0
                share[first + place] = trace / self._expected(direction[:, None])[0, 0]
        return df, share

    def determined_share(self, contrasts: np.ndarray) -> np.ndarray:
        """How much of the variance of each contrast, [contrasts, n], is that of directions which single clusters determine."""
        whitened = self._whitened(contrasts)
        with np.errstate(invalid="ignore"):
            return np.sum((whitened @ self._matrices[2].T) ** 2, axis=1) / np.sum(whitened**2, axis=1)

    def hotelling(self, contrasts: np.ndarray) -> Spread:
        """Of the CR2 covariance matrix of q independent contrasts, [q, n]: the degrees of freedom eta of the Wishart distribution
        whose entries have, in sum, the variances that theirs have under the working model (AHT, Pustejovsky & Tipton 2018:
        their HTZ). With a Wald statistic Q from CR2, (eta - q + 1) / (eta q) Q is compared with F(q, eta - q + 1)."""
        directions = self._whitened(contrasts).T
        # Such that they are uncorrelated, with variance 1, under the working model.
        directions = directions @ np.linalg.inv(np.linalg.cholesky(self._expected(directions))).T
        (clusters, n), q = self.information.shape[:2], len(contrasts)
        adjusted, twice, _ = self._matrices
        # T_gh = [g = h] own_g - G_gh - R_gh, G_gh = m_g'J m_h, J = I - rho sum_k y_k y_k',
        # R_gh = rho (zeta_g (y_g'm_h) + (m_g'y_h) zeta_h'); what is summed is trace(T_gh)^2 + trace(T_gh T_gh).
        # All of it along the eigenvectors of J.
        rho = self.rho
        signs, turn = np.linalg.eigh(np.eye(n) - rho * self._constants.T @ self._constants)
        y, alpha = self._constants @ turn, self.constant @ self._root @ turn
        moved, own = np.empty((clusters, q, n)), np.empty((clusters, q, q))
        for some in slices(clusters):
            of_some = adjusted[some].reshape(-1, n) @ directions
            np.matmul(of_some.reshape(-1, n, q).transpose(0, 2, 1), turn, out=moved[some])
            np.matmul(directions.T, (twice[some].reshape(-1, n) @ directions).reshape(-1, n, q), out=own[some])
        zeta = moved @ alpha
        own += rho * np.einsum("gs,gt->gst", zeta, zeta)
        traces, diagonal = np.diag(np.einsum("gss->g", own)).copy(), np.empty_like(own)
        total = np.einsum("gst,gts->", own, own)
        by_zeta = np.empty((clusters, clusters))
        for some in slices(clusters):
            weighted = moved[some] * signs
            traces[some] -= weighted.reshape(-1, q * n) @ moved.reshape(clusters, -1).T
            of_others = (moved.reshape(-1, n) @ y[some].T).reshape(clusters, q, -1)  # y_g'm_h, [h, q, g]
            of_these = np.matmul(moved[some], y.T)  # y_h'm_g, [g, q, h]
            by_zeta[some] = np.einsum("hqg,gq->gh", of_others, zeta[some])
            both = np.einsum("hqg,gqh->gh", of_others, of_these) * (zeta[some] @ zeta.T)
            total += 2 * rho**2 * float(np.sum(by_zeta[some] ** 2 + both))
            left = np.matmul(of_others.transpose(2, 0, 1), weighted)  # J m_g (m_h'y_g), [g, h, n]
            total += 4 * rho * float(np.einsum("ghi,hgi->", left, np.matmul(zeta[some], moved)))
            itself = np.einsum("gqg->gq", of_these[:, :, some])
            crossed = zeta[some][:, :, None] * itself[:, None]
            diagonal[some] = np.matmul(moved[some], weighted.transpose(0, 2, 1))
            diagonal[some] += rho * (crossed + crossed.transpose(0, 2, 1))
        traces -= rho * (by_zeta + by_zeta.T)
        total += np.sum(traces**2) - 2 * np.einsum("gst,gts->", own, diagonal) + squared_traces(moved, signs)
        share = float(np.linalg.eigvalsh((own - diagonal).sum(0))[0])
        return Spread(q * (q + 1) / float(total), share)


def slices(size: int) -> Iterator[slice]:
    return (slice(first, first + AT_ONCE) for first in range(0, size, AT_ONCE))


def symmetric(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The matrix first second' + second first' of two vectors."""
    return np.outer(first, second) + np.outer(second, first)


def determined_by(basis: np.ndarray) -> np.ndarray:
    """The directions [directions, n] that a cluster determines alone: eigenvectors of C_g = B_g'B_g with eigenvalue 1."""
    try:
        # Most clusters determine none, which this tells at a tenth of the cost.
        np.linalg.cholesky((1 - DETERMINED) * np.eye(len(basis)) - basis @ basis.T)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(basis.T @ basis)
        return vectors[:, values > 1 - DETERMINED].T
    return np.zeros((0, basis.shape[1]))


def squared_traces(turned: np.ndarray, signs: np.ndarray) -> float:
    """The sum of trace(G_gh G_gh) over pairs of clusters, G_gh = F_g diag(signs) F_h', of F = `turned` [clusters, q, n]: by pairs
    of the q columns, as there are more clusters, and by tiles, as a matrix of all of these pairs would not fit into memory."""
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
