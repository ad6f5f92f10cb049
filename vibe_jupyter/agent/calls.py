"""One tool call, from the model's words to its one result.

prepare (find, parse, validate) -> decide -> approve -> run. Each step either hands on or ends in a result, so that a
call is always answered exactly once (security C42).
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from vibe_jupyter.agent.approvals import ApprovalDesk, digest
from vibe_jupyter.errors import JournalError, ToolError
from vibe_jupyter.policy.permissions import Permissions, RunTerms
from vibe_jupyter.protocol import (
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    Ask,
    Deny,
    Event,
    Headline,
    ImagePart,
    Reject,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from vibe_jupyter.tools.base import Tool, ToolContext, Toolset

INTERRUPTED = "The run was interrupted; this call may have run in part."
NEVER_STARTED = "Not run: the run was interrupted before this call started."

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Desk:
    """What answering a call needs of its run."""

    tools: Toolset
    permissions: Permissions
    terms: RunTerms
    approvals: ApprovalDesk
    emit: Callable[[Event], Awaitable[None]]
    """Record an event if it is durable, then show it."""
    show: Callable[[ToolProgress], None]
    """Show progress; callable from any thread."""
    cancelled: Callable[[], bool]


@dataclass(frozen=True)
class Prepared:
    """A call that could run."""

    call: ToolCall
    tool: Tool[Any]
    args: BaseModel
    edited: bool = False
    """Whether the person changed the arguments on the card."""


@dataclass(frozen=True)
class Refused:
    """A call that does not run, and what the model is told."""

    message: ToolMessage
    denied: bool = False
    """Whether a person, or the lack of one, said no; a broken call is no denial."""


async def answer(call: ToolCall, desk: Desk) -> tuple[ToolMessage, bool]:
    """Answer one call; the second value says whether it was denied.

    Raises:
        JournalError: it could not be recorded; nothing was run after that.
        asyncio.CancelledError: the run was interrupted; the caller answers the call.
    """
    prepared = prepare(call, desk.tools)
    if isinstance(prepared, Prepared):
        prepared = await _permit(prepared, desk)
    if isinstance(prepared, Refused):
        await desk.emit(
            ToolFinished(
                call_id=call.id,
                name=call.name,
                headline=headline_of(call, desk.tools),
                outcome="denied" if prepared.denied else "error",
                summary=_text(prepared.message).split("\n", 1)[0],
            )
        )
        return prepared.message, prepared.denied
    return await _run(prepared, desk), False


def prepare(call: ToolCall, tools: Toolset) -> Prepared | Refused:
    """Find the tool and validate the arguments by strict JSON (security C37)."""
    tool = tools.find(call.name)
    if tool is None:
        names = ", ".join(spec.name for spec in tools.specs())
        return _refuse(call, f"There is no tool {call.name!r}. The tools are: {names}.")
    try:
        arguments = parse_arguments(call.arguments)
        return Prepared(call, tool, tool.arguments.model_validate(arguments))
    except ValidationError as error:
        return _refuse(call, _explain(call.name, error))
    except (ValueError, RecursionError) as error:
        return _refuse(
            call,
            f"The arguments of {call.name} are not one JSON object: {error}. Nothing was run; send the call again.",
        )


def parse_arguments(text: str) -> dict[str, Any]:
    """Parse strict JSON of one object; blank and null count as an empty one (seed 000, Tool Call Resolution).

    Raises:
        ValueError: not JSON, or no object.
    """

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    if text.strip() in ("", "null"):
        return {}
    value = json.loads(text, parse_constant=refuse)
    if not isinstance(value, dict):
        raise ValueError(f"it is a {type(value).__name__}")
    return value


def headline_of(call: ToolCall, tools: Toolset) -> Headline:
    """The headline of any call, also of one that cannot be prepared."""
    prepared = prepare(call, tools)
    if isinstance(prepared, Prepared):
        return prepared.tool.headline(prepared.args)
    return Headline(verb="Called", doing="Calling", asking="Call", target=call.name)


def unanswered(call: ToolCall, *, started: bool) -> ToolMessage:
    """The result of a call that the end of the run cut off."""
    return _message(call, INTERRUPTED if started else NEVER_STARTED)


async def _permit(prepared: Prepared, desk: Desk) -> Prepared | Refused:
    decision = desk.permissions.decide(prepared.tool, prepared.args, desk.terms)
    if isinstance(decision, Deny):
        return Refused(_message(prepared.call, decision.reason), denied=True)
    if isinstance(decision, Ask):
        return await _approve(prepared, decision, desk)
    return prepared


async def _approve(prepared: Prepared, ask: Ask, desk: Desk) -> Prepared | Refused:
    """Show exactly what would run and wait for the person, as long as it takes."""
    call, tool, args = prepared.call, prepared.tool, prepared.args
    preview = tool.preview(args)
    shown = digest(call, preview)
    waiting = desk.approvals.open()
    try:
        await desk.emit(
            ApprovalRequested(
                approval_id=waiting.approval_id,
                call=call,
                headline=tool.headline(args),
                preview=preview,
                reason=ask.reason,
                resources=tuple(tool.touches(args)),
                remember_as=ask.remember_as,
                digest=shown,
            )
        )
        command = await waiting.answer
    except asyncio.CancelledError:
        await _resolve(waiting.approval_id, call, Reject(approval_id=waiting.approval_id), desk, by_interrupt=True)
        raise
    finally:
        desk.approvals.close(waiting)
    if isinstance(command, Reject):
        await _resolve(waiting.approval_id, call, command, desk)
        return _denied(call, command.message)
    edited = _edited(prepared, command, preview.edits)
    if isinstance(edited, Refused):
        await _resolve(waiting.approval_id, call, Reject(approval_id=waiting.approval_id), desk)
        return edited
    await _resolve(waiting.approval_id, edited.call, command, desk, edited=edited.edited)
    if not edited.edited and digest(call, tool.preview(args)) != shown:
        return await _approve(prepared, ask, desk)  # what would run is no longer what was shown
    if command.remember == "session" and ask.remember_as is not None:
        desk.permissions.grant(ask.remember_as)
    return edited


def _edited(prepared: Prepared, command: Approve, edits: str | None) -> Prepared | Refused:
    """Put the person's version of the shown argument into the call."""
    if command.edited is None or edits is None or command.edited == getattr(prepared.args, edits):
        return prepared
    arguments = {**parse_arguments(prepared.call.arguments), edits: command.edited}
    call = prepared.call.model_copy(update={"arguments": json.dumps(arguments, ensure_ascii=False)})
    try:
        return replace(prepared, call=call, args=prepared.tool.arguments.model_validate(arguments), edited=True)
    except ValidationError as error:
        return _refuse(prepared.call, f"The person edited the call, but: {_explain(call.name, error)}")


async def _resolve(
    approval_id: str,
    call: ToolCall,
    command: Approve | Reject,
    desk: Desk,
    *,
    edited: bool = False,
    by_interrupt: bool = False,
) -> None:
    await desk.emit(
        ApprovalResolved(
            approval_id=approval_id,
            call_id=call.id,
            allowed=isinstance(command, Approve),
            remember=command.remember if isinstance(command, Approve) else "once",
            by="interrupt" if by_interrupt else "person",
            message=command.message if isinstance(command, Reject) else "",
            arguments=call.arguments if edited else None,
        )
    )


async def _run(prepared: Prepared, desk: Desk) -> ToolMessage:
    call, tool, args = prepared.call, prepared.tool, prepared.args
    headline = tool.headline(args)
    await desk.emit(ToolStarted(call_id=call.id, name=call.name, headline=headline, preview=tool.preview(args)))
    began = time.monotonic()
    outcome = "interrupted"
    result = ToolResult.error(INTERRUPTED, summary="interrupted")
    context = ToolContext(
        call_id=call.id,
        progress=lambda text: desk.show(ToolProgress(call_id=call.id, text=text)),
        cancelled=desk.cancelled,
    )
    try:
        result = await tool.run(args, context)
        outcome = "error" if result.is_error else "ok"
    except ToolError as error:
        result, outcome = ToolResult.error(str(error)), "error"
    except JournalError:
        raise
    except Exception as error:  # a tool is foreign code: its bug is a result for the model, and a log for us
        _log.exception("The tool %s failed.", call.name)
        result, outcome = ToolResult.error(f"{call.name} failed: {type(error).__name__}: {error}"), "error"
    finally:
        await desk.emit(
            ToolFinished(
                call_id=call.id,
                name=call.name,
                headline=headline,
                outcome=outcome,
                summary=result.summary,
                seconds=round(time.monotonic() - began, 3),
                display=result.display,
                details=result.details,
            )
        )
    parts: tuple[TextPart | ImagePart, ...] = result.parts
    if prepared.edited:
        note = f"The person edited the call before allowing it; what ran: {call.arguments}"
        parts = (TextPart(text=note), *parts)
    return ToolMessage(call_id=call.id, name=call.name, parts=parts, is_error=result.is_error)


def _denied(call: ToolCall, words: str) -> Refused:
    text = "The person denied this call; it was not run."
    if words.strip():
        text += f" Their words: {words.strip()}"
    return Refused(_message(call, text), denied=True)


def _refuse(call: ToolCall, text: str) -> Refused:
    return Refused(_message(call, text))


def _message(call: ToolCall, text: str) -> ToolMessage:
    return ToolMessage(call_id=call.id, name=call.name, parts=(TextPart(text=text),), is_error=True)


def _text(message: ToolMessage) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def _explain(name: str, error: ValidationError) -> str:
    """Name each wrong field and why."""
    problems = "; ".join(
        f"{'.'.join(str(step) for step in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False)
    )
    return f"Wrong arguments for {name}: {problems}. Nothing was run."
