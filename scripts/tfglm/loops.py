"""How loops over rows are compiled: by numba, once a machine, so that other threads run meanwhile.

numba keeps what it compiled beside the file of a loop and compiles it anew when that file changes, but not when another file
does whose functions or numbers the loop uses (https://numba.readthedocs.io/en/stable/developer/caching.html). So a loop uses
those of its own file.
"""

import numba

# Sums that lie side by side become one vector instruction.
numba.config.SLP_VECTORIZE = 1

compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
