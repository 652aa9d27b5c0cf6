"""A small valid config, changes to it, and the message that a refused one ends in."""

import copy
from pathlib import Path

import pytest
import yaml

from tfglm.errors import UserError

ROOT = Path(__file__).parents[1]
LAYOUTS = ROOT / "config/layouts"
SHIPPED = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())

MINIMAL = {
    "data": {"files": ["a.csv"], "layout": "asa2009", "split": {"train": "year < 2008"}, "columns": ["late", "dest"]},
    "models": {"late_arrival": {"formula": "late ~ dest", "family": "binomial"}},
}
NAME = "a name of letters, digits and _ that begins with a letter"
FILES = "a list of text or a section with the keys path, layout, sha256, query, name"


def changed(path: str, value: object) -> dict:
    """MINIMAL with another value at a dotted path; `...` takes the key away."""
    raw = copy.deepcopy(MINIMAL)
    *parents, key = path.split(".")
    section = raw
    for parent in parents:
        section = section.setdefault(parent, {})
    section[key] = value
    if value is ...:
        del section[key]
    return raw


def message(function, *arguments) -> str:
    """What the user reads when `function` refuses `arguments`."""
    with pytest.raises(UserError) as refused:
        function(*arguments)
    return str(refused.value)
