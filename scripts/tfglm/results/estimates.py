"""The coefficients of a table: convert the scale and the constraints of the fit to those of the reader.

A fit holds some coefficients at zero; the model is the same whichever these are (design.parametrisation). A table holds the
coefficients of the reference levels at zero. Among columns that depend on each other, it holds the last ones in formula
order at zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from tfglm.design.by_class import thresholds
from tfglm.design.codings import recoding, table_names
from tfglm.design.design import Design
from tfglm.design.parametrisation import NEGLIGIBLE, in_table, to_data_scale
from tfglm.errors import UserError
from tfglm.inference.fitted import AT_BOUND, EMPTY, SEPARATED, Fitted, choose_references
from tfglm.inference.reference import FEWEST, Fewest, JointReference, Reference, fewest_for, statistic
from tfglm.results.accuracy import NO_ROWS
from tfglm.results.events import rare_events

NOT_IDENTIFIED = "not identified"
"""Status of a coefficient that rows which terms separate together leave open."""

SHOWN = 4
"""Most columns that the description of an aliased coefficient names; of more, only their number."""

FEASIBLE = 1e-7
"""Of the largest c'a in the box |a| <= 1, the largest |c| being 1: rounding and the tolerances of a linear program are less."""


@dataclass(frozen=True)
class Estimates:
    """Coefficients in the form of a table, all [p]: `transform` times the coefficients of the fit, on the scale of the
    data.

    `reference` coefficients are 0; those `left_out` are in no table. `separated` coefficients are infinite. `aliased`
    coefficients are NaN, and `aliased_with` has by place the combination that each equals. `unidentified` coefficients are
    NaN too: the rows that terms separate together do not determine whether they are finite, or the sign of their infinity.
    Some are `at_bound`. The other coefficients are `kept`. Tests with clusters need `fewest`.
    """

    design: Design
    fitted: Fitted
    levels: dict[str, str]
    transform: scipy.sparse.csr_array
    values: np.ndarray
    reference: np.ndarray
    separated: np.ndarray
    aliased: np.ndarray
    unidentified: np.ndarray
    aliased_with: Mapping[int, str]
    left_out: np.ndarray
    fewest: Fewest = FEWEST

    @property
    def at_bound(self) -> np.ndarray:
        """Which coefficients are on a bound, [p]. They have no standard error, and those of others take them as given."""
        return self.fitted.status == AT_BOUND

    @property
    def kept(self) -> np.ndarray:
        return ~(self.reference | self.separated | self.aliased | self.unidentified | self.at_bound)

    @property
    def statistic(self) -> str:
        return statistic(self.design)

    def distribution(self, rows: scipy.sparse.csr_array, weights: scipy.sparse.csr_array) -> Reference:
        """Return the reference distribution of combinations of the coefficients of the fit, `rows` [combinations, p],
        however a table names them. Where `weights`, [combinations, p], are not 0, a coefficient of the table has a part. By
        cluster there is no test of a combination with a coefficient that has too few events."""
        reference = self.fitted.covariance.reference(rows, self.fewest)
        if self.design.bounds:  # a combination of coefficients on bounds has no standard error
            reference = replace(reference, unseen=reference.unseen | (self.fitted.covariance.bread.squares(rows) == 0))
        if not reference.by_cluster:
            return reference
        return replace(reference, rare=abs(weights) @ (rare_events(self.design, self.fitted) & ~self.reference) > 0)

    def joint_distribution(self, rows: scipy.sparse.csr_array, weights: scipy.sparse.csr_array) -> JointReference:
        """Return that of the Wald statistic by cluster of such combinations, which for one of them is its t squared."""
        if rows.shape[0] == 1:
            return JointReference.from_single(self.distribution(rows, weights))
        return self.fitted.covariance.joint(rows, self.fewest)


def estimated(design: Design, fitted: Fitted, reference: Mapping[str, str]) -> Estimates:
    """Return the coefficients under the constraints of a table. A reference level is by default the level that the formula
    names, else the first level with a finite estimate. Raises UserError if a requested one has no finite estimate."""
    design, fitted = design.reported, fitted.reported(design)
    references = choose_references(design, fitted.status, reference)
    recoded = recoding(design, np.isin(fitted.status, (SEPARATED, EMPTY), invert=True), reference)
    scale = (recoded.matrix @ to_data_scale(design)).tocsr()
    zeros = references | recoded.left_out
    at_references, held, basis, transform = in_table(design, scale, fitted.null_vectors, zeros)
    if design.likelihood.is_ordered:
        transform = (thresholds(design) @ transform).tocsr()
    separated = fitted.status == SEPARATED
    is_held = np.isin(np.arange(design.size), held)
    is_reference = is_held & (at_references > 0)
    check_indicators(design, is_reference | np.isin(fitted.status, (EMPTY, SEPARATED)))
    aliased = (fitted.status == EMPTY) | (is_held & ~is_reference)
    # Sums of large numbers that cancel, such as an intercept far from the data, keep their digits in extended precision.
    exact = np.where(separated, 0.0, fitted.coefficients).astype(np.longdouble)
    values = (transform.astype(np.longdouble) @ exact).astype(float)
    values[is_reference] = 0.0
    for place, *ends in design.bounds:
        if fitted.status[place] == AT_BOUND:  # exactly, without the rounding of scales
            values[place] = ends[np.nanargmin(np.abs(np.array(ends, float) - values[place]))]
    values[separated] = infinities(design, fitted)[separated]
    across = limits(fitted, transform)
    across[separated | is_reference] = 0.0
    aliased &= across == 0
    values = np.select([aliased | np.isnan(across), across != 0], [np.nan, across], values)
    separated = separated | np.isinf(across)
    levels = {name: design.categorical_by_name[name].levels[level] for name, level in references.items()}
    made_of = aliased_with(design, aliased, held, basis)
    flags = is_reference, separated, aliased, np.isnan(across)
    left_out = is_held & recoded.is_left_out
    return Estimates(design, fitted, levels, transform, values, *flags, made_of, left_out, fewest_for(design))


def infinities(design: Design, fitted: Fitted) -> np.ndarray:
    """Where the coefficients of groups go that are separated, [p]. Responses that are at least 1 are at the lower end."""
    return np.where((fitted.responses > 0) & (design.distribution.smallest <= 0), np.inf, -np.inf)


def check_indicators(design: Design, without_estimate: np.ndarray) -> None:
    """Raise UserError for `i(year, x, ref=2000)` beside absorbed factors that do not determine x, so that x has an effect in the
    reference year too. `without_estimate` [p] are coefficients that are 0, or not estimated."""
    for part in design.parts:
        for factor in (factor for factor in part.term.kind.factors if factor.is_indicator):
            own = design.categorical_by_name[factor.name]
            if own.reference is None or not part.multiplier:
                continue
            level = design.levels(part.grouping)[:, part.grouping.index(factor.name)]
            if not without_estimate[part.where][level == own.levels.index(own.reference)].all():
                effect = ":".join(each.name for each in part.term.kind.factors if each is not factor)
                raise UserError(
                    f"models.{design.model}.formula: `{part.term.name}`: i() with ref={own.reference} compares with the "
                    f"effect at that level, and no absorbed factor determines `{effect}`; add the term `{effect}`"
                )


def limits(fitted: Fitted, transform: scipy.sparse.csr_array) -> np.ndarray:
    """Return the effect of rows that terms separate together on the rows of a transformation, [rows].

    It is 0 for a finite combination, infinite if all directions that separate rows lead to the same infinity, and NaN if
    they lead to several, or if this is unknown.

    The separating directions have coordinates a, along all but the first of the `directions`, with M a >= 0 and M = the
    `movements` (`JointSeparation`). The largest and the smallest c'a among them are linear programs.
    """
    result = np.zeros(transform.shape[0])
    if not fitted.separation:
        return result
    from scipy.optimize import linprog  # slow to import

    along, rows = transform @ fitted.separation.directions[1:].T, fitted.separation.movements
    size = abs(transform).max(axis=1).toarray().ravel()
    for place in np.flatnonzero((np.abs(along) > NEGLIGIBLE * size[:, None]).any(axis=1)):
        wanted = along[place] / np.abs(along[place]).max()
        ends = [
            len(rows) > 0
            and -linprog(-sign * wanted, A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1)).fun > FEASIBLE
            for sign in (1.0, -1.0)
        ]
        result[place] = {(True, False): np.inf, (False, True): -np.inf}.get((ends[0], ends[1]), np.nan)
    return result


def absent_estimates(design: Design, fitted: Fitted) -> dict[str, list[dict[str, str]]]:
    """What fit.json says of coefficients without an estimate, in the table whose reference levels are the first that can be:
    those that are `aliased`, and those that terms which separate rows together leave without a finite one."""
    plain = replace(design, categorical=tuple(replace(factor, reference=None) for factor in design.categorical))
    table, names = estimated(plain, fitted, {}), table_names(design.reported)
    across = (table.separated & (fitted.reported(design).status != SEPARATED)) | table.unidentified
    ends = {np.inf: "infinite", -np.inf: "minus infinite"}
    estimates = {place: ends.get(table.values[place], "not identified") for place in np.flatnonzero(across).tolist()}

    def named(key: str, of_places: Mapping[int, str]) -> list[dict[str, str]]:
        return [{"term": names[place][0], "level": names[place][1], key: text} for place, text in of_places.items()]

    return {
        "aliased": named("aliased_with", table.aliased_with),
        "separated_across_terms": named("estimate", estimates),
    }


def aliased_with(design: Design, aliased: np.ndarray, held: np.ndarray, basis: np.ndarray) -> dict[int, str]:
    """Describe the combination of columns that the column of an aliased coefficient equals, by the place of the coefficient,
    such as `1.609 distance` or `carrier[AA] - flight[AA10]`. If only absorbed factors determine it, the text names them.

    `aliased` [p] says which coefficients are; one that is not held has no rows. `held` and `basis` are the result of
    `parametrisation.hold`, on the scale of the data.
    """
    names = [f"{term}[{level}]" if level else term for term, level in table_names(design)]
    of_place = dict(zip(held.tolist(), basis, strict=True))
    described = {}
    for place in np.flatnonzero(aliased).tolist():
        if place not in of_place:
            described[place] = NO_ROWS
            continue
        weights = -of_place[place]
        weights[place] = 0.0
        others = np.flatnonzero(weights)
        text = " ".join(_product(weights[other], names[other]) for other in others[:SHOWN]).removeprefix("+ ")
        more = f" and {len(others) - SHOWN:,} more" if len(others) > SHOWN else ""
        text = text.replace("- ", "-", 1) if text.startswith("- ") else text
        # Of what absorbed factors determine there is nothing to be seen but other columns of the table.
        described[place] = text + more or (", ".join(design.absorbed) and f"levels of {', '.join(design.absorbed)}")
    return described


def _product(weight: float, name: str) -> str:
    sign = "-" if weight < 0 else "+"
    digits = f"{abs(weight):.4g}"
    return f"{sign} {name}" if digits == "1" else f"{sign} {digits} {name}"
