"""R-style formulas, parsed by formulaic. What the engine cannot fit is refused here by name."""

import ast
from dataclasses import dataclass

from formulaic import Formula
from formulaic.errors import FormulaicError
from formulaic.parser.types import Factor

from tfglm.errors import UserError


@dataclass(frozen=True)
class FormulaTerm:
    """A main effect: `name` as it was written, its column, and whether `C()` makes a number column categorical."""

    name: str
    column: str
    as_categorical: bool


def parse(formula: str, where: str) -> tuple[str, tuple[FormulaTerm, ...]]:
    """The response column and the terms, in the order written. `where` is the config key that the errors name.

    Raises UserError for anything but `response ~ main effects`, each a column or `C(column)`, with an intercept.
    """
    try:
        parsed = Formula(formula, _ordering="none")
    except FormulaicError as error:
        raise UserError(f"{where}: not a formula: `{formula}`: {error}") from error
    if not hasattr(parsed, "lhs") or len(parsed.lhs) != 1:
        raise UserError(f"{where}: `{formula}` needs one response, as in `late ~ carrier + distance`")
    response = parsed.lhs[0].factors
    if len(response) != 1 or response[0].eval_method is not Factor.EvalMethod.LOOKUP:
        raise UserError(f"{where}: the response `{parsed.lhs[0]}` must be a column; define it under data.derive")
    if "1" not in map(str, parsed.rhs):
        raise UserError(f"{where}: `{formula}` leaves out the intercept, which is not supported; remove `- 1` or `+ 0`")
    terms = tuple(parse_term(term, where) for term in parsed.rhs if str(term) != "1")
    if not terms:
        raise UserError(f"{where}: `{formula}` has no terms besides the intercept")
    return response[0].expr, terms


def parse_term(term, where: str) -> FormulaTerm:
    """One term of a parsed formula."""
    if len(term.factors) != 1:
        raise UserError(f"{where}: the interaction `{term}` is not supported; define a column for it under data.derive")
    factor = term.factors[0]
    if factor.eval_method is Factor.EvalMethod.LOOKUP:
        return FormulaTerm(factor.expr, factor.expr, False)
    try:
        call = ast.parse(factor.expr, mode="eval").body
    except SyntaxError:
        call = None
    match call:
        case ast.Call(func=ast.Name("C"), args=[ast.Name(column)], keywords=[]):
            return FormulaTerm(f"C({column})", column, True)
        case ast.Call(func=ast.Name("C")):
            raise UserError(
                f"{where}: `{term}`: C() takes one column; choose its reference level with the key `reference`"
            )
    raise UserError(f"{where}: `{term}` is not supported; define a column for it under data.derive")
