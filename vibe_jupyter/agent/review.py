"""Several changes of one answer, asked at once instead of one after another.

Each has a decision of its own, which holds when its turn comes if it would then still do exactly what was shown; else
it is asked again, alone. So changes stand together only where none depends on another: the first that touches what an
earlier one touches, or cannot be done yet, waits for its turn.
"""

import asyncio
import secrets
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from vibe_jupyter.agent.approval import (
    ApprovalCard,
    PendingApproval,
    decide_call,
    edited_call,
    make_card,
    remember_grant,
)
from vibe_jupyter.agent.call_context import CallContext, Decided, PreparedCall, RefusedCall, prepare_call
from vibe_jupyter.agent.hooked_calls import has_hooks
from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import Approve, Ask, Review, ToolCall
from vibe_jupyter.tools.contract import PrecheckedTool

_NEW: Hashable = ("cell", "new")
"""What several changes may touch: each makes a cell of its own."""


class _Change(NamedTuple):
    prepared: PreparedCall
    ask: Ask
    card: ApprovalCard


async def review_changes(calls: Sequence[ToolCall], call_context: CallContext) -> None:
    """Ask for the changes that these calls begin with, if there are several to ask for.

    Args:
        calls: the calls of an answer that have no result yet.
        call_context: of the run.

    Raises:
        JournalError: a question could not be recorded.
        asyncio.CancelledError: the run was interrupted; nothing is allowed.
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
    """Those that need approval among the first changes in a row, none of which depends on another."""
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
        if not await _can_be_done(prepared):
            break
        card = await make_card(prepared, decision, call_context)
        if card.risk != "high":
            found.append(_Change(prepared, decision, card))
    return found


def _changed(prepared: PreparedCall) -> set[Hashable]:
    """Which cells and files it changes; empty for a call that is no change."""
    if not any(one.kind in ("cell", "path") and one.access == "write" for one in prepared.touched):
        return set()
    places = {one: str(place.path) for one, place in prepared.places.items()}
    return {(one.kind, places.get(one.value, one.value)) for one in prepared.touched if one.kind in ("cell", "path")}


async def _can_be_done(prepared: PreparedCall) -> bool:
    if isinstance(prepared.tool, PrecheckedTool):
        try:
            await prepared.tool.precheck(prepared.args)
        except ToolError:
            return False
    return True


async def _ask_for(change: _Change, review: Review, call_context: CallContext) -> None:
    """Ask for one of them, and keep what was said for its turn."""
    prepared, ask, card = change
    approved: PreparedCall | RefusedCall = prepared

    def apply_edits(command: Approve) -> PreparedCall | RefusedCall:
        nonlocal approved
        approved = edited_call(prepared, command, call_context)
        return approved

    waiting = PendingApproval(card._replace(review=review), call_context.approvals, call_context.emit)
    command = await waiting.ask(apply_edits)
    if isinstance(approved, RefusedCall):
        return  # as it was edited it is none: its turn says why
    call_context.equal.keep(prepared.sent, prepared.digest, Decided(command, waiting.approval()))
    if isinstance(command, Approve):
        remember_grant(approved, ask, command, call_context)
