"""`vibe-jupyter`: run or verify a notebook, ask, say what would be allowed or is missing, serve outside agents."""

import argparse
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final, cast

from vibe_jupyter.cli.exit_codes import CELL_FAILED, EXIT_CODES, INTERRUPTED, USAGE
from vibe_jupyter.errors import ConfigError, VibeError
from vibe_jupyter.safe_imports import defer_address_grammar
from vibe_jupyter.shell_advice import in_shell
from vibe_jupyter.version import __version__

__all__ = ["main"]

STDOUT: Final = 1
"""Its descriptor."""
COMMANDS = {
    "run": "run a notebook's cells, its prompts included",
    "verify": "run a notebook in a fresh kernel and say which cells show something else; nothing is saved",
    "ask": "one prompt without a notebook: the answer, or all that happened as JSON",
    "setup": "connect a model: provider, key, and a test",
    "trust": "show what a folder brings (settings, tools, prompts), and ask whether it is used",
    "sessions": "list the saved conversations",
    "doctor": "check what JupyterLab and the kernel need, and say what to do",
    "permission": "say whether a command or path would be asked about, and why",
    "schema": "the JSON Schema of the events that `ask --output streaming` prints",
    "serve": "the agent and its MCP tools behind the APIs of model servers",
    "mcp": "the agent's MCP servers (list, accept, add, …); without a word, for an external client to start: the tools "
    "of the served notebook",
}
"""What each does. Its arguments are in the module of its name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    defer_address_grammar()
    _open_missing_streams()
    _hear_children()
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # A character that the terminal's encoding does not have, or half of one, ends no run.
        cast("io.TextIOWrapper", stdout).reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        os.getcwd()
    except OSError as error:
        print(f"vibe-jupyter: No working folder: {error.strerror}. Change to one that exists.", file=sys.stderr)
        return USAGE
    chosen = _argument_parser(words).parse_args(words)
    try:
        return chosen.command(chosen)
    except VibeError as error:
        print(f"vibe-jupyter: {in_shell(str(error), getattr(chosen, 'folder', None))}", file=sys.stderr)
        return USAGE if isinstance(error, ConfigError) else CELL_FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)  # else Python complains of it once more as it ends
        return CELL_FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _open_missing_streams() -> None:
    """A scheduler may start a program without them; the next file that was opened would stand in for one."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number that is free: this one
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _hear_children() -> None:
    """Undo that SIGCHLD is ignored, as a program inherits it: nobody would learn how those that it starts end."""
    if hasattr(signal, "SIGCHLD") and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _argument_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The whole command line; a command's module, which reads its arguments, is imported only when it was given."""
    parser = argparse.ArgumentParser(
        prog="vibe-jupyter",
        description="An AI agent that lives in your notebook.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, words in COMMANDS.items():
        command = commands.add_parser(name, help=words)
        if arguments[:1] == [name]:
            importlib.import_module(f"vibe_jupyter.cli.{name}").add_arguments(command)
    return parser
