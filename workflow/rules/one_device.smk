# A fit as one ordinary job, without a cluster: `cluster: {strategy: one_device}`. Its outputs equal the chief's, byte for byte,
# and its params too. But Snakemake sees other inputs, without roles, so it fits a model again that was fitted on a cluster.


rule fit:
    input:
        design=f"{MODEL}/design.json",
        manifests=MANIFESTS,
        collapsed=PLAN.collapsed,
    output:
        **PATHS.fitted(),
    log:
        f"{LOGS}/models/{{model}}/fit.log",
    benchmark:
        f"{TIMINGS}/fit/{{model}}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
    # Tables and pages wait for it.
    priority: 50
    conda:
        "../envs/tfglm.yaml"
    threads: 1
    resources:
        # The memory of a chief and a worker together.
        mem_mb=lambda wildcards, attempt: attempt * 4000,
    params:
        **PROCESSES.meanwhile,
        engine=ENGINE,
        settings=PLAN.settings(*SolverConfig.model_fields),
        config=PLAN.provenance,
    message:
        "{wildcards.model}: fitting in one process"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" fit.py'
        " --design {input.design}"
        " --manifests {input.manifests}"
        " --collapsed {input.collapsed}"
        f" {OPTIONS_OF_FIT}"
