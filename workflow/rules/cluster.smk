# An exact fit by several processes: the chief, with ps and workers, or with its peers (roles.smk).


rule chief:
    input:
        rosters=PROCESSES.rosters,
        design=f"{MODEL}/design.json",
        manifests=MANIFESTS,
        collapsed=PLAN.collapsed,
    output:
        **PATHS.fitted(),
    log:
        f"{LOGS}/models/{{model}}/chief.log",
    # No rule has this under logs/, because a complete fit would fail on a full log disk.
    benchmark:
        f"{TIMINGS}/chief/{{model}}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
    # Its group takes all processors of a small machine, so it would wait for each job that starts before it.
    priority: 50
    conda:
        "../envs/tfglm.yaml"
    threads: 0
    resources:
        **OF_CHIEF,
    params:
        **PROCESSES.meeting,
        **PROCESSES.meanwhile,
        engine=ENGINE,
        settings=PLAN.settings(*SolverConfig.model_fields),
        # A record, and so a reason to run again: otherwise a fit with the same numbers could name another config than the models
        # that it is compared with.
        config=PLAN.provenance,
    message:
        "{wildcards.model}: fitting"
    shell:
        f"{AS_CHIEF}"
        " --design {input.design}"
        " --manifests {input.manifests}"
        " --collapsed {input.collapsed}"
        f" {OPTIONS_OF_FIT}"
