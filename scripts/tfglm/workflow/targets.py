"""The files that a run is asked for: of a default run, of comparisons, and of the files to score; and those that it shows."""

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from snakemake.io import report

from tfglm.workflow import models
from tfglm.workflow.plan import Plan
from tfglm.workflow.sweeps import Sweeps
from tfglm.workflow.values import Refusal, Wildcards

CAPTIONS = {
    "coefficients.svg": ("coefficient_plot", "coefficients, picture"),
    "coefficients.html": ("coefficient_table", "coefficients, table"),
    "effects.svg": ("effects", "effects of numbers, picture"),
    "metrics.svg": ("metrics_plot", "metrics, picture"),
    "metrics.html": ("metrics", "metrics, table"),
    "metrics_by.svg": ("metrics_by", "metrics by group, picture"),
    "path.svg": ("path", "path of the penalty"),
    "embeddings.svg": ("embeddings", "embeddings of levels, picture"),
    "marginal_effects.csv": ("marginal_effects", "average marginal effects, table"),
    "adjusted_means.csv": ("adjusted_means", "adjusted means, table"),
    "margins_at.csv": ("margins_at", "means and effects in scenarios, table"),
    "diagnostics.html": ("diagnostics", "diagnostics"),
    "history.svg": ("history", "how the fit went, picture"),
}
"""In Snakemake's report: the caption, and the label."""

OPTIONAL = [
    *(
        f"{table}.csv"
        for table in (*models.OPTIONAL_TABLES, *models.REFUSABLE_TABLES, "marginal_effects", "event_study")
    ),
    *(f"{table}.html" for table in models.REFUSABLE_TABLES),
    *(f"{picture}.svg" for picture in ("effects", "embeddings", "metrics_by", "path")),
    *("diagnostics.html", "metrics.html", "metrics.json", "metrics_by.csv", "model.json"),
    *("predictions/*.csv", "predictions/*.parquet"),
]
"""What some configs ask for, beside what each model has."""

TABLES_AS_PICTURES = ("history", "coefficients", "effects", "embeddings")
"""The pictures of a table with the same name."""

KEYS_OF_METRICS = ("threshold", "unseen", "by", "diagnostics")
KEYS_OF_AVERAGES = ("adjusted_means", "margins_at", "offset_at", "random_effects")
OPTIONS_OF_EVALUATIONS = {
    "metrics.json": "metrics",
    "metrics_by.csv": "groups",
    "checks.json": "checks",
    "averages.npz": "averages",
}
"""The options of `evaluate.py` that name its outputs."""

COMPARED = (".csv", "_held_out.csv", "_likelihood_ratio.csv", ".html")
"""The ends of the files that compare models."""


def in_report(path: str, caption: str, label: str, category: str = "1. Start here") -> Any:
    """Return a file as an output, with what the report says of it."""
    return report(path, caption=f"../report/{caption}.rst", category=category, labels={"result": label})


class Targets:
    """The targets of a config. Its methods are functions for the rules."""

    def __init__(self, plan: Plan, sweeps: Sweeps) -> None:
        self._plan, self._paths, self._sweeps = plan, plan.paths, sweeps
        self._fit = [plan.models[name] for name in plan.fit]

    def output(self, name: str) -> Any:
        """Return a file of a model as an output, with what the report says of it."""
        path = f"{self._paths.model}/{name}"
        if name not in CAPTIONS:
            return path
        return in_report(path, *CAPTIONS[name], category="{model}")

    def tables(self, tables: Sequence[str], is_network: bool) -> list[Any]:
        """Return the files of some tables as outputs."""
        return [self.output(name) for name in models.files_of_tables(tables, is_network)]

    def pictures(self, pictures: Sequence[str], kinds: Sequence[str]) -> list[Any]:
        """Return the files of some pictures as outputs."""
        names = [
            (picture, kind) for picture in pictures for kind in kinds if kind != ".html" or picture in models.PAGES
        ]
        return [self.output(f"{picture}{kind}") for picture, kind in names]

    def inputs_of_pictures(self, pictures: Sequence[str]) -> list[str]:
        """Return what some pictures show."""
        names = {
            **{picture: (f"{picture}.csv", f"{picture}.sha256") for picture in TABLES_AS_PICTURES},
            "metrics": ("metrics.json",),
            "path": ("design.json", "checkpoint"),
        }
        needed = ["fit.json", *(name for picture in pictures for name in names.get(picture, ()))]
        return [f"{self._paths.model}/{name}" for name in needed]

    def inputs_of_tables(self, tables: Collection[str]) -> dict[str, Any]:
        """Return the inputs of some tables, beside the fit."""
        averages: dict[str, Any] = {"averages": [], "digest": []}
        if {*tables} & {*models.AVERAGED_TABLES}:
            averages |= self.evaluations(models.AVERAGES)
        return {
            "reference": self._plan.reference_of_regression,
            "dictionary": self._paths.dictionary if "effects" in tables else [],
            **averages,
            "manifests": lambda wildcards: (
                self._plan.files.manifests if wildcards.model in self._plan.config.networks else []
            ),
        }

    def settings_of_tables(self, tables: Iterable[str]) -> Callable[[Wildcards], str]:
        """Return a params function: the settings of some tables."""
        return self._plan.settings(*sorted({key for table in tables for key in models.KEYS_OF_TABLES.get(table, [])}))

    def table_before(self, wildcards: Wildcards) -> list[str]:
        """Return a table that is written before one that may be refused."""
        is_refusable = wildcards.table in models.REFUSABLE_TABLES
        return self._paths.of(wildcards.model, "coefficients.csv") if is_refusable else []

    def averages_of_table(self, wildcards: Wildcards) -> list[str]:
        """Return the averages, if a table needs them."""
        return self._paths.of(wildcards.model, models.AVERAGES[0]) if wildcards.table in models.AVERAGED_TABLES else []

    def evaluations(self, files: Iterable[str]) -> dict[str, str]:
        """Return the outputs of an evaluation, by the option that names each."""
        return {OPTIONS_OF_EVALUATIONS.get(file, "digest"): f"{self._paths.model}/{file}" for file in files}

    def options_of_evaluations(self, files: Collection[str]) -> Callable[[Wildcards], str]:
        """Return a params function: the options that name the outputs of an evaluation."""
        options = {file: option for file, option in OPTIONS_OF_EVALUATIONS.items() if file in files}
        return lambda wildcards: " ".join(
            f"--{option} {self._paths.of(wildcards.model, file)[0]}" for file, option in options.items()
        )

    def models(self) -> list[str]:
        """Return the files that `rule all` makes for each model; metrics only if there are rows to compute them on."""
        targets = self._paths.of(self._plan.fit, "fit.json")
        for model in self._fit:
            targets += self._paths.of(model.name, *model.targets)
        if self._plan.config.data.split.predict:
            targets += self.predictions("predictions", self._plan.files.files)
        fitted = [sweep for sweep, networks in self._sweeps.networks.items() if {*networks} & {*self._plan.fit}]
        targets += [
            f"{self._paths.results}/sweeps/{sweep}/{file}"
            for sweep in fitted
            for file in ("networks.csv", "losses.svg")
        ]
        return targets + self._paths.of([model.name for model in self._fit if model.settings.export], "model.json")

    def all_files(self) -> list[str]:
        """Return all files that a run makes for each model. Snakemake makes a deleted one again, even if no other job reads it,
        because they are named here."""
        files = self.models()
        for model in self._fit:
            files += [str(path).format(model=model.name) for path in self._paths.fitted().values()]
            tables = models.files_of_tables(model.tables, bool(model.network))
            files += self._paths.of(model.name, *tables, *model.files_beside)
        return files

    def all_pictures(self) -> list[str]:
        """Return the files of `rule pictures`."""
        pictures = [path for model in self._fit for path in self._paths.of(model.name, *model.pictures)]
        return [f"{path}.{kind}" for path in [*pictures, f"{self._paths.results}/data/rows"] for kind in ("png", "pdf")]

    def pages(self) -> list[str]:
        """Return the files of `rule all` that the first page links to."""
        results = self._paths.results
        shown = [target for target in self.models() if target.endswith((".html", ".svg", ".csv"))]
        compared = [f"{results}/compare.html"] if self._plan.config.compare else []
        return [f"{results}/data/columns.html", f"{results}/data/rows.html", *compared, *shown]

    def predictions(self, folder: str, files: Iterable[str]) -> list[str]:
        """Return the predictions of all models in one of their folders, in the formats that the config asks for."""
        names = [f"{folder}/{file}" for file in files]
        as_csv = [model.name for model in self._fit if model.settings.predictions == "csv"]
        return [
            *self._paths.of(self._plan.fit, *(f"{name}.parquet" for name in names)),
            *self._paths.of(as_csv, *(f"{name}.csv" for name in names)),
        ]

    def scores(self) -> list[str]:
        """Return the predictions of `rule score`."""
        return self.predictions("scores", self._plan.scored.files)

    def asked_scores(self, wildcards: Wildcards) -> list[str]:
        """Return them. Raises Refusal if there are none."""
        if not self._plan.scored.files:
            raise Refusal("the config names no files to score; say e.g. `score: [data/2009.csv]`")
        return self.scores()

    def sealed_tables(self) -> list[str]:
        """Return the tables that the first page reads, with their digests."""
        return [
            path
            for model in self._fit
            if model.regression
            for table in model.tables
            if table in models.SEALED_TABLES
            for path in self._paths.of(model.name, f"{table}.csv", f"{table}.sha256")
        ]

    def compared(self, name: str = "", has_coefficients: bool = False) -> Callable[[Wildcards], list[str]]:
        """Return a function: a file of each compared model, or its folder; or only of those that have coefficients."""

        def files(wildcards: Wildcards) -> list[str]:
            if not self._plan.config.compare:
                named = ", ".join(self._plan.fit)
                raise Refusal(f"the config names no models to set side by side; say e.g. `compare: [{named}]`")
            compared = [self._plan.models[model] for model in self._plan.config.compare]
            names = [model.name for model in compared if model.has_coefficients or not has_coefficients]
            return [path.rstrip("/") for path in self._paths.of(names, name)]

        return files

    def inputs_of_comparison(self) -> dict[str, Any]:
        """Return the inputs of a comparison of models."""
        return {
            "tables": self.compared("coefficients.csv", has_coefficients=True),
            "digests": self.compared("coefficients.sha256", has_coefficients=True),
            "fits": self.compared("fit.json"),
            "designs": self.compared("design.json"),
            "metrics": self.compared("metrics.json") if self._plan.config.data.split.evaluate else [],
        }

    def papers(self) -> list[str]:
        """Return the files of `rule tables`, a table of each model with coefficients and a table of the models under
        `compare`."""
        tables = self._paths.of([model.name for model in self._fit if model.has_coefficients], "coefficients")
        tables += [f"{self._paths.results}/compare"] if self._plan.config.compare else []
        return [f"{table}.{kind}" for table in tables for kind in ("tex", "md", "docx", "xlsx")]

    def scaled(self, name: str = "") -> Callable[[Wildcards], list[str]]:
        """Return a function: a file of each network in the comparison of workers, or its folder."""

        def files(wildcards: Wildcards) -> list[str]:
            if not self._plan.networks:
                raise Refusal("the config trains no networks, so there are no workers to compare")
            if not self._plan.config.data.split.evaluate:
                raise Refusal("there are no rows to evaluate the networks on; add data.split.evaluate")
            return [path.rstrip("/") for path in self._paths.of(self._plan.networks, name)]

        return files

    def left_over(self) -> list[Path]:
        """Return the folders of models, and the files of others, that an earlier config asked for and this one does not."""
        results = Path(self._paths.results)
        folders = [folder for folder in results.glob("models/*/") if (folder / "fit.json").is_file()]
        left = [folder for folder in folders if folder.name not in self._plan.models]
        asked = set(map(Path, self.models()))
        for model in self._plan.fit:
            files = (file for name in OPTIONAL for file in Path(results, "models", model).glob(name))
            left += [file for file in files if file not in asked]
        compared = results / "compare.html"
        return sorted([*left, *([compared] if compared.is_file() and not self._plan.config.compare else [])])
