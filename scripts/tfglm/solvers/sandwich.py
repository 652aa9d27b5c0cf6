"""Standard errors that hold whatever the variance of a row is: I^-1 M I^-1 with M made of the scores of rows."""

from dataclasses import replace

import numpy as np

from tfglm.config.std_errors import BY_LEVERAGE
from tfglm.design.design import Design
from tfglm.engine import leverage
from tfglm.engine.parts import eliminated_part
from tfglm.engine.passes import Sums
from tfglm.errors import UserError
from tfglm.solvers.fitted import Fitted
from tfglm.solvers.information import assemble
from tfglm.solvers.problem import Solution

SHOWN = 5
"""Groups that a message names."""


def robust(fitted: Fitted, solution: Solution, free: np.ndarray) -> Fitted:
    """The fit with a covariance that is robust to a wrong variance.

    M = sum of f s_i s_i' over rows with the score s_i, where f is 1 (HC0: White 1980), n / (n - p) (HC1), 1 / (1 - h_i) (HC2:
    Horn, Horn and Duncan 1975), 1 / (1 - h_i)^2 (HC3: MacKinnon and White, Journal of Econometrics 29, 1985), with the leverage
    h_i. A row that stands for several is as many rows of its leverage.

    Parameters
    ----------
    fitted, solution
        The fit.
    free
        Which coefficients are estimated, [p].

    Raises
    ------
    UserError
        If HC2 or HC3 has to divide by 0, as a row alone determines a coefficient.
    """
    problem, kind = solution.problem, solution.problem.design.std_errors
    design, state = problem.design, problem.design.by_term(fitted.coefficients)
    if kind in BY_LEVERAGE:
        state |= inverse_of(design, fitted)
    sums = problem.workload.sum(problem.executor, kind.lower() if kind in BY_LEVERAGE else "squares", state)
    if kind in BY_LEVERAGE:
        refuse_leverage_of_one(design, sums, problem.counts)
    meat = assemble(design, sums, free)
    factor = float(problem.counts["rows"]) / solution.df_residual if kind in ("robust", "HC1") else 1.0
    return replace(fitted, meat_dense=meat.a, meat_mixed=meat.b, meat_diagonal=meat.d, correction=factor)


def inverse_of(design: Design, fitted: Fitted) -> dict[str, np.ndarray]:
    """The inverse information matrix, as a pass takes it."""
    mixed = fitted.schur_inverse @ fitted.loadings
    diagonal = 1.0 / fitted.diagonal + np.einsum("ij,ij->j", fitted.loadings, mixed)
    number = eliminated_part(design)
    eliminated = slice(design.size, design.size) if number is None else design.parts[number].where
    places, blocks = (fitted.dense, fitted.eliminated), (fitted.schur_inverse, -mixed, diagonal)
    return leverage.state_of(design.size, places, eliminated, blocks)


def refuse_leverage_of_one(design: Design, sums: Sums, counts: Sums) -> None:
    """Raise UserError if rows alone determine a coefficient, and name the groups that they are in."""
    alone = int(sums["alone"])
    if not alone:
        return
    named = []
    for number, grouping in enumerate(design.groupings):
        levels = [design.categorical_by_name[name].levels for name in grouping]
        of_one = (sums[f"alone_{number}"] == 1) & (counts[f"rows_{number}"] == 1)
        for group in design.levels(grouping)[of_one].tolist():
            level = ":".join(of_factor[place] for of_factor, place in zip(levels, group, strict=True))
            named.append(f"{':'.join(grouping)}[{level}]")
    where = f", those of {', '.join(named[:SHOWN])}{', ...' if len(named) > SHOWN else ''}" if named else ""
    raise UserError(
        f"models.{design.model}.std_errors: {design.std_errors} divides by 1 less the leverage of a row, and that is 0 for "
        f"{'a training row' if alone == 1 else f'{alone:,} training rows'}: each alone determines a coefficient{where}\n"
        "  merge rare levels with data.rare, leave such rows out in data.where, or use `std_errors: HC1`"
    )
