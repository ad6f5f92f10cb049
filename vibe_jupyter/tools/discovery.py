"""The user's own code in files: finding and executing it, and adapting the tools in it to the tool interface.

A file is executed from the very bytes that were inspected. A file that fails is reported and skipped, and never affects
others.
"""

import asyncio
import hashlib
import inspect
import json
import os
import sys
import traceback
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError

from vibe_jupyter.errors import ConfigError, NotebookError, ToolError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.protocol import Headline, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.contract import Restriction, Tool, ToolContext, ToolDefinition, collect_tools
from vibe_jupyter.tools.custom import (
    BaseTool,
    BaseToolConfig,
    BaseToolState,
    FrontEndText,
    InvokeContext,
    PermissionContext,
    ToolPermission,
    ToolStreamEvent,
    ToolUIData,
    definition_of_class,
)

NOTHING: Final = "It returned nothing."
_FRAMES: Final = 3  # innermost frames of an exception shown to the model

CHECK_SECONDS: Final = 10.0
CHECK_WORDS: Final = 500  # characters of a reason that is shown and sent

Describe = Callable[[object], str]  # describes a value without running its own code

_MODULE: Final = "vibe_jupyter_own_"  # prefix of the modules' names in `sys.modules`
# Modules that tools written for Mistral Vibe import. While such a file is loaded, they are replaced by ours.
_MISTRAL_VIBE: Final = ("vibe.core.tools.base", "vibe.core.tools.permissions", "vibe.core.tools.ui", "vibe.core.types")
_ITS_NAMES: Final[Mapping[str, type]] = {
    "BaseTool": BaseTool,
    "BaseToolConfig": BaseToolConfig,
    "BaseToolState": BaseToolState,
    "InvokeContext": InvokeContext,
    "PermissionContext": PermissionContext,
    "ToolCallDisplay": FrontEndText,
    "ToolCallEvent": FrontEndText,
    "ToolError": ToolError,
    "ToolPermission": ToolPermission,
    "ToolResultDisplay": FrontEndText,
    "ToolResultEvent": FrontEndText,
    "ToolStreamEvent": ToolStreamEvent,
    "ToolUIData": ToolUIData,
}

T = TypeVar("T")

Options = Mapping[str, Mapping[str, JsonValue]]  # settings by tool name


class ToolLane(Protocol):
    """Executes the code of custom tools."""

    async def __call__(self, definition: ToolDefinition, args: BaseModel, context: ToolContext) -> tuple[object, str]:
        """Run a call to completion. Returns the result, and what was printed meanwhile if anything collects it."""
        ...


class CustomTool(Tool[BaseModel]):
    """Adapter from a custom tool's definition to the tool interface.

    Each call needs approval unless the settings differ.
    """

    def __init__(self, definition: ToolDefinition, lane: ToolLane, describe: Describe) -> None:
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

    async def restriction(self, args: BaseModel) -> Restriction | None:
        """Run the tool's own permission checks; of two, the stricter one counts.

        A check that fails or takes more than `CHECK_SECONDS` denies the call.
        """
        check = self._definition.check
        if check is None:
            return None
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                said = [await _settled(one) for one in await asyncio.to_thread(check, args)]
        except TimeoutError:
            return Restriction(denies=True, reason=f"its own check took more than {CHECK_SECONDS:g} s")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            return Restriction(denies=True, reason=f"its own check failed: {error_text(error)}"[:CHECK_WORDS])
        found = [restriction for one in said if (restriction := _restriction(one)) is not None]
        return max(found, key=lambda one: one.denies, default=None)

    async def run(self, args: BaseModel, context: ToolContext) -> ToolResult:
        try:
            value, printed = await self._lane(self._definition, args, context)
        except NotebookError as error:
            raise ToolError(f"{self.name} did not run to its end: {error}") from error
        except ToolError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's code: the model receives the error
            return ToolResult.error(
                head_and_tail(_failure_text(self.name, error)),
                summary=f"{type(error).__name__}: {error}".split("\n", 1)[0],
            )
        if isinstance(value, ToolResult):
            return value
        try:
            value = self._check_value(value)
        except ValidationError as error:
            return _no_result(self.name, error)
        text = _with_output(text_of(value, self._describe), printed)
        return ToolResult(
            parts=(TextPart(text=text),),
            summary=text.split("\n", 1)[0][:80],
            display={"text/plain": head_and_tail(text)},
        )

    def _check_value(self, value: object) -> object:
        model = self._definition.result
        return value if model is None or isinstance(value, model) else model.model_validate(value)


async def _settled(value: object) -> object:
    return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value


def _restriction(said: object) -> Restriction | None:
    """Convert the result of a tool's check to a restriction. ALWAYS is none."""
    reason = str(getattr(said, "reason", "") or "")[:CHECK_WORDS]
    level = getattr(said, "permission", said)
    if level is None or level == "always":
        return None
    if level == "never":
        return Restriction(denies=True, reason=reason or "its own check returned NEVER")
    if level in ("ask", "sandbox"):
        return Restriction(denies=False, reason=reason or "its own check returned ASK")
    return Restriction(denies=True, reason=f"its own check returned {type(said).__name__}, which is no permission")


async def on_engine(definition: ToolDefinition, args: BaseModel, context: ToolContext) -> tuple[object, str]:
    """Run a call off the kernel's main thread: functions on a worker thread, what they return to await on the loop."""
    try:
        called = await asyncio.to_thread(_call_on_thread, definition, args, context)
        return await settle_value(called, context), ""
    except (KeyboardInterrupt, SystemExit) as error:  # these would end the event loop
        raise _left(definition, error) from error


def _call_on_thread(definition: ToolDefinition, args: BaseModel, context: ToolContext) -> object:
    try:
        return definition.call(args, context)
    except (StopIteration, asyncio.CancelledError, GeneratorExit) as error:  # futures can't propagate these
        raise _left(definition, error) from error


def _left(definition: ToolDefinition, error: BaseException) -> ToolError:
    return ToolError(f"{definition.name} ended with {type(error).__name__}, which goes no further than this.")


async def settle_value(value: object, context: ToolContext) -> object:
    """Await a value. If it is an async iterator, the last item is the result and the others are progress."""
    if inspect.isawaitable(value):
        return await settle_value(await cast("Awaitable[object]", value), context)
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
    """Convert a result to text for the model."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if isinstance(value, dict | list | tuple | bool | int | float):
        try:
            return json.dumps(value, ensure_ascii=False, default=lambda inner: _inner_value(inner, describe))
        except (TypeError, ValueError):  # keys of other types, or a circular reference
            return describe(cast(object, value))
    return describe(value)


def _with_output(text: str, printed: str) -> str:
    if not printed:
        return text
    return f"printed:\n{printed}" if text == NOTHING else f"{text}\nprinted:\n{printed}"


def _no_result(name: str, error: ValidationError) -> ToolResult:
    """Report a result that doesn't match the declared model."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    words = f"{name} ran, but its result is not a valid {error.title}: {place + ': ' if place else ''}{first['msg']}."
    return ToolResult.error(words, summary=words)


def _inner_value(value: object, describe: Describe) -> JsonValue:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else describe(value)


def _failure_text(name: str, error: Exception) -> str:
    # Errors of the operating system need no traceback.
    frames = [] if isinstance(error, OSError) else traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = "".join(f"\n  {frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}" for frame in frames)
    return f"{name} raised {type(error).__name__}: {error}{places}"


@dataclass(frozen=True)
class ToolFile:
    """Path and content of a file with the user's own code."""

    path: Path
    content: bytes
    of_project: bool = False  # True if it belongs to the project, and so may import from it


class _Found(NamedTuple):
    """Tools of a file. Those of classes are defined with their settings later."""

    tools: Sequence[ToolDefinition | type[BaseTool]] = ()
    problem: str = ""


class ToolFiles:
    """Loads each file once, and again when it has changed. Main thread only."""

    def __init__(self) -> None:
        self._loaded: dict[ToolFile, _Found] = {}
        # One instance per class and settings, since it may keep state between calls
        self._built: dict[tuple[type[BaseTool], str], ToolDefinition] = {}

    def definitions(self, files: Iterable[ToolFile], options: Options) -> tuple[list[ToolDefinition], list[str]]:
        """Return the tools of all files and the problems. For duplicate names the first file wins."""
        found: dict[str, ToolDefinition] = {}
        problems: list[str] = []
        for file in files:
            if file not in self._loaded:
                self._loaded[file] = _tools_of(file)
            tools, problem = self._loaded[file]
            problems += [problem] if problem else []
            for tool in tools:
                try:
                    definition = self._defined(tool, options)
                except Exception as error:  # noqa: BLE001 - the user's code: any error is reported
                    problems.append(f"{file.path}: {error_text(error)} The tool is left out.")
                    continue
                first = found.setdefault(definition.name, definition)
                if first is not definition:
                    problems.append(f"{file.path}: left out, since {first.source} has a tool {definition.name} too.")
        return list(found.values()), problems

    def forget(self) -> None:
        """Discard the tools' state, which belongs to a finished conversation."""
        self._built.clear()

    def _defined(self, tool: ToolDefinition | type[BaseTool], options: Options) -> ToolDefinition:
        if isinstance(tool, ToolDefinition):
            return tool
        settings = options.get(tool.get_name(), {})
        key = (tool, json.dumps(settings, sort_keys=True))
        if key not in self._built:
            self._built[key] = definition_of_class(tool, settings)
        return self._built[key]


def _tools_of(file: ToolFile) -> _Found:
    try:
        with collect_tools() as functions, _as_mistral_vibe():
            module = run_file(file)
    except ConfigError as error:
        return _Found(problem=f"{error} Its tools are left out.")
    classes = [
        cls for cls in classes_in(module, BaseTool) if not inspect.isabstract(cls) and cls.run is not BaseTool.run
    ]
    if not functions and not classes:
        return _Found(problem=f"{file.path} defines no tool: no function with @tool, and no class on BaseTool.")
    return _Found((*functions, *classes))


def files_below(path: Path, problems: list[str], what: str = "tools are") -> list[ToolFile]:
    """Return a file, or all files in a folder and its subfolders that may define tools or other code of the user's.

    Args:
        path: the file or folder.
        problems: gets a sentence if it can't be read.
        what: what is left out then, with its verb.
    """
    try:
        path.stat()
        paths = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        return [ToolFile(one, one.read_bytes()) for one in paths if is_tool_file(one) and one.is_file()]
    except OSError as error:
        problems.append(f"{path} cannot be read ({error.strerror}); its {what} left out.")
        return []


def is_tool_file(path: Path) -> bool:
    """Return whether a file may define tools. Names that start with ``_`` are private."""
    return path.suffix == ".py" and not path.name.startswith("_") and "__pycache__" not in path.parts


def run_file(file: ToolFile) -> types.ModuleType:
    """Execute a file as a module of its own.

    Raises:
        ConfigError: it failed. The message is the place and the reason.
    """
    key = hashlib.sha256(os.fsencode(file.path) + b"\0" + file.content).hexdigest()
    module = types.ModuleType(f"{_MODULE}{key[:16]}")
    module.__file__ = str(file.path)
    sys.modules[module.__name__] = module  # pydantic and dataclasses resolve annotations there
    try:
        with nullcontext() if file.of_project else without_working_folder():
            exec(compile(file.content, str(file.path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code: any error is reported
        raise ConfigError(f"{_failing_line(file, error)}: {error_text(error)}") from None
    return module


def classes_in(module: types.ModuleType, base: type[T]) -> list[type[T]]:
    """Return the subclasses of `base` that a module defines."""
    classes: list[type[Any]] = [one for one in vars(module).values() if isinstance(one, type)]
    return [one for one in classes if issubclass(one, base) and one.__module__ == module.__name__]


@contextmanager
def _as_mistral_vibe() -> Generator[None]:
    kept = {name: sys.modules.get(name) for name in _MISTRAL_VIBE}
    for name in _MISTRAL_VIBE:
        sys.modules[name] = stand_in = types.ModuleType(name)
        vars(stand_in).update(_ITS_NAMES)
    try:
        yield
    finally:
        for name, module in kept.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def _failing_line(file: ToolFile, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(file.path):
        return f"{file.path}, line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file.path)]
    return f"{file.path}, line {lines[-1]}" if lines else str(file.path)


def error_text(error: BaseException) -> str:
    """Describe an error of the user's code in a line."""
    text = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    first = text.split("\n", 1)[0]
    return first if first.endswith(".") else f"{first}."
