"""Events of tools hosted by the model server: calls it runs, calls awaiting approval, and files it produced.

`read_event` parses the body of a named event. Malformed events are skipped.
"""

from typing import Literal, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.llm.json_text import repair_surrogates
from vibe_jupyter.protocol import Delta, Usage

Object = dict[str, JsonValue]

MAX_DEPTH = 40  # nesting depth kept of a server's data
MAX_ID = 256  # characters of a server's id that is sent back to it


class HostedCall(NamedTuple):
    """Start or end of a call that the server runs."""

    round: int
    name: str  # the server's opaque name of the tool
    phase: Literal["calling", "complete"]
    data: Object  # the server's details of the call, to be read according to `kind`

    @property
    def kind(self) -> str:
        """The tool's type: ``code_execution``, ``web_search``, ``shell``, ``custom``, an unknown type, or '' for none.
        The tool's type: ``code_execution``, ``web_search``, ``shell``, ``custom``, an unknown type, or '' for none."""
        kind = self.data.get("tool_type")
        return kind if isinstance(kind, str) else ""


class HostedCallRequest(NamedTuple):
    """A call that the server runs only after approval. Its run is blocked until then."""

    id: str
    round: int
    kind: str
    source: str  # such as `built_in`
    label: str  # the server's display name of the tool, such as `Python code`
    arguments: JsonValue


class HostedFile(NamedTuple):
    """A file produced by the server."""

    id: str
    name: str
    media_type: str
    size: int
    text: str | None = None  # None if the content is binary or was omitted
    data: str | None = None  # Base64, or None if the content is text or was omitted
    preview: str = ""
    problem: str = ""  # the server's reason why there is no such file, or ''


class HostedSession(NamedTuple):
    """Id of the server's session for this conversation."""

    id: str


class CountsSoFar(NamedTuple):
    """Usage reported while streaming (optional; few servers send it)."""

    usage: Usage


class HeldBack(NamedTuple):
    """Number of characters received but not shown yet, since they may belong to a call."""

    characters: int


AgenticEvent = HostedCall | HostedCallRequest | HostedFile | HostedSession
Piece = Delta | AgenticEvent | CountsSoFar | HeldBack  # output of a decoder while an answer arrives


def read_event(name: str, body: JsonValue) -> list[AgenticEvent]:
    """Parse a named event of a stream."""
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
    """Return the hosted events of a non-streamed answer."""
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
    """Return the session of an answer, if it has one."""
    session = _text_field(body, "session_id")
    return [HostedSession(session)] if 0 < len(session) <= MAX_ID and session.isprintable() else []


def _plain_value(value: JsonValue, depth: int = 0) -> JsonValue:
    """Sanitize a value for storage and display: valid Unicode, and no deeper than `MAX_DEPTH`."""
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
    """Convert an entry of ``agentic_tool_calls`` to the end of a call."""
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
