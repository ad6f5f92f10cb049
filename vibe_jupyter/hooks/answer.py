"""Parsing of a hook's verdict: its exit code, and JSON on stdout with the fields of Mistral Vibe or Claude Code.

The fields of both programs are honored in either form: a script shared between them must not be misread as "allow".
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from pydantic import JsonValue

from vibe_jupyter.hooks.definition import Hook
from vibe_jupyter.tools.process import FinishedCommand

REASON_LIMIT: Final = 2_000  # characters
CONTEXT_LIMIT: Final = 8_000  # characters
_DENIES: Final = frozenset({"deny", "block", "reject"})
_ALLOWS: Final = frozenset({"allow", "approve", "accept", "defer", "none", ""})
_BLOCKED: Final = 2  # exit code with which Claude Code's hooks block; the reason is on stderr


class HookAnswer(NamedTuple):
    """A hook's verdict. No field of it allows anything."""

    denies: bool = False
    asks: bool = False
    stops: bool = False  # True if the agent must end its run
    reason: str = ""
    context: str = ""  # text for the model
    message: str = ""  # text for the user
    arguments: dict[str, JsonValue] | None = None  # the call's arguments as rewritten by the hook


class HookFailure(NamedTuple):
    """Failure of a hook to give a verdict."""

    reason: str


def read_answer(hook: Hook, done: FinishedCommand) -> HookAnswer | HookFailure:
    """Return the verdict of a hook that has ended."""
    if done.ended == "timeout":
        return HookFailure(f"it was ended after {hook.timeout:g} s")
    if done.returncode:
        said = cut(done.stderr.strip() or done.stdout.strip(), REASON_LIMIT)
        if done.returncode == _BLOCKED:
            return HookAnswer(denies=True, reason=said)
        return HookFailure(f"exit code {done.returncode}" + (f": {said}" if said else ""))
    text = done.stdout.strip()
    # Claude Code treats output that isn't JSON as a log.
    if not text or (hook.form == "claude" and not text.startswith("{")):
        return HookAnswer()
    if done.was_truncated:
        return HookFailure("it printed too much")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return HookFailure("its output is not JSON")
    if not isinstance(value, Mapping):
        return HookFailure("its output is not a JSON object")
    return _verdict(cast("Mapping[str, Any]", value))


def _verdict(said: Mapping[str, Any]) -> HookAnswer | HookFailure:
    specific = _table(said, "hookSpecificOutput", "hook_specific_output")
    decisions = [_text(said, "decision"), _text(specific, "permissionDecision", "permission_decision")]
    known = _DENIES | _ALLOWS | {"ask"}
    if unknown := next((one for one in decisions if one not in known), None):
        return HookFailure(f"its decision {cut(unknown, 60)!r} is not known")
    stops = said.get("continue") is False
    reasons = (
        _text(specific, "permissionDecisionReason", "permission_decision_reason"),
        _text(said, "reason"),
        _text(said, "stopReason") if stops else "",
    )
    rewritten = _table(specific, "updatedInput", "tool_input", "updated_input")
    return HookAnswer(
        denies=stops or not _DENIES.isdisjoint(decisions),
        asks="ask" in decisions,
        stops=stops,
        reason=cut(next(filter(None, reasons), ""), REASON_LIMIT),
        context=cut(_text(specific, "additionalContext", "additional_context"), CONTEXT_LIMIT),
        message=cut(_text(said, "systemMessage", "system_message"), REASON_LIMIT),
        arguments=dict(rewritten) if rewritten else None,
    )


def _table(said: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    found = next((said[key] for key in keys if isinstance(said.get(key), Mapping)), None)
    return cast("Mapping[str, Any]", found or {})


def _text(said: Mapping[str, Any], *keys: str) -> str:
    value = next((said[key] for key in keys if said.get(key) is not None), "")
    return value if isinstance(value, str) else json.dumps(value)


def cut(text: str, limit: int) -> str:
    """Truncate a text, noting how many characters were left out."""
    return text if len(text) <= limit else f"{text[:limit]} [… {len(text) - limit:,} more characters left out]"
