# The training of a network: one ordinary job, whose outputs have the names of those of a fit; and its embeddings.


rule train:
    input:
        design="results/models/{model}/design.json",
        manifests=MANIFESTS,
        offset=offset_of,
    output:
        fit="results/models/{model}/fit.json",
        checkpoint=directory("results/models/{model}/checkpoint"),
        history="results/models/{model}/history.csv",
        history_digest="results/models/{model}/history.sha256",
    log:
        "logs/models/{model}/train.log",
    benchmark:
        "timings/train/{model}.tsv"
    wildcard_constraints:
        model=NETWORK,
    conda:
        "../envs/tfglm.yaml"
    threads: threads_of_training
    resources:
        mem_mb=lambda wildcards, attempt: attempt * 4000,
        gpus=gpus_of_training,
        # The same for SLURM, which gives the job these and no others.
        gres=lambda wildcards: f"gpu:{gpus_of_training(wildcards)}" if gpus_of_training(wildcards) else "",
    params:
        engine=ENGINE,
        settings=settings(*TrainingConfig.model_fields),
        config=provenance_settings,
        # Neither an output, which Snakemake would delete when the job fails, nor a reason to run.
        journal=unwatched(lambda wildcards: f"results/resume/{wildcards.model}"),
    message:
        "{wildcards.model}: training"
    shell:
        'exec python "$TFGLM_SCRIPTS/train.py"'
        " --design {input.design}"
        " --manifests {input.manifests}"
        " --offset {input.offset}"
        " --settings {params.settings:q}"
        " --config {params.config:q}"
        " --history {output.history}"
        " --journal {params.journal}"
        " --progress logs/models/{wildcards.model}/progress.json"
        " --events logs/models/{wildcards.model}/events"
        " --checkpoint {output.checkpoint}"
        " --fit {output.fit}"
        " --parent $PPID"
        " --log {log}"


rule tabulate_network:
    input:
        **FIT,
        manifests=MANIFESTS,
    output:
        table=f"{MODEL}/coefficients.csv",
        digest=f"{MODEL}/coefficients.sha256",
    log:
        "logs/models/{model}/tabulate_network.log",
    benchmark:
        "timings/tabulate_network/{model}.tsv"
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
        plot=report(
            f"{MODEL}/embeddings.svg",
            caption="../report/embeddings.rst",
            category="{model}",
            labels={"result": "embeddings of levels, picture"},
        ),
        png=f"{MODEL}/embeddings.png",
    log:
        "logs/models/{model}/tabulate_embeddings.log",
    benchmark:
        "timings/tabulate_embeddings/{model}.tsv"
    wildcard_constraints:
        model=NETWORK,
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=CONFIG.pictures.colour,
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
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png}"
        " --log {log}"
