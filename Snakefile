from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/config_files.smk"


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/ingest.smk"
include: "workflow/rules/design.smk"
include: "workflow/rules/cluster.smk" if HAS_CLUSTER else "workflow/rules/one_device.smk"
include: "workflow/rules/results.smk"
include: "workflow/rules/report.smk"


rule all:
    """Fit all models and write their tables, metrics and pictures: what a plain `snakemake` does."""
    default_target: True
    input:
        "results/data/rows.json",
        "results/data/rows.html",
        "results/summary.html",
        "results/compare.html" if CONFIG.compare else [],
        targets_of_all_models(),


rule score:
    """Predict every row of the files under `score` with the models as they are fitted."""
    input:
        scores,


rule compare:
    """Set the models under `compare` side by side."""
    input:
        "results/compare.html",


rule export:
    """Write all models as SavedModel and as JSON."""
    input:
        expand("results/models/{model}/model.json", model=MODELS),
