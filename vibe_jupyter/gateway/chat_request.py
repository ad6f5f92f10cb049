"""A request for Chat Completions: what the client sent, untouched, and the few fields that are for the gateway."""

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
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

_ID_BYTES: Final = 16
"""Random ones of an id."""
AGENTIC_FIELDS: Final = frozenset({"agent_permission", "session_id", "files"})
FILES_LIMIT: Final = 64
"""Files that one request may ask for."""
SESSION_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
"""What a client may call its session."""


class RequestedFile(BaseModel):
    """A file that a request asks for."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    format: str = ""
    """Empty for what its name says."""
    description: str = ""


class GatewayFields(BaseModel):
    """The fields of a request that are for the gateway and go no further."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    mcp_mode: McpMode | None = None
    """``execute`` runs calls of MCP tools, ``passthrough`` returns them, ``off`` offers no MCP tool; None as the
    gateway is set."""
    agent_permission: AgentPermission = "auto"
    """``auto`` runs what the rules allow and denies the rest, ``ask`` asks in the stream, ``deny`` runs nothing."""
    session_id: Annotated[str, Field(pattern=SESSION_ID)] | None = None
    files: Annotated[list[RequestedFile], Field(max_length=FILES_LIMIT)] = []
    """What the answer should come with."""


class ChatFields(GatewayFields):
    """The fields of a request that are looked at. Everything else goes to the model server as it came."""

    model: str = "default"
    """The name or alias of a configured model; ``default`` for the gateway's."""
    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    stream: bool | None = False
    n: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    functions: list[Any] | None = None


@dataclass(frozen=True)
class ChatRequest:
    """One request."""

    raw: bytes
    body: Mapping[str, JsonValue]
    fields: ChatFields
    own_tools: frozenset[str] = field(default_factory=frozenset[str])
    """Names of the tools that the client defines; they win over ours."""
    is_translated: bool = False
    """Whether it came in the form of another API."""

    @classmethod
    def parse(cls, raw: bytes) -> "ChatRequest":
        """A request as it came.

        Raises:
            Refused: it is no request for Chat Completions.
        """
        return cls.of(parse_body(raw), raw)

    @classmethod
    def of(cls, body: Object, raw: bytes | None = None) -> "ChatRequest":
        """A request made of JSON, such as one that came in the form of another API.

        Raises:
            Refused: a field of it is wrong.
        """
        fields = read_fields(ChatFields, body)
        if fields.agent_permission == "ask" and not fields.stream:
            raise Refused(
                422, "agent_permission: ask needs a stream to ask in", code="validation_error", param="agent_permission"
            )
        own = frozenset(_tool_name(tool) for tool in fields.tools or ()) - {""}
        return cls(json.dumps(body).encode() if raw is None else raw, body, fields, own, raw is None)

    @property
    def stream(self) -> bool:
        """Whether the answer comes in chunks."""
        return bool(self.fields.stream)

    @cached_property
    def session_id(self) -> str:
        """The client's, or one of its own for a request that may ask; empty where there is none."""
        given = self.fields.session_id
        return given or (f"sess_{secrets.token_hex(_ID_BYTES)}" if self.fields.agent_permission == "ask" else "")

    @property
    def knows_extensions(self) -> bool:
        """Whether the client knows what is no part of Chat Completions: it sent a field of it."""
        return not AGENTIC_FIELDS.isdisjoint(self.body)

    @property
    def prompt(self) -> str:
        """What the user wrote last."""
        for message in reversed(self.fields.messages):
            if message.get("role") == "user":
                return message_text(message.get("content"))
        return ""

    @property
    def turn(self) -> int:
        """How many questions the user has asked."""
        return sum(message.get("role") == "user" for message in self.fields.messages)

    @property
    def passes_plainly(self) -> bool:
        """Whether no tool of ours has a place in it: several answers at once, or no calls wanted."""
        choice = self.fields.tool_choice
        return (self.fields.n or 1) > 1 or choice == "none" or self.fields.functions is not None

    def upstream(self, changes: Mapping[str, JsonValue], *, without: Collection[str] = ()) -> bytes:
        """The body for the model server: as it came where nothing changes.

        Args:
            changes: fields that are added, or take the place of others.
            without: fields that are left out.
        """
        left_out = {*GatewayFields.model_fields, *without}
        body = {name: value for name, value in self.body.items() if name not in left_out}
        if len(body) == len(self.body) and all(name in body and body[name] == changes[name] for name in changes):
            return self.raw
        return dump_json({**body, **changes})


def parse_body(raw: bytes) -> Object:
    """The JSON object of a request.

    Raises:
        Refused: it is none.
    """
    try:
        return json_text.parse_json_object(raw.decode("utf-8"))
    except ValueError as error:
        raise Refused(400, f"The body is no JSON object: {error}", code="invalid_json") from None


def read_fields(model: type[M], body: Mapping[str, JsonValue]) -> M:
    """The fields of a body.

    Raises:
        Refused: one of them is wrong; names it.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise invalid_fields(error.errors(include_url=False, include_input=False, include_context=False)) from None


def _tool_name(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    name = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else ""


def message_text(content: object) -> str:
    """The text of a message, whose content is text or has parts."""
    if isinstance(content, str):
        return content
    parts = cast("Sequence[object]", content) if isinstance(content, list) else ()
    texts = (cast("Mapping[str, object]", part).get("text") for part in parts if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))
