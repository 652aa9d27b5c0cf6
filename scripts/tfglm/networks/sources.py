"""The sources of the rows of a network: the shards, and a fitted regression whose linear predictor is added."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfglm import checkpoint, digests
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.inference.fitted import Fitted
from tfglm.networks.rows import Units
from tfglm.results import saved_fit, unseen


class Regression(NamedTuple):
    """A fitted regression whose linear predictor is a part of a network's."""

    design: Design
    fitted: Fitted


def regression(paths: Sequence[Path]) -> Regression | None:
    """Return the regression that the option names, if any. Raises UserError if it has changed since it was fitted."""
    if not paths:
        return None
    design, folder, fit = paths
    content = digests.read_json(fit)
    saved_fit.check(content, design, folder, fit)
    loaded = Design.load(design).as_fitted(content)
    return Regression(loaded, checkpoint.load(loaded, folder))


def units(design: Design, files: Sequence[IngestedFile], split: str, offset: Regression | None) -> Units:
    """The rows of a split as the network reads them. A level that no training row has is taken for a missing value, where there
    is a level for these. Raises UserError for images of another size than those that the design has."""
    for factor in design.numeric:
        for file in files if factor.shape else ():
            height, width = file.column(factor.column).shape
            if (height, width) != factor.shape:
                raise UserError(
                    f"{file.manifest.source}: the images in `{factor.column}` have {height} x {width} pixels, and network "
                    f"`{design.model}` reads {factor.shape[0]} x {factor.shape[1]}"
                )
    workload = Workload(design, files, split, unseen=unseen.collective_levels(design))
    if not offset:
        return Units(workload)
    of_offset = offset.design if design.roles.response else offset.design.to_predict
    return Units(
        workload, (Workload(of_offset, files, split, unseen=unseen.collective_levels(of_offset)), offset.fitted)
    )


class Sources(NamedTuple):
    """The files with the rows of a training, as text for a process that takes part in it."""

    design: Path
    manifests: list[Path]
    offset: list[Path]

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> "Sources":
        """Return the sources from their text, `words`."""
        return cls(Path(words["design"]), [*map(Path, words["manifests"])], [*map(Path, words["offset"])])

    @property
    def words(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "design": str(self.design),
            "manifests": [*map(str, self.manifests)],
            "offset": [*map(str, self.offset)],
        }

    def units(self, *splits: str) -> list[Units]:
        """The rows of each split. Raises UserError if a file has changed since it was written."""
        design, offset = Design.load(self.design), regression(self.offset)
        files = [IngestedFile.load(manifest) for manifest in self.manifests]
        return [units(design, files, split, offset) for split in splits]
