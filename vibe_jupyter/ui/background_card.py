"""Card for cells that run in the background: their progress and, once they are done, a button to continue.

It is shown below the output of the run that queued them, and becomes the view of the run that continues.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Final

from vibe_jupyter.protocol import Approve, DecidedBy, Event, MimeBundle, Reject
from vibe_jupyter.ui.cards import card_button
from vibe_jupyter.ui.front_end import Handled, Send
from vibe_jupyter.ui.markup import NOTHING, html_element, inert_text
from vibe_jupyter.ui.page import FOOT, FromPage, PageChannel, ShownView, ViewAlive, ViewGone, ViewLoaded, ViewPart
from vibe_jupyter.ui.status_line import StatusLine, foot_html
from vibe_jupyter.ui.transcript import Transcript
from vibe_jupyter.ui.widget import WidgetFrontEnd

CONTINUE: Final = "Continue"
LEAVE: Final = "Not now"
_WAITING: Final = "Runs in the background"
_DONE: Final = "Waiting for you"
_CARD: Final = "background"


class BackgroundCard:
    """Progress card of background cells.

    Open and close it on the main thread; everything else runs on the engine's loop.
    """

    def __init__(self, handled: Handled, *, on_continue: Callable[[], None], on_leave: Callable[[], None]) -> None:
        self._channel = PageChannel(self._hear_page, handled)
        self._handled = handled
        self._on_continue = on_continue
        self._on_leave = on_leave
        self._id = ""  # id of the current question; a page answers each id once
        self._words = ""
        self._began = 0.0
        self._asks = False
        self._drawn = asyncio.Event()

    @property
    def shown(self) -> ShownView | None:
        """Ids a page needs to redraw the card, or None once it is closed."""
        return self._channel.shown

    def open(self, words: str) -> None:
        """Display the card in the output of the running cell, with a static fallback. Main thread."""
        self._words = words
        self._channel.open(_kept(words))

    async def tell(self, words: str, *, asks: bool = False) -> None:
        """Update the displayed progress.

        Args:
            words: Text shown to the user.
            asks: Whether to offer the Continue button.
        """
        loop = asyncio.get_running_loop()
        self._began = self._began or loop.time()
        self._words, self._asks, self._id = words, asks, secrets.token_hex(8)
        self._channel.attach(loop)
        if self._drawn.is_set():
            self._channel.show(self._parts())

    async def is_drawn(self, *, within: float) -> bool:
        """Return whether a page has drawn the card, waiting up to `within` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._drawn.wait()
        return self._drawn.is_set()

    def close(self, words: str) -> MimeBundle:
        """Replace the card with static text and return the bundle that stays in the notebook. Main thread."""
        left = _kept(words)
        self._channel.close((left,), words)
        return left

    def turned_into(self, transcript: Transcript) -> WidgetFrontEnd:
        """Return a front end that shows a run in the card's place."""
        return _InItsPlace(transcript, handled=self._handled, channel=self._channel, drawn=self._drawn)

    def _hear_page(self, message: FromPage, _by: DecidedBy) -> None:
        if isinstance(message, ViewLoaded | ViewGone):  # a cleared card can't be added to a cell that has finished
            return
        if isinstance(message, ViewAlive):
            self._drawn.set()
            self._channel.show(self._parts())
            return
        match message.command:
            case Approve(approval_id=self._id) if self._asks:
                self._asks = False
                self._on_continue()
            case Reject(approval_id=self._id) if self._asks:
                self._asks = False
                self._on_leave()
            case _:  # ignore Stop: the cells are over, and the page that ended them has interrupted the kernel itself
                pass

    def _parts(self) -> list[ViewPart]:
        seconds = asyncio.get_running_loop().time() - self._began
        foot = StatusLine("waiting", _DONE) if self._asks else StatusLine("working", _WAITING, seconds=seconds)
        card = html_element(
            "section",
            html_element("header", html_element("b", inert_text(self._words))),
            html_element(
                "footer",
                card_button("approve", CONTINUE, key="⏎", look="vibe-primary"),
                html_element("span", class_="vibe-spacer"),
                card_button("deny-now", LEAVE),
            )
            if self._asks
            else NOTHING,
            class_="vibe-card",
            role="group",
            tabindex="0" if self._asks else None,
            aria_label=self._words,
            data_vibe_approval=self._id if self._asks else None,
        )
        return [ViewPart(_CARD, "card", card), ViewPart(FOOT, "foot", foot_html(foot, can_stop=not self._asks))]


def _kept(words: str) -> MimeBundle:
    html = html_element("p", inert_text(words), style="margin:2px 0;opacity:0.75")
    return {"text/html": html, "text/plain": words}


class _InItsPlace(WidgetFrontEnd):
    """Front end of a run whose view the page has already drawn."""

    def __init__(self, transcript: Transcript, *, handled: Handled, channel: PageChannel, drawn: asyncio.Event) -> None:
        super().__init__(transcript, handled=handled)
        self._page, self._drawn = channel, drawn
        self._is_first = True

    def open(self, send: Send) -> None:
        self._send = send

    def divide(self, call_id: str) -> None:
        """Do nothing: the cell has finished, and a page accepts no further outputs for it from the kernel."""

    async def on_event(self, event: Event) -> None:
        if self._is_first:
            self._is_first, self._is_loaded = False, True
            self._page.receive = self._hear_page
            if self.alive:
                self._page.show(self._transcript.parts())
        await super().on_event(event)
