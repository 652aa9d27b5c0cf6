"""What is said of the estimates beside their values: standard errors that hold up where the model's variance does not, effective
degrees of freedom, and which columns others nearly determine."""

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from tfglm.design.design import Design
from tfglm.engine.passes import Sums
from tfglm.engine.workload import Workload
from tfglm.solvers.clustered import Clustered
from tfglm.solvers.fitted import Fitted
from tfglm.solvers.information import Factored, assemble

WIDEST_CR2, LONGEST_CR2 = 5e7, 5e10
"""Clusters times the square of the number of coefficients (400 MB for each copy of the information matrices of all clusters), and
times its cube (a minute of eigenvalues), up to which standard errors are CR2's."""

NEARLY_ALIASED_BELOW = 1e-3
"""Scaled pivot, 1 - R^2 on the columns before."""

SHOWN = 20


def with_errors(
    fitted: Fitted, workload: Workload, pool, counts: Sums, df_residual: float, pearson: float
) -> tuple[Fitted, list[str]]:
    """The fit with the covariance that the design asks for, and what a reader has to know of it (STATISTICS: Standard errors).

    `pearson` is the sum of mass * (y - mean)^2 / variance.
    """
    design, rows = workload.design, float(counts["rows"])
    coefficients = design.by_term(fitted.coefficients)
    free = np.isin(np.arange(design.size), [*fitted.dense, *fitted.eliminated])
    if design.std_errors == "quasi":
        return replace(fitted, correction=pearson / df_residual), []
    if design.std_errors == "robust":
        meat = assemble(design, workload.sum(pool, "squares", coefficients), free)
        # HC1: MacKinnon & White, Journal of Econometrics 29 (1985).
        robust = replace(fitted, meat_dense=meat.a, meat_mixed=meat.b, meat_diagonal=meat.d)
        return replace(robust, correction=rows / df_residual), []
    if design.std_errors != "cluster":
        return fitted, []
    sums = workload.sum(pool, "scores", coefficients)
    present = sums["rows"] > 0
    clusters = int(present.sum())
    scores = np.zeros((len(present), design.size))
    for k, part in enumerate(design.parts):
        scores[:, part.where] = sums[f"part_{k}"].reshape(len(present), part.size)
    scores = scores[np.ix_(present, [*fitted.dense, *fitted.eliminated])]
    fitted = replace(fitted, scores=scores)
    wide = max(free.sum(), design.size)
    if design.l2 or not fitted.dispersion > 0 or clusters * wide**2 > WIDEST_CR2 or clusters * wide**3 > LONGEST_CR2:
        # CR1: the factor of sandwich's vcovCL(type = "HC1"), and of statsmodels' cov_type="cluster".
        correction = clusters / (clusters - 1) * (rows - 1) / df_residual if clusters > 1 else np.nan
        return replace(fitted, correction=correction), []
    sums = workload.sum(pool, "cluster_information", coefficients)
    return bias_reduced(fitted, design, sums, np.flatnonzero(present), free), []


def bias_reduced(fitted: Fitted, design: Design, sums: Sums, clusters: np.ndarray, free: np.ndarray) -> Fitted:
    """The fit with CR2 (solvers.clustered) in place of the raw scores; `clusters` are the numbers of those with rows, `sums` what
    the pass `cluster_information` gives."""
    count = len(fitted.dense) + len(fitted.eliminated)
    information = np.empty((len(clusters), count, count))
    for place, cluster in enumerate(clusters):
        blocks = assemble(design, {name: value[cluster] for name, value in sums.items()}, free)
        information[place] = np.block([[blocks.a, blocks.b], [blocks.b.T, np.diag(blocks.d)]])
    constant = np.zeros(design.size)
    constant[constant_direction(design, free)] = 1.0
    constant = constant[[*fitted.dense, *fitted.eliminated]]
    found = Clustered(information, constant).with_rho(fitted.scores, fitted.dispersion)
    rows, columns = np.tril_indices(count)
    return replace(
        fitted,
        scores=found.adjusted(fitted.scores),
        cluster_information=information[:, rows, columns],
        cluster_constant=constant,
        cluster_rho=found.rho,
    )


def constant_direction(design: Design, free: np.ndarray) -> np.ndarray:
    """The places of the coefficients that add the same to the linear predictor of each row; none if the free ones cannot."""
    if design.intercept is not None:
        return np.array([design.intercept])
    for part in design.parts:
        places = np.arange(part.where.start, part.where.stop)
        if part.grouping and not part.multiplier and free[part.where].all():
            return places
    return np.zeros(0, int)


def effective_coefficients(factored: Factored, strength: np.ndarray) -> float:
    """The trace of (I + P)^-1 I, where P = diag(strength) is in the blocks already; without it, the number of estimates."""
    blocks = factored.blocks
    free = len(blocks.dense) + len(blocks.eliminated)
    if not strength.any():
        return free
    inverse = factored.schur_inverse()
    # trace((I + P)^-1 I) = p - trace((I + P)^-1 P), and P is diagonal.
    on_dense = float(np.diag(inverse) @ strength[blocks.dense])
    diagonal = 1.0 / blocks.d + np.einsum("ij,ij->j", factored.loadings, inverse @ factored.loadings)
    return free - on_dense - float(diagonal @ strength[blocks.eliminated])


@dataclass(frozen=True)
class Near:
    """Columns that others nearly determine: their places in the coefficient vector, scaled pivots and variance inflation
    factors."""

    places: np.ndarray
    pivots: np.ndarray
    inflation: np.ndarray


def nearly_aliased(factored: Factored) -> Near:
    """Which columns of the dense part have nearly no variation of their own."""
    blocks = factored.blocks
    scale = np.diag(blocks.a)
    pivots = np.diag(factored.factor) ** 2 / scale
    near = np.flatnonzero(pivots < NEARLY_ALIASED_BELOW)
    inverse = scipy.linalg.cho_solve((factored.factor, True), np.eye(len(scale))[:, near])
    return Near(blocks.dense[near], pivots[near], scale[near] * inverse[near, np.arange(len(near))])


def describe(design: Design, fitted: Fitted, near: Near) -> dict:
    """What fit.json says of it."""
    names = list(design.coefficients())
    found = [
        {"term": names[place][0], "level": names[place][1], "pivot": float(pivot), "vif": float(vif)}
        for place, pivot, vif in zip(near.places, near.pivots, near.inflation, strict=True)
    ]
    errors = {"kind": design.std_errors}
    if design.std_errors == "cluster":
        errors |= {"column": design.cluster.column, "clusters": len(fitted.scores)}
        if len(fitted.cluster_information):
            errors |= {"estimator": "CR2", "degrees_of_freedom": "Satterthwaite", "joint_tests": "AHT"}
            errors["rho"] = float(fitted.cluster_rho)
        else:
            errors |= {"estimator": "CR1", "degrees_of_freedom": "effective clusters", "joint_tests": "Hotelling"}
    return {"std_errors": errors if not design.l2 else {"kind": "none"}, "nearly_aliased": found}


def remarks_on(design: Design, near: Near) -> list[str]:
    if not len(near.places):
        return []
    names = list(design.coefficients())
    shown = [
        f"{' '.join(filter(None, names[place]))} (VIF {vif:,.0f})"
        for place, vif in zip(near.places[:SHOWN], near.inflation, strict=False)
    ]
    more = ", ..." if len(near.places) > SHOWN else ""
    return [f"nearly determined by the other terms, so estimated with large errors: {', '.join(shown)}{more}"]
