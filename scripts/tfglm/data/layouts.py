"""Which layout a file has, by its header."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfglm.config import Layout, SelectionConfig, shipped_layouts
from tfglm.data.header import read_header
from tfglm.data.images import has_images
from tfglm.data.packing import packing
from tfglm.data.parquet_files import natural_type, read_schema
from tfglm.data.selection import selection
from tfglm.errors import Problems, UserError, nearest, short

OWN_SCHEMA = "its own schema"
"""What stands for the name of a layout where a Parquet file needs none."""


@dataclass(frozen=True)
class Recognition:
    """The layout of a file, its name, and the names of the columns of the file."""

    name: str
    layout: Layout
    header: list[str]


def recognised(path: Path, candidates: Mapping[str, Layout], settings: SelectionConfig) -> Recognition:
    """The layout of a file, as `choose` finds it in the header.

    Parameters
    ----------
    path
        The file.
    candidates
        Layouts by name. If these are the shipped ones, as in a config that names none, and no one fits, a Parquet file has the
        columns and types of its own schema.
    settings
        What the config needs of the columns.

    Raises
    ------
    UserError
        For a file without a header, and as `choose` does.
    """
    kinds = {name: (layout.separator_bytes, layout.encoding) for name, layout in candidates.items()}
    by_kind: dict[tuple[bytes, str], list[str]] = {}
    problem: UserError | None = None
    for kind in dict.fromkeys(kinds.values()):
        try:
            by_kind[kind] = read_header(path, *kind)
        except UserError as error:
            problem = problem or error
    headers = {name: by_kind[kind] for name, kind in kinds.items() if kind in by_kind}
    if problem and not headers:
        raise problem
    try:
        name = choose(headers, {name: candidates[name] for name in headers}, settings, str(path))
    except UserError:
        if set(candidates) != set(shipped_layouts()) or has_images(path) or packing(path) != "parquet":
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
            f"{path}: no column of its schema has a name of letters, digits and _ and a type that can be read"
        )
    return Layout.model_validate({"columns": columns})


def choose(
    headers: Mapping[str, Sequence[str]], candidates: Mapping[str, Layout], settings: SelectionConfig, source: str
) -> str:
    """Choose the layout of a file by its header.

    A layout fits if the header has every column of it that the config needs. Of those that fit, the one with the most columns in
    the header is taken, and of these the one with the fewest others.

    Parameters
    ----------
    headers
        The names of the columns of the file, as the separator of each layout parts them.
    candidates
        Layouts by name.
    settings
        What the config needs of the columns.
    source
        The file, as messages name it.

    Returns
    -------
    The name of the layout.

    Raises
    ------
    UserError
        If none fits, naming the file and the nearest layout; or the errors in the config's expressions over the layout that the
        file has, or over the nearest if they fit no layout.
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
        raise problems.get(closest) or misfit(headers[closest], closest, needed, source)
    return max(fitting, key=likeness)


_known: dict[tuple[str, str, str], set[str] | UserError] = {}


def sources_needed(layout: Layout, settings: SelectionConfig, name: str) -> set[str]:
    """What the columns that the config needs are called in a file of this layout. Raises UserError as `selection` does. It works
    that out once, as the Snakefile asks several times, and of each file."""
    key = layout.model_dump_json(), settings.model_dump_json(include=set(SelectionConfig.model_fields)), name
    if key not in _known:
        try:
            _known[key] = {layout.columns[column].source for column in selection(layout, settings, name).needed}
        except UserError as error:
            _known[key] = error
    if isinstance(known := _known[key], UserError):
        raise known
    return known


def check_expressions(candidates: Mapping[str, Layout], settings: SelectionConfig) -> None:
    """Raise UserError if the config's expressions fit none of the layouts that a file may have whose header is not known yet."""
    problems = Problems()
    for name, layout in candidates.items():
        with problems.collected():
            sources_needed(layout, settings, name)
    if candidates and len(problems.messages) == len(candidates):
        raise UserError(problems.messages[0])


def misfit(header: Sequence[str], closest: str, needed: Mapping[str, set[str]], source: str) -> UserError:
    """What to say of a header that fits no layout."""
    absent = [f"  `{name}`{nearest(name, header)}" for name in sorted(needed[closest] - set(header))]
    named = [name for name in header if name]
    if len(header) == 1 and any(mark in header[0] for mark in ",;\t|"):
        return UserError(
            f"{source}: the layout `{closest}` finds a single column in the header, `{short(header[0])}`; say in the layout what "
            'stands between the columns, such as `separator: ";"`'
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
        "  name the layout of the file (data.layout), write one of your own, or remove what needs these columns "
        "from the config; or leave the file out of data.files, if it came in by a pattern"
    )
