"""The user's own middleware, loaded from files. Each `Middleware` subclass in them is active in every run."""

import sys
import types
from collections.abc import Sequence
from contextlib import nullcontext

from vibe_jupyter import config
from vibe_jupyter.agent.middleware import Middleware
from vibe_jupyter.app.project import MIDDLEWARE, CurrentSettings, FolderLook, KernelSettings
from vibe_jupyter.permissions.folder_trust import PROJECT_FOLDER
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.discovery import ToolFile, files_below, is_tool_file

_MODULE = "vibe_jupyter_middleware_"  # prefix of these modules' names in `sys.modules`


class OwnMiddleware:
    """Loader of middleware files.

    Executes each file once and again after a change; instances live for a conversation.
    """

    def __init__(self, setup: KernelSettings) -> None:
        self._setup = setup
        self._files: dict[ToolFile, tuple[type[Middleware], ...]] = {}
        self._made: dict[type[Middleware], Middleware] = {}
        self.present: Sequence[Middleware] = ()  # instances of the user's classes, then the project's

    def load(self, current: CurrentSettings) -> list[str]:
        """Execute new or changed files. Returns the problems to report. Main thread only."""
        problems: list[str] = []
        files = self._found_files(current.look, problems)
        self._files = {file: self._files[file] if file in self._files else _run_file(file, problems) for file in files}
        classes = [one for file in files for one in self._files[file]]
        self._made = {one: self._made[one] for one in classes if one in self._made}
        for one in classes:
            if one not in self._made:
                try:
                    self._made[one] = one()
                except Exception as error:  # noqa: BLE001 - third-party code: report whatever it raises
                    problems.append(f"The middleware {one.__name__} failed: {_error_text(error)} It is left out.")
        self.present = tuple(self._made.values())
        return problems

    def forget(self) -> None:
        """Drop all instances, and with them their per-conversation state."""
        self._made.clear()

    def _found_files(self, look: FolderLook, problems: list[str]) -> list[ToolFile]:
        own = config.vibe_home(self._setup.environ) / MIDDLEWARE
        files: list[ToolFile] = []
        try:
            files += files_below(own) if own.is_dir() else []
        except OSError as error:
            problems.append(f"{own} cannot be read ({error.strerror}); its middleware is left out.")
        theirs = look.folder / PROJECT_FOLDER / MIDDLEWARE
        found = [ToolFile(look.folder / path, content, of_project=True) for path, content in look.files.items()]
        return [*files, *(one for one in found if one.path.is_relative_to(theirs) and is_tool_file(one.path))]


def _run_file(file: ToolFile, problems: list[str]) -> tuple[type[Middleware], ...]:
    name = f"{_MODULE}{file.path.stem}_{abs(hash(file)):x}"
    module = types.ModuleType(name)
    module.__file__ = str(file.path)
    sys.modules[name] = module  # dataclasses look up their module there
    try:
        with nullcontext() if file.of_project else without_working_folder():
            exec(compile(file.content, str(file.path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party code: report whatever it raises
        problems.append(f"{file.path}: {_error_text(error)} Its middleware is left out.")
        return ()
    found = tuple(
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Middleware) and one.__module__ == name
    )
    if not found:
        problems.append(f"{file.path} defines no middleware: no class on vibe_jupyter.agent.middleware.Middleware.")
    return found


def _error_text(error: BaseException) -> str:
    first = f"{type(error).__name__}: {error}".split("\n", 1)[0]
    return first if first.endswith(".") else f"{first}."
