"""The text of a formula: its words, products and sums, without what functions mean.

The operators are those of R: + - * / : %in% and ^ or **, and parentheses.
"""

import ast
import keyword
import math
import re
import warnings
from collections.abc import Iterable

OPERATORS_OF_PYTHON = ("and", "or", "not", "in", "is", "if", "else", "True", "False", "None")

MOST_TERMS, MOST_PRODUCTS = 1_000, 100_000
"""Most terms of a formula, and most products that they are made of, before equal ones are merged."""

LONGEST_TEXT, LONGEST_NAME = 10_000, 100

QUOTED = re.compile(r"`[^`]*`|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
"""A level or a name in quotes."""

WORD = re.compile(rf"\s*(?:({QUOTED.pattern})|(%in%|\*\*|[-+*/:^()|~])|(\d[\w.]*)|([^\W\d][\w.]*)|(\{{)|(\S))")
"""A quoted text, an operator, a number, a name, the start of braces; or what no formula has."""

BRACKET = re.compile(rf"{QUOTED.pattern}|([(\[{{])|([)\]}}])")

BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "%in%": 2, ":": 3, "^": 4, "**": 4}
"""The operators; those with larger numbers come first."""

OPERATORS = (*BINDS, "(", ")", "|", "~")

Product = tuple[str, ...]
"""The texts of the factors of a term; the intercept has none."""

Sum = dict[frozenset[str], Product]
"""Terms in order, each under its factors."""

ONE: Sum = {frozenset(): ()}


class TooManyTermsError(ValueError):
    """A formula stands for too many terms."""


PYTHON = {"^": "**", "as.factor": "factor", "ref.p": "ref_p"}
PYTHON |= {word: chr(ord(word[0]) + 0xFEE0) + word[1:] for word in keyword.kwlist if word not in OPERATORS_OF_PYTHON}
"""Python's writing of what R has in a formula. Python reads a wide letter as a plain one, but no keyword: a column may be called
`lambda` or `from`."""


def in_python(formula: str) -> str:
    """A formula as Python writes it, except in quotes."""
    words = rf"{QUOTED.pattern}|\^|\bas\.factor(?=\()|\bref\.p(?=\s*=)|\b[a-z]+\b(?!\.)"
    return re.sub(words, lambda match: PYTHON.get(match[0], match[0]), formula)


def in_tree(text: str) -> ast.expr:
    """The syntax tree of an expression of R that Python can read, in tfglm's spelling. Raises SyntaxError.

    >>> ast.unparse(in_tree("te(x, z, k=c(5, 8))")), ast.unparse(in_tree('relevel(factor(g), ref="a")'))
    ('te(x, z, k=[5, 8])', "C(g, Treatment('a'))")
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # `0x5in` is said to be wrong by the error alone
        return _Spelling().visit(ast.parse(in_python(text), mode="eval")).body


LOGICAL = {"TRUE": True, "FALSE": False, "T": True, "F": False}


class _Spelling(ast.NodeTransformer):
    """Writes what R and patsy spell otherwise as tfglm does, where it means one thing."""

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in LOGICAL:
            node.value = ast.Constant(LOGICAL[node.value.id])
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name("c"), [_, *_], []):
                return ast.List(node.args)
            case ast.Call(ast.Name("Q"), [ast.Constant(str(name))], []) if name.isidentifier():
                return ast.Name(name)
            case ast.Call(ast.Name("factor"), [_], []):
                return ast.Call(ast.Name("C"), node.args, [])
            case ast.Call(ast.Name("relevel"), [column, level], []) | ast.Call(
                ast.Name("relevel"), [column], [ast.keyword("ref", level)]
            ):
                plain = (
                    column.args[0] if ast.unparse(column).startswith("C(") and isinstance(column, ast.Call) else column
                )
                return ast.Call(ast.Name("C"), [plain, ast.Call(ast.Name("Treatment"), [level], [])], [])
            case ast.Call(ast.Name("log"), [column, ast.Constant(2 | 10 as base)], []) | ast.Call(
                ast.Name("log"), [column], [ast.keyword("base", ast.Constant(2 | 10 as base))]
            ):
                return ast.Call(ast.Name(f"log{base}"), [column], [])
        return node


def as_in_r(name: str) -> str:
    """A factor as R writes it: `I((x - 1)/10)`, `I(x^2)`."""
    return name.replace(" ** ", "^").replace(" / ", "/")


def words_of(formula: str) -> list[str]:
    """The operators of a formula, and the texts between them: numbers, names, and calls with all in their parentheses.

    Raises ValueError for what no formula has.
    """
    words, place = [], 0
    while match := WORD.match(formula, place):
        quoted, operator, number, name, brace, other = match.groups()
        place = match.end()
        if other:
            raise ValueError(f"`{other}` has no meaning in a formula")
        if brace or (name and formula[place:].lstrip().startswith("(")):
            start = match.start(5 if brace else 4)
            place = end_of_brackets(formula, start)
            words.append(formula[start:place])
        else:
            words.append(quoted.strip("`") if quoted else operator or number or name)
    return words


def end_of_brackets(text: str, start: int) -> int:
    """Where the first brackets from `start` on end. Raises ValueError if they do not."""
    depth = 0
    for match in BRACKET.finditer(text, start):
        depth += bool(match[1]) - bool(match[2])
        if depth == 0 and match[2]:
            return match.end()
    raise ValueError("a bracket is not closed")


def products_of(words: list[str]) -> list[Product]:
    """The terms that the right-hand side of a formula stands for, with the intercept unless it is taken out.

    Raises ValueError for what is no sum of products, and TooManyTermsError.

    >>> products_of(words_of("(a + b)^2 - a:b + log(x)/c - 1"))
    [('a',), ('b',), ('log(x)',), ('log(x)', 'c')]
    """
    reader = _Reader([*(["1"] if words[:1] in (["+"], ["-"]) else ["1", "+"]), *words])
    products = list(reader.sum().values())
    if reader.next:
        raise ValueError(f"`{reader.next}` has no place there")
    if len(products) > MOST_TERMS:
        raise TooManyTermsError
    return products


class _Reader:
    """Reads words from left to right (V. Pratt, Top down operator precedence, 1973)."""

    def __init__(self, words: list[str]):
        self.words = words[::-1]

    @property
    def next(self) -> str:
        return self.words[-1] if self.words else ""

    def sum(self, least: int = 1) -> Sum:
        """Read what operators that bind at least so tightly join."""
        left = self.operand()
        while BINDS.get(self.next, 0) >= least:
            operator = self.words.pop()
            if operator in ("^", "**"):
                left = power(left, self.words.pop() if self.words else "")
            elif operator in "+-" and self.next == "0":  # takes the intercept out, or in
                self.words[-1] = "1"
                left = joined("-" if operator == "+" else "+", left, self.sum(BINDS[operator] + 1))
            else:
                left = joined(operator, left, self.sum(BINDS[operator] + 1))
        return left

    def operand(self) -> Sum:
        word = self.words.pop() if self.words else ""
        if word == "(":
            inner = self.sum()
            if not self.words or self.words.pop() != ")":
                raise ValueError("a bracket is not closed")
            return inner
        if word in ("+", "-"):
            terms = self.sum(BINDS[word] + 1)
            return terms if word == "+" else {}
        if word in ("0", "1"):
            return ONE if word == "1" else {}
        if not word or word in OPERATORS or word[0].isdigit():
            raise ValueError(f"`{word}` is no term" if word else "a term is missing at its end")
        return {frozenset([word]): (word,)}


def joined(operator: str, left: Sum, right: Sum) -> Sum:
    """The terms of two sums with an operator between them. Raises TooManyTermsError."""
    if operator == "+":
        return summed([*left.values(), *right.values()])
    if operator == "-":
        return {key: term for key, term in left.items() if key not in right}
    if operator == "%in%":
        left, right = right, left
    if not (left and right):
        raise ValueError(f"`{operator}` has no term on one side")
    if len(left) * len(right) > MOST_PRODUCTS:
        raise TooManyTermsError
    factors = [[factor for term in left.values() for factor in term]] if operator in ("/", "%in%") else left.values()
    products = [tuple(dict.fromkeys((*first, *second))) for first in factors for second in right.values()]
    before = [] if operator == ":" else [*left.values(), *(right.values() if operator == "*" else [])]
    return summed([*before, *products])


def summed(products: Iterable[Product]) -> Sum:
    """Each product once, as it is written first."""
    result: Sum = {}
    for product in products:
        result.setdefault(frozenset(product), product)
    return result


def power(terms: Sum, exponent: str) -> Sum:
    """The terms of a sum multiplied by itself. Raises ValueError for a power that is no other model, and TooManyTermsError."""
    if not exponent.isdecimal():
        raise ValueError(f"the exponent of `**` must be a whole number, not `{exponent}`")
    number = int(exponent)
    if number > MOST_PRODUCTS or number * math.log(max(len(terms), 1)) > math.log(MOST_PRODUCTS):
        raise TooManyTermsError
    if len(terms) == 1:
        (base,) = map(":".join, terms.values())
        raise ValueError(
            f"`{base}^{number}` would be `{base}`, which crossed with itself is no other term; a power is `I({base}^{number})`"
        )
    result = terms
    for _ in range(number - 1):
        result = joined(":", result, terms)
    return result
