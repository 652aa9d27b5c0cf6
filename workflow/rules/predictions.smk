# Predictions of single rows, and exports for programs without tfglm.


rule predict:
    input:
        **FIT,
        reference=reference_of_unseen,
        offset=offset_of,
        manifest=lambda wildcards: f"{SHARDS_OF[wildcards.file]}/manifest.json",
    output:
        f"{MODEL}/predictions/{{file}}.parquet",
    log:
        f"{LOGS}/models/{{model}}/predict/{{file}}.log",
    benchmark:
        f"{TIMINGS}/predict/{{model}}/{{file}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("identity", "confidence", "unseen"),
    message:
        "{wildcards.model}: predicting the rows of {wildcards.file}"
    shell:
        'exec python "$TFGLM_SCRIPTS/predict.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --manifest {input.manifest}"
        " --settings {params.settings:q}"
        " --reference {input.reference}"
        " --offset {input.offset}"
        " --predictions {output}"
        " --log {log}"


# A file that no model is fitted to, and that needs no response.
use rule predict as score_file with:
    input:
        **FIT,
        reference=reference_of_unseen,
        offset=offset_of,
        manifest=lambda wildcards: f"{SHARDS_TO_SCORE[wildcards.file]}/manifest.json",
    output:
        f"{MODEL}/scores/{{file}}.parquet",
    log:
        f"{LOGS}/models/{{model}}/score/{{file}}.log",
    benchmark:
        f"{TIMINGS}/score/{{model}}/{{file}}.tsv"


# On request: `snakemake results/<name>/models/<model>/residuals_train/<file>.parquet`.
rule residuals:
    input:
        **FIT,
        manifest=lambda wildcards: f"{SHARDS_OF[wildcards.file]}/manifest.json",
    output:
        f"{MODEL}/residuals_{{split}}/{{file}}.parquet",
    log:
        f"{LOGS}/models/{{model}}/residuals_{{split}}/{{file}}.log",
    benchmark:
        f"{TIMINGS}/residuals/{{model}}/{{split}}/{{file}}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
        split="train|evaluate",
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("identity", "leverage"),
    message:
        "{wildcards.model}: residuals of the rows of {wildcards.file} in the split {wildcards.split}"
    shell:
        'exec python "$TFGLM_SCRIPTS/residuals.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --manifest {input.manifest}"
        " --split {wildcards.split}"
        " --settings {params.settings:q}"
        " --residuals {output}"
        " --log {log}"


rule write_predictions_csv:
    input:
        f"{MODEL}/{{rows}}/{{file}}.parquet",
    output:
        f"{MODEL}/{{rows}}/{{file}}.csv",
    log:
        f"{LOGS}/models/{{model}}/write_predictions_csv/{{rows}}/{{file}}.log",
    benchmark:
        f"{TIMINGS}/write_predictions_csv/{{model}}/{{rows}}/{{file}}.tsv"
    wildcard_constraints:
        rows="predictions|scores|residuals_train|residuals_evaluate",
    conda:
        "../envs/tfglm.yaml"
    message:
        "{wildcards.model}: writing {wildcards.rows} of {wildcards.file} as CSV"
    shell:
        'exec python "$TFGLM_SCRIPTS/predictions_to_csv.py" --predictions {input} --csv {output} --log {log}'


rule export_model:
    input:
        **FIT,
        reference=reference_of_regression,
        offset=offset_of,
    output:
        saved_model=directory(f"{MODEL}/saved_model"),
        description=f"{MODEL}/model.json",
    log:
        f"{LOGS}/models/{{model}}/export_model.log",
    benchmark:
        f"{TIMINGS}/export_model/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("unseen"),
        derived=derived_covariates,
    message:
        "{wildcards.model}: exporting the model"
    shell:
        'exec python "$TFGLM_SCRIPTS/export_model.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --offset {input.offset}"
        " --settings {params.settings:q}"
        " --derived {params.derived:q}"
        " --saved-model {output.saved_model}"
        " --description {output.description}"
        " --log {log}"
