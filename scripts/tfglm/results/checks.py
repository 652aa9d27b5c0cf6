"""Checks of a fitted model: what may be wrong, how much, and what to write then (docs/statistics.md has the rules)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import chdtrc, fdtrc, kolmogorov, ndtr, ndtri, stdtr

from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.design.parametrisation import to_data_scale
from tfglm.errors import counted
from tfglm.formula.parse import term_of
from tfglm.formula.terms import INTERCEPT
from tfglm.inference.fitted import FREE, Fitted
from tfglm.results.diagnostics import MOST_WITH_LEVERAGE, Diagnosed, diagnosed, in_bins
from tfglm.results.digits import four_that_count, percent, two_digits
from tfglm.results.saved_fit import SavedFit
from tfglm.results.verdicts import (
    COOK,
    DISPERSION,
    DISTANCE,
    FAR_OUT,
    GREEN,
    INFLATION,
    LIKELY,
    LOST,
    MISFIT,
    RED,
    SKIPPED,
    SPREAD,
    ZEROS,
    Check,
    Deviation,
    cohens_f,
    means_deviation,
    worst,
)

MOST_ROWS, MOST_COEFFICIENTS, BINS, FIFTHS = 1_000_000, 500, 10, 5
"""Training rows above which the model must ask for `diagnostics`, coefficients with inflation factors, and bins of rows."""


def checks(
    design: Design, fitted: Fitted, fit: Mapping[str, Any], files: Sequence[IngestedFile], asked: bool = False
) -> list[Check]:
    """Return the checks that apply to a regression, from the content of fit.json and from about 131,072 training rows.

    Of more than `MOST_ROWS` rows, none is read unless `asked`.
    """
    if fit["exact"] and not fit["converged"]:
        return [Check("convergence", RED, "the fit has not converged", "See the warning of the model")]
    found = [each.line() for each in fit_deviations(design, fitted, fit)]
    if design.equations or fit["perfect_fit"] or not fit["pearson_dispersion"]:
        return found
    if design.rows["train"] > MOST_ROWS and not asked:
        remedy = "Write `diagnostics: true` in the section of the model"
        return [*found, Check("residuals", SKIPPED, f"there are more than {MOST_ROWS:,} rows", remedy)]
    seen = diagnosed(design, fitted, files, [])
    if not len(seen.rows):
        return found
    rows = CheckedRows(design, fit, seen)
    # The errors of an equation with instruments depend on its endogenous terms.
    return [*found, *(rows.distribution() if "instruments" in fit else rows.checks())]


def content(saved: SavedFit, files: Sequence[IngestedFile], asked: bool = False) -> dict[str, list[dict[str, str]]]:
    """The content of checks.json."""
    return {"checks": [each._asdict() for each in checks(saved.design, saved.fitted, saved.fit, files, asked)]}


def fit_deviations(design: Design, fitted: Fitted, fit: Mapping[str, Any]) -> Iterator[Deviation]:
    """Separation and collinearity."""
    if design.distribution.separates and not design.likelihood.firth:
        rows = fit["rows_of_separated_levels"] + fit["rows_separated_across_terms"]
        lost = rows / fit["rows"]
        said = (
            f"{counted(fit['coefficients_separated'], 'infinite coefficient')}, of levels with {counted(rows, 'row')}"
        )
        remedy = f"Write {'`firth: true`, or ' if design.distribution.counts_events else ''}`rare` to merge levels"
        yield Deviation("separation", LOST, lost, said, remedy)
    sizes = inflation(design, fitted)
    for each in fit.get("nearly_aliased", []):
        columns = set(term_of(each["term"]).columns)
        if not all(columns & set(term_of(other["term"]).columns) for other in each["with"]):  # not within a polynomial
            sizes[each["term"]] = each["vif"]
    if sizes:
        largest = max(sizes.values())
        which = sorted(columns for columns, size in sizes.items() if size >= min(largest, INFLATION[0]))
        said = f"the largest variance inflation factor is {two_digits(largest)}, of {' and '.join(which)}"
        remedy = "Leave out one of them, unless predictions are all you need"
        yield Deviation("collinearity", INFLATION, largest, said, remedy)


def inflation(design: Design, fitted: Fitted) -> dict[str, float]:
    """The generalised variance inflation factors, to the power 1 / df (Fox and Monette 1992), by the columns of terms.

    A polynomial is one term. Columns in interactions have none, as theirs depend on the origins of numbers, nor have smooth terms
    and random effects.
    """
    sets: dict[frozenset[str], list[int]] = {}
    for part in design.reported.fixed_parts:
        places = [place for place in range(part.where.start, part.where.stop) if fitted.status[place] == FREE]
        if part.term.base != INTERCEPT and not part.term.kind.is_smooth and places:
            sets.setdefault(frozenset(term_of(part.term.name).columns), []).extend(places)
    order = np.array([place for places in sets.values() for place in places])
    unknown = design.equations or design.penalty.given or not fitted.covariance.is_known
    if len(sets) < 2 or len(order) > MOST_COEFFICIENTS or unknown:
        return {}
    covariance = fitted.reported(design).covariance.bread.of(to_data_scale(design.reported)[order])
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / scale / scale[:, None]
    both, found = [correlation, np.linalg.inv(correlation)], {}
    for columns, places in sets.items():
        if not any(columns & other for other in sets if other != columns):
            own = np.ix_(*[np.isin(order, places)] * 2)
            logs = sum(float(np.linalg.slogdet(each[own])[1]) for each in both)
            found[", ".join(sorted(columns))] = float(np.exp(logs / len(places)))
    return found


class CheckedRows:
    """Training rows, each [rows]: `score` is the derivative of the log-likelihood by the linear predictor, `information` its
    variance, and `residual` Pearson's in standard deviations. `size` are the rows, or trials, and `other` is another family."""

    def __init__(self, design: Design, fit: Mapping[str, Any], seen: Diagnosed) -> None:
        family = self.family = design.distribution
        self.design, self.table, self.kind = design, seen.rows, seen.kind
        self.numbers = {name: seen.rows[name].to_numpy(float) for name in seen.numbers}
        self.is_robust = fit["std_errors"]["kind"] not in ("classical", "unconditional", "none")
        self.y, self.mean, self.weight = (self.table[each].to_numpy(float) for each in ("response", "fitted", "weight"))
        self.is_binary = family.counts_events and not design.roles.trials and bool(np.isin(self.y, (0, 1)).all())
        self.dispersion = 1.0 if self.is_binary and not design.roles.weights else fit["pearson_dispersion"]
        self.scale = max(self.dispersion, 1.0) if family.dispersion_known else self.dispersion
        known = np.unique(np.quantile(self.mean, np.linspace(0, 1, 2001)))
        with np.errstate(all="ignore"):
            eta = np.array([family.link(each) for each in known.tolist()])
            self.eta = np.interp(self.mean, known[np.isfinite(eta)], eta[np.isfinite(eta)])
            slope, error = family.slope(self.eta, self.mean), self.y - self.mean
            variance = self.scale * family.variance(self.mean) / self.weight
            values = slope * error / variance, slope**2 / variance, error / np.sqrt(variance)
        self.score, self.information, self.residual = (np.where(np.isfinite(each), each, 0.0) for each in values)
        events = float((self.weight * family.variance(self.mean)).sum())
        most = min(len(self.y) // 10, events // 5 if family.counts_events or family.of_counts else BINS)
        other = f"`family: {'truncated_' if family.smallest == 1 else ''}negative_binomial`, or "
        self.other = other if family.of_counts and family.theta is None else ""
        self.size = self.weight.sum() if family.counts_events and not self.is_binary else len(self.y)
        self.bins = int(np.clip(most, 2, BINS))

    def checks(self) -> Iterator[Check]:
        """Those of means, of the variance, of the distribution, and of single rows."""
        curves = [worst(list(map(self.curve, self.numbers)))] if self.numbers else []
        yield from curves
        if not self.design.penalty.given:
            what, remedy = "means of rows with similar predictions", "Write the interaction or curve that is missing"
            yield self.misfit("calibration", what, self.mean, remedy).line()
            yield self.bend(any(each.verdict != GREEN for each in curves)).line()
        if not self.is_binary:
            line = self.dispersed().line() if self.family.dispersion_known else self.spread()
            allowed = Check(line.check, GREEN, f"{line.finding}, and standard errors allow for it")
            yield allowed if self.is_robust else line
            # Overdispersion changes the distribution too, so one line is enough. A lasso has no dispersion.
            known = self.kind != "deviance residuals" and bool(self.table["quantile_residual"].notna().all())
            if known and (line.verdict == GREEN or not self.family.dispersion_known):
                yield from self.distribution()
            if self.family.of_counts and (law := self.family.law(self.y, self.mean, self.weight, 1.0)):
                yield self.zeros(law.distribution.cdf(0)).line()
        if "cook" in self.table and self.table["cook"].notna().any():
            yield self.influence().line()
        elif len(self.table) > MOST_WITH_LEVERAGE:
            yield Check("influence", SKIPPED, f"there are more than {MOST_WITH_LEVERAGE:,} rows")

    def misfit(self, check: str, what: str, x: np.ndarray, remedy: str) -> Deviation:
        """The score test of a mean for each bin of x, after Hosmer and Lemeshow (1980)."""
        place, count = in_bins(x, self.information, self.bins)
        sums = [np.bincount(place, each) for each in (self.score, self.information, self.y, self.mean, x)]
        squares = np.divide(sums[0] ** 2, sums[1], out=np.zeros(len(count)), where=sums[1] > 0)
        means = [each / count for each in sums[2 : 4 if x is self.mean else 5]]
        return means_deviation(check, what, squares, len(count) - 1, self.size, means, remedy)

    def curve(self, name: str) -> Deviation:
        """Means along a number."""
        factors = [factor for term in self.design.terms for factor in term_of(term.name).factors]
        is_curve = any(factor.is_curve and name in factor.columns for factor in factors)
        remedy = f"Write `s({name}{', k=20' if is_curve else ''})` in the formula"
        return self.misfit("curves", f"means along {name}", self.numbers[name], remedy)

    def bend(self, has_curves: bool) -> Deviation:
        """Pregibon's test of the link (1980): the square of the linear predictor beside it, in one step."""
        eta, total = (self.eta - self.eta.mean()) / max(float(self.eta.std()), 1e-300), 0.0
        columns = np.stack([np.ones_like(eta), eta, eta**2])
        inverse = np.linalg.pinv(columns * self.information @ columns.T, rcond=1e-10)
        if np.linalg.matrix_rank(inverse) == 3:  # else fewer than three different predictions
            total = float((inverse @ columns @ self.score)[2] ** 2 / inverse[2, 2])
        size = cohens_f(total, 1, self.size)
        said = f"the bend of means along predictions has an effect (Cohen's f) of {two_digits(size)}"
        remedy = f"{'See to the curves first, then try' if has_curves else 'Try'} another `link`, or an interaction"
        return Deviation("link", MISFIT, size, said, remedy, float(chdtrc(1, total)))

    def dispersed(self) -> Deviation:
        """The Pearson dispersion. Statistics of rare counts vary more than chi-squared ones, so they say themselves how much."""
        error = float(np.std(self.residual**2)) * self.scale / np.sqrt(len(self.residual))
        said = f"the response varies {two_digits(self.dispersion)} times as much as the family says"
        remedy = f"Write {self.other}`std_errors: {'robust' if self.design.smooths else 'quasi'}`"
        p = float(stdtr(max(len(self.residual) - 1, 1), (1 - self.dispersion) / max(error, 1e-9)))
        return Deviation("overdispersion", DISPERSION, self.dispersion, said, remedy, p)

    def spread(self) -> Check:
        """Levene's test of the variance in fifths of the rows, along predictions and numbers: the worst."""
        found, sizes = [], np.abs(self.residual)
        for name, x in {"predictions": self.mean, **self.numbers}.items():
            place, count = in_bins(x, np.ones(len(x)), int(np.clip(len(x) // 20, 1, FIFTHS)))
            total, squares = np.bincount(place, sizes), np.bincount(place, sizes**2)
            between, df = float(np.sum(total**2 / count) - total.sum() ** 2 / len(x)), len(count) - 1
            within, rest = float(squares.sum() - np.sum(total**2 / count)), len(x) - len(count)
            p = float(fdtrc(df, rest, between / df / (within / rest))) if df else 1.0
            size = float(np.max(squares / count) / max(np.min(squares / count), 1e-12))
            said = f"the variance of residuals changes by a factor of {two_digits(size)} along {name}"
            found.append(Deviation("spread", SPREAD, size, said, "Write `std_errors: robust`", p))
        return worst(found)

    def distribution(self) -> Iterator[Check]:
        """The distance of quantile residuals from normal ones, and rows further out than the furthest of so many."""
        residual = self.table["quantile_residual"].to_numpy()
        below, steps = ndtr(np.sort(residual)), np.arange(len(residual) + 1) / len(residual)
        off = float(max(np.max(steps[1:] - below), np.max(below - steps[:-1])))  # of Kolmogorov and Smirnov
        p, limits = float(kolmogorov(off * np.sqrt(len(residual)))), (DISTANCE[0], np.inf)
        logarithm = "the logarithm of the response, or " if self.family.quadratic and self.y.min() > 0 else ""
        remedy = f"Try {logarithm}another `family`"
        remedy += (
            "; intervals of effects allow for it" if self.is_robust else ", or `std_errors: robust`, for intervals"
        )
        said = f"the distribution of the residuals is off by {percent(off)} from that of the family"
        yield Deviation("residuals", limits if self.is_robust else DISTANCE, off, said, remedy, p).line()
        far = np.abs(residual) > -ndtri(LIKELY / 2 / len(residual))
        share = float((residual[far] ** 2).sum() / max((residual**2).sum(), 1e-300))
        said = (
            f"{far.sum():,} of {len(far):,} rows read are too far out, with {percent(share)} of the squared residuals"
        )
        remedy = "Look at these rows; if their values are codes for missing ones, name them under `missing`"
        yield Deviation("outliers", FAR_OUT, share, said, remedy, where=self.described(np.abs(residual))).line()

    def zeros(self, none: np.ndarray) -> Deviation:
        """More zeros than the model expects, with these probabilities, if they are 1 % of the rows or more."""
        zeros, expected = float(np.sum(self.y == 0)), float(none.sum())
        p = float(ndtr((expected - zeros) / np.sqrt(max(float(np.sum(none * (1 - none))), 1e-9))))
        share = (zeros - expected) / zeros if zeros - expected > 0.01 * len(none) else 0.0
        said = f"{zeros:,.0f} responses are 0, and the model expects {expected:,.0f}"
        remedy = f"Write {self.other}a model of whether it is 0, and one of the others (`subset`)"
        return Deviation("zeros", ZEROS, share, said, remedy, p)

    def influence(self) -> Deviation:
        """The largest Cook's distance, less overdispersion, of a row whose residual is no chance: a far row may be right."""
        rows = self.table[["cook", "standardised_pearson_residual"]].fillna(0.0).to_numpy()
        cook, standard = rows[:, 0] / (self.scale if self.family.dispersion_known else 1.0), np.abs(rows[:, 1])
        said = f"the largest Cook's distance is {two_digits(float(cook.max()))}"
        p, remedy = float(2 * ndtr(-standard[cook.argmax()])), "Fit without this row (`where`), and compare"
        return Deviation("influence", COOK, float(cook.max()), said, remedy, p, self.described(cook))

    def described(self, size: np.ndarray) -> str:
        """The response and the prediction of the row with the largest of these sizes."""
        y, mean = (four_that_count(float(each[size.argmax()])) for each in (self.y, self.mean))
        return f"; the largest is of a response of {y}, whose prediction is {mean}"
