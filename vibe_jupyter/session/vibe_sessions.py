"""Sessions of Mistral Vibe, which are only read and never changed.

Since 2.0, a session is a directory: `meta.json` has the list entry, `messages.jsonl` a message per line, and
`attachments` the images. Before that, it was a single file, `session_….json`. Sessions of version 3 below ``unified``
have their own reader.
"""

import base64
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Final, cast

from vibe_jupyter.protocol import (
    AssistantMessage,
    ImagePart,
    Message,
    MessageAdded,
    ReasoningPart,
    RunStarted,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from vibe_jupyter.session.conversation import MAY_HAVE_RUN
from vibe_jupyter.session.unified_sessions import (
    CURRENT_NAME,
    FOLDER,
    MAX_FILE,
    Fields,
    as_fields,
    as_items,
    read_fields,
    unified_messages,
)

META_NAME: Final = "meta.json"
MESSAGES_NAME: Final = "messages.jsonl"
OLD_PATTERN: Final = "*_*.json"
MAX_IMAGE: Final = 10 * 2**20  # bytes of an image, as in Mistral Vibe
_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_FAILED: Final = "<tool_error>"
_FENCE: Final = "````"

Clean = Callable[[str], str]  # redacts text


def vibe_files(folder: Path) -> list[Path]:
    """Return the files that identify Mistral Vibe's sessions in a directory: `meta.json`, or the single file."""
    folders = [*folder.glob(f"*/{META_NAME}"), *folder.glob(f"{FOLDER}/*/{META_NAME}")]
    return sorted([*folders, *folder.glob(OLD_PATTERN)])


def vibe_name(file: Path) -> str:
    """Return the session's name relative to the sessions directory."""
    if file.name != META_NAME:
        return file.name
    return f"{FOLDER}/{file.parent.name}" if file.parent.parent.name == FOLDER else file.parent.name


def vibe_summary(file: Path) -> dict[str, object]:
    """Return a session's fields for `SavedSession`; empty if it isn't one or can't be read."""
    read = read_fields(file)
    meta = read if file.name == META_NAME else as_fields(read.get("metadata"))
    session_id, count = meta.get("session_id"), meta.get("total_messages")
    if count is None and (file.parent / CURRENT_NAME).is_file():
        count = sum(1 for _ in unified_messages(file.parent))
    if not isinstance(session_id, str) or not session_id or not isinstance(count, int):
        return {}
    first = _text(meta.get("title")) or _first_prompt(file)
    stats = as_fields(meta.get("stats"))
    config = as_fields(meta.get("config") or meta.get("agent_config"))
    cost = stats.get("session_cost")
    return {
        "id": session_id,
        "imported": session_id,
        "title": first,
        "is_named": meta.get("title_source") == "manual",
        "started": _utc(meta.get("start_time")),
        "ended": _utc(meta.get("end_time") or meta.get("start_time")),
        "folder": _text(as_fields(meta.get("environment")).get("working_directory")),
        "model": _text(config.get("active_model")),
        "cost": float(cost) if isinstance(cost, int | float) and cost else None,
        "messages": count,
        "prompts": 1,
    }


def vibe_events(place: Path, model: str, clean: Clean) -> Iterator[RunStarted | MessageAdded]:
    """Convert a session to our events: each prompt with what followed. Calls without a result get one.

    Args:
        place: Its directory or file.
        model: Alias of the model that was used.
        clean: Redacts every stored text.
    """
    raw = list(_raw_messages(place))
    run = 0
    for number, fields in enumerate(raw):
        text = clean(_text(fields.get("content")))
        match fields.get("role"):
            case "user":
                more = [
                    *_images(fields.get("images"), place / "attachments"),
                    *_resources(fields.get("resources"), clean),
                ]
                if not text and not more:
                    continue
                if text and not fields.get("injected"):
                    run += 1
                    yield RunStarted(run_id=f"imported-{run}", model=model, provider="", agent="", prompt=text)
                yield _added(UserMessage(parts=(*([TextPart(text=text)] if text else ()), *more)))
            case "assistant":
                said = _answer(fields, text, clean, number)
                if said.text or said.calls:
                    yield _added(said)
                    yield from map(_added, _results(said.calls, raw[number + 1 :], clean))
            case _:
                pass  # skip: system messages are replaced by ours, and results follow their calls


def _added(message: Message) -> MessageAdded:
    return MessageAdded(message=message)


def _answer(fields: Fields, text: str, clean: Clean, number: int) -> AssistantMessage:
    parts: list[TextPart | ReasoningPart | ToolCall] = []
    if thought := clean(_text(fields.get("reasoning_content"))):
        parts.append(ReasoningPart(text=thought))
    if text:
        parts.append(TextPart(text=text))
    known: set[str] = set()
    for place, call in enumerate(map(as_fields, as_items(fields.get("tool_calls")))):
        function = as_fields(call.get("function"))
        call_id = _text(call.get("id")) or f"imported-{number}-{place}"
        if (name := _text(function.get("name"))) and call_id not in known:
            known.add(call_id)
            parts.append(ToolCall(id=call_id, name=name, arguments=clean(_text(function.get("arguments")) or "{}")))
    return AssistantMessage(parts=tuple(parts), stop_reason="tool_calls" if known else "stop")


def _results(calls: Sequence[ToolCall], later: Sequence[Fields], clean: Clean) -> Iterator[ToolMessage]:
    """Yield one result per call, in call order."""
    found: dict[str, Fields] = {}
    for fields in later:
        if fields.get("role") != "tool":
            break
        found.setdefault(_text(fields.get("tool_call_id")), fields)
    for call in calls:
        fields = found.get(call.id, {"content": MAY_HAVE_RUN, "outcome": "failure"})
        text = clean(_text(fields.get("content")))
        failed = fields.get("outcome") == "failure" or text.startswith(_FAILED)
        yield ToolMessage(call_id=call.id, name=call.name, parts=(TextPart(text=text),), is_error=failed)


def _images(value: object, attachments: Path) -> list[TextPart | ImagePart]:
    """Return images embedded in the message or stored with the session. Others are only named."""
    found: list[TextPart | ImagePart] = []
    for image in map(as_fields, as_items(value)):
        source, media_type = as_fields(image.get("source")) or image, _text(image.get("mime_type"))
        data = _text(source.get("data"))
        if not data and (path := _text(source.get("path"))):
            with contextlib.suppress(OSError):
                file = attachments / PurePath(path).name  # never a file outside, wherever the folder was
                if file.stat().st_size <= MAX_IMAGE:
                    data = base64.b64encode(file.read_bytes()).decode("ascii")
        if data and media_type in _IMAGE_TYPES:
            found.append(ImagePart(media_type=media_type, data=data))
        else:
            found.append(TextPart(text=f"[picture {_text(image.get('alias'))}, which is not kept any more]"))
    return found


def _resources(value: object, clean: Clean) -> list[TextPart]:
    """Return files and other resources that a prompt referenced: their text, or only their URI."""
    found: list[TextPart] = []
    for part in map(as_fields, as_items(value)):
        resource = as_fields(part.get("resource")) or part
        text, address = _text(resource.get("text")), _text(resource.get("uri"))
        content = f"Resource: {address}\n{_FENCE}\n{text}\n{_FENCE}" if text else f"[{address}, which is not kept]"
        found.append(TextPart(text=clean(content)))
    return found


def _raw_messages(place: Path) -> Iterator[Fields]:
    if not place.is_dir():
        yield from filter(None, map(as_fields, as_items(read_fields(place).get("messages"))))
        return
    if (place / CURRENT_NAME).is_file():
        yield from unified_messages(place)
        return
    with contextlib.suppress(OSError), (place / MESSAGES_NAME).open("rb") as file:
        while line := file.readline(MAX_FILE):
            with contextlib.suppress(ValueError, RecursionError):  # the last line may be torn
                if fields := as_fields(json.loads(line)):
                    yield fields


def _first_prompt(file: Path) -> str:
    place = file.parent if file.name == META_NAME else file
    for fields in _raw_messages(place):
        if fields.get("role") == "user" and not fields.get("injected"):
            return _text(fields.get("content"))
    return ""


def _text(value: object) -> str:
    """Return a text, or the joined texts of message parts, as early versions wrote them."""
    if isinstance(value, list):
        return "\n".join(filter(None, (_text(as_fields(part).get("text")) for part in as_items(cast("object", value)))))
    return value if isinstance(value, str) else ""


def _utc(value: object) -> str:
    """Convert a time to the journal's format. A time without a zone is local."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        time = datetime.fromisoformat(_text(value)).astimezone(UTC)
        return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return ""
