"""Rows that absorbed factors separate together, some of which are seen to be only once others have left."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from pools import fit_files, fit_frame, ingest_frame, margins, predicted, table_of, to_predict
from tfglm.solvers import rectifier


def rows() -> pd.DataFrame:
    """Tails and routes with late flights and others; N801 on route 802 is always late, and N811 on route 812."""
    random = np.random.default_rng(6)
    frame = pd.DataFrame({"tail": random.choice(list("ABCDEF"), 600), "route": random.integers(1, 7, 600)})
    frame["x"] = random.normal(size=600).round(3)
    frame["late"] = (random.random(600) < 1 / (1 + np.exp(-frame["x"]))).astype(int)
    for tail, route in ((801, 801), (811, 811)):
        extra = frame.head(40).copy()
        extra["tail"] = np.repeat([f"N{tail}", f"N{tail + 1}", f"N{tail}"], [10, 10, 20])
        extra["route"] = np.repeat([route, route + 1], [10, 30])
        extra["late"] = np.where(np.arange(40) < 20, np.arange(40) % 2, 1)
        frame = pd.concat([frame, extra], ignore_index=True)
    return frame


@pytest.mark.slow
def test_a_second_round_leaves_out_what_the_first_has_not_seen(tmp_path, monkeypatch):
    frame, told = rows(), []
    search, rounds = rectifier.separated, []

    def first_of_them_alone(problem):
        """The first round sees the rows of N801 alone."""
        found = search(problem)
        rounds.append(found)
        if len(rounds) == 1:
            direction = found.direction.copy()
            for part in problem.design.parts:
                if part.grouping:
                    (name,) = part.grouping
                    levels = problem.design.categorical_by_name[name].levels
                    new = ("N811", "N812", "811", "812")
                    direction[part.where][[levels.index(level) for level in levels if str(level) in new]] = 0.0
            found = rectifier.left_by(problem, problem.workload, direction)
            assert found.rows == 20
        return found

    monkeypatch.setattr(rectifier, "separated", first_of_them_alone)
    design, fitted = fit_frame(frame, "late ~ x", "binomial", tmp_path, absorb=["tail", "route"], tell=told.append)
    assert [found and found.rows for found in rounds] == [40, 20]
    summary = fitted.summary
    assert summary["converged"] and summary["rows_separated_across_terms"] == 40
    separated = frame["tail"].isin(["N801", "N811"]) & frame["route"].isin([802, 812])
    kept = frame[~separated]
    # Each new route is that of one new tail: without its column the reference has full rank.
    of_full_rank = kept.assign(route=kept["route"].where(kept["route"] < 800, 1))
    exact = smf.glm("late ~ x + C(tail) + C(route)", of_full_rank, family=sm.families.Binomial()).fit(tol=1e-14)
    of_x = table_of(design, fitted).loc[("x", "")]
    assert of_x["estimate"] == pytest.approx(exact.params["x"], abs=1e-6 * exact.bse["x"])
    assert of_x["std_error"] == pytest.approx(exact.bse["x"], rel=1e-5)
    assert summary["rows_in_likelihood"] == len(kept)
    new = to_predict(frame, tmp_path / "new", "new")
    known = predicted(design, fitted, new)["probability"].notna()
    assert (known == ~separated).all()


def test_rows_where_a_separating_number_is_0_have_predictions_and_averages(tmp_path):
    random = np.random.default_rng(8)
    frame = pd.DataFrame({"tail": random.choice(list("ABCDEF"), 400), "x": random.normal(size=400).round(3)})
    frame["fog"] = (random.random(400) < 0.1).astype(float)
    frame["bumped"] = np.where(frame["fog"] > 0, 0, random.poisson(np.exp(frame["x"] / 2)))
    file = ingest_frame(frame, tmp_path)
    design, fitted, _ = fit_files([file], "bumped ~ x + fog", "poisson", absorb=["tail"], std_errors="HC1")
    kept = frame[frame["fog"] == 0]
    exact = smf.glm("bumped ~ x + C(tail)", kept, family=sm.families.Poisson()).fit(tol=1e-14)
    means = predicted(design, fitted, to_predict(frame, tmp_path / "new", "new"))["mean"]
    assert (means.notna() == (frame["fog"] == 0)).all()
    assert means[kept.index].to_numpy() == pytest.approx(exact.fittedvalues.to_numpy(), rel=1e-6)
    effects = margins(design, fitted, [file], {}, 0.95).effects.set_index("term")
    assert effects.loc["x", "estimate"] == pytest.approx(exact.params["x"] * kept["bumped"].mean(), rel=1e-6)
    assert effects.loc["x", "std_error"] > 0 and effects.loc["fog", "status"] == "not identified"
