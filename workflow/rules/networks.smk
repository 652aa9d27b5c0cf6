# The training of a network and its tables. The outputs have the same names as those of a fit. Under a strategy of one process it
# is an ordinary job.

TRAINING = (
    "--design {input.design}"
    " --manifests {input.manifests}"
    " --offset {input.offset}"
    " --settings {params.settings:q}"
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
# The inputs and outputs of a training, and the reasons to train again: the same under each strategy.
TRAINED_FROM = {"design": f"{MODEL}/design.json", "manifests": MANIFESTS, "offset": offset_of}
TRAINED = {
    "fit": f"{MODEL}/fit.json",
    "checkpoint": directory(f"{MODEL}/checkpoint"),
    "history": f"{MODEL}/history.csv",
    "history_digest": f"{MODEL}/history.sha256",
}
TRAINED_BY = {
    "engine": ENGINE,
    "settings": settings(*TrainingConfig.model_fields),
    "config": provenance_settings,
    **MEANWHILE,
}


rule train:
    input:
        **TRAINED_FROM,
    output:
        **TRAINED,
    log:
        f"{LOGS}/models/{{model}}/train.log",
    benchmark:
        f"{TIMINGS}/train/{{model}}.tsv"
    wildcard_constraints:
        model=networks_where(lambda network: network.is_one_job),
    conda:
        "../envs/tfglm.yaml"
    threads: threads_of_training
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 4000,
        gpus=gpus_of_training,
        # The same for a scheduler, which gives the job these GPUs and no others.
        gres=lambda wildcards: f"gpu:{gpus_of_training(wildcards)}" if gpus_of_training(wildcards) else "",
    params:
        **TRAINED_BY,
    message:
        "{wildcards.model}: training"
    shell:
        " ".join(['exec python "$TFGLM_SCRIPTS/train.py"', TRAINING])


rule train_on_cluster:
    input:
        **TRAINED_FROM,
        rosters=rosters_of,
    output:
        **TRAINED,
    log:
        f"{LOGS}/models/{{model}}/train.log",
    benchmark:
        f"{TIMINGS}/train/{{model}}.tsv"
    wildcard_constraints:
        model=networks_where(lambda network: not network.is_one_job),
    conda:
        "../envs/tfglm.yaml"
    threads: 0
    resources:
        patience=CONFIG.cluster.patience,
        stall=CONFIG.cluster.stall,
        mpi="local",
        interface="auto",
        isolate=CONFIG.cluster.isolate,
        mem_mb=0,
    params:
        **TRAINED_BY,
        **MEETING,
    message:
        "{wildcards.model}: training on a cluster"
    shell:
        " ".join(
            [
                'exec python "$TFGLM_SCRIPTS/isolate.py"',
                "--isolate {resources.isolate}",
                "--launcher {resources.mpi}",
                "--network {params.network}",
                "train_on_cluster.py",
                "--rosters {input.rosters}",
                "--lease {params.lease}",
                "--patience {resources.patience}",
                "--stall {resources.stall}",
                TRAINING,
            ]
        )


rule tabulate_network:
    input:
        **FIT,
        manifests=MANIFESTS,
    output:
        table=f"{MODEL}/coefficients.csv",
        digest=f"{MODEL}/coefficients.sha256",
    log:
        f"{LOGS}/models/{{model}}/tabulate_network.log",
    benchmark:
        f"{TIMINGS}/tabulate_network/{{model}}.tsv"
    wildcard_constraints:
        model=NETWORK,
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
    message:
        "{wildcards.model}: naming the coefficients"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_network.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --manifests {input.manifests}"
        " --table {output.table}"
        " --log {log}"


rule tabulate_embeddings:
    input:
        **FIT,
        manifests=MANIFESTS,
    output:
        table=f"{MODEL}/embeddings.csv",
        digest=f"{MODEL}/embeddings.sha256",
    log:
        f"{LOGS}/models/{{model}}/tabulate_embeddings.log",
    benchmark:
        f"{TIMINGS}/tabulate_embeddings/{{model}}.tsv"
    wildcard_constraints:
        model=NETWORK,
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
    message:
        "{wildcards.model}: naming the embeddings"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_embeddings.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --manifests {input.manifests}"
        " --table {output.table}"
        " --log {log}"
