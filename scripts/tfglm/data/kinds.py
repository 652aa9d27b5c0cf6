"""The kinds of columns of the data. This module is separate because code that only shows results needs no more."""

from typing import Literal

Kind = Literal["text", "integer", "number", "image"]
MEANINGS = {
    "text": "text, a factor in a formula",
    "integer": "whole numbers",
    "number": "numbers",
    "image": "images, whose pixels are numbers",
}
"""The names of the kinds of columns for readers."""

RARE, ABSENT = "(rare)", "(missing)"
"""The names of the level of rare values and of the level of missing values. They come after all others."""

NOT_IN_SUBSET = "not in the subset"
"""The reason why a model is not fitted to rows outside its `subset`."""

EXACT_BELOW = 2**53
"""Integers of this size or less are floats without rounding."""
