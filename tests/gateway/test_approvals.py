"""What a run asks over HTTP, and who answers."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import PATIENCE, Gateway, Sent, chat_body, chunks_of, gateway_at, text_of
from vibe_jupyter.gateway.approvals import APPROVAL_WAIT
from vibe_jupyter.gateway.server import GatewayServer
from vibe_jupyter.testing import ScriptedModel, call

ECHO = "mcp__sample__echo"
REQUIRED = "agentic_tool_approval_required"


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(strict=False) as model:
        yield model


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, own_home: Path, model: ScriptedModel) -> Iterator[Gateway]:
    """One whose rules let no MCP tool run unasked."""
    with gateway_at(tmp_path_factory.mktemp("asking"), model, settings="") as gateway:
        yield gateway


class Streamed:
    """A stream that is read on a thread, so that it can be answered meanwhile."""

    def __init__(self, gateway: Gateway, path: str = "/v1/chat/completions", **fields: Any) -> None:
        self.events: list[Sent] = []
        self._gateway = gateway
        self._path = path
        self._fields = {"agent_permission": "ask", "stream": True, **fields}
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        body = chat_body("say it", **self._fields)
        with self._gateway.client.stream("POST", self._path, json=body) as response:
            name = ""
            for line in response.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ")
                    with self._changed:
                        self.events.append(Sent(name, data if data == "[DONE]" else json.loads(data)))
                        self._changed.notify_all()
                    name = ""

    def asked(self) -> Any:
        """The body of the approval event."""
        return self._wait(lambda: [event.data for event in self.events if event.name == REQUIRED])[0]

    def last(self) -> Sent:
        """The event that ends it."""
        self._thread.join(PATIENCE)
        return self.events[-1]

    def text(self) -> str:
        """Of the whole answer."""
        self._thread.join(PATIENCE)
        assert self.events[-1].data == "[DONE]"
        return text_of(chunks_of(self.events))

    def _wait(self, found: Callable[[], list[Any]]) -> list[Any]:
        with self._changed:
            assert self._changed.wait_for(found, PATIENCE)
            return found()


def answered(gateway: Gateway, approval_id: str, **said: Any) -> httpx.Response:
    return gateway.client.post(f"/v1/agent/approvals/{approval_id}", json=said)


@pytest.mark.requirement(
    "gateway.approval.event.fields", "gateway.approval.event.pauses", "gateway.approval.status.resolved"
)
def test_a_call_waits_for_its_answer(asking: Gateway) -> None:
    first = asking.will(call(ECHO, text="hi"), "Said.")
    stream = Streamed(asking, session_id="mine")

    asked = stream.asked()

    assert asked["type"] == REQUIRED
    assert asked["session_id"] == "mine"
    assert asked["round"] == 1
    assert set(asked["tool"]) == {"source", "kind", "label"}
    assert asked["tool"]["kind"] == "custom"
    assert asked["arguments"] == {"text": "hi"}
    assert len(asking.model.requests) == first
    assert answered(asking, asked["approval_id"], decision="approve").json() == {"status": "resolved"}
    assert stream.text() == "Said."
    assert "hi" in asking.model.requests[-1].messages[-1]["content"]


@pytest.mark.parametrize(
    ("path", "fields", "end"),
    [
        ("/v1/responses", {"input": "say it"}, "response.completed"),
        ("/v1/messages", {"max_tokens": 100}, "message_stop"),
    ],
)
def test_the_other_routes_ask_too(asking: Gateway, path: str, fields: dict[str, Any], end: str) -> None:
    asking.will(call(ECHO, text="hi"), "Said.")
    stream = Streamed(asking, path, **fields)

    answered(asking, stream.asked()["approval_id"], decision="approve")

    assert stream.last().name == end
    assert "hi" in asking.model.requests[-1].messages[-1]["content"]


@pytest.mark.requirement("gateway.approval.decision.message")
def test_the_message_of_a_denial_is_what_the_model_gets(asking: Gateway) -> None:
    asking.will(call(ECHO, text="hi"), "Then not.")
    stream = Streamed(asking)

    answered(asking, stream.asked()["approval_id"], decision="deny", message="use a file instead")

    assert stream.text() == "Then not."
    assert "use a file instead" in asking.model.requests[-1].messages[-1]["content"]


@pytest.mark.requirement("gateway.approval.decision.remember")
def test_what_is_remembered_runs_unasked_in_that_session_alone(asking: Gateway) -> None:
    asking.will(call(ECHO, text="1"), "Once.")
    stream = Streamed(asking, session_id="remembers")
    answered(asking, stream.asked()["approval_id"], decision="approve", remember_for_session=True)
    assert stream.text() == "Once."

    asking.will(call(ECHO, text="2"), "Twice.")
    assert "2" in _result(asking, session_id="remembers")
    asking.will(call(ECHO, text="3"), "Denied.")
    assert "Not run" in _result(asking, session_id="another")


@pytest.mark.requirement("gateway.approval.decision.remember")
def test_what_is_remembered_in_a_session_adds_up(asking: Gateway) -> None:
    calls = call(ECHO, text="1"), call(ECHO.replace("echo", "add"), a=2, b=40)
    for one in calls:
        asking.will(one, "Once.")
        stream = Streamed(asking, session_id="adds-up")
        answered(asking, stream.asked()["approval_id"], decision="approve", remember_for_session=True)
        assert stream.text() == "Once."
    for one in calls:
        asking.will(one, "Again.")
        assert "Not run" not in _result(asking, session_id="adds-up")


@pytest.mark.parametrize("change", ["import", "delete"])
def test_a_session_that_is_replaced_or_deleted_allows_nothing_more(asking: Gateway, change: str) -> None:
    session = f"/v1/sessions/before-{change}"
    asking.will(call(ECHO, text="1"), "Once.")
    stream = Streamed(asking, session_id=f"before-{change}")
    answered(asking, stream.asked()["approval_id"], decision="approve", remember_for_session=True)
    assert stream.text() == "Once."

    if change == "import":
        asking.client.put(session, json=asking.client.get(session).json())
    else:
        asking.client.delete(session)

    asking.will(call(ECHO, text="2"), "Denied.")
    assert "Not run" in _result(asking, session_id=f"before-{change}")


def _result(gateway: Gateway, **fields: Any) -> str:
    """What the only call of an answer gave."""
    return gateway.chat("again", **fields).json()["agentic_tool_calls"][0]["result_content"]


@pytest.mark.requirement("gateway.approval.ask.stream-only", "gateway.approval.decision.values")
def test_wrong_fields_are_validation_errors(asking: Gateway) -> None:
    asked = len(asking.model.requests)
    found = asking.chat(agent_permission="ask")
    assert (found.status_code, found.json()["error"]["param"]) == (422, "agent_permission")
    assert asking.chat(agent_permission="perhaps").status_code == 422
    found = answered(asking, "appr_x", decision="maybe")
    assert (found.status_code, found.json()["error"]["param"]) == (422, "decision")
    assert len(asking.model.requests) == asked


@pytest.mark.requirement("gateway.approval.status.not-found")
def test_an_answer_counts_once_and_an_unknown_one_not_at_all(asking: Gateway) -> None:
    asking.will(call(ECHO, text="hi"), "Said.")
    stream = Streamed(asking)
    approval_id = stream.asked()["approval_id"]
    answered(asking, approval_id, decision="approve")
    for name in (approval_id, "appr_" + "0" * 32):
        found = answered(asking, name, decision="deny")
        assert (found.status_code, found.json()) == (404, {"status": "not_found"})
    assert stream.text() == "Said."


def test_without_asking_what_the_rules_do_not_allow_is_denied(asking: Gateway) -> None:
    asking.will(call(ECHO, text="hi"), "Not allowed.")
    assert "nobody is here to approve it" in _result(asking)


@pytest.mark.requirement("gateway.approval.status.queued")
def test_an_answer_that_another_worker_takes_is_kept_for_the_run(asking: Gateway) -> None:
    other = GatewayServer(asking.folder, asking.variables, port=0)
    other.start()
    try:
        asking.will(call(ECHO, text="hi"), "Said.")
        stream = Streamed(asking)
        url = f"{other.url}/agent/approvals/{stream.asked()['approval_id']}"
        found = httpx.post(url, json={"decision": "approve"}, headers=asking.client.headers, timeout=PATIENCE)
        assert found.json() == {"status": "queued"}
        assert stream.text() == "Said."
        assert "hi" in asking.model.requests[-1].messages[-1]["content"]
    finally:
        other.stop()


@pytest.mark.requirement("gateway.approval.timeout.five-minutes")
def test_an_approval_that_nobody_answers_is_denied(tmp_path: Path, own_home: Path, model: ScriptedModel) -> None:
    assert APPROVAL_WAIT == 5 * 60
    with gateway_at(tmp_path, model, settings="", approval_wait=0.2) as gateway:
        gateway.will(call(ECHO, text="hi"), "Nobody came.")
        stream = Streamed(gateway)
        approval_id = stream.asked()["approval_id"]
        assert stream.text() == "Nobody came."
        assert "Nobody answered in time" in gateway.model.requests[-1].messages[-1]["content"]
        assert answered(gateway, approval_id, decision="approve").status_code == 404
