"""What MkDocs is told beyond docs/: the pages that lie elsewhere in the repository, and links between all of them.

config/README.md becomes a page for each group of its table of contents, and one for the reference of all keys. Other files that
a page links to are copied beside the pages.
"""

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[2]
CONFIG = "config/README.md"
PAGES = {
    "README.md": "index.md",
    "profiles/README.md": "profiles.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Files of the repository, and the pages that they are."""

LINK = re.compile(r"(?<=\]\()([^)\s#]*)(#[^)\s]*)?(?=\))")


def slug(heading: str, separator: str = "-") -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", separator)


def how_tos(text: str) -> dict[str, str]:
    """The pages that config/README.md is divided into: one for each group of its table of contents, and one of every key."""
    sections = {slug(section.splitlines()[0]): section for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]}
    contents = text[: text.index("\n## ")]
    pages = {}
    for group, entries in re.findall(r"^- (\w+): ((?:.+\n?(?!- ))+)", contents, flags=re.MULTILINE):
        anchors = re.findall(r"\]\(#([^)]+)\)", entries)
        parts = [f"## {sections.pop(anchor)}" for anchor in anchors]
        pages[f"how-to/{group.lower()}.md"] = f"# {group}\n\n{''.join(parts)}"
    keys = sections.pop("every-key")
    if sections:
        raise ValueError(f"{CONFIG}: sections that are in no group of its table of contents: {', '.join(sections)}")
    title, _, rest = keys.partition("\n")
    pages["reference.md"] = f"# {title}\n{rest}".replace("\n### ", "\n## ")
    return pages


def anchors_of(pages: dict[str, str]) -> dict[str, str]:
    """The page on which each heading is."""
    return {
        slug(heading): name
        for name, text in pages.items()
        for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    }


HOW_TOS = how_tos((REPOSITORY / CONFIG).read_text())
ANCHORS = anchors_of(HOW_TOS)
COPIED: set[str] = set()


def target(path: str, anchor: str) -> str:
    """Where on the site a file of the repository is, and its anchor if it has one."""
    if path == CONFIG:
        return f"{ANCHORS[anchor[1:]]}{anchor}" if anchor else "how-to/data.md"
    if path in PAGES:
        return PAGES[path] + anchor
    if path.startswith("docs/"):
        return path.removeprefix("docs/") + anchor
    COPIED.add(path)
    return path


def relinked(text: str, source: str, page: str) -> str:
    """The text of a file of the repository, with its links as they are on a page of the site."""

    def replace(match: re.Match) -> str:
        path, anchor = match[1], match[2] or ""
        if "://" in path or not (path or anchor):
            return match[0]
        there = os.path.normpath(PurePosixPath(source).parent / path) if path else source
        return os.path.relpath(target(there, anchor), PurePosixPath(page).parent)

    return LINK.sub(replace, text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/, and the files that pages link to."""
    sources = {page: ((REPOSITORY / path).read_text(), path) for path, page in PAGES.items()}
    sources |= {page: (text, CONFIG) for page, text in HOW_TOS.items()}
    for page, (text, source) in sources.items():
        files.append(File.generated(config, page, content=relinked(text, source, page)))
    for page in (REPOSITORY / "docs").glob("*.md"):
        relinked(page.read_text(), f"docs/{page.name}", page.name)
    for path in sorted(COPIED):
        files.append(File.generated(config, path, abs_src_path=str(REPOSITORY / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The pages of docs/ link to the repository as well."""
    name = page.file.src_uri
    return relinked(markdown, f"docs/{name}", name) if (REPOSITORY / "docs" / name).exists() else markdown
