"""Servers that share a notebook between pages: jupyter-server-documents and jupyter-collaboration, real ones."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.arming import press
from tests.browser.conftest import VIEWPORT
from tests.browser.lab import Lab
from tests.browser.server import LabServer, lab_server
from tests.browser.shared_servers import python_of
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = [pytest.mark.browser, pytest.mark.matrix, pytest.mark.timeout(240)]

LOAD, VIBE, AFTER = 0, 1, 2
UNFINISHED = "Not finished"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture(scope="module")
def documents_server(own_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A server that runs the cells of its pages itself."""
    with lab_server(tmp_path_factory.mktemp("documents"), python=python_of("jupyter-server-documents")) as running:
        yield running


@pytest.fixture(scope="module")
def collaboration_server(own_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A server whose pages edit one document."""
    with lab_server(tmp_path_factory.mktemp("together"), python=python_of("jupyter-collaboration")) as running:
        yield running


def client(browser: Browser, server: LabServer) -> Lab:
    """A browser of its own, as another user has it."""
    return Lab(browser.new_context(viewport=VIEWPORT).new_page(), server)


def card(lab: Lab) -> Locator:
    return lab.output(VIBE).get_by_role("group", name="Approval: Run code")


def cells(model: ScriptedModel) -> tuple[str, ...]:
    return "%load_ext vibe_jupyter", f"%%vibe --model scripted@{model.url}\nCompute it.", "print('answer:', answer)"


@pytest.mark.requirement("project.approval.inline")
def test_a_card_appears_and_decides_where_the_server_runs_the_cells(
    browser: Browser, documents_server: LabServer, model: ScriptedModel
) -> None:
    model.will_reply(call("run_code", code="answer = 6 * 7", keep=True), say("It is 42."))
    lab = client(browser, documents_server)
    lab.open(*cells(model))
    lab.run(LOAD, VIBE, AFTER)
    press(card(lab).get_by_role("button", name="Allow once"))
    expect(lab.output(AFTER)).to_contain_text("answer: 42")
    expect(lab.output(VIBE)).to_contain_text("It is 42.")
    expect(lab.output(VIBE).locator(".vibe-run")).to_have_count(0)
    lab.page.context.close()
    documents_server.end_kernels()


def test_of_two_clients_of_one_notebook_the_one_that_ran_the_cell_decides_and_both_see_what_came_of_it(
    browser: Browser, collaboration_server: LabServer, model: ScriptedModel
) -> None:
    insert = call("insert_cell", after="prompt", cell_type="markdown", source="# Found")
    model.will_reply(call("run_code", code="answer = 6 * 7", keep=True), insert, say("It is 42."))
    one, other = client(browser, collaboration_server), client(browser, collaboration_server)
    path = one.open(*cells(model))
    other.show(path)
    one.run(LOAD, VIBE, AFTER)
    expect(card(one)).to_be_visible()
    # JupyterLab trusts what its own page ran; what another page ran is shown there without widgets: the run so far.
    expect(other.output(VIBE)).to_contain_text(UNFINISHED)
    expect(card(other)).to_have_count(0)
    press(card(one).get_by_role("button", name="Allow once"))
    inserting = one.output(VIBE).get_by_role("group", name="Approval: Insert a new cell below")
    press(inserting.get_by_role("button", name="Allow once"))
    for lab in (one, other):
        expect(lab.cell(AFTER)).to_contain_text("Found")
        expect(lab.output(AFTER + 1)).to_contain_text("answer: 42")
        expect(lab.output(VIBE)).to_contain_text("It is 42.")
        expect(lab.output(VIBE)).not_to_contain_text(UNFINISHED)
        assert lab.page.locator(".jp-Notebook .jp-Cell").count() == len(cells(model)) + 1
    for lab in (one, other):
        lab.page.context.close()
    collaboration_server.end_kernels()
