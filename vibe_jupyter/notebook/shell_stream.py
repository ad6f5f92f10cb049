"""Where a kernel receives its shell messages, and whether it has all that the pump uses.

Much of this is private to ipykernel and to pyzmq: looked for before it is used, tested on each version of the matrix.
"""

from typing import Final, cast

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.shell import Kernel, Receive, Stream

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
"""What the pump uses of a kernel, beside its shell stream."""


def find(shell: object) -> tuple[Kernel, Stream]:
    """The kernel of a shell, and the stream on which its main thread gets shell messages.

    Raises:
        NotebookError: there is no kernel, or something the pump needs is missing; the text says what.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        raise NotebookError("Clicks cannot be served here: this IPython has no Jupyter kernel.")
    missing = [name for name in _NEEDED if _look_up(kernel, name) is None]
    # ipykernel 7 reads the shell socket on a thread of its own and hands messages to the main thread.
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
    return cast(Kernel, kernel), cast(Stream, stream)


def receiver(stream: Stream) -> Receive:
    """What is called for each message of the stream now."""
    return cast(Receive, getattr(stream, "_recv_callback"))  # noqa: B009 (private to pyzmq, found by `find`)


def _look_up(start: object, path: str) -> object | None:
    for name in path.split("."):
        start = getattr(start, name, None)
    return start
