"""Which keys of a model exclude each other: one table, which checks a config and which the documentation prints.

A model has properties, such as an online solver or absorbed factors. CONFLICTS lists the pairs that no fit can have. All other
pairs go together, and a test tries each of them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tfglm.config.families import (
    DISPERSION_ESTIMATED,
    LINKS,
    NOT_CONVEX,
    POSITIVE_PREDICTOR,
    WITH_FIRTH,
    estimated_shape,
)
from tfglm.config.std_errors import BY_LEVERAGE, SERIAL, UNCONDITIONAL

SHAPE_KEY = "theta or power"
"""Stands for the key of the shape that a model estimates."""

NO_THRESHOLD = "a model of several classes predicts the class with the largest probability"

NO_LIKELIHOOD = (
    "likelihood ratios take rows for independent and the variance of the family for true, which `{model.std_errors}` does not; "
    "remove the key, or use `classical` or `quasi`"
)


def link_of(model: Any) -> str:
    return model.link or LINKS[model.family][0]


def online(model: Any) -> str | None:
    """Return the name of the online solver. A `DesignConfig` has no solver."""
    return getattr(model, "online_solver", None)


def value_of(key: str) -> Callable[[Any], Any]:
    """Whether a key is given, and not false or empty."""
    return lambda model: getattr(model, key, None)


def has_smooths(formula: str) -> bool:
    """Whether a formula has smooth terms or random effects."""
    return bool(re.search(r"(?<![.\w])(?:s|te)\(|\|", formula.partition("~")[2]))


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
    "`firth`": value_of("firth"),
    "`absorb`": value_of("absorb"),
    "smooth terms (`s()`, `te()`)": lambda m: has_smooths(m.formula),
    "no smooth terms": lambda m: not has_smooths(m.formula),
    "`gamma` with `weights`": lambda m: m.family == "gamma" and m.weights,
    "`tweedie` or `inverse_gaussian`": lambda m: m.family in ("tweedie", "inverse_gaussian"),
    "`collapse`": value_of("collapse"),
    "an online solver": online,
    "`sgd`, `adagrad` or `adam`": lambda m: online(m) not in (None, "ftrl"),
    "an online solver without `finish: newton`": lambda m: not getattr(m, "is_exact", True),
    "`multinomial`": lambda m: m.family == "multinomial",
    "`multinomial` or `ordinal`": lambda m: m.family in ("multinomial", "ordinal"),
    "a family other than `ordinal`": lambda m: m.family != "ordinal",
    "a family other than `multinomial`": lambda m: m.family != "multinomial",
    "a family other than `binomial` and `poisson`": lambda m: m.family not in WITH_FIRTH,
    "`tweedie`": lambda m: m.family == "tweedie",
    "a family whose errors estimate the dispersion": lambda m: m.family in DISPERSION_ESTIMATED,
    "an estimated `theta` or `power`": estimated_shape,
    "`link`": value_of("link"),
    "a link that is not the default": lambda m: link_of(m) != LINKS[m.family][0],
    "link `inverse` or `1/mu^2`": lambda m: m.link in POSITIVE_PREDICTOR,
    "`gaussian` or `inverse_gaussian` with link `log`": lambda m: (m.family, link_of(m)) in NOT_CONVEX,
    "`std_errors` other than `classical`": lambda m: m.std_errors != "classical",
    "`std_errors: quasi`, or by date": lambda m: m.errors.kind in ("quasi", *SERIAL),
    "`std_errors` other than `classical` and `quasi`": lambda m: m.std_errors not in ("classical", "quasi"),
    "`std_errors` other than `unconditional`": lambda m: m.std_errors != UNCONDITIONAL,
    "`std_errors: quasi`": lambda m: m.std_errors == "quasi",
    "`std_errors: unconditional`": lambda m: m.std_errors == UNCONDITIONAL,
    "`std_errors: quasi`, `HC2` or `HC3`": lambda m: m.errors.kind in ("quasi", *BY_LEVERAGE),
    "`std_errors` by leverage or date": lambda m: m.errors.kind in (*BY_LEVERAGE, *SERIAL),
    "`tests: likelihood_ratio`": lambda m: m.tests != "wald",
    "`profile`": value_of("profile"),
    "`hypotheses`": value_of("hypotheses"),
    "`pairwise`": value_of("pairwise"),
    "no `pairwise`": lambda m: not getattr(m, "pairwise", None),
    "`pairwise_at`": value_of("pairwise_at"),
    "`leverage`": value_of("leverage"),
    "`export`": value_of("export"),
    "`offset`": value_of("offset"),
    "`reference_class`": lambda m: m.reference_class is not None,
    "`class_order`": value_of("class_order"),
    "`threshold`": lambda m: "threshold" in m.model_fields_set,
    "`adjusted_means: balanced`": lambda m: getattr(m, "adjusted_means", "observed") == "balanced",
    "`random_effects: integrated`": lambda m: getattr(m, "random_effects", "zero") == "integrated",
    "`adjusted_means`": lambda m: "adjusted_means" in m.model_fields_set,
    "`margins_at`": value_of("margins_at"),
    "`margins_contrasts`": value_of("margins_contrasts"),
    "no `margins_at`": lambda m: not getattr(m, "margins_at", None),
    "`marginal_effects: true`": lambda m: "marginal_effects" in m.model_fields_set and m.marginal_effects,
    "`marginal_effects: false`": lambda m: not getattr(m, "marginal_effects", True),
    "`adjust`": lambda m: getattr(m, "adjust", "none") != "none",
    "no `contrasts` and no `hypotheses`": lambda m: (
        not (getattr(m, "contrasts", None) or getattr(m, "hypotheses", None))
    ),
}
"""The properties that a model may have: their names in the documentation, and functions that test a model for them."""


@dataclass(frozen=True)
class Conflict:
    """Two properties that exclude each other, by their names; the `key` that a message names, and why, with what to do."""

    key: str
    one: str
    other: str
    reason: str


SMOOTH = "smooth terms (`s()`, `te()`)"
PENALTY, ABSORB, ONLINE = "a penalty (`l1`, `l2`, `path`)", "`absorb`", "an online solver"
CLASSES, MULTINOMIAL = "`multinomial` or `ordinal`", "`multinomial`"
FIRTH, SHAPE, RATIOS, PROFILE = "`firth`", "an estimated `theta` or `power`", "`tests: likelihood_ratio`", "`profile`"
INEXACT, NOT_CLASSICAL = "an online solver without `finish: newton`", "`std_errors` other than `classical`"

CONFLICTS = (
    # The family and its link.
    Conflict("link", "`link`", MULTINOMIAL, "family multinomial has none to choose; remove the key"),
    Conflict(
        SHAPE_KEY,
        SHAPE,
        PENALTY,
        "it is estimated by maximum likelihood, which no penalised fit has; give a number",
    ),
    Conflict(
        "path.select",
        "`tweedie`",
        "`path.select: aic`",
        "family tweedie with a given power has no likelihood, and so no AIC; use `held_out` or `cross_validation`",
    ),
    Conflict(
        "std_errors",
        "a family whose errors estimate the dispersion",
        "`std_errors: quasi`",
        "with family {model.family} `classical` estimates the dispersion already; use that",
    ),
    Conflict(
        "reference_class",
        "`reference_class`",
        "a family other than `multinomial`",
        "family {model.family} has no classes to compare; `reference` chooses the reference level of a term",
    ),
    Conflict(
        "class_order",
        "`class_order`",
        "a family other than `ordinal`",
        "only family ordinal has an order of classes, not {model.family}; remove the key",
    ),
    # Penalties.
    Conflict(
        "std_errors",
        PENALTY,
        NOT_CLASSICAL,
        "a penalised fit (l1, l2, path) has no standard errors; remove the key",
    ),
    *(
        Conflict(key, f"`{key}`", "no penalty", "the fit has no penalty (l1, l2, path); add one, or remove the key")
        for key in ("unpenalised", "penalty_factors")
    ),
    Conflict(
        "firth",
        FIRTH,
        "a family other than `binomial` and `poisson`",
        "only families binomial and poisson have this penalty, not {model.family}; remove it",
    ),
    Conflict(
        "firth",
        FIRTH,
        "a link that is not the default",
        "only link `{default}` has this penalty, not `{model.link}`; remove one",
    ),
    Conflict("firth", FIRTH, PENALTY, "it is a penalty of its own; remove it, or `l1`, `l2` and `path`"),
    Conflict(
        "std_errors",
        FIRTH,
        NOT_CLASSICAL,
        "the errors of Firth's penalised likelihood come from the information matrix; remove the key, or `firth`",
    ),
    Conflict("path", "`path`", "`l1` or `l2`", "it takes the place of `l1` and `l2`; remove these"),
    # Likelihood ratios.
    *(
        Conflict(key, name, other, reason)
        for key, name in (("tests", RATIOS), ("profile", PROFILE))
        for other, reason in (
            (PENALTY, "a penalised fit (l1, l2, path) has no tests and no intervals; remove the key"),
            (ABSORB, "where factors are absorbed there are Wald tests and intervals alone; remove the key"),
            ("`std_errors` other than `classical` and `quasi`", NO_LIKELIHOOD),
        )
    ),
    # Absorbed factors.
    *(
        Conflict(
            "absorb",
            ABSORB,
            name,
            "a penalised fit (l1, l2, path, firth) absorbs nothing; write the factors into the formula",
        )
        for name in (PENALTY, FIRTH)
    ),
    Conflict(
        "absorb",
        ABSORB,
        "`std_errors` by leverage or date",
        "there are no standard errors `{model.std_errors}` where factors are absorbed; use `HC1` or `cluster`",
    ),
    Conflict(
        "absorb",
        ABSORB,
        "`gaussian` or `inverse_gaussian` with link `log`",
        "with link log the likelihood of this family may have several maxima, so it absorbs no factors; use family gamma with "
        "link log, or write the factors into the formula",
    ),
    Conflict(
        "absorb",
        ABSORB,
        CLASSES,
        "a regression of classes absorbs no factors; write them into the formula, or compare two classes at a time with family "
        "binomial",
    ),
    # Smooth terms.
    *(
        Conflict("formula", SMOOTH, name, reason)
        for name, reason in (
            (
                PENALTY,
                "smooth terms have a penalty of their own; remove `l1`, `l2` and `path`, or write ns() for s() and te()",
            ),
            (FIRTH, "smooth terms have a penalty of their own; remove `firth`, or write ns() for s() and te()"),
            (
                ABSORB,
                "smooth terms cannot be beside absorbed factors; write these into the formula, or ns() for s() and te()",
            ),
            (ONLINE, "only solver `newton` has smooth terms, not `{model.online_solver}`"),
            (CLASSES, "family {model.family} has no smooth terms; write ns() for s() and te()"),
            (
                "`tweedie` or `inverse_gaussian`",
                "smooth terms are not for this family; use gamma, or ns() for s() and te()",
            ),
            ("`gamma` with `weights`", "smooth terms cannot be beside `weights` in this family; use `frequency`"),
        )
    ),
    Conflict(
        "std_errors",
        SMOOTH,
        "`std_errors: quasi`, or by date",
        "smooth terms have no errors by date or of a quasi-likelihood; use `classical`, `unconditional`, `robust` or "
        "`cluster(column)`, or write ns() for s() and te()",
    ),
    Conflict(
        "std_errors",
        "`std_errors: unconditional`",
        "no smooth terms",
        "errors `unconditional` are for smooth terms and random effects, and the formula has none; remove the key",
    ),
    *(
        Conflict(key, name, SMOOTH, "smooth terms have Wald tests and intervals alone; remove the key")
        for key, name in (("tests", RATIOS), ("profile", PROFILE))
    ),
    # Solvers.
    Conflict(
        "l1",
        "`l1`",
        "`sgd`, `adagrad` or `adam`",
        "solver `{model.online_solver}` sets no coefficient to zero; use `ftrl` or `newton`",
    ),
    Conflict(
        "solver",
        ONLINE,
        "link `inverse` or `1/mu^2`",
        "steps of `{model.online_solver}` can leave the range of link `{model.link}`, where the linear predictor has to be above "
        "0; use `newton`, or link: log",
    ),
    Conflict(
        SHAPE_KEY,
        SHAPE,
        ONLINE,
        "only `newton` estimates it; give a number, or remove solver `{model.online_solver}`",
    ),
    Conflict(
        "collapse",
        "`collapse`",
        ONLINE,
        "solver `{model.online_solver}` learns from the rows one after the other; use `newton`, or remove the key",
    ),
    *(
        Conflict(
            key,
            f"`{key}`",
            ONLINE,
            "solver `{model.online_solver}` penalises all terms alike; use `newton`, or remove the key",
        )
        for key in ("unpenalised", "penalty_factors")
    ),
    Conflict("firth", FIRTH, ONLINE, "only `newton` has this penalty, not `{model.online_solver}`"),
    Conflict("path", "`path`", ONLINE, "only `newton` follows a path, not `{model.online_solver}`"),
    Conflict("absorb", ABSORB, ONLINE, "solver `{model.online_solver}` absorbs nothing; use `newton`"),
    # Results of a fit.
    *(
        Conflict(key, f"`{key}`", PENALTY, "a penalised fit (l1, l2, path) has no tests; remove the key")
        for key in ("hypotheses", "pairwise")
    ),
    *(
        Conflict(
            key,
            f"`{key}`",
            INEXACT,
            "solver `{model.online_solver}` has no standard errors; add `finish: newton`",
        )
        for key in ("hypotheses", "pairwise")
    ),
    *(
        Conflict(key, name, INEXACT, "solver `{model.online_solver}` ends before the maximum; add `finish: newton`")
        for key, name in (("tests", RATIOS), ("profile", PROFILE))
    ),
    Conflict(
        "leverage",
        "`leverage`",
        "a lasso (`l1`, `path`)",
        "the fitted values of a lasso are no smooth function of the responses; remove the key",
    ),
    Conflict(
        "leverage",
        "`leverage`",
        INEXACT,
        "solver `{model.online_solver}` ends without an information matrix, which leverages need; add `finish: newton`, "
        "or remove the key",
    ),
    *(
        Conflict(key, name, ABSORB, "there are none where factors are absorbed; remove the key")
        for key, name in (
            ("marginal_effects", "`marginal_effects: true`"),
            ("adjusted_means", "`adjusted_means`"),
            ("margins_at", "`margins_at`"),
        )
    ),
    Conflict("absorb", "`leverage`", ABSORB, "there are no leverages where factors are absorbed; remove `leverage`"),
    Conflict("absorb", "`export`", ABSORB, "a model with absorbed factors cannot be exported yet; remove `export`"),
    Conflict(
        "adjusted_means",
        "`adjusted_means: balanced`",
        "`marginal_effects: false`",
        "`marginal_effects: false` writes none; remove one of the two keys",
    ),
    Conflict(
        "margins_at",
        "`margins_at`",
        "`adjusted_means: balanced`",
        "scenarios are averaged over the `observed` rows; remove one of the two keys",
    ),
    Conflict(
        "random_effects",
        "`random_effects: integrated`",
        "`adjusted_means: balanced`",
        "means of a balanced grid have random effects at 0; remove one of the two keys",
    ),
    Conflict(
        "random_effects",
        "`random_effects: integrated`",
        "`std_errors` other than `unconditional`",
        "integrated averages depend on the estimated variances, whose errors they count; write `std_errors: unconditional`",
    ),
    Conflict(
        "margins_at",
        "`margins_at`",
        "`marginal_effects: false`",
        "`marginal_effects: false` writes none; remove one of the two keys",
    ),
    Conflict(
        "margins_contrasts",
        "`margins_contrasts`",
        "no `margins_at`",
        "there are no scenarios to combine; name some under `margins_at`",
    ),
    Conflict(
        "adjust",
        "`adjust`",
        "no `contrasts` and no `hypotheses`",
        "there are no `contrasts` or `hypotheses` to adjust; remove the key (`pairwise` has `p_holm` in any case)",
    ),
    Conflict(
        "pairwise_at", "`pairwise_at`", "no `pairwise`", "there is no factor to compare; name some under `pairwise`"
    ),
    # Responses of several classes.
    Conflict("offset", "`offset`", MULTINOMIAL, "family multinomial has none; remove the key"),
    Conflict(
        "std_errors",
        "`std_errors: quasi`, `HC2` or `HC3`",
        CLASSES,
        "family {model.family} has no `{model.std_errors}`, as a row has a variance for each class; use `HC0`, `HC1`, or "
        "`cluster(column)`",
    ),
    Conflict(
        "solver",
        ONLINE,
        CLASSES,
        "`{model.online_solver}` learns one linear predictor without thresholds; use `newton`",
    ),
    Conflict("tests", RATIOS, MULTINOMIAL, "a multinomial regression has Wald tests alone; remove the key"),
    Conflict(
        "adjusted_means",
        "`adjusted_means: balanced`",
        CLASSES,
        "a regression of classes averages over the `observed` rows only; remove the key",
    ),
    *(
        Conflict(key, f"`{key}`", CLASSES, "a regression of classes has none; remove the key")
        for key in ("leverage", "export")
    ),
    Conflict("profile", PROFILE, MULTINOMIAL, "a multinomial regression has none; remove the key"),
    Conflict("threshold", "`threshold`", CLASSES, f"{NO_THRESHOLD}; remove the key"),
)


def check(
    model: Any,
    conflicts: Sequence[Conflict] = CONFLICTS,
    properties: Mapping[str, Callable[[Any], Any]] = PROPERTIES,
) -> None:
    """Raise ValueError for the first pair of properties of a model that no fit can have."""
    for conflict in conflicts:
        if properties[conflict.one](model) and properties[conflict.other](model):
            key = estimated_shape(model) if conflict.key == SHAPE_KEY else conflict.key
            raise ValueError(f"{key}: {reason_for(conflict, model)}")


def reason_for(conflict: Conflict, model: Any) -> str:
    return conflict.reason.format(model=model, default=LINKS[model.family][0])


def table(conflicts: Sequence[Conflict] = CONFLICTS, **of_example: Any) -> str:
    """The Markdown table of conflicts, with the reasons for an example of a model."""
    values = {"family": "gamma", "link": "inverse", "std_errors": "HC3", "online_solver": "sgd"} | of_example
    example, of_classes = (SimpleNamespace(**values | more) for more in ({}, {"family": "multinomial"}))
    reasons = [reason_for(each, of_classes if each.other == CLASSES else example) for each in conflicts]
    lines = [
        f"| {each.one} | {each.other} | {reason.partition(';')[0]} |"
        for each, reason in zip(conflicts, reasons, strict=True)
    ]
    return "\n".join(["| These | exclude | since, for example |", "|---|---|---|", *lines])
