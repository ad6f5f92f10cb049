"""A page that shows a notebook and answers the bridge, in Python: what the extension does, as small as can be."""

import itertools
import queue
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.kernel.wire import WAIT, Wire
from vibe_jupyter.protocol import source_hash

Message = dict[str, Any]
_SLICE = 0.02
"""Seconds that one look at a channel takes at most."""
_HEADS = (number * 40503 % 0x10000 for number in itertools.count(1))
"""Ids are shown by their first four characters, or more where two begin alike: a matter of luck that no test wants."""


@dataclass
class PageCell:
    source: str
    kind: str = "code"
    id: str = field(default_factory=lambda: f"{next(_HEADS):04x}{uuid.uuid4().hex[:8]}")
    count: int | None = None
    outputs: list[Message] = field(default_factory=list)
    request: str = ""
    """Id of the request that runs it, or ran it last."""
    running: bool = False
    edited: bool = False
    may_raise: bool = False
    """Whether it has the tag that says so."""
    tags: list[str] = field(default_factory=list)
    vibe: Message | None = None
    """What its metadata say of who wrote it."""
    reply: Message | None = None
    idle: bool = False

    @property
    def status(self) -> str:
        """How it ended; empty until its reply and all its outputs are there."""
        return self.reply["status"] if self.reply is not None and self.idle else ""

    @property
    def text(self) -> str:
        """All text it shows."""
        return "".join(output.get("text", "") or _plain(output) for output in self.outputs)


def _plain(output: Message) -> str:
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}\n"
    return str(output["data"].get("text/plain", "")) + "\n"


class Refused(Exception):
    def __init__(self, code: str, message: str = "", **data: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message or code, "data": data}


class Page:
    """One notebook in one tab. Answers while it is asked to wait for something."""

    def __init__(
        self,
        wire: Wire,
        *sources: str,
        path: str = "work/test.ipynb",
        cells: Sequence[PageCell] = (),
        metadata: Message | None = None,
    ) -> None:
        self.wire = wire
        self.path = path
        self.cells = [*cells, *(PageCell(source) for source in sources)]
        self.metadata = metadata or {}
        """What our extension wrote into the notebook's own metadata."""
        self.client = wire.client.session.session
        self.panel = "panel-1"
        self.asked: list[Message] = []
        """Every request that came over the bridge."""
        self.answers = True
        self.sends_requests = True
        self.held: list[Message] = []
        """Requests that are named as sent, and are not: `send_held` sends them."""
        self.read_only = False
        self.before: Callable[[str], None] = lambda method: None
        """Called before a request is answered."""
        self.typed: list[str] = []
        """What is typed into text prompts, in order."""
        self.prompts: list[Message] = []
        self._seen = len(wire.seen)

    # ---- what the user does ----

    def add(self, source: str, kind: str = "code") -> PageCell:
        cell = PageCell(source, kind)
        self.cells.append(cell)
        return cell

    def press(self, cell: PageCell) -> str:
        """Shift-Enter."""
        self.wire.client.shell_channel.send(self._begin(cell))
        return cell.request

    def send_held(self) -> None:
        """A connection that was cut is there again."""
        while self.held:
            self.wire.client.shell_channel.send(self.held.pop(0))

    def _begin(self, cell: PageCell) -> Message:
        content = {
            "code": cell.source,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": True,
            "stop_on_error": True,
        }
        message = self.wire.client.session.msg(
            "execute_request", content, metadata={"cellId": cell.id, "deletedCells": []}
        )
        cell.request, cell.running, cell.edited = message["header"]["msg_id"], True, False
        cell.reply, cell.idle = None, False
        cell.outputs = []
        return message

    def run(self, source: str) -> PageCell:
        """A new cell at the end, run to its end."""
        cell = self.add(source)
        self.press(cell)
        self.until(lambda: bool(cell.status), f"the end of {source!r}")
        return cell

    def type_into(self, cell: PageCell, source: str) -> None:
        cell.source, cell.edited = source, True

    def named(self, cell_id: str) -> PageCell:
        return next(cell for cell in self.cells if cell.id == cell_id)

    # ---- what a page does by itself ----

    def until(self, happened: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + WAIT
        while not happened():
            self._turn()
            assert time.monotonic() < end, f"no {what} within {WAIT} s"

    def _turn(self) -> None:
        client = self.wire.client
        for get, take in (
            (client.get_iopub_msg, self.wire.seen.append),
            (client.get_shell_msg, self._on_reply),
            (client.get_stdin_msg, self._on_prompt),
        ):
            try:
                take(get(timeout=_SLICE if get == client.get_iopub_msg else 0))
            except queue.Empty:
                continue
        while self._seen < len(self.wire.seen):
            self._seen += 1
            self._on_iopub(self.wire.seen[self._seen - 1])

    def _on_reply(self, message: Message) -> None:
        for cell in self.cells:
            if cell.request == message["parent_header"]["msg_id"]:
                cell.reply = message["content"]
                cell.running, cell.count = False, message["content"].get("execution_count", cell.count)

    def _on_prompt(self, message: Message) -> None:
        self.prompts.append(message)
        self.wire.client.input(self.typed.pop(0))

    def _on_iopub(self, message: Message) -> None:
        if message["msg_type"] == "vibe_bridge":
            self._on_request(message)
            return
        for cell in self.cells:
            if cell.request and cell.request == message["parent_header"].get("msg_id"):
                self._show(cell, message["msg_type"], message["content"])

    def _show(self, cell: PageCell, kind: str, content: Message) -> None:
        match kind:
            case "status":
                cell.idle = content["execution_state"] == "idle"
            case "execute_input":
                cell.count = content["execution_count"]
            case "stream" if cell.outputs and cell.outputs[-1].get("name") == content["name"]:
                cell.outputs[-1]["text"] += content["text"]
            case "stream":
                cell.outputs.append({"output_type": "stream", **content})
            case "display_data" | "execute_result" | "error":
                cell.outputs.append({"output_type": kind, **content})
            case "update_display_data":
                wanted = content["transient"]["display_id"]
                for output in cell.outputs:
                    if output.get("transient", {}).get("display_id") == wanted:
                        output |= {"data": content["data"], "metadata": content["metadata"]}
            case "clear_output":
                cell.outputs.clear()
            case _:
                pass

    def _on_request(self, message: Message) -> None:
        request = message["content"]
        self.asked.append(request)
        self.before(request["method"])
        to = request["to"]
        if not self.answers or (to and (to["client"], to["panel"]) != (self.client, self.panel)):
            return
        answer: Message = {"id": request["id"], "client": self.client, "panel": self.panel, "ok": True}
        try:
            answer["result"] = getattr(self, f"_answer_{request['method']}")(message, **request["args"])
        except Refused as refusal:
            answer.update(ok=False, error=refusal.error)
        self.tell("vibe_bridge_reply", answer)

    def tell(self, kind: str, content: Message) -> None:
        """Over the control channel."""
        channel = self.wire.client.control_channel
        channel.send(self.wire.client.session.msg(kind, content))

    # ---- the methods of the bridge ----

    def _answer_hello(self, message: Message, version: str) -> Message:
        ran = message["parent_header"]["session"] == self.client
        return {
            "version": version,
            "client": self.client,
            "panel": self.panel,
            "path": self.path,
            "visible": True,
            "ran": ran,
            "front_end": "test",
            "conversation": self.metadata.get("conversation", ""),
        }

    def _answer_remember(self, _message: Message, conversation: str) -> Message:
        self.metadata = {"conversation": conversation}
        return {}

    def _answer_keep(
        self,
        _message: Message,
        cell: str,
        model_id: str,
        data: Message | None = None,
        metadata: Message | None = None,
        number: int | None = None,
        adds: bool = False,
    ) -> Message:
        mark = f'<div data-vibe-view="{model_id}">'
        for output in self._cell(cell).outputs:
            if output.get("data", {}).get("text/html", "").startswith(mark):
                output["data"] = data or output["data"]
                output["metadata"] = metadata or output.get("metadata", {})
                return {"stands": data is None}
        if adds:
            self._cell(cell).outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
        return {"stands": adds}

    def _answer_cells(self, _message: Message) -> Message:
        return {"path": self.path, "dirty": True, "cells": [self._brief(cell) for cell in self.cells]}

    def _brief(self, cell: PageCell) -> Message:
        outputs = [
            {
                "type": output["output_type"],
                "mimes": list(output.get("data", {})),
                "size": len(str(output)),
                "text": (output.get("text") or _plain(output))[:200],
            }
            for output in cell.outputs
        ]
        return {
            "id": cell.id,
            "kind": cell.kind,
            "source": cell.source,
            "execution_count": cell.count,
            "running": cell.running,
            "edited_since_run": cell.edited,
            "may_raise": cell.may_raise,
            "tags": cell.tags,
            "outputs": outputs,
            "vibe": cell.vibe,
        }

    def _answer_outputs(self, _message: Message, cell: str, limit: int, index: int | None = None) -> Message:
        outputs = self._cell(cell).outputs
        return {"outputs": outputs if index is None else outputs[index : index + 1]}

    def _answer_edit(self, _message: Message, edits: list[Message]) -> Message:
        if self.read_only:
            raise Refused("read_only", "The notebook is read-only.")
        for edit in edits:
            for wanted in edit.get("cells", []) if edit["op"] == "delete" else [{**edit, "id": edit.get("cell")}]:
                if wanted.get("expected"):
                    self._expect(wanted["id"], wanted["expected"])
        touched: list[PageCell] = [cell for edit in edits for cell in self._edit(edit)]
        return {
            "cells": [{"id": cell.id, "source": cell.source} for cell in touched],
            "order": [cell.id for cell in self.cells],
        }

    def _edit(self, edit: Message) -> list[PageCell]:
        match edit["op"]:
            case "set_source":
                cell = self._cell(edit["cell"])
                cell.source, cell.edited, cell.vibe = edit["source"], cell.count is not None, edit["vibe"]
                return [cell]
            case "insert":
                cell = PageCell(edit["source"], edit["kind"], edit["id"], vibe=edit["vibe"])
                self.cells.insert(self._behind(edit["after"]), cell)
                return [cell]
            case "delete":
                for wanted in edit["cells"]:
                    self.cells.remove(self._cell(wanted["id"]))
                return []
            case _:
                self._behind(edit["after"])  # refused before anything is moved
                moved = [self._cell(cell_id) for cell_id in edit["cells"]]
                self.cells = [cell for cell in self.cells if cell not in moved]
                place = self._behind(edit["after"])
                self.cells[place:place] = moved
                return []

    def _answer_run(self, _message: Message, cell: str, code_hash: str) -> Message:
        found = self._cell(cell)
        self._expect(cell, code_hash)
        if found.running:
            raise Refused("not_finished", "The cell is running.")
        message = self._begin(found)
        if self.sends_requests:
            self.wire.client.shell_channel.send(message)
        else:
            self.held.append(message)
        return {"started": True, "request": found.request}

    def _behind(self, cell_id: str | None) -> int:
        return 0 if cell_id is None else self.cells.index(self._cell(cell_id)) + 1

    def _cell(self, cell_id: str) -> PageCell:
        found = [cell for cell in self.cells if cell.id == cell_id]
        if not found:
            raise Refused("unknown_cell", f"There is no cell {cell_id}.")
        return found[0]

    def _expect(self, cell_id: str, expected: str) -> None:
        cell = self._cell(cell_id)
        if source_hash(cell.source) != expected:
            raise Refused("stale_cell", "The cell was changed.", cell=cell.id, source=cell.source)
