"""Collapsed rows (data.collapse) as a fit goes through them."""

from typing import Any

from tfglm.data.collapsed import ROWS, identity, sum_name
from tfglm.data.shards import IngestedFile
from tfglm.engine.workload import Workload
from tfglm.errors import UserError


def over(collapsed: IngestedFile, rows: Workload) -> Workload:
    """Return the workload of collapsed rows for a workload of all training rows; the same workload, if collapsing does not
    pay. If the collapsed rows lack the columns of the clusters, the design has no clusters. Raises UserError if other rows
    were collapsed, or for another model."""
    design, columns = rows.design, {column.name for column in collapsed.manifest.columns}
    of_others = collapsed.manifest.xxh128 != identity(design.data)
    if not collapsed.manifest.shards and not of_others:
        return rows
    frequency = design.roles.frequency
    design = design.with_roles(frequency=sum_name(frequency) if frequency else ROWS)
    if not columns.issuperset(clusters.column for clusters in design.inference.clusters):
        design = design.without_clusters()
    if of_others or not columns.issuperset(design.columns):
        raise UserError(
            f"{collapsed.folder}: the rows were collapsed for other data or another model than `{design.model}`\n"
            "  delete that folder and run again"
        )
    return Workload(design, [collapsed], rows.split, cutting=rows.cutting)


def account(collapsed: IngestedFile) -> dict[str, Any]:
    """Return the number of rows before and after collapsing, or the reason why they were not collapsed."""
    manifest = collapsed.manifest
    if manifest.shards:
        return {"rows": manifest.read, "distinct_rows": sum(shard.rows for shard in manifest.shards)}
    return {"rows": manifest.read, "distinct_rows": None, "reason": next(iter(manifest.dropped))}


def in_words(collapsed: IngestedFile) -> str:
    """The same in words."""
    counts = account(collapsed)
    if counts["distinct_rows"] is None:
        return f"the fit reads the original rows, because collapsing them does not pay: {counts['reason']}"
    return f"{counts['rows']:,} training rows were summed into {counts['distinct_rows']:,} different rows"
