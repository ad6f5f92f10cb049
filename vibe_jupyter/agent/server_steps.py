"""How a call that a model server runs by itself reads: as a line, on a card, and when the line is opened."""

import json
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import JsonValue

from vibe_jupyter.llm.agentic import ServerApproval, ServerCall
from vibe_jupyter.protocol import PICTURES_MIME, Headline, MimeBundle, Picture, Preview
from vibe_jupyter.tools.truncate import head_and_tail

OUTPUT_LIMIT: Final = 20_000
"""Characters kept of what a server tells of one call."""
PICTURE_LIMIT: Final = 3_000_000
"""Characters of base64 of one picture."""
PICTURES_LIMIT: Final = 12
"""Pictures of one call, frames of a video among them."""

_MAGIC: Final = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""How pictures begin in base64."""
_VERBS: Final = {
    "code_execution": ("Ran Python code", "Running Python code"),
    "web_search": ("Searched the web", "Searching the web"),
    "shell": ("Ran a command", "Running a command"),
}
_SHOWN: Final = frozenset(
    {"tool_type", "code", "commands", "query", "arguments", "content", "stdout", "stderr", "exception", "images_base64"}
    | {"video_frames_base64", "execution_time_ms"}
)
"""What is shown in a way of its own; all else that a server tells is listed."""


@dataclass(frozen=True)
class Told:
    """What is known of a call."""

    headline: Headline
    preview: Preview | None = None
    display: MimeBundle = field(default_factory=dict[str, JsonValue])
    outcome: Literal["ok", "error"] = "ok"
    summary: str = ""


def asked(approval: ServerApproval, host: str) -> Told:
    """A call that waits for a yes, with everything it will be given."""
    label = approval.label or approval.kind or "a tool"
    ran, running = _VERBS.get(approval.kind, (f"Used {label}", f"Using {label}"))
    verb = "Run" if approval.kind in _VERBS else "Use"
    headline = Headline(verb=ran, doing=running, asking=f"{verb} {label}", target="", note=f"on {host}")
    return Told(headline, _whole(approval.arguments, approval.kind))


def ran_there(about: Told, host: str) -> Told:
    """A call that was allowed."""
    return replace(about, headline=about.headline.model_copy(update={"note": _note(host)}))


def told(call: ServerCall, host: str, before: Told | None = None) -> Told:
    """A call that goes on or is over; what was known before stays where nothing new is said."""
    data = call.data
    preview = _preview(data) or (before.preview if before else None)
    headline = before.headline if before else _headline(call, host)
    if call.phase == "calling":
        return Told(headline, preview)
    texts = [_labelled(data, name) for name in ("content", "stdout", "stderr", "exception")]
    texts += [f"{name}: {_text(value)}" for name, value in data.items() if name not in _SHOWN]
    output = head_and_tail("\n".join(filter(None, texts)), OUTPUT_LIMIT)
    pictures = _pictures(data)
    display: MimeBundle = {"text/plain": output} if output else {}
    if pictures:
        display[PICTURES_MIME] = [picture.model_dump() for picture in pictures]
    return Told(headline, preview, display, "error" if _failed(data) else "ok", _summary(data, len(pictures)))


def _headline(call: ServerCall, host: str) -> Headline:
    verb, doing = _VERBS.get(call.kind, ("Used", "Using"))
    return Headline(verb=verb, doing=doing, asking="Use", target=_target(call), note=_note(host))


def _note(host: str) -> str:
    return f"ran on {host}"


def _target(call: ServerCall) -> str:
    query, commands = call.data.get("query"), call.data.get("commands")
    if call.kind == "web_search" and isinstance(query, str):
        return query
    if call.kind == "shell" and isinstance(commands, list) and commands and isinstance(commands[0], str):
        return commands[0]
    return call.name or "a tool"


def _preview(data: dict[str, JsonValue]) -> Preview | None:
    code, commands, arguments = (data.get(name) for name in ("code", "commands", "arguments"))
    if isinstance(code, str) and code:
        return Preview(kind="code", text=code, language="python")
    if commands:
        lines = commands if isinstance(commands, list) else [commands]
        return Preview(kind="command", text="\n".join(map(_text, lines)))
    return Preview(kind="code", text=_text(arguments), language="json") if arguments else None


def _whole(arguments: JsonValue, kind: str) -> Preview:
    """All arguments. Code stands alone where there is nothing beside it; else each has its name, and what belongs to
    it is set in, so that no text can pass for the name of another."""
    if not isinstance(arguments, dict):
        return Preview(kind="code", text=_text(arguments) or "(no arguments)")
    given = {name: value for name, value in arguments.items() if value not in (None, "", [], {})}
    if kind == "code_execution" and list(given) == ["code"] and isinstance(given["code"], str):
        return Preview(kind="code", text=given["code"], language="python")
    lines: list[str] = []
    for name, value in given.items():
        lines.append(f"{json.dumps(name, ensure_ascii=False)[1:-1]}:")
        entries = value if isinstance(value, list) else [value]
        lines += [f"    {line}" for entry in entries for line in _text(entry).split("\n")]
    return Preview(kind="code", text="\n".join(lines) or "(no arguments)")


def _labelled(data: dict[str, JsonValue], name: str) -> str:
    value = data.get(name)
    if value in (None, ""):
        return ""
    return _text(value) if name in ("content", "stdout") else f"{name}: {_text(value)}"


def _pictures(data: dict[str, JsonValue]) -> list[Picture]:
    pictures: list[Picture] = []
    for name, word in (("images_base64", "picture"), ("video_frames_base64", "frame")):
        values = data.get(name)
        values = values if isinstance(values, list) else []
        for number, value in enumerate(values, 1):
            media_type = _media_type(value)
            if isinstance(value, str) and media_type and len(value) <= PICTURE_LIMIT:
                label = f"{word} {number} of {len(values)}"
                pictures.append(Picture(media_type=media_type, data=value, label=label))
    return pictures[:PICTURES_LIMIT]


def _media_type(value: JsonValue) -> str:
    if not isinstance(value, str):
        return ""
    return next((kind for head, kind in _MAGIC.items() if value.startswith(head)), "")


def _failed(data: dict[str, JsonValue]) -> bool:
    return bool(data.get("exception")) or data.get("exit_code") not in (None, 0) or data.get("timed_out") is True


def _summary(data: dict[str, JsonValue], shown: int) -> str:
    """A few words on what came of it."""
    words: list[str] = []
    exception, status, found = data.get("exception"), data.get("exit_code"), data.get("results_count")
    if isinstance(exception, str) and exception.strip():
        words.append(exception.strip().rpartition("\n")[2])
    if isinstance(status, int):
        words.append(f"exit status {status}")
    if data.get("timed_out") is True:
        words.append("timed out")
    if isinstance(found, int):
        words.append(f"{found} results")
    counts = (data.get(name) for name in ("images_base64", "video_frames_base64"))
    left_out = sum(len(values) for values in counts if isinstance(values, list)) - shown
    if left_out:
        words.append(f"{left_out} more pictures not shown")
    return ", ".join(words)


def _text(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
