"""What a model server does by itself while it answers: calls it runs, calls it wants to run, files it made.

`read_event` turns the body of a named event into one of these values; what cannot be read is None, and passed over.
"""

from typing import Literal, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.llm.json_text import repair_surrogates
from vibe_jupyter.protocol import Delta, Usage

Object = dict[str, JsonValue]

MAX_DEPTH = 40
"""Levels of what a server tells that are kept."""
MAX_ID = 256
"""Characters of an id that a server gave and that is sent back to it."""


class HostedCall(NamedTuple):
    """A call that the server runs: it begins, or it is over."""

    round: int
    name: str
    """Opaque: the server's name for the tool."""
    phase: Literal["calling", "complete"]
    data: Object
    """Whatever the server tells of it; `kind` says how to read it."""

    @property
    def kind(self) -> str:
        """``code_execution``, ``web_search``, ``shell``, ``custom``, or a word we do not know; empty for none."""
        kind = self.data.get("tool_type")
        return kind if isinstance(kind, str) else ""


class HostedCallRequest(NamedTuple):
    """A call that the server runs only after a yes; its run waits for it."""

    id: str
    round: int
    kind: str
    source: str
    """Such as ``built_in``."""
    label: str
    """What the server calls the tool for people, such as ``Python code``."""
    arguments: JsonValue


class HostedFile(NamedTuple):
    """A file that the server made."""

    id: str
    name: str
    media_type: str
    size: int
    text: str | None = None
    """None where the body is no text, or was left out."""
    data: str | None = None
    """Base64; None where the body is text, or was left out."""
    preview: str = ""
    problem: str = ""
    """Why there is no such file, in the server's words; empty where there is one."""


class HostedSession(NamedTuple):
    """The server's name for what it keeps of this conversation."""

    id: str


class CountsSoFar(NamedTuple):
    """What an answer that goes on has used; only some servers say."""

    usage: Usage


AgenticEvent = HostedCall | HostedCallRequest | HostedFile | HostedSession
Piece = Delta | AgenticEvent | CountsSoFar
"""What a decoder makes of an answer while it comes in."""


def read_event(name: str, body: JsonValue) -> list[AgenticEvent]:
    """A named event of a stream."""
    body = _plain_value(body)
    if not isinstance(body, dict):
        return []
    events: list[AgenticEvent] = list(answer_session(body))
    match name:
        case "agentic_tool_call_progress":
            events += _progress_events(body)
        case "agentic_tool_approval_required":
            events += _approval_events(body)
        case "file_produced":
            events += _file_events(body)
        case _:
            pass
    return events


def read_answer(body: Object) -> list[AgenticEvent]:
    """What a whole answer carries beside its text."""
    events: list[AgenticEvent] = list(answer_session(body))
    calls, files = _plain_value(body.get("agentic_tool_calls")), _plain_value(body.get("files"))
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, dict):
            events.append(_finished_call(call))
    for file in files if isinstance(files, list) else []:
        if isinstance(file, dict):
            events += _file_events(file)
    return events


def answer_session(body: Object) -> list[HostedSession]:
    """The session an answer belongs to; at most one."""
    session = _text_field(body, "session_id")
    return [HostedSession(session)] if 0 < len(session) <= MAX_ID and session.isprintable() else []


def _plain_value(value: JsonValue, depth: int = 0) -> JsonValue:
    """The value as it can be kept and shown: whole characters only, and no deeper than anyone reads."""
    match value:
        case str():
            return repair_surrogates(value)
        case dict() | list() if depth == MAX_DEPTH:
            return "…"
        case dict():
            return {repair_surrogates(name): _plain_value(one, depth + 1) for name, one in value.items()}
        case list():
            return [_plain_value(one, depth + 1) for one in value]
        case _:
            return value


def _finished_call(call: Object) -> HostedCall:
    """An entry of agentic_tool_calls as the end of a call."""
    said = {
        "tool_type": "record",
        "arguments": call.get("arguments"),
        "content": call.get("result_content"),
        "images_base64": call.get("result_images_base64"),
        "file_ids": call.get("file_ids"),
    }
    present: Object = {name: value for name, value in said.items() if value not in (None, [])}
    return HostedCall(_number_field(call, "round"), _text_field(call, "name"), "complete", present)


def _progress_events(body: Object) -> list[AgenticEvent]:
    match body.get("phase"):
        case "calling" | "complete" as phase:
            return [
                HostedCall(
                    _number_field(body, "round"), _text_field(body, "tool_name"), phase, _object_field(body, "data")
                )
            ]
        case _:
            return []


def _approval_events(body: Object) -> list[AgenticEvent]:
    approval_id = _text_field(body, "approval_id")
    if not 0 < len(approval_id) <= MAX_ID:
        return []
    tool = _object_field(body, "tool")
    return [
        HostedCallRequest(
            id=approval_id,
            round=_number_field(body, "round"),
            kind=_text_field(tool, "kind"),
            source=_text_field(tool, "source"),
            label=_text_field(tool, "label"),
            arguments=body.get("arguments"),
        )
    ]


def _file_events(body: Object) -> list[AgenticEvent]:
    text, data, code, message = (body.get(name) for name in ("text", "data_base64", "code", "message"))
    problem = ""
    if text is None and data is None and (code or message):
        words = message if isinstance(message, str) and message else "it could not be made"
        problem = f"{words} ({code})" if isinstance(code, str) and code else words
    return [
        HostedFile(
            id=_text_field(body, "id")[:MAX_ID],
            name=_text_field(body, "name"),
            media_type=_text_field(body, "mime_type"),
            size=max(_number_field(body, "bytes"), 0),
            text=text if isinstance(text, str) else None,
            data=data if isinstance(data, str) else None,
            preview=_text_field(body, "preview"),
            problem=problem,
        )
    ]


def _text_field(body: Object, name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


def _number_field(body: Object, name: str) -> int:
    value = body.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _object_field(body: Object, name: str) -> Object:
    value = body.get(name)
    return value if isinstance(value, dict) else {}
