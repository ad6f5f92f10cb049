"""The composition root: the only place that wires settings, model, tools, kernel and view together.

Start reading at `vibe_jupyter.app.app`.
"""

from vibe_jupyter.app.app import App

__all__ = ["App"]
