"""What goes out: the body and the headers of a request."""

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.llm.support import SPEC, ask, client, message_of, request, user
from vibe_jupyter.llm.client import BodyEncoder
from vibe_jupyter.llm.dialects.openai import OpenAIDialect
from vibe_jupyter.llm.request import Model
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
from vibe_jupyter.testing import ScriptedModel, Tokens, call, say, status

URL = "http://127.0.0.1:1/v1"
OPTIONS = {
    "openai": {"include_usage": True},
    "mistralrs": {"include_usage": True},
    "mistral": {"stream_tool_calls": True},
}
"""What each dialect asks for in ``stream_options``; Mistral counts without being asked."""
WIRE: dict[str, Any] = {"openai": "openai", "mistralrs": "openai", "mistral": "mistral"}
CALL = ToolCall(id="call00001", name="run_code", arguments='{"code": "1"}')


def encoded(*messages: Message, **rest: Any) -> dict[str, Any]:
    """The body of a request."""
    return json.loads(BodyEncoder(OpenAIDialect()).encode(request(URL, *messages, **rest)))


def said(*parts: TextPart | ReasoningPart | ToolCall) -> AssistantMessage:
    """An answer in the history."""
    return AssistantMessage(parts=parts, stop_reason="stop")


def result(text: str, *parts: ImagePart) -> ToolMessage:
    """A result in the history."""
    return ToolMessage(call_id="call00001", name="run_code", parts=(TextPart(text=text), *parts))


@pytest.mark.requirement(
    "wire.request.required",
    "wire.request.temperature",
    "wire.tools.definition",
    "wire.tool_choice.auto",
    "wire.message.roles",
)
def test_a_whole_body_is_what_the_server_expects():
    assert encoded(SystemMessage(text="sys"), user("hi")) == {
        "model": "scripted",
        "temperature": 0.2,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "run_code", "description": "Run code.", "parameters": SPEC.parameters},
            }
        ],
        "tool_choice": "auto",
        "messages": [{"role": "system", "content": "sys"}, {"role": "user", "content": "hi"}],
    }


@pytest.mark.requirement(
    "wire.tools.absent", "wire.request.stream-flag", "agent.request.max-tokens", "wire.request.temperature"
)
def test_what_is_not_set_is_not_sent():
    body = encoded(user("hi"), tools=(), stream=False)
    assert body == {
        "model": "scripted",
        "temperature": 0.2,
        "stream": False,
        "messages": [{"role": "user", "content": "hi"}],
    }
    body = encoded(user("hi"), max_tokens=7, temperature=1.0)
    assert (body["max_tokens"], body["temperature"]) == (7, 1.0)


@pytest.mark.requirement(
    "wire.message.roles", "wire.message.assistant-calls", "wire.message.tool", "openai.calls.shape"
)
def test_a_history_is_sent_in_its_roles_unchanged():
    history = (SystemMessage(text="sys"), user("hi\nthere"), said(TextPart(text="a é"), CALL), result("1"))
    assert encoded(*history)["messages"][1:] == [
        {"role": "user", "content": "hi\nthere"},
        {
            "role": "assistant",
            "content": "a é",
            "tool_calls": [
                {
                    "id": "call00001",
                    "type": "function",
                    "function": {"name": "run_code", "arguments": '{"code": "1"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call00001", "name": "run_code", "content": "1"},
    ]


def test_texts_of_one_message_are_joined_and_images_make_it_a_list():
    texts = UserMessage(parts=(TextPart(text="context"), TextPart(text="wish")))
    image = UserMessage(parts=(TextPart(text="see"), ImagePart(media_type="image/png", data="QUJD")))
    sent = encoded(texts, image, sees_images=True)["messages"]
    assert sent[0]["content"] == "context\n\nwish"
    assert sent[1]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
    ]


@pytest.mark.requirement("wire.message.tool-content", "wire.message.assistant-null", "notebook.read_output.images")
def test_results_are_text_and_answers_get_no_invented_text():
    image = ImagePart(media_type="image/png", data="QUJD")
    sent = encoded(user("x"), said(CALL), result("done", image), said(CALL), result(""))["messages"]
    assert [message["content"] for message in sent] == ["x", "", "done\n\n(1 image not shown here)", "", "(no output)"]


def test_reasoning_is_not_sent_back():
    sent = encoded(user("x"), said(ReasoningPart(text="hm"), TextPart(text="a")), user("y"))["messages"]
    assert sent[1] == {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    "broken", ['{"code": ', "[1]", "", "null", "{NaN}", '{"a": "\\ud83d"}', '{"a": 1e999}', '{"a": NaN}']
)
async def test_broken_arguments_in_the_history_do_not_break_later_requests(broken):
    history = (user("x"), said(ToolCall(id="a", name="run code!", arguments=broken)))
    answered = ToolMessage(call_id="a", name="run code!", parts=(TextPart(text="No."),), is_error=True)
    asker = client()
    with ScriptedModel(["fine"]) as model:
        assert (await message_of(asker, request(model.url, *history, answered))).text == "fine"
        sent = model.requests[0].messages
        await asker.close()
    assert sent[1]["tool_calls"][0]["function"] == {"name": "run_code_", "arguments": "{}"}
    assert sent[2]["name"] == "run_code_"


def test_text_that_is_no_unicode_is_sent_repaired():
    assert encoded(user("a\ud83d\ude00b\ud83d"))["messages"][0]["content"] == "a😀b\ufffd"


@pytest.mark.requirement("agent.loop.append-only")
def test_requests_of_one_conversation_are_prefixes_of_each_other():
    encoder = BodyEncoder(OpenAIDialect())
    history: list[Message] = [SystemMessage(text="sys"), user("wish")]
    bodies: list[bytes] = []
    for turn in range(20):
        history += [said(TextPart(text="é"), CALL), result(str(turn)), said(TextPart(text="ok")), user(f"wish {turn}")]
        bodies.append(encoder.encode(request(URL, *history)))
    tail = OpenAIDialect.tail
    for earlier, later in pairwise(bodies):
        assert earlier.endswith(tail)
        assert later.startswith(earlier.removesuffix(tail) + b",")
        assert json.loads(later)["messages"][-2] == {"role": "assistant", "content": "ok"}


def test_kept_bytes_belong_to_the_latest_request_and_are_made_once():
    encoder = BodyEncoder(CountingDialect())
    messages = [user(f"wish {number}") for number in range(5)]
    first = encoder.encode(request(URL, *messages))
    assert encoder.encode(request(URL, *messages)) == first
    assert CountingDialect.encoded == 5
    encoder.encode(request(URL, messages[4]))
    assert encoder.encode(request(URL, *messages)) == first
    assert CountingDialect.encoded == 9


class CountingDialect(OpenAIDialect):
    """Counts the messages it encodes."""

    encoded = 0

    def encode_message(self, message: Message, model: Model) -> bytes:
        CountingDialect.encoded += 1
        return super().encode_message(message, model)


def test_changed_tools_are_encoded_anew():
    encoder = BodyEncoder(OpenAIDialect())
    other = SPEC.model_copy(update={"name": "other"})
    names = [json.loads(encoder.encode(request(URL, tools=tools))).get("tools") for tools in ((SPEC,), (other,), ())]
    assert [tools and tools[0]["function"]["name"] for tools in names] == ["run_code", "other", None]


@pytest.mark.requirement("wire.endpoint.path", "wire.auth.bearer")
@pytest.mark.parametrize(
    ("ending", "path"), [("", ""), ("/", ""), ("/chat/completions", ""), ("?version=1", "?version=1")]
)
async def test_requests_carry_the_headers_and_go_below_the_base(ending, path):
    asker = client(affinity="session-7")
    with ScriptedModel(["a", "b"], api_key="secret-key") as model:
        await ask(asker, request(model.url + ending, key="secret-key"))
        headers = model.requests[0].headers
        await asker.close()
    assert model.requests[0].path == "/v1/chat/completions" + path
    assert headers["authorization"] == "Bearer secret-key"
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"] == "vibe-jupyter/test"
    assert headers["x-affinity"] == "session-7"


@pytest.mark.requirement("wire.auth.bearer")
async def test_without_a_key_no_such_header_is_sent():
    asker = client(affinity="")
    with ScriptedModel(["a"]) as model:
        await ask(asker, request(model.url))
        headers = model.requests[0].headers
        await asker.close()
    assert "authorization" not in headers
    assert "x-affinity" not in headers


@pytest.mark.requirement("wire.request.include-usage")
@pytest.mark.parametrize(("dialect", "options"), OPTIONS.items())
async def test_a_stream_is_asked_for_its_counts_and_without_them_where_that_is_refused(dialect, options):
    refusal = status(400, {"error": {"message": "Extra inputs are not permitted: stream_options"}})
    asker = client()
    replies = [say("a", usage=Tokens(10, 2)), refusal, "b", "c"]
    with ScriptedModel(replies, dialect=WIRE[dialect], strict=dialect != "mistralrs") as model:
        wish = request(model.url, server={"dialect": dialect})
        first = await message_of(asker, wish)
        assert (await message_of(asker, wish)).text == "b"
        await message_of(asker, request(model.url, stream=False, server={"dialect": dialect}))
        await asker.close()
    assert first.usage == Usage(prompt_tokens=10, completion_tokens=2)
    assert [r.body.get("stream_options") for r in model.requests] == [options, options, None, None]


@pytest.mark.parametrize("code", [400, 422])
async def test_a_server_that_refuses_the_question_for_counts_is_asked_without_it_from_then_on(code):
    refusal = status(code, {"error": {"message": "Extra inputs are not permitted: stream_options"}})
    asker = client()
    with ScriptedModel([refusal, call("f"), "done"]) as model:
        assert (await message_of(asker, request(model.url))).calls[0].name == "f"
        assert (await message_of(asker, request(model.url))).text == "done"
        assert ["stream_options" in r.body for r in model.requests] == [True, False, False]
        await asker.close()
