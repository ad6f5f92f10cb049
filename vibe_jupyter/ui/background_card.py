"""The card of cells that run in the background: how they stand, and, when they are done, a button to go on.

It stands below the output of the run that queued them, and turns into the view of the run that goes on.
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
    """Opened and closed on the main thread; all else on the engine's loop."""

    def __init__(self, handled: Handled, *, on_continue: Callable[[], None], on_leave: Callable[[], None]) -> None:
        self._channel = PageChannel(self._hear_page, handled)
        self._handled = handled
        self._on_continue = on_continue
        self._on_leave = on_leave
        self._id = ""
        """Of what is asked now: a page answers each once."""
        self._words = ""
        self._began = 0.0
        self._asks = False
        self._drawn = asyncio.Event()

    @property
    def shown(self) -> ShownView | None:
        """What a page needs to draw it again; None when it is closed."""
        return self._channel.shown

    def open(self, words: str) -> None:
        """Put it into the output of the cell that runs, with what is left of it where no page draws it. Main thread."""
        self._words = words
        self._channel.open(_kept(words))

    async def tell(self, words: str, *, asks: bool = False) -> None:
        """Say how the cells stand.

        Args:
            words: to the user.
            asks: whether the user may go on.
        """
        loop = asyncio.get_running_loop()
        self._began = self._began or loop.time()
        self._words, self._asks, self._id = words, asks, secrets.token_hex(8)
        self._channel.attach(loop)
        if self._drawn.is_set():
            self._channel.show(self._parts())

    async def is_drawn(self, *, within: float) -> bool:
        """Whether a page shows it by now, or in so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._drawn.wait()
        return self._drawn.is_set()

    def close(self, words: str) -> MimeBundle:
        """Leave these words in its place; what stays in the notebook. Main thread."""
        left = _kept(words)
        self._channel.close((left,), words)
        return left

    def turned_into(self, transcript: Transcript) -> WidgetFrontEnd:
        """A front end that shows a run in its place."""
        return _InItsPlace(transcript, handled=self._handled, channel=self._channel, drawn=self._drawn)

    def _hear_page(self, message: FromPage, _by: DecidedBy) -> None:
        if isinstance(message, ViewLoaded | ViewGone):  # cleared, it is not put into a cell that has ended
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
            case _:  # Stop is heard when the cells are over: what ended them was the page, which interrupts the kernel
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
    """A run in a view that the page has drawn already."""

    def __init__(self, transcript: Transcript, *, handled: Handled, channel: PageChannel, drawn: asyncio.Event) -> None:
        super().__init__(transcript, handled=handled)
        self._page, self._drawn = channel, drawn
        self._is_first = True

    def open(self, send: Send) -> None:
        self._send = send

    def divide(self, call_id: str) -> None:
        """It stays in one piece: the cell has ended, and no page takes another output from the kernel."""

    async def on_event(self, event: Event) -> None:
        if self._is_first:
            self._is_first, self._is_loaded = False, True
            self._page.receive = self._hear_page
            if self.alive:
                self._page.show(self._transcript.parts())
        await super().on_event(event)
