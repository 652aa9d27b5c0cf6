"""What the coefficients of a table are that are no ordinary estimates."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

NOT_CONVERGED = "not converged"


def status_of(coefficient: Mapping[str, Any]) -> str:
    """The status of a row of a table of coefficients, or that its level is the `reference`; '' of an ordinary estimate."""
    is_reference = coefficient["estimate"] == 0 and coefficient["reference"] and pd.isna(coefficient["std_error"])
    return "reference" if is_reference and not coefficient["status"] else coefficient["status"]
