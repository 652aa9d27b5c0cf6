"""Where a run writes its files."""

from collections.abc import Callable, Iterable

from snakemake.io import directory


class Paths:
    """The folders that a run writes to, and the files that several rules name. What is in braces are wildcards. `results` is
    named after the file of the config, so no config overwrites the results of another. Logs and times of jobs have a folder
    for each config too. `placed` puts a folder below the `prefix` of a workflow that uses this one as a module."""

    def __init__(self, results: str, placed: Callable[[str], str]) -> None:
        name = results.removeprefix("results/")
        self.results, self.logs, self.timings = placed(results), placed(f"logs/{name}"), placed(f"timings/{name}")
        # Configs share these.
        self.data, self.logs_of_data, self.timings_of_data = map(placed, ("results/data", "logs/data", "timings/data"))
        self.shards = f"{self.data}/{{key}}/{{file}}"
        self.model = f"{self.results}/models/{{model}}"
        self.dictionary = f"{self.results}/data/dictionary.json"
        # Collapsed rows are named by their columns: models with the same columns share them.
        self.collapsed = f"{self.results}/data/collapsed/{{columns}}"
        self.sweep, self.part = f"{self.results}/sweeps/{{sweep}}", f"{self.model}/parts/{{epochs}}"

    @property
    def fit(self) -> dict[str, str]:
        """The files of a fitted model, for what reads them."""
        return {name: f"{self.model}/{file}" for name, file in zip(("design", "checkpoint", "fit"), FIT, strict=True)}

    def fitted(self, folder: str = "") -> dict[str, str]:
        """Return the outputs of a fit or a training, or of a part of one in another folder."""
        folder = folder or self.model
        return {
            "fit": f"{folder}/fit.json",
            "checkpoint": directory(f"{folder}/checkpoint"),
            "history": f"{folder}/history.csv",
            "history_digest": f"{folder}/history.sha256",
        }

    def shards_in(self, folder: str) -> dict[str, str]:
        """Return the files of shards in a folder, as outputs."""
        return {
            "manifest": f"{folder}/manifest.json",
            "levels": f"{folder}/levels.parquet",
            "checksums": f"{folder}/checksums.npy",
            "shards": directory(f"{folder}/shards"),
        }

    def of(self, models: str | Iterable[str], *names: str) -> list[str]:
        """Return these files of a model, or of several."""
        models = [models] if isinstance(models, str) else models
        return [f"{self.results}/models/{model}/{name}" for model in models for name in names]


FIT = ("design.json", "checkpoint", "fit.json")
"""The files of a fitted model."""
