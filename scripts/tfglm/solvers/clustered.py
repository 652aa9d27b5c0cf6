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
the range of X~_g alone. In an orthonormal basis O_g of it, with C_g = V_g diag(w_g) V_g' and alpha = L^-1 a,

    O_g'X~_g L = w^1/2 V',  O_g'z_g = t = w^1/2 V' alpha,  O_g'e_g = w^-1/2 V' u_g,  y_g = L'X~_g'z_g = C_g alpha,
    Phi_g = I + rho t t',  Psi_g = Phi_g - Phi_g w - w Phi_g + w^1/2 V' (I + rho sum_k y_k y_k') V w^1/2,
    A_g = Phi_g^1/2 (Phi_g^1/2 Psi_g Phi_g^1/2)^-1/2 Phi_g^1/2,

with the pseudo-inverse where cluster g alone determines a direction (w = 1).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg

DETERMINED = 1e-8
"""Share of the variance of a direction that is left in the residuals of a cluster which alone determines it."""

ABSENT = 1e-12
"""Eigenvalue of C_g of a direction in which cluster g has no rows."""

SEEN = 0.99
"""Share of its variance under the working model that CR2 has to expect of a contrast: the rest is that of directions which single
clusters determine, and between clusters it cannot be seen."""

ROUNDS = 5
"""In which the weights of the clusters settle that estimate rho."""


AT_ONCE = 16
"""Contrasts whose degrees of freedom are worked out at once."""


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

    @cached_property
    def _spectral(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues w [clusters, n] and eigenvectors [clusters, n, n] of all C_g."""
        left = self._whitened(np.eye(len(self._root))).T
        values, vectors = np.empty(self.information.shape[:2]), np.empty(self.information.shape)
        for cluster, matrix in enumerate(self.information):
            values[cluster], vectors[cluster] = np.linalg.eigh(left @ matrix @ left.T)
        return np.where(values > ABSENT, np.minimum(values, 1.0), 0.0), vectors

    @cached_property
    def _adjustments(self) -> np.ndarray:
        """A_g in the basis O_g, [clusters, n, n]."""
        values, vectors = self._spectral
        roots = np.sqrt(values)
        alpha = self.constant @ self._root
        among = np.eye(len(alpha)) + self.rho * self._constants.T @ self._constants
        adjustments = np.empty_like(vectors)
        for cluster, (w, root, vector) in enumerate(zip(values, roots, vectors, strict=True)):
            t = root * (vector.T @ alpha)
            size = float(t @ t)
            phi = np.eye(len(t)) + self.rho * np.outer(t, t)
            # The symmetric root of the identity with something of rank one.
            phi_root = np.eye(len(t)) + (np.sqrt(1 + self.rho * size) - 1) / (size or 1.0) * np.outer(t, t)
            psi = phi - phi * w - phi * w[:, None] + (root[:, None] * (vector.T @ among @ vector)) * root
            left, turned = np.linalg.eigh(phi_root @ psi @ phi_root)
            good = left > DETERMINED
            half = turned * np.where(good, np.where(good, left, 1.0) ** -0.25, 0.0)
            half = phi_root @ half
            adjustments[cluster] = half @ half.T
        return adjustments

    def adjusted(self, scores: np.ndarray) -> np.ndarray:
        """Scores s_g [clusters, n] as CR2 has them: V = M Z'Z M with their matrix Z."""
        values, vectors = self._spectral
        turned = np.einsum("gji,gj->gi", vectors, self._whitened(scores))
        turned = np.divide(turned, np.sqrt(values), out=np.zeros_like(turned), where=values > 0)
        turned = np.einsum("gij,gj->gi", self._adjustments, turned) * np.sqrt(values)
        return np.einsum("gij,gj->gi", vectors, turned) @ self._root.T

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

    def _moved(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For the columns D [n, q] of contrasts L'c: h_g'h_g [clusters, q, q] and m_g = L'X~_g'h_g [clusters, n, q] of
        h_g = A_g X~_g L D."""
        values, vectors = self._spectral
        roots = np.sqrt(values)[:, :, None]
        turned = np.matmul(self._adjustments, roots * np.matmul(vectors.transpose(0, 2, 1), directions))
        return np.matmul(turned.transpose(0, 2, 1), turned), np.matmul(vectors, roots * turned)

    def _expected(self, directions: np.ndarray) -> np.ndarray:
        """The variance of the contrasts under the working model, [q, q]."""
        moved = self._constants @ directions
        return directions.T @ directions + self.rho * moved.T @ moved

    def satterthwaite(self, contrasts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The `Spread` of each contrast c, [contrasts, n], as two arrays. With P_gh = p_g'Phi p_h, where V = sum_g (p_g'e)^2,
        df = (trace P)^2 / |P|^2; since p_g = (I - H)_g A_g X~_g M c, P = diag(h_g'h_g) - m m' + rho N N' with
        N = diag(alpha'm_g) - m y'."""
        df, share = np.full((2, len(contrasts)), np.nan)
        whitened = self._whitened(contrasts)
        alpha, y = self.constant @ self._root, self._constants
        for first in range(0, len(contrasts), AT_ONCE):
            directions = whitened[first : first + AT_ONCE]
            own, moved = self._moved(directions.T)
            for place, direction in enumerate(directions, first):
                if not direction.any():
                    continue
                m, h = moved[:, :, place - first], own[:, place - first, place - first]
                common = np.diag(m @ alpha) - m @ y.T
                among = np.diag(h) - m @ m.T + self.rho * common @ common.T
                trace = np.trace(among)
                df[place] = trace**2 / np.sum(among**2) if trace > 0 else 0.0
                share[place] = trace / self._expected(direction[:, None])[0, 0]
        return df, share

    def determined_share(self, contrasts: np.ndarray) -> np.ndarray:
        """How much of the variance of each contrast, [contrasts, n], is that of directions which single clusters determine."""
        values, vectors = self._spectral
        cluster, place = np.nonzero(values > 1 - DETERMINED)
        whitened = self._whitened(contrasts)
        with np.errstate(invalid="ignore"):
            return np.sum((whitened @ vectors[cluster, :, place].T) ** 2, axis=1) / np.sum(whitened**2, axis=1)

    def hotelling(self, contrasts: np.ndarray) -> Spread:
        """Of the CR2 covariance matrix of q independent contrasts, [q, n]: the degrees of freedom eta of the Wishart distribution
        whose entries have, in sum, the variances that theirs have under the working model (AHT, Pustejovsky & Tipton 2018:
        their HTZ). With a Wald statistic Q from CR2, (eta - q + 1) / (eta q) Q is compared with F(q, eta - q + 1)."""
        directions = self._whitened(contrasts).T
        # Such that they are uncorrelated, with variance 1, under the working model.
        directions = directions @ np.linalg.inv(np.linalg.cholesky(self._expected(directions))).T
        clusters, q = len(self.information), len(contrasts)
        own, moved = self._moved(directions)
        y, rho = self._constants, self.rho
        zeta = np.einsum("giq,i->gq", moved, self.constant @ self._root)
        # T_gh = [g = h] own_g - G_gh - R_gh, G_gh = m_g'J m_h, J = I - rho sum_k y_k y_k',
        # R_gh = rho (zeta_g (y_g'm_h) + (m_g'y_h) zeta_h'); what is summed is trace(T_gh)^2 + trace(T_gh T_gh).
        own = own + rho * np.einsum("gs,gt->gst", zeta, zeta)
        weight = np.eye(y.shape[1]) - rho * y.T @ y
        weighted = np.matmul(weight, moved)
        diagonal = np.matmul(moved.transpose(0, 2, 1), weighted)
        traces = np.diag(np.einsum("gss->g", own)) - moved.reshape(clusters, -1) @ weighted.reshape(clusters, -1).T
        total = np.einsum("gst,gts->", own, own)
        common = np.matmul(y, moved).transpose(1, 0, 2)  # y_g'm_h, [g, h, q]
        by_zeta = np.einsum("ghq,gq->gh", common, zeta)
        traces -= rho * (by_zeta + by_zeta.T)
        both = np.einsum("ghq,hgq->gh", common, common, optimize=True) * (zeta @ zeta.T)
        total += 2 * rho**2 * float(np.sum(by_zeta**2 + both))
        for first in range(0, clusters, AT_ONCE):
            some = slice(first, first + AT_ONCE)
            left = np.matmul(weighted[some], common[some].transpose(0, 2, 1))  # J m_g (m_h'y_g), [g, n, h]
            total += 4 * rho * float(np.einsum("gih,hig->", left, np.matmul(moved, zeta[some].T)))
        itself = common[np.arange(clusters), np.arange(clusters)]
        diagonal += rho * (zeta[:, :, None] * itself[:, None] + itself[:, :, None] * zeta[:, None])
        total += np.sum(traces**2) - 2 * np.einsum("gst,gts->", own, diagonal)
        share = float(np.linalg.eigvalsh((own - diagonal).sum(0))[0])
        # The sum of trace(G_gh G_gh), column by column: a matrix of all pairs of clusters and columns would not fit into memory.
        signs, turn = np.linalg.eigh(weight)
        turned = np.ascontiguousarray(np.matmul(turn.T, moved).transpose(2, 0, 1))
        for column in range(q):
            among = np.matmul(turned[column].T, turned[column:]) * signs[:, None]  # [columns from this one on, n, n]
            with_each = np.einsum("cij,cji->c", among, among)
            total += 2 * with_each.sum() - with_each[0]
        return Spread(q * (q + 1) / float(total), share)
