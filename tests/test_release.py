"""What `make release` finds in a checkout before it builds anything."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.release import find_problems, main, read_version

ROOT = Path(__file__).parents[1]
FILES = ("pyproject.toml", "CHANGELOG.md", "CITATION.cff", "vibe_jupyter/version.py", "labextension/package.json")
VERSION = read_version(ROOT)


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, timeout=30)


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A checkout of its own with the files that name the version, dated and committed."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changes = tmp_path / "CHANGELOG.md"
    dated = changes.read_text(encoding="utf-8").replace("## [Unreleased]", f"## [{VERSION}] - 2026-12-01", 1)
    changes.write_text(dated, encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "Release")
    return tmp_path


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        text = (root / name).read_text(encoding="utf-8")
        assert old in text
        (root / name).write_text(text.replace(old, new), encoding="utf-8")
        git(root, "commit", "-qam", "Change")

    return change


def test_a_dated_committed_checkout_of_one_version_is_ready(ready: Path) -> None:
    assert find_problems(ready) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (replace("CITATION.cff", f"version: {VERSION}", "version: 0.0.1"), "CITATION.cff has version 0.0.1"),
        (replace("vibe_jupyter/version.py", "__version__", "other"), "version.py has version none"),
        (replace("labextension/package.json", f'"{VERSION}"', '"9.0.0"'), "package.json has version 9.0.0"),
        (replace("CHANGELOG.md", f"## [{VERSION}] - 2026-12-01", "## [Unreleased]"), "CHANGELOG.md has no section"),
        (lambda root: (root / "new.py").touch(), "uncommitted changes"),
        (lambda root: git(root, "tag", f"v{VERSION}"), f"The tag v{VERSION} exists"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_built(
    ready: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None], says: str
) -> None:
    change(ready)
    (problem,) = find_problems(ready)
    assert says in problem
    assert main(ready) == 1
    assert problem in capsys.readouterr().err
    assert not (ready / "dist").exists()
