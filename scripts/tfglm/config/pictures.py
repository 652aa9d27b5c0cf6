"""The section `pictures`."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from tfglm.config.base import FROM_TEXT, MOST_EXPRESSIONS, Section, Text
from tfglm.errors import nearest

PICTURES = (
    *("coefficients", "diagnostics", "effects", "embeddings", "history"),
    *("losses", "metrics", "metrics_by", "path", "rows", "scaling"),
)
"""The names of files with pictures."""

Title = Annotated[str, StringConstraints(max_length=200)]
Inches = Annotated[float, Field(ge=1, le=100, allow_inf_nan=False), FROM_TEXT]


class PicturesConfig(Section):
    """How pictures look. The defaults fit a slide of 16:9."""

    colour: Annotated[str, StringConstraints(pattern=r"^#[0-9A-Fa-f]{6}$")] = Field(
        default="#0072B2", examples=["#rrggbb"]
    )
    """Colour of points and lines."""
    title: Title | dict[Text, Title] = {}
    """The title of all pictures, or of some: `{coefficients: What makes flights late}`. `""` is none. Default: the model and
    what is shown."""
    labels: dict[Text, Text] = Field(default={}, max_length=MOST_EXPRESSIONS)
    """Other names in pictures of columns, terms, levels and axes: `{dep_hour: hour of departure, AA: American}`. Default: as
    on pages."""
    size: list[Inches] = Field(default=[10.0, 5.625], min_length=2, max_length=2)
    """Width and height of a file with a picture, in inches. Its panels are as large as fits."""
    dpi: Annotated[int, Field(ge=50, le=1200), FROM_TEXT] = 192
    """Pixels of an inch of a PNG."""
    font_size: Annotated[float, Field(ge=4, le=72, allow_inf_nan=False), FROM_TEXT] | None = None
    """Points of the letters; fewer where the picture would not fit its `size`. Default: as large as fits, at most 16."""
    order: Literal["table", "estimate"] | None = None
    """The order of the levels of a factor: that of the tables, or by estimate. Default: by estimate if the factor has more
    than 24 levels, or if not all are shown."""
    levels: Annotated[int, Field(ge=1, le=400), FROM_TEXT] | None = None
    """Levels of a factor in the picture of the coefficients: those that differ most clearly from what they are compared with.
    The others share a line. Default: 10; 24 of a factor whose levels are numbers or have an `order`."""

    @field_validator("title")
    @classmethod
    def _known_pictures(cls, title: str | dict[str, str]) -> str | dict[str, str]:
        for name in title if isinstance(title, dict) else ():
            if name not in PICTURES:
                raise ValueError(
                    f"no picture has the name `{name}`{nearest(name, PICTURES)}; there are {', '.join(PICTURES)}"
                )
        return title
