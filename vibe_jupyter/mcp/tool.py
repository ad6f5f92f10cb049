"""A server's tool in the form the agent calls, its arguments checked against its schema.

The schema is foreign: nothing it names is fetched, and a check that takes long is given up. What is not checked here
(patterns, formats, ``not``, ``if``) the server checks itself; a check is only ever looser than the schema, never
stricter.
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
from vibe_jupyter.protocol import WHOLE, Headline, Level, Preview, Resource, ToolResult, ToolSpec, arguments_text
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.confusables import visible_schema, visible_words
from vibe_jupyter.tools.contract import ToolContext

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from mcp import Client
    from mcp_types import CallToolResult

PROGRESS_GAP: Final = 0.1
"""Seconds between two words on how far a call is; of those between, the last is shown."""

CHECK_TIME: Final = 0.25
"""Seconds of one check; a schema of a few lines can be made to take years."""
CHECKED_SIZE: Final = 50_000
"""Characters of a schema that is checked against; a larger one is left to its server."""
PROBLEMS_LIMIT: Final = 6
"""Problems told at once."""
WORDS_LIMIT: Final = 200
"""Characters of one problem: it may quote what is wrong."""

_UNCHECKED: Final = (
    *("pattern", "patternProperties", "format", "uniqueItems", "not", "if", "maxContains"),
    *("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"),
)
"""What may run for ever, and what turns a looser check into a stricter one."""

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
    """What the tools of all servers share."""

    open_calls: OpenCalls
    sees_images: Callable[[], bool]


class McpTool:
    """One tool of one server."""

    level: Level = "ask"

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
        self._refused = refused
        """Why it may not be called, for the model; empty if it may."""

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
            # What it gives is shown and told as it came; schemas of results are foreign, and may take long.
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
    """Passes on how far a call is, now and then: the newest word, however many there were."""

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
        """Say nothing more."""
        if self._waiting is not None:
            self._waiting.cancel()

    def _show_newest(self) -> None:
        self._waiting = None
        self._shown_at = asyncio.get_running_loop().time()
        self._context.advance(*self._newest)


def server_tool_spec(published: PublishedTool, *, hint: str = "") -> ToolSpec:
    """A tool's description for the model: its server's text, without what nobody sees.

    Args:
        published: the tool under its name.
        hint: what the user says of the server.
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
    """Whose tool it is, and what it does in the words of its server."""
    return f"[MCP server {published.server}] {visible_words(published.tool.description) or published.tool.name}"


def claim_text(annotations: Mapping[str, JsonValue]) -> str:
    """What a server says of its tool, as its claim; empty if it says nothing."""
    if annotations.get("readOnlyHint") is True:
        return "its server says it only reads"
    if annotations.get("destructiveHint") is True:
        return "its server says it may destroy"
    return ""


async def _as_it_came(name: str, result: "CallToolResult") -> None:
    pass


def arguments_model(tool: RemoteTool) -> type[ServerToolArguments]:
    """The arguments of this tool alone; wrong ones are named by their place."""

    validator = cache(lambda: _schema_validator(tool))

    class Checked(ServerToolArguments):
        @classmethod
        def model_json_schema(cls, *_args: Any, **_options: Any) -> dict[str, Any]:
            """As its server declares it."""
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
        pass  # what was found so far is wrong all the same; the rest is the server's to say
    finally:
        _until.reset(token)
    return [
        InitErrorDetails(type=PydanticCustomError("schema", "{words}", {"words": words}), loc=place, input=arguments)
        for place, words in found
    ]


class _TooLong(Exception):
    """The time for a check is over."""


def _schema_validator(tool: RemoteTool) -> "Validator | None":
    """None for a schema that cannot be checked against."""
    schema = dict(tool.input_schema)
    if len(json.dumps(schema)) > CHECKED_SIZE:
        return None
    with without_working_folder():
        from jsonschema.exceptions import SchemaError  # noqa: PLC0415
        from jsonschema.validators import validator_for  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415
    nowhere: Registry[Any] = Registry()  # where nothing is fetched from
    kind = validator_for(schema, default=validator_for({}))
    try:
        kind.check_schema(schema)
    except (SchemaError, RecursionError, *_reference_errors()):
        return None
    return _looser_validator(kind)(schema, registry=nowhere)


@cache
def _looser_validator(kind: "type[Validator]") -> "type[Validator]":
    """The validator of a draft, which looks at the clock and checks nothing that could run for ever."""
    from jsonschema import validators  # noqa: PLC0415 - loaded already

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
    """Whatever it is."""


def _required(check: _Check) -> _Check:
    """What has a default may be left out, whatever is said of it: servers fill it in."""

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
    """Further properties may be meant by patterns, which are not looked at."""

    def additional(validator: Any, value: Any, instance: Any, schema: Any) -> "Iterator[Any] | None":
        return None if "patternProperties" in schema else check(validator, value, instance, schema)

    return additional


@cache
def _reference_errors() -> tuple[type[Exception], ...]:
    """What a reference raises that leads nowhere."""
    with without_working_folder():
        from referencing.exceptions import Unresolvable  # noqa: PLC0415
    return (Unresolvable,)
