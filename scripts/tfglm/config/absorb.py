"""The key `absorb` of a model: what goes together with it."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from tfglm.config.families import CANONICAL, LINKS
from tfglm.config.std_errors import BY_LEVERAGE, SERIAL

if TYPE_CHECKING:
    from tfglm.config.models import DesignConfig, ModelConfig

DESCRIPTION = (
    "Columns whose levels each have a coefficient that nobody wants to see, such as `[tailnum, flight]`: these are fitted "
    "exactly, and left out of all tables. There may be millions of levels."
)


def check_design(model: "DesignConfig", covariates: Collection[str]) -> None:
    """Raise ValueError for what cannot be fitted where factors are absorbed. `covariates` are the columns of the formula."""
    if not model.absorb:
        return
    if model.l1 or model.l2 or model.path or model.firth:
        raise ValueError(
            "absorb: a penalised fit (l1, l2, path, firth) absorbs nothing; write the factors into the formula"
        )
    if model.errors.kind in (*BY_LEVERAGE, *SERIAL) or len(model.errors.columns) > 1:
        raise ValueError(
            f"absorb: there are no standard errors `{model.std_errors}` where factors are absorbed; use `HC1`, or `cluster` "
            "with one column"
        )
    link = model.link or LINKS[model.family][0]
    if (model.family, link) not in CANONICAL:
        raise ValueError(
            f"absorb: there is no family {model.family} with link {link} where factors are absorbed; there are "
            f"{', '.join(f'{family} with {of_family}' for family, of_family in CANONICAL)}"
        )
    twice = [name for name in covariates if name in model.absorb]
    if twice:
        raise ValueError(
            f"absorb: `{twice[0]}` stands in the formula too, and has no coefficients to show once it is absorbed; take it "
            "out of one of them"
        )


def check_model(model: "ModelConfig") -> None:
    """Raise ValueError for what cannot be made of a fit where factors are absorbed."""
    if not model.absorb:
        return
    if model.online_solver:
        raise ValueError(f"absorb: solver `{model.online_solver}` absorbs nothing; use `newton`")
    if model.leverage:
        raise ValueError("absorb: there are no leverages where factors are absorbed; remove `leverage`")
    if model.export:
        raise ValueError("absorb: a model with absorbed factors cannot be exported yet; remove `export`")
