"""Serve widget clicks while a cell runs.

A kernel handles one shell message at a time, so a click waits until the running cell ends. The pump replaces the
receive callback of the kernel's shell stream: while a cell serves, comm messages are handled immediately on the main
thread, and everything else stays in the queue and is handled after the cell.

Only the standard library, zmq and modules that every kernel has loaded are imported here, to keep loading fast.

Much of this is private to ipykernel and pyzmq: it is probed before use and tested on each version of the matrix.
"""

import asyncio
import hmac
import inspect
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, TypeGuard, cast

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.ipython_types import Frames, IPythonKernel, Message, Receive, ShellStream

# Seconds after a control message by which the kernel has certainly published its idle status.
IDLE_LAG: Final = 0.020
_COMM: Final = frozenset({"comm_open", "comm_msg", "comm_close"})

# Attributes of the kernel that the pump uses, besides the shell stream.
_NEEDED: Final = (
    "session.feed_identities",
    "session.deserialize",
    "session.unpack",
    "session.sign",
    "session.send",
    "iopub_socket",
    "ident",
    "shell_handlers",
    "get_parent",
)

_ORDER: Final = "_vibe_jupyter_order"  # attribute of the shell stream

REMEMBERED: Final = 500  # cells; Run All queues as many as a notebook has


class QueuedCell(NamedTuple):
    """An execute_request as it arrived."""

    code: str
    cell_id: str | None  # None if the front end doesn't send it
    request: str  # message id
    frames: Frames  # the raw message; whoever takes the cell must run and answer it


class Pump:
    """Handler of comm messages on the main thread while a cell serves.

    Raises:
        NotebookError: This shell has no kernel, or the kernel lacks an attribute that the pump needs.
    """

    def __init__(self, shell: object) -> None:
        self._kernel, self._stream = find_shell_stream(shell)
        self._pass_on: Receive = message_receiver(self._stream)
        self._order = CellOrder(self._stream)
        self._installed = False
        self._serving = False
        self._flushing = False
        self._in_handler = False
        self._handled: tuple[int, Message] | None = None  # id of the handling thread, and its comm message
        self._interrupted = False
        # Set from any thread after the control channel handled a message: the kernel then published an idle status.
        self.idle_said = threading.Event()
        # Comm messages in the kernel's queue, possibly behind a cell that isn't serving yet.
        self._early: deque[_EarlyComm] = deque()
        self._busy_due: float | None = None  # when to publish the busy status again, or None
        self._arrivals = QueuedCells()
        # Called for each execute_request seen while a cell serves. True takes it off the queue.
        self.on_execute: Callable[[QueuedCell], bool] | None = None
        self.on_execute_at_rest: Callable[[QueuedCell], bool] | None = None  # likewise, while no cell serves

    @property
    def in_handler(self) -> bool:
        """True while a click handler is running. Anywhere else, a KeyboardInterrupt could lose a message."""
        return self._in_handler

    @property
    def handled(self) -> Message | None:
        """The comm message being handled on the calling thread, or None. Thread-safe."""
        handled = self._handled
        return handled[1] if handled is not None and handled[0] == threading.get_ident() else None

    def behind_running(self) -> list[str]:
        """Return the code of the cells received after the running one, as far as they were seen."""
        return self._arrivals.behind(self._kernel.get_parent("shell")["header"]["msg_id"])

    def install(self) -> None:
        """Replace the shell stream's receive callback, or that of an earlier pump."""
        if self._installed:
            return
        current = message_receiver(self._stream)
        earlier = cast(object, getattr(current, "__self__", None))
        if _is_pump(earlier):
            earlier.uninstall()
        self._pass_on = message_receiver(self._stream)
        self._stream.on_recv(self._receive_frames, copy=False)
        self._installed = True
        self.hold()

    def uninstall(self) -> None:
        """Restore the stream's callback."""
        if self._installed and message_receiver(self._stream) == self._receive_frames:
            self._stream.on_recv(self._pass_on, copy=False)
        # If our callback was wrapped meanwhile, it stays in that chain and passes messages on.
        self._installed = False

    @contextmanager
    def serving(self) -> Generator[None]:
        """Handle comm messages immediately inside the block, including those received by a nested event loop."""
        before, self._serving = self._serving, True
        try:
            yield
        finally:
            self._serving = before

    def wait(self, seconds: float) -> None:
        """Block until a shell message arrives or the time is up, then handle pending messages. Main thread only."""
        if not self._installed or self._stream.closed():
            time.sleep(seconds)
            return
        self._busy_due = self._after_idle(self._busy_due)
        if not self._early and not self._stream.socket.poll(round(seconds * 1000)):
            return
        self._flushing = True
        try:
            with self.serving():
                self._serve_early()
                import zmq  # noqa: PLC0415 - every kernel has it; IPython in a terminal has no use for it

                self._stream.flush(zmq.POLLIN)
        finally:
            self._flushing = False
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt

    def hold(self) -> None:
        """Delay queued cells until the running cell ends."""
        self._order.hold(self._pass_on)

    def _receive_frames(self, frames: Frames) -> Awaitable[None] | None:
        if not self._installed:
            return self._pass_on(frames)
        kind, code = self._peek_message(frames)
        if self._serving and kind in _COMM and self._serve_comm(frames, kind):
            return None
        take = self.on_execute if self._serving else self.on_execute_at_rest
        if code is not None and take is not None and take(code):
            return None
        if kind in _COMM and (handle := self._kernels_handler()) is not None:
            early = _EarlyComm(frames, kind)
            self._early.append(early)
            return handle(early)
        passed = self._pass_on(frames)
        if passed is None or kind in _COMM:
            return passed
        return self._order.after_earlier_ones(passed)

    def _kernels_handler(self) -> "Callable[[_EarlyComm], Awaitable[None] | None] | None":
        """Return a function that queues a comm message in the kernel, to be skipped there if a cell served it first.

        A kernel may read a click together with the cell that should serve it, before that cell begins. Returns None
        for an unknown kind of receiver.
        """
        pass_on = self._pass_on
        if inspect.iscoroutinefunction(pass_on):
            return lambda early: self._pass_unless_served(early, pass_on)
        if isinstance(pass_on, partial) and len(pass_on.args) == 1:  # ipykernel 6: a partial that queues its handler
            return lambda early: cast(None, pass_on.func(self._pass_unless_served, early, *pass_on.args))
        return None

    async def _pass_unless_served(self, early: "_EarlyComm", handle: Callable[[Frames], Awaitable[None]]) -> None:
        if early in self._early:
            self._early.remove(early)
        if not early.is_served:
            await handle(early.frames)

    def _serve_early(self) -> None:
        while self._early:
            early = self._early.popleft()
            early.is_served = self._serve_comm(early.frames, early.kind)

    def _peek_message(self, frames: Frames) -> tuple[str, QueuedCell | None]:
        """Return the type of a message and its cell, if any; "" for non-messages, such as ipykernel 7's wake-up call.

        `session.deserialize` would record the signature, and the kernel would then drop the message as a duplicate
        (replay protection). So the signature is compared here, and the parts are unpacked one by one.
        """
        session = self._kernel.session
        try:
            _, parts = session.feed_identities(frames, copy=False)
            signature, header, parent, metadata, content = [part.bytes for part in parts[:5]]
            if session.auth is not None:
                expected = session.sign([header, parent, metadata, content])
                if not hmac.compare_digest(expected, signature):
                    return "", None
            head = session.unpack(header)
            kind = str(head["msg_type"])
            if kind != "execute_request":
                return kind, None
            code = str(session.unpack(content).get("code", ""))
            request = str(head["msg_id"])
            self._arrivals.note(request, code)
            return kind, QueuedCell(code, session.unpack(metadata).get("cellId"), request, frames)
        except (ValueError, KeyError, TypeError, AttributeError):
            return "", None

    def _serve_comm(self, frames: Frames, kind: str) -> bool:
        kernel = self._kernel
        identities, parts = kernel.session.feed_identities(frames, copy=False)
        try:
            message = kernel.session.deserialize(parts, content=True, copy=False)
        except (ValueError, TypeError):
            return False  # the kernel will fail the same way and log it
        cell = kernel.get_parent("shell")
        self._publish_state("busy", message)
        try:
            self._in_handler = True
            self._handled = (threading.get_ident(), message)
            if not self._is_late(message):
                _run_to_end(kernel.shell_handlers[kind](None, identities, message))
        except KeyboardInterrupt:
            if not self._flushing:
                raise
            self._interrupted = True  # raised by `wait`, once the stream is consistent again
        finally:
            self._in_handler = False
            self._handled = None
            # A front end throttles slider changes until it receives the idle status of the last one.
            self._publish_state("idle", message)
            self._publish_state("busy", cell)
        return True

    def _is_late(self, message: Message) -> bool:
        """Return whether the message's widget is closed, e.g. if its run ended while a page was loading.

        The kernel would only print a warning into this cell's output.
        """
        known = getattr(getattr(self._kernel, "comm_manager", None), "comms", None)
        is_open = message["header"]["msg_type"] == "comm_open"
        return known is not None and not is_open and message["content"].get("comm_id") not in known

    def _after_idle(self, due: float | None) -> float | None:
        """Publish the busy status shortly after an idle one: front ends and servers believe the latest status."""
        if self.idle_said.is_set():
            self.idle_said.clear()
            return time.monotonic() + IDLE_LAG
        if due is None or time.monotonic() < due:
            return due
        self._publish_state("busy", self._kernel.get_parent("shell"))
        return None

    def _publish_state(self, state: str, parent: Message) -> None:
        kernel = self._kernel
        topic = f"kernel.{kernel.ident}.status".encode()
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=parent, ident=topic)


class _EarlyComm:
    """A received comm message, and whether a cell handled it before the kernel did."""

    def __init__(self, frames: Frames, kind: str) -> None:
        self.frames, self.kind = frames, kind
        self.is_served = False


def _is_pump(owner: object) -> TypeGuard[Pump]:
    """Return whether this is a pump, even one created before this module was reloaded."""
    return type(owner).__module__ == __name__ and type(owner).__name__ == Pump.__name__


def _run_to_end(outcome: object) -> None:
    """Run a comm handler's coroutine, if it is one. Comm handlers never await anything."""
    if inspect.iscoroutine(outcome):
        try:
            outcome.send(None)
        except StopIteration:
            return
        outcome.close()


def find_shell_stream(shell: object) -> tuple[IPythonKernel, ShellStream]:
    """Return a shell's kernel, and the stream on which its main thread receives shell messages.

    Raises:
        NotebookError: There is no kernel, or it lacks an attribute that the pump needs, which the message names.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        raise NotebookError("Clicks cannot be served here: this IPython has no Jupyter kernel.")
    missing = [name for name in _NEEDED if _look_up(kernel, name) is None]
    # ipykernel 7 reads the shell socket on a separate thread and forwards messages to the main thread.
    own_thread = getattr(kernel, "shell_channel_thread", None) is not None
    place = "shell_channel_thread.manager._shell_channel_to_main.to_stream" if own_thread else "shell_stream"
    stream = _look_up(kernel, place)
    if stream is None or any(_look_up(stream, name) is None for name in ("on_recv", "flush", "socket", "closed")):
        missing.append(place)
    elif not callable(getattr(stream, "_recv_callback", None)):
        missing.append(f"{place}._recv_callback")
    if missing:
        raise NotebookError(
            f"Clicks cannot be served while a cell runs: this kernel ({type(kernel).__module__}) has no "
            f"{', '.join(missing)}. Questions are asked as text; `pip install -U ipykernel` may help."
        )
    return cast(IPythonKernel, kernel), cast(ShellStream, stream)


def message_receiver(stream: ShellStream) -> Receive:
    """Return the stream's current receive callback."""
    return cast(Receive, getattr(stream, "_recv_callback"))  # noqa: B009 (private to pyzmq, found by `find_shell_stream`)


def _look_up(start: object, path: str) -> object | None:
    for name in path.split("."):
        start = getattr(start, name, None)
    return start


class CellOrder:
    """Queue that runs cells in order of arrival.

    ipykernel 7 runs all shell messages in one shared context, and a task that starts in it while a nested loop runs is
    lost. So cells queued behind a running one must wait for a lock.
    """

    def __init__(self, stream: ShellStream) -> None:
        self._turn = _turn_of(stream)
        self._held = False

    async def after_earlier_ones(self, cell: Awaitable[None]) -> None:
        """Run a cell after all earlier ones."""
        async with self._turn:
            await cell

    def hold(self, pass_on: Receive) -> None:
        """Delay queued cells until the running cell ends, unless the running cell itself holds the lock.

        Args:
            pass_on: The kernel's receiver. If it isn't a coroutine function, it handles cells synchronously.
        """
        if self._turn.locked() or not inspect.iscoroutinefunction(pass_on):
            return
        running = _running_task()
        if running is None or not _acquire_lock(self._turn):
            return
        self._held = True
        running.add_done_callback(lambda _: self._release_turn())

    def _release_turn(self) -> None:
        if self._held:
            self._held = False
            self._turn.release()


def _turn_of(stream: ShellStream) -> asyncio.Lock:
    """Return the stream's lock, shared by all pumps it ever has, since waiting cells must outlive a pump."""
    turn = getattr(stream, _ORDER, None)
    if not isinstance(turn, asyncio.Lock):
        turn = asyncio.Lock()
        setattr(stream, _ORDER, turn)
    return turn


def _running_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop is running
        return None


def _acquire_lock(lock: asyncio.Lock) -> bool:
    attempt = lock.acquire()
    try:
        attempt.send(None)
    except StopIteration:
        return True
    attempt.close()  # another task is about to get it
    return False


class QueuedCells:
    """Code of recently received cells, by request id."""

    def __init__(self) -> None:
        self._cells: deque[tuple[str, str]] = deque(maxlen=REMEMBERED)

    def note(self, request: str, code: str) -> None:
        """Record a received cell."""
        self._cells.append((request, code))

    def behind(self, request: str) -> list[str]:
        """Return the code of the cells received after this request, or nothing if it is unknown."""
        cells = list(self._cells)
        place = next((n for n, (name, _) in enumerate(cells) if name == request), len(cells))
        return [code for _, code in cells[place + 1 :]]
