"""Columns that a config names but no file has: each mistake is reported once, at its cause."""

from collections.abc import Collection, Iterable, Iterator

from tfglm.config.data import FILE, RANDOM
from tfglm.config.layouts import Layout
from tfglm.config.messages import LONGEST_MESSAGE
from tfglm.config.root import Config
from tfglm.errors import closest, nearest, short
from tfglm.formula.read import columns_of, covariates_in


def column_problems(config: Config, layouts: Collection[Layout], unparsed: Collection[str] = ()) -> list[str]:
    """Return the mistakes in the column names of a config, as far as layouts show them, as messages that begin with their
    key. Only the models to fit are checked. Of formulas that could not be parsed (`unparsed`) words are reported only if
    they resemble a column."""
    kept, offered = config.data.columns, offered_columns(config, layouts)
    places: dict[str, list[str]] = {}
    for place, column in named_columns(config):
        places.setdefault(column, []).append(place)
    of_subsets = {model.frequency for model in config.all_models.values() if model.subset}
    own = [column for column in kept if column not in of_subsets]
    misspelt = [column for column in kept if column not in offered]
    # Who names the column that was meant is right.
    meant = {closest(column, offered) for column in misspelt}
    problems = [
        f"data.columns: no column `{short(column)}`{nearest(column, offered)}\n"
        f"  the layout and data.derive have: {', '.join(offered)}\n"
        f"  choose one of these, or define `{column}` under data.derive"
        for column in misspelt
    ]
    for column, of_column in places.items():
        if column in kept or column in meant:
            continue
        if column in offered:
            problems.append(f"data.columns: lacks `{column}`, needed by {listed(of_column)}; add it")
            continue
        hint = nearest(column, [*own, *offered])
        of_column = [place for place in of_column if hint or place not in unparsed]
        if of_column:
            problems.append(
                f"{listed(of_column)}: no column `{short(column)}`{hint or ';'} data.columns has {', '.join(own)}"
            )
    problems += [
        f"terms.{name}: the layout has a column of this name, so that a formula could mean either; rename the terms"
        for name in config.terms
        if name in offered
    ]
    return [short(problem, LONGEST_MESSAGE) for problem in problems]


def listed(places: list[str]) -> str:
    """A few of the places, and how many more there are."""
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return ", ".join(places[:5]) + more


def offered_columns(config: Config, layouts: Iterable[Layout]) -> list[str]:
    """The columns that data.columns can choose from, each once."""
    of_layouts = [name for layout in layouts for name in (*layout.columns, *layout.derive)]
    return list(dict.fromkeys([*of_layouts, *config.data.derive, FILE, RANDOM]))


def named_columns(config: Config) -> Iterator[tuple[str, str]]:
    """The place of a key, and a column of `data.columns` that it names; of each such key each column once."""
    for key in ("missing", "rare", "order"):
        yield from ((f"data.{key}", column) for column in getattr(config.data, key))
    for section, model in config.models_to_fit.items():
        written = columns_of(model.formula)
        if model.response not in written and model.response.isidentifier():
            written = [model.response, *covariates_in(model.formula)]
        keys = {"formula": written, **model.roles, "by": model.by, "identity": model.identity}
        for key, columns in keys.items():
            yield from ((f"{section}.{key}", column) for column in dict.fromkeys(columns))
