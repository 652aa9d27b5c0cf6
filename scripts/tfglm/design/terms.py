"""Terms of a formula, and the parts of the coefficient vector that each of them has."""

from dataclasses import dataclass

INTERCEPT = "Intercept"


def of_any_class(term: str) -> str:
    """A term without the class that a multinomial table names before it: `C(month)` of `JFK: C(month)`."""
    return term.rpartition(": ")[2]


@dataclass(frozen=True)
class Term:
    """A product of factors, by their names; the intercept has none. With several categorical ones, `combinations` are the
    combinations of their levels that occur in training rows, as positions in a table of all combinations, the last factor
    running fastest. `equation` is the class whose linear predictor it is in, where each class has one (design.by_class)."""

    name: str
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    combinations: tuple[int, ...] = ()
    equation: str = ""

    @property
    def base(self) -> str:
        """Its name in the formula, the same in the linear predictors of all classes."""
        return self.name[len(self.equation) + 2 :] if self.equation else self.name


@dataclass(frozen=True)
class Part:
    """The coefficients of a term that share a multiplier: its factors with, for each, which of its numbers it is."""

    term: Term
    multiplier: tuple[tuple[str, int], ...]
    where: slice

    @property
    def size(self) -> int:
        return self.where.stop - self.where.start

    @property
    def grouping(self) -> tuple[str, ...]:
        """The categorical factors whose levels choose the coefficient."""
        return self.term.categorical
