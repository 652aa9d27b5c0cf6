# An exact fit by several processes: the chief, for which ps and workers work, or its peers (roles.smk).


rule chief:
    input:
        rosters=rosters_of,
        design="results/models/{model}/design.json",
        manifests=expand("results/data/ingested/{file}/manifest.json", file=FILES),
    output:
        fit="results/models/{model}/fit.json",
        checkpoint=directory("results/models/{model}/checkpoint"),
        history="results/models/{model}/history.csv",
        history_digest="results/models/{model}/history.sha256",
    log:
        "logs/models/{model}/chief.log",
    # Not under logs/, in no rule: on a full log disk a fit that is complete would fail.
    benchmark:
        "timings/chief/{model}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
    conda:
        "../envs/tfglm.yaml"
    threads: 0
    resources:
        patience=CONFIG.cluster.patience,
        stall=CONFIG.cluster.stall,
        # Texts have to be the same in all of a group.
        mpi="local",
        interface="auto",
        isolate=CONFIG.cluster.isolate,
        mem_mb=0,
    params:
        engine=ENGINE,
        settings=settings(*SolverConfig.model_fields),
        # For the record, and so a reason to run as well: else a fit of the same numbers could tell of another config than that of
        # the models beside it, with which it is to be compared.
        config=provenance_settings,
        # Neither an output, which Snakemake would delete when the job fails, nor a reason to run.
        journal=unwatched(lambda wildcards: f"results/resume/{wildcards.model}"),
    message:
        "{wildcards.model}: fitting"
    shell:
        'exec python "$TFGLM_SCRIPTS/isolate.py"'
        " --isolate {resources.isolate}"
        " --launcher {resources.mpi}"
        " --network results/models/{wildcards.model}/cluster/network.json"
        " chief.py"
        " --rosters {input.rosters}"
        " --lease results/models/{wildcards.model}/cluster/chief.lease"
        " --patience {resources.patience}"
        " --stall {resources.stall}"
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
