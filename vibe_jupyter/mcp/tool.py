"""Adapter from a server's tool to the agent's tool interface, with arguments validated against its schema.

The schema is untrusted: references are never fetched, and a validation that takes long is abandoned. Keywords that
aren't checked here (patterns, formats, ``not``, ``if``) are left to the server. Validation is only ever looser than the
schema, never stricter.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue, RootModel, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from vibe_jupyter.errors import ServerError, ToolError
from vibe_jupyter.mcp.connection import ServerConnection
from vibe_jupyter.mcp.hooks import OpenCalls
from vibe_jupyter.mcp.results import ResultSource, failed_result, tool_result
from vibe_jupyter.mcp.tool_names import PublishedTool, RemoteTool
from vibe_jupyter.protocol import WHOLE, Headline, Preview, Resource, ToolResult, ToolSpec, arguments_text
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.confusables import visible_schema, visible_words
from vibe_jupyter.tools.contract import Tool, ToolContext

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from mcp import Client
    from mcp_types import CallToolResult

PROGRESS_GAP: Final = 0.1  # minimum seconds between progress updates; of those in between, only the last is shown

CHECK_TIME: Final = 0.25  # seconds of one validation; a schema of a few lines can be made to take years
CHECKED_SIZE: Final = 50_000  # characters of a schema; larger ones are validated by the server only
PROBLEMS_LIMIT: Final = 6  # problems reported at once
WORDS_LIMIT: Final = 200  # characters of one problem, which may quote the value

# Keywords that may take unbounded time, and those that invert a check, so that a looser subschema would make the whole
# stricter.
_UNCHECKED: Final = (
    *("pattern", "patternProperties", "format", "uniqueItems", "not", "if", "maxContains"),
    *("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"),
)

_until: Final[ContextVar[float]] = ContextVar("until")

_Check = Callable[[Any, Any, Any, Any], "Iterator[Any] | None"]


class ServerToolArguments(RootModel[dict[str, JsonValue]]):
    """One JSON object, which reaches the server as it is shown."""

    @model_validator(mode="after")
    def _can_be_sent(self) -> "ServerToolArguments":
        try:
            json.dumps(self.root, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            raise ValueError(
                "a text holds half a character (one surrogate alone), which no server can be sent"
            ) from None
        except ValueError:
            raise ValueError("a number is beyond the largest that can be sent, about 1.8e308") from None
        return self


@dataclass(frozen=True)
class ToolWays:
    """Dependencies shared by the tools of all servers."""

    open_calls: OpenCalls
    sees_images: Callable[[], bool]


class McpTool(Tool[ServerToolArguments]):
    """A tool of an MCP server that the agent can call."""

    def __init__(
        self,
        published: PublishedTool,
        connection: ServerConnection,
        ways: ToolWays,
        *,
        refused: Callable[[], str] = str,
    ) -> None:
        self.name = published.name
        self.others = published.others
        self.unclear = published.unclear
        self.arguments = arguments_model(published.tool)
        self.description = tool_description(published)
        self._remote = published.tool
        self._source = ResultSource(published.server, published.tool.name, published.name)
        self._connection = connection
        self._ways = ways
        self._refused = refused  # returns why the tool must not be called, for the model, or ""

    def headline(self, args: ServerToolArguments) -> Headline:
        return Headline(
            verb="Called", doing="Calling", asking="Call", target=self._source.tool, note=f"of {self._source.server}"
        )

    def preview(self, args: ServerToolArguments) -> Preview:
        text = arguments_text(args.root)
        return Preview(kind="code", text=text, language="json", edits=WHOLE, note=claim_text(self._remote.annotations))

    def touches(self, args: ServerToolArguments) -> Sequence[Resource]:
        return (Resource(kind="mcp", value=f"{self._source.server}/{self._source.tool}", access="execute"),)

    async def precheck(self, args: ServerToolArguments) -> None:
        if refused := self._refused():
            raise ToolError(refused)

    async def run(self, args: ServerToolArguments, context: ToolContext) -> ToolResult:
        await self.precheck(args)
        progress = _Progress(context)

        async def work(client: "Client") -> "CallToolResult":
            # Results are passed on as received: output schemas are untrusted, and validating may take long.
            client.session.validate_tool_result = _as_it_came
            return await client.call_tool(self._source.tool, args.root, progress_callback=progress.take)

        try:
            async with self._ways.open_calls.of(self._source.server, context):
                answer = await self._connection.request(work, timeout=self._connection.server.tool_timeout)
        except ServerError as error:
            return failed_result(self._source, str(error))
        finally:
            progress.end()
        return tool_result(answer, self._source, sees_images=self._ways.sees_images())


class _Progress:
    """Forwards progress notifications at a limited rate, always the latest one."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._newest: tuple[float, float | None, str] = (0.0, None, "")
        self._waiting: asyncio.TimerHandle | None = None
        self._shown_at = float("-inf")

    async def take(self, progress: float, total: float | None, message: str | None) -> None:
        if not math.isfinite(progress):
            return
        known = total if total is not None and math.isfinite(total) and total > 0 else None
        self._newest = (max(progress, 0.0), known, message or "")
        if self._waiting is None:
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_at(self._shown_at + PROGRESS_GAP, self._show_newest)

    def end(self) -> None:
        """Cancel pending updates."""
        if self._waiting is not None:
            self._waiting.cancel()

    def _show_newest(self) -> None:
        self._waiting = None
        self._shown_at = asyncio.get_running_loop().time()
        self._context.advance(*self._newest)


def server_tool_spec(published: PublishedTool, *, hint: str = "") -> ToolSpec:
    """Build a tool's definition for the model: the server's text without invisible characters.

    Args:
        published: the tool under its published name.
        hint: the user's hint on when to use the server.
    """
    schema: dict[str, JsonValue] = {"type": "object", "properties": {}, **published.tool.input_schema}
    schema["type"] = "object"
    parameters = visible_schema(schema)
    assert isinstance(parameters, dict)
    words = tool_description(published)
    if hint:
        words = f"{words}\nOn all tools of {published.server}: {hint}"
    return ToolSpec(name=published.name, description=words, parameters=parameters)


def tool_description(published: PublishedTool) -> str:
    """Return the server's name and its description of the tool."""
    return f"[MCP server {published.server}] {visible_words(published.tool.description) or published.tool.name}"


def claim_text(annotations: Mapping[str, JsonValue]) -> str:
    """Return the server's claim about its tool's effects, or ""."""
    if annotations.get("readOnlyHint") is True:
        return "its server says it only reads"
    if annotations.get("destructiveHint") is True:
        return "its server says it may destroy"
    return ""


async def _as_it_came(name: str, result: "CallToolResult") -> None:
    pass


def arguments_model(tool: RemoteTool) -> type[ServerToolArguments]:
    """Create the arguments model of one tool. Validation errors name the location."""

    validator = cache(lambda: _schema_validator(tool))

    class Checked(ServerToolArguments):
        @classmethod
        def model_json_schema(cls, *_args: Any, **_options: Any) -> dict[str, Any]:
            """Return the schema as declared by the server."""
            return dict(tool.input_schema)

        @model_validator(mode="after")
        def _fits(self) -> "Checked":
            problems = _schema_problems(validator(), self.root)
            if problems:
                raise ValidationError.from_exception_data(tool.name, problems)
            return self

    return Checked


def _schema_problems(validator: "Validator | None", arguments: dict[str, JsonValue]) -> list[InitErrorDetails]:
    if validator is None:
        return []
    found: dict[tuple[tuple[str | int, ...], str], None] = {}
    token = _until.set(time.monotonic() + CHECK_TIME)
    try:
        for error in validator.iter_errors(arguments):
            words = error.message if len(error.message) <= WORDS_LIMIT else f"{error.message[:WORDS_LIMIT]} […]"
            found.setdefault((tuple(error.absolute_path), words))
            if len(found) == PROBLEMS_LIMIT:
                break
    except (_TooLong, RecursionError, *_reference_errors()):
        pass  # report what was found so far and leave the rest to the server
    finally:
        _until.reset(token)
    return [
        InitErrorDetails(type=PydanticCustomError("schema", "{words}", {"words": words}), loc=place, input=arguments)
        for place, words in found
    ]


class _TooLong(Exception):
    """The time limit of a validation was exceeded."""


def _schema_validator(tool: RemoteTool) -> "Validator | None":
    """Return a validator, or None if the schema is too large or invalid."""
    schema = dict(tool.input_schema)
    if len(json.dumps(schema)) > CHECKED_SIZE:
        return None
    with without_working_folder():
        from jsonschema.exceptions import SchemaError  # noqa: PLC0415
        from jsonschema.validators import validator_for  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415
    nowhere: Registry[Any] = Registry()  # empty registry: references are never fetched
    kind = validator_for(schema, default=validator_for({}))
    try:
        kind.check_schema(schema)
    except (SchemaError, RecursionError, *_reference_errors()):
        return None
    return _looser_validator(kind)(schema, registry=nowhere)


@cache
def _looser_validator(kind: "type[Validator]") -> "type[Validator]":
    """Derive a validator that observes the time limit and skips keywords that may take unbounded time."""
    from jsonschema import validators  # noqa: PLC0415 - already loaded

    extend = cast(Any, validators).extend
    known = cast("Mapping[str, _Check]", kind.VALIDATORS)
    checks = {word: _timed_check(check) for word, check in known.items()}
    checks |= dict.fromkeys((word for word in _UNCHECKED if word in known), _skip_check)
    if "anyOf" in known:
        checks["oneOf"] = checks["anyOf"]
    if "required" in known:
        checks["required"] = _required(checks["required"])
    if "additionalProperties" in known:
        checks["additionalProperties"] = _additional_check(checks["additionalProperties"])
    return cast("type[Validator]", extend(kind, checks))


def _timed_check(check: _Check) -> _Check:
    def timed(validator: Any, value: Any, instance: Any, schema: Any) -> "Iterator[Any] | None":
        if time.monotonic() > _until.get():
            raise _TooLong
        return check(validator, value, instance, schema)

    return timed


def _skip_check(validator: Any, value: Any, instance: Any, schema: Any) -> "Iterator[Any] | None":
    """Accept any value."""


def _required(check: _Check) -> _Check:
    """Treat required properties with a default as optional, since servers fill them in."""

    def required(validator: Any, value: Any, instance: Any, schema: Any) -> "Iterator[Any] | None":
        properties = schema.get("properties")
        if isinstance(value, list) and isinstance(properties, dict):
            known = cast("Mapping[str, Any]", properties)
            names = cast("list[str]", value)
            value = [name for name in names if not _has_default(known.get(name))]
        return check(validator, value, instance, schema)

    return required


def _has_default(schema: object) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _additional_check(check: _Check) -> _Check:
    """Skip the check next to `patternProperties`, which isn't checked and may allow the extra properties."""

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> "Iterator[Any] | None":
        return None if "patternProperties" in schema else check(validator, value, instance, schema)

    return additional


@cache
def _reference_errors() -> tuple[type[Exception], ...]:
    """Exceptions raised for unresolvable references."""
    with without_working_folder():
        from referencing.exceptions import Unresolvable  # noqa: PLC0415
    return (Unresolvable,)
