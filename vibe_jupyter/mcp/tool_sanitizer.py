"""Repair or remove tool definitions and results that violate the protocol, so that the rest stays usable.

If a whole result were rejected, the model would repeat a call that has already taken effect.

Imports the SDK, so import this module only when the first server starts.
"""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    methods,
)
from pydantic import ValidationError

from vibe_jupyter.mcp.pending_responses import PROBE, cut

DEPTH_LIMIT: Final = 150  # levels of nesting in one definition; the SDK accepts about 190, some model servers only ten
_VERSIONS: Final = 10  # versions shown of one server
_VERSION_LENGTH: Final = 20  # characters of each
_LIST: Final = "tools/list"
_OLDER: Final = "2025-11-25"  # version assumed for requests that name none; tools have the same form in earlier ones
_COMPLETE: Final[Mapping[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
_NEEDED: Final = ("name", "description", "inputSchema")
_NAME_LENGTH: Final = 80  # characters of a tool's name in a sentence

CALL: Final = "tools/call"
QUOTED: Final = 2_000  # characters quoted of a content block that can't be used
_KIND: Final = 60  # characters of the name of its type
_COMPLETE_RESULT: Final = frozenset({None, "complete"})
# Fields kept of an invalid content block; what is wrong is more often one of the others.
_KEPT: Final = ("type", "text", "data", "mimeType", "uri", "name", "resource")


class ToolSanitizer:
    """Observes the messages of one connection and repairs invalid tool lists and results."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._left_out: dict[str, str] = {}  # reason by tool, for tools removed from the lists
        self.versions: tuple[str, ...] = ()  # protocol versions that the server reported before negotiation, if any
        # Method and protocol version of each request that awaits a response
        self.pending: dict[str | int, tuple[str, str]] = {}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about tools that can't be used."""
        about = f"of the MCP server {self._server} is left out: its definition is not valid"
        return tuple(f"{tool} {about} ({why})." for tool, why in self._left_out.items())

    def sent(self, message: JSONRPCMessage) -> None:
        """Track an outgoing message: a request awaits a response, and a cancellation withdraws one."""
        if isinstance(message, JSONRPCRequest):
            meta: Mapping[str, Any] = (message.params or {}).get("_meta") or {}
            self.pending[message.id] = message.method, str(meta.get(PROTOCOL_VERSION_META_KEY, _OLDER))
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self.pending.pop((message.params or {}).get("requestId", ""), None)

    def came(self, message: JSONRPCMessage) -> None:
        """Repair the tool list or result in an incoming message, in place."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return
        method, version = self.pending.pop(message.id, ("", "")) if message.id is not None else ("", "")
        if isinstance(message, JSONRPCError):
            data: object = message.error.data
            if message.error.code == UNSUPPORTED_PROTOCOL_VERSION and isinstance(data, dict):
                self._note_versions(cast("Mapping[str, Any]", data).get("supported"))
            return
        if method == PROBE:
            self._note_versions(message.result.get("supportedVersions"))
        tools = message.result.get("tools")
        if method == CALL:
            message.result = readable(message.result, version)
        elif method == _LIST and isinstance(tools, list):
            message.result["tools"] = list(self._kept_tools(cast("list[Any]", tools), version))

    def _note_versions(self, named: object) -> None:
        if isinstance(named, list):
            self.versions = tuple(str(one)[:_VERSION_LENGTH] for one in cast("list[object]", named)[:_VERSIONS])

    def _kept_tools(self, tools: list[Any], version: str) -> Iterator[dict[str, Any]]:
        for tool in tools:
            forms = (tool, *_reduced_tools(tool))
            kept = next((form for form in forms if not _definition_problem(form, version)), None)
            if kept is not None:
                yield kept
                continue
            name = cast("Mapping[str, Any]", tool).get("name") if isinstance(tool, dict) else None
            called = f"The tool {name[:_NAME_LENGTH]!r}" if isinstance(name, str) else "A tool without a name"
            self._left_out[called] = _definition_problem(tool, version)


class Reader(Protocol):
    """The read stream of a transport, as far as it is used here."""

    async def receive(self) -> SessionMessage | Exception: ...
    async def aclose(self) -> None: ...


class Writer(Protocol):
    """The write stream of a transport, as far as it is used here."""

    async def send(self, item: SessionMessage, /) -> None: ...
    async def aclose(self) -> None: ...


Transport = AbstractAsyncContextManager[tuple[Reader, Writer]]


@asynccontextmanager
async def sanitized(transport: Transport, sieve: ToolSanitizer) -> "AsyncGenerator[tuple[_Reading, _Writing]]":
    """Enter a transport for the SDK's client, and pass all messages through a sanitizer."""
    async with transport as (read, write):
        yield _Reading(read, sieve), _Writing(write, sieve)


_Inner = TypeVar("_Inner", Reader, Writer)


class _Stream(Generic[_Inner]):
    def __init__(self, inner: _Inner, sieve: ToolSanitizer) -> None:
        self._inner: _Inner = inner
        self._sieve = sieve

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class _Reading(_Stream[Reader]):
    async def receive(self) -> SessionMessage | Exception:
        item = await self._inner.receive()
        if isinstance(item, SessionMessage):
            self._sieve.came(item.message)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Writing(_Stream[Writer]):
    async def send(self, item: SessionMessage, /) -> None:
        item.message.model_dump_json(by_alias=True)  # what can't be serialized fails its call, not the connection
        self._sieve.sent(item.message)
        await self._inner.send(item)


def _reduced_tools(tool: Any) -> Iterator[dict[str, Any]]:
    """Yield copies of the tool with more and more optional fields removed."""
    if not isinstance(tool, dict):
        return
    whole = cast("dict[str, Any]", tool)
    yield {key: value for key, value in whole.items() if key != "outputSchema"}
    needed = {key: whole[key] for key in _NEEDED if key in whole}
    if isinstance(schema := needed.get("inputSchema"), dict):
        needed["inputSchema"] = {"type": "object", **cast("dict[str, Any]", schema)}
    yield needed


def _definition_problem(tool: Any, version: str) -> str:
    """Return what is invalid about a tool definition, or ""."""
    if cut(tool, DEPTH_LIMIT) != tool:
        return f"it is nested more than {DEPTH_LIMIT} deep"
    try:
        methods.parse_server_result(_LIST, version, {**_COMPLETE, "tools": [tool]})
    except ValidationError as problem:
        fault = problem.errors()[0]
        place = ".".join(str(part) for part in fault["loc"] if part not in ("tools", 0))
        return f"{place}: {fault['msg']}" if place else fault["msg"]
    except KeyError:  # in a protocol version unknown to the SDK, no tools are listed either
        return ""
    return ""


def readable(result: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a valid result: unchanged if it is valid, else what can be used of it with a note about the rest.

    Args:
        result: the result of a call.
        version: the protocol version of the request.
    """
    if result.get("resultType") not in _COMPLETE_RESULT or _is_valid(result, version):
        return result
    content = result.get("content")
    given = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
    parts = [_part(one, version) for one in given]
    kept: dict[str, Any] = {"resultType": "complete", "content": parts, "isError": bool(result.get("isError"))}
    if (structured := result.get("structuredContent")) is not None:
        if _is_valid({"content": [], "structuredContent": structured}, version):
            kept["structuredContent"] = structured
        else:
            parts.append(_text(_quoted(structured)))
    if not parts and "structuredContent" not in kept:
        parts.append(_text("[The call completed. Its server returned an empty result.]"))
    return kept


def _part(given: object, version: str) -> dict[str, Any]:
    """Return the content block, a reduced form of it, or a text that describes it."""
    part = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    for form in (part, {name: part[name] for name in _KEPT if name in part}):
        if _is_valid({"content": [form]}, version):
            return form
    text = given if isinstance(given, str) else part.get("text")
    if isinstance(text, str):
        return _text(text)
    kind = f" of the kind {str(part['type'])[:_KIND]!r}" if "type" in part else ""
    given = cast("object", given)
    return _text(f"[The call completed. A part of its result{kind} cannot be read. It came as:]\n{_quoted(given)}")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]} […{len(text) - QUOTED:,} more characters]"


def _is_valid(result: Mapping[str, Any], version: str) -> bool:
    try:
        methods.parse_server_result(CALL, version, {"resultType": "complete", **result})
    except ValidationError:
        return False
    except (KeyError, ValueError):  # a protocol version unknown to the SDK
        return True
    return True
