"""A person's own tool in the form the agent calls: shown as a call, bounded, its exceptions told to the model."""

import asyncio
import inspect
import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from pydantic import BaseModel, JsonValue, ValidationError

from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.protocol import Headline, Level, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.custom import ToolStreamEvent
from vibe_jupyter.tools.definition import Definition
from vibe_jupyter.tools.truncate import head_and_tail

NOTHING: Final = "It returned nothing."
_FRAMES: Final = 3
"""Innermost frames of an exception told to the model."""

Describe = Callable[[object], str]
"""A value in words, without running its own code."""


@dataclass(frozen=True)
class WithOutput:
    """A result, and what was printed on the way."""

    value: object
    output: str


class Lane(Protocol):
    """Where a tool's code runs."""

    async def __call__(self, definition: Definition, args: BaseModel, context: ToolContext) -> object:
        """Call it to its end."""
        ...


class CustomTool:
    """Runs one definition in its lane. Asks each time, unless the settings say otherwise."""

    level: Level = "ask"

    def __init__(self, definition: Definition, lane: Lane, describe: Describe) -> None:
        self.name = definition.name
        self.description = definition.description
        self.arguments = definition.arguments
        self._definition = definition
        self._lane = lane
        self._describe = describe

    def headline(self, args: BaseModel) -> Headline:
        return Headline(verb="Used", doing="Using", asking="Use", target=self.name)

    def preview(self, args: BaseModel) -> Preview:
        given = {name: getattr(args, name) for name in args.model_fields_set}
        call = f"{self.name}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        where = f"# {self._definition.source}\n" if self._definition.source else ""
        return Preview(kind="code", text=f"{where}{call}", language="python")

    def touches(self, args: BaseModel) -> Sequence[Resource]:
        return (Resource(kind="tool", value=self.name, access="execute"),)

    async def run(self, args: BaseModel, context: ToolContext) -> ToolResult:
        try:
            value = await self._lane(self._definition, args, context)
        except NotebookError as error:
            raise ToolError(f"{self.name} did not run to its end: {error}") from error
        except ToolError:
            raise
        except Exception as error:  # noqa: BLE001 - the person's code: the model reads what went wrong
            return ToolResult.error(
                head_and_tail(_told(self.name, error)), summary=f"{type(error).__name__}: {error}".split("\n", 1)[0]
            )
        printed = ""
        if isinstance(value, WithOutput):
            value, printed = value.value, value.output
        if isinstance(value, ToolResult):
            return value
        try:
            value = self._checked(value)
        except ValidationError as error:
            return _no_result(self.name, self._definition.result, error)
        text = _with_output(text_of(value, self._describe), printed)
        return ToolResult(
            parts=(TextPart(text=text),),
            summary=text.split("\n", 1)[0][:80],
            display={"text/plain": head_and_tail(text)},
        )

    def _checked(self, value: object) -> object:
        model = self._definition.result
        return value if model is None or isinstance(value, model) else model.model_validate(value)


async def on_engine(definition: Definition, args: BaseModel, context: ToolContext) -> object:
    """Beside the kernel's main thread: on the loop what is made for one, else on a thread of its own."""
    if definition.is_async:
        return await settled(definition.call(args, context), context)
    return await settled(await asyncio.to_thread(definition.call, args, context), context)


async def settled(value: object, context: ToolContext) -> object:
    """Wait for what is to be waited for; of what is yielded, the last is the result and the rest progress."""
    if inspect.isawaitable(value):
        return await settled(await cast("Awaitable[object]", value), context)
    if not hasattr(value, "__aiter__"):
        return value
    last: object = None
    async for item in cast("AsyncIterator[object]", value):
        if isinstance(item, ToolStreamEvent):
            context.progress(f"{item.message}\n")
        else:
            last = item
    return last


def text_of(value: object, describe: Describe) -> str:
    """A result as the model reads it."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if isinstance(value, dict | list | tuple | bool | int | float):
        try:
            return json.dumps(value, ensure_ascii=False, default=lambda inner: _inner(inner, describe))
        except (TypeError, ValueError):  # keys that are no text, or a loop
            return describe(cast(object, value))
    return describe(value)


def _with_output(text: str, printed: str) -> str:
    if not printed:
        return text
    return f"printed:\n{printed}" if text == NOTHING else f"{text}\nprinted:\n{printed}"


def _no_result(name: str, model: type[BaseModel] | None, error: ValidationError) -> ToolResult:
    """The tool ran, but what it gave is not what it promised."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    promised = "its result" if model is None else model.__name__
    words = f"{name} ran, but gave something that is no {promised}: {place + ': ' if place else ''}{first['msg']}."
    return ToolResult.error(words, summary=words)


def _inner(value: object, describe: Describe) -> JsonValue:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else describe(value)


def _told(name: str, error: Exception) -> str:
    # What the system refuses says all by itself.
    frames = [] if isinstance(error, OSError) else traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = "".join(f"\n  {frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}" for frame in frames)
    return f"{name} raised {type(error).__name__}: {error}{places}"
