"""Models in columns and coefficients in rows, as papers have them; `report.papers` writes such a table as a file."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from tfglm.config import TablesConfig
from tfglm.formula.names import class_and_term, with_class, without_class
from tfglm.formula.parse import term_of
from tfglm.results.accuracy import SERIAL
from tfglm.results.compare import HELD_OUT, STATISTICS, ComparedModel, figure, response_of, variances
from tfglm.results.digits import fixed, p_in_words, with_error
from tfglm.results.statuses import NOT_CONVERGED, status_of

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
"""Characters that no cell of a table can have."""


@dataclass(frozen=True)
class Cell:
    """An estimate with its stars, and a standard error, two limits or nothing below it. Or a text."""

    value: float | str = ""
    below: tuple[float, ...] = ()
    stars: int = 0
    digits: int = 3
    """Of the standard error."""


@dataclass(frozen=True)
class Line:
    """Term and level (or the name of a statistic), and a cell for each model."""

    term: str
    level: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class PaperTable:
    """The content of a file from top to bottom: the names of the models, their coefficients, how they were fitted and how
    well, and notes."""

    models: tuple[str, ...]
    coefficients: tuple[Line, ...]
    statistics: tuple[Line, ...]
    notes: tuple[str, ...]
    tests: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Likelihood-ratio tests (`nested.likelihood_ratio_tests`)."""


def paper_table(models: Sequence[ComparedModel], settings: TablesConfig, tests: pd.DataFrame) -> PaperTable:
    """The table of some models with their coefficients, which a network may lack, and their likelihood-ratio tests."""
    tables = [indexed(model.table) for model in models]
    summaries = [summarised_terms(model, settings) for model in models]
    keys = dict.fromkeys(
        key
        for table, of_model in zip(tables, summaries, strict=True)
        for key in (*(key for key in table.index if not is_summarised(key[0])), *of_model)
    )
    terms = sorted(dict.fromkeys(term for term, _ in keys), key=lambda term: place_of(term, settings))
    coefficients = [
        Line(
            name_of(term, settings),
            printable(level),
            tuple(
                of_model.get((term, level))
                or cell(table.loc[(term, level)] if (term, level) in table.index else None, settings)
                for table, of_model in zip(tables, summaries, strict=True)
            ),
        )
        # The levels of a term stay together, also those that only a later model has.
        for term, level in sorted(keys, key=lambda key: terms.index(key[0]))
        if without_class(term) not in settings.controls
        and (not settings.terms or without_class(term) in settings.terms)
    ]
    pairs = list(zip(models, tables, strict=True))
    controls = [
        Line(name_of(term, settings), "", tuple(Cell("yes" if has_term(*each, term) else "no") for each in pairs))
        for term in dict.fromkeys(map(without_class, terms))
        if term in settings.controls
    ]
    return PaperTable(
        tuple(model.name for model in models),
        tuple(coefficients),
        (*controls, *statistics(models)),
        tuple(notes(models, settings, tests) + [SUMMARISED] * any(summaries)),
        tests,
    )


SUMMARISED = (
    "A curve has its degrees of freedom, effective ones if it is penalised, and a random effect its standard deviation; "
    "coefficients.csv has all their coefficients."
)


def is_summarised(term: str) -> bool:
    """Whether a term has a line in place of its coefficients, of which none means anything by itself: a curve, or random
    effects."""
    return term_of(term).is_curve or term_of(term).is_random


def summarised_terms(model: ComparedModel, settings: TablesConfig) -> dict[tuple[str, str], Cell]:
    """Cells of the curves and random effects of a model, by term and what the cell has."""
    cells = {}
    smooths = model.fit.get("smooths", [])
    for term, what, value, *limits in variances(model.fit):
        below = tuple(limits) if settings.below == "interval" and not any(map(math.isnan, limits)) else ()
        cells[term, what] = Cell(value, below, digits=settings.digits)
    for smooth in (each for each in smooths if not each["is_random"]):
        at = f" at {smooth['level']}" if smooth["level"] else ""
        cells[smooth["term"], f"effective degrees of freedom{at}"] = Cell(round(float(smooth["edf"]), 4))
    table = indexed(model.table)
    for term in table.index.unique(0):
        if is_summarised(term) and term not in {smooth["term"] for smooth in smooths}:
            cells[term, "degrees of freedom"] = Cell(float(table.loc[[term], "estimate"].notna().sum()))
    return cells


def indexed(table: pd.DataFrame | None) -> pd.DataFrame:
    if table is None:
        table = pd.DataFrame(columns=["term", "level", "estimate"])
    return table.set_index(["term", "level"])


def place_of(term: str, settings: TablesConfig) -> int:
    """The place of a term, of whatever class, among the terms of the settings; behind them if it has none."""
    return settings.terms.index(bare) if (bare := without_class(term)) in settings.terms else len(settings.terms)


def has_term(model: ComparedModel, table: pd.DataFrame, term: str) -> bool:
    """Whether a model has a term, in its table, of whatever class, or absorbed."""
    absorbed = absorbed_factors(model.fit)
    return term_of(term).bare in absorbed or term in map(without_class, table.index.unique(0))


def name_of(term: str, settings: TablesConfig) -> str:
    label, base = class_and_term(term)
    return printable(with_class(label, settings.labels.get(base, base)))


def printable(text: str) -> str:
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def cell(coefficient: pd.Series | None, settings: TablesConfig) -> Cell:
    """Return the error or interval of a row of a table of coefficients; empty without."""
    if coefficient is None:
        return Cell()
    if (status := status_of(coefficient)) not in ("", NOT_CONVERGED):
        value = f"{coefficient['estimate']:.4g} ".replace("-", "\N{MINUS SIGN}") if status == "at bound" else ""
        return Cell(value + status)
    estimate = float(coefficient["estimate"])
    is_penalised = "posterior_sd" in coefficient.index
    error = float(coefficient["posterior_sd" if is_penalised else "std_error"])
    if is_penalised:
        return Cell(estimate, (error,), digits=settings.digits)
    limits = tuple(float(coefficient.get(name, float("nan"))) for name in ("ci_lower", "ci_upper"))
    below = limits if settings.below == "interval" else (error,)
    stars = sum(coefficient.get("p_value", float("nan")) < level for level in settings.stars)
    return Cell(estimate, () if pd.isna(below[0]) else below, stars, settings.digits)


def written(cell: Cell, number: Callable[[float], str]) -> tuple[str, str]:
    """The text of a cell with its stars, and of its standard error in parentheses or its interval in brackets, '' without one.
    `number` writes what has no error. A minus is as wide as a plus."""
    if isinstance(cell.value, str):
        return cell.value, ""
    value, errors = with_error(cell.value, cell.below, cell.digits) if cell.below else (number(cell.value), [])
    value, *errors = (text.replace("-", "\N{MINUS SIGN}") for text in (value, *errors))
    below = ", ".join(errors)
    return value + "*" * cell.stars, f"[{below}]" if len(errors) > 1 else f"({below})" if below else ""


def statistics(models: Sequence[ComparedModel]) -> list[Line]:
    """Return the lines about how the models were fitted and how well; each line applies to at least one model."""
    texts = {
        "response": [response_of(model.fit) for model in models],
        "family": [model.family for model in models],
        "standard errors": [errors_of(model.fit) for model in models],
        "absorbed factors": [", ".join(absorbed_factors(model.fit)) for model in models],
        "likelihood": ["Firth's, penalised" if model.fit.get("firth") else "" for model in models],
    }
    values = {
        name: [figure(model.fit, key) for model in models]
        for name, key in {**STATISTICS, "theta": "theta", "power": "power"}.items()
    }
    values |= {name: [model.metrics.get(key) for model in models] for name, key in HELD_OUT.items()}
    lines = [
        Line(name, "", tuple(Cell(printable(text)) for text in cells)) for name, cells in texts.items() if any(cells)
    ]
    return lines + [
        Line(name, "", tuple(Cell("" if value is None else float(value)) for value in cells))
        for name, cells in values.items()
        if any(value is not None for value in cells)
    ]


def errors_of(fit: Mapping) -> str:
    """The kind of standard errors, in a few words."""
    errors = fit.get("std_errors", {"kind": "none"})
    if errors["kind"] == "cluster":
        return f"by {errors['column']} ({errors['clusters']:,} clusters)"
    if "units" in errors:
        return f"survey by {errors['column']} ({errors['units']:,} units, {errors['strata'] or 1:,} strata)"
    if "lags" in errors:
        return f"{SERIAL[errors['kind']]} by {errors['column']} ({errors['lags']:,} lags)"
    return errors["kind"]


def absorbed_factors(fit: Mapping) -> list[str]:
    """The factors that have coefficients which no table shows."""
    return [each["factor"] for each in fit.get("absorbed", {}).get("factors", [])]


def notes(models: Sequence[ComparedModel], settings: TablesConfig, tests: pd.DataFrame) -> list[str]:
    below = "standard errors in parentheses" if settings.below == "std_error" else "confidence intervals in brackets"
    sentences = [f"Estimates, with {below}."]
    sentences += [
        f"{model.fit['model']} has not converged: it has no standard errors, and its estimates are not to be reported."
        for model in models
        if model.fit.get("exact") and not model.fit["converged"]
    ]
    if any(model.table is not None and "posterior_sd" in model.table for model in models):
        sentences.append("Say that penalised models have posterior standard deviations in parentheses.")
    if settings.stars:
        marks = (
            f"{'*' * number} p < {level:g}" for number, level in enumerate(sorted(settings.stars, reverse=True), 1)
        )
        sentences.append(f"{', '.join(marks)}.")
    sentences += [f"{model.name}: {model.fit['formula']}." for model in models]
    for model in models:
        left_out = model.fit.get("rows", 0) - (figure(model.fit, STATISTICS["n"]) or 0)
        if left_out:
            what = "separated, or alone in their level" if absorbed_factors(model.fit) else "separated"
            sentences.append(f"n of {model.name} does not count {left_out:,} rows that are {what}.")
    for test in tests[tests["problem"] == ""].to_dict("records"):
        sentences.append(
            f"Likelihood-ratio test of {test['model']} within {test['within']}: "
            f"χ²({test['df']}) = {fixed(test['chi_squared'], 2)}, {p_in_words(test['p_value'])}."
        )
    if len(models) > 1:
        problems = dict.fromkeys(tests["problem"][tests["problem"] != ""])
        sentences += [f"No likelihood-ratio test: {problem}." for problem in problems]
    return [printable(sentence) for sentence in sentences]
