# Shared by all rules: the config, common paths, and the params that are keys of the config.

import hashlib
import json
import math
import re
from collections import namedtuple

from snakemake.path_modifier import PathModifier

from tfglm import ENGINE, digests
from tfglm.addresses import SECRETS, is_address, is_stored, redacted, without_secrets
from tfglm.config import (
    SPLITS,
    DesignConfig,
    Layout,
    LevelsConfig,
    NetworkConfig,
    PredictionConfig,
    ResultsConfig,
    SelectionConfig,
    SolverConfig,
    SourceConfig,
    TrainingConfig,
    check_functions,
    collapse_of,
    columns_from,
    coordinate_files,
    expand_files,
    fetched,
    folder_of_results,
    how_values_are_read,
    in_file,
    load,
    load_layouts,
    located_code,
    secret_addresses,
    sections_of,
    settings_to_score,
    small_files_together,
    strategy_for,
    times_in,
    words_of_columns,
)
from tfglm.config.layouts import ColumnWords
from tfglm.config.models import covariates_of, has_curves
from tfglm.data.packages import located
from tfglm.errors import Problems, nearest
from tfglm.roles import launch, memory
from tfglm.workflow import snapshot


def key_of(text):
    """The name of a folder, from everything that its content depends on."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def json_of(value, sort_keys=False):
    """JSON for a param, in ASCII and without `<`: a command line of any locale can hold it, and it cannot end the <script> of
    Snakemake's report that has the params."""
    return json.dumps(value, sort_keys=sort_keys).replace("<", "\\u003c")


def check_storage(address):
    """Raise UserError if no storage plugin of Snakemake takes an address."""
    try:
        workflow.storage_registry.infer_provider(address)
    except WorkflowError as error:
        raise UserError(
            f"data.files: `{redacted(address)}`: {str(error).partition('.')[0]}\n"
            "  install the plugin beside Snakemake, such as snakemake-storage-plugin-s3 for s3://; or download the file and name its path"
        ) from None


MOST_LISTED = 100_000


def objects_below(prefix):
    """The addresses of a storage that begin with a prefix."""
    check_storage(prefix)
    scheme, _, place = prefix.partition("://")
    bucket, _, key = place.partition("/")
    stored = storage(prefix, retrieve=False).flags["storage_object"]
    if not hasattr(stored, "s3bucket"):
        raise UserError(f"`{prefix}`: a pattern is only possible in s3://; name each object")
    try:
        keys = [found.key for found in stored.s3bucket().objects.filter(Prefix=key).limit(MOST_LISTED + 1)]
    except Exception as error:  # each library below the plugin has its own
        raise UserError(f"`{prefix}`: the storage cannot be listed: {without_secrets(str(error))}") from None
    if len(keys) > MOST_LISTED:
        raise UserError(f"`{prefix}`: more than {MOST_LISTED:,} objects begin like this; name their folder")
    return [f"{scheme}://{bucket}/{each}" for each in keys]


# The name of this workflow, if another one uses it as a module.
MODULE = str(workflow.modifier.namespace)
# Mistakes that are reported together with the mistakes that checks.smk finds.
PROBLEMS = Problems()
FILES = SCORED = FETCHED = {}
TO_SCORE = None
try:
    # What the run that submitted this job has read; None in the main process.
    SNAPSHOT = snapshot.load(workflow.config_settings.overwrite_config, MODULE)
    if SNAPSHOT:
        config = SNAPSHOT.config
    # The files of the config. Those that the command names have absolute paths.
    CONFIG_PATHS = SNAPSHOT.configs if SNAPSHOT else list(map(str, workflow.configfiles))
    # The name of the config in messages.
    CONFIG_FILES = ", ".join(CONFIG_PATHS) or "config"
    CONFIG = load(config, CONFIG_FILES, PROBLEMS)
    # The possible layouts of a file, by the name of the layout.
    LAYOUTS = load_layouts(CONFIG.data, SNAPSHOT and SNAPSHOT.layouts)
    # The layouts of files that are only predicted. A layout for these files alone does not affect a model.
    OF_SCORE = CONFIG.data.model_copy(update={"files": CONFIG.score})
    LAYOUTS_TO_SCORE = load_layouts(OF_SCORE, SNAPSHOT and SNAPSHOT.layouts) if CONFIG.score else {}
    # The input files, by their name in results.
    with PROBLEMS.collected():
        FILES = SNAPSHOT.files if SNAPSHOT else expand_files(CONFIG.data, objects=objects_below)
    # The files that are only predicted, and the settings to read them.
    with PROBLEMS.collected():
        TO_SCORE = settings_to_score(CONFIG) if CONFIG.score else None
        if TO_SCORE:
            SCORED = SNAPSHOT.scored if SNAPSHOT else expand_files(OF_SCORE, "score", objects_below)
    # The fetched files, by their own name.
    with PROBLEMS.collected():
        FETCHED = fetched([*FILES.values(), *SCORED.values()])
    for file in filter(lambda file: is_stored(file.source), FETCHED.values()):
        with PROBLEMS.collected():
            check_storage(file.source)
    # Secrets, which commands, logs and records must not show, reach the script in its environment.
    os.environ[SECRETS] = secret_addresses(FETCHED)
except UserError as error:
    raise WorkflowError(str(error)) from None

# Labels and units of columns, as JSON. Pages show them; no computation uses them.
WORDS = json_of(words_of_columns(LAYOUTS.values(), CONFIG.data), sort_keys=True)

# Files of the project with the coordinates of levels. Files inside Python packages do not change.
COORDINATES = coordinate_files(json.loads(WORDS))

MODELS = CONFIG.fit or list(CONFIG.all_models)
# The regressions and the networks among them.
REGRESSIONS = [name for name in MODELS if name in CONFIG.models]
NETWORKS = [name for name in MODELS if name in CONFIG.networks]


def readable(file):
    """The path of an input file that is on this machine before the run; else None."""
    try:
        return None if is_address(file.source) else located(file.source)
    except UserError:
        return None  # Snakemake alone has no package with data


STRATEGY = SNAPSHOT.strategy if SNAPSHOT else strategy_for(map(readable, FILES.values()))
# Whether the start of a cluster takes longer than its workers save.
IS_SMALL = STRATEGY == "one_device"
if CONFIG.cluster.strategy == "auto":
    CONFIG = CONFIG.model_copy(update={"cluster": CONFIG.cluster.model_copy(update={"strategy": STRATEGY})})
HAS_CLUSTER = CONFIG.cluster.strategy != "one_device"


# A workflow that uses this one as a module may put it below a folder (`prefix`). Snakemake would move the files of rules alone: not
# journals and leases, which are params, and the user's own data too. So the folders below are moved here, and nothing else is.
MOVED = workflow.modifier.path_modifier
workflow.modifier.path_modifier = PathModifier(None, None, workflow)


def placed(folder):
    """The path of a folder that this workflow writes to, from the folder that Snakemake runs in."""
    return str(MOVED.replace_prefix(Path(folder).as_posix()))


# Named after the file of the config, so no config overwrites the results of another.
OWN_RESULTS = folder_of_results(CONFIG.results, CONFIG_PATHS[-1] if CONFIG_PATHS else "tfglm")
# Logs and times of jobs have a folder for each config too.
NAME = Path(OWN_RESULTS).relative_to("results") if OWN_RESULTS.startswith("results/") else Path(OWN_RESULTS)
RESULTS, LOGS, TIMINGS = placed(OWN_RESULTS), placed(Path("logs", NAME)), placed(Path("timings", NAME))
# Configs share these.
DATA, LOGS_OF_DATA, TIMINGS_OF_DATA = placed("results/data"), placed("logs/data"), placed("timings/data")

MODEL = f"{RESULTS}/models/{{model}}"
# The outputs of a fit or a training,
FITTED = {
    "fit": f"{MODEL}/fit.json",
    "checkpoint": directory(f"{MODEL}/checkpoint"),
    "history": f"{MODEL}/history.csv",
    "history_digest": f"{MODEL}/history.sha256",
}
# and the options that all their scripts have.
OPTIONS_OF_FIT = (
    "--settings {params.settings:q}"
    " --config {params.config:q}"
    " --history {output.history}"
    " --journal {params.journal}"
    " --progress {params.progress}"
    " --events {params.events}"
    " --checkpoint {output.checkpoint}"
    " --fit {output.fit}"
    " --parent $PPID"
    " --log {log}"
)
# The files of a fitted model, for what reads them.
FIT = {
    "design": f"{MODEL}/design.json",
    "checkpoint": f"{MODEL}/checkpoint",
    "fit": f"{MODEL}/fit.json",
}


ANY_MODEL = "[A-Za-z][A-Za-z0-9_]*"


wildcard_constraints:
    file="[A-Za-z0-9_-]+",
    split="|".join(SPLITS),
    format="parquet|csv",
    model=ANY_MODEL,


# Any model except a network, also a model that is not in the config, because its name is to be refused.
NO_NETWORK = "".join(f"(?!{name}/)" for name in CONFIG.networks) + ANY_MODEL
NETWORK = "|".join(CONFIG.networks) or "(?!)"


def has_peers():
    """The models that several processes fit or train under MultiWorkerMirroredStrategy, as a pattern of their names."""
    regressions = [NO_NETWORK] if CONFIG.cluster.peers else []
    return "|".join([networks_where(lambda network: network.peers), *regressions])


class Variant(namedtuple("Variant", "name models files of_networks")):
    """What a stage does for the models with the same files. `models` is a pattern of their names."""


def variants(stage, files_of, usual):
    """The variants of a stage. Snakemake has to know its outputs from the start, and models have different ones.

    The first variant, named like the stage, is that of regressions with the `usual` files; names that are in no config are
    refused there. `files_of` says which files a model has.
    """
    models_of = {(False, usual): []}
    for name in CONFIG.all_models:
        models_of.setdefault((name in CONFIG.networks, files_of(name)), []).append(name)
    for (of_networks, files), models in models_of.items():
        further, lacking = (
            [Path(file).stem for file in one if file not in other] for one, other in ((files, usual), (usual, files))
        )
        without = ["without", *lacking] if lacking else []
        name = "_".join(dict.fromkeys([stage, *(["network"] if of_networks else without), *further]))
        if (of_networks, files) == (False, usual):
            others = set(CONFIG.all_models) - set(models)
            yield Variant(name, "".join(f"(?!{each}/)" for each in sorted(others)) + ANY_MODEL, files, False)
        elif files:
            yield Variant(name, "|".join(models), files, of_networks)


def not_among(files_of):
    """Any model, as a pattern that does not match before the files of the variants."""
    made = [f"{name}/{Path(file).stem}[.]" for name in CONFIG.all_models for file in files_of(name)]
    return "".join(f"(?!{each})" for each in made) + ANY_MODEL


def networks_where(holds):
    """The names of the networks that meet a condition, as a pattern."""
    return "|".join(name for name in NETWORKS if holds(CONFIG.networks[name])) or "(?!)"


class Unwatched:
    """A param that is no reason to run a job again, because Snakemake compares plain values only."""

    def __init__(self, value):
        self.value = value

    def __str__(self):
        return str(self.value)


def literal(value):
    """A params function: this value. Snakemake would take braces in a plain text for wildcards, and text of the user may have any;
    what a function returns it leaves alone."""
    return lambda wildcards: value


def model_of(wildcards):
    """The section of the model that a job is for."""
    models = CONFIG.all_models
    if wildcards.model not in models:
        raise WorkflowError(
            f"no model `{wildcards.model}` in the config{nearest(wildcards.model, models)}; "
            f"there are: {', '.join(models)}"
        )
    if workflow.is_main_process and wildcards.model not in MODELS:
        check_asked(wildcards.model)
    return models[wildcards.model]


def folder_of_model(wildcards):
    """The folder of the model that a job is for."""
    return MODEL.format(model=wildcards.model)


def settings(*keys):
    """A params function: these keys of the model's section as JSON, for the option `--settings`, which validates them again.
    Keys at their default are left out. So a new key in a later version is no reason to run again."""

    def section(wildcards):
        return json_of(ordered(model_of(wildcards).model_dump(include=set(keys), exclude_defaults=True)))

    return section


def ordered(section):
    """Keys of a section in alphabetical order, down to the last, so that their order is no reason to run again. Scenarios keep
    theirs: each is compared with those before it."""
    values = json.loads(json.dumps(section, sort_keys=True))
    return values | {key: section[key] for key in ("margins_at",) if key in section}


def settings_of_regressions(*keys):
    """The same for all regressions, by name."""
    dumped = {name: CONFIG.models[name].model_dump(include=set(keys), exclude_defaults=True) for name in REGRESSIONS}
    return json_of({name: ordered(section) for name, section in sorted(dumped.items())})


def unwatched(function):
    """A params function whose value is no reason to run a job again."""
    return lambda wildcards: Unwatched(function(wildcards))


# What shows a fit is one job of a scheduler, so that it waits in the queue once, and not behind fits that need the whole cluster.
OF_RESULTS = "results"


def share_of_runtime(wildcards, attempt):
    """Minutes of each of the three jobs in a group of results. Snakemake adds them up; the second attempt fits into an hour too."""
    return 10 * attempt


def latency_wait():
    """Seconds that Snakemake waits for a file: at least 20. The chief starts when the roles have written their addresses. On a
    busy machine, from a slow disk, or if a job first activates an environment, this takes longer than Snakemake's 5 s. More
    would cost time, because Snakemake looks again each tenth of it. A profile of the workflow would overrule the 60 s of the
    profiles in profiles/."""
    return max(workflow.execution_settings.latency_wait, 20)


def chief_within(wildcards):
    """Seconds after the start of a role until Snakemake has started the chief, or given it up because a roster is missing."""
    return latency_wait() + 10


# These paths are neither outputs, which Snakemake would delete when the job fails, nor reasons to run again. The processes of a
# model find each other here,
MEETING = {
    "network": unwatched(lambda wildcards: f"{RESULTS}/models/{wildcards.model}/cluster/network.json"),
    "lease": unwatched(lambda wildcards: f"{RESULTS}/models/{wildcards.model}/cluster/chief.lease"),
}
# and a fit writes these before it is complete.
MEANWHILE = {
    "journal": unwatched(lambda wildcards: f"{RESULTS}/resume/{wildcards.model}"),
    "progress": unwatched(lambda wildcards: f"{LOGS}/models/{wildcards.model}/progress.json"),
    "events": unwatched(lambda wildcards: f"{LOGS}/models/{wildcards.model}/events"),
}


def provenance_settings(wildcards):
    """The keys of the config that the numbers depend on, as JSON."""
    data = CONFIG.data.model_dump(exclude=set(SourceConfig.model_fields), exclude_defaults=True)
    of_fit = (DesignConfig, SolverConfig, TrainingConfig)
    keys = {key for section in of_fit for key in section.model_fields}
    model = model_of(wildcards).model_dump(include=keys, exclude_defaults=True)
    kept = set(CONFIG.data.columns)
    in_layouts = {name: layout.derive for name, layout in layouts_of_files().items() if kept & set(layout.derive)}
    derived = {"derived_in_layouts": in_layouts} if in_layouts else {}
    # Those that a prediction may need.
    sources = " ".join(
        [*kept, *CONFIG.data.derive.values(), *(sql for derive in in_layouts.values() for sql in derive.values())]
    )
    times = {
        name: time
        for name, time in times_in(layouts_of_files().values()).items()
        if name in re.findall(r"\w+", sources)
    }
    derived |= {"times_in_layouts": times} if times else {}
    return json_of({"data": data, "model": model, **derived}, sort_keys=True)


def configs_of_this_run():
    """The paths of the configs that were named, from this folder if they are in it."""
    here, named = Path.cwd(), [path for path in map(Path, CONFIG_PATHS) if path.is_absolute()]
    return [str(path.relative_to(here) if here in path.parents else path) for path in named]


def command_to_tidy():
    """The command that deletes the shards that this config does not use."""
    configs = configs_of_this_run()
    if CALLER == "tfglm":
        return run_of(*configs, options=["tidy"])
    named = ["--configfile", *configs] if configs else []
    return shlex.join([*shlex.split(CALLER), "tidy", *named])


def command_of_this_run():
    """The command that makes these results again in this folder. It leaves out addresses, which may hold a secret, and
    `cluster`, which changes no result."""
    entries = [
        str(entry) for entry in workflow.config_settings.config_args or [] if not str(entry).startswith("cluster=")
    ]
    shown = [f"{entry.partition('=')[0]}=..." if "://" in entry else entry for entry in entries]
    return run_of(*configs_of_this_run(), options=["--config", *shown] if shown else [])


def layouts_to_export(wildcards):
    """What the layouts of the files say of columns, as JSON: an exported model takes these columns."""
    kept, words = {"missing", "columns", "derive"}, {"columns": {"__all__": set(ColumnWords.model_fields)}}

    def dumped(layout):
        return layout.model_dump(include=kept, exclude=words, exclude_defaults=True)

    return json_of({name: dumped(layout) for name, layout in layouts_of_files().items()}, sort_keys=True)


def offset_of(wildcards):
    """The fit of the regression whose linear predictor is part of a network."""
    model = model_of(wildcards)
    offset = isinstance(model, NetworkConfig) and model.offset_from
    return [f"{RESULTS}/models/{offset}/{name}" for name in ("design.json", "checkpoint", "fit.json")] if offset else []


def threads_to_average(wildcards):
    """Threads of a job that reads the rows again: one for each half GB of input. No number depends on it, and other jobs run
    at the same time. If jobs run elsewhere, the number of cores is unknown."""
    sources = [Path(file.source) for file in FILES.values() if not file.fetched]
    size = sum(source.stat().st_size for source in sources if source.is_file())
    return max(1, min(8, workflow.resource_settings.cores or 4, size // 2**29))


def threads_of_training(wildcards):
    """The processors that the devices of a network and its input keep busy."""
    network = model_of(wildcards)
    return network.threads * (network.gpus or network.devices or 1) + 1


def gpus_of_training(wildcards):
    """The GPUs that all processes of a training ask for. As a dry run does not start, it refuses missing devices here."""
    if wildcards.model not in CONFIG.networks:
        return 0
    if workflow.dryrun and workflow.resource_settings.nodes is None:
        check_devices(wildcards.model)
    network = CONFIG.networks[wildcards.model]
    return network.gpus * (network.servers[1] or network.peers or 1)


# Folders with the Python files of networks, besides the folder of the run.
FOLDERS_OF_CODE = [Path(file).parent for file in CONFIG_PATHS]


def digest_of(path):
    """The SHA-256 of a file that belongs to the config."""
    digest = digests.sha256(Path(path))
    try:
        if SNAPSHOT:
            SNAPSHOT.check(str(path), digest)
    except UserError as error:
        raise WorkflowError(str(error)) from None
    return digest


def code_of(wildcards):
    """The Python files that a network names, in the order of their names."""
    return [str(located_code(file, FOLDERS_OF_CODE)) for file in model_of(wildcards).files_of_code]


def digests_of_code(wildcards):
    """Their SHA-256 by name, as JSON: an edit trains again, whatever the time of the file."""
    files = zip(model_of(wildcards).files_of_code, code_of(wildcards))
    return json_of({file: digest_of(path) for file, path in files})


def checked_network(wildcards):
    """The file of a check that some networks pass before their training."""
    return f"{MODEL}/checked.json" if model_of(wildcards).is_checked else []


def reference_of_regression(wildcards):
    """The file with the reference levels of a regression; a network has none."""
    return [] if wildcards.model in CONFIG.networks else f"{RESULTS}/models/{wildcards.model}/reference.json"


def reference_of_unseen(wildcards):
    """The file with the reference levels, if the evaluation depends on them."""
    uses_them = model_of(wildcards).unseen == "reference"
    return f"{RESULTS}/models/{wildcards.model}/reference.json" if uses_them else []


Roles = namedtuple("Roles", "ps workers peers")


def roles_of(wildcards):
    """How many processes work for the chief of a model."""
    if wildcards.model not in CONFIG.networks:
        return Roles(*CONFIG.cluster.servers, CONFIG.cluster.peers)
    network = CONFIG.networks[wildcards.model]
    return Roles(*network.servers, max(0, network.peers - 1))


def threads_of_group(wildcards):
    """The processors of all processes that fit or train a model: one for each but the ps, which waits. With fewer --cores Snakemake
    takes all of them, and the processes share them. The memory limits the number of processes (`check_machine`).

    The processes of a small fit wait for each other's start most of the time. So several such fits share the processors of a
    machine, if its memory is enough for as many at the same time.
    """
    roles, cores = roles_of(wildcards), workflow.resource_settings.cores
    processes = roles.workers + roles.peers + 1
    if not IS_SMALL or wildcards.model in CONFIG.networks or not cores or workflow.resource_settings.nodes is not None:
        return processes
    together = memory.machine_memory() // (memory.MOST * (roles.ps + processes))
    return min(processes, math.ceil(cores / max(1, together)))


def allocation(wildcards):
    """The request to a scheduler: nodes, and processes on the fullest node."""
    roles = roles_of(wildcards)
    return launch.request(*roles, CONFIG.cluster.nodes, gpus_of_each(wildcards))


def gpus_of_each(wildcards):
    """The GPUs of each worker, or of the chief and of each of its peers."""
    network = CONFIG.networks.get(wildcards.model)
    return network.gpus if network else 0


def gpus_of_node(wildcards):
    """The request for so many GPUs on each node, as SLURM writes it; empty without any."""
    gpus = allocation(wildcards).gpus
    return f"gpu:{gpus}" if gpus else ""


# A process took 0.7 GB with 140 coefficients. The information matrix of 8,800 is 53 MB, and a process may hold several.
MB_PER_PROCESS = 2000
# The libraries of GPUs need more. A training in one process asks for as much.
MB_PER_PROCESS_WITH_GPUS = 4000


def mb_of_roles(wildcards, attempt):
    """The memory of the fullest node of a group."""
    each = MB_PER_PROCESS_WITH_GPUS if gpus_of_each(wildcards) else MB_PER_PROCESS
    return attempt * each * allocation(wildcards).processes


def rosters_of(wildcards):
    """The rosters of the processes that work for the chief of a model."""
    roles = roles_of(wildcards)
    names = {"ps": roles.ps, "workers": roles.workers, "peers": roles.peers}
    return [f"{RESULTS}/models/{wildcards.model}/cluster/{name}.json" for name, count in names.items() if count]


# Collapsed rows are named by their columns: models with the same columns share them.
COLLAPSED = f"{RESULTS}/data/collapsed/{{columns}}"


def collapsed_by_model():
    """The columns of the collapsed rows that each model reads, as JSON, by its name. Models of one section share them."""
    sections, of_section = sections_of(config), {}
    for name, model in CONFIG.models.items():
        if model.collapse:
            of_section.setdefault(sections.get(name, name), {})[name] = model
    wanted = {}
    for models in of_section.values():
        settings = json_of(collapse_of(list(models.values())).model_dump(mode="json", exclude_defaults=True))
        wanted |= dict.fromkeys(models, settings)
    return wanted


WANTED = collapsed_by_model()
COLUMNS_OF = {name: key_of(settings) for name, settings in WANTED.items()}
SETTINGS_OF = {COLUMNS_OF[name]: settings for name, settings in WANTED.items()}


def collapsed_of(wildcards):
    """The manifest of the collapsed rows, if a model reads them."""
    columns = COLUMNS_OF.get(wildcards.model)
    return f"{COLLAPSED}/manifest.json".format(columns=columns) if columns else []
