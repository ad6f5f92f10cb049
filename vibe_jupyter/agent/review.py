"""Approval of several changes of one answer at once, instead of one after another.

Each change has its own decision. It takes effect at the change's turn, provided that the call would still do exactly
what was shown; otherwise the user is asked again, for that call alone. Only independent changes are therefore grouped:
the first one that accesses a resource of an earlier one, or that can't be done yet, waits for its turn.
"""

import asyncio
import secrets
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from vibe_jupyter.agent.approval import (
    PendingApproval,
    decide_call,
    edited_call,
    make_card,
    remember_grant,
)
from vibe_jupyter.agent.call_context import CallContext, Decided, PreparedCall, RefusedCall, prepare_call
from vibe_jupyter.agent.hooked_calls import has_hooks
from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import ApprovalRequested, Approve, Ask, Review, ToolCall

_NEW: Hashable = ("cell", "new")  # never a conflict: each of several calls can create a new cell


class _Change(NamedTuple):
    prepared: PreparedCall
    ask: Ask
    card: ApprovalRequested


async def review_changes(calls: Sequence[ToolCall], call_context: CallContext) -> None:
    """Ask for the changes that these calls start with, if there are several to ask for.

    Args:
        calls: calls of an answer that have no result yet.
        call_context: context of the run.

    Raises:
        JournalError: a request can't be recorded.
        asyncio.CancelledError: the run was interrupted. Nothing is allowed.
    """
    if len(calls) < 2 or calls[0].id in call_context.equal.reviewed:
        return
    changes = await _changes_to_ask(calls, call_context)
    if len(changes) < 2 or not await call_context.attended():
        return
    review = Review(id=secrets.token_hex(8), size=len(changes))
    call_context.equal.reviewed |= {change.prepared.sent.id for change in changes}
    tasks = [asyncio.ensure_future(_ask_for(change, review, call_context)) for change in changes]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    for task in tasks:
        task.result()


async def _changes_to_ask(calls: Sequence[ToolCall], call_context: CallContext) -> list[_Change]:
    """Return those changes in the leading run of independent changes that need approval."""
    found: list[_Change] = []
    touched: set[Hashable] = set()
    for call in calls:
        prepared = prepare_call(call, call_context.tools, call_context.permissions.workspace)
        if isinstance(prepared, RefusedCall) or not (what := _changed(prepared)):
            break
        if has_hooks(prepared, call_context):  # a hook may deny or rewrite it when its turn comes
            break
        if what & touched:
            break
        touched |= what - {_NEW}
        decision = decide_call(prepared, call_context)
        if not isinstance(decision, Ask) or any(one.prepared.digest == prepared.digest for one in found):
            continue
        if call_context.equal.said(prepared.sent, prepared.digest) is not None:
            continue  # decided before, with an equal call of this answer
        if not await _can_be_done(prepared):
            break
        card = await make_card(prepared, decision, call_context)
        # High-risk changes are asked for alone, at their turn.
        if card.risk != "high":
            found.append(_Change(prepared, decision, card))
    return found


def _changed(prepared: PreparedCall) -> set[Hashable]:
    """Return the cells and files that a call accesses, or an empty set if it changes none."""
    if not any(one.kind in ("cell", "path") and one.access == "write" for one in prepared.touched):
        return set()
    places = {one: str(place.path) for one, place in prepared.places.items()}
    return {(one.kind, places.get(one.value, one.value)) for one in prepared.touched if one.kind in ("cell", "path")}


async def _can_be_done(prepared: PreparedCall) -> bool:
    try:
        await prepared.tool.precheck(prepared.args)
    except ToolError:
        return False
    return True


async def _ask_for(change: _Change, review: Review, call_context: CallContext) -> None:
    """Ask for one of the changes, and store the decision for its turn."""
    prepared, ask, card = change
    approved: PreparedCall | RefusedCall = prepared

    def apply_edits(command: Approve) -> PreparedCall | RefusedCall:
        nonlocal approved
        approved = edited_call(prepared, command, call_context)
        return approved

    waiting = PendingApproval(card.model_copy(update={"review": review}), call_context.approvals, call_context.emit)
    command = await waiting.ask(apply_edits)
    if isinstance(approved, RefusedCall):
        return  # the edited call was refused: its turn will report why
    call_context.equal.keep(prepared.sent, prepared.digest, Decided(command, waiting.approval()))
    if isinstance(command, Approve):
        remember_grant(approved, ask, command, call_context)
