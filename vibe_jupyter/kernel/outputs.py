"""nbformat outputs of code and of cells, collected within bounds: the beginning and the end are kept."""

import contextlib
import json
import sys
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import JsonValue

from vibe_jupyter.kernel.ipython_types import IPythonKernel, Message
from vibe_jupyter.kernel.nested_await import patched_attribute

MAX_COLLECTED_OUTPUT: Final = 8 * 1024 * 1024
"""Characters kept of all outputs together, half of them from the beginning and half from the end."""
_OVERHEAD: Final = 200
"""Characters that an output counts beyond its content, so that a million tiny ones are bounded too."""

Output = dict[str, JsonValue]

_FIELDS: Final = {
    "display_data": ("data", "metadata"),
    "execute_result": ("data", "metadata", "execution_count"),
    "error": ("ename", "evalue", "traceback"),
}
"""What nbformat keeps of each message."""


@dataclass(slots=True, eq=False)
class _Entry:
    output: dict[str, Any]
    size: int
    display_id: str | None = None


class CollectedOutputs:
    """Filled from several threads."""

    def __init__(self, limit: int = MAX_COLLECTED_OUTPUT) -> None:
        self._half = limit // 2
        self._lock = threading.Lock()
        self._clear_first = False
        self._forget_entries()

    def stream(self, name: str, text: str) -> None:
        """Text written to ``stdout`` or ``stderr``."""
        with self._lock:
            self._begin_entry()
            room = self._head_room - _OVERHEAD
            if self._at_beginning() and 0 < room < len(text):
                self._add_entry(_Entry(_stream_output(name, text[:room]), room + _OVERHEAD))
                text = text[room:]
            self._add_entry(_Entry(_stream_output(name, text), len(text) + _OVERHEAD))

    def rich(self, output: dict[str, Any], display_id: str | None = None) -> None:
        """A display_data, execute_result or error output."""
        with self._lock:
            self._begin_entry()
            self._add_entry(_Entry(output, _output_size(output), display_id))

    def update(self, display_id: str, data: dict[str, Any], metadata: dict[str, Any]) -> bool:
        """Change what was displayed under this id; False if nothing was."""
        with self._lock:
            shown = [entry for entry in (*self._head, *self._tail) if entry.display_id == display_id]
            for entry in shown:
                entry.output["data"], entry.output["metadata"] = data, metadata
                growth = _output_size(entry.output) - entry.size
                entry.size += growth
                if entry in self._tail:
                    self._tail_size += growth
                elif growth <= self._head_room:
                    self._head_room -= growth
                else:
                    entry.size -= growth
                    entry.output["data"] = {"text/plain": "[… an update too large to keep …]"}
            self._trim_middle()
        return bool(shown)

    def clear(self, *, wait: bool) -> None:
        """Forget what is there, at once or when the next output comes."""
        with self._lock:
            self._clear_first = wait
            if not wait:
                self._forget_entries()

    def collected(self) -> tuple[Output, ...]:
        """All of it, adjacent streams merged; what was left out is said where it was."""
        with self._lock:
            entries = [entry.output for entry in self._head]
            if self._left_out:
                entries.append(_stream_output("stdout", f"\n[… {self._left_out:,} characters of output left out …]\n"))
            entries.extend(entry.output for entry in self._tail)
        return _merge_entries(entries)

    def _begin_entry(self) -> None:
        if self._clear_first:
            self._clear_first = False
            self._forget_entries()

    def _forget_entries(self) -> None:
        self._head: list[_Entry] = []
        self._tail: deque[_Entry] = deque()
        self._head_room = self._half
        self._tail_size = 0
        self._left_out = 0

    def _add_entry(self, entry: _Entry) -> None:
        if self._at_beginning() and entry.size <= self._head_room:
            self._head.append(entry)
            self._head_room -= entry.size
            return
        self._tail.append(entry)
        self._tail_size += entry.size
        self._trim_middle()

    def _at_beginning(self) -> bool:
        return not self._tail and not self._left_out

    def _trim_middle(self) -> None:
        while self._tail_size > self._half:
            self._shorten_entry(self._tail[0])

    def _shorten_entry(self, first: _Entry) -> None:
        excess = self._tail_size - self._half
        text = first.output.get("text")
        if isinstance(text, str) and excess < len(text):
            first.output["text"] = text[excess:]
            first.size -= excess
            self._tail_size -= excess
            self._left_out += excess
            return
        self._tail.popleft()
        self._tail_size -= first.size
        self._left_out += first.size - _OVERHEAD


def _stream_output(name: str, text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def _output_size(output: dict[str, Any]) -> int:
    return len(json.dumps(output)) + _OVERHEAD


def _merge_entries(entries: list[dict[str, Any]]) -> tuple[Output, ...]:
    merged: list[dict[str, Any]] = []
    texts: list[str] = []
    for output in entries:
        last = merged[-1] if merged else {}
        if output["output_type"] == "stream" == last.get("output_type") and output["name"] == last["name"]:
            texts.append(output["text"])
            continue
        if texts:
            last["text"] += "".join(texts)
            texts = []
        merged.append(dict(output))
    if texts:
        merged[-1]["text"] += "".join(texts)
    return tuple(merged)


@contextmanager
def collect_outputs(kernel: IPythonKernel, request: str, outputs: CollectedOutputs) -> Generator[None]:
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
            _collect_message(outputs, kind, body)
        return send(stream, msg_or_type, content, *rest, **more)

    with patched_attribute(kernel.session, "send", heard):
        try:
            yield
        finally:
            flush_streams()


def flush_streams() -> None:
    """What was printed belongs to the request that holds now."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # replaced or closed by the user's code
            stream.flush()


def _collect_message(outputs: CollectedOutputs, kind: str, body: Message) -> None:
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


def join_lines(value: object) -> str:
    """nbformat writes long texts as lists of lines."""
    if isinstance(value, list):
        return "".join(map(str, cast("list[object]", value)))
    return value if isinstance(value, str) else ""
