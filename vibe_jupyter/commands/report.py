"""`%vibe report`: a methods section of the notebook, from what was recorded."""

from typing import TYPE_CHECKING

from vibe_jupyter.errors import NotebookError

if TYPE_CHECKING:
    from vibe_jupyter.app import App


def report_command(app: "App") -> str:
    """Put it into a Markdown cell; what to print, which is the text itself where no page takes it.

    Raises:
        NotebookError: a run is open, there is no notebook, or it does not answer.
    """
    if app.is_serving:
        raise NotebookError("A run is active in this kernel. Make the report when it is over.")
    text = app.verification.report(schema_only=app.setup.settings().privacy.schema_only)
    return text or "The report is in a Markdown cell below, or where the one before was."
