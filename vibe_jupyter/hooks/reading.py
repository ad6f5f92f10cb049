"""Conversion of a parsed file, in either form, to hooks.

Mistral Vibe's form is a list of `[[hooks]]`. Claude Code's is a table of events, each with matchers and their commands,
as in `settings.json`; `hooks.toml` may contain it as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.hooks.definition import DEFAULT_TIMEOUT, LONGEST_TIMEOUT, Hook, HookEvent, check_matcher

M = TypeVar("M", bound=BaseModel)

MOST_HOOKS: Final = 100  # number of hooks in one file
# Names of events in Mistral Vibe 3 and in its release 2.18.
VIBE_EVENTS: Final[Mapping[str, HookEvent]] = {
    "pre_tool": "pre_tool",
    "post_tool": "post_tool",
    "post_agent": "post_agent",
    "before_tool": "pre_tool",
    "after_tool": "post_tool",
    "post_agent_turn": "post_agent",
}
# Events with an equivalent here, and whether they are only for sub-agents or only for the main agent.
CLAUDE_EVENTS: Final[Mapping[str, tuple[HookEvent, bool | None]]] = {
    "PreToolUse": ("pre_tool", None),
    "PostToolUse": ("post_tool", None),
    "PostToolUseFailure": ("post_tool", None),
    "Stop": ("post_agent", False),
    "SubagentStop": ("post_agent", True),
}
# Events of Claude Code that report and can't refuse anything; any other unsupported event would narrow.
HARMLESS_EVENTS: Final = frozenset(
    {"Notification", "SessionStart", "SessionEnd", "SubagentStart", "PreCompact", "PostCompact", "Setup"}
    | {"InstructionsLoaded", "CwdChanged", "FileChanged", "WorktreeCreate", "WorktreeRemove", "StopFailure"}
)
# Keys of a Claude Code handler that are supported or irrelevant to a guard.
_HARMLESS_KEYS: Final = frozenset({"type", "command", "timeout", "statusMessage", "description", "async", "once"})


class HookFile(NamedTuple):
    """Hooks of one file."""

    hooks: tuple[Hook, ...] = ()
    # Unsupported entries that would narrow, by their place in the file, such as `hooks.UserPromptSubmit`.
    unheeded: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()  # unsupported entries that can't narrow anything


class _VibeHook(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1)
    type: str
    command: str
    match: str | None = None
    matcher: str | None = None
    timeout: float = Field(default=DEFAULT_TIMEOUT, gt=0, le=LONGEST_TIMEOUT)
    strict: bool = False
    description: str | None = None
    enabled: bool = True


class _ClaudeHandler(BaseModel):
    model_config = ConfigDict(extra="ignore")

    command: str
    timeout: float = Field(default=DEFAULT_TIMEOUT, gt=0)


def read_hooks(content: Mapping[str, Any], path: Path) -> HookFile:
    """Return the hooks of a file.

    Args:
        content: The parsed file.
        path: Path of the file.

    Raises:
        ConfigError: An entry is invalid; the message names the file and the entry.
    """
    declared = content.get("hooks")
    if declared is None or content.get("disableAllHooks") is True:
        return HookFile()
    if isinstance(declared, Mapping):
        found = _read_claude(cast("Mapping[str, Any]", declared), path)
    elif isinstance(declared, Sequence) and not isinstance(declared, str):
        found = _read_vibe(cast("Sequence[Any]", declared), path)
    else:
        raise _wrong(path, "hooks", "expected [[hooks]] entries, or a table of events")
    if len(found.hooks) > MOST_HOOKS:
        raise _wrong(path, "hooks", f"{len(found.hooks)} hooks; at most {MOST_HOOKS} are run")
    return found


def _read_vibe(entries: Sequence[Any], path: Path) -> HookFile:
    hooks: list[Hook] = []
    unheeded: list[str] = []
    for number, entry in enumerate(entries, start=1):
        place = f"hooks[{number}]"
        read = _validated(_VibeHook, entry, path, place)
        event = VIBE_EVENTS.get(read.type)
        if event is None:
            raise _wrong(path, f"{place}.type", f"{read.type!r} is none of pre_tool, post_tool, post_agent")
        if read.strict and event == "post_agent":
            raise _wrong(path, f"{place}.strict", "only hooks of tools (pre_tool, post_tool) can be strict")
        if not read.enabled:
            continue
        match = read.match if read.match is not None else read.matcher
        if match is not None and not match.strip():
            raise _wrong(path, f"{place}.match", "it is empty; leave it out for every tool")
        hooks.append(
            Hook(
                name=read.name,
                event=event,
                command=_command(read.command, path, place),
                form="vibe",
                source=path,
                match=_matcher(match or "*", "vibe", path, place),
                timeout=read.timeout,
                strict=read.strict,
            )
        )
        unheeded += [f"{place}.{key}" for key in entry if key not in _VibeHook.model_fields]
    return HookFile(tuple(hooks), tuple(unheeded))


def _read_claude(events: Mapping[str, Any], path: Path) -> HookFile:
    hooks: list[Hook] = []
    unheeded: list[str] = []
    unused: list[str] = []
    for name, rules in events.items():
        if name in HARMLESS_EVENTS:
            unused.append(f"hooks.{name}")
        elif name not in CLAUDE_EVENTS:
            unheeded.append(f"hooks.{name}")
        else:
            for place, rule, handler in _handlers(name, rules, path):
                if reason := _not_run(handler):
                    (unheeded if reason != "async" else unused).append(f"{place}.{reason}")
                else:
                    hooks.append(_claude_hook(name, place, rule, handler, path))
    return HookFile(tuple(hooks), tuple(unheeded), tuple(unused))


def _handlers(name: str, rules: Any, path: Path) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each handler of an event, with its place and its rule."""
    for number, rule in enumerate(_list_of_tables(rules, path, f"hooks.{name}"), start=1):
        place = f"hooks.{name}[{number}]"
        # Some files omit the inner list and put the command beside the matcher.
        handlers = rule.get("hooks", [rule])
        for inner, handler in enumerate(_list_of_tables(handlers, path, f"{place}.hooks"), start=1):
            yield f"{place}.hooks[{inner}]", rule, handler


def _not_run(handler: Mapping[str, Any]) -> str:
    """Return the key that makes a handler unsupported, or "" if it is supported."""
    if handler.get("type", "command") != "command":
        return "type"
    if handler.get("async") is True:
        return "async"
    return next((key for key in handler if key not in _HARMLESS_KEYS and key not in ("matcher", "hooks")), "")


def _claude_hook(name: str, place: str, rule: Mapping[str, Any], handler: Mapping[str, Any], path: Path) -> Hook:
    read = _validated(_ClaudeHandler, handler, path, place)
    event, for_subagents = CLAUDE_EVENTS[name]
    matcher = rule.get("matcher") or "*"
    if not isinstance(matcher, str):
        raise _wrong(path, f"{place}.matcher", "expected text in quotes")
    return Hook(
        name=place,
        event=event,
        command=_command(read.command, path, place),
        form="claude",
        source=path,
        match="*" if event == "post_agent" else _matcher(matcher, "claude", path, place),
        timeout=min(read.timeout, LONGEST_TIMEOUT),
        for_subagents=for_subagents,
    )


def _list_of_tables(value: Any, path: Path, place: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in cast("list[Any]", value)):
        raise _wrong(path, place, "expected a list of tables")
    return cast("list[Mapping[str, Any]]", value)


def _validated(model: type[M], entry: Any, path: Path, place: str) -> M:
    if not isinstance(entry, Mapping):
        raise _wrong(path, place, "expected a table")
    try:
        return model.model_validate(dict(cast("Mapping[str, Any]", entry)))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(map(str, (place, *problem["loc"])))
        raise _wrong(path, key, problem["msg"][:1].lower() + problem["msg"][1:]) from None


def _command(command: str, path: Path, place: str) -> str:
    if not command.strip():
        raise _wrong(path, f"{place}.command", "it is empty")
    return command


def _matcher(pattern: str, form: Literal["vibe", "claude"], path: Path, place: str) -> str:
    if problem := check_matcher(pattern, form):
        raise _wrong(path, f"{place}.match", problem)
    return pattern


def _wrong(path: Path, place: str, problem: str) -> ConfigError:
    return ConfigError(
        f"{path}: {place}: {problem}. A hook that cannot be read guards nothing: fix it, then try again."
    )
