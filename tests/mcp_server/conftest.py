"""A kernel whose notebook is served, a user who clicks by messages, and an external client with the SDK's client."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.app.conftest import APPROVAL, Session, View, running_session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import Cell
from tests.mcp_server.outsider import Outsider, over_http
from tests.notebook.page import Page


@dataclass
class Served:
    """A notebook that is served, as its person sees it."""

    session: Session
    request: str
    view: View
    said: str
    """What the cell printed."""

    @property
    def url(self) -> str:
        return _found(r'"url": "(.*)"', self.said)

    @property
    def token(self) -> str:
        return _found(r"Bearer (\w+)", self.said)

    def run(self, code: str) -> Cell:
        return self.session.wire.run(code)

    def allow(self, **more: str) -> None:
        """Allow what the next card asks."""
        self.view.command(type="approve", approval_id=self.view.card(), **more)

    def deny(self, words: str) -> None:
        self.view.command(type="reject", approval_id=self.view.card(), message=words)

    def kept(self) -> str:
        """The HTML that took the place of the view at its end; waits for it."""
        wire = self.session.wire

        def found() -> list[str]:
            updates = [message for message in wire.seen if message["msg_type"] == "update_display_data"]
            held = [message["content"]["data"]["text/html"] for message in updates if "text/html" in str(message)]
            return [html for html in held if "<b>Not finished</b>" not in html]

        wire.until(lambda: bool(found()), "kept form")
        return found()[-1]


def serve(session: Session, *options: str) -> Served:
    """Serve the notebook, in a cell that is over when this returns."""
    session.wire.forget()
    request = session.wire.send(" ".join(["%vibe mcp serve --url", *options]))
    view = session.view(request)
    cell = session.wire.cell(request)
    assert not cell.error, cell.error
    return Served(session, request, view, cell.text)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """On the installed ipykernel; what differs between them is tested with the kernels (tests/kernel/test_turns.py)."""
    with running_session(INSTALLED, tmp_path_factory.mktemp("served")) as session:
        yield session


@pytest.fixture
def served(session: Session) -> Iterator[Served]:
    """Served again for each test; nothing is allowed in advance."""
    session.wire.run("%vibe reset")
    yield serve(session)
    session.wire.run("%vibe reset")


@pytest.fixture
def connect() -> Iterator[Callable[..., Outsider]]:
    """Connects external clients; they all end with the test."""
    open_: list[Outsider] = []

    def connected(served: Served, **more: str) -> Outsider:
        open_.append(Outsider(over_http(served.url, served.token, **more)))
        return open_[-1]

    yield connected
    for one in open_:
        one.close()


@pytest.fixture
def outsider(served: Served, connect: Callable[..., Outsider]) -> Outsider:
    return connect(served)


class Screen:
    """A page that shows the notebook and its run view, and answers both."""

    def __init__(self, served: Served, *, page: Page) -> None:
        self.served = served
        self.page = page
        self._answered: set[str] = set()

    def allow(self, **more: str) -> None:
        """Allow what the next card asks that was not answered yet."""
        self.page.until(lambda: bool(self._open()), "card")
        card = self._open()[-1]
        self._answered.add(card)
        self.served.view.command(type="approve", approval_id=card, **more)

    def _open(self) -> list[str]:
        shown = (self.served.view._shown(message) for message in self.served.session.wire.seen)
        cards = [found[1] for text in shown if (found := APPROVAL.search(text))]
        return [card for card in cards if card not in self._answered]


@contextmanager
def patience(session: Session, module: str, **values: float) -> Iterator[None]:
    """Shorter waits, inside the kernel."""
    sets = "".join(f"; _m.{name} = {value}" for name, value in values.items())
    session.wire.run(f"import importlib; _m = importlib.import_module('{module}'); _b = dict(vars(_m)){sets}")
    try:
        yield
    finally:
        session.wire.run(f"for _n in {list(values)!r}: setattr(_m, _n, _b[_n])")


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]
