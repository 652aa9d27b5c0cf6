"""What the documents say of the repository: links that lead somewhere, files that are there, terms that are explained once,
figures that are those of the tables beside them."""

import importlib
import json
import re
from operator import attrgetter
from pathlib import Path

import pandas as pd
import pytest

from tfglm.report.glossary import WORDS

REPOSITORY = Path(__file__).parents[2]
PAGES_OF_THE_CONFIG = sorted((REPOSITORY / "docs/config").glob("*.md"))
DOCUMENTS = (
    "README.md",
    "config/README.md",
    "profiles/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    *sorted(str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs").rglob("*.md")),
)


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    page = REPOSITORY / document
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    for link in (link for link in links if not link.startswith("https://")):
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not fragment or fragment in anchors(target), link


def test_the_contents_of_the_config_link_to_every_page_and_every_question():
    linked = re.findall(r"\]\(\.\./docs/config/([^)]+)\)", (REPOSITORY / "config/README.md").read_text())
    questions = [
        f"{page.name}#{anchor(heading)}"
        for page in PAGES_OF_THE_CONFIG
        for heading in re.findall(r"^## (.+\?)$", page.read_text(), flags=re.MULTILINE)
    ]
    assert len(questions) > 30
    assert {page.name for page in PAGES_OF_THE_CONFIG} | set(questions) == set(linked)


def test_the_architecture_names_files_that_are_there():
    text = (REPOSITORY / "docs/architecture.md").read_text()
    named = re.findall(r"`((?:config|docs|profiles|scripts|tests|workflow)/[\w./-]*|Snakefile|Makefile)`", text)
    assert len(named) > 20
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_the_profiles_name_drills_that_are_there():
    """The table of interruptions, and where each was seen."""
    named = set(re.findall(r"`(test_\w+)`", (REPOSITORY / "profiles/README.md").read_text()))
    there = {
        name
        for file in (REPOSITORY / "tests/slurm").glob("*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert len(named) > 8 and named <= there


def test_the_glossary_explains_each_term_once_in_alphabetical_order():
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", (REPOSITORY / "docs/glossary.md").read_text(), flags=re.MULTILINE)[1:]
    terms = [term.casefold() for term, _ in rows]
    assert terms == sorted(set(terms))
    words = {word.strip() for term in terms for word in re.sub(r"\(.*?\)", "", term).split(",")}
    for _, meaning in rows:
        for word in re.findall(r"\*([^*]+)\*", re.sub(r"`.*?`", "", meaning)):
            assert {word.casefold(), word.casefold().removesuffix("s")} & words, f"{word} has no entry"


def test_the_glossary_says_of_the_words_of_the_pages_what_the_pages_say():
    text = (REPOSITORY / "docs/glossary.md").read_text().replace("*", "")
    assert [word for word, meaning in WORDS.items() if f"| {word} | {meaning} |" not in text] == []


def test_the_readme_is_short_and_says_what_the_large_run_took():
    text = (REPOSITORY / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    measured = json.loads((REPOSITORY / "benchmarks" / "results" / "large.json").read_text())
    peak = max(stage["peak_rss_mb"] for stage in measured["stages"].values())
    words = " ".join(text.split())
    assert f"on {measured['rows']:,} flights" in words
    assert f"takes {measured['seconds']:.0f} s on 2 cores" in words and f"more than {peak / 1000:.1f} GB" in words


def test_the_tolerances_of_the_statistics_are_those_of_the_code():
    text = (REPOSITORY / "docs" / "statistics.md").read_text()
    rows = re.findall(r"^\| .+ \| ([\d.e-]+) \| `([a-z_.]+)\.([A-Z][\w.]+)` \|$", text, flags=re.MULTILINE)
    assert len(rows) == text.count("| `tfglm.") == 35
    for value, module, name in rows:
        assert attrgetter(name)(importlib.import_module(module)) == float(value), name


def test_what_the_code_says_of_the_statistics_is_there():
    headings = set(re.findall(r"^## (.+)$", (REPOSITORY / "docs" / "statistics.md").read_text(), flags=re.MULTILINE))
    cited = set()
    for path in (REPOSITORY / "scripts").rglob("*.py"):
        cited |= {
            " ".join(name.split()) for name in re.findall(r"docs/statistics\.md:\s+([\w\s]+)\b", path.read_text())
        }
    assert len(cited) > 5 and cited <= headings


def words_of(strategy: str, workers: int, rows: int) -> str:
    """How the table of docs/scaling.md names a run."""
    several = f"{workers} worker{'s' * (workers > 1)}"
    if strategy == "multi_worker_mirrored":
        return f"synchronous, {several}, {rows} rows a step"
    return {"one_device": "one device", "parameter_server": f"asynchronous, {several}"}[strategy]


def lines_of_scaling(table: pd.DataFrame) -> list[str]:
    """The lines that the table of docs/scaling.md has to have."""
    lines = []
    for key, runs in table.groupby(["strategy", "workers", "batch_size"]):
        cells = [words_of(*key)]
        for across in ("epochs", "epochs_of_worker"):
            rows = runs[runs[across] == 20]
            (updates,) = rows["updates"].unique()
            cells += [f"{updates:,}", f"{rows['accuracy'].mean():.2f}"]
        staleness = runs["staleness"].mean()
        lines.append(f"| {' | '.join([*cells, '' if pd.isna(staleness) else f'{staleness:.1f}'])} |".replace("  ", " "))
    return lines


def test_the_scaling_study_has_the_figures_of_its_table():
    text = (REPOSITORY / "docs" / "scaling.md").read_text()
    table = pd.read_csv(REPOSITORY / "docs" / "scaling.csv")
    lines = lines_of_scaling(table)
    assert len(lines) == 11 and [line for line in lines if line not in text] == []


def test_the_scaling_study_has_the_ratios_that_were_measured():
    text = " ".join((REPOSITORY / "docs" / "scaling.md").read_text().split())
    measured = json.loads((REPOSITORY / "benchmarks" / "results" / "scaling.json").read_text())
    assert f"{measured['coefficients']:,} coefficients to {measured['rows'] // 10**6} million rows" in text
    ranges = [
        f"{min(ratios):.1f} to {max(ratios):.1f} times"
        for ratios in (
            *measured["times_as_fast"]["seconds"].values(),
            *measured["times_as_fast"]["end_to_end_seconds"].values(),
            measured["limit"]["times_as_fast"],
        )
    ]
    assert re.findall(r"[\d.]+ to [\d.]+ times(?! as long)", text) == ranges


def test_the_table_of_fits_on_slurm_has_the_figures_that_were_measured():
    text = (REPOSITORY / "docs" / "scaling.md").read_text()
    measured = json.loads((REPOSITORY / "benchmarks" / "results" / "scaling_slurm.json").read_text())
    lines = [
        f"| {workers} | {slurm['nodes']:.0f} | {here['seconds']:.1f} | {slurm['seconds']:.1f} "
        f"| {here['end_to_end_seconds']:.0f} | {slurm['job_seconds']:.0f} |"
        for workers, (here, slurm) in ((key, each.values()) for key, each in measured["medians"].items())
    ]
    assert [line for line in lines if line not in text] == [] and lines
    words = " ".join(text.split())
    assert f"The same fit to {measured['rows'] // 10**6} million rows on SLURM" in words
    assert all(each["same_checkpoint"] for each in measured["fits"])


def test_the_table_of_strategies_has_the_figures_that_were_measured():
    measured = json.loads((REPOSITORY / "benchmarks" / "results" / "strategies.json").read_text())["medians"]
    rows = re.findall(
        r"^\|.*\| ([\d.]+) \| ([\d.]+) \|$",
        (REPOSITORY / "docs" / "config" / "network_strategies.md").read_text(),
        re.MULTILINE,
    )
    assert rows == [(f"{each['start_seconds']:.1f}", f"{each['step_ms']:.1f}") for each in measured.values()]


def test_the_table_of_steps_beside_others_has_the_figures_that_were_measured():
    measured = json.loads((REPOSITORY / "benchmarks" / "results" / "strategies_beside.json").read_text())
    steps = {name.removesuffix("_512"): f"{each['step_ms']:.1f}" for name, each in measured["medians"].items()}
    pairs = {"model_fit": "one_device", "coordinator_loop": "parameter_server", "own_rows": "synchronous"}
    rows = re.findall(
        r"^\|.*\| ([\d.]+) \|.*\| ([\d.]+) \| ([\d.]+) \(([\d., ]+)\) \|$",
        (REPOSITORY / "docs" / "strategies.md").read_text(),
        re.MULTILINE,
    )
    medians, rounds = measured["median_times_as_long"], measured["times_as_long"]
    assert rows == [
        (
            steps[name],
            steps[other],
            f"{medians[f'{name}_512']:.1f}",
            ", ".join(f"{ratio:.1f}" for ratio in rounds[f"{name}_512"]),
        )
        for name, other in pairs.items()
    ]
