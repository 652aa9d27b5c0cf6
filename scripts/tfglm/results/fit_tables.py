"""The tables of a regression that its coefficients decide, by name. A table is a function of the fit and the settings."""

from collections.abc import Callable

import pandas as pd

from tfglm.config import ResultsConfig
from tfglm.results import coefficients
from tfglm.results.hypotheses import adjusted, hypotheses
from tfglm.results.joint import joint_tests
from tfglm.results.pairwise import pairwise
from tfglm.results.saved_fit import SavedFit
from tfglm.results.scenario_table import scenario_table

Table = Callable[[SavedFit, ResultsConfig], pd.DataFrame]


def _coefficients(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    finished = saved.fit["converged"] or not saved.fit["exact"]
    return coefficients.table(saved.estimates, settings.confidence, finished)


def _contrasts(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    table = coefficients.contrasts(saved.estimates, settings.contrasts, settings.confidence)
    return adjusted(table, settings.adjust)


def _instruments(saved: SavedFit, _: ResultsConfig) -> pd.DataFrame:
    stages = saved.fit["instruments"].get("first_stages", [])
    rows = [{"endogenous": stage["endogenous"], **row} for stage in stages for row in stage["coefficients"]]
    columns = ["endogenous", "term", "level", "reference", "estimate", "std_error", "p_value", "note"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[4:7], float))


def _margins_at(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    numbers = settings.confidence, settings.margins_contrasts, None, settings.comparison
    return scenario_table(saved.design, saved.fitted, saved.averaged, saved.reference, *numbers)


def _effects(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    from tfglm.data.dictionary import Dictionary  # slow to import, and few models have curves
    from tfglm.results.effects import curves
    from tfglm.results.event_study import with_paths

    given = saved.arguments
    dictionary = Dictionary.load(given.dictionary, saved.design.data, given.design)
    return with_paths(curves(saved.estimates, dictionary, settings.confidence), saved.estimates, settings.confidence)


def _event_study(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    from tfglm.results.event_study import event_study  # few models have one

    return event_study(saved.estimates, settings.confidence)


TABLES: dict[str, Table] = {
    "coefficients": _coefficients,
    "terms": lambda saved, _: joint_tests(
        saved.estimates, saved.fit["likelihood_ratio_tests"], saved.fit.get("smooths", ())
    ),
    "contrasts": _contrasts,
    "hypotheses": lambda saved, settings: adjusted(hypotheses(saved.estimates, settings.hypotheses), settings.adjust),
    "pairwise": lambda saved, settings: pairwise(
        saved.estimates, settings.pairwise, settings.confidence, settings.pairwise_at
    ),
    "profile": lambda saved, _: pd.DataFrame(saved.fit["profile"]),
    # Without rows held out, the columns about them are empty.
    "path": lambda saved, _: pd.DataFrame(saved.fit["path"]).dropna(axis=1, how="all"),
    "instruments": _instruments,
    "vcov": lambda saved, _: coefficients.covariance_table(saved.estimates).rename_axis("").reset_index(),
    "marginal_effects": lambda saved, _: saved.margins.effects,
    "adjusted_means": lambda saved, _: saved.margins.means,
    "margins_at": _margins_at,
    "effects": _effects,
    "event_study": _event_study,
}
"""The tables by the name of the file without `.csv`."""

MARGINAL = ("marginal_effects", "adjusted_means", "margins_at")
"""Those that need the averages of the training rows."""
