"""matplotlib's list of fonts, without which it cannot start in a copy of the kernel: it makes folders and files for it.

Where the list is not there yet, a process of its own makes it, as the first import of matplotlib in a cell would. It
reads nothing of the project, and writes matplotlib's cache only.
"""

import asyncio
import glob
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from vibe_jupyter.import_guard import python_environment

SECONDS: Final = 20.0
"""In which the list is made, or left: matplotlib looks at all fonts of the machine for it."""
_MODULE: Final = "matplotlib.font_manager"
_DRAWS: Final = re.compile(r"matplotlib|seaborn|pyplot|\b(?:plt|sns|pylab)\b|\.(?:plot|hist|boxplot)\b")
"""Code that may import matplotlib; pandas does for its `plot`."""


def matplotlib_paths() -> Iterator[str]:
    """What matplotlib reads when it starts: its settings and its lists of fonts."""
    for folder in _folders():
        yield from (os.path.join(folder, name) for name in ("matplotlibrc", "stylelib"))
        yield from _lists(folder)


class FontList:
    """Of this machine's user. On one event loop."""

    def __init__(self) -> None:
        self._made: asyncio.Task[None] | None = None

    async def ready(self, code: str) -> None:
        """See to it that the list is there; wait for it only where the code may draw. Tried once."""
        if self._made is None:
            self._made = asyncio.create_task(_make_list())
        if _DRAWS.search(code):
            await asyncio.shield(self._made)


async def _make_list() -> None:
    if _MODULE in sys.modules or any(_lists(folder) for folder in _folders()) or not _is_installed():
        return
    try:
        # Not from the project's folder: a module there that is called matplotlib would run unasked.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", f"import {_MODULE}"),
            cwd=os.path.dirname(sys.executable),
            env=python_environment(os.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:  # no further process: the copy says what it lacks
        return
    try:
        async with asyncio.timeout(SECONDS):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("matplotlib") is not None
    except (ImportError, ValueError):
        return False


def _folders() -> Iterator[str]:
    if own := os.environ.get("MPLCONFIGDIR"):
        yield own
    for variable, usual in (("XDG_CACHE_HOME", ".cache"), ("XDG_CONFIG_HOME", ".config")):
        yield os.path.join(os.environ.get(variable) or os.path.expanduser(f"~/{usual}"), "matplotlib")


def _lists(folder: str) -> list[str]:
    return glob.glob(os.path.join(glob.escape(folder), "fontlist-*.json"))
