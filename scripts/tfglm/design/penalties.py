"""The terms that penalties act on, and their factors."""

from tfglm.config import DesignConfig
from tfglm.errors import Problems, UserError, nearest
from tfglm.formula.parse import parse
from tfglm.formula.terms import Formula


def penalty_factors(where: str, settings: DesignConfig, formula: Formula) -> tuple[tuple[str, float], ...]:
    """By what the penalties of terms are multiplied, where that is not 1: 0 for those that are left alone. Raises UserError,
    which begins with `where`, for a term that the formula has not, or that is named twice; and if no term is left to
    penalise."""
    names = [term.name for term in formula.terms]
    asked = [("unpenalised", text, 0.0) for text in settings.unpenalised]
    asked += [("penalty_factors", text, factor) for text, factor in settings.penalty_factors.items()]
    factors: dict[str, float] = {}
    problems = Problems()
    for key, text, factor in asked:
        with problems.collected():
            for term in parse(f"y ~ 0 + {text}", f"{where}.{key}", whole=False).terms:
                if term.name not in names:
                    raise UserError(
                        f"{where}.{key}: the formula has no term `{term.name}`{nearest(term.name, names)}\n"
                        f"  the terms are: {', '.join(names)}"
                    )
                if term.name in factors:
                    raise UserError(f"{where}.{key}: the penalty of `{term.name}` is given twice; keep one")
                factors[term.name] = factor
    problems.check()
    if factors and all(factors.get(name, 1.0) == 0 for name in names):
        raise UserError(
            f"{where}.unpenalised: no term is left that penalties act on; leave one out, or remove the penalty"
        )
    return tuple((name, factors[name]) for name in names if factors.get(name, 1.0) != 1.0)
