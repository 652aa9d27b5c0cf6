"""What the rules need to know of a run: the config, the input files, the models, and the paths of all files."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from snakemake.exceptions import WorkflowError

from tfglm import digests
from tfglm.addresses import SECRETS, is_address, is_stored, redacted, without_secrets
from tfglm.config import (
    Config,
    Layout,
    NetworkConfig,
    Section,
    SelectionConfig,
    check_functions,
    collapse_of,
    column_problems,
    inputs,
    load_layouts,
    located_code,
    offered_columns,
    root,
    strategy_for,
    words_of_columns,
)
from tfglm.config.layouts import ColumnWords
from tfglm.config.root import provenance
from tfglm.data import editions
from tfglm.data.packages import located
from tfglm.errors import Problems, UserError, nearest
from tfglm.workflow import snapshot, substitutes
from tfglm.workflow.input_files import FilesToRead, readable, status_of
from tfglm.workflow.kept import READS_HEADERS, remembered
from tfglm.workflow.models import PlannedModel
from tfglm.workflow.paths import FIT, Paths
from tfglm.workflow.values import Refusal, Wildcards, json_of, key_of, literal, one_of, refusing

MOST_LISTED = 100_000
"""Objects of a storage that a pattern may begin with."""


class Plan:
    """A config as this process of Snakemake has read it, started by the command `caller`. Its methods are functions for the
    rules. `problems` has the mistakes that are reported with those that `tfglm.workflow.checks` finds. Raises UserError for
    a wrong config."""

    def __init__(self, workflow: Any, sections: dict[str, Any], caller: str) -> None:
        self.workflow, self.caller, self.problems = workflow, caller, Problems()
        self.module = str(workflow.modifier.namespace)
        """The name of this workflow, if another one uses it as a module."""
        self.snapshot = snapshot.load(workflow.config_settings.overwrite_config, self.module)
        """What the run that submitted this job has read; None in the main process."""
        taken = self.snapshot
        self.sections = taken.config if taken else sections
        self.config_paths = taken.configs if taken else list(map(str, workflow.configfiles))
        """The files of the config. Those that the command names have absolute paths."""
        self.config_names = ", ".join(self.config_paths) or "config"
        """The name of the config in messages."""
        self.config = config = root.load(self.sections, self.config_names, self.problems)
        layouts = load_layouts(config.data, taken.layouts if taken else None)
        # A layout of files that are only predicted does not affect a model.
        scored = config.data.model_copy(update={"files": config.score})
        layouts_to_score = load_layouts(scored, taken.layouts if taken else None) if config.score else {}
        self.layouts, self.layouts_to_score = layouts, layouts_to_score
        files, files_to_score, to_score = {}, {}, None
        with self.problems.collected():
            files = taken.files if taken else inputs.expand_files(config.data, objects=self._objects_below)
        with self.problems.collected():
            to_score = root.settings_to_score(config) if config.score else None
            if to_score:
                files_to_score = taken.scored if taken else inputs.expand_files(scored, "score", self._objects_below)
        self.fetched: dict[str, inputs.InputFile] = {}
        """The fetched files, by their own name."""
        with self.problems.collected():
            self.fetched = inputs.fetched([*files.values(), *files_to_score.values()])
        for file in filter(lambda file: is_stored(file.source), self.fetched.values()):
            with self.problems.collected():
                self._check_storage(file.source)
        # Secrets, which commands, logs and records must not show, reach the script in its environment.
        os.environ[SECRETS] = inputs.secret_addresses(self.fetched)
        self.strategy = taken.strategy if taken else strategy_for(map(readable, files.values()))
        if config.cluster.strategy == "auto":
            cluster = config.cluster.model_copy(update={"strategy": self.strategy})
            self.config = config = config.model_copy(update={"cluster": cluster})
        results = root.folder_of_results(config.results, self.config_paths[-1] if self.config_paths else "tfglm")
        self.paths = Paths(results, substitutes.own_prefix(workflow))
        shared = layouts | layouts_to_score, self.paths.data, workflow.is_main_process
        self.files = FilesToRead(files, config.data, *shared)
        self.scored = FilesToRead(files_to_score, to_score, *shared)
        words = words_of_columns(layouts.values(), config.data)
        self.words = json_of(words, sort_keys=True)
        """Labels and units of columns, as JSON. Pages show them; no computation uses them."""
        images = frozenset(
            name for layout in layouts.values() for name, column in layout.columns.items() if column.type == "image"
        )
        evaluated = bool(config.data.split.evaluate)
        self.models = {name: PlannedModel(name, model, evaluated, images) for name, model in config.all_models.items()}
        """All models of the config, by name."""
        self.fit = config.fit or list(self.models)
        """The names of the models to fit,"""
        self.regressions = [name for name in self.fit if name in config.models]
        """of the regressions among them,"""
        self.networks = [name for name in self.fit if name in config.networks]
        """and of the networks."""
        self.subsets = sorted({model.frequency or "" for model in config.all_models.values() if model.subset})
        """The columns that are 0 outside the subset of a model."""
        self._checked: set[str] = set()

    def _check_storage(self, address: str) -> None:
        """Raise UserError if no storage plugin of Snakemake takes an address."""
        try:
            self.workflow.storage_registry.infer_provider(address)
        except WorkflowError as error:
            raise UserError(
                f"data.files: `{redacted(address)}`: {str(error).partition('.')[0]}\n"
                "  install the plugin beside Snakemake, such as snakemake-storage-plugin-s3 for s3://; or download the file and "
                "name its path"
            ) from None

    def _objects_below(self, prefix: str) -> list[str]:
        """The addresses of a storage that begin with a prefix."""
        self._check_storage(prefix)
        scheme, _, place = prefix.partition("://")
        bucket, _, key = place.partition("/")
        stored = self.workflow.storage_registry(prefix, retrieve=False).flags["storage_object"]
        if not hasattr(stored, "s3bucket"):
            raise UserError(f"`{prefix}`: a pattern is only possible in s3://; name each object")
        try:
            keys = [found.key for found in stored.s3bucket().objects.filter(Prefix=key).limit(MOST_LISTED + 1)]
        except Exception as error:  # each library below the plugin has its own
            raise UserError(f"`{prefix}`: the storage cannot be listed: {without_secrets(str(error))}") from None
        if len(keys) > MOST_LISTED:
            raise UserError(f"`{prefix}`: more than {MOST_LISTED:,} objects begin like this; name their folder")
        return [f"{scheme}://{bucket}/{each}" for each in keys]

    def stored_object(self, wildcards: Wildcards) -> Any:
        """Return the object of a storage that a job fetches, which Snakemake copies to this machine; none for other files."""
        source = self.fetched[wildcards.download].source
        return self.workflow.storage_registry(source) if is_stored(source) else []

    def edition_in_package(self, wildcards: Wildcards) -> int:
        """Return the edition of a file inside a Python package, which may have been upgraded."""
        file, place = self.fetched[wildcards.download], f"{self.paths.data}/fetched/{wildcards.download}"
        if is_address(file.source) or not READS_HEADERS:
            return 0
        return editions.edition_of(located(file.source), Path(f"{place}.source.json"), Path(place))[0]

    def model(self, wildcards: Wildcards) -> PlannedModel:
        """Return the model that a job is for. Raises Refusal for a name that the config does not have."""
        if wildcards.model not in self.models:
            raise Refusal(
                f"no model `{wildcards.model}` in the config{nearest(wildcards.model, self.models)}; "
                f"there are: {', '.join(self.models)}"
            )
        if self.workflow.is_main_process and wildcards.model not in self.fit:
            self._check_further(wildcards.model)
        return self.models[wildcards.model]

    def folder(self, wildcards: Wildcards) -> str:
        """Return the folder of the model that a job is for."""
        return self.paths.model.format(model=wildcards.model)

    def settings(self, *keys: str) -> Callable[[Wildcards], str]:
        """Return a params function: these keys of the model's section as JSON, for the option `--settings`, which validates them
        again. Keys at their default are left out. So a new key in a later version is no reason to run again."""
        return lambda wildcards: json_of(_ordered(self.model(wildcards).settings, keys))

    def settings_of_regressions(self, *keys: str) -> str:
        """Return the same for all regressions, by name."""
        return json_of({name: _ordered(self.config.models[name], keys) for name in sorted(self.regressions)})

    def settings_of_data(self, section: type[Section], exclude_defaults: bool = False) -> Callable[[Wildcards], str]:
        """Return a params function: the keys of `data` that are of a section, as JSON. So another key is no reason to run
        again."""
        keys = set(section.model_fields)
        dumped = self.config.data.model_dump(mode="json", include=keys, exclude_defaults=exclude_defaults)
        return literal(json_of(dumped))

    def provenance(self, wildcards: Wildcards) -> str:
        """Return the keys of the config that the numbers depend on, as JSON."""
        content = provenance(self.config.data, self.model(wildcards).settings, self.files.all_layouts())
        return json_of(content, sort_keys=True)

    def exported_layouts(self, wildcards: Wildcards) -> str:
        """Return what the layouts of the files say of columns, as JSON: an exported model takes these columns."""
        kept, words = {"missing", "columns", "derive"}, {"columns": {"__all__": set(ColumnWords.model_fields)}}
        layouts = {
            name: layout.model_dump(include=kept, exclude=words, exclude_defaults=True)
            for name, layout in self.files.all_layouts().items()
        }
        return json_of(layouts, sort_keys=True)

    def offset(self, wildcards: Wildcards) -> list[str]:
        """Return the fit of the regression whose linear predictor is part of a network."""
        network = self.model(wildcards).network
        return self.paths.of(network.offset_from, *FIT) if network and network.offset_from else []

    def reference_of_regression(self, wildcards: Wildcards) -> list[str]:
        """Return the file with the reference levels of a regression; a network has none."""
        return [] if wildcards.model in self.config.networks else self.paths.of(wildcards.model, "reference.json")

    def reference_of_unseen(self, wildcards: Wildcards) -> list[str]:
        """Return the file with the reference levels, if the evaluation depends on them."""
        uses_them = self.model(wildcards).settings.unseen == "reference"
        return self.paths.of(wildcards.model, "reference.json") if uses_them else []

    def networks_where(self, holds: Callable[[NetworkConfig], Any]) -> str:
        """Return the names of the networks that meet a condition, as a pattern."""
        return one_of(name for name in self.networks if holds(self.config.networks[name]))

    @cached_property
    def folders_of_code(self) -> list[Path]:
        """The folders with the Python files of networks, besides the folder of the run."""
        return [Path(file).parent for file in self.config_paths]

    def code(self, wildcards: Wildcards) -> list[str]:
        """Return the Python files that a network names, in the order of their names."""
        network = self.model(wildcards).network
        return [str(located_code(file, self.folders_of_code)) for file in network.files_of_code] if network else []

    def code_of_networks(self) -> list[str]:
        """Return the Python files that the networks to train name."""
        return sorted({path for name in self.networks for path in self.code(SimpleNamespace(model=name))})

    def digests_of_code(self, wildcards: Wildcards) -> str:
        """Return their SHA-256 by name, as JSON: an edit trains again, whatever the time of the file."""
        network = self.model(wildcards).network
        names = network.files_of_code if network else []
        return json_of({name: self.digest(path) for name, path in zip(names, self.code(wildcards), strict=True)})

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file that belongs to the config."""
        digest = digests.sha256(Path(path))
        with refusing():
            if self.snapshot:
                self.snapshot.check(path, digest)
        return digest

    def checked_network(self, wildcards: Wildcards) -> list[str]:
        """Return the file of a check that some networks pass before their training."""
        network = self.model(wildcards).network
        return self.paths.of(wildcards.model, "checked.json") if network and network.is_checked else []

    @cached_property
    def columns_to_collapse(self) -> dict[str, str]:
        """The columns of the collapsed rows that each model reads, as JSON, by its name. Models of one section share them."""
        sections, models = root.sections_of(self.sections), self.config.models
        of_section: dict[str, list[str]] = {}
        for name, model in models.items():
            if model.collapse:
                of_section.setdefault(sections.get(name, name), []).append(name)
        columns: dict[str, str] = {}
        for names in of_section.values():
            collapse = collapse_of([models[name] for name in names])
            columns |= dict.fromkeys(names, json_of(collapse.model_dump(mode="json", exclude_defaults=True)))
        return columns

    @cached_property
    def collapsed_columns(self) -> dict[str, str]:
        """The same by the names of their folders: models with the same columns share them."""
        return {key_of(columns): columns for columns in self.columns_to_collapse.values()}

    def collapsed(self, wildcards: Wildcards) -> list[str]:
        """Return the manifest of the collapsed rows, if a model reads them."""
        columns = self.columns_to_collapse.get(wildcards.model)
        return [f"{self.paths.collapsed}/manifest.json".format(columns=key_of(columns))] if columns else []

    def check_config(self, config: Config, problems: Problems) -> None:
        """Collect mistakes in columns, expressions and models, as far as config, layouts and headers show them, before Snakemake
        deletes the earlier outputs of the first rule that needs them."""
        for place, model in config.models_to_fit.items():
            if isinstance(model, NetworkConfig):
                with problems.collected():
                    check_functions(model, place, self.folders_of_code)
        layouts = self.layouts.values()
        if not READS_HEADERS:
            # Only the jobs can read headers, expressions and formulas: they check these.
            problems.messages += column_problems(config, layouts)
            return
        from tfglm.data.layouts import check_expressions
        from tfglm.design.early import model_problems

        offered = offered_columns(config, layouts)

        def layouts_of(files: FilesToRead, settings: SelectionConfig) -> dict[str, Layout]:
            """The known layouts of some files, by name."""
            # Report a column that no layout has once, not for each file.
            known = [column for column in settings.columns if column in offered]
            settings = settings.model_copy(update={"columns": known})
            found: dict[str, Layout] = {}
            for file in files.files.values():
                with problems.collected():
                    possible = files.possible_layouts(file, settings)
                    check_expressions(possible, settings)
                    found |= possible
            if not files.files:
                # None of the files that the config names exists.
                found = self.layouts
                with problems.collected():
                    check_expressions(found, settings)
            return found

        of_models = model_problems(config, layouts_of(self.files, config.data))
        if self.scored.settings:
            layouts_of(self.scored, self.scored.settings)
        problems.messages += column_problems(config, layouts, of_models.unparsed)
        problems.messages += of_models.messages

    def check_this_config(self, begin: Callable[[], None]) -> None:
        """Collect the mistakes of this config, unless nothing has changed since it had none. Call `begin` before the check."""

        def has_none() -> bool:
            begin()
            before = len(self.problems.messages)
            self.check_config(self.config, self.problems)
            return len(self.problems.messages) == before

        sections = [self.config, self.scored.settings, *self.layouts.values(), *self.layouts_to_score.values()]
        files = [status_of(file) for file in [*self.files.files.values(), *self.scored.files.values()]]
        texts = [section and section.model_dump_json() for section in sections]
        remembered(has_none, "config", texts, [*self.layouts, *self.layouts_to_score], files)

    def _check_further(self, name: str) -> None:
        """Check a model that `fit` does not name but the command does, like the models that `fit` names."""
        if name not in self._checked:
            problems = Problems()
            self.check_config(self.config.model_copy(update={"fit": [name], "compare": None}), problems)
            with refusing(self.config_names):
                problems.check()
            self._checked.add(name)

    def unused_shards(self) -> list[Path]:
        """Return the folders of shards that this config does not use: shards of other configs in the same folder, shards from
        before this config was edited, and rows that it collapsed earlier."""
        used = {Path(folder) for folder in [*self.files.folders.values(), *self.scored.folders.values()]}
        shards = [
            folder for folder in Path(self.paths.data).glob("*/*/") if re.fullmatch("[0-9a-f]{12}", folder.parts[-2])
        ]
        collapsed = Path(self.paths.collapsed).parent.glob("*/")
        return sorted(
            [
                *(folder for folder in shards if folder not in used),
                *(folder for folder in collapsed if folder.name not in self.collapsed_columns),
            ]
        )

    def command(self, *options: str, target: str = "") -> str:
        """Return the user's command for a run of this config. Configs in this folder are named from here."""
        here, named = Path.cwd(), [path for path in map(Path, self.config_paths) if path.is_absolute()]
        configs = [str(path.relative_to(here) if here in path.parents else path) for path in named]
        targets = [target] if target else []
        if self.caller == "tfglm":
            further = [*targets, *options]
            return shlex.join(["tfglm", "run", *configs, *(["--", *further] if further else [])])
        files = ["--configfile", *configs] if configs else []
        return shlex.join([*shlex.split(self.caller), *targets, *files, *options])

    def command_of_this_run(self, wildcards: Wildcards) -> str:
        """Return the command that makes these results again in this folder, as JSON. It leaves out addresses, which may hold a
        secret, and `cluster`, which changes no result."""
        entries = [str(entry) for entry in self.workflow.config_settings.config_args or []]
        shown = [
            f"{entry.partition('=')[0]}=..." if "://" in entry else entry
            for entry in entries
            if not entry.startswith("cluster=")
        ]
        return json_of(self.command(*(["--config", *shown] if shown else [])))


def _ordered(section: Section, keys: Iterable[str]) -> dict[str, Any]:
    """These keys of a section, without those at their default, in alphabetical order down to the last, so that their order is no
    reason to run again. Scenarios keep theirs: each is compared with those before it."""
    dumped = section.model_dump(include=set(keys), exclude_defaults=True)
    values = json.loads(json.dumps(dumped, sort_keys=True))
    return values | {key: dumped[key] for key in ("margins_at",) if key in dumped}
