"""Adjusted means on a balanced grid, against R's emmeans."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import tfglm
from pools import average_rows, design_of, estimates_of, fit_files, ingest_frame, margins, write_results
from tfglm import digests
from tfglm.data.dictionary import merge
from tfglm.design.references import check_pairwise
from tfglm.errors import UserError
from tfglm.results.marginal_tables import EMPTY_COMBINATION, Averaged, marginal_tables
from tfglm.results.pairwise import pairwise

GOLDEN = Path(__file__).parents[1] / "golden"
FITS = {
    "binomial": ("late ~ carrier * C(origin) + bs(hour, df=4) + evening", "binomial", {}),
    "gaussian": ("delay ~ carrier * hour + C(origin) + poly(wind, 2)", "gaussian", {"weights": "day"}),
    "poisson": ("late ~ carrier * wind * evening + C(origin)", "poisson", {"offset": "log(day)"}),
    "empty combination": ("delay ~ carrier * C(origin) + hour", "gaussian", {}),
    "aliased": ("delay ~ carrier + C(origin) + C(state)", "gaussian", {}),
}
"""As in golden/emmeans.R."""
NOT_ESTIMABLE = {"empty combination": EMPTY_COMBINATION, "aliased": "aliased"}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    frame = pd.read_csv(GOLDEN / "clustered.csv")
    frame["origin"] = frame["day"] % 3
    frame["state"] = (frame["origin"] == 0).astype(int)
    frame["evening"] = (frame["hour"] > 0).astype(int)
    return frame


def means_of(files, formula: str, family: str, **settings) -> pd.DataFrame:
    design, fitted, _ = fit_files(files, formula, family, **settings)
    tables = margins(design, fitted, files, {}, 0.95, balanced=True)
    return tables.means.set_index(["term", "level"])


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_balanced_means_are_those_of_emmeans(name, frame, tmp_path):
    golden = json.loads((GOLDEN / "emmeans.json").read_text())[name]
    formula, family, settings = FITS[name]
    some = frame[(frame["carrier"] != "UA") | (frame["origin"] != 2)] if name == "empty combination" else frame
    files = [ingest_frame(some, tmp_path)]
    means = means_of(files, formula, family, **settings)
    for term, rows in {"carrier": golden["carrier"], "C(origin)": golden["origin"]}.items():
        for row in rows:
            mine = means.loc[(term, row["level"])]
            if row["mean"] is None:
                assert mine["status"] == NOT_ESTIMABLE[name]
                assert mine[["mean", "std_error", "df", "ci_lower", "ci_upper"]].isna().all()
                continue
            assert mine["status"] == ""
            assert mine["df"] == (np.inf if row["df"] is None else row["df"])
            for column in ("mean", "std_error", "ci_lower", "ci_upper"):
                assert mine[column] == pytest.approx(row[column], rel=1e-6), (term, row["level"], column)


@pytest.mark.slow
def test_a_separated_level_is_in_the_grid_of_its_own_factor_alone(frame, tmp_path):
    frame = frame.assign(late=frame["late"].where(frame["carrier"] != "UA", 0))
    formula = "late ~ carrier * hour + C(origin)"
    parts = {"all": frame, "without": frame[frame["carrier"] != "UA"]}
    means = {name: means_of([ingest_frame(part, tmp_path, name)], formula, "binomial") for name, part in parts.items()}
    separated = means["all"].loc[("carrier", "UA")]
    assert (separated["mean"], separated["status"]) == (0.0, "separated") and np.isnan(separated["std_error"])
    kept, expected = means["all"].drop(("carrier", "UA")), means["without"]
    assert kept.index.equals(expected.index) and set(kept["status"]) == {""}
    for column in ("mean", "std_error", "ci_lower", "ci_upper"):
        assert kept[column].to_numpy() == pytest.approx(expected[column].to_numpy(), rel=1e-6)


def test_a_column_with_levels_and_numbers_has_no_grid(frame, tmp_path):
    means = means_of([ingest_frame(frame, tmp_path)], "delay ~ carrier + C(origin) + carrier:origin", "gaussian")
    assert means["mean"].isna().all()
    assert set(means["status"]) == {"left out: `origin` is in the model by its levels and in another way too"}


def test_a_penalised_fit_has_means_without_errors(frame, tmp_path):
    means = means_of([ingest_frame(frame, tmp_path)], "late ~ carrier + hour", "binomial", l2=0.01)
    assert means["mean"].between(0, 1).all() and means["std_error"].isna().all()
    assert set(means["status"]) == {"estimate only: the fit is penalised"}


@pytest.mark.slow
@pytest.mark.parametrize(("family", "balanced"), [("poisson", False), ("poisson", True), ("multinomial", False)])
def test_tables_of_averages_from_a_file_have_the_same_bits(family, balanced, frame, tmp_path):
    """The job that reads the rows writes them; the tables of any reference level and confidence are made of them."""
    some = frame.assign(status=frame["carrier"].map({"AA": "early"}).fillna("late"))
    formula, settings = ("late ~ carrier * wind + C(origin)", {"offset": "log(day)"})
    if family == "multinomial":
        formula, settings = "status ~ C(origin) + wind", {}
    files = [ingest_frame(some, tmp_path)]
    design, fitted, _ = fit_files(files, formula, family, **settings)
    path, fit = tmp_path / "averages.npz", tmp_path / "fit.json"
    digests.write_json(fit, {})
    average_rows(design, fitted, files, balanced).write(path, fit)
    numbers = {"C(origin)": "2"}, 0.9
    stored = marginal_tables(design, fitted, Averaged.read(path, fit), *numbers)
    direct = margins(design, fitted, files, *numbers, balanced=balanced)
    pd.testing.assert_frame_equal(stored.effects, direct.effects, check_exact=True)
    pd.testing.assert_frame_equal(stored.means, direct.means, check_exact=True)
    assert len(direct.means) and direct.means["mean"].notna().any()
    digests.write_json(fit, {"another": 1})
    with pytest.raises(UserError, match="it was made from another fit than"):
        Averaged.read(path, fit)


INTERACTING = {
    "binomial": (
        "late ~ carrier * bs(hour, df=4) + carrier * wind + C(origin)",
        {"hour": [-1.5, 0.25], "wind": [-1, 2]},
        {},
    ),
    "gaussian": (
        "delay ~ carrier * poly(hour, 2) + carrier:C(origin) + C(origin) + wind",
        {"hour": [-1.5, 0.25]},
        {"weights": "day"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", INTERACTING)
def test_levels_at_values_of_numbers_are_compared_as_emmeans_does(family, frame, tmp_path):
    formula, at, settings = INTERACTING[family]
    golden = pd.DataFrame(json.loads((GOLDEN / "emmeans.json").read_text())["pairs at values"][family])
    design, fitted, _ = fit_files([ingest_frame(frame, tmp_path)], formula, family, **settings)
    table = pairwise(estimates_of(design, fitted), ["carrier"], 0.95, at)
    golden["at"] = [", ".join(f"{name} = {row[name]:g}" for name in at) for _, row in golden.iterrows()]
    expected = golden.set_index(["at", "contrast"])
    table["contrast"] = table["level"] + " - " + table["against"]
    assert len(table) == len(golden) == 6 * len(set(table["at"]))
    mine = table.set_index(["at", "contrast"]).loc[expected.index]
    assert (mine["note"] == "").all()
    columns = {"estimate": "estimate", "std_error": "SE", "ci_lower": "ci_lower", "ci_upper": "ci_upper"}
    columns["z" if family == "binomial" else "t"] = "ratio"
    for name, of_r in columns.items():
        np.testing.assert_allclose(mine[name], expected[of_r], rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(mine["p_tukey"], expected["p.value"], rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_levels_differ_at_a_value_by_what_predictions_differ(frame, tmp_path):
    """Also for a curve of each level, in other units and far from 0."""
    frame = frame.assign(seconds=frame["hour"] * 3600 + 1e9)
    design, fitted, _ = fit_files(
        [ingest_frame(frame, tmp_path / "rows")], "delay ~ carrier + s(seconds, by=carrier) + wind", "gaussian"
    )
    fitted.summary["provenance"] = {"model": {}}
    write_results(fitted, design, tmp_path)
    values = [float(frame["seconds"].quantile(share)) for share in (0.1, 0.6)]
    table = pairwise(estimates_of(design, fitted), ["carrier"], 0.95, {"seconds": values})
    grid = pd.DataFrame([{"carrier": name, "seconds": value, "wind": 1.0} for value in values for name in ("AA", "UA")])
    predicted = tfglm.load(tmp_path).predict(grid)["linear_predictor"].to_numpy()
    mine = table[(table["level"] == "AA") & (table["against"] == "UA")]["estimate"].to_numpy()
    assert mine == pytest.approx(-np.diff(predicted)[[0, 2]], rel=1e-8)


def test_values_to_compare_at_that_make_no_sense_are_refused(frame, tmp_path):
    file = ingest_frame(frame, tmp_path)
    design = design_of("delay ~ carrier * log(day) + wind", "gaussian", merge([file]), [file])
    for at, message in {
        (): r"depends on `day`\n  choose the values to compare them at, such as `pairwise_at: \{day: \[0, 1\]\}`",
        ("day",): r"m\.pairwise_at\.day: `log\(day\)` is not finite at 0; choose another value",
        ("day", "wind"): r"m\.pairwise_at: no number `wind` multiplies a factor under `pairwise`\n  there are: day",
    }.items():
        values = {"day": [1.0, 0.0] if "wind" not in at else [1.0], "wind": [1.0]}
        with pytest.raises(UserError, match=message):
            check_pairwise(design, ["carrier"], {name: values[name] for name in at})


def test_random_effects_are_at_zero_in_the_grid(frame, tmp_path):
    """As in emmeans of an lmer fit: the means are those of the other coefficients alone."""
    files = [ingest_frame(frame, tmp_path)]
    design, fitted, _ = fit_files(files, "delay ~ carrier + hour + (hour || origin)", "gaussian")
    tables = margins(design, fitted, files, {}, 0.95, balanced=True)
    means = tables.means[tables.means["term"] == "carrier"]
    assert (means["status"] == "").all() and len(means) == frame["carrier"].nunique()
    row = np.zeros((len(means), design.size))
    row[:, design.slices["Intercept"]] = 1.0
    row[:, design.slices["carrier"]] = np.eye(len(means))
    (hour,) = (factor for factor in design.numeric if factor.name == "hour")
    row[:, design.slices["hour"]] = (frame["hour"].mean() - hour.center[0]) / hour.scale[0]
    covariance = fitted.covariance.of(scipy.sparse.csr_array(row))
    np.testing.assert_allclose(means["mean"], row @ fitted.coefficients, rtol=1e-12)
    np.testing.assert_allclose(means["std_error"], np.sqrt(np.diag(covariance)), rtol=1e-10)
