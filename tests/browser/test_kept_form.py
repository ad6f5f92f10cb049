"""What a run left, opened again in a notebook nobody trusts, in JupyterLab and in Notebook 7; a run in the latter."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.arming import press
from tests.browser.lab import Lab
from tests.browser.ready import wait_until
from tests.ui.runs import kept, whole_run
from vibe_jupyter.testing import ScriptedModel, answer, call, say

pytestmark = pytest.mark.browser
TRUSTED = """() => [...window.jupyterapp.shell.widgets("main")].find(one => one.content?.model?.cells)
    .content.model.cells.get(0).trusted"""
SPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}


def write(lab: Lab, *cells: nbformat.NotebookNode) -> Path:
    """A notebook that no server signed."""
    path = lab.server.folder / f"{secrets.token_hex(4)}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells), metadata={"kernelspec": SPEC}), path)
    return path


@pytest.fixture
def classic(lab: Lab) -> Iterator[Page]:
    """A page for Notebook 7, on the server of JupyterLab."""
    page = lab.page.context.new_page()
    yield page
    page.close()


def reads_as_a_run(output: Locator) -> None:
    expect(output.get_by_text("Gentoo bills are as long as Chinstraps'.")).to_be_visible()
    expect(output.get_by_text("Done")).to_be_visible()
    expect(output.get_by_role("button")).to_have_count(0)
    expect(output.get_by_text("slope 1.5", exact=True)).to_be_hidden()
    output.get_by_text("2 steps").click()
    output.get_by_text("Ran code", exact=True).click()
    expect(output.get_by_text("slope 1.5", exact=True)).to_be_visible()
    expect(output.get_by_text("from scipy.stats import linregress")).to_be_visible()


def kept_cell() -> nbformat.NotebookNode:
    output = nbformat.v4.new_output("display_data", data=kept(whole_run()))
    return nbformat.v4.new_code_cell("%%vibe\nlook", outputs=[output], execution_count=1)


@pytest.mark.requirement("ui.static.kept")
def test_an_untrusted_notebook_reads_the_same_in_jupyterlab(lab: Lab) -> None:
    lab.open_file(write(lab, kept_cell()))
    reads_as_a_run(lab.output(0))
    assert lab.page.evaluate(TRUSTED) is False


@pytest.mark.matrix
@pytest.mark.requirement("ui.static.kept")
def test_an_untrusted_notebook_reads_the_same_in_notebook_7(lab: Lab, classic: Page) -> None:
    path = write(lab, kept_cell())
    classic.goto(f"{lab.server.url}/notebooks/{path.name}", wait_until="domcontentloaded")
    reads_as_a_run(classic.locator(".jp-Cell-outputArea").first)
    assert classic.evaluate(TRUSTED) is False


@pytest.mark.matrix
def test_in_notebook_7_a_click_lets_the_code_run_and_the_answer_stays(lab: Lab, classic: Page) -> None:
    with ScriptedModel([answer(calls=[call("run_code", code="6 * 7")]), say("It is **42**.")]) as model:
        prompt = f"%load_ext vibe_jupyter\n%vibe --model scripted@{model.url} compute it"
        path = write(lab, nbformat.v4.new_code_cell(prompt))
        classic.goto(f"{lab.server.url}/notebooks/{path.name}", wait_until="domcontentloaded")
        wait_until(
            classic,
            """() => [...(window.jupyterapp?.shell.widgets("main") ?? [])]
                .some(one => one.sessionContext?.session?.kernel?.status === "idle")""",
        )
        classic.evaluate('() => void window.jupyterapp.commands.execute("notebook:run-cell")')
        output = classic.locator(".jp-Cell-outputArea").first
        press(output.get_by_role("button", name="Allow once"))
        expect(output.locator("strong", has_text="42")).to_be_visible()
        expect(output.locator(".vibe-run")).to_have_count(0)
        expect(output.get_by_role("button")).to_have_count(0)
