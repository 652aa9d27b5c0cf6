# Predictions of single rows, and the model for programs that predict without tfglm.


rule predict:
    input:
        **FIT,
        reference=reference_of_unseen,
        offset=offset_of,
        manifest="results/data/ingested/{file}/manifest.json",
    output:
        f"{MODEL}/predictions/{{file}}.parquet",
    log:
        "logs/models/{model}/predict/{file}.log",
    benchmark:
        "timings/predict/{model}/{file}.tsv"
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
        manifest="results/data/scored/{file}/manifest.json",
    output:
        f"{MODEL}/scores/{{file}}.parquet",
    log:
        "logs/models/{model}/score/{file}.log",
    benchmark:
        "timings/score/{model}/{file}.tsv"


rule export_model:
    input:
        **FIT,
        reference=reference_of_regression,
        offset=offset_of,
    output:
        saved_model=directory(f"{MODEL}/saved_model"),
        description=f"{MODEL}/model.json",
    log:
        "logs/models/{model}/export_model.log",
    benchmark:
        "timings/export_model/{model}.tsv"
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
