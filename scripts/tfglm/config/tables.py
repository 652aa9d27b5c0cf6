"""The section `tables`."""

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tfglm.config.base import FROM_TEXT, MOST_EXPRESSIONS, Section, Text, no_duplicates
from tfglm.errors import short
from tfglm.formula.read import has_term
from tfglm.formula.terms import INTERCEPT


class TablesConfig(Section):
    """How the tables for papers look."""

    below: Literal["std_error", "interval"] = "std_error"
    """What is printed below an estimate: its standard error, in parentheses, or its confidence interval, in
    brackets."""
    stars: list[Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False), FROM_TEXT]] = Field(default=[], max_length=5)
    """P-values below which an estimate has a star, two stars, ...: `[0.05, 0.01, 0.001]`. Default: no stars."""
    digits: Annotated[int, Field(ge=2, le=15), FROM_TEXT] = 3
    """Digits of each standard error. An estimate has as many decimals."""
    labels: dict[Text, Text] = Field(default={}, max_length=MOST_EXPRESSIONS)
    """Names of terms in the tables: `dep_hour: hour of departure`. Default: as in the formula."""
    terms: Annotated[list[Text], AfterValidator(no_duplicates)] = Field(default=[], max_length=MOST_EXPRESSIONS)
    """The terms whose coefficients are in the tables, in this order: `[carrier, distance]`. Default: all, in the order of
    the formulas."""
    controls: Annotated[list[Text], AfterValidator(no_duplicates)] = Field(default=[], max_length=MOST_EXPRESSIONS)
    """Terms whose coefficients are left out; the table says `yes` where a model has them."""

    def check_terms(self, formulas: Collection[str]) -> None:
        """Raise ValueError for a term that none of these formulas has."""
        for key in ("labels", "terms", "controls"):
            for term in getattr(self, key):
                if term != INTERCEPT and not any(has_term(formula, term) for formula in formulas):
                    raise ValueError(f"{key}: no formula has the term `{short(term)}`; write it as the formula does")
