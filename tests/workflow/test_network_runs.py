"""Networks through the workflow, under most strategies: what they write, what runs again, and what is refused."""

import copy
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import docx
import numpy as np
import openpyxl
import pandas as pd
import pytest
import yaml

from browser import faults, without_links
from configs import SHIPPED
from configs import message as refused
from processes import wait_until
from runs import ENVIRONMENT, configure, planned, read_json, read_table, snakemake, succeed, write_asa
from tfglm.config import load

FORMULA = "late ~ carrier + origin + dest + C(month) + dep_hour + distance"
NETWORK = {"formula": FORMULA, "family": "binomial", "hidden": [16, 8], "epochs": 2, "batch_size": 100, "seed": 3}
STRATEGIES = {
    "one": {},
    "mirrored": {"strategy": "mirrored", "devices": 2},
    "peers": {"strategy": "multi_worker_mirrored", "workers": 2},
}
SERVED = {"strategy": "parameter_server", "ps": 2, "workers": 2}
TOGETHER = {"strategy": "parameter_server", "synchronous": True, "workers": 3, "backup_workers": 1}
COVARIATES = ["carrier", "origin", "dest", "month", "dep_hour", "distance"]
OF_FILE = ["carrier", "origin", "dest", "month", "sched_dep_time", "distance"]
"""The columns of the file that the covariates are computed from."""
TARGETS = [
    "results/flights/index.html",
    "results/flights/compare.html",
    "results/flights/compare.docx",
    "results/flights/models/exact/coefficients.xlsx",
    *(f"results/flights/models/{name}/metrics.json" for name in (*STRATEGIES, "served", "together")),
    *(f"results/flights/models/one/{name}" for name in ("embeddings.svg", "history.svg", "metrics.html")),
    "results/flights/models/carriers/metrics.html",
    *(
        f"results/flights/models/{name}/{file}"
        for name in ("over", "carriers")
        for file in ("metrics_by.csv", "model.json")
    ),
    *(f"results/flights/models/{name}/predictions/2006.parquet" for name in ("one", "over", "carriers")),
]
"""Of each kind of result what a test looks at: to make all of them for each network takes a minute longer."""


def with_networks(config: dict) -> None:
    """The default config with other models."""
    config["data"].update(
        files=["2006.csv"],
        where={"flown": "cancelled = 0 AND diverted = 0"},
        split={"train": "day <= 22", "evaluate": "day > 22 AND day < 28", "predict": "day >= 28"},
        columns=["late", *COVARIATES, "sched_dep_time"],
    )
    config["models"] = {"exact": {"formula": FORMULA, "family": "binomial"}}
    config["networks"] = {name: NETWORK | keys for name, keys in STRATEGIES.items()}
    config["networks"] |= {"served": NETWORK | SERVED, "together": NETWORK | TOGETHER}
    config["models"]["exact"]["by"] = ["carrier", "month"]
    config["compare"] = ["exact", "over"]
    config["networks"]["over"] = NETWORK | {
        "offset_from": "exact",
        "wide": True,
        "dropout": 0.2,
        "by": ["carrier", "month"],
        "identity": OF_FILE,
        "export": True,
    }
    config["networks"]["carriers"] = NETWORK | {
        "formula": "carrier ~ origin + dest + C(month) + dep_hour + distance",
        "family": "multinomial",
        "hidden": [],
        "by": ["month"],
        "export": True,
    }
    config["cluster"] = {"strategy": "one_device"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where networks have been trained beside a regression."""
    folder = tmp_path_factory.mktemp("networks")
    write_asa(folder, 2006, 12_000)

    configure(folder, with_networks)
    (folder / "tmp").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENT, "TMPDIR", str(folder / "tmp"))
        succeed(folder, "--", *TARGETS)
    return folder


def test_no_temporary_file_is_left(folder):
    # The process that starts jobs ends a moment after Snakemake.
    with suppress(AssertionError):
        wait_until(lambda: not any((folder / "tmp").iterdir()), 30, "the folder for temporary files is empty")
    assert [path.relative_to(folder) for path in (folder / "tmp").rglob("*")] == []


def model(folder: Path, name: str) -> Path:
    return folder / "results" / "flights" / "models" / name


def test_all_strategies_learn_the_same(folder):
    names = [*STRATEGIES, "together"]
    fits = {name: read_json(folder, "models", name, "fit.json") for name in names}
    strategies = ["one_device", "mirrored", "multi_worker_mirrored", "parameter_server"]
    assert [fit["strategy"] for fit in fits.values()] == strategies
    assert len({(fit["steps"], fit["parameters"], fit["rows"]) for fit in fits.values()}) == 1
    losses = [fit["loss"] for fit in fits.values()]
    assert max(losses) - min(losses) < 1e-5
    held_out = [read_json(folder, "models", name, "metrics.json")["log_loss"] for name in names]
    assert max(held_out) - min(held_out) < 1e-5


def test_workers_on_parameter_servers_learn_as_much(folder):
    one, served = (read_json(folder, "models", name, "fit.json") for name in ("one", "served"))
    assert served["rows"] == one["rows"] and served["parameters"] == one["parameters"]
    # The last batch of each turn may be a small one.
    assert one["steps"] <= served["steps"] <= one["steps"] + 2 * 16
    assert served["loss"] == pytest.approx(one["loss"], abs=0.02)
    held_out = [read_json(folder, "models", name, "metrics.json")["log_loss"] for name in ("one", "served")]
    assert held_out[1] == pytest.approx(held_out[0], abs=0.01)
    history = pd.read_csv(model(folder, "served") / "history.csv").set_index("quantity")["value"]
    assert (history["train/staleness"] >= 0).all()
    assert not (model(folder, "served") / "cluster" / "designs").exists()


def test_metrics_are_those_of_the_predictions_of_the_network(folder):
    metrics = {name: read_json(folder, "models", name, "metrics.json") for name in ("exact", "one", "over")}
    assert len({of_model["rows"] for of_model in metrics.values()}) == 1
    base = metrics["exact"]["mean_response"]
    null = -(base * np.log(base) + (1 - base) * np.log(1 - base))
    for of_model in metrics.values():
        assert of_model["log_loss"] < null
    table = pd.read_csv(model(folder, "over") / "metrics_by.csv")
    assert {"AA", "DL", "PA (1)", "UA"} <= set(table["level"])
    predictions = pd.read_parquet(model(folder, "one") / "predictions" / "2006.parquet")
    assert list(predictions) == ["file", "row", "linear_predictor", "probability", "unseen", "remark"]
    assert len(predictions) == read_json(folder, "data", "rows.json")["splits"]["predict"]["used"]
    np.testing.assert_allclose(predictions["probability"], 1 / (1 + np.exp(-predictions["linear_predictor"])))
    assert predictions["linear_predictor"].std() > 0.05


def test_a_network_stands_beside_a_regression(folder):
    table = pd.read_csv(folder / "results" / "flights" / "compare_held_out.csv").set_index("resampled_by")
    metrics = {name: read_json(folder, "models", name, "metrics.json")["log_loss"] for name in ("exact", "over")}
    assert table.loc["month", "difference"] == pytest.approx(metrics["over"] - metrics["exact"])
    assert table.loc["month", "groups"] == 12 and pd.isna(table.loc["month", "ci_lower"])
    page = without_links(folder / "results" / "flights" / "compare.html")
    assert "12 values of month are too few for an interval" in page and "<li>over is a network</li>" in page
    shown = [
        [cell.text for cell in row.cells]
        for row in docx.Document(folder / "results" / "flights" / "compare.docx").tables[0].rows
    ]
    assert shown[0] == ["", "", "exact", "over"]
    (n,) = [row for row in shown if row[0] == "n"]
    assert n[2] == n[3] == f"{read_json(folder, 'models', 'exact', 'fit.json')['rows']:,}"
    cells = openpyxl.load_workbook(model(folder, "exact") / "coefficients.xlsx").active.iter_rows(values_only=True)
    table = read_table(folder, "exact")
    (distance,) = [row for row in cells if row[0] == "distance"]
    assert distance[2] == pytest.approx(table.loc[("distance", ""), "estimate"], rel=1e-15)


def test_everybody_can_use_the_pages(folder):
    pages = sorted((folder / "results").rglob("*.html"))
    assert {page.name for page in pages} == {"index.html", "compare.html", "metrics.html"}
    assert faults(pages) == []


LOAD = """
import sys
import pandas as pd, tensorflow as tf
served = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
rows = pd.read_parquet(sys.argv[2])
types = {name: spec.dtype for name, spec in served.structured_input_signature[1].items()}
for name, values in served(**{name: tf.constant(rows[name].to_numpy(), dtype) for name, dtype in types.items()}).items():
    print(name, len(values), float(abs(values.numpy() - rows[name].to_numpy()).max()))
assert "tfglm" not in sys.modules
"""


def test_an_exported_network_predicts_the_same_in_a_process_without_our_code(folder, tmp_path):
    predictions = model(folder, "over") / "predictions" / "2006.parquet"
    arguments = [sys.executable, "-c", LOAD, str(model(folder, "over") / "saved_model"), str(predictions)]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    rows = read_json(folder, "data", "rows.json")["splits"]["predict"]["used"]
    # A SavedModel keeps its outputs in no order of their own.
    outputs = sorted(line.split() for line in done.stdout.splitlines())
    assert [(name, int(count)) for name, count, _ in outputs] == [("linear_predictor", rows), ("probability", rows)]
    assert all(float(difference) < 1e-5 for _, _, difference in outputs)
    description = read_json(folder, "models", "over", "model.json")
    assert description["hidden"] == [{"units": 16, "activation": "relu"}, {"units": 8, "activation": "relu"}]
    assert {column["name"]: column.get("header") for column in description["inputs"]} == {
        "carrier": "UniqueCarrier",
        "origin": "Origin",
        "dest": "Dest",
        "month": "Month",
        "sched_dep_time": "CRSDepTime",
        "distance": "Distance",
    }
    derived = {column["name"]: column.get("derived_as") for column in description["columns"]}
    assert derived == dict.fromkeys(COVARIATES) | {"dep_hour": "(sched_dep_time // 100) % 24"}
    assert description["offset_from"] == "exact"
    assert ("carrier", "PA (1)") in {(each["term"], each["level"]) for each in description["coefficients"]}


def test_embeddings_are_a_table_and_a_picture(folder):
    table = pd.read_csv(model(folder, "one") / "embeddings.csv")
    assert table.groupby("factor").size().to_dict() == {"carrier": 4, "origin": 3, "dest": 4, "C(month)": 12}
    train = read_json(folder, "data", "rows.json")["splits"]["train"]["used"]
    assert set(table.groupby("factor")["rows"].sum()) == {train}
    dimensions = table.filter(like="dimension_").notna().sum(axis="columns")
    assert dimensions.groupby(table["factor"]).max().to_dict() == {"carrier": 3, "origin": 3, "dest": 3, "C(month)": 6}
    assert "PA (1)" in (model(folder, "one") / "embeddings.svg").read_text()


def test_classes_have_probabilities_and_a_confusion_matrix(folder):
    fit, metrics, described = (
        read_json(folder, "models", "carriers", name) for name in ("fit.json", "metrics.json", "model.json")
    )
    names = ["AA", "DL", "PA (1)", "UA"]
    assert fit["classes"] == described["classes"] == [each["class"] for each in metrics["classes"]] == names
    assert fit["held_out_accuracy"] == pytest.approx(metrics["accuracy"])
    assert np.sum(metrics["confusion"]) == metrics["rows"]
    predictions = pd.read_parquet(model(folder, "carriers") / "predictions" / "2006.parquet")
    probabilities = predictions[[f"probability[{name}]" for name in names]]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (predictions["predicted"] == np.array(names)[probabilities.to_numpy().argmax(axis=1)]).all()
    assert "linear_predictor" not in predictions
    assert set(pd.read_csv(model(folder, "carriers") / "metrics_by.csv")) >= {"level", "accuracy", "null_accuracy"}
    page = (model(folder, "carriers") / "metrics.html").read_text()
    assert "By class" in page and '<th scope="row">PA (1)</th>' in page
    assert "accuracy" in (model(folder, "carriers") / "metrics.svg").read_text()
    assert "rows kept back: accuracy" in (folder / "results" / "flights" / "index.html").read_text()
    assert (
        f"accuracy {metrics['accuracy']:.4f} on the rows held out"
        in (folder / "logs" / "flights" / "models" / "carriers" / "train.log").read_text()
    )


def test_the_summary_says_what_the_networks_are(folder):
    page = without_links(folder / "results" / "flights" / "index.html")
    assert "A neural network for <code>late</code>" in page
    assert (
        "hidden layers of 16, 8 units (relu), a coefficient for each level and number, the linear predictor of exact"
        in page
    )
    assert page.count('<svg class="layers" role="img"') == 7 and "Layers of over, from the inputs to the output" in page
    assert "strategy <code>mirrored</code>" in page and "<code>parameter_server</code>, synchronous" in page
    log = (folder / "logs" / "flights" / "models" / "one" / "train.log").read_text()
    assert "epoch 2 of 2, batch" in log and "ms a batch" in log and "final cost" in log
    assert "warning" not in log.lower()


def edited(folder: Path, **keys) -> str:
    """The name of a config in which the network `one` has these keys."""
    config = yaml.safe_load((folder / "config" / "config.yaml").read_text())
    config["networks"]["one"] |= keys
    (folder / "edited.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return "edited.yaml"


def test_all_results_of_each_network_are_made_by_default(folder):
    left = planned(folder)
    # Of eight models three are predicted with; of six networks with embeddings one has them as a table.
    assert left["predict"] == 8 - 3 and left["write_tables_network_embeddings"] == 6 - 1
    assert not left.keys() & {"train", "fit", "ingest", "build_design", "evaluate_network", "write_tables_network"}


def test_only_what_depends_on_a_key_runs_again(folder):
    def plan(**keys) -> dict[str, int]:
        return planned(folder, "--configfile", edited(folder, **keys), "--", *TARGETS)

    assert plan() == {}
    assert plan(threshold=0.4).keys() == {"evaluate_network", "write_pages_network_embeddings", "write_home"}
    changed = plan(optimizer={"learning_rate": 0.01})
    assert changed["train"] == 1 and not changed.keys() & {"fit", "ingest", "build_design"}


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"strategy": "tpu"}, "networks.one.strategy: `tpu` is for a machine with a TPU, and there is no TPU in /dev"),
        (
            {"strategy": "multi_worker_mirrored", "workers": 2, "gpus": 40},
            "networks.one.gpus: 2 workers with 40 each need 80, and this machine has ",
        ),
    ],
)
def test_a_dry_run_refuses_a_strategy_as_the_run_does(folder, keys, reason):
    done = snakemake(folder, "-n", "--configfile", edited(folder, **keys), "--", "results/flights/models/one/fit.json")
    assert done.returncode != 0 and reason in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"strategy": "mirorred"},
            "networks.one.strategy: expected `one_device`, `mirrored`, `central_storage`, `tpu`, `multi_worker_mirrored` or",
        ),
        (
            {"strategy": "horovod"},
            "networks.one.strategy: no `horovod`: its last release, 0.28.1, builds with no TensorFlow",
        ),
        (
            {"strategy": "multi_worker_mirrored", "workers": 51, "gpus": 2},
            "networks.one: batch_size: 100 rows are too few for 102 devices",
        ),
        ({"strategy": "mirrored", "devices": 64, "batch_size": 63}, "batch_size: 63 rows are too few for 64 devices"),
        (
            {"strategy": "multi_worker_mirrored", "workers": 101},
            "networks.one: batch_size: 100 rows are too few for 101 workers",
        ),
        ({**TOGETHER, "workers": 102}, "networks.one: batch_size: 100 rows are too few for 101 workers"),
        (
            {"strategy": "multi_worker_mirrored", "workers": 3, "auto_shard": "file"},
            "networks.one: batch_size: with `auto_shard: file` each of 3 workers reads as many rows of a step, and 100 is no",
        ),
        (
            {**TOGETHER, "backup_workers": 3},
            "networks.one: backup_workers: at least one of the 3 workers must not be a backup",
        ),
        ({"offset_from": "exakt"}, "networks.one.offset_from: no regression is named `exakt`; did you mean `exact`?"),
    ],
)
def test_what_no_rows_could_train_is_refused(keys, message):
    raw = copy.deepcopy(SHIPPED)
    with_networks(raw)
    raw["networks"]["one"] |= keys
    assert message in refused(load, raw, "c.yaml")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"batch_size": 1_000_000}, "networks.one.batch_size: 1,000,000 is more than the"),
        ({"family": "multinomial", "formula": "distance ~ carrier"}, "networks.one: the response `distance` has"),
        (
            {"strategy": "multi_worker_mirrored", "workers": 4, "auto_shard": "file"},
            "networks.one.auto_shard: `file` gives each of 4 workers its own units of up to 32,768 training rows, and the",
        ),
    ],
)
def test_what_these_rows_or_this_machine_cannot_train_is_refused(folder, keys, message):
    done = snakemake(folder, "--configfile", edited(folder, **keys), "--", "results/flights/models/one/fit.json")
    assert done.returncode != 0 and message in done.stdout, done.stdout
    assert json.loads((model(folder, "mirrored") / "fit.json").read_text())["steps"] > 0
