"""`vibe-jupyter permission`: report which commands and paths need approval, and why, for audits. Runs no commands."""

import argparse
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, cast

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.places import OPERATIONS, Operation, judge_place
from vibe_jupyter.permissions.rules import ToolLists
from vibe_jupyter.permissions.shell.judge import ShellState, judge_command

LINE_LIMIT: Final = 4 * 1024 * 1024  # bytes of one line of `--jsonl` input
_OPERATIONS: Final[dict[str, Operation]] = {name: name for name in OPERATIONS}
Answer = dict[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter permission`."""
    _add_options(parser)
    parser.set_defaults(command=_answer_either)
    kinds = parser.add_subparsers(metavar="KIND")
    bash = kinds.add_parser("bash", help="a shell command", usage=_usage_text("bash", "COMMAND"))
    bash.add_argument(
        "words", nargs="*", metavar="COMMAND", help="the command as one argument; after -- if it starts with -"
    )
    bash.set_defaults(command=_answer_command)
    path = kinds.add_parser("path", help="a place", usage=_usage_text("path", "read|write|list PATH"))
    path.add_argument("words", nargs="*", metavar="read|write|list PATH", help="the operation and the path")
    path.set_defaults(command=_answer_path)
    for kind in (bash, path):
        _add_options(kind, is_kind=True)


def _add_options(parser: argparse.ArgumentParser, *, is_kind: bool = False) -> None:
    # argparse overwrites a value given before a subparser's name with the subparser's default, so suppress that
    # default.
    folder, off = (argparse.SUPPRESS, argparse.SUPPRESS) if is_kind else (Path(), False)
    parser.add_argument(
        "--project", type=Path, default=folder, metavar="DIR", help="the project (default: this folder)"
    )
    parser.add_argument(
        "--jsonl", action="store_true", default=off, help="read one JSON object a line, write one verdict a line"
    )


def _usage_text(kind: str, words: str) -> str:
    return f"vibe-jupyter permission {kind} [--project DIR] ({words} | --jsonl)"


def _answer_either(chosen: argparse.Namespace) -> int:
    """Answer lines of both kinds in input order."""
    if not chosen.jsonl:
        raise ConfigError("Pass `bash COMMAND`, `path read|write|list PATH`, or --jsonl with one JSON object a line.")
    answer_command, answer_path = _command_judge(chosen.project), _path_judge(chosen.project)

    def answer(value: dict[str, Any]) -> Answer:
        if "op" in value:
            return answer_path(_text_field(value, "op"), _text_field(value, "path"))
        return answer_command(_text_field(value, "command"))

    return _answer_lines(sys.stdin.buffer, answer)


def _command_judge(project: Path) -> Callable[[str], Answer]:
    workspace = _open_workspace(project)
    shell = ShellState.of(os.environ, _shell_lists().for_shell())

    def answer(command: str) -> Answer:
        verdict = judge_command(command, workspace, shell)
        return {"verdict": verdict.verdict, "rule": verdict.rule, "reason": verdict.reason}

    return answer


def _answer_command(chosen: argparse.Namespace) -> int:
    answer = _command_judge(chosen.project)
    if chosen.jsonl:
        return _answer_lines(sys.stdin.buffer, lambda value: answer(_text_field(value, "command")))
    if len(chosen.words) != 1:
        raise ConfigError("Pass the command as one argument: vibe-jupyter permission bash 'git log -1', or --jsonl.")
    return _print_answer(answer(chosen.words[0]))


def _path_judge(project: Path) -> Callable[[str, str], Answer]:
    workspace = _open_workspace(project)

    def answer(operation: str, path: str) -> Answer:
        known = _OPERATIONS.get(operation)
        if known is None:
            raise ValueError(f"{operation!r} is not one of {', '.join(OPERATIONS)}")
        verdict = judge_place(workspace, path, known)
        return {"verdict": verdict.verdict, "rule": verdict.rule, "reason": verdict.reason}

    return answer


def _answer_path(chosen: argparse.Namespace) -> int:
    answer = _path_judge(chosen.project)
    if chosen.jsonl:
        return _answer_lines(
            sys.stdin.buffer, lambda value: answer(_text_field(value, "op"), _text_field(value, "path"))
        )
    if len(chosen.words) != 2:
        raise ConfigError("Pass an operation and one path: vibe-jupyter permission path read data.csv, or --jsonl.")
    try:
        return _print_answer(answer(*chosen.words))
    except ValueError as error:
        raise ConfigError(f"{error}.") from error


def _open_workspace(project: Path) -> Workspace:
    if not project.is_dir():
        raise ConfigError(f"{project} is not a folder. Name the project with --project DIR.")
    return Workspace(project)


def _shell_lists() -> ToolLists:
    """Read the user's lists for `bash`. Skips the rest of the settings, which are slow to load."""
    home = os.environ.get("VIBE_HOME") or "~/.vibe"
    path = Path(os.path.expanduser(home)) / "config.toml"
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
        if "command_effects" in settings:
            _heed_own_effects()
        table: Any = settings.get("tools", {}).get("bash", {})
        return ToolLists(
            *(tuple(map(str, table.get(key, ()))) for key in ("allowlist", "denylist", "denylist_standalone"))
        )
    except FileNotFoundError:
        return ToolLists()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError, TypeError) as error:
        raise ConfigError(f"Cannot read the lists of [tools.bash] in {path}: {error}. Fix the file.") from error


def _heed_own_effects() -> None:
    """Read all settings, for the user's rows on the effects of commands."""
    from vibe_jupyter.config.loading import read_settings

    for warning in read_settings(os.environ).warnings:
        print(warning, file=sys.stderr)


def _json_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("the line is not a JSON object")
    return cast(dict[str, Any], value)


def _answer_lines(source: Iterable[bytes], answer: Callable[[dict[str, Any]], Answer]) -> int:
    failed = 0
    for line in source:
        if not line.strip():
            continue
        try:
            if len(line) > LINE_LIMIT:
                raise ValueError(f"the line has more than {LINE_LIMIT:,} bytes")
            said = answer(_json_object(json.loads(line)))
        except (ValueError, RecursionError) as error:
            failed = 1
            said = {"error": str(error)}
        _print_answer(said)
    return failed


def _text_field(value: dict[str, Any], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        raise ValueError(f"{key!r} is missing or not text")
    return text


def _print_answer(answer: Answer) -> int:
    print(json.dumps(answer), flush=True)
    return 0
