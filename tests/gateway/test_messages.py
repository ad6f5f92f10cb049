"""Anthropic's Messages through the gateway: what becomes of a request, and the events of its answer."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gateway import sdks
from tests.gateway.conftest import TOKEN, Gateway, Sent, gateway_at
from vibe_jupyter.testing import ScriptedModel, answer, call, hold, raw, status

ADD = "mcp__sample__add"
LOOK_UP = {"name": "look_up", "description": "Looks up.", "input_schema": {"type": "object"}}
BEGUN = b'data: {"id":"c-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Half"}}]}\n\n'
LOOKING = answer("Looking.", [call("look_up", word="x")], reasoning="Hm.")


def message_body(content: Any = "hello", **fields: Any) -> dict[str, Any]:
    return {"model": "default", "max_tokens": 100, "messages": [{"role": "user", "content": content}], **fields}


def streamed(gateway: Gateway, **fields: Any) -> list[Sent]:
    """All events of a message."""
    events = gateway.stream_at("/v1/messages", message_body(**fields))
    assert all(event.data["type"] == event.name for event in events)
    return events


def asked(gateway: Gateway, **fields: Any) -> Any:
    """A message without a stream, as a client of Anthropic asks for it."""
    headers = {"x-api-key": TOKEN, "anthropic-version": "2023-06-01"}
    found = gateway.client.post("/v1/messages", json=message_body(**fields), headers=headers)
    assert found.status_code == 200, found.text
    return found.json()


def deltas(events: Sequence[Sent], kind: str, field: str) -> str:
    found = [event.data["delta"] for event in events if event.name == "content_block_delta"]
    return "".join(delta[field] for delta in found if delta["type"] == kind)


REFUSALS = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead.",
    "stream_options": "Unrecognized request argument supplied: stream_options",
}


@pytest.mark.parametrize("field", sorted(REFUSALS))
def test_a_model_that_refuses_the_spelling_of_the_gateway_is_asked_in_another_from_then_on(
    tmp_path: Path, own_home: Path, field: str
) -> None:
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model) as gateway:
        gateway.will(status(400, {"error": {"message": REFUSALS[field]}}), "hi", "hi again")

        assert deltas(streamed(gateway), "text_delta", "text") == "hi"
        assert deltas(streamed(gateway), "text_delta", "text") == "hi again"

    first, *later = [request.body for request in model.requests]
    assert field in first
    assert [field in body for body in later] == [False, False]
    assert [body.get("max_completion_tokens", body.get("max_tokens")) for body in later] == [100, 100]


@pytest.mark.requirement("gateway.later.messages.events")
def test_a_message_is_streamed_block_by_block_with_pings_in_its_silence(tmp_path: Path, own_home: Path) -> None:
    go_on = threading.Event()
    with (
        ScriptedModel(strict=False) as model,
        gateway_at(tmp_path, model, environ={"KEEP_ALIVE_INTERVAL": "50"}) as gateway,
    ):
        gateway.will(hold(go_on, "Wait", " done."))
        names: list[str] = []
        body = message_body(stream=True)
        with gateway.client.stream("POST", "/v1/messages", json=body) as response:
            for line in response.iter_lines():
                if line.startswith("event: "):
                    names.append(line.removeprefix("event: "))
                if names.count("ping") == 2:
                    go_on.set()

    said = [name for name in names if name != "ping"]
    once = [name for place, name in enumerate(said) if said[place - 1] != name]
    assert once == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


@pytest.mark.requirement("gateway.later.messages.deltas")
def test_text_reasoning_and_arguments_come_in_deltas_of_their_own(gateway: Gateway) -> None:
    gateway.will(LOOKING)

    events = streamed(gateway, tools=[LOOK_UP])

    assert deltas(events, "thinking_delta", "thinking") == "Hm."
    assert deltas(events, "text_delta", "text") == "Looking."
    assert json.loads(deltas(events, "input_json_delta", "partial_json")) == {"word": "x"}
    blocks = [event.data["content_block"] for event in events if event.name == "content_block_start"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
    assert blocks[2]["name"] == "look_up"
    ended = events[-2].data
    assert ended["delta"]["stop_reason"] == "tool_use"
    assert ended["usage"]["output_tokens"] > 0


def test_reasoning_is_found_under_the_model_servers_own_name(tmp_path: Path, own_home: Path) -> None:
    lines = (
        '{"id":"c-1","choices":[{"index":0,"delta":{"role":"assistant","thoughts":"Hm."}}]}',
        '{"id":"c-1","choices":[{"index":0,"delta":{"content":"Yes."},"finish_reason":"stop"}]}',
        "[DONE]",
    )
    own = """
[[providers]]
name = "own"
api_base = "{url}"
reasoning_field_name = "thoughts"
[[models]]
name = "scripted"
alias = "thinker"
provider = "own"
"""
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, own.format(url=model.url)) as gateway:
        gateway.will(raw([f"data: {line}\n\n".encode() for line in lines]))
        events = streamed(gateway, model="thinker")
        assert deltas(events, "thinking_delta", "thinking") == "Hm."
        assert deltas(events, "text_delta", "text") == "Yes."


@pytest.mark.parametrize(
    ("finish", "stop"), [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")]
)
def test_a_message_says_why_it_stops(gateway: Gateway, finish: str, stop: str) -> None:
    gateway.will(answer("Half", finish=finish))

    assert asked(gateway)["stop_reason"] == stop


def test_calls_of_ours_run_and_those_of_the_client_come_back_to_it(gateway: Gateway) -> None:
    gateway.will(call(ADD, a=2, b=40), answer("42. Looking.", [call("look_up", word="x")]))

    message = asked(gateway, tools=[LOOK_UP])

    assert [block["type"] for block in message["content"]] == ["text", "tool_use"]
    assert message["content"][1]["input"] == {"word": "x"}
    assert message["stop_reason"] == "tool_use"
    assert [one["name"] for one in message["agentic_tool_calls"]] == [ADD]

    gateway.will("Found.")
    result = {"type": "tool_result", "tool_use_id": message["content"][1]["id"], "content": "it"}
    turns = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
    ]
    assert asked(gateway, messages=turns, tools=[LOOK_UP])["content"][0]["text"] == "Found."
    roles = [one["role"] for one in gateway.model.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "user"]


@pytest.mark.requirement("wire.tool_choice.required")
def test_fields_and_blocks_become_those_of_chat_completions(gateway: Gateway) -> None:
    gateway.will("ok")
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}

    asked(
        gateway,
        content=[{"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}}, picture],
        system=[{"type": "text", "text": "Be brief."}],
        stop_sequences=["END"],
        top_k=3,
        metadata={"user_id": "me"},
        tools=[LOOK_UP, {"type": "web_search_20250305", "name": "web_search"}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    )

    sent = gateway.model.requests[-1].body
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look."},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
    ]
    assert (sent["max_tokens"], sent["stop"], sent["user"]) == (100, ["END"], "me")
    assert "top_k" not in sent
    assert (sent["tool_choice"], sent["parallel_tool_calls"]) == ("required", False)
    names = [tool["function"]["name"] for tool in sent["tools"]]
    assert names.count("look_up") == 1
    assert "web_search" not in names


def test_an_error_inside_a_stream_is_an_error_event(gateway: Gateway) -> None:
    gateway.will(raw([BEGUN]))

    events = streamed(gateway)

    assert [event.name for event in events].count("error") == 1
    assert events[-1].data["error"]["type"] == "api_error"
    assert "broke off" in events[-1].data["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_it_is_one_of_anthropics(gateway: Gateway, *, stream: bool) -> None:
    gateway.will(status(429, {"error": {"message": "slow down", "type": "rate_limit_error"}}))

    found = gateway.client.post("/v1/messages", json=message_body(stream=stream))

    assert (found.status_code, found.json()["type"], found.json()["error"]["message"]) == (429, "error", "slow down")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_tokens": None}, 422),
        ({"content": [{"type": "image", "source": {"type": "file", "file_id": "x"}}]}, 400),
        ({"content": [1]}, 422),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, 422),
    ],
)
def test_what_cannot_be_translated_is_refused(gateway: Gateway, fields: dict[str, Any], code: int) -> None:
    before = len(gateway.model.requests)

    found = gateway.client.post("/v1/messages", json=message_body(**fields))

    assert (found.status_code, found.json()["type"]) == (code, "error")
    assert len(gateway.model.requests) == before


def test_a_client_that_knows_them_gets_the_named_events(gateway: Gateway) -> None:
    gateway.will(call(ADD, a=1, b=2), "3.")

    events = streamed(gateway, session_id="mine")

    phases = [event.data["phase"] for event in events if event.name == "agentic_tool_call_progress"]
    assert phases == ["calling", "complete"]
    assert events[0].data["message"]["session_id"] == "mine"
    assert deltas(events, "text_delta", "text") == "3."


def test_calls_of_the_client_and_a_stream_that_breaks_off_are_anthropics(gateway: Gateway) -> None:
    gateway.will(LOOKING, raw([BEGUN]))

    assert sdks.use("anthropic_calls", gateway.server.url, TOKEN) == {
        "blocks": ["thinking", "text", "tool_use"],
        "input": {"word": "x"},
        "broken": "api_error",
    }
