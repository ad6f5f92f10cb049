"""The person's own tools: from files, and from functions in cells."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from vibe_jupyter import config
from vibe_jupyter.agent.discovery import ToolFile, ToolFiles, files_below, is_tool_file
from vibe_jupyter.app.main_lane import MainLane
from vibe_jupyter.app.setup import Setup
from vibe_jupyter.notebook.variables import describe
from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.tools.base import StaticToolset, Tool
from vibe_jupyter.tools.custom_tool import CustomTool, on_engine
from vibe_jupyter.tools.definition import Definition
from vibe_jupyter.tools.registered import registered

_TOOLS: Final = "tools"
"""The folder below the person's own."""


class CustomTools:
    """A set that looks anew at each request: a function defined during a run is a tool at once."""

    def __init__(self, setup: Setup, main: MainLane) -> None:
        self._setup = setup
        self._main = main
        self._files = ToolFiles()
        self._from_files: tuple[Definition, ...] = ()
        self._offered: tuple[Definition, ...] = ()
        """What `_set` was built of."""
        self._set = StaticToolset([])

    def load(self, reading: config.Reading) -> list[str]:
        """Run the files that are new or changed; gives what is to be told of them. Main thread."""
        options = {name: entry.model_dump(exclude_none=True) for name, entry in reading.settings.tools.items()}
        problems: list[str] = []
        own = config.vibe_home(self._setup.environ) / _TOOLS
        files = [file for path in self._named(reading) for file in _below(path, problems)]
        files += self._project_files()
        files += _below(own, problems) if own.is_dir() else []
        once: dict[Path, ToolFile] = {}
        for file in files:
            once.setdefault(file.path.resolve(), file)
        definitions, more = self._files.definitions(once.values(), options)
        self._from_files = tuple(definitions)
        return [*problems, *more]

    def specs(self) -> Sequence[ToolSpec]:
        return self._present().specs()

    def find(self, name: str) -> Tool[Any] | None:
        return self._present().find(name)

    def _present(self) -> StaticToolset:
        here = registered()
        if (offered := (*self._from_files, *here)) != self._offered:
            tools = {one.name: CustomTool(one, on_engine, _described) for one in self._from_files}
            tools |= {one.name: CustomTool(one, self._main, _described) for one in here}
            self._set, self._offered = StaticToolset(list(tools.values())), offered
        return self._set

    def forget(self) -> None:
        """A conversation is over, and with it what tools remember of it."""
        self._files.forget()

    def _named(self, reading: config.Reading) -> Iterator[Path]:
        """The person's ``tool_paths``; what a project names comes with its other files."""
        home = config.vibe_home(self._setup.environ)
        named = reading.tree.table.get("tool_paths")
        for item in named.items if named is not None else ():
            if item.origin.layer != "project":
                yield home / Path(str(item.value)).expanduser()

    def _project_files(self) -> list[ToolFile]:
        look = self._setup.project.look()
        files = [ToolFile(look.folder / path, content, of_project=True) for path, content in look.files.items()]
        return [file for file in files if is_tool_file(file.path)]


def _below(path: Path, problems: list[str]) -> list[ToolFile]:
    try:
        return list(files_below(path))
    except OSError as error:
        problems.append(f"{path} cannot be read ({error.strerror}); its tools are left out.")
        return []


def _described(value: object) -> str:
    said = describe(value)
    return "\n".join(filter(None, (said.headline, said.body)))
