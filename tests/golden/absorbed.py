"""Coefficients and standard errors where factors are absorbed, by pyfixest 0.60 (benchmarks/peers/environments/pyfixest.txt), for
tests/statistics/test_absorb.py: how fixest and pyfixest count degrees of freedom. Run in this folder; writes absorbed.json and
absorbed.csv."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyfixest

CASES = {
    "linear, one factor": ("gaussian", ["tail"], "iid"),
    "linear": ("gaussian", ["tail", "route"], "iid"),
    "linear, one factor nested in another": ("gaussian", ["tail", "owner"], "iid"),
    "linear, one factor nested in another, robust": ("gaussian", ["tail", "owner"], "HC1"),
    "linear, one factor nested in another, clusters that cut across": ("gaussian", ["tail", "owner"], "crew"),
    "linear, robust": ("gaussian", ["tail", "route"], "HC1"),
    "linear, clusters in which nothing is nested": ("gaussian", ["tail", "route"], "crew"),
    "linear, clusters that are a factor": ("gaussian", ["tail", "route"], "tail"),
    "linear, clusters that a factor is nested in": ("gaussian", ["tail", "route"], "owner"),
    "linear, both factors nested in clusters": ("gaussian", ["tail", "owner"], "owner"),
    "linear, the only factor is nested": ("gaussian", ["tail"], "owner"),
    "logistic, clusters that are a factor": ("binomial", ["tail", "route"], "tail"),
    "logistic, clusters in which nothing is nested": ("binomial", ["tail", "route"], "crew"),
    "poisson, clusters that a factor is nested in": ("poisson", ["tail", "route"], "owner"),
}
RESPONSES = {"gaussian": "delay", "binomial": "late", "poisson": "changes"}


def make() -> pd.DataFrame:
    random, rows = np.random.default_rng(3), 400
    tail, route = random.integers(0, 30, rows), random.integers(0, 12, rows)
    frame = pd.DataFrame(
        {
            "tail": tail,
            "owner": tail % 10,
            "route": route,
            "crew": random.integers(0, 15, rows),
            "x": random.normal(size=rows).round(3) + tail / 30,
            "z": random.normal(size=rows).round(3) + route / 12,
        }
    )
    frame.loc[0, "tail"] = 99  # a singleton
    eta = np.sin(tail) / 2 + 0.03 * route + 0.4 * frame.x - 0.3 * frame.z
    frame["delay"] = (eta + random.normal(size=rows)).round(4)
    frame["late"] = (random.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["changes"] = random.poisson(np.exp(eta / 2))
    return frame.round(6)


def fitted(frame: pd.DataFrame, family: str, absorb: list[str], errors: str):
    formula = f"{RESPONSES[family]} ~ x + z | {' + '.join(absorb)}"
    vcov = errors if errors in ("iid", "HC1") else {"CRV1": errors}
    if family == "gaussian":
        return pyfixest.feols(formula, frame, vcov=vcov, fixef_rm="singleton", fixef_tol=1e-12)
    if family == "poisson":
        return pyfixest.fepois(formula, frame, vcov=vcov, fixef_rm="singleton", fixef_tol=1e-12, iwls_tol=1e-13)
    options = {"vcov": vcov, "fixef_rm": "singleton", "fixef_tol": 1e-12, "iwls_tol": 1e-13}
    return pyfixest.feglm(formula, frame, family="logit", **options)


if __name__ == "__main__":
    frame, found = make(), {}
    frame.to_csv("absorbed.csv", index=False)
    for name, (family, absorb, errors) in CASES.items():
        model = fitted(frame, family, absorb, errors)
        table = model.tidy()
        found[name] = {
            "family": family,
            "absorb": absorb,
            "errors": errors,
            "counted": int(model._df_k),
            "estimate": table["Estimate"].tolist(),
            "std_error": table["Std. Error"].tolist(),
        }
    Path("absorbed.json").write_text(json.dumps(found, indent=1) + "\n")
