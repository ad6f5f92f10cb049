"""JupyterLab in an environment of its own that has never heard of us, the kernel in another: two real ones."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import Lab
from tests.browser.server import lab_server
from tests.kernel.matrix import MATRIX
from tests.patience import patient
from vibe_jupyter.testing import ScriptedModel, call, say
from vibe_jupyter.ui.widget import SILENT_PAGE

pytestmark = [pytest.mark.matrix, pytest.mark.browser, pytest.mark.timeout(900)]
INSTALL = 600  # seconds
WAIT = patient(30.0)  # seconds
LOAD, VIBE, NEXT = 0, 1, 2
"""Places of the cells."""


def lab_alone() -> str:
    """The interpreter of an environment with JupyterLab and nothing else, made at the first use."""
    folder = MATRIX / "lab-alone"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "jupyterlab>=4.4,<5"]
        subprocess.run(install, check=True, timeout=INSTALL)
        (folder / "ready").touch()
    return str(python)


@pytest.fixture
def lab(browser: Browser, tmp_path: Path) -> Iterator[Lab]:
    with lab_server(tmp_path / "home", python=lab_alone()) as server:
        context = browser.new_context(viewport={"width": 1000, "height": 900})
        lab = Lab(context.new_page(), server)
        yield lab
        lab.close()
        context.close()


def test_without_us_beside_jupyterlab_everything_works_but_changing_the_notebook(lab: Lab) -> None:
    edit = call("insert_cell", after="prompt", cell_type="markdown", source="# New")
    with ScriptedModel([]) as model:
        model.will_reply(call("read_notebook"), edit, call("run_code", code="6 * 7"), say("It is 42."))
        lab.open("%load_ext vibe_jupyter", f"%%vibe --model scripted@{model.url}\nCompute it.", "print('next')")
        lab.run(LOAD, VIBE, NEXT)
        for number, asked in ((3, "1  # New"), (4, "1  6 * 7")):
            expect(lab.output(VIBE)).to_contain_text(asked)
            box = lab.output(VIBE).locator("input.jp-Stdin-input")
            expect(box).to_have_count(1)
            box.fill("a")
            box.press("Enter")
            model.wait_for_request(number, timeout=WAIT)
        expect(lab.output(VIBE)).to_contain_text("It is 42.")
        lab.wait_for_count_above(NEXT, None)
        expect(lab.output(VIBE)).to_contain_text(SILENT_PAGE)
        expect(lab.output(VIBE)).to_contain_text("the notebook extension does not answer")
        results = [result for request in model.requests for result in request.tool_results]
    assert any("read from disk" in result for result in results)
    assert any("42" in result for result in results)
