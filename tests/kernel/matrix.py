"""The kernels that the tests of this folder run on, and how to get them.

    python tests/kernel/matrix.py                  the ipykernels of `make test`
    python tests/kernel/matrix.py --all --pythons  those of `make test-matrix`; --libraries for its large libraries

Another ipykernel is a folder put before the installed one on PYTHONPATH; another Python is an environment of its own.
"""

import argparse
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MATRIX = ROOT / ".matrix"
OLDEST = "6.29.5"
"""The newest is installed. Between them lies the change of architecture from 6 to 7."""
MORE = ("6.31.0", "7.0.1", "7.1.0", "7.2.0", "7.3.0", "7.4.0")
PYTHONS = ("3.12", "3.13", "3.14")
OLDEST_LAB = "4.4.0"
OLDEST_NOTEBOOK = "7.4.0"
LARGE_LIBRARIES = {
    "libraries": (
        *("geopandas>=1,<2", "zarr>=3,<4", "ibis-framework[duckdb]>=10,<13", "statsmodels<1", "lightgbm>=4,<5"),
        *("anndata<1", "holoviews>=1.20,<2", "pyspark>=4,<5"),
    ),
    "compiled": ("statsmodels<1", "lightgbm>=4,<5", "xgboost-cpu>=3,<4", "numba<1"),
    "torch": ("torch>=2,<3",),  # alone it takes 5 GB
}
"""Whose objects `make test-matrix` describes, or that it runs in copies of a kernel, by their environment."""
_INSTALL = 600  # seconds
_LARGE_INSTALL = 1800  # seconds


_FRONT_ENDS = ("jupyterlab", "mcp", "httpx2", "uvicorn")
"""What a kernel does not need of our dependencies, or not yet."""


@dataclass(frozen=True)
class Target:
    """A kernel to start."""

    name: str
    python: str = sys.executable
    first_on_path: Path | None = None
    is_forked: bool = False
    """Whether it comes from a process that made the imports once (tests/kernel/fork_server.py)."""
    has_pandas: bool = False
    """Whether pandas is one of these imports."""


INSTALLED = Target("installed", is_forked=os.name == "posix")
AS_USERS_START_IT = Target("installed")


def with_pandas(target: Target) -> Target:
    """The same kernel for tests that import pandas anyway."""
    return replace(target, has_pandas=True)


WITH_PANDAS = with_pandas(INSTALLED)


def ipykernel(version: str) -> Target:
    """This Python with another ipykernel, installed at the first use."""
    folder = MATRIX / f"ipykernel-{version}"
    if not folder.exists():
        unfinished = MATRIX / f"unfinished-ipykernel-{version}-{os.getpid()}"
        _pip(sys.executable, "--no-deps", "--target", str(unfinished), f"ipykernel=={version}")
        _put_in_place(unfinished, folder)
    return Target(version, first_on_path=folder)


def with_packages(name: str, *packages: str) -> Target:
    """This Python with packages that the tests have no other use for, installed at the first use."""
    folder = MATRIX / name
    if not folder.exists():
        unfinished = MATRIX / f"unfinished-{name}-{os.getpid()}"
        _pip(sys.executable, "--no-deps", "--target", str(unfinished), *packages)
        _put_in_place(unfinished, folder)
    return Target(name, first_on_path=folder)


def python_with_libraries(name: str) -> str:
    """A Python with some large libraries in an environment of its own, which finds those of this one behind them."""
    folder, packages = MATRIX / name, LARGE_LIBRARIES[name]
    python = folder / "bin" / "python"
    is_ready = _is_ready(folder, packages)
    if not is_ready:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=_INSTALL)
    own = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (own / "ours.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    if not is_ready:
        _pip(str(python), *packages, limit=_LARGE_INSTALL)
        _say_ready(folder, packages)
    return str(python)


def find_python(version: str) -> str | None:
    """A real interpreter of this version, or None; a pyenv shim may stand for none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path(pwd.getpwuid(os.getuid()).pw_dir, ".pyenv")) / "versions"
    candidates = [*sorted(map(str, pyenv.glob(f"{version}.*/bin/python"))), shutil.which(f"python{version}")]
    for candidate in filter(None, candidates):
        answer = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        if answer.stdout.strip() == version:
            return candidate
    return None


def other_python(version: str) -> Target | None:
    """An environment of another Python with the newest ipykernel; None where that Python is not installed."""
    folder = MATRIX / f"py{version}"
    python = folder / "bin" / "python"
    packages = (*_dependencies(), "matplotlib", "pandas")
    if not _is_ready(folder, packages):
        found = find_python(version)
        if found is None:
            return None
        subprocess.run([found, "-m", "venv", "--clear", str(folder)], check=True, timeout=_INSTALL)
        _pip(str(python), *packages)
        _say_ready(folder, packages)
    return Target(f"py{version}", python=str(python))


def oldest_lab() -> Path:
    """The Python of an environment with the oldest JupyterLab and Notebook we support, and our extension."""
    folder = MATRIX / f"lab{OLDEST_LAB}"
    python = folder / "bin" / "python"
    packages = (f"jupyterlab=={OLDEST_LAB}", f"notebook=={OLDEST_NOTEBOOK}", *_dependencies(), "matplotlib")
    if not _is_ready(folder, packages):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=_INSTALL)
        _pip(str(python), *packages)
        _say_ready(folder, packages)
    # A copy: behind a link of this tree the builder of the sdist would take the extension for visited.
    extension = folder / "share" / "jupyter" / "labextensions" / "vibe-jupyter"
    if extension.is_symlink():
        extension.unlink()
    shutil.rmtree(extension, ignore_errors=True)
    shutil.copytree(ROOT / "vibe_jupyter" / "labextension", extension)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every ipykernel of the matrix")
    parser.add_argument("--pythons", action="store_true", help="environments of other Pythons")
    parser.add_argument("--libraries", action="store_true", help="large libraries")
    parser.add_argument("--lab", action="store_true", help="the oldest JupyterLab")
    options = parser.parse_args()
    if options.lab:
        print(f"JupyterLab {OLDEST_LAB}: {oldest_lab()}")
    for version in (OLDEST, *(MORE if options.all else ())):
        print(f"ipykernel {version}: {ipykernel(version).first_on_path}")
    for name in LARGE_LIBRARIES if options.libraries else ():
        print(f"{name}: {python_with_libraries(name)}")
    for version in PYTHONS if options.pythons else ():
        target = other_python(version)
        print(f"Python {version}: {target.python if target else 'not installed here'}")


def _dependencies() -> list[str]:
    """What a kernel needs at run time."""
    needed: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    return [one for one in needed if not one.startswith(_FRONT_ENDS)]


def _is_ready(folder: Path, packages: Sequence[str]) -> bool:
    """Whether the folder holds just these packages; what is needed may have changed since it was made."""
    ready = folder / "ready"
    return ready.exists() and ready.read_text(encoding="utf-8") == "\n".join(packages)


def _say_ready(folder: Path, packages: Sequence[str]) -> None:
    (folder / "ready").write_text("\n".join(packages), encoding="utf-8")


def _pip(python: str, *arguments: str, limit: float = _INSTALL) -> None:
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments],
        check=True,
        timeout=limit,
    )


def _put_in_place(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(unfinished)


if __name__ == "__main__":
    main()
