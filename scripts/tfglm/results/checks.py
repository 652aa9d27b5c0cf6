"""Checks of a fitted model: what may be wrong, how much, and what to write then.

A verdict needs a deviation that is no chance, and large by a measure that does not grow with the number of rows.
`docs/statistics.md` has the rules.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.design.parametrisation import to_data_scale
from tfglm.formula.parse import term_of
from tfglm.formula.terms import INTERCEPT
from tfglm.inference.fitted import FREE, Fitted
from tfglm.results.diagnostics import MOST_WITH_LEVERAGE, Diagnosed, diagnosed
from tfglm.results.digits import four_that_count, percent, two_digits
from tfglm.results.saved_fit import SavedFit

RED, AMBER, GREEN, SKIPPED = VERDICTS = "red", "amber", "green", "not checked"

MOST_ROWS, MOST_COEFFICIENTS, BINS, FIFTHS = 1_000_000, 500, 10, 5
"""Training rows above which the model must ask for `diagnostics`, coefficients with inflation factors, and bins of rows."""

LIKELY, SURE = 1e-2, 1e-3
"""P-values below which a deviation may be amber, and red."""

MISFIT, DISTANCE, SPREAD, DISPERSION = (0.1, 0.25), (0.05, 0.1), (4.0, 10.0), (1.25, 2.0)
INFLATION, COOK, ZEROS, FAR_OUT, LOST = (5.0, 10.0), (0.5, 1.0), (0.05, 0.2), (0.01, 0.2), (0.0, 0.05)
"""From which size a deviation is amber, and red."""


class Check(NamedTuple):
    """A line: what was checked, the verdict, what was found, and what to do about it unless it is green."""

    check: str
    verdict: str
    finding: str
    remedy: str = ""


class Misfit(NamedTuple):
    """How far means differ from the model: Cohen's f, a p-value, and where most."""

    size: float = 0.0
    p: float = 1.0
    place: float = np.nan
    observed: float = np.nan
    expected: float = np.nan

    def line(self, check: str, what: str, remedy: str, tests: int = 1) -> Check:
        """The check of means `what`, the worst of so many tests."""
        verdict = judged(MISFIT, self.size, self.p * tests)
        said = f"{what} are off by {two_digits(self.size)} standard deviations of the residuals"
        if verdict != GREEN:
            near = "where" if np.isnan(self.place) else f"near {four_that_count(self.place)}"
            said += (
                f": {near} they are {four_that_count(self.observed)}, and predictions {four_that_count(self.expected)}"
            )
        return Check(check, verdict, said, remedy)


def checks(
    design: Design, fitted: Fitted, fit: Mapping[str, Any], files: Sequence[IngestedFile], asked: bool = False
) -> list[Check]:
    """Return the checks that apply to a regression, from the content of fit.json and from about 131,072 training rows.

    Of more than `MOST_ROWS` rows, none is read unless `asked`.
    """
    if fit["exact"] and not fit["converged"]:
        return [Check("convergence", RED, "the fit has not converged", "follow the warning of the model")]
    found = [*of_fit(design, fitted, fit)]
    if design.rows["train"] > MOST_ROWS and not (asked or design.equations):
        remedy = "write `diagnostics: true` in the section of the model"
        found.append(Check("residuals", SKIPPED, f"there are more than {MOST_ROWS:,} rows", remedy))
    elif not (design.equations or fit["perfect_fit"]) and (fit["pearson_dispersion"] or 0.0) > 0:
        seen = diagnosed(design, fitted, files, [])
        found += CheckedRows(design, fit, seen).checks() if len(seen.rows) else []
    return [each._replace(remedy="") if each.verdict == GREEN else each for each in found]


def content(saved: SavedFit, files: Sequence[IngestedFile], asked: bool = False) -> dict[str, list[dict[str, str]]]:
    """The content of checks.json."""
    return {"checks": [each._asdict() for each in checks(saved.design, saved.fitted, saved.fit, files, asked)]}


def judged(limits: tuple[float, float], size: float, p: float = 0.0) -> str:
    """The verdict on a deviation of this size that has the probability `p` by chance."""
    return RED if size >= limits[1] and p < SURE else AMBER if size >= limits[0] and p < LIKELY else GREEN


def of_fit(design: Design, fitted: Fitted, fit: Mapping[str, Any]) -> Iterator[Check]:
    """Separation, collinearity, and parallel slopes of ordered classes."""
    if design.distribution.separates and not design.likelihood.firth:
        infinite = fit["coefficients_separated"]
        lost = (fit["rows_of_separated_levels"] + fit["rows_separated_across_terms"]) / fit["rows"]
        said = f"{infinite:,} coefficients are infinite, which takes {percent(lost)} of the rows out of the fit"
        remedy = f"{'`firth: true`, or ' if design.distribution.counts_events else ''}merge levels by `data.rare`"
        verdict = judged(LOST, lost) if infinite else GREEN
        yield Check("separation", verdict, said if infinite else "all coefficients are finite", remedy)
    inflated = inflation(design, fitted)
    if near := list(dict.fromkeys(each["term"] for each in fit.get("nearly_aliased", []))):
        said = f"the other terms nearly determine {', '.join(near)}"
        yield Check("collinearity", RED, said, "leave out one of these terms")
    elif inflated:
        columns, size = max(inflated.items(), key=lambda each: each[1])
        said = f"the largest variance inflation factor is {two_digits(size)}, of {columns}"
        remedy = f"leave out {columns}, or what goes with it, unless predictions are all you need"
        yield Check("collinearity", judged(INFLATION, size), said, remedy)
    for test in fit.get("parallel_slopes", {}).get("tests", [])[:1]:
        if test["p_value"] is not None:
            size = float(np.sqrt(max(test["chi_squared"] - test["df"], 0.0) / fit["rows_in_likelihood"]))
            said = f"slopes of the classes differ by an effect (Cohen's f) of {two_digits(size)}"
            yield Check("parallel slopes", judged(MISFIT, size, test["p_value"]), said, "`family: multinomial`")


def inflation(design: Design, fitted: Fitted) -> dict[str, float]:
    """The generalised variance inflation factors of sets of terms, to the power 1 / df (Fox and Monette 1992), by their columns.

    Terms that share a column, as those of a polynomial, are one set: so units and origins do not matter. Smooth terms and random
    effects have none. Empty for a single set.
    """
    sets: list[tuple[set[str], list[int]]] = []
    for part in design.reported.fixed_parts:
        places = [place for place in range(part.where.start, part.where.stop) if fitted.status[place] == FREE]
        if part.term.base == INTERCEPT or part.term.kind.is_smooth or not places:
            continue
        joined = set(term_of(part.term.name).columns), places
        for each in [each for each in sets if each[0] & joined[0]]:
            sets.remove(each)
            joined = joined[0] | each[0], joined[1] + each[1]
        sets.append(joined)
    order = np.array([place for _, places in sets for place in places])
    unknown = design.equations or design.penalty.given or not fitted.covariance.is_known
    if len(sets) < 2 or len(order) > MOST_COEFFICIENTS or unknown:
        return {}
    covariance = fitted.reported(design).covariance.bread.of(to_data_scale(design.reported)[order])
    scale = np.sqrt(np.diag(covariance))
    covariance = covariance / scale / scale[:, None]
    inverse, found, first = np.linalg.inv(covariance), {}, 0
    for columns, places in sets:
        block = slice(first, first := first + len(places))
        logs = sum(float(np.linalg.slogdet(each[block, block])[1]) for each in (covariance, inverse))
        found[" and ".join(sorted(columns))] = float(np.exp(logs / len(places)))
    return found


class CheckedRows:
    """Training rows, each [rows]: `score` is the derivative of the log-likelihood by the linear predictor, `information` its
    variance, and `residual` Pearson's in standard deviations. `size` are the rows, or trials."""

    def __init__(self, design: Design, fit: Mapping[str, Any], seen: Diagnosed) -> None:
        family = self.family = design.distribution
        self.design, self.fit, self.table, self.kind = design, fit, seen.rows, seen.kind
        self.numbers = {name: seen.rows[name].to_numpy(float) for name in seen.numbers}
        self.is_robust = fit["std_errors"]["kind"] not in ("classical", "unconditional", "none")
        self.y, self.mean, self.weight = (self.table[each].to_numpy(float) for each in ("response", "fitted", "weight"))
        self.is_binary = family.counts_events and not design.roles.trials and bool(np.isin(self.y, (0, 1)).all())
        self.dispersion = 1.0 if self.is_binary and not design.roles.weights else fit["pearson_dispersion"]
        known = np.unique(np.quantile(self.mean, np.linspace(0, 1, 2001)))
        with np.errstate(all="ignore"):
            eta = np.array([family.link(each) for each in known.tolist()])
            self.eta = np.interp(self.mean, known[np.isfinite(eta)], eta[np.isfinite(eta)])
            slope, error = family.slope(self.eta, self.mean), self.y - self.mean
            scale = max(self.dispersion, 1.0) if family.dispersion_known else self.dispersion
            variance = scale * family.variance(self.mean) / self.weight
            values = slope * error / variance, slope**2 / variance, error / np.sqrt(variance)
        self.score, self.information, self.residual = (np.where(np.isfinite(each), each, 0.0) for each in values)
        events = float((self.weight * family.variance(self.mean)).sum())
        most = min(len(self.y) // 10, events // 5 if family.counts_events or family.of_counts else BINS)
        self.size = self.weight.sum() if family.counts_events and not self.is_binary else len(self.y)
        self.bins = int(np.clip(most, 2, BINS))

    def checks(self) -> Iterator[Check]:
        """Those of means, of the variance, of the distribution, and of single rows."""
        curves = GREEN
        if self.numbers:
            yield (line := self.curves())
            curves = line.verdict
        if not self.design.penalty.given:
            remedy = "add what is missing, such as an interaction `x:z` or a curve `s(x)`"
            yield self.misfit(self.mean).line("calibration", "means of rows with similar predictions", remedy)
            size, p = self.bend()
            said = f"the bend of means along predictions has an effect (Cohen's f) of {two_digits(size)}"
            first = "" if curves == GREEN else "first see to the curves, then "
            yield Check("link", judged(MISFIT, size, p), said, f"{first}try another `link`, or an interaction")
        if self.is_binary:
            yield from self.influence()
            return
        dispersed = self.dispersed() if self.family.dispersion_known else self.spread()
        yield dispersed
        if self.kind != "deviance residuals":
            # Overdispersion changes the distribution, so one line is enough.
            yield from self.distribution() if dispersed.check == "spread" or dispersed.verdict == GREEN else ()
            yield self.outliers()
        yield from self.zeros() if self.family.of_counts else ()
        yield from self.influence()

    def in_bins(self, x: np.ndarray, weight: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
        """Up to so many bins of x of about the same weight: the number of each row, and their rows. Equal values share one."""
        order = np.argsort(x, kind="stable")
        before = (np.cumsum(weight[order]) - weight[order])[np.searchsorted(x[order], x[order])]
        place = np.empty(len(x), int)
        place[order] = np.minimum(before / weight.sum() * bins, bins - 1)
        return np.unique(place, return_inverse=True)[1], np.unique(place, return_counts=True)[1]

    def misfit(self, x: np.ndarray) -> Misfit:
        """The score test of a mean for each bin of x, after Hosmer and Lemeshow (1980)."""
        place, count = self.in_bins(x, self.information, self.bins)
        columns = self.score, self.information, x, self.y, self.mean
        score, information, *means = (np.bincount(place, each) for each in columns)
        squares = np.divide(score**2, information, out=np.zeros_like(score), where=information > 0)
        if len(count) < 2:
            return Misfit()
        total, df, worst = float(squares.sum()), len(count) - 1, int(squares.argmax())
        p, size = float(stats.chi2.sf(total, df)), float(np.sqrt(max(total - df, 0.0) / self.size))
        return Misfit(size, p, *(float(each[worst] / count[worst]) for each in means))

    def curves(self) -> Check:
        """Means along each number: the worst one."""
        found = {name: self.misfit(x) for name, x in self.numbers.items()}
        name, worst = max(found.items(), key=lambda each: (each[1].p * len(found) < LIKELY, each[1].size))
        factors = [factor for term in self.design.terms for factor in term_of(term.name).factors]
        has_curve = any(factor.is_curve and name in factor.columns for factor in factors)
        remedy = f"more knots in `s({name}, k=20)`" if has_curve else f"`s({name})` in the place of `{name}`"
        return worst.line("curves", f"means along {name}", remedy, len(found))

    def bend(self) -> tuple[float, float]:
        """Pregibon's test of the link (1980): the square of the linear predictor beside it, in one step: Cohen's f and p."""
        eta = (self.eta - self.eta.mean()) / max(float(self.eta.std()), 1e-300)
        columns = np.stack([np.ones_like(eta), eta, eta**2])
        information = columns * self.information @ columns.T
        if np.linalg.cond(information) > 1e10:  # fewer than three different predictions
            return 0.0, 1.0
        inverse = np.linalg.inv(information)
        total = float((inverse @ columns @ self.score)[2] ** 2 / inverse[2, 2])
        return float(np.sqrt(max(total - 1, 0.0) / self.size)), float(stats.chi2.sf(total, 1))

    def dispersed(self) -> Check:
        """The Pearson dispersion. Statistics of rare counts vary more than chi-squared ones, so they say themselves how much."""
        squares, said = (
            self.residual**2,
            f"the response varies {two_digits(self.dispersion)} times as much as the family says",
        )
        error = float(np.std(squares)) * max(self.dispersion, 1.0) / np.sqrt(len(squares))
        verdict = judged(DISPERSION, self.dispersion, stats.norm.sf((self.dispersion - 1) / max(error, 1e-9)))
        if self.is_robust:
            return Check("overdispersion", GREEN, f"{said}, and standard errors allow for it")
        other = "`family: negative_binomial`, or " if self.family.name == "poisson" else ""
        return Check(
            "overdispersion", verdict, said, f"{other}`std_errors: {'robust' if self.design.smooths else 'quasi'}`"
        )

    def spread(self) -> Check:
        """Levene's test of the variance in fifths of the rows, along predictions and numbers: the worst."""
        found, sizes = [], np.abs(self.residual)
        for name, x in {"predictions": self.mean, **self.numbers}.items():
            place, count = self.in_bins(x, np.ones(len(x)), int(np.clip(len(x) // 20, 1, FIFTHS)))
            total, squares = np.bincount(place, sizes), np.bincount(place, sizes**2)
            between = float(np.sum(total**2 / count) - total.sum() ** 2 / len(x))
            df, within = len(count) - 1, float(squares.sum() - np.sum(total**2 / count))
            p = float(stats.f.sf(between / max(df, 1) / within * (len(x) - df - 1), df, len(x) - df - 1)) if df else 1.0
            mean = squares / count
            found.append((p * (1 + len(self.numbers)) < LIKELY, float(mean.max() / max(mean.min(), 1e-12)), p, name))
        _, size, p, name = max(found)
        said = f"the variance of residuals changes by a factor of {two_digits(size)} along {name}"
        if self.is_robust:
            return Check("spread", GREEN, f"{said}, and standard errors allow for it")
        return Check("spread", judged(SPREAD, size, p * len(found)), said, "`std_errors: robust`")

    def distribution(self) -> Iterator[Check]:
        """The distance of quantile residuals from normal ones."""
        residual = self.table["quantile_residual"].dropna()
        far = float(stats.ks_1samp(residual, stats.norm.cdf, method="asymp").statistic)
        verdict = judged(DISTANCE, far, float(stats.kstwobign.sf(far * np.sqrt(len(residual)))))
        logarithm = "the logarithm of the response, or " if self.family.quadratic and self.y.min() > 0 else ""
        remedy = f"{logarithm}another `family`; with `std_errors: robust`, intervals of effects do not need it"
        said = f"the distribution of the residuals is off by {percent(far)} from that of the family"
        yield Check("residuals", AMBER if self.is_robust and verdict == RED else verdict, said, remedy)

    def outliers(self) -> Check:
        """Rows that are further out than the furthest of so many, and their share of the squares."""
        residual = np.nan_to_num(self.table["quantile_residual"].to_numpy(float))
        far = np.abs(residual) > stats.norm.isf(LIKELY / 2 / len(residual))
        share, said = float((residual[far] ** 2).sum() / max((residual**2).sum(), 1e-300)), "no row is too far out"
        if far.any():
            said = f"{far.sum():,} too far out, with {percent(share)} of the squared residuals; {self.row(np.abs(residual))}"
        return Check(
            "outliers", judged(FAR_OUT, share), said, "look at these rows; codes of missing values are `missing` ones"
        )

    def zeros(self) -> Iterator[Check]:
        """More zeros than the model expects, if they are 1 % of the rows or more."""
        if law := self.family.law(self.y, self.mean, self.weight, 1.0):
            none = law.distribution.cdf(0)
            zeros, expected = float(np.sum(self.y == 0)), float(none.sum())
            p = float(stats.norm.sf((zeros - expected) / np.sqrt(max(float(np.sum(none * (1 - none))), 1e-9))))
            share = (zeros - expected) / zeros if zeros - expected > 0.01 * len(none) else 0.0
            said = f"{zeros:,.0f} responses are 0, and the model expects {expected:,.0f}"
            other = "`family: negative_binomial`, or " if self.family.name == "poisson" else ""
            yield Check(
                "zeros", judged(ZEROS, share, p), said, f"{other}a model of whether it is 0, and one of the others"
            )

    def influence(self) -> Iterator[Check]:
        """The largest Cook's distance. One alone is red if the row is an outlier too: a far row may be right."""
        if "cook" in self.table and self.table["cook"].notna().any():
            cook = self.table["cook"].fillna(0.0).to_numpy()
            size, standard = cook.max(), abs(float(self.table["standardised_pearson_residual"].iloc[cook.argmax()]))
            verdict = judged((COOK[0], COOK[1] if standard > 3 else np.inf), size)
            said = f"the largest Cook's distance is {two_digits(size)}" + (
                "" if size < COOK[0] else f"; {self.row(cook)}"
            )
            yield Check("influence", verdict, said, "look at this row, and fit without it (`where`) to compare")
        elif len(self.table) > MOST_WITH_LEVERAGE:
            yield Check("influence", SKIPPED, f"there are more than {MOST_WITH_LEVERAGE:,} rows")

    def row(self, size: np.ndarray) -> str:
        worst = int(size.argmax())
        return f"one has {four_that_count(self.y[worst])}, and the prediction {four_that_count(self.mean[worst])}"


def held_out_calibration(metrics: Mapping[str, Any]) -> list[Check]:
    """The calibration of rows that were kept back, from the content of metrics.json; none without such rows."""
    parts = [each for each in metrics.get("calibration", []) if each["rows"] > 3 and each["upper"] > each["lower"]]
    if len(parts) < 2:
        return []
    names = "rows", "observed", "predicted", "lower", "upper"
    rows, observed, expected, lower, upper = (np.array([each[name] for each in parts]) for name in names)
    # A square of t with rows - 1 degrees of freedom has a mean above 1.
    squares = ((observed - expected) / (upper - lower) * 2 * 1.96) ** 2 * (rows - 3) / (rows - 1)
    total, worst = float(squares.sum()), int(squares.argmax())
    size, p = float(np.sqrt(max(total - len(parts), 0.0) / rows.sum())), float(stats.chi2.sf(total, len(parts)))
    found = Misfit(size, p, np.nan, float(observed[worst]), float(expected[worst]))
    remedy = "fewer terms or a penalty `l2`; if training rows are off too, an interaction or a curve"
    line = found.line("calibration", "means of rows kept back with similar predictions", remedy)
    return [line._replace(remedy="") if line.verdict == GREEN else line]
