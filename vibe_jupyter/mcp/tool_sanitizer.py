"""Definitions and results that break the protocol: repaired, or removed, so that the rest is usable.

A result that was withheld whole would make the model repeat a call that was done. Imports the SDK: imported itself
when the first server starts.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextvars import Context
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from mcp.shared.message import SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    methods,
)
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.client._transport import (
        ReadStream,  # pyright: ignore[reportPrivateUsage]
        Transport,  # pyright: ignore[reportPrivateUsage]
        WriteStream,  # pyright: ignore[reportPrivateUsage]
    )

UNDER_WAY: Final = 1_000
"""Requests that are remembered; some are never answered."""
DEPTH_LIMIT: Final = 150
"""Levels of objects and lists in one definition; the SDK takes about 190, and some model servers ten."""
_DISCOVER: Final = "server/discover"
_VERSIONS: Final = 10
_VERSION_LENGTH: Final = 20
"""Versions of one server that are shown, and characters of each."""
_LIST: Final = "tools/list"
_OLDER: Final = "2025-11-25"
"""The protocol of requests that name none; in those before it a tool has the same form."""
_COMPLETE: Final[Mapping[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
_NEEDED: Final = ("name", "description", "inputSchema")
_NAME_LENGTH: Final = 80
"""Characters of a tool's name in a sentence."""

CALL: Final = "tools/call"
QUOTED: Final = 2_000
"""Characters of a part of an unknown kind that the model is given as they came."""
QUOTED_DEPTH: Final = 100
"""Levels of such a part."""
KIND: Final = 60
"""Characters of the name of such a kind."""
_COMPLETE_RESULT: Final = frozenset({None, "complete"})
_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": ("resource",),
}
"""What each kind of part must have; the rest of a part that is wrong is dropped."""


class ToolSanitizer:
    """Sees the messages of one connection, and repairs lists of tools and results that are not as they must be."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._left_out: dict[str, str] = {}
        """Why a tool was taken out of the lists, by what it is called."""
        self.versions: tuple[str, ...] = ()
        """Of the protocol, as the server named them before anything was agreed on; empty where it named none."""
        self._under_way: dict[str | int, tuple[str, str]] = {}
        """Requests for lists, and calls: method, and the protocol they were made in."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about the tools that nothing can be made of."""
        about = f"of the MCP server {self._server} is left out: its definition is not valid"
        return tuple(f"{tool} {about} ({why})." for tool, why in self._left_out.items())

    def sent(self, message: JSONRPCMessage) -> None:
        """A message of ours."""
        if isinstance(message, JSONRPCRequest) and message.method in (_DISCOVER, _LIST, CALL):
            meta: Mapping[str, Any] = (message.params or {}).get("_meta") or {}
            while len(self._under_way) >= UNDER_WAY:
                del self._under_way[next(iter(self._under_way))]
            self._under_way[message.id] = (message.method, str(meta.get(PROTOCOL_VERSION_META_KEY, _OLDER)))

    def came(self, message: JSONRPCMessage) -> None:
        """A message of the server; the list or the result in it is made one that can be taken."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return
        method, version = self._under_way.pop(message.id, ("", "")) if message.id is not None else ("", "")
        if isinstance(message, JSONRPCError):
            data: object = message.error.data
            if message.error.code == UNSUPPORTED_PROTOCOL_VERSION and isinstance(data, dict):
                self._note_versions(cast("Mapping[str, Any]", data).get("supported"))
            return
        if method == _DISCOVER:
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
            problem = _definition_problem(tool, version)
            usable = (
                (one for one in _reduced_tools(tool) if not _definition_problem(one, version))
                if problem
                else iter((tool,))
            )
            if (kept := next(usable, None)) is not None:
                yield kept
            else:
                name = cast("Mapping[str, Any]", tool).get("name") if isinstance(tool, dict) else None
                called = f"The tool {name[:_NAME_LENGTH]!r}" if isinstance(name, str) else "A tool without a name"
                self._left_out[called] = problem


class SanitizedTransport:
    """Another transport, with a sieve between it and the SDK."""

    def __init__(self, inner: "Transport", sieve: ToolSanitizer) -> None:
        self._inner = inner
        self._sieve = sieve

    async def __aenter__(self) -> "tuple[_Reading, _Writing]":
        read, write = await self._inner.__aenter__()
        return _Reading(read, self._sieve), _Writing(write, self._sieve)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class _Reading:
    def __init__(self, inner: "ReadStream[SessionMessage | Exception]", sieve: ToolSanitizer) -> None:
        self._inner = inner
        self._sieve = sieve

    @property
    def last_context(self) -> Context | None:
        """What the SDK looks for on the streams of some transports."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._seen_item(await self._inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._seen_item(await self._inner.__anext__())

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    def _seen_item(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage):
            self._sieve.came(item.message)
        return item


class _Writing:
    def __init__(self, inner: "WriteStream[SessionMessage]", sieve: ToolSanitizer) -> None:
        self._inner = inner
        self._sieve = sieve

    async def send(self, item: SessionMessage, /) -> None:
        self._sieve.sent(item.message)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


def _reduced_tools(tool: Any) -> Iterator[dict[str, Any]]:
    """The tool with less and less of what it can do without."""
    if not isinstance(tool, dict):
        return
    whole = cast("dict[str, Any]", tool)
    yield {key: value for key, value in whole.items() if key != "outputSchema"}
    needed = {key: whole[key] for key in _NEEDED if key in whole}
    yield needed
    schema = needed.get("inputSchema")
    if isinstance(schema, dict) and "type" not in schema:
        yield {**needed, "inputSchema": {"type": "object", **cast("dict[str, Any]", schema)}}


def _definition_problem(tool: Any, version: str) -> str:
    """What is wrong with the definition of a tool; empty where nothing is."""
    if is_deeper(tool, DEPTH_LIMIT):
        return f"it is nested more than {DEPTH_LIMIT} deep"
    try:
        methods.parse_server_result(_LIST, version, {**_COMPLETE, "tools": [tool]})
    except ValidationError as problem:
        fault = problem.errors()[0]
        place = ".".join(str(part) for part in fault["loc"] if part not in ("tools", 0))
        return f"{place}: {fault['msg']}" if place else fault["msg"]
    except KeyError:  # a protocol the SDK does not know lists no tools either
        return ""
    return ""


def readable(result: dict[str, Any], version: str) -> dict[str, Any]:
    """The same where it is valid; else a valid one with what can be read of it, and the rest named.

    Args:
        result: of a call.
        version: of the protocol in which the call was made.
    """
    if result.get("resultType") not in _COMPLETE_RESULT or _is_valid(result, version):
        return result
    parts = [part for given in _listed(result.get("content")) for part in _part(given, version)]
    kept: dict[str, Any] = {"content": parts, "isError": bool(result.get("isError"))}
    if "resultType" in result:
        kept["resultType"] = "complete"
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        kept["structuredContent"] = structured
    elif structured is not None:
        parts.append(_text(_quoted(structured)))
    if not _is_valid(kept, version):  # what is left to be wrong is in the structured content
        parts.append(_text(_quoted(kept.pop("structuredContent", None))))
    if not parts and "structuredContent" not in kept:
        parts.append(_text("[The call completed. Its server returned an empty result.]"))
    return kept


def is_deeper(value: object, limit: int) -> bool:
    """Whether objects and lists in a JSON value are nested deeper than that."""
    level = [value]
    for _ in range(limit + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _listed(content: object) -> list[Any]:
    if content is None:
        return []
    return cast("list[Any]", content) if isinstance(content, list) else [content]


def _part(given: object, version: str) -> Iterator[dict[str, Any]]:
    """The part, or less of it, or a line that names it."""
    if isinstance(given, str):
        yield _text(given)
        return
    if not isinstance(given, dict):
        yield _text(f"[The call completed. A part of its result cannot be read:]\n{_quoted(given)}")
        return
    part = cast("dict[str, Any]", given)
    kind = part.get("type")
    needed = _FORMS.get(kind, ()) if isinstance(kind, str) else ()
    less = {"type": kind, **{name: part[name] for name in needed if name in part}}
    for one in (part, less) if needed else ():
        if _is_valid({"content": [one]}, version):
            yield one
            return
    if isinstance(text := part.get("text"), str):
        yield _text(text)
        return
    named = f"of the unknown kind {str(kind)[:KIND]!r}" if not needed else f"of the kind {kind!r}, which is not valid,"
    yield _text(f"[The call completed. A part of its result {named} came as it is here:]\n{_quoted(part)}")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _quoted(value: object) -> str:
    if is_deeper(value, QUOTED_DEPTH):
        return f"[nested more than {QUOTED_DEPTH} deep]"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]} […{len(text) - QUOTED:,} more characters]"


def _is_valid(result: Mapping[str, Any], version: str) -> bool:
    try:
        methods.parse_server_result(CALL, version, {"resultType": "complete", **result})
    except ValidationError:
        return False
    except (KeyError, ValueError):  # a protocol the SDK does not know
        return True
    return True
