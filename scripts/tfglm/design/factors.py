"""Factors of a term: a column with its levels, or the numbers that a formula makes of it; and the clusters of standard errors."""

from dataclasses import dataclass
from functools import cached_property

from tfglm.data.kinds import ABSENT, RARE, Kind

IMAGE = "image"
"""What `Numeric.learnt` calls the function that makes numbers of an image."""

LARGEST_PIXEL = 255.0


@dataclass(frozen=True)
class Categorical:
    """A factor with levels. The last ones may stand for others: RARE for the values in `rare`, if there are any, and ABSENT for
    a missing value, if `missing`. `reference` is the level that the formula asks for, if it does, and `coding` the contrasts by
    which tables code it (design.codings)."""

    name: str
    column: str
    column_kind: Kind
    levels: tuple[str, ...]
    rare: tuple[str, ...] = ()
    missing: bool = False
    reference: str | None = None
    coding: str | None = None

    @cached_property
    def numbers(self) -> dict[str | None, int]:
        """The number of the level that each value has, by its label; None is a missing value."""
        # A value may be written like a level that stands for others, in a column that has no such level.
        collective = [RARE] * bool(self.rare) + [ABSENT] * self.missing
        values = self.levels[: len(self.levels) - len(collective)]
        numbers: dict[str | None, int] = {level: number for number, level in enumerate(values)}
        numbers |= dict.fromkeys(self.rare, len(values))
        return numbers | ({None: len(self.levels) - 1} if self.missing else {})

    def level_of_missing(self, otherwise: int) -> int:
        """The number of the level of a missing value."""
        return self.numbers.get(None, otherwise)


@dataclass(frozen=True)
class Numeric:
    """A factor that multiplies, by one or several numbers: the columns that `learnt` makes of its column.

    A fit uses (number - center) / scale, or number / scale where that would change the model, so that the information matrix
    is well conditioned. Of a number that earlier ones of the same column nearly determine, as years their squares, it uses what
    is left of that once the `earlier` numbers of the fit (factor, place and weight, for each number) are subtracted, over `left`.
    """

    name: str
    column: str
    learnt: tuple[dict, ...]
    center: tuple[float, ...]
    scale: tuple[float, ...]
    earlier: tuple[tuple[tuple[str, int, float], ...], ...] = ()
    left: tuple[float, ...] = ()

    def earlier_of(self, position: int) -> tuple[tuple[str, int, float], ...]:
        return self.earlier[position] if self.earlier else ()

    @property
    def width(self) -> int:
        return len(self.scale)

    @property
    def shape(self) -> tuple[int, ...]:
        """Height and width of an image, of which each pixel is one of the numbers, a row after the other; of others ()."""
        return tuple(self.learnt[0]["shape"]) if self.learnt and self.learnt[0]["function"] == IMAGE else ()


@dataclass(frozen=True)
class Clusters:
    """The clusters of the standard errors: training rows with the same value of `column`, as it is in the data. What data.rare
    makes of it for categorical terms does not concern them. `count` is how many there are; they have the numbers 0 to
    count - 1 in the order of their values (`data.dictionary.training_values`)."""

    column: str
    column_kind: Kind
    count: int


@dataclass(frozen=True)
class Folds:
    """The `number` of folds of a cross-validation, of rows or of whole `groups` (engine.folds). In a design for the rows without
    one of them that is `fold`; if it is `held`, for the rows of it."""

    groups: Clusters | None
    number: int
    fold: int | None = None
    held: bool = False

    @classmethod
    def of(cls, stored: dict) -> "Folds":
        """From what JSON has of it."""
        return cls(**stored | {"groups": stored["groups"] and Clusters(**stored["groups"])})


@dataclass(frozen=True)
class Cells:
    """The clusters of rows that agree in several columns: `of` are the numbers of these columns among those of the design's
    clusters, `joint` the combinations of clusters that occur, each as `numpy.ravel_multi_index` counts it, ascending."""

    of: tuple[int, ...]
    joint: tuple[int, ...]
