# From the checkpoint to tables of coefficients, contrasts, paths and effects.


rule tabulate_coefficients:
    input:
        **FIT,
        reference=f"{MODEL}/reference.json",
    output:
        table=f"{MODEL}/coefficients.csv",
        parquet=f"{MODEL}/coefficients.parquet",
        terms=f"{MODEL}/terms.csv",
        digests=expand(f"{MODEL}/{{table}}.sha256", table=["coefficients", "terms"], allow_missing=True),
    log:
        "logs/models/{model}/tabulate_coefficients.log",
    benchmark:
        "timings/tabulate_coefficients/{model}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("confidence"),
    message:
        "{wildcards.model}: naming the coefficients"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_coefficients.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --table {output.table}"
        " --parquet {output.parquet}"
        " --terms {output.terms}"
        " --log {log}"


rule tabulate_contrasts:
    input:
        **FIT,
        reference=f"{MODEL}/reference.json",
    output:
        f"{MODEL}/contrasts.csv",
    log:
        "logs/models/{model}/tabulate_contrasts.log",
    benchmark:
        "timings/tabulate_contrasts/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("confidence", "contrasts"),
    message:
        "{wildcards.model}: combining coefficients"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_contrasts.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --table {output}"
        " --log {log}"


rule tabulate_path:
    input:
        **FIT,
    output:
        table=f"{MODEL}/path.csv",
        plot=report(
            f"{MODEL}/path.svg",
            caption="../report/path.rst",
            category="{model}",
            labels={"result": "path of the penalty"},
        ),
        png=f"{MODEL}/path.png",
    log:
        "logs/models/{model}/tabulate_path.log",
    benchmark:
        "timings/tabulate_path/{model}.tsv"
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


rule tabulate_effects:
    input:
        **FIT,
        dictionary="results/data/dictionary.json",
    output:
        table=f"{MODEL}/effects.csv",
        digest=f"{MODEL}/effects.sha256",
    log:
        "logs/models/{model}/tabulate_effects.log",
    benchmark:
        "timings/tabulate_effects/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("confidence"),
    message:
        "{wildcards.model}: tabulating the effects of numbers"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_effects.py"'
        " --design {input.design}"
        " --dictionary {input.dictionary}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --table {output.table}"
        " --log {log}"


rule export_vcov:
    input:
        **FIT,
        reference=f"{MODEL}/reference.json",
    output:
        f"{MODEL}/vcov.csv",
    log:
        "logs/models/{model}/export_vcov.log",
    benchmark:
        "timings/export_vcov/{model}.tsv"
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
