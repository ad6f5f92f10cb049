"""Sessions that Mistral Vibe 3 stores below ``unified``, with messages converted to the format of earlier versions.

A session is a directory. `CURRENT` names the current generation, its `manifest.json` names the checkpoint, and the
history is in `chunks`, in the manifest's order, followed by the messages in the checkpoint itself. Events since the
last completed turn are in a separate journal, which isn't read.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Final, cast

CURRENT_NAME: Final = "CURRENT"
FOLDER: Final = "unified"
_MANIFEST: Final = "manifest.json"
MAX_FILE: Final = 64 * 2**20  # bytes; larger files aren't read

Fields = Mapping[str, Any]


def unified_messages(place: Path) -> Iterator[Fields]:
    """Yield a session's history up to its last turn, oldest first. Yields nothing if its files are damaged."""
    generation = place / "generations" / _name(read_fields(place / CURRENT_NAME).get("generation"))
    checkpoint = as_fields(read_fields(generation / _MANIFEST).get("checkpoint"))
    for chunk in as_items(checkpoint.get("chunks")):
        yield from map(_plain_message, as_items(read_json(place / "chunks" / f"{_name(chunk)}.json")))
    rest = as_fields(read_fields(generation / _name(checkpoint.get("path"))).get("context"))
    yield from map(_plain_message, as_items(rest.get("messages")))


def read_json(file: Path) -> object:
    """Parse a JSON file. Returns None if that fails."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if file.stat().st_size <= MAX_FILE:
            return json.loads(file.read_bytes())
    return None


def read_fields(file: Path) -> Fields:
    """Parse a JSON file that should contain an object. Returns {} if it doesn't."""
    return as_fields(read_json(file))


def as_fields(value: object) -> Fields:
    """Return the value if it is an object, else {}."""
    return cast("Fields", value) if isinstance(value, dict) else {}


def as_items(value: object) -> list[object]:
    """Return the value if it is a list, else []."""
    return cast("list[object]", value) if isinstance(value, list) else []


def _plain_message(entry: object) -> Fields:
    message = as_fields(as_fields(entry).get("message"))
    parts = [as_fields(part) for part in as_items(message.get("content"))]
    thoughts = [one for part in parts if part.get("type") == "reasoning" for one in as_items(part.get("content"))]
    return {
        **message,
        "content": [part for part in parts if part.get("type") == "text"],
        "reasoning_content": thoughts,
        "tool_calls": [_plain_call(part) for part in parts if part.get("type") == "tool_call"],
        "images": [_plain_image(part) for part in parts if part.get("type") == "image"],
        "resources": [part for part in parts if part.get("type") in ("resource", "resource_link")],
    }


def _plain_call(part: Fields) -> Fields:
    arguments = as_fields(part.get("arguments")).get("raw")
    return {"id": part.get("id"), "function": {"name": part.get("name"), "arguments": arguments}}


def _plain_image(part: Fields) -> Fields:
    name = as_fields(part.get("file_fallback")).get("name")
    return {"data": part.get("data"), "mime_type": part.get("mimeType"), "alias": name}


def _name(value: object) -> str:
    """Return the last component of a path, so that it can't lead to another directory."""
    return PurePath(value).name if isinstance(value, str) else ""
