"""README's install commands, as printed, in new environments; JupyterLab of the environment opens the quickstart."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import Lab
from tests.browser.server import REPOSITORY, lab_server
from tests.test_wheel import INSTALL_LINES

pytestmark = [pytest.mark.matrix, pytest.mark.browser, pytest.mark.timeout(1_800)]
INSTALL = 900  # seconds
DATA, FAILING, LOAD, MODEL, PROMPT = 1, 3, 4, 6, 7  # positions of the quickstart's cells


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh clone, in which `make wheel` has been run elsewhere: its `dist/` holds the wheel."""
    folder = tmp_path_factory.mktemp("install") / "checkout"
    subprocess.run(["git", "clone", "-q", REPOSITORY, folder], check=True, timeout=INSTALL)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", REPOSITORY]
    subprocess.run(build, check=True, timeout=INSTALL, capture_output=True)
    return folder


@pytest.mark.requirement("project.install.as-printed")
@pytest.mark.parametrize("command", INSTALL_LINES)
def test_an_install_command_as_printed_gives_a_jupyterlab_that_runs_the_quickstart(
    browser: Browser, checkout: Path, tmp_path: Path, command: str
) -> None:
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True, timeout=INSTALL)
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    install = ["bash", "-c", f"{command} && pip install pandas matplotlib"]
    subprocess.run(install, cwd=checkout, env=environment, check=True, timeout=INSTALL)
    with lab_server(tmp_path / "home", python=str(python), is_installed=True) as server:
        shutil.copytree(checkout / "notebooks", server.folder, dirs_exist_ok=True)
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        lab = Lab(context.new_page(), server)
        lab.show(server.folder / "quickstart.ipynb")
        lab.run(DATA, FAILING, LOAD, MODEL, PROMPT)
        expect(lab.output(PROMPT)).to_contain_text("Allow")
        lab.close()
        context.close()
