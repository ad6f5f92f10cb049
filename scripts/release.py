"""Build a release and name the next steps: `make release`.

Checks that the tree is clean, that every file names the same version, and that CHANGELOG.md has a dated section for it;
then builds sdist and wheel into an empty ``dist/``. It uploads nothing and tags nothing.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEXT_STEPS = """
Next:
  git tag -a v{version} -m "vibe-jupyter {version}"
  git push origin v{version}
  upload both files to the package index, from a machine that holds the token
  open a new "## [Unreleased]" section in CHANGELOG.md"""


def main(root: Path = ROOT) -> int:
    """Check, build, and print what is left to do; 1 if the checkout is not ready for a release."""
    version, problems = read_version(root), find_problems(root)
    if problems:
        print(
            f"{version} cannot be released yet:", *(f"  {problem}" for problem in problems), sep="\n", file=sys.stderr
        )
        return 1
    dist = root / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, root], check=True)
    for path in sorted(dist.iterdir()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  dist/{path.name}")
    print(NEXT_STEPS.format(version=version))
    return 0


def read_version(root: Path) -> str:
    """Return the version in pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def find_problems(root: Path) -> list[str]:
    """Return what has to be done before the checkout can be released, one sentence each."""
    version = read_version(root)
    problems = [
        f"{path} has version {found or 'none'}, pyproject.toml has {version}."
        for path, found in _other_versions(root).items()
        if found != version
    ]
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        problems.append(f"CHANGELOG.md has no section “## [{version}] - YYYY-MM-DD”: rename Unreleased.")
    if _run_git(root, "status", "--porcelain"):
        problems.append("The tree has uncommitted changes: commit or remove them.")
    if _run_git(root, "tag", "--list", f"v{version}"):
        problems.append(f"The tag v{version} exists: raise the version.")
    return problems


def _other_versions(root: Path) -> dict[str, str]:
    """The version in each other file that repeats it; empty where it is not found."""
    package = json.loads((root / "labextension" / "package.json").read_text(encoding="utf-8"))
    patterns = {"vibe_jupyter/version.py": r'^__version__ = "(.+)"$', "CITATION.cff": r"^version: (.+)$"}
    found = {path: re.search(pattern, (root / path).read_text("utf-8"), re.M) for path, pattern in patterns.items()}
    return {"labextension/package.json": package["version"]} | {
        path: match[1] if match else "" for path, match in found.items()
    }


def _run_git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
