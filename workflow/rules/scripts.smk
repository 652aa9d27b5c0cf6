# Where the scripts are that the rules run.

import os
from pathlib import Path

# This file lies in workflow/rules, also where another workflow uses this one as a module.
SCRIPTS = Path(workflow.current_basedir.get_path_or_uri(secret_free=False)).parents[1] / "scripts"
# The rules call `python "$TFGLM_SCRIPTS/..."`: of the ways tried, the one that works from a module and from a moved checkout.
os.environ.update(TFGLM_SCRIPTS=str(SCRIPTS))
