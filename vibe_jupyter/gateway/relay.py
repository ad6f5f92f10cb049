"""The agent loop's LLM client for one HTTP request: sends the client's own body and relays the response."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, cast

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError
from vibe_jupyter.gateway.chat_fields import WITH_TOOLS
from vibe_jupyter.gateway.chat_request import ChatRequest, Object, tool_name
from vibe_jupyter.gateway.echoes import echoed, resolved
from vibe_jupyter.gateway.fitted_request import fit_request
from vibe_jupyter.gateway.forwarding import Forwarder, OpenAnswer
from vibe_jupyter.gateway.refusals import Refusal, error_body, error_object, passed_headers, unreachable_status
from vibe_jupyter.gateway.rounds import DONE, ContinuedBody, ContinuedStream, Rounds
from vibe_jupyter.gateway.wire import AnswerWire
from vibe_jupyter.gateway.writer import AnswerWriter
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.catalogue import known_echoes
from vibe_jupyter.llm.client import Item, LLMClient, arrange_messages
from vibe_jupyter.llm.dialects.openai import OpenAIDialect
from vibe_jupyter.llm.dialects.wire_parts import dump_json
from vibe_jupyter.llm.echoes import terms_after
from vibe_jupyter.llm.event_streams import EventTooLong, ServerEvent, SSEDecoder
from vibe_jupyter.llm.failures import BrokenAnswer, HttpRefusal, server_reason
from vibe_jupyter.llm.growing_answer import is_stream
from vibe_jupyter.llm.reply import judge_calls
from vibe_jupyter.llm.request import ECHO_ALL, AnswerLimits, DialectName, EchoTerms, Model, ModelRequestTerms
from vibe_jupyter.protocol import AssistantMessage, Message, ToolSpec
from vibe_jupyter.version import __version__

AGENT: Final = f"vibe-jupyter-gateway/{__version__}"
_ERROR_BODY: Final = 1024 * 1024  # bytes of a model server's error that are passed on
_DIALECT: Final = OpenAIDialect()
# Fields that translation adds and that not every model accepts
_SPELLING: Final = frozenset({"max_tokens", "stream_options"})
# Fields dropped for a retry if a model doesn't know them.
_OPTIONAL: Final = frozenset(
    {"logprobs", "parallel_tool_calls", "reasoning_effort", "seed", "top_logprobs", "user", "verbosity"}
)
_TEACHING: Final = frozenset({400, 422, 500})  # some servers report a failed chat template as 500
_UNKNOWN_FIELD: Final = lazy_pattern(
    r"unknown|unrecognized|unsupported|not support|not permitted|not allowed|extra (inputs|fields)|unexpected",
    re.IGNORECASE,
)
# Errors of Mistral's API, and of chat templates with the same rules, such as those of its models in vLLM.
_LIKE_MISTRAL: Final = lazy_pattern(
    r"roles? must alternate|unexpected role '?\w+'? after|with a length of 9", re.IGNORECASE
)
_EXTRA_FIELDS: Final = lazy_pattern(r"extra inputs are not permitted", re.IGNORECASE)
# Errors about a value, which may be rejected although the field is known.
_OF_VALUE: Final = lazy_pattern(r"unsupported value|supported values|invalid value|must be one of", re.IGNORECASE)
# Names of roles, one of which is also the name of a field.
_OF_ROLE: Final = lazy_pattern(r"roles? '?\w+'?|(?:system|user) messages?", re.IGNORECASE)
_WORD: Final = lazy_pattern(r"\w+")


class Outlet(Protocol):
    """Destination of an answer while it is received."""

    async def reached(self, turn: int) -> None:
        """Wait until the output of all earlier turns has been sent."""
        ...

    async def begin(self, headers: Mapping[str, str]) -> None:
        """Start the response, once the model server has started a stream."""
        ...

    async def chunks(self, events: Sequence[ServerEvent]) -> None:
        """Send chunks to the client. Returns when it can accept more."""
        ...


class SpelledTools:
    """Cached encoding of the gateway's tools for Chat Completions."""

    def __init__(self) -> None:
        self._specs: tuple[ToolSpec, ...] = ()
        self._spelled: list[JsonValue] = []

    def of(self, specs: Sequence[ToolSpec]) -> list[JsonValue]:
        """Return the value of ``tools``, encoding it only if the tools changed."""
        wanted = tuple(specs)
        if wanted != self._specs:
            made = json_text.parse_json(_DIALECT.encode_tools(wanted).decode()) if wanted else []
            self._specs, self._spelled = wanted, cast("list[JsonValue]", made)
        return self._spelled


class LearnedLimits(NamedTuple):
    """Restrictions of a model, learned from its error responses."""

    fields: frozenset[str] = frozenset()  # fields that it rejects
    # API whose rules for roles and IDs it follows, if not that of its configured dialect
    rules: DialectName | None = None
    table: DialectName | None = None  # API whose fields it accepts, if not that of its configured dialect


class RefusalMemory:
    """Restrictions of all models, learned from rejected requests."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str, str], LearnedLimits] = {}
        self._echoes: dict[str, EchoTerms] = {}

    def of(self, model: Model) -> LearnedLimits:
        """Return the restrictions of a model."""
        return self._limits.get((model.server.api_base, model.name), LearnedLimits())

    def echoes(self, model: Model) -> EchoTerms:
        """Return the vendor fields that a model rejects or requires in earlier answers."""
        return self._echoes.get(model.origin) or known_echoes(model)

    def keep_echoes(self, model: Model, echoes: EchoTerms) -> None:
        """Remember the vendor fields with which a model accepted a request."""
        self._echoes[model.origin] = echoes

    def note(self, model: Model, status: int, body: bytes, sent: LearnedLimits) -> bool:
        """Learn from an error response. Returns whether to retry the request.

        Args:
            model: the model that rejected the request.
            status: status of the response.
            body: body of the response.
            sent: restrictions applied to the request. Another request may have taught more since.
        """
        if status not in _TEACHING:
            return False
        known, text = self.of(model), body.decode("utf-8", "replace")
        reason = server_reason(text)
        refused = _DIALECT.refused_fields(status, text) & _SPELLING
        if _UNKNOWN_FIELD.search(reason) and not _OF_VALUE.search(reason):
            refused |= _OPTIONAL.intersection(_WORD.findall(_OF_ROLE.sub(" ", reason)))
        learned = LearnedLimits(
            known.fields | refused,
            "mistral" if _LIKE_MISTRAL.search(reason) else known.rules,
            "mistral" if _EXTRA_FIELDS.search(reason) else known.table,
        )
        self._limits[model.server.api_base, model.name] = learned
        return learned != sent


@dataclass(frozen=True)
class RelayTerms:
    """Inputs for the model requests of one exchange."""

    request: ChatRequest
    model: Model
    messages: Sequence[JsonValue]  # the client's, with hidden rounds inserted
    tool_choice: JsonValue = None  # None to leave it unchanged
    allowed: frozenset[str] | None = None  # names of the only tools to offer, or None for all
    max_rounds: int = 1
    offered: Callable[[Sequence[ToolSpec]], Sequence[ToolSpec]] = tuple  # selects the gateway's tools to offer
    spelled: SpelledTools = field(default_factory=SpelledTools)
    refused: RefusalMemory = field(default_factory=RefusalMemory)  # shared by all requests of a gateway, like `spelled`

    def body(
        self,
        specs: Sequence[ToolSpec],
        *,
        hidden: Sequence[JsonValue] = (),
        done: int = 0,
        echoes: EchoTerms = ECHO_ALL,
    ) -> bytes:
        """Return the request body for the model server.

        Args:
            specs: the gateway's tools.
            hidden: messages of the rounds so far.
            done: number of those rounds.
            echoes: vendor fields that the server rejects or requires.
        """
        request = self.request
        changes: Object = {}
        if self.model.name:
            changes["model"] = self.model.name
        if request.is_translated or hidden or self.messages is not request.body["messages"]:
            said = [*self.messages, *hidden]
            changes["messages"] = resolved(said, self.model, echoes, fills=request.is_translated)
        if specs or self.allowed is not None:
            changes["tools"] = [*self._own_tools(), *self.spelled.of(specs)]
        if not done and self.tool_choice is not None:
            changes["tool_choice"] = self.tool_choice
        elif done and done + 1 >= self.max_rounds:
            changes["tool_choice"] = "none"
        elif done and request.fields.tool_choice not in (None, "auto"):
            changes["tool_choice"] = "auto"  # the forced call was made; forcing it again would never end
        if changes.get("tools") == []:
            changes |= dict.fromkeys(("tools", *WITH_TOOLS))
        return self._fitted(changes) if request.is_translated else request.upstream(changes)

    def _own_tools(self) -> list[JsonValue]:
        """Return the client's tools to offer."""
        own = cast("list[Object]", self.request.body.get("tools") or [])
        return [one for one in own if self.allowed is None or tool_name(one) in self.allowed]

    def _fitted(self, changes: Object) -> bytes:
        request, limits, server = self.request, self.refused.of(self.model), self.model.server
        if "max_tokens" in limits.fields and "max_tokens" in request.body:
            changes["max_completion_tokens"] = request.body["max_tokens"]
        fields = server.dialect if limits.table is None else limits.table
        rules = limits.rules or fields
        return dump_json(
            fit_request({**request.body, **changes}, server, fields=fields, rules=rules, without=limits.fields)
        )


class RelayingClient(LLMClient):
    """LLM client that sends one request per turn.

    The request is the client's own body, with the gateway's tools added to its tools and the rounds so far appended to
    its messages.
    """

    def __init__(self, terms: RelayTerms, forwarder: Forwarder, rounds: Rounds, outlet: Outlet) -> None:
        super().__init__(user_agent=AGENT)
        self.refusal: Refusal | None = None  # error response of the model server
        self.failure: ModelError | None = None  # why there is no complete answer
        limits = AnswerLimits()
        self.stream = ContinuedStream(rounds, limits, terms.model)
        self.body = ContinuedBody(rounds, limits, terms.model)
        # Hidden from the client: answers with calls of the gateway's tools, and their results
        self.hidden: list[JsonValue] = []
        self._terms = terms
        self._forwarder = forwarder
        self._rounds = rounds
        self._outlet = outlet
        self._limits = limits
        self._echo_terms = terms.refused.echoes(terms.model)
        self._sent_limits = terms.refused.of(terms.model)
        self._tried: frozenset[str] = frozenset()  # vendor fields added or dropped so far because of errors
        self._kept = 0  # number of rounds already in `hidden`
        self._ahead: asyncio.Task[OpenAnswer] | None = None  # the first request, until its answer is read

    def ask_ahead(self, specs: Sequence[ToolSpec]) -> None:
        """Send the first request while the run starts. The response is used by `answer`, or closed by `leave`.

        Args:
            specs: tools that the run will offer in that request.
        """
        self._ahead = asyncio.create_task(self._send(specs))

    async def leave(self) -> None:
        """Cancel the request sent ahead if the run never used it."""
        if (ahead := self._ahead) is None:
            return
        ahead.cancel()
        await asyncio.wait([ahead])
        if not ahead.cancelled() and ahead.exception() is None:
            ahead.result().close()

    async def answer(self, request: ModelRequestTerms) -> AsyncGenerator[Item, None]:
        """Run one round. The message contains only the calls that are the gateway's.

        Raises:
            ModelError: the model server returned an error, stored in `refusal`, or the connection broke.
        """
        try:
            message = await self._ask(request)
        except ModelError as failure:
            self.failure = failure
            raise
        yield judge_calls(message, {spec.name: frozenset() for spec in request.tools})

    def note_results(self, messages: Sequence[Message]) -> None:
        """Append the latest round and the results of the gateway's calls to `hidden`, once."""
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
                if terms.request.is_translated and self._learn(answer.status, body):
                    return await self._ask(request)
                self.refusal = Refusal(answer.status, answer.headers, body)
                raise ModelError(self.refusal.reason, kind="http", status=answer.status)
            self._terms.refused.keep_echoes(self._terms.model, self._echo_terms)  # the model accepted them
            if is_stream(kind):
                await self._outlet.begin(answer.headers)
                message = await self._read_stream(answer)
            elif self._terms.request.body.get("stream"):
                message = await self._stream_whole(answer)
            else:
                self._rounds.timing.began()
                message = self.body.take(await answer.whole(self._limits.message)).message
        except BrokenAnswer as broken:
            raise ModelError(
                f"The model server failed: {broken.detail or broken.kind}", kind="provider", passing=False
            ) from None
        finally:
            answer.close()
        return message

    def _learn(self, status: int, body: bytes) -> bool:
        """Learn from an error response. Returns whether to retry the request."""
        terms = self._terms
        if terms.refused.note(terms.model, status, body, self._sent_limits):
            return True
        sent = echoed([*terms.messages, *self.hidden], terms.model, self._echo_terms)
        echoes = terms_after(HttpRefusal(status, body.decode("utf-8", "replace")), sent, self._echo_terms)
        changed = self._echo_terms.changed(echoes)
        if not changed or changed & self._tried:
            return False
        self._echo_terms, self._tried = echoes, self._tried | changed
        return True

    async def _next_answer(self, specs: Sequence[ToolSpec]) -> OpenAnswer:
        """Return the response of the request sent ahead, or send a request now."""
        if self._ahead is None:
            return await self._send(specs)
        await asyncio.wait([self._ahead])
        ahead, self._ahead = self._ahead, None
        return ahead.result()

    async def _send(self, specs: Sequence[ToolSpec]) -> OpenAnswer:
        terms, done = self._terms, len(self._rounds.all)
        self._rounds.timing.asked()
        self._sent_limits = terms.refused.of(terms.model)
        body = terms.body(terms.offered(specs), hidden=self.hidden, done=done, echoes=self._echo_terms)
        return await self._forwarder.post(terms.model, body)

    async def _read_stream(self, answer: OpenAnswer) -> AssistantMessage:
        frames = SSEDecoder(max_event=self._limits.event)
        is_over = False
        while piece := await answer.read():
            if is_over := await self._pass_on(frames, piece):
                self._forwarder.let_end(answer)
                break
        if not (is_over or self.stream.finished):  # some servers send no finish reason, only [DONE]
            raise ModelError("The model server's answer broke off.", kind="connection")
        return await self._end_stream()

    async def _stream_whole(self, answer: OpenAnswer) -> AssistantMessage:
        """Stream a complete body, which some servers send despite `stream`, for example if tools are offered."""
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
        """Relay the events of one read. Returns whether the answer is finished."""
        passed: list[ServerEvent] = []
        over = False
        try:
            for event in frames.feed(piece):
                name, data = event
                if name == "message" and data.strip() == DONE:
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
    """Forward a request and its response without parsing the response: no call in it can be the gateway's."""
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
        # An incomplete body isn't terminated, so that the client sees a broken connection.
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
