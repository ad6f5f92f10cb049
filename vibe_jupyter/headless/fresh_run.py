"""Verification run: a notebook is run in a fresh kernel, comparing each cell's outputs. Nothing is saved."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.notebook_run import CellOutcome, NotebookRun
from vibe_jupyter.notebook.cell_names import gives_prompt
from vibe_jupyter.notebook.document import cell_tags, may_raise
from vibe_jupyter.notebook.output_differences import difference
from vibe_jupyter.notebook.verification import CellVerdict, missing_name
from vibe_jupyter.protocol import SKIP_TAG

# Lines that load or command vibe-jupyter, which aren't part of what is verified.
_COMMAND: Final = re.compile(r"^([ \t]*)(?:%vibe\b|%?(?:re|un)?load_ext[ \t]+vibe_jupyter\b).*$", re.MULTILINE)


class FreshRun:
    """Verification of a document, whose outputs are replaced."""

    def __init__(self, document: HeadlessDocument, run: NotebookRun, timeout: float | None) -> None:
        """
        Args:
            document: A copy of the notebook.
            run: Run with a fresh kernel.
            timeout: Seconds per cell; None for no limit.
        """
        self._document = document
        self._run = run
        self._timeout = timeout

    def verdicts(self) -> Iterator[CellVerdict]:
        """Yield a verdict for each non-empty code cell, up to the first that fails."""
        for number, cell in enumerate(self._document.cells, start=1):
            if cell["cell_type"] != "code" or not _COMMAND.sub("", cell["source"]).strip():
                continue
            verdict = self._verdict(number, cell)
            yield verdict
            if verdict.kind == "error":
                return

    def _verdict(self, number: int, cell: dict[str, Any]) -> CellVerdict:
        verdict = partial(CellVerdict, cell=str(cell["id"]), number=number)
        if _asks_agent(cell["source"]):
            return verdict(kind="prompt")
        if SKIP_TAG in cell_tags(cell):
            return verdict(kind="skipped")
        had_run = cell["execution_count"] is not None or bool(cell["outputs"])
        before = list(cell["outputs"])
        cell["source"], own_lines = _COMMAND.subn(r"\1pass", cell["source"])
        outcome = self._run.run_cell(cell["id"], timeout=self._timeout)
        if outcome.status != "ok" and not (outcome.status == "error" and may_raise(cell)):
            return verdict(kind="error", words=self._failure(number, outcome))
        if not had_run:
            return verdict(kind="not compared")
        said = difference(before, cell["outputs"], more_before=bool(own_lines))
        return verdict(kind="differs" if said else "same", words=said)

    def _failure(self, number: int, outcome: CellOutcome) -> str:
        cells = [
            (place, str(cell["source"]))
            for place, cell in enumerate(self._document.cells, start=1)
            if cell["cell_type"] == "code"
        ]
        why = missing_name(outcome.error, cells, number)
        return f"{outcome.error} ({why})" if why else outcome.error


def _asks_agent(source: str) -> bool:
    """Return whether a cell is a prompt. Lines with other commands to the agent are removed from their cell instead."""
    return gives_prompt(_COMMAND.sub(r"\1pass", source))
