"""Serve widget clicks while a cell runs.

A kernel handles one shell message at a time, so a click waits until the running cell ends. The pump sits on the
kernel's shell stream: while a cell serves, comm messages are handled at once on the main thread, and everything
else keeps its place in the queue and is handled after the cell.

Only the standard library, zmq and what a kernel has loaded already are imported here: loading stays cheap.
"""

import hmac
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeGuard, cast

import zmq

from vibe_jupyter.notebook.arrivals import Arrivals
from vibe_jupyter.notebook.cell_order import CellOrder
from vibe_jupyter.notebook.shell import Frames, Message, Receive
from vibe_jupyter.notebook.shell_stream import find, receiver

IDLE_LAG: Final = 0.020
"""Seconds in which the kernel has surely called itself idle, once it handled a control message."""
_COMM: Final = frozenset({"comm_open", "comm_msg", "comm_close"})


@dataclass(frozen=True, slots=True)
class QueuedCell:
    """An execute_request as it arrived."""

    code: str
    cell_id: str | None
    """The id of the cell in its notebook; None where the front end sends none."""
    request: str
    """The id of the request."""
    frames: Frames = field(repr=False)
    """The request as it came: whoever takes the cell must run and answer it."""


class Pump:
    """Handles comm messages on the main thread while a cell serves.

    Raises:
        NotebookError: this shell has no kernel, or the kernel lacks what the pump needs.
    """

    def __init__(self, shell: object) -> None:
        self._kernel, self._stream = find(shell)
        self._pass_on: Receive = receiver(self._stream)
        self._order = CellOrder(self._stream)
        self._installed = False
        self._serving = False
        self._flushing = False
        self._in_handler = False
        self._handled: tuple[int, Message] | None = None
        """The comm message that is handled now, and the thread that does it."""
        self._interrupted = False
        self.idle_said = threading.Event()
        """Set from any thread when the control channel handled something: the kernel then called itself idle."""
        self._busy_due: float | None = None
        """When to call it busy again; None while it is."""
        self._arrivals = Arrivals()
        self.on_execute: Callable[[QueuedCell], bool] | None = None
        """Called for each execute_request seen while a cell serves; True takes it out of the queue."""
        self.on_execute_at_rest: Callable[[QueuedCell], bool] | None = None
        """The same for each that is seen while no cell serves."""

    @property
    def in_handler(self) -> bool:
        """Whether the handler of a click runs now; elsewhere a KeyboardInterrupt could lose a message."""
        return self._in_handler

    @property
    def handled(self) -> Message | None:
        """The comm message that this thread handles now; None where it handles none. Any thread."""
        handled = self._handled
        return handled[1] if handled is not None and handled[0] == threading.get_ident() else None

    def behind_running(self) -> list[str]:
        """Code of the cells that came after the running one, as far as they were seen."""
        return self._arrivals.behind(self._kernel.get_parent("shell")["header"]["msg_id"])

    def install(self) -> None:
        """Sit on the shell stream, in the place of an earlier pump if there is one."""
        if self._installed:
            return
        current = receiver(self._stream)
        earlier = cast(object, getattr(current, "__self__", None))
        if _is_pump(earlier):
            earlier.uninstall()
        self._pass_on = receiver(self._stream)
        self._stream.on_recv(self._receive, copy=False)
        self._installed = True
        self.hold()

    def uninstall(self) -> None:
        """Give the stream back as it was."""
        if self._installed and receiver(self._stream) == self._receive:
            self._stream.on_recv(self._pass_on, copy=False)
        # If somebody else wrapped our callback meanwhile, it stays in their chain and only passes messages on.
        self._installed = False

    @contextmanager
    def serving(self) -> Generator[None]:
        """Handle comm messages at once, also those that a nested event loop receives."""
        before, self._serving = self._serving, True
        try:
            yield
        finally:
            self._serving = before

    def wait(self, seconds: float) -> None:
        """Block until a shell message is there or the time is over, then handle what waits. Main thread only."""
        if not self._installed or self._stream.closed():
            time.sleep(seconds)
            return
        self._busy_due = self._after_idle(self._busy_due)
        if not self._stream.socket.poll(round(seconds * 1000)):
            return
        self._flushing = True
        try:
            with self.serving():
                self._stream.flush(zmq.POLLIN)
        finally:
            self._flushing = False
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt

    def hold(self) -> None:
        """Keep queued cells back until the running cell ends."""
        self._order.hold(self._pass_on)

    def _receive(self, frames: Frames) -> Awaitable[None] | None:
        if not self._installed:
            return self._pass_on(frames)
        kind, code = self._peek(frames)
        if self._serving and kind in _COMM and self._serve_comm(frames, kind):
            return None
        take = self.on_execute if self._serving else self.on_execute_at_rest
        if code is not None and take is not None and take(code):
            return None
        passed = self._pass_on(frames)
        if passed is None or kind in _COMM:
            return passed
        return self._order.after_earlier_ones(passed)

    def _peek(self, frames: Frames) -> tuple[str, QueuedCell | None]:
        """Type and cell of a message; an empty type for what is none, such as ipykernel 7's own wake-up call.

        `session.deserialize` would remember the signature, and the kernel would then drop the message as a
        duplicate: so the signature is compared here, and the parts are unpacked one by one.
        """
        session = self._kernel.session
        try:
            _, parts = session.feed_identities(frames, copy=False)
            signature, header, parent, metadata, content = (part.bytes for part in parts[:5])
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
            return False  # the kernel will find the same, and log it
        cell = kernel.get_parent("shell")
        self._publish("busy", message)
        try:
            self._in_handler = True
            self._handled = (threading.get_ident(), message)
            _run_to_end(kernel.shell_handlers[kind](None, identities, message))
        except KeyboardInterrupt:
            if not self._flushing:
                raise
            self._interrupted = True  # raised by `wait`, when the stream is in order again
        finally:
            self._in_handler = False
            self._handled = None
            # Without the idle of its own message a front end holds back every further change of a slider.
            self._publish("idle", message)
            self._publish("busy", cell)
        return True

    def _after_idle(self, due: float | None) -> float | None:
        """Call the kernel busy a moment after it called itself idle; front ends and servers believe the last word."""
        if self.idle_said.is_set():
            self.idle_said.clear()
            return time.monotonic() + IDLE_LAG
        if due is None or time.monotonic() < due:
            return due
        self._publish("busy", self._kernel.get_parent("shell"))
        return None

    def _publish(self, state: str, parent: Message) -> None:
        kernel = self._kernel
        topic = f"kernel.{kernel.ident}.status".encode()
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=parent, ident=topic)


def _is_pump(owner: object) -> TypeGuard[Pump]:
    """Whether this is a pump, also one of this module before it was reloaded."""
    return type(owner).__module__ == __name__ and type(owner).__name__ == Pump.__name__


def _run_to_end(outcome: object) -> None:
    """Handlers of comm messages are plain functions; if one is a coroutine function, it has nothing to wait for."""
    if inspect.iscoroutine(outcome):
        try:
            outcome.send(None)
        except StopIteration:
            return
        outcome.close()
