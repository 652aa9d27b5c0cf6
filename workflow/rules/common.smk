import json
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

SCRIPTS = Path(workflow.basedir) / "scripts"
# The rules call `python "$TFGLM_SCRIPTS/..."`: of the ways tried, the one that works from a module and from a moved checkout.
os.environ.update(TFGLM_SCRIPTS=str(SCRIPTS))
sys.path.insert(0, str(SCRIPTS))

from tfglm import ENGINE
from tfglm.config import SelectionConfig, expand_files, load, load_layout
from tfglm.errors import UserError, nearest

try:
    CONFIG = load(config, ", ".join(map(str, workflow.configfiles)) or "config")
    LAYOUT = load_layout(CONFIG.data.layout, SCRIPTS.parent / "config" / "layouts")
    # Name of an input file in results: where it comes from.
    FILES = expand_files(CONFIG.data.files)
except UserError as error:
    raise WorkflowError(str(error)) from None

MODELS = CONFIG.fit or list(CONFIG.models)


wildcard_constraints:
    file="[A-Za-z0-9_-]+",
    model="[A-Za-z][A-Za-z0-9_]*",


def is_packed(source):
    """Whether `fetch` has to make a plain CSV file of it."""
    return source.startswith("package:") or Path(source).suffix in (".zip", ".gz", ".bz2")


def csv_of(wildcards):
    """The plain CSV file to ingest: the user's own, or what `fetch` makes of it."""
    source = FILES[wildcards.file]
    return f"results/data/fetched/{wildcards.file}.csv" if is_packed(source) else source


def packed_source(wildcards):
    """The compressed file to unpack; a file inside a Python package is found by the script, for it lies outside the project."""
    source = FILES[wildcards.file]
    return [] if source.startswith("package:") else source


def source_name(wildcards):
    return FILES[wildcards.file]


class Unwatched:
    """A param that is no reason to run a job again: Snakemake compares plain values only."""

    def __init__(self, value):
        self.value = value

    def __str__(self):
        return str(self.value)


def model_setting(key, watched=True):
    """A params function: one key of the section of the model that the job is for, as JSON if it is a mapping."""

    def setting(wildcards):
        if wildcards.model not in CONFIG.models:
            raise WorkflowError(
                f"no model `{wildcards.model}` in the config{nearest(wildcards.model, CONFIG.models)}; "
                f"there are: {', '.join(CONFIG.models)}"
            )
        value = getattr(CONFIG.models[wildcards.model], key)
        value = json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
        return value if watched else Unwatched(value)

    return setting


def check_files():
    """Refuse a column that does not exist before Snakemake deletes the earlier outputs of the first rule that needs it."""
    from tfglm.data.ingest import read_header, selection

    selection(LAYOUT, CONFIG.data)
    for source in FILES.values():
        if not is_packed(source):
            read_header(Path(source), LAYOUT)


try:
    # Not once more in the process of every job.
    if workflow.is_main_process:
        check_files()
except UserError as error:
    raise WorkflowError(str(error)) from None


def targets_of_all_models():
    """What `rule all` makes for each model; metrics only where there are rows to compute them on."""
    names = ["fit.json", "coefficients.csv", "coefficients.svg", "coefficients.html"]
    if CONFIG.data.split.evaluate:
        names.append("metrics.json")
    return expand("results/models/{model}/{name}", model=MODELS, name=names)


onsuccess:
    if any(Path(target).exists() for target in targets_of_all_models()):
        print(
            "\nThe results are in results/models/: for each model coefficients.csv (the table), fit.json, metrics.json,"
        )
        print("coefficients.svg (the picture) and checkpoint/; results/data/rows.json accounts for every row.")
