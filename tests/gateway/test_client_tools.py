"""Tools that a client of Responses brings in a namespace or as custom ones, and those that nobody serves."""

import json
import re
from typing import Any

import pytest

from tests.gateway import sdks
from tests.gateway.conftest import TOKEN, Gateway, chat_body
from vibe_jupyter.gateway.client_tools import ClientTools
from vibe_jupyter.testing import Call, answer, call

ADD = "mcp__sample__add"
COUNT: dict[str, Any] = {"type": "function", "name": "count", "parameters": {"type": "object"}}
CITIES: dict[str, Any] = {"type": "namespace", "name": "mcp__cities", "description": "Cities.", "tools": [COUNT]}
PATCH: dict[str, Any] = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
EDIT = '*** Begin Patch\n"é"\n*** End Patch'


def asked(gateway: Gateway, given: Any = "hello", **fields: Any) -> Any:
    found = gateway.client.post("/v1/responses", json={"input": given, **fields})
    assert found.status_code == 200, found.text
    return found.json()


def calls(output: list[Any]) -> list[Any]:
    return [item for item in output if item["type"] in ("function_call", "custom_tool_call")]


@pytest.mark.requirement("gateway.translated.namespace")
@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_in_a_namespace_is_offered_flat_and_called_by_its_own_name(gateway: Gateway, *, stream: bool) -> None:
    gateway.will(call(ADD, a=1, b=2), answer("", [call("mcp__cities__count", folder="x")]), "Seven.")
    fields = {"tools": [CITIES], "tool_choice": {"type": "function", "namespace": "mcp__cities", "name": "count"}}

    if stream:
        first = gateway.stream_at("/v1/responses", {"input": "hello", **fields})[-1].data["response"]
    else:
        first = asked(gateway, **fields)

    (made,) = calls(first["output"])
    assert (made["type"], made["namespace"], made["name"]) == ("function_call", "mcp__cities", "count")
    assert json.loads(made["arguments"]) == {"folder": "x"}
    offered, *_ = (request.body for request in gateway.model.requests[-2:])
    assert offered["tools"][0]["function"]["name"] == "mcp__cities__count"
    assert offered["tool_choice"]["function"]["name"] == "mcp__cities__count"

    result = {"type": "function_call_output", "call_id": made["call_id"], "output": "7"}
    history = [{"role": "user", "content": "hello"}, made, result]
    asked(gateway, history)  # the request that has the tools no longer
    sent = gateway.model.requests[-1].messages
    assert sent[-2]["tool_calls"][-1]["function"]["name"] == "mcp__cities__count"
    assert sent[-1]["content"] == "7"


@pytest.mark.requirement("gateway.tool_choice.allowed")
@pytest.mark.parametrize(
    ("listed", "sent"),
    [
        ([{"type": "function", "namespace": "mcp__cities", "name": "count"}], ["mcp__cities__count"]),
        ([{"type": "custom", "name": "apply_patch"}, {"type": "web_search"}], ["apply_patch"]),
        ([{"type": "mcp", "server_label": "sample", "name": "add"}], [ADD]),
        ([{"type": "web_search"}], []),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_only_the_allowed_tools_of_a_response_are_offered(
    gateway: Gateway, listed: list[Any], sent: list[str], mode: str
) -> None:
    gateway.will("hi")
    asked(gateway, tools=[CITIES, PATCH], tool_choice={"type": "allowed_tools", "mode": mode, "tools": listed})
    body = gateway.model.requests[-1].body
    assert [tool["function"]["name"] for tool in body.get("tools", [])] == sent
    assert body.get("tool_choice") == (mode if sent else None)


@pytest.mark.requirement("gateway.tool_choice.allowed")
def test_all_tools_of_an_allowed_server_are_offered(gateway: Gateway) -> None:
    gateway.will("hi", "hi")
    asked(gateway)
    everything = [tool["function"]["name"] for tool in gateway.model.requests[-1].body["tools"]]
    listed = [{"type": "mcp", "server_label": "sample"}]
    asked(gateway, tools=[PATCH], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": listed})
    names = [tool["function"]["name"] for tool in gateway.model.requests[-1].body["tools"]]
    assert names == [one for one in everything if one.startswith("mcp__sample__")] != []


LONG = "mcp__" + "deployment_" * 8 + "list"
DOTTED = "files.read"


@pytest.mark.requirement("gateway.translated.names")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", [LONG, DOTTED, "größe"])
def test_a_name_that_servers_refuse_is_one_name_in_tools_choice_and_history(
    gateway: Gateway, name: str, *, stream: bool
) -> None:
    tools = {
        "/v1/messages": {"name": name, "input_schema": {"type": "object"}},
        "/v1/responses": {"type": "function", "name": name, "parameters": {"type": "object"}},
    }
    choices = {"/v1/messages": {"type": "tool", "name": name}, "/v1/responses": {"type": "function", "name": name}}
    bodies: dict[str, Any] = {
        "/v1/messages": {"max_tokens": 99, "messages": [{"role": "user", "content": "hello"}]},
        "/v1/responses": {"input": [{"role": "user", "content": "hello"}]},
    }
    for path, body in bodies.items():
        gateway.will("hi")
        full = {**body, "tools": [tools[path]], "tool_choice": choices[path]}
        gateway.client.post(path, json=full)
        sent = gateway.model.requests[-1].body
        function = sent["tools"][0]["function"]["name"]
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", function)
        assert sent["tool_choice"]["function"]["name"] == function

        gateway.will(answer("", [Call(function, '{"a": 1}')]))
        if stream:
            events = [event.data for event in gateway.stream_at(path, full)]
            blocks = [one["content_block"] for one in events if one["type"] == "content_block_start"]
            given = blocks or events[-1]["response"]["output"]
        else:
            found = gateway.client.post(path, json=full).json()
            given = found.get("content") or found["output"]
        (made,) = [one for one in given if one["type"] in ("tool_use", "function_call")]
        assert made["name"] == name

        gateway.will("done")
        if path == "/v1/messages":
            result = {"type": "tool_result", "tool_use_id": made["id"], "content": "7"}
            turns = [{"role": "assistant", "content": [made]}, {"role": "user", "content": [result]}]
            gateway.client.post(path, json={**full, "messages": [*body["messages"], *turns]})
        else:
            result = {"type": "function_call_output", "call_id": made["call_id"], "output": "7"}
            gateway.client.post(path, json={**full, "input": [*body["input"], made, result]})
        history = gateway.model.requests[-1].messages
        assert history[-2]["tool_calls"][0]["function"]["name"] == function


@pytest.mark.requirement("gateway.translated.custom")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("arguments", "given"), [(json.dumps({"input": EDIT}), EDIT), (EDIT, EDIT), ('{"patch": 1}', '{"patch": 1}')]
)
def test_a_custom_tool_is_a_function_of_one_text(gateway: Gateway, arguments: str, given: str, *, stream: bool) -> None:
    gateway.will(answer("", [Call("apply_patch", arguments)]), "Done.")
    if stream:
        events = gateway.stream_at("/v1/responses", {"input": "hello", "tools": [PATCH]})
        (deltas,) = [event.data for event in events if event.name == "response.custom_tool_call_input.delta"]
        assert deltas["delta"] == given
        first = events[-1].data["response"]
    else:
        first = asked(gateway, tools=[PATCH])

    (made,) = calls(first["output"])
    assert (made["type"], made["name"], made["input"]) == ("custom_tool_call", "apply_patch", given)
    function = gateway.model.requests[-1].body["tools"][0]["function"]
    assert function["parameters"]["required"] == ["input"]
    assert "start: /.+/" in function["description"]

    result = {"type": "custom_tool_call_output", "call_id": made["call_id"], "output": "edited"}
    asked(gateway, [{"role": "user", "content": "hello"}, made, result], tools=[PATCH])
    sent = gateway.model.requests[-1].messages
    assert json.loads(sent[-2]["tool_calls"][0]["function"]["arguments"]) == {"input": given}
    assert sent[-1]["content"] == "edited"


@pytest.mark.requirement("gateway.translated.left-out")
def test_tools_that_nobody_serves_are_named_once_and_in_every_header(gateway: Gateway) -> None:
    tools = [COUNT, {"type": "web_search"}, {"type": "shell"}, {"type": "image_generation", "name": "paint\n"}]
    gateway.will("hi", "hi", "hi again")

    found = gateway.client.post("/v1/responses", json={"input": "hello", "tools": tools})
    streamed = gateway.stream_at("/v1/responses", {"input": "hello", "tools": tools})

    assert found.headers["x-vibe-left-out"] == "web_search, shell, paint?"
    for output in (found.json()["output"], streamed[-1].data["response"]["output"]):
        assert [item["type"] for item in output] == ["reasoning", "message"]
        assert "left out: web_search, shell, paint" in output[0]["summary"][0]["text"]
    later = gateway.client.post(
        "/v1/responses", json={"input": "more", "tools": tools, "previous_response_id": found.json()["id"]}
    )
    assert [item["type"] for item in later.json()["output"]] == ["message"]
    assert "web_search" in later.headers["x-vibe-left-out"]


@pytest.mark.requirement("gateway.translated.left-out")
def test_tools_of_anthropics_own_are_named_in_the_header(gateway: Gateway) -> None:
    gateway.will("hi", "hi")
    body: dict[str, Any] = {"max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}

    tools = [{"type": "web_search_20250305", "name": "web_search"}]
    found = gateway.client.post("/v1/messages", json={**body, "tools": tools})

    assert found.headers["x-vibe-left-out"] == "web_search"
    assert "x-vibe-left-out" not in gateway.client.post("/v1/messages", json=body).headers


@pytest.mark.requirement("gateway.translated.namespace", "gateway.translated.custom")
def test_openais_sdk_takes_both_kinds_of_calls_and_sends_them_back(gateway: Gateway) -> None:
    patch = call("apply_patch", input=EDIT)
    gateway.will(answer("", [call("mcp__cities__count", folder="x"), patch]), "Done.")

    assert sdks.use("openai_responses_tools", gateway.server.url, TOKEN) == {
        "calls": [
            ["function_call", "count", "mcp__cities", '{"folder": "x"}'],
            ["custom_tool_call", "apply_patch", None, EDIT],
        ],
        "input": True,
        "warning": "Warning: these tools are not served here and were left out: web_search.",
        "text": "Done.",
        "last": ["message"],
    }


def test_names_that_would_be_too_long_or_the_same_stay_apart() -> None:
    def space(name: str, *tools: str) -> dict[str, Any]:
        return {"type": "namespace", "name": name, "tools": [{**COUNT, "name": tool} for tool in tools]}

    tools = ClientTools([space("a", "b__c"), space("a__b", "c"), space("mcp__s__", "t"), space("é" * 70, "t", "u")], ())

    names: list[str] = [tool["function"]["name"] for tool in tools.functions]  # pyright: ignore
    assert names[0] == "a__b__c"
    assert names[2] == "mcp__s__t"
    assert len(set(names)) == len(names)
    assert all(len(name) <= 64 and name.isascii() for name in names)
    assert [tools.find(name).label for name in names[:3]] == ["a.b__c", "a__b.c", "mcp__s__.t"]
    assert [tools.function_name(one.name, one.namespace) for one in map(tools.find, names)] == names


@pytest.mark.parametrize("theirs_at", [0, 1, 2])
def test_a_clients_call_goes_on_behind_all_the_rounds_that_it_did_not_see(gateway: Gateway, theirs_at: int) -> None:
    tools = [{"type": "function", "function": {"name": "count", "parameters": {"type": "object"}}}]
    last = [call(ADD, a=5, b=6), call(ADD, a=7, b=8)]
    last.insert(theirs_at, call("count", folder="x"))
    gateway.will(call(ADD, a=1, b=2), call(ADD, a=3, b=4), answer("", last), "Seven.")
    made = gateway.chat("hello", tools=tools).json()["choices"][0]["message"]
    assert [one["function"]["name"] for one in made["tool_calls"]] == ["count"]

    result = {"role": "tool", "tool_call_id": made["tool_calls"][0]["id"], "content": "7"}
    messages = [*chat_body("hello")["messages"], made, result]
    gateway.client.post("/v1/chat/completions", json={"messages": messages, "tools": tools})

    sent = gateway.model.requests[-1].messages
    assert [one["role"] for one in sent] == ["user", *["assistant", "tool"] * 3, "tool", "tool"]
    asked = [one["id"] for message in sent for one in message.get("tool_calls", ())]
    assert asked == [one["tool_call_id"] for one in sent if one["role"] == "tool"]
    assert sent[-3:][theirs_at]["content"] == "7"
