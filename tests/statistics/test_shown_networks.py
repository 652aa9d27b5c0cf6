"""Networks for others: exported with raw columns, and their embeddings by the names of levels."""

import argparse
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf
from sklearn.decomposition import PCA
from test_models import flights

import tfglm
from pools import design_of, fit_design, ingest_frame
from tfglm import bundle, checkpoint, digests, export, provenance
from tfglm.config import LayersConfig
from tfglm.data.dictionary import merge
from tfglm.data.shards import IngestedFile
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.networks import embeddings, layers, predict, sources, stored
from tfglm.networks.export import ExportedNetwork
from tfglm.report.embeddings import embeddings_plot, principal_components
from tfglm.results import csv_files, unseen

PREDICTED = slice(2400, 3000)
SPLIT = {"train": "part = 0", "evaluate": "part = 1", "predict": "part = 2"}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Flights, some without a carrier; those to predict have other levels too, and numbers that have no logarithm."""
    frame = flights(3000, seed=4)
    frame["part"] = np.repeat([0, 1, 2], [2000, 400, 600])
    frame.loc[::40, "carrier"] = None
    frame.loc[frame["origin"] == "JFK", "late"] = 1
    frame.loc[2500:2504, "carrier"] = "ZZ"
    frame.loc[2510:2514, "origin"] = "XXX"
    frame.loc[2520:2524, "times"] = 9
    frame.loc[2530:2534, "distance"] = 0.0
    frame.loc[2540:2544, "hour"] = None
    frame["hour"] = frame["hour"].astype("Int64")
    return frame


@pytest.fixture(scope="module")
def file(frame, tmp_path_factory) -> IngestedFile:
    return ingest_frame(frame, tmp_path_factory.mktemp("shown"), split=SPLIT)


def design(file: IngestedFile, formula: str, family: str = "binomial", **keys) -> Design:
    return design_of(formula, family, merge([file], {"carrier": "level"}), [file], **keys)


def random_network(of_design: Design, settings: LayersConfig):
    """A network with weights at random, the linear part too."""
    scale = layers.OutputScale(0.3, 2.0)
    network = layers.network(of_design, settings, scale, seed=3)
    random = np.random.default_rng(6)
    network.set_weights([random.normal(0, 0.3, weight.shape) for weight in network.get_weights()])
    return network


def columns(frame: pd.DataFrame, kinds: dict[str, str]) -> dict[str, tf.Tensor]:
    texts = {name: frame[name].fillna("").tolist() for name, kind in kinds.items() if kind == "text"}
    numbers = {name: frame[name].astype(float).to_numpy(na_value=np.nan) for name in kinds.keys() - texts.keys()}
    return {name: tf.constant(values) for name, values in (texts | numbers).items()}


def assert_predicts_the_same(exported: ExportedNetwork, units, network, frame: pd.DataFrame) -> np.ndarray:
    """Returns the linear predictor that both have."""
    outputs = exported.predict(**columns(frame[PREDICTED], exported.kinds))
    scored = [of_shard.rows for of_shard in predict.score(units, network)]
    eta, flag = (np.concatenate([rows[name] for rows in scored]) for name in ("eta", "flag"))
    expected = np.where(flag >= 0, eta, np.nan)
    np.testing.assert_allclose(outputs["linear_predictor"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs["probability"], 1 / (1 + np.exp(-expected)), rtol=1e-5)
    return expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "keys"),
    [
        ("late ~ carrier * origin + carrier:hour + hour + log(distance) + bs(seats, df=4)", {"wide": True}),
        ("late ~ carrier + C(times)", {}),
        ("late ~ hour + distance", {}),
        ("late ~ origin", {"hidden": []}),
    ],
    ids=["wide and deep", "factors alone", "numbers alone", "linear"],
)
def test_an_exported_network_predicts_the_same_from_columns(file, frame, formula, keys):
    of_network = design(file, formula, offset="log(seats)")
    network = random_network(of_network, LayersConfig.model_validate({"hidden": [5, 3]} | keys))
    exported = ExportedNetwork(network, of_network, unseen.collective_levels(of_network), None)
    eta = assert_predicts_the_same(
        exported, sources.units(of_network.to_predict, [file], "predict", None), network, frame
    )
    assert np.isnan(eta[110:115]).all() == ("origin" in formula)
    assert np.isnan(eta[120:125]).all() == ("times" in formula)
    assert np.isnan(eta[130:135]).all() == ("log" in formula)
    assert np.isnan(eta[140:145]).all() == ("hour" in formula)
    assert np.isfinite(eta[100:105]).any()


@pytest.mark.slow
def test_an_exported_network_has_the_regression_under_it(file, frame):
    regression = design(file, "late ~ origin + C(times) + distance")
    fitted = fit_design(regression, [file])
    of_network = design(file, "late ~ carrier + hour")
    network = random_network(of_network, LayersConfig(hidden=[4]))
    under = sources.Regression(regression, fitted)
    exported = ExportedNetwork(network, of_network, unseen.collective_levels(of_network), under)
    assert exported.kinds.keys() == {"carrier", "hour", "origin", "times", "distance"}
    units = sources.units(of_network.to_predict, [file], "predict", under)
    eta = assert_predicts_the_same(exported, units, network, frame)
    separated = (frame["origin"] == "JFK").to_numpy()[PREDICTED]
    assert np.isnan(eta[separated]).all() and np.isnan(eta[110:115]).all() and np.isfinite(eta).sum() > 300


@pytest.mark.slow
def test_an_exported_network_has_a_regression_with_absorbed_factors_under_it(file, frame, tmp_path):
    """It has columns that the network has not; a level whose rows were left out has no prediction there either."""
    frame = frame.assign(plane=np.arange(len(frame)) % 40)
    frame.loc[[3, 2410], "plane"] = 99
    file = ingest_frame(frame, tmp_path, split=SPLIT)
    regression = design(file, "late ~ hour", absorb=["carrier", "plane"])
    under = sources.Regression(regression, fit_design(regression, [file]))
    of_network = design(file, "late ~ log(distance)")
    network = random_network(of_network, LayersConfig(hidden=[4]))
    exported = ExportedNetwork(network, of_network, {}, under)
    units = sources.units(of_network.to_predict, [file], "predict", under)
    eta = assert_predicts_the_same(exported, units, network, frame)
    assert np.isnan(eta[10]) and np.isfinite(eta[[8, 9, 11, 12]]).all()
    export.save(exported, exported.kinds, tmp_path / "saved_model")
    saved = tf.saved_model.load(str(tmp_path / "saved_model")).signatures["serving_default"]
    outputs = saved(**columns(frame[PREDICTED], exported.kinds))
    np.testing.assert_allclose(outputs["linear_predictor"], eta, rtol=1e-5, atol=1e-6)


def test_its_description_has_the_linear_part_by_term_and_level(file, frame):
    of_network = design(file, "late ~ carrier + hour + carrier:hour")
    network = random_network(of_network, LayersConfig(hidden=[]))
    exported = ExportedNetwork(network, of_network, {}, None)
    fit = {"layers": {"hidden": []}, "start": 0.3, "unit": 2.0, "rows": 2000, "steps": 10}
    description = json.loads(json.dumps(exported.description(fit, {"hour": "x / 100"}), allow_nan=False))
    assert (description["hidden"], description["embeddings"], description["offset_from"]) == ([], {}, None)
    assert description["columns"][1] == {"name": "hour", "type": "number", "missing": "NaN", "derived_as": "x / 100"}
    estimates = {(each["term"], each["level"]): each["estimate"] for each in description["coefficients"]}
    rows = frame[:50].dropna(subset=["carrier"])
    by_carrier = {
        term: np.array([estimates[term, carrier] for carrier in rows["carrier"]])
        for term in ("carrier", "carrier:hour")
    }
    slope = estimates["hour", ""] + by_carrier["carrier:hour"]
    eta = (
        description["start"] + estimates["Intercept", ""] + by_carrier["carrier"] + slope * rows["hour"].to_numpy(float)
    )
    outputs = exported.predict(**columns(rows, exported.kinds))
    np.testing.assert_allclose(outputs["linear_predictor"], eta, rtol=1e-5, atol=1e-5)


def test_its_description_has_the_layers(file):
    of_network = design(file, "late ~ carrier + origin")
    settings = LayersConfig(hidden=[4, 2], activation="tanh", embedding={"origin": 1}, offset_from="exact")
    exported = ExportedNetwork(random_network(of_network, settings), of_network, {}, None)
    fit = {"layers": settings.model_dump(), "start": 0.3, "unit": 2.0, "rows": 2000, "steps": 10}
    description = exported.description(fit, {})
    assert description["hidden"] == [{"units": 4, "activation": "tanh"}, {"units": 2, "activation": "tanh"}]
    assert description["embeddings"] == {"carrier": 4, "origin": 1}
    assert (description["coefficients"], description["offset_from"]) == ([], "exact")


def test_integers_that_float64_cannot_tell_apart_are_refused(frame, tmp_path):
    file = ingest_frame(frame.assign(number=2**60 + frame["times"]), tmp_path, split=SPLIT)
    of_network = design(file, "late ~ C(number)")
    with pytest.raises(UserError, match=r"networks.m.export: `C\(number\)` has levels beyond 2\^53"):
        ExportedNetwork(random_network(of_network, LayersConfig(hidden=[2])), of_network, {}, None)


@pytest.mark.slow
def test_a_network_predicts_the_rows_of_a_frame(file, frame, tmp_path):
    of_network, settings = design(file, "late ~ carrier + origin + log(distance) + hour"), LayersConfig(hidden=[3])
    stored.save(random_network(of_network, settings), settings, tmp_path / "checkpoint")
    of_network.write(tmp_path / "design.json")
    fit = {"model": "m", "kind": "network", "formula": of_network.formula, "family": "binomial", "rows": 2000}
    fit |= {"layers": settings.model_dump(), "start": 0.3, "unit": 2.0, "provenance": {"model": {}}}
    fit |= provenance.identity(tmp_path / "design.json", tmp_path / "checkpoint")
    digests.write_json(tmp_path / "fit.json", fit)
    paths = {"design": "design.json", "checkpoint": "checkpoint", "fit": "fit.json"}
    arguments = argparse.Namespace(**{key: tmp_path / name for key, name in paths.items()}, offset=[])
    expected = pa.concat_tables(stored.predictions(arguments, of_network, fit, file, [])).to_pandas()
    model = tfglm.load(tmp_path)
    actual = model.predict(frame[PREDICTED])
    assert list(actual) == ["linear_predictor", "probability", "unseen", "remark"]
    assert actual.index.equals(frame.index[PREDICTED]) and "m: late ~" in repr(model)
    np.testing.assert_allclose(actual["probability"], expected["probability"], rtol=1e-6)
    assert (actual["remark"].fillna("").to_numpy() == expected["remark"].fillna("").to_numpy()).all()
    with pytest.raises(UserError, match="m is a network, whose predictions have no standard errors"):
        model.predict(frame[PREDICTED], std_errors=True)


def test_embeddings_are_named_and_counted(file, frame, tmp_path):
    of_network = design(file, "late ~ origin + carrier * C(times) + hour")
    settings = LayersConfig(hidden=[3], embedding={"origin": 1, "carrier": 3, "C(times)": 2})
    network = random_network(of_network, settings)
    stored.save(network, settings, tmp_path)
    table = embeddings.table(of_network, bundle.read(tmp_path / checkpoint.NETWORK), [file])
    assert list(table) == ["factor", "level", "rows", "dimension_1", "dimension_2", "dimension_3"]
    levels = {
        "origin": ["EWR", "JFK", "LGA"],
        "carrier": ["AA", "B6", "DL", "UA", "(missing)"],
        "C(times)": list("0123"),
    }
    assert {factor: list(rows["level"]) for factor, rows in table.groupby("factor")} == levels
    train = frame[frame["part"] == 0].fillna({"carrier": "(missing)"})
    for factor, column in (("origin", "origin"), ("carrier", "carrier"), ("C(times)", "times")):
        of_factor = table[table["factor"] == factor]
        assert of_factor["rows"].tolist() == [
            (train[column].astype(str) == level).sum() for level in of_factor["level"]
        ]
        layer = network.get_layer(embeddings.layer(of_network, factor))
        points = np.asarray(layer.embeddings)
        np.testing.assert_array_equal(of_factor.filter(like="dimension").dropna(axis="columns"), points)
    csv_files.write(table, tmp_path / "embeddings.csv")
    embeddings_plot(table, "m: embeddings", [tmp_path / "embeddings.svg"])
    drawn = (tmp_path / "embeddings.svg").read_text()
    assert all(f">{level}<" in drawn for of_factor in levels.values() for level in of_factor)


def test_a_network_without_factors_has_no_embeddings(file, tmp_path):
    of_network, settings = design(file, "late ~ hour + distance"), LayersConfig(hidden=[3])
    stored.save(random_network(of_network, settings), settings, tmp_path)
    table = embeddings.table(of_network, bundle.read(tmp_path / checkpoint.NETWORK), [file])
    assert list(table) == ["factor", "level", "rows"] and table.empty
    embeddings_plot(table, "m: embeddings", [tmp_path / "embeddings.svg"])
    assert "the formula has no factor" in (tmp_path / "embeddings.svg").read_text()


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_principal_components_are_those_of_scikit_learn(dimensions):
    points = np.random.default_rng(2).normal(size=(8, dimensions)) * np.arange(1, dimensions + 1)
    places, shares = principal_components(points)
    theirs = PCA(min(dimensions, 2)).fit(points)
    used = theirs.n_components_
    np.testing.assert_allclose(np.abs(places[:, :used]), np.abs(theirs.transform(points)), atol=1e-12)
    np.testing.assert_allclose(shares[:used], theirs.explained_variance_ratio_)
    assert (places[:, used:] == 0).all() and (places.max(axis=0) >= -places.min(axis=0)).all()
