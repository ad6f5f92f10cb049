"""`%vibe report`: write a methods section about the notebook from recorded facts."""

from typing import TYPE_CHECKING

from vibe_jupyter.errors import NotebookError

if TYPE_CHECKING:
    from vibe_jupyter.app import App


def report_command(app: "App") -> str:
    """Write the report to a Markdown cell.

    Returns the message to print, which is the report itself if no page can take it.

    Raises:
        NotebookError: A run is active, there is no notebook, or it doesn't respond.
    """
    if app.is_serving:
        raise NotebookError("A run is active in this kernel. Make the report when it is over.")
    text = app.verification.report(schema_only=app.setup.settings().privacy.schema_only)
    return text or "The report is in a Markdown cell below, or where the one before was."
