"""Factors of a term: a column with its levels, or the numbers that a formula makes of it; and the clusters of standard errors."""

from dataclasses import dataclass
from functools import cached_property

from tfglm.data.kinds import Kind

IMAGE = "image"
"""The name in `Numeric.learnt` of the function that turns an image into numbers."""

LARGEST_PIXEL = 255.0


@dataclass(frozen=True)
class Categorical:
    """A factor with levels.

    The last levels may represent several values: RARE the values in `rare`, if there are any, and ABSENT a missing value,
    if `missing`. `reference` is the reference level that the formula names, if any. `coding` are the contrasts that tables
    use (design.codings). The effects of `random` levels are normal with mean 0 and a variance that the fit estimates.
    """

    name: str
    column: str
    column_kind: Kind
    levels: tuple[str, ...]
    rare: tuple[str, ...] = ()
    missing: bool = False
    reference: str | None = None
    coding: str | None = None
    random: bool = False

    @property
    def is_ordered_by_name(self) -> bool:
        """Whether its contrasts take the levels in an order, and names alone give this order."""
        has_order = self.coding in ("contr.poly", "contr.helmert", "contr.diff")
        return has_order and self.column_kind == "text" and len(self.levels) > 2

    @property
    def values(self) -> tuple[str, ...]:
        """The levels that represent one value each. A value may be written like a level that stands for others, in a column
        that has no such level."""
        return self.levels[: len(self.levels) - bool(self.rare) - self.missing]

    @cached_property
    def numbers(self) -> dict[str | None, int]:
        """The number of the level that each value has, by its label; None is a missing value."""
        numbers: dict[str | None, int] = {level: number for number, level in enumerate(self.values)}
        numbers |= dict.fromkeys(self.rare, len(self.values))
        return numbers | ({None: len(self.levels) - 1} if self.missing else {})


@dataclass(frozen=True)
class Numeric:
    """A factor that multiplies by one or several numbers: the columns that its functions (`learnt`) compute from its
    column.

    A fit uses (number - center) / scale, which keeps the information matrix well conditioned. It uses number / scale if
    centring would change the model. Earlier numbers of the same column may nearly determine a number, as years determine
    their squares. Then the fit subtracts the `earlier` numbers (factor, place and weight, for each number) and divides the
    rest by `left`.
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
    def columns(self) -> tuple[str, ...]:
        """The columns whose values its functions take: two of `s(x, z)`."""
        return (self.column, *(self.learnt[-1].get("beside", ()) if self.learnt else ()))

    @property
    def function(self) -> str:
        """The outermost function that is applied to the column, '' if there is none."""
        return self.learnt[-1]["function"] if self.learnt else ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Height and width of an image, whose pixels are the numbers, row by row; () for other factors."""
        return tuple(self.learnt[0]["shape"]) if self.learnt and self.learnt[0]["function"] == IMAGE else ()


@dataclass(frozen=True)
class Clusters:
    """The clusters of the standard errors: training rows with the same value of `column` in the data.

    Merging levels by data.rare does not change clusters. `count` is their number; clusters are numbered from 0 to count - 1
    in the order of their values (`data.dictionary.training_values`).
    """

    column: str
    column_kind: Kind
    count: int


@dataclass(frozen=True)
class Folds:
    """The `number` of folds of a cross-validation, of rows or of whole `groups` (data.folds). In a design for the rows without
    one of them that is `fold`; if it is `held`, for the rows of it."""

    groups: Clusters | None
    number: int
    fold: int | None = None
    held: bool = False


@dataclass(frozen=True)
class ClusterIntersections:
    """Clusters of rows that agree in several columns, for errors clustered by several columns.

    `of` are the positions of these columns among the clusters of the design. `joint` are the combinations that occur,
    ascending, encoded as by `numpy.ravel_multi_index`.
    """

    of: tuple[int, ...]
    joint: tuple[int, ...]
