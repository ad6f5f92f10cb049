"""The text of an answer on its way to the views: redacted, once for all pieces that the network gave at a time.

A piece alone is shown in the same turn of the event loop. Where a fast server or a busy machine makes many pieces
wait, they are judged together, which costs little more than one.
"""

import asyncio
from collections.abc import Callable

from vibe_jupyter.policy.secret_stream import RedactedStream
from vibe_jupyter.policy.secrets import Redactor


class AnswerText:
    """One text after another. Engine loop only."""

    def __init__(self, redactor: Redactor, show: Callable[[str], None]) -> None:
        self._stream = RedactedStream(redactor)
        self._show = show
        self._pieces: list[str] = []
        """What came in this turn of the event loop."""

    def add(self, piece: str) -> None:
        """Show what may be shown once this piece has come, before the event loop waits for anything."""
        if not self._pieces:
            asyncio.get_running_loop().call_soon(self._pass_on)
        self._pieces.append(piece)

    def end(self) -> None:
        """Show what was held back: nothing more comes of this text, or something else comes between."""
        self._pass_on()
        if text := self._stream.end():
            self._show(text)

    def _pass_on(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces and (text := self._stream.feed("".join(pieces))):
            self._show(text)
