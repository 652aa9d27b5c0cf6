# The input files: where they lie, which layouts they may have, and which columns are known too late to predict from.

import shlex
from importlib.util import find_spec

from tfglm.data.packages import located

# Headers and SQL are read with packages that Snakemake does not bring. Where only the jobs have them, in an environment of their
# own, a file may have any of the layouts that the config allows, and its job chooses.
READS_HEADERS = all(map(find_spec, ["formulaic", "indexed_bzip2", "numpy", "polars", "pyarrow", "xxhash"]))


def path_in(files):
    """An input function: the file to ingest, the user's own or where `fetch` puts it."""

    def path(wildcards):
        file = files[wildcards.file]
        return f"results/data/fetched/{file.basename}" if file.fetched else file.source

    return path


# What the shards of a file are: they are named by what they depend on, so that configs that read it alike share them, and one that
# reads it in another way leaves them.
SHARDS = "results/data/{key}/{file}"


def shards_of(files, settings):
    """The folder of each file's shards, by the name of the file."""

    def folder(name, file):
        read_as = settings.model_dump_json(include=set(SelectionConfig.model_fields), exclude_defaults=True)
        # Which of the shipped layouts it has is known by its header, and a param.
        own_layouts = [name for name in file.layouts if name.endswith((".yaml", ".yml"))]
        key = key_of(json.dumps([file.identity, own_layouts, read_as]))
        return SHARDS.format(key=key, file=name)

    return {name: folder(name, file) for name, file in files.items()}


SHARDS_OF = shards_of(FILES, CONFIG.data)
SHARDS_TO_SCORE = shards_of(SCORED, TO_SCORE)
MANIFESTS = [f"{folder}/manifest.json" for folder in SHARDS_OF.values()]


# Of a job that ingests: a second one is of use, but of less than another file at the same time. No number depends on it. Where jobs
# are sent elsewhere the cores are not known.
THREADS_A_FILE = max(1, min(2, (workflow.resource_settings.cores or 2 * len(FILES)) // max(1, len(FILES))))


def keys_of(folders):
    """The keys of these folders, as a pattern."""
    return one_of(dict.fromkeys(Path(folder).parts[-2] for folder in folders.values()))


def unused_shards():
    """The folders of shards that this config does not use: those of other configs in the same folder, and of this one before it
    was edited; and of rows that this one had collapsed before."""
    used = {Path(folder) for folder in [*SHARDS_OF.values(), *SHARDS_TO_SCORE.values()]}
    kept = Path("results/data").glob("*/*/")
    unused = [folder for folder in kept if re.fullmatch("[0-9a-f]{12}", folder.parts[-2]) and folder not in used]
    collapsed = Path(RESULTS, "data", "collapsed").glob("*/")
    return sorted([*unused, *(folder for folder in collapsed if folder.name not in SETTINGS_OF)])


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
    """A params function: what the layouts of a file say that its shards depend on, as JSON."""

    def layouts(wildcards):
        possible = possible_layouts(files[wildcards.file], settings)
        return json.dumps({name: layout.of_shards() for name, layout in possible.items()}, sort_keys=True)

    return layouts


def layout_names_in(files, settings):
    """A params function: the layouts that a file may have, as arguments that are no options."""

    def layout_names(wildcards):
        file = files[wildcards.file]
        # A Parquet file that needs none has its own, which the job finds again.
        possible = [name for name in possible_layouts(file, settings) if name in file.layouts] or file.layouts
        return Unwatched(shlex.join(f"./{name}" if name.startswith("-") else name for name in possible))

    return layout_names


def possible_layouts(file, settings):
    """The layouts that an input file may have, by name: the one that fits its header; all of them for a file at an address, whose
    header is not known before it is there."""
    layouts = {name: (LAYOUTS | LAYOUTS_TO_SCORE)[name] for name in file.layouts}
    if READS_HEADERS and not is_address(file.source):
        from tfglm.data.layouts import recognised

        recognition = recognised(located(file.source), layouts, settings)
        layouts = {recognition.name: recognition.layout}
    return layouts


def known_late(wildcards):
    """The names of the columns that are known only after departure, or derived from such."""
    late = (columns_from(layout, CONFIG.data, layout.after_departure) for layout in LAYOUTS.values())
    return sorted(set().union(*late))
