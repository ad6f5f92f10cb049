"""Chat Completions through the gateway: plain ones as the model server gives them, and MCP tools run on the way."""

import json
from typing import Any

import pytest

from tests.gateway.conftest import Gateway, chat_body, chunks_of, text_of
from vibe_jupyter.testing import answer, call, raw, status

ADD = "mcp__sample__add"
ECHO = "mcp__sample__echo"
CLIENT_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look_up", "description": "Looks up.", "parameters": {"type": "object", "properties": {}}},
}


def test_a_plain_answer_is_the_model_servers_own(gateway: Gateway) -> None:
    body = b'{"id":"x-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",'
    body += b'"content":"hi","odd":[1,null]},"logprobs":{"content":[]},"finish_reason":"stop"}],  "odd_too": {"a": 1}}'
    gateway.will(raw([body], content_type="application/json"))

    found = gateway.chat(top_k=3, odd_field={"deep": [1]})

    assert found.status_code == 200
    assert found.content == body
    assert found.headers["content-type"] == "application/json"
    sent = gateway.model.requests[-1].body
    assert (sent["top_k"], sent["odd_field"], sent["model"]) == (3, {"deep": [1]}, "scripted")


def test_a_plain_stream_is_the_model_servers_own(gateway: Gateway) -> None:
    lines = [
        '{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},'
        '"finish_reason":null}],"odd":1}',
        '{"id":"c-1","choices":[{"index":0,"delta":{"content":"hi","odd_delta":2},"logprobs":null}]}',
        '{"id":"c-1","choices":[{"index":0,"delta":{},"finish_reason":"stop","odd_end":3}]}',
    ]
    body = b"".join(f"data: {line}\n\n".encode() for line in (*lines, "[DONE]"))
    gateway.will(raw([body]))

    found = gateway.client.post("/v1/chat/completions", json=chat_body("hello", stream=True))

    assert found.content == body
    assert found.headers["content-type"].startswith("text/event-stream")


def test_tools_of_mcp_servers_go_along_and_their_calls_are_answered(gateway: Gateway) -> None:
    first = gateway.will(call(ADD, a=2, b=40), "It is 42.")

    found = gateway.chat("add 2 and 40")

    body = found.json()
    assert body["choices"][0]["message"]["content"] == "It is 42."
    assert body["choices"][0]["finish_reason"] == "stop"
    assert ADD in gateway.model.requests[first - 1].tools
    follow_up = gateway.model.requests[first].messages
    assert [message["role"] for message in follow_up] == ["user", "assistant", "tool"]
    assert "42" in follow_up[-1]["content"]
    assert len(gateway.model.requests) == first + 1
    recorded = body["agentic_tool_calls"]
    assert [(one["round"], one["name"]) for one in recorded] == [(1, ADD)]
    assert json.loads(recorded[0]["arguments"]) == {"a": 2, "b": 40}
    assert "42" in recorded[0]["result_content"]


def test_a_stream_goes_on_over_a_call_as_one_answer(gateway: Gateway) -> None:
    gateway.will(answer("Let me see. ", [call(ADD, a=2, b=40)]), answer("It is 42."))

    events = gateway.stream("add 2 and 40", stream_options={"include_usage": True}, agent_permission="auto")

    chunks = chunks_of(events)
    assert text_of(chunks) == "Let me see. It is 42."
    assert len({chunk["id"] for chunk in chunks}) == 1
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert sum("role" in delta for delta in deltas) == 1
    assert not any("tool_calls" in delta for delta in deltas)
    ends = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"]]
    assert ends == ["stop"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens"] > 0
    assert [event.data for event in events].count("[DONE]") == 1
    assert events[-1].data == "[DONE]"
    progress = [event.data for event in events if event.name == "agentic_tool_call_progress"]
    assert [(one["tool_name"], one["phase"], one["round"]) for one in progress] == [
        (ADD, "calling", 1),
        (ADD, "complete", 1),
    ]


def test_several_rounds_are_followed_with_a_valid_history(gateway: Gateway) -> None:
    first = gateway.will(call(ADD, a=1, b=1), call(ADD, a=2, b=2), "Done.")

    assert gateway.chat("add twice").json()["choices"][0]["message"]["content"] == "Done."

    roles = [message["role"] for message in gateway.model.requests[first + 1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]


def test_calls_of_the_clients_tools_go_back_to_it_whole(gateway: Gateway) -> None:
    gateway.will(call("look_up", word="a long word that comes in pieces"))

    chunks = chunks_of(gateway.stream("look it up", tools=[CLIENT_TOOL]))

    calls = [
        delta for chunk in chunks for choice in chunk["choices"] for delta in choice["delta"].get("tool_calls", [])
    ]
    assert len(calls) == 1
    assert set(calls[0]) == {"index", "id", "type", "function"}
    assert json.loads(calls[0]["function"]["arguments"]) == {"word": "a long word that comes in pieces"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_with_both_kinds_of_calls_is_joined_when_the_client_comes_back(
    gateway: Gateway, *, stream: bool
) -> None:
    first = gateway.will(answer("Both.", [call(ADD, a=2, b=3), call("look_up", word="x")]))
    if stream:
        chunks = chunks_of(gateway.stream("both", tools=[CLIENT_TOOL]))
        given = [call for chunk in chunks for one in chunk["choices"] for call in one["delta"].get("tool_calls", [])]
        ends = [one["finish_reason"] for chunk in chunks for one in chunk["choices"] if one["finish_reason"]]
    else:
        choice = gateway.chat("both", tools=[CLIENT_TOOL]).json()["choices"][0]
        given, ends = choice["message"]["tool_calls"], [choice["finish_reason"]]
    assert [one["function"]["name"] for one in given] == ["look_up"]
    assert ends == ["tool_calls"]
    assert len(gateway.model.requests) == first

    gateway.will("All done.")
    known = [{name: value for name, value in one.items() if name != "index"} for one in given]
    back = [
        {"role": "user", "content": "both"},
        {"role": "assistant", "content": "Both.", "tool_calls": known},
        {"role": "tool", "tool_call_id": known[0]["id"], "content": "found"},
    ]
    found = gateway.chat(messages=back, tools=[CLIENT_TOOL]).json()

    assert found["choices"][0]["message"]["content"] == "All done."
    joined = gateway.model.requests[-1].messages
    assert [message["role"] for message in joined] == ["user", "assistant", "tool", "tool"]
    names = [one["function"]["name"] for one in joined[1]["tool_calls"]]
    assert names == [ADD, "look_up"]
    assert [message["tool_call_id"] for message in joined[2:]] == [one["id"] for one in joined[1]["tool_calls"]]
    assert [message["content"] for message in joined[2:]][1] == "found"


def test_an_error_of_the_model_server_comes_as_it_is(gateway: Gateway) -> None:
    said = {"error": {"message": "slow down", "type": "rate_limit", "odd": 1}}
    for stream in (False, True):
        gateway.will(status(429, said, {"retry-after": "7"}))
        found = gateway.chat(stream=stream)
        assert (found.status_code, found.json(), found.headers["retry-after"]) == (429, said, "7")


def test_an_error_after_a_stream_began_is_told_in_it(gateway: Gateway) -> None:
    gateway.will(answer("Wait. ", [call(ADD, a=1, b=1)]), status(500, {"error": {"message": "broken"}}))

    events = gateway.stream("add")

    assert events[-1].data == "[DONE]"
    assert events[-2].data["error"]["message"] == "broken"


def test_a_tool_that_fails_is_a_result_for_the_model(gateway: Gateway) -> None:
    gateway.will(call(ADD, a="no number", b=1), "It did not work.")

    assert gateway.chat("add").json()["choices"][0]["message"]["content"] == "It did not work."

    assert gateway.model.requests[-1].messages[-1]["role"] == "tool"
    assert "no number" in gateway.model.requests[-1].messages[-1]["content"]


def test_the_models_that_may_be_named_are_listed(gateway: Gateway) -> None:
    listed = gateway.client.get("/v1/models").json()["data"]

    found = {one["id"]: one for one in listed}
    assert found["scripted"]["status"] == "loaded"
    assert found["scripted"]["tools_available"] is True
    assert found["scripted"]["mcp_tools_count"] >= 5
    assert found["scripted"]["mcp_servers_connected"] == 1


def test_health_needs_no_token_and_asks_nobody(gateway: Gateway) -> None:
    asked = len(gateway.model.requests)
    for path in ("/", "/health"):
        assert gateway.client.get(path, headers={"authorization": ""}).status_code == 200
    assert len(gateway.model.requests) == asked
