"""A front end without a page: it runs a notebook file and answers the bridge as JupyterLab's extension does.

Start reading at `vibe_jupyter.headless.notebook_run`; `requests` is the Python half of `labextension/src/bridge`.
"""

from vibe_jupyter.headless.notebook_run import CellOutcome, NotebookRun

__all__ = ["CellOutcome", "NotebookRun"]
