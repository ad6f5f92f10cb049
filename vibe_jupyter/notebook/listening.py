"""Hear what a cell puts out while all of it goes on to the front end."""

import contextlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, cast

from vibe_jupyter.notebook.attribute import attribute
from vibe_jupyter.notebook.outputs import Outputs
from vibe_jupyter.notebook.shell import Kernel, Message

_FIELDS: Final = {
    "display_data": ("data", "metadata"),
    "execute_result": ("data", "metadata", "execution_count"),
    "error": ("ename", "evalue", "traceback"),
}
"""What nbformat keeps of each message."""


@contextmanager
def listening(kernel: Kernel, request: str, outputs: Outputs) -> Generator[None]:
    """Collect the outputs that belong to a request, given by the id of its message."""
    send = kernel.session.send

    def heard(
        stream: object, msg_or_type: Message | str, content: Message | None = None, *rest: Any, **more: Any
    ) -> Message | None:
        if isinstance(msg_or_type, dict):
            kind, body, parent = msg_or_type["header"]["msg_type"], msg_or_type["content"], msg_or_type["parent_header"]
        else:
            kind, body, parent = msg_or_type, content or {}, rest[0] if rest else more.get("parent")
        if _message_id(parent) == request:
            _collect(outputs, kind, body)
        return send(stream, msg_or_type, content, *rest, **more)

    with attribute(kernel.session, "send", heard):
        try:
            yield
        finally:
            flush_streams()


def flush_streams() -> None:
    """What was printed belongs to the request that holds now."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # replaced or closed by the person's code
            stream.flush()


def _collect(outputs: Outputs, kind: str, body: Message) -> None:
    match kind:
        case "stream":
            outputs.stream(body["name"], body["text"])
        case "clear_output":
            outputs.clear(wait=bool(body.get("wait")))
        case "update_display_data":
            outputs.update(_display_id(body) or "", body["data"], body.get("metadata") or {})
        case "display_data" | "execute_result" | "error":
            kept = {name: body.get(name) for name in _FIELDS[kind]}
            outputs.rich({"output_type": kind, **kept}, _display_id(body))
        case _:
            pass


def _display_id(body: Message) -> str | None:
    transient = cast(Message, body.get("transient") or {})
    return cast("str | None", transient.get("display_id"))


def _message_id(message: object) -> str:
    """Of a message or of a header alone."""
    if not isinstance(message, dict):
        return ""
    header = cast(Message, message)
    return str(header.get("header", header).get("msg_id", ""))
