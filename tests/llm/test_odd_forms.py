"""Forms of answers that only some servers send: what each stands for is certain, so it is read."""

import json
from typing import Any, Final

import pytest

from tests.llm.support import client, message_of, read, request
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.protocol import AssistantMessage, ReasoningPart
from vibe_jupyter.testing import Raw, ScriptedModel, status

Object = dict[str, Any]

CALL: Final = {"id": "c1", "type": "function", "function": {"name": "run_code", "arguments": '{"code": "1"}'}}
RUN: Final = [("run_code", {"code": "1"})]
LIST: Final = ("bash", {"command": "ls"})
JSON: Final = "application/json"


def piece(delta: Any = None, finish: Any = None, **rest: Any) -> Object:
    """One chunk."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **rest}


def calls(*entries: Object) -> Object:
    """A chunk of calls."""
    return piece({"tool_calls": list(entries)})


def part(index: Any, arguments: Any, name: str | None = None, call_id: Any = None, **rest: Any) -> Object:
    """A piece of a call."""
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}, **rest}


def stream(*chunks: Object | str, end: str = "\n\n") -> bytes:
    """A stream of events; text stands as it is."""
    return "".join(one if isinstance(one, str) else f"data: {json.dumps(one)}{end}" for one in chunks).encode()


def got(body: bytes, content_type: str = "text/event-stream", dialect: str = "openai") -> AssistantMessage:
    """The message of a body, read at once and byte by byte."""
    results = [
        read(way, content_type, dialect=dialect)[1] for way in ([body], [body[i : i + 1] for i in range(len(body))])
    ]
    assert isinstance(results[0], AssistantMessage), results[0]
    assert isinstance(results[1], AssistantMessage), results[1]
    assert [results[0].text, len(results[0].calls)] == [results[1].text, len(results[1].calls)]
    return results[0]


def called(message: AssistantMessage) -> list[tuple[str, Any]]:
    """Names and arguments of its calls."""
    return [(one.name, json.loads(one.arguments)) for one in message.calls]


def broken(body: bytes, content_type: str = "text/event-stream") -> BrokenAnswer:
    """The failure of a body."""
    _, result, _ = read([body], content_type)
    assert isinstance(result, BrokenAnswer), result
    return result


END: Final = piece({}, "stop")
TWO: Final = [*RUN, LIST]


@pytest.mark.requirement("reply.odd.forms")
@pytest.mark.parametrize(
    ("chunks", "ran"),
    [
        pytest.param([piece({"tool_calls": CALL})], RUN, id="one call without a list"),
        pytest.param(
            [
                piece({"function_call": {"name": "run_code", "arguments": ""}}),
                piece({"function_call": {"arguments": '{"code": "1"}'}}),
            ],
            RUN,
            id="the older field",
        ),
        pytest.param([piece({"function_call": CALL["function"], "tool_calls": [CALL]})], RUN, id="both fields"),
        pytest.param([calls({"id": "a", "name": "run_code", "arguments": {"code": "1"}})], RUN, id="no function"),
        pytest.param([calls({"function": {"name": "run_code", "parameters": {"code": "1"}}})], RUN, id="parameters"),
        pytest.param(
            [piece({"content": [{"type": "tool_use", "id": "t", "name": "run_code", "input": {"code": "1"}}]})],
            RUN,
            id="a part of the content",
        ),
        pytest.param(
            [calls(part(0, '{"code": "1"}', "run_code")), calls(part(0, '{"command": "ls"}', "bash"))],
            TWO,
            id="two at one index without ids",
        ),
        pytest.param(
            [calls(part(0, '{"code": "1"}', "run_code")), calls(part(0, '{"code": "2"}', "run_code"))],
            [*RUN, ("run_code", {"code": "2"})],
            id="two of one tool at one index",
        ),
        pytest.param(
            [calls(part(0, {"code": "1"}, "run_code")), calls(part(0, {"command": "ls"}, "bash"))],
            TWO,
            id="two with objects at one index",
        ),
        pytest.param(
            [calls(part(None, '{"code": "1"}', "run_code", "x")), calls(part(None, '{"command": "ls"}', "bash", "x"))],
            TWO,
            id="two with one id",
        ),
        pytest.param([calls(part(0, '{"code": "1"}', "run_code"))] * 2, RUN, id="one call twice"),
        pytest.param(
            [
                calls(part("0", "", "run_code", "x"), part("1", "", "bash", "y")),
                calls(part("0", '{"code": "1"}')),
                calls(part("1", '{"command": "ls"}')),
            ],
            TWO,
            id="indexes as text",
        ),
        pytest.param(
            [
                calls(part(0, "", "run_code", "a")),
                calls(part(0, '{"code":', None, "b")),
                calls(part(0, '"1"}', None, "c")),
            ],
            RUN,
            id="another id in each piece",
        ),
        pytest.param(
            [calls(part(0, "", "run", "a")), calls(part(0, '{"code": "1"}', "run_code", "a"))],
            RUN,
            id="a name that grows",
        ),
        pytest.param(
            [calls(part(0, '{"code"', "run_code")), calls(part(0, ': "1"}', "run_code"))],
            RUN,
            id="a name in each piece",
        ),
        pytest.param(
            [
                calls(CALL),
                {"object": "chat.completion", "choices": [{"message": {"tool_calls": [{**CALL, "id": "z"}]}}]},
            ],
            RUN,
            id="all of it once more",
        ),
        pytest.param(
            [
                calls(CALL) | {"id": "a"},
                piece({}, "tool_calls", id="a"),
                calls({**CALL, "id": "z"}) | {"id": "b"},
            ],
            RUN,
            id="another answer behind it",
        ),
    ],
)
def test_calls_of_a_stream_in_odd_forms_are_those_that_were_meant(chunks: list[Object], ran: list[Any]) -> None:
    assert called(got(stream(*chunks, END))) == ran


@pytest.mark.requirement("reply.odd.forms")
def test_ollamas_calls_in_odd_forms_are_those_that_were_meant() -> None:
    done = {"done": True, "done_reason": "stop"}
    flat = {"message": {"tool_calls": [{"name": "run_code", "arguments": {"code": "1"}}]}}
    again = {"message": {"tool_calls": [CALL]}}
    kind = "application/x-ndjson"
    other = {"message": {"tool_calls": [{**CALL, "function": {"name": "bash", "arguments": {"command": "ls"}}}]}}
    for lines, ran in (
        ([flat, done], RUN),
        ([again, {**again, **done}], RUN),
        ([again, other, done], [*RUN, ("bash", {"command": "ls"})]),
    ):
        body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        assert called(got(body, kind, "ollama")) == ran


SAYS: Final = [
    pytest.param({"content": {"type": "text", "text": "Hi"}}, "", id="one part"),
    pytest.param({"content": [{"type": "output_text", "text": "Hi"}]}, "", id="another type of text"),
    pytest.param({"content": [{"text": "Hi"}]}, "", id="no type"),
    pytest.param({"content": [{"type": "refusal", "refusal": "Hi"}]}, "", id="a refusal"),
    pytest.param(
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, {"text": "Hi"}]},
        "hm",
        id="a summary of thoughts",
    ),
    pytest.param({"thinking": "hm", "content": "Hi"}, "hm", id="thinking"),
    pytest.param({"reasoning_text": "hm", "content": "Hi"}, "hm", id="reasoning_text"),
    pytest.param({"reasoning": {"content": "hm"}, "content": "Hi"}, "hm", id="an object"),
    pytest.param(
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}], "content": "Hi"}, "hm", id="details"
    ),
    pytest.param({"thinking_blocks": [{"type": "thinking", "thinking": "hm"}], "content": "Hi"}, "hm", id="blocks"),
]


@pytest.mark.requirement("reply.odd.forms")
@pytest.mark.parametrize(("delta", "thoughts"), SAYS)
def test_text_and_thoughts_in_odd_places_are_read(delta: Object, thoughts: str) -> None:
    message = got(stream(piece(delta), END))
    thought = "".join(one.text for one in message.parts if isinstance(one, ReasoningPart))
    assert (message.text, thought) == ("Hi", thoughts)


@pytest.mark.requirement("reply.odd.forms")
@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([{"choices": [{"text": "Hi"}]}, {"choices": [{"text": "", "finish_reason": "stop"}]}], id="text"),
        pytest.param([{"choices": [{"index": "0", "delta": {"content": "Hi"}, "finish_reason": "stop"}]}], id="index"),
        pytest.param(
            [
                piece({"content": "Hi"}),
                {"choices": [{"delta": {}, "message": {"content": "Hi"}, "finish_reason": "stop"}]},
            ],
            id="the message beside an empty delta",
        ),
        pytest.param(
            [
                piece({"content": "Hi"}),
                {"object": "chat.completion", "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]},
            ],
            id="all of it once more",
        ),
        pytest.param(
            [piece({"content": "Hi"}, id="a"), piece({}, "stop", id="a"), piece({"content": "Ho"}, "stop", id="b")],
            id="another answer behind it",
        ),
        pytest.param(
            [piece({}, id="a"), piece({"content": "H"}, "stop", id="b"), piece({"content": "i"}, id="c")],
            id="another id in each chunk, and an early finish",
        ),
        pytest.param([piece({"content": "Hi"}, error="") | {"id": 1}, piece({}, "stop", error={})], id="no error"),
        pytest.param([piece({"content": "Hi"}, error="none"), piece({}, "stop", error="null")], id="no error as text"),
        pytest.param([piece({"content": "Hi"}, "null"), piece({}, "stop")], id="null as text"),
        pytest.param(
            [
                {"choices": [{"index": 1, "delta": {"content": "H"}}]},
                {"choices": [{"index": 2, "delta": {"content": "i"}, "finish_reason": "stop"}]},
            ],
            id="an index that counts tokens",
        ),
    ],
)
def test_the_text_of_an_odd_stream_is_read_once(chunks: list[Object]) -> None:
    message = got(stream(*chunks, "data: [DONE]\n\n"))
    assert (message.text, message.stop_reason) == ("Hi", "stop")


HI: Final = piece({"content": "Hi"})
WHOLE: Final = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
FRAMES: Final = {
    "one line end": (stream(HI, END, end="\n"), "text/event-stream"),
    "no last line ends": (stream(HI, END).rstrip(), "text/event-stream"),
    "the field twice": (stream(*(f"data: data: {json.dumps(one)}\n\n" for one in (HI, END))), "text/event-stream"),
    "named": (stream(*(f"event: chunk\ndata: {json.dumps(one)}\n\n" for one in (HI, END))), "text/event-stream"),
    "another mark of the end": (stream(HI, END, "data: [done]\n\n"), "text/event-stream"),
    "words behind the end": (stream(HI, END, "data: That was all.\n\n"), "text/event-stream"),
    "a raw tab": (stream(f'data: {json.dumps(HI)[:-1]},"x":"\t"}}\n\n', END), "text/event-stream"),
    "no number": (stream(f'data: {json.dumps(HI)[:-1]},"x":NaN}}\n\n', END), "text/event-stream"),
    "JSON typed as events": (WHOLE.encode(), "text/event-stream"),
    "events typed as JSON": (stream(HI, END), JSON),
    "events typed as text": (stream(": ping\n\n", HI, END), "text/plain; charset=utf-8"),
    "events typed as bytes": (stream(HI, END), "application/octet-stream"),
    "JSON typed as text": (f"\n {WHOLE}".encode(), "text/plain"),
    "JSON typed as a page": (WHOLE.encode(), "text/html"),
    "lines typed as JSON": (f"{json.dumps(HI)}\n{json.dumps(END)}\n".encode(), JSON),
    "comments before JSON": (f": PROCESSING\n\n: PROCESSING\n\n{WHOLE}".encode(), JSON),
    "two bodies": (f"{WHOLE}{WHOLE}".encode(), JSON),
    "a mark behind JSON": (f"{WHOLE}\ndata: [DONE]\n\n".encode(), JSON),
}


@pytest.mark.requirement("reply.odd.forms")
@pytest.mark.parametrize("form", FRAMES)
def test_an_answer_in_odd_frames_or_of_a_wrong_type_is_read(form: str) -> None:
    body, content_type = FRAMES[form]
    assert got(body, content_type).text == "Hi"


@pytest.mark.requirement("reply.odd.forms")
@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("FinishReason.STOP", "stop"),
        ("MAX-TOKENS", "length"),
        ("contextLengthReached", "length"),
        ("model_context_window_exceeded", "length"),
        ("content_filter: RECITATION", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        ({"type": "length", "length": 40}, "length"),
        ({"type": "stop", "matched": 151645}, "stop"),
    ],
)
def test_a_finish_reason_is_known_in_other_spellings(finish: Any, kind: str) -> None:
    assert got(stream(calls(CALL), piece({}, finish), "data: [DONE]\n\n")).stop_reason == kind


@pytest.mark.requirement("reply.odd.forms")
def test_a_cut_that_only_the_server_behind_a_router_names_is_one() -> None:
    end: Object = {"choices": [{"delta": {}, "finish_reason": "stop", "native_finish_reason": "MAX_TOKENS"}]}
    assert got(stream(calls(CALL), end)).stop_reason == "length"


@pytest.mark.requirement("reply.odd.forms")
@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "empty"),
        ("malformed_model_output", "empty"),
        ("canceled", "truncated"),
        ("engine_overloaded", "truncated"),
    ],
)
def test_an_answer_that_ended_in_a_failure_is_none(finish: str, kind: str) -> None:
    assert broken(stream(calls(CALL), piece({"content": "Let me"}, finish))).kind == kind


OPENROUTER: Final = {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"detail": "no images"}'}}


@pytest.mark.requirement("reply.odd.forms")
@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(stream({"error": True, "message": "GPU is gone"}), "GPU is gone", id="a flag"),
        pytest.param(stream({"code": "InvalidParameter", "message": "no adapter"}), "no adapter", id="a code"),
        pytest.param(stream({"detail": "no adapter"}), "no adapter", id="a detail"),
        pytest.param(b'data: [{"error": {"message": "bad key"}}]\n\n', "bad key", id="a list"),
        pytest.param(stream(HI, 'error: {"code": 500, "message": "no slot"}\n\n'), "no slot", id="a field of its own"),
        pytest.param(stream(HI, '{"error": {"message": "no slot"}}\n'), "no slot", id="a bare line"),
        pytest.param(b'{\n  "error": {\n    "message": "no slot"\n  }\n}', "no slot", id="bare lines"),
        pytest.param(stream({"error": OPENROUTER}), "Provider returned error: no images", id="a router"),
    ],
)
def test_an_error_in_an_odd_form_is_said_in_its_own_words(body: bytes, said: str) -> None:
    failure = broken(body)
    assert (failure.kind, failure.detail) == ("provider", said)


@pytest.mark.requirement("reply.odd.forms")
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(b'{"error": {"code": 502, "message": "Provider returned error"}}', JSON, id="a body"),
        pytest.param(
            stream('event: error\ndata: {"code": 503, "message": "busy"}\n\n'), "text/event-stream", id="event"
        ),
        pytest.param(stream({"error": {"code": "tool_use_failed", "message": "x"}}), "text/event-stream", id="a call"),
    ],
)
def test_an_error_of_the_server_rather_than_the_request_is_passing(body: bytes, content_type: str) -> None:
    assert broken(body, content_type).passing


@pytest.mark.requirement("reply.odd.forms")
async def test_a_call_that_the_server_could_not_read_is_asked_for_again() -> None:
    refusal = {"error": {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<f"}}
    asker = client()
    with ScriptedModel([status(400, refusal), "fine"]) as model:
        assert (await message_of(asker, request(model.url))).text == "fine"
        await asker.close()


async def test_an_event_stream_over_http_that_is_typed_as_text_is_shown_as_it_comes() -> None:
    asker = client()
    with ScriptedModel([Raw((stream(HI), stream(END)), content_type="text/plain")]) as model:
        assert (await message_of(asker, request(model.url))).text == "Hi"
        await asker.close()
