# Included before Snakemake reads the config. It refuses mistakes that would be lost in silence, or never end. Snakemake reads the
# files of --configfile before any of this.

from pathlib import Path

from snakemake.exceptions import WorkflowError


include: "scripts.smk"


from tfglm import tensorflow_setup
from tfglm.config import files as config_files
from tfglm.errors import UserError

for prefix in ("NUMBA_", "PYTHON"):
    tensorflow_setup.remove(prefix)


def check_config_files():
    """Raise UserError for a config that repeats a key, repeats itself without end, or runs as Python."""
    of_another_workflow = workflow.modifier.skip_configfile
    files = [Path(path) for path in workflow.configfiles]
    default = Path("config/config.yaml")
    if not files and default.exists() and not of_another_workflow:
        files.append(default)
    FORK_SERVER.start_for(files)
    for path in files:
        config_files.read(path, may_run_code=of_another_workflow)
    for entry in workflow.config_settings.config_args or []:
        key, _, value = str(entry).partition("=")
        config_files.parse(value, f"--config {key}")


try:
    if workflow.is_main_process:
        check_config_files()
except UserError as error:
    raise WorkflowError(str(error)) from None
