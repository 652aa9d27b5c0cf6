"""What else is run on the same data: an online solver, files to score, absorbed factors."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import yaml
from scipy.special import expit, ndtr

from browser import without_links
from default_run import COVARIATES, NUMERIC
from runs import contents, planned, read_json, read_table, results, succeed


def test_an_online_solver_learns_on_real_workers_and_says_how_close_it_comes(finished, expected, tmp_path):
    model = {
        "formula": "late ~ carrier + origin + C(month) + dep_hour",
        "family": "binomial",
        "solver": "ftrl",
        "online": {"epochs": 3, "report_every": 200},
    }
    path = tmp_path / "online.yaml"
    path.write_text(yaml.safe_dump({"results": "results/online", "models": {"online": model}, "fit": ["online"]}))
    page = "results/online/models/online/coefficients.html"
    line = ["--verbose", "--configfile", "config/config.yaml", str(path), "--config", "cluster={ps: 2}"]
    printed = succeed(finished, page, *line)
    fit, steps = read_json(finished, "models", "online", "fit.json", results=Path("results/online")), 3 * 508
    assert fit["online"]["steps"] == steps and fit["online"]["calls_repeated"] == 0
    assert fit["gap"]["log_likelihood"] < 1e-4 * fit["rows"]
    assert f"online: ftrl: epoch 3 of 3, step {steps:,}: loss 0.5" in printed
    log = (finished / "logs" / "online" / "models" / "online" / "chief.log").read_text()
    assert re.search(r"step (\d+), epoch 1, batch \1: loss 0\.\d+, [\d,]+ rows a second", log)
    assert list((finished / "logs" / "online" / "models" / "online" / "events").iterdir())
    text = without_links(finished / page)
    assert "stopped after 3 epochs (1,524 steps) of ftrl" in text and "solver: [ftrl, newton]" in text
    assert not (finished / "results" / "online" / "resume" / "online").exists()
    # A config of its own: it has read the shards of the other, and left the other's results as they are.
    assert "into shards" not in printed and results(finished) == expected and planned(finished) == {}


def test_new_files_are_scored_and_rows_have_leverages_without_a_fit_and_shards_are_deleted_on_request(
    finished, flights, tmp_path
):
    rows = flights.iloc[-300:].drop(
        columns=["late", "weekday", "dep_hour", "arr_delay", "dep_delay", "arr_time", "air_time"]
    )
    rows = rows.assign(arr_delay=np.nan)  # such as flights of tomorrow have none
    rows.iloc[4, rows.columns.get_loc("carrier")] = "ZZ"
    rows.to_csv(tmp_path / "tomorrow.csv", index=False, na_rep="NA")
    model = {"identity": ["carrier", "dest"], "leverage": True}
    extra = {"score": [str(tmp_path / "tomorrow.csv")], "models": {"late_arrival": model}}
    (tmp_path / "score.yaml").write_text(yaml.safe_dump(extra))
    residuals = "results/flights/models/late_arrival/residuals_train/flights.parquet"
    arguments = ("score", residuals, "--configfile", "config/config.yaml", str(tmp_path / "score.yaml"))
    jobs = {rule: count for rule, count in planned(finished, *arguments).items() if rule != "score"}
    assert jobs == {"ingest_to_score": 1, "score_file": 2, "residuals": 1, "write_scores": 1}
    succeed(finished, *arguments)
    assert not planned(finished, *arguments)
    folder = finished / "results" / "flights" / "models" / "late_arrival"
    actual = pd.read_parquet(folder / "scores" / "tomorrow.parquet")
    assert actual["row"].tolist() == list(range(1, 301)) and actual["dest"].tolist() == rows["dest"].tolist()
    estimate = read_table(finished, "late_arrival")["estimate"]
    known = flights.iloc[-300:].reset_index(drop=True)
    eta = estimate["Intercept", ""] + sum(estimate[name, ""] * known[name] for name in NUMERIC)
    for term, column in COVARIATES.items():
        eta = eta + known[column].astype(str).map(estimate[term])
    good = actual["remark"].isna().to_numpy()
    assert actual.loc[~good, ["unseen", "remark"]].to_numpy().tolist() == [["carrier", "unseen level"]]
    assert actual["probability"][good].to_numpy() == pytest.approx(expit(eta[good].to_numpy()), rel=1e-9)
    assert (actual["std_error"][good] > 0).all()
    leverage = pd.read_parquet(finished / residuals)["leverage"]
    fit = read_json(finished, "models", "late_arrival", "fit.json")
    assert (
        leverage.sum() == pytest.approx(fit["coefficients"], rel=1e-8)
        and leverage.between(0, 1).sum() == fit["rows"] - 1
    )

    shards = finished / "results" / "data"
    assert len(list(shards.glob("*/tomorrow"))) == len(list(shards.glob("*/flights"))) == 1
    gone = folder.with_name("gone")
    gone.mkdir()
    left = [gone / "fit.json", folder / "vcov.csv", folder / "notes.txt"]
    for file in left:
        file.touch()
    (old := shards / "0123456789ab" / "flights").mkdir(parents=True)
    with (old / "0.npy").open("wb") as file:
        file.truncate(200_000_000)  # without a block on the disk
    printed = succeed(finished, "--forcerun", "write_rows")
    # The shards of the file to score are too small for a remark of their own.
    assert re.search(r"^There are 20\d MB of shards .*: `snakemake .*tidy.*` deletes them", printed, re.M)
    # What an earlier config asked for is named and left as it is; what nobody asked the workflow for is not.
    named = ", ".join(str(path.relative_to(finished)) for path in (gone, folder / "vcov.csv"))
    assert (
        f"Not asked for by this config, so perhaps of an earlier fit: {named}. Delete what you do not need." in printed
    )
    for file in left:
        file.unlink()
    gone.rmdir()
    assert "Not asked for" not in succeed(finished, "tidy")
    assert (
        not old.parent.exists()
        and not list(shards.glob("*/tomorrow"))
        and len(list(shards.glob("*/flights"))) == 1
        and planned(finished) == {}
    )


def test_factors_are_absorbed_on_parameter_servers_as_in_one_process_and_by_a_column_for_each_level(
    finished, flights, tmp_path
):
    results, absorb = Path("results/absorbed"), ["dest", "month"]
    model = {
        "formula": "late ~ dep_hour + origin",
        "family": "binomial",
        "link": "probit",  # which needs the observed information too
        "absorb": absorb,
        "std_errors": "cluster(date)",
    }
    path = tmp_path / "absorbed.yaml"
    path.write_text(yaml.safe_dump({"results": str(results), "models": {"absorbed": model}, "fit": ["absorbed"]}))
    page, found = str(results / "models" / "absorbed" / "coefficients.html"), []
    for strategy in ("parameter_server", "one_device"):
        cluster = f"cluster={{strategy: {strategy}, ps: 2, workers: 2}}"
        succeed(finished, page, "--configfile", "config/config.yaml", str(path), "--config", cluster)
        digests = contents(finished / results / "models")
        found.append(
            {name: digest for name, digest in digests.items() if not re.search(r"/(cluster/|history\.)", name)}
        )
    assert found[0] == found[1] and "absorbed/checkpoint/checkpoint" in found[0]

    rows = flights[flights.arr_delay.notna() & (flights.day <= 24) & (flights.dest != "LEX")]
    numbers = [rows.dep_hour, rows.origin == "JFK", rows.origin == "LGA"]
    dummies = [scipy.sparse.csr_array(pd.get_dummies(rows[name], dtype=float, sparse=True)) for name in absorb]
    columns = scipy.sparse.hstack([*(np.array(number, float)[:, None] for number in numbers), *dummies]).tocsr()[:, :-1]
    coefficients = np.zeros(columns.shape[1])
    for _ in range(25):
        eta = columns @ coefficients
        mean, slope = ndtr(eta), np.exp(-(eta**2) / 2) / np.sqrt(2 * np.pi)
        variance = mean * (1 - mean)
        inverse = np.linalg.inv((columns.T @ (columns * (slope**2 / variance)[:, None])).toarray())
        residual = (rows.late.to_numpy() - mean) * slope / variance
        coefficients += inverse @ (columns.T @ residual)
    dates = pd.get_dummies(rows.month * 100 + rows.day, dtype=float, sparse=True)
    scores = scipy.sparse.csr_array(dates).T @ (columns * residual[:, None])
    clusters = scores.shape[0]
    errors = np.sqrt(np.diag(inverse @ (scores.T @ scores).toarray() @ inverse))[:3]
    # Months are not nested in dates, but dates in months: so each level counts.
    errors *= np.sqrt(clusters / (clusters - 1) * (len(rows) - 1) / (len(rows) - columns.shape[1]))
    table = read_table(finished, "absorbed", results).loc[[("dep_hour", ""), ("origin", "JFK"), ("origin", "LGA")]]
    assert np.max(np.abs(table["estimate"] - coefficients[:3]) / errors) < 1e-8
    assert table["std_error"].to_numpy() == pytest.approx(errors, rel=1e-8)
    fit = read_json(finished, "models", "absorbed", "fit.json", results=results)
    assert (fit["rows_of_separated_levels"], fit["absorbed"]["rows_of_singletons"]) == (0, 1)
    assert "1 of them in absorbed levels of one row" in without_links(finished / page)
