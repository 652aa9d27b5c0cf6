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


rule ingest:
    input:
        csv_of,
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
        "Reading {input} into shards"
    shell:
        'exec python "$TFGLM_SCRIPTS/ingest.py"'
        " --source {input:q}"
        " --file {wildcards.file}"
        " --layout {params.layout:q}"
        " --settings {params.settings:q}"
        " --manifest {output.manifest}"
        " --log {log}"


rule merge_dictionary:
    input:
        expand("results/data/ingested/{file}/manifest.json", file=FILES),
    output:
        dictionary="results/data/dictionary.json",
        rows="results/data/rows.json",
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
