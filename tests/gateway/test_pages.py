"""Web pages that ask the gateway."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.gateway.conftest import TOKEN, chat_body, gateway_at
from vibe_jupyter.testing import ScriptedModel

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
ASK = """async ([url, token, body]) => {
    const headers = {authorization: `Bearer ${token}`, "content-type": "application/json"};
    try {
        const answer = await fetch(url, {method: "POST", headers, body: JSON.stringify(body)});
        return (await answer.json()).choices[0].message.content;
    } catch (error) {
        return error.name;
    }
}"""


class _EmptyPage(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204 if "." in self.path else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def web_server() -> Iterator[int]:
    """Of a page, on this machine: browsers let those of the internet speak to it only where the user agrees."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _EmptyPage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_page_of_an_origin_that_the_settings_name_can_ask_and_no_other(browser: "Browser", tmp_path: Path) -> None:
    with web_server() as port, ScriptedModel() as model, browser.new_page() as page:
        named, other = f"http://chat.localhost:{port}", f"http://other.localhost:{port}"
        with gateway_at(tmp_path, model, f'[gateway]\norigins = ["{named}"]\n') as gateway:
            gateway.will("hello, page")
            assert answer(page, named, gateway.server.url) == "hello, page"
            assert answer(page, other, gateway.server.url) == "TypeError"
        assert len(model.requests) == 1


def answer(page: "Page", origin: str, url: str) -> str:
    page.goto(f"{origin}/")
    return str(page.evaluate(ASK, [f"{url}/chat/completions", TOKEN, chat_body("hello")]))
