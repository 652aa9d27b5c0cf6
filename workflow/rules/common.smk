# Shared by all rules: the config as this process has read it, paths, and options that several commands have.

from tfglm import ENGINE
from tfglm.addresses import is_address
from tfglm.config import SPLITS, DesignConfig, LevelsConfig, SelectionConfig, SolverConfig, TrainingConfig
from tfglm.config.layouts import how_values_are_read
from tfglm.workflow import checks, models, summary
from tfglm.workflow.input_files import for_each_file
from tfglm.workflow.plan import Plan
from tfglm.workflow.processes import Processes
from tfglm.workflow.sweeps import Sweeps
from tfglm.workflow.targets import COMPARED, KEYS_OF_AVERAGES, KEYS_OF_METRICS, Targets, in_report
from tfglm.workflow.values import ANY_MODEL, any_but, json_of, key_of, literal, one_of, refusing, unwatched

with refusing():
    PLAN = Plan(workflow, config, CALLER)
CONFIG, PATHS = PLAN.config, PLAN.paths
SWEEPS, PROCESSES = Sweeps(PLAN, checkpoints), Processes(PLAN)
TARGETS = Targets(PLAN, SWEEPS)

RESULTS, LOGS, TIMINGS, MODEL = PATHS.results, PATHS.logs, PATHS.timings, PATHS.model
MANIFESTS = PLAN.files.manifests
HAS_CLUSTER = CONFIG.cluster.strategy != "one_device"
HAS_EVALUATION = bool(CONFIG.data.split.evaluate)
# What shows a fit is one job of a scheduler, so that it waits in the queue once, and not behind fits that need the whole cluster.
OF_RESULTS = "results"
# The options that all scripts of fits and trainings have.
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
# The options of what reads a fitted model.
OPTIONS_OF_FITTED = "--design {input.design} --checkpoint {input.checkpoint} --fit {input.fit}"
FITTED = {**PATHS.fit, "reference": PLAN.reference_of_unseen, "offset": PLAN.offset}
HELD_OUT = literal("--held-out" if HAS_EVALUATION else "")
PICTURES = literal(json_of(CONFIG.pictures.model_dump(mode="json", exclude_defaults=True)))
SETTINGS_OF_PAPERS = literal(json_of(CONFIG.tables.model_dump(mode="json", exclude_defaults=True)))


wildcard_constraints:
    file="[A-Za-z0-9_-]+",
    split="|".join(SPLITS),
    format="parquet|csv",
    model=ANY_MODEL,


# Any model except a network, also a model that is not in the config, because its name is to be refused.
NO_NETWORK = any_but(CONFIG.networks)
NETWORK = one_of(CONFIG.networks)


def share_of_runtime(wildcards, attempt):
    """Minutes of each of the three jobs in a group of results. Snakemake adds them up; the second attempt fits into an hour too."""
    return 10 * attempt
