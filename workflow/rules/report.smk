# Pictures and pages, which the report shows. One job makes all of a model. Another one draws the same pictures as PNG and PDF.

for stage, kinds in (("write_pages", (".svg", ".html")), ("draw_pictures", (".png", ".pdf"))):

    for variant in variants(stage, pictures_of, USUAL_PICTURES):

        rule:
            name:
                variant.name
            input:
                inputs_of_pictures(variant.files),
                dictionary=f"{RESULTS}/data/dictionary.json",
            output:
                files_of_pictures(variant.files, kinds),
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
                folder=folder_of_model,
                colour=literal(CONFIG.pictures.colour),
                settings=settings("confidence"),
                curves=literal("--curves" if "effects" in variant.files else ""),
                words=literal(WORDS),
                coordinates=contents_of_coordinates,
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
                " --colour {params.colour:q}"
                " --words {params.words:q}"
                " --files {output}"


rule write_diagnostics:
    """Show the residuals of training rows, and the most influential rows."""
    input:
        **FIT,
        manifests=MANIFESTS,
    output:
        html=in_report("diagnostics.html"),
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
        settings=settings("identity"),
        colour=literal(CONFIG.pictures.colour),
    message:
        "{wildcards.model}: drawing the residuals"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" write_pages.py --log {log} diagnostics'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --manifests {input.manifests}"
        " --settings {params.settings:q}"
        " --colour {params.colour:q}"
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
        table="|".join(REFUSABLE_TABLES),
    group:
        "one_table"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("confidence"),
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
        [path for path in predicted_files("scores", SCORED) if path.endswith(".parquet")],
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


AVERAGED = [model for model in REGRESSIONS if CONFIG.models[model].marginal_effects]
CURVED = [model for model in REGRESSIONS if is_curved(model)]
WITH_PAIRS = [model for model in REGRESSIONS if CONFIG.models[model].pairwise]
WITH_SCENARIOS = [model for model in REGRESSIONS if CONFIG.models[model].margins_at]


rule write_home:
    """Say in plain words what was fitted to what, the effects, their uncertainty and the quality of predictions, with links to
    all pages."""
    input:
        rows=f"{RESULTS}/data/rows.json",
        dictionary=f"{RESULTS}/data/dictionary.json",
        fits=expand(f"{MODEL}/fit.json", model=MODELS),
        tables=expand(
            f"{MODEL}/{{table}}.{{kind}}",
            model=REGRESSIONS,
            table=["coefficients", "terms"],
            kind=["csv", "sha256"],
        ),
        metrics=expand(f"{MODEL}/metrics.json", model=MODELS if CONFIG.data.split.evaluate else []),
        averages=expand(f"{MODEL}/{{table}}.{{kind}}", model=AVERAGED, table=MARGINAL_TABLES, kind=["csv", "sha256"]),
        scenarios=expand(f"{MODEL}/margins_at.{{kind}}", model=WITH_SCENARIOS, kind=["csv", "sha256"]),
        pairs=expand(f"{MODEL}/pairwise.{{kind}}", model=WITH_PAIRS, kind=["csv", "sha256"]),
        curves=expand(f"{MODEL}/effects.{{kind}}", model=CURVED, kind=["csv", "sha256"]),
    output:
        report(
            f"{RESULTS}/index.html",
            caption="../report/home.rst",
            category="1. Start here",
            labels={"result": "in plain words"},
        ),
    log:
        f"{LOGS}/write_home.log",
    benchmark:
        f"{TIMINGS}/write_home.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        models=literal(expand(MODEL, model=MODELS)),
        settings=literal(
            settings_of_regressions(
                *["adjusted_means", "confidence", "marginal_effects", "margins_at", "offset_at", "pairwise"],
                "random_effects",
            )
        ),
        words=literal(WORDS),
        held_out=literal("--held-out" if CONFIG.data.split.evaluate else ""),
        pages=literal(pages_of_all_models()),
        # Another command with the same results is no reason to write the page again.
        command=unwatched(lambda wildcards: json_of(command_of_this_run())),
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
        designs=ancient(expand(f"{MODEL}/design.json", model=MODELS)),
        rows=f"{RESULTS}/data/rows.json",
        dictionary=f"{RESULTS}/data/dictionary.json",
        manifests=MANIFESTS,
    output:
        svg=report(
            f"{RESULTS}/data/rows.svg",
            caption="../report/rows.rst",
            category="Data",
            labels={"result": "rows accounted for, picture"},
        ),
        html=report(
            f"{RESULTS}/data/rows.html",
            caption="../report/rows.rst",
            category="Data",
            labels={"result": "rows accounted for, table"},
        ),
        columns=report(
            f"{RESULTS}/data/columns.html",
            caption="../report/columns.rst",
            category="Data",
            labels={"result": "the columns and their distributions"},
        ),
    log:
        f"{LOGS}/data/write_rows.log",
    benchmark:
        f"{TIMINGS}/write_rows.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
        responses=literal(list(dict.fromkeys(CONFIG.all_models[name].response for name in MODELS))),
        words=literal(WORDS),
        reading=lambda wildcards: json_of(how_values_are_read(layouts_of_files().values())),
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
        " --colour {params.colour:q}"
        " --files {output}"


use rule write_rows as draw_rows with:
    output:
        png=f"{RESULTS}/data/rows.png",
        pdf=f"{RESULTS}/data/rows.pdf",
    log:
        f"{LOGS}/data/draw_rows.log",
    benchmark:
        f"{TIMINGS}/draw_rows.tsv"
