"""The notebook that owns this kernel: which one it is, found again for each run.

The end of a run takes the place of its live view in the page that shows it. A notebook that was closed meanwhile, or
whose cell was moved or brought back by undo, still holds the view, which nothing stands behind any more.
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

VS_CODE: Final = "__vsc_ipynb_file__"
"""Variable in which VS Code tells the path."""
SERVER: Final = "JPY_SESSION_NAME"
"""Environment variable in which a Jupyter server tells the path; stale after a rename."""
_NONE: Final = (
    "This kernel's notebook was not found: no page with the vibe-jupyter extension answers, and nothing names a file. "
    "`vibe-jupyter doctor` says what is missing. Use run_code, or read the notebook's file."
)

MAX_RUNS: Final = 8
"""Runs whose end is known; each is bounded by what a notebook keeps of a run."""

GLANCE: Final = 0.3
"""Seconds in which a page that never answered tells its cells to the report before a prompt."""
GLANCE_KNOWN: Final = 1.5
"""The same for a page that answered before."""
GLANCE_FILE: Final = 2_000_000
"""Bytes of a file read for the same."""


class OpenNotebook:
    """The notebook of the current run. On the engine's loop, but for `begin` and `end`."""

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
        """A run begins in the cell that runs now. Main thread."""
        self._bridge.begin()
        self._notebook = None

    def end(self) -> None:
        """The run is over, and with it soon its cell. Main thread."""
        self._in_place.end()

    @property
    def prompt_cell(self) -> str | None:
        """Id of the cell the run is in; None where the front end sends none."""
        return self._bridge.prompt_cell

    def syntax_fault(self, source: str) -> str:
        """What is wrong with the syntax of code for this kernel; empty where nothing is, or nobody can tell."""
        return syntax_fault(source, self._shell)

    def waits(self, cell: Cell) -> bool:
        """Whether the user started this cell, which then runs when the run is over and not before."""
        return self._in_place.waits(cell.id, shown_running=cell.state == "running")

    async def now(self) -> Notebook:
        """The notebook, looked for once in a run; once more when a page opens it.

        Raises:
            NotebookError: there is none; says why.
        """
        found = self._notebook
        if found is None or (isinstance(found, FileNotebook) and await self._bridge.panel() is not None):
            found = self._notebook = await self._find_notebook()
        return found

    async def wait_for_edit(self) -> None:
        """Return when the page says that cells were changed, which it does while a card waits."""
        await self._bridge.wait_for_edit()

    async def glance(self) -> Listing | None:
        """The cells, if a page tells them at once or a small file has them; else None."""
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
        """Whether this is the file of the notebook that its page calls `shown`."""
        if path.name != PurePath(shown).name:
            return False
        named = self._notebook_path()
        if named is not None and named.name == path.name:
            return path == named
        with contextlib.suppress(OSError):  # the working folder is gone
            # After a rename nothing names the file; a kernel runs in the folder of its notebook.
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
    """The file of this kernel's notebook, where something names one that exists; else None."""
    for named in (namespace.get(VS_CODE), environ.get(SERVER)):
        if isinstance(named, str) and named.endswith(".ipynb") and Path(named).is_file():
            return Path(named)
    return None


@dataclass(frozen=True)
class FinishedRun:
    """One run that is over."""

    cell: str
    """Id of its prompt's cell."""
    view: str
    """Id of the model of its live view."""
    number: int | None
    """Execution count of that cell; None where it has none."""
    left: MimeBundle
    metadata: Mapping[str, JsonValue]
    """Of the output."""
    more: tuple[str, ...] = ()
    """Ids of outputs below that went with the view; all that they held is in what is left."""


class FinishedRuns:
    """The ends of the last runs of this kernel. Asks on the engine's loop."""

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
        """The run in a cell is over, by default in the present one. Main thread."""
        cell = cell or self._bridge.prompt_cell
        if cell is not None:
            self._runs.append(FinishedRun(cell, view, number, left, metadata or {}, more))

    async def deliver_last(self) -> None:
        """Make sure that the page has the end of the run that has just ended; only where the run knew a page."""
        if self._runs and self._bridge.known_panel is not None:
            await self._deliver_run(self._runs[-1])
            await self._deliver_to_others(self._runs[-1])

    async def deliver(self) -> None:
        """Give a page that was just loaded the ends it missed."""
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
            return  # no page, no such cell any more, or an extension that does not know the request

    async def _deliver_to_others(self, run: FinishedRun) -> None:
        """Give the end of a run to further tabs, which hear no output of a cell that they did not run."""
        for address, answer in await self._bridge.ask_all("keep", cell=run.cell, model_id=run.view, number=run.number):
            if answer.get("stands"):
                data, metadata = {**run.left}, {**run.metadata}
                view = {"cell": run.cell, "model_id": run.view}
                await self._bridge.ask_all("keep", address, **view, data=data, metadata=metadata)
                for one in run.more:
                    nothing: dict[str, JsonValue] = {"text/html": "", "text/plain": ""}
                    await self._bridge.ask_all("keep", address, cell=run.cell, model_id=one, data=nothing)

    async def put_view(self, view: str, marked: MimeBundle, *, cell: str) -> None:
        """Make sure that the page shows a live view in a cell that is at rest, below what it shows.

        Args:
            view: id of its model.
            marked: an output that the page draws it over.
            cell: id of the cell.
        """
        data: dict[str, JsonValue] = {**marked}
        with contextlib.suppress(NotebookError):
            answer = await self._bridge.request("keep", cell=cell, model_id=view)
            if not answer.get("stands"):
                await self._bridge.request("keep", cell=cell, model_id=view, data=data, adds=True)
