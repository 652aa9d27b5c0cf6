"""Arithmetic with one column in a formula, as in `I(distance^2)` or `log(delay + 1)`.

An expression is a tree that JSON can hold: a number, COLUMN, or an operator or function with what it is applied to, as in
`("+", ("^", "x", 2.0), 1.0)`.
"""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from tfglm.formula.functions import ELEMENTWISE

COLUMN = "x"
"""Stands for the column in a tree."""

OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}

COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
}


def is_arithmetic(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp | ast.UnaryOp)


def tree_of(node: ast.AST) -> tuple[Any, set[str]]:
    """An expression, and the columns in it. Raises ValueError for what is neither a number, a column, one of the operators
    + - * / ^ nor one of ELEMENTWISE."""
    match node:
        case ast.Constant(int() | float() as value) if type(value) is not bool and abs(value) <= 1e300:
            return float(value), set()
        case ast.Name(name):
            return COLUMN, {name}
        case ast.UnaryOp(ast.USub(), operand):
            tree, columns = tree_of(operand)
            return (-tree if isinstance(tree, float) else ("-", 0.0, tree)), columns
        case ast.UnaryOp(ast.UAdd(), operand):
            return tree_of(operand)
        case ast.BinOp(left, symbol, right) if type(symbol) in OPERATORS:
            (first, some), (second, others) = tree_of(left), tree_of(right)
            return folded(OPERATORS[type(symbol)], first, second), some | others
        case ast.Call(function, [argument], []) if ast.unparse(function).removeprefix("np.") in ELEMENTWISE:
            tree, columns = tree_of(argument)
            name = ast.unparse(function).removeprefix("np.")
            if not isinstance(tree, float):
                return (name, tree), columns
            try:
                constant = float(getattr(math, {"abs": "fabs"}.get(name, name))(tree))
            except (ValueError, OverflowError):
                constant = math.nan
            if not math.isfinite(constant):
                raise ValueError(f"{name}({tree:g}) is no finite number")
            return constant, columns
    raise ValueError(
        f"`{ast.unparse(node)}` is no arithmetic, which consists of numbers, a column, + - * / ^ and {', '.join(ELEMENTWISE)}"
    )


def folded(symbol: str, first: Any, second: Any) -> Any:
    """Two expressions joined; of two numbers what they come to. Raises ValueError if that is no finite number."""
    if not (isinstance(first, float) and isinstance(second, float)):
        return symbol, first, second
    try:
        value = COMPUTED[symbol](first, second)
    except (ZeroDivisionError, OverflowError):
        value = math.nan
    if not isinstance(value, float) or not math.isfinite(value):
        raise ValueError(f"{first:g} {symbol} {second:g} is no finite number")
    return value
