"""Levels that no training row has: which they are, and what stands for them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

from tfglm.data.dictionary import used_levels, value_of, written
from tfglm.data.kinds import ABSENT
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.results.estimates import choose_references
from tfglm.solvers.fitted import Fitted

SHOWN = 20
"""Levels that are named."""


Policy = Literal["missing", "reference", "error"]
"""What to do about such a level: take the level of missing values for it, or the reference level, or refuse."""


def resolved(
    design: Design,
    fitted: Fitted,
    files: Sequence[IngestedFile],
    split: str,
    policy: Policy,
    reference: Mapping[str, str],
) -> tuple[dict[str, dict], dict[str, int]]:
    """The `levels` that no training row has, and their `substitutes`. Raises UserError if there are such levels and `policy` is
    `error`."""
    unseen = checked(design, files, split, policy, f"models.{design.model}")
    return unseen, substitutes(design, fitted, policy, reference)


def checked(design: Design, files: Sequence[IngestedFile], split: str, policy: Policy, where: str) -> dict[str, dict]:
    """The `levels` that no training row has. Raises UserError, which names the model's section `where`, if there are some and
    `policy` is `error`."""
    unseen = levels(design, files, split)
    if policy == "error":
        refuse(where, unseen)
    return unseen


def substitutes(design: Design, fitted: Fitted, policy: Policy, reference: Mapping[str, str]) -> dict[str, int]:
    """What stands for levels which no training row has.

    Parameters
    ----------
    design, fitted
        The model.
    policy
        `reference`: the reference level of the table. `missing`: the level of missing values, if the term has one.
    reference
        The reference levels that the config asks for, by term.

    Returns
    -------
    The level that stands for them, by its number, for the terms that have one.
    """
    if policy == "reference":
        return choose_references(design, fitted, reference)
    return of_missing(design) if policy == "missing" else {}


def of_missing(design: Design) -> dict[str, int]:
    """The level of missing values, for the terms that have one."""
    return {factor.name: factor.numbers[None] for factor in design.categorical if factor.missing}


def levels(design: Design, files: Sequence[IngestedFile], split: str) -> dict[str, dict]:
    """For each term the levels of a split that no training row has: in how many rows, how many, and the first ones by name.

    A missing value where rows may lack one is the level ABSENT.
    """
    tables = pl.concat([used_levels(file, design.required) for file in files]).filter(pl.col("split") == split)
    unseen = {}
    for term in design.categorical:
        known = term.numbers
        rows: Counter[str] = Counter()
        names = {file.codes(term.column).name for file in files}
        part = tables.filter(pl.col("column").is_in(names))
        values = written(part.select(value_of(term.column_kind).alias("value"))["value"])
        for level, count in zip(values, part["rows"], strict=True):
            # A row without a required value lacks it; that is no level.
            if level not in known and not (level is None and term.column in design.required):
                rows[ABSENT if level is None else level] += count
        if rows:
            unseen[term.name] = {"rows": rows.total(), "level_count": len(rows), "levels": sorted(rows)[:SHOWN]}
    return unseen


def refuse(where: str, unseen: Mapping[str, dict]) -> None:
    """Raise UserError if there are levels that no training row has."""
    if unseen:
        lines = [
            f"  {term}: {', '.join(levels['levels'])}{', ...' if levels['level_count'] > SHOWN else ''} ({levels['rows']:,} rows)"
            for term, levels in unseen.items()
        ]
        raise UserError(
            f"{where}.unseen: evaluation rows have levels that no training row has:\n"
            + "\n".join(lines)
            + "\n  set the key to `missing` or `reference`, or train on rows that have them"
        )
