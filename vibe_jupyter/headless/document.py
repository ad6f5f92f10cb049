"""The open notebook of the headless front end: handles bridge requests and stores outputs."""

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
_CELL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # nbformat's rule
_MAKE: Final[dict[str, Callable[..., Any]]] = {
    "code": nbformat.v4.new_code_cell,  # pyright: ignore[reportUnknownMemberType]
    "markdown": nbformat.v4.new_markdown_cell,  # pyright: ignore[reportUnknownMemberType]
    "raw": nbformat.v4.new_raw_cell,  # pyright: ignore[reportUnknownMemberType]
}

Message = dict[str, Any]
Output = dict[str, Any]
# Fields of each kind of output, with the values of those that a message lacks or has in another type.
_DATA: Final[dict[str, Any]] = {"data": {}, "metadata": {}}
_OUTPUTS: Final[Mapping[str, dict[str, Any]]] = {
    "stream": {"name": "stdout", "text": ""},
    "display_data": _DATA,
    "execute_result": _DATA,
    "error": {"ename": "", "evalue": "", "traceback": []},
}

PANEL: Final = "headless"  # the only view of the only notebook
Result = dict[str, Any]


class HeadlessDocument:
    """Cells by id. Edits are atomic."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self.dirty = False  # True if anything changed since it was read
        self.running: set[str] = set()  # ids of running and queued cells
        self._held: dict[str, list[Output]] = {}  # outputs that cells had before their latest run
        self._executed = {cell["id"]: cell["source"] for cell in self.cells if cell.get("execution_count")}

    @property
    def cells(self) -> list[Cell]:
        """All cells, in order."""
        return self._notebook["cells"]

    @property
    def order(self) -> list[str]:
        """The cells' ids, in order."""
        return [cell["id"] for cell in self.cells]

    @property
    def conversation(self) -> str:
        """Conversation id in the metadata, or ""."""
        return conversation_in(self._notebook.get("metadata"))

    def remember(self, conversation: str) -> None:
        """Store a conversation id in the metadata."""
        self._notebook.setdefault("metadata", {})[METADATA_KEY] = {"conversation": conversation}
        self.dirty = True

    def cell(self, cell_id: str) -> Cell:
        """Return the cell with this id."""
        for cell in self.cells:
            if cell["id"] == cell_id:
                return cell
        raise unknown_cell(cell_id)

    def expect(self, cell_id: str, expected: str) -> Cell:
        """Return the cell with this id, checking that its source has this hash."""
        cell = self.cell(cell_id)
        _same_source(cell_id, cell["source"], expected)
        return cell

    def begin_run(self, cell_id: str) -> None:
        """Clear a cell as front ends do when they send it."""
        cell = self.cell(cell_id)
        self._held[cell_id] = cell.get("outputs", [])
        cell["outputs"], cell["execution_count"] = [], None
        self._executed[cell_id] = cell["source"]
        self.running.add(cell_id)
        self.dirty = True

    def held(self, cell_id: str) -> list[Output]:
        """Return the outputs the cell had before its latest run; [] if it hasn't run."""
        self.cell(cell_id)
        return self._held.get(cell_id, [])

    def has_begun(self, cell_id: str) -> bool:
        """Return whether the cell was sent to a kernel, rather than read with outputs of an earlier session."""
        return cell_id in self._held

    def edited_since_run(self, cell: Cell) -> bool:
        """Return whether the outputs belong to another source."""
        return cell.get("execution_count") is not None and self._executed.get(cell["id"]) != cell["source"]

    def append(self, kind: str, source: str) -> str:
        """Append a cell and return its id."""
        cell = _MAKE[kind](source)
        self.cells.append(cell)
        self.dirty = True
        return cell["id"]

    def edit(self, edits: Sequence[CellEdit]) -> None:
        """Apply all edits, or raise and apply none."""
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
        """Validate edits without applying them."""
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
    if source_hash(without_halves(source)) != expected:  # the form in which the kernel saw it
        raise BridgeRefusal("stale_cell", f"The cell {cell_id} has changed.", cell=cell_id, source=source)


class DocumentOutputs:
    """Output handler that writes to a document's cells. Output of cells that were deleted is discarded."""

    def __init__(self, document: HeadlessDocument) -> None:
        self._document = document
        self._displays: dict[str, list[Output]] = {}  # outputs by display id, in any cell
        # Cells whose outputs are cleared with their next output (clear_output with wait).
        self._clear_next: set[str] = set()

    def take(self, cell_id: str, message: Message) -> None:
        """Process an iopub message whose parent is the cell's request."""
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
        """Set the execution count from the reply: a cell that ran others gets its number after theirs.

        None if it didn't run.
        """
        for cell in self._document.cells:
            if cell["id"] == cell_id and count is not None:
                cell["execution_count"] = count

    def _add_output(self, outputs: list[Output], message: Message) -> None:
        output = _output_of(message)
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


def _output_of(message: Message) -> Output:
    """Convert a message to an output. Unlike nbformat's function, this accepts values that break the format's rules.

    Pages show them, and a cell that publishes one must not end the run.
    """
    kind, content = message["msg_type"], message["content"]
    output: Output = {"output_type": kind}
    for name, default in _OUTPUTS[kind].items():
        value = content.get(name)
        output[name] = value if isinstance(value, type(default)) else type(default)(default)
    if kind == "execute_result":
        output["execution_count"] = content.get("execution_count")
    made = cast(Any, nbformat.from_dict(output))  # pyright: ignore
    return cast(Output, made)


class BridgeRefusal(Exception):
    """Error reply to a bridge request. The kernel turns it into a message for the model."""

    def __init__(self, code: RefusalCode, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code: RefusalCode = code
        self.data = data


def unknown_cell(cell: str) -> BridgeRefusal:
    """Return the refusal for an unknown cell id."""
    return BridgeRefusal("unknown_cell", f"There is no cell {cell} in this notebook.", cell=cell)


class CellRunner(Protocol):
    """Kernel operations that the bridge methods need."""

    @property
    def client(self) -> str:
        """Session id of the connection."""
        ...

    @property
    def path(self) -> str:
        """Path of the notebook, as JupyterLab would report it."""
        ...

    def send(self, cell: str, *, asked_by: str | None = None) -> str:
        """Send a cell to the kernel and return the request's id. `asked_by` is notified when it is done."""
        ...

    def interrupt(self) -> None:
        """Interrupt the kernel, like the ■ button."""
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
    """Bridge methods, called one at a time."""

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
        """Return the reply's content, or None for a request addressed to another front end."""
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
        """Return no image: nothing is drawn here."""
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
        """Confirm. Nothing was lost, since no page was reloaded."""
        cell = self._document.cell(str(args.get("cell")))
        if cell["cell_type"] != "code":
            raise BridgeRefusal("bad_request", f"The cell {cell['id']} holds no code.", cell=cell["id"])
        return {}

    def _find(self, _args: dict[str, Any], _asked_by: object) -> Result:
        """Return no cell: requests name their cell, and no view is drawn."""
        return {"cell": None}

    def _answer_keep(self, args: dict[str, Any], _asked_by: object) -> Result:
        """Check that the cell exists, as a page would. No output was missed."""
        self._document.cell(str(args.get("cell")))
        return {"stands": False}

    def _answer_held(self, args: dict[str, Any], _asked_by: object) -> Result:
        return {"outputs": self._document.held(str(args.get("cell")))}

    def _answer_remember(self, args: object, _asked_by: object) -> Result:
        self._document.remember(_Remember.model_validate(args).conversation)
        return {}
