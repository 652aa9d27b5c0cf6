"""What is known of the training rows before the first step."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tfglm.engine.rows import SEPARATED_LEVEL
from tfglm.errors import UserError
from tfglm.families.family import Family
from tfglm.networks.layers import Scale
from tfglm.networks.rows import OFFSET, RESPONSE, WEIGHT, Units


@dataclass(frozen=True)
class Counts:
    """What is known of the training rows before the first step."""

    lines_of_units: list[int]
    """What an epoch consists of, by unit: of rows with a frequency each is one line."""
    rows: int
    rows_of_separated_levels: int
    """Those for which the regression under the network has no finite linear predictor."""
    weight_sum: float
    scale: Scale

    @property
    def lines(self) -> int:
        return sum(self.lines_of_units)


def count(units: Units, family: Family, own: Iterable[int], of_all: Callable[[np.ndarray], np.ndarray]) -> Counts:
    """Rows that take part, and where the output begins. Raises UserError if there are none, or if a response is out of the range
    of the family.

    Parameters
    ----------
    own
        The units that are read here.
    of_all
        Adds sums over these to those of other processes.
    """
    classes = units.design.classes
    sums, lines = np.zeros(6), np.zeros(len(units))
    of_classes = np.zeros(len(classes.levels) if classes else 1)
    where = f"networks.{units.design.model}"
    for number in own:
        unit = units.read(number)
        read = unit.rows.used
        y, weight = read.numbers[:, RESPONSE].astype(float), read.numbers[:, WEIGHT].astype(float)
        if not np.all((y >= family.smallest) & (y <= family.largest)):
            raise UserError(f"{where}.family: `{units.design.response}` has values that {family.name} cannot have")
        if classes:
            of_classes += np.bincount(y.astype(int), weight, len(of_classes))
        lines[number] = len(weight)
        sums += [
            unit.frequency[unit.flag >= 0].sum(),
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
        raise UserError(f"{where}: no training row has all values that the formula needs")
    if classes:
        if not of_classes.all():
            name = classes.levels[int(of_classes.argmin())]
            raise UserError(f"{where}: no training row of the class `{name}` of `{classes.name}` has a weight above 0")
        starts = [family.link(share) for share in (of_classes / weight_sum).tolist()]
        return Counts(lines_of_units, int(rows), int(separated), weight_sum, Scale(starts, 1.0))
    mean = response / weight_sum
    spread = math.sqrt(max(squares / weight_sum - mean**2, 0.0))
    if spread == 0:
        raise UserError(f"{where}: the response `{units.design.response}` is {mean:g} in all training rows")
    scale = spread if family.link_name == "identity" else 1.0
    start = family.link(mean) - offset / weight_sum
    return Counts(lines_of_units, int(rows), int(separated), weight_sum, Scale(start, scale))
