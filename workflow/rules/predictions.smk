# Predictions of single rows, and exports for programs without tfglm.


rule predict:
    input:
        **FITTED,
        manifest=PLAN.files.manifest,
    output:
        f"{MODEL}/predictions/{{file}}.{{format}}",
    log:
        f"{LOGS}/models/{{model}}/predict/{{file}}.{{format}}.log",
    benchmark:
        f"{TIMINGS}/predict/{{model}}/{{file}}.{{format}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        split=literal("predict"),
        settings=PLAN.settings("identity", "confidence", "interval", "unseen"),
    message:
        "{wildcards.model}: predicting the rows of {wildcards.file}"
    shell:
        'exec python "$TFGLM_SCRIPTS/forked.py" predict.py'
        f" {OPTIONS_OF_FITTED}"
        " --manifest {input.manifest}"
        " --split {params.split}"
        " --settings {params.settings:q}"
        " --reference {input.reference}"
        " --offset {input.offset}"
        " --output {output}"
        " --log {log}"


# A file that no model is fitted to, and that needs no response.
use rule predict as score_file with:
    input:
        **FITTED,
        manifest=PLAN.scored.manifest,
    output:
        f"{MODEL}/scores/{{file}}.{{format}}",
    log:
        f"{LOGS}/models/{{model}}/score/{{file}}.{{format}}.log",
    benchmark:
        f"{TIMINGS}/score/{{model}}/{{file}}.{{format}}.tsv"


# On request: `snakemake results/<name>/models/<model>/residuals_train/<file>.parquet`.
use rule predict as residuals with:
    input:
        **PATHS.fit,
        reference=[],
        offset=[],
        manifest=PLAN.files.manifest,
    output:
        f"{MODEL}/residuals_{{split}}/{{file}}.{{format}}",
    log:
        f"{LOGS}/models/{{model}}/residuals_{{split}}/{{file}}.{{format}}.log",
    benchmark:
        f"{TIMINGS}/residuals/{{model}}/{{split}}/{{file}}.{{format}}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
        split="train|evaluate",
    params:
        engine=ENGINE,
        split=lambda wildcards: wildcards.split,
        settings=PLAN.settings("identity", "leverage"),
    message:
        "{wildcards.model}: residuals of the rows of {wildcards.file} in the split {wildcards.split}"


rule export_model:
    input:
        **PATHS.fit,
        reference=PLAN.reference_of_regression,
        offset=PLAN.offset,
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
        settings=PLAN.settings("unseen"),
        layouts=PLAN.exported_layouts,
        derive=lambda wildcards: json_of(CONFIG.data.derive, sort_keys=True),
    message:
        "{wildcards.model}: exporting the model"
    shell:
        'exec python "$TFGLM_SCRIPTS/export_model.py"'
        f" {OPTIONS_OF_FITTED}"
        " --reference {input.reference}"
        " --offset {input.offset}"
        " --settings {params.settings:q}"
        " --layouts {params.layouts:q}"
        " --derive {params.derive:q}"
        " --saved-model {output.saved_model}"
        " --description {output.description}"
        " --log {log}"
