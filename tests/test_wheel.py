"""What is shipped: built without Node from what the sdist carries, and installed where nothing of the checkout is."""

import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from trove_classifiers import classifiers

from tests.patience import patient

ROOT = Path(__file__).parents[1]
STATIC = ("vibe_jupyter/ui/static/run-view.js", "vibe_jupyter/ui/static/connect-form.js")
EXTENSION = "vibe_jupyter/labextension/package.json"
BUILD_LIMIT = patient(90)  # seconds

README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL_LINES = re.findall(r"^pip install .+$", README.partition("%load_ext")[0], re.M)
"""Commands of README's first screen."""

pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sdist and wheel; the wheel is made from the sdist, and npm cannot be found."""
    for asset in (*STATIC, EXTENSION):
        assert (ROOT / asset).is_file(), "the page's part is not built: run `make assets`"
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", folder, ROOT],
        env=os.environ | {"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel, and everything it depends on borrowed from ours."""
    home = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "v"], check=True, timeout=BUILD_LIMIT)
    python = home / "v" / "bin" / "python"
    wheel = next(built.glob("*.whl"))
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--no-compile",
        wheel,
    ]
    subprocess.run(install, check=True, timeout=BUILD_LIMIT)
    site = next((home / "v" / "lib").glob("python*/site-packages"))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def test_the_wheel_carries_the_page_and_the_prompts_and_nothing_of_the_workshop(built: Path) -> None:
    names = set(zipfile.ZipFile(next(built.glob("*.whl"))).namelist())
    prompts = {path.relative_to(ROOT).as_posix() for path in (ROOT / "vibe_jupyter").rglob("*.md")}
    assert {*STATIC, *prompts, "vibe_jupyter/permissions/shell/effects.toml"} <= names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"vibe_jupyter"}


def test_the_wheel_puts_the_extension_where_jupyterlab_looks_for_it(built: Path) -> None:
    wheel = zipfile.ZipFile(next(built.glob("*.whl")))
    folder = next(name for name in wheel.namelist() if name.endswith("labextensions/vibe-jupyter/package.json"))
    folder = folder.removesuffix("package.json")
    about = json.loads(wheel.read(f"{folder}package.json"))
    assert about["version"] == metadata.version("vibe-jupyter")
    assert {f"{folder}{about['jupyterlab']['_build']['load']}", f"{folder}install.json"} <= set(wheel.namelist())
    assert [name for name in wheel.namelist() if name.startswith("vibe_jupyter/labextension")] == []


def test_jupyterlabs_extension_manager_finds_the_wheel_by_its_metadata(built: Path) -> None:
    wheel = zipfile.ZipFile(next(built.glob("*.whl")))
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    about = email.message_from_bytes(wheel.read(name))
    declared = set(about.get_all("Classifier", []))
    assert declared >= {
        "Framework :: Jupyter",
        "Framework :: Jupyter :: JupyterLab",
        "Framework :: Jupyter :: JupyterLab :: 4",
        "Framework :: Jupyter :: JupyterLab :: Extensions",
        "Framework :: Jupyter :: JupyterLab :: Extensions :: Prebuilt",
    }
    assert declared <= classifiers  # the registry refuses a wheel with any other
    assert about["Summary"]
    assert about["License-Expression"] == "Apache-2.0"
    assert "%load_ext vibe_jupyter" in str(about.get_payload())


def test_the_sdist_carries_the_built_page_and_its_sources(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*STATIC, EXTENSION, "labextension/package-lock.json", "LICENSE", "README.md", "pyproject.toml"} <= names
    assert not {name for name in names if "node_modules" in name}


INSTALLED = """
import json
from importlib import metadata, resources
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "vibe_jupyter")
import vibe_jupyter
from vibe_jupyter.app import App
from vibe_jupyter.ui import page as run_view
print(json.dumps({
    "file": vibe_jupyter.__file__,
    "magic": "vibe" in shell.magics_manager.magics["cell"],
    "can_show": run_view.can_show(),
    "version": metadata.version("vibe-jupyter"),
}))
"""


def test_the_installed_wheel_loads_and_can_show_its_view(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [installed, "-W", "error::SyntaxWarning", "-c", INSTALLED],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert Path(said["file"]).is_relative_to(installed.parents[1])
    assert (said["magic"], said["can_show"]) == (True, True)


def test_the_first_screen_installs_from_a_checkout_and_from_the_wheel_that_is_built(built: Path) -> None:
    from_checkout, from_wheel = INSTALL_LINES
    assert from_checkout == "pip install ."
    assert from_wheel == f"pip install dist/{next(built.glob('*.whl')).name}"


@pytest.mark.requirement("project.install.no-node")
def test_a_checkout_without_node_is_refused_with_the_wheel_to_install(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    wanted = ["vibe_jupyter", "scripts", "labextension/package.json", "pyproject.toml", "README.md", "LICENSE"]
    listed = subprocess.run(["git", "ls-files", *wanted], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", tmp_path, "."],
        cwd=checkout,
        env=os.environ | {"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT,
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "needs Node.js 20 or newer to build its front end: `node` was not found on PATH" in said
    assert "pip install dist/vibe_jupyter-*.whl" in said
    assert "Traceback" not in said


@pytest.mark.requirement("project.install.as-printed")
def test_the_installed_wheel_runs_the_quickstart(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    allowed = "run_code,run_cells,run_cell,edit_cell,insert_cell"
    program = installed.parent / "vibe-jupyter"
    done = subprocess.run(
        [program, "run", "quickstart.ipynb", "--save-as", "out.ipynb", "--yes", allowed],
        cwd=tmp_path / "notebooks",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=2 * BUILD_LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tells the groups apart best" in (tmp_path / "notebooks" / "out.ipynb").read_text(encoding="utf-8")
