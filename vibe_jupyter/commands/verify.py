"""`%vibe verify`: the notebook, run from the top in a fresh kernel, and what it shows that it does not show here."""

from typing import TYPE_CHECKING

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.notebook.tools.verify_notebook import verification_lines, verification_summary

if TYPE_CHECKING:
    from vibe_jupyter.app import App


def verify_command(app: "App", until: str | None = None) -> str:
    """Verify all cells, or those up to one; what to print.

    Raises:
        NotebookError: a run is open, there is no notebook, or it could not be run.
    """
    if app.is_serving:
        raise NotebookError("A run is active in this kernel. Verify the notebook when it is over.")
    verified = app.verification.verify(until)
    lines = verification_lines(verified.verdicts, verified.short)
    return "\n".join([f"The notebook: {verification_summary(verified.verdicts)}. {lines[0]}.", *lines[1:]])
