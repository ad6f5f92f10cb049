"""`vibe-jupyter mcp`: what an external client starts to reach the served notebook. Imports little, to start quickly."""

import argparse
import io
import sys
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.mcp_server.notebook_client import NotebookNote, find_note, list_notes
from vibe_jupyter.mcp_server.stdio_proxy import StdioProxy
from vibe_jupyter.version import __version__

_STDOUT: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words after ``vibe-jupyter mcp``."""
    parser.add_argument("--kernel", default="", metavar="ID", help="the notebook whose kernel id starts with this")
    parser.add_argument("--notebook", type=Path, metavar="PATH", help="the notebook in this file")
    parser.set_defaults(command=_serve_chosen)


def _serve_chosen(chosen: argparse.Namespace) -> int:
    return serve_stdio(chosen.kernel, chosen.notebook)


def serve_stdio(kernel: str, notebook: Path | None) -> int:
    """Serve on stdin and stdout until stdin ends; returns the exit code.

    Args:
        kernel: beginning of its kernel's id; empty for any.
        notebook: path of its file; None for any.
    """

    def find() -> NotebookNote:
        return find_note(list_notes(), kernel=kernel, notebook=notebook)

    try:
        print(f"vibe-jupyter mcp: forwarding calls to {find().words}.", file=sys.stderr)
    except ConfigError as error:
        # A client starts us when it starts itself; the notebook may be served later.
        print(f"vibe-jupyter mcp: {error} Until then each call is answered with this message.", file=sys.stderr)
    with io.FileIO(_STDOUT, "w", closefd=False) as output:
        StdioProxy(find, version=__version__, output=output).serve(sys.stdin.buffer)
    return 0
