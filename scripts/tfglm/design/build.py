"""Formula and dictionary together: which coefficients there are. What can be refused before training is refused here."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from tfglm.config import DesignConfig, ResultsConfig
from tfglm.data import training_rows
from tfglm.data.dictionary import Column, Dictionary, counted_levels, labels
from tfglm.data.limits import FAR
from tfglm.data.shards import IngestedFile
from tfglm.design import checks, references, transforms
from tfglm.design.by_class import by_class, in_order
from tfglm.design.clusters import clusters_of
from tfglm.design.codings import check_codings
from tfglm.design.design import Design
from tfglm.design.event_studies import OTHERS, cohorts_of
from tfglm.design.factors import IMAGE, LARGEST_PIXEL, Categorical, Clusters, Folds, Numeric
from tfglm.design.kinds import MULTIPLICITIES, check_kinds, instruments_of, penalty_factors
from tfglm.design.levels import levels_by_code
from tfglm.design.origin import from_mean
from tfglm.design.parametrisation import apart
from tfglm.design.scenarios import check_scenarios
from tfglm.design.specification import GivenPenalty, Inference, Instruments, Likelihood, Roles
from tfglm.design.splines import check_points, learn_thin_plates
from tfglm.design.terms import DesignTerm
from tfglm.errors import Problems, UserError, nearest
from tfglm.families import FAMILIES, family_of
from tfglm.formula.functions import LEARNING
from tfglm.formula.parse import parse, parse_factor
from tfglm.formula.parts import absorbed_terms
from tfglm.formula.response import computed_response, reason_of
from tfglm.formula.terms import (
    NONE,
    Absorbed,
    AbsorbedSlope,
    Covariate,
    EventStudy,
    Formula,
    Intercept,
    RandomEffects,
    Smooth,
    Term,
    Transformed,
)

WIDEST_OFFSET = 20.0
"""Largest standard deviation of an offset whose mean is its exponential (or nearly so). At this size two rows differ by a
factor of e^20, half a billion, and the information of a few rows swamps the information of all others."""

MOST_COMBINATIONS = 2**26
"""Possible combinations of the levels of an interaction; a pass holds a table of them, 4 bytes each."""


def build_design(
    model: str,
    settings: DesignConfig,
    dictionary: Dictionary,
    files: Sequence[IngestedFile],
    known_late: Collection[str] = (),
    section: Literal["models", "networks"] = "models",
    most_sampled: int = training_rows.MOST_SAMPLED,
) -> Design:
    """Build the design of the model of this name from its settings, the columns and levels of all files together, and the
    files, which have what the dictionary lacks: occurring interactions, quantiles of a column.

    `known_late` are columns that are known only after departure. For the section `networks` of the config the checks of the
    sizes of the information matrix and of cluster scores are left out. `most_sampled` rows give the quantiles of a column
    with too many values to count. Raises UserError if the model cannot be fitted to these data; see `tfglm.design.checks`.
    """
    where = f"{section}.{model}"
    builder = _DesignBuilder(where, settings, dictionary, files, most_sampled)
    design = builder.build(model)
    images = [factor.name for factor in design.numeric if factor.shape]
    if images and section == "models":
        raise UserError(
            f"{where}.formula: `{images[0]}` is an image, and a regression would have a coefficient for each pixel; write the "
            f"model under `networks`"
        )
    late = tuple(name for name in design.columns[1:] if name in known_late)
    check_codings(design, where)
    if section == "networks":
        design = from_mean(design, dictionary)
    if section == "models" and design.classes:
        ordered = design.distribution.is_ordered
        design = in_order(design) if ordered else by_class(design, settings.reference_class, where)
    if section == "models":
        fitted = design.with_instruments()
        numbers = builder.apart(fitted)
        own = len(design.numeric)
        design = replace(
            design,
            numeric=numbers[:own],
            instruments=design.instruments and replace(design.instruments, numeric=numbers[own:]),
        )
        checks.check_information_size(fitted, where)
        crossed = checks.crossed_terms(design)
        design = replace(design, terms=tuple(sorted(design.terms, key=lambda term: term.name in crossed)))  # last
        checks.check_scores_size(fitted, where)
        checks.check_leverages(design, dictionary, files, where)
    bounds = references.bounds_of(design, settings.bounds) if settings.bounds else ()
    return replace(design, known_after_departure=late, bounds=bounds)


def check_settings(design: Design, given: ResultsConfig, files: Sequence[IngestedFile], where: str) -> None:
    """Raise UserError for all mistakes in what is asked of a fit of this design; `where` is the section of the model."""
    problems = Problems()
    of_settings = (
        lambda: references.check_profile(design),
        lambda: references.check_reference(design, given.reference),
        lambda: references.check_contrasts(design, given.contrasts),
        lambda: references.check_hypotheses(design, given.hypotheses),
        lambda: references.check_pairwise(design, given.pairwise, given.pairwise_at),
        lambda: check_scenarios(design, given.margins_at, given.margins_contrasts, given.offset_at),
        lambda: checks.check_groups(where, files, given.by) if design.rows["evaluate"] else None,
    )
    for check in of_settings:
        with problems.collected():
            check()
    problems.check()


class _DesignBuilder:
    """Collects factors and remarks while the terms of one formula are read."""

    def __init__(
        self,
        where: str,
        settings: DesignConfig,
        dictionary: Dictionary,
        files: Sequence[IngestedFile],
        most_sampled: int,
    ):
        self.where, self.settings, self.dictionary, self.files = where, settings, dictionary, files
        self.most_sampled = most_sampled
        self.kinds = {name: column.kind for name, column in dictionary.columns.items()}
        self.categorical: dict[str, Categorical] = {}
        self.numeric: dict[str, Numeric] = {}
        self.remarks: list[str] = []
        self.multiplicities: list[str] = []

    def build(self, model: str) -> Design:
        settings, where = self.settings, f"{self.where}.formula"
        formula = parse(settings.formula, where, absorb=settings.absorb)
        checks.check_rows(self.dictionary)
        with_level = [name for name, column in self.dictionary.columns.items() if column.missing_rows is not None]
        with_order = [name for name, column in self.dictionary.columns.items() if column.order]
        levels = self.kinds.get(formula.response) == "text" and self.dictionary.columns[formula.response].levels
        check_kinds(self.where, settings, formula, self.kinds, with_level, with_order, levels or ())
        self.check_computed(where)
        response = self.column(formula.response, where)
        if FAMILIES[settings.family].of_classes:
            checks.check_classes(response, self.where)
            labels, rare = tuple(response.labels), tuple(response.rare)
            if FAMILIES[settings.family].is_ordered:
                labels = checks.classes_in_order(response, settings.class_order, self.where)
            self.categorical[response.name] = Categorical(response.name, response.name, response.kind, labels, rare)
        else:
            checks.check_response(response, settings, self.where)
            self.remarks += checks.on_counts(response, settings)
        for column in dict.fromkeys(column for term in formula.terms for column in term.columns):
            self.column(column, where)
        checks.check_dot([self.column(name, where) for name in settings.dot], where)
        # Before the terms, whose numbers are standardised with each row as often as these say.
        multiplicities = {key: self.multiplicity(key) for key in MULTIPLICITIES}
        self.multiplicities = list(filter(None, multiplicities.values()))
        terms = tuple(self.term(term, where) for term in formula.terms)
        absorbed = tuple(map(self.absorbed, absorbed_terms(settings.absorb)))
        # An absorbed factor has an intercept in it.
        intercept = (DesignTerm(Intercept()),) if formula.intercept and not settings.absorbed_factors else ()
        where, names = f"{self.where}.std_errors", settings.errors.all_columns
        columns = [self.column(name, where) for name in names]
        clusters = clusters_of(settings.errors, columns, self.files, self.dictionary, where)
        return Design(
            model,
            settings.formula,
            (*intercept, *terms, *absorbed),
            tuple(self.categorical.values()),
            tuple(self.numeric.values()),
            self.dictionary.rows,
            Likelihood(
                settings.family,
                settings.link,
                settings.shape["theta"],
                settings.shape["power"],
                firth=settings.firth,
                method=settings.method,
            ),
            Roles(formula.response, **multiplicities, offset=self.offset(), required=tuple(self.dictionary.required)),
            Inference(
                settings.errors.kind,
                next(iter(clusters.of_columns), None),
                clusters.of_columns[1:],
                clusters.cells,
                settings.errors.lags,
                clusters.fractions,
                settings.tests,
                tuple((name, tuple(weights.items())) for name, weights in settings.profile.items()),
                settings.profile_confidence,
            ),
            GivenPenalty(settings.l1, settings.l2, settings.path, penalty_factors(self.where, settings, formula)),
            tuple(settings.absorb),
            self.instruments(formula),  # after the factors of all other terms
            self.folds(),
            remarks=(*self.remarks_on_order(), *self.remarks),
            data=tuple(file.manifest.digest for file in self.files),
        )

    def instruments(self, formula: Formula) -> Instruments | None:
        """The instruments of the endogenous terms, with the factors that no other term has."""
        known = {*self.categorical, *self.numeric}
        endogenous, terms = instruments_of(self.where, self.settings, formula)
        of_design = tuple(self.term(term, f"{self.where}.instruments") for term in terms)
        factors = tuple(factor for name, factor in self.categorical.items() if name not in known)
        numbers = tuple(factor for name, factor in self.numeric.items() if name not in known)
        return Instruments(endogenous, of_design, factors, numbers) if terms else None

    def remarks_on_order(self) -> Iterator[str]:
        """Yield a remark for each factor whose contrasts take its levels in the order of their names alone."""
        for factor in self.categorical.values():
            if factor.is_ordered_by_name and not self.dictionary.columns[factor.column].order:
                yield (
                    f"`{factor.name}` takes the levels of `{factor.column}` in the order of their names: "
                    f"{', '.join(factor.levels)}; if this is not their order, write it under data.order"
                )

    def check_computed(self, where: str) -> None:
        """Raise UserError if a function of the response has no finite value in some rows."""
        computed = computed_response(self.settings.formula)
        for function, condition in computed.conditions.items() if computed else ():
            reason = f"where: {reason_of(function)}"
            lost = sum(file.manifest.dropped.get(reason, 0) for file in self.files)
            if lost:
                rows = f"{lost:,} row{'' if lost == 1 else 's'}"
                raise UserError(
                    f"{where}: `{function}` of the response has no value in {rows}, which do not meet `{condition}`\n"
                    f"  correct the response, or leave these rows out: `data: {{where: {{valid: {condition}}}}}`"
                )

    def column(self, name: str, where: str) -> Column:
        """The column `name`. Raises UserError if it was not kept."""
        if name not in self.dictionary.columns:
            raise UserError(
                f"{where}: no column `{name}`{nearest(name, self.dictionary.columns)}\n"
                f"  there are: {', '.join(self.dictionary.columns)}\n  to add one, name it in data.columns"
            )
        return self.dictionary.columns[name]

    def term(self, term: Term, where: str) -> DesignTerm:
        if isinstance(term, EventStudy):
            return DesignTerm(self.event_study(term, where), (term.name,))
        categorical, numeric, smooth = [], [], []
        for factor in self.factors_of(term, where):
            column = self.dictionary.columns[factor.columns[0]]
            if factor.has_levels(self.kinds):
                self.add(self.categorical, self.categorical_factor(factor, column, where), where)
                categorical.append(factor.name)
            else:
                if factor.name not in self.numeric:
                    self.numeric[factor.name] = self.numeric_factor(factor, column, where)
                numeric.append(factor.name)
                smooth += [factor.name] * factor.is_smooth
        # Sort the factors, because two terms may have the same factors in different orders.
        categorical.sort(key=list(self.categorical).index)
        numeric.sort(key=list(self.numeric).index)
        combinations = self.combinations(tuple(categorical), where) if len(categorical) > 1 else ()
        # A surface that a number multiplies keeps its constant, so its columns keep their means.
        is_centred = term.has_constant and len(numeric) == len(smooth)
        means = self.means([self.numeric[name] for name in numeric]) if is_centred else ()
        if term.is_surface:
            self.note_rows(smooth)
        if isinstance(term, RandomEffects) and term.beside:
            others = [RandomEffects(term.group, slope) for slope in term.beside[1:]]
            earlier = tuple((f"{other.slope} in {other.name}", 0, 0.0) for other in others)
            number = self.numeric[numeric[0]]
            number = replace(number, center=(0.0,)) if term.beside[0] == NONE else number
            self.numeric[numeric[0]] = replace(number, earlier=(earlier,), left=(1.0,)) if earlier else number
        return DesignTerm(term, tuple(categorical), tuple(numeric), combinations, means=means)

    def factors_of(self, term: Term, where: str) -> list[Term]:
        """What a term multiplies: of a smooth its margins and `by`, of random slopes the number too. The number of correlated
        slopes has an origin of its own."""
        if isinstance(term, RandomEffects) and term.beside:
            return [RandomEffects(term.group), Transformed(term.slope, f"{term.slope} in {term.name}", ())]
        if isinstance(term, RandomEffects):
            return [RandomEffects(term.group), *map(Covariate, term.columns[1:])]
        if not isinstance(term, Smooth):
            return list(term.factors)
        if not term.by:
            return list(term.margins)
        return [*(term.margins if term.by.has_levels(self.kinds) else self.multiplied(term, term.by, where)), term.by]

    def multiplied(self, term: Smooth, number: Covariate, where: str) -> Iterator[Transformed]:
        """The margins of `s(x, by=z)` with a number z: the curve has a constant, and a name of its own beside s(x). Raises
        UserError for a z that does not vary, or hardly beside its mean."""
        column = self.dictionary.columns[number.column]
        low, high = column.limits
        if low == high:
            raise UserError(
                f"{where}: `{term.name}`: `{number.name}` has the value {low:g} in all training rows; leave by out"
            )
        if column.is_far:
            raise UserError(
                f"{where}: `{term.name}`: `{number.name}` is not centred, and its mean, {column.mean:g}, is more than "
                f"{FAR:,.0f} standard deviations from 0; subtract the mean under data.derive"
            )
        for margin in term.margins:
            *inner, spline = margin.calls
            spline = replace(spline, options={**spline.options, "by": number.name})
            yield replace(margin, written=f"{margin.name} in {term.name}", applied=(*inner, spline))

    def note_rows(self, names: Sequence[str]) -> None:
        """Keep where the rows of a smooth of several columns are, with its factors: pictures leave the rest blank."""
        factors = [self.numeric[name] for name in names]
        columns = [column for factor in factors for column in factor.columns]
        sampled = training_rows.sampled_rows(self.files, columns, self.dictionary.required, self.most_sampled)
        cells = training_rows.cells_with_rows(np.stack([sampled[column] for column in columns], axis=1))
        seen = dict(zip(columns, cells.T.tolist(), strict=True))
        for factor in factors:
            own = {"seen": [seen[column] for column in factor.columns]}
            self.numeric[factor.name] = replace(factor, learnt=(*factor.learnt[:-1], {**factor.learnt[-1], **own}))

    def means(self, factors: Sequence[Numeric]) -> tuple[float, ...]:
        """The means of the numbers of a tensor product over the training rows."""

        def columns_of(factor: Numeric) -> Callable[[np.ndarray], np.ndarray]:
            return lambda values: np.stack(transforms.apply(np, factor.learnt, values), axis=1)

        columns, functions = [factor.column for factor in factors], [columns_of(factor) for factor in factors]
        of_products = training_rows.means_of_products(
            self.files, columns, self.settings.frequency, self.dictionary.required, functions
        )
        return tuple(of_products[1:].tolist())

    def absorbed(self, term: Absorbed | AbsorbedSlope) -> DesignTerm:
        where, name = f"{self.where}.absorb", term.column
        if name not in self.categorical or isinstance(term, Absorbed):
            self.categorical[name] = self.categorical_factor(Absorbed(name), self.column(name, where), where)
        if isinstance(term, Absorbed):
            return DesignTerm(term, (name,))
        if term.slope not in self.numeric:
            column = self.column(term.slope, where)
            self.numeric[term.slope] = self.numeric_factor(Covariate(term.slope), column, where)
        return DesignTerm(term, (name,), (term.slope,))

    def add(self, factors: dict[str, Categorical], factor: Categorical, where: str) -> None:
        """Keep a factor; two of one name must ask for the same reference level."""
        before = factors.get(factor.name, factor)
        if factor.reference and before.reference and factor.reference != before.reference:
            raise UserError(
                f"{where}: `{factor.name}` has two reference levels, {before.reference} and {factor.reference}"
            )
        factors[factor.name] = factor if factor.reference else before

    def numeric_factor(self, factor: Term, column: Column, where: str) -> Numeric:
        """Raises UserError for a value that a function cannot take."""
        where = f"{where}: `{factor.name}`"
        if column.kind == "image":
            shape = self.files[0].column(column.name).shape
            pixels = math.prod(shape)
            learnt_shape = ({"function": IMAGE, "shape": shape},)
            return Numeric(factor.name, column.name, learnt_shape, (0.0,) * pixels, (LARGEST_PIXEL,) * pixels)
        checks.check_size(column, where)
        if len(factor.columns) > 1:
            return self.in_the_plane(factor, column, where)
        learnt, center, variance = self.learnt(factor, column, where)
        # Functions learnt from a sample have inexact moments, and penalties depend on these.
        sampled = bool(factor.calls) and self.counted(column) is None
        if factor.is_smooth:
            # Other columns would have other penalties, and the spread of columns that no row sees is rounding error.
            center, variance = np.zeros_like(center), np.ones_like(variance)
        elif self.multiplicities or (sampled and (self.settings.l1 or self.settings.l2 or self.settings.path)):
            moments_of = partial(training_rows.moments, self.files, column.name, self.multiplicities)
            of_rows = moments_of(
                self.dictionary.required, lambda values: np.stack(transforms.apply(np, learnt, values), 1)
            )
            # Without any weight the fit is refused.
            center, variance = of_rows if np.isfinite(of_rows[0]).all() else (center, variance)
        spread = np.sqrt(variance)
        spread[spread == 0] = 1.0
        return Numeric(factor.name, column.name, tuple(learnt), tuple(center.tolist()), tuple(spread.tolist()))

    def in_the_plane(self, factor: Term, column: Column, where: str) -> Numeric:
        """The factor of `s(x, z)`. Raises UserError for too few distinct pairs of values."""
        frequency, required = self.settings.frequency, self.dictionary.required
        counted = training_rows.counted_together(self.files, factor.columns, frequency, required)
        if counted is None:
            sampled = training_rows.sampled_rows(self.files, factor.columns, required, self.most_sampled)
            counted = training_rows.distinct_points(np.stack([sampled[name] for name in factor.columns], axis=1))
            self.remarks.append(
                f"`{factor.name}` learnt from a sample of {int(counted[1].sum()):,} training rows, as there are more than "
                f"{training_rows.MOST_COUNTED:,} distinct pairs of its values"
            )
        (points, rows), options = counted, factor.calls[-1].options
        try:
            check_points(points, options["k"])
            learnt = learn_thin_plates(points, rows / rows.sum(), options["k"], options)
        except ValueError as error:
            raise UserError(f"{where}: {error}") from error
        ones = (1.0,) * len(learnt["penalty"])
        # Its columns have the mean 0 and the variance 1.
        call = {"function": factor.calls[-1].function, "beside": list(factor.columns[1:]), **learnt}
        return Numeric(factor.name, column.name, (call,), (0.0,) * len(ones), ones)

    def learnt(self, factor: Term, column: Column, where: str) -> tuple[list[dict], np.ndarray, np.ndarray]:
        """Return what the functions of a factor have learnt, and the mean and variance (divisor n) of its numbers in the
        training rows."""
        counted = self.counted(column)
        if counted is None and not factor.calls:
            mean, variance = column.moments
            return [], np.array([mean]), np.array([variance])
        if counted is None:
            values, rows = training_rows.sample(self.files, column.name, self.dictionary.required, self.most_sampled)
            if rows.sum() < self.dictionary.rows["train"] and any(call.function in LEARNING for call in factor.calls):
                self.remarks.append(
                    f"`{factor.name}` learnt from a sample of {int(rows.sum()):,} training rows, as `{column.name}` has too "
                    f"many distinct values to count"
                )
        else:
            values, rows = counted
        if self.settings.frequency and any(call.function in LEARNING for call in factor.calls):
            values, rows = training_rows.repeated(
                self.files, column.name, self.settings.frequency, self.dictionary.required
            )
        # For a plain column these are known exactly, while values and rows come from a sample.
        moments = (self.dictionary.rows["train"], *column.moments) if counted is None else None
        learnt, columns = transforms.learn(
            factor.calls, values, rows, where, None if self.settings.frequency else moments
        )
        center = np.average(columns, axis=0, weights=rows)
        return learnt, center, np.average((columns - center) ** 2, axis=0, weights=rows)

    def counted(self, column: Column) -> tuple[np.ndarray, np.ndarray] | None:
        """The values of a number in the training rows and the rows of each; None if a file stores it as plain numbers."""
        if column.levels is None and not all(file.column(column.name).coded for file in self.files):
            return None
        counted = counted_levels(column, self.files, self.dictionary.required)
        return counted["value"].to_numpy().astype(float), counted["rows"].to_numpy()

    def apart(self, design: Design) -> tuple[Numeric, ...]:
        """The numeric factors of the design. Numbers that others of the same column nearly determine, such as powers of a year,
        are separated from them. Penalised numbers stay as they are, because a penalty on the rest would be another one."""
        factors, has_penalty = design.numeric, design.penalised_coefficients > 0
        penalised = [part for part in design.parts if design.has_penalties and has_penalty[part.where].any()]
        kept = {name for part in penalised for name, _ in part.multiplier}
        of_column: dict[str, list[Numeric]] = {}
        for factor in factors:
            if factor.name not in kept:
                of_column.setdefault(factor.column, []).append(factor)
        changed: dict[str, Numeric] = {}
        for name, several in of_column.items():
            if sum(factor.width for factor in several) < 2:
                continue
            values, rows = self.counted(self.dictionary.columns[name]) or training_rows.sample(
                self.files, name, self.dictionary.required, self.most_sampled
            )
            numbers = [np.stack(transforms.apply(np, factor.learnt, values), axis=1) for factor in several]
            changed |= {factor.name: factor for factor in apart(list(zip(several, numbers, strict=True)), rows)}
        return tuple(changed.get(factor.name, factor) for factor in factors)

    def combinations(self, grouping: tuple[str, ...], where: str) -> tuple[int, ...]:
        factors = [self.categorical[name] for name in grouping]
        sizes = [len(factor.levels) for factor in factors]
        if math.prod(sizes) > MOST_COMBINATIONS:
            raise UserError(
                f"{where}: `{':'.join(grouping)}` has {math.prod(sizes):,} possible combinations of levels, and an "
                f"interaction may have {MOST_COMBINATIONS:,} at most; merge rare levels with data.rare"
            )
        seen, columns = np.zeros(0, np.int64), [factor.column for factor in factors]
        of_factors = [levels_by_code(factor, self.files, -1) for factor in factors]
        for file, *levels in zip(self.files, *of_factors, strict=True):
            codes = training_rows.combinations(file, columns, self.dictionary.required)
            numbers = [of_codes[codes[:, k]] for k, of_codes in enumerate(levels)]
            seen = np.union1d(seen, np.ravel_multi_index(tuple(numbers), sizes))
        return tuple(seen.tolist())

    def multiplicity(self, key: str) -> str | None:
        """The column of `weights`, `frequency` or `trials`. Raises UserError for what cannot count a row."""
        name, where = getattr(self.settings, key), f"{self.where}.{key}"
        if name is None:
            return None
        problem = checks.multiplicity_problem(self.column(name, where))
        if problem and key == "frequency" and self.settings.subset:
            raise UserError(
                f"{self.where}.subset: no training row meets `{self.settings.subset}`; correct the condition"
            )
        if problem:
            raise UserError(
                f"{where}: `{name}` {problem}\n  correct it under data.derive, or leave such rows out in data.where"
            )
        return name

    def offset(self) -> Numeric | None:
        if self.settings.offset is None:
            return None
        where = f"{self.where}.offset"
        factor = parse_factor(self.settings.offset, self.settings.offset, where)
        offset = self.numeric_factor(factor, self.column(factor.column, where), where)
        if offset.width > 1:
            raise UserError(f"{where}: `{factor.name}` is more than one number")
        family = family_of(self.settings.family, self.settings.link)
        if not (family.quadratic or family.positive_predictor) and offset.scale[0] > WIDEST_OFFSET:
            logarithm = f"`offset: log({factor.name})`" if not factor.calls else "the logarithm of it"
            raise UserError(
                f"{where}: `{factor.name}` is added to the linear predictor unchanged, and its standard deviation, "
                f"{offset.scale[0]:,.0f}, is too large for link {family.link_name}\n"
                f"  for an exposure, such as people or hours, write {logarithm}"
            )
        return offset

    def folds(self) -> Folds | None:
        """Return the folds of a cross-validation. Raises UserError if a row may have no fold, or if there are fewer groups
        than folds."""
        path = self.settings.path
        if path is None or path.select != "cross_validation":
            return None
        if path.by is None:
            return Folds(None, path.folds)
        where = f"{self.where}.path.by"
        column = self.column(path.by, where)
        if column.missing_rows:
            raise UserError(
                f"{where}: {column.missing_rows:,} training rows have no value of `{path.by}`, so they belong to no group, but "
                f"data.missing keeps them\n  take `{path.by}` out of data.missing, or derive a column that has a value"
            )
        distinct = checks.check_levels(path.by, column, where)
        if distinct < path.folds:
            raise UserError(
                f"{where}: `{path.by}` has {distinct:,} values in the training rows, and {path.folds} folds need as many; use "
                "fewer `folds`, or leave `by` out for folds of single rows"
            )
        return Folds(Clusters(column.name, column.kind, distinct), path.folds)

    def event_study(self, term: EventStudy, where: str) -> EventStudy:
        """The term of an event study, whose factor has the level OTHERS for all rows without a coefficient, the reference."""
        settings, column = self.settings, self.column(term.column, where)
        if FAMILIES[settings.family].of_classes or settings.l1 or settings.l2 or settings.path:
            raise UserError(
                f"{where}: `{term.name}`: an event study is of a number or an event, without a penalty; write "
                f"C({term.cohort}) and C({term.period})"
            )
        counted = counted_levels(column, self.files, self.dictionary.required)
        cohorts = cohorts_of(term, dict(counted.iter_rows()), where)
        levels = *cohorts.treated, OTHERS
        self.categorical[term.name] = Categorical(
            term.name, column.name, column.kind, levels, cohorts.others, reference=OTHERS
        )
        self.remarks += cohorts.remarks
        return cohorts.term

    def categorical_factor(self, factor: Term, column: Column, where: str) -> Categorical:
        """The factor with its levels. Raises UserError if there are too many or too few."""
        checks.check_levels(factor.name, column, where)
        levels, rare = labels(column, counted_levels(column, self.files, self.dictionary.required))
        if len(levels) < 2:
            raise UserError(
                f"{where}: `{factor.name}` has only the level `{levels[0]}` in the training rows, so it has no "
                "effect to estimate; remove it from the formula"
            )
        if factor.reference is not None and factor.reference not in levels:
            raise UserError(
                f"{where}: `{factor.name}`: no level `{factor.reference}` in the training rows"
                f"{references.levels_in_words(factor.reference, levels)}"
            )
        missing = bool(column.missing_rows)
        kept = tuple(levels), tuple(rare), missing, factor.reference, factor.coding, factor.is_random
        return Categorical(factor.name, column.name, column.kind, *kept)
