# From the files that the config names to shards, and to the dictionary of what is in them.


def csv_of(wildcards):
    """The plain CSV file to ingest: the user's own, or what `fetch` makes of it."""
    source = FILES[wildcards.file]
    packed = source.startswith("package:") or Path(source).suffix in (".zip", ".gz", ".bz2")
    return f"results/data/fetched/{wildcards.file}.csv" if packed else source


def packed_source(wildcards):
    """The compressed file to unpack; a file inside a Python package is found by the script, for it lies outside the project."""
    source = FILES[wildcards.file]
    return [] if source.startswith("package:") else source


def source_name(wildcards):
    return FILES[wildcards.file]


rule fetch:
    input:
        packed_source,
    output:
        "results/data/fetched/{file}.csv",
    params:
        source=source_name,
    log:
        "logs/data/fetch/{file}.log",
    benchmark:
        "benchmarks/fetch/{file}.tsv"
    conda:
        "../envs/tfglm.yaml"
    message:
        "Fetching {wildcards.file}"
    shell:
        'exec python "$TFGLM_SCRIPTS/fetch.py"'
        " --source {params.source:q}"
        " --output {output}"
        " --log {log}"


rule ingest:
    input:
        csv_of,
    output:
        manifest="results/data/ingested/{file}/manifest.json",
        levels="results/data/ingested/{file}/levels.parquet",
        shards=directory("results/data/ingested/{file}/shards"),
    params:
        engine=ENGINE,
        layout=LAYOUT.model_dump_json(exclude={"description"}),
        # What the shards depend on, and no more: another file, say, is no reason to ingest this one again.
        settings=CONFIG.data.model_dump_json(include=set(SelectionConfig.model_fields)),
    log:
        "logs/data/ingest/{file}.log",
    benchmark:
        "benchmarks/ingest/{file}.tsv"
    conda:
        "../envs/tfglm.yaml"
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
    params:
        engine=ENGINE,
    log:
        "logs/data/merge_dictionary.log",
    benchmark:
        "benchmarks/merge_dictionary.tsv"
    conda:
        "../envs/tfglm.yaml"
    message:
        "Merging the levels of all files"
    shell:
        'exec python "$TFGLM_SCRIPTS/merge_dictionary.py"'
        " --manifests {input}"
        " --dictionary {output.dictionary}"
        " --rows {output.rows}"
        " --log {log}"
