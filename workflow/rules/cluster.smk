# The TensorFlow cluster of one model: ps and workers are service jobs, the chief is their one consumer, and Snakemake runs
# the three at the same time as one group. How many processes each service job starts is a resource: it changes no result,
# so it must not be an input, a param or a wildcard, which would re-run the fit.
#
# On SLURM the group is one allocation, for whose sake the resources below are there. profiles/slurm says `mpi: srun`; then
# the service jobs start their processes by srun on all its nodes, if there are several, and the chief runs on the first.

from tfglm.roles import launch

ALLOCATION = launch.request(CONFIG.cluster.ps, CONFIG.cluster.workers, CONFIG.cluster.nodes)
# A process took 0.7 GB with 140 coefficients; the information matrix of 8,800 is 53 MB, of which it may hold several.
MB_PER_PROCESS = 2000

# The chief begins after them, when Snakemake has seen that they have: it looks each tenth of `latency-wait`.
PATIENCE_OF_ROLES = CONFIG.cluster.patience + 60


rule ps:
    output:
        service("results/models/{model}/cluster/ps.json"),
    log:
        "logs/models/{model}/ps.log",
    conda:
        "../envs/tfglm.yaml"
    threads: 0
    resources:
        processes=CONFIG.cluster.ps,
        patience=PATIENCE_OF_ROLES,
        mpi="local",
        interface="auto",
        isolate=CONFIG.cluster.isolate,
        # For the whole group, whose numbers Snakemake adds up, so the others ask for nothing.
        nodes=ALLOCATION.nodes,
        tasks_per_node=ALLOCATION.processes,
        cpus_per_task=1,
        mem_mb=lambda wildcards, attempt: attempt * MB_PER_PROCESS * ALLOCATION.processes,
    message:
        "{wildcards.model}: starting the parameter servers ({resources.processes})"
    shell:
        'exec python "$TFGLM_SCRIPTS/isolate.py"'
        " --isolate {resources.isolate}"
        " --launcher {resources.mpi}"
        " --network results/models/{wildcards.model}/cluster/network.json"
        " roles.py ps"
        " --count {resources.processes}"
        " --launcher {resources.mpi}"
        " --interface {resources.interface}"
        " --roster {output}"
        " --lease results/models/{wildcards.model}/cluster/chief.lease"
        " --patience {resources.patience}"
        " --parent $PPID"
        " --log {log}"


rule workers:
    output:
        service("results/models/{model}/cluster/workers.json"),
    log:
        "logs/models/{model}/workers.log",
    conda:
        "../envs/tfglm.yaml"
    # For the whole group, a processor for each process but the ps, which waits. With fewer --cores Snakemake takes all of
    # those, and the processes share them: what bounds their number is the memory (`check_machine`).
    threads: CONFIG.cluster.workers + 1
    resources:
        processes=CONFIG.cluster.workers,
        patience=PATIENCE_OF_ROLES,
        mpi="local",
        interface="auto",
        isolate=CONFIG.cluster.isolate,
        mem_mb=0,
    message:
        "{wildcards.model}: starting the workers ({resources.processes})"
    shell:
        'exec python "$TFGLM_SCRIPTS/isolate.py"'
        " --isolate {resources.isolate}"
        " --launcher {resources.mpi}"
        " --network results/models/{wildcards.model}/cluster/network.json"
        " roles.py worker"
        " --count {resources.processes}"
        " --launcher {resources.mpi}"
        " --interface {resources.interface}"
        " --roster {output}"
        " --lease results/models/{wildcards.model}/cluster/chief.lease"
        " --patience {resources.patience}"
        " --parent $PPID"
        " --log {log}"


rule chief:
    input:
        ps="results/models/{model}/cluster/ps.json",
        workers="results/models/{model}/cluster/workers.json",
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
        " --ps {input.ps}"
        " --workers {input.workers}"
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
