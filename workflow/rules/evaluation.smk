# What reads the rows after a fit, in one job for a model: metrics, and averages for marginal effects. Comparisons of models.


USUAL_EVALUATIONS = (*(["metrics.json"] if HAS_EVALUATION else []), "checks.json", *models.AVERAGES)

for variant in models.variants("evaluate", PLAN.models, lambda model: model.evaluations, USUAL_EVALUATIONS):

    rule:
        name:
            variant.name
        input:
            **FITTED,
            manifests=MANIFESTS,
            collapsed=PLAN.collapsed if "averages.npz" in variant.files else [],
        output:
            **TARGETS.evaluations(variant.files),
        log:
            f"{LOGS}/models/{{model}}/{variant.name}.log",
        benchmark:
            f"{TIMINGS}/{variant.name}/{{model}}.tsv"
        wildcard_constraints:
            model=variant.models,
        # The first job after a fit: tables and pictures wait for it.
        priority: 1
        group:
            OF_RESULTS
        conda:
            "../envs/tfglm.yaml"
        threads: PROCESSES.threads_to_average if "averages.npz" in variant.files else 1
        resources:
            runtime=share_of_runtime,
        params:
            engine=ENGINE,
            split=literal("evaluate"),
            settings=PLAN.settings(*KEYS_OF_METRICS, *(KEYS_OF_AVERAGES if "averages.npz" in variant.files else [])),
            files=TARGETS.options_of_evaluations(variant.files),
        message:
            "{wildcards.model}: reading the rows for metrics, checks and averages"
        # The threads read rows. Snakemake would also give linear algebra two threads, and OpenBLAS took 17 s of processor to wait
        # for them.
        shell:
            'OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 exec python "$TFGLM_SCRIPTS/forked.py" evaluate.py'
            f" {OPTIONS_OF_FITTED}"
            " --manifests {input.manifests}"
            " --collapsed {input.collapsed}"
            " --split {params.split}"
            " --threads {threads}"
            " --settings {params.settings:q}"
            " --reference {input.reference}"
            " --offset {input.offset}"
            " {params.files}"
            " --log {log}"


# The metrics of another split: `snakemake results/<name>/models/<model>/metrics_train.json`.
use rule evaluate as evaluate_split with:
    input:
        **FITTED,
        manifests=MANIFESTS,
        collapsed=[],
    output:
        metrics=f"{MODEL}/metrics_{{split}}.json",
    log:
        f"{LOGS}/models/{{model}}/evaluate_{{split}}.log",
    benchmark:
        f"{TIMINGS}/evaluate_{{split}}/{{model}}.tsv"
    wildcard_constraints:
        model=ANY_MODEL,
    threads: 1
    params:
        engine=ENGINE,
        split=lambda wildcards: wildcards.split,
        settings=PLAN.settings(*KEYS_OF_METRICS),
        files=lambda wildcards: f"--metrics {RESULTS}/models/{wildcards.model}/metrics_{wildcards.split}.json",


# The averages of a model whose config has `marginal_effects: false`, for tables that are asked for by their path.
use rule evaluate as evaluate_averages with:
    input:
        **PATHS.fit,
        reference=[],
        offset=[],
        manifests=MANIFESTS,
        collapsed=PLAN.collapsed,
    output:
        **TARGETS.evaluations(models.AVERAGES),
    log:
        f"{LOGS}/models/{{model}}/evaluate_averages.log",
    benchmark:
        f"{TIMINGS}/evaluate_averages/{{model}}.tsv"
    wildcard_constraints:
        model=models.not_among(PLAN.models.values(), lambda model: model.evaluations),
    threads: PROCESSES.threads_to_average
    params:
        engine=ENGINE,
        split=literal("evaluate"),
        settings=PLAN.settings(*KEYS_OF_AVERAGES),
        files=TARGETS.options_of_evaluations(models.AVERAGES),


rule compare_models:
    """Write the table and the page of the models under `compare`."""
    input:
        **TARGETS.inputs_of_comparison(),
    output:
        multiext(f"{RESULTS}/compare", *COMPARED[:3]),
        page=in_report(f"{RESULTS}/compare.html", "compare", "models side by side"),
    log:
        f"{LOGS}/compare_models.log",
    benchmark:
        f"{TIMINGS}/compare_models.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        models=TARGETS.compared(),
        with_coefficients=TARGETS.compared(has_coefficients=True),
        held_out=HELD_OUT,
    message:
        "Comparing models"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" compare.py'
        " --models {params.models}"
        " --with-coefficients {params.with_coefficients}"
        " {params.held_out}"
        " --files {output}"
        " --log {log}"


rule tabulate_for_papers:
    """Write the table of a model as LaTeX, Markdown, Word and Excel."""
    input:
        table=f"{MODEL}/coefficients.csv",
        digest=f"{MODEL}/coefficients.sha256",
        fit=f"{MODEL}/fit.json",
        design=f"{MODEL}/design.json",
        metrics=f"{MODEL}/metrics.json" if HAS_EVALUATION else [],
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
        models=PLAN.folder,
        with_coefficients=PLAN.folder,
        held_out=HELD_OUT,
        settings=SETTINGS_OF_PAPERS,
    message:
        "{wildcards.model}: writing the table for papers"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" compare.py'
        " --models {params.models}"
        " --with-coefficients {params.with_coefficients}"
        " {params.held_out}"
        " --settings {params.settings:q}"
        " --files {output}"
        " --log {log}"


use rule tabulate_for_papers as tabulate_comparison_for_papers with:
    input:
        **TARGETS.inputs_of_comparison(),
    output:
        multiext(f"{RESULTS}/compare", ".tex", ".md", ".docx", ".xlsx"),
    log:
        f"{LOGS}/tabulate_comparison_for_papers.log",
    benchmark:
        f"{TIMINGS}/tabulate_comparison_for_papers.tsv"
    params:
        engine=ENGINE,
        models=TARGETS.compared(),
        with_coefficients=TARGETS.compared(has_coefficients=True),
        held_out=HELD_OUT,
        settings=SETTINGS_OF_PAPERS,
    message:
        "Writing the table of all compared models for papers"


rule tabulate_scaling:
    """Compare the networks by the number of workers that trained them."""
    input:
        fits=TARGETS.scaled("fit.json"),
        histories=TARGETS.scaled("history.csv"),
        digests=TARGETS.scaled("history.sha256"),
    output:
        table=f"{RESULTS}/scaling.csv",
        plot=in_report(f"{RESULTS}/scaling.svg", "scaling", "networks by workers, picture"),
        png=f"{RESULTS}/scaling.png",
        pdf=f"{RESULTS}/scaling.pdf",
    log:
        f"{LOGS}/tabulate_scaling.log",
    benchmark:
        f"{TIMINGS}/tabulate_scaling.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        pictures=PICTURES,
        engine=ENGINE,
        models=TARGETS.scaled(),
    message:
        "Comparing networks by their workers"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" compare.py'
        " --models {params.models}"
        " --pictures {params.pictures:q}"
        " --files {output}"
        " --log {log}"
