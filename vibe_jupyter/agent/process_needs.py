"""Checks of the process for the engine thread: Python's own threads and sockets, and enough file descriptors."""

import os
import sys
from contextlib import ExitStack
from typing import Any, Final

from vibe_jupyter.errors import NotebookError, open_files_named

# Libraries that monkey-patch modules of Python: name, module, and its function that reports whether it patched one
_PATCHERS: Final = (
    ("gevent", "gevent.monkey", "is_module_patched"),
    ("eventlet", "eventlet.patcher", "is_monkey_patched"),
)
_NEEDED: Final = ("thread", "select", "socket")
LEAST_OPEN: Final = 8  # file descriptors for the loop, one connection and one command


def check_own_threads() -> None:
    """Check that no library has replaced Python's threads and sockets.

    Raises:
        NotebookError: a library has. The message names it.
    """
    for name, module, tells in _PATCHERS:
        loaded: Any = sys.modules.get(module)
        if loaded is None:
            continue
        if replaced := [one for one in _NEEDED if getattr(loaded, tells)(one)]:
            raise NotebookError(
                f"{name} has replaced Python's own {', '.join(replaced)} in this kernel, and the agent cannot run with "
                f"that. Restart the kernel, and run what needs {name} in a process of its own."
            )


def check_open_files() -> None:
    """Check that the process can open as many files as the agent needs.

    Raises:
        NotebookError: it can't.
    """
    with open_files_named(), ExitStack() as held:
        for _ in range(LEAST_OPEN):
            held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
