# The workflow is workflow/Snakefile, where the Snakemake workflow catalogue looks. A plain `include:` would leave out its default
# target.
workflow.include("workflow/Snakefile", overwrite_default_target=True)
