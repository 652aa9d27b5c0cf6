"""Responses far from 0 are measured from their mean: float32 in networks, and sums of residuals, have no digits left for more."""

from dataclasses import replace

from tfglm.data.dictionary import Dictionary
from tfglm.design.design import Design


def from_mean(design: Design, dictionary: Dictionary) -> Design:
    """The design with response and offset counted from their means, if the response is far from 0 and the link the identity."""
    if not design.distribution.quadratic:
        return design
    response = dictionary.columns[design.columns[0]]
    if not response.is_far:
        return design
    smallest, largest = response.limits
    # The mean of equal numbers may be off by a rounding error.
    return measured_from(design, smallest if smallest == largest else response.moments[0])


def measured_from(design: Design, origin: float) -> Design:
    """The design with the response measured from an origin, and the offset from its mean."""
    offset = design.roles.offset
    if offset:
        # `intercept_from_zero` takes the mean from here.
        move = {"function": "scale", "mean": offset.center[0], "divisor": 1.0}
        # A new name, because a numeric column of the formula may have the old name.
        offset = replace(offset, name=f"{offset.name} from its mean", learnt=(*offset.learnt, move), center=(0.0,))
    return design.with_likelihood(origin=origin).with_roles(offset=offset)


def intercept_from_zero(design: Design, has_regression: bool) -> float:
    """What the intercept is larger by if nothing is counted from a mean. A regression under a network is, as the response is."""
    of_offset = design.roles.offset.learnt[-1]["mean"] if design.likelihood.origin and design.roles.offset else 0.0
    return (0.0 if has_regression else design.likelihood.origin) - of_offset
