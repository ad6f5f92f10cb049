"""The `vibe-jupyter` command: run and verify notebooks, send single prompts, check a setup, serve clients."""

import argparse
import errno
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

STDOUT: Final = 1  # file descriptor
# Help texts; each command's arguments are defined in the module of its name.
COMMANDS = {
    "run": "run a notebook's cells, its prompts included",
    "verify": "run a notebook in a fresh kernel and say which cells show something else; nothing is saved",
    "ask": "one prompt without a notebook: the answer, or all that happened as JSON",
    "setup": "connect a model: provider, key, and a test",
    "model": "check a model: does it stream, call tools, use results, and count; with the setting that fixes it",
    "trust": "show what a folder brings (settings, tools, prompts), and ask whether it is used",
    "sessions": "list the saved conversations",
    "doctor": "check what JupyterLab and the kernel need, and say what to do",
    "permission": "say whether a command or path would be asked about, and why",
    "schema": "the JSON Schema of the events that `ask --output streaming` prints",
    "serve": "the agent and its MCP tools behind the APIs of model servers",
    "mcp": "the agent's MCP servers (list, accept, add, …); without a word, for an external client to start: the tools "
    "of the served notebook",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit code."""
    defer_address_grammar()
    _open_missing_streams()
    _hear_children()
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # Without this, a lone surrogate or a character that the terminal's encoding lacks would raise in the middle of
        # a run.
        cast("io.TextIOWrapper", stdout).reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        os.getcwd()
    except OSError as error:
        print(f"vibe-jupyter: No working folder: {error.strerror}. Change to one that exists.", file=sys.stderr)
        return USAGE
    chosen = argparse.Namespace()
    try:
        _argument_parser(words).parse_args(words, chosen)
        return chosen.command(chosen)
    except VibeError as error:
        from vibe_jupyter.ui.text import readable_text

        words = in_shell(str(error), getattr(chosen, "folder", None))
        print(f"vibe-jupyter: {readable_text(words) if sys.stderr.isatty() else words}", file=sys.stderr)
        return USAGE if isinstance(error, ConfigError) else CELL_FAILED
    except BrokenPipeError:
        _discard_stdout()
        return CELL_FAILED
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        _discard_stdout()
        print(f"vibe-jupyter: The output could not be written: {error.strerror}.", file=sys.stderr)
        return CELL_FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _discard_stdout() -> None:
    """Discard what is left to write. Otherwise the interpreter reports the failure again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)


def _open_missing_streams() -> None:
    """Open standard streams that are closed, as under some schedulers.

    Otherwise the next opened file would take the descriptor of one and receive its output.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # `open` returns the lowest free descriptor, which is this stream's.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _hear_children() -> None:
    """Restore SIGCHLD if it is ignored.

    A process inherits that from its parent, and then can't get exit codes of children.
    """
    if hasattr(signal, "SIGCHLD") and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _argument_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser. Only the module of the given command is imported, to add its arguments."""
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
