"""What a page sends to the kernel when the user has pressed ■ already."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, WebSocketRoute, expect

from tests.browser.conftest import VIEWPORT
from tests.browser.lab import Lab
from tests.browser.notebook_page import PROMPT, open_prompt
from tests.browser.server import LabServer
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.browser


class SlowConnection:
    """The page's connection to its kernels, which keeps what the page says from a certain cell on, until let go."""

    def __init__(self, lab: Lab) -> None:
        self.keeps_from: bytes | None = None
        """Code of the cell from whose request on nothing is passed on; None for passing all."""
        self.kept: list[bytes | str] = []
        self._servers: list[WebSocketRoute] = []
        lab.page.route_web_socket("**/api/kernels/*/channels*", self._route)

    def _route(self, page: WebSocketRoute) -> None:
        server = page.connect_to_server()
        self._servers.append(server)
        page.on_message(self._on_message)

    def _on_message(self, message: bytes | str) -> None:
        data = message if isinstance(message, bytes) else message.encode()
        begins = self.keeps_from is not None and b"execute_request" in data and self.keeps_from in data
        if self.kept or begins:
            self.kept.append(message)
        else:
            self._servers[-1].send(message)

    def let_go(self) -> None:
        """Pass on what was kept, in its order."""
        kept, self.kept, self.keeps_from = self.kept, [], None
        for message in kept:
            self._servers[-1].send(message)


@pytest.fixture
def fresh_lab(browser: Browser, server: LabServer) -> Iterator[Lab]:
    """A page of its own: only one that is loaded afterwards goes over a slow connection."""
    context = browser.new_context(viewport=VIEWPORT)
    lab = Lab(context.new_page(), server)
    yield lab
    lab.close()
    context.close()
    assert lab.complaints == []


@pytest.mark.attack("late requests", always=True)
@pytest.mark.matrix
def test_a_cell_whose_request_arrives_after_the_stop_button_does_not_run(fresh_lab: Lab) -> None:
    lab, connection = fresh_lab, SlowConnection(fresh_lab)
    with ScriptedModel() as model:
        book = open_prompt(lab, model, "print('ran unasked')", "print('by hand')", options="--yes=run_cells")
        model.will_reply(call("run_cells", cells=[book.ids[2]]), say("Never said."))
        connection.keeps_from = b"ran unasked"
        book.run(0, PROMPT)
        expect(book.cell(2).locator(".jp-InputPrompt")).to_have_text("[*]:")
        lab.interrupt()
        expect(book.output(PROMPT)).to_contain_text("Stopped")
        expect(book.view).to_have_count(0)
        connection.let_go()
        expect(book.cell(2).locator(".jp-InputPrompt")).to_have_text("[ ]:")
        book.run(3)
        book.wait_for_text(3, "by hand\n")
        assert book.outputs(2) == []
        book.run(2)
        book.wait_for_text(2, "ran unasked\n")
