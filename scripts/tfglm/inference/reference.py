"""What estimates over their standard errors are compared with: the normal distribution or t, and how many degrees of freedom
there are where rows of a cluster are alike; with few clusters, a bootstrap (inference.wild)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tfglm.design.design import Design
from tfglm.inference import distributions
from tfglm.inference.wild import WildBootstrap

FEWEST_EVENTS = 10
"""Fewest expected events of a level, and fewest rows without an event, for a test and an interval with clusters. In
simulations on the default config, 5 % tests rejected in 0 to 2 % with fewer, because a Wald test is weaker the larger the
estimate is (Hauck & Donner, Journal of the American Statistical Association 72, 1977)."""


@dataclass(frozen=True)
class Fewest:
    """The least information from clusters for a test and an interval. The limits come from simulations of linear
    regressions.

    `df` are Satterthwaite degrees of freedom by the design (`CR2.linear_model`): with fewer, 5 % tests rejected in 0 to 3 %.
    `df_many` is the same with so many clusters that there is no bootstrap: with 4 to 8, they rejected in 3.5 to 4.5 %, and with
    fewer in 0.4 to 4.5 %.
    `df_wild` is the same for the wild cluster bootstrap, which replaces such tests: with fewer it rejected in 0 to 6 %.
    `df_joint` is the same for the denominator of an AHT test, or the number of coefficients if that is larger: 0 to 1 %.

    `clusters` are effective clusters if CR2 is too expensive: with fewer, 5 % tests rejected in up to 21 %.
    `clusters_per_coefficient` is the same for each coefficient of a joint test: up to 53 %. `dates` and `dates_joint` are
    degrees of freedom if dates close to each other are alike, for a coefficient and for the denominator of a joint test:
    with fewer, tests of covariates that are constant over many dates rejected in up to 14 %.
    """

    df: float = 8
    df_many: float = 4
    df_wild: float = 3
    df_joint: float = 20
    clusters: float = 40
    clusters_per_coefficient: float = 10
    dates: float = 15
    dates_joint: float = 25
    prints_all: bool = False
    """Whether tests with less are printed all the same, and marked in their notes."""


FEWEST = Fewest()


def fewest_for(design: Design) -> Fewest:
    """What the tests of a model need."""
    return replace(FEWEST, prints_all=True) if design.inference.tests == "all" else FEWEST


SEEN = 0.99
"""The share of the variance of a contrast that CR2 must expect under the working model. The rest is in directions that single
clusters determine. No difference between clusters shows it."""

UNSEEN_BELOW = 1e-3
"""Times the classical variance: below it a variance by cluster is that of what single clusters determine, where CR2, which would
tell, costs too much."""

AS_MANY = 1 - 1e-9
"""Share of the needed degrees of freedom that is enough. A balanced design has whole numbers of them, up to rounding errors."""

DETERMINED_ALONE = "determined within single clusters, so its variance between clusters cannot be seen"

NOT_POSITIVE = "its variance by clusters of several columns is not positive, or that of what single clusters determine"

NO_PART = "nothing that was estimated has a part in it"

UNRELIABLE = "not reliable: "
"""Before the note on a test that is printed because of `tests: all`."""

ON_DEMAND = ", or print it with `tests: all`"
"""The end of the reason why a test is not printed."""

CROSSED = "clusters of a column"
"""The clusters of an estimate in words, if there are clusters of several columns."""


def statistic(design: Design) -> str:
    """Return the name of an estimate divided by its standard error."""
    return "t" if design.by_cluster or has_dispersion(design) or design.random_parts else "z"


def has_dispersion(design: Design) -> bool:
    return not design.distribution.dispersion_known or design.inference.std_errors == "quasi"


@dataclass(frozen=True)
class Reference:
    """The reference distribution of some estimates: t with `df` [estimates] degrees of freedom, normal where these are
    infinite.

    With clusters, `unseen` [estimates] are estimates without a standard error. Estimates with less than `fewest` degrees of
    freedom, and with `rare` events [estimates], have no test by t. With CR2, the degrees of freedom `df_by_design` [estimates],
    which do not depend on the response, are compared with `fewest`; where there are enough, they may be a lower bound. By
    their place, some of these estimates have a bootstrap, `wild`. `of` says what carries the information: clusters, or dates.
    `varies` says that each estimate has degrees of freedom of its own. `count` is the number of clusters or dates. With
    `prints_all` estimates with less information have a test too.
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
    count: int = 0
    prints_all: bool = False

    @property
    def _information(self) -> np.ndarray:
        return self.df if self.df_by_design is None else self.df_by_design

    @property
    def _has_enough(self) -> np.ndarray:
        return self._information >= AS_MANY * self.fewest

    @cached_property
    def usable(self) -> np.ndarray:
        """The degrees of freedom, NaN where there is no test by t."""
        is_reliable = self._has_enough & ~np.asarray(self.rare)
        return np.where((is_reliable | self.prints_all) & ~np.asarray(self.unseen), self.df, np.nan)

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
        by_design = "" if self.df_by_design is None else " by the design"
        mark = UNRELIABLE if self.prints_all else ""
        few = [
            NO_PART
            if np.isnan(df)
            else f"p-value and interval by the wild cluster bootstrap, with {df:.1f} degrees of freedom{by_design}"
            if place in self.wild
            else mark + too_few(self.of, self.count, df, self.fewest, "this estimate").removesuffix(mark and ON_DEMAND)
            for place, df in enumerate(self._information)
        ]
        rare = f"{mark}fewer than {FEWEST_EVENTS} events, or rows without one, are expected of it"
        unseen = NOT_POSITIVE if self.of == CROSSED else DETERMINED_ALONE
        has_bootstrap = np.isin(np.arange(len(self.df)), list(self.wild))
        is_few = ~self._has_enough & ~(has_bootstrap & self.rare)
        return np.select([self.unseen, is_few, self.rare], [unseen, few, rare], "")


def too_few(of: str, count: int, information: float, needed: float, what: str) -> str:
    """Why a test is not reliable: clusters or dates that are unequal, or of which few have a level, count as fewer."""
    remedy = f"merge levels or choose other clusters{ON_DEMAND}"
    return f"too few {of}: the {count:,} count as {information:.1f} equal ones for {what}, and a test needs {needed:g}; {remedy}"


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
        is_tested = bool(wild) or np.isfinite(df)
        return cls(1.0, df, "" if is_tested else note, wild, note if is_tested else "")
