# From the checkpoint to tables and metrics.


rule tabulate_coefficients:
    input:
        design="results/models/{model}/design.json",
        reference="results/models/{model}/reference.json",
        checkpoint="results/models/{model}/checkpoint",
        fit="results/models/{model}/fit.json",
    output:
        table="results/models/{model}/coefficients.csv",
        terms="results/models/{model}/terms.csv",
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
        engine=ENGINE,
    message:
        "{wildcards.model}: drawing the path of the penalty"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_path.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --table {output.table}"
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
        threshold=model_setting("threshold"),
        unseen=model_setting("unseen"),
    message:
        "{wildcards.model}: evaluating on the rows kept back"
    shell:
        'exec python "$TFGLM_SCRIPTS/evaluate.py"'
        " --design {input.design}"
        " --checkpoint {input.checkpoint}"
        " --manifests {input.manifests}"
        " --threshold {params.threshold}"
        " --unseen {params.unseen}"
        " --reference {input.reference}"
        " --metrics {output}"
        " --log {log}"
