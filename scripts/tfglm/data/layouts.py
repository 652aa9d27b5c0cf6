"""Find the layout of a file by its header."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfglm.config import Dialect, Layout, SelectionConfig, shipped_layouts
from tfglm.data.foreign import as_converted
from tfglm.data.header import read_header
from tfglm.data.packing import kind_of_file
from tfglm.data.parquet_files import natural_type, read_schema
from tfglm.data.selection import selection
from tfglm.errors import Problems, UserError, nearest, short

OWN_SCHEMA = "its own schema"
"""The name in the place of a layout if a Parquet file needs none."""


@dataclass(frozen=True)
class Recognition:
    """The layout of a file, its name, and the names of the columns of the file."""

    name: str
    layout: Layout
    header: list[str]


def recognised(path: Path, candidates: Mapping[str, Layout], settings: SelectionConfig) -> Recognition:
    """Return the layout of a file, which `choose` determines from the header. A config that names no layout uses the shipped
    ones. If none of these fits, a Parquet file uses the columns and types of its own schema. Raises UserError if the file
    has no header, and as `choose` does."""
    kind = kind_of_file(path)
    if kind in ("workbook", "stata", "spss", "json"):
        candidates = {name: as_converted(layout, kind) for name, layout in candidates.items()}
    dialects = {name: layout.dialect for name, layout in candidates.items()}
    by_dialect: dict[Dialect, list[str]] = {}
    problem: UserError | None = None
    for dialect in dict.fromkeys(dialects.values()):
        try:
            by_dialect[dialect] = read_header(path, dialect)
        except UserError as error:
            problem = problem or error
    headers = {name: by_dialect[dialect] for name, dialect in dialects.items() if dialect in by_dialect}
    if problem and not headers:
        raise problem
    try:
        name = choose(headers, {name: candidates[name] for name in headers}, settings, str(path))
    except UserError:
        if set(candidates) != set(shipped_layouts()) or kind != "parquet":
            raise
        layout = layout_of_schema(path)
        selection(layout, settings)  # raises for what the schema lacks
        return Recognition(OWN_SCHEMA, layout, read_header(path))
    return Recognition(name, candidates[name], headers[name])


def layout_of_schema(path: Path) -> Layout:
    """The columns of a Parquet file that have a name and a type that a config can use."""
    kinds = {field.name: natural_type(field.type) for field in read_schema(path)}
    columns = {name: kind for name, kind in kinds.items() if kind and re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name)}
    if not columns:
        raise UserError(
            f"{path}: none of its columns can be read: a name needs letters, digits and _, and a type that the "
            "layout can describe"
        )
    return Layout.model_validate({"columns": columns})


def choose(
    headers: Mapping[str, Sequence[str]], candidates: Mapping[str, Layout], settings: SelectionConfig, source: str
) -> str:
    """Choose the layout of a file by its header; `headers` has the names of its columns, split by the separator of each
    layout.

    A layout fits if the header has every column of it that the config needs. Among the fitting layouts, the best has the
    most columns in the header, and then the fewest other columns. Raises UserError if no layout fits, which names the file
    (`source`) and the nearest layout; or if the expressions of the config contain errors for the layout of the file, or for
    the nearest layout if they fit none.
    """

    def likeness(name: str) -> tuple[int, int]:
        sources = {column.source for column in candidates[name].columns.values()}
        return len(sources & set(headers[name])), -len(sources - set(headers[name]))

    needed: dict[str, set[str]] = {}
    problems: dict[str, UserError] = {}
    for name, layout in candidates.items():
        try:
            needed[name] = sources_needed(layout, settings, name)
        except UserError as error:
            problems[name] = error
    if not candidates:
        raise UserError(f"{source}: there is no layout to choose from")
    fitting = [name for name, columns in needed.items() if columns <= set(headers[name])]
    if not fitting:
        closest = max(candidates, key=likeness)
        if needed and not likeness(closest)[0]:
            # A file that has nothing to do with any layout: what the config says is right of others.
            closest = max(needed, key=likeness)
        raise problems.get(closest) or layout_error(headers[closest], closest, needed, source)
    return max(fitting, key=likeness)


def sources_needed(layout: Layout, settings: SelectionConfig, name: str) -> set[str]:
    """Return the names that the needed columns of the config have in a file of this layout. Raises UserError as `selection`
    does."""
    return {layout.columns[column].source for column in selection(layout, settings, name).needed}


def check_expressions(candidates: Mapping[str, Layout], settings: SelectionConfig) -> None:
    """Raise UserError if the config's expressions fit none of the layouts that a file may have whose header is not known yet."""
    problems = Problems()
    for name, layout in candidates.items():
        with problems.collected():
            sources_needed(layout, settings, name)
    if candidates and len(problems.messages) == len(candidates):
        raise UserError(problems.messages[0])


def layout_error(header: Sequence[str], closest: str, needed: Mapping[str, set[str]], source: str) -> UserError:
    """Return the error for a header that fits no layout."""
    absent = [f"  `{name}`{nearest(name, header)}" for name in sorted(needed[closest] - set(header))]
    named = [name for name in header if name]
    if len(header) == 1 and any(mark in header[0] for mark in ",;\t|"):
        return UserError(
            f"{source}: the layout `{closest}` finds a single column in the header, `{short(header[0])}`; give the "
            'separator of the columns in the layout, such as `separator: ";"`'
        )
    others = f" (tried: {', '.join(needed)})" if len(needed) > 1 else ""
    return UserError(
        (
            f"{source}: the header fits no layout{others}; the nearest is `{closest}`, but the header lacks these "
            "columns, which the config needs:\n"
        )
        + "\n".join(absent)
        + "\n"
        f"  the header has: {', '.join(named[:200])}{', ...' if len(named) > 200 else ''}\n"
        "  name the layout of the file (data.layout), write your own layout, or remove the uses of these columns "
        "from the config; if a pattern matched the file by accident, exclude it from data.files"
    )
