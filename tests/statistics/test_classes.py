"""Networks for a response that is one of several classes, against scikit-learn and oracles in float64."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from sklearn import metrics as sklearn_metrics
from sklearn.linear_model import LogisticRegression
from test_models import flights

from pools import design_of, ingest_frame
from tfglm.config import NetworkConfig, TrainingConfig
from tfglm.data.dictionary import merge
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.engine.workload import Workload
from tfglm.errors import UserError
from tfglm.families import FAMILIES
from tfglm.networks import layers, linear, predict, sources
from tfglm.networks.export import ExportedNetwork
from tfglm.networks.layers import OutputScale
from tfglm.networks.rows import RESPONSE, Units
from tfglm.networks.training import Training
from tfglm.results import classes, metrics, unseen
from trainings import rows_of, training_of

MULTINOMIAL = FAMILIES["multinomial"]
FORMULA = "service ~ carrier + origin + hour + distance"
SPLIT = {"train": "month <= 4", "evaluate": "month = 5", "predict": "month = 6"}
CLASSES = ["charter", "mail", "scheduled"]


def services(rows: int = 4000) -> pd.DataFrame:
    """Flights, each of one kind of service; to evaluate there are some of a kind that no training row has."""
    frame = flights(rows, seed=11)
    random = np.random.default_rng(12)
    eta = np.stack(
        [0.8 * (frame["carrier"] == "B6") - 0.3, 0.09 * (frame["hour"] - 13.0), (frame["origin"] == "JFK") + 0.0]
    )
    names = np.array(["mail", "scheduled", "charter"])
    frame["service"] = names[(eta + random.gumbel(size=eta.shape)).argmax(axis=0)]
    frame.loc[(frame["month"] == 5) & (frame.index % 40 == 0), "service"] = "ferry"
    frame["gate"] = frame["service"].map({"mail": 10, "scheduled": 9, "charter": 100, "ferry": 7})
    return frame


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return services()


@pytest.fixture(scope="module")
def file(frame, tmp_path_factory) -> IngestedFile:
    return ingest_frame(frame, tmp_path_factory.mktemp("classes"), split=SPLIT)


def design(file: IngestedFile, formula: str = FORMULA, **keys) -> Design:
    return design_of(formula, "multinomial", merge([file]), [file], section="networks", **keys)


def training(file: IngestedFile, of_design: Design, folder: Path, **keys) -> Training:
    settings = TrainingConfig.model_validate({"batch_size": 200, "epochs": 2, "hidden": [8]} | keys)
    return training_of(rows_of(of_design, file), settings, folder)


def random_network(of_design: Design, **keys):
    settings = TrainingConfig.model_validate({"hidden": [5], "activation": "tanh", "wide": True} | keys)
    network = layers.network(of_design, settings, OutputScale([0.1, -0.2, 0.4], 1.0), seed=2)
    random = np.random.default_rng(3)
    network.set_weights([random.normal(0, 0.4, weight.shape) for weight in network.get_weights()])
    return network


def test_the_loss_is_that_of_scikit_learn_also_where_exponentials_overflow():
    random = np.random.default_rng(4)
    eta, y = random.normal(size=(500, 4), scale=3), random.integers(0, 4, 500).astype(float)
    odds = np.exp(eta)
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    assert MULTINOMIAL.loss(eta, y).mean() == pytest.approx(sklearn_metrics.log_loss(y, probabilities), rel=1e-12)
    np.testing.assert_allclose(MULTINOMIAL.mean(eta), probabilities, rtol=1e-12)
    far = np.array([[1000.0, -1000.0], [-2000.0, 0.0]])
    np.testing.assert_array_equal(MULTINOMIAL.loss(far, np.array([1.0, 1.0])), [2000.0, 0.0])
    for values, of_y in ((eta, y), (far, np.array([1.0, 1.0]))):
        tensors = MULTINOMIAL.tensor_loss(tf, tf.constant(values), tf.constant(of_y))
        np.testing.assert_allclose(tensors, MULTINOMIAL.loss(values, of_y), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("response", ["service", "gate"])
def test_classes_are_the_levels_of_the_training_rows_in_order(file, frame, response):
    of_design = design(file, FORMULA.replace("service", response))
    train = frame[frame["month"] <= 4]
    expected = sorted(train[response].unique())
    assert of_design.classes.levels == tuple(map(str, expected))
    rows, flag, *_ = Units(Workload(of_design, [file], "train")).read(0)
    counts = np.bincount(rows.numbers[:, RESPONSE].astype(int))
    assert (flag == 0).all() and counts.tolist() == [(train[response] == level).sum() for level in expected]
    assert of_design.to_predict.classes is None and response not in of_design.to_predict.columns
    assert Design.from_json(of_design.as_json) == of_design


@pytest.mark.slow
def test_without_hidden_layers_it_reaches_the_likelihood_of_scikit_learn(file, frame, tmp_path):
    of_design = design(file)
    keys = {"hidden": [], "epochs": 40, "optimizer": {"learning_rate": 0.02}}
    trained = training(file, of_design, tmp_path, **keys).run()
    train = frame[frame["month"] <= 4]
    numbers = train[["hour", "distance"]]
    covariates = pd.get_dummies(train[["carrier", "origin"]]).assign(**((numbers - numbers.mean()) / numbers.std()))
    exact = LogisticRegression(C=1e6, max_iter=1000, tol=1e-8).fit(covariates, train["service"])
    least = sklearn_metrics.log_loss(train["service"], exact.predict_proba(covariates))
    reached = predict.means(Units(Workload(of_design, [file], "train")), trained.network)
    assert -1e-9 < reached["loss"] - least < 1e-3
    assert reached["accuracy"] == pytest.approx(exact.score(covariates, train["service"]), abs=0.01)
    with pytest.raises(
        UserError, match=r"networks.m: .* no table of coefficients, .* each class of `service` has its own"
    ):
        linear.fitted({}, {"layers": {"hidden": []}}, of_design, [file])


def test_learning_begins_at_the_weighted_shares_of_the_classes(file, frame, tmp_path):
    of_design = design(file, weights="weight")
    begun = training(file, of_design, tmp_path).counts.scale
    train = frame[frame["month"] <= 4]
    shares = train.groupby("service")["weight"].sum() / train["weight"].sum()
    np.testing.assert_allclose(np.exp(begun.start), shares, rtol=1e-6)


def scored_rows(units: Units, network) -> dict[str, np.ndarray]:
    shards = [scored.rows for scored in predict.score(units, network)]
    return {name: np.concatenate([rows[name] for rows in shards]) for name in shards[0]}


@pytest.mark.slow
def test_metrics_are_those_of_scikit_learn_with_weights_and_by_group(file, frame):
    of_design = design(file, weights="weight")
    network = random_network(of_design)
    units = sources.units(of_design, [file], "evaluate", None)
    rows = scored_rows(units, network)
    used = rows["flag"] == 0
    weight, true, eta = rows["weight"][used], rows["response"][used].astype(int), rows["eta"][used]
    probabilities, called = MULTINOMIAL.mean(eta), eta.argmax(axis=1)
    report = metrics.evaluate(of_design, predict.score(units, network), 0.5, ["origin"])
    report = json.loads(json.dumps(report, allow_nan=False))
    assert report["rows"] == used.sum()
    assert report["log_loss"] == pytest.approx(sklearn_metrics.log_loss(true, probabilities, sample_weight=weight))
    assert report["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(true, called, sample_weight=weight))
    assert report["null_accuracy"] == pytest.approx(np.bincount(true, weight).max() / weight.sum())
    matrix = sklearn_metrics.confusion_matrix(true, called, sample_weight=weight)
    np.testing.assert_allclose(report["confusion"], matrix, rtol=1e-12)
    theirs = sklearn_metrics.precision_recall_fscore_support(true, called, sample_weight=weight)
    of_classes = pd.DataFrame(report["classes"])
    assert of_classes["class"].tolist() == CLASSES
    for name, expected in zip(("precision", "recall", "f1", "support"), theirs, strict=True):
        np.testing.assert_allclose(of_classes[name], expected, rtol=1e-12)
    groups = pd.DataFrame(report["by"]["origin"]).set_index("level")
    evaluated = frame[(frame["month"] == 5) & (frame["service"] != "ferry")]
    assert groups["rows"].to_dict() == evaluated["origin"].value_counts().to_dict()
    assert groups["log_loss"].between(0.5, 3).all() and list(groups) == [
        "rows",
        "log_loss",
        "accuracy",
        "null_accuracy",
    ]


def test_a_class_that_nothing_is_taken_for_has_no_precision():
    tally = classes.ClassTally(["a", "b", "c"])
    eta = np.array([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    tally.add({"eta": eta, "response": np.array([0.0, 1.0, 1.0]), "weight": np.ones(3), "frequency": np.ones(3)})
    assert tally.tables()["confusion"] == [[1, 0, 0], [1, 1, 0], [0, 0, 0]]
    last = tally.tables()["classes"][2]
    assert last == {"class": "c", "support": 0, "predicted": 0, "precision": None, "recall": None, "f1": None}


@pytest.mark.slow
def test_rows_of_a_class_that_no_training_row_has_are_counted_and_left_out(file, frame):
    of_design = design(file)
    evaluated = frame[frame["month"] == 5]
    ferries = int((evaluated["service"] == "ferry").sum())
    assert ferries > 5
    units = sources.units(of_design, [file], "evaluate", None)
    report = metrics.evaluate(of_design, predict.score(units, random_network(of_design)), 0.5)
    assert report["rows_with_unseen_level"] == ferries and report["rows"] == len(evaluated) - ferries
    levels = unseen.checked(of_design, [file], "evaluate", "missing", "networks.m")
    assert levels == {"service": {"rows": ferries, "level_count": 1, "levels": ["ferry"]}}
    with pytest.raises(UserError, match=f"service: ferry \\({ferries} rows\\)"):
        unseen.checked(of_design, [file], "evaluate", "error", "networks.m")


@pytest.mark.slow
def test_an_exported_network_has_a_probability_of_each_class(file, frame):
    of_design = design(file)
    network = random_network(of_design)
    exported = ExportedNetwork(network, of_design, {}, None)
    rows = frame[frame["month"] == 6]
    columns = {
        name: tf.constant(rows[name].tolist(), tf.string if kind == "text" else tf.float64)
        for name, kind in exported.kinds.items()
    }
    outputs = exported.predict(**columns)
    eta = scored_rows(sources.units(of_design.to_predict, [file], "predict", None), network)["eta"]
    np.testing.assert_allclose(outputs["linear_predictor"], eta, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(outputs["probability"], MULTINOMIAL.mean(eta), rtol=1e-4)


@pytest.mark.slow
def test_the_description_of_a_multinomial_regression_has_its_coefficients_by_class(file, frame):
    of_design = design(file, "service ~ origin + hour")
    network = random_network(of_design, hidden=[])
    exported = ExportedNetwork(network, of_design, {}, None)
    fit = {
        "layers": {"hidden": []},
        "start": [0.1, -0.2, 0.4],
        "unit": 1.0,
        "rows": 1,
        "steps": 1,
        "response": "service",
    }
    description = json.loads(json.dumps(exported.description(fit, {})))
    assert (description["classes"], description["link"]) == (CLASSES, "softmax")
    assert {column["name"] for column in description["columns"]} == {"origin", "hour"}
    estimates = {(each["class"], each["term"], each["level"]): each["estimate"] for each in description["coefficients"]}
    rows = frame[:20]
    eta = np.stack(
        [
            start
            + estimates[name, "Intercept", ""]
            + rows["origin"].map({level: estimates[name, "origin", level] for level in ("EWR", "JFK", "LGA")})
            + estimates[name, "hour", ""] * rows["hour"]
            for name, start in zip(CLASSES, description["start"], strict=True)
        ],
        axis=1,
    )
    columns = {"origin": tf.constant(rows["origin"].tolist()), "hour": tf.constant(rows["hour"].astype(float))}
    np.testing.assert_allclose(exported.predict(**columns)["linear_predictor"], eta, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_what_has_no_classes_is_refused_by_name(file, frame, tmp_path):
    def refused(formula: str, message: str, **keys) -> None:
        with pytest.raises(UserError, match=message):
            design_of(formula, "multinomial", merge([file], **keys), [file], section="networks")

    refused("delay ~ hour", r"`delay` is a number, and classes are text or whole numbers; derive one under data.derive")
    refused("seats ~ hour", r"`seats` has 250 different values in the training rows, and 100 classes are the most")
    refused("service ~ hour", r"`service` cannot have missing values as a level", missing={"service": "level"})
    refused("service ~ hour + service", r"`service` is the response and cannot be on the right-hand side too")
    alike = ingest_frame(frame.assign(service="mail"), tmp_path)
    with pytest.raises(
        UserError, match=r"has only the class `mail` in the training rows, so there is nothing to learn"
    ):
        design(alike)
    unweighted = ingest_frame(frame.assign(weight=(frame["service"] != "mail") * 1.0), tmp_path / "weight", split=SPLIT)
    with pytest.raises(UserError, match=r"no training row of the class `mail` of `service` has a weight above 0"):
        training(unweighted, design(unweighted, weights="weight"), tmp_path / "steps")


def test_identity_takes_no_column_of_the_predictions():
    with pytest.raises(ValueError, match="predictions have a column `predicted` of their own"):
        NetworkConfig(formula=FORMULA, family="multinomial", identity=["predicted"])
