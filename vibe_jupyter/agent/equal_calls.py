"""Comparison of calls by what they do, ignoring explanations, whitespace and comments."""

import ast
import json
import math
import posixpath
import shlex
from collections.abc import Mapping
from typing import Final, cast

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.protocol import ToolCall

# Arguments in which models explain a call
EXPLAINING: Final = frozenset(
    {
        "explanation",
        "intent",
        "justification",
        "purpose",
        "rationale",
        "reason",
        "reasoning",
        "thought",
        "thoughts",
        "why",
    }
)
DESCRIPTION: Final = "description"  # another one, next to code or a command; elsewhere it may be the content to write
# Arguments that are executed; in source that is only written, comments and layout matter
CODE: Final = frozenset({"code"})
COMMANDS: Final = frozenset({"command", "cmd"})
PATHS: Final = frozenset({"directory", "file", "file_path", "filename", "folder", "path"})
MOST_CODE: Final = 20_000  # characters; longer arguments aren't parsed
_BLANK: Final = lazy_pattern(r"\s+")
_COMMENT: Final = lazy_pattern(r"(?:^|[ \t])#")
# Also matches an assignment before a command, which would become a command if quoted
_SHELL_SYNTAX: Final = lazy_pattern(r"[;|&<>*?~\\$`({\[!\r]|^\S*=")


def deed_of(call: ToolCall) -> str:
    """Return a canonical text that is equal for two calls of one tool that do the same."""
    try:
        arguments: object = json.loads(call.arguments or "{}")
    except ValueError:
        return call.arguments
    if not isinstance(arguments, dict):
        return call.arguments
    given = {name: value for name, value in cast("Mapping[str, object]", arguments).items() if value is not None}
    explaining = EXPLAINING if given.keys().isdisjoint(CODE | COMMANDS) else EXPLAINING | {DESCRIPTION}
    # If a tool takes no other arguments, the explanation is its input.
    kept = {name: value for name, value in given.items() if name not in explaining} or given
    return json.dumps({name: _plain(name, value) for name, value in kept.items()}, sort_keys=True)


def _plain(name: str, value: object) -> object:
    match value:
        case str() if name in CODE:
            return _plain_code(value)
        case str() if name in COMMANDS:
            return _plain_command(value)
        case str() if name in PATHS:
            return posixpath.normpath(value.strip()) if value.strip() else ""
        case str():
            return value if "\n" in value else _BLANK.sub(" ", value).strip()  # line layout may matter
        case float() if math.isfinite(value) and value.is_integer():
            return int(value)
        case dict():
            return {key: _plain(key, one) for key, one in cast("dict[str, object]", value).items() if one is not None}
        case list():
            return [_plain("", one) for one in cast("list[object]", value)]
        case _:
            return value


def _plain_code(code: str) -> str:
    """Return the syntax tree of Python code as text.

    Code that is too long or can't be parsed, such as code with magics, only loses blank lines and trailing spaces.
    """
    if len(code) <= MOST_CODE:
        try:
            return ast.dump(ast.parse(code))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
    return "\n".join(line.rstrip() for line in code.strip().splitlines() if line.strip())


def _plain_command(command: str) -> str:
    """Normalize the whitespace and quotes of a simple command, and remove its comment.

    Any other command is left unchanged: `shlex` only understands arguments and quotes, while a shell has further
    syntax, such as `*`, whose meaning quotes change.
    """
    command = command.strip()
    if len(command) <= MOST_CODE and "\n" not in command:
        before, *_ = _COMMENT.split(command, maxsplit=1)
        if not _SHELL_SYNTAX.search(before):
            try:
                return shlex.join(shlex.split(before))
            except ValueError:  # for example a # in quotes
                pass
    return command
