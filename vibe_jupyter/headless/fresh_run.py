"""A notebook run from the top in a fresh kernel, each cell compared with what it showed before. Nothing is saved."""

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

_COMMAND: Final = re.compile(r"^([ \t]*)(?:%vibe\b|%?(?:re|un)?load_ext[ \t]+vibe_jupyter\b).*$", re.MULTILINE)
"""Lines of vibe-jupyter's own: they load it or ask something of it, and are no part of what is verified."""


class FreshRun:
    """Takes a document of its own, whose outputs it replaces."""

    def __init__(self, document: HeadlessDocument, run: NotebookRun, timeout: float | None) -> None:
        """
        Args:
            document: as the notebook is now.
            run: with a kernel that ran nothing.
            timeout: seconds that one cell may take; None for no limit.
        """
        self._document = document
        self._run = run
        self._timeout = timeout

    def verdicts(self) -> Iterator[CellVerdict]:
        """One for each code cell that is not empty, up to the first that fails."""
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
    """Whether a cell gives a prompt. A line with a command of the agent's is left out of its cell instead."""
    return gives_prompt(_COMMAND.sub(r"\1pass", source))
