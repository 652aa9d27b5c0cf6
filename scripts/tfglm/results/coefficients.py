"""The table of coefficients: from the scale and the constraints of the fit to those that the reader asked for.

A fit holds some coefficients at zero, the model is the same whichever they are (model.parametrisation). In a table they are
those of the reference levels, and of columns that depend on each other, the last ones in formula order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse
import scipy.special
import scipy.stats

from tfglm.errors import UserError, nearest
from tfglm.model.design import Design
from tfglm.model.families import FAMILIES
from tfglm.model.fitted import ALIASED, EMPTY, FREE, REFERENCE, SEPARATED, Fitted
from tfglm.model.parametrisation import at_reference, hold, holding_zero, references_first, to_data_scale

RATIOS = {"binomial": "odds_ratio", "poisson": "rate_ratio"}
"""What the exponential of a coefficient is called."""


def distribution(design: Design, df_residual: float):
    """That of an estimate over its standard error: normal, or t if the dispersion is estimated."""
    known = FAMILIES[design.family].dispersion_known and design.std_errors != "quasi"
    return scipy.stats.norm if known else scipy.stats.t(df_residual)


@dataclass(frozen=True)
class Estimates:
    """Coefficients as a table has them, all [p]: `transform` @ those of the fit, on the scale of the data.

    `reference` ones are 0; `separated` ones are infinite; `aliased` ones are NaN. The others are `kept`.
    """

    design: Design
    fitted: Fitted
    levels: dict[str, str]
    transform: scipy.sparse.csr_array
    values: np.ndarray
    reference: np.ndarray
    separated: np.ndarray
    aliased: np.ndarray
    df_residual: float

    @property
    def kept(self) -> np.ndarray:
        return ~(self.reference | self.separated | self.aliased)

    @property
    def distribution(self):
        """That of an estimate over its standard error."""
        return distribution(self.design, self.df_residual)

    @property
    def statistic(self) -> str:
        return "t" if self.design.family == "gaussian" or self.design.std_errors == "quasi" else "z"


def estimates(design: Design, fitted: Fitted, reference: Mapping[str, str], df_residual: float) -> Estimates:
    """The coefficients under the constraints of a table. `reference` chooses levels; the default is the one that the formula
    names, else the first that has a finite estimate. Raises UserError if a reference asked for has none."""
    scale = to_data_scale(design)
    references = choose_references(design, fitted, reference)
    held, basis = hold((scale @ fitted.null_vectors.T).T, references_first(design, references))
    transform = (holding_zero(held, basis) @ scale).tocsr()
    separated = fitted.status == SEPARATED
    is_held = np.isin(np.arange(design.size), held)
    is_reference = is_held & (at_reference(design, references) > 0)
    aliased = (fitted.status == EMPTY) | (is_held & ~is_reference)
    values = transform @ np.where(separated, 0.0, fitted.coefficients)
    values[is_reference] = 0.0
    values[separated] = np.where(fitted.responses[separated] > 0, np.inf, -np.inf)
    values[aliased] = np.nan
    levels = {name: design.factors[name].levels[level] for name, level in references.items()}
    return Estimates(design, fitted, levels, transform, values, is_reference, separated, aliased, df_residual)


def table(found: Estimates, confidence: float) -> pd.DataFrame:
    """One row for each coefficient, on the scale of the data.

    Columns: term, level, reference, estimate, std_error, classical_std_error (if others were asked for), z (t for a family
    with unknown dispersion), p_value, neg_log10_p, ci_lower, ci_upper, odds_ratio (binomial) or rate_ratio (poisson),
    rows, events (binomial), status. Of a penalised fit: posterior_sd instead of errors and tests, or neither if the penalty
    sets coefficients to zero.
    """
    design, fitted = found.design, found.fitted
    penalised = design.penalised
    variances = fitted.variances(found.transform)
    errors, classical = (np.where(found.kept, np.sqrt(np.maximum(one, 0.0)), np.nan) for one in variances)
    terms = list(design.coefficients())
    coding = {term.name: term.categorical for term in design.terms}
    columns = {
        "term": [term for term, _ in terms],
        "level": [level for _, level in terms],
        "reference": ["" if penalised else ":".join(found.levels[name] for name in coding[term]) for term, _ in terms],
        "estimate": found.values,
        "std_error": np.full(design.size, np.nan) if penalised else errors,
    }
    if penalised:
        if np.isfinite(fitted.dispersion):  # not of a lasso
            columns["posterior_sd"] = classical
    else:
        if design.std_errors != "classical":
            columns["classical_std_error"] = classical
        columns |= tests(found, found.values, errors, confidence)
    if design.family in RATIOS:
        columns[RATIOS[design.family]] = np.exp(found.values)
    columns["rows"] = fitted.rows.astype(np.int64)
    if design.family == "binomial":
        events = fitted.responses
        columns["events"] = events.astype(np.int64) if np.all(events == np.round(events)) else events
    zero = (found.values == 0) & found.kept & penalised
    columns["status"] = np.select([found.separated, found.aliased, zero], ["separated", "aliased", "zero"], "")
    return pd.DataFrame(columns)


def tests(found: Estimates, values: np.ndarray, errors: np.ndarray, confidence: float) -> dict[str, np.ndarray]:
    """Statistic, p-value and confidence limits of estimates with these standard errors."""
    with np.errstate(invalid="ignore", divide="ignore"):
        statistic = values / errors
    margin = found.distribution.ppf(0.5 + confidence / 2) * errors
    return {
        found.statistic: statistic,
        "p_value": 2 * found.distribution.sf(np.abs(statistic)),
        "neg_log10_p": neg_log10_p(found, np.abs(statistic)),
        "ci_lower": values - margin,
        "ci_upper": values + margin,
    }


def neg_log10_p(found: Estimates, statistic: np.ndarray) -> np.ndarray:
    """-log10 of the two-sided p-value, also where that is too small for a float64."""
    if found.distribution is scipy.stats.norm:
        log_p = scipy.stats.norm.logsf(statistic) + np.log(2)
    else:
        df = found.df_residual
        with np.errstate(divide="ignore"):
            log_p = found.distribution.logsf(statistic) + np.log(2)
        # Where that underflows, Wallace's normal deviate of a t (Annals of Mathematical Statistics 30, 1959).
        deviate = (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(statistic**2 / df))
        log_p = np.where(np.isneginf(log_p), scipy.stats.norm.logsf(deviate) + np.log(2), log_p)
    return np.abs(log_p) / np.log(10)


def choose_references(design: Design, fitted: Fitted, asked: Mapping[str, str]) -> dict[str, int]:
    """The reference level of each categorical factor, by its number."""
    chosen = {}
    for factor in design.categorical:
        finite = np.zeros(len(factor.levels), bool)
        parts = [part for part in design.parts if factor.name in part.coding]
        # A factor's own part, if it has one, decides.
        for part in sorted(parts, key=lambda part: len(part.coding))[:1]:
            numbers = design.levels(part.coding)[:, part.coding.index(factor.name)]
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


def joint_tests(found: Estimates, likelihood_ratios: Sequence[Mapping] = ()) -> pd.DataFrame:
    """A test for each term that all its coefficients are zero: a Wald test, or the likelihood ratio test of fit.json for it.

    Columns: term, df, chi_squared, F (for a family with unknown dispersion), p_value, neg_log10_p, note.
    """
    design = found.design
    inside = {
        term.name
        for term in design.terms
        for other in design.terms
        if term is not other
        and set(term.categorical) <= set(other.categorical)
        and set(term.numeric) <= set(other.numeric)
        and (term.categorical or term.numeric)
    }
    rows = []
    for term, where in design.slices.items():
        if term == "Intercept":
            continue
        places = np.arange(where.start, where.stop)[found.kept[where]]
        note = "depends on the reference levels and on where numbers are zero" if term in inside else ""
        if found.separated[where].any():
            note = "; ".join(filter(None, [note, f"without {int(found.separated[where].sum())} separated levels"]))
        ratio = next((one for one in likelihood_ratios if one["term"] == term and "df" in one), None)
        if ratio:
            rows.append((term, ratio["df"], ratio["chi_squared"], "likelihood ratio, as there are separated levels"))
            continue
        value, df, problem = wald(found, places, term in inside)
        rows.append((term, df, value, "; ".join(filter(None, [note, problem]))))
    frame = pd.DataFrame(rows, columns=["term", "df", "chi_squared", "note"])
    value, df = frame["chi_squared"].to_numpy(float), frame["df"].to_numpy(float)
    if found.statistic == "t":
        frame.insert(3, "F", value / df)
        distribution = scipy.stats.f(df, found.df_residual)
        p, log_p = distribution.sf(value / df), distribution.logsf(value / df)
        # Where that underflows, the chi-squared variable whose tail falls as fast.
        value = found.df_residual * np.log1p(value / found.df_residual)
    else:
        p, log_p = scipy.stats.chi2.sf(value, df), scipy.stats.chi2.logsf(value, df)
    tiny = np.isneginf(log_p)
    log_p[tiny] = log_chi2_sf(value[tiny], df[tiny])
    frame.insert(frame.columns.get_loc("note"), "p_value", p)
    frame.insert(frame.columns.get_loc("note"), "neg_log10_p", np.abs(log_p) / np.log(10))
    return frame


def log_chi2_sf(value: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Logarithm of the upper tail of chi-squared far out, by the series of the incomplete gamma function (DLMF 8.11.2)."""
    shape, x = df / 2, value / 2
    term = total = np.ones_like(x)
    for number in range(1, 30):
        term = term * (shape - number) / x
        total = total + term
    return (shape - 1) * np.log(x) - x - scipy.special.gammaln(shape) + np.log(total)


def wald(found: Estimates, places: np.ndarray, inside: bool) -> tuple[float, int, str]:
    """The Wald statistic of the coefficients at `places`, its degrees of freedom, and what there is to say of it."""
    fitted = found.fitted
    if not len(places) or not np.isfinite(fitted.dispersion):
        return np.nan, 0, "no coefficient with a standard error"
    if len(fitted.scores) and len(places) >= len(fitted.scores):
        return np.nan, len(places), f"not more clusters ({len(fitted.scores)}) than coefficients"
    if len(places) > WIDEST_JOINT_TEST:
        if fitted.is_robust or inside or not np.isin(places, fitted.eliminated).mean() > 0.5:
            return np.nan, len(places), f"more than {WIDEST_JOINT_TEST:,} coefficients"
        return eliminated_wald(fitted), len(places), ""
    values = found.values[places]
    covariance = fitted.covariance(found.transform[places])
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


def contrasts(found: Estimates, wanted: Mapping[str, Mapping[str, float]], confidence: float) -> pd.DataFrame:
    """Linear combinations of coefficients, each given as weights by `term` or `term[level]`.

    Columns: contrast, estimate, std_error, z or t, p_value, neg_log10_p, ci_lower, ci_upper. Raises UserError for a
    coefficient that is not there or has no finite estimate.
    """
    names = [f"{term}[{level}]" if level else term for term, level in found.design.coefficients()]
    places = {name: place for place, name in enumerate(names)}
    where = f"models.{found.design.model}.contrasts"
    combination = np.zeros((len(wanted), found.design.size))
    for row, (name, weights) in enumerate(wanted.items()):
        for coefficient, weight in weights.items():
            if coefficient not in places:
                raise UserError(f"{where}.{name}: no coefficient `{coefficient}`{nearest(coefficient, places)}")
            place = places[coefficient]
            if found.separated[place] or found.aliased[place]:
                what = "separated" if found.separated[place] else "aliased"
                raise UserError(f"{where}.{name}: `{coefficient}` is {what}, so it has no estimate to combine")
            combination[row, place] = weight
    values = combination @ np.where(np.isfinite(found.values), found.values, 0.0)
    rows = scipy.sparse.csr_array(combination) @ found.transform
    errors = np.sqrt(found.fitted.variances(rows.tocsr()).chosen) if len(wanted) else np.zeros(0)
    return pd.DataFrame(
        {
            "contrast": list(wanted),
            "estimate": values,
            "std_error": errors,
            **tests(found, values, errors, confidence),
        }
    )


def covariance_table(found: Estimates) -> pd.DataFrame:
    """The covariance matrix of the coefficients that have a standard error, named like contrasts."""
    names = [f"{term}[{level}]" if level else term for term, level in found.design.coefficients()]
    places = np.flatnonzero(found.kept)
    kept = [names[place] for place in places]
    return pd.DataFrame(found.fitted.covariance(found.transform[places]), index=kept, columns=kept)
