"""Arithmetic with one column in a formula, as in `I(distance^2)` or `log(delay + 1)`.

An expression is a tree that JSON can hold: a number, COLUMN, or an operator or function with what it is applied to, as in
`("+", ("^", "x", 2.0), 1.0)`.
"""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

COLUMN = "x"
"""Stands for the column in a tree."""

FUNCTIONS = ("log", "log2", "log10", "log1p", "exp", "sqrt", "abs")

OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}

COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
}

SLOPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log": lambda x: 1.0 / x,
    "log2": lambda x: 1.0 / (x * np.log(2.0)),
    "log10": lambda x: 1.0 / (x * np.log(10.0)),
    "log1p": lambda x: 1.0 / (1.0 + x),
    "exp": np.exp,
    "sqrt": lambda x: 0.5 / np.sqrt(x),
    "abs": np.sign,
}
"""The derivatives of FUNCTIONS."""


def is_arithmetic(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp | ast.UnaryOp)


def tree_of(node: ast.AST) -> tuple[Any, set[str]]:
    """An expression, and the columns in it. Raises ValueError for what is neither a number, a column, one of the operators
    + - * / ^ nor one of FUNCTIONS."""
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
        case ast.Call(function, [argument], []) if ast.unparse(function).removeprefix("np.") in FUNCTIONS:
            tree, columns = tree_of(argument)
            name = ast.unparse(function).removeprefix("np.")
            if not isinstance(tree, float):
                return (name, tree), columns
            with np.errstate(all="ignore"):
                constant = float(getattr(np, name)(tree))
            if not math.isfinite(constant):
                raise ValueError(f"{name}({tree:g}) is no finite number")
            return constant, columns
    raise ValueError(
        f"`{ast.unparse(node)}` is no arithmetic, which consists of numbers, a column, + - * / ^ and {', '.join(FUNCTIONS)}"
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


def value(xp: Any, tree: Any, x: Any) -> Any:
    """Evaluate an expression; `xp` is NumPy or TensorFlow's version of it."""
    if isinstance(tree, float | int):
        return float(tree)
    if tree == COLUMN:
        return x
    if len(tree) == 2:
        return getattr(xp, tree[0])(value(xp, tree[1], x))
    return COMPUTED[tree[0]](value(xp, tree[1], x), value(xp, tree[2], x))


def slope(tree: Any, x: np.ndarray) -> np.ndarray:
    """The derivative of an expression by the column, by the chain rule."""
    if isinstance(tree, float | int):
        return np.zeros_like(x)
    if tree == COLUMN:
        return np.ones_like(x)
    if len(tree) == 2:
        return SLOPES[tree[0]](value(np, tree[1], x)) * slope(tree[1], x)
    symbol, first, second = tree
    u, v = value(np, first, x), value(np, second, x)
    du, dv = slope(first, x), slope(second, x)
    if symbol in "+-":
        return COMPUTED[symbol](du, dv)
    if symbol == "*":
        return du * v + u * dv
    if symbol == "/":
        return du / v - u / v * (dv / v)
    from scipy.special import xlogy  # slow to import, and the Snakefile checks formulas

    # What does not change has no part, though the logarithm of a negative base, or a root's slope at 0, is not finite.
    with np.errstate(all="ignore"):
        of_base = np.where(du == 0, 0.0, v * u ** (v - 1) * du)
        return of_base + np.where(dv == 0, 0.0, xlogy(u**v, u) * dv)
