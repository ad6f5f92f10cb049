"""Events and commands as a JSON Schema, and as the lines of JSON that it describes."""

import json
from collections.abc import Iterable
from typing import Any, Final, get_args, get_type_hints

from pydantic import create_model
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from vibe_jupyter.protocol.events import (
    DURABLE_EVENTS,
    Answer,
    AnswerAwaited,
    Approve,
    Event,
    Interrupt,
    Notice,
    Reject,
    RequestSent,
    ToolProgress,
    TurnStarted,
)
from vibe_jupyter.protocol.messages import ReasoningDelta, TextDelta, ToolCallDelta, Value

PROTOCOL_VERSION: Final = 1
"""Goes up when a name is removed or changes its type; not when one is added."""

_PASSING: Final[tuple[type[Value], ...]] = (TurnStarted, RequestSent, AnswerAwaited, ToolProgress, Notice)
_EVENTS: Final = (*DURABLE_EVENTS, *_PASSING)
_COMMANDS: Final[tuple[type[Value], ...]] = (Approve, Reject, Answer, Interrupt)
_PIECES: Final = (TextDelta, ReasoningDelta, ToolCallDelta)
_REF: Final = "#/$defs/"


def event_line(event: Event) -> str:
    """One event as a line of JSON, without its line break."""
    if isinstance(event, _PIECES):
        return json.dumps({"type": event.type, **event._asdict()}, ensure_ascii=False)
    return json.dumps(event.model_dump(mode="json"), ensure_ascii=False)


def protocol_schema() -> dict[str, Any]:
    """What `vibe-jupyter schema` prints: a line of the stream fits ``Event``, a decision ``Command``."""
    _, schema = models_json_schema(
        [(model, "serialization") for model in (*_EVENTS, *_COMMANDS)], ref_template=_REF + "{model}"
    )
    known: dict[str, Any] = schema["$defs"]
    for piece in _PIECES:
        known[piece.__name__] = _piece_schema(piece)
    known["Event"] = _one_of(event.__name__ for event in (*_EVENTS, *_PIECES))
    known["Command"] = _one_of(command.__name__ for command in _COMMANDS)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "Events and commands of vibe-jupyter",
        "version": PROTOCOL_VERSION,
        "$ref": f"{_REF}Event",
        "$defs": dict(sorted(known.items())),
    }


def _piece_schema(piece: type[Any]) -> dict[str, Any]:
    fields = get_type_hints(piece)
    kind = get_args(fields.pop("type"))[0]
    schema = create_model(piece.__name__, __doc__=piece.__doc__, **fields).model_json_schema()
    schema["properties"] = {"type": {"const": kind, "type": "string"}, **schema["properties"]}
    schema["required"] = ["type", *schema["required"]]
    return schema


def _one_of(names: Iterable[str]) -> dict[str, Any]:
    return {"oneOf": [{"$ref": _REF + name} for name in names]}
