"""Front end without a page: runs a notebook file, and answers bridge requests as the JupyterLab extension does.

Start reading at `notebook_run`. `document` is the Python counterpart of `labextension/src/bridge`.
"""

from vibe_jupyter.headless.notebook_run import CellOutcome, NotebookRun

__all__ = ["CellOutcome", "NotebookRun"]
