"""Execution of hooks around tool calls and at the end of runs.

A hook is a shell command with JSON on stdin. It runs like the commands of the `bash` tool: without keys in its
environment, with bounded output, and its child processes are killed with it.
"""

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.errors import ToolError
from vibe_jupyter.hooks.answer import HookAnswer, HookFailure, read_answer
from vibe_jupyter.hooks.definition import Hook, HookEvent
from vibe_jupyter.hooks.tool_aliases import own_arguments, shown_arguments
from vibe_jupyter.tools.child_environment import child_environment
from vibe_jupyter.tools.process import ShellCommand, run_command
from vibe_jupyter.tools.shell_path import find_shell, why_no_shell

OUTPUT_LIMIT: Final = 1_000_000  # bytes of each stream; the rest is dropped
TEXT_LIMIT: Final = 1_000_000  # characters of a result sent to a hook
MOST_RETRIES: Final = 3  # how many times post_agent hooks may make the agent continue in one run
# Passes of all hooks over a call; after a rewrite each hook judges it again, and a second rewrite is refused.
_PASSES: Final = 2
# Stdin is a file: a pipe would block unless the hook reads it, and an argument is limited to 128 kB.
_WITH_STDIN: Final = 'exec <"$1" && shift && exec "$@"'
_CLAUDE_EVENTS: Final[Mapping[HookEvent, str]] = {
    "pre_tool": "PreToolUse",
    "post_tool": "PostToolUse",
    "post_agent": "Stop",
}


class HookPlace(NamedTuple):
    """Folder, environment and session of hooks."""

    folder: Path
    environ: Mapping[str, str]
    # Returns the session's id and the folder of its transcript.
    session: Callable[[], tuple[str, str]] = lambda: ("", "")


class HookedCall(NamedTuple):
    """A tool call as seen by hooks."""

    id: str
    tool: str
    names: Sequence[str]  # all names of the tool, its own first
    arguments: Mapping[str, JsonValue]
    paths: Mapping[str, Path] = {}  # resolved paths of the arguments


class HookedResult(NamedTuple):
    """A tool call's result as seen by hooks."""

    text: str
    details: Mapping[str, JsonValue]
    is_error: bool
    seconds: float


class CallVerdict(NamedTuple):
    """Combined verdict of pre_tool hooks on a call."""

    denied_by: Hook | None = None
    asked_by: Hook | None = None
    reason: str = ""  # reason of the hook that denies or asks
    has_failed: bool = False  # True if the hook denies because it couldn't judge the call
    stops: bool = False
    arguments: dict[str, JsonValue] | None = None  # the rewritten arguments, or None if no hook changed them
    rewritten_by: Hook | None = None
    contexts: tuple[tuple[Hook, str], ...] = ()  # texts for the model
    notices: tuple[str, ...] = ()  # texts for the user


class ResultVerdict(NamedTuple):
    """Combined verdict of post_tool hooks on a result."""

    withheld_by: Hook | None = None
    reason: str = ""
    stops: bool = False
    contexts: tuple[tuple[Hook, str], ...] = ()
    notices: tuple[str, ...] = ()


class RunVerdict(NamedTuple):
    """Combined verdict of post_agent hooks on a run that is about to end."""

    sent_on_by: Hook | None = None
    reason: str = ""
    notices: tuple[str, ...] = ()


class CommandHooks:
    """All active hooks in execution order: a project's first, so that the user's own have the final say."""

    def __init__(self, hooks: Sequence[Hook], place: HookPlace, *, retries: int = MOST_RETRIES) -> None:
        """Store the hooks without running any.

        Args:
            hooks: The hooks that may run.
            place: Folder, environment and session.
            retries: How many times they may make the agent continue in one run.
        """
        self.hooks = tuple(hooks)
        self.retries = retries
        self._place = place

    def judges(self, names: Sequence[str]) -> bool:
        """Return whether a pre_tool hook selects a tool with these names."""
        return bool(self._selecting("pre_tool", names))

    async def before_call(self, call: HookedCall) -> CallVerdict:
        """Run the pre_tool hooks that select the call. A failing hook denies it."""
        verdict = CallVerdict()
        given = dict(call.arguments)
        for _ in range(_PASSES):
            before, verdict = given, await self._judge(call._replace(arguments=given), verdict)
            given = verdict.arguments if verdict.arguments is not None else given
            if verdict.denied_by is not None or given == before:
                break
        else:
            return verdict._replace(
                denied_by=verdict.rewritten_by, has_failed=True, reason="it rewrites each call that it has rewritten"
            )
        return verdict if given != call.arguments else verdict._replace(arguments=None, rewritten_by=None)

    async def _judge(self, call: HookedCall, verdict: CallVerdict) -> CallVerdict:
        """Run one pass of all hooks. Each sees the arguments as rewritten by the hooks before it."""
        given = dict(call.arguments)
        for hook, name in self._selecting("pre_tool", call.names):
            shown = shown_arguments(call.tool, given, call.paths)
            payload = {"tool_name": name, "tool_input": shown, **_call_id(hook, call.id)}
            answer = await self._run(hook, payload)
            if isinstance(answer, HookFailure):
                return verdict._replace(denied_by=hook, has_failed=True, reason=answer.reason)
            verdict = _noted(verdict, hook, answer)
            if answer.denies:
                return verdict._replace(denied_by=hook, reason=answer.reason, stops=answer.stops)
            if answer.asks and verdict.asked_by is None:
                verdict = verdict._replace(asked_by=hook, reason=answer.reason)
            if answer.arguments is not None:
                now = own_arguments(call.tool, shown, given, answer.arguments)
                if now != given:
                    given, verdict = now, verdict._replace(arguments=now, rewritten_by=hook)
        return verdict

    async def after_call(self, call: HookedCall, result: HookedResult) -> ResultVerdict:
        """Run the post_tool hooks that select the call."""
        verdict = ResultVerdict()
        for hook, name in self._selecting("post_tool", call.names):
            shown = shown_arguments(call.tool, call.arguments, call.paths)
            payload = {"tool_name": name, "tool_input": shown, **_call_id(hook, call.id), **_result(hook, result)}
            answer = await self._run(hook, payload)
            if isinstance(answer, HookFailure):
                text = f"The hook {hook.title} failed after the call: {answer.reason}."
                if hook.strict and verdict.withheld_by is None:
                    text += " It is strict: the model does not get the result."
                    verdict = verdict._replace(withheld_by=hook, reason=f"it failed: {answer.reason}")
                verdict = verdict._replace(notices=(*verdict.notices, text))
                continue
            contexts = ((hook, answer.context),) if answer.context else ()
            verdict = verdict._replace(
                contexts=(*verdict.contexts, *contexts), notices=(*verdict.notices, *_message(hook, answer))
            )
            if answer.denies and verdict.withheld_by is None:
                verdict = verdict._replace(withheld_by=hook, reason=answer.reason, stops=answer.stops)
        return verdict

    async def after_run(self, agent: str, *, is_main: bool, retried: int, text: str) -> RunVerdict:
        """Run the post_agent hooks. A failing hook lets the run end.

        Args:
            agent: The agent that is about to end.
            is_main: False for a sub-agent.
            retried: How many times hooks have already made it continue.
            text: Its last answer.
        """
        notices: list[str] = []
        for hook in self.hooks:
            if hook.event != "post_agent" or not hook.selects_agent(agent, is_main=is_main):
                continue
            theirs = {"stop_hook_active": retried > 0, "last_assistant_message": text[:TEXT_LIMIT]}
            answer = await self._run(hook, theirs if hook.form == "claude" else {"agent_name": agent})
            if isinstance(answer, HookFailure):
                notices.append(f"The hook {hook.title} failed at the end of the run: {answer.reason}.")
                continue
            notices += _message(hook, answer)
            if answer.denies and not answer.stops:
                if retried < self.retries:
                    return RunVerdict(hook, answer.reason, tuple(notices))
                times = f" It has done so {retried} times in this run, and no more are done." if retried else ""
                notices.append(f"The hook {hook.title} wants the agent to go on.{times} It says: {answer.reason}")
        return RunVerdict(notices=tuple(notices))

    def _selecting(self, event: HookEvent, names: Sequence[str]) -> list[tuple[Hook, str]]:
        found = ((hook, hook.matched_name(names)) for hook in self.hooks if hook.event == event)
        return [(hook, name) for hook, name in found if name is not None]

    async def _run(self, hook: Hook, payload: Mapping[str, JsonValue]) -> HookAnswer | HookFailure:
        place = self._place
        shell = find_shell()
        if shell is None:
            return HookFailure(f"it cannot be started: {why_no_shell()}")
        session, transcript = place.session()
        is_claude = hook.form == "claude"
        whole = {
            "session_id": session,
            "transcript_path": transcript,
            "cwd": str(place.folder),
            "hook_event_name": _claude_event(hook) if is_claude else hook.event,
            **({"permission_mode": "default"} if is_claude else {"parent_session_id": None}),
            **payload,
        }
        try:
            with tempfile.NamedTemporaryFile("wb", prefix="vibe-hook-", suffix=".json") as stdin:
                stdin.write(json.dumps(whole).encode("utf-8", "surrogatepass"))
                stdin.flush()
                run = (shell, "--noprofile", "--norc", "-c", hook.command)
                command = ShellCommand(
                    argv=(shell, "--noprofile", "--norc", "-c", _WITH_STDIN, "hook", stdin.name, *run),
                    folder=place.folder,
                    environment={**child_environment(place.environ), "CLAUDE_PROJECT_DIR": os.fspath(place.folder)},
                    timeout=hook.timeout,
                    output_limit=OUTPUT_LIMIT,
                )
                return read_answer(hook, await run_command(command, _unshown))
        except (ToolError, OSError) as error:
            return HookFailure(f"it cannot be started: {error}")


def _unshown(_text: str) -> None:
    """Ignore streamed output, because a hook's output is parsed once it has ended."""


def _claude_event(hook: Hook) -> str:
    return "SubagentStop" if hook.for_subagents else _CLAUDE_EVENTS[hook.event]


def _call_id(hook: Hook, call_id: str) -> dict[str, JsonValue]:
    return {"tool_use_id" if hook.form == "claude" else "tool_call_id": call_id}


def _result(hook: Hook, result: HookedResult) -> dict[str, JsonValue]:
    text, details = result.text[:TEXT_LIMIT], dict(result.details)
    if hook.form == "claude":
        return {"tool_response": {**details, "text": text, "is_error": result.is_error}}
    return {
        "tool_status": "failure" if result.is_error else "success",
        "tool_output": None if result.is_error else details,
        "tool_output_text": text,
        "tool_error": text if result.is_error else None,
        "duration_ms": round(result.seconds * 1_000),
    }


def _message(hook: Hook, answer: HookAnswer) -> tuple[str, ...]:
    return (f"The hook {hook.title} says: {answer.message}",) if answer.message else ()


def _noted(verdict: CallVerdict, hook: Hook, answer: HookAnswer) -> CallVerdict:
    contexts = ((hook, answer.context),) if answer.context else ()
    # After a rewrite the same hook runs again: don't repeat its messages.
    notices = [one for one in _message(hook, answer) if one not in verdict.notices]
    contexts = tuple(one for one in contexts if one not in verdict.contexts)
    return verdict._replace(contexts=(*verdict.contexts, *contexts), notices=(*verdict.notices, *notices))
