"""The config: what is shipped is valid, what is wrong is named with its place and remedy."""

import re

import polars
import pytest
import yaml
from pydantic import ValidationError

import document_config
from configs import FILES, LAYOUTS, MINIMAL, NAME, ROOT, SHIPPED, changed, message
from tfglm.config import Config, Layout, load, load_layout, shipped_layouts
from tfglm.config.cluster import ClusterConfig
from tfglm.config.data import DataConfig
from tfglm.config.messages import validated
from tfglm.config.models import ModelConfig
from tfglm.config.networks import NetworkConfig
from tfglm.config.pictures import PicturesConfig
from tfglm.config.tables import TablesConfig
from tfglm.errors import UserError

# What is shipped ------------------------------------------------------------------------------------------------------


def test_shipped_config_is_valid():
    config = load(yaml.safe_load((ROOT / "config/config.yaml").read_text()), "config/config.yaml")
    assert list(config.models) == ["late_arrival", "arrival_delay"]
    assert config.cluster == ClusterConfig(ps=1, workers=2) and config.cluster.strategy == "parameter_server"
    assert Config.model_validate(MINIMAL).cluster.strategy == "auto"


def test_shipped_layouts_name_every_column_of_their_files():
    assert len(load_layout("nycflights13").columns) == 19
    asa = load_layout("asa2009")
    assert len(asa.columns) == 29
    assert asa.columns["carrier"].source == "UniqueCarrier"


@pytest.mark.parametrize("layout", [name for name in shipped_layouts() if name != "images"])
def test_derived_columns_of_the_shipped_layouts(layout):
    rows = polars.DataFrame(
        {
            "year": [2013, 2008, 2008, None],
            "month": [1, 2, 3, 1],
            "day": [1, 29, 2, 1],
            "weekday": [2, 5, 7, None],
            "sched_dep_time": [515, 2400, 1, None],
        }
    )
    expected = rows["weekday"].to_list()
    if "date" in load_layout(layout).columns:
        rows = rows.with_columns(date=polars.date("year", "month", "day"))
    for name, expression in load_layout(layout).derive.items():
        rows = rows.with_columns(polars.sql_expr(expression).alias(name))
    assert rows["dep_hour"].to_list() == [5, 0, 0, None]
    assert rows["weekday"].to_list() == expected, "1 = Monday; 2013-01-01 was a Tuesday"
    assert rows["date"].dt.to_string().to_list() == ["2013-01-01", "2008-02-29", "2008-03-02", None]


EXAMPLES = [
    (f"{page}, example {number}", yaml.safe_load(text))
    for page in (
        "README.md",
        "config/README.md",
        *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs/config").glob("*.md")),
    )
    for number, text in enumerate(re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL), 1)
]


def laid_over(default: dict, example: dict) -> dict:
    """As Snakemake lays a file of `--configfile` over the one before: sections key by key, everything else as a whole."""
    both = {
        key: laid_over(default[key], example[key])
        for key in default.keys() & example.keys()
        if type(default[key]) is dict
    }
    return {**default, **example, **both}


@pytest.mark.parametrize("example", [raw for _, raw in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_examples_of_the_documentation_are_valid(example, tmp_path):
    """Each can be used as it stands: instead of the default config if it has files of its own, else laid over it."""
    if "data" not in example and "columns" in example:
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(example))
        assert load_layout(str(tmp_path / "mine.yaml")).columns.keys() == example["columns"].keys()
        return
    is_whole = {"files", "split", "columns"} <= example.get("data", {}).keys()
    config = load(example if is_whole else laid_over(SHIPPED, example), "the example")
    assert set(example.get("models", {})) <= set(config.models) | {"ridge", "late"}


def test_the_examples_of_sweeps_are_several_models():
    networks, example = (raw for _, raw in EXAMPLES if "sweep" in str(raw) and "compare" in raw)
    loaded = load(laid_over(SHIPPED, networks), "the example")
    assert loaded.compare == [f"late_network_{number}" for number in range(1, 5)]
    swept = [(network.hidden, network.optimizer.learning_rate) for network in loaded.networks.values()]
    assert swept == [([32], 0.01), ([32], 0.001), ([64, 32], 0.01), ([64, 32], 0.001)]
    assert load(laid_over(SHIPPED, example), "the example").compare == ["ridge_1", "ridge_2", "ridge_3"]


def test_schema_and_readme_say_what_the_models_say():
    assert document_config.drifted() == [], "run `python docs/site/document_config.py`"


# What is accepted -----------------------------------------------------------------------------------------------------


def test_levels_that_yaml_reads_as_numbers_or_truth_values_are_text():
    config = load(changed("models.late_arrival.reference", {"C(month)": 1, "weekend": False, "carrier": "UA"}), "x")
    assert config.models["late_arrival"].reference == {"C(month)": "1", "weekend": "false", "carrier": "UA"}


def test_numbers_given_on_the_command_line_are_text_that_is_read():
    """As of `snakemake --config 'cluster={workers: 8}'`."""
    assert load(changed("cluster.workers", "8"), "x").cluster.workers == 8
    assert load(changed("models.late_arrival.confidence", "0.9"), "x").models["late_arrival"].confidence == 0.9


def test_single_condition_is_its_own_name():
    assert load(changed("data.where", "distance > 0"), "x").data.where == {"distance > 0": "distance > 0"}


def test_column_of_a_layout_may_be_its_type_alone():
    layout = Layout.model_validate({"columns": {"carrier": "string", "dest": {"type": "string", "source": "Dest"}}})
    assert (layout.columns["carrier"].type, layout.columns["carrier"].source) == ("string", "carrier")
    assert layout.columns["dest"].source == "Dest"


def searched(networks: int, **keys) -> dict:
    """The networks of a search, by name."""
    sweep = {
        "hidden": [[32], [64, 32]],
        "batch_size": {"low": 100, "high": 400},
        "optimizer.learning_rate": {"low": 0.001, "high": 0.1, "scale": "log"},
    }
    network = {"formula": "late ~ carrier", "family": "binomial", "sweep": sweep, "search": {"networks": networks}}
    return load(SHIPPED | {"models": {}, "networks": {"n": network | keys}}, "x").networks


def test_a_search_draws_combinations_at_random_and_a_longer_one_keeps_them():
    networks = searched(40)
    assert list(networks) == [f"n_{number}" for number in range(1, 41)]
    rates = [network.optimizer.learning_rate for network in networks.values()]
    assert 0.001 <= min(rates) < 0.005 and 0.02 < max(rates) <= 0.1 and 12 < sum(rate < 0.01 for rate in rates) < 28
    sizes = [network.batch_size for network in networks.values()]
    assert all(isinstance(size, int) and 100 <= size <= 400 for size in sizes) and len(set(sizes)) > 20
    assert {tuple(network.hidden) for network in networks.values()} == {(32,), (64, 32)}
    assert all(network.sweep == {} and network.search is None for network in networks.values())
    assert list(searched(10).values()) == list(networks.values())[:10]
    assert searched(10, search={"networks": 10, "seed": 2})["n_1"] != networks["n_1"]
    assert len(searched(4, sweep={"hidden": [[1], [2]], "wide": [True, False]})) == 4


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"sweep": {"hidden": [[1], [2]]}, "search": {"networks": 3}},
            r"networks.n.search: only 2 combinations were found",
        ),
        ({"search": {"networks": 3000}}, r"networks.n.search.networks: expected an integer >= 1 and <= 1000"),
        ({"search": None}, r"networks.n: sweep.batch_size: a range has no list of values; add `search"),
        ({"sweep": {"dropout": {"low": 0.5, "high": 0.1}}}, r"low: 0.5 is not below high: 0.1"),
        ({"sweep": {"l2": {"low": 0, "high": 0.1, "scale": "log"}}}, r"low: 0 has no logarithm"),
        (
            {"sweep": {"dropout": {"low": 0.5, "high": 7.0}}},
            r"networks.n.sweep.dropout: expected a number >= 0 and < 1",
        ),
    ],
)
def test_mistakes_in_a_search_are_refused_with_their_place(keys, message):
    with pytest.raises(UserError, match=message):
        searched(5, **keys)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"sweep": {}, "search": None}, "networks.n.halving: there is no `sweep` whose networks it compares; add one"),
        (
            {"sweep": {"formula": ["late ~ carrier", "late ~ origin"]}, "search": None},
            "networks.n.halving: the losses of networks that differ in `formula` cannot be compared; take",
        ),
        (
            {"sweep": {"halving.factor": [2, 3]}, "search": None},
            r"networks.n.halving: the losses of networks that differ in `halving.factor` cannot be compared",
        ),
        ({"halving": {"min_epochs": 5}}, "networks.n: halving.min_epochs: 5 is not below epochs: 5, so no network"),
        ({"halving": {"factor": 1}}, "networks.n.halving.factor: expected an integer >= 2, received 1"),
        ({"halving": {"eta": 3}}, "networks.n.halving.eta: unknown key; the keys here are min_epochs, factor"),
    ],
)
def test_a_sweep_whose_networks_cannot_be_compared_is_refused(keys, message):
    assert searched(5, halving={})["n_3"].halving.factor == 3
    with pytest.raises(UserError, match=message):
        searched(5, **({"halving": {}} | keys))


def test_halving_needs_rows_to_evaluate_on():
    network = {"formula": "late ~ carrier", "family": "binomial", "sweep": {"hidden": [[1], [2]]}, "halving": {}}
    shipped = SHIPPED | {
        "data": SHIPPED["data"] | {"split": {"train": "TRUE"}},
        "models": {},
        "networks": {"n": network},
    }
    with pytest.raises(
        UserError, match=r"networks.n.halving: there are no rows to evaluate on; add data.split.evaluate"
    ):
        load(shipped, "x")


def test_mistakes_in_a_sweep_of_networks_have_the_place_in_the_config():
    network = {"formula": "late ~ carrier", "family": "binomial", "sweep": {"optimizer.learning_rate": [0.1, -1]}}
    with pytest.raises(UserError, match=r"^x: networks.n.sweep.optimizer.learning_rate: expected a number > 0.*-1$"):
        load({**SHIPPED, "networks": {"n": network}}, "x")
    network["sweep"] = {"batch_size": [1, 2], "seed": list(range(600))}
    with pytest.raises(UserError, match=r"networks.n.sweep: 1,200 combinations"):
        load({**SHIPPED, "networks": {"n": network}}, "x")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"optimizer": {"learning_rate": {"schedule": "exponential", "initial_learning_rate": 1}}},
            "optimizer.learning_rate: schedule `exponential` needs `decay_rate`; add it",
        ),
        (
            {"optimizer": {"learning_rate": {"schedule": "cosine", "initial_learning_rate": 1, "decay_steps": 0}}},
            "optimizer.learning_rate.decay_steps: expected an integer >= 1, received 0",
        ),
        ({"class_weights": {"1": -1}}, "class_weights.1: expected a number >= 0"),
    ],
)
def test_a_mistake_in_one_of_two_forms_is_the_only_one_that_is_reported(keys, message):
    network = {"formula": "late ~ carrier", "family": "binomial"} | keys
    with pytest.raises(UserError) as raised:
        load({**SHIPPED, "networks": {"n": network}}, "x")
    assert str(raised.value).startswith(f"x: networks.n.{message}") and "\n" not in str(raised.value)


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("models.late_arrival.famly", "x", ": unknown key; did you mean `family`?"),
        (
            "cluster.zzz",
            1,
            ": unknown key; the keys here are strategy, ps, workers, nodes, patience, stall, isolate, fetch",
        ),
        ("cluster.workers", 0, ": expected an integer >= 1, received 0"),
        ("cluster.workers", True, ": expected an integer >= 1, received true"),
        ("models.late_arrival.online.batch_size", 9000, ": expected an integer >= 1 and <= 8192, received 9000"),
        (
            "cluster.strategy",
            "multi_worker_miror",
            ": expected `parameter_server`, `multi_worker_mirrored`, "
            '`one_device` or `auto`, received "multi_worker_miror"; did you mean `multi_worker_mirrored`?',
        ),
        (
            "cluster",
            {"strategy": "multi_worker_mirrored", "workers": 1},
            ": workers: `multi_worker_mirrored` needs two or more; use `one_device`",
        ),
        ("cluster.patience", 5, ": expected an integer >= 10, received 5"),
        ("data.layout", 5, ": expected text or a list of text, received 5"),
        (
            "data.split",
            ...,
            ": missing; give a section with the keys train, evaluate, predict. "
            "Which rows are fitted and which are kept to evaluate the fit.",
        ),
        ("data.split.train", True, ": expected text, received true; put it in quotes if it is meant as text"),
        ("data.files", "a.csv", f': expected {FILES}, received "a.csv"'),
        ("data.files", [], f": expected {FILES}, received nothing"),
        (
            "data.files",
            [{"path": "a.csv", "sha256": "0" * 64}],
            " (entry 1): `sha256` is for addresses (http://, https://), not for `a.csv`; remove it",
        ),
        (
            "data.files",
            [{"path": "a.csv", "query": "TABLE a"}],
            " (entry 1): `query` is for databases (postgresql://), not for `a.csv`; remove it",
        ),
        (
            "data.files",
            ["postgresql://me:secret@host/a"],
            " (entry 1): `postgresql://***@host/a` is a database; give the `query` that selects the rows",
        ),
        ("data.rare", {"carrier": 0}, ".carrier: expected an integer >= 1, received 0"),
        ("data.bad_rows", "skip", ': expected `error` or `drop`, received "skip"'),
        ("data.derive", {"file": "1"}, ": `file` is a column that every file has; choose another name"),
        ("data.columns", ["late", "a b"], f' (entry 2): expected {NAME}, received "a b"'),
        ("data.columns", ["late", "late"], ": `late` is listed more than once; keep one"),
        ("data.derive", {"new col": "1"}, f'.new col: expected {NAME}, received "new col"'),
        ("models", {}, ": there is nothing to fit; give a regression under `models` or a network under `networks`"),
        ("models.2fast", MINIMAL["models"]["late_arrival"], f': expected {NAME}, received "2fast"'),
        (
            "models.late_arrival.std_errors",
            "HC4",
            ": expected `classical`, `quasi`, `robust`, `HC3`, `cluster(column)`, "
            "`cluster(date + tailnum)`, `driscoll_kraay(date)`, `newey_west(date, lags=5)`, "
            '`survey(school, strata=region, fpc=schools)` or `unconditional`, received "HC4"',
        ),
        (
            "models.late_arrival.family",
            "binomal",
            ": expected `gaussian`, `binomial`, `beta`, `poisson`, `gamma`, `inverse_gaussian`, `negative_binomial`, "
            '`truncated_poisson`, `truncated_negative_binomial`, `tweedie`, `multinomial` or `ordinal`, received "binomal"; '
            "did you mean `binomial`?",
        ),
        ("models.late_arrival.confidence", 1, ": expected a number > 0 and < 1, received 1"),
        ("models.late_arrival.theta", -1, ": expected a number > 0 and <= 1000000000 or `estimate`, received -1"),
        ("models.late_arrival.power", "guess", ': expected a number > 1 and < 2 or `estimate`, received "guess"'),
        (
            "models.late_arrival.reference",
            {"speed": 1.5},
            ".speed: expected text or an integer or true or false, received 1.5",
        ),
        (
            "fit",
            ["late_arival"],
            ": no model is named `late_arival`; did you mean `late_arrival`? The models are late_arrival",
        ),
        ("fit", ["x"], ": no model is named `x`. The models are late_arrival"),
        (
            "models.late_arrival.contrasts",
            {"none": {"carrier[UA]": 0}},
            ".none: {'carrier[UA]': 0.0} has no coefficient with a weight other than 0; remove it, or give it some",
        ),
    ],
)
def test_refused_with_place_and_remedy(path, value, expected):
    assert message(load, changed(path, value), "config/config.yaml") == f"config/config.yaml: {path}{expected}"


@pytest.mark.parametrize(
    ("strategy", "reason", "instead"),
    [
        ("mirrored", "loops for one processor", "use `multi_worker_mirrored` or `parameter_server`"),
        ("central_storage", "loops for one processor", "use `parameter_server`"),
        ("tpu", "too few for the sums of an exact fit", "use `parameter_server`"),
        ("horovod", "builds with no TensorFlow", "use `multi_worker_mirrored`"),
    ],
)
def test_a_strategy_that_no_regression_has_is_refused_with_the_reason(strategy, reason, instead):
    refused = message(load, changed("cluster.strategy", strategy), "config/config.yaml")
    assert refused.startswith(f"config/config.yaml: cluster.strategy: no `{strategy}`: ")
    assert reason in refused and instead in refused


def test_models_of_other_weights_are_not_compared():
    models = {
        "plain": MINIMAL["models"]["late_arrival"],
        "weighted": MINIMAL["models"]["late_arrival"] | {"frequency": "n"},
    }
    raw = MINIMAL | {"models": models, "compare": ["plain", "weighted"]}
    expected = "compare: `plain` and `weighted` are not of the same rows, as their `frequency` are none and n; take one"
    assert expected in message(load, raw, "c.yaml")


def test_every_problem_is_reported_at_once():
    raw = changed("cluster", {"ps": 0, "workers": "two"})
    assert message(load, raw, "c.yaml").splitlines() == [
        "c.yaml: cluster.ps: expected an integer >= 1, received 0",
        'c.yaml: cluster.workers: expected an integer >= 1, received "two"',
    ]


def test_empty_config():
    keys = "data, models, networks, terms, fit, compare, score, results, pictures, tables, cluster"
    assert message(load, None, "c.yaml") == f"c.yaml: expected a section with the keys {keys}, received nothing"


def test_config_does_not_change():
    with pytest.raises(ValueError, match="frozen"):
        load(MINIMAL, "x").cluster.workers = 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "columns: {a: strng}",
            'columns.a.type: expected `string`, `integer`, `number`, `date`, `clock` or `image`, received "strng"',
        ),
        (
            "columns: {a: {source: A}}",
            "columns.a.type: missing; give `string`, `integer`, `number`, `date`, `clock` or `image`. How",
        ),
        ("columns: {random: integer}", "`random` is a column that every file has; choose another name"),
        (
            "columns: {a: integer}\nencoding: utf-16",
            "encoding: CSV cannot be read as `utf-16`; convert the files to utf-8",
        ),
        ("columns: {a: integer}\nafter_departure: [b]", "after_departure: no column `b`"),
        (
            "columns: {a: {type: integer, format: '%Y'}}",
            "columns.a: `format` is for columns of type date or clock, and this column has type ",
        ),
        ("columns: {a: integer}\nmising: [x]", "mising: unknown key; did you mean `missing`?"),
    ],
)
def test_layout_refused_with_place_and_remedy(tmp_path, text, expected):
    mine = tmp_path / "mine.yaml"
    mine.write_text(text)
    assert message(load_layout, str(mine)).startswith(f"{mine}: {expected}")


def test_layout_that_is_not_yaml(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("columns:\n  a: string\n  b: integer: 1\n")
    assert message(load_layout, str(mine)).startswith(f"{mine}, line 3: this is not YAML: ")


def test_layout_that_does_not_exist(tmp_path):
    assert message(load_layout, "asa2010") == (
        "data.layout: no layout is named `asa2010`; did you mean `asa2009`? "
        f"The layouts in {LAYOUTS} are asa2009, bts_custom, bts_prezip, bts_prezip_old, images, "
        "kaggle2015, kaggle2018, nycflights13; one of your own is given by the path of its .yaml file"
    )
    (tmp_path / "mine.yaml").touch()
    assert message(load_layout, str(tmp_path / "mien.yaml")) == (
        f"data.layout: there is no file `{tmp_path}/mien.yaml`; did you mean `mine.yaml`?"
    )


def test_two_sections_that_are_none_are_both_refused():
    refused = message(load, {"data": "", "models": {}, "tables": "distance"}, "config.yaml")
    assert "config.yaml: data:" in refused and "config.yaml: tables:" in refused


@pytest.mark.parametrize("wrong", [3.5, "\n", [[[0.5]]], {"g": {"h": [[0.5]]}}, None])
@pytest.mark.parametrize(
    ("place", "section"),
    [
        (["data"], DataConfig),
        (["models", "m"], ModelConfig),
        (["networks", "n"], NetworkConfig),
        (["cluster"], ClusterConfig),
        (["pictures"], PicturesConfig),
        (["tables"], TablesConfig),
        ([], Layout),
    ],
)
def test_each_key_of_a_wrong_shape_is_named_with_what_is_expected(place, section, wrong):
    """All keys of a section at once: `missing: g` beside `rare: g` was refused without a word."""
    keys = section.model_fields.keys() - {"sweep"}  # of which a mistake comes first
    raw = {key: wrong for key in section.model_fields if key in keys}
    with pytest.raises(ValidationError) as refusal:
        section.model_validate(raw)
    refused = {error["loc"][0] for error in refusal.value.errors() if error["loc"]}
    for name in reversed(place):
        raw = {name: raw}
    lines = message(validated, Config if place else section, raw, "c.yaml").splitlines()
    path = "".join(f"{name}." for name in place)
    matches = (re.fullmatch(rf"c\.yaml: {re.escape(path)}(\w+)[^:]*: (.*)", line) for line in lines)
    named = {match[1]: match[2] for match in matches if match}
    assert refused - named.keys() == set()
    for remark in named.values():
        assert len(remark.split()) > 2 and not re.search(r"expected (or|,|$)|function-|list\[|\. $", remark), remark
