"""The page to open first: what was fitted on what, the effects in words, how well and how surely, and where the rest is."""

import argparse
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from math import inf, isinf
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from tfglm import digests
from tfglm.config import ResultsConfig
from tfglm.errors import UserError, counted
from tfglm.formula.names import without_class
from tfglm.formula.parse import term_of
from tfglm.formula.read import columns_of, has_event_study
from tfglm.formula.response import requested_frequency
from tfglm.formula.terms import EventStudy
from tfglm.report import quality
from tfglm.report.circumstances import circumstances
from tfglm.report.class_effects import (
    classes_compared,
    compares_classes,
    sentences_by_class,
    sentences_of_order,
    with_labels_of_classes,
)
from tfglm.report.drawn_means import DrawnMeans, by_factor, means_by_class, means_of_factor
from tfglm.report.embedded import panels
from tfglm.report.layer_graph import layer_graph
from tfglm.report.lead import lead_effects, limits
from tfglm.report.model_results import ModelResults
from tfglm.report.pages import render, tests_as_text
from tfglm.report.pairs import Pairs, pairs_of
from tfglm.report.scenarios import Scenarios, scenarios_of
from tfglm.report.sentences import ModelFacts, TermSentences, effect_sentences, slopes
from tfglm.report.strongest import Effects, short_table, shown_effects, strongest_effects
from tfglm.report.words import Words
from tfglm.results import verdicts
from tfglm.results.accuracy import NO_ROWS, convergence, errors
from tfglm.results.compare import family_words
from tfglm.results.digits import fixed, p_in_words, p_value, percent
from tfglm.results.paper import absorbed_factors, errors_of

NAMES = {
    "coefficients.html": "all coefficients",
    "metrics.html": "how well it predicts",
    "coefficients.svg": "coefficients, picture",
    "effects.svg": "effects of numbers, picture",
    "ranked.svg": "levels by size, picture",
    "metrics.svg": "how well it predicts, picture",
    "history.svg": "how the fit went, picture",
    "columns.html": "The data",
    "diagnostics.html": "diagnostics",
    "contrasts.html": "contrasts",
    "hypotheses.html": "hypotheses",
    "rows.html": "Rows accounted for",
    "compare.html": "Models side by side",
}
"""What links to pages and files are called; others have their own name."""


def page(arguments: argparse.Namespace) -> str:
    """Return the page, from the options of `write_pages.py home`."""
    account = digests.read_json(arguments.rows, needs=["data", "read", "dropped", "splits"])
    fits = [digests.read_json(folder / "fit.json") for folder in arguments.models]
    for folder, fit in zip(arguments.models, fits, strict=True):
        digests.check_rows(fit, account["data"], arguments.rows, folder / "fit.json")
    dictionary = digests.read_json(arguments.dictionary, needs=["columns", "data"])
    if dictionary["data"] != account["data"]:
        raise digests.made_from_another("set of rows", arguments.dictionary, arguments.rows)
    columns, folder_of_page = dictionary["columns"], arguments.page.parent
    words = Words.from_json(arguments.words, columns)
    models = []
    for folder, fit in zip(arguments.models, fits, strict=True):
        settings = arguments.settings.get(fit["model"], ResultsConfig())
        model = ModelResults(folder, settings, words, has_curves=folder / "effects.svg" in arguments.pages)
        shown = {
            "folder": address(folder, folder_of_page),
            "pages": links([path for path in arguments.pages if path.parent == folder], folder_of_page),
            "circumstances": circumstances(fit, account, columns),
        }
        models.append(shown | model_content(model, model.metrics if arguments.held_out else {}))
    return render(
        "home",
        title=f"Results: {', '.join(fit['model'] for fit in fits)}" if len(fits) <= MOST_IN_TITLE else "Results",
        own=own_names(columns, words),
        data=data(account),
        models=models,
        pages=links([path for path in arguments.pages if path.parent not in arguments.models], folder_of_page),
        command=arguments.command,
        **provenance(fits),
    )


MOST_IN_TITLE = 3


def settings_by_model(text: str) -> dict[str, ResultsConfig]:
    return {name: ResultsConfig.model_validate(section) for name, section in json.loads(text).items()}


def own_names(columns: Mapping[str, Mapping[str, Any]], words: Words) -> Iterator[str]:
    """The user's words: columns, levels and their labels."""
    yield from columns
    yield from words.names.values()
    yield from chain.from_iterable(labels.values() for labels in words.labels.values())
    for column in columns.values():
        yield from (column["levels"] or []) if column["kind"] == "text" else []


def links(paths: list[Path], folder: Path) -> list[dict]:
    """Pages, pictures and tables, in this order, with their addresses on a page in `folder`."""
    paths = sorted(paths, key=lambda path: (".html", ".svg", ".csv").index(path.suffix))
    return [{"name": NAMES.get(path.name, path.name), "address": address(path, folder)} for path in paths]


def address(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def data(rows: dict) -> str:
    """What the rows are."""
    used = {split: account["used"] for split, account in rows["splits"].items() if account["used"]}
    uses = {"train": "to fit the models", "evaluate": "kept back to evaluate them", "predict": "only to predict"}
    shares = ", ".join(f"{count:,} {uses[split]}" for split, count in used.items())
    left = rows["read"] - sum(used.values())
    others = (
        f"{left:,} left out, each for a reason that the page “rows accounted for” gives" if left else "none left out"
    )
    text = f"{counted(len(rows['files']), 'input file')} with {counted(rows['read'], 'row')}: {shares}, and {others}."
    fewer = " A model with a `subset` has only some of these rows, which “What shapes this fit” counts."
    return text + (fewer if rows.get("subsets") else "")


def model_content(model: ModelResults, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """What the page has of a model: the part of each name in the template."""
    unit, explained = (
        model.words.units.get(model.response),
        model.fit.get("r_squared", model.fit.get("pseudo_r_squared")),
    )
    parts = NETWORK if model.fit.get("kind") == "network" else REGRESSION
    measures = quality.measures(metrics, model.response, unit)
    skill = quality.skill(measures, metrics.get("rows", 0))
    deviance = (
        "" if explained is None else f"The model explains {percent(explained)} of the deviance of the training rows. "
    )
    return {
        "fit": model.fit,
        "response": model.words.column(model.response),
        "column": model.response,
        "unit": unit,
        "measures": measures,
        "checks": shown_checks(model, metrics),
        "skill": skill,
        "how_well": f"{deviance}{skill}",
        "explained": "" if explained is None or parts is NETWORK else percent(explained),
        **{name: part(model) for name, part in parts.items()},
    }


def shown_checks(model: ModelResults, metrics: Mapping[str, Any]) -> list[verdicts.Check]:
    """The checks of a model, the gravest first. Calibration is that of the rows kept back, if there are some."""
    held_out, found = [] if "instruments" in model.fit else verdicts.held_out_calibration(metrics), []
    if model.fit.get("kind") != "network":
        content = digests.read_json(model.folder / "checks.json", fit=model.path_of_fit)["checks"]
        found = [verdicts.Check(**each) for each in content if not (held_out and each["check"] == "calibration")]
    return sorted([*found, *held_out], key=lambda each: verdicts.VERDICTS.index(each.verdict))


def how_fitted(model: ModelResults) -> str:
    """Say how the model was fitted: absorbed factors, Firth's penalty, and the compared classes."""
    fit, factors = model.fit, absorbed_factors(model.fit)
    how = [f"{' and '.join(factors)} absorbed"] if factors else []
    how += ["by two-stage least squares"] if "instruments" in fit else []
    how += ["by Firth's penalised likelihood"] if fit.get("firth") else []
    how += ["random effects by maximum likelihood"] if "marginal_log_likelihood" in fit else []
    how += [classes_compared(fit, model.words)] if fit.get("classes") else []
    return "".join(f", {each}" for each in how)


def quotation(model: ModelResults, term: str, level: str, step: float | None = None) -> str:
    """The effect of a level against the reference level, or of a number, as a sentence for a text.

    Raises UserError, which begins with the term, if there is none.
    """
    found = effects(model, replace(sentence_facts(model), level=level, step=step))
    columns = term_of(term).columns
    named = [each for each in found if each.term == term] or [
        each for each in found if term_of(each.term).columns == columns and len(columns) == 1
    ]
    sentences = [sentence.removesuffix(".") for each in named for sentence in each.sentences]
    if not sentences:
        because = next((each.because for each in named if each.because), "the fit has no tests of it")
        raise UserError(f"{term}: there is no sentence about it, as {because}")
    return f"{'. '.join(sentences)}; {basis(model)}."


def basis(model: ModelResults) -> str:
    """What the intervals in sentences rest on."""
    errors = errors_of(model.fit)
    errors = f"standard errors {errors}" if errors.startswith("by ") else f"{errors} standard errors"
    return f"{model.confidence} confidence, {errors}"


def effects(model: ModelResults, facts: ModelFacts | None = None) -> list[TermSentences]:
    """The effects in sentences, from the table of coefficients and the average marginal effects."""
    fit, response, facts = model.fit, model.response, facts or sentence_facts(model)
    if fit.get("ordered"):
        return sentences_of_order(model.coefficients, model.averages, facts, response, fit["classes"])
    if fit.get("classes"):
        by_class = model.table("coefficients")
        return sentences_by_class(by_class, model.averages, facts, response, fit["reference_class"])
    return effect_sentences(model.coefficients, facts)


def sentence_facts(model: ModelResults) -> ModelFacts:
    """Return the facts about a regression that its sentences need."""
    fit, family = model.fit, model.family
    return ModelFacts(
        model.words.column(model.response),
        model.words.units.get(model.response),
        family.ratio.removesuffix("_ratio") if family.ratio else None,
        fit.get("sigma") or 1.0,
        model.words,
        slopes(model.averages),
        {each["term"] for near in fit.get("nearly_aliased", []) for each in (near, *near.get("with", ()))},
        family.counts_events or bool(fit.get("classes")),
        family.ratio is None and not family.quadratic,
        model.logarithm,
        steps={without_class(term): step for term, step in steps(model).items()},
    )


def labelled_coefficients(model: ModelResults) -> pd.DataFrame:
    """The table of coefficients with the labels of classes."""
    if compares_classes(model.fit):
        return with_labels_of_classes(model.coefficients, model.response, model.words)
    return model.coefficients


def drawn_effects(model: ModelResults) -> Effects | None:
    """The strongest effects on one axis."""
    measure, ratio = model.effect_and_ratio
    ratio = "ratio of geometric means" if model.logarithm else ratio
    return strongest_effects(labelled_coefficients(model), measure, ratio, *scale_of_effects(model))


def scale_of_effects(model: ModelResults) -> tuple[float, Words, pd.DataFrame | None]:
    """What a coefficient is multiplied by, the words, and average effects in the place of coefficients."""
    # The mean is the linear predictor: an average effect has the scale of a coefficient.
    alike = model.averages if model.family.quadratic and not model.family.ratio else None
    return model.logarithm.rate if model.logarithm else 1.0, model.words, alike


def steps(model: ModelResults) -> dict[str, float]:
    """For how much more of a number the page shows its effect, by term."""
    return shown_effects(labelled_coefficients(model), *scale_of_effects(model))[2]


def scale_of_means(model: ModelResults) -> str:
    """Say that the means of a logarithm are geometric means; '' of any other response."""
    if not model.logarithm:
        return ""
    return (
        f" Means of {model.response} are shown as geometric means of {model.logarithm.quantity}, and their differences as "
        "ratios."
    )


def what_means(model: ModelResults) -> str:
    """Say what adjusted means are, and which offset they have."""
    settings, offset = model.settings, model.fit["provenance"]["model"].get("offset")
    if not offset:
        return WHAT_MEANS[settings.adjusted_means]
    if settings.offset_at is None:
        return f"{WHAT_MEANS[settings.adjusted_means]} Each row has its own offset, {offset}."
    at = f"{' and '.join(columns_of(offset))} = {settings.offset_at:g}"
    return f"{WHAT_MEANS[settings.adjusted_means]} The offset is that of {at}."


def population_in_words(model: ModelResults) -> str:
    """Say what averages are about beside random effects, and their errors beside absorbed factors; '' without either."""
    absorbed = " and ".join(model.words.column(factor) for factor in absorbed_factors(model.fit))
    if absorbed and model.settings.marginal_effects:
        return f" Standard errors of averages include those of the effects of {absorbed}."
    random = [term_of(smooth["term"]) for smooth in model.fit.get("smooths", []) if smooth["is_random"]]
    names = " and ".join(dict.fromkeys(model.words.column(term.columns[0]) for term in random))
    if not names:
        return ""
    if model.family.quadratic:
        return f" Averages are about the population of {names}, not about its levels in these rows."
    if model.settings.random_effects == "integrated":
        return (
            f" Averages are over the normal distribution of the random effects of {names}; coefficients compare rows with the "
            "same random effects."
        )
    return (
        f" Random effects of {names} are at 0: averages are those of a typical level, not the mean over all levels of the "
        "population, which random_effects: integrated gives."
    )


WHAT_MEANS = {
    "observed": "The mean prediction if all training rows had the level and kept their other covariates.",
    "balanced": "The prediction for a balanced grid: all combinations of the other factors count equally, whatever "
    "their number of rows; numbers are at their means, and linear predictors are averaged, as in R's emmeans.",
}
"""The text about adjusted means, by the key of the config."""


def adjusted_means(model: ModelResults) -> list[DrawnMeans]:
    """The adjusted means of each factor of a model, drawn and as tables; none where they were not computed."""
    if not model.settings.marginal_effects:
        return []
    table = model.table("adjusted_means")
    if "class" in table:
        return means_by_class(table, model.response, model.words)
    is_share = model.family.counts_events
    return [means_of_factor(str(term), rows, is_share, model.words) for term, rows in by_factor(table)]


def pairs(model: ModelResults) -> list[Pairs]:
    """All pairs of levels of the factors that the config names."""
    if not model.settings.pairwise:
        return []
    effect, ratio = model.effect_and_ratio
    rate = 1.0 if ratio else None
    if model.logarithm:
        ratio, rate = "ratio of geometric means", model.logarithm.rate
    measure = (ratio or effect).replace("_", " ")
    return list(pairs_of(model.table("pairwise"), measure, rate, model.response, model.words))


def curves(model: ModelResults) -> list[str] | None:
    """The shapes of the curves of a model in words; None without curves."""
    if not model.has_curves:
        return None
    from tfglm.report import shapes  # imports matplotlib, which a page without curves does not need

    studies = model.table("event_study") if has_event_study(model.fit["formula"]) else None
    return shapes.shapes_of(model.fit, model.curves, model.words, studies)


def curves_by_column(model: ModelResults) -> dict[str, str]:
    """The shape of the only curve of a column in words; a column with several, or without a clear one, is left out."""
    factors = chain.from_iterable(term_of(str(term)).factors for term in model.coefficients["term"].unique())
    labels = {
        factor.name if isinstance(factor, EventStudy) else model.words.column(factor.columns[0]): factor.columns[0]
        for factor in factors
        if factor.is_curve
    }
    said = [(shape.partition(":")[0], shape) for shape in curves(model) or []]
    return {labels[name]: shape for name, shape in said if name in labels and "no clear change" not in shape}


def parallel_slopes(model: ModelResults) -> tuple[str, pd.DataFrame] | None:
    """What the tests of parallel slopes of ordered classes say: a sentence, and the test of each term."""
    tested = model.fit.get("parallel_slopes", {}).get("tests")
    if not tested:
        return None
    every, *of_terms = tested
    what = "The odds are proportional" if model.fit["link"] == "logit" else "Slopes are parallel"
    said = f"{what} if each term has the same slope at each boundary between classes. "
    if every["p_value"] is None:
        said += "There is no test of all terms together, as some levels have too few rows of some classes."
    else:
        said += f"Score test of this: chi-squared {fixed(every['chi_squared'], 1)}, {every['df']} degrees of freedom, "
        said += f"{p_in_words(every['p_value'])}."
    tests = pd.DataFrame(of_terms).astype({"chi_squared": float, "p_value": float})
    return said, tests_as_text({"term": tests["term"].map(model.words.term)}, tests)


def scenarios(model: ModelResults) -> Scenarios | None:
    """The means and effects in scenarios, if the config has some."""
    if not model.settings.margins_at:
        return None
    rows, is_share = model.fit["rows_in_likelihood"], model.family.counts_events
    return scenarios_of(
        model.table("margins_at"), model.settings.margins_at, rows, model.response, is_share, model.words
    )


def parts_of_network(model: ModelResults) -> list[str]:
    """What a network consists of."""
    layers = model.fit["layers"]
    hidden, filters = (", ".join(f"{number:,}" for number in layers[key]) for key in ("hidden", "convolutions"))
    kernel, offset = layers["kernel"], layers["offset_from"]
    precision = " in bfloat16" if layers.get("precision") == "mixed_bfloat16" else ""
    parts = [f"convolutions with {filters} filters of {kernel} x {kernel} pixels"] if filters else []
    parts += [f"hidden layers of {hidden} units ({layers['activation']}){precision}"] if hidden else []
    parts += [f"the layers of {layers['model']}{precision}"] if layers["model"] else []
    parts += ["a coefficient for each level and number"] if layers["wide"] or not parts else []
    return parts + ([f"the linear predictor of {offset}"] if offset else [])


def layers_table(summary: list[dict]) -> pd.DataFrame:
    """The layers of a network as a reader wants them."""
    return pd.DataFrame(
        {
            "layer": [layer["name"] for layer in summary],
            "kind": [layer["kind"] for layer in summary],
            "output": [" x ".join(str(size) for size in layer["output"]) for layer in summary],
            "weights": [f"{layer['parameters']:,}" for layer in summary],
        }
    )


def joint_tests(model: ModelResults) -> tuple[pd.DataFrame | None, list[str]]:
    """The joint tests with what there is to say of each; if there are none and one reason for it, no table but that reason."""
    table = model.table("terms")
    notes = table["note"].unique().tolist()
    if table["p_value"].isna().all() and len(notes) <= 1:
        return None, notes
    return tests_as_text({"term": table["term"].map(model.words.term)}, table), []


def accepted_in_words(tested: Mapping[str, Any], endogenous: str) -> str:
    """The confidence set of Anderson and Rubin; '' without one."""
    if "set" not in tested:
        return ""
    ends = [(-inf if lower is None else lower, inf if upper is None else upper) for lower, upper in tested["set"]]
    intervals = [f"{lower:.3g} to {upper:.3g}".replace("-", "−").replace("inf", "∞") for lower, upper in ends]
    found = " and ".join(intervals) or "empty: the instruments or the model are wrong"
    weak = ": the instruments are too weak to say more" if any(map(isinf, chain(*ends))) else ""
    share = f"{100 * tested['confidence']:g} %"
    return f" Valid with weak instruments too: the {share} confidence set of {endogenous} (Anderson-Rubin) is {found}{weak}."


def instrument_tests(model: ModelResults) -> tuple[str, pd.DataFrame] | None:
    """What the instruments are, and a table of their tests; None without instruments."""
    found = model.fit.get("instruments")
    if not found:
        return None
    endogenous, names = (" and ".join(map(model.words.term, found[key])) for key in ("endogenous", "instruments"))
    stages, single = found.get("first_stages", []), len(found["endogenous"]) == 1
    rows = [(f"instruments have no effect on {each['endogenous']}: F", each["instruments"]) for each in stages]
    rows += [
        (f"their effective F, for little bias above {each['effective_F_critical']:.3g}", {"F": each["effective_F"]})
        for each in stages
        if each.get("effective_F")
    ]
    if under := found.get("underidentification"):
        rows += [(f"the instruments do not identify {endogenous} ({under['test']}): χ²", under)]
    if found.get("kleibergen_paap") and not single:
        rows += [("strength of all instruments together (Kleibergen-Paap): F", {"F": found["kleibergen_paap"]})]
    if stages:
        rows += [(f"{endogenous} {'is' if single else 'are'} exogenous (Wu-Hausman): F", found["wu_hausman"])]
    if over := found.get("overidentification"):
        rows += [(f"the instruments agree ({over['test']}): χ²", over)]
    if tested := found.get("anderson_rubin"):
        rows += [(f"{endogenous} {'has' if single else 'have'} no effect (Anderson-Rubin): F", tested)]
    texts = [
        (what, fixed(test.get("F", test.get("statistic")), 2), test.get("df", ""), p_value(test.get("p_value")))
        for what, test in rows
    ]
    notes = [test.get("note", "") for _, test in rows]
    table = pd.DataFrame(texts, columns=["", "statistic", "df", "p"]).assign(note=notes)
    said = (
        f"Endogenous: {endogenous}. Instruments: {names}. The coefficients of the first stage are in instruments.csv."
        f"{accepted_in_words(found.get('anderson_rubin', {}), endogenous)}"
    )
    return said, table if table["note"].any() else table.drop(columns="note")


LISTED = 20

WITHOUT_ESTIMATE = {
    "separated": "Without a finite estimate, because all rows have the same outcome (separated)",
    "not identified": "Not identified, because only rows that terms separate together determine them",
    "aliased": "Aliased: a combination of other columns, so without a coefficient of their own",
}
"""Why a coefficient with this status has no estimate."""


def without_estimate(table: pd.DataFrame) -> list[str]:
    """Sentences about the coefficients that have no estimate, and why."""
    sentences = []
    for status, reason in WITHOUT_ESTIMATE.items():
        names = [
            f"{row.term} {row.level}".strip() + (alias_text(row.aliased_with) if status == "aliased" else "")
            for row in table[table["status"] == status].itertuples()
        ]
        more = f"; and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
        sentences += [f"{reason}: {'; '.join(names[:LISTED])}{more}."] if names else []
    return sentences


def alias_text(columns: str) -> str:
    """Say in brackets what an aliased coefficient is a combination of; absorbed factors have no columns to name."""
    return f" ({columns if columns == NO_ROWS else f'= {columns}'})" if columns else ""


def provenance(fits: list[dict]) -> dict:
    """Return the facts needed to reproduce the numbers, by model; all models have the same data."""
    provenances = {fit["model"]: fit["provenance"] for fit in fits}
    first = next(iter(provenances.values()))
    data = dict(first["data"])
    models = {name: dict(provenance["model"]) for name, provenance in provenances.items()}
    own: set[str] = set()  # columns that stand for the subsets of models, which the user wrote otherwise
    for model in models.values():
        frequency = requested_frequency(model, data.get("derive", {}))
        if frequency != model.get("frequency"):
            own.add(model.pop("frequency"))
            model |= {"frequency": frequency} if frequency else {}
    if own:
        data["columns"] = [name for name in data["columns"] if name not in own]
        derive = {name: sql for name, sql in data.pop("derive").items() if name not in own}
        data |= {"derive": derive} if derive else {}
    config = {"data": data, "models": models}
    return {
        "inputs": pd.DataFrame(first["inputs"]).assign(rows=lambda inputs: inputs["rows"].map("{:,}".format)),
        "versions": ", ".join(f"{name} {version}" for name, version in first["versions"].items()),
        "by_chance": [fit["model"] for fit in fits if "online" in fit and not fit["online"]["synchronous"]],
        "config": yaml.safe_dump(config, sort_keys=False),
    }


REGRESSION: dict[str, Callable[[ModelResults], Any]] = {
    "is_network": lambda model: False,
    "kind": lambda model: family_words(model.fit, "regression"),
    "regression": lambda model: model.family.regression,
    "fitted": how_fitted,
    "effects": effects,
    "basis": basis,
    "lead": lambda model: lead_effects(effects(model), model.table("terms"), curves_by_column(model)),
    "limits": lambda model: limits(model.fit, model.table("terms")),
    "curves": curves,
    "curves_drawn": lambda model: panels(model.folder / "effects.svg") if model.has_curves else [],
    "drawn": drawn_effects,
    "short": lambda model: short_table(
        labelled_coefficients(model), model.fit.get("df_residual"), model.words, steps(model)
    ),
    "errors": lambda model: errors(model.fit),
    "convergence": lambda model: re.sub(r"(?<=\de)-", "\u2011", convergence(model.fit)),  # 1e-12 is one word
    "tests": joint_tests,
    "parallel": parallel_slopes,
    "instruments": instrument_tests,
    "without_estimate": lambda model: without_estimate(model.coefficients),
    "means": adjusted_means,
    "what_means": what_means,
    "scale": scale_of_means,
    "population": population_in_words,
    "pairs": pairs,
    "scenarios": scenarios,
    "confidence": lambda model: model.settings.confidence,
}
"""The parts of the page about a regression, by their names in the template; None or empty where a model has no such part."""

NETWORK: dict[str, Callable[[ModelResults], Any]] = {
    "is_network": lambda model: True,
    "lead": lambda model: [],
    "limits": lambda model: ["A network has no standard errors."],
    "kind": lambda model: f"{model.fit['family']} network",
    "parts": parts_of_network,
    "layers": lambda model: layers_table(model.fit["summary"]),
    "picture": lambda model: layer_graph(
        model.fit["summary"], f"Layers of {model.fit['model']}, from the inputs to the output"
    ),
    "chosen": lambda model: model.fit.get("epoch_of_smallest_loss") if model.fit["weights_by_held_out_loss"] else None,
}
"""Those about a network."""
