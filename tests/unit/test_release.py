"""`make release`: no tag before all that names the version agrees."""

import shutil
from pathlib import Path

import pytest

import release
from tfglm import __version__

REPOSITORY = Path(__file__).parents[2]
TAG = f"v{__version__}"

pytestmark = pytest.mark.processes


def commit(folder: Path) -> None:
    release.git(folder, "add", "--all")
    release.git(folder, "commit", "--quiet", "--message", "as it is")


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_a_version_is_tagged_once_all_that_names_it_agrees(tmp_path, monkeypatch):
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@localhost")
    for name in ("CHANGELOG.md", "CITATION.cff", "Containerfile", "scripts/tfglm/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    changelog, citation = tmp_path / "CHANGELOG.md", tmp_path / "CITATION.cff"
    changelog.write_text(
        f"# Changes\n\n## {__version__}, not yet released\n\n### Added\n\n- Fits.\n\n## 0.0.1, 2025-01-01\n"
    )
    citation.write_text(f"version: {__version__}\n")
    release.git(tmp_path, "init", "--quiet")
    assert "commit these files first" in release.main(tmp_path)
    commit(tmp_path)
    assert "the first section is" in release.main(tmp_path)
    replace(changelog, "not yet released", "2026-01-31")
    commit(tmp_path)
    assert "name a public one: git remote add origin https://..." in release.main(tmp_path)
    release.git(tmp_path, "remote", "add", "origin", "git@code.example:us/tfglm.git")
    assert release.main(tmp_path) == "no release: CITATION.cff: write `date-released: 2026-01-31`"
    citation.write_text(citation.read_text() + "date-released: 2026-01-31\n")
    commit(tmp_path)
    assert release.main(tmp_path) == "no release: CITATION.cff: write `repository-code: https://code.example/us/tfglm`"
    citation.write_text(citation.read_text() + "repository-code: https://code.example/us/tfglm\n")
    replace(tmp_path / "Containerfile", f'version="{__version__}"', 'version="0.0.1"')
    commit(tmp_path)
    assert "Containerfile: write `org.opencontainers.image.version=" in release.main(tmp_path)
    shutil.copy(REPOSITORY / "Containerfile", tmp_path)
    replace(changelog, "- Fits.\n", "")
    commit(tmp_path)
    assert "lists no change" in release.main(tmp_path)
    replace(changelog, "### Added\n", "### Added\n\n- Fits.\n")
    (tmp_path / "requirements.txt").write_text("# all\nnumpy==2.0\ncopied==1.0\n")
    metadata = tmp_path / "copied-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Name: copied\nVersion: 1.0\nLicense-Expression: MIT AND GPL-3.0-only\n")
    monkeypatch.syspath_prepend(tmp_path)
    commit(tmp_path)
    assert "the licence of copied is `GPL-3.0-only`; do without" in release.main(tmp_path)
    metadata.write_text("Name: copied\nVersion: 1.0\nClassifier: License :: OSI Approved :: MIT License\n")
    commit(tmp_path)
    assert release.main(tmp_path) == f"{TAG} is made; publish it with `git push origin {TAG}`"
    assert release.git(tmp_path, "tag", "--list", "--format=%(contents)") == f"{TAG}\n\n### Added\n\n- Fits."
    assert "is a release already" in release.main(tmp_path)
