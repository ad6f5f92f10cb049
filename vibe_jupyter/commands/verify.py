"""`%vibe verify`: run the notebook in a fresh kernel, and report cells whose outputs differ."""

from typing import TYPE_CHECKING

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.tools.verify_notebook import verification_lines, verification_summary

if TYPE_CHECKING:
    from vibe_jupyter.app import App


def verify_command(app: "App", until: str | None = None) -> str:
    """Verify all cells, or those up to `until`. Returns the text to print.

    Raises:
        NotebookError: A run is active, there is no notebook, or it can't be run.
    """
    if app.is_serving:
        raise NotebookError("A run is active in this kernel. Verify the notebook when it is over.")
    verified = app.verification.verify(until)
    lines = verification_lines(verified.verdicts, verified.short)
    return "\n".join([f"The notebook: {verification_summary(verified.verdicts)}. {lines[0]}.", *lines[1:]])
