"""The input files: their paths, their possible layouts, and the folders of their shards."""

import contextlib
import functools
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from snakemake.io import ancient

from tfglm.addresses import is_address
from tfglm.config import InputFile, Layout, SelectionConfig, columns_from, small_files_together
from tfglm.data import editions
from tfglm.data.packages import located
from tfglm.errors import UserError
from tfglm.workflow.kept import READS_HEADERS, remembered
from tfglm.workflow.values import Unwatched, Wildcards, json_of, key_of, one_of, unwatched

UNSAFE = re.compile("[{}<>]")
"""Letters that Snakemake would interpret in the name of a file."""


def readable(file: InputFile) -> Path | None:
    """Return the path of an input file that is on this machine before the run; None if there is none."""
    try:
        return None if is_address(file.source) else located(file.source)
    except UserError:
        return None  # Snakemake alone has no package with data


def status_of(file: InputFile) -> list[Any]:
    """Return the status of an input file; its source alone if it is at an address, or if there is none."""
    with contextlib.suppress(UserError):
        if not is_address(file.source):
            return [file.source, *vars(editions.FileStatus.of(located(file.source))).values()]
    return [file.source]


def for_each_file(names: Iterable[str], function: Callable[[Wildcards], Any]) -> Callable[[Wildcards], list[Any]]:
    """Return the same function of wildcards for several files, as a list, without those that have none."""
    files = [SimpleNamespace(file=name) for name in names]
    return lambda wildcards: [value for file in files if (value := function(file)) != []]


class FilesToRead:
    """Files that are read alike: those that models are fitted to, or those to score, by their names in results. Its methods
    are functions for the rules. The settings say how they are read, and are None if there are none. `data` is the folder
    that configs share. The process of the user (`is_main`) reports changes of a file."""

    def __init__(
        self,
        files: Mapping[str, InputFile],
        settings: SelectionConfig | None,
        layouts: Mapping[str, Layout],
        data: str,
        is_main: bool,
    ) -> None:
        self.files, self.settings, self._layouts, self._data, self._is_main = files, settings, layouts, data, is_main
        self.folders = {name: self._shards_of(name) for name in files}
        """The folder of each file's shards, named by what they depend on. Configs that read a file alike share the shards; a
        config that reads it in another way leaves them."""
        self.manifests = [f"{folder}/manifest.json" for folder in self.folders.values()]
        self.keys = one_of(dict.fromkeys(Path(folder).parts[-2] for folder in self.folders.values()))
        """A pattern of the keys of these folders."""
        self.together = small_files_together(dict(files))
        """The names of small files that share jobs: those that one job each reads."""
        self.alone = [name for name in files if not any(name in names for names in self.together)]
        """The names of the other files."""
        self._possible: dict[tuple, dict[str, Layout]] = {}
        self._state_of = functools.cache(self._state)

    def _shards_of(self, name: str) -> str:
        file = self.files[name]
        assert self.settings
        read_as = self.settings.model_dump_json(include=set(SelectionConfig.model_fields), exclude_defaults=True)
        # The header decides which shipped layout a file has; this is a param.
        own_layouts = [layout for layout in file.layouts if layout.endswith((".yaml", ".yml"))]
        return f"{self._data}/{key_of(json.dumps([file.identity, own_layouts, read_as]))}/{name}"

    def manifest(self, wildcards: Wildcards) -> str:
        """Return the manifest of a file's shards."""
        return f"{self.folders[wildcards.file]}/manifest.json"

    def source(self, wildcards: Wildcards) -> str:
        """Return the path of the file to ingest, which may have any letters: the user's, or where `fetch` puts it."""
        file = self.files[wildcards.file]
        return f"{self._data}/fetched/{file.basename}" if file.fetched else file.source

    def input(self, wildcards: Wildcards) -> Any:
        """Return the file to ingest. A newer time is no reason to read the user's own file again if the content is the same.
        Snakemake would interpret some letters in a name, so only the edition identifies such a file."""
        source = self.source(wildcards)
        if self.files[wildcards.file].fetched:
            return source
        if UNSAFE.search(source):
            return []
        return ancient(source) if self._state_of(wildcards.file)[1] else source

    def edition(self, wildcards: Wildcards) -> int:
        """Return the edition of a file. Another edition is a reason to read the file again, whatever its time."""
        return self._state_of(wildcards.file)[0]

    def _state(self, name: str) -> tuple[int, bool]:
        """The edition of an input file, and whether its shards were made from this edition (`tfglm.data.editions`)."""
        source, folder = self.source(SimpleNamespace(file=name)), self.folders[name]
        record, made = Path(folder, editions.RECORD), Path(folder, "manifest.json")
        edition, same = editions.edition_of(Path(source), record, made)
        if self._is_main and not same and made.exists():
            print(f"{source}: the content has changed since it was read; it is read again.", file=sys.stderr)
        return edition, same

    def layouts(self, wildcards: Wildcards) -> str:
        """Return the parts of a file's layouts that its shards depend on, as JSON."""
        possible = self.possible_layouts(self.files[wildcards.file])
        return json_of({name: layout.shard_settings() for name, layout in possible.items()}, sort_keys=True)

    def layout_names(self, wildcards: Wildcards) -> Unwatched:
        """Return the possible layouts of a file, as positional arguments."""
        return Unwatched(shlex.join(self._layout_names(wildcards.file)))

    def _layout_names(self, name: str) -> list[str]:
        file = self.files[name]
        # A Parquet file that needs no layout has its own, which the job finds again.
        possible = [name for name in self.possible_layouts(file) if name in file.layouts] or file.layouts
        return [f"./{name}" if name.startswith("-") else name for name in possible]

    def tasks(self, names: Iterable[str]) -> Callable[[Wildcards], Unwatched]:
        """Return a params function: the arguments of `ingest.py` for several files, as JSON. Other params say what is a reason to
        run again."""

        def task(file: Wildcards) -> dict[str, Any]:
            return {
                "source": self.source(file),
                "file": file.file,
                "edition": self.edition(file),
                "layouts": self._layout_names(file.file),
                "manifest": self.manifest(file),
            }

        tasks = for_each_file(names, task)
        return unwatched(lambda wildcards: json_of(tasks(wildcards)))

    def possible_layouts(self, file: InputFile, settings: SelectionConfig | None = None) -> dict[str, Layout]:
        """Return the possible layouts of an input file, by name: the layout that fits its header, or all layouts for a file at an
        address, whose header is not known yet. Many rules and checks need them, for hundreds of files."""
        settings = settings or self.settings
        assert settings
        dumped = settings.model_dump_json()
        key = file.source, tuple(file.layouts), dumped
        if key not in self._possible:
            layouts = {name: self._layouts[name] for name in file.layouts}
            if READS_HEADERS and not is_address(file.source):
                layouts = _fitting_layout(file, layouts, settings, dumped)
            self._possible[key] = layouts
        return self._possible[key]

    def all_layouts(self) -> dict[str, Layout]:
        """Return the layouts of the files, by name. Other layouts that the config allows change no result."""
        return {name: layout for file in self.files.values() for name, layout in self.possible_layouts(file).items()}

    def known_late(self, wildcards: Wildcards) -> list[str]:
        """Return the names of the columns that are known only after departure, or derived from such columns."""
        assert self.settings
        late = (columns_from(layout, self.settings, layout.after_departure) for layout in self.all_layouts().values())
        return sorted(set[str]().union(*late))


def _fitting_layout(
    file: InputFile, layouts: Mapping[str, Layout], settings: SelectionConfig, dumped: str
) -> dict[str, Layout]:
    """The layout of a file on this machine, by its name."""

    def recognise() -> dict[str, str | None]:
        from tfglm.data.layouts import recognised

        recognition = recognised(located(file.source), layouts, settings)
        own = None if recognition.name in layouts else recognition.layout.model_dump_json()
        return {"name": recognition.name, "own": own}

    candidates = {name: layout.model_dump_json() for name, layout in layouts.items()}
    known = remembered(recognise, "layout", status_of(file), candidates, dumped)
    own = known["own"] and Layout.model_validate_json(known["own"])
    return {known["name"]: own or layouts[known["name"]]}
