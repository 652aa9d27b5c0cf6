# The training of a network. The outputs are those of a fit. Under a strategy of one process it
# is an ordinary job. The networks of a sweep are compared here too.

TRAINING = (
    "--work network"
    " --design {input.design}"
    " --manifests {input.manifests}"
    " --offset {input.offset}"
    " --code {input.code}"
    " --code-digests {params.code:q}"
    f" {OPTIONS_OF_FIT}"
)
# The inputs of a training, and the reasons to train again: the same under each strategy.
TRAINED_FROM = {
    "design": f"{MODEL}/design.json",
    "manifests": MANIFESTS,
    "offset": PLAN.offset,
    "code": PLAN.code,
    "checked": PLAN.checked_network,
}
TRAINED_BY = {
    "engine": ENGINE,
    "settings": PLAN.settings(*TrainingConfig.model_fields),
    "code": PLAN.digests_of_code,
    "config": PLAN.provenance,
    **PROCESSES.meanwhile,
}


# A separate rule, so that mistakes in the user's code show before the earlier training is deleted.
rule check_network:
    input:
        design=f"{MODEL}/design.json",
        code=PLAN.code,
    output:
        f"{MODEL}/checked.json",
    log:
        f"{LOGS}/models/{{model}}/check_network.log",
    benchmark:
        f"{TIMINGS}/check_network/{{model}}.tsv"
    wildcard_constraints:
        model=NETWORK,
    conda:
        "../envs/tfglm.yaml"
    params:
        settings=PLAN.settings(*TrainingConfig.model_fields),
        code=PLAN.digests_of_code,
    message:
        "{wildcards.model}: building the network"
    shell:
        'exec python "$TFGLM_SCRIPTS/check.py"'
        " --log {log}"
        " network"
        " --design {input.design}"
        " --code {input.code}"
        " --code-digests {params.code:q}"
        " --settings {params.settings:q}"
        " --checked {output}"


rule train:
    input:
        **TRAINED_FROM,
        begin=SWEEPS.last_part,
        end=SWEEPS.end_of_parts,
    output:
        **PATHS.fitted(),
    log:
        f"{LOGS}/models/{{model}}/train.log",
    benchmark:
        f"{TIMINGS}/train/{{model}}.tsv"
    wildcard_constraints:
        model=PLAN.networks_where(lambda network: network.is_one_job),
    conda:
        "../envs/tfglm.yaml"
    threads: PROCESSES.threads_of_training
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 4000,
        gpus=PROCESSES.gpus,
        # The same for a scheduler, which gives the job these GPUs and no others.
        gres=PROCESSES.gpus_of_node,
    params:
        **TRAINED_BY,
        part=SWEEPS.continued,
    message:
        "{wildcards.model}: training"
    shell:
        'exec python "$TFGLM_SCRIPTS/fit.py"' f" {TRAINING}" " {params.part}"


# A part of the training of a network in a sweep with `halving`: the same up to an epoch, and the checkpoints to continue from.
use rule train as train_part with:
    input:
        **TRAINED_FROM,
        begin=SWEEPS.part_before,
    output:
        **PATHS.fitted(PATHS.part),
        state=directory(f"{PATHS.part}/state"),
    log:
        f"{LOGS}/models/{{model}}/train_{{epochs}}.log",
    benchmark:
        f"{TIMINGS}/train_part/{{model}}_{{epochs}}.tsv"
    wildcard_constraints:
        model=SWEEPS.in_parts,
        epochs="[0-9]+",
    params:
        **TRAINED_BY,
        part=SWEEPS.part,
    message:
        "{wildcards.model}: training up to epoch {wildcards.epochs}"


checkpoint compare_parts:
    """Choose the networks of a sweep that continue their training."""
    input:
        fits=SWEEPS.compared_parts("fit.json"),
    output:
        f"{PATHS.sweep}/{{epochs}}/continuing.json",
    log:
        f"{LOGS}/sweeps/{{sweep}}/compare_parts_{{epochs}}.log",
    benchmark:
        f"{TIMINGS}/compare_parts/{{sweep}}_{{epochs}}.tsv"
    wildcard_constraints:
        sweep=SWEEPS.names,
        epochs="[0-9]+",
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        folders=SWEEPS.compared_parts(),
        continuing=SWEEPS.number_to_continue,
    message:
        "{wildcards.sweep}: comparing the networks after epoch {wildcards.epochs}"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" compare.py'
        " --models {params.folders}"
        " --continuing {params.continuing}"
        " --files {output}"
        " --log {log}"


rule tabulate_sweep:
    """Show the networks of a sweep side by side, and why each training ended."""
    input:
        fits=SWEEPS.files("fit.json"),
        histories=SWEEPS.files("history.csv"),
        digests=SWEEPS.files("history.sha256"),
        compared=SWEEPS.comparisons,
    output:
        table=f"{PATHS.sweep}/networks.csv",
        picture=in_report(f"{PATHS.sweep}/losses.svg", "sweep", "networks of {sweep}, picture"),
    log:
        f"{LOGS}/sweeps/{{sweep}}/tabulate_sweep.log",
    benchmark:
        f"{TIMINGS}/tabulate_sweep/{{sweep}}.tsv"
    wildcard_constraints:
        sweep=SWEEPS.names,
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        folders=SWEEPS.files(""),
        pictures=PICTURES,
        settings=SWEEPS.values,
    message:
        "{wildcards.sweep}: comparing the networks of the sweep"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" compare.py'
        " --models {params.folders}"
        " --compared {input.compared}"
        " --settings {params.settings:q}"
        " --pictures {params.pictures:q}"
        " --files {output}"
        " --log {log}"


rule train_on_cluster:
    input:
        **TRAINED_FROM,
        rosters=PROCESSES.rosters,
    output:
        **PATHS.fitted(),
    log:
        f"{LOGS}/models/{{model}}/train.log",
    benchmark:
        f"{TIMINGS}/train/{{model}}.tsv"
    wildcard_constraints:
        model=PLAN.networks_where(lambda network: not network.is_one_job),
    # Its group takes all processors of a small machine, so it would wait for each job that starts before it.
    priority: 50
    conda:
        "../envs/tfglm.yaml"
    threads: 0
    resources:
        **OF_CHIEF,
        gres=PROCESSES.gpus_of_node,
    params:
        **TRAINED_BY,
        **PROCESSES.meeting,
    message:
        "{wildcards.model}: training on a cluster"
    shell:
        f"{AS_CHIEF} {TRAINING}"
