"""A notebook with its kernel, as a user has it open: cells are written, run, edited and deleted, and prompts asked."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.file import NotebookFile
from vibe_jupyter.headless.notebook_run import CellOutcome, KernelProcess, NotebookRun

ALLOWED = (
    "run_code,edit_cell,insert_cell,delete_cells,move_cells,run_cells,verify_notebook,bash,write_file,search_replace"
)
"""Nobody is at the desk to click."""
CELL_TIMEOUT = 120.0
"""Seconds of one cell, where a scripted expert answers."""
MODEL_TIMEOUT = 3_600.0
"""Seconds of one cell, where a real model answers on a slow machine."""
LOAD = "%load_ext vibe_jupyter"
EMPTY: dict[str, Any] = {
    "cells": [],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@dataclass(frozen=True)
class Source:
    """A cell to write."""

    text: str
    kind: str = "code"


def markdown(text: str) -> Source:
    """A cell of text."""
    return Source(text, "markdown")


class Desk:
    """One notebook; the first cell loads the extension. A cell that takes longer than the patience is broken off."""

    def __init__(self, folder: Path, cells: Sequence[str | Source], *, patience: float = CELL_TIMEOUT) -> None:
        self.folder = folder
        self._patience = patience
        path = folder / "work.ipynb"
        path.write_text(json.dumps(EMPTY), encoding="utf-8")
        self.document = HeadlessDocument(NotebookFile(path).notebook)
        self._kernel = KernelProcess("python3", path)
        self._run = NotebookRun(self.document, self._kernel, path=path.name, say=_say_nothing, allowed=ALLOWED)
        self.run(self.write(LOAD))
        self.ids = [self.write(cell) for cell in cells]

    def __enter__(self) -> Self:
        """The desk."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the kernel."""
        self._kernel.close()

    def write(self, cell: str | Source) -> str:
        """Add a cell at the end; its id."""
        given = Source(cell) if isinstance(cell, str) else cell
        return self.document.append(given.kind, given.text)

    def run(self, *cells: str) -> list[CellOutcome]:
        """Run these cells in this order, whatever becomes of each."""
        return [self._run.run_cell(cell, timeout=self._patience) for cell in cells]

    def run_all(self) -> None:
        """Run every code cell that was written at the start, from the first to the last, failed ones too."""
        self.run(*(cell for cell in self.ids if self.document.cell(cell)["cell_type"] == "code"))

    def edit(self, cell: str, source: str) -> None:
        """Type another source."""
        self.document.cell(cell)["source"] = source

    def delete(self, cell: str) -> None:
        """Delete a cell."""
        self.document.cells.remove(self.document.cell(cell))

    def prompt(self, words: str) -> CellOutcome:
        """Ask in a new cell at the end, and wait for the end of the run."""
        (outcome,) = self.run(self.write(f"%%vibe\n{words}"))
        return outcome

    def run_line(self, line: str) -> str:
        """Run a line in a new cell at the end; the cell's id."""
        cell = self.write(line)
        self.run(cell)
        return cell

    def ask_line(self, line: str) -> CellOutcome:
        """Run a `%vibe` line in a new cell at the end."""
        (outcome,) = self.run(self.write(line))
        return outcome

    def sources(self) -> list[str]:
        """What is in the cells."""
        return [cell["source"] for cell in self.document.cells]

    def outputs(self, cell: str) -> list[dict[str, Any]]:
        """What a cell shows."""
        return self.document.cell(cell).get("outputs", [])

    def check(self, code: str) -> str:
        """Run code in the kernel that is in no cell, and give what it printed.

        Raises:
            AssertionError: it raised.
        """
        cell = self.write(code)
        (outcome,) = self.run(cell)
        printed = "".join(output.get("text", "") for output in self.outputs(cell))
        self.delete(cell)
        assert outcome.status == "ok", outcome.error
        return printed


def _say_nothing(_words: str) -> None: ...
