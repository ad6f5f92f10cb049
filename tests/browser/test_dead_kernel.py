"""A kernel that dies, on a server that does not start it again."""

import json
import os
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.arming import press
from tests.browser.conftest import VIEWPORT
from tests.browser.lab import Lab
from tests.browser.notebook_page import PROMPT, NotebookPage, open_alone
from tests.browser.server import LabServer, lab_server
from vibe_jupyter.testing import ScriptedModel, call

pytestmark = [pytest.mark.browser, pytest.mark.matrix]  # a server of its own; test_mid_run.py has the usual one

NO_RESTARTS = {"KernelRestarter": {"restart_limit": 0}}


@pytest.fixture(scope="module")
def strict_server(own_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A server for which a kernel that died is dead."""
    home = tmp_path_factory.mktemp("strict")
    config = home / "jupyter_config_dir" / "jupyter_server_config.json"
    config.parent.mkdir()
    config.write_text(json.dumps(NO_RESTARTS), encoding="utf-8")
    with lab_server(home) as running:
        yield running


@pytest.fixture
def strict_lab(browser: Browser, strict_server: LabServer) -> Iterator[Lab]:
    context = browser.new_context(viewport=VIEWPORT)
    lab = Lab(context.new_page(), strict_server)
    yield lab
    context.close()


@pytest.mark.parametrize("when", ["a card waits", "a cell runs"])
def test_a_kernel_that_dies_in_a_run_leaves_no_error_of_ours_in_the_page(strict_lab: Lab, when: str) -> None:
    lab = strict_lab
    with ScriptedModel() as model:
        book = open_alone(lab, model, "import os\nos.getpid()", "print('on')\nwhile True: pass")
        model.will_reply(call("run_cells", cells=[book.ids[3]]))
        book.run(2)
        book.over(2)
        book.run(0, PROMPT)
        card = book.card("Run cell #4")
        expect(card).to_be_visible()
        if when == "a cell runs":
            press(card.get_by_role("button", name="Allow once"))
            book.wait_for_text(3, "on\n")
        os.kill(int(book.outputs(2)[0]["data"]["text/plain"]), signal.SIGKILL)
        expect(book.view).to_contain_text("Kernel gone · Restart it, run cells above and continue")
        book.wait("panel => panel.sessionContext.session.kernel.status === 'dead'")
        expect(book.cell(3).locator(".jp-InputPrompt")).not_to_have_text("[*]:")
        turn_of_the_page(book)
    assert lab.complaints == []


def turn_of_the_page(book: NotebookPage) -> None:
    """What rejected until now is reported."""
    book.page.evaluate("() => new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)))")
