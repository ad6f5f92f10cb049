"""The user's hooks around tool calls and at the end of a run, and their messages to the model and the user.

The output of a hook is data from the user's own program. It is truncated, quoted and attributed to the hook, and it
never reaches the model if no values of the user's data may be sent.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from vibe_jupyter.agent.call_context import CallContext, PreparedCall, RefusedCall, error_message, prepare_call
from vibe_jupyter.hooks.definition import Hook
from vibe_jupyter.hooks.runner import CallVerdict, HookedCall, HookedResult
from vibe_jupyter.llm.json_text import parse_json_object
from vibe_jupyter.permissions.decide import tool_names
from vibe_jupyter.protocol import MessageAdded, Notice, TextPart, ToolResult, UserMessage
from vibe_jupyter.tools.contract import FORMER_NAMES

_WITHOUT_WORDS: Final = "its words are not sent, since the user's privacy mode sends no values"
_SUMMARY_LIMIT: Final = 200  # characters


class ScreenedResult(NamedTuple):
    """A tool result after the hooks have processed it."""

    result: ToolResult
    notes: tuple[str, ...] = ()  # texts of hooks for the model, appended to the result
    is_withheld: bool = False


def has_hooks(prepared: PreparedCall, call_context: CallContext) -> bool:
    """Return whether a hook judges the call before it runs."""
    hooks = call_context.permissions.hooks
    return hooks is not None and hooks.judges(_names(prepared))


async def screen_call(prepared: PreparedCall, call_context: CallContext) -> PreparedCall | RefusedCall:
    """Run the pre_tool hooks on a call. Returns the call as they rewrote it, or a refusal.

    Raises:
        JournalError: a notice can't be recorded.
        asyncio.CancelledError: the run was interrupted. The hook has been terminated.
    """
    hooks = call_context.permissions.hooks
    if hooks is None:
        return prepared
    verdict = await hooks.before_call(_hooked(prepared))
    await _notify(verdict.notices, call_context)
    if verdict.denied_by is not None:
        return await _denied(prepared, verdict, verdict.denied_by, call_context)
    screened = prepared
    if verdict.arguments is not None and verdict.rewritten_by is not None:
        arguments = json.dumps(verdict.arguments, ensure_ascii=False)
        call = prepared.call.model_copy(update={"arguments": arguments})
        again = prepare_call(call, call_context.tools, call_context.permissions.workspace)
        if isinstance(again, RefusedCall):
            return again
        screened = replace(again, sent=prepared.sent)
        await _notify([f"The hook {verdict.rewritten_by.title} rewrote the call."], call_context)
    notes = [_context_note(hook, text, call_context) for hook, text in verdict.contexts]
    if verdict.arguments is not None and verdict.rewritten_by is not None:
        notes.append(
            f"The user's hook {verdict.rewritten_by.title} rewrote the call; what ran: {screened.call.arguments}"
        )
    asks = ""
    if verdict.asked_by is not None:
        asks = f"the hook {verdict.asked_by.title} wants you to decide"
        asks += f": {verdict.reason}" if verdict.reason else ""
    return replace(screened, notes=tuple(notes), asks=asks)


async def screen_edited(prepared: PreparedCall, call_context: CallContext) -> PreparedCall | RefusedCall:
    """Run the pre_tool hooks again on a call that the user edited on its card. They can only deny it now."""
    hooks = call_context.permissions.hooks
    if hooks is None:
        return prepared
    verdict = await hooks.before_call(_hooked(prepared))
    if verdict.denied_by is None:
        return prepared
    return await _denied(prepared, verdict, verdict.denied_by, call_context)


async def screen_result(
    prepared: PreparedCall, result: ToolResult, call_context: CallContext, *, seconds: float
) -> ScreenedResult:
    """Run the post_tool hooks on a result. They can withhold it and add texts for the model."""
    hooks = call_context.permissions.hooks
    if hooks is None:
        return ScreenedResult(result, prepared.notes)
    text = "\n".join(part.text for part in result.parts if isinstance(part, TextPart))
    seen = HookedResult(text, result.details, result.is_error, seconds)
    verdict = await hooks.after_call(_hooked(prepared), seen)
    await _notify(verdict.notices, call_context)
    hook = verdict.withheld_by
    if hook is not None:
        told = f"The call has run, and the user's hook {hook.title} withheld its result."
        result = ToolResult.error(f"{told} {_its_words(verdict.reason, call_context)}", summary=result.summary)
        await _notify(
            [f"The hook {hook.title} withheld the result: {verdict.reason or 'no reason given'}"], call_context
        )
        if verdict.stops:
            call_context.stop(f"The hook {hook.title} ended the run.")
    notes = (*prepared.notes, *(_context_note(one, text, call_context) for one, text in verdict.contexts))
    return ScreenedResult(result, notes, is_withheld=hook is not None)


async def screen_end(agent: str, answer: str, call_context: CallContext, *, is_main: bool, retried: int) -> bool:
    """Run the post_agent hooks when a run is about to end.

    Returns True if one makes the agent continue. The reason has then been sent to the model.
    """
    hooks = call_context.permissions.hooks
    if hooks is None:
        return False
    verdict = await hooks.after_run(agent, is_main=is_main, retried=retried, text=answer)
    await _notify(verdict.notices, call_context)
    hook = verdict.sent_on_by
    if hook is None:
        return False
    await _notify([f"The hook {hook.title} sent the agent on: {verdict.reason or 'no reason given'}"], call_context)
    said = f"The user's hook {hook.title} does not accept this answer. {_its_words(verdict.reason, call_context)}"
    added = call_context.redactor.value(UserMessage(parts=(TextPart(text=said),)))
    await call_context.emit(MessageAdded(message=added))
    return True


async def _denied(prepared: PreparedCall, verdict: CallVerdict, hook: Hook, call_context: CallContext) -> RefusedCall:
    how = "could not judge this call, so it is denied" if verdict.has_failed else "denied this call"
    told = f"Not run: the user's hook {hook.title} {how}. {_its_words(verdict.reason, call_context)}"
    summary = f"the hook {hook.title} {how}" + (f": {verdict.reason}" if verdict.reason else "")
    if verdict.has_failed:
        await _notify([f"The hook {hook.title} failed, and the call was denied: {verdict.reason}."], call_context)
    if verdict.stops:
        call_context.stop(f"The hook {hook.title} ended the run.")
    message = error_message(prepared.call, told)
    return RefusedCall(message, prepared.headline, denied=True, summary=summary[:_SUMMARY_LIMIT])


def _its_words(reason: str, call_context: CallContext) -> str:
    if not reason:
        return "It gives no reason."
    return f"({_WITHOUT_WORDS}.)" if call_context.schema_only else f"It says: {reason}"


def _context_note(hook: Hook, text: str, call_context: CallContext) -> str:
    if call_context.schema_only:
        return f"The user's hook {hook.title} has a note on this call; {_WITHOUT_WORDS}."
    return f"Note of the user's hook {hook.title}: {text}"


async def _notify(texts: Sequence[str], call_context: CallContext) -> None:
    for text in texts:
        await call_context.emit(Notice(level="warning", text=text))


def _names(prepared: PreparedCall) -> Sequence[str]:
    name = prepared.tool.name
    return (*tool_names(prepared.tool).all, *FORMER_NAMES.get(name, ()))


def _hooked(prepared: PreparedCall) -> HookedCall:
    return HookedCall(
        id=prepared.call.id,
        tool=prepared.tool.name,
        names=_names(prepared),
        arguments=parse_json_object(prepared.call.arguments),
        paths={given: place.path for given, place in prepared.places.items()},
    )
