# From the checkpoint to all tables of a model that the config asks for, in one job.

for variant in models.variants("write_tables", PLAN.models, lambda model: model.tables, models.USUAL_TABLES):

    rule:
        name:
            variant.name
        input:
            **PATHS.fit,
            **TARGETS.inputs_of_tables(variant.files),
        output:
            TARGETS.tables(variant.files, variant.of_networks),
        log:
            f"{LOGS}/models/{{model}}/{variant.name}.log",
        benchmark:
            f"{TIMINGS}/{variant.name}/{{model}}.tsv"
        wildcard_constraints:
            model=variant.models,
        group:
            OF_RESULTS
        conda:
            "../envs/tfglm.yaml"
        resources:
            runtime=share_of_runtime,
        params:
            engine=ENGINE,
            settings=TARGETS.settings_of_tables(variant.files),
        message:
            "{wildcards.model}: writing the tables"
        shell:
            'exec python "$TFGLM_SCRIPTS/forked.py" write_tables.py'
            f" {OPTIONS_OF_FITTED}"
            " --reference {input.reference}"
            " --dictionary {input.dictionary}"
            " --manifests {input.manifests}"
            " --averages {input.averages}"
            " --settings {params.settings:q}"
            " --tables {output}"
            " --log {log}"


# A table that may be refused, or that the config does not ask for, such as `snakemake results/<name>/models/<model>/vcov.csv`.
use rule write_tables as write_one_table with:
    input:
        ancient(TARGETS.table_before),
        **PATHS.fit,
        **(TARGETS.inputs_of_tables(["effects"]) | {"averages": TARGETS.averages_of_table}),
    output:
        f"{MODEL}/{{table}}.csv",
        f"{MODEL}/{{table}}.sha256",
    log:
        f"{LOGS}/models/{{model}}/write_tables_{{table}}.log",
    benchmark:
        f"{TIMINGS}/write_tables_{{table}}/{{model}}.tsv"
    wildcard_constraints:
        model=models.not_among(PLAN.models.values(), lambda model: model.tables),
        table=one_of(models.TABLES_ALONE),
    # A run starts no job after a failed one, and a group that fails loses the files of all its jobs.
    priority: -1
    group:
        "one_table"
    params:
        engine=ENGINE,
        settings=lambda wildcards: TARGETS.settings_of_tables([wildcards.table])(wildcards),
