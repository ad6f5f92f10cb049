"""The clients that `decode.py` compares. Each returns its seconds of CPU and whether the answer came through whole.

Imports are inside, since each is measured in a process of its own.
"""
# ruff: noqa: PLC0415
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

import json
import time
from collections.abc import Callable
from typing import Any, cast

from benchmarks.decode_streams import MAX_CALLS, number_of_calls, text_of

Object = dict[str, Any]
Measured = tuple[float, bool]

KEYS = {f"{begin}-planted-{begin}0123": f"{begin.upper()}_KEY" for begin in ("sk", "gh", "xo", "hf")}
"""Values that the redactor knows, as an environment has them."""
HELLO = [{"role": "user", "content": "hi"}]


class Fold:
    """What a client has read so far, in the cheapest way."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.arguments: dict[int, list[str]] = {}

    def chunk(self, chunk: Object) -> None:
        """A chunk of Chat Completions."""
        delta = chunk["choices"][0]["delta"]
        if content := delta.get("content"):
            self.text.append(content)
        for call in delta.get("tool_calls", ()):
            self.arguments.setdefault(call["index"], []).append(call["function"]["arguments"])

    def line(self, line: Object) -> None:
        """A line of Ollama."""
        message = line["message"]
        if content := message["content"]:
            self.text.append(content)
        for call in message.get("tool_calls", ()):
            self.arguments[len(self.arguments)] = [json.dumps(call["function"]["arguments"])]

    def is_whole(self, name: str) -> bool:
        """Whether it is what was sent."""
        return whole(name, "".join(self.text), ["".join(pieces) for pieces in self.arguments.values()])


def whole(name: str, text: str, arguments: list[str]) -> bool:
    """Whether an answer is what was sent."""
    mode, _, count = name.partition("-")
    if mode == "tools":
        return len(arguments) == number_of_calls(int(count)) and all(json.loads(one) for one in arguments)
    if mode == "linetools":
        return len(arguments) == MAX_CALLS and all(json.loads(one) for one in arguments)
    return text == text_of(mode, int(count))


async def floor(name: str, url: str) -> Measured:
    """httpx, `json`, a fold: what nobody who uses httpx can do without."""
    import httpx

    fold = Fold()
    lines = name.startswith("line")
    asked = {"model": name, "messages": HELLO, "stream": True}
    address = url.removesuffix("/v1") + "/api/chat" if lines else url + "/chat/completions"
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.get(url + "/models")
        began = time.process_time()
        async with client.stream("POST", address, json=asked) as response:
            rest = b""
            async for chunk in response.aiter_bytes():
                *found, rest = (rest + chunk).split(b"\n")
                for line in found:
                    if lines:
                        fold.line(cast("Object", json.loads(line)))
                    elif line.startswith(b"data:") and not line.endswith(b"[DONE]"):
                        fold.chunk(cast("Object", json.loads(line[5:])))
        return time.process_time() - began, fold.is_whole(name)


async def ours(name: str, url: str) -> Measured:
    """From the request to the validated message, with each delta seen."""
    return await streamed(name, url, lambda item: None)


async def redacted(name: str, url: str) -> Measured:
    """The same, with the text redacted as a run does on its way to the view."""
    from vibe_jupyter.agent.model_call import AnswerText
    from vibe_jupyter.permissions.redaction import Redactor
    from vibe_jupyter.protocol import TextDelta

    shown: list[str] = []
    answer = AnswerText(Redactor(KEYS), shown.append)

    def see(item: object) -> None:
        if isinstance(item, TextDelta):
            answer.add(item.text)
        else:
            answer.end()

    cost, right = await streamed(name, url, see)
    mode, _, count = name.partition("-")
    return cost, right and "".join(shown) == ("" if mode == "tools" else text_of(mode, int(count)))


async def streamed(name: str, url: str, see: Callable[[object], None]) -> Measured:
    """Our client, with each delta handed on."""
    from vibe_jupyter.llm.client import LLMClient
    from vibe_jupyter.llm.request import AnswerLimits, Model, ModelReply, ModelRequestTerms, Server
    from vibe_jupyter.protocol import TextPart, UserMessage

    client = LLMClient(user_agent="vibe-jupyter/benchmark", limits=AnswerLimits(calls=MAX_CALLS))
    server = Server("bench", url, dialect="ollama" if name.startswith("line") else "openai")
    hello = (UserMessage(parts=(TextPart(text="hi"),)),)
    # The first call in a process builds its schema, once.
    warm = f"{name.partition('-')[0]}-200"
    async for _ in client.answer(ModelRequestTerms(Model(server, warm, "warm"), hello)):
        pass
    last: object = None
    began = time.process_time()
    async for item in client.answer(ModelRequestTerms(Model(server, name, name), hello)):
        last = item
        see(item)
    spent = time.process_time() - began
    await client.close()
    assert isinstance(last, ModelReply)
    message = last.message
    return spent, whole(name, message.text, [call.arguments for call in message.calls])


async def openai(name: str, url: str) -> Measured:
    """OpenAI's SDK, iterated and folded by hand, as its users do."""
    from openai import AsyncOpenAI

    fold = Fold()
    async with AsyncOpenAI(api_key="x", base_url=url) as client:
        await client.models.list()
        began = time.process_time()
        stream = await client.chat.completions.create(model=name, messages=HELLO, stream=True)
        async for chunk in stream:
            delta = chunk.choices[0].delta
            if delta.content:
                fold.text.append(delta.content)
            for call in delta.tool_calls or ():
                fold.arguments.setdefault(call.index, []).append(call.function.arguments)
        return time.process_time() - began, fold.is_whole(name)


async def mistralai(name: str, url: str) -> Measured:
    """Mistral's SDK, the same way."""
    from mistralai.client import Mistral

    fold = Fold()
    async with Mistral(api_key="x", server_url=url.removesuffix("/v1")) as client:
        began = time.process_time()
        stream = await client.chat.stream_async(model=name, messages=HELLO)
        async for event in stream:
            delta = event.data.choices[0].delta
            if delta.content:
                fold.text.append(delta.content)
            for call in delta.tool_calls or ():
                fold.arguments.setdefault(call.index, []).append(call.function.arguments)
        return time.process_time() - began, fold.is_whole(name)


async def ollama(name: str, url: str) -> Measured:
    """Ollama's client, the same way."""
    from ollama import AsyncClient

    fold = Fold()
    client = AsyncClient(host=url.removesuffix("/v1"), trust_env=False)
    began = time.process_time()
    async for part in await client.chat(model=name, messages=HELLO, stream=True):
        if part.message.content:
            fold.text.append(part.message.content)
        for call in part.message.tool_calls or ():
            fold.arguments[len(fold.arguments)] = [json.dumps(call.function.arguments)]
    return time.process_time() - began, fold.is_whole(name)


CLIENTS = {
    "floor": floor,
    "ours": ours,
    "redacted": redacted,
    "openai": openai,
    "mistralai": mistralai,
    "ollama": ollama,
}
