# A fit as one ordinary job, without a cluster: `cluster: {strategy: one_device}`. Its outputs are those of the chief, byte for
# byte, and so are its params. But Snakemake sees other inputs, without roles, and fits a model again that was fitted on a cluster.


rule fit:
    input:
        design="results/models/{model}/design.json",
        manifests=expand("results/data/ingested/{file}/manifest.json", file=FILES),
    output:
        fit="results/models/{model}/fit.json",
        checkpoint=directory("results/models/{model}/checkpoint"),
        history="results/models/{model}/history.csv",
        history_digest="results/models/{model}/history.sha256",
    log:
        "logs/models/{model}/fit.log",
    benchmark:
        "timings/fit/{model}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
    conda:
        "../envs/tfglm.yaml"
    threads: 1
    resources:
        # What a chief and a worker take together.
        mem_mb=lambda wildcards, attempt: attempt * 4000,
    params:
        engine=ENGINE,
        settings=settings(*SolverConfig.model_fields),
        config=provenance_settings,
        journal=unwatched(lambda wildcards: f"results/resume/{wildcards.model}"),
    message:
        "{wildcards.model}: fitting in one process"
    shell:
        'exec python "$TFGLM_SCRIPTS/fit.py"'
        " --design {input.design}"
        " --manifests {input.manifests}"
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
