"""What the documents say of the repository: links that lead somewhere, files that are there, terms that are explained once."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "config/README.md",
    "profiles/README.md",
    "CHANGELOG.md",
    "docs/glossary.md",
    "docs/architecture.md",
    "docs/wide_and_deep.md",
)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    page = REPOSITORY / document
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    for link in (link for link in links if not link.startswith("https://")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_architecture_names_files_that_are_there():
    text = (REPOSITORY / "docs/architecture.md").read_text()
    named = re.findall(r"`((?:config|docs|profiles|scripts|tests|workflow)/[\w./-]*|Snakefile|Makefile)`", text)
    assert len(named) > 20
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_the_glossary_explains_each_term_once_in_alphabetical_order():
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", (REPOSITORY / "docs/glossary.md").read_text(), flags=re.MULTILINE)[1:]
    terms = [term.casefold() for term, _ in rows]
    assert terms == sorted(set(terms))
    words = {word.strip() for term in terms for word in re.sub(r"\(.*?\)", "", term).split(",")}
    for _, meaning in rows:
        for word in re.findall(r"\*([^*]+)\*", re.sub(r"`.*?`", "", meaning)):
            assert {word.casefold(), word.casefold().removesuffix("s")} & words, f"{word} has no entry"
