"""Streams as servers send them, cut everywhere: the corpus, and mutations of it."""

import json
import random

import pytest

from tests.llm.stream_fuzz import fuzz, mutated
from tests.llm.support import agrees, ask, client, corpus, cut, failure_of, outcome, read, reads, request, shown
from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.request import ModelReply
from vibe_jupyter.protocol import AssistantMessage
from vibe_jupyter.testing import ScriptedModel
from vibe_jupyter.testing.wire import Raw

CASES = [pytest.param(case, id=case["id"]) for case in corpus()]
MAX_RECUT = 200_000
"""Bytes; longer streams are tested in the given cuts only (corpora, rule 1)."""
RANDOM_CUTS = 20
FUZZED = 2_000
"""In each dialect; `stream_fuzz.py` reads as many as you like."""
FUZZED_OVER_HTTP = 60


@pytest.mark.parametrize("case", CASES)
@pytest.mark.requirement("openai.backend.generic", "wire.errors.type-safe")
async def test_a_stream_of_the_corpus_gives_its_outcome_over_http(case):
    body = Raw(tuple(reads(case)), case["http"]["content_type"], case["end"], status=case["http"]["status"])
    asker = client()
    with ScriptedModel(lambda _: body) as model:
        wish = request(model.url)
        try:
            items = await ask(asker, wish)
            reply = items[-1]
            assert isinstance(reply, ModelReply)
            result, partial = reply.message, ""
        except ModelError as error:
            result, partial = error, error.partial_text
        await asker.close()
    assert agrees(outcome(result, partial), case), outcome(result, partial)
    if isinstance(result, ModelError) and not case["expect"]["ok"]:
        assert case["expect"]["message"] in str(result)


@pytest.mark.parametrize("case", [case for case in CASES if case.values[0]["http"]["status"] == 200])
@pytest.mark.requirement("stream.sse.line-ends", "stream.sse.utf8", "stream.sse.multi-data", "stream.sse.data-lines")
def test_a_stream_of_the_corpus_gives_the_same_wherever_it_is_cut(case):
    chunks = reads(case)
    data = b"".join(chunks)
    rng = random.Random(case["id"])
    ways = [chunks]
    if len(data) <= MAX_RECUT:
        ways += [[data[i : i + 1] for i in range(len(data))], *(cut(data, rng) for _ in range(RANDOM_CUTS))]
    for way in ways:
        deltas, result, partial = read(way, case["http"]["content_type"])
        assert agrees(outcome(result, partial), case), outcome(result, partial)
        assert shown(deltas)[0].rstrip("\ufffd") == partial.rstrip("\ufffd")
        if isinstance(result, AssistantMessage):
            result.model_dump_json().encode("utf-8")


@pytest.mark.parametrize("dialect", ["openai", "mistral", "ollama", "mistralrs"])
def test_a_broken_stream_raises_nothing_but_a_model_error(dialect):
    kinds = set(fuzz(dialect, FUZZED, random.Random(20)))
    assert {"truncated", "answer", "provider" if dialect == "mistralrs" else "bad_json"} <= kinds


async def test_a_broken_stream_raises_nothing_but_a_model_error_over_http():
    rng = random.Random(21)
    seeds = [data for data in (b"".join(reads(case)) for case in corpus()) if len(data) <= 3_000]
    ended = 0
    asker = client()
    with ScriptedModel(lambda _: Raw(tuple(cut(mutated(rng.choice(seeds), rng), rng)))) as model:
        for _ in range(FUZZED_OVER_HTTP):
            try:
                await ask(asker, request(model.url))
            except ModelError as error:
                str(error).encode("utf-8")
            ended += 1
        await asker.close()
    assert ended == FUZZED_OVER_HTTP


async def test_values_of_any_shape_are_read_without_a_crash():
    rng = random.Random(22)
    names = ["choices", "delta", "message", "content", "tool_calls", "function", "arguments", "name", "id", "index"]
    names += [
        "usage",
        "prompt_tokens",
        "prompt_tokens_details",
        "error",
        "object",
        "model",
        "finish_reason",
        "thinking",
    ]

    def value(depth: int) -> object:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice([None, True, 0, -1, 1.5, 10**30, "", "null", "x", "\ud83d", "[DONE]", [], {}])
        if rng.random() < 0.4:
            return [value(depth - 1) for _ in range(rng.randrange(3))]
        return {rng.choice(names): value(depth - 1) for _ in range(rng.randrange(4))}

    def chunk() -> dict[str, object]:
        choice = {"delta": {rng.choice(names): value(3) for _ in range(3)}, "finish_reason": value(0)}
        return {"choices": [choice], "usage": value(2), "model": value(0)}

    for _ in range(FUZZED):
        body = chunk() if rng.random() < 0.5 else value(5)
        text = json.dumps(body)
        for _, result, partial in (
            read([f"data: {text}\n\ndata: [DONE]\n\n".encode()]),
            read([text.encode()], "application/json"),
        ):
            partial.encode("utf-8")
            assert isinstance(result, BrokenAnswer) or result.model_dump_json().encode("utf-8")


async def test_nothing_of_a_cut_stream_is_a_message_whatever_byte_it_is_cut_at():
    chunk = 'data: {"choices":[{"delta":%s,"finish_reason":%s}]}\n\n'
    call = '{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}'
    body = (chunk % ('{"content":"é!"}', "null") + chunk % (call, "null") + chunk % ("{}", '"stop"')).encode()
    complete = len(body) - len("\n\n")  # some servers leave out the last line ends; the JSON says that it is whole
    for end in range(complete):
        deltas, result, partial = read([body[:end]])
        assert isinstance(result, BrokenAnswer)
        assert result.kind == "truncated"
        assert shown(deltas)[0] == partial
    assert all(isinstance(read([body[:end]])[1], AssistantMessage) for end in range(complete, len(body) + 1))


@pytest.mark.requirement("stream.sse.not-json")
async def test_a_failing_stream_keeps_the_text_that_was_shown():
    first = b'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n'
    asker = client()
    with ScriptedModel([Raw((first + b"data: {broken\n\n",))]) as model:
        error, items = await failure_of(asker, request(model.url))
        await asker.close()
    assert (error.kind, error.partial_text, shown(items)[0]) == ("bad_json", "Hel", "Hel")
    assert "{broken" in str(error)
