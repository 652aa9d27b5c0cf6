"""The files of a model that pages and pictures show."""

from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from tfglm import digests
from tfglm.config import ResultsConfig
from tfglm.families import family_of_fit
from tfglm.families.family import Family
from tfglm.formula.response import Logarithm
from tfglm.report.class_effects import effect_and_ratio
from tfglm.report.pages import read_table
from tfglm.report.words import Words
from tfglm.results import csv_files
from tfglm.results.compare import response_of
from tfglm.results.geometric import logarithm_of


class ModelResults:
    """What pages and pictures show of the model in a folder; each file is read once. The settings are those of its tables."""

    def __init__(self, folder: Path, settings: ResultsConfig, words: Words, has_curves: bool = False) -> None:
        self.folder, self.settings, self.words, self.has_curves = folder, settings, words, has_curves
        self.path_of_fit = folder / "fit.json"

    @cached_property
    def fit(self) -> dict[str, Any]:
        """The content of fit.json."""
        return digests.read_json(self.path_of_fit)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The content of metrics.json."""
        return digests.read_json(self.folder / "metrics.json", fit=self.path_of_fit)

    @cached_property
    def coefficients(self) -> pd.DataFrame:
        """The table of coefficients, with the class before the name of a term."""
        return read_table(self.folder / "coefficients.csv", self.path_of_fit)

    @cached_property
    def averages(self) -> pd.DataFrame:
        """The average marginal effects; no rows where they were not computed."""
        if not self.settings.marginal_effects:
            return pd.DataFrame(columns=["term", "level", "estimate", "std_error", "p_value", "ci_lower", "ci_upper"])
        return self.table("marginal_effects")

    @cached_property
    def curves(self) -> pd.DataFrame:
        """The table of effects."""
        return self.table("effects")

    def table(self, name: str) -> pd.DataFrame:
        """Return a table by its name. Raises UserError as `csv_files.read` does."""
        return csv_files.read(self.folder / f"{name}.csv", self.path_of_fit)

    @cached_property
    def family(self) -> Family:
        return family_of_fit(self.fit)

    @property
    def response(self) -> str:
        return response_of(self.fit)

    @cached_property
    def logarithm(self) -> Logarithm | None:
        """What the response is the logarithm of, if it is one."""
        return logarithm_of(self.fit["formula"], self.fit["family"], self.fit.get("link"))

    @property
    def confidence(self) -> str:
        """That of the intervals, in percent."""
        return f"{100 * self.settings.confidence:g} %"

    @property
    def effect_and_ratio(self) -> tuple[str, str | None]:
        """Return the names of the coefficients, and of their ratio, if they have one."""
        return effect_and_ratio(self.fit)
