"""Lives in the kernel under test: has cells that nobody can answer take silence for an answer at once."""

from importlib import import_module

from IPython import get_ipython

from vibe_jupyter.notebook.bridge import PRESENCE_WAIT
from vibe_jupyter.ui.widget import ALIVE_GRACE

MARK = "vibe_nobody_answers"
"""In the metadata of the request for such a cell."""
SILENCE = 0.02
"""Seconds after which a kernel knows that nobody answers, where nobody does."""
USUAL_WAITS = {
    "vibe_jupyter.notebook.bridge": ("PRESENCE_WAIT", PRESENCE_WAIT),
    "vibe_jupyter.ui.unprompted": ("ALIVE_GRACE", ALIVE_GRACE),
    "vibe_jupyter.ui.widget": ("ALIVE_GRACE", ALIVE_GRACE),
}
"""Seconds that a kernel gives a page to answer: where, and under which name."""


def install() -> None:
    """Look at each cell from now on: cells that set this before and after each would cost most of what tests run."""
    shell = get_ipython()

    def is_marked() -> bool:
        return MARK in shell.kernel.get_parent("shell")["metadata"]

    shell.events.register("pre_run_cell", lambda _: is_marked() and _wait(silent=True))
    shell.events.register("post_run_cell", lambda _: is_marked() and _wait(silent=False))


def _wait(*, silent: bool) -> None:
    for module, (name, usual) in USUAL_WAITS.items():
        setattr(import_module(module), name, SILENCE if silent else usual)
