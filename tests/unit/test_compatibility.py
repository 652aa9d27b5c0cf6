"""Which keys of a model or a network go together: each pair of properties is tried, and what a model accepts is fitted."""

import itertools

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from pools import fit_files, ingest_frame
from tfglm.config import DesignConfig, ModelConfig, NetworkConfig, SolverConfig, network_conflicts
from tfglm.config.compatibility import CONFLICTS, PROPERTIES

EXAMPLES = {
    "a penalty (`l1`, `l2`, `path`)": {"l2": 0.1},
    "no penalty": {"l2": 0.0},
    "`l1` or `l2`": {"l2": 0.1},
    "`l1`": {"l1": 0.1},
    "a lasso (`l1`, `path`)": {"path": {}},
    "`path`": {"path": {}},
    "`path.select: aic`": {"path": {"select": "aic"}},
    "`unpenalised`": {"unpenalised": ["x"]},
    "`penalty_factors`": {"penalty_factors": {"x": 0.5}},
    "`bounds`": {"bounds": {"x": [0, None]}},
    "`firth`": {"firth": True},
    "`absorb`": {"absorb": ["plane"]},
    "`instruments`": {"instruments": "x ~ z"},
    "`absorb` with `instruments`": {"absorb": ["plane"], "instruments": "x ~ z"},
    "a family other than `gaussian`": {"family": "poisson"},
    "`std_errors` by leverage": {"std_errors": "HC3"},
    "a `formula` with smooth terms (`s()`, `te()`)": {"terms": "s(x, k=6) + g"},
    "`gamma` with `weights`": {"family": "gamma", "weights": "day"},
    "`tweedie`, `inverse_gaussian`, `beta` or a truncated family": {"family": "inverse_gaussian"},
    "`beta` or `truncated_negative_binomial`": {"family": "beta", "theta": 3.0},
    "`beta` or `truncated_negative_binomial` with an estimated `theta`": {"family": "truncated_negative_binomial"},
    "`truncated_poisson` or `truncated_negative_binomial`": {"family": "truncated_poisson"},
    "`collapse`": {"collapse": True},
    "an online `solver`": {"solver": "adagrad"},
    "`sgd`, `adagrad` or `adam`": {"solver": "adam"},
    "an online `solver` without `newton`": {"solver": "adagrad"},
    "`multinomial`": {"family": "multinomial"},
    "`multinomial` or `ordinal`": {"family": "ordinal", "class_order": ["a", "b", "c"]},
    "a family other than `ordinal`": {"family": "poisson"},
    "`class_order`": {"class_order": ["a", "b", "c"]},
    "a family other than `multinomial`": {"family": "poisson"},
    "a family other than `binomial` and `poisson`": {"family": "gamma"},
    "`tweedie`": {"family": "tweedie", "power": 1.5},
    "a family whose errors estimate the dispersion": {"family": "gaussian"},
    "an estimated `theta` or `power`": {"family": "negative_binomial"},
    "`link`": {"link": "log"},
    "a link that is not the default": {"link": "probit", "family": "binomial"},
    "link `inverse` or `1/mu^2`": {"link": "inverse", "family": "gamma"},
    "`gaussian` or `inverse_gaussian` with link `log`": {"family": "gaussian", "link": "log"},
    "`std_errors` other than `classical`": {"std_errors": "HC1"},
    "`std_errors: quasi`, by date or of a survey": {"std_errors": "driscoll_kraay(day)"},
    "`std_errors` other than `classical` and `quasi`": {"std_errors": "cluster(day)"},
    "`std_errors: unconditional`": {"std_errors": "unconditional"},
    "`method: ml`": {"method": "ml"},
    "no random effects, or smooth terms beside them": {"terms": "s(x, k=6) + g"},
    "no smooth terms": {},
    "`std_errors` other than `unconditional`": {"std_errors": "HC1"},
    "`std_errors: quasi`": {"std_errors": "quasi"},
    "`std_errors: quasi`, `HC2` or `HC3`": {"std_errors": "HC3"},
    "`std_errors` by date": {"std_errors": "driscoll_kraay(day)"},
    "`tests: likelihood_ratio`": {"tests": "likelihood_ratio"},
    "`profile`": {"profile": {"x": {"x": 1}}},
    "`hypotheses`": {"hypotheses": {"x": [{"x": 1}]}},
    "`pairwise`": {"pairwise": ["g"]},
    "`leverage`": {"leverage": True},
    "`export`": {"export": True},
    "`interval: prediction`": {"interval": "prediction"},
    "`offset`": {"offset": "z"},
    "`reference`": {"reference": {"g": "a"}},
    "`reference_class`": {"reference_class": "a"},
    "`threshold`": {"threshold": 0.4},
    "`adjusted_means: balanced`": {"adjusted_means": "balanced"},
    "`random_effects: integrated`": {"random_effects": "integrated"},
    "`margins_at`": {"margins_at": {"one": {"x": 1.0}}},
    "`comparison`": {"comparison": "ratio"},
    "`margins_contrasts`": {"margins_contrasts": {"one": {"one": 1.0}}},
    "no `margins_at`": {},
    "`marginal_effects: true`": {"marginal_effects": True},
    "`marginal_effects: false`": {"marginal_effects": False},
    "`adjust`": {"adjust": "holm"},
    "no `contrasts` and no `hypotheses`": {},
    "no `pairwise`": {},
    "`pairwise_at`": {"pairwise_at": {"x": [1.0]}},
}
"""Keys by which a model has a property, for each; `terms` are those of its formula, if they are not x and g."""

RESPONSES = {"gaussian": "y", "binomial": "late", "multinomial": "status", "ordinal": "status"}
RESPONSES |= dict.fromkeys(["gamma", "inverse_gaussian", "tweedie"], "amount")
RESPONSES |= {"beta": "share"} | dict.fromkeys(["truncated_poisson", "truncated_negative_binomial"], "some")
"""A column for each family; `count` for the others."""


def merged(*sections: dict) -> dict | None:
    """The keys of all sections; None if one key would need two values."""
    keys: dict = {}
    for given in sections:
        for key, value in given.items():
            if isinstance(value, dict) and isinstance(keys.get(key), dict):
                value = merged(keys[key], value)
            elif keys.get(key, value) != value:
                return None
            if value is None:
                return None
            keys[key] = value
    return keys


def together(one: str, other: str, **more) -> dict | None:
    """A model that has both properties, and `more` keys; None if one key would need two values."""
    keys = merged(EXAMPLES[one], EXAMPLES[other], more)
    if keys is None:
        return None
    keys = {"family": "gaussian"} | keys
    terms = keys.pop("terms", "x + g")
    return {"formula": f"{RESPONSES.get(keys['family'], 'count')} ~ {terms}"} | keys


PAIRS = list(itertools.combinations_with_replacement(PROPERTIES, 2))
EXCLUDED = {frozenset((conflict.one, conflict.other)) for conflict in CONFLICTS}


def refusal(keys: dict, config: type = ModelConfig) -> str:
    """Why a model is refused; empty if it is not."""
    try:
        config.model_validate(keys)
    except ValidationError as error:
        return str(error)
    return ""


def test_each_property_has_an_example_and_is_in_the_table():
    assert EXAMPLES.keys() == PROPERTIES.keys()
    assert {name for conflict in CONFLICTS for name in (conflict.one, conflict.other)} == PROPERTIES.keys()


@pytest.mark.parametrize("conflict", CONFLICTS, ids=lambda conflict: f"{conflict.one} with {conflict.other}")
def test_a_pair_of_the_table_is_refused(conflict):
    """Some properties are refused alone, without a family or a penalty that they need."""
    start = f"Value error, {conflict.key}: {conflict.reason.partition('{')[0]}"
    models = [together(conflict.one, conflict.other, **more) for more in ({}, {"family": "binomial"}, {"l2": 0.1})]
    said = [refusal(keys) for keys in models if keys]
    assert all(said)
    assert any(start in each for each in said), said


def test_each_other_pair_is_accepted():
    accepted = 0
    reasons = [f": {conflict.reason.partition('{')[0]}" for conflict in CONFLICTS]
    for pair in PAIRS:
        keys = together(*pair)
        if keys is None:
            continue
        if said := refusal(keys):
            assert any(reason in said for reason in reasons), (pair, said)
        else:
            accepted += 1
            assert frozenset(pair) not in EXCLUDED
    assert accepted > 400


MIRRORED, RING, SERVED = ({"strategy": name} for name in ("mirrored", "multi_worker_mirrored", "parameter_server"))

OF_NETWORKS = {
    "`hidden`": {"hidden": [8]},
    "`activation`": {"activation": "tanh"},
    "`kernel`": {"kernel": 5},
    "`pooling`": {"pooling": 3},
    "`dropout`": {"dropout": 0.1},
    "`embedding`": {"embedding": 4},
    "`batch_normalization`": {"batch_normalization": True},
    "`l1`": {"l1": 0.1},
    "`l2`": {"l2": 0.1},
    "`convolutions`": {"convolutions": [8]},
    "no `hidden`": {"hidden": []},
    "`model`": {"model": "mine.py:build"},
    "no `model`": {},
    "`settings`": {"settings": {"units": 3}},
    "`gpus`": {"gpus": 1},
    "no `gpus`": {"gpus": 0},
    "`gpus` above 1": {"gpus": 2},
    "`devices`": {"devices": 1},
    "`devices` above 1": {"devices": 2},
    "`workers`": {"workers": 2},
    "`workers: 1`": {"workers": 1},
    "`ps`": {"ps": 1},
    "`communication`": {"communication": "ring"},
    "`communication: nccl`": {"communication": "nccl"},
    "`synchronous`": {"synchronous": True},
    "`backup_workers`": {"backup_workers": 1},
    "`auto_shard: file`": {"auto_shard": "file"},
    "`steps_per_epoch`": {"steps_per_epoch": 5},
    "`last_step`": {"last_step": 9},
    "`strategy: one_device`": {"strategy": "one_device"},
    "`strategy: central_storage`": {"strategy": "central_storage"},
    "`strategy: tpu`": {"strategy": "tpu"},
    "`strategy: multi_worker_mirrored`": RING,
    "`strategy: parameter_server`": SERVED,
    "`parameter_server` without `synchronous: true`": {**SERVED, "synchronous": False},
    "a strategy of one process": MIRRORED,
    "a strategy of several processes": RING,
    "a strategy other than `multi_worker_mirrored`": MIRRORED,
    "a strategy other than `parameter_server`": MIRRORED,
    "`optimizer.clipnorm`": {"optimizer": {"clipnorm": 1.0}},
    "`optimizer.clipvalue`": {"optimizer": {"clipvalue": 1.0}},
    "`optimizer.global_clipnorm`": {"optimizer": {"global_clipnorm": 1.0}},
    "`optimizer.lazy: true`": {"optimizer": {"lazy": True}},
    "`optimizer.use_ema: true`": {"optimizer": {"use_ema": True}},
    "no `optimizer.use_ema: true`": {"optimizer": {"use_ema": False}},
    "`optimizer.ema_momentum`": {"optimizer": {"ema_momentum": 0.0}},
    "`optimizer.name: nadam`": {"optimizer": {"name": "nadam"}},
    "`optimizer.name: nadam` or `adamax`": {"optimizer": {"name": "adamax"}},
    "`search`": {"search": {"networks": 3}},
    "no `sweep`": {"sweep": {}},
    "`halving`": {"halving": {"min_epochs": 1}},
    "`offset`": {"offset": "z"},
    "`offset_from`": {"offset_from": "exact"},
    "`threshold`": {"threshold": 0.5},
    "`class_weights`": {"class_weights": "balanced"},
    "`label_smoothing`": {"label_smoothing": 0.1},
    "`multinomial`": {"family": "multinomial"},
    "a family other than `binomial` and `multinomial`": {"family": "poisson"},
}
"""Keys by which a network has a property, for each."""

STRATEGIES = ({}, RING, SERVED, {**SERVED, "synchronous": True})


def networks(one: str, other: str) -> list[dict]:
    """Networks that have both properties, under each of `STRATEGIES` that they do not exclude."""
    found = (merged(OF_NETWORKS[one], OF_NETWORKS[other], more) for more in STRATEGIES)
    return [{"formula": "y ~ x", "family": "binomial"} | keys for keys in found if keys is not None]


def test_each_property_of_a_network_has_an_example_and_is_in_the_table():
    assert OF_NETWORKS.keys() == network_conflicts.PROPERTIES.keys()
    listed = {name for conflict in network_conflicts.CONFLICTS for name in (conflict.one, conflict.other)}
    assert listed == network_conflicts.PROPERTIES.keys()


@pytest.mark.parametrize("conflict", network_conflicts.CONFLICTS, ids=lambda each: f"{each.one} with {each.other}")
def test_a_pair_of_the_table_of_networks_is_refused_by_its_key(conflict):
    said = [refusal(keys, NetworkConfig) for keys in networks(conflict.one, conflict.other)]
    assert all(said)
    assert any(f"Value error, {conflict.key}: {conflict.reason.partition('{')[0]}" in each for each in said), said


def test_each_other_pair_of_networks_is_accepted_or_refused_for_another_one():
    excluded = {frozenset((conflict.one, conflict.other)) for conflict in network_conflicts.CONFLICTS}
    starts = [f"error, {each.key}: {each.reason.partition('{')[0]}" for each in network_conflicts.CONFLICTS]
    starts += ["error, backup_workers: at least one of the 1 workers must not be a backup"]
    accepted = 0
    for pair in itertools.combinations_with_replacement(OF_NETWORKS, 2):
        for keys in networks(*pair):
            if said := refusal(keys, NetworkConfig):
                assert any(start in said for start in starts), (keys, said)
            else:
                accepted += 1
                assert frozenset(pair) not in excluded, keys
    assert accepted > 1000


@pytest.mark.drill
def test_each_pair_that_is_accepted_can_be_fitted(tmp_path):
    draw = np.random.default_rng(1)
    rows = 600
    frame = pd.DataFrame(
        {
            "x": draw.normal(size=rows).round(3),
            "z": draw.normal(scale=0.1, size=rows).round(3),
            "g": draw.choice(["a", "b", "c"], rows),
            "plane": draw.choice(["N1", "N2", "N3", "N4", "N5"], rows),
            "day": np.arange(rows) % 30 + 1,
        }
    )
    mean = np.exp(0.3 * frame["x"] + 0.5)
    frame["y"] = (frame["x"] + draw.normal(size=rows) + 9.0).round(4)
    frame["late"] = draw.binomial(1, 1 / (1 + np.exp(-frame["x"])))
    frame["count"] = draw.negative_binomial(2, 2 / (2 + mean))
    frame["amount"] = draw.gamma(3, mean / 3).round(5)
    frame["share"], frame["some"] = draw.beta(mean, 2.0), frame["count"] + 1
    frame["status"] = draw.choice(["a", "b", "c"], rows)
    file = ingest_frame(frame, tmp_path, split={"train": "day <= 24", "evaluate": "day > 24"})
    fitted = {}
    for pair in PAIRS:
        keys = together(*pair)
        if keys is None or refusal(keys):
            continue
        model = ModelConfig.model_validate(keys)
        design = {key: value for key, value in keys.items() if key in DesignConfig.model_fields}
        solver = SolverConfig.model_validate({k: v for k, v in keys.items() if k in SolverConfig.model_fields})
        settings = repr((design, solver))
        if settings in fitted:
            continue
        _, fitted[settings], _ = fit_files([file], design.pop("formula"), design.pop("family"), solver=solver, **design)
        summary = fitted[settings].summary
        assert np.isfinite(fitted[settings].coefficients).all(), (pair, keys)
        assert summary["converged"] or not model.is_exact, (pair, keys)
    assert len(fitted) > 100
