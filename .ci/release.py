"""Tag the version of the package as a release, if what names the version agrees; otherwise say what to change."""

import re
import subprocess
import sys
from pathlib import Path

VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


def git(folder: Path, *words: str) -> str:
    """What git prints. Raises CalledProcessError."""
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def section(folder: Path, version: str) -> tuple[str, str]:
    """The date and the text of the first section of the changelog. Raises ValueError if it is of another version, or empty."""
    head, _, rest = (folder / "CHANGELOG.md").read_text().partition("\n## ")[2].partition("\n")
    found = re.fullmatch(rf"{re.escape(version)}, (\d{{4}}-\d\d-\d\d)", head)
    if not found:
        raise ValueError(f"CHANGELOG.md: the first section is `{head}`; write `{version}, ` and the date as 2026-01-31")
    text = rest.partition("\n## ")[0].strip()
    if not re.search("^- ", text, re.MULTILINE):
        raise ValueError(f"CHANGELOG.md: {version} lists no change")
    return found[1], text


def check(folder: Path) -> tuple[str, str]:
    """The tag, and the changes since the last. Raises ValueError, which says what to do."""
    if changed := git(folder, "status", "--porcelain"):
        raise ValueError(f"commit these files first:\n{changed}")
    package = folder / "scripts" / "tfglm" / "__init__.py"
    (version,) = VERSION.findall(package.read_text())
    tag = f"v{version}"
    if tag in git(folder, "tag").split():
        raise ValueError(f"{tag} is a release already; raise __version__ in scripts/tfglm/__init__.py")
    date, changes = section(folder, version)
    cited = (folder / "CITATION.cff").read_text().splitlines()
    for line in (f"version: {version}", f"date-released: {date}"):
        if line not in cited:
            raise ValueError(f"CITATION.cff: write `{line}`")
    return tag, changes


def main(folder: Path) -> str:
    """Make the tag; what to do next, or what stands in the way."""
    try:
        tag, changes = check(folder)
    except ValueError as error:
        return f"no release: {error}"
    # `whitespace` keeps headings, which begin like comments of git.
    git(folder, "tag", "--annotate", "--cleanup", "whitespace", "--message", f"{tag}\n\n{changes}", tag)
    return f"{tag} is made; publish it with `git push origin {tag}`"


if __name__ == "__main__":
    told = main(Path(__file__).parents[1])
    print(told)
    sys.exit(told.startswith("no release"))
