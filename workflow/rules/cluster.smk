# The TensorFlow cluster of one model: ps and workers are service jobs, the chief is their one consumer, and Snakemake runs
# the three at the same time as one group. How many processes each service job starts is a resource: it changes no result,
# so it must not be an input, a param or a wildcard, which would re-run the fit.


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
    message:
        "{wildcards.model}: starting the parameter servers ({resources.processes})"
    shell:
        'exec python "$TFGLM_SCRIPTS/roles.py" ps' " --count {resources.processes}" " --roster {output}" " --log {log}"


rule workers:
    output:
        service("results/models/{model}/cluster/workers.json"),
    log:
        "logs/models/{model}/workers.log",
    conda:
        "../envs/tfglm.yaml"
    # For the whole group, whose sum Snakemake refuses where it exceeds --cores; one job's threads it scales down.
    threads: CONFIG.cluster.workers + 1
    resources:
        processes=CONFIG.cluster.workers,
    message:
        "{wildcards.model}: starting the workers ({resources.processes})"
    shell:
        'exec python "$TFGLM_SCRIPTS/roles.py" worker'
        " --count {resources.processes}"
        " --roster {output}"
        " --log {log}"


rule chief:
    input:
        ps="results/models/{model}/cluster/ps.json",
        workers="results/models/{model}/cluster/workers.json",
        design="results/models/{model}/design.json",
        manifests=expand("results/data/ingested/{file}/manifest.json", file=FILES),
        # ancient: a reference level is checked before the fit, but another one needs no other fit.
        checked=ancient("results/models/{model}/checked.json"),
    output:
        fit="results/models/{model}/fit.json",
        checkpoint=directory("results/models/{model}/checkpoint"),
    log:
        "logs/models/{model}/chief.log",
    benchmark:
        "benchmarks/chief/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    threads: 0
    resources:
        patience=CONFIG.cluster.patience,
    params:
        engine=ENGINE,
        max_iterations=model_setting("max_iterations"),
    message:
        "{wildcards.model}: fitting"
    shell:
        'exec python "$TFGLM_SCRIPTS/chief.py"'
        " --ps {input.ps}"
        " --workers {input.workers}"
        " --patience {resources.patience}"
        " --design {input.design}"
        " --manifests {input.manifests}"
        " --max-iterations {params.max_iterations}"
        " --checkpoint {output.checkpoint}"
        " --fit {output.fit}"
        " --die-with-parent"
        " --log {log}"
