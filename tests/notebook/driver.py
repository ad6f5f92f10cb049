"""Lives in the kernel under test: an engine thread, the notebook's tools, and cells that serve. Stands in for the app."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from IPython import get_ipython

import vibe_jupyter
from vibe_jupyter.notebook.bridge import Bridge
from vibe_jupyter.notebook.foreground import Foreground
from vibe_jupyter.notebook.in_place import InPlace
from vibe_jupyter.notebook.open_notebook import OpenNotebook
from vibe_jupyter.notebook.pump import Pump

shell = get_ipython()
pump = Pump(shell)
pump.install()
foreground = Foreground(pump)
bridge = Bridge(shell.kernel, version=vibe_jupyter.__version__, on_page=lambda: None)
bridge.install()
in_place = InPlace(shell, pump)
pump.on_execute = in_place.take
notebook = OpenNotebook(
    shell,
    bridge=bridge,
    foreground=foreground,
    in_place=in_place,
    namespace=shell.user_ns,
    version=vibe_jupyter.__version__,
)
engine = asyncio.new_event_loop()
threading.Thread(target=engine.run_forever, daemon=True, name="engine").start()


def serve(work: Coroutine[Any, Any, Any]) -> Any:
    """Serve as a `%%vibe` cell does; what the work gave, or ``interrupted``."""
    notebook.begin()
    future = asyncio.run_coroutine_threadsafe(work, engine)
    try:
        if foreground.serve(future, interrupt=future.cancel):
            return "interrupted"
    finally:
        notebook.end()
    return future.result(0)


async def run_in_place(*references: str, seconds: float | None = None) -> str:
    """Run cells one after the other; one line each."""
    lines = []
    for reference in references:
        cell = await notebook.find(reference, reads=True)
        done = await (await notebook.now()).run(cell, seconds=seconds, on_output=lambda text: None)
        result = done.result
        place = "in place" if done.in_place else "here"
        lines.append(f"{result.status} [{result.execution_count}] {place}, created {', '.join(result.names_created)}")
    return "\n".join(lines)
