# Included before Snakemake reads the config. It refuses mistakes that would be lost in silence, or never end. Snakemake reads the
# files of --configfile before any of this.


include: "scripts.smk"


from tfglm import tensorflow_setup

for prefix in ("NUMBA_", "PYTHON"):
    tensorflow_setup.remove(prefix)

if workflow.is_main_process:
    from tfglm.workflow.config_files import check, files_to_check

    FORK_SERVER.start_for(files_to_check(workflow))
    check(workflow)
