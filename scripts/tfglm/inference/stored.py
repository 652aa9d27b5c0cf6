"""A fit as named arrays, which a checkpoint keeps. They are its fields: `covariance/cr2/bread/loadings` are the `loadings` of the
`bread` of a `covariance` of the kind `cr2`. A field that is None has no array."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args, get_type_hints

import numpy as np

from tfglm.inference.classical import Classical, Unconditional
from tfglm.inference.clustered import Clustered, Crossed, Serial, Survey
from tfglm.inference.covariance import Covariance
from tfglm.inference.cr2 import CR2
from tfglm.inference.sandwich import Sandwich

KINDS = {kind.kind: kind for kind in (Classical, Unconditional, Sandwich, Clustered, Serial, Crossed, Survey, CR2)}


def arrays(value: Any) -> dict[str, Any]:
    """The arrays and numbers in the fields of a dataclass.

    >>> from tfglm.inference.fitted import FittedPath
    >>> list(arrays(FittedPath(np.zeros(1), np.zeros((1, 3)))))
    ['penalties', 'coefficients']
    """
    found: dict[str, Any] = {}
    for each in fields(value):
        content = getattr(value, each.name)
        if is_dataclass(content):
            name = f"{each.name}/{content.kind}" if isinstance(content, Covariance) else each.name
            found |= {f"{name}/{inner}": array for inner, array in arrays(content).items()}
        elif isinstance(content, np.ndarray | np.generic | float | int):
            found[each.name] = content
    return found


def restored(dataclass: Any, stored: Mapping[str, Any]) -> Any:
    """The dataclass of which `arrays` has made these. Raises KeyError for one that is missing."""
    values, hints = {}, get_type_hints(dataclass)
    for each in fields(dataclass):
        part = next(filter(is_dataclass, (hints[each.name], *get_args(hints[each.name]))), None)
        inside = behind(each.name, stored)
        if part is Covariance and inside:
            kind = next(iter(inside)).partition("/")[0]
            part, inside = KINDS[kind], behind(kind, inside)
        if part and inside:
            values[each.name] = restored(part, inside)
        elif each.name in stored or (each.default is MISSING and each.default_factory is MISSING):
            values[each.name] = stored[each.name]
    return dataclass(**values)


def behind(name: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays whose names begin with this name and `/`, without these."""
    return {key.removeprefix(f"{name}/"): array for key, array in stored.items() if key.startswith(f"{name}/")}
