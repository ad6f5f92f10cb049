"""A front end without a page: it runs a notebook file and answers the bridge as JupyterLab's extension does.

Start reading at `notebook_run`; `document` answers in Python what `labextension/src/bridge` answers in a page.
"""

from vibe_jupyter.headless.notebook_run import CellOutcome, NotebookRun

__all__ = ["CellOutcome", "NotebookRun"]
