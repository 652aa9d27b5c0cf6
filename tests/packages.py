"""Packages of this environment that belong to a few others, as pip would install them alone."""

from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement


def needed_by(requirements: Iterable[str]) -> set[str]:
    """The distributions that pip would install for these."""
    needed, waiting = set(), list(map(Requirement, requirements))
    while waiting:
        requirement = waiting.pop()
        if requirement.name not in needed:
            needed.add(requirement.name)
            others = map(Requirement, distribution(requirement.name).requires or [])
            waiting += [each for each in others if not each.marker or each.marker.evaluate({"extra": ""})]
    return needed


def linked_packages(requirements: Iterable[str], folder: Path) -> Path:
    """The folder, filled as `pip install --target` would do."""
    folder.mkdir(exist_ok=True)
    for name in needed_by(requirements):
        for top in {Path(file).parts[0] for file in distribution(name).files or []} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(distribution(name).locate_file(top))
    return folder
