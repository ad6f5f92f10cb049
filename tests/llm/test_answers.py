"""What comes back, streamed or whole: text, reasoning, counts, ends, errors."""

import json
from typing import Any

import pytest

from tests.llm.support import ask, client, message_of, read, refusal_of, request, shown
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.request import ModelReply
from vibe_jupyter.protocol import AssistantMessage, ReasoningPart, TextPart, ToolCall, Usage
from vibe_jupyter.testing import ScriptedModel, Tokens, answer, call, raw


def chunk(delta: Any = None, finish: str | None = None, **rest: Any) -> bytes:
    """One event of a stream."""
    return f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': finish}], **rest})}\n\n".encode()


def said(*chunks: bytes) -> AssistantMessage:
    """The message of a stream."""
    _, result, _ = read(chunks)
    assert isinstance(result, AssistantMessage), result
    return result


def wrong(*chunks: bytes, content_type: str = "text/event-stream") -> BrokenAnswer:
    """What is wrong with a stream."""
    _, result, _ = read(chunks, content_type)
    assert isinstance(result, BrokenAnswer), result
    return result


STOP = chunk({}, "stop")


@pytest.mark.requirement("stream.chunk.content", "stream.chunk.role-only", "stream.chunk.fields", "wire.finish.null")
def test_pieces_are_joined_in_order_with_nothing_added():
    message = said(
        chunk({"role": "assistant"}, id="1", object="x", created=1, model="m-1", unknown=3),
        *(chunk({"content": piece}) for piece in ["Hel", "", "lo ", "\n", "wörld"]),
        chunk({}),
        chunk(None),
        STOP,
    )
    assert message == AssistantMessage(parts=(TextPart(text="Hello \nwörld"),), stop_reason="stop", model="m-1")


@pytest.mark.requirement("wire.response.json", "wire.response.usage", "openai.backend.generic")
async def test_an_answer_is_the_same_streamed_or_not():
    reply = answer(
        "Two words. ", [call("run_code", code="x"), call("ls")], reasoning="I think", usage=Tokens(10, 5, cached=3)
    )
    asker = client()
    with ScriptedModel([reply, reply]) as model:
        streamed = await message_of(asker, request(model.url, stream=True))
        whole = await message_of(asker, request(model.url, stream=False))
        assert [r.stream for r in model.requests] == [True, False]
        await asker.close()
    assert whole.usage == Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=3)
    assert [part.type for part in whole.parts] == ["reasoning", "text", "tool_call", "tool_call"]
    unnumbered = [
        message.model_copy(
            update={
                "parts": tuple(p.model_copy(update={"id": ""}) if isinstance(p, ToolCall) else p for p in message.parts)
            }
        )
        for message in (streamed, whole)
    ]
    assert unnumbered[0] == unnumbered[1]


async def test_a_json_body_for_a_stream_and_a_stream_for_a_body_are_read():
    body = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    asker = client()
    with ScriptedModel(
        [raw([body], content_type="application/json; charset=utf-8"), raw([chunk({"content": "Ho"}), STOP])]
    ) as m:
        assert (await message_of(asker, request(m.url, stream=True))).text == "Hi"
        assert (await message_of(asker, request(m.url, stream=False))).text == "Ho"
        await asker.close()


@pytest.mark.requirement("stream.sse.done")
def test_nothing_after_the_end_mark_is_read():
    deltas, result, _ = read([chunk({"content": "a"}), b"data: [DONE]\n\ndata: {broken\n\n", chunk({"content": "b"})])
    assert isinstance(result, AssistantMessage)
    assert (shown(deltas)[0], result.text) == ("a", "a")


def test_a_stream_without_its_end_is_cut_even_when_its_call_looks_complete():
    piece = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "rm", "arguments": "{}"}}]}
    assert wrong(chunk({"content": "a"}), chunk(piece)).kind == "truncated"


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("tool_calls", "tool_calls"),
        ("content_filter", "content_filter"),
        ("brand_new", "other"),
    ],
)
def test_each_finish_reason_is_kept_and_a_new_one_ends_the_answer_too(reason, stop):
    assert said(chunk({"content": "a"}, reason)).stop_reason == stop


def test_calls_count_whatever_the_finish_reason_says():
    piece = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    assert [call.name for call in said(chunk(piece), STOP).calls] == ["f"]


@pytest.mark.requirement("wire.message.assistant-null")
@pytest.mark.parametrize("content", [None, ""])
def test_empty_content_beside_calls_is_no_text(content):
    piece = {"content": content, "tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    assert said(chunk(piece), STOP).parts == (ToolCall(id="a", name="f", arguments="{}"),)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_and_comes_first(name):
    message = said(chunk({"content": "A"}), chunk({name: "hm "}), chunk({name: "ok", "content": None}), STOP)
    assert message.parts == (ReasoningPart(text="hm ok"), TextPart(text="A"))


def test_an_empty_field_of_reasoning_hides_none_that_says_something():
    message = said(chunk({"reasoning_content": "", "reasoning": "hm", "content": "A"}), STOP)
    assert message.parts == (ReasoningPart(text="hm"), TextPart(text="A"))


def test_lists_of_parts_are_read_without_line_feeds_between_them():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}, "b"]
    message = said(chunk({"content": [*parts, {"type": "image", "text": "no"}, 3, None]}), STOP)
    assert message.parts == (ReasoningPart(text="hm"), TextPart(text="ab"))


def test_half_characters_in_two_pieces_are_joined_and_single_halves_replaced():
    deltas, result, _ = read(
        [
            b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % piece
            for piece in (b"a\\ud83d", b"\\ude00b", b"\\ude00")
        ]
        + [STOP]
    )
    assert isinstance(result, AssistantMessage)
    assert (shown(deltas)[0], result.text) == ("a😀b\ufffd", "a😀b\ufffd")


@pytest.mark.requirement("stream.chunk.usage", "wire.response.usage")
@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ([{"prompt_tokens": 5, "completion_tokens": 1}, {"prompt_tokens": 5, "completion_tokens": 2}], (5, 2, 0)),
        ([{"prompt_tokens": None, "completion_tokens": "x"}], (0, 0, 0)),
        ([{"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}, None], (5, 0, 4)),
        ([{"prompt_tokens": 5, "prompt_tokens_details": None, "prompt_cache_hit_tokens": 3}], (5, 0, 3)),
    ],
)
def test_the_last_counts_win_and_null_counts_are_zero(counts, usage):
    chunks = [chunk({"content": "a"}, usage=count) for count in counts]
    prompt, completion, cached = usage
    wanted = Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)
    assert said(*chunks, STOP).usage == wanted


@pytest.mark.requirement("stream.chunk.usage")
def test_counts_may_come_after_the_end_without_a_choice():
    tail = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
    assert said(chunk({"content": "a"}), STOP, tail).usage == Usage(prompt_tokens=7, completion_tokens=2)
    assert said(chunk({"content": "a"}), STOP).usage is None


def test_only_the_first_choice_is_read():
    other = b'data: {"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}}]}\n\n'
    assert said(other, STOP).text == "yes"


@pytest.mark.requirement("stream.sse.error-object")
@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error":{"message":"boom"}}\n\n',
        b'data: {"error":"boom"}\n\n',
        b'data: {"object":"error","message":"boom"}\n\n',
        b"event: error\ndata: boom\n\n",
        b'event: error\ndata: {"error":{"message":"boom"}}\n\n',
    ],
)
async def test_an_error_in_a_stream_is_readable_and_keeps_the_text(event):
    with ScriptedModel([raw([chunk({"content": "Hel"}), event])]) as model:
        error = await refusal_of(model)
    assert (error.kind, error.provider_message, error.partial_text) == ("provider", "boom", "Hel")
    assert "boom" in str(error)


def test_what_came_in_the_broken_event_itself_is_shown_and_kept():
    deltas, result, partial = read([chunk({"content": "Hi"}, "error")])
    assert isinstance(result, BrokenAnswer)
    assert (result.kind, shown(deltas)[0], partial) == ("provider", "Hi", "Hi")


@pytest.mark.parametrize("body", [{"error": {"message": "boom"}}, {"detail": "boom"}, {"message": "boom"}, ["boom"]])
def test_a_json_body_that_is_no_answer_is_an_error_in_its_own_words(body):
    broken = wrong(json.dumps(body).encode(), content_type="application/json")
    assert (broken.kind, broken.detail) == ("provider", "boom")


@pytest.mark.requirement("stream.sse.not-json", "wire.errors.type-safe")
@pytest.mark.parametrize("data", ["{", "NaN", '{"a": Infinity}', "<html>"])
def test_data_that_is_not_strict_json_is_said_with_an_excerpt(data):
    broken = wrong(f"data: {data}\n\n".encode())
    assert (broken.kind, data in broken.detail) == ("bad_json", True)


def test_an_answer_with_nothing_in_it_is_an_error_that_says_why():
    assert wrong(STOP).kind == "empty"
    assert "token limit" in wrong(chunk({}, "length")).detail
    assert "content filter" in wrong(chunk({}, "content_filter")).detail
    assert "reasoning" in wrong(chunk({"reasoning": "hm"}, "stop")).detail
    assert "reasoning" in wrong(chunk({"reasoning": "hm"}), chunk({"content": "\n\n"}, "stop")).detail
    assert wrong(b"", content_type="application/json").kind == "empty"


@pytest.mark.requirement("stream.sse.blank-comments")
def test_named_events_of_other_dialects_are_never_text():
    event = b'event: agentic_tool_call_progress\ndata: {"choices":[{"delta":{"content":"no"}}]}\n\n'
    assert said(event, chunk({"content": "yes"}), STOP).text == "yes"


async def test_the_message_comes_last_and_once_and_deltas_come_before_it():
    asker = client()
    with ScriptedModel([answer("a b", [call("f")])]) as model:
        items = await ask(asker, request(model.url))
        await asker.close()
    assert [type(item).__name__ for item in items[:2]] == ["TextDelta", "TextDelta"]
    assert [type(item) for item in items].count(ModelReply) == 1
    assert isinstance(items[-1], ModelReply)
