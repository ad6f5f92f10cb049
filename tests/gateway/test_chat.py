"""Chat Completions through the gateway: plain ones as the model server gives them, and MCP tools run on the way."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gateway import sdks
from tests.gateway.conftest import PATIENCE, TOKEN, Gateway, chat_body, chunks_of, gateway_at, text_of, until
from vibe_jupyter.config.settings import DEFAULT_ROUNDS
from vibe_jupyter.gateway.refusals import JSON
from vibe_jupyter.gateway.server import KEEP_ALIVE_DEFAULT
from vibe_jupyter.testing import Call, ScriptedModel, Tokens, answer, call, hold, raw, status
from vibe_jupyter.testing.requests import find_complaints

ADD = "mcp__sample__add"
ECHO = "mcp__sample__echo"
CLIENT_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look_up", "description": "Looks up.", "parameters": {"type": "object", "properties": {}}},
}


@pytest.mark.requirement("gateway.chat.plain.untouched", "gateway.chat.model.default")
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


@pytest.mark.requirement("gateway.chat.plain.untouched")
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


@pytest.mark.requirement("gateway.chat.merge.no-tools", "gateway.chat.execute.non-stream")
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


@pytest.mark.requirement(
    "gateway.chat.execute.stream", "gateway.events.chunk.default", "gateway.events.progress.fields"
)
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


@pytest.mark.requirement("gateway.chat.execute.loop")
def test_rounds_are_followed_with_a_valid_history_up_to_a_bound(gateway: Gateway) -> None:
    first = gateway.will(*[call(ADD, a=number, b=1) for number in range(DEFAULT_ROUNDS - 1)], "Enough.")

    body = gateway.chat("add for ever").json()

    assert body["choices"][0]["message"]["content"] == "Enough."
    requests = gateway.model.requests[first - 1 :]
    assert len(requests) == DEFAULT_ROUNDS
    for request in requests:
        assert [one for one in find_complaints(request.body) if "message" in one or "call" in one] == []
        ids = [message["tool_call_id"] for message in request.messages if message["role"] == "tool"]
        assert len(ids) == len(set(ids))
    assert [request.body.get("tool_choice") for request in requests[-2:]] == [None, "none"]


def test_calls_beyond_the_bound_end_the_answer(gateway: Gateway) -> None:
    gateway.will(*[call(ADD, a=number, b=1) for number in range(DEFAULT_ROUNDS)])

    choice = gateway.chat("add for ever").json()["choices"][0]

    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]


@pytest.mark.requirement("gateway.chat.merge.tools", "gateway.chat.merge.priority")
def test_of_two_tools_with_one_name_the_clients_is_offered(gateway: Gateway) -> None:
    own = {"type": "function", "function": {"name": ADD, "description": "Mine.", "parameters": {"type": "object"}}}
    first = gateway.will(call(ADD, a=1, b=2))

    choice = gateway.chat("add", tools=[own, CLIENT_TOOL]).json()["choices"][0]

    assert [one["function"]["name"] for one in choice["message"]["tool_calls"]] == [ADD]
    sent = gateway.model.requests[first - 1].body["tools"]
    assert sent[:2] == [own, CLIENT_TOOL]
    assert [one["function"]["name"] for one in sent].count(ADD) == 1
    ours = next(one for one in sent if one["function"]["name"] == ECHO)
    assert ours["type"] == "function"
    assert set(ours["function"]) == {"name", "description", "parameters"}
    assert ours["function"]["parameters"]["type"] == "object"


@pytest.mark.requirement("gateway.chat.tool_choice.specific", "wire.tool_choice.required", "wire.tool_choice.forced")
def test_a_forced_tool_is_not_forced_again(gateway: Gateway) -> None:
    for choice, sent in (
        ({"type": "function", "function": {"name": ADD}}, {"type": "function", "function": {"name": ADD}}),
        ("required", "required"),
    ):
        first = gateway.will(call(ADD, a=1, b=2), "3.")
        assert gateway.chat("add", tool_choice=choice).json()["choices"][0]["message"]["content"] == "3."
        assert [one.body["tool_choice"] for one in gateway.model.requests[first - 1 :]] == [sent, "auto"]
    own = {"type": "function", "function": {"name": "look_up"}}
    gateway.will(call("look_up"))
    gateway.chat("look", tools=[CLIENT_TOOL], tool_choice=own)
    assert gateway.model.requests[-1].body["tool_choice"] == own


def allowed(mode: str, *names: str) -> dict[str, Any]:
    only = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": only}}


@pytest.mark.requirement("gateway.tool_choice.allowed")
@pytest.mark.parametrize(
    ("names", "sent"),
    [(["sample_add"], [ADD]), ([ADD, "look_up"], ["look_up", ADD]), (["look_up"], ["look_up"]), (["x"], [])],
)
def test_only_the_allowed_tools_of_a_request_are_offered(gateway: Gateway, names: list[str], sent: list[str]) -> None:
    first = gateway.will(call(ADD, a=1, b=2), "3.")
    found = gateway.chat("add", tools=[CLIENT_TOOL], tool_choice=allowed("required", *names)).json()
    bodies = [one.body for one in gateway.model.requests[first - 1 :]]
    assert [tool["function"]["name"] for tool in bodies[0].get("tools", [])] == sent
    if not sent:
        assert "tool_choice" not in bodies[0]
    elif ADD in sent:
        assert [(one["tool_choice"], len(one["tools"])) for one in bodies] == [
            ("required", len(sent)),
            ("auto", len(sent)),
        ]
        assert found["choices"][0]["message"]["content"] == "3."
    if ADD not in sent:  # a call of a tool that was not offered is not run
        assert len(bodies) == 1
        gateway.chat("again")  # takes the answer that is left


@pytest.mark.requirement("gateway.tool_choice.allowed")
def test_a_list_of_allowed_tools_that_is_none_is_refused(gateway: Gateway) -> None:
    before = len(gateway.model.requests)
    found = gateway.chat("add", tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": "x"}})
    assert (found.status_code, found.json()["error"]["param"]) == (422, "tool_choice.allowed_tools.tools")
    assert len(gateway.model.requests) == before


@pytest.mark.requirement("gateway.chat.tool_choice.none")
def test_where_no_call_is_wanted_no_tool_of_ours_goes_along(gateway: Gateway) -> None:
    first = gateway.will(call(ADD, a=1, b=2))

    choice = gateway.chat("add", tool_choice="none").json()["choices"][0]

    assert gateway.model.requests[-1].tools == []
    assert len(gateway.model.requests) == first
    assert choice["message"]["tool_calls"][0]["function"]["name"] == ADD


@pytest.mark.requirement("gateway.chat.passthrough.return")
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_can_have_the_calls_of_mcp_tools_returned(gateway: Gateway, *, stream: bool) -> None:
    first = gateway.will(call(ADD, a=1, b=2))

    if stream:
        chunks = chunks_of(gateway.stream("add", mcp_mode="passthrough"))
        deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
        names = [one["function"]["name"] for delta in deltas for one in delta.get("tool_calls", []) if one.get("id")]
    else:
        choice = gateway.chat("add", mcp_mode="passthrough").json()["choices"][0]
        names = [one["function"]["name"] for one in choice["message"]["tool_calls"]]

    assert names == [ADD]
    assert ADD in gateway.model.requests[first - 1].tools
    assert "mcp_mode" not in gateway.model.requests[first - 1].body
    assert len(gateway.model.requests) == first


def test_a_request_can_do_without_mcp_tools(gateway: Gateway) -> None:
    gateway.will("hi")
    gateway.chat("hello", mcp_mode="off")
    assert gateway.model.requests[-1].tools == []


@pytest.mark.requirement("gateway.chat.plain.switch")
def test_the_settings_can_switch_mcp_tools_off_or_have_their_calls_returned(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(strict=False) as model:
        for mode, servers, offered in (
            ("off", "{}", False),
            ("passthrough", "{}", True),
            ("execute", '{ sample = "passthrough" }', True),
        ):
            settings = f'[gateway]\nallow = ["*"]\nmcp_mode = "{mode}"\nmcp_modes = {servers}\n'
            with gateway_at(tmp_path / f"{mode}{len(servers)}", model, settings) as gateway:
                first = gateway.will(call(ADD, a=1, b=2))
                choice = gateway.chat("add", mcp_mode="execute").json()["choices"][0]
                assert choice["message"]["tool_calls"][0]["function"]["name"] == ADD
                assert (ADD in gateway.model.requests[-1].tools) is offered
                assert len(gateway.model.requests) == first
                if mode == "off":
                    body = b'{"messages": [ {"role":"user", "content":"x"} ],  "model":"scripted", "odd": 1e2}'
                    gateway.client.post("/v1/chat/completions", content=body, headers={"content-type": JSON})
                    assert gateway.model.requests[-1].raw == body


def test_several_answers_at_once_pass_as_they_are(gateway: Gateway) -> None:
    body = b'{"choices":[{"index":0,"message":{"content":"a"}},{"index":1,"message":{"content":"b"}}]}'
    gateway.will(raw([body], content_type="application/json"))
    assert gateway.chat("hello", n=2, session_id="mine").content == body
    assert gateway.model.requests[-1].tools == []


CALLED = {
    "index": 0,
    "delta": {
        "role": "assistant",
        "tool_calls": [
            {"index": 0, "id": "c1", "type": "function", "function": {"name": ADD, "arguments": '{"a":2,"b":3}'}}
        ],
    },
}
"""A whole call, but for its end."""


def events_of(*chunks: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "reply", [answer("", [call(ADD, a=2, b=3)], finish="stop"), raw([events_of({"choices": [CALLED]})])]
)
def test_servers_that_do_not_end_calls_as_such_are_followed_up(gateway: Gateway, reply: Any) -> None:
    gateway.will(reply, "5.")
    assert text_of(chunks_of(gateway.stream("add"))) == "5."


def test_counts_of_all_answers_are_summed_also_where_each_chunk_has_them(gateway: Gateway) -> None:
    used = Tokens(100, 10), Tokens(200, 20)
    summed = {"prompt_tokens": 300, "completion_tokens": 30, "total_tokens": 330}
    for stream in (False, True):
        gateway.will(answer("", [call(ADD, a=2, b=3)], usage=used[0]), answer("5.", usage=used[1]))
        if stream:
            counted = chunks_of(gateway.stream("add", stream_options={"include_usage": True}))[-1]["usage"]
        else:
            counted = gateway.chat("add").json()["usage"]
        assert {name: counted[name] for name in summed} == summed

    ended = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    so_far = [{"prompt_tokens": 100, "completion_tokens": number} for number in (9, 10, 10)]
    choices = [[CALLED], [ended], []]
    chunks = [{"choices": one, "usage": usage} for one, usage in zip(choices, so_far, strict=True)]
    gateway.will(raw([events_of(*chunks)]), answer("5.", usage=used[1]))
    counted = chunks_of(gateway.stream("add", stream_options={"include_usage": True}))[-1]["usage"]
    assert (counted["prompt_tokens"], counted["completion_tokens"]) == (300, 30)


@pytest.mark.requirement("gateway.chat.plain.untouched")
def test_what_a_later_answer_says_beside_its_text_reaches_the_client(gateway: Gateway) -> None:
    choice = {"index": 0, "delta": {"content": "5."}, "logprobs": {"content": [1]}}
    told = {"id": "c-2", "choices": [{**choice, "finish_reason": "stop", "stop_reason": 7}], "odd_end": 3}
    gateway.will(call(ADD, a=2, b=3), raw([events_of(told)]))

    text, end = chunks_of(gateway.stream("add"))[-2:]

    assert (text["choices"][0]["delta"]["content"], text["choices"][0]["logprobs"]) == ("5.", {"content": [1]})
    assert end["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": 7}]
    assert end["odd_end"] == 3


@pytest.mark.requirement(
    "gateway.chat.response.session_id", "gateway.chat.response.empty", "gateway.chat.response.usage"
)
def test_the_extensions_stand_beside_an_answer_where_there_is_something_to_say(gateway: Gateway) -> None:
    gateway.will("hi", "hi", call(ADD, a=1, b=2), "3.")
    plain = gateway.chat("hello").json()
    assert {"session_id", "agentic_tool_calls", "files"}.isdisjoint(plain)

    named = gateway.chat("hello", session_id="mine-1")
    assert named.json()["session_id"] == "mine-1"
    assert "mine-1" not in str(named.headers)
    assert {"agentic_tool_calls", "files"}.isdisjoint(named.json())

    usage = gateway.chat("add").json()["usage"]
    counts = {"prompt_tokens", "completion_tokens", "total_tokens"}
    rates = {"avg_tok_per_sec", "avg_prompt_tok_per_sec", "avg_compl_tok_per_sec"}
    assert counts | rates | {"total_prompt_time_sec", "total_completion_time_sec"} <= set(usage)
    assert usage["avg_tok_per_sec"] > 0


@pytest.mark.requirement("gateway.chat.content-type.both")
def test_answers_say_what_they_are(gateway: Gateway) -> None:
    gateway.will(call(ADD, a=1, b=2), "3.", call(ADD, a=1, b=2), "3.")
    assert gateway.chat("add").headers["content-type"] == "application/json"
    found = gateway.chat("add", stream=True)
    assert found.headers["content-type"].partition(";")[0] == "text/event-stream"
    assert found.headers["x-accel-buffering"] == "no"


def test_a_model_that_is_not_configured_is_refused_also_one_with_an_address(gateway: Gateway) -> None:
    asked = len(gateway.model.requests)
    for name in ("unknown", f"scripted@{gateway.model.url}"):
        found = gateway.chat("hello", model=name)
        assert (found.status_code, found.json()["error"]["code"]) == (404, "model_not_found")
    assert len(gateway.model.requests) == asked


def test_a_model_server_that_is_away_is_a_bad_gateway(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel() as model, gateway_at(tmp_path, model) as gateway:
        model.stop()
        for fields in ({}, {"mcp_mode": "off"}):
            found = gateway.chat("hello", **fields)
            assert (found.status_code, found.json()["error"]["type"]) == (502, "upstream_error")


@pytest.mark.requirement("gateway.events.keep-alive.interval")
def test_a_silent_stream_says_that_it_is_there(tmp_path: Path, own_home: Path) -> None:
    assert KEEP_ALIVE_DEFAULT == 10_000
    go_on = threading.Event()
    with (
        ScriptedModel(strict=False) as model,
        gateway_at(tmp_path, model, environ={"KEEP_ALIVE_INTERVAL": "200"}) as gateway,
    ):
        gateway.will(hold(go_on, "Wait", " done."))
        lines: list[str] = []
        began = time.monotonic()
        body = chat_body("hello", stream=True)
        with gateway.client.stream("POST", "/v1/chat/completions", json=body) as response:
            for line in response.iter_lines():
                lines.append(line)
                if sum(one.startswith(":") for one in lines) == 3:
                    go_on.set()
        assert lines[-2] == "data: [DONE]"
        assert 0.6 <= time.monotonic() - began < PATIENCE / 4  # three times the interval, in milliseconds


def test_a_stream_that_is_silent_inside_an_event_comes_as_it_was_sent(tmp_path: Path, own_home: Path) -> None:
    sent = events_of(*({"choices": [{"index": 0, "delta": {"content": word}}]} for word in ("Hello ", "world")))
    with (
        ScriptedModel(strict=False) as model,
        gateway_at(tmp_path, model, environ={"KEEP_ALIVE_INTERVAL": "10"}) as gateway,
    ):
        gateway.will(raw([sent[:30], sent[30:]], delay_between=0.3))  # as a proxy that sends blocks of one size
        body = chat_body("hello", stream=True, mcp_mode="off")
        with gateway.client.stream("POST", "/v1/chat/completions", json=body) as response:
            assert response.read().replace(b": keep-alive\n\n", b"").startswith(sent)
            assert sent[:30] + b": keep-alive" not in response.content


def test_a_client_that_leaves_ends_its_request_and_its_tool(gateway: Gateway, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first = gateway.will(call("mcp__sample__wait", period=60, mark=str(mark)))
    with gateway.client.stream("POST", "/v1/chat/completions", json=chat_body("wait", stream=True)) as response:
        pieces = response.iter_bytes()  # let go of, it would close the connection
        next(pieces)
        until(lambda: mark.exists())
    until(lambda: mark.read_text() == "cancelled")
    until(lambda: not gateway.server.parts.live)
    assert len(gateway.model.requests) == first

    never = threading.Event()
    gateway.will(hold(never, "Wait"))
    with gateway.client.stream("POST", "/v1/chat/completions", json=chat_body("wait", stream=True)) as response:
        next(response.iter_bytes())
    assert gateway.model.requests[-1].gone.wait(PATIENCE)


@pytest.mark.requirement(
    "gateway.chat.client.calls", "gateway.chat.client.whole-call", "gateway.chat.execute.accumulate"
)
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


HALF = b'{"messages":[{"role":"user","content":"cut \\ud83d"}],"instructions":"\\ud83d","input":"cut \\ud83d"}'


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_half_a_character_in_a_question_reaches_the_model_as_a_replacement(gateway: Gateway, path: str) -> None:
    number = gateway.will("Fine.")
    found = gateway.client.post(path, content=HALF, headers={"content-type": JSON})

    assert found.status_code == 200
    assert gateway.model.requests[number - 1].messages[-1]["content"] == "cut \ufffd"


def test_half_a_character_in_an_id_is_no_failure_of_the_gateway(gateway: Gateway) -> None:
    called = [{"id": "\ud83d", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}]
    asked = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": called},
        {"role": "tool", "tool_call_id": "\ud83d", "content": "found"},
    ]
    gateway.will("Fine.")
    sent = {
        "/v1/chat/completions": {"messages": asked},
        "/v1/responses": {"input": "x", "previous_response_id": "\ud83d"},
    }
    found = [
        gateway.client.post(path, content=json.dumps(body), headers={"content-type": JSON})
        for path, body in sent.items()
    ]
    assert [one.status_code for one in found] == [200, 400]
    assert found[1].json()["error"]["code"] == "previous_response_not_found"


def test_a_character_in_two_chunks_of_a_later_answer_is_whole_at_the_client(gateway: Gateway) -> None:
    halves = [
        '{"choices":[{"index":0,"delta":{"content":"x\\ud83d"},"finish_reason":null}]}',
        '{"choices":[{"index":0,"delta":{"content":"\\ude00y"},"finish_reason":null}]}',
        '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    ]
    gateway.will(call(ECHO, text="a"), raw([f"data: {one}\n\n".encode() for one in (*halves, "[DONE]")]))

    text = text_of(chunks_of(gateway.stream("smile")))

    assert text.encode("utf-16-le", "surrogatepass").decode("utf-16-le") == "x\U0001f600y"


@pytest.mark.parametrize("name", ["look_up", ECHO])
def test_the_role_comes_once_also_where_it_stands_beside_a_call(gateway: Gateway, name: str) -> None:
    """As OpenAI sends it; their client for JavaScript takes no answer without one."""
    function = {"name": name, "arguments": '{"text": "a"}'}
    first = {"role": "assistant", "content": None, "tool_calls": [{"index": 0, "id": "c", "function": function}]}
    deltas = [{"index": 0, "delta": first}, {"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
    chunks = [f"data: {json.dumps({'choices': [one]})}\n\n".encode() for one in deltas]
    gateway.will(raw([*chunks, b"data: [DONE]\n\n"]), *(["Done."] if name == ECHO else []))

    given = [one["delta"] for chunk in chunks_of(gateway.stream("go", tools=[CLIENT_TOOL])) for one in chunk["choices"]]

    assert [place for place, delta in enumerate(given) if "role" in delta] == [0]
    assert given[0]["role"] == "assistant"


def test_what_says_nothing_in_a_later_answer_is_passed_over(gateway: Gateway) -> None:
    odd = ["7", '{"choices":7}', '{"choices":[null]}', '{"choices":[{"delta":"x"}]}', '{"choices":[{"delta":null}]}']
    sound = '{"choices":[{"index":0,"delta":{"content":"Done."},"finish_reason":"stop"}]}'
    gateway.will(call(ECHO, text="a"), raw([f"data: {one}\n\n".encode() for one in (*odd, sound, "[DONE]")]))

    assert text_of(chunks_of(gateway.stream("go"))) == "Done."


def whole(text: str, *called: str) -> Any:
    """An answer that is no stream, whatever was asked for."""
    calls = [{"id": f"c{place}", "function": {"name": ADD, "arguments": one}} for place, one in enumerate(called)]
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    body = {"id": "w", "object": "chat.completion", "choices": [choice], "usage": {"prompt_tokens": 7}}
    return raw([json.dumps(body).encode()], content_type="application/json")


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        ((call(ADD, a=2, b=3), whole("The sum is 5.")), "The sum is 5."),
        ((whole("I add. ", '{"a": 2, "b": 3}'), answer("The sum is 5.")), "I add. The sum is 5."),
        ((whole("I add. ", '{"a": 2, "b": 3}', '{"a": 3, "b": 4}'), whole("5 and 7.")), "I add. 5 and 7."),
        ((whole("Hello."),), "Hello."),
    ],
)
def test_an_answer_that_comes_whole_where_a_stream_was_asked_for_is_streamed(
    gateway: Gateway, replies: tuple[Any, ...], text: str
) -> None:
    gateway.will(*replies)
    chunks = chunks_of(gateway.stream("add"))
    assert text_of(chunks) == text
    assert [one for chunk in chunks for choice in chunk["choices"] if (one := choice["finish_reason"])] == ["stop"]
    assert [one for chunk in chunks for choice in chunk["choices"] if (one := choice["delta"].get("role"))] == [
        "assistant"
    ]
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)

    gateway.will(*replies)
    body = {"model": "default", "max_tokens": 99, "messages": [{"role": "user", "content": "add"}]}
    events = gateway.stream_at("/v1/messages", body)
    told = [event.data["delta"] for event in events if event.name in ("content_block_delta", "message_delta")]
    assert "".join(one.get("text", "") for one in told) == text
    assert told[-1]["stop_reason"] == "end_turn"


def test_an_error_that_comes_whole_where_a_stream_was_asked_for_is_told(gateway: Gateway) -> None:
    gateway.will(call(ADD, a=2, b=3), raw([b'{"error": {"message": "out of memory"}}'], content_type=JSON))
    assert "out of memory" in gateway.stream("add")[-2].data["error"]["message"]
    gateway.will(raw([b"<html>"], content_type="text/html"))
    assert gateway.chat("add", stream=True).status_code == 502


@pytest.mark.requirement("gateway.chat.client.mixed")
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


@pytest.mark.requirement("gateway.chat.client.mixed")
def test_after_several_rounds_all_calls_and_results_stand_in_their_order(gateway: Gateway) -> None:
    adds = [call(ADD, a=number, b=1) for number in range(3)]
    gateway.will(answer("First.", adds[:1]), answer("Both.", [call("look_up", word="x"), *adds[1:]]))
    message = gateway.chat("both", tools=[CLIENT_TOOL]).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "found"}
    gateway.will("All done.")
    gateway.chat(messages=[{"role": "user", "content": "both"}, message, result], tools=[CLIENT_TOOL])
    joined = gateway.model.requests[-1].messages
    assert [one["role"] for one in joined] == ["user", "assistant", "tool", "assistant", "tool", "tool", "tool"]
    assert [one["tool_call_id"] for one in joined[4:]] == [one["id"] for one in joined[3]["tool_calls"]]
    assert joined[4]["content"] == "found"


def both(gateway: Gateway, question: str, number: int) -> list[dict[str, Any]]:
    """A conversation whose answer has both kinds of calls, numbered from 0, with the client's result."""
    add = Call(ADD, json.dumps({"a": number, "b": number}), id="0")
    gateway.will(answer("Both.", [add, Call("look_up", "{}", id="1")]))
    message = gateway.chat(question, tools=[CLIENT_TOOL]).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": f"found {number}"}
    return [{"role": "user", "content": question}, message, result]


@pytest.mark.requirement("gateway.chat.client.mixed")
def test_a_conversation_gets_no_results_of_another_whose_calls_have_the_same_ids(gateway: Gateway) -> None:
    """As with servers that number the calls of each answer from 0, and with Kimi, which numbers them by their tool."""
    first, second = both(gateway, "first", 1), both(gateway, "second", 20)

    for messages, total in ((first, "2"), (second, "40")):
        gateway.will("Done.")
        assert gateway.chat(messages=messages, tools=[CLIENT_TOOL]).is_success
        joined = gateway.model.requests[-1].messages
        assert [message["role"] for message in joined] == ["user", "assistant", "tool", "tool"]
        assert total in joined[2]["content"].split("\n")
        assert joined[3] == {**messages[2], "tool_call_id": "1"}
        assert [one["id"] for one in joined[1]["tool_calls"]] == ["0", "1"]


@pytest.mark.requirement("gateway.chat.client.mixed")
@pytest.mark.parametrize("cut", [False, True])
def test_earlier_calls_of_the_client_stay_where_later_ones_of_ours_have_their_ids(
    gateway: Gateway, *, cut: bool
) -> None:
    """Servers number the calls of each answer from 0. A client that shortens its history may cut results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    add = Call(ADD, '{"a": 2, "b": 3}', id="0")
    looks = [Call("look_up", "{}", id=number) for number in "01"]
    for given in ([looks[0]], [add, looks[1]], [looks[0]], [add, looks[1]]):
        gateway.will(answer("Look.", given))
        message = gateway.chat(messages=messages, tools=[CLIENT_TOOL]).json()["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": f"found {len(messages)}"}
        messages += [message] if cut and len(given) == 1 else [message, result]
    gateway.will("Done.")

    assert gateway.chat(messages=messages, tools=[CLIENT_TOOL]).is_success

    told = gateway.model.requests[-1].messages
    results = [one["content"] for one in told if one["role"] == "tool" and one["content"].startswith("found")]
    assert results == [one["content"] for one in messages if one["role"] == "tool"]
    made = [[call["function"]["name"] for call in one["tool_calls"]] for one in told if one["role"] == "assistant"]
    assert made == [["look_up"], [ADD, "look_up"]] * 2


@pytest.mark.requirement("gateway.chat.error.upstream")
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


@pytest.mark.requirement("gateway.chat.error.tool")
def test_a_tool_that_fails_is_a_result_for_the_model(gateway: Gateway) -> None:
    gateway.will(call(ADD, a="no number", b=1), "It did not work.")

    assert gateway.chat("add").json()["choices"][0]["message"]["content"] == "It did not work."

    assert gateway.model.requests[-1].messages[-1]["role"] == "tool"
    assert "no number" in gateway.model.requests[-1].messages[-1]["content"]


@pytest.mark.requirement("gateway.api.models.list", "gateway.api.models.status")
def test_the_models_that_may_be_named_are_listed_and_found_by_their_names(tmp_path: Path, own_home: Path) -> None:
    settings = """
[[providers]]
name = "locked"
api_base = "https://models.example.org/v1"
api_key_env_var = "NO_SUCH_KEY"
[[models]]
name = "org/large"
alias = "large"
provider = "locked"
"""
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, settings) as gateway:
        listed = gateway.client.get("/v1/models").json()["data"]

        found = {one["id"]: one for one in listed}
        assert (listed[0]["id"], len(found)) == ("scripted", len(listed))
        assert {"other-name", "large", "org/large"} <= found.keys()
        assert (found["scripted"]["owned_by"], found["scripted"]["status"]) == ("here", "loaded")
        assert found["scripted"]["tools_available"] is True
        assert found["scripted"]["mcp_tools_count"] >= 5
        assert found["scripted"]["mcp_servers_connected"] == 1
        assert (found["org/large"]["owned_by"], found["org/large"]["status"]) == ("locked", "unloaded")
        assert {name: gateway.client.get(f"/v1/models/{name}").json() for name in found} == found
        assert gateway.client.get("/v1/models/org%2Flarge").json() == found["org/large"]
        assert gateway.client.get("/v1/models/default").json() == listed[0]
        assert gateway.client.get("/v1/models/").json()["data"] == listed


def test_openais_own_client_lists_the_models_and_finds_each(gateway: Gateway) -> None:
    found = sdks.use("openai_models", gateway.server.url, TOKEN)

    assert found["names"][0] == "scripted"
    assert found["found"] == found["names"]
    assert found["missing"].pop("message").startswith("There is no model 'org/unknown'. Known: ")
    assert found["missing"] == {"type": "not_found_error", "param": "model", "code": "model_not_found"}


@pytest.mark.requirement("gateway.api.health.routes")
def test_health_needs_no_token_and_asks_nobody(gateway: Gateway) -> None:
    asked = len(gateway.model.requests)
    for path in ("/", "/health"):
        for method in ("GET", "HEAD"):
            assert gateway.client.request(method, path, headers={"authorization": ""}).status_code == 200
    assert len(gateway.model.requests) == asked
