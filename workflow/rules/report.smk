# What the report shows.


rule present_coefficients:
    input:
        table="results/models/{model}/coefficients.csv",
        fit="results/models/{model}/fit.json",
    output:
        plot=report(
            "results/models/{model}/coefficients.svg",
            caption="../report/coefficient_plot.rst",
            category="{model}",
            labels={"result": "coefficients, picture"},
        ),
        png="results/models/{model}/coefficients.png",
        page=report(
            "results/models/{model}/coefficients.html",
            caption="../report/coefficient_table.rst",
            category="{model}",
            labels={"result": "coefficients, table"},
        ),
    log:
        "logs/models/{model}/present_coefficients.log",
    benchmark:
        "benchmarks/present_coefficients/{model}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        confidence=model_setting("confidence"),
    message:
        "{wildcards.model}: drawing the coefficients"
    shell:
        'exec python "$TFGLM_SCRIPTS/present_coefficients.py"'
        " --table {input.table}"
        " --fit {input.fit}"
        " --confidence {params.confidence}"
        " --plots {output.plot} {output.png}"
        " --page {output.page}"
        " --log {log}"


rule present_rows:
    input:
        "results/data/rows.json",
    output:
        report(
            "results/data/rows.html",
            caption="../report/rows.rst",
            category="Data",
            labels={"result": "rows accounted for"},
        ),
    log:
        "logs/data/present_rows.log",
    benchmark:
        "benchmarks/present_rows.tsv"
    conda:
        "../envs/tfglm.yaml"
    message:
        "Accounting for the rows"
    shell:
        'exec python "$TFGLM_SCRIPTS/present_rows.py" --rows {input} --page {output} --log {log}'
