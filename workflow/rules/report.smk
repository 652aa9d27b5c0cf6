# Pictures and pages, which the report shows. One job makes all of a model. Another one draws the same pictures as PNG and PDF.

USUAL_PICTURES = ("history", "coefficients", *(["metrics"] if HAS_EVALUATION else []))

for stage, kinds in (("write_pages", (".svg", ".html")), ("draw_pictures", (".png", ".pdf"))):

    for variant in models.variants(stage, PLAN.models, lambda model: model.pictures, USUAL_PICTURES):

        rule:
            name:
                variant.name
            input:
                TARGETS.inputs_of_pictures(variant.files),
                dictionary=PATHS.dictionary,
            output:
                TARGETS.pictures(variant.files, kinds),
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
                folder=PLAN.folder,
                pictures=PICTURES,
                settings=PLAN.settings("confidence"),
                curves=literal("--curves" if "effects" in variant.files else ""),
                words=literal(PLAN.words),
            message:
                "{wildcards.model}: drawing the pictures"
            shell:
                'exec python "$TFGLM_SCRIPTS/forked.py" write_pages.py'
                " --log {log}"
                " model"
                " --folder {params.folder}"
                " --dictionary {input.dictionary}"
                " --settings {params.settings:q}"
                " {params.curves}"
                " --pictures {params.pictures:q}"
                " --words {params.words:q}"
                " --files {output}"


rule write_diagnostics:
    """Show the residuals of training rows, and the most influential rows."""
    input:
        **PATHS.fit,
        manifests=MANIFESTS,
    output:
        html=TARGETS.output("diagnostics.html"),
        svg=f"{MODEL}/diagnostics.svg",
    log:
        f"{LOGS}/models/{{model}}/write_diagnostics.log",
    benchmark:
        f"{TIMINGS}/write_diagnostics/{{model}}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=PLAN.settings("identity"),
        pictures=PICTURES,
    message:
        "{wildcards.model}: drawing the residuals"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" write_pages.py --log {log} diagnostics'
        f" {OPTIONS_OF_FITTED}"
        " --manifests {input.manifests}"
        " --settings {params.settings:q}"
        " --pictures {params.pictures:q}"
        " --page {output.html}"


rule write_combinations:
    """Show contrasts or hypotheses."""
    input:
        fit=f"{MODEL}/fit.json",
        table=f"{MODEL}/{{table}}.csv",
        digest=f"{MODEL}/{{table}}.sha256",
    output:
        f"{MODEL}/{{table}}.html",
    log:
        f"{LOGS}/models/{{model}}/write_{{table}}.log",
    benchmark:
        f"{TIMINGS}/write_{{table}}/{{model}}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
        table=one_of(models.REFUSABLE_TABLES),
    group:
        "one_table"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=PLAN.settings("confidence"),
    message:
        "{wildcards.model}: showing the {wildcards.table}"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" write_pages.py --log {log} combinations'
        " --table {input.table}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --page {output}"


rule write_scores:
    """Show what the models predict of the files under `score`."""
    input:
        [path for path in TARGETS.scores() if path.endswith(".parquet")],
    output:
        f"{RESULTS}/scores.html",
    log:
        f"{LOGS}/write_scores.log",
    benchmark:
        f"{TIMINGS}/write_scores.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
    message:
        "Showing the scores"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" write_pages.py --log {log} scores --scores {input} --page {output}'


rule write_home:
    """Say in plain words what was fitted to what, the effects, their uncertainty and the quality of predictions, with links to
    all pages."""
    input:
        rows=f"{RESULTS}/data/rows.json",
        dictionary=PATHS.dictionary,
        fits=PATHS.of(PLAN.fit, "fit.json"),
        metrics=PATHS.of(PLAN.fit, "metrics.json") if HAS_EVALUATION else [],
        checks=PATHS.of(PLAN.regressions, "checks.json"),
        tables=TARGETS.sealed_tables(),
        curves=[path for path in TARGETS.models() if path.endswith("effects.svg")],
    output:
        in_report(f"{RESULTS}/index.html", "home", "in plain words"),
    log:
        f"{LOGS}/write_home.log",
    benchmark:
        f"{TIMINGS}/write_home.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        models=literal([MODEL.format(model=model) for model in PLAN.fit]),
        settings=literal(
            PLAN.settings_of_regressions(
                *["adjusted_means", "confidence", "marginal_effects", "margins_at", "offset_at", "pairwise"],
                "random_effects",
            )
        ),
        words=literal(PLAN.words),
        held_out=HELD_OUT,
        pages=literal(TARGETS.pages()),
        # Another command with the same results is no reason to write the page again.
        command=unwatched(PLAN.command_of_this_run),
    message:
        "Writing the page to open first"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" write_pages.py'
        " --log {log}"
        " home"
        " --rows {input.rows}"
        " --dictionary {input.dictionary}"
        " --models {params.models}"
        " --settings {params.settings:q}"
        " --words {params.words:q}"
        " {params.held_out}"
        " --pages {params.pages}"
        " --command {params.command:q}"
        " --page {output}"


rule write_rows:
    """Account for every row, and describe every column."""
    input:
        # The page has the responses of the models, which the designs check first; another formula alone writes no page again.
        designs=ancient(PATHS.of(PLAN.fit, "design.json")),
        rows=f"{RESULTS}/data/rows.json",
        dictionary=PATHS.dictionary,
        manifests=MANIFESTS,
    output:
        svg=in_report(f"{RESULTS}/data/rows.svg", "rows", "rows accounted for, picture", "Data"),
        html=in_report(f"{RESULTS}/data/rows.html", "rows", "rows accounted for, table", "Data"),
        columns=in_report(f"{RESULTS}/data/columns.html", "columns", "the columns and their distributions", "Data"),
    log:
        f"{LOGS}/data/write_rows.log",
    benchmark:
        f"{TIMINGS}/write_rows.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        pictures=PICTURES,
        responses=literal(list(dict.fromkeys(CONFIG.all_models[name].response for name in PLAN.fit))),
        words=literal(PLAN.words),
        reading=lambda wildcards: json_of(how_values_are_read(PLAN.files.all_layouts().values())),
    message:
        "Accounting for the rows, and describing the columns"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" write_pages.py'
        " --log {log}"
        " rows"
        " --rows {input.rows}"
        " --dictionary {input.dictionary}"
        " --manifests {input.manifests}"
        " --responses {params.responses:q}"
        " --words {params.words:q}"
        " --reading={params.reading:q}"
        " --pictures {params.pictures:q}"
        " --files {output}"


use rule write_rows as draw_rows with:
    output:
        png=f"{RESULTS}/data/rows.png",
        pdf=f"{RESULTS}/data/rows.pdf",
    log:
        f"{LOGS}/data/draw_rows.log",
    benchmark:
        f"{TIMINGS}/draw_rows.tsv"
