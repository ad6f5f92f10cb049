"""Access to the kernel's main thread, for the agent's work during a run and for outside work between cells.

A turn is queued behind running and waiting cells, like a cell of the user, and lends out the main thread until it is
returned. Outputs produced meanwhile belong to the cell that offered the turns.

Turns use shell-channel messages because any other way to the main thread (loop callbacks, timers) may run in the
middle of an asynchronous cell, or ahead of queued cells. On every ipykernel version, shell messages do neither.
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
from vibe_jupyter.kernel.interrupts import AGAIN, Presses, raised_by_handler, sigint_goes_to
from vibe_jupyter.kernel.ipython_types import IPythonKernel, Message
from vibe_jupyter.kernel.outputs import flush_streams
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.safe_imports import without_working_folder

T = TypeVar("T")

INTERRUPT_GRACE: Final = 2.0  # seconds that open calls of a run have to finish after an interrupt
SECOND_GRACE: Final = 0.3  # seconds left after a second interrupt; people press twice, and most runs end sooner
START_GRACE: Final = 2.0  # seconds that work waits for a cell to start serving: runs are started just before
_WAIT: Final = 0.020  # seconds between polls for work; a shell message ends the wait early
_OVER: Final = "The cell that would do this is over. Start a new run."

TURN: Final = "vibe_turn"  # message type
BUSY_WAIT: Final = 60.0  # seconds that a turn waits for running and queued cells
BUSY: Final = (
    "Nothing was done: the kernel is busy with cells, or with a prompt that waits for the user. Call again when they "
    "have ended, or ask the user to interrupt them."
)

_NO_ADDRESS: Final = (
    "This kernel does not say where its shell channel is, so nothing can be done in it between cells. "
    "Update ipykernel, or run the notebook in JupyterLab."
)
_ANY: Final = ("*", "0.0.0.0", "::")  # wildcard addresses: valid to bind, not to connect to


class Interrupted(NotebookError):
    """The user interrupted work on the main thread."""


class MainThread:
    """Executor for engine functions on the main thread. Widget clicks are handled in between."""

    def __init__(self, pump: Pump | None, presses: Presses | None = None) -> None:
        self._pump = pump
        self._presses = presses or Presses()
        self._presses.waits = lambda: pump is not None and pump.in_handler
        self._lock = threading.Lock()
        self._items: deque[_Item[Any]] = deque()
        self._taken: _Item[Any] | None = None  # the item taken last
        self._arrived = threading.Event()
        self._server: object | None = None
        # Awaited before each interruptible call, e.g. to show a view that couldn't be drawn earlier.
        self.before_calls: Callable[[], Awaitable[None]] | None = None
        # Called with the id of a tool call that wrote outputs to the cell, before anything else is displayed there.
        self.after_outputs: Callable[[str], None] | None = None

    @property
    def interrupted(self) -> bool:
        """True if the user interrupted the serving cell. Thread-safe."""
        return self._presses.count > 0

    @property
    def is_serving(self) -> bool:
        """True while a cell is serving. Thread-safe."""
        return self._server is not None

    @property
    def handled(self) -> Message | None:
        """The comm message being handled on the calling thread for the serving cell, or None."""
        return self._pump.handled if self._pump is not None else None

    def note_outputs(self, call_id: str) -> None:
        """Report that a tool call wrote outputs to the cell. Main thread only."""
        if self.after_outputs is not None:
            self.after_outputs(call_id)

    async def call(self, function: Callable[[], T], *, raises: bool = True) -> T:
        """Run `function` on the main thread and wait for its result. Cancelling the wait interrupts the function.

        Args:
            function: The function to run.
            raises: Whether an interrupt is raised inside it. False for functions that only display something, where
                stopping halfway would leave a truncated message.

        Raises:
            Interrupted: The user interrupted the function, or the run before the function began.
            NotebookError: No cell serves any more, or the function tried to exit the process.
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
        try:
            return await asyncio.wrap_future(item.done)
        except asyncio.CancelledError:
            if raises:
                self._end_item(item)
            raise

    def _end_item(self, item: "_Item[Any]") -> None:
        """Interrupt an abandoned item, and repeat until it ends.

        A signal that arrives between Python's last signal check and a blocking call goes unnoticed. If the user has
        interrupted, no further signal is needed.
        """
        if item.done.running() and not self.interrupted:
            self._presses.end_code(item.done.running)
            asyncio.get_running_loop().call_later(AGAIN, self._end_item, item)

    def serve(self, until: "concurrent.futures.Future[Any]", *, interrupt: Callable[[], None]) -> bool:
        """Serve until the future is done. Returns True if the user interrupted.

        After an interrupt, `interrupt` is called once and the future has `INTERRUPT_GRACE` to finish; a second
        interrupt shortens that to `SECOND_GRACE`. The future may still be running on return, so the caller checks it.

        Raises:
            NotebookError: Another cell is serving, or this isn't the main thread.
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
        """Serve like `serve`, from a cell that awaits: this thread's event loop keeps running.

        Raises:
            NotebookError: Another cell is serving, or this isn't the main thread.
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
            if self._taken is not None:  # unfinished if a user's signal handler raised just before or after it ran
                left.appendleft(self._taken)
                self._taken = None
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
        """Yield after each step. A step without work waits up to `seconds`."""
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
            self._presses.hold()  # raised in a click handler, and already counted

    def _next_item(self) -> "_Item[Any] | None":
        with self._lock:
            if not self._items:
                return None
            self._taken = self._items[0]  # stored before popping: a signal handler may raise in between
            return self._items.popleft()

    def _run_item(self, item: "_Item[Any]", *, is_interrupted: bool) -> None:
        if not item.done.set_running_or_notify_cancel():
            return
        try:
            with self._presses.raising(item.raises):
                if item.raises and not is_interrupted:
                    self._presses.check()  # an interrupt since the last poll was only counted
                value = item.function()
        except KeyboardInterrupt:
            self._presses.hold()
            item.fail(Interrupted("Interrupted."))
        except (StopIteration, asyncio.CancelledError, GeneratorExit, SystemExit) as error:
            # Each of these has a special meaning to the event loop that awaits the result, so wrap it.
            item.fail(NotebookError(f"It ended with {type(error).__name__}, which goes no further than this."))
        except BaseException as error:  # passed on to the caller
            item.fail(error)
            if not item.raises and raised_by_handler(error):
                raise  # display functions run with interrupts off, but an alarm set by the user must not be swallowed
        else:
            item.done.set_result(value)

    def _drop_waiting(self) -> None:
        with self._lock:
            dropped, self._items = self._items, deque()
        for item in dropped:
            item.fail(Interrupted("Interrupted before it began."))


class _Item(Generic[T]):
    """A queued function and the future of its result."""

    def __init__(self, function: Callable[[], T], *, raises: bool) -> None:
        self.function = function
        self.raises = raises
        self.done: concurrent.futures.Future[T] = concurrent.futures.Future()

    def fail(self, error: BaseException) -> None:
        """Set an exception unless the future is done or cancelled."""
        if not self.done.done() and (self.done.running() or self.done.set_running_or_notify_cancel()):
            self.done.set_exception(error)


class KernelBusy(NotebookError):
    """The kernel stayed busy, so no turn was granted in time."""


class _Kernel(IPythonKernel, Protocol):
    _parent_ident: dict[str, list[bytes]]

    def set_parent(self, ident: list[bytes], parent: Message, channel: str = "shell") -> None: ...


class CellContext:
    """Context of the cell that is running on creation, to attribute later outputs to it, even after its end.

    Main thread only.
    """

    def __init__(self, kernel: object) -> None:
        self._kernel = cast(_Kernel, kernel)
        # Silent and without history: this is no cell, so it has no execution count and must not consume one.
        self._cell: Message = {
            **self._kernel.get_parent("shell"),
            "content": {"silent": True, "store_history": False},
        }
        self._identities = self._kernel._parent_ident["shell"]  # pyright: ignore[reportPrivateUsage]

    @contextmanager
    def entered(self) -> Generator[None]:
        """Temporarily set the parent header to that cell's request."""
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
    """A granted or pending loan of the main thread."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self.loop = asyncio.get_running_loop()
        self.came: asyncio.Future[None] = self.loop.create_future()
        self.over: concurrent.futures.Future[None] = concurrent.futures.Future()

    def begin(self, error: BaseException | None = None) -> None:
        """Report that the turn began, or failed with `error`. Thread-safe."""
        self.loop.call_soon_threadsafe(self._set_result, error)

    def _set_result(self, error: BaseException | None) -> None:
        if not self.came.done():
            _ = self.came.set_result(None) if error is None else self.came.set_exception(error)


class MainThreadTurns:
    """Queue of turns on the main thread between cells. Created on the main thread, in the cell that offers them.

    Raises:
        NotebookError: The address of the kernel's shell channel can't be determined.
    """

    def __init__(self, kernel: object, main_thread: MainThread) -> None:
        self._kernel = cast(_Kernel, kernel)
        self._handlers = cast("dict[str, Callable[..., object]]", self._kernel.shell_handlers)
        self._main_thread = main_thread
        self._requests = OwnRequests(self._kernel, TURN)
        self.offer_here()
        self._waiting: dict[str, _Turn] = {}
        # Factory of a context manager that wraps each turn, on the main thread.
        self.around: Callable[[], Any] = _nothing_around
        # Called on the main thread when the user interrupts a turn.
        self.on_interrupt: Callable[[], None] = lambda: None

    def offer_here(self) -> None:
        """Attribute outputs of future turns to the cell that is running now. Main thread only."""
        self._cell = CellContext(self._kernel)

    def install(self) -> None:
        """Register the handler, replacing that of an earlier instance."""
        self._handlers[TURN] = self._on_turn

    async def close(self) -> None:
        """Unregister the handler and close the socket. On the engine's loop."""
        if self._handlers.get(TURN) == self._on_turn:
            del self._handlers[TURN]
        self._requests.close()

    @asynccontextmanager
    async def turn(self, *, patient: bool = False) -> AsyncGenerator[None]:
        """Hold the main thread inside the block. On the engine's loop.

        Raises:
            KernelBusy: Running and queued cells took longer than `BUSY_WAIT`, and the caller isn't `patient`.
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
        finally:
            self._waiting.pop(turn.id, None)
            turn.over.set_result(None)

    def _on_turn(self, _stream: object, _identities: object, message: Message) -> None:
        """Handle a turn request. Main thread, called by the kernel."""
        turn = self._waiting.pop(str(message["content"].get("id")), None)
        if turn is None:
            return  # the requester has given up
        try:
            # SIGINT is ignored around serving: a signal from `end_code` may arrive late.
            with sigint_goes_to(ignore_interrupt), self._cell.entered(), self.around():
                turn.begin()
                self._main_thread.serve(turn.over, interrupt=self.on_interrupt)
        except NotebookError as error:  # another cell is serving, and its loop called this handler
            turn.begin(error)


@contextmanager
def _nothing_around() -> Generator[None]:
    yield


def ignore_interrupt(_proceed: object) -> None:
    """Ignore a SIGINT that arrives between cells."""


class OwnRequests:
    """Client that sends the kernel requests from inside its own process. Used from one thread, the engine's."""

    def __init__(self, kernel: IPythonKernel, kind: str) -> None:
        self._kind = kind
        self._url = _url_of(kernel)
        with without_working_folder():
            from jupyter_client.session import Session  # noqa: PLC0415 (only where turns are asked for)

        ours = cast(Any, kernel.session)
        self._session: Any = Session(key=ours.key, signature_scheme=ours.signature_scheme)
        self._socket: Any = None  # a `zmq.Socket`, created for the first request

    def send(self, content: Message) -> None:
        """Queue a request behind those already waiting. There is no reply."""
        if self._socket is None:
            import zmq  # noqa: PLC0415 - the kernel has it; IPython in a terminal has no use for it

            self._socket = cast(Any, zmq.Context.instance()).socket(zmq.DEALER)
            self._socket.linger = 0
            self._socket.connect(self._url)
        self._session.send(self._socket, self._kind, content)

    def close(self) -> None:
        """Close the socket. On the sending thread."""
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
