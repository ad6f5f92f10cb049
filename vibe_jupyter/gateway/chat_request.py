"""Requests for Chat Completions: the client's body, unmodified, and the fields addressed to the gateway."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from vibe_jupyter.config.settings import McpMode
from vibe_jupyter.gateway.file_names import LONGEST_NAME
from vibe_jupyter.gateway.refusals import Refused, invalid_fields
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.dialects.wire_parts import dump_json

M = TypeVar("M", bound=BaseModel)

Object = dict[str, JsonValue]
AgentPermission = Literal["auto", "ask", "deny"]

_ID_BYTES: Final = 16  # random bytes of an ID
AGENTIC_FIELDS: Final = frozenset({"agent_permission", "session_id", "files"})
LEFT_OUT: Final = "x-vibe-left-out"  # response header that lists the request's tools not offered to the model
_LONGEST_HEADER: Final = 1_000  # characters
_NO_HEADER: Final = re.compile(r"[^ -~]")
FILES_LIMIT: Final = 64  # files that one request may ask for
SESSION_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"  # allowed session IDs


class RequestedFile(BaseModel):
    """A file that a request asks for."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    format: str = ""  # "" to derive it from the name
    description: str = ""


class GatewayFields(BaseModel):
    """Request fields that are addressed to the gateway and not forwarded."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # ``execute`` runs calls of MCP tools, ``passthrough`` returns them to the client, ``off`` offers no MCP tools; None
    # uses the gateway's settings
    mcp_mode: McpMode | None = None
    # ``auto`` runs what the rules allow and denies the rest, ``ask`` asks in the stream, ``deny`` runs nothing
    agent_permission: AgentPermission = "auto"
    session_id: Annotated[str, Field(pattern=SESSION_ID)] | None = None
    files: Annotated[list[RequestedFile], Field(max_length=FILES_LIMIT)] = []  # files that the answer should come with


class ChatFields(GatewayFields):
    """The fields of a request that are looked at. Everything else goes to the model server as it came."""

    model: str = "default"  # name or alias of a configured model, or ``default`` for the gateway's
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    stream: bool | None = False
    n: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    functions: list[Any] | None = None


@dataclass(frozen=True)
class ChatRequest:
    """A parsed request."""

    raw: bytes  # the body as received; empty for a translated request
    body: Mapping[str, JsonValue]
    fields: ChatFields
    # Names of the client's tools, which take precedence over the gateway's
    own_tools: frozenset[str] = field(default_factory=frozenset[str])
    is_translated: bool = False  # True if it was received in the form of another API
    left_out: tuple[str, ...] = ()  # tools of the client that aren't offered to the model

    @classmethod
    def parse(cls, raw: bytes) -> "ChatRequest":
        """Parse a request body.

        Raises:
            Refused: it isn't a request for Chat Completions.
        """
        return cls.of(parse_body(raw), raw)

    @classmethod
    def of(cls, body: Object, raw: bytes = b"", *, left_out: Sequence[str] = ()) -> "ChatRequest":
        """Create a request from JSON, which may be a translation from another API.

        Raises:
            Refused: a field is invalid.
        """
        fields = read_fields(ChatFields, body)
        if fields.agent_permission == "ask" and not fields.stream:
            raise Refused(
                422, "agent_permission: ask needs a stream to ask in", code="validation_error", param="agent_permission"
            )
        own = frozenset(tool_name(tool) for tool in fields.tools or ()) - {""}
        return cls(raw, body, fields, own, not raw, tuple(left_out))

    @property
    def answer_headers(self) -> Mapping[str, str]:
        """Response headers that report what was left out of the request."""
        names = ", ".join(_NO_HEADER.sub("?", name) for name in self.left_out)
        return {LEFT_OUT: names[:_LONGEST_HEADER]} if names else {}

    @property
    def stream(self) -> bool:
        """True if the client asked for a stream."""
        return bool(self.fields.stream)

    @cached_property
    def session_id(self) -> str:
        """The client's session ID, or "" without one.

        A request that may ask for approvals always gets an ID, so that the user can grant an action for the session.
        """
        given = self.fields.session_id
        return given or (f"sess_{secrets.token_hex(_ID_BYTES)}" if self.fields.agent_permission == "ask" else "")

    @property
    def knows_extensions(self) -> bool:
        """True if the client sent a field of the gateway's extensions, and so can handle its events."""
        return not AGENTIC_FIELDS.isdisjoint(self.body)

    @property
    def prompt(self) -> str:
        """The text of the latest user message."""
        for message in reversed(self.fields.messages):
            if message.get("role") == "user":
                return message_text(message.get("content"))
        return ""

    @property
    def turn(self) -> int:
        """The number of user messages."""
        return sum(message.get("role") == "user" for message in self.fields.messages)

    @property
    def passes_plainly(self) -> bool:
        """True if no gateway tool applies: the request asks for several choices, no calls, or legacy functions."""
        choice = self.fields.tool_choice
        return (self.fields.n or 1) > 1 or choice == "none" or self.fields.functions is not None

    def upstream(self, changes: Mapping[str, JsonValue]) -> bytes:
        """Return the body for the model server: the original bytes if nothing changes.

        Args:
            changes: fields to add or replace; None removes one.
        """
        body = {name: value for name, value in self.body.items() if name not in GatewayFields.model_fields}
        if len(body) == len(self.body) and all(name in body and body[name] == changes[name] for name in changes):
            return self.raw
        body |= changes
        return dump_json({name: value for name, value in body.items() if value is not None or name not in changes})


def parse_body(raw: bytes) -> Object:
    """Parse a request body as a JSON object.

    Raises:
        Refused: it is something else.
    """
    try:
        return json_text.parse_json_object(raw.decode("utf-8"))
    except ValueError as error:
        raise Refused(400, f"The body is no JSON object: {error}", code="invalid_json") from None


def read_fields(model: type[M], body: Mapping[str, JsonValue]) -> M:
    """Validate the fields of a body against a model.

    Raises:
        Refused: a field is invalid. The error names the first one.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise invalid_fields(error.errors(include_url=False, include_input=False, include_context=False)) from None


def tool_name(tool: Mapping[str, Any]) -> str:
    """Return the name of a function or custom tool, or "" for another kind."""
    function = tool.get("function") or tool.get("custom")
    name = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else ""


def message_text(content: object) -> str:
    """Return the text of message content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = cast("Sequence[object]", content) if isinstance(content, list) else ()
    texts = (cast("Mapping[str, object]", part).get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))
