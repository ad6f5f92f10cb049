"""The kernel's half alone: what it makes of the messages of a page."""

import asyncio
from collections.abc import Iterator
from typing import Any

import comm
import comm.base_comm
import ipywidgets
import pytest
from ipykernel.zmqshell import ZMQDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.session import Session

from vibe_jupyter.protocol import (
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    Command,
    Headline,
    Interrupt,
    Preview,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCall,
    Usage,
)
from vibe_jupyter.ui.page import PATCH_GAP, discard_view, unseen
from vibe_jupyter.ui.transcript import Transcript
from vibe_jupyter.ui.widget import WidgetFrontEnd

STARTED = RunStarted(run_id="r", model="m", provider="127.0.0.1", agent="default")
FINISHED = RunFinished(reason="stop", turns=1, seconds=1.0, usage=Usage())
ASKED = ApprovalRequested(
    approval_id="a1",
    call=ToolCall(id="c1", name="run_code", arguments='{"code": "1"}'),
    headline=Headline(verb="Ran code", doing="Running code", asking="Run code", target=""),
    preview=Preview(kind="code", text="1", language="python", edits="code"),
    reason="runs code in this kernel",
    resources=(),
    remember_as="run_code",
    digest="",
)
APPROVE = {"type": "approve", "approval_id": "a1", "remember": "once", "edited": None}


class SilentSession(Session):
    """Sends nothing, since there is nobody to send to."""

    def send(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}


class Wire:
    """The page's end of every comm that is opened."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        """What the page received in custom messages."""
        self.comms: list[comm.base_comm.BaseComm] = []
        self._handled: dict[str, Any] | None = None

    def open(self, **arguments: Any) -> comm.base_comm.BaseComm:
        """Stands where the kernel puts its own kind of comm."""
        wire = self

        class Recording(comm.base_comm.BaseComm):
            def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
                if data and data.get("method") == "custom":
                    wire.sent.append(data["content"])

        self.comms.append(Recording(**arguments))
        return self.comms[-1]

    def say(self, content: object) -> None:
        """Let the page say something, in a view of the run."""
        body = {"comm_id": self.comms[-1].comm_id, "data": {"method": "custom", "content": content}}
        self._handled = {"header": {"msg_type": "comm_msg"}, "content": body, "buffers": []}
        self.comms[-1].handle_msg(self._handled)
        self._handled = None

    def handled(self) -> dict[str, Any] | None:
        """What a kernel says that it handles."""
        return self._handled


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A kernel's comms without a kernel."""
    wire = Wire()
    monkeypatch.setattr(comm, "create_comm", wire.open)
    publisher = ZMQDisplayPublisher(session=SilentSession())
    monkeypatch.setattr(InteractiveShell.instance(), "display_pub", publisher)
    before = dict(ipywidgets.widgets.widget._instances)
    yield wire
    while unseen:
        discard_view(unseen.popleft())
    assert ipywidgets.widgets.widget._instances == before, "a widget was left behind"
    assert not comm.get_comm_manager().comms


async def settle() -> None:
    """Let the loop do what was put into it."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_page_that_says_it_is_alive_gets_the_whole_and_then_changes(wire: Wire) -> None:
    front_end = WidgetFrontEnd(Transcript(), handled=wire.handled)
    front_end.open(lambda _, **__: None)
    await front_end.on_event(STARTED)
    await front_end.on_event(TextDelta("Gen"))
    assert wire.sent == []
    wire.say({"type": "alive"})
    await settle()
    (snapshot,) = wire.sent
    assert [part["kind"] for part in snapshot["parts"]] == ["tail", "foot"]
    before, ends = snapshot["parts"][0]["html"].split("Gen")
    await front_end.on_event(TextDelta("too"))
    tail = snapshot["parts"][0]["id"]
    await asyncio.wait_for(_told(wire, 2), timeout=30)
    changed = {"id": tail, "kind": "tail", "html": f"too{ends}", "keep": len(f"{before}Gen")}
    assert wire.sent[1] == {"type": "patches", "seq": 1, "patches": [changed]}
    front_end.close()


async def test_a_page_that_is_alive_before_the_first_event_is_heard(wire: Wire) -> None:
    front_end = WidgetFrontEnd(Transcript(), handled=wire.handled)
    front_end.open(lambda _, **__: None)
    wire.say({"type": "alive"})
    await front_end.on_event(STARTED)
    assert front_end.alive
    await asyncio.wait_for(_told(wire, 2), timeout=30)
    assert [message["type"] for message in wire.sent] == ["snapshot", "patches"]
    front_end.close()


async def test_one_decision_is_taken_for_what_waits_and_nothing_else(wire: Wire) -> None:
    said: list[Command] = []
    front_end = WidgetFrontEnd(Transcript(), handled=wire.handled)
    front_end.open(lambda command, **_: said.append(command))
    await front_end.on_event(STARTED)
    for early in ({"type": "command", "command": APPROVE}, {"type": "command"}, "approve", None, {"type": "gone"}):
        wire.say(early)
    await settle()
    await front_end.on_event(ASKED)
    wire.say({"type": "command", "command": {**APPROVE, "approval_id": "other"}})
    wire.say({"type": "command", "command": {**APPROVE, "remember": "always"}})
    await settle()
    assert said == []
    for _ in range(2):
        wire.say({"type": "command", "command": {**APPROVE, "edited": "2"}})
    await settle()
    assert said == [Approve(approval_id="a1", edited="2")]
    await front_end.on_event(ApprovalResolved(approval_id="a1", call_id="c1", allowed=True, by="person"))
    wire.say({"type": "command", "command": {"type": "interrupt"}})
    await settle()
    assert said[1:] == [Interrupt()]
    await front_end.on_event(FINISHED)
    wire.say({"type": "command", "command": {"type": "interrupt"}})
    await settle()
    assert len(said) == 2
    front_end.close()


async def test_a_flood_of_text_becomes_few_messages_and_all_of_it_arrives(wire: Wire) -> None:
    front_end = WidgetFrontEnd(Transcript(), handled=wire.handled)
    front_end.open(lambda _, **__: None)
    await front_end.on_event(STARTED)
    wire.say({"type": "alive"})
    await settle()
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(1_000):
        await front_end.on_event(TextDelta(f"{number} "))
    await asyncio.wait_for(_arrived(wire, "999 "), timeout=30)
    assert len(wire.sent) - 1 <= (loop.time() - began) / PATCH_GAP + 2
    html = ""
    for patch in [patch for message in wire.sent[1:] for patch in message["patches"] if patch.get("kind") == "tail"]:
        html = html[: patch.get("keep", 0)] + patch["html"]
    assert "".join(f"{number} " for number in range(1_000)) in html
    front_end.close()


async def test_a_view_that_is_left_behind_by_its_run_closes_quietly(wire: Wire) -> None:
    front_end = WidgetFrontEnd(Transcript(), handled=wire.handled)
    front_end.open(lambda _, **__: None)
    wire.say({"type": "alive"})
    await front_end.on_event(STARTED)
    kept = front_end.close()
    assert "text/html" in kept
    sent = len(wire.sent)
    await front_end.on_event(TextDelta("late"))
    await front_end.on_event(FINISHED)
    assert len(wire.sent) == sent


async def _told(wire: Wire, count: int) -> None:
    while len(wire.sent) < count:
        await asyncio.sleep(PATCH_GAP)


async def _arrived(wire: Wire, end: str) -> None:
    while not any(end in patch.get("html", "") for patch in wire.sent[-1].get("patches", ())):
        await asyncio.sleep(PATCH_GAP)
