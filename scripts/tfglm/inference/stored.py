"""Covariances as named arrays, which a checkpoint keeps.

The fields of a kind are its storage: `clustered/bread/loadings` is the field `loadings` of the field `bread`. A field that is
None has no array.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np

from tfglm.inference.classical import Classical, Unconditional
from tfglm.inference.clustered import Clustered, Crossed, Serial
from tfglm.inference.covariance import Covariance
from tfglm.inference.cr2 import CR2
from tfglm.inference.sandwich import Sandwich

KINDS: dict[str, type[Covariance]] = {
    kind.kind: kind for kind in (Classical, Unconditional, Sandwich, Clustered, Serial, Crossed, CR2)
}

T = TypeVar("T")


def covariance_arrays(covariance: Covariance) -> dict[str, Any]:
    """The arrays and numbers of a covariance by name."""
    return {f"{covariance.kind}/{name}": value for name, value in arrays(covariance).items()}


def covariance_from(stored: Mapping[str, np.ndarray]) -> Covariance:
    """The covariance with these arrays. Raises KeyError for an array that is missing."""
    kind = next(iter(stored), "covariance").partition("/")[0]
    return restored(KINDS[kind], inside(stored, kind))


def arrays(value: Any) -> dict[str, Any]:
    """The arrays and numbers in the fields of a dataclass.

    >>> from tfglm.inference.effective import ByDesign
    >>> list(arrays(ByDesign(np.zeros(1), np.zeros(1), np.zeros(1))))
    ['sums', 'within', 'sizes']
    """
    found: dict[str, Any] = {}
    for each in fields(value):
        content = getattr(value, each.name)
        if is_dataclass(content):
            found |= {f"{each.name}/{name}": array for name, array in arrays(content).items()}
        elif content is not None:
            found[each.name] = content
    return found


def restored(kind: type[T], stored: Mapping[str, np.ndarray]) -> T:
    """The dataclass that `arrays` has made these of. Raises KeyError for one that is missing."""
    hints, values = get_type_hints(kind), dict[str, Any]()
    for each in fields(kind):  # type: ignore[arg-type]
        parts: list[Any] = [hint for hint in (hints[each.name], *get_args(hints[each.name])) if is_dataclass(hint)]
        content = inside(stored, each.name)
        if parts and content:
            values[each.name] = restored(parts[0], content)
        elif each.name in stored:
            values[each.name] = stored[each.name]
        elif each.default is MISSING and each.default_factory is MISSING:
            values[each.name] = None if type(None) in get_args(hints[each.name]) else stored[each.name]
    return kind(**values)


def inside(stored: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The arrays behind this name and `/`, without these."""
    return {key.removeprefix(f"{name}/"): array for key, array in stored.items() if key.startswith(f"{name}/")}
