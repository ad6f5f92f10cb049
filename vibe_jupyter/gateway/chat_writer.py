"""Writer for Chat Completions with the extensions of mistral.rs: named events between chunks, extra response fields."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, get_args

from pydantic import JsonValue

from vibe_jupyter.config.settings import WorkTool
from vibe_jupyter.gateway.approvals import APPROVAL_PREFIX
from vibe_jupyter.gateway.rounds import DONE
from vibe_jupyter.gateway.writer import AgenticCall, Ending, Object, WriterTerms
from vibe_jupyter.llm.event_streams import ServerEvent, encode_event
from vibe_jupyter.protocol import ApprovalRequested, Event, ToolFinished, ToolStarted

FILE_PRODUCED: Final = "file_produced"
PROGRESS: Final = "agentic_tool_call_progress"
APPROVAL: Final = "agentic_tool_approval_required"

_TOOL_TYPES: Final[Mapping[str, str]] = {
    "bash": "shell",
    "run_code": "code_execution",
    "web_search": "web_search",
}
_SEARCH: Final = "__web_search"
# The gateway's own tools; all others belong to MCP servers
_BUILT_IN: Final = frozenset({*get_args(WorkTool), "surface_files"})
_LABELS: Final[Mapping[str, str]] = {
    "code_execution": "Python code",
    "shell": "Shell command",
    "web_search": "Web search",
}


class ChatWriter:
    """Answer writer for Chat Completions. Implements `vibe_jupyter.gateway.writer.AnswerWriter`."""

    passes_through = True
    keep_alive = b": keep-alive\n\n"

    def __init__(self, terms: WriterTerms) -> None:
        """
        Args:
            terms: what the writer needs to know of the request. SDKs parse every event as a chunk, so named events are
                sent only to clients that know them.
        """
        self._terms = terms

    def chunk(self, chunk: ServerEvent) -> bytes:
        return encode_event(*chunk)

    def event(self, event: Event, round_number: int) -> bytes:
        terms = self._terms
        body = agentic_event(event, round_number, terms.session_id) if terms.tells_events else None
        return b"" if body is None else encode_event(body[0], json.dumps(body[1], ensure_ascii=False))

    def file(self, made: Object) -> bytes:
        return file_event(made) if self._terms.tells_events else b""

    def end(self, last: Sequence[ServerEvent], ending: Ending) -> bytes:
        return b"".join((*map(self.chunk, last), encode_event("message", DONE)))

    def fail(self, error: Mapping[str, object]) -> bytes:
        return encode_event("message", json.dumps({"error": error})) + encode_event("message", DONE)

    def whole(self, body: Object, ending: Ending) -> Object:
        return {**body, **agentic_fields(ending)}


def agentic_fields(ending: Ending) -> Object:
    """Return the extension fields of a response body. Empty ones are left out."""
    fields: Object = {
        "session_id": ending.session_id,
        "agentic_tool_calls": [call_record(call) for call in ending.calls],
        "files": list(ending.files),
    }
    return {name: value for name, value in fields.items() if value}


def call_record(call: AgenticCall) -> Object:
    """Build an entry of ``agentic_tool_calls``."""
    record: Object = {
        "round": call.round,
        "name": call.name,
        "arguments": call.arguments,
        "result_content": call.result,
        "result_images_base64": list[JsonValue](call.images),
        "file_ids": list[JsonValue](call.file_ids),
    }
    return {name: value for name, value in record.items() if value or name not in ("result_images_base64", "file_ids")}


def tool_type(name: str) -> str:
    """Return the kind of a tool by the names of mistral.rs. An MCP server's tool may be a web search too."""
    return _TOOL_TYPES.get(name.rpartition("__")[2] if name.endswith(_SEARCH) else name, "custom")


def agentic_event(event: Event, round_number: int, session_id: str) -> tuple[str, Object] | None:
    """Return the name and data of the event to send, or None if the client gets none."""
    match event:
        case ToolStarted(host=""):
            return PROGRESS, _progress(event.name, "calling", round_number, _begun(event))
        case ToolFinished(host=""):
            told: Object = {"outcome": event.outcome, "summary": event.summary, "seconds": event.seconds}
            return PROGRESS, _progress(event.name, "complete", round_number, {**told, **event.details})
        case ApprovalRequested():
            return APPROVAL, _approval(event, round_number, session_id)
        case _:
            return None


def _begun(event: ToolStarted) -> Object:
    """Describe what a starting call runs, in the form of its tool type."""
    text = event.headline.target if event.preview is None else event.preview.text
    match tool_type(event.name):
        case "shell":
            return {"commands": [text]}
        case "code_execution":
            return {"code": text}
        case _:
            return {}


def file_event(made: Object) -> bytes:
    """Encode the named event for a file object."""
    return encode_event(FILE_PRODUCED, json.dumps(made, ensure_ascii=False))


def _progress(name: str, phase: str, round_number: int, data: Object) -> Object:
    return {
        "type": PROGRESS,
        "round": round_number,
        "tool_name": name,
        "phase": phase,
        "data": {"tool_type": tool_type(name), **data},
    }


def _approval(event: ApprovalRequested, round_number: int, session_id: str) -> Object:
    kind = tool_type(event.call.name)
    source = "built_in" if event.call.name in _BUILT_IN else "mcp"
    label = _LABELS.get(kind) or f"{event.headline.asking} {event.headline.target}".strip()
    try:
        arguments: JsonValue = json.loads(event.call.arguments)
    except ValueError:
        arguments = event.call.arguments
    return {
        "type": APPROVAL,
        "approval_id": f"{APPROVAL_PREFIX}{event.approval_id}",
        "session_id": session_id,
        "round": round_number,
        "tool": {"source": source, "kind": kind, "label": label},
        "arguments": arguments,
    }
