"""Estimates, standard errors and likelihoods against statsmodels on the very same rows (docs/statistics.md: Tolerances)."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from oracles import assert_agrees, flagged, linear_regression, logistic_regression, treatment_contrasts
from pools import fit_files, fit_frame, ingest_frame, table_of
from tfglm.errors import UserError
from tfglm.results.estimates import absent_estimates


def flights(rows: int, seed: int = 0) -> pd.DataFrame:
    """A small table with what makes airline data hard: skewed levels, a covariate nearly determined by others."""
    random = np.random.default_rng(seed)
    carrier = random.choice(["AA", "B6", "DL", "UA", "WN"], rows, p=[0.4, 0.3, 0.2, 0.09, 0.01])
    dest = random.choice([f"D{number:02d}" for number in range(30)], rows, p=np.arange(30, 0, -1) / 465)
    hour = random.integers(5, 24, rows)
    month = random.integers(1, 13, rows)
    distance = (100 + 37 * np.array([int(name[1:]) for name in dest])) + 5 * random.normal(size=rows)
    eta = -1 + 0.3 * (carrier == "B6") - 0.4 * (carrier == "UA") + 0.05 * (hour - 12) + 0.2 * (month == 7)
    eta = eta + 0.3 * np.sin(np.array([int(name[1:]) for name in dest]))
    late = (random.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    delay = np.round(10 * eta + 20 * random.normal(size=rows))
    return pd.DataFrame(
        {
            "late": late,
            "delay": delay,
            "carrier": carrier,
            "dest": dest,
            "hour": hour,
            "month": month,
            "distance": distance,
        }
    )


FORMULA = "carrier + dest + C(month) + hour + distance"


@pytest.fixture(scope="module")
def sample() -> pd.DataFrame:
    return flights(20_000)


@pytest.mark.slow
def test_logistic_regression_agrees_with_statsmodels(sample, tmp_path):
    design, fitted = fit_frame(sample, f"late ~ {FORMULA}", "binomial", tmp_path)
    table = table_of(design, fitted)
    matrix = treatment_contrasts(
        sample, {"carrier": "carrier", "dest": "dest", "C(month)": "month"}, ["hour", "distance"]
    )
    exact = logistic_regression(sample["late"], matrix)
    assert_agrees(table, exact, list(matrix.columns))
    assert flagged(table) == {}
    summary = fitted.summary
    assert summary["converged"] and summary["certificate"]["lambda_squared"] <= 1e-12
    assert summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
    assert summary["deviance"] == pytest.approx(exact.deviance, rel=1e-10)
    assert summary["null_deviance"] == pytest.approx(exact.null_deviance, rel=1e-10)
    assert summary["aic"] == pytest.approx(exact.aic, rel=1e-10)
    assert summary["bic"] == pytest.approx(exact.bic_llf, rel=1e-10)
    assert summary["df_residual"] == exact.df_resid
    row = table.loc[("hour", "")]
    assert row["z"] == pytest.approx(row["estimate"] / row["std_error"])
    assert row["p_value"] == pytest.approx(2 * scipy.stats.norm.sf(abs(row["z"])))
    assert [row["ci_lower"], row["ci_upper"]] == pytest.approx(exact.conf_int()[-2].tolist(), rel=1e-5)
    assert row["odds_ratio"] == pytest.approx(np.exp(row["estimate"]))
    counts = sample.groupby("carrier")["late"].agg(["size", "sum"])
    assert table.loc["carrier", "rows"].to_dict() == counts["size"].to_dict()
    assert table.loc["carrier", "events"].to_dict() == counts["sum"].to_dict()


@pytest.mark.slow
def test_linear_regression_agrees_with_statsmodels_however_large_the_mean(sample, tmp_path):
    for shift in (0.0, 1e9):
        frame = sample.assign(delay=sample["delay"] + shift)
        design, fitted = fit_frame(frame, f"delay ~ {FORMULA}", "gaussian", tmp_path / str(shift))
        table = table_of(design, fitted)
        matrix = treatment_contrasts(
            frame, {"carrier": "carrier", "dest": "dest", "C(month)": "month"}, ["hour", "distance"]
        )
        # The oracle sees the response without the shift, which by algebra moves the intercept alone.
        exact = linear_regression(sample["delay"], matrix)
        table.loc[("Intercept", ""), "estimate"] -= shift
        names = list(matrix.columns)
        if shift:
            assert table.loc[("Intercept", ""), "estimate"] == pytest.approx(exact.params[0], abs=1e-5 * exact.bse[0])
            names.remove(("Intercept", ""))
            exact.params, exact.bse = exact.params[1:], exact.bse[1:]
        else:
            assert fitted.summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
        assert_agrees(table, exact, names)
        summary = fitted.summary
        assert summary["converged"]
        assert summary["deviance"] == pytest.approx(exact.ssr, rel=1e-10)
        assert summary["null_deviance"] == pytest.approx(exact.centered_tss, rel=1e-10)
        assert summary["sigma"] == pytest.approx(np.sqrt(exact.scale), rel=1e-10)
        assert summary["pearson_dispersion"] == pytest.approx(exact.scale, rel=1e-10)
        assert summary["r_squared"] == pytest.approx(exact.rsquared, abs=1e-10)
        hour = table.loc[("hour", "")]
        assert hour["p_value"] == pytest.approx(2 * scipy.stats.t.sf(abs(hour["t"]), exact.df_resid))


def test_aic_of_a_linear_regression_counts_the_variance_as_r_does(sample, tmp_path):
    _, fitted = fit_frame(sample, "delay ~ hour", "gaussian", tmp_path)
    exact = linear_regression(sample["delay"], treatment_contrasts(sample, {}, ["hour"]))
    assert fitted.summary["aic"] == pytest.approx(exact.aic + 2, rel=1e-10)
    assert fitted.summary["coefficients"] == 2


@pytest.mark.slow
def test_separated_levels_are_named_and_the_rest_is_the_fit_without_their_rows(sample, tmp_path):
    frame = sample.copy()
    frame.loc[frame["dest"] == "D29", "late"] = 0
    frame.loc[frame["dest"] == "D05", "late"] = 1
    # All rows of carrier XX fly to separated destinations, so nothing is left of it; XY separates once they are gone.
    frame.loc[frame.index[frame["dest"] == "D29"][:3], "carrier"] = "XX"
    only = frame.index[frame["dest"] == "D00"][:4]
    frame.loc[only, ["carrier", "late"]] = ["XY", 0]
    frame.loc[frame.index[frame["dest"] == "D05"][:2], "carrier"] = "XY"
    design, fitted = fit_frame(frame, f"late ~ {FORMULA}", "binomial", tmp_path)
    table = table_of(design, fitted)
    assert flagged(table) == {
        ("carrier", "XX"): "separated",
        ("carrier", "XY"): "separated",
        ("dest", "D05"): "separated",
        ("dest", "D29"): "separated",
    }
    assert table.loc[("dest", "D29"), "estimate"] == -np.inf
    assert table.loc[("dest", "D05"), "estimate"] == np.inf
    assert table.loc[("dest", "D29"), ["std_error", "p_value", "ci_lower"]].isna().all()
    assert table.loc[("dest", "D29"), "rows"] == (frame["dest"] == "D29").sum()
    rest = frame[~frame["dest"].isin(["D29", "D05"]) & ~frame["carrier"].isin(["XX", "XY"])]
    matrix = treatment_contrasts(
        rest, {"carrier": "carrier", "dest": "dest", "C(month)": "month"}, ["hour", "distance"]
    )
    exact = logistic_regression(rest["late"], matrix)
    assert_agrees(table, exact, list(matrix.columns))
    assert fitted.summary["rows_of_separated_levels"] == len(frame) - len(rest)
    assert fitted.summary["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)


@pytest.mark.slow
def test_what_depends_on_earlier_columns_is_aliased_and_the_last_one_is_dropped(sample, tmp_path):
    # Flight numbers belong to one carrier each: with carrier in the model, the last number of each carrier but the
    # reference is redundant, as R's lm finds. Kilometres are miles.
    random = np.random.default_rng(5)
    frame = sample.assign(km=1.609344 * sample["distance"], constant=3)
    frame["flight"] = frame["carrier"] + random.integers(10, 18, len(frame)).astype(str)
    formula = "delay ~ carrier + flight + distance + km + constant + hour"
    design, fitted = fit_frame(frame, formula, "gaussian", tmp_path)
    table = table_of(design, fitted)
    last = {("flight", f"{carrier}17"): "aliased" for carrier in ("B6", "DL", "UA", "WN")}
    # R drops the last flight of every carrier that is not the reference, and that of the reference carrier stays.
    assert flagged(table) == {**last, ("km", ""): "aliased", ("constant", ""): "aliased"}
    # Each says of what it is made: these columns, times these weights, are its column.
    texts = table.loc[list(flagged(table)), "aliased_with"]
    assert texts["km", ""] == "1.609 distance" and texts["constant", ""] == "3 Intercept"
    assert texts["flight", "DL17"] == "carrier[DL] - flight[DL10] - flight[DL11] - flight[DL12] and 4 more"
    assert (table.loc[table["status"] == "", "aliased_with"] == "").all()
    listed = absent_estimates(design, fitted)["aliased"]
    assert {(each["term"], each["level"]): each["aliased_with"] for each in listed} == texts.to_dict()
    matrix = treatment_contrasts(frame, {"carrier": "carrier", "flight": "flight"}, ["distance", "hour"])
    matrix = matrix.drop(columns=list(last))
    exact = linear_regression(frame["delay"], matrix)
    assert_agrees(table, exact, list(matrix.columns))
    assert fitted.summary["deviance"] == pytest.approx(exact.ssr, rel=1e-10)
    assert fitted.summary["df_residual"] == exact.df_resid


def test_another_reference_level_moves_the_table_and_not_the_fit(sample, tmp_path):
    design, fitted = fit_frame(sample, "late ~ carrier + dest + hour", "binomial", tmp_path)
    table = table_of(design, fitted, {"carrier": "UA", "dest": "D07"})
    assert table.loc[("carrier", "UA"), "estimate"] == 0.0
    assert np.isnan(table.loc[("carrier", "UA"), "std_error"])
    assert set(table.loc["dest", "reference"]) == {"D07"}
    relabelled = sample.replace({"carrier": {"UA": "00"}, "dest": {"D07": "00"}})
    matrix = treatment_contrasts(relabelled, {"carrier": "carrier", "dest": "dest"}, ["hour"])
    exact = logistic_regression(sample["late"], matrix)
    assert_agrees(table, exact, list(matrix.columns))


@pytest.mark.slow
def test_rows_in_several_files_with_other_codes_are_one_table(sample, tmp_path):
    # Each file has its own levels and so its own codes, and one column is text codes of another width.
    parts = [sample[sample["month"] <= 4], sample[(sample["month"] > 4) & (sample["carrier"] != "AA")]]
    parts.append(sample[(sample["month"] > 4) & (sample["carrier"] == "AA")])
    files = [ingest_frame(part, tmp_path, f"part{number}") for number, part in enumerate(parts)]
    formula = "late ~ carrier + C(month) + hour + distance"
    matrix = treatment_contrasts(sample, {"carrier": "carrier", "C(month)": "month"}, ["hour", "distance"])
    table = table_of(*fit_files(files, formula, "binomial")[:2])
    assert_agrees(table, logistic_regression(sample["late"], matrix), list(matrix.columns))
    # Other shards move an estimate by nothing that a standard error would notice.
    whole = table_of(*fit_frame(sample, formula, "binomial", tmp_path))
    assert ((table["estimate"] - whole["estimate"]).abs() <= 1e-9 * table["std_error"]).sum() == len(matrix.columns)
    np.testing.assert_allclose(table["std_error"], whole["std_error"], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
def test_a_number_that_separates_is_named_with_its_rows(tmp_path, scale):
    random = np.random.default_rng(8)
    frame = pd.DataFrame({"x": scale * (7 + random.normal(size=300)).round(4)})
    frame["late"] = (frame["x"] > frame["x"].quantile(0.3)).astype(int)
    with pytest.raises(
        UserError, match=r"`x` separates 300 rows by their response \(all there are\), so its coefficient"
    ):
        fit_frame(frame, "late ~ x", "binomial", tmp_path)
    # It is told apart from other terms.
    others = frame.assign(z=random.normal(size=300), g=random.choice(["a", "b", "c"], 300))
    with pytest.raises(UserError, match=r"m: `x` separates 300 rows by their response"):
        fit_frame(others, "late ~ z + x + g", "binomial", tmp_path)
    others["late"] = (frame["x"] / scale + others["z"] > 7).astype(int)
    with pytest.raises(UserError, match=r"m: the terms `z`, `x`.* together separate 300 rows by their response"):
        fit_frame(others, "late ~ z + x + g", "binomial", tmp_path)


def test_a_linear_regression_needs_more_rows_than_coefficients(tmp_path):
    frame = pd.DataFrame({"delay": [1.0, 2.0, 4.0], "carrier": ["a", "b", "c"]})
    with pytest.raises(UserError, match="3 training rows for 3 coefficients leave no residual variance"):
        fit_frame(frame, "delay ~ carrier", "gaussian", tmp_path)
