"""How well a model predicts the rows kept back, always beside what needs no model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tfglm.errors import counted
from tfglm.report.inline import measure
from tfglm.results.digits import fixed, percent, significant


@dataclass(frozen=True)
class QualityMeasure:
    """A measure of a model, and the same of the obvious baseline; `of_baseline` says what that is, and `verdict` whether the
    model is better."""

    name: str
    value: str
    baseline: str
    of_baseline: str
    verdict: str
    shares: tuple[float, float]
    """The two as shares of an axis."""

    @property
    def picture(self) -> Markup:
        """Return the two on one axis."""
        return measure(*self.shares)


def measures(metrics: Mapping, response: str, unit: str | None) -> list[QualityMeasure]:
    """Return the measures of metrics.json for the overview; none if no rows were held out."""
    if not metrics.get("rows"):
        return []
    if "confusion" in metrics:
        return [accuracy(metrics, "always the most frequent class")]
    shown = []
    if "accuracy" in metrics:
        always = f"always “{'' if metrics['mean_response'] >= 0.5 else 'not '}{response}”"
        shown.append(accuracy(metrics, always))
    if metrics.get("auc") is not None:
        auc, events = metrics["auc"], metrics["events"]
        others = events / (metrics["mean_response"] or 1.0) - events  # of trials there are more than of rows
        # The variance of Mann and Whitney's statistic without any effect.
        far = abs(auc - 0.5) * math.sqrt(12 * max(events * others, 0.0) / (events + others + 1))
        better = verdict(auc - 0.5, far > CLEAR)
        shown.append(QualityMeasure("AUC", fixed(auc, 3), "0.500", "by chance", better, (auc, 0.5)))
    if "rmse" in metrics and metrics.get("r_squared") is not None and metrics["r_squared"] < 1:
        # R squared compares with the mean of these very rows.
        alone = metrics["rmse"] / (1 - metrics["r_squared"]) ** 0.5
        # The axis is a little longer than the larger one.
        longest = 1.1 * max(metrics["rmse"], alone) or 1.0
        shown.append(
            QualityMeasure(
                "root mean square error",
                f"{significant(metrics['rmse'], 4)}{in_units(unit)}",
                f"{significant(alone, 4)}{in_units(unit)}",
                "always the mean of these rows",
                explains(metrics["r_squared"], metrics["rows"]),
                (metrics["rmse"] / longest, alone / longest),
            )
        )
    if metrics.get("d_squared") is not None:
        always, shares = "always the mean of these rows", (metrics["d_squared"], 0.0)
        better = explains(shares[0], metrics["rows"])
        shown.append(QualityMeasure("deviance explained", percent(shares[0]), "0 %", always, better, shares))
    return shown


def in_units(unit: str | None) -> str:
    """Return the noun for several of them."""
    return f" {unit}" if unit else ""


CLEAR = 1.96
"""Standard errors by which a model must differ from a baseline."""


def verdict(gain: float, is_clear: bool) -> str:
    """Whether a model is better than a baseline: `better` than something."""
    if gain > 0:
        return "better" if is_clear else "not clearly better"
    return "worse" if gain < 0 and is_clear else "no better"


def explains(share: float, rows: float) -> str:
    """The verdict on an explained share: a square of a correlation, which without an effect is 1 / rows."""
    return verdict(share, math.sqrt(abs(share) * rows) > CLEAR)


def accuracy(metrics: Mapping, always: str) -> QualityMeasure:
    """The accuracy beside that of one answer for all; McNemar's exact test compares them."""
    if "confusion" in metrics:
        counts = np.array(metrics["confusion"], float)
        most = int(counts.sum(axis=1).argmax())
        alone, others = metrics["null_accuracy"], np.arange(len(counts)) != most
        right, wrong = counts.diagonal()[others].sum(), counts[most, others].sum()
    else:
        mean = metrics["mean_response"]
        alone = max(mean, 1 - mean)
        of_others = ("negative", "positive")[mean < 0.5]
        right, wrong = metrics[f"true_{of_others}"], metrics[f"false_{of_others}"]
    from scipy.special import betainc  # takes a tenth of a second

    # The probability that of the rows with another answer, as many or more are right (wrong) by chance.
    tail = min(betainc(each, other + 1, 0.5) if each else 1.0 for each, other in ((right, wrong), (wrong, right)))
    better = verdict(metrics["accuracy"] - alone, tail < 0.025)
    shares = metrics["accuracy"], alone
    return QualityMeasure("accuracy", percent(shares[0]), percent(alone), always, better, shares)


def skill(shown: Sequence[QualityMeasure], rows: int) -> str:
    """How well a model predicts, beside what needs no model, in a sentence."""
    if not shown:
        return "No rows were kept back that it can predict, so nothing says how well it predicts."
    said = [f"{each.name} {each.value}, {each.verdict} than {each.baseline} ({each.of_baseline})" for each in shown]
    return f"On {counted(rows, 'row')} kept back: {'; '.join(said)}."
