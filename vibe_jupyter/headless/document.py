"""The open notebook of the headless front end: what the bridge reads and changes, and where outputs go."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

import nbformat
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vibe_jupyter.headless.file import Notebook, without_halves
from vibe_jupyter.notebook.bridge_messages import HEADLESS, RefusalCode
from vibe_jupyter.notebook.document import (
    bound_output,
    brief_output,
    cell_mark,
    cell_tags,
    conversation_in,
    may_raise,
)
from vibe_jupyter.protocol.cells import (
    METADATA_KEY,
    ORIGIN_KEY,
    CellEdit,
    CellMark,
    DeleteCells,
    InsertCell,
    MoveCells,
    SetSource,
    source_hash,
)
from vibe_jupyter.version import __version__

Cell = dict[str, Any]
_CELL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""nbformat's rule."""
_MAKE: Final[dict[str, Callable[..., Any]]] = {
    "code": nbformat.v4.new_code_cell,  # pyright: ignore[reportUnknownMemberType]
    "markdown": nbformat.v4.new_markdown_cell,  # pyright: ignore[reportUnknownMemberType]
    "raw": nbformat.v4.new_raw_cell,  # pyright: ignore[reportUnknownMemberType]
}

Message = dict[str, Any]
Output = dict[str, Any]
_OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error"})

PANEL: Final = "headless"
"""There is one notebook and one view of it."""
Result = dict[str, Any]


class HeadlessDocument:
    """Cells by their ids. Edits happen whole or not at all."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self.dirty = False
        """Whether anything was changed since it was read."""
        self.running: set[str] = set()
        """Ids of the cells that run or wait for their turn."""
        self._held: dict[str, list[Output]] = {}
        """What cells lost when they were run."""
        self._executed = {cell["id"]: cell["source"] for cell in self.cells if cell.get("execution_count")}

    @property
    def cells(self) -> list[Cell]:
        """In their order."""
        return self._notebook["cells"]

    @property
    def order(self) -> list[str]:
        """Their ids."""
        return [cell["id"] for cell in self.cells]

    @property
    def conversation(self) -> str:
        """Id of the conversation that the metadata names; empty for none."""
        return conversation_in(self._notebook.get("metadata"))

    def remember(self, conversation: str) -> None:
        """Have the metadata name a conversation."""
        self._notebook.setdefault("metadata", {})[METADATA_KEY] = {"conversation": conversation}
        self.dirty = True

    def cell(self, cell_id: str) -> Cell:
        """The cell of this id."""
        for cell in self.cells:
            if cell["id"] == cell_id:
                return cell
        raise unknown_cell(cell_id)

    def expect(self, cell_id: str, expected: str) -> Cell:
        """The cell of this id, if its source is the one with this hash."""
        cell = self.cell(cell_id)
        _same_source(cell_id, cell["source"], expected)
        return cell

    def begin_run(self, cell_id: str) -> None:
        """As a front end does when it sends a cell."""
        cell = self.cell(cell_id)
        self._held[cell_id] = cell.get("outputs", [])
        cell["outputs"], cell["execution_count"] = [], None
        self._executed[cell_id] = cell["source"]
        self.running.add(cell_id)
        self.dirty = True

    def held(self, cell_id: str) -> list[Output]:
        """The outputs that the cell had before its last run; none of a cell that has not run."""
        self.cell(cell_id)
        return self._held.get(cell_id, [])

    def edited_since_run(self, cell: Cell) -> bool:
        """Whether its outputs are those of another source."""
        return cell.get("execution_count") is not None and self._executed.get(cell["id"]) != cell["source"]

    def append(self, kind: str, source: str) -> str:
        """A new cell at the end; returns its id."""
        cell = _MAKE[kind](source)
        self.cells.append(cell)
        self.dirty = True
        return cell["id"]

    def edit(self, edits: Sequence[CellEdit]) -> None:
        """Do all of them, or raise and do none."""
        self._rehearse_edits(edits)
        for edit in edits:
            self._apply_edit(edit)
        self.dirty = True

    def _apply_edit(self, edit: CellEdit) -> None:
        match edit:
            case SetSource():
                cell = self.cell(edit.cell)
                cell["source"] = edit.source
                _set_mark(cell, edit.vibe)
            case InsertCell():
                cell = _MAKE[edit.kind](edit.source, id=edit.id)
                _set_mark(cell, edit.vibe)
                self.cells.insert(self._position_after(edit.after), cell)
            case DeleteCells():
                gone = {one.id for one in edit.cells}
                self.cells[:] = [cell for cell in self.cells if cell["id"] not in gone]
            case MoveCells():
                moved = [self.cell(cell_id) for cell_id in edit.cells]
                self.cells[:] = [cell for cell in self.cells if cell["id"] not in edit.cells]
                place = self._position_after(edit.after)
                self.cells[place:place] = moved

    def _position_after(self, cell_id: str | None) -> int:
        return 0 if cell_id is None else self.order.index(cell_id) + 1

    def _rehearse_edits(self, edits: Sequence[CellEdit]) -> None:
        """Try them on paper."""
        sources = {cell["id"]: str(cell["source"]) for cell in self.cells}
        for edit in edits:
            match edit:
                case SetSource():
                    _check_unchanged(sources, edit.cell, edit.expected)
                    self._check_allowed(edit.cell, "editable")
                    sources[edit.cell] = edit.source
                case InsertCell():
                    _check_known(sources, edit.after)
                    if edit.id in sources or not _CELL_ID.fullmatch(edit.id):
                        raise BridgeRefusal(
                            "bad_request", f"The id {edit.id} cannot be given to a new cell.", cell=edit.id
                        )
                    sources[edit.id] = edit.source
                case DeleteCells():
                    for one in edit.cells:
                        _check_unchanged(sources, one.id, one.expected)
                        self._check_allowed(one.id, "deletable")
                        self._at_rest(one.id)
                        del sources[one.id]
                case MoveCells():
                    self._check_movable(sources, edit)

    def _check_movable(self, sources: Mapping[str, str], edit: MoveCells) -> None:
        _check_known(sources, edit.after)
        for cell_id in edit.cells:
            _check_known(sources, cell_id)
            self._at_rest(cell_id)
        if len(set(edit.cells)) < len(edit.cells) or edit.after in edit.cells:
            raise BridgeRefusal("bad_request", "A cell can be moved once, and not behind itself.")

    def _check_allowed(self, cell_id: str, right: str) -> None:
        for cell in self.cells:
            if cell["id"] == cell_id and cell["metadata"].get(right) is False:
                raise BridgeRefusal("read_only", f"The cell {cell_id} is marked as not {right}.", cell=cell_id)

    def _at_rest(self, cell_id: str) -> None:
        if cell_id in self.running:
            raise BridgeRefusal("not_finished", f"The cell {cell_id} is running.", cell=cell_id)


def _set_mark(cell: Cell, mark: CellMark | None) -> None:
    if mark is None:
        cell["metadata"].pop(ORIGIN_KEY, None)
    else:
        cell["metadata"][ORIGIN_KEY] = mark


def _check_known(sources: Mapping[str, str], cell_id: str | None) -> None:
    if cell_id is not None and cell_id not in sources:
        raise unknown_cell(cell_id)


def _check_unchanged(sources: Mapping[str, str], cell_id: str, expected: str) -> None:
    _check_known(sources, cell_id)
    _same_source(cell_id, sources[cell_id], expected)


def _same_source(cell_id: str, source: str, expected: str) -> None:
    if source_hash(without_halves(source)) != expected:  # the kernel saw it so
        raise BridgeRefusal("stale_cell", f"The cell {cell_id} has changed.", cell=cell_id, source=source)


class DocumentOutputs:
    """Writes outputs into the cells of a document. A cell that was removed meanwhile has none."""

    def __init__(self, document: HeadlessDocument) -> None:
        self._document = document
        self._displays: dict[str, list[Output]] = {}
        """Outputs by display id, in whatever cell they are."""
        self._clear_next: set[str] = set()
        """Cells whose outputs go when the next one comes."""

    def take(self, cell_id: str, message: Message) -> None:
        """Take one message of iopub whose parent is the request of this cell."""
        kind, content = message["msg_type"], message["content"]
        if kind == "update_display_data":
            self._update_displays(content)
        cell = next((cell for cell in self._document.cells if cell["id"] == cell_id), None)
        if cell is None:
            return
        if kind == "execute_input":
            cell["execution_count"] = content["execution_count"]
        elif kind == "clear_output":
            self._clear_outputs(cell, wait=content.get("wait", False))
        elif kind in _OUTPUTS:
            if cell_id in self._clear_next:
                self._clear_outputs(cell, wait=False)
            self._add_output(cell["outputs"], message)

    def number(self, cell_id: str, count: int | None) -> None:
        """The count in the reply: a cell in which others ran gets a number after theirs. None where it did not run."""
        for cell in self._document.cells:
            if cell["id"] == cell_id and count is not None:
                cell["execution_count"] = count

    def _add_output(self, outputs: list[Output], message: Message) -> None:
        made: Any = nbformat.v4.output_from_msg(message)  # pyright: ignore[reportUnknownMemberType]
        output = cast(Output, made)
        last = outputs[-1] if outputs else None
        if last is not None and output["output_type"] == "stream" and last.get("name") == output["name"]:
            last["text"] += output["text"]
            return
        outputs.append(output)
        if display := message["content"].get("transient", {}).get("display_id"):
            self._displays.setdefault(display, []).append(output)

    def _update_displays(self, content: dict[str, Any]) -> None:
        for output in self._displays.get(content.get("transient", {}).get("display_id", ""), []):
            output["data"], output["metadata"] = content["data"], content["metadata"]

    def _clear_outputs(self, cell: dict[str, Any], *, wait: bool) -> None:
        if wait:
            self._clear_next.add(cell["id"])
            return
        self._clear_next.discard(cell["id"])
        cell["outputs"] = []


class BridgeRefusal(Exception):
    """Sent as the answer; the kernel turns it into words for the model."""

    def __init__(self, code: RefusalCode, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code: RefusalCode = code
        self.data = data


def unknown_cell(cell: str) -> BridgeRefusal:
    """No cell has this id."""
    return BridgeRefusal("unknown_cell", f"There is no cell {cell} in this notebook.", cell=cell)


class CellRunner(Protocol):
    """What the methods need of the kernel's other end."""

    @property
    def client(self) -> str:
        """Names this connection."""
        ...

    @property
    def path(self) -> str:
        """Of the notebook, as JupyterLab would name it."""
        ...

    def send(self, cell: str, *, asked_by: str | None = None) -> str:
        """Send the cell to the kernel, and tell the one who asked when it is done; the id of the request."""
        ...

    def interrupt(self) -> None:
        """As ■ does."""
        ...


class _Args(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Outputs(_Args):
    cell: str
    index: int | None = Field(default=None, ge=0)
    limit: int = Field(ge=0)


class _Edit(_Args):
    edits: list[CellEdit]


class _Remember(_Args):
    conversation: str


class _Run(_Args):
    cell: str
    code_hash: str


class BridgeMethods:
    """Answers one request after another."""

    def __init__(self, document: HeadlessDocument, runner: CellRunner) -> None:
        self._document = document
        self._runner = runner
        self._methods: dict[str, Callable[[Any, dict[str, Any]], Result]] = {
            "hello": self._answer_hello,
            "cells": self._answer_cells,
            "outputs": self._answer_outputs,
            "picture": self._answer_picture,
            "edit": self._answer_edit,
            "run": self._answer_run,
            "interrupt": self._answer_interrupt,
            "show": self._answer_show,
            "find": self._find,
            "keep": self._answer_keep,
            "held": self._answer_held,
            "remember": self._answer_remember,
        }

    def answer(self, content: dict[str, Any], parent: dict[str, Any]) -> Result | None:
        """The content of the reply; None for a request that is meant for another front end."""
        here = {"client": self._runner.client, "panel": PANEL}
        if content.get("to") not in (None, here):
            return None
        reply = {"id": content.get("id"), **here}
        try:
            method = self._methods.get(str(content.get("method")))
            if method is None:
                raise BridgeRefusal("bad_request", f"This front end knows no request {content.get('method')}.")
            asked_by = {"id": content.get("id"), "session": parent.get("session")}
            return {**reply, "ok": True, "result": method(content.get("args") or {}, asked_by)}
        except ValidationError as error:
            refusal = BridgeRefusal("bad_request", str(error.errors(include_url=False, include_input=False)[0]["msg"]))
        except BridgeRefusal as error:
            refusal = error
        return {**reply, "ok": False, "error": {"code": refusal.code, "message": str(refusal), "data": refusal.data}}

    def _answer_hello(self, _args: object, asked_by: dict[str, Any]) -> Result:
        return {
            "version": __version__,
            "client": self._runner.client,
            "panel": PANEL,
            "path": self._runner.path,
            "visible": True,
            "ran": asked_by["session"] == self._runner.client,
            "front_end": HEADLESS,
            "conversation": self._document.conversation,
        }

    def _answer_cells(self, _args: object, _asked_by: object) -> Result:
        document = self._document
        cells = [
            {
                "id": cell["id"],
                "kind": cell["cell_type"],
                "source": cell["source"],
                "execution_count": cell.get("execution_count"),
                "running": cell["id"] in document.running,
                "edited_since_run": document.edited_since_run(cell),
                "may_raise": may_raise(cell),
                "tags": list(cell_tags(cell)),
                "outputs": [brief_output(output) for output in cell.get("outputs", [])],
                "vibe": cell_mark(cell),
            }
            for cell in document.cells
        ]
        return {"path": self._runner.path, "dirty": document.dirty, "cells": cells}

    def _answer_outputs(self, args: object, _asked_by: object) -> Result:
        asked = _Outputs.model_validate(args)
        outputs: list[Any] = self._document.cell(asked.cell).get("outputs", [])
        wanted = outputs if asked.index is None else outputs[asked.index : asked.index + 1]
        if asked.index is not None and not wanted:
            raise BridgeRefusal("bad_request", f"This cell has {len(outputs)} outputs, and none at {asked.index}.")
        return {"outputs": [bound_output(output, asked.limit) for output in wanted]}

    def _answer_picture(self, args: dict[str, Any], _asked_by: object) -> Result:
        """Nothing is drawn here."""
        cell = self._document.cell(str(args.get("cell")))
        index, count = args.get("index"), args.get("count")
        is_output = isinstance(index, int) and isinstance(count, int) and 0 <= index < count
        if cell["cell_type"] != "code" or not is_output:
            raise BridgeRefusal("bad_request", f"The cell {cell['id']} has no such output.", cell=cell["id"])
        return {"image": None}

    def _answer_edit(self, args: object, _asked_by: object) -> Result:
        edits = _Edit.model_validate(args).edits
        self._document.edit(edits)
        written = {edit.cell for edit in edits if isinstance(edit, SetSource)}
        written |= {edit.id for edit in edits if isinstance(edit, InsertCell)}
        cells = [{"id": cell["id"], "source": cell["source"]} for cell in self._document.cells if cell["id"] in written]
        return {"cells": cells, "order": self._document.order}

    def _answer_run(self, args: object, asked_by: dict[str, Any]) -> Result:
        asked = _Run.model_validate(args)
        cell = self._document.expect(asked.cell, asked.code_hash)
        if cell["cell_type"] != "code" or not cell["source"].strip():
            raise BridgeRefusal("bad_request", f"The cell {asked.cell} holds no code.", cell=asked.cell)
        if asked.cell in self._document.running:
            raise BridgeRefusal("not_finished", f"The cell {asked.cell} is queued or running already.", cell=asked.cell)
        return {"started": True, "request": self._runner.send(asked.cell, asked_by=asked_by["id"])}

    def _answer_interrupt(self, _args: object, _asked_by: object) -> Result:
        self._runner.interrupt()
        return {}

    def _answer_show(self, args: dict[str, Any], _asked_by: object) -> Result:
        """No page was reloaded, so nothing was lost."""
        cell = self._document.cell(str(args.get("cell")))
        if cell["cell_type"] != "code":
            raise BridgeRefusal("bad_request", f"The cell {cell['id']} holds no code.", cell=cell["id"])
        return {}

    def _find(self, _args: dict[str, Any], _asked_by: object) -> Result:
        """Each request says its cell, and no view is drawn."""
        return {"cell": None}

    def _answer_keep(self, args: dict[str, Any], _asked_by: object) -> Result:
        """Nothing is missed here; but the cell must be there, as in a page."""
        self._document.cell(str(args.get("cell")))
        return {"stands": False}

    def _answer_held(self, args: dict[str, Any], _asked_by: object) -> Result:
        return {"outputs": self._document.held(str(args.get("cell")))}

    def _answer_remember(self, args: object, _asked_by: object) -> Result:
        self._document.remember(_Remember.model_validate(args).conversation)
        return {}
