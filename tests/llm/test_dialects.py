"""What holds in every dialect: choice of tools, images, thinking, options, costs, and a change of server."""

import json
import math
import re
from typing import Any

import pytest

from tests.llm.support import SPEC, client, failure_of, message_of, read, request, user
from vibe_jupyter.llm.client import BodyEncoder
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.request import AnswerLimits, HeadTerms, Model, Server
from vibe_jupyter.protocol import (
    AssistantMessage,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from vibe_jupyter.testing import ScriptedModel, Tokens, answer, call, status

URL = "http://127.0.0.1:1/v1"
IMAGE = ImagePart(media_type="image/png", data="QUJD")
OTHER_IMAGE, THIRD_IMAGE = (ImagePart(media_type="image/png", data=data) for data in ("REVG", "R0hJ"))
ALL = ("openai", "mistral", "ollama", "mistralrs")


def encoded(dialect: str, *messages: Message, terms: HeadTerms | None = None, **rest: Any) -> dict[str, Any]:
    """The body of a request."""
    server = {"dialect": dialect, **rest.pop("server", {})}
    wish = request(rest.pop("url", URL), *messages, server=server, **rest)
    return json.loads(BodyEncoder(DIALECTS[dialect]).encode(wish, terms))


def said(*parts: TextPart | ReasoningPart | ToolCall) -> AssistantMessage:
    """An answer in the history."""
    return AssistantMessage(parts=parts, stop_reason="stop")


def result(call_id: str, *parts: TextPart | ImagePart) -> ToolMessage:
    """The result of a call."""
    return ToolMessage(call_id=call_id, name="run_code", parts=parts)


def two_calls() -> AssistantMessage:
    """An answer with two calls."""
    return said(*(ToolCall(id=f"call0000{n}", name="run_code", arguments="{}") for n in (1, 2)))


XML = (
    '<tool_call>{"name": "run_code", "arguments": {"code": "1"}}</tool_call>'
    '<function_calls><invoke name="run_code"><parameter name="code">1</parameter></invoke></function_calls>'
    "<function=run_code><parameter=code>1</parameter></function>"
)


def replied(dialect: str, text: str) -> AssistantMessage:
    """What a stream with this text gives."""
    if dialect == "ollama":
        lines = [{"message": {"content": text}, "done": False}, {"message": {"content": ""}, "done": True}]
        _, message, _ = read(
            [json.dumps(line).encode() + b"\n" for line in lines], "application/x-ndjson", dialect=dialect
        )
    else:
        chunk = {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}
        _, message, _ = read([b"data: " + json.dumps(chunk).encode() + b"\n\n"], dialect=dialect)
    assert isinstance(message, AssistantMessage)
    return message


@pytest.mark.parametrize("dialect", ALL)
def test_calls_written_as_xml_are_text_and_nothing_is_written_so(dialect):
    message = replied(dialect, XML)
    assert (message.text, message.calls) == (XML, ())
    body = json.dumps(encoded(dialect, user("go"), two_calls(), result("call00001"), result("call00002")))
    assert not re.search(r"</?(tool_call|function|invoke|parameter|tools?)\b", body)


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("run_code", {"type": "function", "function": {"name": "run_code"}}),
    ],
)
def test_each_choice_of_tools_is_spelled_as_openai_does(choice, sent):
    assert encoded("openai", user("x"), choice=choice)["tool_choice"] == sent
    assert "tool_choice" not in encoded("openai", user("x"), choice=choice, tools=())


@pytest.mark.requirement("mistral.tools.format")
@pytest.mark.parametrize("dialect", ALL)
def test_tools_have_the_same_shape_everywhere(dialect):
    assert encoded(dialect, user("x"))["tools"] == [{"type": "function", "function": SPEC.model_dump()}]


@pytest.mark.parametrize("dialect", ALL)
def test_images_of_results_follow_the_last_result_for_models_that_see(dialect):
    history = (
        user("x"),
        two_calls(),
        result("call00001", TextPart(text="a"), IMAGE),
        result("call00002", OTHER_IMAGE, THIRD_IMAGE),
    )
    sent = encoded(dialect, *history, sees_images=True)["messages"]
    roles = [message["role"] for message in sent if message != sent[-2] or message["role"] != "assistant"]
    assert roles == ["user", "assistant", "tool", "tool", "user"]
    assert [message["content"] for message in sent if message["role"] == "tool"] == [
        "a\n\n(its image follows below)",
        "(its images follow below)",
    ]
    follows = json.dumps(sent[-1])
    assert [follows.count(image.data) for image in (IMAGE, OTHER_IMAGE, THIRD_IMAGE)] == [1, 1, 1]
    assert "From the result of run_code: image 1." in follows
    assert "From the result of run_code: images 1, 2." in follows


@pytest.mark.parametrize("dialect", ALL)
def test_an_image_that_an_earlier_result_has_is_named_and_not_sent_again(dialect):
    history: list[Message] = [
        user("x"),
        two_calls(),
        result("call00001", IMAGE),
        result("call00002", OTHER_IMAGE, IMAGE),
        said(TextPart(text="seen")),
        user("again"),
        said(ToolCall(id="call00003", name="run_code", arguments="{}")),
        result("call00003", IMAGE),
    ]
    encoder = BodyEncoder(DIALECTS[dialect])

    def sent(*messages: Message) -> list[dict[str, Any]]:
        return json.loads(encoder.encode(request(URL, *messages, server={"dialect": dialect}, sees_images=True)))[
            "messages"
        ]

    whole = sent(*history)
    assert [json.dumps(whole).count(image.data) for image in (IMAGE, OTHER_IMAGE)] == [1, 1]
    assert "run_code: image 1; image 2 is not sent again, it is image 1 of run_code 1 result earlier." in str(whole)
    assert "run_code: image 1 is not sent again, it is image 1 of run_code 2 results earlier." in str(whole[-1])

    without_the_first = sent(history[0], *history[5:])
    assert IMAGE.data in str(without_the_first[-1])


@pytest.mark.parametrize("dialect", ALL)
def test_images_are_dropped_with_a_word_for_models_that_do_not_see(dialect):
    called = said(ToolCall(id="call00001", name="run_code", arguments="{}"))
    history = (UserMessage(parts=(TextPart(text="see"), IMAGE)), called, result("call00001", IMAGE, IMAGE))
    sent = encoded(dialect, *history)["messages"]
    assert [message["content"] for message in sent if message["role"] != "assistant"] == [
        "see\n\n(1 image not shown here)",
        "(2 images not shown here)",
    ]
    assert "QUJD" not in json.dumps(sent)


@pytest.mark.parametrize("dialect", ALL)
def test_an_answer_is_never_the_last_message(dialect):
    sent = encoded(dialect, user("x"), said(TextPart(text="a")))["messages"]
    assert sent[-1]["role"] == "user"


@pytest.mark.parametrize("dialect", ALL)
def test_what_is_not_set_is_left_out_and_never_null(dialect):
    body = encoded(dialect, user("x"), tools=())
    assert None not in body.values()
    assert not {"tools", "tool_choice", "max_tokens", "reasoning_effort", "think"} & set(body)


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in ALL for b in ALL if a != b])
async def test_a_conversation_goes_on_at_a_server_of_another_kind(first, second):
    reply = answer("Look.", [call("run_code", code="x"), call("run_code", code="y")], reasoning="hm")
    form = {"mistral": "mistral"}
    asker = client()
    with (
        ScriptedModel([reply], dialect=form.get(first, "openai"), strict=first != "mistralrs") as one,
        ScriptedModel(["done"], dialect=form.get(second, "openai"), strict=second != "mistralrs") as two,
    ):
        begun = await message_of(asker, request(one.url, server={"dialect": first}, thinking="high"))
        results = [result(each.id, TextPart(text="1"), IMAGE) for each in begun.calls]
        wish = request(
            two.url, user("hello"), begun, *results, server={"dialect": second}, thinking="high", sees_images=True
        )
        assert (await message_of(asker, wish)).text == "done"
        await asker.close()


@pytest.mark.requirement("openai.reasoning.field")
def test_reasoning_in_a_field_the_person_named_is_read_there_and_goes_back_there():
    chunk = b'data: {"choices":[{"delta":{"thoughts":"hm","content":"a"},"finish_reason":"stop"}]}\n\n'
    named = Model(Server("t", URL, reasoning_field="thoughts"), "m", "m")
    decoder = DIALECTS["openai"].decoder(named, AnswerLimits())
    decoder.event("message", chunk[6:].decode())
    message = decoder.message()
    assert message.parts == (ReasoningPart(text="hm"), TextPart(text="a"))
    server = {"reasoning_field": "thoughts"}
    assert encoded("openai", user("x"), message, user("y"), server=server)["messages"][1]["thoughts"] == "hm"
    off = encoded("openai", user("x"), message, user("y"), server=server, thinking="off")["messages"]
    unnamed = encoded("openai", user("x"), message, user("y"))["messages"]
    assert off[1] == unnamed[1] == {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(("thinking", "effort"), [(None, None), ("off", "none"), ("medium", "medium"), ("max", "high")])
def test_effort_is_asked_for_where_it_is_set(thinking, effort):
    assert encoded("openai", user("x"), thinking=thinking).get("reasoning_effort") == effort


@pytest.mark.parametrize(
    ("url", "name", "field"),
    [
        ("https://api.openai.com/v1", "gpt-5", "prompt_cache_key"),
        ("https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5", "cache_control"),
        ("https://openrouter.ai/api/v1", "qwen/qwen3", None),
        ("https://api.openai.com.example/v1", "gpt-5", None),
        (URL, "anthropic/claude", None),
    ],
)
def test_what_helps_caching_is_sent_only_where_it_is_known(url, name, field):
    body = encoded("openai", user("x"), url=url, name=name, terms=HeadTerms(session="s-1"))
    assert {"prompt_cache_key", "cache_control"} & set(body) == ({field} if field else set())


@pytest.mark.parametrize(
    ("words", "left_out", "kept"),
    [
        ("Unsupported value: 'temperature' does not support 0.2 with this model.", "temperature", "max_tokens"),
        ("'max_tokens' is not supported. Use 'max_completion_tokens' instead.", "max_tokens", "temperature"),
        ("Extra inputs are not permitted: reasoning_effort", "reasoning_effort", "stream_options"),
        ("Unrecognized request argument: stream_options", "stream_options", "reasoning_effort"),
    ],
)
async def test_what_a_model_refuses_is_left_out_for_that_model_from_then_on(words, left_out, kept):
    asker = client()
    with ScriptedModel([status(400, {"error": {"message": words}}), "a", "b", "c"], strict=False) as model:
        for name, text in (("one", "a"), ("one", "b"), ("two", "c")):
            wish = request(model.url, name=name, max_tokens=9, thinking="low")
            assert (await message_of(asker, wish)).text == text
        await asker.close()
    assert [left_out in one.body for one in model.requests] == [True, False, False, True]
    assert all(kept in one.body for one in model.requests)
    assert ("max_completion_tokens" in model.requests[2].body) == (left_out == "max_tokens")


async def test_a_refusal_that_names_an_option_again_and_again_ends():
    refusal = status(400, {"error": {"message": "stream_options reasoning_effort"}})
    asker = client()
    with ScriptedModel(lambda _: refusal) as model:
        error, _ = await failure_of(asker, request(model.url, thinking="low"))
        await asker.close()
    assert (error.status, len(model.requests)) == (400, 2)


OVERFLOWS = [
    ("openai", 400, "This model's maximum context length is 128000 tokens. Reduce the length of the messages."),
    ("openai", 400, "the request exceeds the available context size, try increasing it"),
    ("openai", 400, "Input tokens exceed the configured limit of 272000 tokens"),
    ("mistral", 400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    ("mistral", 422, "The prompt is too long: 140000 tokens"),
    ("ollama", 400, "the input length exceeds the context length"),
    ("openai", 500, "context length exceeded: 9000 tokens"),
    ("mistral", 500, "Prompt is too long: 140000 tokens"),
    ("ollama", 500, "input length exceeds maximum context length"),
]


@pytest.mark.parametrize(("dialect", "code", "words"), OVERFLOWS)
async def test_a_conversation_that_is_too_long_is_told_as_that(dialect, code, words):
    body = {"error": words} if dialect == "ollama" else {"error": {"message": words}}
    asker = client()
    with ScriptedModel([status(code, body)] * 3) as model:
        error, items = await failure_of(asker, request(model.url, server={"dialect": dialect}))
        await asker.close()
    assert (error.kind, items, len(model.requests)) == ("overflow", [], 1)
    assert "%vibe reset" in str(error)


def usage_of(counts: dict[str, Any], dialect: str = "openai") -> Usage:
    """The counts of an answer as a server of a kind reports them."""
    if dialect == "ollama":
        body = json.dumps({"message": {"content": "a"}, "done": True, **counts}).encode() + b"\n"
        _, message, _ = read([body], "application/x-ndjson", dialect=dialect)
    else:
        chunk = {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "usage": counts}
        _, message, _ = read([b"data: " + json.dumps(chunk).encode() + b"\n\n"], dialect=dialect)
    assert isinstance(message, AssistantMessage)
    assert message.usage
    return message.usage


def counts(
    prompt: int, completion: int, cached: int = 0, reasoning: int = 0, total: int | None = None
) -> dict[str, Any]:
    """Counts as Chat Completions report them."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion if total is None else total,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


CONVERSATIONS = [
    # Three turns, nothing cached: (1,200 + 1,500 + 1,900) x 0.40 + (80 + 120 + 300) x 2.00 = 1,840 + 1,000.
    pytest.param("mistral", (0.4, 2.0, None), [counts(1200, 80), counts(1500, 120), counts(1900, 300)], 0.00284),
    # OpenAI, cached input at a tenth, reasoning within the completion:
    # 2,000 x 1.25 + (500 x 1.25 + 1,500 x 0.125) + (900 + 640) x 10 = 2,500 + 812.5 + 15,400.
    pytest.param("openai", (1.25, 10.0, 0.125), [counts(2000, 900, 0, 832), counts(2000, 640, 1500, 512)], 0.0187125),
    # Reasoning counted apart (total = 1,000 + 50 + 450): 1,000 x 3 + (50 + 450) x 15 = 3,000 + 7,500.
    pytest.param("openai", (3.0, 15.0, None), [counts(1000, 50, 0, 450, 1500)], 0.0105),
    # DeepSeek's own field: 1,000 x 0.27 + 3,000 x 0.07 + 200 x 1.10 = 270 + 210 + 220.
    pytest.param(
        "openai",
        (0.27, 1.1, 0.07),
        [{"prompt_tokens": 4000, "completion_tokens": 200, "prompt_cache_hit_tokens": 3000}],
        0.0007,
    ),
    # Ollama Cloud with prices; a turn whose prompt was not counted: 800 x 0.1 + (60 + 40) x 0.4 = 80 + 40.
    pytest.param(
        "ollama", (0.1, 0.4, None), [{"prompt_eval_count": 800, "eval_count": 60}, {"eval_count": 40}], 0.00012
    ),
]


@pytest.mark.requirement("agent.usage.cost")
@pytest.mark.parametrize(("dialect", "prices", "turns", "dollars"), CONVERSATIONS)
def test_a_recorded_conversation_costs_what_is_reckoned_by_hand(dialect, prices, turns, dollars):
    paid, written, cached = prices
    model = Model(Server("t", URL), "m", "m", input_price=paid, output_price=written, cached_input_price=cached)
    used = sum((usage_of(turn, dialect) for turn in turns), Usage())
    cost = model.cost(used)
    assert cost is not None
    assert math.isclose(cost, dollars, rel_tol=1e-9)


def test_without_prices_there_is_no_cost_and_more_cached_than_read_is_not_paid_back():
    assert Model(Server("t", URL), "m", "m", input_price=1.0).cost(Usage(prompt_tokens=1)) is None
    odd = Usage(prompt_tokens=10, cached_tokens=30)
    model = Model(Server("t", URL), "m", "m", input_price=1.0, output_price=1.0, cached_input_price=0.5)
    assert model.cost(odd) == 5e-6


async def test_cached_tokens_are_counted_in_a_real_answer():
    asker = client()
    with ScriptedModel([answer("a", usage=Tokens(100, 5, cached=60))], dialect="mistral") as model:
        message = await message_of(asker, request(model.url, server={"dialect": "mistral"}))
        await asker.close()
    assert message.usage == Usage(prompt_tokens=100, completion_tokens=5, cached_tokens=60)
