"""What a kernel says while it runs cells, put into the cells as a front end does."""

from typing import Any, cast

import nbformat

from vibe_jupyter.headless.document import Document

Message = dict[str, Any]
Output = dict[str, Any]
_OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error"})


class Outputs:
    """Writes outputs into the cells of a document. A cell that was removed meanwhile has none."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._displays: dict[str, list[Output]] = {}
        """Outputs by display id, in whatever cell they are."""
        self._clear_next: set[str] = set()
        """Cells whose outputs go when the next one comes."""

    def take(self, cell_id: str, message: Message) -> None:
        """Take one message of iopub whose parent is the request of this cell."""
        kind, content = message["msg_type"], message["content"]
        if kind == "update_display_data":
            self._update(content)
        cell = next((cell for cell in self._document.cells if cell["id"] == cell_id), None)
        if cell is None:
            return
        if kind == "execute_input":
            cell["execution_count"] = content["execution_count"]
        elif kind == "clear_output":
            self._clear(cell, wait=content.get("wait", False))
        elif kind in _OUTPUTS:
            if cell_id in self._clear_next:
                self._clear(cell, wait=False)
            self._add(cell["outputs"], message)

    def number(self, cell_id: str, count: int | None) -> None:
        """The count in the reply: a cell in which others ran gets a number after theirs. None where it did not run."""
        for cell in self._document.cells:
            if cell["id"] == cell_id and count is not None:
                cell["execution_count"] = count

    def _add(self, outputs: list[Output], message: Message) -> None:
        made: Any = nbformat.v4.output_from_msg(message)  # pyright: ignore[reportUnknownMemberType]
        output = cast(Output, made)
        last = outputs[-1] if outputs else None
        if last is not None and output["output_type"] == "stream" and last.get("name") == output["name"]:
            last["text"] += output["text"]
            return
        outputs.append(output)
        if display := message["content"].get("transient", {}).get("display_id"):
            self._displays.setdefault(display, []).append(output)

    def _update(self, content: dict[str, Any]) -> None:
        for output in self._displays.get(content.get("transient", {}).get("display_id", ""), []):
            output["data"], output["metadata"] = content["data"], content["metadata"]

    def _clear(self, cell: dict[str, Any], *, wait: bool) -> None:
        if wait:
            self._clear_next.add(cell["id"])
            return
        self._clear_next.discard(cell["id"])
        cell["outputs"] = []
