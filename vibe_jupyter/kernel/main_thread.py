"""The main thread of the user's kernel, lent to work of the agent and, while no cell runs, to work from outside.

A turn waits behind the cells that run and wait, as a cell of the user would, and lends the main thread until it is
given back. What is shown meanwhile belongs to the cell that offered the turns.

Everything else that reaches the main thread between cells (a callback of its loop, a timer) may come in the middle of
an asynchronous cell, and ahead of cells that wait. A message of the shell channel does neither, on any ipykernel.
"""

import asyncio
import concurrent.futures
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.interrupts import AGAIN, Presses, interrupt_main_thread, sigint_goes_to
from vibe_jupyter.kernel.ipython_types import IPythonKernel, Message
from vibe_jupyter.kernel.outputs import flush_streams
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.safe_imports import without_working_folder

T = TypeVar("T")

INTERRUPT_GRACE: Final = 2.0
"""Seconds a run has after an interrupt to answer its open calls."""
SECOND_GRACE: Final = 0.3
"""Seconds it has from a second interrupt on; people press twice, and most runs end faster than that."""
START_GRACE: Final = 2.0
"""Seconds that work may wait for a cell to begin serving: a run is started just before."""
_WAIT: Final = 0.020
"""Seconds between two looks for work; a shell message ends the wait at once."""
_OVER: Final = "The cell that would do this is over. Start a new run."

TURN: Final = "vibe_turn"
"""Type of the message that asks for one."""
BUSY_WAIT: Final = 60.0
"""Seconds that a turn waits for running and queued cells."""
BUSY: Final = (
    "Nothing was done: the kernel is busy with cells, or with a prompt that waits for the user. Call again when they "
    "have ended, or ask the user to interrupt them."
)

_NO_ADDRESS: Final = (
    "This kernel does not say where its shell channel is, so nothing can be done in it between cells. "
    "Update ipykernel, or run the notebook in JupyterLab."
)
_ANY: Final = ("*", "0.0.0.0", "::")
"""Addresses to listen on, none to speak to."""


class Interrupted(NotebookError):
    """The user interrupted what ran on the main thread."""


class MainThread:
    """Runs functions of the engine on the main thread, and clicks in between."""

    def __init__(self, pump: Pump | None, presses: Presses | None = None) -> None:
        self._pump = pump
        self._presses = presses or Presses()
        self._presses.waits = lambda: pump is not None and pump.in_handler
        self._lock = threading.Lock()
        self._items: deque[_Item[Any]] = deque()
        self._arrived = threading.Event()
        self._server: object | None = None
        self.before_calls: Callable[[], Awaitable[None]] | None = None
        """Awaited by each call that an interrupt may end, such as for a view that could not be drawn meanwhile."""
        self.after_outputs: Callable[[str], None] | None = None
        """Called with the id of a tool call that has put outputs into the cell, before anything else is shown there."""

    @property
    def interrupted(self) -> bool:
        """Whether the user interrupted the cell that serves; any thread may ask."""
        return self._presses.count > 0

    @property
    def is_serving(self) -> bool:
        """Whether a cell serves; any thread may ask."""
        return self._server is not None

    @property
    def handled(self) -> Message | None:
        """The comm message that this thread handles for the cell that serves; None where it handles none."""
        return self._pump.handled if self._pump is not None else None

    def note_outputs(self, call_id: str) -> None:
        """A tool call has put outputs into the cell. On the main thread."""
        if self.after_outputs is not None:
            self.after_outputs(call_id)

    async def call(self, function: Callable[[], T], *, raises: bool = True) -> T:
        """Run `function` on the main thread and wait for it.

        Args:
            function: what to run.
            raises: whether an interrupt is raised inside it. Not in what only shows something: half a message helps
                nobody.

        Raises:
            Interrupted: the user interrupted it, or the run before it began.
            NotebookError: no cell serves any more, or the function asked to end the process.
        """
        if raises and self.before_calls is not None:
            await self.before_calls()
        item = _Item(function, raises=raises)
        with self._lock:
            self._items.append(item)
            early = self._server is None
        self._arrived.set()
        if early:
            asyncio.get_running_loop().call_later(START_GRACE, self._expire_item, item)
        return await asyncio.wrap_future(item.done)

    def serve(self, until: "concurrent.futures.Future[Any]", *, interrupt: Callable[[], None]) -> bool:
        """Serve until the future is done; True if the user interrupted.

        After an interrupt `interrupt` is called once, and the future has `INTERRUPT_GRACE` to end; a second one
        shortens that to `SECOND_GRACE`. The caller looks at the future: it may still be running.

        Raises:
            NotebookError: a cell serves already, or this is not the main thread.
        """
        server = object()
        try:
            with self._presses.owned(), self._presses.raising(False):
                self._begin_serving(server)
                for _ in self._serve_until(until, interrupt, _WAIT):
                    pass
            return self.interrupted
        finally:
            self._end_serving(server)

    async def serve_beside(self, until: "concurrent.futures.Future[Any]", *, interrupt: Callable[[], None]) -> bool:
        """As `serve`, for a cell that awaits: the loop of this thread goes on meanwhile.

        Raises:
            NotebookError: a cell serves already, or this is not the main thread.
        """
        server = object()
        try:
            with self._presses.owned(), self._presses.raising(False):
                self._begin_serving(server)
                with self._pump.serving() if self._pump is not None else nullcontext():
                    for _ in self._serve_until(until, interrupt, 0.0):
                        await asyncio.sleep(_WAIT)
            return self.interrupted
        finally:
            self._end_serving(server)

    def _begin_serving(self, server: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise NotebookError("A run must start in a cell of the main shell, not in a subshell or another thread.")
        with self._lock:
            if self._server is not None:
                raise NotebookError("A run is active in this kernel already: one cannot start inside another.")
            self._server = server
        if self._pump is not None:
            self._pump.hold()

    def _end_serving(self, server: object) -> None:
        with self._lock:
            if self._server is not server:
                return
            self._server = None
            left, self._items = self._items, deque()
        for item in left:
            item.fail(NotebookError(_OVER))

    def _expire_item(self, item: "_Item[Any]") -> None:
        with self._lock:
            if self._server is not None or item not in self._items:
                return
            self._items.remove(item)
        item.fail(NotebookError(_OVER))

    def _serve_until(
        self, until: "concurrent.futures.Future[Any]", interrupt: Callable[[], None], seconds: float
    ) -> Generator[None]:
        """A step for each item; one without work waits so long."""
        until.add_done_callback(lambda _: self._arrived.set())
        deadline: float | None = None
        while not until.done():
            if not self.interrupted or deadline is not None:
                self._serve_step(seconds, is_interrupted=deadline is not None)
            if deadline is None and self.interrupted:
                deadline = time.monotonic() + INTERRUPT_GRACE
                self._drop_waiting()
                interrupt()
            if deadline is not None and self._presses.count > 1:
                deadline = min(deadline, time.monotonic() + SECOND_GRACE)
            if deadline is not None and time.monotonic() > deadline:
                return
            yield

    def _serve_step(self, seconds: float, *, is_interrupted: bool) -> None:
        try:
            item = self._next_item()
            if item is not None:
                self._run_item(item, is_interrupted=is_interrupted)
            elif self._pump is None:
                self._arrived.wait(seconds)
                self._arrived.clear()
            else:
                self._pump.wait(seconds)
        except KeyboardInterrupt:
            self._presses.hold()  # from the handler of a click, and counted

    def _next_item(self) -> "_Item[Any] | None":
        with self._lock:
            return self._items.popleft() if self._items else None

    def _run_item(self, item: "_Item[Any]", *, is_interrupted: bool) -> None:
        if not item.done.set_running_or_notify_cancel():
            return
        try:
            with self._presses.raising(item.raises):
                if item.raises and not is_interrupted:
                    self._presses.check()  # one since the last look was only counted
                value = item.function()
        except KeyboardInterrupt:
            self._presses.hold()
            item.fail(Interrupted("Interrupted."))
        except (StopIteration, asyncio.CancelledError, GeneratorExit, SystemExit) as error:
            # Each of these means something of its own to the event loop that waits for the answer.
            item.fail(NotebookError(f"It ended with {type(error).__name__}, which goes no further than this."))
        except BaseException as error:  # noqa: BLE001 (it goes back to whoever called)
            item.fail(error)
        else:
            item.done.set_result(value)

    def _drop_waiting(self) -> None:
        with self._lock:
            dropped, self._items = self._items, deque()
        for item in dropped:
            item.fail(Interrupted("Interrupted before it began."))


class _Item(Generic[T]):
    """One function and the future of its result."""

    def __init__(self, function: Callable[[], T], *, raises: bool) -> None:
        self.function = function
        self.raises = raises
        self.done: concurrent.futures.Future[T] = concurrent.futures.Future()

    def fail(self, error: BaseException) -> None:
        """Answer with an error, unless the caller waits no longer."""
        if self.done.running() or self.done.set_running_or_notify_cancel():
            self.done.set_exception(error)


class KernelBusy(NotebookError):
    """No turn came in time."""


class _Kernel(IPythonKernel, Protocol):
    _parent_ident: dict[str, list[bytes]]

    def set_parent(self, ident: list[bytes], parent: Message, channel: str = "shell") -> None: ...


class CellContext:
    """The cell that runs when this is made: what is shown within belongs to it, also after its end. Main thread."""

    def __init__(self, kernel: object) -> None:
        self._kernel = cast(_Kernel, kernel)
        # Not a cell itself: it has no number, and none is taken from the notebook's.
        self._cell: Message = {
            **self._kernel.get_parent("shell"),
            "content": {"silent": True, "store_history": False},
        }
        self._identities = self._kernel._parent_ident["shell"]  # pyright: ignore[reportPrivateUsage]

    @contextmanager
    def entered(self) -> Generator[None]:
        """As if that cell ran."""
        kernel = self._kernel
        asked, identities = kernel.get_parent("shell"), kernel._parent_ident["shell"]  # pyright: ignore[reportPrivateUsage]
        flush_streams()
        kernel.set_parent(self._identities, self._cell, "shell")
        try:
            yield
        finally:
            flush_streams()
            kernel.set_parent(identities, asked, "shell")


class _Turn:
    """One loan of the main thread."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self.loop = asyncio.get_running_loop()
        self.came: asyncio.Future[None] = self.loop.create_future()
        self.over: concurrent.futures.Future[None] = concurrent.futures.Future()

    def begin(self, error: BaseException | None = None) -> None:
        """Any thread: it serves now, or cannot."""
        self.loop.call_soon_threadsafe(self._set_result, error)

    def _set_result(self, error: BaseException | None) -> None:
        if not self.came.done():
            _ = self.came.set_result(None) if error is None else self.came.set_exception(error)


class MainThreadTurns:
    """Lends the main thread between cells. Made on the main thread, in the cell that offers it.

    Raises:
        NotebookError: this kernel says not where its shell channel is.
    """

    def __init__(self, kernel: object, main_thread: MainThread) -> None:
        self._kernel = cast(_Kernel, kernel)
        self._handlers = cast("dict[str, Callable[..., object]]", self._kernel.shell_handlers)
        self._main_thread = main_thread
        self._requests = OwnRequests(self._kernel, TURN)
        self.offer_here()
        self._waiting: dict[str, _Turn] = {}
        self._lent: _Turn | None = None
        self._lock = threading.Lock()
        self.around: Callable[[], Any] = _nothing_around
        """Makes a context manager in which each turn passes, on the main thread."""
        self.on_interrupt: Callable[[], None] = lambda: None
        """Called on the main thread when the user interrupts during a turn."""

    def offer_here(self) -> None:
        """From now on what is shown in a turn belongs to the cell that runs now. Main thread."""
        self._cell = CellContext(self._kernel)

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
            self._interrupt_turn(turn)
            raise
        finally:
            self._waiting.pop(turn.id, None)
            turn.over.set_result(None)

    def _interrupt_turn(self, turn: _Turn) -> None:
        """Nobody waits for what the main thread does: end it as ■ would, and again until that was noticed. A signal
        between the last look for one and a call that blocks is not."""
        with self._lock:
            if self._lent is not turn or self._main_thread.interrupted:
                return
            interrupt_main_thread()
        turn.loop.call_later(AGAIN, self._interrupt_turn, turn)

    def _on_turn(self, _stream: object, _identities: object, message: Message) -> None:
        """Main thread, called by the kernel."""
        turn = self._waiting.pop(str(message["content"].get("id")), None)
        if turn is None:
            return  # nobody waits for it any more
        try:
            # A signal of `_interrupt` that comes late harms nobody.
            with sigint_goes_to(ignore_interrupt), self._cell.entered(), self.around():
                self._serve_turn(turn)
        except NotebookError as error:  # something serves already, inside whose loop this was called
            turn.begin(error)

    def _serve_turn(self, turn: _Turn) -> None:
        with self._lock:
            self._lent = turn
        try:
            turn.begin()
            self._main_thread.serve(turn.over, interrupt=self.on_interrupt)
        finally:
            with self._lock:
                self._lent = None


@contextmanager
def _nothing_around() -> Generator[None]:
    yield


def ignore_interrupt(_proceed: object) -> None:
    """A SIGINT that comes between cells."""


class OwnRequests:
    """A client of the kernel, inside the kernel. Sent from one thread, the engine's."""

    def __init__(self, kernel: IPythonKernel, kind: str) -> None:
        self._kind = kind
        self._url = _url_of(kernel)
        with without_working_folder():
            from jupyter_client.session import Session  # noqa: PLC0415 (only where turns are asked for)

        ours = cast(Any, kernel.session)
        self._session: Any = Session(key=ours.key, signature_scheme=ours.signature_scheme)
        self._socket: Any = None
        """A `zmq.Socket`; None before the first request."""

    def send(self, content: Message) -> None:
        """Put a request behind what waits already; nothing is answered to it."""
        if self._socket is None:
            import zmq  # noqa: PLC0415 - the kernel has it; IPython in a terminal has no use for it

            self._socket = cast(Any, zmq.Context.instance()).socket(zmq.DEALER)
            self._socket.linger = 0
            self._socket.connect(self._url)
        self._session.send(self._socket, self._kind, content)

    def close(self) -> None:
        """Say goodbye. On the thread that sends."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _url_of(kernel: IPythonKernel) -> str:
    application = cast(Any, getattr(kernel, "parent", None))
    make: Callable[[str], str] | None = getattr(application, "_make_url", None)
    if make is None or not getattr(application, "shell_port", 0):
        raise NotebookError(_NO_ADDRESS)
    url, ip = make("shell"), str(application.ip)
    return url.replace(f"//{ip}:", "//127.0.0.1:") if ip in _ANY else url
