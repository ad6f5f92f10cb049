"""Ollama's own API: what is sent, and lines as it sends them, cut everywhere."""

import json
import random
from itertools import pairwise
from typing import Any

import pytest

from tests.llm.support import SPEC, ask, client, cut, failure_of, message_of, read, request, shown, user
from vibe_jupyter.llm.client import BodyEncoder
from vibe_jupyter.llm.dialects.ollama import OllamaDialect
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.request import AnswerLimits, ModelReply
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
    UserMessage,
)
from vibe_jupyter.testing import ScriptedModel, Tokens, answer, call, raw, status

URL = "http://127.0.0.1:1"
OLLAMA = {"dialect": "ollama"}
LINES = "application/x-ndjson"
IMAGE = ImagePart(media_type="image/png", data="QUJD")


def encoded(*messages: Message, **rest: Any) -> dict[str, Any]:
    """The body of a request."""
    server = {**OLLAMA, **rest.pop("server", {})}
    return json.loads(BodyEncoder(OllamaDialect()).encode(request(URL, *messages, server=server, **rest)))


def line(message: Any = None, **rest: Any) -> bytes:
    """One line of a stream, as Ollama writes it."""
    return (
        json.dumps({"model": "qwen3:8b", "created_at": "t", "message": message, "done": False, **rest}).encode() + b"\n"
    )


def text(piece: str) -> bytes:
    """A line with text."""
    return line({"role": "assistant", "content": piece})


def calls(*functions: dict[str, Any]) -> bytes:
    """A line with calls."""
    return line({"role": "assistant", "content": "", "tool_calls": [{"function": one} for one in functions]})


DONE = line({"role": "assistant", "content": ""}, done=True, done_reason="stop", prompt_eval_count=9, eval_count=4)
ADD = {"name": "add", "arguments": {"a": 1, "b": "é\u2028"}}


def said(*lines: bytes) -> AssistantMessage:
    """The message of a stream."""
    _, result, _ = read(lines, LINES, dialect="ollama")
    assert isinstance(result, AssistantMessage), result
    return result


def wrong(*lines: bytes) -> BrokenAnswer:
    """What is wrong with a stream."""
    _, result, _ = read(lines, LINES, dialect="ollama")
    assert isinstance(result, BrokenAnswer), result
    return result


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("base", ["", "/v1", "/v1/", "/api"])
@pytest.mark.requirement("ollama.endpoint.native")
async def test_a_turn_goes_to_the_native_address_and_back_whatever_base_is_written(base, stream):
    reply = answer("Look. ", [call("run_code", code="x")], reasoning="hm", usage=Tokens(10, 5))
    asker = client()
    with ScriptedModel([reply, "done"]) as model:
        root = model.url.removesuffix("/v1") + base
        first = await message_of(asker, request(root, stream=stream, server=OLLAMA))
        answers = [ToolMessage(call_id=c.id, name=c.name, parts=(TextPart(text="1"),)) for c in first.calls]
        wish = request(root, user("hello"), first, *answers, stream=stream, server=OLLAMA)
        assert (await message_of(asker, wish)).text == "done"
        await asker.close()
    assert {one.path for one in model.requests} == {"/api/chat"}
    assert [part.type for part in first.parts] == ["reasoning", "text", "tool_call"]
    assert first.usage == Usage(prompt_tokens=10, completion_tokens=5)
    assert model.requests[1].messages[1]["thinking"] == "hm"


@pytest.mark.requirement("ollama.args.object")
def test_arguments_are_objects_both_ways():
    message = said(text("a"), calls(ADD), DONE)
    assert json.loads(message.calls[0].arguments) == ADD["arguments"]
    sent = encoded(user("x"), message, result(message.calls[0]))["messages"]
    assert sent[1]["tool_calls"] == [{"function": ADD}]


@pytest.mark.requirement("ollama.ids.made-up", "stream.calls.id-missing")
def test_each_call_gets_an_id_of_its_own():
    messages = [said(calls(ADD, ADD), calls({**ADD, "index": 0}), DONE) for _ in range(50)]
    ids = [one.id for message in messages for one in message.calls]
    assert all(one.startswith("ollama_") for one in ids)
    assert len(set(ids)) == len(ids) == 150


@pytest.mark.requirement("ollama.result.tool-name")
def test_a_result_has_the_name_of_its_tool_and_no_id():
    message = said(calls(ADD), DONE)
    sent = encoded(user("x"), message, result(message.calls[0], "3"))["messages"]
    assert sent[2] == {"role": "tool", "tool_name": "add", "content": "3"}
    assert set(sent[1]["tool_calls"][0]) == {"function"}


@pytest.mark.requirement("ollama.tool_choice.absent")
@pytest.mark.parametrize("choice", ["auto", "none", "required", "run_code"])
def test_no_choice_of_tools_is_sent(choice):
    body = encoded(user("x"), choice=choice)
    assert "tool_choice" not in body
    assert body["tools"] == [{"type": "function", "function": SPEC.model_dump()}]


@pytest.mark.requirement("ollama.done.with-calls", "ollama.response.message")
def test_calls_count_although_the_reason_is_stop_and_choices_are_not_read():
    message = said(line({"content": ""}, choices=[{"delta": {"content": "no"}}]), calls(ADD), DONE)
    assert [one.name for one in message.calls] == ["add"]
    assert (message.stop_reason, message.text, message.model) == ("stop", "", "qwen3:8b")


def test_settings_go_where_ollama_wants_them():
    body = encoded(user("x"), max_tokens=100, context_window=8192, temperature=0.5, server={"keep_alive": "30m"})
    assert body["options"] == {"temperature": 0.5, "num_predict": 100, "num_ctx": 8192}
    assert body["keep_alive"] == "30m"
    plain = encoded(user("x"))
    assert plain["options"] == {"temperature": 0.2}
    assert not {"keep_alive", "think", "tool_choice"} & set(plain)


@pytest.mark.parametrize(
    ("name", "thinking", "sent"),
    [("qwen3:8b", "off", False), ("qwen3:8b", "low", True), ("gpt-oss:20b", "low", "low"), ("gpt-oss", "max", "high")],
)
def test_thinking_is_yes_no_or_a_level_where_the_model_has_levels(name, thinking, sent):
    assert encoded(user("x"), name=name, thinking=thinking)["think"] == sent


@pytest.mark.parametrize("said_by", ['"llama3.1:8b" does not support thinking', 'think value "high" is not supported'])
async def test_a_model_that_cannot_think_is_asked_without_from_then_on(said_by):
    asker = client()
    with ScriptedModel([status(400, {"error": said_by}), "a", "b"]) as model:
        for reply in ("a", "b"):
            wish = request(model.url, server=OLLAMA, thinking="high")
            assert (await message_of(asker, wish)).text == reply
        await asker.close()
    assert ["think" in one.body for one in model.requests] == [True, False, False]


def test_images_go_beside_the_text_to_models_that_see_and_in_words_to_others():
    message = said(calls(ADD), DONE)
    history = (
        UserMessage(parts=(TextPart(text="see"), IMAGE)),
        message,
        ToolMessage(call_id=message.calls[0].id, name="add", parts=(TextPart(text="plot"), IMAGE)),
    )
    seen = encoded(*history, sees_images=True)["messages"]
    assert (seen[0]["content"], seen[0]["images"]) == ("see", ["QUJD"])
    assert seen[2]["content"] == "plot\n\n(its image follows below)"
    assert (seen[3]["role"], seen[3]["images"]) == ("user", ["QUJD"])
    blind = encoded(*history)["messages"]
    assert [one["content"] for one in blind if one["role"] != "assistant"] == [
        "see\n\n(1 image not shown here)",
        "plot\n\n(1 image not shown here)",
    ]


@pytest.mark.parametrize("broken", ['{"code": ', "[1]", "", "null", "{NaN}", '{"a": "\\ud83d"}', '{"a": 1e999}'])
async def test_broken_arguments_in_the_history_do_not_break_later_requests(broken):
    bad = ToolCall(id="a", name="run code!", arguments=broken)
    history = (user("x"), AssistantMessage(parts=(bad,), stop_reason="stop"), result(bad, "No."))
    asker = client()
    with ScriptedModel(["fine"]) as model:
        assert (await message_of(asker, request(model.url, *history, server=OLLAMA))).text == "fine"
        await asker.close()
    assert model.requests[0].messages[1]["tool_calls"] == [{"function": {"name": "run_code_", "arguments": {}}}]


@pytest.mark.requirement("agent.loop.append-only")
def test_requests_of_one_conversation_are_prefixes_of_each_other():
    encoder = BodyEncoder(OllamaDialect())
    history: list[Message] = [SystemMessage(text="sys"), user("wish")]
    bodies: list[bytes] = []
    for turn in range(10):
        bodies.append(encoder.encode(request(URL, *history)))
        message = said(calls(ADD), DONE)
        history += [message, result(message.calls[0]), user(f"wish {turn}")]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix(OllamaDialect.tail) + b",")


def test_thinking_text_and_counts_are_read():
    message = said(line({"thinking": "h"}), line({"thinking": "m", "content": ""}), text("a"), text("b"), DONE)
    assert message.parts == (ReasoningPart(text="hm"), TextPart(text="ab"))
    assert message.usage == Usage(prompt_tokens=9, completion_tokens=4)
    assert said(text("a"), line(None, done=True)).usage is None


@pytest.mark.parametrize(
    ("reason", "stop"), [("stop", "stop"), ("length", "length"), ("load", "other"), ("new", "other")]
)
def test_each_reason_is_kept(reason, stop):
    assert said(text("a"), line(None, done=True, done_reason=reason)).stop_reason == stop


async def test_an_error_in_the_stream_is_readable_and_keeps_the_text():
    asker = client()
    with ScriptedModel(
        [raw([text("Hel"), b'{"error":"model runner has unexpectedly stopped"}\n'], content_type=LINES)]
    ) as m:
        error, items = await failure_of(asker, request(m.url, server=OLLAMA))
        await asker.close()
    assert (error.kind, error.partial_text, shown(items)[0]) == ("provider", "Hel", "Hel")
    assert "model runner has unexpectedly stopped" in str(error)


async def test_a_model_that_is_not_there_is_said():
    asker = client()
    with ScriptedModel([status(404, {"error": "model 'qwen3' not found"})]) as model:
        error, _ = await failure_of(asker, request(model.url, server=OLLAMA))
        await asker.close()
    assert (error.kind, error.provider_message) == ("not_found", "model 'qwen3' not found")


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([text("a")], "truncated"),
        ([text("a"), DONE[:-20]], "truncated"),
        ([text("a"), b"{broken\n", DONE], "bad_json"),
        ([DONE], "empty"),
        ([text("a"), b'{"error": {"message": "boom"}}\n'], "provider"),
        ([], "truncated"),
    ],
)
def test_what_is_no_answer_is_told_apart(lines, kind):
    assert wrong(*lines).kind == kind


def test_a_last_line_needs_no_end():
    assert said(text("a"), DONE.rstrip(b"\n")).text == "a"


def test_a_line_without_end_is_bounded():
    _, result, _ = read([b"a" * 600, b"a" * 600], LINES, AnswerLimits(event=1000), dialect="ollama")
    assert isinstance(result, BrokenAnswer)
    assert result.kind == "limit"


STREAMS = {
    "text": [text("Hé"), text("l\u2028lo \U0001f600"), b"\n", b" \r\n", DONE],
    "calls": [b"\xef\xbb\xbf" + text("a"), calls(ADD, ADD), line({"content": None, "tool_calls": None}), DONE],
    "thinking": [line({"thinking": "hm\u0085"}), text("a\x00b"), DONE],
    "crlf": [one.replace(b"\n", b"\r\n") for one in (text("a"), calls(ADD), DONE)],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_the_same_wherever_it_is_cut(name):
    data = b"".join(STREAMS[name])
    rng = random.Random(name)
    whole = read([data], LINES, dialect="ollama")[1]
    assert isinstance(whole, AssistantMessage)
    for way in [[data[i : i + 1] for i in range(len(data))], *(cut(data, rng) for _ in range(20))]:
        deltas, message, partial = read(way, LINES, dialect="ollama")
        assert isinstance(message, AssistantMessage)
        assert unnumbered(message) == unnumbered(whole)
        assert shown(deltas)[0] == partial == whole.text


@pytest.mark.requirement("wire.tool_choice.none")
@pytest.mark.parametrize("dialect", ["openai", "mistral", "ollama"])
async def test_with_mode_none_a_call_that_comes_back_is_dropped(dialect):
    form = "mistral" if dialect == "mistral" else "openai"
    asker = client()
    with ScriptedModel([answer("Text.", [call("run_code", code="1")]), call("run_code", code="1")], dialect=form) as m:
        wish = request(m.url, choice="none", server={"dialect": dialect})
        items = await ask(asker, wish)
        error, _ = await failure_of(asker, wish)
        await asker.close()
    assert {type(item).__name__ for item in items} == {"TextDelta", "ModelReply"}
    reply = items[-1]
    assert isinstance(reply, ModelReply)
    message = reply.message
    assert (message.text, message.calls) == ("Text.", ())
    assert (error.kind, "although none was allowed" in str(error)) == ("empty", True)
    assert m.requests[0].body.get("tool_choice") == (None if dialect == "ollama" else "none")


def result(one: ToolCall, words: str = "3") -> ToolMessage:
    """The result of a call."""
    return ToolMessage(call_id=one.id, name=one.name, parts=(TextPart(text=words),))


def unnumbered(message: AssistantMessage) -> list[Any]:
    """The parts of a message without the ids that are made up."""
    return [(p.name, p.arguments) if isinstance(p, ToolCall) else p for p in message.parts] + [message.usage]
