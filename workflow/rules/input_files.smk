# The input files: their paths, their possible layouts, and the columns that are known too late to predict from.

import contextlib
import functools
import re
import shlex
import sys
from importlib.util import find_spec

from tfglm.data import editions
from tfglm.data.packages import located

# Headers and SQL need packages that Snakemake does not bring. If only the jobs have these, in their own environment, a file may
# have any layout that the config allows, and its job chooses.
READERS = list(map(find_spec, ["formulaic", "indexed_bzip2", "numpy", "polars", "pyarrow", "xxhash"]))
READS_HEADERS = all(READERS)


@functools.cache
def program():
    """The digest of what reads headers and formulas: the code of this project, and the packages that it uses."""
    code = [*(SCRIPTS / "tfglm").rglob("*.py"), *(Path(package.origin) for package in READERS)]
    return key_of(json.dumps(sorted((str(path), path.stat().st_mtime_ns) for path in code)))


def remembered(find, *depends_on):
    """What `find()` returns, as JSON has it. If that is true, it is kept in CHECKED, by what it depends on. Each start of
    Snakemake would otherwise import what reads headers and formulas, which takes a second."""
    path = Path(CHECKED, key_of(json.dumps([program(), depends_on], default=str)))
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    if found := find():
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(found), encoding="utf-8")
            part.replace(path)
    return found


def status_of(file):
    """The status of an input file, as a list; empty for a file at an address, or if there is none."""
    with contextlib.suppress(UserError):
        if not is_address(file.source):
            return [file.source, *vars(editions.FileStatus.of(located(file.source))).values()]
    return [file.source]


def place_of(file):
    """The path of the file to ingest: the user's, or where `fetch` puts it."""
    return f"{DATA}/fetched/{file.basename}" if file.fetched else file.source


def lying_in(files):
    """A params function: the path of a file, which may have any letters."""
    return lambda wildcards: place_of(files[wildcards.file])


def path_in(files, folders):
    """An input function: the file to ingest. A newer time is no reason to read the user's own file again if the content is the
    same. Snakemake would interpret `{...}` and `<...>` in a name, so only the edition identifies such a file."""

    def path(wildcards):
        file = files[wildcards.file]
        place = place_of(file)
        if file.fetched:
            return place
        if re.search("[{}<>]", place):
            return []
        return ancient(place) if state_of(place, folders[wildcards.file])[1] else place

    return path


@functools.cache
def state_of(place, folder):
    """The edition of an input file, and whether its shards were made from this edition (`tfglm.data.editions`)."""
    record, made = Path(folder, editions.RECORD), Path(folder, "manifest.json")
    edition, same = editions.edition_of(Path(place), record, made)
    if workflow.is_main_process and not same and made.exists():
        print(f"{place}: the content has changed since it was read; it is read again.", file=sys.stderr)
    return edition, same


def edition_in(files, folders):
    """A params function: the edition of a file. Another edition is a reason to read the file again, whatever its time."""
    return lambda wildcards: state_of(place_of(files[wildcards.file]), folders[wildcards.file])[0]


def files_of_coordinates(wildcards):
    """An input function: the user's files with the coordinates of levels."""
    return sorted(file for file in COORDINATES.values() if not re.search("[{}<>]", file))


def contents_of_coordinates(wildcards):
    """A params function: the digests of these files, whose times alone do not show that they have changed."""
    return [digest_of(file) for file in sorted(COORDINATES.values())]


def edition_in_package(wildcards):
    """The same for a file inside a Python package, which may have been upgraded."""
    file, fetched = FETCHED[wildcards.download], f"{DATA}/fetched/{wildcards.download}"
    if is_address(file.source) or not READS_HEADERS:
        return 0
    return editions.edition_of(located(file.source), Path(f"{fetched}.source.json"), Path(fetched))[0]


# The shards of a file are named by what they depend on. Configs that read a file alike share the shards; a config that reads it
# in another way leaves them.
SHARDS = f"{DATA}/{{key}}/{{file}}"


def shards_of(files, settings):
    """The folder of each file's shards, by the name of the file."""

    def folder(name, file):
        read_as = settings.model_dump_json(include=set(SelectionConfig.model_fields), exclude_defaults=True)
        # The header decides which shipped layout a file has; this is a param.
        own_layouts = [name for name in file.layouts if name.endswith((".yaml", ".yml"))]
        key = key_of(json.dumps([file.identity, own_layouts, read_as]))
        return SHARDS.format(key=key, file=name)

    return {name: folder(name, file) for name, file in files.items()}


SHARDS_OF = shards_of(FILES, CONFIG.data)
SHARDS_TO_SCORE = shards_of(SCORED, TO_SCORE)
MANIFESTS = [f"{folder}/manifest.json" for folder in SHARDS_OF.values()]


# Small files share jobs: the names of the files that one job each reads.
TOGETHER = small_files_together(FILES)
ALONE = [name for name in FILES if not any(name in names for names in TOGETHER)]


def of_each(names, function):
    """The same function of wildcards for several files, as a list, without those that have none."""
    wildcards = [namedtuple("File", "file")(name) for name in names]
    return lambda _: [value for each in wildcards for value in [function(each)] if value != []]


def tasks_of(names):
    """A params function: the arguments of `ingest.py` for several files, as JSON. Other params say what is a reason to run again."""

    def tasks(wildcards):
        return [
            {
                "source": place_of(FILES[name]),
                "file": name,
                "edition": state_of(place_of(FILES[name]), SHARDS_OF[name])[0],
                "layouts": shlex.split(str(layout_names_in(FILES, CONFIG.data)(namedtuple("File", "file")(name)))),
                "manifest": f"{SHARDS_OF[name]}/manifest.json",
            }
            for name in names
        ]

    return unwatched(lambda wildcards: json_of(tasks(wildcards)))


# Threads of a job that ingests. A second thread helps, but less than another file at the same time. No number depends on it. If
# jobs run elsewhere, the number of cores is unknown.
THREADS_A_FILE = max(1, min(2, (workflow.resource_settings.cores or 2 * len(FILES)) // max(1, len(FILES))))


def keys_of(folders):
    """The keys of these folders, as a pattern."""
    return one_of(dict.fromkeys(Path(folder).parts[-2] for folder in folders.values()))


def unused_shards():
    """The folders of shards that this config does not use: shards of other configs in the same folder, shards from before this
    config was edited, and rows that it collapsed earlier."""
    used = {Path(folder) for folder in [*SHARDS_OF.values(), *SHARDS_TO_SCORE.values()]}
    kept = Path(DATA).glob("*/*/")
    unused = [folder for folder in kept if re.fullmatch("[0-9a-f]{12}", folder.parts[-2]) and folder not in used]
    collapsed = Path(RESULTS, "data", "collapsed").glob("*/")
    return sorted([*unused, *(folder for folder in collapsed if folder.name not in SETTINGS_OF)])


def source_of(wildcards):
    return FETCHED[wildcards.download].shown


def identity_of(wildcards):
    return FETCHED[wildcards.download].identity


def query_of(wildcards):
    return FETCHED[wildcards.download].query or ""


def sum_of(wildcards):
    return FETCHED[wildcards.download].sha256 or ""


def stored_at(wildcards):
    """An input function: the object of a storage, which Snakemake copies to this machine for the job."""
    return storage(FETCHED[wildcards.download].source)


def one_of(names):
    """A regular expression for just these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def layouts_in(files, settings):
    """A params function: the parts of a file's layouts that its shards depend on, as JSON."""

    def layouts(wildcards):
        possible = possible_layouts(files[wildcards.file], settings)
        return json_of({name: layout.shard_settings() for name, layout in possible.items()}, sort_keys=True)

    return layouts


def layout_names_in(files, settings):
    """A params function: the possible layouts of a file, as positional arguments."""

    def layout_names(wildcards):
        file = files[wildcards.file]
        # A Parquet file that needs no layout has its own, which the job finds again.
        possible = [name for name in possible_layouts(file, settings) if name in file.layouts] or file.layouts
        return Unwatched(shlex.join(f"./{name}" if name.startswith("-") else name for name in possible))

    return layout_names


# The possible layouts of files, once found. Many rules and checks need them, for hundreds of files.
POSSIBLE = {}


def possible_layouts(file, settings):
    """The possible layouts of an input file, by name: the layout that fits its header, or all layouts for a file at an
    address, whose header is not known yet."""
    asked = file.source, tuple(file.layouts), settings.model_dump_json()
    if asked not in POSSIBLE:
        POSSIBLE[asked] = look_for_layouts(file, settings)
    return POSSIBLE[asked]


def look_for_layouts(file, settings):
    layouts = {name: (LAYOUTS | LAYOUTS_TO_SCORE)[name] for name in file.layouts}
    if READS_HEADERS and not is_address(file.source):

        def recognise():
            from tfglm.data.layouts import recognised

            recognition = recognised(located(file.source), layouts, settings)
            own = None if recognition.name in layouts else recognition.layout.model_dump_json()
            return {"name": recognition.name, "own": own}

        candidates = {name: layout.model_dump_json() for name, layout in layouts.items()}
        known = remembered(recognise, "layout", status_of(file), candidates, settings.model_dump_json())
        own = known["own"] and Layout.model_validate_json(known["own"])
        layouts = {known["name"]: own or layouts[known["name"]]}
    return layouts


def layouts_of_files():
    """The layouts of the input files, by name. Other layouts that the config allows change no result."""
    return {name: layout for file in FILES.values() for name, layout in possible_layouts(file, CONFIG.data).items()}


def known_late(wildcards):
    """The names of the columns that are known only after departure, or derived from such columns, in the layouts of the files."""
    late = (columns_from(layout, CONFIG.data, layout.after_departure) for layout in layouts_of_files().values())
    return sorted(set().union(*late))
