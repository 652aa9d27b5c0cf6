# The workflow is workflow/Snakefile, where the Snakemake workflow catalogue looks; `init` writes a config for it, so it works without
# one. A plain `include:` would leave out the default target.
import sys

IS_INIT = "csv" in config or "init" in sys.argv  # the targets are not known yet
workflow.include("workflow/rules/init.smk" if IS_INIT else "workflow/Snakefile", overwrite_default_target=True)
