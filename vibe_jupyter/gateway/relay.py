"""The loop's client for one HTTP request: it asks with what came from outside, and passes on what comes back."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError
from vibe_jupyter.gateway.chat_request import ChatRequest, Object
from vibe_jupyter.gateway.forwarding import Forwarder, OpenAnswer
from vibe_jupyter.gateway.refusals import Refusal, error_body, error_object, passed_headers, unreachable_status
from vibe_jupyter.gateway.rounds import DONE, ContinuedBody, ContinuedStream, Rounds
from vibe_jupyter.gateway.wire import AnswerWire
from vibe_jupyter.gateway.writer import AnswerWriter
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.client import Item, LLMClient, arrange_messages
from vibe_jupyter.llm.dialects.openai import OpenAIDialect
from vibe_jupyter.llm.event_streams import EventTooLong, ServerEvent, SSEDecoder
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.growing_answer import is_stream
from vibe_jupyter.llm.request import AnswerLimits, Model, ModelRequestTerms
from vibe_jupyter.protocol import AssistantMessage, Message, ToolSpec
from vibe_jupyter.version import __version__

AGENT: Final = f"vibe-jupyter-gateway/{__version__}"
_ERROR_BODY: Final = 1024 * 1024
"""Bytes of an error of the model server that are passed on as they are."""
_DIALECT: Final = OpenAIDialect()
_SPELLING: Final = frozenset({"max_tokens", "stream_options"})
"""Fields of translated requests that the gateway chose, and that not every model takes."""


class Outlet(Protocol):
    """Where the answer goes while it comes in."""

    async def reached(self, turn: int) -> None:
        """Wait until all that was said before a turn has gone out."""
        ...

    async def begin(self, headers: Mapping[str, str]) -> None:
        """The model server has begun a stream."""
        ...

    async def chunks(self, events: Sequence[ServerEvent]) -> None:
        """The next chunks for the client; returns when it can take more."""
        ...


class SpelledTools:
    """Our tools as Chat Completions have them; spelled again only where they changed."""

    def __init__(self) -> None:
        self._specs: tuple[ToolSpec, ...] = ()
        self._spelled: list[JsonValue] = []

    def of(self, specs: Sequence[ToolSpec]) -> list[JsonValue]:
        """The value of ``tools``."""
        wanted = tuple(specs)
        if wanted != self._specs:
            made = json_text.parse_json(_DIALECT.encode_tools(wanted).decode()) if wanted else []
            self._specs, self._spelled = wanted, cast("list[JsonValue]", made)
        return self._spelled


class RefusedFields:
    """What models have refused of the gateway's own spelling."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], frozenset[str]] = {}

    def of(self, model: Model) -> frozenset[str]:
        """By a model."""
        return self._refused.get((model.server.api_base, model.name), frozenset())

    def note(self, model: Model, status: int, body: bytes) -> bool:
        """Take a refusal; whether another spelling is worth another attempt."""
        known = self.of(model)
        refused = _DIALECT.refused_fields(status, body.decode("utf-8", "replace")) & _SPELLING
        self._refused[model.server.api_base, model.name] = known | refused
        return bool(refused - known)


@dataclass(frozen=True)
class RelayTerms:
    """What the requests of one exchange are made of."""

    request: ChatRequest
    model: Model
    messages: Sequence[JsonValue]
    """The client's, with what it cannot know between them."""
    tool_choice: JsonValue = None
    """None to leave it as it came."""
    max_rounds: int = 1
    offered: Callable[[Sequence[ToolSpec]], Sequence[ToolSpec]] = tuple
    """Which of our tools go along."""
    spelled: SpelledTools = field(default_factory=SpelledTools)
    refused: RefusedFields = field(default_factory=RefusedFields)
    """What all requests of a gateway share, both."""

    def body(self, specs: Sequence[ToolSpec], *, hidden: Sequence[JsonValue] = (), done: int = 0) -> bytes:
        """What is sent to the model server.

        Args:
            specs: our tools.
            hidden: the rounds so far.
            done: how many these are.
        """
        request = self.request
        changes: Object = {}
        if self.model.name:
            changes["model"] = self.model.name
        if hidden or self.messages is not request.body["messages"]:
            changes["messages"] = [*self.messages, *hidden]
        if specs:
            own = cast("list[JsonValue]", request.body.get("tools") or [])
            changes["tools"] = [*own, *self.spelled.of(specs)]
        if not done and self.tool_choice is not None:
            changes["tool_choice"] = self.tool_choice
        elif done and done + 1 >= self.max_rounds:
            changes["tool_choice"] = "none"
        elif done and request.fields.tool_choice not in (None, "auto"):
            changes["tool_choice"] = _unforced(request.fields.tool_choice)
        refused = self.refused.of(self.model) if request.is_translated else frozenset[str]()
        if "max_tokens" in refused and "max_tokens" in request.body:
            changes["max_completion_tokens"] = request.body["max_tokens"]
        return request.upstream(changes, without=refused)


def _unforced(choice: JsonValue) -> JsonValue:
    """A choice once it was followed: what was forced was done, and forced again it would never end."""
    allowed = choice.get("allowed_tools") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(allowed, dict):
        return "auto"
    return {**choice, "allowed_tools": {**allowed, "mode": "auto"}}


class RelayingClient(LLMClient):
    """Asks once a turn: the client's own body, our tools beside its own, and the rounds so far behind its messages."""

    def __init__(self, terms: RelayTerms, forwarder: Forwarder, rounds: Rounds, outlet: Outlet) -> None:
        super().__init__(user_agent=AGENT)
        self.refusal: Refusal | None = None
        """What the model server said instead of an answer."""
        self.failure: ModelError | None = None
        """Why there is none, or no whole one."""
        limits = AnswerLimits()
        field = terms.model.server.reasoning_field
        self.stream = ContinuedStream(rounds, limits, reasoning_field=field)
        self.body = ContinuedBody(rounds, limits, reasoning_field=field)
        self.hidden: list[JsonValue] = []
        """Messages that the client does not see: answers with calls of ours, and the results."""
        self._terms = terms
        self._forwarder = forwarder
        self._rounds = rounds
        self._outlet = outlet
        self._limits = limits
        self._kept = 0
        """Rounds that are hidden already."""
        self._ahead: asyncio.Task[OpenAnswer] | None = None
        """The first request, until its answer is read."""

    def ask_ahead(self, specs: Sequence[ToolSpec]) -> None:
        """Send the first request while the run begins; what comes back waits for `answer`, or for `leave`.

        Args:
            specs: the tools that the run will ask with.
        """
        self._ahead = asyncio.create_task(self._send(specs))

    async def leave(self) -> None:
        """End what was asked ahead, where the run did not come to ask."""
        if (ahead := self._ahead) is None:
            return
        ahead.cancel()
        await asyncio.wait([ahead])
        if not ahead.cancelled() and ahead.exception() is None:
            ahead.result().close()

    async def answer(self, request: ModelRequestTerms) -> AsyncGenerator[Item, None]:
        """One round; its message has the calls that are ours.

        Raises:
            ModelError: the model server refused, or broke off; `refusal` has its words.
        """
        try:
            message = await self._ask(request)
        except ModelError as failure:
            self.failure = failure
            raise
        yield message

    def note_results(self, messages: Sequence[Message]) -> None:
        """Keep the latest round with the results of our calls, unless it is kept."""
        rounds = self._rounds.all
        if len(rounds) == self._kept:
            return
        self._kept = len(rounds)
        self.hidden.append(rounds[-1].raw)
        latest = max(place for place, one in enumerate(messages) if isinstance(one, AssistantMessage))
        model = self._terms.model
        for _, one in arrange_messages(messages[latest + 1 :], sees_images=model.sees_images, alternates=False):
            self.hidden.append(json_text.parse_json(_DIALECT.encode_message(one, model).decode()))

    async def _ask(self, request: ModelRequestTerms) -> AssistantMessage:
        self.note_results(request.messages)
        await self._outlet.reached(len(self._rounds.all) + 1)
        answer = await self._next_answer(request.tools)
        try:
            kind = answer.headers.get("content-type", "")
            if answer.status >= 300:
                body = await answer.whole(self._limits.error_body)
                terms = self._terms
                if terms.request.is_translated and terms.refused.note(terms.model, answer.status, body):
                    return await self._ask(request)
                self.refusal = Refusal(answer.status, answer.headers, body)
                raise ModelError(f"The model server answered {answer.status}.", kind="http", status=answer.status)
            if is_stream(kind):
                await self._outlet.begin(answer.headers)
                message = await self._read_stream(answer)
            elif self._terms.request.body.get("stream"):
                message = await self._stream_whole(answer)
            else:
                self._rounds.timing.began()
                message = self.body.take(await answer.whole(self._limits.message)).message
        except BrokenAnswer as broken:
            raise ModelError(f"The model server failed: {broken.detail or broken.kind}", kind="provider") from None
        finally:
            answer.close()
        return message

    async def _next_answer(self, specs: Sequence[ToolSpec]) -> OpenAnswer:
        """That of what was asked ahead, or is asked now."""
        if self._ahead is None:
            return await self._send(specs)
        await asyncio.wait([self._ahead])
        ahead, self._ahead = self._ahead, None
        return ahead.result()

    async def _send(self, specs: Sequence[ToolSpec]) -> OpenAnswer:
        terms, done = self._terms, len(self._rounds.all)
        self._rounds.timing.asked()
        return await self._forwarder.post(terms.model, terms.body(terms.offered(specs), hidden=self.hidden, done=done))

    async def _read_stream(self, answer: OpenAnswer) -> AssistantMessage:
        frames = SSEDecoder(max_event=self._limits.event)
        is_over = False
        while piece := await answer.read():
            if is_over := await self._pass_on(frames, piece):
                self._forwarder.let_end(answer)
                break
        if not (is_over or self.stream.finished):  # some servers give no finish reason
            raise ModelError("The model server's answer broke off.", kind="connection")
        return await self._end_stream()

    async def _stream_whole(self, answer: OpenAnswer) -> AssistantMessage:
        """Some servers answer whole although a stream was asked for, as where tools are offered."""
        said = self.stream.feed_whole(await answer.whole(self._limits.message))
        await self._outlet.begin(answer.headers)
        if said is not None:
            await self._outlet.chunks([said])
        return await self._end_stream()

    async def _end_stream(self) -> AssistantMessage:
        one, events = self.stream.end()
        if events:
            await self._outlet.chunks(events)
        return one.message

    async def _pass_on(self, frames: SSEDecoder, piece: bytes) -> bool:
        """Take a read; whether the answer is over."""
        passed: list[ServerEvent] = []
        over = False
        try:
            for event in frames.feed(piece):
                if event.name == "message" and event.data.strip() == DONE:
                    over = True
                    break
                if (shown := self.stream.feed(event)) is not None:
                    passed.append(shown)
        except EventTooLong:
            raise ModelError("The model server sent an event that is too long.", kind="limit") from None
        finally:
            if passed:
                await self._outlet.chunks(passed)
        return over


async def pass_through(forwarder: Forwarder, model: Model, body: bytes, writer: AnswerWriter, wire: AnswerWire) -> None:
    """An answer in which no call could be ours: a body goes to the model server, its answer to the client."""
    try:
        answer = await forwarder.post(model, body)
    except ModelError as failure:
        status = unreachable_status(failure)
        await wire.answer(status, error_body(status, str(failure)))
        return
    try:
        await _pass_answer(answer, wire)
    except ModelError as failure:
        if wire.streams:
            await wire.write(writer.fail(error_object(502, str(failure))), more=False)
        # A body that broke off is left without its end: the client sees that the connection breaks.
    finally:
        answer.close()


async def _pass_answer(answer: OpenAnswer, wire: AnswerWire) -> None:
    headers = passed_headers(answer.headers)
    if answer.status >= 300:
        await wire.answer(answer.status, await answer.whole(_ERROR_BODY), headers)
        return
    await wire.begin(answer.status, headers, stream=is_stream(answer.headers.get("content-type", "")))
    while piece := await answer.read():
        await wire.write(piece)
    await wire.write(b"", more=False)
