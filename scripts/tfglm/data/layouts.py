"""Which layout a file has, by its header."""

from collections.abc import Mapping, Sequence

from tfglm.config import Layout, SelectionConfig
from tfglm.data.selection import selection
from tfglm.errors import UserError, nearest


def choose(
    header: Sequence[str], candidates: Mapping[str, Layout], settings: SelectionConfig, source: str
) -> tuple[str, Layout]:
    """Choose the layout of a file by its header.

    A layout fits if the header has every column of it that the config needs. Of those that fit, the one with the most columns in
    the header is taken, and of these the one with the fewest others.

    Parameters
    ----------
    header
        The names of the columns of the file.
    candidates
        Layouts by name.
    settings
        What the config needs of the columns.
    source
        The file, as messages name it.

    Returns
    -------
    The name of the layout, and the layout.

    Raises
    ------
    UserError
        If none fits, naming the nearest one; or the error in the config's expressions, if they fit no layout.
    """
    needed: dict[str, set[str]] = {}
    problem: UserError | None = None
    for name, layout in candidates.items():
        try:
            needed[name] = {layout.columns[column].source for column in selection(layout, settings).needed}
        except UserError as error:
            problem = problem or error
    if not needed:
        raise problem or UserError(f"{source}: there is no layout to choose from")

    def likeness(name: str) -> tuple[int, int]:
        sources = {column.source for column in candidates[name].columns.values()}
        return len(sources & set(header)), -len(sources - set(header))

    fitting = [name for name, columns in needed.items() if columns <= set(header)]
    if not fitting:
        raise misfit(header, max(needed, key=likeness), needed, source)
    best = max(fitting, key=likeness)
    return best, candidates[best]


def misfit(header: Sequence[str], closest: str, needed: Mapping[str, set[str]], source: str) -> UserError:
    """What to say of a header that fits no layout."""
    absent = [f"  `{name}`{nearest(name, header)}" for name in sorted(needed[closest] - set(header))]
    named = [name for name in header if name]
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
        "from the config"
    )
