"""Names of our tools and their arguments in Mistral Vibe and Claude Code.

A guard written for these programs must find our equivalent of a tool. Later spellings come first: the first name that
the matcher selects is the one in the JSON that the hook reads.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.errors import ToolError

Arguments = Mapping[str, JsonValue]
_SAME: Final[Mapping[str, str]] = {}


class Aliases(NamedTuple):
    """Names of a tool in other programs."""

    vibe: tuple[str, ...] = ()
    claude: tuple[str, ...] = ()
    arguments: Mapping[str, str] = _SAME  # our argument names to theirs, which the hook receives in addition


_CELL: Final = {"cell": "cell_id", "source": "new_source"}
TOOLS: Final[Mapping[str, Aliases]] = {
    "bash": Aliases(
        ("bash", "file_system.bash", "file_system_bash", "process_start", "process.start", "git_bash", "powershell"),
        ("Bash",),
    ),
    "read_file": Aliases(
        ("read_file", "read", "file_system.read_file", "file_system_read_file"), ("Read",), {"path": "file_path"}
    ),
    "write_file": Aliases(
        ("write_file", "file_system.write_file", "file_system_write_file"), ("Write",), {"path": "file_path"}
    ),
    "search_replace": Aliases(
        ("edit", "search_replace", "file_system.edit", "file_system_edit"), ("Edit", "MultiEdit")
    ),
    "grep": Aliases(("grep",), ("Grep", "Glob")),
    "todo": Aliases(("todo",), ("TodoWrite", "TodoRead")),
    "task": Aliases(
        ("task", "agents_spawn", "agents.spawn", "agent_spawn"),
        ("Task", "Agent"),
        {"task": "prompt", "agent": "subagent_type"},
    ),
    "skill": Aliases(("skill", "skill.read"), ("Skill",)),
    "ask_user_question": Aliases(("ask_user_question",), ("AskUserQuestion",)),
    "exit_plan_mode": Aliases(("exit_plan_mode",), ("ExitPlanMode",)),
    "edit_cell": Aliases((), ("NotebookEdit",), _CELL),
    "insert_cell": Aliases((), ("NotebookEdit",), _CELL),
    "delete_cells": Aliases((), ("NotebookEdit",)),
    "move_cells": Aliases((), ("NotebookEdit",)),
    "read_notebook": Aliases((), ("NotebookRead",)),
    "run_code": Aliases((), ("mcp__ide__executeCode",)),
    "run_cells": Aliases((), ("mcp__ide__executeCode",)),
}


def names_in(form: Literal["vibe", "claude"], names: Sequence[str]) -> list[str]:
    """Return a tool's names in a form, preferred ones first, then our own, which either form may use."""
    theirs = [name for one in names if one in TOOLS for name in getattr(TOOLS[one], form)]
    return list(dict.fromkeys([*theirs, *names]))


def shown_arguments(tool: str, given: Arguments, paths: Mapping[str, Path]) -> dict[str, JsonValue]:
    """Return the arguments as sent to a hook: ours, and copies under the names that other programs use.

    Args:
        tool: Our name of the tool.
        given: Arguments of the call.
        paths: Resolved paths of the arguments.
    """
    aliases = TOOLS[tool].arguments if tool in TOOLS else _SAME
    more = {theirs: given[ours] for ours, theirs in aliases.items() if ours in given and theirs not in given}
    if tool == "search_replace":
        more |= _replaced_texts(given)
    shown = {**given, **more}
    path = shown.get("file_path")
    if isinstance(path, str) and path in paths:
        shown["file_path"] = str(paths[path])
    return shown


def _replaced_texts(given: Arguments) -> dict[str, JsonValue]:
    content = given.get("content")
    if not isinstance(content, str) or not content:
        return {}
    from vibe_jupyter.files.edits import parse_blocks  # noqa: PLC0415 - the first prompt only needs the names

    try:
        blocks = parse_blocks(content)
    except ToolError:  # the tool rejects it as well
        return {"old_string": "", "new_string": content}
    readings = [reading for block in blocks for reading in block.readings]
    return {
        "old_string": "\n".join(reading.search for reading in readings),
        "new_string": "\n".join(reading.replace for reading in readings),
    }


def own_arguments(tool: str, shown: Arguments, given: Arguments, rewritten: Arguments) -> dict[str, JsonValue]:
    """Convert arguments from a hook back to ours. Values that it didn't change remain as in the call.

    Args:
        tool: Our name of the tool.
        shown: Arguments as sent to the hook.
        given: Arguments of the call.
        rewritten: All arguments as returned by the hook.
    """
    ours_of = {theirs: ours for ours, theirs in (TOOLS[tool].arguments if tool in TOOLS else _SAME).items()}
    changed = {key: value for key, value in rewritten.items() if key not in shown or shown[key] != value}
    kept = {key: value for key, value in given.items() if key in rewritten or _has_alias(key, ours_of, rewritten)}
    if tool == "search_replace" and {"old_string", "new_string"} & changed.keys():
        kept.pop("content", None)
        changed |= {key: rewritten[key] for key in ("old_string", "new_string") if key in rewritten}
    return {**kept, **{ours_of.get(key, key): value for key, value in changed.items()}}


def _has_alias(key: str, ours_of: Mapping[str, str], rewritten: Arguments) -> bool:
    return any(ours == key and theirs in rewritten for theirs, ours in ours_of.items())
