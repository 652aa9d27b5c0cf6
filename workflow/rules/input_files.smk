# The input files: where they lie, which layouts they may have, and which columns are known too late to predict from.

import shlex
from importlib.util import find_spec

from tfglm.data.packages import located

# Headers and SQL are read with packages that Snakemake does not bring. Where only the jobs have them, in an environment of their
# own, a file may have any of the layouts that the config allows, and its job chooses.
READS_HEADERS = all(map(find_spec, ["indexed_bzip2", "numpy", "polars", "pyarrow", "xxhash"]))


def path_in(files):
    """An input function: the file to ingest, the user's own or where `fetch` puts it."""

    def path(wildcards):
        file = files[wildcards.file]
        return f"results/data/fetched/{file.basename}" if file.fetched else file.source

    return path


def source_of(wildcards):
    return FETCHED[wildcards.download].shown


def identity_of(wildcards):
    return FETCHED[wildcards.download].identity


def sum_of(wildcards):
    return FETCHED[wildcards.download].sha256


def one_of(names):
    """A regular expression for just these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def layouts_in(files, settings):
    """A params function: what the layouts of a file say, as JSON."""

    def layouts(wildcards):
        # What is left out changes no shard.
        possible = possible_layouts(files[wildcards.file], settings)
        left_out = {"description", "after_departure"}
        return json.dumps(
            {name: layout.model_dump(exclude=left_out) for name, layout in possible.items()}, sort_keys=True
        )

    return layouts


def layout_names_in(files, settings):
    """A params function: the layouts that a file may have, as arguments that are no options."""

    def layout_names(wildcards):
        possible = possible_layouts(files[wildcards.file], settings)
        return Unwatched(shlex.join(f"./{name}" if name.startswith("-") else name for name in possible))

    return layout_names


def possible_layouts(file, settings):
    """The layouts that an input file may have, by name: the one that fits its header; all of them for a file at an address, whose
    header is not known before it is there."""
    layouts = {name: (LAYOUTS | LAYOUTS_TO_SCORE)[name] for name in file.layouts}
    if READS_HEADERS and not is_address(file.source):
        from tfglm.data.layouts import choose
        from tfglm.data.header import read_header

        name, layout = choose(read_header(located(file.source)), layouts, settings, file.source)
        layouts = {name: layout}
    return layouts


def known_late(wildcards):
    """The names of the columns that are known only after departure, or derived from such."""
    late = (columns_from(layout, CONFIG.data, layout.after_departure) for layout in LAYOUTS.values())
    return sorted(set().union(*late))
