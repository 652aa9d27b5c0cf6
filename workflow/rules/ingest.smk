# From the files that the config names to shards, and to the dictionary of what is in them.


rule fetch:
    input:
        packed_source,
    output:
        "results/data/fetched/{file}.csv",
    log:
        "logs/data/fetch/{file}.log",
    benchmark:
        "benchmarks/fetch/{file}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        source=source_name,
    message:
        "Fetching {wildcards.file}"
    shell:
        'exec python "$TFGLM_SCRIPTS/fetch.py"' " --source {params.source:q}" " --output {output}" " --log {log}"


# In a rule of its own, with the params of `ingest`: Snakemake deletes the outputs of a rule when it starts it again, and a wrong
# column in the config must not cost the shards. `update` keeps the earlier output where a rule fails.
rule check_file:
    input:
        csv_of,
    output:
        update("results/data/checked/{file}.json"),
    log:
        "logs/data/check_file/{file}.log",
    benchmark:
        "benchmarks/check_file/{file}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        layout=LAYOUT.model_dump_json(exclude={"description"}),
        settings=CONFIG.data.model_dump_json(include=set(SelectionConfig.model_fields)),
    message:
        "Checking the columns of {input}"
    shell:
        'exec python "$TFGLM_SCRIPTS/check_file.py"'
        " --source {input:q}"
        " --layout {params.layout:q}"
        " --settings {params.settings:q}"
        " --checked {output}"
        " --log {log}"


rule ingest:
    input:
        source=csv_of,
        checked="results/data/checked/{file}.json",
    output:
        manifest="results/data/ingested/{file}/manifest.json",
        levels="results/data/ingested/{file}/levels.parquet",
        shards=directory("results/data/ingested/{file}/shards"),
    log:
        "logs/data/ingest/{file}.log",
    benchmark:
        "benchmarks/ingest/{file}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        layout=LAYOUT.model_dump_json(exclude={"description"}),
        # What the shards depend on, and no more: another file, say, is no reason to ingest this one again.
        settings=CONFIG.data.model_dump_json(include=set(SelectionConfig.model_fields)),
    message:
        "Reading {input.source} into shards"
    shell:
        'exec python "$TFGLM_SCRIPTS/ingest.py"'
        " --source {input.source:q}"
        " --file {wildcards.file}"
        " --layout {params.layout:q}"
        " --settings {params.settings:q}"
        " --manifest {output.manifest}"
        " --log {log}"


rule merge_dictionary:
    input:
        expand("results/data/ingested/{file}/manifest.json", file=FILES),
    output:
        dictionary=update("results/data/dictionary.json"),
        rows=update("results/data/rows.json"),
    log:
        "logs/data/merge_dictionary.log",
    benchmark:
        "benchmarks/merge_dictionary.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
    message:
        "Merging the levels of all files"
    shell:
        'exec python "$TFGLM_SCRIPTS/merge_dictionary.py"'
        " --manifests {input}"
        " --dictionary {output.dictionary}"
        " --rows {output.rows}"
        " --log {log}"
