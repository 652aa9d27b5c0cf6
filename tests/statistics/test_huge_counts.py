"""Few rows that stand for many: `frequency` with counts of a million and more."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from pools import fit_frame, table_of
from tfglm.errors import UserError

RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame({"g": RANDOM.choice(list("abcd"), 40), "x": RANDOM.normal(size=40)})
FRAME["y"] = RANDOM.poisson(np.exp(0.3 * FRAME["x"] + 0.2))
SPREAD = RANDOM.integers(0, 1000, 40)


@pytest.mark.parametrize("each", [10**6, 10**9, 2**53 // 41])
def test_they_are_fitted_as_so_many_rows_and_no_sample_is_taken_of_the_few(tmp_path, each):
    frame, told = FRAME.assign(n=each + SPREAD), []
    design, fitted = fit_frame(frame, "y ~ x + g", "poisson", tmp_path, frequency="n", tell=told.append)
    assert fitted.summary["converged"] and not any("of the rows, " in line for line in told)
    assert fitted.summary["rows"] == sum(map(int, frame["n"]))
    matrix = sm.add_constant(pd.get_dummies(frame[["x", "g"]], drop_first=True).astype(float))
    exact = sm.GLM(frame["y"], matrix, sm.families.Poisson(), freq_weights=frame["n"].astype(float)).fit(tol=1e-14)
    table = table_of(design, fitted).drop(("g", "a"))
    assert table["estimate"].to_numpy() == pytest.approx(exact.params.to_numpy(), rel=1e-12)
    assert table["std_error"].to_numpy() == pytest.approx(exact.bse.to_numpy(), rel=1e-8)


def test_more_than_can_be_counted_exactly_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"m\.frequency: `n` adds up to 3.6\d*e\+17, more than 2\^53"):
        fit_frame(FRAME.assign(n=2**53), "y ~ x + g", "poisson", tmp_path, frequency="n")
