# How well the models predict, and the models side by side.


rule evaluate:
    input:
        **FIT,
        reference=reference_of_unseen,
        offset=offset_of,
        manifests=MANIFESTS,
    output:
        f"{MODEL}/metrics.json",
    log:
        "logs/models/{model}/evaluate.log",
    benchmark:
        "timings/evaluate/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        split="evaluate",
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


# The same of the rows of another split: `snakemake results/models/<model>/metrics_train.json`.
use rule evaluate as evaluate_split with:
    output:
        f"{MODEL}/metrics_{{split}}.json",
    log:
        "logs/models/{model}/evaluate_{split}.log",
    benchmark:
        "timings/evaluate_{split}/{model}.tsv"
    params:
        engine=ENGINE,
        split=lambda wildcards: wildcards.split,
        settings=settings("threshold", "unseen", "by"),


rule tabulate_groups:
    input:
        f"{MODEL}/metrics.json",
    output:
        f"{MODEL}/metrics_by.csv",
    log:
        "logs/models/{model}/tabulate_groups.log",
    benchmark:
        "timings/tabulate_groups/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    message:
        "{wildcards.model}: writing the metrics by group"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_groups.py" --metrics {input} --table {output} --log {log}'


WITH_COEFFICIENTS = [*CONFIG.models, *(name for name in CONFIG.networks if is_linear(name))]


rule compare_models:
    """Write the table and the page of the models under `compare`."""
    input:
        tables=compared_files("coefficients.csv", WITH_COEFFICIENTS),
        digests=compared_files("coefficients.sha256", WITH_COEFFICIENTS),
        fits=compared_files("fit.json"),
        metrics=compared_files("metrics.json") if CONFIG.data.split.evaluate else [],
    output:
        table="results/compare.csv",
        differences="results/compare_held_out.csv",
        page=report(
            "results/compare.html",
            caption="../report/compare.rst",
            category="1. Start here",
            labels={"result": "models side by side"},
        ),
    log:
        "logs/compare_models.log",
    benchmark:
        "timings/compare_models.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        models=compared_files(),
        with_coefficients=compared_files(among=WITH_COEFFICIENTS),
        held_out="--held-out" if CONFIG.data.split.evaluate else "",
    message:
        "Comparing models"
    shell:
        'exec python "$TFGLM_SCRIPTS/compare.py"'
        " --models {params.models}"
        " --with-coefficients {params.with_coefficients}"
        " {params.held_out}"
        " --table {output.table}"
        " --differences {output.differences}"
        " --page {output.page}"
        " --log {log}"


rule tabulate_scaling:
    """Set the networks side by side by the number of workers that trained them."""
    input:
        fits=scaled_files("fit.json"),
        histories=scaled_files("history.csv"),
        digests=scaled_files("history.sha256"),
    output:
        table="results/scaling.csv",
        plot=report(
            "results/scaling.svg",
            caption="../report/scaling.rst",
            category="1. Start here",
            labels={"result": "networks by workers, picture"},
        ),
        png="results/scaling.png",
    log:
        "logs/tabulate_scaling.log",
    benchmark:
        "timings/tabulate_scaling.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=CONFIG.pictures.colour,
        engine=ENGINE,
        models=scaled_files(),
    message:
        "Comparing networks by their workers"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_scaling.py"'
        " --models {params.models}"
        " --table {output.table}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png}"
        " --log {log}"
