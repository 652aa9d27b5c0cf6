# Formula and dictionary together, without TensorFlow. What can be refused is refused here, before any role starts; `update` then
# keeps the earlier design, so that a mistake in the config costs nothing once it is mended.


rule build_design:
    input:
        "results/data/dictionary.json",
    output:
        update("results/models/{model}/design.json"),
    log:
        "logs/models/{model}/build_design.log",
    benchmark:
        "benchmarks/build_design/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        formula=model_setting("formula"),
        family=model_setting("family"),
        # Checked here, but no reason to make another design, nor another fit.
        reference=model_setting("reference", watched=False),
    message:
        "{wildcards.model}: {params.formula}"
    shell:
        'exec python "$TFGLM_SCRIPTS/build_design.py"'
        " --model {wildcards.model}"
        " --formula {params.formula:q}"
        " --family {params.family}"
        " --reference {params.reference:q}"
        " --dictionary {input}"
        " --design {output}"
        " --log {log}"
