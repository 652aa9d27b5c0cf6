"""Terms of a formula, and the parts of the coefficient vector that each of them has."""

from dataclasses import dataclass

INTERCEPT = "Intercept"


@dataclass(frozen=True)
class Term:
    """A product of factors, by their names; the intercept has none. With several categorical ones, `combinations` are the
    combinations of their levels that occur in training rows, as positions in a table of all combinations, the last factor
    running fastest."""

    name: str
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    combinations: tuple[int, ...] = ()


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
