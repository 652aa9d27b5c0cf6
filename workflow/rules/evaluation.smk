# Metrics of the models, and comparisons of models.


rule evaluate:
    input:
        **FIT,
        reference=reference_of_unseen,
        offset=offset_of,
        manifests=MANIFESTS,
    output:
        f"{MODEL}/metrics.json",
    log:
        f"{LOGS}/models/{{model}}/evaluate.log",
    benchmark:
        f"{TIMINGS}/evaluate/{{model}}.tsv"
    # The first job after a fit: pictures wait for it, and marginal effects, which take all cores, come after it.
    priority: 1
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        split=literal("evaluate"),
        settings=settings("threshold", "unseen", "by"),
    message:
        "{wildcards.model}: evaluating on the rows of the split {params.split}"
    shell:
        'exec python "$TFGLM_SCRIPTS/evaluate.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --manifests {input.manifests}"
        " --split {params.split}"
        " --settings {params.settings:q}"
        " --reference {input.reference}"
        " --offset {input.offset}"
        " --metrics {output}"
        " --log {log}"


# The same for the rows of another split: `snakemake results/models/<model>/metrics_train.json`.
use rule evaluate as evaluate_split with:
    output:
        f"{MODEL}/metrics_{{split}}.json",
    log:
        f"{LOGS}/models/{{model}}/evaluate_{{split}}.log",
    benchmark:
        f"{TIMINGS}/evaluate_{{split}}/{{model}}.tsv"
    params:
        engine=ENGINE,
        split=lambda wildcards: wildcards.split,
        settings=settings("threshold", "unseen", "by"),


rule tabulate_groups:
    input:
        metrics=f"{MODEL}/metrics.json",
        fit=f"{MODEL}/fit.json",
    output:
        f"{MODEL}/metrics_by.csv",
    log:
        f"{LOGS}/models/{{model}}/tabulate_groups.log",
    benchmark:
        f"{TIMINGS}/tabulate_groups/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    message:
        "{wildcards.model}: writing the metrics by group"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_groups.py"'
        " --metrics {input.metrics}"
        " --fit {input.fit}"
        " --table {output}"
        " --log {log}"


WITH_COEFFICIENTS = [*CONFIG.models, *(name for name in CONFIG.networks if is_linear(name))]


rule compare_models:
    """Write the table and the page of the models under `compare`."""
    input:
        tables=compared_files("coefficients.csv", WITH_COEFFICIENTS),
        digests=compared_files("coefficients.sha256", WITH_COEFFICIENTS),
        fits=compared_files("fit.json"),
        designs=compared_files("design.json"),
        metrics=compared_files("metrics.json") if CONFIG.data.split.evaluate else [],
    output:
        table=f"{RESULTS}/compare.csv",
        differences=f"{RESULTS}/compare_held_out.csv",
        tests=f"{RESULTS}/compare_likelihood_ratio.csv",
        page=report(
            f"{RESULTS}/compare.html",
            caption="../report/compare.rst",
            category="1. Start here",
            labels={"result": "models side by side"},
        ),
    log:
        f"{LOGS}/compare_models.log",
    benchmark:
        f"{TIMINGS}/compare_models.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        models=compared_files(),
        with_coefficients=compared_files(among=WITH_COEFFICIENTS),
        held_out=literal("--held-out" if CONFIG.data.split.evaluate else ""),
    message:
        "Comparing models"
    shell:
        'exec python "$TFGLM_SCRIPTS/compare.py"'
        " --models {params.models}"
        " --with-coefficients {params.with_coefficients}"
        " {params.held_out}"
        " --table {output.table}"
        " --differences {output.differences}"
        " --tests {output.tests}"
        " --page {output.page}"
        " --log {log}"


rule tabulate_for_papers:
    """Write the table of a model as LaTeX, Markdown, Word and Excel."""
    input:
        table=f"{MODEL}/coefficients.csv",
        digest=f"{MODEL}/coefficients.sha256",
        fit=f"{MODEL}/fit.json",
        design=f"{MODEL}/design.json",
        metrics=f"{MODEL}/metrics.json" if CONFIG.data.split.evaluate else [],
    output:
        multiext(f"{MODEL}/coefficients", ".tex", ".md", ".docx", ".xlsx"),
    log:
        f"{LOGS}/models/{{model}}/tabulate_for_papers.log",
    benchmark:
        f"{TIMINGS}/tabulate_for_papers/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        models=folder_of_model,
        with_coefficients=folder_of_model,
        held_out=literal("--held-out" if CONFIG.data.split.evaluate else ""),
        settings=literal(CONFIG.tables.model_dump_json(exclude_defaults=True)),
    message:
        "{wildcards.model}: writing the table for papers"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_for_papers.py"'
        " --models {params.models}"
        " --with-coefficients {params.with_coefficients}"
        " {params.held_out}"
        " --settings {params.settings:q}"
        " --tables {output}"
        " --log {log}"


use rule tabulate_for_papers as tabulate_comparison_for_papers with:
    input:
        tables=compared_files("coefficients.csv", WITH_COEFFICIENTS),
        digests=compared_files("coefficients.sha256", WITH_COEFFICIENTS),
        fits=compared_files("fit.json"),
        designs=compared_files("design.json"),
        metrics=compared_files("metrics.json") if CONFIG.data.split.evaluate else [],
    output:
        multiext(f"{RESULTS}/compare", ".tex", ".md", ".docx", ".xlsx"),
    log:
        f"{LOGS}/tabulate_comparison_for_papers.log",
    benchmark:
        f"{TIMINGS}/tabulate_comparison_for_papers.tsv"
    params:
        engine=ENGINE,
        models=compared_files(),
        with_coefficients=compared_files(among=WITH_COEFFICIENTS),
        held_out=literal("--held-out" if CONFIG.data.split.evaluate else ""),
        settings=literal(CONFIG.tables.model_dump_json(exclude_defaults=True)),
    message:
        "Writing the table of all compared models for papers"


rule tabulate_scaling:
    """Compare the networks by the number of workers that trained them."""
    input:
        fits=scaled_files("fit.json"),
        histories=scaled_files("history.csv"),
        digests=scaled_files("history.sha256"),
    output:
        table=f"{RESULTS}/scaling.csv",
        plot=report(
            f"{RESULTS}/scaling.svg",
            caption="../report/scaling.rst",
            category="1. Start here",
            labels={"result": "networks by workers, picture"},
        ),
        png=f"{RESULTS}/scaling.png",
        pdf=f"{RESULTS}/scaling.pdf",
    log:
        f"{LOGS}/tabulate_scaling.log",
    benchmark:
        f"{TIMINGS}/tabulate_scaling.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=literal(CONFIG.pictures.colour),
        engine=ENGINE,
        models=scaled_files(),
    message:
        "Comparing networks by their workers"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_scaling.py"'
        " --models {params.models}"
        " --table {output.table}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png} {output.pdf}"
        " --log {log}"
