"""The notebook that this kernel belongs to, determined again for each run.

When a run ends, its static output replaces the live view in the page that shows it. A notebook that was closed in the
meantime, or whose cell was moved or restored by undo, still contains the view, which no longer has a kernel side.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.nested_cells import NestedCells
from vibe_jupyter.notebook.bridge import Bridge
from vibe_jupyter.notebook.code_syntax import syntax_fault
from vibe_jupyter.notebook.document import Listing, Notebook
from vibe_jupyter.notebook.file_notebook import FileNotebook
from vibe_jupyter.notebook.live import LiveNotebook
from vibe_jupyter.protocol import Cell, MimeBundle

VS_CODE: Final = "__vsc_ipynb_file__"  # variable in which VS Code stores the path
# Environment variable in which Jupyter Server passes the path; outdated after a rename.
SERVER: Final = "JPY_SESSION_NAME"
_NONE: Final = (
    "This kernel's notebook was not found: no page with the vibe-jupyter extension answers, and nothing names a file. "
    "`vibe-jupyter doctor` says what is missing. Use run_code, or read the notebook's file."
)

MAX_RUNS: Final = 8  # finished runs to remember; the size of each is limited by the static form

GLANCE: Final = 0.3  # seconds for a page that never responded to list its cells for the report before a prompt
GLANCE_KNOWN: Final = 1.5  # the same for a page that responded before
GLANCE_FILE: Final = 2_000_000  # bytes; larger files aren't read for that report


class OpenNotebook:
    """The notebook of the current run. On the engine's loop, except `begin` and `end`."""

    def __init__(
        self,
        shell: object,
        *,
        bridge: Bridge,
        main_thread: MainThread,
        in_place: NestedCells,
        version: str,
    ) -> None:
        self._shell = shell
        self._bridge = bridge
        self._main_thread = main_thread
        self._in_place = in_place
        self._version = version
        self._notebook: Notebook | None = None

    def begin(self) -> None:
        """Start a run in the running cell. Main thread."""
        self._bridge.begin()
        self._notebook = None

    def end(self) -> None:
        """End the run before its cell ends. Main thread."""
        self._in_place.end()

    @property
    def prompt_cell(self) -> str | None:
        """Id of the cell the run is in, or None if the front end doesn't send it."""
        return self._bridge.prompt_cell

    def syntax_fault(self, source: str) -> str:
        """Return the syntax error of code for this kernel, or "" if there is none or it can't be determined."""
        return syntax_fault(source, self._shell)

    def waits(self, cell: Cell) -> bool:
        """Return whether the user queued this cell, which then runs after this run."""
        return self._in_place.waits(cell.id, shown_running=cell.state == "running")

    async def now(self) -> Notebook:
        """Return the notebook, looked up once per run and again when a page opens it.

        Raises:
            NotebookError: There is none; the message says why.
        """
        found = self._notebook
        if found is None or (isinstance(found, FileNotebook) and await self._bridge.panel() is not None):
            found = self._notebook = await self._find_notebook()
        return found

    async def wait_for_edit(self) -> None:
        """Wait until the page reports that cells were changed, which it does while a card is open."""
        await self._bridge.wait_for_edit()

    async def glance(self) -> Listing | None:
        """List the cells if a page responds quickly or the file is small, else return None."""
        if self._bridge.may_have_page:
            with contextlib.suppress(TimeoutError, NotebookError):
                async with asyncio.timeout(GLANCE_KNOWN if self._bridge.has_answered else GLANCE):
                    return await (await self.now()).cells()
        path = self._notebook_path()
        with contextlib.suppress(OSError, NotebookError):
            if path is not None and path.stat().st_size <= GLANCE_FILE:
                return await self._on_disk(path).cells()
        return None

    def is_file(self, path: Path, shown: str) -> bool:
        """Return whether this is the file of the notebook that its page calls `shown`."""
        if path.name != PurePath(shown).name:
            return False
        named = self._notebook_path()
        if named is not None and named.name == path.name:
            return path == named
        with contextlib.suppress(OSError):  # the working directory was deleted
            # After a rename nothing names the file, but a kernel runs in its notebook's directory.
            return path.parent == Path.cwd()
        return True

    def _notebook_path(self) -> Path | None:
        return notebook_file(getattr(self._shell, "user_ns", {}), os.environ)

    async def _find_notebook(self) -> Notebook:
        panel = await self._bridge.panel()
        if panel is not None:
            note = panel.version_advice(self._version)
            return LiveNotebook(self._bridge, self._main_thread, self._in_place, note=note)
        path = self._notebook_path()
        if path is None:
            raise NotebookError(_NONE)
        return self._on_disk(path)

    def _on_disk(self, path: Path) -> FileNotebook:
        return FileNotebook(
            path,
            shell=self._shell,
            main_thread=self._main_thread,
            in_place=self._in_place,
            prompt_cell=self._bridge.prompt_cell,
        )


def notebook_file(namespace: Mapping[str, object], environ: Mapping[str, str]) -> Path | None:
    """Return the existing file named by VS Code or the server as this kernel's notebook, or None."""
    for named in (namespace.get(VS_CODE), environ.get(SERVER)):
        if isinstance(named, str) and named.endswith(".ipynb") and Path(named).is_file():
            return Path(named)
    return None


@dataclass(frozen=True)
class FinishedRun:
    cell: str  # id of the prompt's cell
    view: str  # model id of its live view
    number: int | None  # execution count of the cell, if any
    left: MimeBundle
    metadata: Mapping[str, JsonValue]  # of the output
    more: tuple[str, ...] = ()  # ids of further outputs to clear, whose content is part of `left`


class FinishedRuns:
    """Static outputs of this kernel's latest runs, for pages that missed them.

    Requests are made on the engine's loop.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._runs: deque[FinishedRun] = deque(maxlen=MAX_RUNS)

    def add(
        self,
        view: str,
        left: MimeBundle,
        *,
        number: int | None,
        metadata: Mapping[str, JsonValue] | None = None,
        cell: str | None = None,
        more: tuple[str, ...] = (),
    ) -> None:
        """Record the end of the run in a cell, by default the current prompt's. Main thread."""
        cell = cell or self._bridge.prompt_cell
        if cell is not None:
            self._runs.append(FinishedRun(cell, view, number, left, metadata or {}, more))

    async def deliver_last(self) -> None:
        """Make sure that the page has the output of the run that just ended, if a page responded during it."""
        if self._runs and self._bridge.known_panel is not None:
            await self._deliver_run(self._runs[-1])
            await self._deliver_to_others(self._runs[-1])

    async def deliver(self) -> None:
        """Send the outputs it missed to a page that was just loaded."""
        for run in tuple(self._runs):
            await self._deliver_run(run)

    async def _deliver_run(self, run: FinishedRun) -> None:
        try:
            answer = await self._bridge.request("keep", cell=run.cell, model_id=run.view, number=run.number)
            if answer.get("stands"):
                data, metadata = {**run.left}, {**run.metadata}
                await self._bridge.request("keep", cell=run.cell, model_id=run.view, data=data, metadata=metadata)
                for one in run.more:
                    nothing: dict[str, JsonValue] = {"text/html": "", "text/plain": ""}
                    await self._bridge.request("keep", cell=run.cell, model_id=one, data=nothing)
        except NotebookError:
            return  # no page, no such cell, or an extension that doesn't know the request

    async def _deliver_to_others(self, run: FinishedRun) -> None:
        """Send a run's output to other tabs, which receive no output of cells that they didn't run."""
        for address, answer in await self._bridge.ask_all("keep", cell=run.cell, model_id=run.view, number=run.number):
            if answer.get("stands"):
                data, metadata = {**run.left}, {**run.metadata}
                view = {"cell": run.cell, "model_id": run.view}
                await self._bridge.ask_all("keep", address, **view, data=data, metadata=metadata)
                for one in run.more:
                    nothing: dict[str, JsonValue] = {"text/html": "", "text/plain": ""}
                    await self._bridge.ask_all("keep", address, cell=run.cell, model_id=one, data=nothing)

    async def put_view(self, view: str, marked: MimeBundle, *, cell: str) -> None:
        """Make sure that the page shows a live view in an idle cell, below its outputs.

        Args:
            view: Model id of the view.
            marked: The output over which the page draws it.
            cell: Id of the cell.
        """
        data: dict[str, JsonValue] = {**marked}
        with contextlib.suppress(NotebookError):
            answer = await self._bridge.request("keep", cell=cell, model_id=view)
            if not answer.get("stands"):
                await self._bridge.request("keep", cell=cell, model_id=view, data=data, adds=True)
