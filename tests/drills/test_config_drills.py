"""Drill: thousands of configs, most of them wrong. Each is a design in the end, or an error that says what to mend."""

import contextlib
import json
import re
import signal
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import config_cases
from runs import planned, snakemake
from tfglm.addresses import is_address
from tfglm.config import (
    DesignConfig,
    SelectionConfig,
    column_problems,
    expand_files,
    fetched,
    load,
    load_layouts,
    secret_addresses,
    settings_to_score,
)
from tfglm.data.dictionary import merge
from tfglm.data.ingest import ingest
from tfglm.data.layouts import recognised
from tfglm.data.packages import located
from tfglm.data.shards import IngestedFile
from tfglm.design.build import build_design
from tfglm.design.checks import check_groups
from tfglm.design.design import Design
from tfglm.design.early import model_problems
from tfglm.design.references import check_contrasts, check_reference
from tfglm.errors import UserError
from tfglm.results.predict import check_identity

CASES = 2000
SECONDS = 60
"""Time that a config may take. On a free machine most take milliseconds."""


class TooSlow(BaseException):
    pass


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(*_):
        raise TooSlow(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Stages:
    """What a run does with a config before a fit, in this process. Ingested files are kept for the configs that share them."""

    def __init__(self, folder: Path):
        self.folder, self.ingested = folder, {}

    def run(self, raw: Any) -> str:
        """The name of the last stage. Raises UserError."""
        config = load(raw, "config/config.yaml")
        to_score = config.data.model_copy(update={"files": config.score})
        layouts = load_layouts(config.data) | load_layouts(to_score)
        files, scored = expand_files(config.data), expand_files(to_score)
        secret_addresses(fetched([*files.values(), *scored.values()]))
        for file in scored.values():
            if not is_address(file.source):
                possible = {name: layouts[name] for name in file.layouts}
                recognised(located(file.source), possible, settings_to_score(config))
        of_files, chosen_layouts = [], {}
        for name, file in files.items():
            if is_address(file.source):
                return "fetch"
            possible = {name: layouts[name] for name in file.layouts}
            path = located(file.source)
            known = recognised(path, possible, config.data)
            of_files.append(self.ingest(path, name, {known.name: known.layout}, config.data))
            chosen_layouts[known.name] = known.layout
        early = [*column_problems(config, layouts.values()), *model_problems(config, chosen_layouts).messages]
        dictionary = merge(of_files, config.data.missing, config.data.rare)
        made = [name.partition(".")[2] for name in config.models_to_fit][:4]
        for name in made:
            model = config.models[name]
            settings = model.model_dump_json(include=set(DesignConfig.model_fields), exclude_defaults=True)
            design = build_design(name, DesignConfig.model_validate_json(settings), dictionary, of_files)
            check_reference(design, json.loads(json.dumps(model.reference)))
            check_contrasts(design, model.contrasts)
            for file in of_files:
                check_identity(f"models.{name}", file, [*model.identity, *model.by])
            if dictionary.rows["evaluate"]:
                check_groups(f"models.{name}", of_files, model.by)
            assert Design.from_json(design.as_json).as_json == design.as_json
            list(design.coefficients())
        assert not early or len(made) < len(config.models_to_fit), (
            f"refused before ingest, though it can be fitted: {early}"
        )
        return "design"

    def ingest(self, path: Path, name: str, layouts: dict, settings: SelectionConfig) -> IngestedFile:
        settings = SelectionConfig.model_validate(settings.model_dump(include=set(SelectionConfig.model_fields)))
        key = (str(path), name, str(layouts), settings.model_dump_json())
        if key not in self.ingested:
            folder = self.folder / f"ingested{len(self.ingested)}"
            ingest(path, name, layouts, settings, folder)
            self.ingested[key] = IngestedFile.load(folder / "manifest.json")
        return self.ingested[key]


def is_readable(message: str) -> bool:
    """Whether a message can be printed, and says something."""
    hidden = [letter for letter in message if unicodedata.category(letter) in ("Cc", "Cs", "Cf") and letter != "\n"]
    return bool(message.strip()) and not hidden and "secret" not in message


@pytest.fixture
def stages(tmp_path, monkeypatch) -> Stages:
    monkeypatch.chdir(tmp_path)
    config_cases.frame().to_csv("flights.csv", index=False)
    Path("mine.yaml").write_text(yaml.safe_dump(config_cases.LAYOUT))
    return Stages(tmp_path / "stages")


def outcome(stages: Stages, raw: Any) -> str:
    """The last stage, `refused`, or a defect."""
    try:
        with limited(SECONDS):
            return stages.run(raw)
    except UserError as error:
        return "refused" if is_readable(str(error)) else f"DEFECT: the message {str(error)[:300]!r}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"DEFECT: {type(error).__name__}: {str(error)[:300]!r}"


def defects(outcomes: dict) -> str:
    return "\n".join(f"{seed}: {each}" for seed, each in outcomes.items() if each.startswith("DEFECT"))


@pytest.mark.parametrize("raw", config_cases.VALID)
def test_the_configs_that_are_changed_are_valid(stages, raw):
    assert outcome(stages, raw) == "design"


def test_a_file_to_score_may_have_a_layout_of_its_own(tmp_path):
    config_cases.frame().to_csv(tmp_path / "flights.csv", index=False)
    for name in ("mine.yaml", "theirs.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(config_cases.LAYOUT))
    (tmp_path / "config").mkdir()
    raw = config_cases.VALID[1] | {"score": [{"path": "flights.csv", "layout": "theirs.yaml"}]}
    (tmp_path / "config" / "config.yaml").write_text(yaml.safe_dump(raw))
    assert planned(tmp_path, "score")["ingest_to_score"] == 1


@pytest.mark.drill
def test_every_config_is_used_or_refused_with_a_reason(stages):
    outcomes = {seed: outcome(stages, config_cases.case(seed)) for seed in range(CASES)}
    assert not defects(outcomes)
    assert min(list(outcomes.values()).count(each) for each in ("design", "refused")) > CASES / 20


@pytest.mark.drill
def test_snakemake_uses_or_refuses_a_config_with_a_reason(tmp_path):
    """The same through Snakemake itself, which reads the config first."""
    config_cases.frame().to_csv(tmp_path / "flights.csv", index=False)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(config_cases.LAYOUT))
    (tmp_path / "config").mkdir()
    outcomes = {}
    for seed in range(10_000, 10_030):
        text = yaml.dump(config_cases.case(seed), allow_unicode=True)
        (tmp_path / "config" / "config.yaml").write_text(text, encoding="utf-8", errors="backslashreplace")
        done = snakemake(tmp_path, "--dry-run")
        reason = re.search(r"(?:WorkflowError.*|error):\n(.+)", done.stdout)
        outcomes[seed] = "planned" if done.returncode == 0 else reason[1] if reason else f"DEFECT: {done.stdout[-500:]}"
        if "Traceback" in done.stdout or "secret" in done.stdout:
            outcomes[seed] = f"DEFECT: {done.stdout[-500:]}"
    assert not defects(outcomes)
