"""Output that can't steer the user's terminal."""

import sys
from typing import TextIO

from vibe_jupyter.ui.text import readable_text


def print_readable(text: str, stream: TextIO | None = None) -> None:
    """Print a text that quotes cells, models or files. In a terminal, control characters are shown as escapes.

    Args:
        text: The text.
        stream: Where it goes; None for stdout.
    """
    out = sys.stdout if stream is None else stream
    print(readable_text(text) if out.isatty() else text, file=out, flush=True)
