"""A model ready to be fitted: its factors, terms and coefficients, as a record that JSON stores.

A term is a product of factors. A categorical factor selects a level. A numeric factor multiplies by one number, or by
several as `poly(x, 3)` does. So a term consists of *parts*: each is a table of coefficients by level, and one number to
multiply by. The linear predictor is a sum of lookups: eta = sum over parts of number * table[level].
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tfglm import digests
from tfglm.config import PathConfig
from tfglm.design.factors import Categorical, ClusterIntersections, Clusters, Folds, Numeric
from tfglm.design.specification import GivenPenalty, Inference, Instruments, Likelihood, Roles
from tfglm.design.terms import DesignTerm, Part, Smoothing
from tfglm.families import Family
from tfglm.families.gaussian import Gaussian
from tfglm.formula.terms import INTERCEPT, THRESHOLD, FunctionCall, RandomEffects, Term, as_stored, from_stored


@dataclass(frozen=True)
class Design:
    """A model ready to be fitted. The coefficient vector has every level of every categorical factor, in formula order.

    `known_after_departure` are the columns in the model that a prediction made before departure could not use; `remarks` what
    else a reader should know of how it was made. `data` has the digests of the manifests of the files that it was made for. The
    last terms may be `absorbed`, a factor each: their coefficients are not reported, and they take the place of an intercept.
    `instruments` are no terms: the fit alone has them (`with_instruments`). `bounds` are the lowest and the highest value of the
    coefficient in a place, on the scale of the data.
    """

    model: str
    formula: str
    terms: tuple[DesignTerm, ...]
    categorical: tuple[Categorical, ...]
    numeric: tuple[Numeric, ...]
    rows: dict[str, int]
    likelihood: Likelihood
    roles: Roles
    inference: Inference = field(default_factory=Inference)
    penalty: GivenPenalty = field(default_factory=GivenPenalty)
    absorbed: tuple[str, ...] = ()
    instruments: Instruments | None = None
    folds: Folds | None = None
    bounds: tuple[tuple[int, float | None, float | None], ...] = ()
    known_after_departure: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    @property
    def distribution(self) -> Family:
        return self.likelihood.distribution

    def with_likelihood(self, **changes: Any) -> "Design":
        """With other values of fields of the likelihood."""
        return replace(self, likelihood=replace(self.likelihood, **changes))

    def with_roles(self, **changes: Any) -> "Design":
        """With other values of fields of the roles."""
        return replace(self, roles=replace(self.roles, **changes))

    def without_clusters(self) -> "Design":
        """For rows whose clusters nobody asks for."""
        return replace(self, inference=replace(self.inference, cluster=None, crossed=(), cells=()))

    def with_instruments(self) -> "Design":
        """With the instruments as terms, after the other reported ones."""
        if not self.instruments:
            return self
        reported, absorbed = self.reported.terms, self.terms[len(self.reported.terms) :]
        return replace(
            self,
            terms=(*reported, *self.instruments.terms, *absorbed),
            categorical=(*self.categorical, *self.instruments.categorical),
            numeric=(*self.numeric, *self.instruments.numeric),
        )

    def as_fitted(self, fit: Mapping[str, Any]) -> "Design":
        """With the shape and the origins of correlated random slopes that the fit of fit.json has estimated."""
        if origins := fit.get("origins"):
            return self.with_origins(origins).as_fitted({**fit, "origins": {}})
        if self.distribution.shape_is_known:
            return self
        return self.with_likelihood(theta=fit.get("theta"), power=fit.get("power"))

    def with_origins(self, origins: Mapping[str, Sequence[float]]) -> "Design":
        """With these origins of the numbers of correlated slopes, by factor: the multiples of 1 and of earlier numbers that are
        subtracted from a number, on the scale of the fit."""

        def moved(factor: Numeric) -> Numeric:
            if factor.name not in origins:
                return factor
            center, *weights = origins[factor.name]
            earlier = [
                tuple((*number[:2], weight) for number, weight in zip(of, weights, strict=True))
                for of in factor.earlier
            ]
            return replace(factor, center=(center,), earlier=tuple(earlier))

        return replace(self, numeric=tuple(map(moved, self.numeric)))

    def as_linear(self) -> "Design":
        """The linear regression on the same columns and rows."""
        return self.with_likelihood(family=Gaussian.name, link=None, theta=None, power=None)

    @cached_property
    def categorical_by_name(self) -> dict[str, Categorical]:
        return {factor.name: factor for factor in self.categorical}

    @cached_property
    def numeric_by_name(self) -> dict[str, Numeric]:
        return {factor.name: factor for factor in self.numeric}

    @cached_property
    def numeric_with_offset(self) -> tuple[Numeric, ...]:
        """The factors of numbers, that of the offset last."""
        return (*self.numeric, *([self.roles.offset] if self.roles.offset else []))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts in the order of the coefficient vector."""
        parts, start = [], 0
        for term in self.terms:
            size = self.levels_of(term.categorical)
            widths = (range(self.numeric_by_name[name].width) for name in term.numeric)
            for numbers in product(*widths):
                # The intercept replaces the constant of a tensor product, unless a number multiplies it.
                if not any(numbers) and term.kind.has_constant and not term.multiplier:
                    continue
                multiplier = tuple(zip(term.numeric, numbers, strict=True))
                parts.append(Part(term, multiplier, slice(start, start + size)))
                start += size
        return tuple(parts)

    def multiplier_of(self, term: DesignTerm) -> Numeric | None:
        """The number that multiplies a curve or surface: z of `s(x, by=z)`."""
        return self.numeric_by_name[term.multiplier] if term.multiplier else None

    def smoothed(self, term: DesignTerm) -> list[Numeric]:
        """The numbers of a curve or surface, without its multiplier."""
        return [self.numeric_by_name[name] for name in term.numeric if name != term.multiplier]

    def levels_of(self, grouping: tuple[str, ...]) -> int:
        """Into how many groups the factors divide the rows."""
        if len(grouping) > 1:
            return len(self.combinations[grouping])
        return len(self.categorical_by_name[grouping[0]].levels) if grouping else 1

    @cached_property
    def combinations(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        return {term.categorical: term.combinations for term in self.terms if len(term.categorical) > 1}

    @cached_property
    def equations(self) -> tuple[str, ...]:
        """The classes that have a linear predictor each; none if there is but one. Of ordered classes, those below a threshold of
        their own, and '' for the linear predictor that all have (design.by_class)."""
        named = {term.equation for term in self.terms}
        shared = ("",) if self.likelihood.is_ordered else ()
        return tuple(label for label in (*self.likelihood.class_labels, *shared) if label in named)

    @property
    def random_parts(self) -> list[Part]:
        return [part for part in self.parts if part.term.kind.is_random]

    @property
    def fixed_parts(self) -> list[Part]:
        """The parts without random effects, whose mean is 0."""
        return [part for part in self.parts if not part.term.kind.is_random]

    @property
    def compares_classes(self) -> bool:
        """Whether classes have coefficients of their own."""
        return bool(self.equations) and not self.likelihood.is_ordered

    @cached_property
    def groupings(self) -> tuple[tuple[str, ...], ...]:
        """The different sets of categorical factors by whose levels coefficients are chosen."""
        return tuple(dict.fromkeys(part.grouping for part in self.parts if part.grouping))

    def levels(self, grouping: tuple[str, ...]) -> np.ndarray:
        """The number of the level of each factor in each group, [groups, factors]."""
        sizes = [len(self.categorical_by_name[name].levels) for name in grouping]
        groups = np.array(self.combinations[grouping]) if len(grouping) > 1 else np.arange(self.levels_of(grouping))
        return np.stack(np.unravel_index(groups, sizes), axis=1) if grouping else np.zeros((1, 0), np.int64)

    def projection(self, coarse: tuple[str, ...], fine: tuple[str, ...]) -> np.ndarray:
        """The group of the coarse grouping that each group of the fine one belongs to."""
        numbers = self.levels(fine)[:, [fine.index(name) for name in coarse]]
        sizes = [len(self.categorical_by_name[name].levels) for name in coarse]
        joint = np.ravel_multi_index(tuple(numbers.T), sizes)
        return np.searchsorted(self.combinations[coarse], joint) if len(coarse) > 1 else joint

    def by_level(self, factor: str, counts: np.ndarray, equation: str | None = None) -> np.ndarray:
        """Counts by coefficient, [p], as counts by level of a factor: of the smallest term that it is in, in an equation."""
        parts = [part for part in self.parts if factor in part.grouping and equation in (None, part.term.equation)]
        part = min(parts, key=lambda part: len(part.grouping))
        level = self.levels(part.grouping)[:, part.grouping.index(factor)]
        return np.bincount(level, counts[part.where], len(self.categorical_by_name[factor].levels))

    @cached_property
    def slices(self) -> dict[str, slice]:
        where: dict[str, slice] = {}
        for part in self.parts:
            before = where.get(part.term.name, part.where)
            where[part.term.name] = slice(before.start, part.where.stop)
        return where

    @property
    def size(self) -> int:
        """Length of the coefficient vector."""
        return self.parts[-1].where.stop

    @cached_property
    def absorbed_parts(self) -> tuple[int, ...]:
        """Return the numbers of the absorbed parts, which come last."""
        return tuple(k for k, part in enumerate(self.parts) if part.term.name in self.absorbed)

    @cached_property
    def eliminated_parts(self) -> tuple[int, ...]:
        """The number of the part with the most groups, whose block of X'WX is diagonal and as large as all others together; of
        the absorbed parts, if there are any. Random effects of the same groups are eliminated with it, by group."""
        grouped = [k for k, part in enumerate(self.parts) if part.grouping]
        largest = max(self.absorbed_parts or grouped, key=lambda k: self.parts[k].size, default=None)
        if largest is None or not self.parts[largest].term.kind.is_random:
            return () if largest is None else (largest,)
        grouping = self.parts[largest].grouping
        return tuple(k for k in grouped if self.parts[k].grouping == grouping and self.parts[k].term.kind.is_random)

    @property
    def reported_size(self) -> int:
        """The number of coefficients before those of absorbed factors."""
        return self.parts[self.absorbed_parts[0]].where.start if self.absorbed_parts else self.size

    @cached_property
    def absorbed_groupings(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the absorbed parts by factor: its effects, then its slopes."""
        groupings = dict.fromkeys(self.parts[k].grouping for k in self.absorbed_parts)
        return tuple(tuple(k for k in self.absorbed_parts if self.parts[k].grouping == each) for each in groupings)

    @property
    def absorbs_constant(self) -> bool:
        """Whether a factor has absorbed effects, and not slopes alone, whose names end with `]]`."""
        return not all(name.endswith("]]") for name in self.absorbed)

    @cached_property
    def reported(self) -> "Design":
        """The design without the absorbed factors, as the tables show it."""
        if not self.absorbed_parts:
            return self
        terms = tuple(term for term in self.terms if term.name not in self.absorbed)
        reported = {name for term in terms for name in (*term.categorical, *term.numeric)}
        absorbed = {name for term in self.terms for name in (*term.categorical, *term.numeric)} - reported
        factors = tuple(factor for factor in self.categorical if factor.name not in absorbed)
        numeric = tuple(factor for factor in self.numeric if factor.name not in absorbed)
        return replace(self, terms=terms, categorical=factors, numeric=numeric)

    @property
    def constant(self) -> slice | None:
        """The places of coefficients that add the same to the linear predictor of each row: the intercept, or in its place the
        levels of an absorbed factor."""
        for part in (self.parts[k] for k in self.absorbed_parts):
            if not part.multiplier:
                return part.where
        return slice(0, 1) if self.intercept is not None else None

    @cached_property
    def group_type(self) -> np.dtype:
        """The smallest signed type for the number of a group, or the negative reason why there is none: what is read most often
        in a pass is read faster."""
        sizes = [self.levels_of(grouping) for grouping in self.groupings]
        largest = max([*sizes, *self.inference.cluster_counts], default=0)
        return np.dtype(np.int16 if largest <= np.iinfo(np.int16).max else np.int32)

    @property
    def has_penalties(self) -> bool:
        """Whether the config gives penalties, or the fit estimates them for smooth terms and random effects."""
        return self.penalty.given or bool(self.smooths)

    @property
    def fixed_terms(self) -> list[DesignTerm]:
        """The terms without random effects."""
        return [term for term in self.terms if not term.kind.is_random]

    @property
    def variance_parameters(self) -> int:
        """The number of variances and correlations of random effects that a fit estimates."""
        return sum((smooth.sp is None) + len(smooth.beside) for smooth in self.smooths if smooth.is_random)

    @cached_property
    def smooths(self) -> tuple[Smoothing, ...]:
        """The smooth terms, each level of a factor apart, and the random effects."""
        smooths = []
        for term in (term for term in self.terms if term.kind.is_random or term.kind.is_smooth):
            parts = [part for part in self.parts if part.term is term]
            if isinstance(term.kind, RandomEffects):
                places = np.arange(parts[0].where.start, parts[0].where.stop)
                scale = np.prod([self.numeric_by_name[name].scale[number] for name, number in parts[0].multiplier])
                penalty = np.full((1, len(places)), scale**-2.0)
                beside = term.kind.correlated
                smooths.append(Smoothing(term.name, "", places, penalty, is_random=True, beside=beside))
                continue
            number = self.multiplier_of(term)
            by, unit = (number.column, number.scale[0]) if number else ("", 1.0)
            factors = self.smoothed(term)
            starts = np.array([part.where.start for part in parts])
            given = tuple(factor.learnt[-1]["sp"] for factor in factors if "sp" in factor.learnt[-1]) or None
            # b of the data is b of the fit over the scale.
            of_margins = [
                np.array(factor.learnt[-1]["penalty"]) / (unit * np.array(factor.scale)) ** 2 for factor in factors
            ]
            numbers = np.array([[dict(part.multiplier)[factor.name] for factor in factors] for part in parts])
            penalties = np.array([each[of] for each, of in zip(of_margins, numbers.T, strict=True)])
            columns = tuple(factor.column for factor in factors) if term.kind.is_tensor_product else ()
            levels = self.categorical_by_name[term.categorical[0]].levels if term.categorical else ("",)
            smooths += [
                Smoothing(term.name, level, starts + place, penalties, False, given, columns, by)
                for place, level in enumerate(levels)
            ]
        return tuple(smooths)

    @cached_property
    def in_smooths(self) -> np.ndarray:
        """Whether each coefficient is of a smooth term or a random effect, [p]."""
        places = [smooth.places for smooth in self.smooths]
        return np.isin(np.arange(self.size), np.concatenate([np.zeros(0, int), *places]))

    @property
    def by_cluster(self) -> bool:
        """Whether standard errors and tests are by cluster, or by date as clusters are; a penalised fit has none."""
        return self.inference.cluster is not None and not self.penalty.given

    @property
    def intercept(self) -> int | None:
        """Its place in the coefficient vector."""
        return 0 if self.terms[0].name == INTERCEPT else None

    @property
    def penalised_coefficients(self) -> np.ndarray:
        """The factor that multiplies the penalties of each coefficient: 0 for the intercept, 1 unless the config says
        otherwise. With smooth terms, 1 for the coefficients that have a smoothing parameter."""
        if self.smooths:
            factors = np.zeros(self.size)
            for smooth in self.smooths:
                factors[smooth.places] = (smooth.penalties > 0).any(axis=0)
            return factors
        by_term, factors = {INTERCEPT: 0.0, **dict(self.penalty.factors)}, np.ones(self.size)
        for term in self.terms:
            factors[self.slices[term.name]] = by_term.get(term.base, 1.0)
        return factors

    @property
    def unpenalised_terms(self) -> tuple[str, ...]:
        """The terms, the intercept among them, whose coefficients no penalty draws to 0."""
        free = {INTERCEPT, *(term for term, factor in self.penalty.factors if factor == 0)}
        return tuple(
            term.name
            for term in self.terms
            if (not self.penalty.given or term.base in free) and not term.kind.is_random
        )

    @property
    def classes(self) -> Categorical | None:
        """The response as a factor, whose levels are the classes; None if it is a number."""
        return self.categorical_by_name.get(self.roles.response or "")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the data that the model uses, the response first."""
        used = [
            *filter(None, [self.roles.response]),
            *self.roles.multiplicities,
            *(factor.column for factor in self.categorical),
            *(column for factor in self.numeric_with_offset for column in factor.columns),
        ]
        used += [clusters.column for clusters in self.inference.clusters]
        used += [self.groups_of_folds.column] if self.groups_of_folds else []
        return tuple(dict.fromkeys(used))

    @property
    def groups_of_folds(self) -> Clusters | None:
        """The groups that stay together, in a design for the rows without a fold, or of one."""
        return self.folds.groups if self.folds and self.folds.fold is not None else None

    @property
    def number_columns(self) -> frozenset[str]:
        """The columns whose values are read as numbers."""
        numeric = [column for factor in self.numeric_with_offset for column in factor.columns]
        return frozenset(
            [*filter(None, [None if self.classes else self.roles.response]), *self.roles.multiplicities, *numeric]
        )

    @property
    def identified_columns(self) -> frozenset[str]:
        """The columns whose values are distinguished, as levels, clusters or groups of a fold."""
        groups = [*self.inference.clusters, *([self.groups_of_folds] if self.groups_of_folds else [])]
        return frozenset([*(factor.column for factor in self.categorical), *(each.column for each in groups)])

    @cached_property
    def to_predict(self) -> "Design":
        """The same model of rows whose response, weight and cluster need not be known; a row lacks what it needs only if it lacks
        a covariate."""
        factors = tuple(factor for factor in self.categorical if factor.name != self.roles.response)
        covariates = replace(self, categorical=factors, roles=Roles(None, offset=self.roles.offset), folds=None)
        covariates = covariates.without_clusters()
        return covariates.with_roles(required=tuple(name for name in self.roles.required if name in covariates.columns))

    @cached_property
    def by_levels(self) -> "Design":
        """The same model without codings: tables have a coefficient for each level, or reference levels (design.codings)."""
        factors = tuple(replace(factor, coding=None) for factor in self.categorical)
        return replace(self, categorical=factors)

    @property
    def warnings(self) -> list[str]:
        """Remarks on the model for readers of the results."""
        if not self.known_after_departure:
            return list(self.remarks)
        names = ", ".join(f"`{name}`" for name in self.known_after_departure)
        return [
            f"the model uses {names}, known only after departure: it cannot predict before a flight departs, and its "
            "metrics look better than any such prediction",
            *self.remarks,
        ]

    def by_term(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """A coefficient vector cut into its terms, as the passes take it."""
        return {term: vector[where] for term, where in self.slices.items()}

    def coefficients(self) -> Iterator[tuple[str, str]]:
        """Term and level ('' for a term without levels) of each coefficient, in order. The constants of a regression of ordered
        classes are those of its thresholds (design.by_class)."""
        for part in self.parts:
            if self.likelihood.is_ordered and part.term.base == INTERCEPT:
                first = self.likelihood.class_labels.index(part.term.equation) if part.term.equation else 0
                yield THRESHOLD, "|".join(self.likelihood.class_labels[first : first + 2])
                continue
            names = [self.categorical_by_name[name].levels for name in part.grouping]
            numbers = [str(number + 1) for name, number in part.multiplier if self.numeric_by_name[name].width > 1]
            for group in self.levels(part.grouping).tolist():
                levels = [levels[number] for levels, number in zip(names, group, strict=True)]
                yield part.term.name, ":".join([*levels, *numbers])

    def write(self, path: Path) -> None:
        digests.write_text(path, self.as_json)

    @classmethod
    def load(cls, path: Path) -> "Design":
        """Raises UserError if the file has changed since it was written."""
        return cls._of(digests.read_json(path, needs=["roles", "terms", "categorical", "numeric"]))

    @cached_property
    def as_json(self) -> str:
        # Not by `asdict`, which copies every level.
        return json.dumps(self, default=_plain, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Design":
        return cls._of(json.loads(text))

    @classmethod
    def _of(cls, stored: dict) -> "Design":
        raw = _tuples(stored)
        of_path, inference, offset = stored["penalty"]["path"], raw["inference"], raw["roles"]["offset"]
        raw |= _terms(raw)
        if raw["instruments"]:
            raw["instruments"] = Instruments(raw["instruments"]["endogenous"], **_terms(raw["instruments"]))
        raw["likelihood"] = Likelihood(**raw["likelihood"])
        raw["roles"] = Roles(**raw["roles"] | {"offset": offset and Numeric(**offset)})
        raw["penalty"] = GivenPenalty(**raw["penalty"] | {"path": of_path and PathConfig.model_validate(of_path)})
        if folds := raw["folds"]:
            raw["folds"] = Folds(**folds | {"groups": folds["groups"] and Clusters(**folds["groups"])})
        inference["cluster"] = inference["cluster"] and Clusters(**inference["cluster"])
        inference["crossed"] = tuple(Clusters(**clusters) for clusters in inference["crossed"])
        inference["cells"] = tuple(ClusterIntersections(**cells) for cells in inference["cells"])
        return cls(**raw | {"inference": Inference(**inference)})


def _terms(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The terms with their factors, from their JSON form."""
    return {
        "terms": tuple(DesignTerm(**term | {"kind": from_stored(term["kind"])}) for term in stored["terms"]),
        "categorical": tuple(Categorical(**factor) for factor in stored["categorical"]),
        "numeric": tuple(Numeric(**factor) for factor in stored["numeric"]),
    }


def _plain(value: Any) -> dict:
    """The fields of an object for JSON."""
    if isinstance(value, PathConfig):
        return value.model_dump()
    if isinstance(value, Term | FunctionCall):
        return as_stored(value)
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _tuples(value: Any) -> Any:
    """JSON with tuples for lists."""
    if isinstance(value, dict):
        return {key: _tuples(content) for key, content in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
