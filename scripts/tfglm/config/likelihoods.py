"""Keys of a model that compare its likelihood with that of other fits."""

from typing import Literal

from pydantic import Field

from tfglm.config.base import MOST_CONTRASTS, Number, Section, Text
from tfglm.config.comparisons import Combination


class LikelihoodConfig(Section):
    """Tests and intervals that take further fits."""

    tests: Literal["wald", "likelihood_ratio"] = "wald"
    """How terms are tested in `terms.csv`: `wald`, or `likelihood_ratio`, which fits the model once more without each
    term, as R's `anova` of both fits. With `classical` and `quasi` errors a term that separates rows has such a test in
    any case."""
    profile: dict[Text, Combination] = Field(default={}, max_length=MOST_CONTRASTS)
    """Linear combinations of coefficients, written like contrasts, that get a profile likelihood interval in
    `profile.csv`: `{distance: {distance: 1}}`, or of levels `{UA - AA: {"carrier[UA]": 1, "carrier[AA]": -1}}`."""
    profile_confidence: Number = Field(default=0.95, gt=0, lt=1)
    """Coverage of the profile likelihood intervals."""
