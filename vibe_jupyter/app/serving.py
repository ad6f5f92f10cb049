"""The notebook served to external clients: begun and ended, and its tools, each borrowing the main thread."""

import atexit
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from IPython.core.interactiveshell import InteractiveShell
from jupyter_core.paths import jupyter_runtime_dir

from vibe_jupyter.app.kernel_parts import ServingParts
from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.errors import ConfigError, NotebookError, ToolError
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.tools.arrange_cells import DeleteCellsTool, MoveCellsTool
from vibe_jupyter.notebook.tools.edit_cells import EditCellTool, InsertCellTool
from vibe_jupyter.notebook.tools.read_cells import ReadCellTool, ReadNotebookTool, ReadOutputTool
from vibe_jupyter.notebook.tools.run_cells import RunCellTool, RunCodeTool
from vibe_jupyter.protocol import Headline, Level, Preview, Resource, ToolResult, ToolSpec
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.contract import PrecheckedTool, StaticToolset, Tool, ToolContext, tool_spec
from vibe_jupyter.variables.tools import InspectVariableTool, ListVariablesTool

if TYPE_CHECKING:
    from vibe_jupyter.app.serving_session import ServingSession

_CLASSES: Final = (
    ReadNotebookTool,
    ReadCellTool,
    ReadOutputTool,
    ListVariablesTool,
    InspectVariableTool,
    EditCellTool,
    InsertCellTool,
    DeleteCellsTool,
    MoveCellsTool,
    RunCellTool,
    RunCodeTool,
)

BorrowTurn = Callable[[], AbstractAsyncContextManager[None]]

_NO_KERNEL: Final = "Only a notebook can be served: here is no kernel whose page could show what is asked."
_NOBODY: Final = "Nobody is here who could allow a call: this notebook runs unattended. Nothing is served."
_USAGE: Final = "%vibe mcp serve begins, with --url it shows address and token too, and %vibe mcp serve stop ends it."
_NO_CARDS: Final = (
    "No widgets can be shown here, so nobody can be asked: a call is done only if your settings allow it beforehand."
)
_STOPPED: Final = "Agents outside can use this notebook's tools no more."
_NONE: Final = "This notebook is not served."
_RUNTIME_DIR_FROM: Final = ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_PLATFORM_DIRS", "XDG_DATA_HOME")
"""Variables that say where Jupyter's runtime folder is; most clients do not hand them on to the servers they start."""
_HOW: Final = """\
Agents on this machine can now use this notebook's tools, until `%vibe mcp serve stop`, Stop below, or the end of the
kernel. What changes or runs something asks here first. In the agent's list of MCP servers, such as .mcp.json:
"""
_HOW_BY_URL: Final = """
or by address. Whoever has the token can call; it is in this output now, and worth nothing when serving ends:
"""


def exposed_tools(
    shell: InteractiveShell,
    pump: Pump,
    *,
    main_thread: MainThread,
    host: ShellHost,
    access: CellAccess,
    turn: BorrowTurn,
) -> StaticToolset:
    """The tools of a served notebook; each works in a turn of the main thread."""
    reads, call = access.reads, main_thread.call
    tools: list[Tool[Any]] = [
        ReadNotebookTool(reads),
        ReadCellTool(reads),
        ReadOutputTool(reads, sees_images=_always_sees_images),
        ListVariablesTool(host.namespace, call),
        InspectVariableTool(host.namespace, call),
        EditCellTool(access, sees_images=_always_sees_images),
        InsertCellTool(access, sees_images=_always_sees_images),
        DeleteCellsTool(access),
        MoveCellsTool(access),
        RunCellTool(access, sees_images=_always_sees_images),
        RunCodeTool(main_thread, CodeRunner(shell, pump), sees_images=_always_sees_images),
    ]
    return StaticToolset([run_in_turns(tool, turn) for tool in tools])


def exposed_specs() -> list[ToolSpec]:
    """What such a notebook offers, told without one."""
    return [tool_spec(cast("Tool[Any]", one)) for one in _CLASSES]


def _always_sees_images() -> bool:
    """An agent outside is sent images; whether it can see them is its own business."""
    return True


class MainThreadTool:
    """A tool whose work is done in a turn; what it says of a call needs none."""

    def __init__(self, tool: Tool[Any], turn: BorrowTurn) -> None:
        self._tool = tool
        self._turn = turn

    @property
    def name(self) -> str:
        return self._tool.name

    @property
    def description(self) -> str:
        return self._tool.description

    @property
    def level(self) -> Level:
        return self._tool.level

    @property
    def arguments(self) -> type[Any]:
        return self._tool.arguments

    def headline(self, args: Any) -> Headline:
        return self._tool.headline(args)

    def preview(self, args: Any) -> Preview:
        return self._tool.preview(args)

    def touches(self, args: Any) -> Sequence[Resource]:
        return self._tool.touches(args)

    async def run(self, args: Any, context: ToolContext) -> ToolResult:
        try:
            async with self._turn():
                return await self._tool.run(args, context)
        except NotebookError as error:
            raise ToolError(str(error)) from error


class PrecheckedMainThreadTool(MainThreadTool):
    """The same of a tool that looks beforehand."""

    async def precheck(self, args: Any) -> None:
        assert isinstance(self._tool, PrecheckedTool)
        try:
            async with self._turn():
                await self._tool.precheck(args)
        except NotebookError as error:
            raise ToolError(str(error)) from error


def run_in_turns(tool: Tool[Any], turn: BorrowTurn) -> Tool[Any]:
    """The tool, working in turns."""
    return PrecheckedMainThreadTool(tool, turn) if isinstance(tool, PrecheckedTool) else MainThreadTool(tool, turn)


class NotebookServing:
    """Serves at most once at a time. Main thread, but for `page_loaded`."""

    def __init__(self, kernel: ServingParts | None) -> None:
        self._kernel = kernel
        """None where there is no kernel with a page."""
        self._session: ServingSession | None = None
        self._process = os.getpid()

    def command(self, words: list[str]) -> str:
        """`%vibe mcp serve …`: what to print.

        Raises:
            ConfigError: no such form, or a wrong setting.
            NotebookError: it cannot be served here.
            JournalError: the calls cannot be recorded.
        """
        match words:
            case []:
                return self._serve_notebook()
            case ["--url"]:
                return self._serve_notebook(with_url=True)
            case ["stop"]:
                return self.stop()
            case _:
                raise ConfigError(f"There is no %vibe mcp serve {' '.join(words)}. {_USAGE}")

    def stop(self) -> str:
        """End it, if it is served."""
        session, self._session = self._session, None
        atexit.unregister(self._at_exit)
        if session is None or session.is_over:
            return _NONE
        session.end()
        return _STOPPED

    def page_loaded(self) -> None:
        """A page was loaded anew: it needs the view again. Any thread."""
        session = self._session
        if session is not None and not session.is_over:
            session.view.show_again()

    def _serve_notebook(self, *, with_url: bool = False) -> str:
        session = self._session
        if session is None or session.is_over:
            session = self._begin_session()
        else:
            session.move_here()  # a cell that is run again has lost its view, and with it the cards
        words = [] if session.view.can_ask else [_NO_CARDS, ""]
        words += [_HOW, _servers_json({"command": _program_path(), "args": ["mcp"], **_environment()})]
        if with_url:
            headers = {"Authorization": f"Bearer {session.http.token}"}
            words += [_HOW_BY_URL, _servers_json({"type": "http", "url": session.http.url, "headers": headers})]
        return "\n".join(words)

    def _begin_session(self) -> "ServingSession":
        kernel = self._kernel
        if kernel is None:
            raise NotebookError(_NO_KERNEL)
        if not kernel.host.attended:
            raise NotebookError(_NOBODY)
        settings = kernel.setup.settings()
        with without_working_folder():
            from vibe_jupyter.app.serving_session import ServingSession

            session = ServingSession(kernel, settings)
            session.begin()
        self._session = session
        atexit.register(self._at_exit)
        return session

    def _at_exit(self) -> None:
        if self._session is not None and os.getpid() == self._process:
            self._session.at_exit()


def _servers_json(server: dict[str, object]) -> str:
    return json.dumps({"mcpServers": {"vibe-jupyter": server}}, indent=2)


def _environment() -> dict[str, object]:
    """Where the program finds this notebook, if the client's own environment would not lead it there."""
    if not any(os.environ.get(name) for name in _RUNTIME_DIR_FROM):
        return {}
    return {"env": {"JUPYTER_RUNTIME_DIR": jupyter_runtime_dir()}}


def _program_path() -> str:
    """Ours beside this Python, since an external client may have another PATH."""
    program = Path(sys.executable).with_name("vibe-jupyter")
    return str(program) if program.exists() else "vibe-jupyter"
