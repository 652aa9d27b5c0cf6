"""The table of coefficients: from the scale and the constraints of the fit to those that the reader asked for.

A fit holds some coefficients at zero, the model is the same whichever they are (design.parametrisation). In a table they are
those of the reference levels, and of columns that depend on each other, the last ones in formula order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scipy.sparse
import scipy.special

from tfglm.design.design import Design
from tfglm.design.parametrisation import at_reference, hold, holding_zero, references_first, to_data_scale
from tfglm.errors import UserError, nearest
from tfglm.families import FAMILIES
from tfglm.results import distributions
from tfglm.results.aliases import aliased_with
from tfglm.results.reference import (
    DETERMINED_ALONE,
    FEWEST,
    Fewest,
    JointReference,
    Reference,
    determined_alone,
    joint_reference,
    rare_events,
    reference_of,
    statistic,
)
from tfglm.solvers.fitted import ALIASED, EMPTY, FREE, REFERENCE, SEPARATED, Fitted


@dataclass(frozen=True)
class Estimates:
    """Coefficients as a table has them, all [p]: `transform` @ those of the fit, on the scale of the data.

    `reference` ones are 0; `separated` ones are infinite; `aliased` ones are NaN, and `aliased_with` says by place what each is
    made of. The others are `kept`. Tests by cluster need `fewest`.
    """

    design: Design
    fitted: Fitted
    levels: dict[str, str]
    transform: scipy.sparse.csr_array
    values: np.ndarray
    reference: np.ndarray
    separated: np.ndarray
    aliased: np.ndarray
    aliased_with: Mapping[int, str]
    df_residual: float
    fewest: Fewest = FEWEST

    @property
    def kept(self) -> np.ndarray:
        return ~(self.reference | self.separated | self.aliased)

    @property
    def statistic(self) -> str:
        return statistic(self.design)


def estimates(design: Design, fitted: Fitted, reference: Mapping[str, str], df_residual: float) -> Estimates:
    """The coefficients under the constraints of a table.

    Parameters
    ----------
    design, fitted
        The model.
    reference
        Reference levels by term. The default is the one that the formula names, else the first that has a finite estimate.
    df_residual
        Of the fit.

    Raises
    ------
    UserError
        If a reference level asked for has no finite estimate.
    """
    scale = to_data_scale(design)
    references = choose_references(design, fitted, reference)
    held, basis = hold((scale @ fitted.null_vectors.T).T, references_first(design, references))
    transform = (holding_zero(held, basis) @ scale).tocsr()
    separated = fitted.status == SEPARATED
    is_held = np.isin(np.arange(design.size), held)
    is_reference = is_held & (at_reference(design, references) > 0)
    aliased = (fitted.status == EMPTY) | (is_held & ~is_reference)
    # Sums of large numbers that cancel, such as an intercept far from the data, keep their digits in extended precision.
    exact = np.where(separated, 0.0, fitted.coefficients).astype(np.longdouble)
    values = (transform.astype(np.longdouble) @ exact).astype(float)
    values[is_reference] = 0.0
    values[separated] = np.where(fitted.responses[separated] > 0, np.inf, -np.inf)
    values[aliased] = np.nan
    levels = {name: design.categorical_by_name[name].levels[level] for name, level in references.items()}
    made_of = aliased_with(design, aliased, held, basis)
    return Estimates(design, fitted, levels, transform, values, is_reference, separated, aliased, made_of, df_residual)


def aliased_by_default(design: Design, fitted: Fitted) -> list[dict]:
    """What fit.json says of aliased coefficients: those of the table whose reference levels are the first that can be."""
    plain = replace(design, categorical=tuple(replace(factor, reference=None) for factor in design.categorical))
    names = list(design.coefficients())
    made_of = estimates(plain, fitted, {}, np.nan).aliased_with
    return [
        {"term": names[place][0], "level": names[place][1], "aliased_with": text} for place, text in made_of.items()
    ]


def table(estimated: Estimates, confidence: float) -> pd.DataFrame:
    """One row for each coefficient, on the scale of the data.

    Columns: term, level, reference, estimate, std_error, classical_std_error (if others were asked for), z (t for a family
    with unknown dispersion, or errors by cluster), df (by cluster), p_value, neg_log10_p, ci_lower, ci_upper, the ratio of the
    family (odds_ratio, rate_ratio), rows, events (binomial), status; aliased_with, if something is aliased; note (by cluster:
    why there is no error or no test). Of a penalised fit: posterior_sd instead of errors and tests, or neither if the penalty
    sets coefficients to zero.
    """
    design, fitted = estimated.design, estimated.fitted
    penalised = design.penalised
    variances = fitted.variances(estimated.transform)
    errors, classical = (np.where(estimated.kept, np.sqrt(np.maximum(variance, 0.0)), np.nan) for variance in variances)
    terms = list(design.coefficients())
    grouping = {term.name: term.categorical for term in design.terms}
    columns = {
        "term": [term for term, _ in terms],
        "level": [level for _, level in terms],
        "reference": [
            "" if penalised else ":".join(estimated.levels[name] for name in grouping[term]) for term, _ in terms
        ],
        "estimate": estimated.values,
        "std_error": np.full(design.size, np.nan) if penalised else errors,
    }
    if penalised:
        if np.isfinite(fitted.dispersion):  # not of a lasso
            columns["posterior_sd"] = classical
    else:
        if design.std_errors != "classical":
            columns["classical_std_error"] = classical
        reference = reference_of(design, fitted, estimated.transform, estimated.df_residual, fewest=estimated.fewest)
        if reference.by_cluster:
            reference = replace(reference, rare=rare_events(design, fitted))
        columns["std_error"] = errors = np.where(reference.unseen, np.nan, errors)
        columns |= tests(estimated.statistic, reference, estimated.values, errors, confidence)
    family = FAMILIES[design.family]
    if family.ratio:
        with np.errstate(over="ignore"):  # beyond the largest float64 it is infinite
            columns[family.ratio] = np.exp(estimated.values)
    columns["rows"] = fitted.rows.astype(np.int64)
    if family.counts_events:
        events = fitted.responses
        columns["events"] = events.astype(np.int64) if np.all(events == np.round(events)) else events
    zero = (estimated.values == 0) & estimated.kept & penalised
    columns["status"] = np.select([estimated.separated, estimated.aliased, zero], ["separated", "aliased", "zero"], "")
    if estimated.aliased_with:
        columns["aliased_with"] = [estimated.aliased_with.get(place, "") for place in range(design.size)]
    if not penalised and reference.by_cluster:
        columns["note"] = np.where(estimated.kept, reference.notes(), "")
    return pd.DataFrame(columns)


def tests(
    statistic: str, reference: Reference, values: np.ndarray, errors: np.ndarray, confidence: float
) -> dict[str, np.ndarray]:
    """Statistic, degrees of freedom (by cluster), p-value and confidence limits of estimates with these standard errors."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = values / errors
    margin = reference.quantile(confidence) * errors
    shown = {"df": np.where(np.isfinite(errors), reference.df, np.nan)} if reference.by_cluster else {}
    return {
        statistic: ratio,
        **shown,
        "p_value": reference.p_value(np.abs(ratio)),
        "neg_log10_p": reference.neg_log10_p(np.abs(ratio)),
        "ci_lower": values - margin,
        "ci_upper": values + margin,
    }


def choose_references(design: Design, fitted: Fitted, asked: Mapping[str, str]) -> dict[str, int]:
    """The reference level of each categorical factor, by its number."""
    chosen = {}
    for factor in design.categorical:
        finite = np.zeros(len(factor.levels), bool)
        parts = [part for part in design.parts if factor.name in part.grouping]
        # A factor's own part, if it has one, decides.
        for part in sorted(parts, key=lambda part: len(part.grouping))[:1]:
            numbers = design.levels(part.grouping)[:, part.grouping.index(factor.name)]
            finite[numbers[np.isin(fitted.status[part.where], (FREE, REFERENCE, ALIASED))]] = True
        wanted = asked.get(factor.name, factor.reference)
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


# Tests of several coefficients ----------------------------------------------------------------------------------------

WIDEST_JOINT_TEST = 4_000
"""Coefficients of a term whose covariance matrix is made for a joint test; of a wider one only the eliminated part of a fit with
classical standard errors has one."""


def joint_tests(estimated: Estimates, likelihood_ratios: Sequence[Mapping] = ()) -> pd.DataFrame:
    """A test for each term that all its coefficients are zero: a Wald test, or the likelihood ratio test of fit.json for it.

    Columns: term, df, chi_squared, F (for a family with unknown dispersion, or errors by cluster), df_denominator (by cluster),
    p_value, neg_log10_p, note.
    """
    by_term = {ratio["term"]: ratio for ratio in likelihood_ratios if "df" in ratio}
    marginal = marginal_terms(estimated.design)
    rows = [
        joint_test(estimated, term, term in marginal, by_term.get(term))
        for term in estimated.design.slices
        if term != "Intercept"
    ]
    frame = pd.DataFrame(rows, columns=["term", "df", "chi_squared", "F", "df_denominator", "note"])
    value, df, denominator = (frame[name].to_numpy(float) for name in ("chi_squared", "df", "df_denominator"))
    if estimated.statistic == "t":
        with np.errstate(invalid="ignore", divide="ignore"):
            frame["F"] *= value / df
        ratio = frame["F"].to_numpy(float)
        p, log_p = distributions.f(ratio, df, denominator)
        # Where that underflows, the chi-squared variable whose tail falls as fast.
        value = denominator * np.log1p(ratio * df / denominator)
    else:
        frame = frame.drop(columns="F")
        p, log_p = distributions.chi_squared(value, df)
    if not estimated.design.by_cluster:
        frame = frame.drop(columns="df_denominator")
    tiny = np.isneginf(log_p)
    log_p[tiny] = log_chi2_sf(value[tiny], df[tiny])
    frame.insert(frame.columns.get_loc("note"), "p_value", p)
    frame.insert(frame.columns.get_loc("note"), "neg_log10_p", np.abs(log_p) / np.log(10))
    return frame


def marginal_terms(design: Design) -> set[str]:
    """The terms whose factors are all in another term too, as those of a main effect are in an interaction."""
    return {
        term.name
        for term in design.terms
        for other in design.terms
        if term is not other
        and set(term.categorical) <= set(other.categorical)
        and set(term.numeric) <= set(other.numeric)
        and (term.categorical or term.numeric)
    }


def joint_test(
    estimated: Estimates, term: str, is_marginal: bool, likelihood_ratio: Mapping | None
) -> tuple[str, float, float, float, float, str]:
    """Of a term: its name, degrees of freedom, Wald or likelihood ratio statistic, what that is multiplied with to refer it to
    F, the degrees of freedom of the denominator, and a note."""
    design, where = estimated.design, estimated.design.slices[term]
    if design.penalised:
        return term, np.nan, np.nan, np.nan, np.nan, "the fit is penalised, so there are no tests"
    if likelihood_ratio:
        note = "likelihood ratio, as there are separated levels"
        return term, likelihood_ratio["df"], likelihood_ratio["chi_squared"], 1.0, estimated.df_residual, note
    notes = ["depends on the reference levels and on where numbers are zero"] if is_marginal else []
    separated = int(estimated.separated[where].sum())
    if separated:
        notes.append(f"without {separated:,} separated level{'s' if separated > 1 else ''}")
    places = np.arange(where.start, where.stop)[estimated.kept[where]]
    if design.by_cluster and len(places) and len(estimated.fitted.scores):
        alone = determined_alone(estimated.fitted, estimated.transform[places])
        if alone.any() and not alone.all():
            places = places[~alone]
            notes.append(f"without {int(alone.sum()):,} of its coefficients, each {DETERMINED_ALONE}")
    value, df, problem = wald(estimated, places, is_marginal)
    reference = JointReference(1.0, estimated.df_residual)
    if design.by_cluster and np.isfinite(value):
        reference = of_clusters(estimated, places, df)
        value, problem = (np.nan, reference.problem) if reference.problem else (value, problem)
    note = "; ".join(filter(None, [*notes, problem]))
    return term, df, value, reference.scale, reference.df, note


def of_clusters(estimated: Estimates, places: np.ndarray, rank: int) -> JointReference:
    """What the Wald statistic of the coefficients at `places`, whose covariance matrix has this rank, is compared with."""
    if rank < len(places):
        return JointReference(problem=f"the covariance matrix of {len(places)} coefficients by cluster has rank {rank}")
    return joint_reference(estimated.fitted, estimated.transform[places], estimated.fewest)


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
    fitted = estimated.fitted
    if not len(places) or not np.isfinite(fitted.dispersion):
        return np.nan, 0, "no coefficient with a standard error"
    if len(fitted.scores) and len(places) >= len(fitted.scores) - 1:
        return np.nan, len(places), f"{len(fitted.scores)} clusters are too few for {len(places)} coefficients"
    if len(places) > WIDEST_JOINT_TEST:
        if fitted.is_robust or is_marginal or not np.isin(places, fitted.eliminated).mean() > 0.5:
            return np.nan, len(places), f"more than {WIDEST_JOINT_TEST:,} coefficients"
        return eliminated_wald(fitted), len(places), ""
    values = estimated.values[places]
    covariance = fitted.covariance(estimated.transform[places])
    scale = np.sqrt(np.diag(covariance))
    eigenvalues, vectors = np.linalg.eigh(covariance / scale / scale[:, None])
    good = eigenvalues > 1e-12 * eigenvalues.max()
    projected = (values / scale) @ vectors[:, good]
    return float(np.sum(projected**2 / eigenvalues[good])), int(good.sum()), ""


def eliminated_wald(fitted: Fitted) -> float:
    """The Wald statistic that the eliminated part has no effect, from the information that is left of it once the dense part
    is eliminated in turn: b'Db - (Bb)' A^-1 (Bb), so that its covariance is never made."""
    b = fitted.coefficients[fitted.eliminated]
    mixed = fitted.loadings * fitted.diagonal
    dense = np.linalg.inv(fitted.schur_inverse) + fitted.loadings @ mixed.T
    coupled = mixed @ b
    return float(
        (fitted.diagonal @ b**2 - coupled @ np.linalg.solve(dense, coupled)) / (fitted.dispersion * fitted.correction)
    )


def contrasts(estimated: Estimates, wanted: Mapping[str, Mapping[str, float]], confidence: float) -> pd.DataFrame:
    """Linear combinations of coefficients, each given as weights by `term` or `term[level]`.

    Columns: contrast, estimate, std_error, z or t, df (by cluster), p_value, neg_log10_p, ci_lower, ci_upper, note (by cluster:
    why there is no error or no test); of a penalised fit posterior_sd instead of the errors and tests, or neither of a lasso.
    Raises UserError for a coefficient that is not there or has no finite estimate.
    """
    names = [f"{term}[{level}]" if level else term for term, level in estimated.design.coefficients()]
    places = {name: place for place, name in enumerate(names)}
    where = f"models.{estimated.design.model}.contrasts"
    combination = np.zeros((len(wanted), estimated.design.size))
    for row, (name, weights) in enumerate(wanted.items()):
        for coefficient, weight in weights.items():
            if coefficient not in places:
                raise UserError(f"{where}.{name}: no coefficient `{coefficient}`{nearest(coefficient, places)}")
            place = places[coefficient]
            if estimated.separated[place] or estimated.aliased[place]:
                what = "separated" if estimated.separated[place] else "aliased"
                raise UserError(f"{where}.{name}: `{coefficient}` is {what}, so it has no estimate to combine")
            combination[row, place] = weight
    values = combination @ np.where(np.isfinite(estimated.values), estimated.values, 0.0)
    rows = (scipy.sparse.csr_array(combination) @ estimated.transform).tocsr()
    errors = np.sqrt(estimated.fitted.variances(rows).chosen) if len(wanted) else np.zeros(0)
    shown = {"contrast": list(wanted), "estimate": values}
    if estimated.design.penalised:
        return pd.DataFrame(shown | ({"posterior_sd": errors} if np.isfinite(estimated.fitted.dispersion) else {}))
    reference = reference_of(estimated.design, estimated.fitted, rows, estimated.df_residual, fewest=estimated.fewest)
    errors = np.where(reference.unseen, np.nan, errors)
    shown |= {"std_error": errors, **tests(estimated.statistic, reference, values, errors, confidence)}
    return pd.DataFrame(shown | ({"note": reference.notes()} if reference.by_cluster else {}))


def covariance_table(estimated: Estimates) -> pd.DataFrame:
    """The covariance matrix of the coefficients that have a standard error, named like contrasts."""
    names = [f"{term}[{level}]" if level else term for term, level in estimated.design.coefficients()]
    places = np.flatnonzero(estimated.kept)
    kept = [names[place] for place in places]
    return pd.DataFrame(estimated.fitted.covariance(estimated.transform[places]), index=kept, columns=kept)
