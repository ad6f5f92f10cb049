"""Tools in files: `~/.vibe/tools/*.py`, those of a trusted project, and further paths of the settings.

A file is run from the bytes that were looked at. One that fails is told and left out; it never stops anything.
"""

import hashlib
import inspect
import json
import os
import sys
import traceback
import types
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.errors import ConfigError, ToolError
from vibe_jupyter.own_imports import without_working_folder
from vibe_jupyter.tools import custom
from vibe_jupyter.tools.custom import BaseTool, definition_of_class
from vibe_jupyter.tools.definition import Definition
from vibe_jupyter.tools.registered import collecting

_MODULE: Final = "vibe_jupyter_tools_"
"""Beginning of the names such modules have in `sys.modules`."""
_MISTRAL_VIBE: Final[Mapping[str, tuple[str, ...]]] = {
    "vibe.core.tools.base": ("BaseTool", "BaseToolConfig", "BaseToolState", "InvokeContext", "ToolPermission"),
    "vibe.core.types": ("ToolStreamEvent",),
}
"""What its users' files import; while they are loaded these names mean ours."""

Options = Mapping[str, Mapping[str, JsonValue]]
"""Tool to what the settings say of it."""


@dataclass(frozen=True)
class ToolFile:
    """One file, as it was read."""

    path: Path
    content: bytes
    of_project: bool = False
    """Whether it stands in the folder the kernel works in, and so may import what is there."""


@dataclass(frozen=True)
class _Module:
    """What a file defined, before it has settings."""

    functions: tuple[Definition, ...] = ()
    classes: tuple[type[BaseTool], ...] = ()
    problem: str = ""


class ToolFiles:
    """Runs each file once, and again when it has changed. Main thread."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[Path, str], _Module] = {}
        self._built: dict[tuple[type[BaseTool], str], Definition] = {}
        """One instance for each class and its settings: it may remember something between calls."""

    def definitions(self, files: Iterable[ToolFile], options: Options) -> tuple[list[Definition], list[str]]:
        """The tools of all files, and what is to be told of them. Of one name the first file's counts."""
        found: dict[str, Definition] = {}
        problems: list[str] = []
        for file in files:
            module = self._module(file)
            problems += [module.problem] if module.problem else []
            for definition in self._of(module, file, options, problems):
                first = found.setdefault(definition.name, definition)
                if first is not definition:
                    problems.append(f"{file.path}: left out, since {first.source} has a tool {definition.name} too.")
        return list(found.values()), problems

    def forget(self) -> None:
        """What tools remember belongs to a conversation that is over."""
        self._built.clear()

    def _of(self, module: _Module, file: ToolFile, options: Options, problems: list[str]) -> Iterator[Definition]:
        yield from module.functions
        for cls in module.classes:
            try:
                yield self._built_of(cls, options.get(cls.get_name(), {}))
            except Exception as error:  # noqa: BLE001 - foreign code: what it raises is told
                problems.append(f"{file.path}: {_words(error)} The tool is left out.")

    def _built_of(self, cls: type[BaseTool], options: Mapping[str, JsonValue]) -> Definition:
        key = (cls, json.dumps(options, sort_keys=True))
        if key not in self._built:
            self._built[key] = definition_of_class(cls, options)
        return self._built[key]

    def _module(self, file: ToolFile) -> _Module:
        key = (file.path, hashlib.sha256(os.fsencode(file.path) + b"\0" + file.content).hexdigest())
        if key not in self._loaded:
            self._loaded[key] = _run(file, f"{_MODULE}{key[1][:16]}")
        return self._loaded[key]


def files_below(path: Path) -> Iterator[ToolFile]:
    """A file, or every tool file in a folder and the folders in it; those that begin with ``_`` are private.

    Raises:
        OSError: there is no such place, or it cannot be read.
    """
    path.stat()
    paths = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    for one in paths:
        if is_tool_file(one) and one.is_file():
            yield ToolFile(one, one.read_bytes())


def is_tool_file(path: Path) -> bool:
    """Whether a file may define tools."""
    return path.suffix == ".py" and not path.name.startswith("_") and "__pycache__" not in path.parts


def _run(file: ToolFile, name: str) -> _Module:
    module = types.ModuleType(name)
    module.__file__ = str(file.path)
    sys.modules[name] = module  # pydantic and dataclasses look names up there
    try:
        beside = nullcontext() if file.of_project else without_working_folder()
        with collecting() as functions, _as_mistral_vibe(), beside:
            exec(compile(file.content, str(file.path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: what it raises is told
        return _Module(problem=f"{_place(file, error)}: {_words(error)} Its tools are left out.")
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


def _place(file: ToolFile, error: BaseException) -> str:
    """The file, and the line of it that failed."""
    if isinstance(error, SyntaxError) and error.filename == str(file.path):
        return f"{file.path}, line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file.path)]
    return f"{file.path}, line {lines[-1]}" if lines else str(file.path)


def _words(error: BaseException) -> str:
    text = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
    first = text.split("\n", 1)[0]
    return first if first.endswith(".") else f"{first}."
