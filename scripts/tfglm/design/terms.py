"""Terms of a formula, and the parts of the coefficient vector that each of them has."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tfglm.formula.names import with_class
from tfglm.formula.terms import Term


@dataclass(frozen=True)
class DesignTerm:
    """A term of the formula, its `kind`, with the names of its factors in the design; the intercept has none.

    With several categorical factors, `combinations` are the combinations of their levels that occur in training rows. Each
    is a position in a table of all combinations, where the last factor varies fastest. If each class has a linear predictor
    of its own, `equation` is the class of this term (design.by_class). Tables subtract the `means` over the training rows from
    the numbers that multiply the coefficients of a tensor product.
    """

    kind: Term
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    combinations: tuple[int, ...] = ()
    equation: str = ""
    means: tuple[float, ...] = ()

    @cached_property
    def name(self) -> str:
        return with_class(self.equation, self.base)

    @property
    def base(self) -> str:
        """Its name in the formula, the same in the linear predictors of all classes."""
        return self.kind.name

    def is_within(self, other: "DesignTerm") -> bool:
        """Whether another term has all factors of this one."""
        return {*self.categorical} <= {*other.categorical} and {*self.numeric} <= {*other.numeric}

    @property
    def multiplier(self) -> str | None:
        """The number that multiplies a curve or surface: z of `s(x, by=z)`."""
        by = self.kind.by
        return by.name if by and by.name in self.numeric else None


@dataclass(frozen=True)
class Part:
    """The coefficients of a term that share a multiplier: its factors with, for each, which of its numbers it is."""

    term: DesignTerm
    multiplier: tuple[tuple[str, int], ...]
    where: slice

    @property
    def size(self) -> int:
        return self.where.stop - self.where.start

    @property
    def grouping(self) -> tuple[str, ...]:
        """The categorical factors whose levels choose the coefficient."""
        return self.term.categorical


@dataclass(frozen=True)
class Smoothing:
    """Coefficients with smoothing parameters of their own: those of a smooth term, at a `level` of its factor if it has one.

    The penalty is the sum over smoothing parameters of each times `penalties` [parameters, places] * b^2 / 2, over the
    coefficients at `places`, on the scale of the fit. The coefficient of a straight line has the penalties 0. A smooth has one
    parameter, and a tensor product one for each of its `columns`. `sp` are those that the formula gives, None if the fit is
    to estimate them. The number `by` multiplies the curve.
    """

    term: str
    level: str
    places: np.ndarray
    penalties: np.ndarray
    is_random: bool
    sp: tuple[float, ...] | None = None
    columns: tuple[str, ...] = ()
    by: str = ""
    beside: tuple[str, ...] = ()
