"""The sections `tables` and `pictures`: how results look."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from tfglm.config.base import FROM_TEXT, MOST_EXPRESSIONS, Section, Text, no_duplicates


class TablesConfig(Section):
    """How the tables for papers look."""

    below: Literal["std_error", "interval"] = "std_error"
    """What is printed below an estimate: its standard error, in parentheses, or its confidence interval, in
    brackets."""
    stars: list[Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False), FROM_TEXT]] = Field(default=[], max_length=5)
    """P-values below which an estimate has a star, two stars, ...: `[0.05, 0.01, 0.001]`. Default: no stars."""
    labels: dict[Text, Text] = Field(default={}, max_length=MOST_EXPRESSIONS)
    """Names of terms in the tables: `dep_hour: hour of departure`. Default: as in the formula."""
    controls: Annotated[list[Text], AfterValidator(no_duplicates)] = Field(default=[], max_length=MOST_EXPRESSIONS)
    """Terms whose coefficients are left out; the table says `yes` where a model has them."""


class PicturesConfig(Section):
    """How pictures look."""

    colour: Annotated[str, StringConstraints(pattern=r"^#[0-9A-Fa-f]{6}$")] = Field(
        default="#0072B2", examples=["#rrggbb"]
    )
    """Colour of points and lines."""
