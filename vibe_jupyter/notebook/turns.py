"""The main thread for work that comes from outside, while no cell runs.

A turn waits behind the cells that run and wait, as a cell of the person would, and lends the main thread until it is
given back. What is shown meanwhile belongs to the cell that offered the turns.
"""

import asyncio
import concurrent.futures
import secrets
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Protocol, cast

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.foreground import Foreground
from vibe_jupyter.notebook.listening import flush_streams
from vibe_jupyter.notebook.own_request import OwnRequests
from vibe_jupyter.notebook.shell import Kernel, Message
from vibe_jupyter.notebook.sigint import interrupt_main_thread, sigint_goes_to

TURN: Final = "vibe_turn"
"""Type of the message that asks for one."""
BUSY_WAIT: Final = 60.0
"""Seconds that a turn waits for running and queued cells."""
BUSY: Final = (
    "Nothing was done: the kernel is busy with cells, or with a prompt that waits for the person. Call again when they "
    "have ended, or ask the person to interrupt them."
)


class KernelBusy(NotebookError):
    """No turn came in time."""


class _Kernel(Kernel, Protocol):
    _parent_ident: dict[str, list[bytes]]

    def set_parent(self, ident: list[bytes], parent: Message, channel: str = "shell") -> None: ...


class _Turn:
    """One loan of the main thread."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self.loop = asyncio.get_running_loop()
        self.came: asyncio.Future[None] = self.loop.create_future()
        self.over: concurrent.futures.Future[None] = concurrent.futures.Future()

    def begin(self, error: BaseException | None = None) -> None:
        """Any thread: it serves now, or cannot."""
        self.loop.call_soon_threadsafe(self._set, error)

    def _set(self, error: BaseException | None) -> None:
        if not self.came.done():
            _ = self.came.set_result(None) if error is None else self.came.set_exception(error)


class Turns:
    """Lends the main thread between cells. Made on the main thread, in the cell that offers it.

    Raises:
        NotebookError: this kernel says not where its shell channel is.
    """

    def __init__(self, kernel: object, foreground: Foreground) -> None:
        self._kernel = cast(_Kernel, kernel)
        self._handlers = cast("dict[str, Callable[..., object]]", self._kernel.shell_handlers)
        self._foreground = foreground
        self._requests = OwnRequests(self._kernel, TURN)
        self.offer_here()
        self._waiting: dict[str, _Turn] = {}
        self._lent: _Turn | None = None
        self._lock = threading.Lock()
        self.around: Callable[[], Any] = _nothing_around
        """Makes a context manager in which each turn passes, on the main thread."""
        self.on_interrupt: Callable[[], None] = lambda: None
        """Called on the main thread when the person interrupts during a turn."""

    def offer_here(self) -> None:
        """From now on what is shown in a turn belongs to the cell that runs now. Main thread."""
        # Not a cell itself: it has no number, and none is taken from the notebook's.
        self._cell: Message = {
            **self._kernel.get_parent("shell"),
            "content": {"silent": True, "store_history": False},
        }
        self._identities = self._kernel._parent_ident["shell"]  # pyright: ignore[reportPrivateUsage]

    def install(self) -> None:
        """Begin to take turns; in the place of earlier ones if there are any."""
        self._handlers[TURN] = self._on_turn

    async def close(self) -> None:
        """Take no more turns. On the engine's loop."""
        if self._handlers.get(TURN) == self._on_turn:
            del self._handlers[TURN]
        self._requests.close()

    @asynccontextmanager
    async def turn(self, *, patient: bool = False) -> AsyncGenerator[None]:
        """The main thread serves while this is open. On the engine's loop.

        Raises:
            KernelBusy: running and queued cells took longer than `BUSY_WAIT`, and who asks is not `patient`.
        """
        turn = _Turn()
        self._waiting[turn.id] = turn
        try:
            self._requests.send({"id": turn.id})
            try:
                async with asyncio.timeout(None if patient else BUSY_WAIT):
                    await turn.came
            except TimeoutError:
                raise KernelBusy(BUSY) from None
            yield
        except asyncio.CancelledError:
            self._interrupt(turn)
            raise
        finally:
            self._waiting.pop(turn.id, None)
            turn.over.set_result(None)

    def _interrupt(self, turn: _Turn) -> None:
        """Nobody waits for what the main thread does: end it as ■ would."""
        with self._lock:
            if self._lent is turn:
                interrupt_main_thread()

    def _on_turn(self, _stream: object, _identities: object, message: Message) -> None:
        """Main thread, called by the kernel."""
        turn = self._waiting.pop(str(message["content"].get("id")), None)
        if turn is None:
            return  # nobody waits for it any more
        try:
            # A signal of `_interrupt` that comes late harms nobody.
            with sigint_goes_to(_ignored), self._in_the_cell(), self.around():
                self._serve(turn)
        except NotebookError as error:  # something serves already, inside whose loop this was called
            turn.begin(error)

    def _serve(self, turn: _Turn) -> None:
        with self._lock:
            self._lent = turn
        try:
            turn.begin()
            self._foreground.serve(turn.over, interrupt=self.on_interrupt)
        finally:
            with self._lock:
                self._lent = None

    @contextmanager
    def _in_the_cell(self) -> Generator[None]:
        kernel = self._kernel
        asked, identities = kernel.get_parent("shell"), kernel._parent_ident["shell"]  # pyright: ignore[reportPrivateUsage]
        flush_streams()
        kernel.set_parent(self._identities, self._cell, "shell")
        try:
            yield
        finally:
            flush_streams()
            kernel.set_parent(identities, asked, "shell")


@contextmanager
def _nothing_around() -> Generator[None]:
    yield


def _ignored(_proceed: object) -> None:
    pass
