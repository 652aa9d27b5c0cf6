"""Marginal effects and adjusted means by the Python package marginaleffects, for tests/statistics/test_margins.py.

Run in this folder, in an environment with marginaleffects 0.6.0, polars 1.44.2 and statsmodels 0.15.0: python margins.py; reads
clustered.csv and writes margins.json. It does not run with the polars that tfglm needs.
"""

import json
from importlib.metadata import version
from pathlib import Path

import marginaleffects
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf
from marginaleffects.datagrid import datagrid

PACKAGES = ("marginaleffects", "polars", "statsmodels")
TIGHT = {"tol": 1e-14, "maxiter": 200}
STEP = 1e-2
"""Of numerical derivatives. With 1e-4 of the range, as the package has it, standard errors of slopes are off by up to 3e-4."""

frame = pd.read_csv("clustered.csv").astype({"carrier": "category"})
CASES = {
    "binomial": ("late ~ carrier * hour + wind", sm.families.Binomial(), {}, {}, None),
    "gaussian": ("delay ~ carrier * wind + hour", sm.families.Gaussian(), {}, {}, None),
    "poisson by cluster": (
        "late ~ carrier + hour * wind",
        sm.families.Poisson(),
        {},
        {"cov_type": "cluster", "cov_kwds": {"groups": frame["day"].to_numpy()}},
        None,
    ),
    "frequency": (
        "late ~ carrier * hour",
        sm.families.Binomial(),
        {"freq_weights": frame["day"].to_numpy()},
        {},
        "day",
    ),
}


def described(table, names) -> list:
    return [list(row) for row in zip(*(table[name].to_list() for name in names), strict=True)]


def slope(fit, column: str, weights: str | None) -> list:
    table = marginaleffects.avg_slopes(fit, variables=column, wts=weights, eps=STEP)
    return described(table, ("estimate", "std_error"))[0]


HOURS = [-1.5, 0.25]
"""Of all rows, in two scenarios."""


def in_scenarios(fit) -> dict:
    """Means, comparisons and slopes at each of HOURS, and their differences."""
    grid = datagrid(model=fit, hour=HOURS, grid_type="counterfactual")
    settings = {"newdata": grid, "by": "hour"}
    said = {}
    for key, hypothesis in (("in each", None), ("differences", "difference ~ sequential")):
        further = settings | {"hypothesis": hypothesis}
        means = marginaleffects.avg_predictions(fit, **further)
        carriers = marginaleffects.avg_comparisons(fit, variables={"carrier": ["AA", "UA"]}, **further)
        slopes = marginaleffects.avg_slopes(fit, variables="wind", eps=STEP, **further)
        tables = {"mean": means, "UA - AA": carriers, "wind": slopes}
        said[key] = {name: described(table, ("estimate", "std_error")) for name, table in tables.items()}
    return said


golden = {"versions": {name: version(name) for name in PACKAGES}}
for name, (formula, family, options, errors, weights) in CASES.items():
    fit = smf.glm(formula, frame, family=family, **options).fit(**TIGHT, **errors)
    comparisons = marginaleffects.avg_comparisons(fit, variables="carrier", wts=weights)
    numbers = [column for column in ("hour", "wind") if column in formula]
    levels = sorted(frame["carrier"].unique())
    means = marginaleffects.avg_predictions(fit, variables={"carrier": levels}, by="carrier", wts=weights)
    golden[name] = {
        "comparisons": described(comparisons, ("contrast", "estimate", "std_error")),
        "slopes": [[column, *slope(fit, column, weights)] for column in numbers],
        "means": described(means, ("carrier", "estimate", "std_error", "conf_low", "conf_high")),
    }
    if "hour" in formula and "wind" in formula:
        golden[name]["scenarios"] = in_scenarios(fit)
Path("margins.json").write_text(json.dumps(golden, indent=1) + "\n")
