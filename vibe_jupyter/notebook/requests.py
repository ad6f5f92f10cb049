"""An execute_request taken off the kernel's queue: whoever takes it must answer it."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol, cast

import zmq

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.listening import flush_streams
from vibe_jupyter.notebook.shell import Frames, Kernel, Message


class _Kernel(Kernel, Protocol):
    _parent_ident: dict[str, list[bytes]]
    shell_stream: Any

    def set_parent(self, ident: list[bytes], parent: Message, channel: str = "shell") -> None: ...
    def execute_request(self, stream: object, ident: list[bytes], parent: Message) -> Any: ...


class TakenRequest:
    """To be executed, or answered as not run, exactly once. Main thread only."""

    def __init__(self, kernel: Kernel, frames: Frames) -> None:
        self._kernel = cast(_Kernel, kernel)
        self._identities, parts = kernel.session.feed_identities(frames, copy=False)
        self._message = kernel.session.deserialize(parts, content=True, copy=False)

    @property
    def id(self) -> str:
        """Of its message: what belongs to it names it as its parent."""
        return self._message["header"]["msg_id"]

    @contextmanager
    def as_parent(self) -> Generator[None]:
        """What the kernel tells meanwhile belongs to this request; afterwards to the one before again."""
        kernel = self._kernel
        outer, identities = kernel.get_parent("shell"), kernel._parent_ident["shell"]  # pyright: ignore[reportPrivateUsage]
        flush_streams()
        kernel.set_parent(self._identities, self._message, "shell")
        self._publish("busy", self._message)
        try:
            yield
        finally:
            flush_streams()
            self._publish("idle", self._message)
            kernel.set_parent(identities, outer, "shell")
            self._publish("busy", outer)

    def execute(self) -> None:
        """Let the kernel execute and answer it.

        Raises:
            NotebookError: this kernel puts executions off.
        """
        # Its failure is not to make void what the person queued.
        self._message["content"]["stop_on_error"] = False
        stream = self._reply_stream()
        execution = self._kernel.execute_request(stream, self._identities, self._message)
        try:
            execution.send(None)
        except StopIteration:
            pass
        else:
            execution.close()
            raise NotebookError("The kernel did not run the cell at once. Run it by hand, when this cell has ended.")
        finally:
            _send_out(stream)

    def answer_unrun(self) -> None:
        """As the kernel answers what an error before it made void."""
        stream, status = self._reply_stream(), {"status": "aborted"}
        self._publish("busy", self._message)
        self._kernel.session.send(
            stream, "execute_reply", status, parent=self._message, ident=self._identities, metadata=status
        )
        _send_out(stream)
        self._publish("idle", self._message)

    def _reply_stream(self) -> Any:
        thread = getattr(self._kernel, "shell_channel_thread", None)
        if thread is None:
            return self._kernel.shell_stream
        return thread.manager.get_subshell_to_shell_channel_socket(None)

    def _publish(self, state: str, parent: Message) -> None:
        kernel = self._kernel
        topic = f"kernel.{kernel.ident}.status".encode()
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, parent=parent, ident=topic)


def _send_out(stream: Any) -> None:
    """A stream of ipykernel 6 would send when its loop turns, which is after the running cell."""
    if hasattr(stream, "flush"):
        stream.flush(zmq.POLLOUT)
