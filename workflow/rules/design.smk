# Combines formula and dictionary, without TensorFlow. Mistakes that show here are refused before any role starts.


rule build_design:
    input:
        dictionary=PATHS.dictionary,
        manifests=MANIFESTS,
    output:
        f"{MODEL}/design.json",
    log:
        f"{LOGS}/models/{{model}}/build_design.log",
    benchmark:
        f"{TIMINGS}/build_design/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        section=unwatched(lambda wildcards: "networks" if wildcards.model in CONFIG.networks else "models"),
        settings=PLAN.settings(*DesignConfig.model_fields),
        known_late=PLAN.files.known_late,
        # Checked here, but no reason to make another design or another fit.
        to_check=unwatched(
            PLAN.settings(
                *["reference", "contrasts", "hypotheses", "pairwise", "pairwise_at", "by"],
                *["margins_at", "margins_contrasts", "offset_at"],
            )
        ),
    message:
        "{wildcards.model}: combining the formula with the levels"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" build_design.py'
        " --model {wildcards.model}"
        " --section {params.section}"
        " --settings {params.settings:q}"
        " --known-late {params.known_late:q}"
        " --to-check {params.to_check:q}"
        " --dictionary {input.dictionary}"
        " --manifests {input.manifests}"
        " --design {output}"
        " --log {log}"


# A separate rule, so that an unknown level is refused before the earlier table is deleted.
rule check_reference:
    input:
        f"{MODEL}/design.json",
    output:
        f"{MODEL}/reference.json",
    log:
        f"{LOGS}/models/{{model}}/check_reference.log",
    benchmark:
        f"{TIMINGS}/check_reference/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        settings=PLAN.settings("reference"),
    message:
        "{wildcards.model}: checking the reference levels"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" check.py'
        " --log {log}"
        " reference"
        " --design {input}"
        " --settings {params.settings:q}"
        " --checked {output}"
