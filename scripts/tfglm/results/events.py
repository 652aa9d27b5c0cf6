"""Which estimates have too few events for a test by cluster."""

import numpy as np

from tfglm.design.design import Design
from tfglm.inference.fitted import Fitted
from tfglm.inference.reference import FEWEST_EVENTS


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
    """The share of the training rows that are not of the most frequent of ordered classes; 1 with weights, which are not
    rows. The fit has the rows of each class but the lowest and the highest, and the sum of the numbers of the classes."""
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
