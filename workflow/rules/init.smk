# A config for a file that has none yet. Apart from all other rules, which need a config.

from pathlib import Path

from snakemake.exceptions import WorkflowError


include: "scripts.smk"


if not isinstance(config.get("csv"), str):
    raise WorkflowError("`init` looks at one file of data; name it: snakemake --cores 1 init --config csv=flights.csv")

HERE = [Path(name).resolve() for name in ("Snakefile", "workflow/Snakefile")]
ELSEWHERE = "" if Path(workflow.main_snakefile).resolve() in HERE else f" --snakefile {workflow.main_snakefile}"


localrules:
    init,


rule init:
    """Look at a file of data, and write a config that fits a first regression to it."""
    log:
        "logs/init.log",
    conda:
        "../envs/tfglm.yaml"
    params:
        csv=config["csv"],
        snakemake=f"snakemake --cores 4{ELSEWHERE}",
    message:
        "Looking at {params.csv}"
    shell:
        'exec python "$TFGLM_SCRIPTS/init.py"'
        " --csv={params.csv:q}"
        " --snakemake={params.snakemake:q}"
        " --log {log}"
