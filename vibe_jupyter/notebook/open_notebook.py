"""The notebook that owns this kernel, found anew for each run, and what the agent knows of it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.notebook.bridge import Bridge
from vibe_jupyter.notebook.document import Listing, Notebook, StaleCell
from vibe_jupyter.notebook.file import FileNotebook
from vibe_jupyter.notebook.foreground import Foreground
from vibe_jupyter.notebook.in_place import InPlace
from vibe_jupyter.notebook.live import LiveNotebook
from vibe_jupyter.notebook.remembered import Remembered, find
from vibe_jupyter.protocol import Cell

VS_CODE: Final = "__vsc_ipynb_file__"
"""Variable in which VS Code tells the path."""
SERVER: Final = "JPY_SESSION_NAME"
"""Environment variable in which a Jupyter server tells the path; stale after a rename."""
_NONE: Final = (
    "This kernel's notebook was not found: no page with the vibe-jupyter extension answers, and nothing names a file. "
    "`vibe-jupyter doctor` says what is missing. Use run_code, or read_file with the notebook's path."
)


class OpenNotebook:
    """Where notebook tools begin. On the engine's loop, but for `begin` and `end`."""

    def __init__(
        self,
        shell: object,
        *,
        bridge: Bridge,
        foreground: Foreground,
        in_place: InPlace,
        namespace: Mapping[str, object],
        version: str,
    ) -> None:
        self._shell = shell
        self._bridge = bridge
        self._foreground = foreground
        self._in_place = in_place
        self._namespace = namespace
        self._version = version
        self._notebook: Notebook | None = None
        self._listing: Listing | None = None
        self._last_inserted: str | None = None
        self.remembered = Remembered()

    def begin(self) -> None:
        """A run begins in the cell that runs now. Main thread."""
        self._bridge.begin()
        self._notebook, self._listing, self._last_inserted = None, None, None

    def end(self) -> None:
        """The run is over, and with it soon its cell. Main thread."""
        self._in_place.end()

    async def now(self) -> Notebook:
        """The notebook, looked for once in a run.

        Raises:
            ToolError: there is none; says why.
        """
        if self._notebook is None:
            self._notebook = await self._look()
        return self._notebook

    async def listing(self, *, fresh: bool = True) -> Listing:
        """All cells; not `fresh`: as last seen in this run, if they were."""
        if fresh or self._listing is None:
            notebook = await self.now()
            try:
                self._listing = await notebook.cells()
            except NotebookError as error:
                raise ToolError(str(error)) from error
        return self._listing

    async def find(self, reference: str, *, reads: bool = False) -> Cell:
        """The cell a model means, as it stands now or as last seen in this run.

        Raises:
            ToolError: none or several; names the nearest.
        """
        try:
            return find(reference, (await self.listing(fresh=reads)).cells, reads=reads)
        except ToolError:
            if reads:
                raise
        return find(reference, (await self.listing()).cells)

    def known(self, reference: str) -> Cell | None:
        """The cell a model means, for what is shown of a call; None where that is not known yet."""
        cells = self._listing.cells if self._listing is not None else ()
        try:
            return find(reference, cells, reads=True)
        except ToolError:
            return self.remembered.get(reference)

    async def stale(self, error: StaleCell) -> ToolError:
        """What the model is told where a cell is not what an edit or a run was made for."""
        cells = (await self.listing()).cells
        cell = next((cell for cell in cells if cell.id == error.cell), None)
        return self.remembered.changed(cell) if cell is not None else ToolError(str(error))

    async def behind_prompt(self) -> str | None:
        """Where a new cell goes that shall stand below the prompt: behind those this run put there already."""
        order = [cell.id for cell in (await self.listing(fresh=False)).cells]
        place = self._last_inserted if self._last_inserted in order else self._bridge.prompt_cell
        return place if place in order else None

    def inserted(self, cell_id: str, *, behind_prompt: bool) -> None:
        """A cell was put in."""
        self._listing = None
        if behind_prompt:
            self._last_inserted = cell_id

    def changed(self) -> None:
        """What was last seen of the cells holds no longer."""
        self._listing = None

    @property
    def prompt_cell(self) -> str | None:
        """Id of the cell the run is in; None where the front end sends none."""
        return self._bridge.prompt_cell

    async def _look(self) -> Notebook:
        panel = await self._bridge.panel()
        if panel is not None:
            note = panel.version_advice(self._version)
            return LiveNotebook(self._bridge, self._foreground, self._in_place, note=note)
        path = notebook_file(self._namespace, os.environ)
        if path is None:
            raise ToolError(_NONE)
        return FileNotebook(
            path,
            shell=self._shell,
            foreground=self._foreground,
            in_place=self._in_place,
            prompt_cell=self._bridge.prompt_cell,
        )


def notebook_file(namespace: Mapping[str, object], environ: Mapping[str, str]) -> Path | None:
    """The file of this kernel's notebook, where something names one that exists; else None."""
    for named in (namespace.get(VS_CODE), environ.get(SERVER)):
        if isinstance(named, str) and named.endswith(".ipynb") and Path(named).is_file():
            return Path(named)
    return None
