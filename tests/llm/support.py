"""Short ways to ask a scripted model, and to read bytes without a network."""

import base64
import json
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.client import Item, LLMClient, RetryPolicy
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.growing_answer import reader_for
from vibe_jupyter.llm.request import AnswerLimits, Model, ModelReply, ModelRequestTerms, RetryScheduled, Server
from vibe_jupyter.protocol import (
    AssistantMessage,
    Delta,
    Message,
    ReasoningDelta,
    ReasoningPart,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolSpec,
    UserMessage,
)
from vibe_jupyter.testing import ScriptedModel

CORPUS = Path(__file__).parents[1] / "corpora" / "sse_streams.jsonl"
SPEC = ToolSpec(
    name="run_code",
    description="Run code.",
    parameters={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
)
KINDS = {"provider_error": "provider", "http_error": "http"}
"""Error names of the corpus that are others with us."""


MODEL = Model(Server("test", "http://127.0.0.1:1/v1"), "scripted", "alias")


class Waits:
    """Takes the place of waiting between attempts: remembers how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def client(
    *,
    waits: Callable[[float], Awaitable[None]] | None = None,
    limits: AnswerLimits | None = None,
    affinity: str = "session-1",
) -> LLMClient:
    """A client that waits for nothing."""
    return LLMClient(
        user_agent="vibe-jupyter/test",
        affinity=affinity,
        retry=RetryPolicy(jitter=lambda: 0.0),
        limits=limits,
        sleep=waits or Waits(),
    )


def user(text: str) -> UserMessage:
    """What a user wrote."""
    return UserMessage(parts=(TextPart(text=text),))


def request(
    url: str,
    *messages: Message,
    tools: Iterable[ToolSpec] = (SPEC,),
    stream: bool = True,
    key: str | None = None,
    choice: str = "auto",
    server: Mapping[str, Any] | None = None,
    **model: Any,
) -> ModelRequestTerms:
    """A request to an address; without messages, a user says hello. `server` are more fields of the server."""
    asked = Server("test", url, key, **(server or {}))
    said = messages or (SystemMessage(text="You help."), user("hello"))
    name = model.pop("name", "scripted")
    return ModelRequestTerms(Model(asked, name, "alias", **model), said, tuple(tools), stream, choice)


async def ask(asker: LLMClient, wish: ModelRequestTerms) -> list[Item]:
    """All items of an answer."""
    return [item async for item in asker.answer(wish)]


async def message_of(asker: LLMClient, wish: ModelRequestTerms) -> AssistantMessage:
    """The message of an answer, which is its last item and the only one."""
    items = await ask(asker, wish)
    replies = [item for item in items if isinstance(item, ModelReply)]
    assert replies == items[-1:]
    return replies[0].message


async def failure_of(asker: LLMClient, wish: ModelRequestTerms) -> tuple[ModelError, list[Item]]:
    """How an answer failed, and what came before."""
    items: list[Item] = []
    try:
        async for item in asker.answer(wish):
            items.append(item)
    except ModelError as error:
        return error, items
    raise AssertionError(f"no failure: {items}")


async def refusal_of(model: ScriptedModel, **rest: Any) -> ModelError:
    """How one answer of a scripted model failed."""
    asker = client()
    error, _ = await failure_of(asker, request(model.url, **rest))
    await asker.close()
    return error


def corpus() -> list[dict[str, Any]]:
    """The cases of the SSE corpus."""
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def reads(case: dict[str, Any]) -> list[bytes]:
    """The transport reads of a case, as given."""
    chunks: list[bytes] = []
    for entry in case["chunks"]:
        if isinstance(entry, str):
            chunks.append(base64.b64decode(entry))
        else:
            chunks.extend([base64.b64decode(entry["b64"])] * entry["repeat"])
    return chunks


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """The bytes, cut at random places."""
    places = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(1, 40)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def read(
    chunks: Iterable[bytes],
    content_type: str = "text/event-stream",
    limits: AnswerLimits | None = None,
    *,
    dialect: str = "openai",
) -> tuple[list[Delta], AssistantMessage | BrokenAnswer, str]:
    """What the bytes of a body give: deltas, the message or what is wrong, and the text so far."""
    bounds = limits or AnswerLimits()
    decoder = DIALECTS[dialect].decoder(MODEL, bounds)
    deltas: list[Delta] = []
    try:
        reader = reader_for(content_type, decoder, bounds, streamed=True)
        for chunk in chunks:
            if decoder.ended:
                break
            deltas.extend(reader.feed(chunk))
        deltas.extend(reader.end())
        return deltas, decoder.message(), decoder.text
    except BrokenAnswer as failure:
        return deltas, failure, decoder.text


def outcome(result: AssistantMessage | BrokenAnswer | ModelError, partial: str) -> dict[str, Any]:
    """A result in the words of the corpus."""
    if isinstance(result, AssistantMessage):
        reasoning = "".join(part.text for part in result.parts if isinstance(part, ReasoningPart))
        return {
            "ok": True,
            "content": result.text,
            "reasoning": reasoning,
            "tool_calls": [_call(call.id, call.name, call.arguments) for call in result.calls],
            "finish_reason": result.stop_reason,
            "usage": result.usage and [result.usage.prompt_tokens, result.usage.completion_tokens],
        }
    return {"ok": False, "error": result.kind, "content": partial}


def expected(wanted: dict[str, Any]) -> dict[str, Any]:
    """An expectation of the corpus in the same words."""
    if not wanted["ok"]:
        return {
            "ok": False,
            "error": KINDS.get(wanted["error"], wanted["error"]),
            "content": _text(wanted["partial"]["content"]),
        }
    usage = wanted["usage"]
    return {
        "ok": True,
        "content": _text(wanted["content"]),
        "reasoning": wanted["reasoning"],
        "tool_calls": wanted["tool_calls"],
        "finish_reason": wanted["finish_reason"],
        "usage": usage and [usage["prompt_tokens"], usage["completion_tokens"]],
    }


def agrees(got: dict[str, Any], case: dict[str, Any]) -> bool:
    """Whether an outcome is one that a case accepts."""
    return any(_same(got, expected(wanted)) for wanted in (case["expect"], *case["accept"]))


def shown(items: Iterable[object]) -> tuple[str, str]:
    """The text and the reasoning of some deltas."""
    text, reasoning = "", ""
    for item in items:
        text += item.text if isinstance(item, TextDelta) else ""
        reasoning += item.text if isinstance(item, ReasoningDelta) else ""
    return text, reasoning


def retries(items: Iterable[object]) -> list[RetryScheduled]:
    """The announced retries among some items."""
    return [item for item in items if isinstance(item, RetryScheduled)]


def _text(content: str | dict[str, Any]) -> str:
    return content if isinstance(content, str) else content["repeat"] * content["times"]


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    try:
        return {"id": call_id, "name": name, "arguments": json_text.parse_json_object(arguments)}
    except ValueError:
        return {"id": call_id, "name": name, "arguments_error": True}


def _same(got: dict[str, Any], wanted: dict[str, Any]) -> bool:
    if not (got["ok"] and wanted["ok"]):
        return got == wanted
    ids = [call["id"] for call in got["tool_calls"]]
    if not all(ids) or len(set(ids)) < len(ids) or len(ids) != len(wanted["tool_calls"]):
        return False
    pairs = zip(got["tool_calls"], wanted["tool_calls"], strict=True)
    calls = [call if right["id"] is not None else {**call, "id": None} for call, right in pairs]
    return {**got, "tool_calls": calls} == wanted
