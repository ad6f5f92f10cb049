"""What running calls print, on its way to the views: redacted, though a secret may come in pieces.

The user's variables are looked through after a piece was printed and before it is shown: the code may just have bound
the secret that it prints. That takes longer the more variables there are, so the looks have a share of the time, and
pieces that come faster are shown together after the next look.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

from vibe_jupyter.policy.secret_stream import RedactedStream
from vibe_jupyter.policy.secrets import Redactor
from vibe_jupyter.protocol import ToolProgress

LOOK_SHARE: Final = 0.05
"""Of the time that goes by while a call prints, at most, in which its variables are looked through."""
WAITING_LIMIT: Final = 262_144
"""Characters that wait for a look; with more of them it is done at once."""


class ProgressStreams:
    """One stream for each call; what is held back when a call ends is in its result. Callable from any thread."""

    def __init__(self, redactor: Redactor, show: Callable[[ToolProgress], None]) -> None:
        """Create it on the event loop on which late pieces are to be shown."""
        self._redactor = redactor
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._call_id = ""
        self._stream = RedactedStream(redactor)
        self._waiting: list[str] = []
        """Pieces printed since the last look."""
        self._characters = 0
        self._next_look = 0.0
        """By `time.monotonic`."""
        self._has_timer = False

    def take(self, progress: ToolProgress) -> None:
        """Show what may be shown of it, now or soon."""
        if progress.done is not None or progress.waits is not None:  # whole each time
            self._show(self._redactor.value(progress))
            return
        with self._lock:
            if progress.call_id != self._call_id:
                self._call_id, self._stream, self._waiting = progress.call_id, RedactedStream(self._redactor), []
                self._characters = 0
            self._waiting.append(progress.text)
            self._characters += len(progress.text)
            seconds = self._next_look - time.monotonic()
            if seconds <= 0 or self._characters > WAITING_LIMIT:
                self._pass_on()
            elif not self._has_timer and not self._loop.is_closed():
                self._has_timer = True
                self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self._pass_on_late)

    def _pass_on_late(self) -> None:
        with self._lock:
            self._has_timer = False
            self._pass_on()

    def _pass_on(self) -> None:
        """Look through the variables, and show what was printed before that."""
        if not self._waiting:
            return
        began = time.monotonic()
        self._redactor.look()
        ended = time.monotonic()
        self._next_look = ended + (ended - began) / LOOK_SHARE
        text = self._stream.feed("".join(self._waiting))
        self._waiting, self._characters = [], 0
        if text:
            self._show(ToolProgress(call_id=self._call_id, text=text))
