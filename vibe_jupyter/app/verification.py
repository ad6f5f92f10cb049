"""`%vibe verify` and `%vibe report`: run the current cells in a fresh kernel, and describe the notebook."""

import concurrent.futures
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess
    from vibe_jupyter.notebook.verification import CellVerdict

_NO_NOTEBOOK: Final = "There is no notebook here, only a terminal."
_REPORT_WAIT: Final = 60.0  # seconds for the page to send its cells and outputs and to insert the text


class VerifiedNotebook(NamedTuple):
    """Outcome of a verification."""

    verdicts: "Sequence[CellVerdict]"
    short: Mapping[str, str]  # unique prefixes of cell ids


class KernelVerification:
    """Verification and reports of one kernel. Main thread only."""

    def __init__(self, kernel: Kernel) -> None:
        self._engine = kernel.engine
        self._notebook = kernel.notebook
        self._folder = kernel.folder

    def verify(self, until: str | None) -> VerifiedNotebook:
        """Run all cells from the top, optionally up to one of them. An interrupt ends the fresh kernel.

        Raises:
            NotebookError: There is no notebook, no such cell, or it can't be run.
        """
        if self._notebook is None:
            raise NotebookError(_NO_NOTEBOOK)
        self._notebook.cells.resume()
        verifying = self._engine.submit(self._verify(self._notebook, until))
        try:
            return verifying.result()
        except ToolError as error:
            raise NotebookError(str(error)) from error
        finally:
            verifying.cancel()

    def report(self, *, schema_only: bool) -> str:
        """Write a methods section to a Markdown cell. Returns the text if no page can take it.

        Raises:
            NotebookError: There is no notebook, or it doesn't respond.
        """
        if self._notebook is None:
            raise NotebookError(_NO_NOTEBOOK)
        with without_working_folder():
            from vibe_jupyter.app.methods import MethodsReport
        self._notebook.cells.resume()
        report = MethodsReport(self._notebook.cells, self._notebook.rows, self._folder, schema_only=schema_only)
        writing = self._engine.submit(report.write())
        try:
            return writing.result(_REPORT_WAIT)
        except (ToolError, concurrent.futures.TimeoutError) as error:
            raise NotebookError(f"No report was made: {error or 'the notebook does not answer.'}") from error
        finally:
            writing.cancel()

    async def _verify(self, notebook: "NotebookAccess", until: str | None) -> VerifiedNotebook:
        with without_working_folder():
            from vibe_jupyter.notebook.tools.verify_notebook import NotebookVerification
        reads = notebook.cells.reads
        verification = NotebookVerification(reads, self._folder)
        cells = await verification.chosen_cells(until)
        return VerifiedNotebook(await verification.verify(cells, seconds=None), reads.short)
