# The processes that work for the chief of a model are service jobs. The chief is their one consumer, and Snakemake runs them all at the
# same time, as one group. Regressions and networks under ParameterServerStrategy have ps and workers. Under MultiWorkerMirroredStrategy
# they have peers of the chief, which is the first of them.
#
# A resource says how many processes each service job starts. For an exact fit the number changes no result. So it must not be an input,
# a param or a wildcard, which would run the fit again. For a network it is a setting of the training.
#
# On a cluster the group is one allocation, which needs the resources below. If the profile names a command that starts processes on
# other nodes (`mpi`), and there are several nodes, the service jobs start theirs on all of them; the chief runs on the first.

# The chief starts later: Snakemake looks for the others each tenth of `latency-wait`.
PATIENCE_OF_ROLES = CONFIG.cluster.patience + 60


rule ps:
    output:
        service(f"{MODEL}/cluster/ps.json"),
    log:
        f"{LOGS}/models/{{model}}/ps.log",
    conda:
        "../envs/tfglm.yaml"
    threads: 0
    resources:
        processes=lambda wildcards: PROCESSES.roles(wildcards).ps,
        patience=PATIENCE_OF_ROLES,
        within=PROCESSES.chief_within,
        mpi="local",
        interface="auto",
        isolate=CONFIG.cluster.isolate,
        # For the whole group: Snakemake adds the numbers up, so the other jobs ask for nothing.
        nodes=PROCESSES.nodes,
        tasks_per_node=PROCESSES.tasks_per_node,
        cpus_per_task=1,
        mem_mb=PROCESSES.memory,
    params:
        **PROCESSES.meeting,
    message:
        "{wildcards.model}: starting the parameter servers ({resources.processes})"
    shell:
        'exec python "$TFGLM_SCRIPTS/isolate.py"'
        " --isolate {resources.isolate}"
        " --launcher {resources.mpi}"
        " --network {params.network}"
        " roles.py ps"
        " --count {resources.processes}"
        " --launcher {resources.mpi}"
        " --interface {resources.interface}"
        " --roster {output}"
        " --lease {params.lease}"
        " --patience {resources.patience}"
        " --within {resources.within}"
        " --parent $PPID"
        " --log {log}"


rule workers:
    output:
        service(f"{MODEL}/cluster/workers.json"),
    log:
        f"{LOGS}/models/{{model}}/workers.log",
    conda:
        "../envs/tfglm.yaml"
    # For the whole group.
    threads: PROCESSES.threads
    resources:
        processes=lambda wildcards: PROCESSES.roles(wildcards).workers,
        gpus=PROCESSES.gpus,
        gpus_of_each=PROCESSES.gpus_of_each,
        patience=PATIENCE_OF_ROLES,
        within=PROCESSES.chief_within,
        mpi="local",
        interface="auto",
        isolate=CONFIG.cluster.isolate,
        mem_mb=0,
    params:
        **PROCESSES.meeting,
    message:
        "{wildcards.model}: starting the workers ({resources.processes})"
    shell:
        'exec python "$TFGLM_SCRIPTS/isolate.py"'
        " --isolate {resources.isolate}"
        " --launcher {resources.mpi}"
        " --network {params.network}"
        " roles.py worker"
        " --count {resources.processes}"
        " --gpus {resources.gpus_of_each}"
        " --launcher {resources.mpi}"
        " --interface {resources.interface}"
        " --roster {output}"
        " --lease {params.lease}"
        " --patience {resources.patience}"
        " --within {resources.within}"
        " --parent $PPID"
        " --log {log}"


rule peers:
    output:
        service(f"{MODEL}/cluster/peers.json"),
    log:
        f"{LOGS}/models/{{model}}/peers.log",
    wildcard_constraints:
        model=PROCESSES.with_peers,
    conda:
        "../envs/tfglm.yaml"
    # For the whole group, like the numbers below: Snakemake adds them up.
    threads: PROCESSES.threads
    resources:
        processes=lambda wildcards: PROCESSES.roles(wildcards).peers,
        gpus=PROCESSES.gpus,
        patience=PATIENCE_OF_ROLES,
        within=PROCESSES.chief_within,
        mpi="local",
        interface="auto",
        isolate=CONFIG.cluster.isolate,
        nodes=PROCESSES.nodes,
        tasks_per_node=PROCESSES.tasks_per_node,
        cpus_per_task=1,
        mem_mb=PROCESSES.memory,
    params:
        **PROCESSES.meeting,
        work=lambda wildcards: "network" if wildcards.model in CONFIG.networks else "fit",
    message:
        "{wildcards.model}: starting the peers of the chief ({resources.processes})"
    shell:
        'exec python "$TFGLM_SCRIPTS/isolate.py"'
        " --isolate {resources.isolate}"
        " --launcher {resources.mpi}"
        " --network {params.network}"
        " roles.py peer"
        " --count {resources.processes}"
        " --work {params.work}"
        # The others cannot continue with a new peer.
        " --restarts 0"
        " --launcher {resources.mpi}"
        " --interface {resources.interface}"
        " --roster {output}"
        " --lease {params.lease}"
        " --patience {resources.patience}"
        " --within {resources.within}"
        " --parent $PPID"
        " --log {log}"
