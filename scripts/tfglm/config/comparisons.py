"""Keys of a model that test combinations of its coefficients, or compare its likelihood with that of other fits."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tfglm.config.base import MOST_COLUMNS, MOST_CONTRASTS, MOST_EXPRESSIONS, Name, Number, Section, Text, Value

EQUALS = "="
"""The key of a row of a hypothesis for the value of its combination, which is 0 by default."""

MOST_ROWS = 1_000
"""Of a hypothesis."""

MOST_VALUES = 20
"""Of a number at which levels are compared."""


def _weighted(combination: dict[str, float]) -> dict[str, float]:
    """Raise ValueError for a combination without a coefficient that counts."""
    if not any(weight for name, weight in combination.items() if name != EQUALS):
        raise ValueError(f"{combination} has no coefficient with a weight other than 0; remove it, or give it some")
    return combination


MOST_SCENARIOS = 20
"""All pairs of which are compared."""

Combination = Annotated[dict[Text, Number], Field(max_length=MOST_COLUMNS), AfterValidator(_weighted)]
Rows = Annotated[list[Combination], Field(min_length=1, max_length=MOST_ROWS)]


class ComparisonsConfig(Section):
    """Combinations of coefficients: no key here is a reason to fit again."""

    contrasts: dict[Text, Combination] = Field(default={}, max_length=MOST_CONTRASTS)
    """Linear combinations of coefficients, each under a name: a weight for each term or `term[level]`, as in `UA
    against AA: {"carrier[UA]": 1, "carrier[AA]": -1}`."""
    hypotheses: dict[Text, Rows] = Field(default={}, max_length=MOST_CONTRASTS)
    """Joint tests, each under a name: a list of rows, written like contrasts, that are 0 together, as in `alike:
    [{"carrier[UA]": 1, "carrier[AA]": -1}, {"carrier[DL]": 1, "carrier[AA]": -1}]`, or another number, under `"="`."""
    pairwise: list[Text] = Field(default=[], max_length=MOST_EXPRESSIONS)
    """Categorical terms, such as `[carrier]`, whose levels are all compared with each other in `pairwise.csv`, adjusted
    for the number of comparisons."""
    pairwise_at: dict[Name, Annotated[list[Number], Field(min_length=1, max_length=MOST_VALUES)]] = Field(
        default={}, max_length=MOST_EXPRESSIONS
    )
    """Values of numbers that factors under `pairwise` interact with, such as `{dep_hour: [8, 18]}`: all levels are
    compared at each combination of them."""
    margins_at: dict[Text, Annotated[dict[Name, Value], Field(min_length=1, max_length=MOST_COLUMNS)]] = Field(
        default={}, max_length=MOST_SCENARIOS
    )
    """Scenarios, each under a name: values that columns have in all training rows, such as `evening: {dep_hour: 18,
    carrier: UA}`, for `margins_at.csv`."""
    margins_contrasts: dict[Text, Combination] = Field(default={}, max_length=MOST_CONTRASTS)
    """Linear combinations of scenarios under `margins_at`, each under a name, as in `far: {late far: 1, early far:
    -1}`. Default: all pairs of scenarios."""
    comparison: Literal["difference", "ratio", "odds_ratio"] = "difference"
    """How `marginal_effects.csv` and `margins_at.csv` compare means: by their `difference` alone, or also by their `ratio`,
    or `odds_ratio` of probabilities."""
    adjust: Literal["none", "holm"] = "none"
    """Whether contrasts, and hypotheses, have p-values that are adjusted for their number: `p_adjusted`, by Holm's
    method."""


class LikelihoodConfig(Section):
    """Tests and intervals that take further fits."""

    tests: Literal["wald", "likelihood_ratio", "all"] = "wald"
    """How terms are tested in `terms.csv`: `wald`, or `likelihood_ratio`, which fits the model once more without each
    term. `all` is `wald` with tests by cluster or date that are not reliable too; their `note` says so."""
    profile: dict[Text, Combination] = Field(default={}, max_length=MOST_CONTRASTS)
    """Linear combinations of coefficients, written like contrasts, that get a profile likelihood interval in
    `profile.csv`: `{distance: {distance: 1}}`."""
    profile_confidence: Number = Field(default=0.95, gt=0, lt=1)
    """Coverage of the profile likelihood intervals."""
