# Sums training rows that agree in everything some models need, once for the fits of these models (`collapse`).


rule collapse_rows:
    input:
        dictionary=PATHS.dictionary,
        manifests=MANIFESTS,
    output:
        **PATHS.shards_in(PATHS.collapsed),
    log:
        f"{LOGS}/data/collapse_rows/{{columns}}.log",
    benchmark:
        f"{TIMINGS}/collapse_rows/{{columns}}.tsv"
    wildcard_constraints:
        columns=one_of(PLAN.collapsed_columns),
    conda:
        "../envs/tfglm.yaml"
    resources:
        mem_mb=2000,
    params:
        engine=ENGINE,
        settings=lambda wildcards: PLAN.collapsed_columns[wildcards.columns],
    message:
        "Summing training rows that agree"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" collapse_rows.py'
        " --settings {params.settings:q}"
        " --dictionary {input.dictionary}"
        " --manifests {input.manifests}"
        " --manifest {output.manifest}"
        " --log {log}"
