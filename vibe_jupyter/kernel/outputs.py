"""Capture outputs of code and cells as nbformat outputs, up to a size limit.

Text is withheld from the cell, because the run view shows it folded in its step. Figures and widgets are displayed in
the cell as usual, and collected too. Widget messages always pass. Long outputs are cut in the middle.
"""

import base64
import contextlib
import io
import json
import select
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, cast

from pydantic import JsonValue

from vibe_jupyter.kernel.ipython_types import IPythonKernel, IPythonShell, Message, patched_attribute
from vibe_jupyter.lazy_patterns import lazy_pattern

# Characters of all outputs together, half from the beginning and half from the end.
MAX_COLLECTED_OUTPUT: Final = 8 * 1024 * 1024
# Characters added to each output's size, so that a million tiny outputs are limited too.
_OVERHEAD: Final = 200

Output = dict[str, JsonValue]

# Message fields that nbformat stores.
_FIELDS: Final = {
    "display_data": ("data", "metadata"),
    "execute_result": ("data", "metadata", "execution_count"),
    "error": ("ename", "evalue", "traceback"),
}


OnOutput = Callable[[str], None]  # called with new text from any thread; must not raise
OnShown = Callable[[], None]  # called from any thread when the cell gets an output; must not raise

MAX_LIVE_TEXT: Final = 16_384  # characters of one message passed on live, from its end
_BACKLOG: Final = 1024 * 1024  # characters that may be buffered before writers wait
_SETTLE: Final = 0.1  # seconds to wait for output of child processes after the code ended
_TEXT: Final = frozenset({"text/plain", "text/html", "text/markdown", "text/latex"})
_KINDS: Final = frozenset({"stream", "display_data", "update_display_data", "execute_result", "error", "clear_output"})
_OF_DISPLAYS: Final = ("data", "metadata", "transient")  # fields of a display_data message
_ANSI: Final = lazy_pattern(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]")


class _Entry:
    def __init__(self, output: dict[str, Any], size: int, display_id: str | None = None) -> None:
        self.output = output
        self.size = size
        self.display_id = display_id


class CollectedOutputs:
    """Outputs collected so far. Thread-safe."""

    def __init__(self, limit: int = MAX_COLLECTED_OUTPUT) -> None:
        self._half = limit // 2
        self._lock = threading.Lock()
        self._clear_first = False
        self._forget_entries()

    def stream(self, name: str, text: str) -> None:
        """Add text written to ``stdout`` or ``stderr``."""
        with self._lock:
            self._begin_entry()
            room = self._head_room - _OVERHEAD
            if self._at_beginning() and 0 < room < len(text):
                self._add_entry(_Entry(_stream_output(name, text[:room]), room + _OVERHEAD))
                text = text[room:]
            self._add_entry(_Entry(_stream_output(name, text), len(text) + _OVERHEAD))

    def rich(self, output: dict[str, Any], display_id: str | None = None) -> None:
        """Add a display_data, execute_result or error output."""
        with self._lock:
            self._begin_entry()
            self._add_entry(_Entry(output, _output_size(output), display_id))

    def update(self, display_id: str, data: dict[str, Any], metadata: dict[str, Any]) -> bool:
        """Update the displays with this id. Returns False if there are none."""
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
        """Discard all outputs, now or with the next output."""
        with self._lock:
            self._clear_first = wait
            if not wait:
                self._forget_entries()

    def collected(self) -> tuple[Output, ...]:
        """Return all outputs with adjacent streams merged and a marker where output was left out."""
        return self._merged(lambda entry: entry.output)

    def messages(self) -> tuple[Output, ...]:
        """Return the outputs like `collected`, with display ids, so that a front end can update them."""
        return self._merged(_with_display_id)

    def _merged(self, output_of: "Callable[[_Entry], dict[str, Any]]") -> tuple[Output, ...]:
        with self._lock:
            entries = [output_of(entry) for entry in self._head]
            if self._left_out:
                entries.append(_stream_output("stdout", f"\n[… {self._left_out:,} characters of output left out …]\n"))
            entries.extend(output_of(entry) for entry in self._tail)
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


def _with_display_id(entry: _Entry) -> dict[str, Any]:
    if entry.display_id is None:
        return entry.output
    return {**entry.output, "transient": {"display_id": entry.display_id}}


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
    """Collect the outputs of a request, identified by its message id."""
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
    """Flush stdout and stderr, so that printed text is attributed to the current parent request."""
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
    """Return the id of a message or a bare header."""
    if not isinstance(message, dict):
        return ""
    header = cast(Message, message)
    return str(header.get("header", header).get("msg_id", ""))


def join_lines(value: object) -> str:
    """Join multi-line text, which nbformat may store as a list of lines."""
    if isinstance(value, list):
        return "".join(map(str, cast("list[object]", value)))
    return value if isinstance(value, str) else ""


def unseen() -> None:
    """Default `OnShown` callback."""


def plain_text(text: str) -> str:
    """Strip ANSI colors and other terminal escapes."""
    return _ANSI.sub("", text)


def exception_message(error: BaseException) -> str:
    """Return the exception's message, even if its ``__str__`` raises."""
    return "".join(traceback.format_exception_only(error)).strip().partition(": ")[2]


@contextmanager
def kernel_capture(
    kernel: IPythonKernel, outputs: CollectedOutputs, on_output: OnOutput, on_shown: OnShown = unseen
) -> Generator[None]:
    """Collect the running cell's iopub messages."""
    session = kernel.session
    tap = _Tap(session.send, _message_id(kernel.get_parent("shell")), outputs, on_output, on_shown)
    flush_streams()
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched_attribute(session, "send", tap.send))
        for name in ("stdout", "stderr"):
            stack.enter_context(_bounded_backlog(getattr(sys, name)))
        yield
        _wait_for_descriptors()
        flush_streams()


@contextmanager
def terminal_capture(shell: IPythonShell, outputs: CollectedOutputs, on_output: OnOutput) -> Generator[None]:
    """Collect what IPython prints in a terminal. Nothing is passed on, since a terminal shows no figures."""
    hook, publisher = shell.displayhook, shell.display_pub

    def result(data: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
        on_output(str(data.get("text/plain", "")))
        outputs.rich(_execute_result(_encode_data(data), metadata or {}))

    def publish(data: dict[str, Any], metadata: dict[str, Any] | None = None, **more: Any) -> None:
        display_id = _display_id(more)
        if more.get("update") and display_id and outputs.update(display_id, _encode_data(data), metadata or {}):
            return
        on_output(str(data.get("text/plain", "")))
        outputs.rich(_display_output(_encode_data(data), metadata or {}), display_id)

    def show_error(kind: type[BaseException], value: BaseException, lines: list[str]) -> None:
        on_output(plain_text("\n".join(lines)))
        outputs.rich(_error_output(kind.__name__, exception_message(value), lines))

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched_attribute(hook, "write_output_prompt", lambda: None))
        stack.enter_context(patched_attribute(hook, "finish_displayhook", lambda: None))
        stack.enter_context(patched_attribute(hook, "write_format_data", result))
        stack.enter_context(patched_attribute(publisher, "publish", publish))
        stack.enter_context(patched_attribute(publisher, "clear_output", lambda wait=False: outputs.clear(wait=wait)))
        stack.enter_context(patched_attribute(shell, "_showtraceback", show_error))
        stack.enter_context(contextlib.redirect_stdout(_Writer("stdout", outputs, on_output)))
        stack.enter_context(contextlib.redirect_stderr(_Writer("stderr", outputs, on_output)))
        yield


class _Tap:
    """Wrapper around `session.send`. Streams are sent from the iopub thread, everything else from the main thread."""

    def __init__(
        self,
        send: Callable[..., Message | None],
        cell: str,
        outputs: CollectedOutputs,
        on_output: OnOutput,
        on_shown: OnShown,
    ) -> None:
        self._send = send
        self._cell = cell
        self._outputs = outputs
        self._on_output = on_output
        self._on_shown = on_shown
        self._withheld: set[str] = set()  # ids of displays not sent to the front end

    def send(
        self, stream: object, msg_or_type: Message | str, content: Message | None = None, *rest: Any, **more: Any
    ) -> Message | None:
        """Replace `jupyter_client.session.Session.send`."""
        if isinstance(msg_or_type, dict):
            kind, body, parent = msg_or_type["header"]["msg_type"], msg_or_type["content"], msg_or_type["parent_header"]
        else:
            kind, body, parent = msg_or_type, content or {}, rest[0] if rest else more.get("parent")
        if kind not in _KINDS or _message_id(parent) != self._cell:
            return self._send(stream, msg_or_type, content, *rest, **more)
        passes = self._collect_message(kind, body)
        if passes is None:
            return None
        if passes != kind:
            content = {name: body[name] for name in _OF_DISPLAYS if name in body}
            if isinstance(msg_or_type, dict):
                header = {**msg_or_type["header"], "msg_type": passes}
                msg_or_type = {**msg_or_type, "header": header, "msg_type": passes, "content": content}
            else:
                msg_or_type = passes
        return self._send(stream, msg_or_type, content, *rest, **more)

    def _collect_message(self, kind: str, body: Message) -> str | None:
        """Collect a message. Returns the message type to pass on to the front end, or None."""
        match kind:
            case "stream":
                self._on_output(body["text"][-MAX_LIVE_TEXT:])
                self._outputs.stream(body["name"], body["text"])
            case "error":
                self._on_output(plain_text("\n".join(body["traceback"]))[-MAX_LIVE_TEXT:])
                self._outputs.rich(_error_output(body["ename"], body["evalue"], body["traceback"]))
            case "clear_output":
                # Passing it on would clear the run view.
                self._outputs.clear(wait=bool(body.get("wait")))
            case _:
                return self._collect_display(kind, body)
        return None

    def _collect_display(self, kind: str, body: Message) -> str | None:
        data: dict[str, Any] = body["data"]
        metadata: dict[str, Any] = body.get("metadata") or {}
        display_id = _display_id(body)
        only_text = _TEXT.issuperset(data)
        if kind == "update_display_data":
            if display_id is None or not self._outputs.update(display_id, data, metadata):
                return kind  # displayed by an earlier cell
            if display_id not in self._withheld:
                return kind
            if only_text:
                return None
            self._withheld.discard(display_id)
            self._on_shown()
            return "display_data"
        if kind == "execute_result":
            self._outputs.rich(_execute_result(data, metadata))
        else:
            self._outputs.rich(_display_output(data, metadata), display_id)
        if not only_text:
            self._on_shown()
            return "display_data"  # also for a result: code run here has no execution count
        self._on_output(str(data.get("text/plain", ""))[-MAX_LIVE_TEXT:] + "\n")
        if display_id:
            self._withheld.add(display_id)
        return None


class _Writer(io.TextIOBase):
    """Text stream that replaces stdout or stderr in a terminal while code runs."""

    def __init__(self, name: str, outputs: CollectedOutputs, on_output: OnOutput) -> None:
        self._name = name
        self._outputs = outputs
        self._on_output = on_output

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if text:
            self._on_output(text[-MAX_LIVE_TEXT:])
            self._outputs.stream(self._name, text)
        return len(text)


def _display_output(data: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def _execute_result(data: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "execute_result", "execution_count": None, "data": data, "metadata": metadata}


def _error_output(name: str, message: str, lines: list[str]) -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": message, "traceback": lines}


def _encode_data(data: dict[str, Any]) -> dict[str, Any]:
    return {
        mime: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for mime, value in data.items()
    }


def _bounded_backlog(stream: Any) -> AbstractContextManager[None]:
    # ipykernel sends written text only a few times a second; without back pressure, fast writers would fill memory.
    write: Callable[[object], int] = stream.write
    backlog = 0

    def write_and_wait(text: object) -> int:
        nonlocal backlog
        if not isinstance(text, str):
            return write(text)  # raises the usual TypeError
        for start in range(0, len(text), _BACKLOG):
            piece = text[start : start + _BACKLOG]
            write(piece)
            backlog += len(piece)
            if backlog >= _BACKLOG:
                backlog = 0
                stream.flush()
        return len(text)

    return patched_attribute(stream, "write", write_and_wait)


def _wait_for_descriptors() -> None:
    """Wait for output that child processes wrote to the kernel's file descriptors; ipykernel threads read it."""
    readers = [fd for stream in (sys.stdout, sys.stderr) if isinstance(fd := getattr(stream, "_fid", None), int)]
    until = time.monotonic() + _SETTLE
    while readers and select.select(readers, [], [], 0)[0] and time.monotonic() < until:
        time.sleep(_SETTLE / 50)
