"""The second step of a call: what the policy says, and the person where it asks."""

import asyncio
import json
from dataclasses import replace
from typing import Literal

from pydantic import ValidationError

from vibe_jupyter.agent.approvals import digest
from vibe_jupyter.agent.desk import Desk
from vibe_jupyter.agent.prepare import Prepared, Refused, error_message, explain, refuse
from vibe_jupyter.errors import ToolError
from vibe_jupyter.llm.strict_json import parse_object
from vibe_jupyter.protocol import (
    WHOLE,
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    Ask,
    Deny,
    Preview,
    Reject,
    ToolCall,
    arguments_text,
)
from vibe_jupyter.tools.base import Prechecked


async def permit(prepared: Prepared, desk: Desk) -> Prepared | Refused:
    """Let a call through, perhaps as the person edited it, or say no.

    Raises:
        JournalError: the question could not be recorded.
        asyncio.CancelledError: the run was interrupted; nothing is allowed.
    """
    decision = desk.permissions.decide(prepared.tool, prepared.args, desk.terms)
    if isinstance(decision, Deny):
        return _forbidden(prepared, decision)
    if isinstance(decision, Ask):
        return await _ask_if_possible(prepared, decision, desk)
    return prepared


def _forbidden(prepared: Prepared, deny: Deny) -> Refused:
    return Refused(error_message(prepared.call, deny.reason), denied=True, summary=deny.reason)


async def _ask_if_possible(prepared: Prepared, ask: Ask, desk: Desk) -> Prepared | Refused:
    if isinstance(prepared.tool, Prechecked):
        try:
            await prepared.tool.precheck(prepared.args)
        except ToolError as error:
            return refuse(prepared.call, str(error))
    return await _approve(prepared, ask, desk)


async def _approve(prepared: Prepared, ask: Ask, desk: Desk) -> Prepared | Refused:
    """Go by what the person said to an equal call of this turn, else show exactly what would run and wait."""
    preview = prepared.tool.preview(prepared.args)
    said = desk.equal.said(prepared.call, digest(prepared.call, preview))
    if isinstance(said, Reject):
        return _denied(prepared.call, said.message)
    if said is not None:
        return _edited(prepared, said, preview.edits, desk)
    return await _question(prepared, ask, desk, preview)


async def _question(prepared: Prepared, ask: Ask, desk: Desk, preview: Preview) -> Prepared | Refused:
    """Show the call and wait for the person, as long as it takes."""
    call, tool, args = prepared.call, prepared.tool, prepared.args
    shown = digest(call, preview)
    waiting = desk.approvals.open()
    try:
        await desk.emit(
            ApprovalRequested(
                approval_id=waiting.id,
                call=call,
                headline=tool.headline(args),
                preview=preview,
                reason=ask.reason + _times(desk.equal.count(call)),
                resources=tuple(tool.touches(args)),
                remember_as=ask.remember_as,
                keepable=ask.keepable,
                digest=shown,
            )
        )
        command = await waiting.answer
    except asyncio.CancelledError:
        await _resolve(waiting.id, call, Reject(approval_id=waiting.id), desk, by="interrupt")
        raise
    finally:
        desk.approvals.close(waiting)
    if isinstance(command, Reject):
        await _resolve(waiting.id, call, command, desk)
        desk.equal.keep(call, shown, command)
        return _denied(call, command.message)
    edited = _edited(prepared, command, preview.edits, desk)
    if isinstance(edited, Refused):
        await _resolve(waiting.id, call, Reject(approval_id=waiting.id), desk, by="rules")
        return edited
    await _resolve(waiting.id, edited.call, command, desk, edited=edited.edited)
    if not edited.edited and digest(call, tool.preview(args)) != shown:
        return await permit(prepared, desk)  # what would run is no longer what was shown
    desk.equal.keep(call, shown, command)
    _remember(edited, ask, command, desk)
    return edited


def _remember(approved: Prepared, ask: Ask, command: Approve, desk: Desk) -> None:
    """Grant what the card named, unless the person edited the call into something else."""
    if command.remember == "once" or ask.remember_as is None:
        return
    if approved.edited:
        decision = desk.permissions.decide(approved.tool, approved.args, desk.terms)
        if not isinstance(decision, Ask) or decision.remember_as != ask.remember_as:
            return
    desk.permissions.grant(ask.remember_as, command.remember if ask.keepable else "session")


def _times(count: int) -> str:
    return f" · the agent sent this call {count} times: your answer holds for each" if count > 1 else ""


def _edited(prepared: Prepared, command: Approve, edits: str | None, desk: Desk) -> Prepared | Refused:
    """Put the person's version of the shown argument into the call; what is denied stays denied."""
    if command.edited is None or edits is None:
        return prepared
    given = parse_object(prepared.call.arguments)
    if command.edited == (arguments_text(given) if edits == WHOLE else getattr(prepared.args, edits)):
        return prepared
    try:
        arguments = parse_object(command.edited) if edits == WHOLE else {**given, edits: command.edited}
    except ValueError as error:
        return refuse(prepared.call, f"The person edited the call, but it is not one JSON object any more: {error}.")
    call = prepared.call.model_copy(update={"arguments": json.dumps(arguments, ensure_ascii=False)})
    try:
        edited = replace(prepared, call=call, args=prepared.tool.arguments.model_validate(arguments), edited=True)
    except ValidationError as error:
        return refuse(prepared.call, f"The person edited the call, but: {explain(call.name, error)}")
    decision = desk.permissions.decide(edited.tool, edited.args, desk.terms)
    return _forbidden(edited, decision) if isinstance(decision, Deny) else edited


async def _resolve(
    approval_id: str,
    call: ToolCall,
    command: Approve | Reject,
    desk: Desk,
    *,
    edited: bool = False,
    by: Literal["person", "interrupt", "rules"] = "person",
) -> None:
    await desk.emit(
        ApprovalResolved(
            approval_id=approval_id,
            call_id=call.id,
            allowed=isinstance(command, Approve),
            remember=command.remember if isinstance(command, Approve) else "once",
            by=by,
            message=command.message if isinstance(command, Reject) else "",
            arguments=call.arguments if edited else None,
        )
    )


def _denied(call: ToolCall, words: str) -> Refused:
    words = words.strip()
    text = "The person denied this call; it was not run."
    if words:
        text += f" Their words: {words}"
    return Refused(error_message(call, text), denied=True, summary=f"“{words}”" if words else "")
