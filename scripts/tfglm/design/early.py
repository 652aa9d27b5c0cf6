"""Find mistakes in models from the config, the layouts and the file headers, before any row is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tfglm.config import Config, DesignConfig, Layout, ModelConfig
from tfglm.config.columns import listed
from tfglm.config.comparisons import EQUALS
from tfglm.data.kinds import Kind
from tfglm.data.selection import selection
from tfglm.design.kinds import (
    check_absorbed,
    check_compared,
    check_kinds,
    check_names,
    check_not_smooth,
    check_tables,
    penalty_factors,
)
from tfglm.errors import Problems, UserError
from tfglm.families import FAMILIES
from tfglm.formula.names import coefficient_without_class
from tfglm.formula.parse import parse
from tfglm.formula.terms import INTERCEPT, THRESHOLD, Formula


@dataclass(frozen=True)
class ModelProblems:
    """Messages, each beginning with its key, and the places of formulas that could not be parsed."""

    messages: list[str]
    unparsed: frozenset[str]


def model_problems(config: Config, layouts: Mapping[str, Layout]) -> ModelProblems:
    """Return the mistakes in the models to fit; `layouts` are the layouts of the files, by name."""
    kinds = agreed(kinds_in(layout, config, name) for name, layout in layouts.items())
    with_level = [column for column, what in config.data.missing.items() if what == "level"]
    # By message without its place, the places.
    by_message: dict[str, list[str]] = {}
    unparsed: set[str] = set()
    for place, model in config.models_to_fit.items():
        problems, formula = Problems(), None
        with problems.collected():
            check_tables(place, model.by, model.identity, kinds)
        with problems.collected():
            formula = parse(model.formula, f"{place}.formula", absorb=getattr(model, "absorb", ()))
        if formula is None:
            unparsed.add(f"{place}.formula")
        else:
            with problems.collected():
                check_kinds(place, model, formula, kinds, with_level, config.data.order)
            with problems.collected():
                if isinstance(model, DesignConfig):
                    penalty_factors(place, model, formula)
        if formula is not None and isinstance(model, ModelConfig):
            with problems.collected():
                combinations = combinations_of(model, formula)
                named = {"reference": model.reference, "pairwise": model.pairwise, **combinations}
                check_absorbed(place, model.absorbed_factors, named)
                check_not_smooth(place, formula, named)
                with problems.collected():
                    constants = constants_of(model, formula)
                    check_names(place, formula, kinds, model.reference, combinations, constants)
                with problems.collected():
                    check_compared(place, formula, kinds, model.pairwise)
        for message in problems.messages:
            by_message.setdefault(message.replace(place, "\0"), []).append(place)
    messages = [
        message.replace("\0", places[0]) + (f"\n  the same in {listed(places[1:])}" if places[1:] else "")
        for message, places in by_message.items()
    ]
    return ModelProblems(messages, frozenset(unparsed))


def constants_of(model: ModelConfig, formula: Formula) -> dict[str, bool]:
    """The terms that are in no formula, and whether they have levels. With absorbed factors there is no intercept."""
    if not formula.intercept or model.absorbed_factors:
        return {}
    return {THRESHOLD: True} if FAMILIES[model.family].is_ordered else {INTERCEPT: False}


def combinations_of(model: ModelConfig, formula: Formula) -> dict[str, Mapping[str, float]]:
    """The coefficients that contrasts, hypotheses and profiles name, by where."""
    rows: dict[str, Mapping[str, float]] = {f"contrasts.{name}": row for name, row in model.contrasts.items()}
    rows |= {f"profile.{name}": row for name, row in model.profile.items()}
    for name, hypothesis in model.hypotheses.items():
        for place, row in enumerate(hypothesis, 1):
            rows[f"hypotheses.{name}.{place}"] = {key: weight for key, weight in row.items() if key != EQUALS}
    family = FAMILIES[model.family]
    if not family.of_classes or family.is_ordered:
        return rows
    terms = {*(term.name for term in formula.terms), INTERCEPT}
    return {
        where: {coefficient_without_class(key, terms): weight for key, weight in row.items()}
        for where, row in rows.items()
    }


def kinds_in(layout: Layout, config: Config, name: str) -> dict[str, Kind | None]:
    """Return the kinds of the kept columns for a layout; nothing if the expressions are wrong."""
    offered = {*layout.columns, *layout.derive, *config.data.derive}
    kept = [column for column in config.data.columns if column in offered]
    try:
        return selection(layout, config.data.model_copy(update={"columns": kept}), name).kinds
    except UserError:
        return {}


def agreed(by_layout: Iterable[Mapping[str, Kind | None]]) -> dict[str, Kind | None]:
    """Return the kinds on which all layouts agree."""
    tables = list(by_layout)
    columns = {column for table in tables for column in table}
    kinds = {column: {table.get(column) for table in tables} for column in columns}
    return {column: next(iter(of_column)) for column, of_column in kinds.items() if len(of_column) == 1}
