"""The site of the documentation: it builds without a warning, and every link inside of it leads somewhere."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from browser import browser
from runs import REPOSITORY


class Page(HTMLParser):
    """The links of a page, and the anchors that others may link to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.anchors = set[str](), set[str]()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value or "")
            elif name in ("href", "src"):
                self.links.add(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(line, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return folder


def test_every_link_of_the_site_leads_somewhere(site):
    # The page for what is not found has links from the root, as nobody knows where it will be shown.
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 15
    lost = []
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (target in pages and address.fragment not in {"", *pages[target].anchors}):
                lost.append(f"{path.relative_to(site)}: {link}")
    assert lost == []


def test_no_page_asks_another_site_for_anything(site):
    for path in site.rglob("*.html"):
        assert not [link for link in Page(path).links if link.startswith("http") and link.endswith((".js", ".css"))], (
            path
        )
        assert "fonts.g" not in path.read_text() and "shields.io" not in path.read_text(), path


def test_all_of_the_documentation_is_on_the_site(site):
    words = (site / "config" / "formulas.html").read_text() + (site / "config" / "files.html").read_text()
    assert "How do I write a formula?" in words and "How is a CSV file read?" in words
    assert "models.&lt;name&gt;.formula" in (site / "config" / "reference.html").read_text()


@pytest.mark.processes
def test_the_search_works_from_a_folder(site):
    with browser() as started, started.new_page() as page:
        page.goto((site / "config" / "formulas.html").as_uri())
        page.get_by_role("textbox", name="Search").click()
        page.get_by_role("textbox", name="Search").press_sequentially("separation")
        found = page.locator(".md-search-result__item a").first
        found.wait_for(timeout=20_000)
        assert page.locator(".md-search-result__item").count() >= 3
        assert "file:" in str(found.evaluate("link => link.href"))
