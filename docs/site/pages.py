"""MkDocs hooks: pages from outside docs/, and links between all pages.

README files, the changelog and the like become pages of the site. Other files that a page links to are copied beside the pages.
"""

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "config/README.md": "config/index.md",
    "profiles/README.md": "profiles.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Files of the repository, and the pages that they become."""

BADGES = re.compile(r"^\[!\[.*\n\n", re.MULTILINE)
"""Pictures of another site, which the pages ask for nothing."""

LINK = re.compile(r"(?<=\]\()([^)\s#]*)(#[^)\s]*)?(?=\))")
COPIED: set[str] = set()


def target(path: str) -> str:
    """The path on the site of a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    COPIED.add(path)
    return path


def relinked(text: str, source: str, page: str) -> str:
    """The text of a file of the repository, with the links that its page on the site needs."""

    def replace(match: re.Match) -> str:
        path, anchor = match[1], match[2] or ""
        if "://" in path or not path:
            return match[0]
        there = os.path.normpath(PurePosixPath(source).parent / path)
        return os.path.relpath(target(there), PurePosixPath(page).parent) + anchor

    return LINK.sub(replace, text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/, and the files that pages link to."""
    for path, page in PAGES.items():
        text = BADGES.sub("", (REPOSITORY / path).read_text())
        files.append(File.generated(config, page, content=relinked(text, path, page)))
    for page in (REPOSITORY / "docs").rglob("*.md"):
        name = str(page.relative_to(REPOSITORY / "docs"))
        relinked(page.read_text(), f"docs/{name}", name)
    for path in sorted(COPIED):
        files.append(File.generated(config, path, abs_src_path=str(REPOSITORY / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Mend the links from a page of docs/ to the repository."""
    name = page.file.src_uri
    return relinked(markdown, f"docs/{name}", name) if (REPOSITORY / "docs" / name).exists() else markdown
