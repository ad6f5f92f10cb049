"""Execution of one tool call, from the model's request to its single result, and the status of each call of a run.

prepare (find, parse, validate) -> decide -> explore or approve -> run. Each stage either passes the call on or ends in
a result, so that a call is always answered exactly once (docs/architecture.md, Invariants).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from vibe_jupyter.agent.approval import ask_user, may_explore, may_foresee, permit_call
from vibe_jupyter.agent.call_context import (
    CallContext,
    PermittedCall,
    PreparedCall,
    RefusedCall,
    StepOutcome,
    ToolStep,
    error_message,
    headline_of,
    prepare_call,
)
from vibe_jupyter.agent.hooked_calls import ScreenedResult, screen_call, screen_edited, screen_result
from vibe_jupyter.agent.told_results import told_result
from vibe_jupyter.errors import JournalError, NotebookError, NothingDone, ToolError
from vibe_jupyter.files.truncation import spill_result
from vibe_jupyter.protocol import (
    Answered,
    Approval,
    Event,
    ImagePart,
    MessageAdded,
    Question,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from vibe_jupyter.tools.contract import (
    NotExplored,
    SubagentReport,
    ToolContext,
    Toolset,
    delegate_to_nobody,
    lost_words,
)

INTERRUPTED = "The run was interrupted; this call may have run in part."
NEVER_STARTED = "Not run: the run was interrupted before this call started."
TIME_UP: Final = "The time of the run was up; this call may have run in part."
NOT_IN_TIME: Final = "Not run: the time of the run was up before this call started."
TIME_UP_SUMMARY: Final = "ended at the time limit of the run"
# Key in the details of a call: the variables that it may have changed and that undo would not restore
NOT_UNDONE: Final = "not_undone"
_NO_TASKS = "The user's privacy mode sends no text of tools to a model, so that none delegates a task."

_log = logging.getLogger(__name__)


async def answer_call(call: ToolCall, call_context: CallContext) -> tuple[ToolMessage, bool]:
    """Answer one call. Returns its result, and whether it was denied.

    Raises:
        JournalError: an event can't be recorded. Nothing was run after that.
        asyncio.CancelledError: the run was interrupted. The caller answers the call.
    """
    prepared = prepare_call(call, call_context.tools, call_context.permissions.workspace)
    if isinstance(prepared, PreparedCall):
        prepared = await screen_call(prepared, call_context)
    if isinstance(prepared, PreparedCall):
        prepared = await _restricted(prepared, call_context)
    tried = failed = ""
    if isinstance(prepared, PreparedCall) and may_explore(prepared, call_context):
        explored = await _run_prepared(prepared, call_context, _explore, tried_in=prepared.tool.tried_in)
        if not isinstance(explored, NotExplored):
            return explored, False
        tried = failed = explored.reason
        prepared.judgement.forget()  # files may have changed while it was tried
    if isinstance(prepared, PreparedCall) and await may_foresee(prepared, call_context):
        foreseen = await _foresee(prepared, call_context, tries=not tried)
        tried = " · ".join(filter(None, (tried, foreseen)))
    permitted = await permit_call(prepared, call_context, tried) if isinstance(prepared, PreparedCall) else prepared
    if isinstance(permitted, PermittedCall) and permitted.prepared.edited:
        screened = await screen_edited(permitted.prepared, call_context)
        screened = await _restricted(screened, call_context) if isinstance(screened, PreparedCall) else screened
        permitted = screened if isinstance(screened, RefusedCall) else permitted
    if isinstance(permitted, PermittedCall):
        # If the user edited the code on the card, the trial ran different code.
        explored = "" if permitted.prepared.edited else failed
        work = partial(_run_permitted, permitted.approval, explored)
        answer = await _run_prepared(permitted.prepared, call_context, work)
        assert isinstance(answer, ToolMessage)
        return answer, False
    step = ToolStep(call.name, prepared.headline, id=call.id, mark=call.mark)
    await call_context.emit(step.finished("denied" if permitted.denied else "error", permitted.summary))
    return permitted.message, permitted.denied


async def _restricted(prepared: PreparedCall, call_context: CallContext) -> PreparedCall | RefusedCall:
    """Apply the restrictions that the tool's own code puts on a call."""
    said = await prepared.tool.restriction(prepared.args)
    if said is None:
        return prepared
    name = prepared.tool.name
    if said.denies:
        summary = f"the tool {name} denies this call itself: {said.reason}"
        words = f"the tool {name} denies this call itself" if call_context.schema_only else summary
        return RefusedCall(
            error_message(prepared.call, f"Not run: {words}."), prepared.headline, denied=True, summary=summary
        )
    asks = f"the tool {name} wants you to decide: {said.reason}"
    return replace(prepared, asks=" · ".join(filter(None, (prepared.asks, asks))))


def unanswered_call(call: ToolCall, *, started: bool, is_time_up: bool = False) -> ToolMessage:
    """Return the result of a call that was cut off by the end of the run."""
    if is_time_up:
        return error_message(call, TIME_UP if started else NOT_IN_TIME)
    return error_message(call, INTERRUPTED if started else NEVER_STARTED)


async def _run_prepared(
    prepared: PreparedCall,
    call_context: CallContext,
    work: Callable[[PreparedCall, CallContext], Awaitable[ToolResult | NotExplored]],
    *,
    tried_in: str = "",
) -> ToolMessage | NotExplored:
    """Run the call as a step of the run. The step stays open if a trial found that approval is needed.

    Args:
        prepared: the call.
        call_context: context of the run.
        work: executes the call.
        tried_in: name of the isolated environment if the call is only tried; else ''.
    """
    call, tool = prepared.call, prepared.tool
    step = ToolStep(tool.name, prepared.headline, prepared.preview, id=call.id, mark=call.mark)
    began, waited_before = time.monotonic(), call_context.waited_in(call.id)
    await call_context.emit(step.started(tried_in))
    outcome: StepOutcome = "interrupted"
    result: ToolResult | NotExplored | None = None
    has_run = True
    try:
        result = await work(prepared, call_context)
        outcome = "error" if isinstance(result, ToolResult) and result.is_error else "ok"
    except ToolError as error:
        result, outcome = ToolResult.error(str(error)), "error"
        has_run = not isinstance(error, NothingDone)
    except JournalError:
        raise
    except Exception as error:  # noqa: BLE001 - a tool is foreign code: its bug is a result for the model, and a log for us
        _log.exception("The tool %s failed.", call.name)
        words = f"{call.name} failed: {type(error).__name__}"
        result = ToolResult.error(words if call_context.schema_only else f"{words}: {error}")
        outcome = "error"
    finally:
        call_context.redactor.look()
        if result is None:
            is_time_up = call_context.is_time_up()
            summary = TIME_UP_SUMMARY if is_time_up else "interrupted"
            result = ToolResult.error(TIME_UP if is_time_up else INTERRUPTED, summary=summary)
        waited = call_context.waited_in(call.id) - waited_before
        if isinstance(result, ToolResult):
            shown = {"display": result.display, "details": result.details}
            await call_context.emit(step.finished(outcome, result.summary, **shown, has_run=has_run, waited=waited))
    if isinstance(result, NotExplored):
        return result
    screened = await screen_result(prepared, result, call_context, seconds=time.monotonic() - began - waited)
    return await _message_of(prepared, screened, call_context)


async def _message_of(prepared: PreparedCall, screened: ScreenedResult, call_context: CallContext) -> ToolMessage:
    call, tool, result = prepared.call, prepared.tool, screened.result
    if call_context.schema_only and not screened.is_withheld:
        result = told_result(tool, (place.path for place in prepared.places.values()), result)
    shortened = call_context.failed.shorten(tool.name, call.arguments, result)
    limit = tool.result_limit
    # Redacted before it is cut: the full text is stored as well, and a cut could split a secret.
    result = await asyncio.to_thread(
        lambda: spill_result(call_context.redactor.output(shortened), call_context.results, limit)
    )
    parts: tuple[TextPart | ImagePart, ...] = result.parts
    if prepared.edited:
        note = f"The user edited the call before allowing it; what ran: {call.arguments}"
        parts = (TextPart(text=note), *parts)
    parts = (*parts, *(TextPart(text=note) for note in screened.notes))
    return ToolMessage(call_id=call.id, name=call.name, parts=parts, is_error=result.is_error)


async def _explore(prepared: PreparedCall, call_context: CallContext) -> ToolResult | NotExplored:
    """Try the call without side effects."""
    return await prepared.tool.explore(prepared.args, _tool_context(prepared, call_context))


async def _foresee(prepared: PreparedCall, call_context: CallContext, *, tries: bool) -> str:
    """Return what the call would change, for its card, or '' if that is unknown."""
    tries = tries and call_context.permissions.may_try(prepared.tool, call_context.terms)
    try:
        words = await prepared.tool.foresee(prepared.args, _tool_context(prepared, call_context), tries=tries)
    except ToolError:  # interrupted: the run handles that itself
        return ""
    call_context.redactor.look()
    return call_context.redactor.output_text(words)


async def _run_permitted(
    approval: Approval, explored: str, prepared: PreparedCall, call_context: CallContext
) -> ToolResult:
    """Run the call, and report what undo would not restore, unless its card already did."""
    result = await _run_tool(approval, explored, prepared, call_context)
    lost: Sequence[str] = ()
    if prepared.tool.may_lose and call_context.newly_lost is not None:
        with suppress(NotebookError):  # interrupted: the run handles that itself
            lost = await call_context.newly_lost()
    if not lost or approval.by != "settings":
        return result
    summary = " · ".join(filter(None, (result.summary, lost_words(lost))))
    return result.model_copy(update={"summary": summary, "details": {**result.details, NOT_UNDONE: list(lost)}})


async def _run_tool(approval: Approval, explored: str, prepared: PreparedCall, call_context: CallContext) -> ToolResult:
    """Run the call, with a snapshot of each file that it declares to write."""
    context = _tool_context(prepared, call_context)._replace(approval=approval, explored=explored)
    files, snapshots = prepared.written_files, call_context.snapshots
    if snapshots is None or not files:
        return await prepared.tool.run(prepared.args, context)
    await snapshots.before_writes(files)
    is_over = True
    try:
        return await prepared.tool.run(prepared.args, context)
    except asyncio.CancelledError:
        is_over = False  # a thread of the tool may still be writing
        raise
    finally:
        if is_over:
            await snapshots.after_writes(files)


def _tool_context(prepared: PreparedCall, call_context: CallContext) -> ToolContext:
    call_id = prepared.call.id

    def progress(text: str) -> None:
        call_context.show(ToolProgress(call_id=call_id, text=text))

    def advance(done: float, total: float | None, words: str) -> None:
        call_context.show(ToolProgress(call_id=call_id, text=words, done=done, total=total))

    def tell_waits(waits: bool) -> None:
        call_context.show(ToolProgress(call_id=call_id, text="", waits=waits))

    async def ask(questions: Sequence[Question], asker: str) -> tuple[Answered, ...] | None:
        return await ask_user(questions, call_context, call_id=call_id, asker=asker)

    async def delegate(agent: str, task: str) -> SubagentReport:
        if call_context.schema_only and prepared.tool.without_values != "always":
            raise ToolError(_NO_TASKS)
        if call_context.delegate is None:
            return await delegate_to_nobody(agent, task)
        return await call_context.delegate(call_id, agent, task)

    return ToolContext(
        call_id=call_id,
        delegate=delegate,
        redact=call_context.redactor.output_text,
        progress=progress,
        cancelled=call_context.cancelled,
        ask=ask,
        advance=advance,
        waits=tell_waits,
        places=prepared.places,
        schema_only=call_context.schema_only,
        model=call_context.model,
        turn=call_context.turn(),
    )


class CallStatus:
    """Stage of each call of a run, derived from the events."""

    def __init__(self) -> None:
        self._stages: dict[str, Literal["tried", "broken off", "started", "finished"]] = {}  # by call id

    def note(self, event: Event) -> None:
        """Process an event."""
        match event:
            case ToolStarted():
                self._stages[event.call_id] = "tried" if event.trial else "started"
            case ToolFinished():
                is_trial = event.outcome == "interrupted" and self._stages.get(event.call_id) == "tried"
                self._stages[event.call_id] = "broken off" if is_trial else "finished"
            case _:
                pass

    def closing(self, call: ToolCall, tools: Toolset, *, is_time_up: bool = False) -> list[ToolFinished | MessageAdded]:
        """Return the events that close a call without a result."""
        stage = self._stages.get(call.id)
        started = stage in ("started", "finished")
        message = MessageAdded(message=unanswered_call(call, started=started, is_time_up=is_time_up))
        if stage in ("finished", "broken off"):
            return [message]
        step = ToolStep(call.name, headline_of(call, tools), id=call.id, mark=call.mark)
        return [step.finished("interrupted", TIME_UP_SUMMARY if is_time_up else "interrupted"), message]
