"""Translation of advice in messages from notebook commands to shell commands.

Errors and notices are written for the notebook, where most of them are read. The command-line program translates them
when it prints them, which covers every message, including future ones.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vibe_jupyter.lazy_patterns import lazy_pattern

PROGRAM: Final = "vibe-jupyter"
ELSEWHERE: Final = "in a notebook"  # appended to commands that exist only in a notebook
# Shell equivalents of `%vibe` commands.
SHELL_COMMANDS: Final[Mapping[str, str]] = {
    "setup": f"{PROGRAM} setup",
    "trust": f"{PROGRAM} trust",
    "model": "--model",
    "agent": "--agent",
    "sessions all": f"{PROGRAM} sessions",
    "sessions": f"{PROGRAM} sessions",
    "resume": f"{PROGRAM} ask --resume",
    "reset": f"{PROGRAM} ask",
    **{
        f"mcp {action}": f"{PROGRAM} mcp {action}"
        for action in ("accept", "add", "off", "on", "remove", "restart", "tools")
    },
    "mcp": f"{PROGRAM} mcp list",
}
_IN_CELLS: Final = ("mcp serve",)  # commands whose messages already mention that they belong in a cell
# Replacements for sentences in which more than the command differs.
_PHRASES: Final[tuple[tuple[str, str], ...]] = (
    (r"`%vibe mcp log [^`]*` shows more, ", ""),  # logs don't outlive the process
    (r"%vibe stop ends it\. If the kernel acts oddly, restart it", "it ends with this program"),
    (
        r"set it before Jupyter starts, write (.*?), or set it in a cell: import getpass.*",
        r"set it in the environment, or write \1.",
    ),
    (r"Start a cell with %%vibe and type a prompt\.", f'Try it: {PROGRAM} ask "look at the files here"'),
    (r"%vibe look around", f'{PROGRAM} ask --model tour "look around"'),
    (r"%vibe model(?=\.|$)", "--model NAME"),
    (r", where somebody can answer\.", "."),
    (r"a form, or questions: provider", "questions: provider"),
    (r"(?<=\S) {3,}(?=\S)", "  "),  # columns aligned for commands of another width
)
_PHRASE: Final = tuple(
    (lazy_pattern(pattern, re.DOTALL | re.MULTILINE), replacement) for pattern, replacement in _PHRASES
)
_COMMAND: Final = lazy_pattern(r"(?<!%)%vibe (?P<words>[a-z]+(?: (?:all|[a-z]+))?)")


def in_shell(text: str, folder: Path | None = None) -> str:
    """Replace each `%vibe` command in a text by its shell equivalent.

    Args:
        text: A message written for a notebook.
        folder: The project folder, if the command line names one.
    """
    if "%vibe" not in text:
        return text
    for pattern, replacement in _PHRASE:
        text = pattern.sub(replacement, text)
    return _COMMAND.sub(lambda found: _typed(found["words"], folder), text)


def _typed(words: str, folder: Path | None) -> str:
    if words in _IN_CELLS:
        return f"%vibe {words}"
    first = words.partition(" ")[0]
    known = words if words in SHELL_COMMANDS else first
    rest = words.removeprefix(known)
    if known not in SHELL_COMMANDS:
        return f"%vibe {first} {ELSEWHERE}{rest}"
    return f"{_with_folder(SHELL_COMMANDS[known], folder)}{rest}"


def _with_folder(command: str, folder: Path | None) -> str:
    if folder is None:
        return command
    named = shlex.quote(str(folder))
    if command.endswith(" trust"):
        return f"{command} {named}"
    for begin in (f"{PROGRAM} mcp", f"{PROGRAM} ask"):
        if command.startswith(begin):
            return f"{begin} --folder {named}{command.removeprefix(begin)}"
    return command
