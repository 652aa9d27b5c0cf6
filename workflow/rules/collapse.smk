# Sums training rows that agree in everything some models need, once for the fits of these models (`collapse`).


rule collapse_rows:
    input:
        dictionary=f"{RESULTS}/data/dictionary.json",
        manifests=MANIFESTS,
    output:
        manifest=f"{COLLAPSED}/manifest.json",
        levels=f"{COLLAPSED}/levels.parquet",
        checksums=f"{COLLAPSED}/checksums.npy",
        shards=directory(f"{COLLAPSED}/shards"),
    log:
        f"{LOGS}/data/collapse_rows/{{columns}}.log",
    benchmark:
        f"{TIMINGS}/collapse_rows/{{columns}}.tsv"
    wildcard_constraints:
        columns=one_of(SETTINGS_OF),
    conda:
        "../envs/tfglm.yaml"
    resources:
        mem_mb=2000,
    params:
        engine=ENGINE,
        settings=lambda wildcards: SETTINGS_OF[wildcards.columns],
    message:
        "Summing training rows that agree"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" collapse_rows.py'
        " --settings {params.settings:q}"
        " --dictionary {input.dictionary}"
        " --manifests {input.manifests}"
        " --manifest {output.manifest}"
        " --log {log}"
