"""How well a fitted model predicts rows, whether they were kept back or not: out of core, a shard at a time.

Averages are sums over all rows. What depends on the order of the scores is computed from sums by score in 2^20 bins, by
scikit-learn's functions; with fewer different scores than that it is exact, else `auc_bound` says how far off AUC may be.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal

import numpy as np
import polars as pl
from scipy.special import expit, ndtri, xlogy
from sklearn import metrics

from tfglm.data.dictionary import ABSENT, used_levels, value_of, written
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.rows import NOT_FINITE, UNSEEN
from tfglm.engine.rows import SEPARATED as SEPARATED_ROW
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.results.coefficients import choose_references
from tfglm.results.histogram import Histogram, edges
from tfglm.results.predict import Scored, level_labels
from tfglm.solvers.fitted import Fitted

SHOWN = 20
"""Unseen levels that are named."""

SAMPLE = 2**20
"""Rows by whose scores the bins are laid out."""

GROUP_BINS = 4096
"""Bins of the scores of each group."""

DECILES, CALIBRATION_PARTS, CURVE_POINTS = 10, 20, 400

QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


def substitutes(
    design: Design, fitted: Fitted, policy: Literal["missing", "reference", "error"], reference: Mapping[str, str]
) -> dict[str, int]:
    """The level, by its number, that stands for levels which no training row has, for the terms where one does.

    With the policy `reference` it is the reference level of the table; with `missing` the level of missing values, if the
    term has one.
    """
    if policy == "reference":
        return choose_references(design, fitted, reference)
    if policy == "missing":
        return {factor.name: factor.numbers[None] for factor in design.categorical if factor.missing}
    return {}


def unseen_levels(design: Design, files: Sequence[IngestedFile], split: str) -> dict[str, dict]:
    """For each term the levels of a split that no training row has: in how many rows, how many, and the first ones by name.

    A missing value where rows may lack one is the level ABSENT.
    """
    tables = pl.concat([used_levels(file, design.required) for file in files]).filter(pl.col("split") == split)
    found = {}
    for term in design.categorical:
        known, rows = term.numbers, Counter()
        names = {file.codes(term.column).name for file in files}
        part = tables.filter(pl.col("column").is_in(names))
        values = written(part.select(value_of(term.column_kind).alias("value"))["value"])
        for level, count in zip(values, part["rows"], strict=True):
            # A row without a required value lacks it; that is no level.
            if level not in known and not (level is None and term.column in design.required):
                rows[ABSENT if level is None else level] += count
        if rows:
            found[term.name] = {"rows": rows.total(), "level_count": len(rows), "levels": sorted(rows)[:SHOWN]}
    return found


def refuse_unseen(design: Design, unseen: Mapping[str, dict]) -> None:
    """Raise UserError if there are levels that no training row has."""
    if unseen:
        lines = [
            f"  {term}: {', '.join(one['levels'])}{', ...' if one['level_count'] > SHOWN else ''} ({one['rows']:,} rows)"
            for term, one in unseen.items()
        ]
        raise UserError(
            f"models.{design.model}.unseen: evaluation rows have levels that no training row has:\n"
            + "\n".join(lines)
            + "\n  set the key to `missing` or `reference`, or train on rows that have them"
        )


def check_groups(design: Design, files: Sequence[IngestedFile], by: Sequence[str]) -> None:
    """Raise UserError for a column with too many values to group rows by."""
    for name in by:
        for file in files:
            if not file.column(name).coded:
                raise UserError(
                    f"models.{design.model}.by: `{name}` has more than 65,535 values in {file.manifest.source}, too many to "
                    f"group rows by\n  derive a coarser column under data.derive, e.g. `floor({name} / 100)`, and name that one"
                )


def evaluate(design: Design, scored: Iterable[Scored], threshold: float, by: Sequence[str] = ()) -> dict:
    """The metrics of one model, and how many rows could not be predicted and why; for each column of `by` also those of the rows
    with each of its values.

    Rows with a level that training has not seen and nothing stands for, or with a separated one, or for which a function of
    the formula is not finite, have no finite prediction and no part in the metrics. A number outside the range of a spline is
    taken for the end of it. A metric that the rows do not determine (AUC where all responses are alike) is None.
    """
    shards = iter(scored)
    first = list(until(SAMPLE, shards))
    measure = MEASURES[FAMILIES[design.family].metrics]
    sample = list(map(known, first))
    scores = np.concatenate([np.zeros(0), *(rows["eta"] for rows in sample)])
    all_rows, coarse = Tally(measure, threshold, edges(scores)), edges(scores, GROUP_BINS)
    residuals = Residuals(measure, sample)
    groups: dict[str, dict[str, Tally]] = {column: {} for column in by}
    counts: Counter = Counter()
    for one in chain(first, shards):
        counts.update(count(one.rows))
        used = known(one)
        all_rows.add(used)
        residuals.add(used)
        for column in by:
            for level, rows in grouped(one, column):
                tally = groups[column].setdefault(level, Tally(measure, threshold, coarse))
                tally.add({name: values[rows] for name, values in used.items()})
    found = {"model": design.model, "rows": all_rows.rows, **{name: counts[name] for name in COUNTED}}
    if all_rows.rows:
        found |= all_rows.metrics() | all_rows.tables() | residuals.quantiles()
    if by:
        found["by"] = {
            column: [
                {"level": level, "rows": one.rows, **one.metrics(brief=True)} for level, one in sorted(levels.items())
            ]
            for column, levels in groups.items()
        }
    return found


COUNTED = (
    "rows_with_unseen_level",
    "rows_with_separated_level",
    "rows_without_finite_value",
    "rows_outside_spline_range",
)


def count(rows: Mapping[str, np.ndarray]) -> dict[str, int]:
    """How many rows have no prediction, by reason; and how many have one for the end of a spline."""
    of_flag = (rows["flag"] == UNSEEN, rows["flag"] == SEPARATED_ROW, rows["flag"] == NOT_FINITE, rows["outside"])
    return {name: int(np.count_nonzero(which)) for name, which in zip(COUNTED, of_flag, strict=True)}


def until(rows: int, shards: Iterator[Scored]) -> Iterator[Scored]:
    """The first shards, until there are so many rows."""
    for one in shards:
        yield one
        rows -= len(one.rows["eta"])
        if rows <= 0:
            return


def has_part(scored: Scored) -> np.ndarray:
    """Which rows have a part in the metrics."""
    return (scored.rows["flag"] >= 0) & (scored.rows["mass"] > 0)


def known(scored: Scored) -> dict[str, np.ndarray]:
    """Linear predictor, response and mass of these rows."""
    which = has_part(scored)
    return {name: scored.rows[name][which] for name in ("eta", "response", "mass")}


def grouped(scored: Scored, column: str) -> Iterator[tuple[str, np.ndarray]]:
    """The values of a column that occur, with the places of their rows among those that have a part."""
    codes = scored.file.stored(scored.shard, column)[has_part(scored)].astype(np.int64)
    names = level_labels(scored.file, column)
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    for code, rows in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        yield names[code] or ABSENT, rows


class Tally:
    """The sums of some rows that their metrics are computed from."""

    def __init__(self, measure: "Measure", threshold: float, upper: np.ndarray):
        self.measure, self.threshold = measure, threshold
        # Mass, response, mean, linear predictor, rows; squares of the response.
        self.scores = Histogram(upper, 6)
        self.rows = 0
        self.sums: Counter = Counter()
        self.mean, self.squares, self.mass = 0.0, 0.0, 0.0

    def add(self, rows: Mapping[str, np.ndarray]) -> None:
        y, eta, mass = rows["response"], rows["eta"], rows["mass"]
        if not len(y):
            return
        mean = self.measure.mean(eta)
        self.rows += len(y)
        self.scores.add(eta, [mass, mass * y, mass * mean, mass * eta, np.ones(len(y)), mass * y**2])
        self.sums.update(self.measure.sums(y, eta, mean, mass, self.threshold))
        # Chan, Golub & LeVeque 1983: the sum of squares about the mean, of parts.
        total, mean_y = mass.sum(), float(np.average(y, weights=mass))
        shift = mean_y - self.mean
        joint = self.mass + total
        self.squares += float(mass @ (y - mean_y) ** 2) + shift**2 * self.mass * total / joint
        self.mean += shift * total / joint
        self.mass = joint

    def metrics(self, brief: bool = False) -> dict:
        """All single numbers; of a group, those that say something of it."""
        found = self.measure.metrics(self)
        if brief:
            return {name: value for name, value in found.items() if name not in self.measure.of_all_rows}
        return found

    def tables(self) -> dict:
        """What pictures are drawn of."""
        made = {"calibration": self.calibration()}
        if self.measure is MEASURES["events"] and 0 < self.mean < 1:
            made |= {"lift": self.lift(), "curve": self.curve()}
        return made

    def calibration(self) -> list[dict]:
        """Rows in equal shares by their prediction: mean prediction and mean response, with a 95 % interval (Wilson's for a
        share, else the normal one)."""
        made = []
        for mass, response, mean, _, rows, squares in self.scores.shares(self.scores.sums[:, 0], CALIBRATION_PARTS):
            if mass <= 0:
                continue
            observed = response / mass
            lower, upper = self.measure.interval(observed, mass, rows, squares / mass - observed**2)
            made.append(
                {"rows": round(rows, 6), "predicted": mean / mass, "observed": observed, "lower": lower, "upper": upper}
            )
        return made

    def lift(self) -> list[dict]:
        """Tenths of the rows, the largest probabilities first."""
        share = self.scores.shares(self.scores.sums[:, 0], DECILES)[::-1]
        events = np.cumsum(share[:, 1]) / share[:, 1].sum()
        return [
            {
                "decile": number + 1,
                "rows": round(rows, 6),
                "predicted": mean / mass,
                "observed": response / mass,
                "lift": response / mass / self.mean,
                "share_of_events": float(events[number]),
            }
            for number, (mass, response, mean, _, rows, _) in enumerate(share)
        ]

    def curve(self) -> list[dict]:
        """Points of the ROC and the precision-recall curve, at most CURVE_POINTS: an event is predicted from `threshold` on."""
        mass, events = self.scores.sums[::-1, 0], self.scores.sums[::-1, 1]
        predicted, found = np.cumsum(mass), np.cumsum(events)
        score = self.scores.score[::-1]
        occupied = np.flatnonzero(mass > 0)
        chosen = np.unique(occupied[np.linspace(0, len(occupied) - 1, min(CURVE_POINTS, len(occupied))).astype(int)])
        return [
            {
                "threshold": float(expit(score[place])),
                "false_positive_rate": float((predicted - found)[place] / (predicted - found)[-1]),
                "recall": float(found[place] / found[-1]),
                "precision": float(found[place] / predicted[place]),
            }
            for place in chosen
        ]


class Measure:
    """The metrics of predictions of one kind."""

    of_all_rows: tuple[str, ...] = ()
    """Those that are not reported of groups."""

    def mean(self, eta: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def sums(self, y, eta, mean, mass, threshold: float) -> dict[str, float]:
        """What is added up over rows, [rows] each."""
        raise NotImplementedError

    def metrics(self, tally: Tally) -> dict:
        raise NotImplementedError

    def interval(self, observed: float, mass: float, rows: float, variance: float) -> tuple[float, float]:
        """A 95 % interval of the mean response of some rows."""
        margin = ndtri(0.975) * float(np.sqrt(max(variance, 0.0) / rows))
        return observed - margin, observed + margin


class Means(Measure):
    """Of predicted means, in the units of the response."""

    def mean(self, eta):
        return eta

    def sums(self, y, eta, mean, mass, threshold):
        residual = y - mean
        return {"squares": mass @ residual**2, "absolute": mass @ np.abs(residual), "predicted": mass @ mean}

    def metrics(self, tally):
        sums, mass = tally.sums, tally.mass
        return {
            "rmse": float(np.sqrt(sums["squares"] / mass)),
            "mae": float(sums["absolute"] / mass),
            "r_squared": float(1 - sums["squares"] / tally.squares) if tally.squares > 0 else None,
            "mean_response": tally.mean,
            "mean_prediction": float(sums["predicted"] / mass),
        }


class Counts(Means):
    """Of predicted counts, and the share of the deviance that they explain."""

    def mean(self, eta):
        return np.exp(eta)

    def sums(self, y, eta, mean, mass, threshold):
        deviance = 2 * mass @ (xlogy(y, y) - y * eta - y + mean)
        return {**super().sums(y, eta, mean, mass, threshold), "deviance": deviance, "y log y": mass @ xlogy(y, y)}

    def metrics(self, tally):
        found = super().metrics(tally)
        del found["r_squared"]
        null = 2 * (tally.sums["y log y"] - tally.mass * float(xlogy(tally.mean, tally.mean)))
        deviance = tally.sums["deviance"]
        return {
            "mean_poisson_deviance": float(deviance / tally.mass),
            "d_squared": float(1 - deviance / null) if null > 0 and tally.squares > 0 else None,
            **found,
        }


class Events(Measure):
    """Of predicted probabilities; an event is predicted from the threshold on. A row with trials counts as so many rows with an
    event and so many without."""

    of_all_rows = (
        "threshold",
        "calibration_slope",
        "calibration_slope_std_error",
        "calibration_in_the_large",
        "calibration_in_the_large_std_error",
    )

    def mean(self, eta):
        return expit(eta)

    def interval(self, observed, mass, rows, variance):
        """Wilson 1927."""
        z = ndtri(0.975)
        middle = (observed + z**2 / (2 * mass)) / (1 + z**2 / mass)
        margin = (
            z / (1 + z**2 / mass) * float(np.sqrt(max(observed * (1 - observed), 0.0) / mass + z**2 / (4 * mass**2)))
        )
        return middle - margin, middle + margin

    def sums(self, y, eta, mean, mass, threshold):
        predicted = mean >= threshold
        events, others = mass * y, mass * (1 - y)
        return {
            # From eta: a probability that rounds to 0 or 1 would lose the digits that matter here.
            "log_loss": mass @ (np.logaddexp(0.0, eta) - y * eta),
            "brier": events @ (1 - mean) ** 2 + others @ mean**2,
            "predicted": mass @ mean,
            "true_positive": events[predicted].sum(),
            "false_positive": others[predicted].sum(),
            "true_negative": others[~predicted].sum(),
            "false_negative": events[~predicted].sum(),
        }

    def metrics(self, tally):
        sums, mass = tally.sums, tally.mass
        hits, false_alarms = sums["true_positive"], sums["false_positive"]
        misses, rest = sums["false_negative"], sums["true_negative"]
        events = hits + misses
        return {
            "events": whole(events),
            "mean_response": tally.mean,
            "mean_prediction": float(sums["predicted"] / mass),
            **ranking(tally.scores),
            "log_loss": float(sums["log_loss"] / mass),
            "brier": float(sums["brier"] / mass),
            **calibration(tally.scores),
            "threshold": tally.threshold,
            "accuracy": float((hits + rest) / mass),
            "precision": float(hits / (hits + false_alarms)) if hits + false_alarms else None,
            "recall": float(hits / events) if events else None,
            "f1": float(2 * hits / (2 * hits + false_alarms + misses)) if hits + false_alarms + misses else None,
            "true_positive": whole(hits),
            "false_positive": whole(false_alarms),
            "true_negative": whole(rest),
            "false_negative": whole(misses),
        }


MEASURES: dict[str, Measure] = {"means": Means(), "counts": Counts(), "events": Events()}
"""By the names that families have for them (`Family.metrics`)."""


def ranking(scores: Histogram) -> dict:
    """Area under the ROC curve and average precision. Pairs of an event and another row that share a bin with several scores
    count half a pair, so the AUC is off by half their share at most."""
    mass, events = scores.sums[:, 0], scores.sums[:, 1]
    others = mass - events
    if not (events.sum() > 0 and others.sum() > 1e-9 * mass.sum()):
        return {"auc": None, "auc_bound": None, "average_precision": None}
    bins = np.tile(np.arange(len(mass)), 2)
    is_event = np.repeat([1, 0], len(mass))
    weights = np.concatenate([events, np.maximum(others, 0.0)])
    used = weights > 0
    arguments = {"y_true": is_event[used], "y_score": bins[used], "sample_weight": weights[used]}
    tied = float((events * others)[scores.mixed].sum() / 2 / (events.sum() * others.sum()))
    return {
        "auc": float(metrics.roc_auc_score(**arguments)),
        "auc_bound": tied,
        "average_precision": float(metrics.average_precision_score(**arguments)),
    }


def calibration(scores: Histogram) -> dict:
    """The slope of a logistic regression of the response on the linear predictor, 1 for a calibrated model; and calibration in
    the large, its intercept with the linear predictor as an offset, 0 for one (Cox, Biometrika 45, 1958)."""
    filled = scores.sums[:, 0] > 0
    mass, events, _, linear = scores.sums[filled, :4].T
    eta = linear / mass
    ones = np.ones_like(eta)
    slope = logistic(np.stack([ones, eta], 1), np.zeros_like(eta), mass, events)
    large = logistic(ones[:, None], eta, mass, events)
    return {
        "calibration_slope": slope and slope[0][1],
        "calibration_slope_std_error": slope and slope[1][1],
        "calibration_in_the_large": large and large[0][0],
        "calibration_in_the_large_std_error": large and large[1][0],
    }


def logistic(
    x: np.ndarray, offset: np.ndarray, mass: np.ndarray, events: np.ndarray
) -> tuple[list[float], list[float]] | None:
    """Coefficients and standard errors of a small logistic regression by Newton's method; None if it has no finite solution."""
    found = np.zeros(x.shape[1])
    for _ in range(50):
        mean = expit(offset + x @ found)
        information = x.T @ ((mass * mean * (1 - mean))[:, None] * x)
        try:
            step = np.linalg.solve(information, x.T @ (events - mass * mean))
        except np.linalg.LinAlgError:
            return None
        found = found + step
        if not np.all(np.isfinite(found)) or np.abs(found).max() > 1e3:
            return None
        if np.abs(step).max() < 1e-12 * max(1.0, np.abs(found).max()):
            return found.tolist(), np.sqrt(np.diag(np.linalg.inv(information))).tolist()
    return None


class Residuals:
    """Response minus mean by size, but of events."""

    def __init__(self, measure: Measure, sample: Sequence[Mapping[str, np.ndarray]]):
        self.measure = measure
        self.histogram = Histogram(edges(np.concatenate([np.zeros(0), *map(self.of, sample)])), 1)

    def of(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        is_event = self.measure is MEASURES["events"]
        return np.zeros(0) if is_event else rows["response"] - self.measure.mean(rows["eta"])

    def add(self, rows: Mapping[str, np.ndarray]) -> None:
        found = self.of(rows)
        self.histogram.add(found, [rows["mass"][: len(found)]])

    def quantiles(self) -> dict:
        """The least residual that at least such a share of the mass lies at or below."""
        mass = self.histogram.sums[:, 0]
        if not mass.any():
            return {}
        places = np.searchsorted(np.cumsum(mass) / mass.sum(), np.array(QUANTILES) - 1e-12)
        return {
            "residual_quantiles": {
                f"{share:g}": float(self.histogram.score[place]) for share, place in zip(QUANTILES, places, strict=True)
            }
        }


def whole(value: float) -> int | float:
    """A count as a whole number, if it is one."""
    return int(value) if value == int(value) else float(value)
