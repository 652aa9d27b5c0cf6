"""The tables of a regression that its coefficients decide, by name. A table is a function of the fit and the settings."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import pandas as pd

from tfglm.config import ResultsConfig
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.results import coefficients, read
from tfglm.results.estimates import Estimates
from tfglm.results.hypotheses import adjusted, hypotheses
from tfglm.results.joint import joint_tests
from tfglm.results.marginal_tables import Averaged, Margins, marginal_tables
from tfglm.results.pairwise import pairwise
from tfglm.results.scenario_table import scenario_table
from tfglm.solvers.fitted import Fitted


class SavedFit:
    """A fit as its files have it. Each file is read once, when a table first needs it; all tables share what is computed from it.

    Parameters
    ----------
    arguments
        Those of `write_tables.py`.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments

    @cached_property
    def fit(self) -> dict[str, Any]:
        """The content of fit.json."""
        return read.fit(self.arguments)

    @cached_property
    def design(self) -> Design:
        return read.fitted_design(self.arguments, self.fit)

    @cached_property
    def fitted(self) -> Fitted:
        return replace(read.fitted(self.arguments, self.design, self.fit), summary=self.fit)

    @cached_property
    def estimates(self) -> Estimates:
        return read.estimates_of(self.arguments, self.design, self.fitted, self.fit)

    @cached_property
    def margins(self) -> Margins:
        """Average marginal effects and adjusted means."""
        given = self.arguments
        numbers = self.fit["df_residual"], given.settings.confidence
        return marginal_tables(self.design, self.fitted, self.averaged, read.reference(given), *numbers)

    @cached_property
    def averaged(self) -> Averaged:
        """What evaluate.py has averaged."""
        return Averaged.read(self.arguments.averages, self.arguments.fit)

    @cached_property
    def files(self) -> list[IngestedFile]:
        return [IngestedFile.load(manifest) for manifest in self.arguments.manifests]


Table = Callable[[SavedFit, ResultsConfig], pd.DataFrame]


def _coefficients(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    finished = saved.fit["converged"] or not saved.fit["exact"]
    return coefficients.table(saved.estimates, settings.confidence, finished)


def _terms(saved: SavedFit, _: ResultsConfig) -> pd.DataFrame:
    return joint_tests(saved.estimates, saved.fit["likelihood_ratio_tests"], saved.fit.get("smooths", ()))


def _contrasts(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    table = coefficients.contrasts(saved.estimates, settings.contrasts, settings.confidence)
    return adjusted(table, settings.adjust)


def _hypotheses(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    return adjusted(hypotheses(saved.estimates, settings.hypotheses), settings.adjust)


def _pairwise(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    return pairwise(saved.estimates, settings.pairwise, settings.confidence, settings.pairwise_at)


def _profile(saved: SavedFit, _: ResultsConfig) -> pd.DataFrame:
    return pd.DataFrame(saved.fit["profile"])


def _path(saved: SavedFit, _: ResultsConfig) -> pd.DataFrame:
    # Without rows held out, the columns about them are empty.
    return pd.DataFrame(saved.fit["path"]).dropna(axis=1, how="all")


def _vcov(saved: SavedFit, _: ResultsConfig) -> pd.DataFrame:
    return coefficients.covariance_table(saved.estimates).rename_axis("").reset_index()


def _marginal_effects(saved: SavedFit, _: ResultsConfig) -> pd.DataFrame:
    return saved.margins.effects


def _adjusted_means(saved: SavedFit, _: ResultsConfig) -> pd.DataFrame:
    return saved.margins.means


def _margins_at(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    numbers = saved.fit["df_residual"], settings.confidence, settings.margins_contrasts
    return scenario_table(saved.design, saved.fitted, saved.averaged, read.reference(saved.arguments), *numbers)


def _effects(saved: SavedFit, settings: ResultsConfig) -> pd.DataFrame:
    from tfglm.data.dictionary import Dictionary  # slow to import, and few models have curves
    from tfglm.results.effects import curves

    given = saved.arguments
    dictionary = Dictionary.load(given.dictionary, saved.design.data, given.design)
    return curves(saved.estimates, dictionary, settings.confidence)


TABLES: dict[str, Table] = {
    "coefficients": _coefficients,
    "terms": _terms,
    "contrasts": _contrasts,
    "hypotheses": _hypotheses,
    "pairwise": _pairwise,
    "profile": _profile,
    "path": _path,
    "vcov": _vcov,
    "marginal_effects": _marginal_effects,
    "adjusted_means": _adjusted_means,
    "margins_at": _margins_at,
    "effects": _effects,
}
"""The tables by the name of the file without `.csv`."""

MARGINAL = ("marginal_effects", "adjusted_means", "margins_at")
"""Those that need the averages of the training rows."""
