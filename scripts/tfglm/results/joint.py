"""Tests that all coefficients of a term are zero."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.sparse
import scipy.special

from tfglm.design.design import Design
from tfglm.errors import counted
from tfglm.formula.terms import INTERCEPT
from tfglm.inference import distributions
from tfglm.inference.classical import Classical
from tfglm.inference.fitted import Fitted
from tfglm.inference.reference import NOT_POSITIVE, JointReference
from tfglm.results.estimates import Estimates
from tfglm.results.smooth_tests import smooth_test

WIDEST_JOINT_TEST = 4_000
"""Coefficients of a term whose covariance matrix is made for a joint test; of a wider one only the eliminated part of a fit with
classical standard errors has one."""


DEPENDENT = 1e-11
"""Share of a combination of the coefficients of a fit that those before it do not make, below which that is rounding error."""

ORTHONORMAL = 1e-12

MANY = 1e12
"""Degrees of freedom of the denominator that make F a chi-squared variable, up to rounding errors."""

COLUMNS = ["df", "chi_squared", "F", "df_denominator", "p_wild", "note"]
"""The results of a test in this order. F is the factor that the statistic is multiplied by; `p_wild` is the p-value of a
bootstrap, NaN without one."""


def joint_tests(
    estimated: Estimates, likelihood_ratios: Sequence[Mapping] = (), smooths: Sequence[Mapping] = ()
) -> pd.DataFrame:
    """Test for each term that all its coefficients are zero; in a multinomial regression the coefficients of all classes.

    The `likelihood_ratios` of fit.json replace the Wald tests of their terms. The `smooths` of fit.json have tests of their
    own (solvers.smooth_report), one for each level of a factor. A row for each term. Columns: term, df (of a smooth term the
    rank, which need not be whole), chi_squared, F (for a family with unknown dispersion, or with clustered errors),
    df_denominator (with clusters), p_value, neg_log10_p, deviance_without and aic_without (if likelihood ratios were
    requested), note.
    """
    by_term = {ratio["term"]: ratio for ratio in likelihood_ratios if "df" in ratio}
    marginal = marginal_terms(estimated.design)
    rows: list[tuple] = []
    tails: dict[int, tuple[float, float]] = {}
    for term in dict.fromkeys(term.base for term in estimated.design.terms):
        own = [smooth for smooth in smooths if smooth["term"] == term]
        for smooth in own:
            test = smooth_test(estimated, smooth)
            if test.tail:
                tails[len(rows)] = test.tail
            rows.append(test.row)
        if not own and term != INTERCEPT:
            rows.append(joint_test(estimated, term, term in marginal, by_term.get(term)))
    table = with_p_values(pd.DataFrame(rows, columns=["term", *COLUMNS]), estimated)
    for row, (p, log_p) in tails.items():
        if np.isfinite(log_p):
            table.loc[row, ["p_value", "neg_log10_p"]] = p, abs(log_p) / np.log(10)
    return (
        with_fits_without(table, likelihood_ratios) if estimated.design.inference.tests == "likelihood_ratio" else table
    )


def with_fits_without(table: pd.DataFrame, likelihood_ratios: Sequence[Mapping]) -> pd.DataFrame:
    """The table of terms with the deviance and AIC of the model without each, and what kept it from being fitted."""
    of_term = {ratio["term"]: ratio for ratio in likelihood_ratios}
    for name in ("deviance", "aic"):
        values = [of_term.get(term, {}).get(name) for term in table["term"]]
        table.insert(table.columns.get_loc("note"), f"{name}_without", np.array(values, float))
    problems = [of_term.get(term, {}).get("problem", "") for term in table["term"]]
    notes = [
        "; ".join(
            filter(None, [note, f"Wald test, as the model without it cannot be fitted: {problem}" if problem else ""])
        )
        for note, problem in zip(table["note"], problems, strict=True)
    ]
    return table.assign(note=notes)


def with_p_values(frame: pd.DataFrame, estimated: Estimates) -> pd.DataFrame:
    """A table of Wald tests with COLUMNS as the tables of tests have it: F, so far what the statistic is multiplied with, and
    `df_denominator` where it is compared with F, and p-values."""
    p_wild = frame.pop("p_wild").to_numpy(float)
    value, df, denominator = (frame[name].to_numpy(float) for name in ("chi_squared", "df", "df_denominator"))
    if estimated.statistic == "t":
        with np.errstate(invalid="ignore", divide="ignore"):
            frame["F"] *= value / df
        ratio, denominator = frame["F"].to_numpy(float), np.minimum(denominator, MANY)
        p, log_p = distributions.f(ratio, df, denominator)
        # Where that underflows, use the chi-squared variable whose tail falls as fast.
        with np.errstate(invalid="ignore", divide="ignore"):
            value = denominator * np.log1p(ratio * df / denominator)
    else:
        frame = frame.drop(columns="F")
        p, log_p = distributions.chi_squared(value, df)
    if not (estimated.design.by_cluster or estimated.design.random_parts):
        frame = frame.drop(columns="df_denominator")
    tiny = np.isneginf(log_p)
    log_p[tiny] = log_chi2_sf(value[tiny], df[tiny])
    p, log_p = np.where(np.isnan(p_wild), p, p_wild), np.where(np.isnan(p_wild), log_p, np.log(p_wild))
    frame.insert(frame.columns.get_loc("note"), "p_value", p)
    frame.insert(frame.columns.get_loc("note"), "neg_log10_p", np.abs(log_p) / np.log(10))
    return frame


def marginal_terms(design: Design) -> set[str]:
    """Return the terms whose factors are all in another term too, such as a main effect in an interaction."""
    return {
        term.base
        for term in design.terms
        for other in design.terms
        if term is not other
        and not (other.kind.is_smooth or other.kind.is_random)  # these have the mean 0
        and term.equation == other.equation
        and term.is_within(other)
        and (term.categorical or term.numeric)
    }


def joint_test(
    estimated: Estimates, term: str, is_marginal: bool, likelihood_ratio: Mapping | None
) -> tuple[str, float, float, float, float, float, str]:
    """The test of a term: its name and the COLUMNS."""
    design, slices = estimated.design, estimated.design.slices
    where = np.concatenate([np.arange(design.size)[slices[each.name]] for each in design.terms if each.base == term])
    if design.penalty.given:
        return term, np.nan, np.nan, np.nan, np.nan, np.nan, "the fit is penalised, so there are no tests"
    covariance = estimated.fitted.covariance
    if likelihood_ratio:
        note = likelihood_ratio.get("note", "likelihood ratio, as there are separated levels")
        if not likelihood_ratio["df"]:
            return term, 0, np.nan, np.nan, np.nan, np.nan, f"{note}: without it the fit is the same"
        return term, likelihood_ratio["df"], likelihood_ratio["chi_squared"], 1.0, covariance.df_residual, np.nan, note
    notes = ["depends on the reference levels and on where numbers are zero"] if is_marginal else []
    separated = int(estimated.separated[where].sum())
    if separated:
        notes.append(f"without {counted(separated, 'separated level')}")
    if on_bound := int(estimated.at_bound[where].sum()):
        notes.append(f"given {counted(on_bound, 'coefficient')} on a bound")
    places = where[estimated.kept[where]]
    unseen = covariance.unseen(estimated.transform[places]) if len(places) else np.zeros(0, bool)
    if unseen.any() and not unseen.all():
        places = places[~unseen]
        notes.append(f"without {int(unseen.sum()):,} of its coefficients, each {covariance.why_unseen}")
    value, df, problem = wald(estimated, places, is_marginal)
    weights = scipy.sparse.eye_array(design.size, format="csr")[places]
    tested = compared(estimated, estimated.values[places], estimated.transform[places], weights, value, df)
    note = "; ".join(filter(None, [*notes, problem, tested.pop("note")]))
    return term, df, *tested.values(), note


def compared(
    estimated: Estimates,
    values: np.ndarray,
    rows: scipy.sparse.csr_array,
    weights: scipy.sparse.csr_array,
    wald_statistic: float,
    rank: int,
) -> dict[str, Any]:
    """The COLUMNS of a Wald test, without its degrees of freedom. That of a single combination is its t test, squared.

    `values` [q] are the tested combinations less their values under the hypothesis, `rows` [q, p] their combinations of the
    fit's coefficients, and `weights` of those of the table. The statistic is NaN if there is none; `rank` is that of the
    covariance matrix.
    """
    covariance = estimated.fitted.covariance
    if not estimated.design.by_cluster:
        reference = covariance.joint(rows)
    elif not np.isfinite(wald_statistic):
        reference = JointReference(1.0, covariance.df_residual)
    elif rank < len(values):
        reference = JointReference(
            problem=f"the covariance matrix of {len(values)} coefficients by cluster has rank {rank}"
        )
    else:
        reference = estimated.joint_distribution(rows, weights)
    return {
        "chi_squared": np.nan if reference.problem else wald_statistic,
        "F": reference.scale,
        "df_denominator": reference.df,
        "p_wild": reference.wild.p_value(values[0]) if reference.wild else np.nan,
        "note": reference.problem or reference.note,
    }


def log_chi2_sf(value: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Logarithm of the upper tail of chi-squared far out, by the series of the incomplete gamma function (DLMF 8.11.2)."""
    shape, x = df / 2, value / 2
    term = total = np.ones_like(x)
    for number in range(1, 30):
        term = term * (shape - number) / x
        total = total + term
    return (shape - 1) * np.log(x) - x - scipy.special.gammaln(shape) + np.log(total)


def wald(estimated: Estimates, places: np.ndarray, is_marginal: bool) -> tuple[float, int, str]:
    """The Wald statistic of the coefficients at `places`, its degrees of freedom, and what there is to say of it."""
    covariance = estimated.fitted.covariance
    if not len(places) or not covariance.is_known:
        return np.nan, 0, "no coefficient with a standard error"
    if len(places) > WIDEST_JOINT_TEST and not covariance.too_few_for(len(places)):
        eliminated = np.isin(places, covariance.bread.eliminated).mean()
        if not isinstance(covariance, Classical) or is_marginal or not eliminated > 0.5:
            return np.nan, len(places), f"more than {WIDEST_JOINT_TEST:,} coefficients"
        return covariance.eliminated_wald(estimated.fitted.coefficients), len(places), ""
    return wald_of(estimated.fitted, estimated.values[places], estimated.transform[places])


def wald_of(
    fitted: Fitted, values: np.ndarray, rows: scipy.sparse.csr_array, equals: np.ndarray | float = 0.0
) -> tuple[float, int, str]:
    """The same of combinations of the coefficients of the fit, `rows` of a transformation with these `values`, less what they are
    to be, `equals`."""
    q, covariance = len(values), fitted.covariance
    if problem := covariance.too_few_for(q):
        return np.nan, q, problem
    matrix = covariance.of(rows)
    if covariance.may_be_indefinite and not np.all(np.diag(matrix) > 0):
        return np.nan, q, NOT_POSITIVE
    if not np.diag(matrix).all():
        return np.nan, q, "a combination of coefficients on bounds has no standard error"
    scale = np.sqrt(np.diag(matrix))
    eigenvalues, vectors = np.linalg.eigh(matrix / scale / scale[:, None])
    good = eigenvalues > 1e-12 * eigenvalues.max()
    if not good.all():
        # Rows that are nearly alike, as those of powers of a year, may be independent all the same.
        apart = orthonormal(fitted, rows, np.broadcast_to(equals, q))
        if apart is not None:
            return wald_of(fitted, *apart)
    if eigenvalues.min() < -1e-12 * eigenvalues.max() and covariance.may_be_indefinite:
        return np.nan, q, "its covariance matrix by clusters of several columns is not positive semidefinite"
    projected = (values / scale) @ vectors[:, good]
    return float(np.sum(projected**2 / eigenvalues[good])), int(good.sum()), ""


def orthonormal(
    fitted: Fitted, rows: scipy.sparse.csr_array, equals: np.ndarray
) -> tuple[np.ndarray, scipy.sparse.csr_array, np.ndarray] | None:
    """Orthonormal combinations of the coefficients of the fit that say the same as that `rows` are `equals`, as `wald_of` takes
    them; None if they are orthonormal already, or depend on each other."""
    places, on_free = fitted.covariance.bread.free, fitted.covariance.bread.on_free(rows)
    size = np.linalg.norm(on_free, axis=1)
    if not np.all(size > 0) or np.abs(on_free @ on_free.T - np.eye(len(size))).max() < ORTHONORMAL:
        return None
    basis, triangle = np.linalg.qr((on_free / size[:, None]).T)
    if np.abs(np.diag(triangle)).min() <= DEPENDENT:
        return None
    moved = scipy.linalg.solve_triangular(triangle, equals / size, trans="T")
    spread = scipy.sparse.csr_array(basis.T)
    wide = scipy.sparse.csr_array(
        (spread.data, places[spread.indices], spread.indptr), shape=(len(size), rows.shape[1])
    )
    return wide @ fitted.coefficients - moved, wide, moved
