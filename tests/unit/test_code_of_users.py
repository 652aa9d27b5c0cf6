"""The Python files that a network names, before any of it runs."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from tfglm.config import NetworkConfig, TrainingConfig, check_functions, located_code
from tfglm.errors import UserError

BUILD = "import keras\n\n\ndef build(inputs, settings):\n    return keras.layers.Dense(1)(inputs.all_numbers)\n"


def network(**keys) -> TrainingConfig:
    return TrainingConfig.model_validate({"model": "mine.py:build"} | keys)


def test_a_file_is_found_beside_the_config_unless_the_folder_of_the_run_has_it(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    (tmp_path / "mine.py").write_text(BUILD)
    assert located_code("mine.py", [Path("nowhere"), tmp_path]) == tmp_path / "mine.py"
    Path("mine.py").write_text(BUILD)
    assert located_code("mine.py", [tmp_path]) == Path("mine.py")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "networks.m.model: there is no file `mine.py`; did you mean `mime.py`?"),
        ("def biuld(inputs, settings): ...\n", "mine.py has no function `build`; did you mean `biuld`?"),
        ("x = 1\ndef build(inputs):\n    return inputs\n", "mine.py, line 2: `build` has to take 2 arguments"),
        ("def build(inputs, settings, *, width): ...\n", "mine.py, line 1: `build` has to take 2 arguments"),
        ("x = 1\ndef build(inputs, settings:\n", "mine.py, line 2: SyntaxError: "),
        ("x = '\0'\n", "mine.py"),
        (b"x = '\xff'\n", "mine.py"),
    ],
)
def test_what_is_not_there_is_refused_by_name(content, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mime.py").write_text("")
    if content is not None:
        Path("mine.py").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        check_functions(network(), "networks.m", [])
    assert str(raised.value).startswith("networks.m.model: ")


@pytest.mark.parametrize(
    "content",
    [
        BUILD,
        "def build(*given): ...\n",
        "from keras.applications import build\n",
        "from somewhere import *\n",
        "if True:\n    build = lambda inputs, settings: inputs\n",
        "class build:\n    def __new__(cls, inputs, settings): ...\n",
    ],
)
def test_whatever_may_define_the_function_is_left_to_the_run(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(content)
    check_functions(network(), "networks.m", [])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": "mine.py"}, "model"),
        ({"model": "mine:build"}, "model"),
        ({"settings": {"units": float("nan")}}, "(?s)settings.*only texts, finite numbers"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, message):
    whole = {"formula": "late ~ carrier", "family": "binomial", "model": "mine.py:build"} | keys
    with pytest.raises(ValidationError, match=message):
        NetworkConfig.model_validate(whole)


def test_the_config_holds_no_code():
    with pytest.raises(ValidationError, match="code: name a function in a Python file"):
        NetworkConfig.model_validate({"formula": "y ~ x", "family": "gaussian", "code": {"mine.py": BUILD}})


def test_settings_survive_the_way_to_a_job():
    settings = network(settings={"units": [1, 2], "name": "a b"}, wide=True)
    assert TrainingConfig.model_validate_json(settings.model_dump_json(exclude_defaults=True)) == settings
    assert settings.hidden == [] and settings.is_deep
