"""A real kernel with the extension in it, a scripted model as its server, and a front end that clicks by messages."""

import itertools
import queue
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.silent_pages import MARK, install
from tests.kernel.matrix import INSTALLED, Target
from tests.kernel.wire import WAIT, Cell, Wire, running_kernel
from vibe_jupyter.testing import ScriptedModel
from vibe_jupyter.testing.scripted import Script

CONFIG = """\
active_model = "scripted"

[[providers]]
name = "scripted"
api_base = "{url}"

[[models]]
name = "scripted-1"
provider = "scripted"
alias = "scripted"
"""
APPROVAL = re.compile(r'data-vibe-(?:approval|change)="([0-9a-f]+)"')
QUESTION = re.compile(r'data-vibe-question="([0-9a-f]+)"')
LAST_SEEN = 12
"""Messages that a failure shows."""
INSTALL = f"__import__({install.__module__!r}, fromlist=['_']).{install.__name__}()"
"""Leaves no name in the kernel."""
STATE = re.compile(r'class="vibe-state"><i class="vibe-dot"></i>([^<]*)</span>')


class Session:
    """What a user does in a notebook, as messages."""

    def __init__(self, wire: Wire, model: ScriptedModel, folder: Path) -> None:
        self.wire = wire
        self.model = model
        self.folder = folder

    def run(self, code: str) -> Cell:
        """Run a cell where nobody can answer, as nbconvert would; an error in it fails the test.

        Not so the line that ends the cell of a run that failed.
        """
        cell = self.wire.cell(self.wire.send(code, metadata={MARK: True}, allow_stdin=False))
        assert not cell.error or cell.error.startswith("RunFailed: "), cell.error
        return cell

    def html(self, cell: Cell) -> str:
        """The last HTML that the cell shows."""
        bundles = [message["content"].get("data", {}) for message in cell.outputs]
        return [bundle["text/html"] for bundle in bundles if "text/html" in bundle][-1]

    def type_in(self, request: str, *lines: str) -> Cell:
        """Answer each text prompt of a running cell with the next line."""
        for line in lines:
            self.wire.client.get_stdin_msg(timeout=WAIT)
            self.wire.client.input(line)
        return self.wire.cell(request)

    def view(self, request: str, number: int = 0) -> "View":
        """A run view of a running cell, alive; the first, unless a question came before the run."""
        return View(self.wire, request, number)


class View:
    """The page's half of the run view, without a page."""

    def __init__(self, wire: Wire, request: str, number: int = 0) -> None:
        self._wire = wire
        self._request = request
        self._html: dict[str, str] = {}
        """Of each part, as the messages so far have it."""
        seen: list[str] = []

        def fits(message: dict[str, Any]) -> bool:
            if message["msg_type"] == "comm_open" and self._is_view(message):
                seen.append(message["content"]["comm_id"])
            return len(seen) > number

        opened = self._first(fits)
        self.comm: str = opened["content"]["comm_id"]
        self.say({"type": "alive"})

    def say(self, content: dict[str, Any]) -> None:
        """Send what the page sends."""
        self._wire.comm(self.comm, {"method": "custom", "content": content})

    def command(self, **command: Any) -> None:
        self.say({"type": "command", "command": command})

    def card(self) -> str:
        """Wait for an approval card; its id."""
        found = self._first(lambda message: bool(APPROVAL.search(self._shown(message))))
        match = APPROVAL.search(self._shown(found))
        assert match is not None
        return match[1]

    def question(self, after: str = "") -> str:
        """Wait for a card of questions, other than the one with this id; its id."""

        def fits(message: dict[str, Any]) -> bool:
            match = QUESTION.search(self._shown(message))
            return match is not None and match[1] != after

        match = QUESTION.search(self._shown(self._first(fits)))
        assert match is not None
        return match[1]

    def wait_for(self, text: str) -> str:
        """Wait until the view was sent this text; the HTML it came with."""
        return self._shown(self._first(lambda message: text in self._shown(message)))

    def states(self) -> list[str]:
        """What the last line said of the run, each change once, as far as it was seen."""
        said = [state for message in self._wire.seen for state in STATE.findall(self._shown(message))]
        return [state for state, _ in itertools.groupby(said)]

    def _first(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        looked = 0
        end = time.monotonic() + WAIT
        while True:
            for message in self._wire.seen[looked:]:
                if fits(message):
                    return message
            looked = len(self._wire.seen)
            try:
                self._wire.seen.append(self._wire.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic())))
            except queue.Empty:
                last = [f"{one['msg_type']}: {str(one['content'])[:300]}" for one in self._wire.seen[-LAST_SEEN:]]
                raise AssertionError("\n".join([f"not seen within {WAIT} s; what came last:", *last])) from None

    def _is_view(self, message: dict[str, Any]) -> bool:
        if message["parent_header"].get("msg_id") != self._request:
            return False
        state = message["content"].get("data", {}).get("state", {})
        return "anywidget" in str(state.get("_model_module", ""))

    def _shown(self, message: dict[str, Any]) -> str:
        content = message["content"]
        if message["msg_type"] != "comm_msg" or content.get("comm_id") != getattr(self, "comm", None):
            return ""
        custom = content["data"].get("content") or {}
        parts = [*custom.get("patches", ()), *custom.get("parts", ())]
        return "\n".join(self._grown(part) for part in parts)

    def _grown(self, part: dict[str, Any]) -> str:
        """Its HTML as the page has it now: of what grows only what is new is sent."""
        html = self._html.get(part["id"], "")[: part.get("keep", 0)] + part.get("html", "")
        self._html[part["id"]] = html
        return html


@contextmanager
def running_session(target: Target, folder: Path, *, script: Script | None = None) -> Iterator[Session]:
    home = folder / "vibe"
    home.mkdir()
    with ScriptedModel(script or []) as model, running_kernel(target, folder) as wire:
        (home / "config.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
        wire.run("%load_ext vibe_jupyter")
        wire.cell(wire.send(INSTALL, silent=True, store_history=False))
        yield Session(wire, model, folder)


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("session")) as session:
        yield session


@pytest.fixture
def session(shared_session: Session) -> Session:
    """A kernel that the tests of a module share; the conversation is new."""
    shared_session.run("%vibe reset")
    shared_session.model.requests.clear()
    return shared_session
