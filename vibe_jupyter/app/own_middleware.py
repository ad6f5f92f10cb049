"""The user's own middleware, loaded from files. Each `Middleware` subclass in them is active in every run."""

from collections.abc import Sequence

from vibe_jupyter import config
from vibe_jupyter.agent.middleware import Middleware
from vibe_jupyter.app.custom_tools import files_of_project
from vibe_jupyter.app.project import MIDDLEWARE, CurrentSettings, FolderLook, KernelSettings
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.tools.discovery import ToolFile, classes_in, error_text, files_below, run_file


class OwnMiddleware:
    """Loader of middleware files.

    Executes each file once and again after a change; instances live for a conversation.
    """

    def __init__(self, setup: KernelSettings) -> None:
        self._setup = setup
        self._files: dict[ToolFile, Sequence[type[Middleware]]] = {}
        self._made: dict[type[Middleware], Middleware] = {}
        self.present: Sequence[Middleware] = ()  # instances of the user's classes, then the project's

    def load(self, current: CurrentSettings) -> list[str]:
        """Execute new or changed files. Returns the problems to report. Main thread only."""
        problems: list[str] = []
        files = self._found_files(current.look, problems)
        self._files = {
            file: self._files[file] if file in self._files else _classes_of(file, problems) for file in files
        }
        classes = [one for file in files for one in self._files[file]]
        self._made = {one: self._made[one] for one in classes if one in self._made}
        for one in classes:
            if one not in self._made:
                try:
                    self._made[one] = one()
                except Exception as error:  # noqa: BLE001 - third-party code: report whatever it raises
                    problems.append(f"The middleware {one.__name__} failed: {error_text(error)} It is left out.")
        self.present = tuple(self._made.values())
        return problems

    def forget(self) -> None:
        """Drop all instances, and with them their per-conversation state."""
        self._made.clear()

    def _found_files(self, look: FolderLook, problems: list[str]) -> list[ToolFile]:
        own = config.vibe_home(self._setup.environ) / MIDDLEWARE
        files = files_below(own, problems, "middleware is") if own.is_dir() else []
        return [*files, *files_of_project(look, middleware=True)]


def _classes_of(file: ToolFile, problems: list[str]) -> Sequence[type[Middleware]]:
    try:
        found = classes_in(run_file(file), Middleware)
    except ConfigError as error:
        problems.append(f"{error} Its middleware is left out.")
        return ()
    if not found:
        problems.append(f"{file.path} defines no middleware: no class on vibe_jupyter.agent.middleware.Middleware.")
    return found
