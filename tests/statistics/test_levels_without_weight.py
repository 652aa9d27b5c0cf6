"""Levels that only rows of weight 0 have: R's glm keeps them with an estimate of NA, and no row of theirs can be predicted."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from pools import fit_files, ingest_frame, table_of
from tfglm.engine.workload import Workload
from tfglm.inference.fitted import EMPTY
from tfglm.results import metrics, predict

RANDOM = np.random.default_rng(3)
FRAME = pd.DataFrame({"x": RANDOM.normal(size=300).round(3), "g": RANDOM.choice(list("abcd"), 300)})
FRAME["y"] = (FRAME["x"] + (FRAME["g"] == "b") + RANDOM.normal(size=300)).round(3)
FRAME["w"] = np.where(FRAME["g"] == "c", 0, RANDOM.integers(1, 4, 300))


def predicted(folder, formula: str, **settings) -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    """The table of coefficients, the predictions of all rows, and the metrics on them."""
    files = {
        split: ingest_frame(FRAME, folder, split, split={"train": "FALSE", split: "TRUE"})
        for split in ("train", "predict", "evaluate")
    }
    design, fitted, _ = fit_files([files["train"]], formula, "gaussian", **settings)
    made = predict.predictions(design, fitted, files["predict"], {}, [], 0.95)
    scored = predict.score(Workload(design, [files["evaluate"]], "evaluate"), fitted)
    assert np.count_nonzero(fitted.status == EMPTY) == 1
    rows = pd.concat([table.to_pandas() for table in made], ignore_index=True)
    return table_of(design, fitted), rows, metrics.evaluate(design, scored, 0.5)


@pytest.mark.parametrize("column", ["weights", "frequency"])
@pytest.mark.parametrize("formula", ["y ~ g + x", "y ~ x + g:x", "y ~ C(g, contr.sum) + x"])
def test_their_rows_have_no_prediction(tmp_path, formula, column):
    table, rows, measured = predicted(tmp_path, formula, **{column: "w"})
    weighted = FRAME["w"] > 0
    assert (rows["remark"] == "level without an estimate").tolist() == (~weighted).tolist()
    assert rows.loc[~weighted, ["linear_predictor", "mean", "std_error"]].isna().all(axis=None)
    # Without these rows, as R's model.frame(drop.unused.levels = TRUE) has it.
    theirs = smf.wls(formula.replace("C(g, contr.sum)", "g"), FRAME[weighted], weights=FRAME["w"][weighted]).fit()
    assert rows.loc[weighted, "mean"].to_numpy() == pytest.approx(theirs.fittedvalues.to_numpy(), rel=1e-9)
    # A row of frequency 0 stands for no row.
    assert measured["rows_with_level_without_estimate"] == (0 if column == "frequency" else (~weighted).sum())
    assert measured["rows_with_separated_level"] == measured["rows_with_unseen_level"] == 0
    without = table[table["rows"] == 0]
    assert list(without["status"]) == ["aliased"] and without["estimate"].isna().all()


def test_a_ridge_has_the_estimate_0_for_them(tmp_path):
    _, rows, measured = predicted(tmp_path, "y ~ g + x", weights="w", l2=0.1)
    assert rows["mean"].notna().all() and measured["rows_with_level_without_estimate"] == 0
