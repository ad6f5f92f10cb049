"""Build matplotlib's font cache, which it can't create itself in a sandboxed copy.

If the cache doesn't exist yet, a separate process creates it, as the first import of matplotlib in a cell would. It
reads nothing from the project and writes only matplotlib's cache.
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

SECONDS: Final = 20.0  # time limit; matplotlib reads all fonts of the machine
_MODULE: Final = "matplotlib.font_manager"
# Code that may import matplotlib, including pandas' `plot`.
_DRAWS: Final = re.compile(r"matplotlib|seaborn|pyplot|\b(?:plt|sns|pylab)\b|\.(?:plot|hist|boxplot)\b")


def matplotlib_paths() -> Iterator[str]:
    """Yield the paths matplotlib reads on import: settings, styles and font caches."""
    for folder in _folders():
        yield from (os.path.join(folder, name) for name in ("matplotlibrc", "stylelib"))
        yield from _lists(folder)


class FontList:
    """Font cache of the current user. Used on one event loop."""

    def __init__(self) -> None:
        self._made: asyncio.Task[None] | None = None

    async def ready(self, code: str) -> None:
        """Create the cache if needed, at most once. Waits for it only if the code may draw."""
        if self._made is None:
            self._made = asyncio.create_task(_make_list())
        if _DRAWS.search(code):
            await asyncio.shield(self._made)


async def _make_list() -> None:
    if _MODULE in sys.modules or any(_lists(folder) for folder in _folders()) or not _is_installed():
        return
    try:
        # Not in the project's folder: a module named matplotlib there would run unasked.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", f"import {_MODULE}"),
            cwd=os.path.dirname(sys.executable),
            env=python_environment(os.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:  # no further process can be started; the copy then reports the missing cache
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
