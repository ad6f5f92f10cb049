"""nbformat outputs of one piece of code, collected within bounds: the beginning and the end are kept."""

import json
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

MAX_COLLECTED_OUTPUT: Final = 8 * 1024 * 1024
"""Characters kept of all outputs together, half of them from the beginning and half from the end."""
_OVERHEAD: Final = 200
"""Characters that an output counts beyond its content, so that a million tiny ones are bounded too."""

Output = dict[str, JsonValue]


@dataclass(slots=True, eq=False)
class _Entry:
    output: dict[str, Any]
    size: int
    display_id: str | None = None


class Outputs:
    """Filled from several threads."""

    def __init__(self, limit: int = MAX_COLLECTED_OUTPUT) -> None:
        self._half = limit // 2
        self._lock = threading.Lock()
        self._clear_first = False
        self._forget()

    def stream(self, name: str, text: str) -> None:
        """Text written to ``stdout`` or ``stderr``."""
        with self._lock:
            self._begin()
            room = self._head_room - _OVERHEAD
            if self._at_beginning() and 0 < room < len(text):
                self._add(_Entry(_stream(name, text[:room]), room + _OVERHEAD))
                text = text[room:]
            self._add(_Entry(_stream(name, text), len(text) + _OVERHEAD))

    def rich(self, output: dict[str, Any], display_id: str | None = None) -> None:
        """A display_data, execute_result or error output."""
        with self._lock:
            self._begin()
            self._add(_Entry(output, _size(output), display_id))

    def update(self, display_id: str, data: dict[str, Any], metadata: dict[str, Any]) -> bool:
        """Change what was displayed under this id; False if nothing was."""
        with self._lock:
            shown = [entry for entry in (*self._head, *self._tail) if entry.display_id == display_id]
            for entry in shown:
                entry.output["data"], entry.output["metadata"] = data, metadata
                growth = _size(entry.output) - entry.size
                entry.size += growth
                if entry in self._tail:
                    self._tail_size += growth
                elif growth <= self._head_room:
                    self._head_room -= growth
                else:
                    entry.size -= growth
                    entry.output["data"] = {"text/plain": "[… an update too large to keep …]"}
            self._trim()
        return bool(shown)

    def clear(self, *, wait: bool) -> None:
        """Forget what is there, at once or when the next output comes."""
        with self._lock:
            self._clear_first = wait
            if not wait:
                self._forget()

    def collected(self) -> tuple[Output, ...]:
        """All of it, adjacent streams merged; what was left out is said where it was."""
        with self._lock:
            entries = [entry.output for entry in self._head]
            if self._left_out:
                entries.append(_stream("stdout", f"\n[… {self._left_out:,} characters of output left out …]\n"))
            entries.extend(entry.output for entry in self._tail)
        return _merged(entries)

    def _begin(self) -> None:
        if self._clear_first:
            self._clear_first = False
            self._forget()

    def _forget(self) -> None:
        self._head: list[_Entry] = []
        self._tail: deque[_Entry] = deque()
        self._head_room = self._half
        self._tail_size = 0
        self._left_out = 0

    def _add(self, entry: _Entry) -> None:
        if self._at_beginning() and entry.size <= self._head_room:
            self._head.append(entry)
            self._head_room -= entry.size
            return
        self._tail.append(entry)
        self._tail_size += entry.size
        self._trim()

    def _at_beginning(self) -> bool:
        return not self._tail and not self._left_out

    def _trim(self) -> None:
        while self._tail_size > self._half:
            self._shorten(self._tail[0])

    def _shorten(self, first: _Entry) -> None:
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


def _stream(name: str, text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def _size(output: dict[str, Any]) -> int:
    return len(json.dumps(output)) + _OVERHEAD


def _merged(entries: list[dict[str, Any]]) -> tuple[Output, ...]:
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
