"""A request as a scripted model got it."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

Object = dict[str, Any]


@dataclass(frozen=True)
class ModelRequest:
    """One POST to ``/chat/completions``, or to Ollama's ``/api/chat``."""

    body: Object
    headers: Mapping[str, str]
    """Names in lower case."""
    path: str = ""
    """With the query."""
    raw: bytes = b""
    """The body as it came."""
    gone: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    """Set when the client closed the connection before the reply was complete."""

    @property
    def messages(self) -> list[Object]:
        """The conversation."""
        return objects(self.body.get("messages"))

    @property
    def tools(self) -> list[str]:
        """Names of the tools on offer."""
        return [str(object_of(tool.get("function")).get("name")) for tool in objects(self.body.get("tools"))]

    @property
    def stream(self) -> bool:
        """Whether deltas are wanted."""
        return self.body.get("stream") is True

    @property
    def last_user_text(self) -> str:
        """What the person wrote last, empty when nothing."""
        return next((_text(m.get("content")) for m in reversed(self.messages) if m.get("role") == "user"), "")

    @property
    def tool_results(self) -> list[str]:
        """Texts of the results since the person last wrote."""
        results: list[str] = []
        for message in reversed(self.messages):
            if message.get("role") == "user":
                break
            if message.get("role") == "tool":
                results.append(_text(message.get("content")))
        return results[::-1]


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(str(part["text"]) for part in objects(content) if part.get("type") == "text")


def object_of(value: object) -> Object:
    """A JSON object; an empty one for anything else."""
    return cast("Object", value) if isinstance(value, dict) else {}


def objects(value: object) -> list[Object]:
    """The objects of a JSON list."""
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Object", entry) for entry in entries if isinstance(entry, dict)]
