"""Pictures, and pages from templates.

May import: formula, config, data, design, results.
"""

import os

# Pictures are drawn into files. matplotlib would end for a backend of this name that it does not know.
os.environ.pop("MPLBACKEND", None)
