"""Checks what the agent's thread needs of the process: threads and sockets of Python's own, and room for files."""

import os
import sys
from contextlib import ExitStack
from typing import Any, Final

from vibe_jupyter.errors import NotebookError, open_files_named

_PATCHERS: Final = (
    ("gevent", "gevent.monkey", "is_module_patched"),
    ("eventlet", "eventlet.patcher", "is_monkey_patched"),
)
"""Libraries that replace modules of Python: name, module, and its function that tells of one."""
_NEEDED: Final = ("thread", "select", "socket")
LEAST_OPEN: Final = 8
"""Files that the loop, one connection and one command need open."""


def check_own_threads() -> None:
    """
    Raises:
        NotebookError: a library has replaced them; names it.
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
    """
    Raises:
        NotebookError: the process has no room for the files that the agent opens.
    """
    with open_files_named(), ExitStack() as held:
        for _ in range(LEAST_OPEN):
            held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
