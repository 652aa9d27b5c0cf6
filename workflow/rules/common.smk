import json
import re
import shlex
import shutil

from tfglm import ENGINE
from tfglm.addresses import SECRETS, is_address
from tfglm.config import (
    SPLITS,
    DesignConfig,
    SelectionConfig,
    SolverConfig,
    SourceConfig,
    covariates_of,
    expand_files,
    fetched,
    load,
    load_layouts,
    secret_addresses,
    settings_to_score,
)
from tfglm.roles import memory, pending
from tfglm.data.packages import located
from tfglm.errors import nearest

try:
    CONFIG = load(config, ", ".join(map(str, workflow.configfiles)) or "config")
    # What a file may look like, by the name of the layout.
    LAYOUTS = load_layouts(CONFIG.data)
    # The input files, by their name in results.
    FILES = expand_files(CONFIG.data)
    # Those that are only predicted, and how they are read. A layout that they alone have says nothing of a model.
    OF_SCORE = CONFIG.data.model_copy(update={"files": CONFIG.score})
    SCORED = expand_files(OF_SCORE) if CONFIG.score else {}
    TO_SCORE = settings_to_score(CONFIG) if SCORED else None
    LAYOUTS_TO_SCORE = load_layouts(OF_SCORE)
    # The files that are fetched, by their own name.
    FETCHED = fetched([*FILES.values(), *SCORED.values()])
    # What commands, logs and records must not show reaches the script by its environment.
    os.environ[SECRETS] = secret_addresses(FETCHED)
except UserError as error:
    raise WorkflowError(str(error)) from None

MODELS = CONFIG.fit or list(CONFIG.models)
HAS_CLUSTER = CONFIG.cluster.strategy == "parameter_server"


wildcard_constraints:
    file="[A-Za-z0-9_-]+",
    split="|".join(SPLITS),
    model="[A-Za-z][A-Za-z0-9_]*",


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
        found = possible_layouts(files[wildcards.file], settings)
        left_out = {"description", "after_departure"}
        return json.dumps({name: one.model_dump(exclude=left_out) for name, one in found.items()}, sort_keys=True)

    return layouts


def layout_names_in(files, settings):
    """A params function: the layouts that a file may have, as arguments that are no options."""

    def layout_names(wildcards):
        found = possible_layouts(files[wildcards.file], settings)
        return Unwatched(shlex.join(f"./{name}" if name.startswith("-") else name for name in found))

    return layout_names


def possible_layouts(file, settings):
    """The layouts that an input file may have, by name: the one that fits its header; all of them for a file at an address, whose
    header is not known before it is there."""
    from tfglm.data.layouts import choose
    from tfglm.data.header import read_header

    layouts = {name: (LAYOUTS | LAYOUTS_TO_SCORE)[name] for name in file.layouts}
    if not is_address(file.source):
        name, layout = choose(read_header(located(file.source)), layouts, settings, file.source)
        layouts = {name: layout}
    return layouts


class Unwatched:
    """A param that is no reason to run a job again: Snakemake compares plain values only."""

    def __init__(self, value):
        self.value = value

    def __str__(self):
        return str(self.value)


def model_of(wildcards):
    """The section of the model that a job is for."""
    if wildcards.model not in CONFIG.models:
        raise WorkflowError(
            f"no model `{wildcards.model}` in the config{nearest(wildcards.model, CONFIG.models)}; "
            f"there are: {', '.join(CONFIG.models)}"
        )
    return CONFIG.models[wildcards.model]


def model_setting(key, watched=True):
    """A params function: one key of the section of the model that the job is for, as JSON if it is a mapping."""

    def setting(wildcards):
        value = getattr(model_of(wildcards), key)
        value = json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
        return value if watched else Unwatched(value)

    return setting


def design_settings(wildcards):
    """What the fit of a model depends on, as JSON. Keys that have their default are left out, so that a key that a later version
    adds is no reason to fit again."""
    keys = set(DesignConfig.model_fields)
    return model_of(wildcards).model_dump_json(include=keys, exclude_defaults=True)


def solver_settings(wildcards):
    """How the model is fitted, as JSON, in the same way."""
    keys = set(SolverConfig.model_fields)
    return model_of(wildcards).model_dump_json(include=keys, exclude_defaults=True)


def passport_settings(wildcards):
    """What of the config the numbers depend on, as JSON."""
    data = CONFIG.data.model_dump(exclude=set(SourceConfig.model_fields), exclude_defaults=True)
    keys = set(DesignConfig.model_fields) | set(SolverConfig.model_fields)
    model = model_of(wildcards).model_dump(include=keys, exclude_defaults=True)
    command = f"snakemake results/models/{wildcards.model}/fit.json"
    return json.dumps({"data": data, "model": model, "command": command}, sort_keys=True)


def derived_covariates(wildcards):
    """The expressions of derived columns that the model needs, as JSON."""
    needed = covariates_of(model_of(wildcards))
    derived = {name: sql for layout in LAYOUTS.values() for name, sql in layout.derive.items()} | CONFIG.data.derive
    return json.dumps({name: sql for name, sql in derived.items() if name in needed}, sort_keys=True)


def has_curves(model):
    """Whether a number stands inside a function, whose effect a single coefficient does not show."""
    return re.search(r"\b(bs|poly|log\w*|sqrt|exp|abs)\(", CONFIG.models[model].formula.partition("~")[2])


def reference_of_unseen(wildcards):
    """The file with the reference levels, where the evaluation depends on them."""
    uses_them = model_setting("unseen")(wildcards) == "reference"
    return f"results/models/{wildcards.model}/reference.json" if uses_them else []


def compared_files(name=""):
    """An input function: a file of each model that is set side by side, or its folder."""

    def files(wildcards):
        if not CONFIG.compare:
            models = ", ".join(MODELS)
            raise WorkflowError(f"the config names no models to set side by side; say e.g. `compare: [{models}]`")
        return [str(Path("results/models", model, name)) for model in CONFIG.compare]

    return files


def scores(wildcards):
    """What `rule score` makes."""
    if not SCORED:
        raise WorkflowError("the config names no files to score; say e.g. `score: [data/2009.csv]`")
    return expand("results/models/{model}/scores/{file}.parquet", model=MODELS, file=SCORED)


def known_late(wildcards):
    """The names of the columns that are known only after departure, or derived from such."""
    from tfglm.data.selection import columns_from

    found = (columns_from(layout, CONFIG.data, layout.after_departure) for layout in LAYOUTS.values())
    return sorted(set().union(*found))


def check_files():
    """Refuse files and expressions that cannot be read, and a disk that is too small, before Snakemake deletes the earlier
    outputs of the first rule that needs them."""
    from tfglm.data.packing import estimated_csv_bytes
    from tfglm.data.shards import estimated_stored_bytes

    needed = 0
    for file in SCORED.values():
        possible_layouts(file, TO_SCORE)
    for name, file in FILES.items():
        possible_layouts(file, CONFIG.data)
        if not (is_address(file.source) or Path(f"results/data/ingested/{name}/manifest.json").exists()):
            csv = estimated_csv_bytes(located(file.source))
            needed += estimated_stored_bytes(csv, len(CONFIG.data.columns))
    free = shutil.disk_usage(".").free
    if needed > free:
        raise UserError(
            f"the shards need about {needed / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free in {Path.cwd()}\n"
            f"  make room, keep fewer columns, or run snakemake in a folder on a larger disk with --directory"
        )
    if needed > 1e9:
        print(
            f"The shards need about {needed / 1e9:.1f} GB in results/; {free / 1e9:.1f} GB are free.", file=sys.stderr
        )


try:
    # Not once more in the process of every job.
    if workflow.is_main_process:
        check_files()
except UserError as error:
    raise WorkflowError(str(error)) from None


def check_machine():
    """Before anything starts: refuse more processes than this machine has memory for, and say it if others can reach them."""
    if not (workflow.local_exec and any(job.rule.name == "chief" for job in workflow.dag.needrun_jobs())):
        return
    isolate = CONFIG.cluster.isolate
    try:
        memory.check(CONFIG.cluster.ps, CONFIG.cluster.workers, memory.of_machine())
    except UserError as error:
        raise WorkflowError(str(error)) from None
    if isolate == "never":
        return
    # By a process of its own: Snakemake has threads.
    line = [sys.executable, str(SCRIPTS / "isolate.py"), "--try"]
    reason = subprocess.run(line, capture_output=True, text=True).stdout.strip()
    if reason and isolate == "always":
        raise WorkflowError(
            f"`cluster: {{isolate: always}}`, but a fit cannot have a network of its own here: {reason}\n"
            f"  with `auto` it runs all the same; README.md says what that means"
        )
    if reason:
        logger.warning(
            f"While a fit runs, whoever reaches this machine's ports, as all its users do, can read and write your files: a "
            f"network of its own is refused here ({reason}). README.md says more."
        )


# What SLURM will never start, said again at the end of the run.
GIVEN_UP = []


def watch_queue():
    """Have a run on SLURM end if SLURM will never start one of its jobs."""
    if workflow.executor_plugin.name != "slurm":
        return
    # With `sacct` the executor does not notice a job that is cancelled.
    interrupt = workflow.executor_settings.status_command == "sacct"
    pending.watch(Path.cwd(), logger.error, GIVEN_UP, interrupt)


def targets_of_all_models():
    """What `rule all` makes for each model; metrics only where there are rows to compute them on."""
    names = ["fit.json", "coefficients.csv", "terms.csv", "coefficients.svg", "coefficients.html", "history.svg"]
    if CONFIG.data.split.evaluate:
        names += ["metrics.json", "metrics.html"]
    targets = expand("results/models/{model}/{name}", model=MODELS, name=names)
    if CONFIG.data.split.predict:
        targets += expand("results/models/{model}/predictions/{file}.parquet", model=MODELS, file=FILES)
    wanted = {
        "contrasts.csv": lambda model: model.contrasts,
        "path.csv": lambda model: model.path,
        "vcov.csv": lambda model: model.vcov,
        "metrics_by.csv": lambda model: model.by and CONFIG.data.split.evaluate,
        "model.json": lambda model: model.export,
    }
    for name, is_wanted in wanted.items():
        targets += [f"results/models/{model}/{name}" for model in MODELS if is_wanted(CONFIG.models[model])]
    return targets + [f"results/models/{model}/effects.csv" for model in MODELS if has_curves(model)]


onstart:
    # At least: the chief starts when the roles have said where they are to be found, and where a job first activates a conda
    # environment, that takes longer than the 5 s of Snakemake. Not more than needed, as it looks again each tenth of that time;
    # and not as a profile of the workflow, which would overrule the 60 s of profiles/slurm.
    workflow.execution_settings.latency_wait = max(workflow.execution_settings.latency_wait, 20)
    check_machine()
    watch_queue()


onerror:
    for reason in GIVEN_UP:
        print(reason, file=sys.stderr)


onsuccess:
    if any(Path(target).exists() for target in targets_of_all_models()):
        print(
            "\nThe results are in results/models/: for each model coefficients.csv (the table), terms.csv, fit.json, metrics.json,"
        )
        print("coefficients.svg (the picture) and checkpoint/; results/data/rows.json accounts for every row.")
