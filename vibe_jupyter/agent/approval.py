"""Approvals: the policy's decision on a call, the card if it asks, and questions to the user."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeVar

from vibe_jupyter.agent.call_context import (
    CallContext,
    Decided,
    PermittedCall,
    PreparedCall,
    RefusedCall,
    ToolStep,
    approval_digest,
    error_message,
    prepare_call,
    refuse_call,
)
from vibe_jupyter.agent.run import ClosedBy, PendingRequests, Run
from vibe_jupyter.errors import ToolError
from vibe_jupyter.llm.json_text import parse_json_object
from vibe_jupyter.permissions.decide import weigh_call
from vibe_jupyter.protocol import (
    WHOLE,
    Answered,
    Approval,
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    Ask,
    DecidedBy,
    Decision,
    Deny,
    Event,
    Headline,
    Preview,
    Question,
    QuestionAnswered,
    QuestionAsked,
    Reject,
    Resource,
    RunFinished,
    ToolCall,
    Usage,
    arguments_text,
)

D = TypeVar("D", Ask, Deny)

NOBODY = "Nobody is here to answer: the notebook runs unattended. Decide by what you know, or say what is missing."

NOT_SHOWN: Final = ""  # approval_id of a card before it is shown
CHANGED_MEANWHILE = "changed meanwhile; this card is up to date"  # reason on a card that replaces an outdated one


class PendingApproval:
    """An approval card, from display to decision or timeout. Single use.

    Only this class shows cards and creates `ApprovalResolved`.
    """

    def __init__(
        self,
        card: ApprovalRequested,
        approvals: PendingRequests[Approve | Reject],
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        self.decided_by: DecidedBy | ClosedBy | Literal["rules"] = "server"  # meaningless before `ask` returns
        self.is_outdated = False  # True if the card was withdrawn
        self._approvals = approvals
        self._emit = emit
        self._request = approvals.open()
        self._card = card.model_copy(update={"approval_id": self._request.id})

    def close(self, by: ClosedBy) -> None:
        """Stop waiting, which counts as a rejection unless a decision has already arrived."""
        self._approvals.deliver(self._request.id, Reject(approval_id=self._request.id), by=by)

    def withdraw(self) -> None:
        """Withdraw a card whose content has changed, which is neither an approval nor a rejection.

        Has no effect if a decision has already arrived.
        """
        if not self._request.answer.done():
            self.is_outdated = True
            self.close("server")

    def approval(self) -> Approval:
        """Return who approved the call, and the time. Call only after the decision."""
        return Approval(by="user" if self.decided_by == "person" else "code", time=_now())

    async def ask(
        self,
        apply_edits: Callable[[Approve], PreparedCall | RefusedCall] | None = None,
        *,
        within: float | None = None,
        cancelled_by: Callable[[], ClosedBy] = lambda: "interrupt",
    ) -> Approve | Reject:
        """Show the card and wait for the decision. The outcome is recorded however the wait ends.

        Args:
            apply_edits: returns the call that an approval allows. If it refuses the edited call, the approval becomes a
                rejection.
            within: timeout in seconds, after which the requesting server stops waiting; None to wait indefinitely.
            cancelled_by: returns who cancelled the wait.

        Raises:
            JournalError: an event can't be recorded. Nothing is allowed.
            asyncio.CancelledError: the wait was cancelled. Nothing is allowed.
        """
        request, arguments = self._request, None
        command: Approve | Reject = Reject(approval_id=request.id)
        try:
            await self._emit(self._card)
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    command = await request.answer
                self.decided_by = "rules" if self.is_outdated else request.by
        except asyncio.CancelledError:
            self.decided_by = cancelled_by()
            await self._emit(self._resolved(command))
            raise
        finally:
            self._approvals.close(request)
        if isinstance(command, Approve) and apply_edits is not None:
            permitted = apply_edits(command)
            if isinstance(permitted, RefusedCall):
                command, self.decided_by = Reject(approval_id=request.id), "rules"
            elif permitted.edited:
                arguments = permitted.call.arguments
        await self._emit(self._resolved(command, arguments))
        return command

    def _resolved(self, command: Approve | Reject, arguments: str | None = None) -> ApprovalResolved:
        remember = command.remember if isinstance(command, Approve) and self._card.remember_as is not None else "once"
        return ApprovalResolved(
            approval_id=self._request.id,
            call_id=self._card.call.id,
            allowed=isinstance(command, Approve),
            remember="session" if remember == "project" and not self._card.keepable else remember,
            by=self.decided_by,
            outdated=self.is_outdated,
            message=command.message if isinstance(command, Reject) else "",
            arguments=arguments,
        )


async def permit_call(
    prepared: PreparedCall, call_context: CallContext, tried: str = ""
) -> PermittedCall | RefusedCall:
    """Permit a call, possibly as edited by the user, or refuse it.

    Args:
        prepared: the call.
        call_context: context of the run.
        tried: text added to the reason: why a trial without side effects failed, what the call would change, or why the
            user is asked again.

    Raises:
        JournalError: the request can't be recorded.
        asyncio.CancelledError: the run was interrupted. Nothing is allowed.
    """
    decision = decide_call(prepared, call_context)
    if isinstance(decision, Ask) and not await call_context.attended():
        decision = decide_call(prepared, call_context._replace(terms=call_context.terms._replace(attended=False)))
    if isinstance(decision, Deny):
        # The operation that was blocked in the trial may contain a value, for example in a file name.
        told = f"({tried})" if tried and not call_context.schema_only else ""
        return _refuse_forbidden(prepared, _with_reason(decision, told, " "))
    if isinstance(decision, Ask):
        return await _ask_if_possible(prepared, _with_reason(decision, tried, " · "), call_context)
    return PermittedCall(prepared, Approval(by="settings", rule=decision.rule, time=_now()))


def may_explore(prepared: PreparedCall, call_context: CallContext) -> bool:
    """Return whether to try a call without side effects first.

    This applies to calls that would ask, and to those that are only allowed in a sandbox. No user needs to be present.
    """
    if prepared.asks or not call_context.permissions.explores(
        prepared.tool, prepared.args, call_context.terms, prepared.judgement
    ):
        return False
    # As if attended: otherwise a call that would ask is already denied.
    decision = decide_call(prepared, call_context._replace(terms=call_context.terms._replace(attended=True)))
    return isinstance(decision, Ask) or (isinstance(decision, Deny) and decision.in_sandbox)


async def may_foresee(prepared: PreparedCall, call_context: CallContext) -> bool:
    """Return whether the user will be asked about a call whose effect can be predicted. Never for external clients."""
    tool = prepared.tool
    if call_context.terms.external or not tool.can_foresee(prepared.args):
        return False
    return isinstance(decide_call(prepared, call_context), Ask) and await call_context.attended()


def _with_reason(decision: D, tried: str, mark: str) -> D:
    return decision.model_copy(update={"reason": f"{decision.reason}{mark}{tried}"}) if tried else decision


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def decide_call(prepared: PreparedCall, call_context: CallContext) -> Decision:
    """Return the policy's decision on a call.

    If one of the user's hooks or the tool itself requires approval, no setting or grant can waive it.
    """
    terms = call_context.terms
    decision = call_context.permissions.decide(prepared.tool, prepared.args, terms, prepared.places, prepared.judgement)
    if not prepared.asks or isinstance(decision, Deny):
        return decision
    if not terms.attended:
        return Deny(reason=f"Not run: {prepared.asks}, and nobody is here to approve it.")
    reason = f"{decision.reason} · {prepared.asks}" if isinstance(decision, Ask) else prepared.asks
    return Ask(reason=reason, remember_as=None)


def _refuse_forbidden(prepared: PreparedCall, deny: Deny) -> RefusedCall:
    message = error_message(prepared.call, deny.reason)
    return RefusedCall(message, prepared.headline, denied=True, summary=deny.reason)


async def _ask_if_possible(prepared: PreparedCall, ask: Ask, call_context: CallContext) -> PermittedCall | RefusedCall:
    try:
        await prepared.tool.precheck(prepared.args)
    except ToolError as error:
        return refuse_call(prepared.call, str(error), prepared.headline)
    return await _reuse_or_ask(prepared, ask, call_context)


async def _reuse_or_ask(prepared: PreparedCall, ask: Ask, call_context: CallContext) -> PermittedCall | RefusedCall:
    """Reuse the user's decision on an identical call of this turn, or show exactly what would run and wait."""
    said = call_context.equal.said(prepared.sent, prepared.digest)
    if said is None:
        return await _show_card(prepared, ask, call_context)
    if isinstance(said.command, Reject):
        return _refuse_denied(prepared, said.command.message)
    edited = edited_call(prepared, said.command, call_context)
    return edited if isinstance(edited, RefusedCall) else PermittedCall(edited, said.approval)


async def make_card(prepared: PreparedCall, ask: Ask, call_context: CallContext) -> ApprovalRequested:
    """Build the approval card for a call in its current state."""
    workspace = call_context.permissions.workspace
    # On a worker thread, because assessing the risk may count files.
    weight = await asyncio.to_thread(weigh_call, prepared.touched, prepared.places, workspace)
    return ApprovalRequested(
        approval_id=NOT_SHOWN,
        call=prepared.call,
        headline=prepared.headline,
        preview=prepared.preview,
        reason=ask.reason + _times_text(call_context.equal.count(prepared.sent)),
        digest=prepared.digest,
        resources=tuple(prepared.touched),
        remember_as=ask.remember_as,
        keepable=ask.keepable,
        allow=weight.label,
        risk=weight.risk,
        effects=weight.effects,
    )


def card_without_tool(
    call: ToolCall,
    headline: Headline,
    preview: Preview,
    reason: str,
    resources: tuple[Resource, ...],
    remember_as: str | None = None,
) -> ApprovalRequested:
    """Build the approval card for an action that isn't a call of one of our tools."""
    return ApprovalRequested(
        approval_id=NOT_SHOWN,
        call=call,
        headline=headline,
        preview=preview,
        reason=reason,
        digest=approval_digest(call, preview),
        resources=resources,
        remember_as=remember_as,
    )


async def _show_card(prepared: PreparedCall, ask: Ask, call_context: CallContext) -> PermittedCall | RefusedCall:
    """Show the call and wait for the user without a time limit."""
    card = await make_card(prepared, ask, call_context)
    approved: PreparedCall | RefusedCall = prepared

    def apply_edits(command: Approve) -> PreparedCall | RefusedCall:
        nonlocal approved
        approved = edited_call(prepared, command, call_context)
        return approved

    waiting = PendingApproval(card, call_context.approvals, call_context.emit)
    async with _closed_by_change(waiting, prepared, call_context):
        command = await waiting.ask(apply_edits)
    if isinstance(approved, RefusedCall):
        return approved
    decided = Decided(command, waiting.approval())
    if isinstance(command, Reject) and not waiting.is_outdated:
        call_context.equal.keep(prepared.sent, prepared.digest, decided)
        return _refuse_denied(prepared, command.message)
    if isinstance(command, Reject) or not await _is_as_shown(prepared, call_context):
        # The card is outdated: ask again with what would run now.
        now = prepare_call(
            approved.call, call_context.tools, call_context.permissions.workspace, edited=approved.edited
        )
        if isinstance(now, RefusedCall):
            return now
        now = replace(now, notes=approved.notes, asks=approved.asks)
        return await permit_call(now, call_context, CHANGED_MEANWHILE)
    call_context.equal.keep(prepared.sent, prepared.digest, decided)
    remember_grant(approved, ask, command, call_context)
    return PermittedCall(approved, decided.approval)


@asynccontextmanager
async def _closed_by_change(
    waiting: PendingApproval, shown: PreparedCall, call_context: CallContext
) -> AsyncGenerator[None]:
    """Withdraw the card as soon as the call would no longer do what it shows."""

    async def watch() -> None:
        while _is_prepared_as_shown(shown, call_context):
            await shown.tool.wait_for_change(shown.args)
            with suppress(ToolError):  # for example while the page reloads
                await shown.tool.look(shown.args)
        waiting.withdraw()

    watching = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _is_as_shown(shown: PreparedCall, call_context: CallContext) -> bool:
    """Return whether the call would still do what was shown. Returns False if that can't be determined."""
    try:
        await shown.tool.look(shown.args)
    except ToolError:
        return False
    return _is_prepared_as_shown(shown, call_context)


def _is_prepared_as_shown(shown: PreparedCall, call_context: CallContext) -> bool:
    """Return whether the same call, prepared now, would have the same effect on the same files."""
    now = prepare_call(shown.call, call_context.tools, call_context.permissions.workspace)
    return isinstance(now, PreparedCall) and now.digest == shown.digest


def remember_grant(approved: PreparedCall, ask: Ask, command: Approve, call_context: CallContext) -> None:
    """Store the grant offered on the card, unless the user edited the call into one that it doesn't cover."""
    if command.remember == "once" or ask.remember_as is None:
        return
    keepable = ask.keepable
    if approved.edited:
        decision = decide_call(approved, call_context)
        if not isinstance(decision, Ask) or decision.remember_as != ask.remember_as:
            return
        keepable = keepable and decision.keepable
    call_context.permissions.grant(ask.remember_as, command.remember if keepable else "session")


def _times_text(count: int) -> str:
    return f" · the agent sent this call {count} times: your answer holds for each" if count > 1 else ""


def edited_call(prepared: PreparedCall, command: Approve, call_context: CallContext) -> PreparedCall | RefusedCall:
    """Apply the user's edit of the displayed argument to the call. A denied call remains denied."""
    edits = prepared.preview.edits
    if command.edited is None or edits is None:
        return prepared
    given = parse_json_object(prepared.call.arguments)
    if command.edited == (arguments_text(given) if edits == WHOLE else getattr(prepared.args, edits)):
        return prepared
    try:
        arguments = parse_json_object(command.edited) if edits == WHOLE else {**given, edits: command.edited}
    except ValueError as error:
        return refuse_call(prepared.call, f"The user edited the call, but it is no longer one JSON object: {error}.")
    call = prepared.call.model_copy(update={"arguments": json.dumps(arguments, ensure_ascii=False)})
    edited = prepare_call(call, call_context.tools, call_context.permissions.workspace, prepared.places, edited=True)
    if isinstance(edited, RefusedCall):
        return refuse_call(prepared.call, f"The user edited the call, but: {edited.summary}")
    edited = replace(edited, notes=prepared.notes)
    decision = decide_call(edited, call_context)
    return _refuse_forbidden(edited, decision) if isinstance(decision, Deny) else edited


def _refuse_denied(prepared: PreparedCall, words: str) -> RefusedCall:
    words = words.strip()
    text = "The user denied this call; it was not run."
    if words:
        text += f" Their message: {words}"
    summary = f"“{words}”" if words else ""
    return RefusedCall(error_message(prepared.call, text), prepared.headline, denied=True, summary=summary)


async def ask_user(
    questions: Sequence[Question], call_context: CallContext, *, call_id: str, asker: str
) -> tuple[Answered, ...] | None:
    """Ask the user and wait without a time limit. Returns None if there are no answers.

    Raises:
        ToolError: no user is present to answer.
        JournalError: the question can't be recorded.
        CancelledError: the run was interrupted, or the answer is no longer needed.
    """
    if not await call_context.attended():
        raise ToolError(NOBODY)
    waiting = call_context.questions.open()
    answers: tuple[Answered, ...] | None = None
    by: DecidedBy | ClosedBy = "interrupt"
    try:
        await call_context.emit(
            QuestionAsked(question_id=waiting.id, call_id=call_id, asker=asker, questions=tuple(questions))
        )
        answers = (await waiting.answer).answers
        by = waiting.by
    except asyncio.CancelledError:
        by = "interrupt" if call_context.cancelled() else "server"
        raise
    finally:
        call_context.questions.close(waiting)
        await call_context.emit(QuestionAnswered(question_id=waiting.id, call_id=call_id, answers=answers, by=by))
    return answers


class StandaloneApproval(NamedTuple):
    """An approval request that doesn't belong to a tool call."""

    name: str  # shown in the place of a tool name
    headline: Headline
    preview: Preview
    reason: str  # why approval is needed
    allow: str  # label of the approve button
    bound_to: str  # state that the approval is bound to, in addition to what is shown
    yes: str  # outcome shown after approval
    no: str  # outcome shown after rejection


class StandaloneApprovalRun:
    """A run with a single card and no model. It isn't journaled: the caller stores the decision."""

    def __init__(self, approval: StandaloneApproval) -> None:
        self.allowed: bool | None = None  # the user's decision, or None if there was none
        self.run = Run(self._ask_and_wait)
        self._approval = approval

    async def _ask_and_wait(self, run: Run) -> None:
        began = time.monotonic()
        approval = self._approval

        async def emit(event: Event) -> None:
            run.emit(event)

        async def ask() -> None:
            command = await PendingApproval(_standalone_card(approval), run.approvals, emit).ask()
            self.allowed = isinstance(command, Approve)

        await run.guard(ask())
        step = ToolStep(approval.name, approval.headline, id=approval.name)
        match self.allowed:
            case True:
                run.emit(step.finished("ok", approval.yes))
            case False:
                run.emit(step.finished("denied", approval.no))
            case None:
                run.emit(step.finished("interrupted", "not decided"))
        reason = "interrupted" if self.allowed is None else "stop"
        waited = run.waited
        seconds = round(max(0.0, time.monotonic() - began - waited), 3)
        run.emit(RunFinished(reason=reason, turns=0, seconds=seconds, waited=round(waited, 3), usage=Usage()))


def _standalone_card(approval: StandaloneApproval) -> ApprovalRequested:
    call = ToolCall(id=approval.name, name=approval.name, arguments="{}")
    return ApprovalRequested(
        approval_id=NOT_SHOWN,
        call=call,
        headline=approval.headline,
        preview=approval.preview,
        reason=approval.reason,
        digest=approval_digest(call, approval.preview, (approval.headline.target, approval.bound_to)),
        resources=(),
        remember_as=None,
        allow=approval.allow,
    )
