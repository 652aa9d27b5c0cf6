"""Powers of Tweedie distributions that run to an end of their range, and responses that lie on a lattice."""

import numpy as np
import pandas as pd
import pytest

from pools import fit_frame
from tfglm.errors import UserError


def covariate(seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=500)
    return random, x, np.exp(0.3 * x + 1)


@pytest.mark.parametrize("times", [1, 10, 100])
@pytest.mark.parametrize("seed", range(2))
def test_multiples_of_counts_run_to_power_1(tmp_path, seed, times):
    """As mgcv's tw, which comes to 1.01. Steps that were cut by coordinate led downhill, and ended at 1.4."""
    random, x, mean = covariate(seed)
    with pytest.raises(
        UserError, match=r"power: .* still rising at 1\.01\n  give power a number, or use a family of counts"
    ):
        fit_frame(pd.DataFrame({"x": x, "y": times * random.poisson(mean)}), "y ~ x", "tweedie", tmp_path)


def test_amounts_above_0_run_to_power_2(tmp_path):
    random, x, mean = covariate(0)
    frame = pd.DataFrame({"x": x, "y": mean * random.lognormal(0, 1.2, 500)})
    with pytest.raises(
        UserError, match=r"still rising at 1\.99\n  give power a number, or use a family of amounts above 0"
    ):
        fit_frame(frame, "y ~ x", "tweedie", tmp_path)


def test_amounts_rounded_to_a_lattice_have_a_power(tmp_path):
    """A sum of a Poisson number of gamma amounts of shape 2 has power 4/3, which rounding to halves moves little."""
    random, x, mean = covariate(0)
    amounts = np.array([random.gamma(2, 1, number).sum() for number in random.poisson(mean)])
    frame = pd.DataFrame({"x": x, "y": np.round(2 * amounts) / 2})
    _, fitted = fit_frame(frame, "y ~ x", "tweedie", tmp_path)
    assert fitted.summary["converged"]
    assert abs(fitted.summary["power"] - 4 / 3) < 3 * fitted.summary["power_std_error"]
