"""The user's custom tools, defined in files or cells, and the main thread that cell-defined tools run on."""

import inspect
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePath
from typing import Any, NoReturn, cast

from IPython.core.interactiveshell import InteractiveShell
from pydantic import BaseModel

from vibe_jupyter import config
from vibe_jupyter.app.project import MIDDLEWARE, TOOLS, CurrentSettings, FolderLook, KernelSettings
from vibe_jupyter.errors import ToolError
from vibe_jupyter.kernel.ipython_types import IPythonKernel, IPythonShell
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.nested_await import run_nested
from vibe_jupyter.kernel.outputs import CollectedOutputs, OnOutput, OnShown, kernel_capture, terminal_capture
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.notebook.tools.cell_report import output_text
from vibe_jupyter.permissions.folder_trust import PROJECT_FOLDER
from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.skills.skill import FILE_NAME as SKILL_FILE
from vibe_jupyter.skills.skill import TOOLS_FOLDER, Skill, SkillsInUse
from vibe_jupyter.tools.contract import StaticToolset, Tool, ToolContext, ToolDefinition, registered_tools
from vibe_jupyter.tools.discovery import (
    CustomTool,
    Options,
    ToolFile,
    ToolFiles,
    files_below,
    is_tool_file,
    on_engine,
    settle_value,
)
from vibe_jupyter.variables.describe import describe_value


async def _needs_main_thread(*_wanted: object) -> NoReturn:
    raise ToolError(
        "A tool defined in a cell has the main thread, without which the user cannot be asked and no sub-agent works. "
        "Tools in files can do both."
    )


class MainThreadRunner:
    """Runner of cell-defined tools on the main thread of the cell that is serving."""

    def __init__(self, shell: InteractiveShell, pump: Pump | None, main_thread: MainThread) -> None:
        self._shell = cast(IPythonShell, shell)
        self._kernel = cast("IPythonKernel | None", getattr(shell, "kernel", None))
        self._pump = pump
        self._main_thread = main_thread

    async def __call__(self, definition: ToolDefinition, args: BaseModel, context: ToolContext) -> tuple[object, str]:
        """Call a tool on the main thread and collect its output."""
        context = context._replace(ask=_needs_main_thread, delegate=_needs_main_thread)

        def run() -> tuple[object, str]:
            if context.cancelled() or self._main_thread.interrupted:
                raise ToolError("interrupted before it ran")
            outputs, shown = CollectedOutputs(), threading.Event()
            with self._capture_outputs(outputs, context.progress, shown.set):
                value = self._call_definition(definition, args, context)
            if shown.is_set():
                self._main_thread.note_outputs(context.call_id)
            return value, output_text(outputs.collected())

        return await self._main_thread.call(run)

    def _call_definition(self, definition: ToolDefinition, args: BaseModel, context: ToolContext) -> object:
        value = definition.call(args, context)
        if not inspect.isawaitable(value) and not hasattr(value, "__aiter__"):
            return value
        serving: AbstractContextManager[None] = nullcontext() if self._pump is None else self._pump.serving()
        with serving:
            return run_nested(settle_value(value, context))

    def _capture_outputs(
        self, outputs: CollectedOutputs, on_output: OnOutput, on_shown: OnShown
    ) -> AbstractContextManager[None]:
        if self._kernel is None:
            return terminal_capture(self._shell, outputs, on_output)
        return kernel_capture(self._kernel, outputs, on_output, on_shown)


class CustomTools:
    """Toolset rebuilt at each request, so that a function defined during a run becomes a tool at once."""

    def __init__(self, setup: KernelSettings, main: MainThreadRunner) -> None:
        self._setup = setup
        self._main = main
        self._files = ToolFiles()
        self._from_files: tuple[ToolDefinition, ...] = ()
        self._offered: tuple[ToolDefinition, ...] = ()  # the definitions that `_set` was built from
        self._set = StaticToolset([])

    def load(self, current: CurrentSettings) -> list[str]:
        """Execute new or changed tool files. Returns the problems to report. Main thread only."""
        reading = current.reading
        options = {name: entry.model_dump(exclude_none=True) for name, entry in reading.settings.tools.items()}
        problems: list[str] = []
        own = config.vibe_home(self._setup.environ) / TOOLS
        files = [file for path in self._named_paths(reading) for file in files_below(path, problems)]
        files += _files_outside_skills(current.look)
        files += files_below(own, problems) if own.is_dir() else []
        once: dict[Path, ToolFile] = {}
        for file in files:
            once.setdefault(file.path.resolve(), file)
        definitions, more = self._files.definitions(once.values(), options)
        self._from_files = tuple(definitions)
        return [*problems, *more]

    def specs(self) -> Sequence[ToolSpec]:
        return self._present_set().specs()

    def find(self, name: str) -> Tool[Any] | None:
        return self._present_set().find(name)

    def _present_set(self) -> StaticToolset:
        here = registered_tools()
        if (offered := (*self._from_files, *here)) != self._offered:
            tools = {one.name: CustomTool(one, on_engine, _describe_value) for one in self._from_files}
            tools |= {one.name: CustomTool(one, self._main, _describe_value) for one in here}
            self._set, self._offered = StaticToolset(list(tools.values())), offered
        return self._set

    def forget(self) -> None:
        """Reset per-conversation state of the tools."""
        self._files.forget()

    def _named_paths(self, reading: config.SettingsReading) -> Iterator[Path]:
        """Yield the user's `tool_paths`. A project's are loaded with its other files."""
        home = config.vibe_home(self._setup.environ)
        named = reading.tree.table.get("tool_paths")
        for item in named.items if named is not None else ():
            if item.origin.layer != "project":
                yield home / Path(str(item.value)).expanduser()


class ToolsOfSkills:
    """Tools that skills ship in their `tools` folder, offered while the skill is in use.

    They run off the main thread.
    """

    def __init__(self) -> None:
        self._files = ToolFiles()
        self._sets: dict[str, StaticToolset] = {}  # keyed by skill name

    def load(self, skill: Skill, look: FolderLook, options: Options) -> tuple[Sequence[str], Sequence[str]]:
        """Execute new or changed tool files of a skill. Returns its tool names and any problems. Main thread only."""
        folder = skill.folder / TOOLS_FOLDER
        problems: list[str] = []
        if skill.origin == "project":  # use the content that the user trusted, not what is on disk now
            files = [file for file in files_of_project(look) if folder in file.path.parents]
        else:
            files = files_below(folder, problems)
        definitions, more = self._files.definitions(files, options)
        self._sets[skill.name] = StaticToolset([CustomTool(one, on_engine, _describe_value) for one in definitions])
        return [one.name for one in definitions], [*problems, *more]

    def specs(self, in_use: SkillsInUse) -> list[ToolSpec]:
        """Return the specs of tools of these skills."""
        return [spec for toolset in self._of(in_use) for spec in toolset.specs()]

    def find(self, name: str, in_use: SkillsInUse) -> Tool[Any] | None:
        """Find a tool of these skills by its name."""
        return next(filter(None, (toolset.find(name) for toolset in self._of(in_use))), None)

    def forget(self) -> None:
        """Reset per-conversation state of the tools."""
        self._files.forget()

    def _of(self, in_use: SkillsInUse) -> list[StaticToolset]:
        return [self._sets[skill.name] for skill in in_use.skills if skill.name in self._sets]


def _files_outside_skills(look: FolderLook) -> list[ToolFile]:
    """Return the project's tool files that are always offered."""
    skills = [(look.folder / path).parent for path in look.files if PurePath(path).name == SKILL_FILE]
    return [file for file in files_of_project(look) if not any(skill in file.path.parents for skill in skills)]


def files_of_project(look: FolderLook, *, middleware: bool = False) -> list[ToolFile]:
    """Return the project's files of the user's own code as they were trusted: those of middleware, or all others."""
    files = [ToolFile(look.folder / path, content, of_project=True) for path, content in look.files.items()]
    folder = look.folder / PROJECT_FOLDER / MIDDLEWARE
    return [file for file in files if is_tool_file(file.path) and file.path.is_relative_to(folder) == middleware]


def _describe_value(value: object) -> str:
    said = describe_value(value)
    return "\n".join(filter(None, (said.headline, said.body)))
