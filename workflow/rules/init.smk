# Writes a first config for a file. Separate from all other rules, because these need a config.


include: "scripts.smk"


from tfglm import console
from tfglm.workflow.values import Refusal

if not isinstance(config.get("csv"), str):
    raise Refusal("`init` inspects one file of data; name it: snakemake --cores 1 init --config csv=flights.csv")

KEYS = ("csv", *console.REQUEST)
UNKNOWN = ", ".join(f"`{key}`" for key in config if key not in KEYS)
if UNKNOWN:
    raise Refusal(f"`init` has no key {UNKNOWN}; its keys are {', '.join(KEYS)}")

REQUEST = {key: config[key] for key in KEYS if key in config}
NO_TEXT = [key for key, value in REQUEST.items() if not isinstance(value, (str, int, float))]
if NO_TEXT:
    raise Refusal(f"`init` needs a text for {NO_TEXT[0]}, as in --config csv=flights.csv {NO_TEXT[0]}='...'")


rule init:
    """Inspect a file of data, and write a config that fits a first regression to it."""
    log:
        "logs/init.log",
    localrule: True
    conda:
        "../envs/tfglm.yaml"
    params:
        csv=lambda wildcards: config["csv"],
        request=lambda wildcards: [f"--{key}={value}" for key, value in REQUEST.items()],
        caller=lambda wildcards: CALLER,
    message:
        "Inspecting {params.csv}"
    shell:
        'exec python "$TFGLM_SCRIPTS/init.py"' " {params.request:q}" " --caller={params.caller:q}" " --log {log}"
