"""The terms of a formula as types. Other rooms ask a term what it is, and never read its text.

Main effects, and the factors of an `Interaction`, are a `Covariate`, a `CategoricalFactor`, or `Transformed` by functions.
Penalised terms are a `Smooth` of one number or several, and `RandomEffects` of the levels of a factor.
"""

# Kinds of terms answer some questions by properties where the common answer is a constant.
# mypy: disable-error-code="override"

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tfglm.formula.functions import LINEAR, LOGARITHMS, SEVERAL, SMOOTH

INTERCEPT = "Intercept"

THRESHOLD = "(Threshold)"
"""The name of the thresholds between ordered classes in all tables; no column can have it."""

BETWEEN_COLUMNS, NEVER = " × ", "never"
"""In a column of combinations between the values, and in a cohort's place where it has no value."""

Kinds = Mapping[str, str | None]
"""The kind of each column, None if it is not known."""

Line = frozenset[tuple[str, str]]
"""A column or a product of some, each after some functions."""

ONE = "1"
"""What random intercepts multiply."""

NONE = "0"
"""In the place of random intercepts, where correlated slopes are without them."""

CODINGS = ("contr.sum", "contr.helmert", "contr.poly", "contr.diff")
"""Contrasts of the levels of a factor (design.codings)."""


@dataclass(frozen=True)
class FunctionCall:
    """A function with its options, as a formula has it."""

    function: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Term:
    """The questions that each term answers. A kind of term overrides the answers that differ."""

    is_random = is_indicator = is_plain = False
    is_surface = is_tensor_product = has_constant = False
    coding: str | None = None
    reference: str | None = None
    by: "Term | None" = None
    base: float | None = None
    """Of the logarithm of a column."""

    @property
    def name(self) -> str:
        """As tables name it."""
        return ":".join(factor.name for factor in self.factors)

    @property
    def bare(self) -> str:
        """What pages have a name for: the column, if nothing but its levels or values are meant."""
        return self.name

    @property
    def factors(self) -> tuple["Term", ...]:
        """Its factors. A smooth is a factor, and its `by` another."""
        return (self,)

    @property
    def degree(self) -> int:
        """The number of columns, or functions of some, that are multiplied. Terms are ordered by it."""
        return len(self.factors)

    @property
    def columns(self) -> tuple[str, ...]:
        others = (factor for factor in self.factors if factor is not self)
        return tuple(dict.fromkeys(column for factor in others for column in factor.columns))

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        """The functions applied to columns, the innermost first."""
        return tuple(call for factor in self.factors if factor is not self for call in factor.calls)

    @property
    def is_smooth(self) -> bool:
        """Whether it is a penalised curve or surface."""
        return any(call.function in SMOOTH for call in self.calls)

    @property
    def is_curve(self) -> bool:
        """Whether it has several numbers, whose coefficients say nothing by themselves."""
        return any(call.function in SEVERAL for call in self.calls)

    @property
    def is_nonlinear(self) -> bool:
        """Whether a function bends a number, so that no single coefficient shows its effect."""
        return any(call.function not in LINEAR for call in self.calls)

    @property
    def is_periodic(self) -> bool:
        return any("cc" in (call.function, call.options.get("bs")) for call in self.calls)

    @property
    def is_centred(self) -> bool:
        """Whether its numbers have the mean 0 over the training rows."""
        return any(call.function in ("cc", *SMOOTH) for call in self.calls)

    def has_levels(self, kinds: Kinds) -> bool | None:
        """Whether it has a coefficient for each level of something; None if unknown. `kinds` are those of the columns."""
        firsts = [kinds.get(factor.columns[0]) for factor in self.factors if factor.columns]
        if "text" in firsts or any(isinstance(factor, CategoricalFactor | RandomEffects) for factor in self.factors):
            return True
        return None if self.is_curve or not {*firsts} <= {"integer", "number"} else False

    def lines(self, kinds: Kinds) -> set[Line]:
        """The straight lines that it contains."""
        is_line = self.degree == 1 or self.has_levels(kinds) is False
        return {frozenset((factor.columns[0], str(factor.calls)) for factor in self.factors)} if is_line else set()


@dataclass(frozen=True)
class Intercept(Term):
    name = INTERCEPT


@dataclass(frozen=True)
class Covariate(Term):
    """A column as it is: a factor if it is text, else a number."""

    column: str

    @property
    def name(self) -> str:
        return self.column

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def is_plain(self) -> bool:
        """Whether its coefficients are effects of values of a column: of a level against another, or of one more of a number."""
        return not (self.calls or self.coding)


@dataclass(frozen=True)
class CategoricalFactor(Covariate):
    """The levels of `C(column)`. `reference` is the level that the formula names, `coding` one of CODINGS; `is_indicator` if
    fixest's `i()` names the reference."""

    reference: str | None = None
    coding: str | None = None
    is_indicator: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        return f"C({self.column}, {self.coding})" if self.coding else f"C({self.column})"

    @property
    def bare(self) -> str:
        return self.column


@dataclass(frozen=True)
class EventStudy(CategoricalFactor):
    """Sun and Abraham's `sunab(cohort, period)`: a coefficient for each cohort in each period from its treatment, except the
    periods `before`, or without any, except all periods before. `column` has both, as `1998 × 2001`. In a design, periods that
    count from the treatment are relative."""

    cohort: str = ""
    period: str = ""
    before: tuple[int, ...] = (-1,)
    is_relative: bool = field(default=False, compare=False)
    is_nonlinear = is_curve = True
    is_plain = False

    @property
    def name(self) -> str:
        references = f", ref.p=[{', '.join(map(str, self.before))}]" if self.before else ", ref.p=before"
        references = "" if self.before == (-1,) else references
        return f"sunab({self.cohort}, {self.period}{references})"

    @property
    def bare(self) -> str:
        return self.name

    def since(self, level: str) -> float:
        """The periods since the treatment of a level; those of a cohort without a treatment are NaN."""
        cohort, _, period = level.partition(BETWEEN_COLUMNS)
        return float(period) - (0.0 if self.is_relative else float("nan" if cohort == NEVER else cohort))


class Absorbed(CategoricalFactor):
    """A factor whose coefficients are not reported."""

    @property
    def name(self) -> str:
        return self.column


@dataclass(frozen=True)
class AbsorbedSlope(CategoricalFactor):
    """The slopes of a number at the levels of a column, which are not reported."""

    slope: str = ""

    @property
    def name(self) -> str:
        return f"{self.column}[[{self.slope}]]"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, self.slope)


@dataclass(frozen=True)
class Transformed(Covariate):
    """Functions of a column, as `written`: one number as of `log(x)`, or several as of `poly(x, 3)`. Those of `s(x, z)` have the
    column z `beside` theirs."""

    written: str
    applied: tuple[FunctionCall, ...]
    beside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.written

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, *self.beside)

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        return self.applied

    @property
    def base(self) -> float | None:
        return LOGARITHMS.get(self.calls[0].function) if len(self.calls) == 1 else None


@dataclass(frozen=True)
class Interaction(Term):
    """A product of several factors."""

    multiplied: tuple[Term, ...]

    @property
    def factors(self) -> tuple[Term, ...]:
        return self.multiplied


@dataclass(frozen=True)
class Smooth(Term):
    """A penalised curve or surface, `written` without its `by`, the factor or the number that multiplies it. `s(x)` and `s(x, z)`
    have one margin, and `te(x, z)` and `ti(x, z)` one for each column."""

    written: str
    margins: tuple[Transformed, ...]
    by: Covariate | None = None

    @property
    def name(self) -> str:
        return f"{self.written}:{self.by.name}" if self.by else self.written

    @property
    def smoothed(self) -> tuple[str, ...]:
        """The columns of the curve or surface."""
        return tuple(column for margin in self.margins for column in margin.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.smoothed, *(self.by.columns if self.by else ()))

    @property
    def factors(self) -> tuple[Term, ...]:
        return (Smooth(self.written, self.margins), self.by) if self.by else (self,)

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        return tuple(call for margin in self.margins for call in margin.calls)

    def lines(self, kinds: Kinds) -> set[Line]:
        """Those of its columns; of `ti(x, z)` their product. A curve that multiplies a number contains the lines of the number
        and of their product."""
        if self.by and self.by.has_levels(kinds) is None:
            return set()
        number = frozenset[tuple[str, str]]().union(
            *(self.by.lines(kinds) if self.by and not self.by.has_levels(kinds) else ())
        )
        lines = {frozenset({(name, str(each.calls[:-1]))}) for each in self.margins for name in each.columns}
        if self.is_tensor_product and not self.has_constant:
            return {number.union(*lines)}
        return {number | line for line in lines} | ({number} if number else set())

    @property
    def is_surface(self) -> bool:
        """Whether it is a smooth of several columns. A tensor product has a margin for each."""
        return len(self.smoothed) > 1

    @property
    def is_tensor_product(self) -> bool:
        return len(self.margins) > 1

    @property
    def has_constant(self) -> bool:
        """Whether a constant is among its columns. The intercept has it too, unless a number multiplies the term."""
        return self.calls[-1].function == "te"


@dataclass(frozen=True)
class RandomEffects(Term):
    """Normal effects of the levels of a column, `(1 | g)` or `s(g, bs=re)`; or the `slope` of a number at each level,
    `(0 + x | g)` or `s(g, x, bs=re)`. The slope in `(1 + x | g)` is correlated with the effects `beside` it, those of the terms
    before: the slopes of these numbers, or of ONE, the intercept. NONE is the first if there is no intercept."""

    group: str
    slope: str = ""
    beside: tuple[str, ...] = ()
    is_random = True

    @property
    def name(self) -> str:
        return f"s({', '.join(self.columns)}, bs=re)"

    @property
    def correlated(self) -> tuple[str, ...]:
        """The names of the terms `beside` it."""
        slopes = ("" if slope == ONE else slope for slope in self.beside if slope != NONE)
        return tuple(RandomEffects(self.group, slope).name for slope in slopes)

    @property
    def bare(self) -> str:
        return self.name if self.slope else self.group

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.group, self.slope) if self.slope else (self.group,)

    @property
    def degree(self) -> int:
        return len(self.columns)


@dataclass(frozen=True)
class Formula:
    """The column of the response, whether there is an intercept, and the terms: main effects first, then by the number of
    factors, as R orders them."""

    response: str
    intercept: bool
    terms: tuple[Term, ...]

    @property
    def factors(self) -> dict[str, Term]:
        """The factors of all terms, by name."""
        return {factor.name: factor for term in self.terms for factor in term.factors}


STORED = (
    Intercept,
    Covariate,
    Absorbed,
    AbsorbedSlope,
    CategoricalFactor,
    EventStudy,
    Transformed,
    Interaction,
    Smooth,
    RandomEffects,
    FunctionCall,
)


def as_stored(term: Any) -> dict[str, Any]:
    """The fields of a term and its type, as JSON has them."""
    return {"type": type(term).__name__} | {each.name: getattr(term, each.name) for each in fields(term)}


def from_stored(stored: Any) -> Any:
    """The term of its JSON form."""
    if isinstance(stored, list | tuple):
        return tuple(map(from_stored, stored))
    if not isinstance(stored, dict):
        return stored
    values = {name: from_stored(value) for name, value in stored.items() if name != "type"}
    return {kind.__name__: kind for kind in STORED}[stored["type"]](**values) if "type" in stored else values
