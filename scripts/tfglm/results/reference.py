"""What estimates over their standard errors are compared with: the normal distribution or t, and how many degrees of freedom
there are where rows of a cluster are alike."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.results import distributions
from tfglm.solvers import serial
from tfglm.solvers.clustered import SEEN
from tfglm.solvers.fitted import Fitted

FEWEST_EVENTS = 10
"""Events that are expected of a level, and rows without one, below which a coefficient has neither test nor interval by cluster.
Simulated on the default config: with fewer, 5 % tests reject in 0 to 2 %, since a Wald test is the weaker the farther an estimate
runs away (Hauck & Donner, Journal of the American Statistical Association 72, 1977)."""


@dataclass(frozen=True)
class Fewest:
    """What clusters have to tell at least, or there is neither test nor interval. Simulated on linear regressions.

    Attributes
    ----------
    df
        Satterthwaite degrees of freedom by the design (`Fitted.of_design`). With fewer, 5 % tests reject in 0 to 3 %.
    df_joint
        The same of the denominator of an AHT test, or as many as coefficients if these are more. With fewer it rejects in 0 to
        1 %.
    clusters
        Effective clusters where CR2 costs too much. With fewer, 5 % tests reject in up to 21 %.
    clusters_per_coefficient
        The same for each coefficient of a joint test. With fewer it rejects in up to 53 %.
    dates, dates_joint
        Degrees of freedom where dates close to each other are alike, of a coefficient and of the denominator of a joint test.
        With fewer, 5 % tests of what is constant over many dates reject in up to 14 %.
    """

    df: float = 8
    df_joint: float = 20
    clusters: float = 40
    clusters_per_coefficient: float = 10
    dates: float = 15
    dates_joint: float = 25


FEWEST = Fewest()

LONGEST_AHT = 1e12
"""Clusters times the squares of the numbers of coefficients in all and in a test, of which half are multiplied for its degrees of
freedom."""

UNSEEN_BELOW = 1e-3
"""Times the classical variance: below it a variance by cluster is that of what single clusters determine, where CR2, which would
tell, costs too much."""

DETERMINED_ALONE = "determined within single clusters, so its variance between clusters cannot be seen"

NOT_POSITIVE = "its variance by clusters of several columns is not positive, or that of what single clusters determine"

NO_PART = "nothing that was estimated has a part in it"

CROSSED = "clusters of a column"
"""What tells of an estimate where there are clusters of several."""


def told_by(fitted: Fitted) -> str:
    """What tells of an estimate, in a word: clusters, or dates."""
    return CROSSED if len(fitted.score_signs) else "dates" if fitted.lags else "clusters"


def statistic(design: Design) -> str:
    """What an estimate over its standard error is called."""
    return "t" if has_t(design) else "z"


def has_t(design: Design) -> bool:
    return design.by_cluster or not design.distribution.dispersion_known or design.std_errors == "quasi"


@dataclass(frozen=True)
class Reference:
    """Of some estimates: t with `df` [estimates] degrees of freedom, normal where these are infinite. By cluster, `unseen`
    [estimates] are those without a standard error; those with less than `fewest` degrees of freedom, and those of `rare` events
    [estimates], have no test. With CR2 `of_design` [estimates], which do not depend on the response, are compared with `fewest`.
    `of` are what tells of them: clusters, or dates."""

    df: np.ndarray
    by_cluster: bool = False
    unseen: np.ndarray | bool = False
    fewest: float = 0.0
    rare: np.ndarray | bool = False
    of: str = "clusters"
    of_design: np.ndarray | None = None

    @property
    def _told(self) -> np.ndarray:
        return self.df if self.of_design is None else self.of_design

    @cached_property
    def _usable(self) -> np.ndarray:
        """The degrees of freedom, NaN where there is no test."""
        return np.where(
            (self._told >= self.fewest) & ~np.asarray(self.unseen) & ~np.asarray(self.rare), self.df, np.nan
        )

    def quantile(self, confidence: float) -> np.ndarray:
        """Standard errors on either side of an estimate that hold the truth with this probability."""
        return distributions.t_quantile(0.5 + confidence / 2, self._usable)

    def p_value(self, statistic: np.ndarray) -> np.ndarray:
        """Two-sided, of a statistic that is not negative."""
        return 2 * distributions.t(statistic, self._usable).probability

    def neg_log10_p(self, statistic: np.ndarray) -> np.ndarray:
        """-log10 of the p-value, also where that is too small for a float64."""
        df = np.broadcast_to(self._usable, np.shape(statistic))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = distributions.t(statistic, df).logarithm + np.log(2)
            # Where that underflows, Wallace's normal deviate of a t (Annals of Mathematical Statistics 30, 1959).
            deviate = (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(statistic**2 / df))
        normal = np.where(np.isinf(df), statistic, deviate)
        log_p = np.where(np.isneginf(log_p) | np.isinf(df), distributions.log_normal_tail(normal) + np.log(2), log_p)
        return np.abs(log_p) / np.log(10)

    def notes(self) -> np.ndarray:
        """Why there is no test, for each estimate; '' where there is one."""
        needed, by_design = f"of {self.fewest:g} needed", "" if self.of_design is None else " by the design"
        few = [
            NO_PART
            if np.isnan(df)
            else f"too few {self.of} tell of it: {df:.1f} degrees of freedom{by_design}, {needed}"
            for df in self._told
        ]
        rare = f"fewer than {FEWEST_EVENTS} events, or rows without one, are expected of it"
        unseen = NOT_POSITIVE if self.of == CROSSED else DETERMINED_ALONE
        return np.select([self.unseen, ~(self._told >= self.fewest), self.rare], [unseen, few, rare], "")


def reference_of(
    design: Design,
    fitted: Fitted,
    transform: scipy.sparse.csr_array,
    df_residual: float,
    exactly: bool = True,
    fewest: Fewest = FEWEST,
) -> Reference:
    """What estimates over their standard errors are compared with.

    Parameters
    ----------
    design
        Says which standard errors there are.
    fitted
        The coefficients and their covariance.
    transform
        The estimates are its rows times the coefficients, [estimates, p].
    df_residual
        Degrees of freedom of t where errors are not by cluster.
    exactly
        By cluster: Satterthwaite's degrees of freedom of CR2. Without it, for many rows, or where there is no CR2, the effective
        number of clusters.
    fewest
        What clusters have to tell at least.
    """
    if not design.by_cluster or not len(fitted.scores):
        return Reference(np.full(transform.shape[0], df_residual if has_t(design) else np.inf))
    clustered, by_design = fitted.clustered, fitted.of_design
    if clustered is None or by_design is None or not exactly:
        needed = fewest.df if clustered is not None else fewest.dates if fitted.lags else fewest.clusters
        unseen = determined_alone(fitted, transform)
        return Reference(fitted.effective_clusters(transform), True, unseen, needed, of=told_by(fitted))
    df, _ = clustered.satterthwaite(fitted.on_free(transform))
    of_design, share = by_design.satterthwaite(fitted.on_free(transform))
    return Reference(df, True, share < SEEN, fewest.df, of_design=of_design)


def rare_events(design: Design, fitted: Fitted) -> np.ndarray:
    """Which coefficients have too few events for a test, [coefficients]; of a class those of the reference class count as rows
    without one."""
    if not design.equations:
        return few_events(design, fitted.rows, fitted.responses)
    rows = fitted.rows.reshape(len(design.equations), -1)
    events = expected_events(rows, fitted.responses.reshape(rows.shape))
    of_reference = np.inf if design.weights else rows - events.sum(axis=0)
    return (np.minimum(events, of_reference) < FEWEST_EVENTS).ravel()


def few_events(design: Design, rows: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Where fewer than FEWEST_EVENTS events, or rows without one, are expected; with trials or weights only the events are
    counted."""
    if not (design.distribution.counts_events or design.equations):
        return np.zeros(len(rows), bool)
    events = expected_events(rows, events)
    one_each = not (design.trials or design.weights)
    without = rows - events if one_each else np.inf
    return np.minimum(events, without) < FEWEST_EVENTS


def expected_events(rows: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Events of levels with so many rows, [..., levels], if each had the same share of them. The events that a level has would
    select those that have many."""
    return rows * (events.sum(-1, keepdims=True) / rows.sum(-1, keepdims=True))


def determined_alone(fitted: Fitted, transform: scipy.sparse.csr_array) -> np.ndarray:
    """Which rows of a transformation single clusters determine, [rows], so that their variance by cluster cannot be seen."""
    if fitted.of_design is not None:
        return fitted.of_design.determined_share(fitted.on_free(transform)) > 1 - SEEN
    variances = fitted.variances(transform)
    return ~(variances.chosen >= UNSEEN_BELOW * variances.classical)


@dataclass(frozen=True)
class JointReference:
    """Of a Wald statistic of q coefficients by cluster: `scale` times it is compared with F(q, `df`). No test if there is a
    `problem`."""

    scale: float = np.nan
    df: float = np.nan
    problem: str = ""


def joint_reference(fitted: Fitted, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST) -> JointReference:
    """That of the rows of a transformation, q independent contrasts: AHT (solvers.clustered), or without CR2 Hotelling's
    with the degrees of freedom of a Wishart matrix, q (q + 1) / sum |z_g|^4, of scores with sum z_g z_g' = I."""
    q, clusters = transform.shape[0], fitted.cluster_count
    clustered, by_design = fitted.clustered, fitted.of_design
    needed = (
        q - 1 + (max(fewest.df_joint, q) if q > 1 else fewest.df)
        if clustered is not None
        else q - 1 + (max(fewest.dates_joint, q) if q > 1 else fewest.dates)
        if fitted.lags
        else max(fewest.clusters, fewest.clusters_per_coefficient * q)
    )
    if clusters - 1 < needed:
        return JointReference(
            problem=f"{clusters} {told_by(fitted)} are too few for {q} coefficient{'' if q == 1 else 's'}"
        )
    on_free = fitted.on_free(transform)
    if clustered is not None and by_design is not None:
        if clusters * on_free.shape[1] ** 2 * q**2 > LONGEST_AHT:
            return JointReference(problem="the degrees of freedom of a test by cluster would take too long")
        told, share = by_design.hotelling(on_free)
        if share < SEEN:
            return JointReference(problem=DETERMINED_ALONE)
        eta = clustered.hotelling(on_free).df
    else:
        eta = told = effective_degrees(fitted, on_free)
    if not (told >= needed and eta > q - 1):
        return JointReference(
            problem=f"too few {told_by(fitted)} tell of it: {told:.1f} effective ones, of {needed:g} needed"
        )
    return JointReference((eta - q + 1) / eta, eta - q + 1)


def effective_degrees(fitted: Fitted, on_free: np.ndarray) -> float:
    """The degrees of freedom of the Wishart matrix that comes nearest to the covariance by cluster of some contrasts, given on
    the free coefficients [q, free]. Of clusters of several columns those of the column with the fewest."""
    dense, eliminated = np.split(on_free, [len(fitted.dense)], axis=1)
    scores = np.hstack(fitted.solved(dense, eliminated)) @ fitted.scores.T
    normalised = [np.linalg.svd(scores[:, each], full_matrices=False)[2] for each in fitted.columns_of_scores]
    return min(serial.wishart_degrees(of_column, fitted.lags) for of_column in normalised)
