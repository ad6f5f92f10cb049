"""Notebook accessed through the bridge to its page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from pydantic import JsonValue, ValidationError

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.files.images import MAX_SIDE
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.nested_cells import Expected, NestedCells
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.notebook.bridge import UNSENT, Bridge, BridgeError, OnAnswer
from vibe_jupyter.notebook.bridge_messages import CellListing, ListedCell, Method
from vibe_jupyter.notebook.chart_pictures import PNG_LIMIT
from vibe_jupyter.notebook.document import CellRun, EditDone, EditUnsure, Listing, StaleCell
from vibe_jupyter.protocol import (
    Cell,
    CellEdit,
    DeleteCells,
    InsertCell,
    MoveCells,
    OutputBrief,
    SetSource,
)
from vibe_jupyter.protocol.cells import BRIEF_TEXT
from vibe_jupyter.tools.contract import OnAsking, unheard

_IN_THE_WAY: Final = (
    "Wait until it has finished, or ask the user. A dialogue or a text box that is open in the notebook also keeps "
    "cells from running."
)
_GONE: Final = "It was there when you read it; nothing was done. read_notebook lists what is there now."


_UNSURE: Final = "The edit may have been made, or be made yet: read the notebook before you go on."


class LiveNotebook:
    """Notebook whose cells are read, edited and run where the user sees them."""

    def __init__(self, bridge: Bridge, main_thread: MainThread, in_place: NestedCells, *, note: str = "") -> None:
        self._bridge = bridge
        self._main_thread = main_thread
        self._in_place = in_place
        self._note = note

    async def cells(self) -> Listing:
        answer = await self._read_method("cells")
        try:
            listing = CellListing.model_validate(answer)
        except ValidationError as error:
            raise NotebookError(
                "The notebook extension answered in a form this version does not know. "
                "Run `vibe-jupyter doctor` to see which side to upgrade."
            ) from error
        cells = tuple(_as_cell(number, cell) for number, cell in enumerate(listing.cells, start=1))
        return Listing(listing.path, cells, self._note)

    async def outputs(self, cell: str, *, index: int | None, limit: int) -> Sequence[Output]:
        more: dict[str, JsonValue] = {} if index is None else {"index": index}
        answer = await self._read_method("outputs", cell=cell, limit=limit, **more)
        found = answer.get("outputs")
        return cast("list[Output]", [one for one in found if isinstance(one, dict)]) if isinstance(found, list) else []

    async def picture(self, cell: str, index: int, *, count: int) -> str | None:
        answer = await self._ask_page(
            "picture", on_answer=None, cell=cell, index=index, count=count, side=MAX_SIDE, limit=PNG_LIMIT
        )
        image = answer.get("image")
        return image if isinstance(image, str) else None

    async def edit(self, edits: Sequence[CellEdit]) -> EditDone:
        try:
            answer = await self._ask_page("edit", edits=[edit.model_dump() for edit in edits])
        except BridgeError as error:
            if error.code not in ("closed", "not_finished") or UNSENT in error.data:
                raise
            # The response is missing, but the edit may have been made: check the document.
            try:
                sources = {cell.id: cell.source for cell in (await self.cells()).cells}
            except BridgeError as silent:
                raise EditUnsure(f"{silent} {_UNSURE}") from silent
            order = list(sources)
        else:
            sources, order = _read_back(answer)
        done = all(_is_in_place(edit, sources, order) for edit in edits)
        return EditDone("done" if done else "queued", sources, may_come=not done)

    async def run(
        self,
        cell: Cell,
        *,
        seconds: float | None,
        on_output: Callable[[str], None],
        on_asking: OnAsking = unheard,
    ) -> CellRun:
        expected = self._in_place.expect(cell.id, cell.source)
        try:
            refused = await self._announce_run(cell, expected)
            result = await self._main_thread.call(
                lambda: self._in_place.run(expected, timeout=seconds, announced=refused is None, on_asking=on_asking)
            )
        except NotebookError:
            await self._main_thread.call(lambda: self._in_place.drop(expected))
            raise
        if result is not None:
            return CellRun(result, in_place=True)
        if refused is not None:
            await self._main_thread.call(lambda: self._in_place.drop(expected))
            raise NotebookError(f"The cell did not start: {refused} {_IN_THE_WAY}") from refused
        here = await self._main_thread.call(
            lambda: self._in_place.run_here(cell.source, timeout=seconds, on_output=on_output, on_asking=on_asking)
        )
        return CellRun(here, in_place=False)

    async def queue(self, cell: Cell) -> str:
        expected = self._in_place.expect(cell.id, cell.source, stays=True)
        try:
            refused = await self._announce_run(cell, expected)
            if refused is not None:
                raise NotebookError(f"The cell was not queued: {refused} {_IN_THE_WAY}") from refused
            request = await self._main_thread.call(lambda: self._in_place.wait_until_queued(expected))
        except NotebookError:
            await self._main_thread.call(lambda: self._in_place.drop(expected))
            raise
        if request is None:
            raise NotebookError(f"The cell was not queued: the page sent no request for it. {_IN_THE_WAY}")
        return request

    async def _announce_run(self, cell: Cell, expected: Expected) -> BridgeError | None:
        """Make the page send the execute request. Returns its refusal if the cell is already queued or running."""
        try:
            await self._ask_page("run", on_answer=expected.hear, cell=cell.id, code_hash=cell.hash)
        except BridgeError as error:
            if error.code != "not_finished":
                raise
            return error
        return None

    async def _read_method(self, method: Method, **args: JsonValue) -> dict[str, JsonValue]:
        """Send a request, and repeat it once if a page reload lost it."""
        try:
            return await self._ask_page(method, on_answer=None, **args)
        except BridgeError as error:
            if error.code != "closed":
                raise
        return await self._ask_page(method, on_answer=None, **args)

    async def _ask_page(
        self, method: Method, *, on_answer: OnAnswer | None = None, **args: JsonValue
    ) -> dict[str, JsonValue]:
        try:
            return await self._bridge.request(method, on_answer=on_answer, **args)
        except BridgeError as error:
            if error.code == "stale_cell":
                raise StaleCell(str(error.data.get("cell", "")), str(error.data.get("source", ""))) from error
            if advice := self._error_advice(error):
                raise BridgeError(f"{error} {advice}", code=error.code, data=error.data) from error
            raise

    def _error_advice(self, error: BridgeError) -> str:
        if error.code == "unknown_cell":
            return _GONE
        return self._note if error.code == "bad_request" else ""


def _read_back(answer: Mapping[str, JsonValue]) -> tuple[dict[str, str], list[str]]:
    """Return the sources of the cells that were written, and the ids of all cells."""
    cells, order = answer.get("cells"), answer.get("order")
    found = [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []
    ids = [str(one) for one in order] if isinstance(order, list) else []
    return {str(cell.get("id")): str(cell.get("source")) for cell in found}, ids


def _is_in_place(edit: CellEdit, sources: Mapping[str, str], order: Sequence[str]) -> bool:
    match edit:
        case SetSource():
            return sources.get(edit.cell) == edit.source
        case InsertCell():
            return sources.get(edit.id) == edit.source
        case DeleteCells():
            return not any(cell.id in order for cell in edit.cells)
        case MoveCells():
            wanted = [*filter(None, [edit.after]), *edit.cells]
            return [one for one in order if one in wanted] == wanted


def _as_cell(number: int, cell: ListedCell) -> Cell:
    return Cell(
        id=cell.id,
        number=number,
        kind=cell.kind,
        source=cell.source,
        execution_count=cell.execution_count,
        state=cell.state(),
        may_raise=cell.may_raise,
        tags=cell.tags,
        outputs=tuple(
            OutputBrief(type=one.type, mimes=one.mimes, size=one.size, text=one.text[:BRIEF_TEXT])
            for one in cell.outputs
        ),
        vibe=cell.vibe,
    )
