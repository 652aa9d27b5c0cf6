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
        f"{LOGS}/models/{{model}}/tabulate_coefficients.log",
    benchmark:
        f"{TIMINGS}/tabulate_coefficients/{{model}}.tsv"
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
        f"{LOGS}/models/{{model}}/tabulate_contrasts.log",
    benchmark:
        f"{TIMINGS}/tabulate_contrasts/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("adjust", "confidence", "contrasts"),
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


rule tabulate_hypotheses:
    input:
        **FIT,
        reference=f"{MODEL}/reference.json",
    output:
        f"{MODEL}/hypotheses.csv",
    log:
        f"{LOGS}/models/{{model}}/tabulate_hypotheses.log",
    benchmark:
        f"{TIMINGS}/tabulate_hypotheses/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("adjust", "hypotheses"),
    message:
        "{wildcards.model}: testing hypotheses"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_hypotheses.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --table {output}"
        " --log {log}"


rule tabulate_pairwise:
    input:
        **FIT,
        reference=f"{MODEL}/reference.json",
    output:
        f"{MODEL}/pairwise.csv",
    log:
        f"{LOGS}/models/{{model}}/tabulate_pairwise.log",
    benchmark:
        f"{TIMINGS}/tabulate_pairwise/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
        settings=settings("confidence", "pairwise"),
    message:
        "{wildcards.model}: comparing all levels with each other"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_pairwise.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --table {output}"
        " --log {log}"


rule tabulate_path:
    input:
        f"{MODEL}/fit.json",
    output:
        f"{MODEL}/path.csv",
    log:
        f"{LOGS}/models/{{model}}/tabulate_path.log",
    benchmark:
        f"{TIMINGS}/tabulate_path/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
    message:
        "{wildcards.model}: tabulating the path of the penalty"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_path.py" --fit {input} --table {output} --log {log}'


rule tabulate_profile:
    input:
        f"{MODEL}/fit.json",
    output:
        f"{MODEL}/profile.csv",
    log:
        f"{LOGS}/models/{{model}}/tabulate_profile.log",
    benchmark:
        f"{TIMINGS}/tabulate_profile/{{model}}.tsv"
    conda:
        "../envs/tfglm.yaml"
    params:
        engine=ENGINE,
    message:
        "{wildcards.model}: tabulating profile likelihood intervals"
    shell:
        'exec python "$TFGLM_SCRIPTS/tabulate_profile.py" --fit {input} --table {output} --log {log}'


rule tabulate_effects:
    input:
        **FIT,
        reference=f"{MODEL}/reference.json",
        dictionary=f"{RESULTS}/data/dictionary.json",
    output:
        table=f"{MODEL}/effects.csv",
        digest=f"{MODEL}/effects.sha256",
    log:
        f"{LOGS}/models/{{model}}/tabulate_effects.log",
    benchmark:
        f"{TIMINGS}/tabulate_effects/{{model}}.tsv"
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
        " --reference {input.reference}"
        " --dictionary {input.dictionary}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --settings {params.settings:q}"
        " --table {output.table}"
        " --log {log}"


rule tabulate_margins:
    input:
        **FIT,
        reference=f"{MODEL}/reference.json",
        manifests=MANIFESTS,
        collapsed=collapsed_of,
    output:
        effects=report(
            f"{MODEL}/marginal_effects.csv",
            caption="../report/marginal_effects.rst",
            category="{model}",
            labels={"result": "average marginal effects, table"},
        ),
        means=report(
            f"{MODEL}/adjusted_means.csv",
            caption="../report/adjusted_means.rst",
            category="{model}",
            labels={"result": "adjusted means, table"},
        ),
        digests=expand(f"{MODEL}/{{table}}.sha256", table=["marginal_effects", "adjusted_means"], allow_missing=True),
    log:
        f"{LOGS}/models/{{model}}/tabulate_margins.log",
    benchmark:
        f"{TIMINGS}/tabulate_margins/{{model}}.tsv"
    wildcard_constraints:
        model=NO_NETWORK,
    conda:
        "../envs/tfglm.yaml"
    threads: threads_to_average
    params:
        engine=ENGINE,
        settings=settings("adjusted_means", "confidence"),
    message:
        "{wildcards.model}: averaging marginal effects over the training rows"
    # The threads read rows. Snakemake would also give linear algebra two threads, and OpenBLAS took 17 s of processor to wait for
    # them.
    shell:
        'OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 exec python "$TFGLM_SCRIPTS/tabulate_margins.py"'
        " --design {input.design}"
        " --reference {input.reference}"
        " --checkpoint {input.checkpoint}"
        " --fit {input.fit}"
        " --manifests {input.manifests}"
        " --collapsed {input.collapsed}"
        " --threads {threads}"
        " --settings {params.settings:q}"
        " --effects {output.effects}"
        " --means {output.means}"
        " --log {log}"


rule export_vcov:
    input:
        **FIT,
        reference=f"{MODEL}/reference.json",
    output:
        f"{MODEL}/vcov.csv",
    log:
        f"{LOGS}/models/{{model}}/export_vcov.log",
    benchmark:
        f"{TIMINGS}/export_vcov/{{model}}.tsv"
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
