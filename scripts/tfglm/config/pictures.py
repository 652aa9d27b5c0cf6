"""The section `pictures`."""

from typing import Annotated

from pydantic import Field, StringConstraints

from tfglm.config.base import Section


class PicturesConfig(Section):
    """How pictures look."""

    colour: Annotated[str, StringConstraints(pattern=r"^#[0-9A-Fa-f]{6}$")] = Field(
        default="#0072B2", examples=["#rrggbb"]
    )
    """Colour of points and lines."""
