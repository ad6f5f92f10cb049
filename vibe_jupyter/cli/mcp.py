"""`vibe-jupyter mcp`: what an outside agent starts to reach the notebook that is served."""

import sys
from pathlib import Path

import vibe_jupyter
from vibe_jupyter.app.outside_tools import outside_specs
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.outward.notice_board import Note, notes, the_one
from vibe_jupyter.outward.relay import Relay, run


def serve(kernel: str, notebook: Path | None) -> int:
    """Serve on stdin and stdout until stdin ends; returns the exit code.

    Args:
        kernel: beginning of its kernel's id; empty for any.
        notebook: path of its file; None for any.
    """

    def find() -> Note:
        return the_one(notes(), kernel=kernel, notebook=notebook)

    try:
        print(f"vibe-jupyter mcp: passing calls on to {find().words}.", file=sys.stderr)
    except ConfigError as error:
        # An outside agent starts us when it starts itself; the notebook may be served later.
        print(f"vibe-jupyter mcp: {error} Until then each call is answered with these words.", file=sys.stderr)
    run(Relay(find, outside_specs(), version=vibe_jupyter.__version__))
    return 0
