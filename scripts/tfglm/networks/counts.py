"""Facts about the training rows that are needed before the first step."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tfglm.engine.rows import SEPARATED_LEVEL
from tfglm.errors import UserError
from tfglm.families.family import Family
from tfglm.networks.layers import OutputScale
from tfglm.networks.rows import OFFSET, RESPONSE, WEIGHT, Units

SMALLEST_SPREAD = 1e-7
"""Of a response, as a share of its mean: float32 tells no smaller one from 0."""


@dataclass(frozen=True)
class TrainingCounts:
    """Facts about the training rows that are needed before the first step."""

    lines_of_units: list[int]
    """The number of lines of an epoch, by unit; rows with a frequency are one line each."""
    rows: int
    rows_of_separated_levels: int
    """Rows for which the regression under the network has no finite linear predictor."""
    weight_sum: float
    scale: OutputScale
    shares: list[float] | None
    """The share of each class in the weights, if the response has classes or is binomial."""

    @property
    def lines(self) -> int:
        return sum(self.lines_of_units)


def count(
    units: Units, family: Family, own: Iterable[int], of_all: Callable[[np.ndarray], np.ndarray]
) -> TrainingCounts:
    """Rows that take part, and where the output begins. `own` are the units that are read here; `of_all` adds sums over
    these to those of other processes. Raises UserError if there are no rows, or if a response is out of the range of the
    family."""
    classes = units.design.classes
    sums, lines = np.zeros(6), np.zeros(len(units))
    of_classes = np.zeros(len(classes.levels) if classes else 1)
    where = f"networks.{units.design.model}"
    for number in own:
        unit = units.read(number)
        read = unit.rows.used
        y, weight = read.numbers[:, RESPONSE].astype(float), read.numbers[:, WEIGHT].astype(float)
        if not np.all((y >= family.smallest) & (y <= family.largest)):
            raise UserError(
                f"{where}.family: `{units.design.roles.response}` has values that family {family.name} does not allow"
            )
        if classes:
            of_classes += np.bincount(y.astype(int), weight, len(of_classes))
        lines[number] = len(weight)
        sums += [
            unit.frequency[unit.rows.numbers[:, WEIGHT] > 0].sum(),
            unit.frequency[unit.flag == SEPARATED_LEVEL].sum(),
            weight.sum(),
            weight @ y,
            weight @ y**2,
            weight @ read.numbers[:, OFFSET],
        ]
    sums, lines, of_classes = map(of_all, (sums, lines, of_classes))
    rows, separated, weight_sum, response, squares, offset = sums.tolist()
    lines_of_units = lines.astype(int).tolist()
    if not sum(lines_of_units):
        raise UserError(
            f"{where}: no training row has all values that the formula needs; leave out columns that are mostly missing"
        )
    if classes:
        if not of_classes.all():
            name = classes.levels[int(of_classes.argmin())]
            raise UserError(
                f"{where}: no training row of the class `{name}` of `{classes.name}` has a weight above 0\n"
                "  correct the weights, or leave the class out in data.where"
            )
        shares = (of_classes / weight_sum).tolist()
        scale_of_classes = OutputScale([family.link(share) for share in shares], 1.0)
        return TrainingCounts(lines_of_units, int(rows), int(separated), weight_sum, scale_of_classes, shares)
    # Of float32, counted from the origin of the design: float64 holds all digits of its squares.
    mean = response / weight_sum
    variance = squares / weight_sum - mean**2
    if variance <= (SMALLEST_SPREAD * mean) ** 2:
        constant = mean + units.design.likelihood.origin
        raise UserError(f"{where}: the response `{units.design.roles.response}` is {constant:g} in all training rows")
    scale = math.sqrt(variance) if family.link_name == "identity" else 1.0
    start = family.link(mean) - offset / weight_sum
    shares = [1 - mean, mean] if family.counts_events else None
    return TrainingCounts(lines_of_units, int(rows), int(separated), weight_sum, OutputScale(start, scale), shares)
