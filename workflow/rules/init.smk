# Writes a first config for a file. Separate from all other rules, because these need a config.

from snakemake.exceptions import WorkflowError


include: "scripts.smk"


if not isinstance(config.get("csv"), str):
    raise WorkflowError("`init` inspects one file of data; name it: snakemake --cores 1 init --config csv=flights.csv")


localrules:
    init,


rule init:
    """Inspect a file of data, and write a config that fits a first regression to it."""
    log:
        "logs/init.log",
    conda:
        "../envs/tfglm.yaml"
    params:
        csv=lambda wildcards: config["csv"],
        snakemake=lambda wildcards: SNAKEMAKE,
    message:
        "Inspecting {params.csv}"
    shell:
        'exec python "$TFGLM_SCRIPTS/init.py"'
        " --csv={params.csv:q}"
        " --snakemake={params.snakemake:q}"
        " --log {log}"
