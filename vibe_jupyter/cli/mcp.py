"""`vibe-jupyter mcp`: the stdio server that an external client starts to reach a served notebook.

It imports little, to start quickly. With an action, the command manages the agent's MCP servers, like `%vibe mcp`.
"""

import argparse
import io
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibe_jupyter.cli.exit_codes import CELL_FAILED, DONE
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.mcp_server.notebook_client import NotebookNote, find_note, list_notes
from vibe_jupyter.mcp_server.stdio_proxy import StdioProxy
from vibe_jupyter.shell_advice import in_shell
from vibe_jupyter.version import __version__

if TYPE_CHECKING:
    from vibe_jupyter.app import App

_STDOUT: Final = 1
# Actions of `%vibe mcp` that are available in a shell.
_ACTIONS: Final[Mapping[str, str]] = {
    "list": "the servers, and what is wrong with each",
    "accept": "show what a server runs or where it is, and ask whether it may be used",
    "add": "declare one: NAME COMMAND…, or NAME URL",
    "remove": "take one out of your settings",
    "on": "switch one on",
    "off": "switch one off",
    "restart": "start one, and say what it offers",
    "tools": "the tools that servers have",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter mcp`."""
    parser.add_argument("--kernel", default="", metavar="ID", help="the notebook whose kernel id starts with this")
    parser.add_argument("--notebook", type=Path, metavar="PATH", help="the notebook in this file")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="with a word: the folder whose servers are meant")
    parser.set_defaults(command=_serve_chosen)
    actions = parser.add_subparsers(metavar="WORD", title="the agent's own MCP servers")
    for name, words in _ACTIONS.items():
        action = actions.add_parser(name, help=words)
        action.set_defaults(command=_manage_chosen, action=name, yes=False)
        if name == "accept":
            action.add_argument("words", nargs="+", metavar="NAME")
            action.add_argument("--yes", action="store_true", help="accept what is shown, without a question")
        else:
            action.add_argument("words", nargs=argparse.REMAINDER, metavar="WORDS")


def _serve_chosen(chosen: argparse.Namespace) -> int:
    return serve_stdio(chosen.kernel, chosen.notebook)


def _manage_chosen(chosen: argparse.Namespace) -> int:
    from vibe_jupyter.cli.shell_app import enter_folder, open_app
    from vibe_jupyter.kernel.interrupts import Presses

    enter_folder(chosen.folder)
    presses = Presses()
    with open_app(presses) as app, presses.owned():
        if chosen.action == "accept":
            return _accept(app, chosen.words, chosen.folder, is_agreed=chosen.yes)
        words = [] if chosen.action == "list" else [chosen.action, *chosen.words]
        _command(app, words, chosen.folder)
    return DONE


def _accept(app: "App", names: Sequence[str], folder: Path | None, *, is_agreed: bool) -> int:
    """Accept servers or their changed tools. Returns the exit code, which is 0 if all of them are in use."""
    from vibe_jupyter.cli.shell_app import is_terminal
    from vibe_jupyter.commands.mcp import find_server

    servers = app.mcp.present
    for name in names:
        one = find_server(servers, name)
        if one.standing == "accepted":
            _command(app, ["restart", name], folder)  # only a running server lists its tools
        elif one.identity is not None and (is_agreed or not is_terminal()):
            print("\n".join(map(app.setup.strike(), one.identity.shown)), flush=True)
            if not is_agreed:
                raise ConfigError(f"Nobody can be asked here. With --yes {name} is accepted as shown.")
        _command(app, ["accept", name], folder, is_agreed=is_agreed)
    servers.look()
    return DONE if all(find_server(servers, name).standing == "accepted" for name in names) else CELL_FAILED


def _command(app: "App", words: Sequence[str], folder: Path | None, *, is_agreed: bool = False) -> None:
    from vibe_jupyter.commands.mcp import mcp_command

    servers = app.mcp.present
    said = mcp_command(shlex.join(words), servers, app.setup, say=_say_aside, is_agreed=is_agreed)
    if said:
        print(in_shell(said, folder))


def _say_aside(text: str) -> None:
    print(text, file=sys.stderr)


def serve_stdio(kernel: str, notebook: Path | None) -> int:
    """Serve on stdin and stdout until stdin ends. Returns the exit code.

    Args:
        kernel: Prefix of the kernel's id, or "" for any.
        notebook: Path of the notebook, or None for any.
    """

    def find() -> NotebookNote:
        return find_note(list_notes(), kernel=kernel, notebook=notebook)

    try:
        print(f"vibe-jupyter mcp: forwarding calls to {find().words}.", file=sys.stderr)
    except ConfigError as error:
        # Not fatal: clients start their servers when they start, and the notebook may be served later.
        print(f"vibe-jupyter mcp: {error} Until then each call is answered with this message.", file=sys.stderr)
    with io.FileIO(_STDOUT, "w", closefd=False) as output:
        StdioProxy(find, version=__version__, output=output).serve(sys.stdin.buffer)
    return 0
