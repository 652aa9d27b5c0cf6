"""The tables, pictures and evaluations of each model. Models with the same files share a variant of a rule."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from tfglm.config import ModelConfig, NetworkConfig
from tfglm.config.families import compares_classes
from tfglm.config.models import covariates_of
from tfglm.formula.read import has_curves, has_event_study
from tfglm.workflow.values import ANY_MODEL, any_but, one_of

MARGINAL_TABLES = ("marginal_effects", "adjusted_means")
AVERAGED_TABLES = (*MARGINAL_TABLES, "margins_at")
USUAL_TABLES = ("coefficients", "terms", *MARGINAL_TABLES)
OPTIONAL_TABLES = ("pairwise", "margins_at", "profile", "path", "instruments", "vcov")
"""Those that a regression has if its section says so."""
REFUSABLE_TABLES = ("contrasts", "hypotheses")
"""Only the fit shows whether the coefficients that these tables name have estimates, so they may be refused. Each has a job of
its own, which comes after the other tables and does not take them with it."""
TABLES_ALONE = (*OPTIONAL_TABLES, *REFUSABLE_TABLES, *MARGINAL_TABLES, "effects", "event_study")
"""The tables that a job of its own can write."""
SEALED_TABLES = ("coefficients", "terms", "effects", "event_study", "embeddings", "pairwise", *AVERAGED_TABLES)
"""The tables that pages read, which have a digest."""

KEYS_OF_TABLES = {
    "coefficients": ["confidence"],
    "contrasts": ["adjust", "confidence", "contrasts"],
    "hypotheses": ["adjust", "hypotheses"],
    "pairwise": ["confidence", "pairwise", "pairwise_at"],
    "margins_at": ["comparison", "confidence", "margins_contrasts"],
    "effects": ["confidence"],
    "event_study": ["confidence"],
    "marginal_effects": ["adjusted_means", "comparison", "confidence"],
    "adjusted_means": ["adjusted_means", "confidence"],
}
"""The keys of the config that a table depends on."""

PAGES = ("coefficients", "metrics")
"""The pictures with a page."""

AVERAGES = ("averages.npz", "averages.sha256")
"""Files from another reading of the rows of a regression."""


@dataclass(frozen=True)
class PlannedModel:
    """A model of the config. `is_evaluated` says whether rows are kept back; `images` are the columns of images."""

    name: str
    settings: ModelConfig | NetworkConfig
    is_evaluated: bool
    images: frozenset[str]

    @cached_property
    def regression(self) -> ModelConfig | None:
        return self.settings if isinstance(self.settings, ModelConfig) else None

    @cached_property
    def network(self) -> NetworkConfig | None:
        return self.settings if isinstance(self.settings, NetworkConfig) else None

    @cached_property
    def is_curved(self) -> bool:
        """Whether it is a regression with curves of numbers; regressions of classes have none."""
        return (
            bool(self.regression) and not compares_classes(self.settings.family) and has_curves(self.settings.formula)
        )

    @cached_property
    def has_coefficients(self) -> bool:
        """Whether it has the coefficients of a regression; networks for classes have not."""
        network = self.network
        return not (network and (network.is_deep or network.offset_from or compares_classes(network.family)))

    @cached_property
    def has_embeddings(self) -> bool:
        """Whether hidden layers may embed a factor: images are none."""
        return bool(self.network and self.network.hidden and not self.images.issuperset(covariates_of(self.network)))

    @cached_property
    def evaluations(self) -> tuple[str, ...]:
        """The files that one job makes of the rows."""
        metrics = [*(["metrics.json"] * self.is_evaluated), *(["metrics_by.csv"] * self.has_groups)]
        checks = ["checks.json"] * bool(self.regression)
        return (*metrics, *checks, *(AVERAGES if self.regression and self.regression.marginal_effects else ()))

    @property
    def has_groups(self) -> bool:
        return self.is_evaluated and bool(self.settings.by)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that one job writes."""
        if not self.regression:
            asked = {"coefficients": self.has_coefficients, "embeddings": self.has_embeddings}
        else:
            asked = dict.fromkeys(USUAL_TABLES, True) | dict.fromkeys(MARGINAL_TABLES, self.regression.marginal_effects)
            asked |= {table: bool(getattr(self.regression, table)) for table in OPTIONAL_TABLES}
            asked |= {"effects": self.is_curved, "event_study": has_event_study(self.settings.formula)}
        return tuple(table for table, has in asked.items() if has)

    @cached_property
    def refusable_tables(self) -> list[str]:
        """The tables that its section asks for and that a fit may refuse."""
        return [table for table in REFUSABLE_TABLES if getattr(self.regression, table, None)]

    @cached_property
    def pictures(self) -> tuple[str, ...]:
        """The pictures that one job draws."""
        asked = {
            "history": True,
            "coefficients": bool(self.regression),
            "metrics": self.is_evaluated,
            "metrics_by": self.has_groups,
            "path": bool(self.regression and self.regression.path),
            "effects": self.is_curved,
            "embeddings": self.has_embeddings,
        }
        return tuple(picture for picture, has in asked.items() if has)

    @cached_property
    def targets(self) -> list[str]:
        """The files of `rule all`, but fit.json and files of predictions."""
        shown = [table for table in self.tables if table not in ("effects", "embeddings", "adjusted_means")]
        files = [
            *(f"{picture}.svg" for picture in self.pictures),
            *(f"{picture}.html" for picture in self.pictures if picture in PAGES),
            *(f"{table}.csv" for table in [*shown, *self.refusable_tables]),
            *(f"{table}.html" for table in self.refusable_tables),
            *(name for name in self.evaluations if name not in AVERAGES),
        ]
        return [*files, *(["diagnostics.html"] if self.regression and self.regression.diagnostics else [])]

    @cached_property
    def files_beside(self) -> list[str]:
        """The files that its jobs make beside these."""
        files = ["design.json", *self.evaluations, *(f"{table}.sha256" for table in self.refusable_tables)]
        files += ["reference.json"] if self.regression else []
        files += ["diagnostics.svg"] if self.regression and self.regression.diagnostics else []
        return [*files, *(["saved_model"] if self.settings.export else [])]


def files_of_tables(tables: Sequence[str], is_network: bool = False) -> list[str]:
    """Return the files of some tables. The coefficients of a regression exist as Parquet too."""
    return [
        f"{table}{kind}"
        for table in tables
        for kind, has in {
            ".csv": True,
            ".parquet": table == "coefficients" and not is_network,
            ".sha256": table in SEALED_TABLES,
        }.items()
        if has
    ]


class Variant(NamedTuple):
    """What a stage does for the models with the same files. `models` is a pattern of their names."""

    name: str
    models: str
    files: tuple[str, ...]
    of_networks: bool


FilesOf = Callable[[PlannedModel], Sequence[str]]


def variants(
    stage: str, models: Mapping[str, PlannedModel], files_of: FilesOf, usual: Sequence[str]
) -> Iterator[Variant]:
    """Return the variants of a stage. Snakemake has to know its outputs from the start, and models have different ones.

    The first variant, named like the stage, is that of regressions with the `usual` files; names that are in no config are
    refused there. `files_of` says which files a model has.
    """
    names_of: dict[tuple[bool, tuple[str, ...]], list[str]] = {(False, tuple(usual)): []}
    for name, model in models.items():
        names_of.setdefault((bool(model.network), tuple(files_of(model))), []).append(name)
    for (of_networks, files), names in names_of.items():
        if (of_networks, files) == (False, tuple(usual)):
            yield Variant(stage, any_but(sorted(set(models) - set(names))), files, False)
        elif files:
            further = [Path(file).stem for file in files if file not in usual]
            lacking = [Path(file).stem for file in usual if file not in files]
            kind = ["network"] if of_networks else ["without", *lacking] if lacking else []
            yield Variant("_".join(dict.fromkeys([stage, *kind, *further])), one_of(names), files, of_networks)


def not_among(models: Collection[PlannedModel], files_of: FilesOf) -> str:
    """Return any model, as a pattern that does not match before the files of the variants."""
    made = [f"{model.name}/{Path(file).stem}[.]" for model in models for file in files_of(model)]
    return "".join(f"(?!{file})" for file in made) + ANY_MODEL
