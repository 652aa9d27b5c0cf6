"""What the columns of the data hold. Apart from what reads them, as whoever only shows results needs no more."""

from typing import Literal

Kind = Literal["text", "integer", "number", "image"]
MEANINGS = {
    "text": "text, a factor in a formula",
    "integer": "whole numbers",
    "number": "numbers",
    "image": "images, whose pixels are numbers",
}
"""What the kinds of columns are called to a reader."""

RARE, ABSENT = "(rare)", "(missing)"
"""How the level of rare values and the level of missing values are written. They come after all others."""

EXACT_BELOW = 2**53
"""Integers of this size or less are floats without rounding."""
