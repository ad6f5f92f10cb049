"""Mistral's API: what is sent to a strict server of its rules, and what comes back as it sends it."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from tests.llm.support import SPEC, ask, client, message_of, read, request, shown, user
from vibe_jupyter.llm.client import BodyEncoder
from vibe_jupyter.llm.dialects.mistral import MistralDialect
from vibe_jupyter.llm.request import HeadTerms
from vibe_jupyter.protocol import (
    AssistantMessage,
    ImagePart,
    Message,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
)
from vibe_jupyter.testing import ScriptedModel, Tokens, answer, call, status

URL = "http://127.0.0.1:1/v1"
MISTRAL = {"dialect": "mistral"}


def encoded(*messages: Message, **rest: Any) -> dict[str, Any]:
    """The body of a request."""
    return json.loads(BodyEncoder(MistralDialect()).encode(request(URL, *messages, server=MISTRAL, **rest)))


def said(*parts: TextPart | ReasoningPart | ToolCall) -> AssistantMessage:
    """An answer in the history."""
    return AssistantMessage(parts=parts, stop_reason="stop")


def called(call_id: str, arguments: str = '{"code": "1"}') -> AssistantMessage:
    """An answer with a call."""
    return said(ToolCall(id=call_id, name="run_code", arguments=arguments))


def result(call_id: str, text: str = "1", *images: ImagePart) -> ToolMessage:
    """Its result."""
    return ToolMessage(call_id=call_id, name="run_code", parts=(TextPart(text=text), *images))


def event(delta: Any, finish: str | None = None, **rest: Any) -> bytes:
    """One event of a stream, with what Mistral puts around."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return b"data: " + json.dumps({"id": "1", "model": "m", "choices": [choice], "p": "abc", **rest}).encode() + b"\n\n"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.requirement("mistral.backend.mistral")
async def test_a_turn_with_calls_text_and_thinking_goes_both_ways(stream):
    reply = answer("Look. ", [call("run_code", code="x" * 40)], reasoning="I think", usage=Tokens(10, 5, cached=3))
    asker = client()
    with ScriptedModel([reply, "done"], dialect="mistral") as model:
        first = await message_of(asker, request(model.url, stream=stream, server=MISTRAL, thinking="high"))
        history = (user("hello"), first, *(result(one.id) for one in first.calls))
        wish = request(model.url, *history, stream=stream, server=MISTRAL, thinking="high")
        assert (await message_of(asker, wish)).text == "done"
        await asker.close()
    assert [part.type for part in first.parts] == ["reasoning", "text", "tool_call"]
    assert json.loads(first.calls[0].arguments) == {"code": "x" * 40}
    assert first.usage == Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=3)
    assert model.requests[1].messages[1]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "I think"}]},
        {"type": "text", "text": "Look. "},
    ]


@pytest.mark.requirement("mistral.stream.tool-calls")
async def test_calls_arrive_in_pieces_because_they_are_asked_for():
    asker = client()
    with ScriptedModel([call("run_code", code="y" * 40)], dialect="mistral") as model:
        items = await ask(asker, request(model.url, server=MISTRAL))
        await asker.close()
    assert model.requests[0].body["stream_options"] == {"stream_tool_calls": True}
    assert len(items) > 4
    assert "stream_options" not in encoded(user("x"), stream=False)


@pytest.mark.requirement("mistral.tool_choice.any")
@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "any"),
        ("run_code", {"type": "function", "function": {"name": "run_code"}}),
    ],
)
def test_each_choice_of_tools_is_spelled_as_mistral_does(choice, sent):
    assert encoded(user("x"), choice=choice)["tool_choice"] == sent


@pytest.mark.requirement("mistral.result.fields")
def test_a_result_has_its_name_its_text_and_the_id_of_its_call():
    sent = encoded(user("x"), called("abcDEF123"), result("abcDEF123", "two"))["messages"]
    assert sent[2] == {"role": "tool", "tool_call_id": "abcDEF123", "name": "run_code", "content": "two"}


@pytest.mark.requirement("mistral.ids.shape")
@pytest.mark.parametrize("call_id", ["call_abc123", "ollama_1f", "é", "x", "a" * 64, "abc-12345", "\ud83d"])
def test_an_id_of_another_dialect_becomes_one_of_nine_letters_the_same_for_call_and_result(call_id):
    sent = encoded(user("x"), called(call_id), result(call_id))["messages"]
    made = sent[1]["tool_calls"][0]["id"]
    assert re.fullmatch("[A-Za-z0-9]{9}", made)
    assert sent[2]["tool_call_id"] == made
    assert made == encoded(user("y"), called(call_id), result(call_id))["messages"][1]["tool_calls"][0]["id"]


def test_an_id_of_nine_letters_stays_and_many_ids_stay_apart():
    dialect = MistralDialect()
    assert dialect.call_id("abcDEF123") == "abcDEF123"
    assert len({dialect.call_id(f"call_{number}") for number in range(10_000)}) == 10_000


@pytest.mark.requirement("mistral.args.json-string")
@pytest.mark.parametrize("arguments", ['{"code": "1"}', {"code": "1"}])
def test_arguments_are_text_or_an_object(arguments):
    piece = {"id": "abcDEF123", "function": {"name": "run_code", "arguments": arguments}, "index": 0}
    _, message, _ = read([event({"content": "", "tool_calls": [piece]}, "tool_calls")], dialect="mistral")
    assert isinstance(message, AssistantMessage)
    assert json.loads(message.calls[0].arguments) == {"code": "1"}


def test_later_pieces_named_null_belong_to_the_call_they_continue():
    pieces = [("abcDEF123", "run_code", ""), ("null", "", '{"code"'), ("null", "", ': "1"}')]
    events = [
        event({"tool_calls": [{"index": 0, "id": one, "function": {"name": name, "arguments": text}}]})
        for one, name, text in pieces
    ]
    counts = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    _, message, _ = read([*events, event({"content": ""}, "tool_calls", usage=counts)], dialect="mistral")
    assert isinstance(message, AssistantMessage)
    assert message.calls == (ToolCall(id="abcDEF123", name="run_code", arguments='{"code": "1"}'),)
    assert message.usage == Usage(prompt_tokens=7, completion_tokens=2)


@pytest.mark.requirement("mistral.calls.missing-list")
@pytest.mark.parametrize("delta", [{"content": "a"}, {"content": "a", "tool_calls": None}])
def test_an_answer_without_a_list_of_calls_has_none(delta):
    _, message, _ = read([event(delta, "stop")], dialect="mistral")
    assert isinstance(message, AssistantMessage)
    assert (message.calls, message.text) == ((), "a")


@pytest.mark.requirement("mistral.content.parts")
def test_content_in_parts_is_text_and_reasoning_and_its_seal_goes_back():
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "seal"}
    parts = [thought, {"type": "reference", "reference_ids": [1]}, {"type": "text", "text": "a"}]
    deltas, message, _ = read([event({"content": parts}), event({"content": "b"}, "stop")], dialect="mistral")
    assert isinstance(message, AssistantMessage)
    assert message.parts == (ReasoningPart(text="hm", signature="seal"), TextPart(text="ab"))
    assert shown(deltas) == ("ab", "hm")
    sent = encoded(user("x"), message, user("y"), thinking="high")["messages"]
    assert sent[1]["content"][0]["signature"] == "seal"


@pytest.mark.parametrize(
    ("thinking", "effort", "temperature"),
    [(None, None, 0.2), ("off", "none", 0.2), ("low", "none", 0.2), ("medium", "high", 1.0), ("max", "high", 1.0)],
)
def test_thinking_sets_effort_and_temperature_and_what_was_thought_goes_back_only_then(thinking, effort, temperature):
    body = encoded(user("x"), said(ReasoningPart(text="hm"), TextPart(text="a")), user("y"), thinking=thinking)
    assert (body.get("reasoning_effort"), body["temperature"]) == (effort, temperature)
    assert isinstance(body["messages"][1]["content"], list) == (effort == "high")


def test_thinking_beside_calls_has_no_empty_text():
    message = said(ReasoningPart(text="hm"), ToolCall(id="abcDEF123", name="f", arguments="{}"))
    sent = encoded(user("x"), message, result("abcDEF123"), thinking="high")["messages"][1]
    assert [part["type"] for part in sent["content"]] == ["thinking"]


def test_the_roles_take_turns_on_the_wire_and_the_history_is_left_alone():
    history: tuple[Message, ...] = (
        SystemMessage(text="sys"),
        user("one"),
        user("two"),
        called("abcDEF123"),
        result("abcDEF123"),
        user("three"),
        said(TextPart(text="a")),
        said(TextPart(text="b")),
    )
    roles = " ".join(message["role"] for message in encoded(*history)["messages"])
    assert roles == ("system user assistant user assistant tool assistant user assistant user assistant user")


async def test_a_conversation_cut_anywhere_is_accepted_by_a_strict_server():
    history: list[Message] = [user("one")]
    for number in range(3):
        history += [called(f"call_{number}"), result(f"call_{number}"), user(f"wish {number}")]
    asker = client()
    with ScriptedModel(lambda _: "fine", dialect="mistral") as model:
        for messages in (history, [user("a"), *history], [*history, user("b"), user("c")]):
            wish = request(model.url, *messages, server=MISTRAL)
            assert (await message_of(asker, wish)).text == "fine"
        await asker.close()


@pytest.mark.requirement("agent.loop.append-only")
def test_requests_are_prefixes_of_each_other_whatever_is_bridged():
    encoder = BodyEncoder(MistralDialect())
    image = ImagePart(media_type="image/png", data="QUJD")
    history: list[Message] = [SystemMessage(text="sys"), user("wish")]
    bodies: list[bytes] = []
    for turn in range(10):
        bodies.append(encoder.encode(request(URL, *history, sees_images=True)))
        history += [called(f"c{turn}"), result(f"c{turn}", "plot", *[image] * (turn % 2))]
        bodies.append(encoder.encode(request(URL, *history, sees_images=True)))
        history += [user(f"wish {turn}")]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix(MistralDialect.tail) + b",")


async def test_a_model_that_knows_no_effort_is_asked_without_it_from_then_on():
    refusal = status(422, {"detail": [{"loc": ["body", "reasoning_effort"], "msg": "Extra inputs are not permitted"}]})
    asker = client()
    with ScriptedModel([refusal, "a", "b"], dialect="mistral") as model:
        for text in ("a", "b"):
            wish = request(model.url, server=MISTRAL, thinking="high")
            assert (await message_of(asker, wish)).text == text
        await asker.close()
    assert ["reasoning_effort" in one.body for one in model.requests] == [True, False, False]


def test_the_key_of_a_conversation_is_sent_to_mistral_itself_only():
    def head(base: str) -> dict[str, Any]:
        wish = request(base, user("x"), server=MISTRAL)
        return json.loads(BodyEncoder(MistralDialect()).encode(wish, HeadTerms(session="s-1")))

    assert head("https://api.mistral.ai/v1")["prompt_cache_key"] == "s-1"
    assert "prompt_cache_key" not in head("https://mistral.example/v1")


def test_tools_have_the_shape_of_functions():
    assert encoded(user("x"))["tools"] == [{"type": "function", "function": SPEC.model_dump()}]
