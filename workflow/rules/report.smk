# Pictures and pages, which the report shows.


rule render_coefficients:
    input:
        table=f"{MODEL}/coefficients.csv",
        digest=f"{MODEL}/coefficients.sha256",
        coordinates=files_of_coordinates,
        effects=curves_of("effects.csv"),
        of_effects=curves_of("effects.sha256"),
        fit=f"{MODEL}/fit.json",
    output:
        plot=report(
            f"{MODEL}/coefficients.svg",
            caption="../report/coefficient_plot.rst",
            category="{model}",
            labels={"result": "coefficients, picture"},
        ),
        png=f"{MODEL}/coefficients.png",
        pdf=f"{MODEL}/coefficients.pdf",
        page=report(
            f"{MODEL}/coefficients.html",
            caption="../report/coefficient_table.rst",
            category="{model}",
            labels={"result": "coefficients, table"},
        ),
    log:
        f"{LOGS}/models/{{model}}/render_coefficients.log",
    benchmark:
        f"{TIMINGS}/render_coefficients/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
        settings=settings("confidence"),
        words=literal(WORDS),
        coordinates=contents_of_coordinates,
    message:
        "{wildcards.model}: drawing the coefficients"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_coefficients.py"'
        " --table {input.table}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --colour {params.colour:q}"
        " --effects {input.effects}"
        " --plots {output.plot} {output.png} {output.pdf}"
        " --words {params.words:q}"
        " --page {output.page}"
        " --log {log}"


rule render_effects:
    input:
        table=f"{MODEL}/effects.csv",
        digest=f"{MODEL}/effects.sha256",
        fit=f"{MODEL}/fit.json",
    output:
        plot=report(
            f"{MODEL}/effects.svg",
            caption="../report/effects.rst",
            category="{model}",
            labels={"result": "effects of numbers, picture"},
        ),
        png=f"{MODEL}/effects.png",
        pdf=f"{MODEL}/effects.pdf",
    log:
        f"{LOGS}/models/{{model}}/render_effects.log",
    benchmark:
        f"{TIMINGS}/render_effects/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
        settings=settings("confidence"),
    message:
        "{wildcards.model}: drawing the effects of numbers"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_effects.py"'
        " --table {input.table}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png} {output.pdf}"
        " --log {log}"


rule render_metrics:
    input:
        metrics=f"{MODEL}/metrics.json",
        fit=f"{MODEL}/fit.json",
    output:
        plot=report(
            f"{MODEL}/metrics.svg",
            caption="../report/metrics_plot.rst",
            category="{model}",
            labels={"result": "metrics, picture"},
        ),
        png=f"{MODEL}/metrics.png",
        pdf=f"{MODEL}/metrics.pdf",
        page=report(
            f"{MODEL}/metrics.html",
            caption="../report/metrics.rst",
            category="{model}",
            labels={"result": "metrics, table"},
        ),
    log:
        f"{LOGS}/models/{{model}}/render_metrics.log",
    benchmark:
        f"{TIMINGS}/render_metrics/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
        words=literal(WORDS),
        engine=ENGINE,
    message:
        "{wildcards.model}: drawing the metrics"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_metrics.py"'
        " --metrics {input.metrics}"
        " --fit {input.fit}"
        " --colour {params.colour:q}"
        " --words {params.words:q}"
        " --plots {output.plot} {output.png} {output.pdf}"
        " --page {output.page}"
        " --log {log}"


rule render_groups:
    input:
        metrics=f"{MODEL}/metrics.json",
        fit=f"{MODEL}/fit.json",
    output:
        plot=report(
            f"{MODEL}/metrics_by.svg",
            caption="../report/metrics_by.rst",
            category="{model}",
            labels={"result": "metrics by group, picture"},
        ),
        png=f"{MODEL}/metrics_by.png",
        pdf=f"{MODEL}/metrics_by.pdf",
    log:
        f"{LOGS}/models/{{model}}/render_groups.log",
    benchmark:
        f"{TIMINGS}/render_groups/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
        words=literal(WORDS),
    message:
        "{wildcards.model}: drawing the metrics by group"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_groups.py"'
        " --metrics {input.metrics}"
        " --fit {input.fit}"
        " --colour {params.colour:q}"
        " --words {params.words:q}"
        " --plots {output.plot} {output.png} {output.pdf}"
        " --log {log}"


rule render_path:
    input:
        **FIT,
    output:
        plot=report(
            f"{MODEL}/path.svg",
            caption="../report/path.rst",
            category="{model}",
            labels={"result": "path of the penalty"},
        ),
        png=f"{MODEL}/path.png",
        pdf=f"{MODEL}/path.pdf",
    log:
        f"{LOGS}/models/{{model}}/render_path.log",
    benchmark:
        f"{TIMINGS}/render_path/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
    message:
        "{wildcards.model}: drawing the path of the penalty"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_path.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png} {output.pdf}"
        " --log {log}"


rule render_embeddings:
    input:
        table=f"{MODEL}/embeddings.csv",
        digest=f"{MODEL}/embeddings.sha256",
        fit=f"{MODEL}/fit.json",
    output:
        plot=report(
            f"{MODEL}/embeddings.svg",
            caption="../report/embeddings.rst",
            category="{model}",
            labels={"result": "embeddings of levels, picture"},
        ),
        png=f"{MODEL}/embeddings.png",
        pdf=f"{MODEL}/embeddings.pdf",
    log:
        f"{LOGS}/models/{{model}}/render_embeddings.log",
    benchmark:
        f"{TIMINGS}/render_embeddings/{{model}}.tsv"
    wildcard_constraints:
        model=NETWORK,
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
    message:
        "{wildcards.model}: drawing the embeddings"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_embeddings.py"'
        " --table {input.table}"
        " --fit {input.fit}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png} {output.pdf}"
        " --log {log}"


rule render_history:
    input:
        history=f"{MODEL}/history.csv",
        digest=f"{MODEL}/history.sha256",
        fit=f"{MODEL}/fit.json",
    output:
        plot=report(
            f"{MODEL}/history.svg",
            caption="../report/history.rst",
            category="{model}",
            labels={"result": "how the fit went, picture"},
        ),
        png=f"{MODEL}/history.png",
        pdf=f"{MODEL}/history.pdf",
    log:
        f"{LOGS}/models/{{model}}/render_history.log",
    benchmark:
        f"{TIMINGS}/render_history/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
    message:
        "{wildcards.model}: drawing the convergence of the fit"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_history.py"'
        " --history {input.history}"
        " --fit {input.fit}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png} {output.pdf}"
        " --log {log}"


AVERAGED = [model for model in REGRESSIONS if CONFIG.models[model].marginal_effects]


rule render_home:
    """Say in plain words what was fitted to what, the effects, their uncertainty and the quality of predictions, with links to
    all pages."""
    input:
        rows=f"{RESULTS}/data/rows.json",
        dictionary=f"{RESULTS}/data/dictionary.json",
        fits=expand(f"{MODEL}/fit.json", model=MODELS),
        tables=expand(f"{MODEL}/{{table}}.csv", model=REGRESSIONS, table=["coefficients", "terms"]),
        digests=expand(f"{MODEL}/{{table}}.sha256", model=REGRESSIONS, table=["coefficients", "terms"]),
        metrics=expand(f"{MODEL}/metrics.json", model=MODELS if CONFIG.data.split.evaluate else []),
        effects=expand(f"{MODEL}/marginal_effects.csv", model=AVERAGED),
        means=expand(f"{MODEL}/adjusted_means.csv", model=AVERAGED),
        of_averages=expand(f"{MODEL}/{{table}}.sha256", model=AVERAGED, table=["marginal_effects", "adjusted_means"]),
    output:
        report(
            f"{RESULTS}/index.html",
            caption="../report/home.rst",
            category="1. Start here",
            labels={"result": "in plain words"},
        ),
    log:
        f"{LOGS}/render_home.log",
    benchmark:
        f"{TIMINGS}/render_home.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        models=literal(expand(MODEL, model=MODELS)),
        settings=literal(settings_of_regressions("adjusted_means", "confidence")),
        words=literal(WORDS),
        held_out=literal("--held-out" if CONFIG.data.split.evaluate else ""),
        pages=literal(pages_of_all_models()),
        # Another command with the same results is no reason to write the page again.
        command=unwatched(lambda wildcards: command_of_this_run()),
    message:
        "Writing the page to open first"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_home.py"'
        " --rows {input.rows}"
        " --dictionary {input.dictionary}"
        " --models {params.models}"
        " --settings {params.settings:q}"
        " --words {params.words:q}"
        " {params.held_out}"
        " --marginal-effects {input.effects}"
        " --adjusted-means {input.means}"
        " --pages {params.pages}"
        " --command {params.command:q}"
        " --page {output}"
        " --log {log}"


rule render_rows:
    """Account for every row."""
    input:
        f"{RESULTS}/data/rows.json",
    output:
        page=report(
            f"{RESULTS}/data/rows.html",
            caption="../report/rows.rst",
            category="Data",
            labels={"result": "rows accounted for, table"},
        ),
        plot=report(
            f"{RESULTS}/data/rows.svg",
            caption="../report/rows.rst",
            category="Data",
            labels={"result": "rows accounted for, picture"},
        ),
        png=f"{RESULTS}/data/rows.png",
        pdf=f"{RESULTS}/data/rows.pdf",
    log:
        f"{LOGS}/data/render_rows.log",
    benchmark:
        f"{TIMINGS}/render_rows.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
    message:
        "Accounting for the rows"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_rows.py"'
        " --rows {input}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png} {output.pdf}"
        " --page {output.page}"
        " --log {log}"
