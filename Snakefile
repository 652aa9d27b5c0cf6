# The workflow is workflow/Snakefile, where the Snakemake workflow catalogue looks; `init` writes a config for it, so it works without
# one. A plain `include:` would leave out the default target.
import sys

IS_INIT = "csv" in config or "init" in sys.argv  # the targets are not known yet
IN_ONE_JOB = workflow.storage_settings.default_storage_provider
USUAL = "workflow/one_job.smk" if IN_ONE_JOB else "workflow/Snakefile"
workflow.include("workflow/rules/init.smk" if IS_INIT else USUAL, overwrite_default_target=True)
