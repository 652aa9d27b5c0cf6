"""The networks of a sweep. With `halving` they are trained in parts: after each part the networks are compared, and only the best
continue. A comparison is a checkpoint of Snakemake, so that a network that ends there has no further jobs. All networks take part
in it, also those that `fit` does not name: which networks run, and in what order, changes no result.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snakemake.exceptions import IncompleteCheckpointException
from snakemake.io import checkpoint_target

from tfglm import digests
from tfglm.config import sections_of
from tfglm.workflow.plan import Plan
from tfglm.workflow.values import Wildcards, json_of, one_of, refusing


@functools.cache
def _sha256_of(file: Path, size: int, modified: int) -> str:
    """The digest of a file with this size and time."""
    return digests.sha256(file)


class Sweeps:
    """The sweeps over networks of a config, with Snakemake's checkpoints. Its methods are functions for the rules."""

    def __init__(self, plan: Plan, checkpoints: Any) -> None:
        self._plan, self._checkpoints, self._networks = plan, checkpoints, plan.config.networks
        self.networks: dict[str, list[str]] = {}
        """The networks of each section with a sweep, by its name."""
        for name, section in sections_of(plan.sections).items():
            if name in self._networks and name != section:
                self.networks.setdefault(section, []).append(name)
        self.names = one_of(self.networks)
        """A pattern of the sweeps."""
        self._sweep_of = {name: sweep for sweep, names in self.networks.items() for name in names}
        self._comparisons: dict[str, list[int]] = {}
        """The epochs after which the networks of a sweep are compared; none without `halving`."""
        for sweep, names in self.networks.items():
            first = self._networks[names[0]]
            self._comparisons[sweep] = first.halving.comparisons(len(names), first.epochs) if first.halving else []
        self._parts = {
            name: self._comparisons[sweep] for name, sweep in self._sweep_of.items() if self._comparisons[sweep]
        }
        self.in_parts = one_of(self._parts)
        """A pattern of the networks that are trained in parts."""

    def _part(self, name: str, epochs: int, file: str) -> str:
        """A file of a part of a training, or its folder."""
        return f"{self._plan.paths.part}/{file}".format(model=name, epochs=epochs).rstrip("/")

    def _continuing(self, sweep: str, epochs: int) -> list[str]:
        """The names of the networks that continue after a comparison, in the order of the sweep. Raises
        IncompleteCheckpointException if they have not been compared as they are now. Snakemake raises it itself if it knows
        of no comparison. But after an edit it may take that of an earlier run for done, whose job is about to run again."""
        checkpoint = self._checkpoints.compare_parts
        compared = Path(checkpoint.get(sweep=sweep, epochs=epochs).output[0])
        fits = [Path(self._part(name, epochs, "fit.json")) for name in self._compared(sweep, epochs)]
        content = {}
        with refusing():
            if compared.exists() and all(fit.exists() for fit in fits):
                content = digests.read_json(compared, needs=("fits", "continuing"))
        now = [_sha256_of(fit, fit.stat().st_size, fit.stat().st_mtime_ns) for fit in fits if content]
        if content.get("fits") != now or len(content["continuing"]) != self._number_to_continue(sweep, epochs):
            raise IncompleteCheckpointException(checkpoint.rule, checkpoint_target(str(compared)))
        return [name for name in self.networks[sweep] if name in content["continuing"]]

    def _compared(self, sweep: str, epochs: int) -> list[str]:
        """The names of the networks that take part in a comparison."""
        earlier = [each for each in self._comparisons[sweep] if each < epochs]
        return self._continuing(sweep, earlier[-1]) if earlier else self.networks[sweep]

    def _number_to_continue(self, sweep: str, epochs: int) -> int:
        """How many networks continue after a comparison."""
        halving, number = self._networks[self.networks[sweep][0]].halving, len(self.networks[sweep])
        for each in self._comparisons[sweep]:
            if halving and each <= epochs:
                number = halving.kept_of(number)
        return number

    def _end(self, name: str) -> int | None:
        """The epoch of the comparison after which a network does not continue; None if there is none."""
        sweep = self._sweep_of[name]
        return next((epochs for epochs in self._parts[name] if name not in self._continuing(sweep, epochs)), None)

    def number_to_continue(self, wildcards: Wildcards) -> int:
        """Return how many networks continue after a comparison."""
        return self._number_to_continue(wildcards.sweep, int(wildcards.epochs))

    def compared_parts(self, file: str = "") -> Callable[[Wildcards], list[str]]:
        """Return a function: the folders of the networks that take part in a comparison, or a file in each."""

        def parts(wildcards: Wildcards) -> list[str]:
            names = self._compared(wildcards.sweep, int(wildcards.epochs))
            return [self._part(name, wildcards.epochs, file) for name in names]

        return parts

    def comparisons(self, wildcards: Wildcards) -> list[str]:
        """Return the files of the comparisons of a sweep."""
        folder = self._plan.paths.sweep.format(sweep=wildcards.sweep)
        return [f"{folder}/{epochs}/continuing.json" for epochs in self._comparisons[wildcards.sweep]]

    def part_before(self, wildcards: Wildcards) -> list[str]:
        """Return the checkpoints of the part before a part."""
        earlier = [epochs for epochs in self._parts.get(wildcards.model, []) if epochs < int(wildcards.epochs)]
        return [self._part(wildcards.model, earlier[-1], "state")] if earlier else []

    def last_part(self, wildcards: Wildcards) -> list[str]:
        """Return the checkpoints of the last part of a network that continues to the end."""
        name = wildcards.model
        is_continued = name in self._parts and not self._end(name)
        return [self._part(name, self._parts[name][-1], "state")] if is_continued else []

    def end_of_parts(self, wildcards: Wildcards) -> list[str]:
        """Return the same of a network that ends with a part, and fit.json of this part: its other files lead to another
        training."""
        name = wildcards.model
        epochs = self._end(name) if name in self._parts else None
        return [self._part(name, epochs, file) for file in ("state", "fit.json")] if epochs else []

    def continued(self, wildcards: Wildcards, input: Any) -> str:
        """Return the options of a training that continues its parts, or ends with them."""
        if input.end:
            return f"--begin {input.end[0]} --until {Path(input.end[0]).parent.name}"
        return f"--begin {input.begin}" if input.begin else ""

    def part(self, wildcards: Wildcards, input: Any, output: Any) -> str:
        """Return the options of a part of a training."""
        begin = f"--begin {input.begin} " if input.begin else ""
        return f"{begin}--until {wildcards.epochs} --keep {output.state}"

    def _fitted(self, wildcards: Wildcards) -> list[str]:
        """The networks of a sweep that this run fits."""
        return [name for name in self.networks[wildcards.sweep] if name in self._plan.fit]

    def files(self, name: str) -> Callable[[Wildcards], list[str]]:
        """Return a function: a file of each network of a sweep that this run fits."""
        return lambda wildcards: self._plan.paths.of(self._fitted(wildcards), name)

    def values(self, wildcards: Wildcards) -> str:
        """Return the epochs of a whole training and the values of the swept keys, by network, as JSON."""
        names, keys = self._fitted(wildcards), self._plan.sections["networks"][wildcards.sweep]["sweep"]

        def value(section: dict[str, Any], key: str) -> Any:
            first, _, rest = key.partition(".")
            return value(section.get(first) or {}, rest) if rest else section.get(first)

        dumped = {name: self._networks[name].model_dump() for name in names}
        values = {name: {key: value(section, key) for key in keys} for name, section in dumped.items()}
        return json_of({"epochs": {name: self._networks[name].epochs for name in names}, "values": values})
