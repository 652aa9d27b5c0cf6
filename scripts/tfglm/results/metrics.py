"""How well a fitted model predicts rows, held out or not: out of core, a shard at a time.

Averages are sums over all rows. Metrics that depend on the order of the scores are computed from sums by score in 2^20 bins
(results.histogram). With fewer different scores they are exact; otherwise `auc_bound` bounds the error of AUC.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from tfglm.data.dictionary import written
from tfglm.data.kinds import ABSENT
from tfglm.design.design import Design
from tfglm.engine.rows import NOT_FINITE, SEPARATED_LEVEL, UNSEEN_LEVEL, WITHOUT_ESTIMATE, WITHOUT_MEAN
from tfglm.results.classes import ClassTally
from tfglm.results.histogram import BINS, DIGITS, digits_of, edges
from tfglm.results.measures import MEASURES, whole
from tfglm.results.predict import Scored
from tfglm.results.tally import Residuals, Tally

SAMPLE_ROWS = 2**20
"""So many first rows, at least, determine the bins of the scores."""

GROUP_BINS = 4096
"""Bins of the scores of each group."""

SomeTally = Tally | ClassTally


def evaluate(
    design: Design,
    scored: Iterable[Scored],
    threshold: float,
    by: Sequence[str] = (),
    sample_rows: int = SAMPLE_ROWS,
    bins: int = BINS,
) -> dict:
    """Return the metrics of a model for metrics.json, the numbers of rows without a prediction by reason, and the data of
    the pictures.

    `threshold` is the probability from which an event is predicted; the metrics are also computed for the values of the
    columns `by`. The first `sample_rows` rows determine the `bins` of scores.

    Some rows have no finite prediction, and take no part in the metrics. These are rows with an unseen level that no other
    level replaces, with a separated level, or with a function of the formula that is not finite. If a number is outside the
    range of a spline, the end of the range replaces it. A metric that the rows do not determine (AUC if all responses are
    equal) is None.
    """
    shards, family = iter(scored), design.distribution
    if family.of_classes:
        assert design.classes
        of_classes = partial(ClassTally, design.classes.levels, family)
        return summed(design, shards, of_classes(), of_classes, by)
    # The log odds of events instead of their linear predictor, which has another link.
    shards = (shard._replace(rows=shard.rows | {"eta": family.log_odds(shard.rows["eta"])}) for shard in shards)
    measure, first = MEASURES[family.metrics](family), list(until(sample_rows, shards))
    sample = list(map(known, first))
    scores = np.concatenate([np.zeros(0), *(rows["eta"] for rows in sample)])
    digits = digits_of(scores) if family.quadratic else DIGITS
    all_rows = Tally(measure, threshold, edges(scores, bins, digits), Residuals(measure, sample, bins), digits)
    of_group = partial(Tally, measure, threshold, edges(scores, GROUP_BINS, digits), digits=digits)
    return summed(design, chain(first, shards), all_rows, of_group, by)


def summed(
    design: Design, scored: Iterable[Scored], all_rows: SomeTally, of_group: Callable[[], SomeTally], by: Sequence[str]
) -> dict:
    """The metrics, from a tally of all rows and another one of each group."""
    groups: dict[str, dict[str, SomeTally]] = {column: {} for column in by}
    counts: Counter = Counter()
    for shard in scored:
        counts.update(count(shard.rows))
        used = known(shard)
        all_rows.add(used)
        for column in by:
            for level, rows in grouped(shard, column):
                tally = groups[column].get(level) or groups[column].setdefault(level, of_group())
                tally.add({name: values[rows] for name, values in used.items()})
    report: dict[str, Any] = {
        "model": design.model,
        "rows": whole(all_rows.rows),
        **{name: counts[name] for name in COUNTED},
    }
    if design.distribution.positive_predictor:
        report["rows_out_of_range_of_link"] = counts["rows_out_of_range_of_link"]
    if all_rows.rows:
        report |= all_rows.metrics() | all_rows.tables()
    if by:
        report["by"] = {
            column: [
                {"level": level, "rows": whole(levels[level].rows), **levels[level].metrics(brief=True)}
                for level in in_order(design, column, levels)
            ]
            for column, levels in groups.items()
        }
    return report


def in_order(design: Design, column: str, levels: Iterable[str]) -> list[str]:
    """Return values of a column as the model has them, if it has levels of the column, then others by code point."""
    known = next((factor.levels for factor in design.categorical if factor.column == column), ())
    places = {level: place for place, level in enumerate(known)}
    return sorted(levels, key=lambda level: (places.get(level, len(places)), level))


COUNTED = (
    "rows_with_unseen_level",
    "rows_with_separated_level",
    "rows_with_level_without_estimate",
    "rows_without_finite_value",
    "rows_outside_spline_range",
)


def count(rows: Mapping[str, np.ndarray]) -> dict[str, int | float]:
    """Return the numbers of rows without a prediction, by reason, and of rows predicted at the end of the range of a
    spline."""
    reasons = UNSEEN_LEVEL, SEPARATED_LEVEL, WITHOUT_ESTIMATE, NOT_FINITE, WITHOUT_MEAN
    unseen, separated, without_estimate, not_finite, out_of_range = (rows["flag"] == reason for reason in reasons)
    which = unseen, separated, without_estimate, not_finite, rows["outside"], out_of_range
    names = *COUNTED, "rows_out_of_range_of_link"
    return {name: whole(rows["frequency"][flags].sum()) for name, flags in zip(names, which, strict=True)}


def until(rows: int, shards: Iterator[Scored]) -> Iterator[Scored]:
    for shard in shards:
        yield shard
        rows -= len(shard.rows["eta"])
        if rows <= 0:
            return


def has_part(scored: Scored) -> np.ndarray:
    """Return which rows take part in the metrics."""
    return (scored.rows["flag"] >= 0) & (scored.rows["weight"] > 0)


def known(scored: Scored) -> dict[str, np.ndarray]:
    """Linear predictor, response, weight and frequency of these rows."""
    used = has_part(scored)
    return {name: scored.rows[name][used] for name in ("eta", "response", "weight", "frequency")}


def grouped(scored: Scored, column: str) -> Iterator[tuple[str, np.ndarray]]:
    """The values of a column that occur, with the places of their rows among those that have a part."""
    codes = scored.file.stored(scored.shard, column)[has_part(scored)].astype(np.int64)
    names = [ABSENT, *written(scored.file.values(column))]
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    # Without rows, `split` would still make a part.
    for code, rows in zip(present.tolist(), np.split(order, starts)[1:], strict=True):
        yield names[code] or ABSENT, rows
