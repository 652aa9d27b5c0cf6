"""The combination of other columns of the design matrix that equals the column of each aliased coefficient."""

import numpy as np

from tfglm.design.codings import table_names
from tfglm.design.design import Design
from tfglm.results.accuracy import NO_ROWS

SHOWN = 4
"""Most columns to name; for more, only their number is given."""


def aliased_with(design: Design, aliased: np.ndarray, held: np.ndarray, basis: np.ndarray) -> dict[int, str]:
    """Describe the combination of columns that the column of an aliased coefficient equals, by the place of the coefficient,
    such as `1.609 distance` or `carrier[AA] - flight[AA10]`. If only absorbed factors determine it, the text names them.

    `aliased` [p] says which coefficients are; one that is not held has no rows. `held` and `basis` are the result of
    `parametrisation.hold`, on the scale of the data.
    """
    names = [f"{term}[{level}]" if level else term for term, level in table_names(design)]
    of_place = dict(zip(held.tolist(), basis, strict=True))
    described = {}
    for place in np.flatnonzero(aliased).tolist():
        if place not in of_place:
            described[place] = NO_ROWS
            continue
        weights = -of_place[place]
        weights[place] = 0.0
        others = np.flatnonzero(weights)
        text = " ".join(_product(weights[other], names[other]) for other in others[:SHOWN]).removeprefix("+ ")
        more = f" and {len(others) - SHOWN:,} more" if len(others) > SHOWN else ""
        text = text.replace("- ", "-", 1) if text.startswith("- ") else text
        # Of what absorbed factors determine there is nothing to be seen but other columns of the table.
        described[place] = text + more or (", ".join(design.absorbed) and f"levels of {', '.join(design.absorbed)}")
    return described


def _product(weight: float, name: str) -> str:
    sign = "-" if weight < 0 else "+"
    digits = f"{abs(weight):.4g}"
    return f"{sign} {name}" if digits == "1" else f"{sign} {digits} {name}"
