# From the checkpoint to tables and metrics.


rule tabulate_coefficients:
    input:
        design="results/models/{model}/design.json",
        reference="results/models/{model}/reference.json",
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
    output:
        table="results/models/{model}/coefficients.csv",
        parquet="results/models/{model}/coefficients.parquet",
        terms="results/models/{model}/terms.csv",
        digests=expand("results/models/{{model}}/{table}.sha256", table=["coefficients", "terms"]),
    log:
        "logs/models/{model}/tabulate_coefficients.log",
    benchmark:
        "benchmarks/tabulate_coefficients/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        confidence=model_setting("confidence"),
    message:
        "{wildcards.model}: naming the coefficients"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_coefficients.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --confidence {params.confidence}"
        " --table {output.table}"
        " --parquet {output.parquet}"
        " --terms {output.terms}"
        " --log {log}"


rule tabulate_contrasts:
    input:
        design="results/models/{model}/design.json",
        reference="results/models/{model}/reference.json",
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
    output:
        "results/models/{model}/contrasts.csv",
    log:
        "logs/models/{model}/tabulate_contrasts.log",
    benchmark:
        "benchmarks/tabulate_contrasts/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        confidence=model_setting("confidence"),
        contrasts=model_setting("contrasts"),
    message:
        "{wildcards.model}: combining coefficients"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_contrasts.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --confidence {params.confidence}"
        " --contrasts {params.contrasts:q}"
        " --table {output}"
        " --log {log}"


rule tabulate_path:
    input:
        design="results/models/{model}/design.json",
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
    output:
        table="results/models/{model}/path.csv",
        plot=report(
            "results/models/{model}/path.svg",
            caption="../report/path.rst",
            category="{model}",
            labels={"result": "path of the penalty"},
        ),
        png="results/models/{model}/path.png",
    log:
        "logs/models/{model}/tabulate_path.log",
    benchmark:
        "benchmarks/tabulate_path/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=CONFIG.pictures.colour,
        engine=ENGINE,
    message:
        "{wildcards.model}: drawing the path of the penalty"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_path.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --table {output.table}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png}"
        " --log {log}"


rule export_vcov:
    input:
        design="results/models/{model}/design.json",
        reference="results/models/{model}/reference.json",
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
    output:
        "results/models/{model}/vcov.csv",
    log:
        "logs/models/{model}/export_vcov.log",
    benchmark:
        "benchmarks/export_vcov/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
    message:
        "{wildcards.model}: writing the covariance matrix"
    shell:
        'exec python "$TFGLM_SCRIPTS/export_vcov.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --table {output}"
        " --log {log}"


rule evaluate:
    input:
        design="results/models/{model}/design.json",
        reference=reference_of_unseen,
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
        manifests=expand("results/data/ingested/{file}/manifest.json", file=FILES),
    output:
        "results/models/{model}/metrics.json",
    log:
        "logs/models/{model}/evaluate.log",
    benchmark:
        "benchmarks/evaluate/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        split="evaluate",
        threshold=model_setting("threshold"),
        unseen=model_setting("unseen"),
        by=model_setting("by"),
    message:
        "{wildcards.model}: evaluating on the rows to {params.split}"
    shell:
        'exec python "$TFGLM_SCRIPTS/evaluate.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --manifests {input.manifests}"
        " --split {params.split}"
        " --threshold {params.threshold}"
        " --by {params.by}"
        " --unseen {params.unseen}"
        " --reference {input.reference}"
        " --metrics {output}"
        " --log {log}"


# The same of the rows of another split: `snakemake results/models/<model>/metrics_train.json`.
use rule evaluate as evaluate_split with:
    output:
        "results/models/{model}/metrics_{split}.json",
    log:
        "logs/models/{model}/evaluate_{split}.log",
    benchmark:
        "benchmarks/evaluate_{split}/{model}.tsv"
    params:
        engine=ENGINE,
        split=lambda wildcards: wildcards.split,
        threshold=model_setting("threshold"),
        unseen=model_setting("unseen"),
        by=model_setting("by"),


rule tabulate_groups:
    input:
        "results/models/{model}/metrics.json",
    output:
        "results/models/{model}/metrics_by.csv",
    log:
        "logs/models/{model}/tabulate_groups.log",
    benchmark:
        "benchmarks/tabulate_groups/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    message:
        "{wildcards.model}: writing the metrics by group"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_groups.py" --metrics {input} --table {output} --log {log}'


rule tabulate_effects:
    input:
        design="results/models/{model}/design.json",
        dictionary="results/data/dictionary.json",
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
    output:
        table="results/models/{model}/effects.csv",
        plot=report(
            "results/models/{model}/effects.svg",
            caption="../report/effects.rst",
            category="{model}",
            labels={"result": "effects of numbers, picture"},
        ),
        png="results/models/{model}/effects.png",
    log:
        "logs/models/{model}/tabulate_effects.log",
    benchmark:
        "benchmarks/tabulate_effects/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        colour=CONFIG.pictures.colour,
        engine=ENGINE,
        confidence=model_setting("confidence"),
    message:
        "{wildcards.model}: drawing the effects of numbers"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_effects.py"'
        " --design {input.design}"
        " --dictionary {input.dictionary}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --confidence {params.confidence}"
        " --table {output.table}"
        " --colour {params.colour:q}"
        " --plots {output.plot} {output.png}"
        " --log {log}"


rule predict:
    input:
        design="results/models/{model}/design.json",
        reference=reference_of_unseen,
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
        manifest="results/data/ingested/{file}/manifest.json",
    output:
        "results/models/{model}/predictions/{file}.parquet",
    log:
        "logs/models/{model}/predict/{file}.log",
    benchmark:
        "benchmarks/predict/{model}/{file}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        identity=model_setting("identity"),
        confidence=model_setting("confidence"),
        unseen=model_setting("unseen"),
    message:
        "{wildcards.model}: predicting the rows of {wildcards.file}"
    shell:
        'exec python "$TFGLM_SCRIPTS/predict.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --manifest {input.manifest}"
        " --identity {params.identity}"
        " --confidence {params.confidence}"
        " --unseen {params.unseen}"
        " --reference {input.reference}"
        " --predictions {output}"
        " --log {log}"


# A file that no model is fitted to, and that needs no response.
use rule predict as score_file with:
    input:
        design="results/models/{model}/design.json",
        reference=reference_of_unseen,
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
        manifest="results/data/scored/{file}/manifest.json",
    output:
        "results/models/{model}/scores/{file}.parquet",
    log:
        "logs/models/{model}/score/{file}.log",
    benchmark:
        "benchmarks/score/{model}/{file}.tsv"


rule export_model:
    input:
        design="results/models/{model}/design.json",
        reference="results/models/{model}/reference.json",
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
    output:
        saved_model=directory("results/models/{model}/saved_model"),
        description="results/models/{model}/model.json",
    log:
        "logs/models/{model}/export_model.log",
    benchmark:
        "benchmarks/export_model/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        unseen=model_setting("unseen"),
        derived=derived_covariates,
    message:
        "{wildcards.model}: exporting the model"
    shell:
        'exec python "$TFGLM_SCRIPTS/export_model.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --unseen {params.unseen}"
        " --derived {params.derived:q}"
        " --saved-model {output.saved_model}"
        " --description {output.description}"
        " --log {log}"


rule compare_models:
    """Write the table and the page of the models under `compare`."""
    input:
        tables=compared_files("coefficients.csv"),
        digests=compared_files("coefficients.sha256"),
        fits=compared_files("fit.json"),
        metrics=compared_files("metrics.json") if CONFIG.data.split.evaluate else [],
    output:
        table="results/compare.csv",
        page=report(
            "results/compare.html",
            caption="../report/compare.rst",
            category="1. Start here",
            labels={"result": "models side by side"},
        ),
    log:
        "logs/compare_models.log",
    benchmark:
        "benchmarks/compare_models.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        models=compared_files(),
        held_out="--held-out" if CONFIG.data.split.evaluate else "",
    message:
        "Setting models side by side"
    shell:
        'exec python "$TFGLM_SCRIPTS/compare.py"'
        " --models {params.models}"
        " {params.held_out}"
        " --table {output.table}"
        " --page {output.page}"
        " --log {log}"
