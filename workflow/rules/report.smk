# What the report shows.


rule render_coefficients:
    input:
        table=f"{MODEL}/coefficients.csv",
        digest=f"{MODEL}/coefficients.sha256",
        fit=f"{MODEL}/fit.json",
    output:
        plot=report(
            f"{MODEL}/coefficients.svg",
            caption="../report/coefficient_plot.rst",
            category="{model}",
            labels={"result": "coefficients, picture"},
        ),
        png=f"{MODEL}/coefficients.png",
        ranked=report(
            f"{MODEL}/ranked.svg",
            caption="../report/ranked.rst",
            category="{model}",
            labels={"result": "levels by size, picture"},
        ),
        ranked_png=f"{MODEL}/ranked.png",
        page=report(
            f"{MODEL}/coefficients.html",
            caption="../report/coefficient_table.rst",
            category="{model}",
            labels={"result": "coefficients, table"},
        ),
    log:
        "logs/models/{model}/render_coefficients.log",
    benchmark:
        "timings/render_coefficients/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=CONFIG.pictures.colour,
        settings=settings("confidence"),
    message:
        "{wildcards.model}: drawing the coefficients"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_coefficients.py"'
        " --table {input.table}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png}"
        " --ranked {output.ranked} {output.ranked_png}"
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
    log:
        "logs/models/{model}/render_effects.log",
    benchmark:
        "timings/render_effects/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=CONFIG.pictures.colour,
        settings=settings("confidence"),
    message:
        "{wildcards.model}: drawing the effects of numbers"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_effects.py"'
        " --table {input.table}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png}"
        " --log {log}"


rule render_metrics:
    input:
        f"{MODEL}/metrics.json",
    output:
        plot=report(
            f"{MODEL}/metrics.svg",
            caption="../report/metrics_plot.rst",
            category="{model}",
            labels={"result": "metrics, picture"},
        ),
        png=f"{MODEL}/metrics.png",
        page=report(
            f"{MODEL}/metrics.html",
            caption="../report/metrics.rst",
            category="{model}",
            labels={"result": "metrics, table"},
        ),
    log:
        "logs/models/{model}/render_metrics.log",
    benchmark:
        "timings/render_metrics/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=CONFIG.pictures.colour,
        engine=ENGINE,
    message:
        "{wildcards.model}: drawing the metrics"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_metrics.py"'
        " --metrics {input}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png}"
        " --page {output.page}"
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
    log:
        "logs/models/{model}/render_history.log",
    benchmark:
        "timings/render_history/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=CONFIG.pictures.colour,
    message:
        "{wildcards.model}: drawing the convergence of the fit"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_history.py"'
        " --history {input.history}"
        " --fit {input.fit}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png}"
        " --log {log}"


rule render_summary:
    """Say in plain words what was fitted on what, how well and how surely."""
    input:
        rows="results/data/rows.json",
        fits=expand(f"{MODEL}/fit.json", model=MODELS),
        tables=expand(f"{MODEL}/{{table}}.csv", model=REGRESSIONS, table=["coefficients", "terms"]),
        digests=expand(f"{MODEL}/{{table}}.sha256", model=REGRESSIONS, table=["coefficients", "terms"]),
        metrics=expand(f"{MODEL}/metrics.json", model=MODELS if CONFIG.data.split.evaluate else []),
    output:
        report(
            "results/summary.html",
            caption="../report/summary.rst",
            category="1. Start here",
            labels={"result": "in plain words"},
        ),
    log:
        "logs/render_summary.log",
    benchmark:
        "timings/render_summary.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        models=expand("results/models/{model}", model=MODELS),
        held_out="--held-out" if CONFIG.data.split.evaluate else "",
    message:
        "Writing the summary"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_summary.py"'
        " --rows {input.rows}"
        " --models {params.models}"
        " {params.held_out}"
        " --page {output}"
        " --log {log}"


rule render_rows:
    """Show what became of every row."""
    input:
        "results/data/rows.json",
    output:
        page=report(
            "results/data/rows.html",
            caption="../report/rows.rst",
            category="Data",
            labels={"result": "rows accounted for, table"},
        ),
        plot=report(
            "results/data/rows.svg",
            caption="../report/rows.rst",
            category="Data",
            labels={"result": "rows accounted for, picture"},
        ),
        png="results/data/rows.png",
    log:
        "logs/data/render_rows.log",
    benchmark:
        "timings/render_rows.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=CONFIG.pictures.colour,
    message:
        "Accounting for the rows"
    shell:
        'exec python "$TFGLM_SCRIPTS/render_rows.py"'
        " --rows {input}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png}"
        " --page {output.page}"
        " --log {log}"
