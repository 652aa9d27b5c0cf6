# Shared by all rules: the config, common paths, and the params that are keys of the config.

import hashlib
import json
import re
import shlex
from collections import namedtuple

from tfglm import ENGINE
from tfglm.addresses import SECRETS, is_address
from tfglm.config import (
    SPLITS,
    DesignConfig,
    LevelsConfig,
    NetworkConfig,
    PredictionConfig,
    ResultsConfig,
    SelectionConfig,
    SolverConfig,
    SourceConfig,
    TrainingConfig,
    collapse_of,
    columns_from,
    coordinate_files,
    expand_files,
    fetched,
    in_file,
    load,
    load_layouts,
    secret_addresses,
    sections_of,
    settings_to_score,
    words_of_columns,
)
from tfglm.config.models import has_curves
from tfglm.errors import Problems, nearest
from tfglm.roles import launch

# The name of the config in messages.
CONFIG_FILES = ", ".join(map(str, workflow.configfiles)) or "config"
# Mistakes that are reported together with the mistakes that checks.smk finds.
PROBLEMS = Problems()
FILES = SCORED = FETCHED = {}
TO_SCORE = None
try:
    CONFIG = load(config, CONFIG_FILES, PROBLEMS)
    # The possible layouts of a file, by the name of the layout.
    LAYOUTS = load_layouts(CONFIG.data)
    # The layouts of files that are only predicted. A layout for these files alone does not affect a model.
    OF_SCORE = CONFIG.data.model_copy(update={"files": CONFIG.score})
    LAYOUTS_TO_SCORE = load_layouts(OF_SCORE) if CONFIG.score else {}
    # The input files, by their name in results.
    with PROBLEMS.collected():
        FILES = expand_files(CONFIG.data)
    # The files that are only predicted, and the settings to read them.
    with PROBLEMS.collected():
        TO_SCORE = settings_to_score(CONFIG) if CONFIG.score else None
        SCORED = expand_files(OF_SCORE, "score") if TO_SCORE else {}
    # The fetched files, by their own name.
    with PROBLEMS.collected():
        FETCHED = fetched([*FILES.values(), *SCORED.values()])
    # Secrets, which commands, logs and records must not show, reach the script in its environment.
    os.environ[SECRETS] = secret_addresses(FETCHED)
except UserError as error:
    raise WorkflowError(str(error)) from None

# Labels and units of columns, as JSON. Pages show them; no computation uses them.
WORDS = json.dumps(words_of_columns(LAYOUTS.values(), CONFIG.data), sort_keys=True)

# Files of the project with the coordinates of levels. Files inside Python packages do not change.
COORDINATES = coordinate_files(json.loads(WORDS))

MODELS = CONFIG.fit or list(CONFIG.all_models)
# The regressions and the networks among them.
REGRESSIONS = [name for name in MODELS if name in CONFIG.models]
NETWORKS = [name for name in MODELS if name in CONFIG.networks]
HAS_CLUSTER = CONFIG.cluster.strategy != "one_device"


def folder_of_results():
    """The folder of the results of this config. It is named after the file of the config, so no config overwrites the results
    of another."""
    if CONFIG.results:
        return CONFIG.results
    file = workflow.configfiles[-1] if workflow.configfiles else "tfglm"
    name = re.sub("[^A-Za-z0-9_-]", "_", Path(file).stem)
    return f"results/{name}"


RESULTS = folder_of_results()
# Logs and times of jobs have a folder for each config too.
NAME = Path(RESULTS).relative_to("results") if RESULTS.startswith("results/") else Path(RESULTS)
LOGS, TIMINGS = Path("logs", NAME).as_posix(), Path("timings", NAME).as_posix()

MODEL = f"{RESULTS}/models/{{model}}"
# The files of a fitted model.
FIT = {
    "design": f"{MODEL}/design.json",
    "checkpoint": f"{MODEL}/checkpoint",
    "fit": f"{MODEL}/fit.json",
}


wildcard_constraints:
    file="[A-Za-z0-9_-]+",
    split="|".join(SPLITS),
    model="[A-Za-z][A-Za-z0-9_]*",


# Any model except a network, also a model that is not in the config, because its name is to be refused.
NO_NETWORK = "".join(f"(?!{name}/)" for name in CONFIG.networks) + "[A-Za-z][A-Za-z0-9_]*"
NETWORK = "|".join(CONFIG.networks) or "(?!)"


def has_peers():
    """The models that several processes fit or train under MultiWorkerMirroredStrategy, as a pattern of their names."""
    regressions = [NO_NETWORK] if CONFIG.cluster.peers else []
    return "|".join([networks_where(lambda network: network.peers), *regressions])


def networks_where(holds):
    """The networks for which a condition holds, as a pattern of their names."""
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
        values = model_of(wildcards).model_dump(include=set(keys), exclude_defaults=True)
        return json.dumps(values, sort_keys=True)

    return section


def settings_of_regressions(*keys):
    """The same for all regressions, by name."""
    sections = {name: CONFIG.models[name].model_dump(include=set(keys), exclude_defaults=True) for name in REGRESSIONS}
    return json.dumps(sections, sort_keys=True)


def unwatched(function):
    """A params function whose value is no reason to run a job again."""
    return lambda wildcards: Unwatched(function(wildcards))


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
    return json.dumps({"data": data, "model": model}, sort_keys=True)


def command_of_this_run():
    """The command that makes these results again in this folder. It leaves out addresses, which may hold a secret, and
    `cluster`, which changes no result."""
    settings = workflow.config_settings
    here = Path.cwd()
    paths = [Path(path).relative_to(here) if here in Path(path).parents else path for path in settings.configfiles]
    files = ["--configfile", *map(str, paths)] if paths else []
    entries = [str(entry) for entry in settings.config_args or [] if not str(entry).startswith("cluster=")]
    shown = [f"{entry.partition('=')[0]}=..." if "://" in entry else entry for entry in entries]
    return shlex.join([*shlex.split(SNAKEMAKE), *files, *(["--config", *shown] if shown else [])])


def derived_covariates(wildcards):
    """The expressions of derived columns that the model needs, as JSON."""
    needed = CONFIG.covariates_of(wildcards.model)
    derived = {name: sql for layout in LAYOUTS.values() for name, sql in layout.derive.items()} | CONFIG.data.derive
    return json.dumps({name: sql for name, sql in derived.items() if name in needed}, sort_keys=True)


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
    """The GPUs that a network asks for."""
    return model_of(wildcards).gpus


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


def allocation(wildcards):
    """The request to a scheduler: nodes, and processes on the fullest node."""
    roles = roles_of(wildcards)
    return launch.request(roles.ps, roles.workers + roles.peers, CONFIG.cluster.nodes)


def rosters_of(wildcards):
    """The rosters of the processes that work for the chief of a model."""
    roles = roles_of(wildcards)
    names = {"ps": roles.ps, "workers": roles.workers, "peers": roles.peers}
    return [f"{RESULTS}/models/{wildcards.model}/cluster/{name}.json" for name, count in names.items() if count]


def key_of(text):
    """The name of a folder, from everything that its content depends on."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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
        settings = collapse_of(list(models.values())).model_dump_json(exclude_defaults=True)
        wanted |= dict.fromkeys(models, settings)
    return wanted


WANTED = collapsed_by_model()
COLUMNS_OF = {name: key_of(settings) for name, settings in WANTED.items()}
SETTINGS_OF = {COLUMNS_OF[name]: settings for name, settings in WANTED.items()}


def collapsed_of(wildcards):
    """The manifest of the collapsed rows, if a model reads them."""
    columns = COLUMNS_OF.get(wildcards.model)
    return f"{COLLAPSED}/manifest.json".format(columns=columns) if columns else []
