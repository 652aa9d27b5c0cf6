# Formula and dictionary together, without TensorFlow.


# What can be refused is refused here, in a rule of its own: Snakemake deletes the outputs of a rule when it starts again, and
# a mistake in the config must not cost a design, nor the fit after it.
rule check_model:
    input:
        "results/data/dictionary.json",
    output:
        "results/models/{model}/checked.json",
    log:
        "logs/models/{model}/check_model.log",
    benchmark:
        "benchmarks/check_model/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        formula=model_setting("formula"),
        family=model_setting("family"),
        reference=model_setting("reference"),
    message:
        "{wildcards.model}: checking the formula and the reference levels"
    shell:
        'exec python "$TFGLM_SCRIPTS/check_model.py"'
        " --model {wildcards.model}"
        " --formula {params.formula:q}"
        " --family {params.family}"
        " --reference {params.reference:q}"
        " --dictionary {input}"
        " --checked {output}"
        " --log {log}"


rule build_design:
    input:
        dictionary="results/data/dictionary.json",
        # ancient: to have it done first; what matters of it is in the params.
        checked=ancient("results/models/{model}/checked.json"),
    output:
        "results/models/{model}/design.json",
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
    message:
        "{wildcards.model}: {params.formula}"
    shell:
        'exec python "$TFGLM_SCRIPTS/build_design.py"'
        " --model {wildcards.model}"
        " --formula {params.formula:q}"
        " --family {params.family}"
        " --dictionary {input.dictionary}"
        " --design {output}"
        " --log {log}"
