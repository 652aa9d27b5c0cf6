"""Keys of a model that compare its likelihood with that of other fits."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tfglm.config.base import MOST_CONTRASTS, Number, Section, Text
from tfglm.config.comparisons import Combination

if TYPE_CHECKING:
    from tfglm.config.models import DesignConfig, ModelConfig


class LikelihoodConfig(Section):
    """Tests and intervals that take further fits."""

    tests: Literal["wald", "likelihood_ratio"] = Field(
        default="wald",
        description="How terms are tested in `terms.csv`: `wald`, or `likelihood_ratio`, which fits the model once more without "
        "each term, as R's `anova` of both fits. With `classical` and `quasi` errors a term that separates rows has such a test "
        "in any case.",
    )
    profile: dict[Text, Combination] = Field(
        default={},
        max_length=MOST_CONTRASTS,
        description="Linear combinations of coefficients, written like contrasts, that get a profile likelihood interval in "
        '`profile.csv`: `{distance: {distance: 1}}`, or of levels `{UA - AA: {"carrier[UA]": 1, "carrier[AA]": -1}}`.',
    )
    profile_confidence: Number = Field(
        default=0.95, gt=0, lt=1, description="Coverage of the profile likelihood intervals."
    )


def check_likelihoods(model: "DesignConfig") -> None:
    """Raise ValueError for a model whose likelihood cannot be compared with that of others."""
    key = "tests" if model.tests == "likelihood_ratio" else "profile"
    if model.tests == "wald" and not model.profile:
        return
    if model.l1 or model.l2 or model.path:
        raise ValueError(f"{key}: a penalised fit (l1, l2, path) has no tests and no intervals; remove the key")
    if model.absorb:
        raise ValueError(f"{key}: where factors are absorbed there are Wald tests and intervals alone; remove the key")
    if model.std_errors not in ("classical", "quasi"):
        raise ValueError(
            f"{key}: likelihood ratios take rows for independent and the variance of the family for true, which "
            f"`{model.std_errors}` does not; remove the key, or use `classical` or `quasi`"
        )


def check_maximum(model: "ModelConfig") -> None:
    """Raise ValueError if a likelihood is to be compared that is not at its maximum."""
    for key, asked in {"tests": model.tests == "likelihood_ratio", "profile": model.profile}.items():
        if asked and not model.is_exact:
            raise ValueError(f"{key}: solver `{model.online_solver}` ends before the maximum; add `finish: newton`")
