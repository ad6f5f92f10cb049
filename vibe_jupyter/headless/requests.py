"""The bridge's methods on a `Document`: the same table as `labextension/src/bridge/handlers`."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import vibe_jupyter
from vibe_jupyter.headless.document import Document
from vibe_jupyter.headless.refusal import Refusal
from vibe_jupyter.notebook.briefs import bounded, brief
from vibe_jupyter.protocol.cells import CellEdit, InsertCell, SetSource

PANEL: Final = "headless"
"""There is one notebook and one view of it."""
Result = dict[str, Any]


class Runner(Protocol):
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


class _Run(_Args):
    cell: str
    code_hash: str


class Requests:
    """Answers one request after another."""

    def __init__(self, document: Document, runner: Runner) -> None:
        self._document = document
        self._runner = runner
        self._methods: dict[str, Callable[[Any, dict[str, Any]], Result]] = {
            "hello": self._hello,
            "cells": self._cells,
            "outputs": self._outputs,
            "edit": self._edit,
            "run": self._run,
            "interrupt": self._interrupt,
            "show": self._show,
            "find": self._find,
            "keep": self._keep,
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
                raise Refusal("bad_request", f"This front end knows no request {content.get('method')}.")
            asked_by = {"id": content.get("id"), "session": parent.get("session")}
            return {**reply, "ok": True, "result": method(content.get("args") or {}, asked_by)}
        except ValidationError as error:
            refusal = Refusal("bad_request", str(error.errors(include_url=False, include_input=False)[0]["msg"]))
        except Refusal as error:
            refusal = error
        return {**reply, "ok": False, "error": {"code": refusal.code, "message": str(refusal), "data": refusal.data}}

    def _hello(self, _args: object, asked_by: dict[str, Any]) -> Result:
        return {
            "version": vibe_jupyter.__version__,
            "client": self._runner.client,
            "panel": PANEL,
            "path": self._runner.path,
            "visible": True,
            "ran": asked_by["session"] == self._runner.client,
            "front_end": "headless",
        }

    def _cells(self, _args: object, _asked_by: object) -> Result:
        document = self._document
        cells = [
            {
                "id": cell["id"],
                "kind": cell["cell_type"],
                "source": cell["source"],
                "execution_count": cell.get("execution_count"),
                "running": cell["id"] in document.running,
                "edited_since_run": document.edited_since_run(cell),
                "outputs": [brief(output) for output in cell.get("outputs", [])],
            }
            for cell in document.cells
        ]
        return {"path": self._runner.path, "dirty": document.dirty, "cells": cells}

    def _outputs(self, args: object, _asked_by: object) -> Result:
        asked = _Outputs.model_validate(args)
        outputs: list[Any] = self._document.cell(asked.cell).get("outputs", [])
        wanted = outputs if asked.index is None else outputs[asked.index : asked.index + 1]
        if asked.index is not None and not wanted:
            raise Refusal("bad_request", f"This cell has {len(outputs)} outputs, and none at {asked.index}.")
        return {"outputs": [bounded(output, asked.limit) for output in wanted]}

    def _edit(self, args: object, _asked_by: object) -> Result:
        edits = _Edit.model_validate(args).edits
        self._document.edit(edits)
        written = {edit.cell for edit in edits if isinstance(edit, SetSource)}
        written |= {edit.id for edit in edits if isinstance(edit, InsertCell)}
        cells = [{"id": cell["id"], "source": cell["source"]} for cell in self._document.cells if cell["id"] in written]
        return {"cells": cells, "order": self._document.order}

    def _run(self, args: object, asked_by: dict[str, Any]) -> Result:
        asked = _Run.model_validate(args)
        cell = self._document.expect(asked.cell, asked.code_hash)
        if cell["cell_type"] != "code" or not cell["source"].strip():
            raise Refusal("bad_request", f"The cell {asked.cell} holds no code.", cell=asked.cell)
        if asked.cell in self._document.running:
            raise Refusal("not_finished", f"The cell {asked.cell} is queued or running already.", cell=asked.cell)
        return {"started": True, "request": self._runner.send(asked.cell, asked_by=asked_by["id"])}

    def _interrupt(self, _args: object, _asked_by: object) -> Result:
        self._runner.interrupt()
        return {}

    def _show(self, args: dict[str, Any], _asked_by: object) -> Result:
        """No page was loaded anew, so nothing was lost."""
        cell = self._document.cell(str(args.get("cell")))
        if cell["cell_type"] != "code":
            raise Refusal("bad_request", f"The cell {cell['id']} holds no code.", cell=cell["id"])
        return {}

    def _find(self, _args: dict[str, Any], _asked_by: object) -> Result:
        """Each request says its cell, and no view is drawn."""
        return {"cell": None}

    def _keep(self, args: dict[str, Any], _asked_by: object) -> Result:
        """Nothing is missed here; but the cell must be there, as in a page."""
        self._document.cell(str(args.get("cell")))
        return {"stands": False}
