"""OpenAI's Responses through the gateway: what becomes of a request, and the events of its answer."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gateway import sdks
from tests.gateway.conftest import TOKEN, Gateway, Sent
from vibe_jupyter.gateway.kept_responses import KeptResponses
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.store import SqliteStore, owner_mark
from vibe_jupyter.testing import answer, call, raw, status

ADD = "mcp__sample__add"
LOOK_UP = {"type": "function", "name": "look_up", "description": "Looks up.", "parameters": {"type": "object"}}
BEGUN = b'data: {"id":"c-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Half"}}]}\n\n'
LOOKING = answer("Looking.", [call("look_up", word="x")], reasoning="Hm.")
ENDS = ("response.completed", "response.failed", "response.incomplete")


def streamed(gateway: Gateway, given: Any = "hello", **fields: Any) -> list[Sent]:
    """All events of a response."""
    return gateway.stream_at("/v1/responses", {"input": given, **fields})


def asked(gateway: Gateway, given: Any = "hello", **fields: Any) -> Any:
    """A response without a stream."""
    found = gateway.client.post("/v1/responses", json={"input": given, **fields})
    assert found.status_code == 200, found.text
    return found.json()


def kinds(events: Sequence[Sent]) -> list[str]:
    assert all(event.data["type"] == event.name for event in events)
    return [event.name.removeprefix("response.") for event in events]


@pytest.mark.requirement("gateway.later.responses.lifecycle")
def test_an_item_is_added_grows_and_is_done(gateway: Gateway) -> None:
    gateway.will(answer("One two", reasoning="Hm.", pieces=2))

    events = streamed(gateway)

    text = ["output_item.added", "content_part.added", "DELTAS", "DONE", "content_part.done", "output_item.done"]
    found = [
        "DELTAS" if name.endswith("_text.delta") else "DONE" if name.endswith("_text.done") else name
        for name in kinds(events)
    ]
    once = [name for place, name in enumerate(found) if name != "DELTAS" or found[place - 1] != "DELTAS"]
    assert once == ["created", "in_progress", *text, *text, "completed"]
    assert [event.data["sequence_number"] for event in events] == list(range(len(events)))
    reasoning, message = events[-1].data["response"]["output"]
    assert (reasoning["type"], reasoning["content"][0]["text"]) == ("reasoning", "Hm.")
    assert (message["type"], message["content"][0]["text"]) == ("message", "One two")


@pytest.mark.requirement("gateway.later.responses.deltas")
def test_texts_and_arguments_come_in_deltas_of_their_own(gateway: Gateway) -> None:
    gateway.will(answer("Looking.", [call("look_up", word="x")]))

    events = streamed(gateway, tools=[LOOK_UP])

    by_name = {name: [event.data for event in events if event.name == f"response.{name}"] for name in kinds(events)}
    assert "".join(one["delta"] for one in by_name["output_text.delta"]) == "Looking."
    arguments = "".join(one["delta"] for one in by_name["function_call_arguments.delta"])
    assert json.loads(arguments) == {"word": "x"}
    assert [one["arguments"] for one in by_name["function_call_arguments.done"]] == [arguments]
    item = events[-1].data["response"]["output"][1]
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "look_up", arguments)
    assert by_name["function_call_arguments.done"][0]["item_id"] == item["id"]


def test_a_call_that_runs_here_is_shown_with_its_result(gateway: Gateway) -> None:
    gateway.will(answer("", [call(ADD, a=2, b=40)]), "It is 42.")

    events = streamed(gateway)

    names = kinds(events)
    assert names[2:8] == [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]
    item = events[7].data["item"]
    assert (item["type"], item["server_label"], item["name"], item["status"]) == (
        "mcp_call",
        "sample",
        "add",
        "completed",
    )
    assert json.loads(item["arguments"]) == {"a": 2, "b": 40}
    assert "42" in item["output"]
    assert events[-1].data["response"]["output"][0] == item


def test_a_call_that_fails_is_a_failed_item(gateway: Gateway) -> None:
    gateway.will(call(ADD, a="no number", b=1), "Sorry.")

    items = asked(gateway)["output"]

    assert [item["status"] for item in items] == ["failed", "completed"]
    assert items[0]["error"]["type"] == "mcp_tool_execution_error"


@pytest.mark.requirement("gateway.later.responses.terminal", "gateway.later.responses.error")
@pytest.mark.parametrize(
    ("reply", "end"),
    [
        ("Done.", "response.completed"),
        (answer("Half", finish="length"), "response.incomplete"),
        (raw([BEGUN]), "response.failed"),
    ],
)
def test_exactly_one_event_ends_a_stream(gateway: Gateway, reply: Any, end: str) -> None:
    gateway.will(reply)

    events = streamed(gateway)

    assert [event.name for event in events if event.name in ENDS] == [end]
    assert events[-1].name == end
    assert events[-1].data["response"]["status"] == end.removeprefix("response.")
    errors = [event.data for event in events if event.name == "error"]
    assert bool(errors) == (end == "response.failed")
    if errors:
        assert errors[0]["message"] == events[-1].data["response"]["error"]["message"]
        assert errors[0]["type"] == "error"
    if end == "response.incomplete":
        assert events[-1].data["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_an_error_of_the_model_server_comes_with_its_status(gateway: Gateway) -> None:
    gateway.will(status(429, {"error": {"message": "slow down", "type": "rate_limit_error"}}))

    found = gateway.client.post("/v1/responses", json={"input": "hello"})

    assert (found.status_code, found.json()["error"]["message"]) == (429, "slow down")


def test_fields_and_items_become_those_of_chat_completions(gateway: Gateway) -> None:
    gateway.will("ok")

    body = asked(
        gateway,
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "Look."}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I do."}]},
            {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "found"},
            {
                "type": "mcp_call",
                "id": "m1",
                "server_label": "sample",
                "name": "add",
                "arguments": '{"a": 1}',
                "output": "1",
            },
        ],
        instructions="You look things up.",
        max_output_tokens=50,
        temperature=0.5,
        odd_field=[1],
        metadata={"mine": "yes"},
        tools=[LOOK_UP, {"type": "web_search"}, {"type": "mcp", "server_label": "sample"}],
        tool_choice={"type": "mcp", "server_label": "sample", "name": "add"},
        text={"format": {"type": "json_schema", "name": "made", "schema": {"type": "object"}}},
    )

    sent = gateway.model.requests[-1].body
    assert [message["role"] for message in sent["messages"]] == [
        *("system", "user", "assistant", "tool"),
        *("assistant", "tool"),
    ]
    assert sent["messages"][0]["content"] == "You look things up.\n\nBe brief."
    assert sent["messages"][2]["tool_calls"][0]["id"] == "c1"
    assert sent["messages"][4]["tool_calls"][0]["function"]["name"] == ADD
    assert (sent["max_tokens"], sent["temperature"]) == (50, 0.5)
    assert "odd_field" not in sent
    assert sent["tool_choice"] == {"type": "function", "function": {"name": ADD}}
    assert sent["response_format"]["json_schema"]["name"] == "made"
    names = [tool["function"]["name"] for tool in sent["tools"]]
    assert names.count("look_up") == names.count(ADD) == 1
    assert not {"metadata", "input", "instructions", "max_output_tokens"} & set(sent)
    assert (body["metadata"], body["instructions"]) == ({"mine": "yes"}, "You look things up.")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "mcp", "server_label": "other", "server_url": "http://127.0.0.1:9"}]}, "tools"),
        ({"tools": [{"type": "mcp", "server_label": "sample", "allowed_tools": ["add"]}]}, "tools"),
        ({"background": True}, "background"),
        ({"previous_response_id": "resp_unknown"}, "previous_response_id"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input"),
    ],
)
def test_what_is_not_served_is_refused(gateway: Gateway, fields: dict[str, Any], param: str) -> None:
    before = len(gateway.model.requests)

    found = gateway.client.post("/v1/responses", json={"input": "hello", **fields})

    assert (found.status_code, found.json()["error"]["param"]) == (400, param)
    assert len(gateway.model.requests) == before


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_goes_on_after_an_earlier_one_with_its_own_instructions(gateway: Gateway, *, stream: bool) -> None:
    gateway.will(call(ADD, a=2, b=40), "It is 42.", "Still 42.")
    if stream:
        first = streamed(gateway, "add", instructions="Add.")[-1].data["response"]
    else:
        first = asked(gateway, "add", instructions="Add.")

    again = asked(gateway, "again", previous_response_id=first["id"], instructions="Repeat.")

    assert again["previous_response_id"] == first["id"]
    messages = gateway.model.requests[-1].messages
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert (messages[0]["content"], messages[-2]["content"]) == ("Repeat.", "It is 42.")


def test_after_calls_of_both_kinds_a_response_goes_on_with_all_results_once(gateway: Gateway) -> None:
    gateway.will(answer("Both.", [call(ADD, a=2, b=3), call("look_up", word="x")]), "All done.")
    first = asked(gateway, "both", tools=[LOOK_UP])
    theirs = [item for item in first["output"] if item["type"] == "function_call"]
    assert [item["type"] for item in first["output"]] == ["mcp_call", "message", "function_call"]

    result = {"type": "function_call_output", "call_id": theirs[0]["call_id"], "output": "found"}
    last = asked(gateway, [result], previous_response_id=first["id"], tools=[LOOK_UP])

    assert last["output"][-1]["content"][0]["text"] == "All done."
    messages = gateway.model.requests[-1].messages
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    made = [one["id"] for one in messages[1]["tool_calls"]]
    assert [message["tool_call_id"] for message in messages[2:]] == made

    gateway.will("Yes.")
    asked(gateway, "sure?", previous_response_id=last["id"])
    roles = [message["role"] for message in gateway.model.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]


def test_a_response_that_is_not_stored_is_gone(gateway: Gateway) -> None:
    gateway.will("hi")
    first = asked(gateway, store=False)

    found = gateway.client.post("/v1/responses", json={"input": "again", "previous_response_id": first["id"]})

    assert found.json()["error"]["code"] == "previous_response_not_found"


async def test_a_response_of_another_token_is_unknown(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite")
    mine, other = (KeptResponses(store, owner_mark(token)) for token in ("mine", "other"))
    await mine.keep("resp_1", [{"role": "user", "content": "hello"}])

    assert await mine.load("resp_1") == [{"role": "user", "content": "hello"}]
    with pytest.raises(Refused, match="not found"):
        await other.load("resp_1")
    await store.close()


def test_a_client_that_knows_them_gets_the_named_events(gateway: Gateway) -> None:
    gateway.will(call(ADD, a=1, b=2), "3.")

    events = streamed(gateway, session_id="mine")

    phases = [event.data["phase"] for event in events if event.name == "agentic_tool_call_progress"]
    assert phases == ["calling", "complete"]
    assert events[-1].data["response"]["session_id"] == "mine"


def test_calls_of_the_client_and_a_stream_that_breaks_off_are_openais(gateway: Gateway) -> None:
    gateway.will(LOOKING, raw([BEGUN]))

    assert sdks.use("openai_responses_calls", gateway.server.url, TOKEN) == {
        "output": ["reasoning", "message", "function_call"],
        "broken": ["ResponseErrorEvent", "ResponseFailedEvent"],
    }
