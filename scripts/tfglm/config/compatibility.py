"""Which keys of a model exclude each other: one table, which checks a config and which the documentation prints.

A model has properties, such as an online solver or absorbed factors. CONFLICTS lists the pairs that no fit can have. All other
pairs go together, and a test tries each of them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfglm.config.families import (
    DISPERSION_ESTIMATED,
    LINKS,
    NOT_APART,
    NOT_CONVEX,
    POSITIVE_PREDICTOR,
    WITH_FIRTH,
    estimated_shape,
)
from tfglm.config.std_errors import BY_LEVERAGE, SERIAL, SURVEY, UNCONDITIONAL
from tfglm.formula.read import has_random_effects_alone, has_smooths

NO_THRESHOLD = "a model of several classes predicts the class with the largest probability"


def link_of(model: Any) -> str:
    return model.link or LINKS[model.family][0]


def online(model: Any) -> str | None:
    """Return the name of the online solver. A `DesignConfig` has no solver."""
    return getattr(model, "online_solver", None)


def is_truncated(model: Any) -> bool:
    return model.family.startswith("truncated_")


def value_of(key: str) -> Callable[[Any], Any]:
    """Whether a key is given, and not false or empty."""
    return lambda model: getattr(model, key, None)


PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "a penalty (`l1`, `l2`, `path`)": lambda m: m.l1 or m.l2 or m.path,
    "no penalty": lambda m: not (m.l1 or m.l2 or m.path),
    "`l1` or `l2`": lambda m: m.l1 or m.l2,
    "`l1`": value_of("l1"),
    "a lasso (`l1`, `path`)": lambda m: m.l1 or (m.path and m.path.l1_ratio),
    "`path`": value_of("path"),
    "`path.select: aic`": lambda m: m.path and m.path.select == "aic",
    "`unpenalised`": value_of("unpenalised"),
    "`penalty_factors`": value_of("penalty_factors"),
    "`bounds`": value_of("bounds"),
    "`firth`": value_of("firth"),
    "`absorb`": value_of("absorb"),
    "`instruments`": value_of("instruments"),
    "`absorb` with `instruments`": lambda m: m.absorb and m.instruments,
    "a family other than `gaussian`": lambda m: m.family != "gaussian",
    "`std_errors` by leverage": lambda m: m.errors.kind in BY_LEVERAGE,
    "a `formula` with smooth terms (`s()`, `te()`)": lambda m: (
        has_smooths(m.formula) or has_smooths(m.instruments or "")
    ),
    "no random effects, or smooth terms beside them": lambda m: not has_random_effects_alone(m.formula),
    "no smooth terms": lambda m: not has_smooths(m.formula),
    "`gamma` with `weights`": lambda m: m.family == "gamma" and m.weights,
    "`tweedie`, `inverse_gaussian`, `beta` or a truncated family": lambda m: (
        m.family in ("tweedie", "inverse_gaussian", "beta") or is_truncated(m)
    ),
    "`beta` or `truncated_negative_binomial`": lambda m: m.family in NOT_APART,
    "`beta` or `truncated_negative_binomial` with an estimated `theta`": lambda m: (
        m.family in NOT_APART and estimated_shape(m)
    ),
    "`truncated_poisson` or `truncated_negative_binomial`": is_truncated,
    "`collapse`": value_of("collapse"),
    "an online `solver`": online,
    "`sgd`, `adagrad` or `adam`": lambda m: online(m) not in (None, "ftrl"),
    "an online `solver` without `newton`": lambda m: not getattr(m, "is_exact", True),
    "`multinomial`": lambda m: m.family == "multinomial",
    "`multinomial` or `ordinal`": lambda m: m.family in ("multinomial", "ordinal"),
    "a family other than `ordinal`": lambda m: m.family != "ordinal",
    "a family other than `multinomial`": lambda m: m.family != "multinomial",
    "a family other than `binomial` and `poisson`": lambda m: m.family not in WITH_FIRTH,
    "`tweedie`": lambda m: m.family == "tweedie",
    "a family whose errors estimate the dispersion": lambda m: m.family in DISPERSION_ESTIMATED,
    "an estimated `theta` or `power`": estimated_shape,
    "`link`": value_of("link"),
    "`method: ml`": lambda m: m.method == "ml",
    "a link that is not the default": lambda m: link_of(m) != LINKS[m.family][0],
    "link `inverse` or `1/mu^2`": lambda m: m.link in POSITIVE_PREDICTOR,
    "`gaussian` or `inverse_gaussian` with link `log`": lambda m: (m.family, link_of(m)) in NOT_CONVEX,
    "`std_errors` other than `classical`": lambda m: m.std_errors != "classical",
    "`std_errors: quasi`, by date or of a survey": lambda m: m.errors.kind in ("quasi", SURVEY, *SERIAL),
    "`std_errors` other than `classical` and `quasi`": lambda m: m.std_errors not in ("classical", "quasi"),
    "`std_errors` other than `unconditional`": lambda m: m.std_errors != UNCONDITIONAL,
    "`std_errors: quasi`": lambda m: m.std_errors == "quasi",
    "`std_errors: unconditional`": lambda m: m.std_errors == UNCONDITIONAL,
    "`std_errors: quasi`, `HC2` or `HC3`": lambda m: m.errors.kind in ("quasi", *BY_LEVERAGE),
    "`std_errors` by date": lambda m: m.errors.kind in SERIAL,
    "`tests: likelihood_ratio`": lambda m: m.tests == "likelihood_ratio",
    "`profile`": value_of("profile"),
    "`hypotheses`": value_of("hypotheses"),
    "`pairwise`": value_of("pairwise"),
    "no `pairwise`": lambda m: not getattr(m, "pairwise", None),
    "`pairwise_at`": value_of("pairwise_at"),
    "`leverage`": value_of("leverage"),
    "`export`": value_of("export"),
    "`interval: prediction`": lambda m: getattr(m, "interval", "mean") == "prediction",
    "`offset`": value_of("offset"),
    "`reference`": value_of("reference"),
    "`reference_class`": lambda m: m.reference_class is not None,
    "`class_order`": value_of("class_order"),
    "`threshold`": lambda m: "threshold" in m.model_fields_set,
    "`adjusted_means: balanced`": lambda m: getattr(m, "adjusted_means", "observed") == "balanced",
    "`random_effects: integrated`": lambda m: getattr(m, "random_effects", "zero") == "integrated",
    "`margins_at`": value_of("margins_at"),
    "`comparison`": lambda m: getattr(m, "comparison", "difference") != "difference",
    "`margins_contrasts`": value_of("margins_contrasts"),
    "no `margins_at`": lambda m: not getattr(m, "margins_at", None),
    "`marginal_effects: true`": lambda m: getattr(m, "marginal_effects", False),
    "`marginal_effects: false`": lambda m: not getattr(m, "marginal_effects", True),
    "`adjust`": lambda m: getattr(m, "adjust", "none") != "none",
    "no `contrasts` and no `hypotheses`": lambda m: (
        not (getattr(m, "contrasts", None) or getattr(m, "hypotheses", None))
    ),
}
"""The properties that a model may have: their names in the documentation, and functions that test a model for them."""


@dataclass(frozen=True)
class Conflict:
    """Two properties that exclude each other, by their names; the key at fault, and why, with what to do."""

    key: str
    one: str
    other: str
    reason: str


SMOOTH = "a `formula` with smooth terms (`s()`, `te()`)"
PENALTY, ABSORB, ONLINE = "a penalty (`l1`, `l2`, `path`)", "`absorb`", "an online `solver`"
CLASSES, MULTINOMIAL = "`multinomial` or `ordinal`", "`multinomial`"
FIRTH, SHAPE, RATIOS, PROFILE = "`firth`", "an estimated `theta` or `power`", "`tests: likelihood_ratio`", "`profile`"
INEXACT, NOT_CLASSICAL = "an online `solver` without `newton`", "`std_errors` other than `classical`"

WALD_ALONE = {
    PENALTY: "a penalised fit (l1, l2, path) has no tests and no intervals; remove the key",
    ABSORB: "where factors are absorbed there are Wald tests and intervals alone; remove the key",
    "`std_errors` other than `classical` and `quasi`": "likelihood ratios take rows for independent and the variance of "
    "the family for true, which `{model.std_errors}` does not; remove the key, or use `classical` or `quasi`",
    SMOOTH: "smooth terms have Wald tests and intervals alone; remove the key",
    INEXACT: "solver `{model.online_solver}` ends before the maximum; use `solver: [{model.online_solver}, newton]`",
}

OF_TERMS = {
    "no penalty": "the fit has no penalty (l1, l2, path); add one, or remove the key",
    ONLINE: "solver `{model.online_solver}` penalises all terms alike; use `newton`, or remove the key",
}

WITH_TESTS = {
    PENALTY: "a penalised fit (l1, l2, path) has no tests; remove the key",
    INEXACT: "solver `{model.online_solver}` has no standard errors; use `solver: [{model.online_solver}, newton]`",
}

LINEAR_ALONE = (
    "two-stage least squares is linear, without penalties and smooth terms; remove the key, or the instruments"
)

NOT_BOUNDED = (
    "bounds are for solver `newton`, one linear predictor, plain or with `l2`, and Wald tests; remove one of the keys"
)

NO_AVERAGES = (
    "there are no averages of two-stage least squares beside absorbed factors; write the factors into the formula"
)

REASONS: dict[str, dict[str, str]] = {
    "`link`": {MULTINOMIAL: "family multinomial has none to choose; remove the key"},
    SHAPE: {
        PENALTY: "it is estimated by maximum likelihood, which no penalised fit has; give a number",
        ONLINE: "only `newton` estimates it; give a number, or remove solver `{model.online_solver}`",
    },
    "`path.select: aic`": {
        "`tweedie`": "family tweedie with a given power has no likelihood, and so no AIC; use `held_out` or "
        "`cross_validation`"
    },
    "`std_errors: quasi`": {
        "a family whose errors estimate the dispersion": "with family {model.family} `classical` estimates the dispersion "
        "already; use that",
        "`truncated_poisson` or `truncated_negative_binomial`": "the mean of a truncated count depends on its variance; use "
        "`classical`",
    },
    "`reference_class`": {
        "a family other than `multinomial`": "family {model.family} has no classes to compare; `reference` chooses the "
        "reference level of a term"
    },
    "`class_order`": {
        "a family other than `ordinal`": "only family ordinal has an order of classes, not {model.family}; remove the key"
    },
    NOT_CLASSICAL: {
        PENALTY: "a penalised fit (l1, l2, path) has no standard errors; remove the key",
        "`beta` or `truncated_negative_binomial` with an estimated `theta`": "errors of coefficients that are estimated with "
        "theta are `classical`; remove the key, or give theta the number that such a fit estimates",
        FIRTH: "the errors of Firth's penalised likelihood come from the information matrix; remove the key, or `firth`",
    },
    "`unpenalised`": OF_TERMS,
    "`penalty_factors`": OF_TERMS,
    "`bounds`": dict.fromkeys(
        ("a lasso (`l1`, `path`)", "`path`", FIRTH, ABSORB, "`instruments`", SMOOTH, CLASSES, ONLINE, RATIOS, PROFILE),
        NOT_BOUNDED,
    )
    | {
        "`reference`": "bounds hold against the reference level of the fit; write it into the formula, as in "
        '`C(carrier, Treatment("UA"))`, or remove one of the two keys'
    },
    FIRTH: {
        "a family other than `binomial` and `poisson`": "only families binomial and poisson have this penalty, not "
        "{model.family}; remove it",
        "a link that is not the default": "only link `{default}` has this penalty, not `{model.link}`; remove one",
        PENALTY: "it is a penalty of its own; remove it, or `l1`, `l2` and `path`",
        ONLINE: "only `newton` has this penalty, not `{model.online_solver}`",
    },
    "`path`": {
        "`l1` or `l2`": "it takes the place of `l1` and `l2`; remove these",
        ONLINE: "only `newton` follows a path, not `{model.online_solver}`",
    },
    RATIOS: WALD_ALONE | {MULTINOMIAL: "a multinomial regression has Wald tests alone; remove the key"},
    PROFILE: WALD_ALONE | {MULTINOMIAL: "a multinomial regression has none; remove the key"},
    ABSORB: {
        PENALTY: "a penalised fit (l1, l2, path, firth) absorbs nothing; write the factors into the formula",
        FIRTH: "a penalised fit (l1, l2, path, firth) absorbs nothing; write the factors into the formula",
        "`std_errors` by date": "there are no standard errors `{model.std_errors}` where factors are absorbed; "
        "use `HC1` or `cluster`",
        "`gaussian` or `inverse_gaussian` with link `log`": "with link log the likelihood of this family may have several "
        "maxima, so it absorbs no factors; use family gamma with link log, or write the factors into the formula",
        CLASSES: "a regression of classes absorbs no factors; write them into the formula, or compare two classes at a "
        "time with family binomial",
        ONLINE: "solver `{model.online_solver}` absorbs nothing; use `newton`",
        "`beta` or `truncated_negative_binomial`": "family {model.family} absorbs no factors; write them into the formula",
        "`leverage`": "there are no leverages where factors are absorbed; remove `leverage`",
        "`export`": "a model with absorbed factors cannot be exported yet; remove `export`",
    },
    "`instruments`": {
        "a family other than `gaussian`": "two-stage least squares is for family gaussian, not {model.family}; remove the key",
        "`gaussian` or `inverse_gaussian` with link `log`": "two-stage least squares is for link identity; remove `link`",
        PENALTY: LINEAR_ALONE,
        SMOOTH: "two-stage least squares has no smooth terms or random effects; write ns() for s() and te(), and absorb factors",
        ONLINE: "solver `{model.online_solver}` fits no instruments; use `newton`",
        RATIOS: "two-stage least squares has no likelihood; remove the key `tests`",
        PROFILE: "two-stage least squares has no likelihood; remove the key `profile`",
        "`std_errors` by leverage": "two-stage least squares has no errors `{model.std_errors}`; use `HC1` or `cluster`",
        "`leverage`": "there are no leverages of two-stage least squares; remove `leverage`",
        "`collapse`": "two-stage least squares does not read collapsed rows; remove the key `collapse`",
    },
    SMOOTH: {
        PENALTY: "smooth terms have a penalty of their own; remove `l1`, `l2` and `path`, or write ns() for s() and te()",
        FIRTH: "smooth terms have a penalty of their own; remove `firth`, or write ns() for s() and te()",
        ABSORB: "smooth terms and random effects cannot be beside absorbed factors; write these into the formula, or ns() for "
        "s() and te()",
        ONLINE: "only solver `newton` has smooth terms, not `{model.online_solver}`",
        CLASSES: "family {model.family} has no smooth terms or random effects; write ns() for s() and te(), and C(g) for (1 | g)",
        "`tweedie`, `inverse_gaussian`, `beta` or a truncated family": "smooth terms and random effects are not for family "
        "{model.family}; write ns() for s() and te(), and C(g) for (1 | g)",
        "`gamma` with `weights`": "smooth terms cannot be beside `weights` in this family; use `frequency`",
    },
    "`method: ml`": {
        "no random effects, or smooth terms beside them": "maximum likelihood is for formulas with random effects and without "
        "smooth terms, whose likelihood would depend on their basis; remove the key"
    },
    "`std_errors: quasi`, by date or of a survey": {
        SMOOTH: "smooth terms have no errors by date, of a survey or of a quasi-likelihood; use `classical`, `unconditional`, "
        "`robust` or `cluster(column)`, or write ns() for s() and te()"
    },
    "`std_errors: unconditional`": {
        "no smooth terms": "errors `unconditional` are for smooth terms and random effects, and the formula has none; "
        "remove the key"
    },
    "`l1`": {
        "`sgd`, `adagrad` or `adam`": "solver `{model.online_solver}` sets no coefficient to zero; use `ftrl` or `newton`"
    },
    ONLINE: {
        "link `inverse` or `1/mu^2`": "steps of `{model.online_solver}` can leave the range of link `{model.link}`, where "
        "the linear predictor has to be above 0; use `newton`, or link: log",
        CLASSES: "`{model.online_solver}` learns one linear predictor without thresholds; use `newton`",
    },
    "`collapse`": {
        ONLINE: "solver `{model.online_solver}` learns from the rows one after the other; use `newton`, or remove the key"
    },
    "`interval: prediction`": {
        CLASSES: "a regression of classes predicts probabilities; remove the key",
        "`tweedie`": "family tweedie has no quantiles here; remove the key",
        "`std_errors: quasi`": "a quasi-likelihood says nothing of the distribution; use `robust`, or remove the key",
        "a lasso (`l1`, `path`)": "a lasso has no standard errors; remove the key",
        ABSORB: "there are no standard errors of predictions where factors are absorbed; remove the key",
        INEXACT: WITH_TESTS[INEXACT],
    },
    "`hypotheses`": WITH_TESTS,
    "`pairwise`": WITH_TESTS,
    "`leverage`": {
        "a lasso (`l1`, `path`)": "the fitted values of a lasso are no smooth function of the responses; remove the key",
        INEXACT: "solver `{model.online_solver}` ends without an information matrix, which leverages need; use "
        "`solver: [{model.online_solver}, newton]`, or remove the key",
        CLASSES: "a regression of classes has none; remove the key",
    },
    "`marginal_effects: true`": {"`absorb` with `instruments`": NO_AVERAGES},
    "`margins_at`": {
        "`adjusted_means: balanced`": "scenarios are averaged over the `observed` rows; remove one of the two keys",
        "`marginal_effects: false`": "`marginal_effects: false` writes none; remove one of the two keys",
    },
    "`adjusted_means: balanced`": {
        ABSORB: "absorbed factors have no balanced grid; use the `observed` rows",
        "`marginal_effects: false`": "`marginal_effects: false` writes none; remove one of the two keys",
        CLASSES: "a regression of classes averages over the `observed` rows only; remove the key",
    },
    "`random_effects: integrated`": {
        "`adjusted_means: balanced`": "means of a balanced grid have random effects at 0; remove one of the two keys",
        "`std_errors` other than `unconditional`": "integrated averages depend on the estimated variances, whose errors they "
        "count; write `std_errors: unconditional`",
    },
    "`comparison`": {"`marginal_effects: false`": "`marginal_effects: false` writes none; remove one of the two keys"},
    "`margins_contrasts`": {"no `margins_at`": "there are no scenarios to combine; name some under `margins_at`"},
    "`adjust`": {
        "no `contrasts` and no `hypotheses`": "there are no `contrasts` or `hypotheses` to adjust; remove the key "
        "(`pairwise` has `p_holm` in any case)"
    },
    "`pairwise_at`": {"no `pairwise`": "there is no factor to compare; name some under `pairwise`"},
    "`offset`": {MULTINOMIAL: "family multinomial has none; remove the key"},
    "`std_errors: quasi`, `HC2` or `HC3`": {
        CLASSES: "family {model.family} has no `{model.std_errors}`, as a row has a variance for each class; use `HC0`, "
        "`HC1`, or `cluster(column)`"
    },
    "`export`": {
        CLASSES: "a regression of classes has none; remove the key",
        "`truncated_poisson` or `truncated_negative_binomial`": "a truncated regression has none; remove the key",
    },
    "`threshold`": {CLASSES: f"{NO_THRESHOLD}; remove the key"},
}
"""Property -> what it excludes -> why, with what to do. The first name of the property is the key at fault."""


def listed(reasons: Mapping[str, Mapping[str, str]]) -> tuple[Conflict, ...]:
    """The conflicts of a table such as REASONS."""
    return tuple(
        Conflict(re.findall(r"`([\w.]+)", one)[0], one, other, reason)
        for one, others in reasons.items()
        for other, reason in others.items()
    )


CONFLICTS = listed(REASONS)


def check(
    model: Any, conflicts: Sequence[Conflict] = CONFLICTS, properties: Mapping[str, Callable[[Any], Any]] = PROPERTIES
) -> None:
    """Raise ValueError for the first pair of properties of a model that no fit can have."""
    for conflict in conflicts:
        if properties[conflict.one](model) and properties[conflict.other](model):
            key = (estimated_shape(model) if conflict.one == SHAPE else None) or conflict.key
            raise ValueError(f"{key}: {conflict.reason.format(model=model, default=LINKS[model.family][0])}")


def table(conflicts: Sequence[Conflict] = CONFLICTS) -> str:
    """The Markdown table of conflicts."""
    excluded: dict[str, list[str]] = {}
    for each in conflicts:
        excluded.setdefault(each.one, []).append(each.other)
    alike: dict[str, list[str]] = {}
    for one, others in excluded.items():
        alike.setdefault("; ".join(others), []).append(one)
    lines = [f"| {'; '.join(ones)} | {others} |" for others, ones in alike.items()]
    return "\n".join(["| These | exclude |", "|---|---|", *lines])
