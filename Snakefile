from snakemake.utils import min_version

min_version("9.27")


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/ingest.smk"
include: "workflow/rules/design.smk"
include: "workflow/rules/cluster.smk"
include: "workflow/rules/results.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        "results/data/rows.json",
        "results/data/rows.html",
        targets_of_all_models(),
