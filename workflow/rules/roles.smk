# The processes that work for the chief of a model are service jobs. The chief is their one consumer, and Snakemake runs them all at the
# same time, as one group. Regressions and networks under ParameterServerStrategy have ps and workers. Under MultiWorkerMirroredStrategy
# they have peers of the chief, which is the first of them.
#
# A resource says how many processes each service job starts. For an exact fit the number changes no result. So it must not be an input,
# a param or a wildcard, which would run the fit again. For a network it is a setting of the training.
#
# On a cluster the group is one allocation, which needs the resources below. If the profile names a command that starts processes on
# other nodes (`mpi`), and there are several nodes, the service jobs start theirs on all of them; the chief runs on the first.

# Text resources must be the same in all jobs of a group.
IN_A_GROUP = {"mpi": "local", "interface": "auto", "isolate": CONFIG.cluster.isolate}
OF_ROLES = {
    **IN_A_GROUP,
    # The chief starts later: Snakemake looks for the others each tenth of `latency-wait`.
    "patience": CONFIG.cluster.patience + 60,
    "within": PROCESSES.chief_within,
}
# For the whole group: Snakemake adds the numbers up, so the other jobs ask for nothing.
OF_THE_GROUP = {
    "nodes": lambda wildcards: PROCESSES.allocation(wildcards).nodes,
    "tasks_per_node": lambda wildcards: PROCESSES.allocation(wildcards).processes,
    "cpus_per_task": 1,
    "mem_mb": PROCESSES.memory,
}
OF_CHIEF = {**IN_A_GROUP, "patience": CONFIG.cluster.patience, "stall": CONFIG.cluster.stall, "mem_mb": 0}
IN_OWN_NETWORK = (
    'exec python "$TFGLM_SCRIPTS/isolate.py"'
    " --isolate {resources.isolate}"
    " --launcher {resources.mpi}"
    " --network {params.network}"
)
AS_CHIEF = (
    f"{IN_OWN_NETWORK} chief.py"
    " --rosters {input.rosters}"
    " --lease {params.lease}"
    " --patience {resources.patience}"
    " --stall {resources.stall}"
)


rule ps:
    output:
        service(f"{MODEL}/cluster/ps.json"),
    log:
        f"{LOGS}/models/{{model}}/ps.log",
    conda:
        "../envs/tfglm.yaml"
    threads: 0
    resources:
        **OF_ROLES,
        **OF_THE_GROUP,
        processes=lambda wildcards: PROCESSES.roles(wildcards).ps,
    params:
        **PROCESSES.meeting,
        role=literal("ps"),
    message:
        "{wildcards.model}: starting the parameter servers ({resources.processes})"
    shell:
        f"{IN_OWN_NETWORK} roles.py"
        " {params.role}"
        " --count {resources.processes}"
        " --launcher {resources.mpi}"
        " --interface {resources.interface}"
        " --roster {output}"
        " --lease {params.lease}"
        " --patience {resources.patience}"
        " --within {resources.within}"
        " --parent $PPID"
        " --log {log}"


use rule ps as workers with:
    output:
        service(f"{MODEL}/cluster/workers.json"),
    log:
        f"{LOGS}/models/{{model}}/workers.log",
    # For the whole group.
    threads: PROCESSES.threads
    resources:
        **OF_ROLES,
        processes=lambda wildcards: PROCESSES.roles(wildcards).workers,
        gpus=PROCESSES.gpus,
        mem_mb=0,
    params:
        **PROCESSES.meeting,
        role=unwatched(lambda wildcards: f"worker --gpus {PROCESSES.gpus_of_each(wildcards)}"),
    message:
        "{wildcards.model}: starting the workers ({resources.processes})"


use rule ps as peers with:
    output:
        service(f"{MODEL}/cluster/peers.json"),
    log:
        f"{LOGS}/models/{{model}}/peers.log",
    wildcard_constraints:
        model=PROCESSES.with_peers,
    # For the whole group, like the numbers below: Snakemake adds them up.
    threads: PROCESSES.threads
    resources:
        **OF_ROLES,
        **OF_THE_GROUP,
        processes=lambda wildcards: PROCESSES.roles(wildcards).peers,
        gpus=PROCESSES.gpus,
    params:
        **PROCESSES.meeting,
        # The others cannot continue with a new peer.
        role=unwatched(
            lambda wildcards: (
                f"peer --restarts 0 --work {'network' if wildcards.model in CONFIG.networks else 'fit'}"
            )
        ),
    message:
        "{wildcards.model}: starting the peers of the chief ({resources.processes})"
