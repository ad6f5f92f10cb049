"""The sessions that Mistral Vibe 3 keeps below ``unified``, with each message as earlier versions wrote it.

A session is a folder. `CURRENT` names the generation that counts, the generation's `manifest.json` its checkpoint, and
the history is in `chunks`, in the order of the manifest, with what came after them in the checkpoint itself. What
happened since the last turn that ended is in a journal of its own, which is not read.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Final, cast

CURRENT_NAME: Final = "CURRENT"
FOLDER: Final = "unified"
_MANIFEST: Final = "manifest.json"
MAX_FILE: Final = 64 * 2**20
"""Bytes of a file that is read."""

Fields = Mapping[str, Any]


def unified_messages(place: Path) -> Iterator[Fields]:
    """The history of a session as of its last turn, the oldest message first. Nothing where its files are broken."""
    generation = place / "generations" / _name(read_fields(place / CURRENT_NAME).get("generation"))
    checkpoint = as_fields(read_fields(generation / _MANIFEST).get("checkpoint"))
    for chunk in as_items(checkpoint.get("chunks")):
        yield from map(_plain_message, as_items(read_json(place / "chunks" / f"{_name(chunk)}.json")))
    rest = as_fields(read_fields(generation / _name(checkpoint.get("path"))).get("context"))
    yield from map(_plain_message, as_items(rest.get("messages")))


def read_json(file: Path) -> object:
    """What a file holds; None where it cannot be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if file.stat().st_size <= MAX_FILE:
            return json.loads(file.read_bytes())
    return None


def read_fields(file: Path) -> Fields:
    """The same of a file that holds an object; without fields where it holds none."""
    return as_fields(read_json(file))


def as_fields(value: object) -> Fields:
    """An object as it is, anything else as one without fields."""
    return cast("Fields", value) if isinstance(value, dict) else {}


def as_items(value: object) -> list[object]:
    """A list as it is, anything else as an empty one."""
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
    """A name of a file or folder that leads nowhere else."""
    return PurePath(value).name if isinstance(value, str) else ""
