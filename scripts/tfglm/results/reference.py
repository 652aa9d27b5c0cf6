"""What estimates over their standard errors are compared with: the normal distribution or t, and how many degrees of freedom
there are where rows of a cluster are alike; with few clusters, a bootstrap (results.wild)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse

from tfglm.design.design import Design
from tfglm.results import distributions
from tfglm.results.wild import FEWEST_CLUSTERS, MOST_CLUSTERS, WildBootstrap, wild_bootstrap
from tfglm.solvers import serial
from tfglm.solvers.clustered import SEEN
from tfglm.solvers.fitted import Fitted

FEWEST_EVENTS = 10
"""Fewest expected events of a level, and fewest rows without an event, for a test and an interval with clusters. In
simulations on the default config, 5 % tests rejected in 0 to 2 % with fewer, because a Wald test is weaker the larger the
estimate is (Hauck & Donner, Journal of the American Statistical Association 72, 1977)."""


@dataclass(frozen=True)
class Fewest:
    """The least information from clusters for a test and an interval. The limits come from simulations of linear
    regressions.

    Attributes
    ----------
    df
        Satterthwaite degrees of freedom by the design (`Fitted.design_clustered`). With fewer, 5 % tests rejected in 0 to 3 %.
    df_wild
        The same for the wild cluster bootstrap, which replaces such tests. With fewer it rejected in 0 to 6 %.
    df_joint
        The same for the denominator of an AHT test, or the number of coefficients if that is larger. With fewer it rejected
        in 0 to 1 %.
    clusters
        Effective clusters if CR2 is too expensive. With fewer, 5 % tests rejected in up to 21 %.
    clusters_per_coefficient
        The same for each coefficient of a joint test. With fewer it rejected in up to 53 %.
    dates, dates_joint
        Degrees of freedom if dates close to each other are alike, for a coefficient and for the denominator of a joint
        test. With fewer, 5 % tests of covariates that are constant over many dates rejected in up to 14 %.
    """

    df: float = 8
    df_wild: float = 3
    df_joint: float = 20
    clusters: float = 40
    clusters_per_coefficient: float = 10
    dates: float = 15
    dates_joint: float = 25


FEWEST = Fewest()

LONGEST_AHT = 1e12
"""Largest product of clusters and squared numbers of coefficients, in all and in a test, for the degrees of freedom of the
test; half of these products are computed."""

UNSEEN_BELOW = 1e-3
"""Times the classical variance: below it a variance by cluster is that of what single clusters determine, where CR2, which would
tell, costs too much."""

AS_MANY = 1 - 1e-9
"""Share of the needed degrees of freedom that is enough. A balanced design has whole numbers of them, up to rounding errors."""

DETERMINED_ALONE = "determined within single clusters, so its variance between clusters cannot be seen"

NOT_POSITIVE = "its variance by clusters of several columns is not positive, or that of what single clusters determine"

MOST_ROWS = 4_000
"""Rows of a joint test with degrees of freedom of its own beside random effects."""

NO_PART = "nothing that was estimated has a part in it"

CROSSED = "clusters of a column"
"""The clusters of an estimate in words, if there are clusters of several columns."""


def information_source(fitted: Fitted) -> str:
    """Return in a word what determines the information of an estimate: clusters, or dates."""
    return CROSSED if len(fitted.score_signs) else "dates" if fitted.lags else "clusters"


def statistic(design: Design) -> str:
    """Return the name of an estimate divided by its standard error."""
    return "t" if has_t(design) else "z"


def has_t(design: Design) -> bool:
    return design.by_cluster or has_dispersion(design) or bool(design.random_parts)


def has_dispersion(design: Design) -> bool:
    """Whether the fit estimates the dispersion."""
    return not design.distribution.dispersion_known or design.inference.std_errors == "quasi"


@dataclass(frozen=True)
class Reference:
    """The reference distribution of some estimates: t with `df` [estimates] degrees of freedom, normal where these are
    infinite.

    With clusters, `unseen` [estimates] are estimates without a standard error. Estimates with less than `fewest` degrees of
    freedom, and with `rare` events [estimates], have no test by t. With CR2, the degrees of freedom `df_by_design` [estimates],
    which do not depend on the response, are compared with `fewest`; where there are enough, they may be a lower bound. By
    their place, some of these estimates have a bootstrap, `wild`. `of` says what carries the information: clusters, or dates.
    `varies` says that each estimate has degrees of freedom of its own.
    """

    df: np.ndarray
    by_cluster: bool = False
    unseen: np.ndarray | bool = False
    fewest: float = 0.0
    rare: np.ndarray | bool = False
    of: str = "clusters"
    df_by_design: np.ndarray | None = None
    wild: Mapping[int, WildBootstrap] = field(default_factory=dict)
    varies: bool = True

    @property
    def _information(self) -> np.ndarray:
        return self.df if self.df_by_design is None else self.df_by_design

    @property
    def _has_enough(self) -> np.ndarray:
        return self._information >= AS_MANY * self.fewest

    @cached_property
    def usable(self) -> np.ndarray:
        """The degrees of freedom, NaN where there is no test by t."""
        return np.where(self._has_enough & ~np.asarray(self.unseen) & ~np.asarray(self.rare), self.df, np.nan)

    def bootstraps(self, errors: np.ndarray) -> dict[int, WildBootstrap]:
        """The bootstraps of estimates that have these standard errors, by their place."""
        rare = np.broadcast_to(self.rare, self.df.shape)
        return {place: each for place, each in self.wild.items() if np.isfinite(errors[place]) and not rare[place]}

    def quantile(self, confidence: float) -> np.ndarray:
        """Standard errors on either side of an estimate that hold the truth with this probability, by t."""
        return distributions.t_quantile(0.5 + confidence / 2, self.usable)

    def interval(self, values: np.ndarray, errors: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """The limits of intervals around these estimates with these standard errors, both [estimates]."""
        margin = self.quantile(confidence) * errors
        lower, upper = values - margin, values + margin
        for place, bootstrap in self.bootstraps(errors).items():
            below, above = bootstrap.reach(1 - confidence)
            lower[place], upper[place] = values[place] - below, values[place] + above
        return lower, upper

    def p_value(self, values: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """The two-sided p-values of the hypotheses that these estimates, with these standard errors, are 0 in truth."""
        with np.errstate(invalid="ignore", divide="ignore"):
            p_values = 2 * distributions.t(np.abs(values / errors), self.usable).probability
        for place, bootstrap in self.bootstraps(errors).items():
            p_values[place] = bootstrap.p_value(values[place])
        return p_values

    def neg_log10_p(self, values: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """-log10 of the p-value, also where that is too small for a float64."""
        with np.errstate(invalid="ignore", divide="ignore"):
            statistic = np.abs(values / errors)
        df = np.broadcast_to(self.usable, np.shape(statistic))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = distributions.t(statistic, df).logarithm + np.log(2)
            # Where that underflows, use Wallace's normal deviate of a t (Annals of Mathematical Statistics 30, 1959).
            deviate = (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(statistic**2 / df))
        normal = np.where(np.isinf(df), statistic, deviate)
        log_p = np.where(np.isneginf(log_p) | np.isinf(df), distributions.log_normal_tail(normal) + np.log(2), log_p)
        for place, bootstrap in self.bootstraps(errors).items():
            log_p[place] = np.log(bootstrap.p_value(values[place]))
        return np.abs(log_p) / np.log(10)

    def notes(self) -> np.ndarray:
        """Why there is no test, for each estimate; '' where there is one."""
        needed, by_design = f"of {self.fewest:g} needed", "" if self.df_by_design is None else " by the design"
        few = [
            NO_PART
            if np.isnan(df)
            else f"p-value and interval by the wild cluster bootstrap, with {df:.1f} degrees of freedom{by_design}"
            if place in self.wild
            else f"too few {self.of} for this test: {df:.1f} degrees of freedom{by_design}, {needed}"
            for place, df in enumerate(self._information)
        ]
        rare = f"fewer than {FEWEST_EVENTS} events, or rows without one, are expected of it"
        unseen = NOT_POSITIVE if self.of == CROSSED else DETERMINED_ALONE
        has_bootstrap = np.isin(np.arange(len(self.df)), list(self.wild))
        is_few = ~self._has_enough & ~(has_bootstrap & self.rare)
        return np.select([self.unseen, is_few, self.rare], [unseen, few, rare], "")


def reference_of(
    design: Design,
    fitted: Fitted,
    transform: scipy.sparse.csr_array,
    df_residual: float,
    exactly: bool = True,
    fewest: Fewest = FEWEST,
) -> Reference:
    """Return the reference distribution of estimates divided by their standard errors.

    Parameters
    ----------
    design
        The design, which defines the standard errors.
    fitted
        The coefficients and their covariance.
    transform
        A matrix; the estimates are its rows times the coefficients, [estimates, p].
    df_residual
        Degrees of freedom of t, if errors are not clustered.
    exactly
        With clusters: whether to use Satterthwaite's degrees of freedom of CR2. Otherwise, for many rows, or without CR2,
        the effective number of clusters is used.
    fewest
        The least information from clusters for a test.
    """
    if not design.by_cluster or not len(fitted.scores):
        df = fitted.satterthwaite(transform, df_residual if has_dispersion(design) else np.inf)
        return Reference(df, varies=bool(design.random_parts))
    clustered, by_design = fitted.clustered, fitted.design_clustered
    if clustered is None or by_design is None or not exactly:
        needed = fewest.df if clustered is not None else fewest.dates if fitted.lags else fewest.clusters
        return Reference(
            fitted.effective_clusters(transform),
            True,
            determined_alone(fitted, transform),
            needed,
            of=information_source(fitted),
            df_by_design=fitted.effective_by_design(transform),
        )
    return by_satterthwaite(fitted, transform, fewest)


def by_satterthwaite(fitted: Fitted, transform: scipy.sparse.csr_array, fewest: Fewest) -> Reference:
    """The reference distribution with CR2: t with Satterthwaite's degrees of freedom, or the wild cluster bootstrap."""
    clustered, by_design = fitted.clustered, fitted.design_clustered
    assert clustered is not None and by_design is not None
    df, _ = clustered.satterthwaite(fitted.on_free(transform))
    df_by_design, share = by_design.satterthwaite(fitted.on_free(transform), enough=fewest.df)
    few = (df_by_design >= AS_MANY * fewest.df_wild) & (df_by_design < AS_MANY * fewest.df) & (share >= SEEN)
    is_possible = FEWEST_CLUSTERS <= fitted.cluster_count <= MOST_CLUSTERS and len(fitted.cluster_scores)
    wild = wild_bootstrap(fitted, transform, np.flatnonzero(few)) if is_possible else {}
    return Reference(df, True, share < SEEN, fewest.df, df_by_design=df_by_design, wild=wild)


def rare_events(design: Design, fitted: Fitted) -> np.ndarray:
    """Return which coefficients have too few events for a test, [coefficients]. For a class, rows of the reference class
    count as rows without an event; of ordered classes an event is a row outside the most frequent class."""
    if design.likelihood.is_ordered:
        return few_events(design, fitted.rows, fitted.rows * share_outside(design, fitted))
    if not design.compares_classes:
        return few_events(design, fitted.rows, fitted.responses)
    rows = fitted.rows.reshape(len(design.equations), -1)
    events = expected_events(rows, fitted.responses.reshape(rows.shape))
    of_reference = np.inf if design.roles.weights else rows - events.sum(axis=0)
    return (np.minimum(events, of_reference) < FEWEST_EVENTS).ravel()


def few_events(design: Design, rows: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Return which coefficients have fewer than FEWEST_EVENTS expected events, or rows without one; with trials or weights
    only events count, and with ordered classes."""
    if not (design.distribution.counts_events or design.equations):
        return np.zeros(len(rows), bool)
    events = expected_events(rows, events)
    one_each = not (design.roles.trials or design.roles.weights or design.likelihood.is_ordered)
    without = rows - events if one_each else np.inf
    return np.minimum(events, without) < FEWEST_EVENTS


def share_outside(design: Design, fitted: Fitted) -> float:
    """The share of the training rows that are not of the most frequent of ordered classes; 1 with weights, which are not rows.

    The fit has the rows of each class but the lowest and the highest, and the sum of the numbers of the classes.
    """
    if design.roles.weights:
        return 1.0
    highest, rows = len(design.likelihood.class_labels) - 1, float(fitted.rows[0])
    between = [float(fitted.responses[part.where.start]) for part in design.parts if part.term.equation]
    of_highest = (float(fitted.responses[0]) - sum(k * count for k, count in enumerate(between, 1))) / highest
    return 1.0 - max(*between, of_highest, rows - sum(between) - of_highest) / rows


def expected_events(rows: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Events of levels with so many rows, [..., levels], if each had the same share of them. The events that a level has would
    select those that have many."""
    return rows * (events.sum(-1, keepdims=True) / rows.sum(-1, keepdims=True))


def determined_alone(fitted: Fitted, transform: scipy.sparse.csr_array) -> np.ndarray:
    """Return which rows of a transformation single clusters determine, [rows], so that their clustered variance cannot be
    estimated."""
    if fitted.design_clustered is not None:
        return fitted.design_clustered.determined_share(fitted.on_free(transform)) > 1 - SEEN
    chosen, classical, bias = fitted.variances(transform)
    unseen = ~(chosen - bias >= UNSEEN_BELOW * (classical - bias))
    return unseen | (fitted.share_of_effects(transform) > 1 - SEEN)


def joint_degrees(design: Design, fitted: Fitted, transform: scipy.sparse.csr_array, df_residual: float) -> float:
    """The degrees of freedom of the denominator of F for the rows of a transformation, without clusters: beside random effects
    those of the principal components of the rows together (Fai and Cornelius 1996; as in lmerTest). Rows are made orthonormal
    first, so reference levels do not matter."""
    otherwise, size = df_residual if has_dispersion(design) else np.inf, transform.shape[0]
    if not len(fitted.random_penalties) or not 0 < size <= MOST_ROWS:
        return otherwise
    basis = np.linalg.qr(transform.toarray().T)[0].T
    vectors = np.linalg.eigh(fitted.covariance(scipy.sparse.csr_array(basis)))[1]
    df = fitted.satterthwaite(scipy.sparse.csr_array(vectors.T @ basis), otherwise)
    if df.min() <= 2:
        return float(min(df.max(), 2.0))
    excess = float(np.sum(2 / (df - 2)))
    return 2 + 2 * size / excess if excess > 0 else np.inf


@dataclass(frozen=True)
class JointReference:
    """Of a Wald statistic of q coefficients by cluster: `scale` times it is compared with F(q, `df`). A single coefficient may
    have a bootstrap, `wild`, instead. No test if there is a `problem`; `note` says how the test was made."""

    scale: float = np.nan
    df: float = np.nan
    problem: str = ""
    wild: WildBootstrap | None = None
    note: str = ""

    @classmethod
    def from_single(cls, reference: Reference) -> "JointReference":
        """That of a single combination, whose statistic is the square of its t."""
        df, note = float(reference.usable[0]), str(reference.notes()[0])
        wild = reference.bootstraps(np.ones(1)).get(0)
        return cls(1.0, df, "" if wild or np.isfinite(df) else note, wild, note if wild else "")


def joint_reference(fitted: Fitted, transform: scipy.sparse.csr_array, fewest: Fewest = FEWEST) -> JointReference:
    """That of the rows of a transformation, q independent contrasts: AHT (solvers.clustered), or without CR2 Hotelling's
    with the degrees of freedom of a Wishart matrix, q (q + 1) / sum |z_g|^4, of scores with sum z_g z_g' = I."""
    q, clusters = transform.shape[0], fitted.cluster_count
    clustered, by_design = fitted.clustered, fitted.design_clustered
    if clustered is not None or fitted.lags:
        needed = q - 1 + max(fewest.df_joint if clustered is not None else fewest.dates_joint, q)
    else:
        needed = max(fewest.clusters, fewest.clusters_per_coefficient * q)
    if clusters - 1 < needed:
        return JointReference(problem=f"{clusters} {information_source(fitted)} are too few for {q} coefficients")
    enough, on_free = AS_MANY * needed, fitted.on_free(transform)
    if clustered is not None and by_design is not None:
        if clusters * on_free.shape[1] ** 2 * q**2 > LONGEST_AHT:
            return JointReference(problem="the degrees of freedom of a test by cluster would take too long")
        told, share = by_design.hotelling(on_free, enough=needed)
        if share < SEEN:
            return JointReference(problem=DETERMINED_ALONE)
        eta = clustered.hotelling(on_free).df if told >= enough else told
    else:
        eta, by_columns = effective_degrees(fitted, on_free), fitted.joint_effective_by_design(transform)
        told = eta if by_columns is None else by_columns
    if not (told >= enough and eta > q - 1):
        return JointReference(
            problem=f"too few {information_source(fitted)} for this test: {min(told, eta):.1f} effective ones, of {needed:g} "
            "needed"
        )
    return JointReference((eta - q + 1) / eta, eta - q + 1)


def effective_degrees(fitted: Fitted, on_free: np.ndarray) -> float:
    """Return the degrees of freedom of the Wishart matrix that approximates the clustered covariance of some contrasts,
    given on the free coefficients [q, free]. For clusters of several columns, those of the column with the fewest clusters."""
    dense, eliminated = np.split(on_free, [len(fitted.dense)], axis=1)
    scores = np.hstack(fitted.solved(dense, eliminated)) @ fitted.scores.T
    normalised = [np.linalg.svd(scores[:, each], full_matrices=False)[2] for each in fitted.columns_of_scores]
    return min(serial.wishart_degrees(of_column, fitted.lags) for of_column in normalised)
