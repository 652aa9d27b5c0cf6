"""What the rules ask: paths, patterns, the files of each model, and the processes of a fit."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tfglm.config import Config
from tfglm.workflow.models import USUAL_TABLES, PlannedModel, variants
from tfglm.workflow.paths import Paths
from tfglm.workflow.processes import Processes, RoleCounts
from tfglm.workflow.values import any_but, json_of, one_of

FORMULA = {"formula": "late ~ carrier", "family": "binomial"}
DATA = {"files": ["2006.csv"], "columns": ["late", "carrier"], "split": {"train": "TRUE", "evaluate": "FALSE"}}


def planned(images: frozenset[str] = frozenset(), **sections: dict) -> dict[str, PlannedModel]:
    config = Config.model_validate({"data": DATA, **sections})
    return {name: PlannedModel(name, model, True, images) for name, model in config.all_models.items()}


def test_results_logs_and_times_have_the_name_of_the_config_below_a_prefix():
    paths = Paths("results/few", lambda folder: f"below/{folder}")
    assert (paths.results, paths.logs, paths.timings) == ("below/results/few", "below/logs/few", "below/timings/few")
    assert paths.of(["a", "b"], "fit.json", "design.json")[1:3] == [
        "below/results/few/models/a/design.json",
        "below/results/few/models/b/fit.json",
    ]


def test_patterns_match_the_names_that_they_are_for():
    assert not re.fullmatch(one_of([]), "")
    assert [bool(re.fullmatch(one_of(["a.b", "c"]), name)) for name in ("a.b", "axb", "c")] == [True, False, True]
    pattern = re.compile(f"models/({any_but(['deep'])})/fit.json")
    assert pattern.fullmatch("models/deeper/fit.json") and not pattern.fullmatch("models/deep/fit.json")


def test_a_param_is_ascii_and_ends_no_script():
    assert json_of({"a": "</script> ä"}) == '{"a": "\\u003c/script> \\u00e4"}'


def test_a_model_has_the_files_that_its_section_asks_for():
    usual, more = planned(models={"m": FORMULA, "n": {**FORMULA, "vcov": True, "marginal_effects": False}}).values()
    assert usual.tables == USUAL_TABLES and more.tables == ("coefficients", "terms", "vcov")
    assert usual.pictures == ("history", "coefficients", "metrics")
    assert usual.evaluations == ("metrics.json", "checks.json", "averages.npz", "averages.sha256")
    assert more.evaluations == ("metrics.json", "checks.json")


def test_a_hidden_layer_embeds_factors_and_no_images():
    networks = {"networks": {"deep": {**FORMULA, "hidden": [3]}}}
    assert planned(**networks)["deep"].tables == ("embeddings",)
    assert planned(frozenset({"carrier"}), **networks)["deep"].tables == ()


def test_models_with_the_same_files_share_a_variant_of_a_rule():
    models = planned(
        models={"m": FORMULA, "n": {**FORMULA, "vcov": True}, "o": {**FORMULA, "vcov": True}},
        networks={"deep": {**FORMULA, "hidden": [3]}},
    )
    found = {each.name: each for each in variants("write", models, lambda model: model.tables, USUAL_TABLES)}
    assert list(found) == ["write", "write_vcov", "write_network_embeddings"]
    assert found["write_vcov"].models == "n|o" and found["write_network_embeddings"].of_networks
    # Names that are in no config come to the first variant, which refuses them.
    names = [name for name in ("m", "n", "deep", "unknown") if re.fullmatch(found["write"].models + "/x", f"{name}/x")]
    assert names == ["m", "unknown"]


@pytest.mark.parametrize(
    ("cluster", "counts", "rosters"),
    [
        ({"workers": 2, "ps": 1}, (1, 2, 0), ["ps.json", "workers.json"]),
        ({"strategy": "multi_worker_mirrored", "workers": 3}, (0, 0, 2), ["peers.json"]),
    ],
)
def test_a_fit_has_the_processes_of_its_strategy(cluster, counts, rosters):
    config = Config.model_validate({"data": DATA, "models": {"m": FORMULA}, "cluster": cluster})
    plan = SimpleNamespace(
        config=config,
        paths=Paths("results/few", str),
        networks_where=lambda holds: "(?!)",
        strategy="parameter_server",
        workflow=SimpleNamespace(resource_settings=SimpleNamespace(cores=8, nodes=None)),
    )
    processes, wildcards = Processes(plan), SimpleNamespace(model="m")
    assert processes.roles(wildcards) == RoleCounts(*counts)
    assert [Path(roster).name for roster in processes.rosters(wildcards)] == rosters
    assert processes.threads(wildcards) == counts[1] + counts[2] + 1
