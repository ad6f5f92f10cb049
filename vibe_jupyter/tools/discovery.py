"""Custom tools in files: finding, loading and adapting them to the tool interface.

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
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, cast

from pydantic import BaseModel, JsonValue, ValidationError

from vibe_jupyter.errors import ConfigError, NotebookError, ToolError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.protocol import Headline, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools import custom
from vibe_jupyter.tools.contract import Restriction, Tool, ToolContext, ToolDefinition, collect_tools
from vibe_jupyter.tools.custom import BaseTool, ToolStreamEvent, definition_of_class

NOTHING: Final = "It returned nothing."
_FRAMES: Final = 3  # innermost frames of an exception shown to the model

CHECK_SECONDS: Final = 10.0
CHECK_WORDS: Final = 500  # characters of a reason that is shown and sent

Describe = Callable[[object], str]  # describes a value without running its own code

_MODULE: Final = "vibe_jupyter_tools_"  # prefix of the modules' names in `sys.modules`
# Modules that tools written for Mistral Vibe import. While such a file is loaded, they are replaced by ours.
_MISTRAL_VIBE: Final[Mapping[str, tuple[str, ...]]] = {
    "vibe.core.tools.base": ("BaseTool", "BaseToolConfig", "BaseToolState", "InvokeContext", "ToolPermission"),
    "vibe.core.tools.permissions": ("PermissionContext",),
    "vibe.core.tools.ui": ("ToolCallDisplay", "ToolResultDisplay", "ToolUIData"),
    "vibe.core.types": ("ToolCallEvent", "ToolResultEvent", "ToolStreamEvent"),
}

Options = Mapping[str, Mapping[str, JsonValue]]  # settings by tool name


@dataclass(frozen=True)
class WithOutput:
    """A result and the output printed while computing it."""

    value: object
    output: str


class ToolLane(Protocol):
    """Executes the code of custom tools."""

    async def __call__(self, definition: ToolDefinition, args: BaseModel, context: ToolContext) -> object:
        """Run a call to completion."""
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
            return Restriction(denies=True, reason=f"its own check failed: {_error_text(error)}"[:CHECK_WORDS])
        found = [restriction for one in said if (restriction := _restriction(one)) is not None]
        return max(found, key=lambda one: one.denies, default=None)

    async def run(self, args: BaseModel, context: ToolContext) -> ToolResult:
        try:
            value = await self._lane(self._definition, args, context)
        except NotebookError as error:
            raise ToolError(f"{self.name} did not run to its end: {error}") from error
        except ToolError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's code: the model receives the error
            return ToolResult.error(
                head_and_tail(_failure_text(self.name, error)),
                summary=f"{type(error).__name__}: {error}".split("\n", 1)[0],
            )
        printed = ""
        if isinstance(value, WithOutput):
            value, printed = value.value, value.output
        if isinstance(value, ToolResult):
            return value
        try:
            value = self._check_value(value)
        except ValidationError as error:
            return _no_result(self.name, self._definition.result, error)
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


async def on_engine(definition: ToolDefinition, args: BaseModel, context: ToolContext) -> object:
    """Run a call off the kernel's main thread: async functions on the engine's loop, others on a worker thread."""
    try:
        if definition.is_async:
            return await settle_value(definition.call(args, context), context)
        return await settle_value(await asyncio.to_thread(_call_on_thread, definition, args, context), context)
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


def _no_result(name: str, model: type[BaseModel] | None, error: ValidationError) -> ToolResult:
    """Report a result that doesn't match the declared model."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    promised = "its result" if model is None else model.__name__
    words = f"{name} ran, but its result is not a valid {promised}: {place + ': ' if place else ''}{first['msg']}."
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
    """Path and content of a tool file."""

    path: Path
    content: bytes
    of_project: bool = False  # True if it belongs to the project, and so may import from it


@dataclass(frozen=True)
class _Module:
    """Definitions in a file, before settings are applied."""

    functions: tuple[ToolDefinition, ...] = ()
    classes: tuple[type[BaseTool], ...] = ()
    problem: str = ""


class ToolFiles:
    """Loads each file once, and again when it has changed. Main thread only."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[Path, str], _Module] = {}
        # One instance per class and settings, since it may keep state between calls
        self._built: dict[tuple[type[BaseTool], str], ToolDefinition] = {}

    def definitions(self, files: Iterable[ToolFile], options: Options) -> tuple[list[ToolDefinition], list[str]]:
        """Return the tools of all files and the problems. For duplicate names the first file wins."""
        found: dict[str, ToolDefinition] = {}
        problems: list[str] = []
        for file in files:
            module = self._load_module(file)
            problems += [module.problem] if module.problem else []
            for definition in self._definitions_of(module, file, options, problems):
                first = found.setdefault(definition.name, definition)
                if first is not definition:
                    problems.append(f"{file.path}: left out, since {first.source} has a tool {definition.name} too.")
        return list(found.values()), problems

    def forget(self) -> None:
        """Discard the tools' state, which belongs to a finished conversation."""
        self._built.clear()

    def _definitions_of(
        self, module: _Module, file: ToolFile, options: Options, problems: list[str]
    ) -> Iterator[ToolDefinition]:
        yield from module.functions
        for cls in module.classes:
            try:
                yield self._built_of(cls, options.get(cls.get_name(), {}))
            except Exception as error:  # noqa: BLE001 - the user's code: any error is reported
                problems.append(f"{file.path}: {_error_text(error)} The tool is left out.")

    def _built_of(self, cls: type[BaseTool], options: Mapping[str, JsonValue]) -> ToolDefinition:
        key = (cls, json.dumps(options, sort_keys=True))
        if key not in self._built:
            self._built[key] = definition_of_class(cls, options)
        return self._built[key]

    def _load_module(self, file: ToolFile) -> _Module:
        key = (file.path, hashlib.sha256(os.fsencode(file.path) + b"\0" + file.content).hexdigest())
        if key not in self._loaded:
            self._loaded[key] = _run_tool_file(file, f"{_MODULE}{key[1][:16]}")
        return self._loaded[key]


def files_below(path: Path) -> Iterator[ToolFile]:
    """Yield a file, or all tool files in a folder and its subfolders. Names that start with ``_`` are private.

    Raises:
        OSError: the path doesn't exist or can't be read.
    """
    path.stat()
    paths = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    for one in paths:
        if is_tool_file(one) and one.is_file():
            yield ToolFile(one, one.read_bytes())


def is_tool_file(path: Path) -> bool:
    """Return whether a file may define tools."""
    return path.suffix == ".py" and not path.name.startswith("_") and "__pycache__" not in path.parts


def _run_tool_file(file: ToolFile, name: str) -> _Module:
    module = types.ModuleType(name)
    module.__file__ = str(file.path)
    sys.modules[name] = module  # pydantic and dataclasses resolve annotations there
    try:
        beside = nullcontext() if file.of_project else without_working_folder()
        with collect_tools() as functions, _as_mistral_vibe(), beside:
            exec(compile(file.content, str(file.path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code: any error is reported
        return _Module(problem=f"{_failing_line(file, error)}: {_error_text(error)} Its tools are left out.")
    classes = tuple(value for value in vars(module).values() if _is_tool_class(value, name))
    if not functions and not classes:
        return _Module(problem=f"{file.path} defines no tool: no function with @tool, and no class on BaseTool.")
    return _Module(tuple(functions), classes)


def _is_tool_class(value: object, module: str) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, BaseTool)
        and value.__module__ == module
        and not inspect.isabstract(value)
        and value.run is not BaseTool.run
    )


@contextmanager
def _as_mistral_vibe() -> Generator[None]:
    kept = {name: sys.modules.get(name) for name in _MISTRAL_VIBE}
    for name, names in _MISTRAL_VIBE.items():
        sys.modules[name] = stand_in = types.ModuleType(name)
        vars(stand_in).update({one: getattr(custom, one) for one in names})
        vars(stand_in)["ToolError"] = ToolError
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


def _error_text(error: BaseException) -> str:
    text = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    first = text.split("\n", 1)[0]
    return first if first.endswith(".") else f"{first}."
