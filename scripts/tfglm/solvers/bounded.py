"""Coefficients between bounds, by Newton's method with an active set.

It minimises F over lower <= b <= upper. g is the gradient of F, and H its information matrix.

1. The step v minimises g'v + v'Hv / 2 with b + v between the bounds (solvers.quadratic). Take the whole step, or half of it, a
   quarter, ..., until F does not rise. Repeat until steps gain little.
2. Hold the coefficients on a bound that g draws beyond it: they are the active set. Solve for the others, and certify, as
   without bounds (solvers.newton).
3. End if the conditions of Karush, Kuhn and Tucker hold: no other coefficient is beyond a bound, and -g points beyond the bound
   of each held one. Otherwise go to 1, from the nearest point between the bounds, until steps gain less.

The errors are those of a model in which the active set is known. An estimate on its bound is not nearly normal, so it has none
(Self & Liang, Journal of the American Statistical Association 82, 1987).
"""

from dataclasses import dataclass, field, replace

import numpy as np

from tfglm.design.parametrisation import in_table, to_data_scale
from tfglm.errors import UserError
from tfglm.formula.names import coefficient_name
from tfglm.inference.fitted import ALIASED, AT_BOUND, FREE, REFERENCE, Fitted, choose_references
from tfglm.solvers import newton, origin, quadratic
from tfglm.solvers.descent import Descent, halve_until, is_no_higher
from tfglm.solvers.objective import Point, Solution
from tfglm.solvers.plain import PlainObjective

MOST_SETS = 12
"""Largest number of active sets that are tried."""

SHOWN = 20
"""Coefficients that a warning names."""

LITTLE = 1e-2
"""Twice the gain of a step at which the first active set is taken, in units of the dispersion; for each next a hundredth."""


@dataclass(frozen=True)
class BoundedObjective(PlainObjective):
    """F between bounds. `multipliers` [p] are g of the coefficients on their bounds, for a unit of the table; 0 for others."""

    multipliers: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def without_separated_rows(self, coefficients: np.ndarray) -> Solution | None:
        if super().without_separated_rows(coefficients) is None:
            return None
        raise UserError(
            f"models.{self.design.model}.bounds: the terms separate rows by their response, so a coefficient would be infinite\n"
            "  give it bounds on both sides, merge rare levels, or add a penalty, `l2`"
        )

    def limits(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The bounds on the scale of the fit, and a coefficient of the table in units of the fit, all [p]. Raises UserError for a
        coefficient that is aliased, or that is several of the fit."""
        design, (lower, upper, unit) = self.design, np.outer([-np.inf, np.inf, 1.0], np.ones(self.design.size))
        references = choose_references(design, self.status, {})
        matrix = in_table(design, to_data_scale(design), self.null_vectors, references)[-1]
        moved, names = origin.shift(self), self.names
        for place, least, most in design.bounds:
            row = np.where(self.free, matrix[[place]].toarray()[0], 0.0)
            others = [names[other] for other in np.flatnonzero(row) if other != place]
            if self.status[place] == ALIASED or others:
                why = (
                    f"it depends on where they are zero: {', '.join(others[:3])}\n  bound a term that multiplies no number"
                    if others
                    else "other terms determine its column\n  leave one of them out"
                )
                raise UserError(f"models.{design.model}.bounds: `{names[place]}` can have no bound, because {why}")
            part = next(part.where for part in design.parts if part.where.start <= place < part.where.stop)
            of_whole_term = {place for place, *_ in design.bounds} >= set(range(part.start, part.stop))
            if self.status[place] == REFERENCE and not of_whole_term and not (least or 0) <= 0 <= (most or 0):
                raise UserError(
                    f"models.{design.model}.bounds: `{names[place]}` is the reference level, whose coefficient is 0\n  bound the "
                    "other levels, or choose another reference level in the formula"
                )
            if self.free[place]:
                unit[place] = row[place]
                lower[place] = -np.inf if least is None else least / row[place] - moved[place]
                upper[place] = np.inf if most is None else most / row[place] - moved[place]
        return lower, upper, unit

    @property
    def names(self) -> list[str]:
        return [coefficient_name(*name) for name in self.design.coefficients()]

    def facts(self, fitted: Fitted) -> dict:
        """Each bounded coefficient: the bounds, whether it is on one, and the derivative of the loss there, which rises towards
        the inside, for a unit of the coefficient."""
        names = list(self.design.coefficients())
        return {
            "bounds": [
                dict(zip(("term", "level"), names[place], strict=True))
                | {"lower": lower, "upper": upper, "at_bound": bool(self.status[place] == AT_BOUND)}
                | {"multiplier": float(self.multipliers[place]) if len(self.multipliers) else 0.0}
                for place, lower, upper in self.design.bounds
                if self.status[place] in (FREE, AT_BOUND)
            ]
        }

    def remarks(self) -> list[str]:
        names = [f"`{self.names[place]}`" for place in np.flatnonzero(self.status == AT_BOUND)]
        listed = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        return [
            f"on a bound: {listed}. An estimate on its bound is not nearly normal, so it has no standard error; the errors and "
            "tests of other coefficients take those on a bound as known"
        ] * bool(names)


class BoundedNewton(Descent):
    """Step 1, from a point between the bounds, until twice the gain of a step is at most `little` dispersions."""

    def __init__(self, objective: BoundedObjective, point: Point, lower: np.ndarray, upper: np.ndarray, little: float):
        self.objective, self.point, self.lower, self.upper, self.little = objective, point, lower, upper, little
        self.most = objective.run.max_iterations
        self.df_residual = max(float(objective.counts["rows"]) - objective.estimated, 1.0)

    def measure(self) -> None:
        objective, point = self.objective, self.point
        blocks, gradient = point.information.penalised(objective.ridge), objective.gradient(point)
        self.step = quadratic.bounded(
            blocks, gradient, self.lower - point.coefficients, self.upper - point.coefficients
        )
        self.gain = -float(gradient @ self.step)

    def has_ended(self) -> bool:
        dispersion = self.objective.dispersion(self.point, self.df_residual)
        return self.gain <= self.little * dispersion or self.iteration == self.most

    def go(self) -> bool:
        objective, begun = self.objective, self.point
        before = objective.value(begun)

        def at(length: float) -> Point:
            return objective.at(np.clip(begun.coefficients + length * self.step, self.lower, self.upper))

        trial = halve_until(lambda point: is_no_higher(objective.value(point), before), at)
        self.point = trial or begun
        return trial is not None

    @property
    def active(self) -> np.ndarray:
        """Which coefficients are on a bound that the gradient draws them beyond, [p]."""
        b, gradient = self.point.coefficients, self.objective.gradient(self.point)
        return ((b <= self.lower) & (gradient > 0)) | ((b >= self.upper) & (gradient < 0))


def solve(start: Solution) -> Solution:
    """Minimise F between the bounds from `start`. Raises Drifting and UserError as `newton.solve` does; UserError if no
    active set fulfils the conditions, and for bounds that cannot hold."""
    objective, iterations, little = start.objective, 0, LITTLE
    assert isinstance(objective, BoundedObjective)
    lower, upper, unit = objective.limits()
    coefficients = start.point.coefficients
    for _ in range(MOST_SETS):
        point = objective.at(np.clip(coefficients, lower, upper))
        descent = BoundedNewton(objective, point, lower, upper, little)
        try:
            descent.run()
        except quadratic.NotSolved:
            break
        active = descent.active
        held = replace(objective, status=np.where(active, AT_BOUND, objective.status))
        solution = newton.solve(replace(start, objective=held, point=held.at(descent.point.coefficients)))
        iterations, little = iterations + descent.iteration + solution.iterations, little / 100
        coefficients = solution.point.coefficients
        multipliers = np.where(active, objective.gradient(solution.point), 0.0)
        is_held = np.where(coefficients <= lower, multipliers >= 0, multipliers <= 0)
        if np.all(np.where(active, is_held, (coefficients >= lower) & (coefficients <= upper))):
            held = replace(held, multipliers=multipliers / unit)
            return replace(solution, objective=held, iterations=iterations)
    raise UserError(
        f"models.{objective.design.model}.bounds: no set of coefficients on their bounds was found that fulfils the conditions "
        "of a minimum\n  leave out terms that nearly depend on each other, or remove a bound"
    )
