"""Tag the version of the package as a release, if all that names it agrees and licences allow it; else say what to change."""

import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
PERMISSIVE = re.compile(
    r"\b(0BSD|Apache|BSD|CC0|ISC|MIT|MPL|Mozilla Public License|PSF|Python Software Foundation|Zlib)\b"
)
"""Words of licences that let others use a package beside code under MIT. MPL asks for changes of its own files alone."""


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


def address(folder: Path) -> str:
    """The address of the published repository. Raises ValueError if git does not know."""
    origin = git(folder, "remote", "get-url", "origin") if "origin" in git(folder, "remote").split() else ""
    https = re.sub(r"^(ssh://)?git@([^:/]+)[:/]", r"https://\2/", origin).removesuffix(".git")
    if not https.startswith("https://"):
        do = "set-url" if origin else "add"
        raise ValueError(f"the remote `origin` is `{origin}`; name a public one: git remote {do} origin https://...")
    return https


def licences(package: str) -> list[str]:
    """What an installed package is licensed under, all of it: the words of its metadata, or of a file."""
    found = distribution(package)
    if expression := found.metadata["License-Expression"]:
        return expression.split(" AND ")
    classified = [each for each in found.metadata.get_all("Classifier", []) if each.startswith("License ::")]
    files = [each for each in found.files or [] if re.match("LICEN[CS]E|COPYING", each.name)]
    declared = "\n".join([*classified, found.metadata["License"] or ""]).strip()
    return [declared or "\n".join(each.read_text() for each in files) or "unknown"]


def check_licences(folder: Path) -> None:
    """Raise ValueError for a package of the lock file whose licence is not permissive. It must be installed."""
    for line in (folder / "requirements.txt").read_text().splitlines():
        package, is_pin, _ = line.partition("==")
        for licence in licences(package) if is_pin else ():
            if not PERMISSIVE.search(licence):
                first = licence.partition("\n")[0]
                raise ValueError(f"requirements.txt: the licence of {package} is `{first}`; do without this package")


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
    named = {
        "CITATION.cff": (f"version: {version}", f"date-released: {date}", f"repository-code: {address(folder)}"),
        "Containerfile": (f'org.opencontainers.image.version="{version}" \\',),
    }
    for name, lines in named.items():
        written = [line.strip() for line in (folder / name).read_text().splitlines()]
        for line in lines:
            if line not in written:
                raise ValueError(f"{name}: write `{line}`")
    check_licences(folder)
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
