"""Levels that no training row has: which they are, and what stands for them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np
import polars as pl

from tfglm.data.dictionary import VALUE_TYPES, used_levels, written
from tfglm.data.kinds import ABSENT
from tfglm.data.shards import IngestedFile
from tfglm.data.training_rows import decoded, usable
from tfglm.design.design import Design
from tfglm.design.levels import levels_by_code
from tfglm.engine.rows import UNSEEN_LEVEL
from tfglm.errors import UserError, counted
from tfglm.inference.fitted import Fitted, choose_references
from tfglm.results.measures import whole

SHOWN = 20
"""Levels that are named."""


Policy = Literal["missing", "reference", "error"]
"""How to treat such a level: as the level of rare or missing values, as the reference level, or as an error."""


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
    if unseen and policy == "error":
        lines = [
            f"  {term}: {', '.join(of_term['levels'])}{more} ({counted(of_term['rows'], 'row')})"
            for term, of_term in unseen.items()
            for more in [", ..." if of_term["level_count"] > SHOWN else ""]
        ]
        raise UserError(
            f"{where}.unseen: evaluation rows have levels that no training row has:\n"
            + "\n".join(lines)
            + "\n  set the key to `missing` or `reference`, or train on rows that have them"
        )
    return unseen


def substitutes(design: Design, fitted: Fitted, policy: Policy, reference: Mapping[str, str]) -> dict[str, int]:
    """Return the number of the level that replaces levels which no training row has, for the terms that have one: by the
    policy `reference` the reference level of the table; by `missing` the level of rare values, else of missing ones,
    if the term has one."""
    if policy == "reference":
        chosen = choose_references(design, fitted.status, reference)
        # The effect of one level stands for no other.
        return {name: level for name, level in chosen.items() if not design.categorical_by_name[name].random}
    return collective_levels(design) if policy == "missing" else {}


def collective_levels(design: Design) -> dict[str, int]:
    """The level that stands for values without rows, for the terms that have one: that of rare values, of which they are the
    rarest, else that of missing ones. A random effect of a new level has the mean 0, whatever that of rare ones is."""
    values = {factor: factor.rare[0] if factor.rare and not factor.random else None for factor in design.categorical}
    return {factor.name: factor.numbers[value] for factor, value in values.items() if value in factor.numbers}


def levels(design: Design, files: Sequence[IngestedFile], split: str) -> dict[str, dict]:
    """Return for each term the levels of a split that no training row has: the number of rows, the number of levels, and the
    first levels by name. If rows may lack a value, a missing value is the level ABSENT."""
    unseen = {}
    for term in design.categorical:
        rows: Counter[str] = Counter()
        # A row without a required value lacks it; that is no level.
        first = 1 if term.column in design.roles.required else 0
        numbers = zip(files, levels_by_code(term, files, UNSEEN_LEVEL), strict=True)
        for file, is_unseen in ((file, of_codes == UNSEEN_LEVEL) for file, of_codes in numbers):
            is_unseen[:first] = False
            if is_unseen.any():
                part = used_levels([file], design.roles.required, term.column).filter(pl.col("split") == split)
                part = part.filter(pl.Series(is_unseen[part["code"].to_numpy()]))
                if design.roles.frequency:
                    times = repeated(
                        file, split, file.codes(term.column).name, design.roles.frequency, design.roles.required
                    )
                    part = part.with_columns(rows=pl.Series(times[part["code"].to_numpy()]))
                values = written(part[file.codes(term.column).kind].cast(VALUE_TYPES[term.column_kind]))
                for level, count in zip(values, part["rows"], strict=True):
                    rows[ABSENT if level is None else level] += count
        if rows:
            unseen[term.name] = {"rows": whole(rows.total()), "level_count": len(rows), "levels": sorted(rows)[:SHOWN]}
    return unseen


def repeated(file: IngestedFile, split: str, column: str, frequency: str, required: Collection[str]) -> np.ndarray:
    """The sum of the column `frequency` over the rows of a split with each code of a column, [codes]."""
    times = np.zeros(1 + len(file.values(column)))
    for shard in (shard for shard in file.manifest.shards if shard.split == split):
        good = usable(file, shard, required)
        times += np.bincount(file.stored(shard, column)[good], decoded(file, shard, frequency)[good], len(times))
    return times
