"""An exchange: a request, the agent run that answers it, and the response written while it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, cast

from pydantic import JsonValue
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.agent.middleware import Middleware, StopRun, TurnState
from vibe_jupyter.agent.run import Run
from vibe_jupyter.config.settings import Settings
from vibe_jupyter.gateway.agents import AgentTerms
from vibe_jupyter.gateway.chat_request import ChatRequest
from vibe_jupyter.gateway.hidden_rounds import join_hidden, keep_hidden
from vibe_jupyter.gateway.input_files import InputFiles
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import (
    JSON,
    error_body,
    error_object,
    passed_headers,
    unreachable_status,
)
from vibe_jupyter.gateway.relay import RelayingClient, RelayTerms, pass_through
from vibe_jupyter.gateway.request_tools import RequestTools
from vibe_jupyter.gateway.rounds import Object, Rounds
from vibe_jupyter.gateway.run_files import RunFiles
from vibe_jupyter.gateway.skill_bundles import GivenSkill, placed_skills, skill_messages
from vibe_jupyter.gateway.store import StoreDown
from vibe_jupyter.gateway.wire import AnswerWire
from vibe_jupyter.gateway.work_tools import WorkTerms, work_tools
from vibe_jupyter.gateway.writer import AgenticCall, AnswerWriter, Ending
from vibe_jupyter.llm.dialects.wire_parts import dump_json
from vibe_jupyter.llm.event_streams import ServerEvent
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.permissions.grants import Grants
from vibe_jupyter.protocol import (
    Answer,
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Event,
    ImagePart,
    Interrupt,
    MessageAdded,
    QuestionAsked,
    RunFinished,
    TextPart,
    ToolFinished,
    ToolMessage,
    TurnStarted,
)
from vibe_jupyter.session.conversation import Conversation

STREAM_TYPE: Final = "text/event-stream; charset=utf-8"
KeepMessages = Callable[[Sequence[JsonValue]], Awaitable[None]]
BROKEN_OFF: Final = "The request was broken off."
DENIED: Final = "Not run: this request allows no actions (agent_permission is deny)."


class LeaveToClient(Middleware):
    """Middleware that ends a run when the latest answer has calls for the client."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    def after_turn(self, state: TurnState) -> StopRun | None:
        if not self._rounds.theirs:
            return None
        return StopRun(reason="tool_calls", notice="The client answers the calls of its own tools.", level="info")


class CallRecords:
    """Tool calls of a run, folded from its events."""

    def __init__(self) -> None:
        self.all: list[AgenticCall] = []
        self.round = 0
        self._by_id: dict[str, AgenticCall] = {}

    def take(self, event: Event) -> None:
        match event:
            case TurnStarted(turn=turn):
                self.round = turn
            case MessageAdded(message=AssistantMessage() as message):
                for call in message.calls:
                    made = AgenticCall(self.round, call.name, call.arguments, call.id)
                    self.all.append(made)
                    self._by_id[call.id] = made
            case ToolFinished(call_id=call_id) if call_id in self._by_id:
                self._by_id[call_id].outcome = event.outcome
                self._by_id[call_id].details = event.details
            case MessageAdded(message=ToolMessage() as message) if message.call_id in self._by_id:
                made = self._by_id[message.call_id]
                made.result = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
                made.images = [part.data for part in message.parts if isinstance(part, ImagePart)]
            case _:
                pass


class GatewayExchange(Response):
    """Response to one request, sent while it is produced."""

    def __init__(
        self,
        parts: GatewayParts,
        request: ChatRequest,
        writer: AnswerWriter,
        *,
        keep: KeepMessages | None = None,
        skills: Sequence[GivenSkill] = (),
    ) -> None:
        """
        Args:
            parts: objects shared by the routes.
            request: the parsed request.
            writer: encodes the answer for the client's API.
            keep: receives the conversation including the answer, before the client sees the end of the response.
            skills: skills to copy to the working folder.

        Raises:
            Refused: the model is unknown, or the list of allowed tools is invalid.
        """
        self.background = None
        self.calls = CallRecords()
        self.run: Run | None = None
        self._relay: RelayingClient | None = None
        self._passing: asyncio.Task[None] | None = None  # forwards an unmodified answer
        self._is_ending = False
        self.session_id = request.session_id  # "" if the request neither names a session nor needs one
        self._parts = parts
        self._request = request
        self._writer = writer
        self._keep = keep
        self._skills = skills
        self._current = parts.agents.current()
        self._model = parts.model(request.fields.model, self._settings)
        self._folder = parts.folders.of(request.session_id)
        self._files = RunFiles(parts.files, request.fields.files, request.turn)
        work = WorkTerms(
            self._folder, self._files, parts.agents.environ, self._settings, sees_images=self._model.sees_images
        )
        self._tools = RequestTools(parts.agents, self._current, request, work_tools(work))
        self._rounds = Rounds(self._tools.is_ours)
        self._ready_turn = asyncio.Condition()
        self._conversation = Conversation(parts.journals.of(self._settings, request.session_id))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wire = self._wire = AnswerWire(send, self._request.answer_headers)
        self._parts.live.add(self)
        alive = asyncio.create_task(wire.keep_alive(self._writer.keep_alive, self._parts.keep_alive))
        watch: asyncio.Task[None] | None = None
        try:
            terms = self._relay_terms(await self._joined_messages())
            if self._is_plain:
                body = terms.body(self._tools.offered(()))
                self._passing = asyncio.create_task(
                    pass_through(self._parts.forwarder, self._model, body, self._writer, wire)
                )
                watch = asyncio.create_task(_watch(receive, self._passing))
                await self._passing
                return
            relay = self._relay = RelayingClient(terms, self._parts.forwarder, self._rounds, self)
            relay.ask_ahead(self._tools.run_here.specs())
            grants = self._parts.agents.grants()
            keep_grants = await self._parts.grants.load(self.session_id, grants) if self.session_id else None
            run = self.run = self._start_run(relay, grants)
            watch = asyncio.create_task(_watch(receive, run))
            await self._drive(run, relay)
            if keep_grants is not None:
                await keep_grants()
        except StoreDown as down:
            await self._break_off(str(down))
        except asyncio.CancelledError:
            if not self._is_ending:
                raise
            await self._break_off(BROKEN_OFF)
        finally:
            self._parts.live.discard(self)
            alive.cancel()
            if watch is not None:
                watch.cancel()
            if self._relay is not None:
                await self._relay.leave()
            if self.calls.all:  # the journal is created by the first call
                await asyncio.to_thread(self._conversation.journal.close)
            if self._tools.has_own:
                await self._folder.close()

    def end(self) -> None:
        """Abort the response because the gateway shuts down."""
        self._is_ending = True
        if self.run is not None:
            self.run.send(Interrupt())
        if self._passing is not None:
            self._passing.cancel()

    async def _break_off(self, words: str) -> None:
        """End the response with an error, in the form that its state allows."""
        if self._wire.streams:
            await self._wire.write(self._writer.fail(error_object(503, words)), more=False)
        elif not self._wire.has_begun:
            await self._wire.answer(503, error_body(503, words))

    # ---- implementation of `vibe_jupyter.gateway.relay.Outlet` ----

    async def reached(self, turn: int) -> None:
        async with self._ready_turn:
            await self._ready_turn.wait_for(lambda: self.calls.round >= turn)

    async def begin(self, headers: Mapping[str, str]) -> None:
        if not self._wire.streams:
            await self._wire.begin(200, {**passed_headers(headers), "content-type": STREAM_TYPE}, stream=True)

    async def chunks(self, events: Sequence[ServerEvent]) -> None:
        await self._wire.write(b"".join(map(self._writer.chunk, events)))

    # ---- the run ----

    @property
    def _settings(self) -> Settings:
        return self._current.reading.settings

    @property
    def _is_plain(self) -> bool:
        """True if the answer is forwarded byte for byte, because none of its calls can be for the gateway."""
        if not self._writer.passes_through:
            return False
        return self._request.passes_plainly or not (
            self.session_id or self._request.fields.files or self._tools.run_here.specs()
        )

    def _relay_terms(self, messages: Sequence[JsonValue]) -> RelayTerms:
        return RelayTerms(
            request=self._request,
            model=self._model,
            messages=messages,
            tool_choice=self._tools.choice(),
            allowed=self._tools.allowed,
            max_rounds=self._settings.gateway.max_rounds,
            offered=self._tools.offered,
            spelled=self._parts.spelled,
            refused=self._parts.refused,
        )

    @property
    def _sent_messages(self) -> Sequence[JsonValue]:
        return cast("list[JsonValue]", self._request.body["messages"])

    async def _joined_messages(self) -> Sequence[JsonValue]:
        messages = self._sent_messages
        if self.session_id:
            messages = await self._parts.sessions.join(self.session_id, messages)
        messages = await join_hidden(self._parts.store, self._parts.owner, messages)
        given = InputFiles(self._parts.files, has_folder=self._tools.has_own)
        messages = await given.read_in(messages)
        if self._tools.has_own:
            await self._parts.folders.sweep()
            await self._folder.open()
            await self._folder.place([*given.for_folder.items(), *placed_skills(self._skills)])
            messages = [*skill_messages(self._skills), *messages] if self._skills else messages
        return self._files.asked(messages, has_folder=self._tools.has_own)

    def _start_run(self, relay: RelayingClient, grants: Grants) -> Run:
        agents, fields, tools = self._parts.agents, self._request.fields, self._tools.run_here
        workspace = self._folder.workspace if self._tools.has_own else agents.workspace
        own = AgentTerms(tools, workspace, [LeaveToClient(self._rounds)], grants)
        agent = agents.agent(self._current, self._model, relay, own)
        terms = RunTerms(
            attended=fields.agent_permission == "ask",
            allowed=agents.allowed(self._settings, tools.specs()),
            levels=self._current.reading.rules.levels,
            approve_all=self._settings.approves_all,
            only_reads=self._current.reading.rules.only_reads,
            bars=_deny_all if fields.agent_permission == "deny" else None,
        )
        return start_run(agent, self._conversation, self._request.prompt, terms=terms)

    async def _drive(self, run: Run, relay: RelayingClient) -> None:
        finished: RunFinished | None = None
        async with aclosing(run.__aiter__()) as events:
            async for event in events:
                await self._take(event)
                finished = event if isinstance(event, RunFinished) else None
        if finished is not None:
            await self._finish(relay, finished)

    async def _take(self, event: Event) -> None:
        self.calls.take(event)
        self._files.round = self.calls.round
        assert self.run is not None
        match event:
            case ApprovalRequested():
                await self._parts.approvals.announce(event.approval_id, self.run)
            case ApprovalResolved():
                await self._parts.approvals.close(event.approval_id)
            case QuestionAsked():  # the HTTP API has no way to answer questions
                self.run.send(Answer(question_id=event.question_id, answers=None))
            case _:
                pass
        if self._wire.streams and (told := self._writer.event(event, self.calls.round)):
            await self._wire.write(told)
        if self._wire.streams and isinstance(event, ToolFinished):
            await self._tell_files()
        if isinstance(event, TurnStarted):
            async with self._ready_turn:
                self._ready_turn.notify_all()

    async def _finish(self, relay: RelayingClient, finished: RunFinished) -> None:
        if relay.failure is not None or finished.reason in ("error", "interrupted") or not self._rounds.all:
            await self._fail(relay, finished)
            return
        relay.note_results(self._conversation.history)
        if ids := self._rounds.all[-1].ids:
            await keep_hidden(self._parts.store, self._parts.owner, relay.hidden, ids)
        if self._keep is not None:
            await self._keep([*self._sent_messages, *self._answer_messages(relay)])
        if self.session_id:
            unseen = relay.hidden if self._rounds.used_tools and not self._rounds.theirs else ()
            await self._parts.sessions.note(self.session_id, self._sent_messages, unseen)
        if not self._rounds.theirs:
            await self._files.add_missing()
        for call in self.calls.all:
            call.file_ids = self._files.of_call(call.call_id)
        is_agentic = self._rounds.used_tools or bool(self.session_id or self._files.all)
        extra = self._rounds.timing.fields(self._rounds.usage) if is_agentic else {}
        files = [] if self._wire.streams else await self._files.inline()
        ending = Ending(finished.reason, self.calls.all, self.session_id, files)
        if self._wire.streams:
            await self._tell_files()
            last = relay.stream.ending(finished.reason, extra, self.session_id)
            await self._wire.write(self._writer.end(last, ending), more=False)
            return
        await self._send_whole(relay, ending, extra, is_agentic=is_agentic)

    async def _tell_files(self) -> None:
        for made in await self._files.new():
            await self._wire.write(self._writer.file(made))

    def _answer_messages(self, relay: RelayingClient) -> Sequence[JsonValue]:
        """Return the messages that the answer adds to the stored conversation.

        If the client has calls to answer, the gateway's hidden rounds are left out: `join_hidden` inserts them with the
        results.
        """
        calls = self._rounds.theirs
        if not (calls and self._rounds.used_tools):
            return relay.hidden
        text = self._rounds.all[-1].message.text
        return [{"role": "assistant", "content": text, "tool_calls": cast("list[JsonValue]", list(calls))}]

    async def _send_whole(
        self, relay: RelayingClient, ending: Ending, extra: Mapping[str, JsonValue], *, is_agentic: bool
    ) -> None:
        if not is_agentic and self._writer.passes_through:
            await self._wire.answer(200, relay.body.raw)
            return
        body: Object = relay.body.ending(ending.reason, extra) if is_agentic else relay.body.latest
        made = self._writer.whole(body, ending)
        await self._wire.answer(200, dump_json(made))

    async def _fail(self, relay: RelayingClient, finished: RunFinished) -> None:
        refusal, words = relay.refusal, finished.error or BROKEN_OFF
        if self._wire.streams:
            status = 502 if refusal is None else refusal.status
            error = error_object(status, words) if refusal is None else refusal.error
            await self._wire.write(self._writer.fail(error), more=False)
        elif refusal is not None and self._writer.passes_through:
            await self._wire.answer(refusal.status, refusal.body, passed_headers(refusal.headers))
        elif refusal is not None:
            said = dump_json({"type": "error", "error": refusal.error})
            await self._wire.answer(refusal.status, said, {**passed_headers(refusal.headers), "content-type": JSON})
        else:
            status = 503 if relay.failure is None else unreachable_status(relay.failure)
            await self._wire.answer(status, error_body(status, words))


async def _watch(receive: Receive, goes_on: "Run | asyncio.Task[None]") -> None:
    """Cancel the run or task when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if isinstance(goes_on, Run):
        goes_on.send(Interrupt())
    else:
        goes_on.cancel()


def _deny_all(_: Sequence[str]) -> str:
    return DENIED
